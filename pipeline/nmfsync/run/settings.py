"""The settings of a run, checked once."""

from dataclasses import dataclass, field

from nmfsync.errors import NmfsyncError
from nmfsync.features.sift import CONTRAST
from nmfsync.matching.verification import MODELS
from nmfsync.scenes.catalogue import datasets
from nmfsync.scenes.scene import Scene
from nmfsync.synchronisation.methods import METHODS
from nmfsync.synchronisation.synchronise import check_arguments, resolve_theta

DEFAULT_THETA = 0.4


@dataclass(frozen=True)
class Settings:
    """What a run can be told.

    Attributes
    ----------
    methods : tuple of str
        Names in `METHODS`, in the order of the report.
    features : int
        At most this many features of an image.
    siblings : bool
        Keep a feature for every dominant orientation of a position.
    contrast : float
        SIFT's contrast threshold: a lower one finds more, weaker features.
    ratio : float or None
        Ratio test of the matching; None for no test.
    distance : float or None
        The largest distance of descriptors that match; None for no limit.
    pairs : str
        Which pairs of images are matched, see `select_pairs`.
    verify : str or None
        Geometric verification of the matches, "fundamental" or "homography";
        None for none.
    universe : int or "auto"
        Universe size d.
    theta : float or None
        How sure matches must be, see `synchronise`. None takes the method's own
        default, and for "nmfsync" the paper's value for the data set, or 0.4.
    seed : int

    Raises
    ------
    NmfsyncError
        If a value is out of range or a method unknown.
    """

    methods: tuple[str, ...] = field(default_factory=lambda: tuple(METHODS))
    features: int = 200
    siblings: bool = False
    contrast: float = CONTRAST
    ratio: float | None = None
    distance: float | None = None
    pairs: str = "all"
    verify: str | None = None
    universe: int | str = "auto"
    theta: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.methods:
            raise NmfsyncError(f"no method given; known are {', '.join(METHODS)}")
        if self.features < 1:
            raise NmfsyncError(f"the number of features must be at least 1, not {self.features}")
        if not 0 <= self.contrast < 1:
            raise NmfsyncError(f"the contrast must lie between 0 and 1, not {self.contrast}")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise NmfsyncError(f"the ratio must lie between 0 and 1, not {self.ratio}")
        if self.distance is not None and not self.distance >= 0:
            raise NmfsyncError(f"the largest distance must not be negative, as {self.distance} is")
        if self.verify is not None and self.verify not in MODELS:
            raise NmfsyncError(f"cannot verify by {self.verify!r}; known are {', '.join(MODELS)}")
        for method in self.methods:
            check_arguments(method, self.universe, self.theta, self.seed)


def steps(settings: Settings) -> tuple[str, ...]:
    """Names of the steps of `run_scene`, in order."""
    return ("images", "features", "matches", "truth", *settings.methods, "report")


def theta_of(scene: Scene, method: str, settings: Settings) -> float:
    """Return the theta asked for, else the paper's for its method and the data set, or 0.4."""
    if settings.theta is not None or method != "nmfsync":
        return resolve_theta(method, settings.theta)
    paper = {entry.name: entry.theta for entry in datasets()}
    return paper.get(scene.name.split("/")[0], DEFAULT_THETA)
