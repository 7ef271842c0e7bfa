"""The paper's experiments on synthetic and landmark data, open to anyone's method."""

from nmfsync.study.definitions import STUDIES, Study
from nmfsync.study.runner import Results, Row, run_study

__all__ = ["STUDIES", "Results", "Row", "Study", "run_study"]
