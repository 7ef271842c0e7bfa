"""The settings of a run, checked once."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmfsync.errors import NmfsyncError
from nmfsync.features.options import CONTRAST, check_options
from nmfsync.matching.options import check_geometry, check_limits
from nmfsync.synchronisation.methods import DEFAULT_METHOD, METHODS, check_arguments, method_of

NONE = "none"  # as the only method: none; as the geometry: no verification

# The least probability of a match that is worth to be verified. Chosen on reichstag, sceaux,
# fountain-P11, castle-P19 and entry-P10: surer ones are fewer, and cameras get worse.
EVIDENCE = 0.3

# Of images that are there to be mapped: at most so many features of an image, which is COLMAP's
# number, and a contrast that finds more in small photographs than COLMAP's does. Chosen on
# castle-P19, entry-P10 and reichstag: half of COLMAP's contrast gives 15 to 25 % more observations
# at the same errors.
FEATURES, FINE_CONTRAST = 8192, 0.01

# That `nmfsync tracks` synchronises at a time, about: some hundred megabytes, and seconds of work.
FEATURES_OF_PART = 2**18

# Up to so many photographs, all pairs are matched: with so many features, a pair takes about 0.1
# seconds of a core, and 100 photographs ten minutes. Otherwise every one with so many others.
MOST_IN_ALL_PAIRS, NEAREST = 100, 40


@dataclass(frozen=True)
class Settings:
    """What a run does.

    None leaves a choice to `resolved`: it depends on whether a scene is there to be mapped, or
    to compare methods as the papers do.

    Attributes
    ----------
    methods : tuple of str or None
        Names in `METHODS`, in the order of the report; "none" alone for no synchronisation.
    features : int or None
        At most this many features of an image.
    orientations : bool or None
        Keep a feature for every dominant orientation of a position.
    contrast : float or None
        SIFT's contrast threshold: a lower one finds more, weaker features.
    ratio : float or None
        Ratio test of the matching; None for no test.
    distance : float or None
        The largest distance of descriptors that match; None for no limit.
    pairs : str or None
        Which pairs of images are matched, see `select_pairs`.
    evidence : float or None
        Leave out matches that are right with less than this probability, before verification.
    geometry : str or None
        Keep only matches that agree with one geometry, "fundamental" or
        "homography", see `verify`; "none" keeps all.
    disambiguate : bool or None
        Leave out pairs of images that show different places which look alike, see
        `without_wrong_pairs`.
    universe_size : int or "auto"
        Number d of universe features.
    theta : float or None
        How sure matches must be, see `synchronise`. None takes the default of
        each method.
    seed : int
    min_probability : float
        Methods for 0/1 matrices get only matches that are right with at least this
        probability.
    figures : bool
        Also write the figures and tables for papers.
    colmap : Path or str or None
        Also write a COLMAP database, which must not exist unless an earlier run of the same
        scene wrote it.
    hloc : Path or str or None
        Also write features.h5, matches.h5 and pairs.txt as hloc names them to this folder.

    Raises
    ------
    NmfsyncError
        If a value is out of range or a method unknown.
    """

    methods: tuple[str, ...] | None = None
    features: int | None = None
    orientations: bool | None = None
    contrast: float | None = None
    ratio: float | None = None
    distance: float | None = None
    pairs: str | None = None
    evidence: float | None = None
    geometry: str | None = None
    disambiguate: bool | None = None
    universe_size: int | str = "auto"
    theta: float | None = None
    seed: int = 0
    min_probability: float = 0.0
    figures: bool = False
    colmap: Path | str | None = None
    hloc: Path | str | None = None

    def __post_init__(self) -> None:
        if self.methods is not None and self.methods != (NONE,):
            if not self.methods:
                raise NmfsyncError(f"no method given; known are {', '.join(METHODS)}")
            for method in self.methods:
                method_of(method)
        features = 1 if self.features is None else self.features
        contrast = CONTRAST if self.contrast is None else self.contrast
        check_options(features, bool(self.orientations), contrast)
        check_limits(self.ratio, self.distance)
        if self.geometry not in (None, NONE):
            check_geometry(self.geometry)
        check_arguments(self.universe_size, self.theta, self.seed)
        for name in ("evidence", "min_probability"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise NmfsyncError(f"{name.replace('_', ' ')} must be between 0 and 1, got {value}")
        if self.disambiguate and self.geometry == NONE:
            raise NmfsyncError("look-alike pairs of images are found among verified matches; "
                               "choose a geometry that verifies them")  # fmt: skip
        if self.exports:
            self._check_export()

    def _check_export(self) -> None:
        """Raise NmfsyncError if the chosen methods leave no matches for a mapper."""
        chosen = self.methods
        if chosen is None or chosen == (NONE,) or self.consistent:
            return
        known = ", ".join(name for name, m in METHODS.items() if m.consistent is not False)
        raise NmfsyncError(
            f"{' and '.join(self.exports)}: a method with a cycle-consistent result is needed, got "
            f"{', '.join(chosen)}; choose one of {known}, or {NONE}"
        )

    @property
    def exports(self) -> tuple[str, ...]:
        """The options that ask for files for a mapper."""
        asked = {"--colmap": self.colmap, "--hloc": self.hloc}
        return tuple(option for option, target in asked.items() if target is not None)

    @property
    def consistent(self) -> tuple[str, ...]:
        """Those of the methods whose results may be cycle-consistent."""
        return tuple(n for n in self.solvers if METHODS[n].consistent is not False)

    @property
    def solvers(self) -> tuple[str, ...]:
        """The methods, without the word for none."""
        return tuple(name for name in self.methods or () if name != NONE)

    def resolved(self, own: bool, images: int = 2) -> "Settings":
        """Decide what was left open.

        Photographs without truth are there to be mapped, and so are all that files for a mapper
        are asked of: one method, thousands of features, and only matches that are likely and
        verified. Everything else is there to compare methods, as in the papers: all methods, 200
        features, and all matches.

        Parameters
        ----------
        own : bool
            The images are own photographs, of which no truth is known.
        images : int
            Their number.
        """
        pairs = "all" if images <= MOST_IN_ALL_PAIRS else f"nearest:{NEAREST}"
        choices: dict[str, Any] = (
            {
                "methods": (DEFAULT_METHOD,), "features": FEATURES, "orientations": True,
                "contrast": FINE_CONTRAST, "pairs": pairs,
                "evidence": EVIDENCE, "geometry": "fundamental", "disambiguate": True,
            }
            if own or self.exports
            else {
                "methods": tuple(METHODS), "features": 200, "orientations": False,
                "contrast": CONTRAST, "pairs": "all",
                "evidence": 0.0, "geometry": NONE, "disambiguate": False,
            }
        )  # fmt: skip
        if self.disambiguate:
            choices["geometry"] = "fundamental"
        if self.geometry == NONE:
            choices["disambiguate"] = False
        left = {name: value for name, value in choices.items() if getattr(self, name) is None}
        return replace(self, **left)

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of the steps of `run_scene` with settings that are resolved, in order."""
        return ("images", "features", "matches", "truth", *self.solvers, "report")
