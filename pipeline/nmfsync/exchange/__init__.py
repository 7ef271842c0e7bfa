"""Matches of other programs, in and out: COLMAP databases, hloc's HDF5 files, `.npz`."""
