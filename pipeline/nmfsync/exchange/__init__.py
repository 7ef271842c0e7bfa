"""Matches of other programs, in and out: COLMAP databases, hloc's HDF5 files, `.npz`."""

from nmfsync.exchange.colmap import read_colmap, write_colmap
from nmfsync.exchange.hloc import read_hloc, write_hloc
from nmfsync.exchange.tracks import tracks_dataframe
from nmfsync.types.matches import DATAFRAMES, FILE_FORMATS, FileFormat

FILE_FORMATS["colmap"] = FileFormat(read_colmap, write_colmap)
DATAFRAMES["tracks"] = tracks_dataframe
FILE_FORMATS["hloc"] = FileFormat(read_hloc, write_hloc)
