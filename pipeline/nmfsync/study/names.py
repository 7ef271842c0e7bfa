"""The names of the studies: what they are is in `study.definitions`."""

STUDY_NAMES = (
    "synthetic",
    "sensitivity",
    "initialisation",
    "symmetry",
    "landmarks",
    "robustness",
)
