"""Where the methods come from: the literature, as the pages cite it."""

from collections.abc import Iterable
from typing import NamedTuple

from nmfsync.report.method_styles import style_of


class Source(NamedTuple):
    """A reference: what stands before its title, the title, and what stands behind it."""

    method: str
    before: str
    title: str
    behind: str


_SOURCES = {
    "clustersync": (
        "This software, docs/clustersync.md. The objective: N. Bansal, A. Blum, S. Chawla: ",
        "Correlation Clustering",
        ", Machine Learning 56 (2004).",
    ),
    "nmfsync": (
        "F. Bernard, J. Thunberg, J. Goncalves, C. Theobalt: ",
        "Synchronisation of Partial Multi-Matchings via Non-negative Factorisations",
        ", Pattern Recognition 92 (2019), arXiv 1803.06320.",
    ),
    "spectral": (
        "D. Pachauri, R. Kondor, V. Singh: ",
        "Solving the multi-way matching problem by permutation synchronization",
        ", NIPS 2013.",
    ),
    "matcheig": (
        "E. Maset, F. Arrigoni, A. Fusiello: ",
        "Practical and Efficient Multi-View Matching",
        ", ICCV 2017.",
    ),
    "matchals": (
        "X. Zhou, M. Zhu, K. Daniilidis: ",
        "Multi-Image Matching via Fast Alternating Minimization",
        ", ICCV 2015.",
    ),
    "clear": (
        "K. Fathian, K. Khosoussi, Y. Tian, P. Lusk, J. P. How: ",
        "CLEAR: A Consistent Lifting, Embedding, and Alignment Rectification Algorithm for "
        "Multi-View Data Association",
        ", IEEE Transactions on Robotics 36 (2020).",
    ),
    "unionfind": (
        "P. Moulon, P. Monasse: ",
        "Unordered Feature Tracking Made Fast and Easy",
        ", CVMP 2012.",
    ),
    "quickmatch": (
        "R. Tron, X. Zhou, C. Esteves, K. Daniilidis: ",
        "Fast Multi-Image Matching via Density-Based Clustering",
        ", ICCV 2017.",
    ),
}


def sources_of(methods: Iterable[str]) -> list[Source]:
    """Return the references of methods, without those that have none, such as the input."""
    return [
        Source(style_of(name).name, *_SOURCES[name])
        for name in dict.fromkeys(methods)
        if name in _SOURCES
    ]
