"""The settings of a run, checked once."""

from dataclasses import dataclass, field

from nmfsync.errors import NmfsyncError
from nmfsync.features.sift import CONTRAST, check_options
from nmfsync.matching.match import check_limits
from nmfsync.matching.verification import check_geometry
from nmfsync.synchronisation.methods import METHODS, check_arguments, method_of


@dataclass(frozen=True)
class Settings:
    """What a run does.

    Attributes
    ----------
    methods : tuple of str
        Names in `METHODS`, in the order of the report.
    features : int
        At most this many features of an image.
    orientations : bool
        Keep a feature for every dominant orientation of a position.
    contrast : float
        SIFT's contrast threshold: a lower one finds more, weaker features.
    ratio : float or None
        Ratio test of the matching; None for no test.
    distance : float or None
        The largest distance of descriptors that match; None for no limit.
    pairs : str
        Which pairs of images are matched, see `select_pairs`.
    geometry : str or None
        Keep only matches that agree with one geometry, "fundamental" or
        "homography", see `verify`; None keeps all.
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

    Raises
    ------
    NmfsyncError
        If a value is out of range or a method unknown.
    """

    methods: tuple[str, ...] = field(default_factory=lambda: tuple(METHODS))
    features: int = 200
    orientations: bool = False
    contrast: float = CONTRAST
    ratio: float | None = None
    distance: float | None = None
    pairs: str = "all"
    geometry: str | None = None
    universe_size: int | str = "auto"
    theta: float | None = None
    seed: int = 0
    min_probability: float = 0.0
    figures: bool = False

    def __post_init__(self) -> None:
        if not self.methods:
            raise NmfsyncError(f"no method given; known are {', '.join(METHODS)}")
        for method in self.methods:
            method_of(method)
        check_options(self.features, self.orientations, self.contrast)
        check_limits(self.ratio, self.distance)
        if self.geometry is not None:
            check_geometry(self.geometry)
        check_arguments(self.universe_size, self.theta, self.seed)
        if not 0 <= self.min_probability <= 1:
            raise NmfsyncError(
                f"min probability must be between 0 and 1, got {self.min_probability}"
            )

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of the steps of `run_scene`, in order."""
        return ("images", "features", "matches", "truth", *self.methods, "report")
