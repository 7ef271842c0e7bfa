"""What several tests build: features, matches, pictures, and Python in another process."""

import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from scipy import sparse

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.features.sift import extract
from nmfsync.study.definitions import STUDIES, MethodVariant, Parameter
from nmfsync.synchronisation.baselines.clear import clear as _clear
from nmfsync.synchronisation.methods import METHODS
from nmfsync.synthetic import generate
from nmfsync.types.features import Features
from nmfsync.types.matches import Matches, MultiMatching, PairwiseMatches

# --- Features ------------------------------------------------------------------------


def make_features(
    xy=None,
    descriptors=None,
    image_size: tuple[int, int] = (10, 10),
    scale: float = 1.0,
    keypoints: int | None = None,
) -> Features:
    """Make features at positions, with descriptors, or both; what is not given is zeros.

    Short descriptors are padded with zeros.
    """
    n = len(descriptors if xy is None else xy)
    rows = np.zeros((n, 128), np.uint8)
    for row, values in zip(rows, () if descriptors is None else descriptors, strict=False):
        row[: len(values)] = values
    return Features(
        xy=np.zeros((n, 2), np.float32) if xy is None else np.asarray(xy, np.float32).reshape(n, 2),
        descriptors=rows,
        scale=np.full(n, scale, np.float32),
        orientation=np.zeros(n, np.float32),
        image_size=image_size,
        keypoints=n if keypoints is None else keypoints,
        positions=n,
    )


def random_features(rng: np.random.Generator, n: int, levels: int = 256) -> Features:
    """Make n features with random descriptors, of bytes below `levels`."""
    return make_features(descriptors=rng.integers(0, levels, (n, 128)))


def random_images(*counts: int, seed: int = 0) -> list[Features]:
    """Make images with so many random features."""
    rng = np.random.default_rng(seed)
    return [random_features(rng, n) for n in counts]


def ring_of_images(k: int, n: int, seed: int = 0) -> tuple[list[Features], np.ndarray]:
    """Make images all round an object: each shares half of its n points with the next one.

    They come in random order, which is returned as well: order[i] is the place of image i.
    """
    rng = np.random.default_rng(seed)
    points = rng.gamma(0.5, 40, (k * n // 2, 128))
    order = rng.permutation(k)
    collection = []
    for place in order:
        seen = (place * (n // 2) + rng.permutation(n)) % len(points)
        blurred = points[seen] + rng.normal(0, 10, (n, 128))
        collection.append(make_features(descriptors=np.clip(blurred, 0, 255).astype(np.uint8)))
    return collection, order


def overlapping_images(k: int, n: int, seed: int = 0) -> list[Features]:
    """Make images that show half of the same n points, each 25 pixels further right, and others."""
    rng = np.random.default_rng(seed)

    def points() -> tuple[np.ndarray, np.ndarray]:
        histograms = rng.gamma(0.5, size=(n, 128))
        length = np.linalg.norm(histograms, axis=1, keepdims=True)
        return rng.uniform(0, 400, (n, 2)), 500 * histograms / length

    (xy, same), collection = points(), []
    for i in range(k):
        other_xy, other = points()
        shared = rng.random((n, 1)) < 0.5
        moved = np.where(shared, xy + np.array([25 * i, 0]), other_xy)
        seen = np.where(shared, same, other) + rng.normal(0, 20, (n, 128))
        descriptors = np.clip(seen, 0, 255).astype(np.uint8)
        order = rng.permutation(n)
        collection.append(make_features(moved[order], descriptors[order], (600, 400), scale=4.0))
    return collection


def positions_in(images: Sequence[np.ndarray], chosen: Iterable[int], limit=90) -> list[np.ndarray]:
    """Find the positions (n, 2) of the features of the chosen images, none in the others."""
    return [
        extract(image, limit).xy if i in chosen else np.empty((0, 2))
        for i, image in enumerate(images)
    ]


def same_features(a: Features, b: Features) -> bool:
    """Whether two images have the same features, to the last bit."""
    arrays = ("xy", "descriptors", "scale", "orientation")
    numbers = ("image_size", "keypoints", "positions")
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in arrays) and all(
        getattr(a, name) == getattr(b, name) for name in numbers
    )


# --- Matches -------------------------------------------------------------------------


def matches_of(edges: Iterable[tuple], sizes: Sequence[int]) -> PairwiseMatches:
    """Make matches from (p, q) or (p, q, weight): features numbered through all images."""
    W = np.zeros((sum(sizes), sum(sizes)))
    for p, q, *weight in edges:
        W[p, q] = W[q, p] = weight[0] if weight else 1
    return PairwiseMatches(W, sizes)


def noisy(k=12, d=10, rho=0.7, sigma=0.6, seed=1) -> PairwiseMatches:
    """Make the input matches of a synthetic problem."""
    W, _, sizes = generate(k=k, d=d, rho=rho, sigma=sigma, seed=seed)
    return PairwiseMatches(W, sizes)


def with_descriptors(matches: PairwiseMatches, seed: int = 0) -> PairwiseMatches:
    """Give the features of matches random descriptors; return the matches."""
    features = random_images(*matches.sizes.tolist(), seed=seed)
    matches.descriptors = tuple(f.descriptors for f in features)
    return matches


# (k, d, rho, sigma) of the tables of errors that other implementations make.
CASES = [
    (30, 20, 0.6, 0.4),
    (30, 20, 0.6, 0.6),
    (20, 20, 0.5, 0.5),
    (10, 20, 0.6, 0.4),
    (30, 20, 0.6, 0.7),
]


@cache
def problems(case: tuple) -> list[tuple[PairwiseMatches, sparse.csr_array]]:
    """Make the 20 synthetic problems of a case, with their truth; treat as read-only."""
    made = (generate(*case, seed=seed) for seed in range(20))
    return [(PairwiseMatches(W, sizes), W_gt) for W, W_gt, sizes in made]


def check_mean(errors: Sequence[float], reference: float, rounding: float = 0.05) -> None:
    """Check that errors have a mean that was published, within two standard errors."""
    standard_error = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - reference) <= 2 * standard_error + rounding


def in_other_order(
    matches: PairwiseMatches, rng: np.random.Generator, what: str
) -> tuple[PairwiseMatches, np.ndarray]:
    """Permute the "images" of matches, or the "features" in every image.

    Also returns the old number of every feature.
    """
    k, offsets = len(matches.sizes), matches.offsets
    images = rng.permutation(k) if what == "images" else np.arange(k)
    inside = [np.arange(n) if what == "images" else rng.permutation(n) for n in matches.sizes]
    order = np.concatenate([offsets[i] + inside[i] for i in images])
    W = matches.W[order][:, order]
    return PairwiseMatches(W, matches.sizes[images]), order


def in_first_order(result: MultiMatching, order: np.ndarray, sizes: Sequence[int]) -> MultiMatching:
    """Undo `in_other_order` in a result."""
    universe = np.empty_like(result.universe)
    universe[order] = result.universe
    return MultiMatching(universe, sizes)


def links(matches: Matches) -> set[tuple[int, int]]:
    """Matched features (p, q) with p < q, numbered through all images."""
    p, q = sparse.triu(matches.W, 1).tocoo().coords
    return set(zip(p.tolist(), q.tolist(), strict=True))


def between(matches: Matches, i: int, j: int) -> sparse.coo_array:
    """The block of W with rows of image i and columns of image j."""
    rows, columns = (slice(*matches.offsets[[image, image + 1]]) for image in (i, j))
    return matches.W[rows, columns].tocoo()


def check_pairs(pairs: np.ndarray) -> None:
    """Check that pairs of images have the promised form."""
    assert pairs.dtype == np.int64
    assert pairs.ndim == 2
    assert pairs.shape[1] == 2
    assert pairs.tolist() == sorted(map(list, {tuple(pair) for pair in pairs.tolist()}))
    assert (pairs[:, 0] < pairs[:, 1]).all()


def same(A: sparse.sparray, B: sparse.sparray) -> bool:
    """Whether two sparse arrays have equal entries."""
    return A.shape == B.shape and (A != B).nnz == 0


def bits(matches: Matches) -> bytes:
    """All bits of W."""
    W = matches.W
    return W.data.tobytes() + W.indices.tobytes() + W.indptr.tobytes()


# --- Methods and studies -------------------------------------------------------------


def alone(matches, universe_size, theta, seed):
    """Leave every feature alone: a method as a user would write it."""
    return MultiMatching(np.arange(matches.sizes.sum()), matches.sizes)


TINY_STUDY = replace(
    STUDIES["synthetic"],
    base={**STUDIES["synthetic"].base, "k": 6, "d": 5},
    parameters=(Parameter("sigma", "noise σ", (0.2, 0.8)), Parameter("k", "images k", (4, 6))),
    methods=lambda: [MethodVariant(name, METHODS[name]) for name in ("nmfsync", "spectral")],
)


# --- Files ---------------------------------------------------------------------------


def picture(path: Path, size: tuple[int, int] = (8, 6)) -> Path:
    """Write a black picture of a width and a height."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(path)
    return path


def contents(folder: Path | str) -> dict[str, bytes]:
    """Every file of a folder, by its name."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


# --- Time ----------------------------------------------------------------------------


def lose_a_file(out: Path) -> None:
    """Take a file of the last run away, so that the next one has something to do."""
    for file in out.rglob("evaluation.json"):
        file.unlink()


def wait_until(condition: Callable[[], Any], seconds: float = 120) -> None:
    """Return as soon as a condition holds; fail if it does not within a generous time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "this takes too long"
        pause.wait(0.01)


# --- Errors --------------------------------------------------------------------------


def one_line(error: pytest.ExceptionInfo) -> str:
    """Return the message of an error, which must be one line."""
    text = str(error.value)
    assert "\n" not in text
    return text


def result_or_line(read: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a reader returns, or the line of its NmfsyncError; other errors are faults."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # those of NumPy, too, reach the user
            warnings.simplefilter("ignore", NmfsyncWarning)
            return read(*arguments)
    except NmfsyncError as error:
        line = str(error)
        assert line.isprintable()
        assert len(line) < 700 + 3 * sum(len(str(argument)) for argument in arguments)
        return line


NO_FILES = ("pipe", "device", "folder", "nothing", "broken link", "circular link")


def no_file(path: Path, kind: str) -> Path:
    """Put something in the place of a file that cannot be read as one: see `NO_FILES`."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "nothing":
        target = {"device": "/dev/zero", "broken link": path.with_name("gone")}.get(kind, path)
        path.symlink_to(target)
    return path


# --- Other processes -----------------------------------------------------------------


def python(*arguments: Any, check: bool = True, **options: Any) -> subprocess.CompletedProcess:
    """Run a new Python with the given arguments, and catch what it prints."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)


def with_opencv_threads(threads: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function while OpenCV uses so many threads."""
    before = cv2.getNumThreads()
    cv2.setNumThreads(threads)
    try:
        return function(*arguments)
    finally:
        cv2.setNumThreads(before)


def clear(matches, d=0, seed=0, estimate=True):
    """CLEAR, which finds the number of eigenvectors itself or is given d."""
    return _clear(matches, seed, None if estimate else d)
