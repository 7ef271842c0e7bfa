"""The methods: one record each, with everything that others need to know of it."""

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from nmfsync import synthetic
from nmfsync.errors import NmfsyncWarning
from nmfsync.synchronisation.baselines.clear import clear
from nmfsync.synchronisation.baselines.matchals import matchals
from nmfsync.synchronisation.baselines.matcheig import matcheig
from nmfsync.synchronisation.baselines.spectral import spectral
from nmfsync.synchronisation.baselines.unionfind import unionfind
from nmfsync.synchronisation.clustersync.method import clustersync
from nmfsync.synchronisation.nmfsync.method import nmfsync
from nmfsync.types.matches import Matches, PairwiseMatches

# What the methods need to know of real images, where their authors' values differ.
IMAGE_OPTIONS: Mapping[str, Mapping[str, Any]] = {"matcheig": {"threshold": 0.5}}

# Kernels are compiled when first used on a machine, which takes some seconds.
COMPILED = frozenset({"clustersync", "nmfsync", "matchals"})

# Their authors define them for matches that are there or not, without weights.
UNWEIGHTED = frozenset({"nmfsync", "spectral", "matcheig", "matchals", "clear"})


@cache
def compile_method(method: str) -> None:
    """Let a method's kernels be compiled, so that this does not count as its time."""
    if method not in COMPILED:
        return
    W, _, sizes = synthetic.generate(k=3, d=4, rho=1.0, sigma=0.5)
    METHODS[method](PairwiseMatches(W, sizes), 4)


Method = Callable[..., Matches]

# A method is called as method(matches, universe_size, theta, seed) and returns a
# MultiMatching or, if it is not cycle-consistent, PairwiseMatches. What is added
# here, or by an installed package through the entry-point group "nmfsync.methods",
# takes part in every run, report and study.
METHODS: dict[str, Method] = {
    "clustersync": clustersync,
    "nmfsync": nmfsync,
    "spectral": spectral,
    "matcheig": matcheig,
    "matchals": matchals,
    "clear": clear,
    "unionfind": unionfind,
}


def load_plugins() -> None:
    """Add the methods of installed packages to `METHODS`.

    Warns
    -----
    NmfsyncWarning
        If one of them cannot be loaded; the others are.
    """
    for entry in entry_points(group="nmfsync.methods"):
        try:
            METHODS.setdefault(entry.name, entry.load())
        except Exception as error:
            warnings.warn(
                f"the method {entry.name} ({entry.value}) cannot be loaded: {error}",
                NmfsyncWarning,
                stacklevel=2,
            )
