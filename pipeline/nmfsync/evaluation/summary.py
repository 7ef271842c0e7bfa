"""The evaluation of one scene: what `evaluation.json` holds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.errors import NmfsyncError, shown
from nmfsync.evaluation.records import record_from
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import read_text, reading
from nmfsync.types.notebook import html_rows, shown_share
from nmfsync.types.verdicts import PairVerdict

HEADLINE = "0.01"  # the threshold t of figures in tables, as a key of the curves

COLUMNS = (
    "scene", "images", "features", "universe_size", "truth", "method", "cycle_consistent",
    "matchings", "judged", "fcm_0.01", "precision_0.01", "estimated_precision",
    "epipolar_fcm_0.01", "epipolar_precision_0.01", "cycle_error", "seconds", "peak_memory_mb",
)  # fmt: skip


@dataclass(frozen=True)
class MethodEvaluation:
    """The figures of one method on one scene.

    Attributes
    ----------
    fcm, precision : dict of str to float
        Values by threshold, which is written as "0.01". Empty without truth. A
        precision is None if no match can be judged.
    matchings : int
        Matches between different images, each counted once.
    judged : int
        Matches that the truth can judge; each direction counts as a match.
    cycle_error : float
    cycle_consistent : bool
        True if every cycle of matches agrees.
    seconds : float
        Wall time of the method alone.
    peak_memory_mb : float
        Memory that the method had allocated at its peak beyond its input, in
        10⁶ bytes.
    estimated_precision : float or None
        The share of right matches, estimated without truth (`Confidence`). None
        without matches.
    reliability : dict of str to list
        How the probabilities of the matches compare with the truth, see
        `confidence.reliability`. Empty without truth, or where only the input's matches
        are estimated.
    epipolar_fcm, epipolar_precision : dict of str to float
        As `fcm` and `precision`, but by the distance to the epipolar lines of
        the scene's cameras. This needs no depth, but does not detect a match
        that is wrong along the epipolar line. Empty without cameras.
    tracks : int or None
        Number of tracks: connected features, at most one of every image. None in files of
        earlier versions, as `coverage`.
    mean_track_length : float or None
        Mean number of features of a track; None without tracks.
    coverage : float or None
        Share of the features that are in a track.
    """

    fcm: dict[str, float]
    precision: dict[str, float | None]
    matchings: int
    judged: int
    cycle_error: float
    cycle_consistent: bool
    seconds: float
    peak_memory_mb: float
    estimated_precision: float | None = None
    reliability: dict[str, list[int | float]] = field(default_factory=dict)
    epipolar_fcm: dict[str, float] = field(default_factory=dict)
    epipolar_precision: dict[str, float | None] = field(default_factory=dict)
    tracks: int | None = None
    mean_track_length: float | None = None
    coverage: float | None = None

    def __repr__(self) -> str:
        shares = (self.fcm.get(HEADLINE), self.precision.get(HEADLINE))
        fcm, precision = map(shown_share, shares)
        return f"MethodEvaluation({self.matchings:,} matches, FCM {fcm}, precision {precision})"

    def row(self) -> tuple[Any, ...]:
        """Return the values of `COLUMNS` behind the name of the method."""
        return (
            self.cycle_consistent,
            self.matchings,
            self.judged,
            self.fcm.get(HEADLINE),
            self.precision.get(HEADLINE),
            self.estimated_precision,
            self.epipolar_fcm.get(HEADLINE),
            self.epipolar_precision.get(HEADLINE),
            self.cycle_error,
            self.seconds,
            self.peak_memory_mb,
        )


@dataclass(frozen=True)
class ImagePairEvaluation:
    """The matches of two images.

    Attributes
    ----------
    images : tuple of int
        The two images, counted from 0.
    matchings : int
    estimated_precision : float
        The share of right matches, estimated without truth.
    precision : float or None
        At 1 % of the image; None if the truth can judge no match.
    """

    images: tuple[int, int]
    matchings: int
    estimated_precision: float
    precision: float | None


@dataclass(frozen=True)
class ImageGraph:
    """The images as nodes, linked where more matches are right than chance would give.

    Images are counted from 0. The strength of a tie is the estimated number of right matches
    less those of chance.

    Attributes
    ----------
    parts : list of list of int
        The images of every connected part with two images or more, the largest part first.
    unrelated : list of int
        The images that are linked to no other one, though the typical one is linked well.
    clear : bool
        Whether the typical image is linked well, so that links that are missing say something.
    weak : list of int
        The images whose best tie is much weaker than that of the typical image.
    bridges : list of (int, int)
        Ties that are as weak, and yet the strongest ones between two groups of images.
    ties : list of (int, int, float)
        Pairs of linked images and the strength of their tie: those that hold the parts
        together (a maximum spanning tree), and the four strongest of every image.
    """

    parts: list[list[int]] = field(default_factory=list)
    unrelated: list[int] = field(default_factory=list)
    clear: bool = False
    weak: list[int] = field(default_factory=list)
    bridges: list[tuple[int, int]] = field(default_factory=list)
    ties: list[tuple[int, int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class SceneEvaluation:
    """The figures of all methods on one scene; the content of `evaluation.json`.

    Attributes
    ----------
    scene : str
    images : int
        Number k of images.
    features : int
        Number m of features in all images.
    sizes : list of int
        Number of features of every image.
    universe_size : int
        The universe size d that the methods were run with.
    truth : str
        The kind of ground truth (`Truth.kind`), or "none".
    settings : dict
        The settings of the run and the versions of the libraries.
    methods : dict of str to MethodEvaluation
        "input" first, then the methods in the order of the settings.
    warnings : list of str
        What degraded the result.
    ratio_curve : dict of str to list
        FCM and precision of the input at 1 % under a ratio test, see `curves.ratio_curve`.
        Empty without truth.
    tracks : str
        The method whose tracks `tracks.csv` holds, the first one with a consistent
        result; "input" without any.
    image_pairs : list of ImagePairEvaluation
        The matches of this method, by pair of images: those that have matches. Of
        more than 100,000 pairs, the most doubtful ones.
    image_pairs_left_out : int
        How many pairs these are not.
    depth_quality : dict
        How good the depths of a plane sweep over the images are: what they were
        compared with (`against`), at how many features (`features`), and the
        fields of `DepthQuality`, which are None if nothing could be compared.
        Empty if the truth has no depths.
    left_out : dict of str to str
        What is in the folder of the images and was not read: path -> reason.
    verification : dict of str to int
        What geometric verification was given and kept: `pairs` of images with matches and
        `pairs_kept`, `matches` and `matches_kept`. Empty without verification.
    image_graph : ImageGraph
        How the images hang together by the matches of this method.
    verdicts : list of PairVerdict
        Which pairs of images show the same place, and which were left out as look-alikes; of all
        pairs that had matches. Empty if they were not judged.
    provenance : dict
        Command, date, versions, input files and times, see `Clock.provenance`. Empty in
        files of versions that did not write it. Evaluations are equal whatever it is.
    """

    scene: str
    images: int
    features: int
    sizes: list[int]
    universe_size: int
    truth: str
    settings: dict[str, Any]
    methods: dict[str, MethodEvaluation]
    warnings: list[str] = field(default_factory=list)
    ratio_curve: dict[str, list[float | None]] = field(default_factory=dict)
    tracks: str = "input"
    image_pairs: list[ImagePairEvaluation] = field(default_factory=list)
    image_pairs_left_out: int = 0
    depth_quality: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    verification: dict[str, int] = field(default_factory=dict)
    image_graph: ImageGraph = field(default_factory=ImageGraph)
    verdicts: list[PairVerdict] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def remarks(self) -> list[str]:
        """The warnings of single methods, apart from the one whose tracks are shown."""
        others = tuple(f"{name}: " for name in self.methods if name != self.tracks)
        return [text for text in self.warnings if text.startswith(others)]

    def __repr__(self) -> str:
        return (
            f"SceneEvaluation({self.scene!r}, {self.images:,} images, {self.features:,} features, "
            f"truth {self.truth}, methods {', '.join(self.methods)})"
        )

    def _repr_html_(self) -> str:
        headings = [
            "method",
            "matches",
            "FCM 1 %",
            "precision 1 %",
            "estimated",
            "cycle-error",
            "s",
        ]
        rows = (
            [
                name,
                m.matchings,
                *map(shown_share, (m.fcm.get(HEADLINE), m.precision.get(HEADLINE))),
                shown_share(m.estimated_precision),
                f"{m.cycle_error:.2f}",
                f"{m.seconds:.2f}",
            ]
            for name, m in self.methods.items()
        )
        title = f"{self.scene}: {self.images:,} images, {self.features:,} features"
        return html_rows(f"{title}, ground truth {self.truth}", headings, rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists, numbers and strings, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "SceneEvaluation":
        """Make an evaluation of what `to_dict` returned, also in another version.

        Parameters
        ----------
        content : dict
            Fields that this version does not know are ignored; those that it has and older ones
            lacked get their defaults.

        Returns
        -------
        SceneEvaluation

        Raises
        ------
        NmfsyncError
            If a field is missing, of another type, or out of range.
        """
        evaluation: SceneEvaluation = record_from(cls, content)
        for name, method in evaluation.methods.items():
            try:
                _check_figures(method)
            except NmfsyncError as error:
                raise NmfsyncError(f"methods: {shown(name)}: {error}") from None
        return evaluation

    @classmethod
    def read(cls, path: Path | str) -> "SceneEvaluation":
        """Read an `evaluation.json`.

        Parameters
        ----------
        path : Path or str

        Returns
        -------
        SceneEvaluation

        Raises
        ------
        NmfsyncError
            If the file cannot be read, or is no evaluation of a scene.
        """
        with reading(path, "is no evaluation of a scene"):
            text = read_text(path)
            try:
                return cls.from_dict(json.loads(text))
            except json.JSONDecodeError as error:
                raise NmfsyncError(f"is no JSON, or cut off ({error})") from None
            except NmfsyncError as error:
                raise NmfsyncError(f"is no evaluation of a scene ({error})") from None

    def rows(self) -> list[tuple[Any, ...]]:
        """Return one row a method with the values of `COLUMNS`; None where one is not known."""
        scene = (self.scene, self.images, self.features, self.universe_size, self.truth)
        return [(*scene, name, *method.row()) for name, method in self.methods.items()]

    def to_dataframe(self) -> Any:
        """Return the figures as a pandas DataFrame with the columns of `evaluation.csv`.

        This needs pandas: ``pip install 'nmfsync[pandas]'``.

        Returns
        -------
        pandas.DataFrame
            One row a method, "input" first. Several scenes are put together by `pandas.concat`.

        Raises
        ------
        NmfsyncError
            If pandas is missing.
        """
        frame = optional("pandas", "pandas").DataFrame(self.rows(), columns=COLUMNS)
        shares = {column: float for column in COLUMNS if "0.01" in column or "precision" in column}
        return frame.astype(shares)

    def image_pairs_to_dataframe(self, names: Sequence[str] | None = None) -> Any:
        """Return the pairs of images as a pandas DataFrame.

        This needs pandas: ``pip install 'nmfsync[pandas]'``.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the images, for instance `Scene.names`; by default their numbers, from 0.

        Returns
        -------
        pandas.DataFrame
            One row a pair: image_a, image_b, matchings, estimated_precision, precision (NaN where
            it is not known).

        Raises
        ------
        NmfsyncError
            If pandas is missing.
        """
        labels = range(self.images) if names is None else names
        columns = ("image_a", "image_b", "matchings", "estimated_precision", "precision")
        rows = [
            (*(labels[i] for i in p.images), p.matchings, p.estimated_precision, p.precision)
            for p in self.image_pairs
        ]
        frame = optional("pandas", "pandas").DataFrame(rows, columns=columns)
        return frame.astype({"estimated_precision": float, "precision": float})


def _check_figures(method: MethodEvaluation) -> None:
    """Check what no type says: the ranges of shares, counts and thresholds."""
    curves = ("fcm", "precision", "epipolar_fcm", "epipolar_precision")
    for name in curves:
        curve: Mapping[str, float | None] = getattr(method, name)
        _check_range(name, map(_number, curve), 0, 1)
        _check_range(name, curve.values(), 0, 1)
    _check_range("estimated_precision", [method.estimated_precision], 0, 1)
    for name in ("matchings", "judged", "cycle_error", "seconds", "peak_memory_mb"):
        _check_range(name, [getattr(method, name)], 0, float("inf"))


def _check_range(name: str, values: Iterable[float | None], low: float, high: float) -> None:
    wrong = [value for value in values if value is not None and not low <= value <= high]
    if wrong:
        allowed = f"between {low:g} and {high:g}" if np.isfinite(high) else "0 or more"
        raise NmfsyncError(f"{name} must be {allowed}, got {shown(wrong[0])}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
