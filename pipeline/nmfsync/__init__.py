"""Consistent feature tracks from many overlapping photographs.

The way through: `load_scene` gives the images and their ground truth,
`extract_all` their SIFT features, `match` the pairwise matches W, `verify` those
that agree with one geometry, `synchronise` matches that agree with each other,
`evaluation` says how good they are; `run_scene` does it all. Matches of other
programs come from `PairwiseMatches.from_colmap` and `from_hloc`.
"""

from nmfsync import evaluation, synthetic
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features.extract import extract_all
from nmfsync.features.sift import extract
from nmfsync.matching.match import match
from nmfsync.matching.pairs import select_pairs
from nmfsync.matching.verification import verify
from nmfsync.run.scene import run_scene
from nmfsync.run.settings import Settings
from nmfsync.scenes.catalogue import load_scene
from nmfsync.scenes.scene import Scene
from nmfsync.synchronisation.methods import METHODS, load_plugins
from nmfsync.synchronisation.synchronise import synchronise
from nmfsync.types.features import Features
from nmfsync.types.matches import MultiMatching, PairwiseMatches
from nmfsync.types.truth import Homographies, Truth

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
