"""hloc's HDF5 files: features by image name, matches by pair of names.

`features[name]/keypoints` is (n, 2), `matches[pair]/matches0` (n0,) with the
feature of the second image or -1, `matches[pair]/matching_scores0` (n0,). The
key of a pair has changed over time: `a/b`, before that `a_b`, the slashes of
each name replaced by `-`; either image may come first.
"""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.exchange.blocks import check_rows, choose, to_matches
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import check_target, put, staging
from nmfsync.types.arrays import AnyArray
from nmfsync.types.matches import ImagePair, Matches, PairwiseMatches, Source

MAGIC = b"\x89HDF\r\n\x1a\n"

_MATCHES, _SCORES = "matches0", "matching_scores0"


@dataclass(frozen=True, eq=False)
class HlocSource(Source):
    """A file of matches and the file of features that they belong to.

    Attributes
    ----------
    features : Path
    """

    features: Path

    def xy(self) -> list[NDArray[np.float32]]:
        """Positions in pixels as `Source.xy` says, which is as hloc stores them."""
        with _open(self.features) as file:
            return [file[name]["keypoints"][:, :2].astype(np.float32) for name in self.names]


def read_hloc(matches_path: Path | str, features_path: Path | str) -> PairwiseMatches:
    """Read matches and features as hloc stores them. Needs `pip install 'nmfsync[hloc]'`.

    Images are those of the file of features, in order of name. All keys that
    hloc has used for pairs are known (`a/b`, `a_b`, both orders). Indices
    stored with 16 bits are restored where that is possible.

    Parameters
    ----------
    matches_path, features_path : Path or str

    Returns
    -------
    PairwiseMatches
        Weights are `matching_scores0` where there are any, else 1.

    Warns
    -----
    NmfsyncWarning
        If the scores are not in (0, 1] and so all weights are 1, or if
        matches were dropped: repeated ones, and all but the best of those
        that match a feature twice in one image.

    Raises
    ------
    NmfsyncError
        If a file is missing or damaged, matches name images or keypoints that
        do not exist, or the names of two images differ in `/` and `-` only.
    """
    path, features = Path(matches_path), Path(features_path)
    names, sizes = _images(features)
    image_of = _image_of(features, names)
    with _open(path) as file:
        groups = _groups(path, file, image_of)
        if not groups:
            raise NmfsyncError(f"{path}: holds no {_MATCHES}; is it a file of matches?")
        blocks = [_block(path, file[key], pair, names, sizes) for key, pair in groups.items()]
    if any(np.any((b.weights <= 0) | ~(b.weights <= 1)) for b in blocks):
        text = f"{path}: scores are not in (0, 1] and so are no weights: every match gets 1"
        warnings.warn(text, NmfsyncWarning, stacklevel=3)
        blocks = [b._replace(weights=np.ones(len(b.rows))) for b in blocks]
    matches, dropped = to_matches(blocks, sizes)
    if dropped:
        warnings.warn(f"{path}: {dropped}", NmfsyncWarning, stacklevel=3)
    matches.source = HlocSource(path, names, features)
    return matches


@contextmanager
def _open(path: Path, mode: str = "r") -> Iterator[Any]:
    h5py = optional("h5py", "hloc")
    if not path.is_file():
        raise NmfsyncError(f"{path}: no such file")
    try:
        with h5py.File(path, mode) as file:
            yield file
    except (OSError, RuntimeError, KeyError) as error:
        raise NmfsyncError(f"{path}: cannot be read as an HDF5 file ({error})") from None


def _parents(file: Any, name: str) -> list[str]:
    """Paths of the groups that hold a dataset of this name, in order of the alphabet."""
    found: list[str] = []

    def visit(path: str, item: Any) -> None:
        if path.endswith("/" + name) and hasattr(item, "shape"):
            found.append(path[: -len(name) - 1])

    file.visititems(visit)
    return sorted(found)


def _images(path: Path) -> tuple[tuple[str, ...], list[int]]:
    """Names and numbers of keypoints, in order of name."""
    with _open(path) as file:
        names = _parents(file, "keypoints")
        shapes = [file[name]["keypoints"].shape for name in names]
    if not names:
        raise NmfsyncError(f"{path}: holds no keypoints; is it a file of features?")
    for name, shape in zip(names, shapes, strict=True):
        if len(shape) != 2 or shape[1] < 2:
            raise NmfsyncError(f"{path}: the keypoints of {name} must be (n, 2), not {shape}")
    return tuple(names), [shape[0] for shape in shapes]


def _flat(name: str) -> str:
    return name.replace("/", "-")


def _image_of(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    """Which image a name without slashes means."""
    image_of: dict[str, int] = {}
    for image, name in enumerate(names):
        other = image_of.setdefault(_flat(name), image)
        if other != image:
            raise NmfsyncError(
                f"{path}: hloc's files of matches cannot tell {names[other]} from {name}: "
                "rename one of the images"
            )
    return image_of


def _groups(path: Path, file: Any, image_of: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Find the group of every pair of images that has one, and the images in its order."""
    return {key: _pair_of(path, key, image_of) for key in _parents(file, _MATCHES)}


def _pair_of(path: Path, key: str, image_of: dict[str, int]) -> tuple[int, int]:
    splits = [(key[:at], key[at + 1 :]) for at, sign in enumerate(key) if sign in "/_"]
    known = {(image_of[a], image_of[b]) for a, b in splits if a in image_of and b in image_of}
    if len(known) != 1:
        fault = "could mean several pairs" if known else "is no pair"
        raise NmfsyncError(f"{path}: {key!r} {fault} of images in the file of features")
    return known.pop()


def _block(
    path: Path, group: Any, pair: tuple[int, int], names: tuple[str, ...], sizes: list[int]
) -> ImagePair:
    i, j = pair
    stored, scores = _dataset(path, group, _MATCHES), np.ones(sizes[i])
    if _SCORES in group:
        scores = _dataset(path, group, _SCORES).astype(np.float64)
    if stored.shape != (sizes[i],) or scores.shape != (sizes[i],):
        raise NmfsyncError(
            f"{path}: the matches of {names[i]} and {names[j]} are for {len(stored)} features, "
            f"but {names[i]} has {sizes[i]}"
        )
    second = stored.astype(np.int64)
    if stored.dtype.itemsize == 2:
        if sizes[j] > 0xFFFF:
            raise NmfsyncError(
                f"{path}: the matches of {names[i]} and {names[j]} have 16 bits, too few for the "
                f"{sizes[j]} features of {names[j]}; match again with 32 bits"
            )
        # An int16 cannot hold more than 32767, and what is larger was stored less 65536.
        second = np.where(second < -1, second + 0x10000, second)
    first = np.flatnonzero(second != -1)
    block = ImagePair(i, j, np.column_stack([first, second[first]]), scores[first])
    check_rows(path, block, names, sizes)
    return block


def _dataset(path: Path, group: Any, name: str) -> AnyArray:
    values = np.asarray(group[name])
    if values.ndim != 1 or values.dtype.kind not in ("iu" if name == _MATCHES else "f"):
        raise NmfsyncError(f"{path}: {group.name}/{name} is no list of numbers of the right kind")
    return values


def write_hloc(
    matches: Matches, path: Path | str, added: str = "none", overwrite: bool = False
) -> None:
    """Write the hloc file that they come from, with these matches in place of its own.

    Pairs keep their keys, new ones get hloc's present kind; a pair without
    matches stays, with -1 for every feature. Matches that were there keep
    their scores, others get their weight. Needs `pip install 'nmfsync[hloc]'`.

    Parameters
    ----------
    path : Path or str
    added : str
        As for `write_colmap`.
    overwrite : bool
        Replace `path` if it exists.

    Raises
    ------
    NmfsyncError
        If the matches come from elsewhere (`source`), the original is not
        what it was, or `path` is the original or exists.
    """
    source = matches.source
    if not isinstance(source, HlocSource):
        raise NmfsyncError("these matches do not come from PairwiseMatches.from_hloc")
    path = Path(path)
    check_target(path, [source.path, source.features], overwrite)
    names, sizes = _images(source.features)
    if names != source.names or sizes != matches.sizes.tolist():
        raise NmfsyncError(
            f"{source.features}: its images or keypoints are not those of these matches (any more)"
        )
    blocks = choose(matches, added).by_image_pair()
    with staging(path) as folder:
        copy = folder / "matches.h5"
        shutil.copyfile(source.path, copy)
        with _open(copy, "r+") as file:
            _replace_matches(source, file, {(b.i, b.j): b for b in blocks}, sizes)
        put(copy, path)


def _replace_matches(
    source: HlocSource, file: Any, blocks: dict[tuple[int, int], ImagePair], sizes: list[int]
) -> None:
    groups = _groups(source.path, file, _image_of(source.features, source.names))
    scored = any(_SCORES in file[key] for key in groups)
    done = set()
    for key, (i, j) in groups.items():
        pair = min(i, j), max(i, j)
        block = blocks.get(pair, ImagePair(*pair, np.empty((0, 2), np.int64), np.empty(0)))
        if pair in done:  # the file has this pair twice, in both orders or by both kinds of key
            del file[key]
            continue
        done.add(pair)
        rows = block.rows if pair == (i, j) else block.rows[:, ::-1]
        _write(source.path, file[key], block._replace(i=i, j=j, rows=rows), source.names, sizes)
    for pair, block in blocks.items():
        if pair not in done:
            group = file.create_group("/".join(_flat(source.names[image]) for image in pair))
            _create(group, block, sizes[block.i], block.weights if scored else None)


def _write(
    path: Path, group: Any, block: ImagePair, names: tuple[str, ...], sizes: list[int]
) -> None:
    """Replace the matches of a group; those that stay keep their scores."""
    scores = None
    if _SCORES in group:
        before = _block(path, group, (block.i, block.j), names, sizes)
        old = dict(zip(map(tuple, before.rows.tolist()), before.weights.tolist(), strict=True))
        given = zip(map(tuple, block.rows.tolist()), block.weights.tolist(), strict=True)
        scores = np.array([old.get(row, weight) for row, weight in given])
        del group[_SCORES]
    del group[_MATCHES]
    _create(group, block, sizes[block.i], scores)


def _create(group: Any, block: ImagePair, size: int, scores: NDArray[np.float64] | None) -> None:
    first, second = block.rows.T
    matches = np.full(size, -1, np.int32)
    matches[first] = second
    group.create_dataset(_MATCHES, data=matches)
    if scores is not None:
        values = np.zeros(size, np.float32)
        values[first] = scores
        group.create_dataset(_SCORES, data=values)
