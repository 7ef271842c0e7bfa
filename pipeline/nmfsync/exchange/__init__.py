"""Matches of other programs, in and out: COLMAP databases and hloc's HDF5 files."""

from nmfsync.exchange.colmap import ColmapSource, read_colmap, write_colmap
from nmfsync.exchange.hloc import HlocSource, read_hloc, write_hloc
from nmfsync.exchange.source import Source

__all__ = [
    "ColmapSource",
    "HlocSource",
    "Source",
    "read_colmap",
    "read_hloc",
    "write_colmap",
    "write_hloc",
]
