"""Photographs of a large collection to a file of tracks: what `nmfsync tracks` does."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from nmfsync.errors import NmfsyncError, collected_warnings
from nmfsync.exchange.new_database import write_new_database
from nmfsync.exchange.tracks import write_tracks
from nmfsync.matching.pairs import select_pairs
from nmfsync.matching.rows import Limits
from nmfsync.run.collection import Collected, track_features
from nmfsync.run.export import new_images_of
from nmfsync.run.features import extract_features
from nmfsync.run.settings import FEATURES_OF_PART, NONE, Settings
from nmfsync.run.stages import Stages
from nmfsync.runtime.engine import engine as use_engine
from nmfsync.runtime.engines import DEFAULT_ENGINE
from nmfsync.runtime.provenance import Clock, Costs
from nmfsync.runtime.publish import publication_beside
from nmfsync.scenes.catalogue import load_scene
from nmfsync.scenes.scene import Scene
from nmfsync.synchronisation.methods import DEFAULT_METHOD, METHODS
from nmfsync.types.features import Features

ENDINGS = (".csv", ".npz", ".db")

_NO_MATCHES = (
    "no two photographs have a match, so that there are no tracks: do they show the same things? "
    "Fewer matches are left out with a larger `ratio` and a smaller `evidence`"
)


@dataclass(frozen=True)
class TracksFile:
    """What `track_images` wrote.

    Attributes
    ----------
    path, record : Path
        The tracks, and how they were made.
    images, features, pairs : int
        Pairs of images that were matched.
    found, kept : int
        Matches that were found, and those that were synchronised.
    tracks, in_tracks : int
        Tracks, and the features in them.
    precision : float or None
        The estimated share of right matches among those of the tracks; None without tracks.
    parts, cut : int
        Parts that the features were divided into, and components that had to be cut.
    across : float
        The share of the matches that lie across a cut.
    left_out : dict of str to str
        Why an image is not used.
    warnings : list of str
    """

    path: Path
    record: Path
    images: int
    features: int
    pairs: int
    found: int
    kept: int
    tracks: int
    in_tracks: int
    precision: float | None
    parts: int
    cut: int
    across: float
    left_out: Mapping[str, str]
    warnings: list[str]


def track_images(
    name: str | Path,
    out: Path | str,
    settings: Settings | None = None,
    most: int = FEATURES_OF_PART,
    overwrite: bool = False,
    engine: str = DEFAULT_ENGINE,
    address: str | None = None,
    progress: bool = False,
    command: str = "Python: track_images",
) -> TracksFile:
    """Take the photographs of a collection to tracks; nothing holds all of it in memory.

    It does what `run_scene` does for own photographs, with the default method, but for finding
    look-alikes, evaluation and report. Features and matches are kept in `<out>.stages`, which all
    workers of a cluster must see; an interrupted run continues there.

    Parameters
    ----------
    name : str or Path
        A folder of images, or a scene of the catalogue.
    out : Path or str
        The file to write: tracks as a table (.csv), a `MultiMatching` (.npz), or a COLMAP
        database with the matches that the tracks keep (.db), which are in memory then.
    settings : Settings, optional
        Those of features, matches and θ; others do not count.
    most : int
        Features that one process synchronises at a time, about; connected features that are
        more are cut, see `clustersync.parts`.
    overwrite : bool
        Replace `out` if it exists.
    engine, address
        What extracts, matches, verifies and synchronises, see `runtime.engine.engine`.
    progress : bool
        Show progress bars if stderr is a terminal.
    command : str
        What the record says was called.

    Returns
    -------
    TracksFile

    Raises
    ------
    NmfsyncError
        If the images or settings cannot be used, or `out` exists.
    """
    clock, out = Clock(), Path(out)
    if out.suffix.lower() not in ENDINGS:
        raise NmfsyncError(
            f"{out}: the name must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        )
    if most < 1:
        raise NmfsyncError(f"the features of a part must be at least 1, got {most}")
    record = out.with_name(out.name + ".json")
    steps = _Steps()
    with (
        publication_beside((out, record), [], overwrite) as new,
        use_engine(engine, address),
        collected_warnings() as texts,
    ):
        steps.begin("images")
        scene = load_scene(str(name))
        settings = (settings or Settings()).resolved(True, len(scene.paths))
        stages = Stages(out.with_name(out.name + ".stages"), bars=progress)
        steps.begin("features")
        scene, features = extract_features(scene, settings, stages)
        steps.begin("pairs of images")
        pairs = select_pairs(settings.pairs or "all", features, scene.names, progress)
        theta = METHODS[DEFAULT_METHOD].theta if settings.theta is None else settings.theta
        rooted = [f.rooted() for f in features]
        limits = _limits(settings)
        collected = track_features(
            rooted, pairs, stages.folder, limits, theta, most, progress, steps.begin
        )
        steps.begin("file")
        _write(new / out.name, scene, str(name), features, collected)
        texts += [] if collected.kept else [_NO_MATCHES]
        done = _summary(out, record, scene, collected, [*stages.warnings(), *texts])
        inputs = dict(zip(scene.names, scene.digests or (), strict=False))
        chosen = {name: getattr(settings, name) for name in ("features", "contrast", "pairs")}
        chosen |= {**limits._asdict(), "theta": theta, "features_of_part": most}
        said: dict[str, object] = {**asdict(done), "settings": chosen}
        said |= {"path": out.name, "record": record.name}
        said |= {"provenance": clock.provenance(command, inputs, steps.costs())}
        (new / record.name).write_text(json.dumps(said, indent=1), encoding="utf-8")
    return done


class _Steps:
    """What the steps of a run took, in their order."""

    def __init__(self) -> None:
        self._clocks: list[tuple[str, Clock]] = []
        self._costs: list[Costs] = []

    def begin(self, name: str) -> None:
        """Begin a step, which ends the one before."""
        self._end()
        self._clocks = [(name, Clock())]

    def costs(self) -> list[Costs]:
        """Return what all steps took so far."""
        self._end()
        return self._costs

    def _end(self) -> None:
        while self._clocks:
            name, clock = self._clocks.pop()
            self._costs.append(clock.costs(name))


def _limits(settings: Settings) -> Limits:
    geometry = None if settings.geometry == NONE else settings.geometry
    return Limits(settings.ratio, settings.distance, settings.evidence or 0.0, geometry)


def _write(
    path: Path, scene: Scene, name: str, features: Sequence[Features], collected: Collected
) -> None:
    tracks, kind = collected.tracks, path.suffix.lower()
    if kind == ".npz":
        tracks.save(path)
    elif kind == ".csv":
        write_tracks(path, tracks, scene.names, [f.xy for f in features], collected.precision)
    else:
        images, matches = new_images_of(scene, name, features), collected.matches.kept_by(tracks)
        write_new_database(path, images, matches, collected.matches.verified)


def _summary(
    out: Path, record: Path, scene: Scene, collected: Collected, texts: Sequence[str]
) -> TracksFile:
    tracks = collected.tracks
    length = np.bincount(tracks.universe, minlength=1)
    matches = np.where(length > 1, length * (length - 1.0), 0)[: len(collected.precision)]
    known = np.isfinite(collected.precision) & (matches > 0)
    right = (matches * np.nan_to_num(collected.precision))[known].sum()
    return TracksFile(
        path=out,
        record=record,
        images=len(scene.paths),
        features=len(tracks.universe),
        pairs=len(collected.pairs),
        found=collected.found,
        kept=collected.kept,
        tracks=int((length > 1).sum()),
        in_tracks=int(length[length > 1].sum()),
        precision=float(right / matches[known].sum()) if known.any() else None,
        parts=collected.parts,
        cut=collected.cut,
        across=collected.across,
        left_out=dict(scene.left_out),
        warnings=list(dict.fromkeys(texts)),
    )
