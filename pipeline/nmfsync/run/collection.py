"""Tracks of collections that are too large for one process: what `nmfsync tracks` does.

Workers read the features and matches that they need from the folder of the stages,
and write what they find there. Back come counts, and labels of features.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nmfsync.evaluation.confidence import estimate_confidence, precision_by_track
from nmfsync.matching.evidence import learn_coefficients, sample_places
from nmfsync.matching.match import check_pairs
from nmfsync.matching.rows import (
    ROWS,
    Limits,
    Row,
    judge_rows,
    match_rows,
    pairs_kept,
    rows_of,
    sample_rows,
    together,
)
from nmfsync.run.row_matches import RowMatches
from nmfsync.run.settings import FEATURES_OF_PART
from nmfsync.runtime.engine import stream
from nmfsync.runtime.progress import bar
from nmfsync.synchronisation.clustersync.parts import (
    Problem,
    Reader,
    cluster_in_parts,
    images_of,
    numbered,
    parts_of,
)
from nmfsync.synchronisation.duplicates import mark_duplicates, near_in_image
from nmfsync.synchronisation.numerics.components import components_of, join
from nmfsync.types.arrays import AnyArray, BoolArray, FloatArray, IntArray
from nmfsync.types.features import Features
from nmfsync.types.matches import MultiMatching, PairwiseMatches

T = TypeVar("T")

UPDATES = 3  # of the prices, as `clustersync` does by itself


class Collected(NamedTuple):
    """Tracks of a collection, and what they were made from.

    Attributes
    ----------
    tracks : MultiMatching
        Its W is as large as that of all matches: use `universe`.
    precision : (d,) float64 array
        The estimated precision of every universe feature, NaN without matches.
    pairs : (n, 2) int64 array
        The pairs of images that were matched.
    found, kept : int
        Matches that were found, and those that were synchronised.
    parts, cut : int
        Parts that the features were divided into, and components that had to be cut.
    across : float
        The share of the matches that lie across a cut.
    matches : RowMatches
        Those that were synchronised.
    """

    tracks: MultiMatching
    precision: FloatArray
    pairs: IntArray
    found: int
    kept: int
    parts: int
    cut: int
    across: float
    matches: RowMatches


def track_features(
    features: Sequence[Features],
    pairs: IntArray,
    folder: Path,
    limits: Limits,
    theta: float,
    most: int = FEATURES_OF_PART,
    progress: bool = True,
    step: Callable[[str], Any] = lambda _name: None,
) -> Collected:
    """Match features and synchronise the matches, on the engine, in parts.

    No process holds the features or matches of all images. As long as no component has
    more than `most` features, the tracks are those of `match`, `verify` and `synchronise`,
    to the bit; one that has is cut, see `clustersync.parts`.

    Parameters
    ----------
    features : sequence of Features
        Of every image; stored ones (`extract_all` with `cache`) are read where they are used.
    pairs : (n, 2) int array
        Different pairs of images i < j, see `select_pairs`.
    folder : Path
        Keeps what is found. All workers of a cluster must see it under this path.
    limits : Limits
        Which matches are synchronised.
    theta : float
        As of `clustersync`.
    most : int
        Features of a part, about.
    progress : bool
        Show progress bars if stderr is a terminal.
    step : callable
        Called with the name of every step when it starts.

    Returns
    -------
    Collected

    Raises
    ------
    NmfsyncError
        If `pairs` are not pairs of images, or what the folder keeps is gone.
    """
    sizes = np.array([len(f) for f in features], dtype=np.int64)
    pairs = check_pairs(pairs, len(features))
    pairs = pairs[(sizes[pairs] > 0).all(axis=1)]
    matches, found = _find_matches(features, sizes, pairs, folder, limits, progress, step)
    show = partial(_shown, count=None, progress=progress)
    step("near-duplicates")
    everything = matches.problem()
    duplicate_of = _duplicates(everything, matches, features, most, show)
    matches.duplicate_of = duplicate_of
    step("synchronisation")
    problem = matches.problem()
    parts = sum(1 for _ in parts_of(problem, most))
    with bar(parts * (UPDATES + 1), "Synchronising", "part", progress) as shown:
        label, inside = cluster_in_parts(problem, theta, UPDATES, most, stream, shown.update)
    step("estimates")
    tracks = MultiMatching(label, sizes)
    tracks.duplicate_of = duplicate_of.astype(np.int64)
    return Collected(
        tracks,
        _precision(problem, tracks, most, show),
        pairs,
        found,
        int(everything.pairs.matches.sum()) // 2,
        parts,
        int((np.bincount(problem.component, minlength=1) > most).sum()),
        1 - inside / max(int(problem.pairs.matches.sum()) // 2, 1),
        matches,
    )


def _find_matches(
    features: Sequence[Features],
    sizes: IntArray,
    pairs: IntArray,
    folder: Path,
    limits: Limits,
    progress: bool,
    step: Callable[[str], Any],
) -> tuple[RowMatches, int]:
    """Match, weigh and verify, row by row; also return how many matches there were at first."""
    counts = together(sizes, pairs)
    groups = partial(_groups, features, pairs, counts)
    show = partial(_shown, count=len(counts), progress=progress)
    found, judged = (folder.absolute() / name for name in ("matches", "judged"))
    step("matches")
    to_match = (((rows, found),) for rows in groups())
    numbers = _of_pairs(show(stream(match_rows, to_match), "Matching"))
    step("evidence")
    wanted = _sampled(numbers, pairs)
    to_sample = (((rows, found, [next(wanted) for _ in rows]),) for rows in groups())
    samples = list(show(stream(sample_rows, to_sample), "Learning"))
    learnt = [np.concatenate(kind) for kind in zip(*samples, strict=True)]
    coefficients = learn_coefficients(*learnt) if learnt else None
    step("verification")
    to_judge = (((rows, found, judged, coefficients, limits),) for rows in groups())
    rows = [row for rows in show(stream(judge_rows, to_judge), "Verifying") for row in rows]
    agreeing = _of_pairs([[counts for _, counts in rows]])
    least = pairs_kept(pairs, agreeing, len(sizes))
    return RowMatches([row for row, _ in rows], least, sizes), int(numbers[:, 0].sum())


def _groups(
    features: Sequence[Features], pairs: IntArray, counts: Sequence[int]
) -> Iterator[list[Row]]:
    """Hand out the rows that one task works on."""
    rows = rows_of(features, pairs)
    for count in counts:
        yield list(islice(rows, count))


def _shown(
    results: Generator[T, None, None], description: str, *, count: int | None, progress: bool
) -> Iterator[T]:
    """Hand out the results of tasks, and show how many there are."""
    with closing(results), bar(count, description, "task", progress) as shown:
        for result in results:
            shown.update()
            yield result


def _of_pairs(rows: Iterable[Sequence[IntArray]]) -> IntArray:
    """Put the two counts of every pair of images together, (n, 2)."""
    return np.concatenate([np.empty((0, 2), np.int64), *(c for row in rows for c in row)])


def _sampled(counts: IntArray, pairs: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Hand out, row by row, the places of the matches and decoys that are learnt from."""
    first = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    ends = np.cumsum(np.add.reduceat(counts, first), axis=0) if len(first) else counts[:0]
    parts = []
    for total, end in zip(counts.sum(axis=0).tolist(), ends.T, strict=True):
        places = sample_places(total)
        own = np.split(places, np.searchsorted(places, end))
        parts.append([p - start for p, start in zip(own, [0, *end.tolist()], strict=True)])
    yield from zip(*parts, strict=True)


def _duplicates(
    problem: Problem,
    matches: RowMatches,
    features: Sequence[Features],
    most: int,
    show: Callable[..., Iterator[Any]],
) -> NDArray[np.int32]:
    """Find the near-duplicates of every image, part by part; return what stands for each (m,)."""
    offsets, k = matches.offsets, len(features)
    matched = np.bincount(problem.component)[problem.component] > 1
    batches = [range(n, min(n + ROWS, k)) for n in range(0, k, ROWS)]
    tasks = (
        (([(features[i], matched[offsets[i] : offsets[i + 1]], int(offsets[i])) for i in batch],),)
        for batch in batches
    )
    _, first = np.unique(problem.component, return_index=True)
    root, near = first.astype(np.int32)[problem.component], np.zeros(len(matched), bool)
    for p, q in show(stream(_near_in_images, tasks), "Comparing", count=len(batches)):
        join(root, p, q)
        near[p] = True
    component, alone = components_of(root), np.arange(len(root), dtype=np.int32)
    concerned = np.bincount(component, near)[component] > 0
    # Only features that are connected over features near each other may count as one.
    closed = problem._replace(
        component=np.where(concerned, component, len(root) + alone.astype(np.int64))
    )
    stands, begun = alone.copy(), deque[AnyArray]()

    def parts() -> Iterator[tuple[Any, ...]]:
        for of_part in parts_of(closed, most):
            begun.append(of_part)
            images, sizes = images_of(of_part, offsets)
            own = tuple(features[i] for i in images.tolist())
            yield ((matches.part(of_part), sizes, own, of_part, offsets[images]),)

    for found in show(stream(_duplicates_of_part, parts()), "Joining", count=None):
        of_part = begun.popleft()
        stands[of_part] = of_part[found]
    return stands


def _near_in_images(
    task: tuple[Sequence[tuple[Features, BoolArray, int]]],
) -> tuple[IntArray, IntArray]:
    """Return the features with matches that are near each other in their image."""
    pairs = [np.empty((0, 2), np.int64)]
    for features, matched, start in task[0]:
        if matched.any():
            pairs.append(start + near_in_image(features.xy.astype(np.float64), matched))
    p, q = np.concatenate(pairs).T
    return np.ascontiguousarray(p), np.ascontiguousarray(q)


def _duplicates_of_part(
    task: tuple[Reader, IntArray, Sequence[Features], AnyArray, IntArray],
) -> AnyArray:
    """Return the place of the feature that stands for each of a part."""
    reader, sizes, features, numbers, starts = task
    own = np.split(numbers - np.repeat(starts, sizes), np.cumsum(sizes)[:-1])
    xy = [f.xy[places] for f, places in zip(features, own, strict=True)]
    stands = mark_duplicates(_matches_of_part(reader, sizes), xy).duplicate_of
    assert stands is not None
    return stands.astype(np.int32)


def _matches_of_part(reader: Reader, sizes: IntArray) -> PairwiseMatches:
    first, other, probability = reader()
    n = len(first) - 1
    W = sparse.csr_array((probability, other, first), shape=(n, n))
    return PairwiseMatches(W, sizes)


def _precision(
    problem: Problem, tracks: MultiMatching, most: int, show: Callable[..., Iterator[Any]]
) -> FloatArray:
    """Estimate the precision (d,) of every universe feature, part by part."""
    precision, begun = np.full(tracks.universe_size, np.nan), deque[AnyArray]()

    def tasks() -> Iterator[tuple[Any, ...]]:
        for features in parts_of(problem, most, tracks.universe):
            begun.append(features)
            _, sizes = images_of(features, problem.offset)
            universe = numbered(tracks.universe[features])
            yield ((problem.source.part(features), sizes, universe),)

    for found in show(stream(_precision_of_part, tasks()), "Estimating"):
        universe = tracks.universe[begun.popleft()]
        precision[universe[np.sort(np.unique(universe, return_index=True)[1])]] = found
    return precision


def _precision_of_part(task: tuple[Reader, IntArray, AnyArray]) -> FloatArray:
    """Return the estimated precision of the universe features of a part, as they appear first."""
    reader, sizes, universe = task
    known = _matches_of_part(reader, sizes)
    tracks = MultiMatching(universe, sizes)
    return precision_by_track(estimate_confidence(tracks, known), tracks)
