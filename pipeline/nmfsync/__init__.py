"""Consistent feature tracks from many overlapping photographs.

The way through: `load_scene` gives the images and their ground truth,
`extract_all` their SIFT features, `match` the pairwise matches W, `verify` those
that agree with one geometry, `synchronise` matches that agree with each other,
`evaluation` says how good they are; `run_scene` does it all. Matches of other
programs come from `PairwiseMatches.from_colmap` and `from_hloc`.
"""

from nmfsync import evaluation, synthetic
from nmfsync.catalogue import load_scene
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features import Features, extract, extract_all
from nmfsync.matches import MultiMatching, PairwiseMatches
from nmfsync.matching import match
from nmfsync.pairs import select_pairs
from nmfsync.run import Settings, run_scene
from nmfsync.scene import Homographies, Scene, Truth
from nmfsync.synchronisation import METHODS, load_plugins, synchronise
from nmfsync.verification import verify

__all__ = [
    "METHODS",
    "Features",
    "Homographies",
    "MultiMatching",
    "NmfsyncError",
    "NmfsyncWarning",
    "PairwiseMatches",
    "Scene",
    "Settings",
    "Truth",
    "evaluation",
    "extract",
    "extract_all",
    "load_scene",
    "match",
    "run_scene",
    "select_pairs",
    "synchronise",
    "synthetic",
    "verify",
]

load_plugins()
