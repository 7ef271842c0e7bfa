"""hloc's HDF5 files: features by image name, matches by pair of names.

In the file of features, `<name>/keypoints` has shape (n, 2). In the file of
matches, `<pair>/matches0` has shape (n0,): for every feature of the first image
the number of its match in the second, or -1. `<pair>/matching_scores0`, also
(n0,), is optional.

The key of a pair is `a/b`, in older files `a_b`, with `-` in place of the
slashes in both names. Either image may come first.
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
from nmfsync.runtime.cache import key_of
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import check_target, put, staging
from nmfsync.types.arrays import AnyArray
from nmfsync.types.matches import ImagePair, Matches, PairwiseMatches, Source

MAGIC = b"\x89HDF\r\n\x1a\n"

_MATCHES, _SCORES = "matches0", "matching_scores0"  # data sets of a pair


@dataclass(frozen=True, eq=False)
class HlocSource(Source):
    """A file of hloc that matches were read from.

    Attributes
    ----------
    features : Path
        The file of features that the matches belong to.
    digests : tuple of str
        Of the keypoints, to which the matches refer by number, and of the matches.
    """

    features: Path
    digests: tuple[str, str]

    def xy(self) -> list[NDArray[np.float32]]:
        """Positions as `Source.xy` defines them, which is how hloc stores them."""
        with _open(self.features) as file:
            _check_unchanged(file, self.features, "keypoints", self.digests[0])
            return [file[name]["keypoints"][:, :2].astype(np.float32) for name in self.names]


def read_hloc(matches_path: Path | str, features_path: Path | str) -> PairwiseMatches:
    """Read matches as hloc stores them. Needs `pip install 'nmfsync[hloc]'`.

    Images are those of the file of features, in order of name. All kinds of
    keys of pairs are read (`a/b`, `a_b`, in both orders). Indices that were
    stored with 16 bits are restored if that is possible.

    Parameters
    ----------
    matches_path, features_path : Path or str

    Returns
    -------
    PairwiseMatches
        Weights are `matching_scores0`, or 1 without scores; `scored` is True.

    Warns
    -----
    NmfsyncWarning
        If the scores are not in (0, 1], so that all weights are 1; or if
        matches were dropped: repeated ones, and all but the best of several
        matches of a feature in the same image.

    Raises
    ------
    NmfsyncError
        If a file is missing or damaged, if matches name images or keypoints
        that do not exist, or if the names of two images differ only in `/` and `-`.
    """
    path, features = Path(matches_path), Path(features_path)
    names, sizes, keypoints = _read_images(features)
    index_of = _index_by_flat_name(features, names)
    with _open(path) as file:
        pairs = _image_pairs(path, file, index_of)
        if not pairs:
            raise NmfsyncError(f"{path}: contains no {_MATCHES}; is it a file of matches?")
        blocks = [_read_block(path, file[key], pair, names, sizes) for key, pair in pairs.items()]
        digests = keypoints, _digest(file, _MATCHES)
    if any(np.any((b.weights <= 0) | ~(b.weights <= 1)) for b in blocks):
        text = f"{path}: scores are not in (0, 1], so every match gets the weight 1"
        warnings.warn(text, NmfsyncWarning, stacklevel=3)
        blocks = [b._replace(weights=np.ones(len(b.rows))) for b in blocks]
    matches, dropped = to_matches(blocks, sizes)
    if dropped:
        warnings.warn(f"{path}: {dropped}", NmfsyncWarning, stacklevel=3)
    matches.source, matches.scored = HlocSource(path, names, features, digests), True
    return matches


def write_hloc(
    matches: Matches, path: Path | str, added: str = "none", overwrite: bool = False
) -> None:
    """Write a copy of the hloc file that the matches come from, with these matches in it.

    Pairs keep their keys, and new pairs get keys of hloc's present kind. A pair
    without matches stays, with -1 for every feature. Matches of the original
    keep their scores, others get their weights. Needs `pip install
    'nmfsync[hloc]'`.

    Parameters
    ----------
    matches : PairwiseMatches or MultiMatching
    path : Path or str
    added : str
        As for `write_colmap`.
    overwrite : bool
        Replace `path` if it exists.

    Raises
    ------
    NmfsyncError
        If the matches do not come from a file of hloc (`source`), its features
        have changed since, or `path` is one of its files or exists.
    """
    source = matches.source
    if not isinstance(source, HlocSource):
        raise NmfsyncError(
            "these matches do not come from a file of hloc; "
            "to_hloc needs matches read with PairwiseMatches.from_hloc"
        )
    path = Path(path)
    check_target(path, [source.path, source.features], overwrite)
    with _open(source.features) as file:
        _check_unchanged(file, source.features, "keypoints", source.digests[0])
    blocks = choose(matches, added).by_image_pair()
    with staging(path) as folder:
        copy = folder / "matches.h5"
        shutil.copyfile(source.path, copy)
        with _open(copy, "r+") as file:
            _check_unchanged(file, source.path, _MATCHES, source.digests[1])
            sizes = matches.sizes.tolist()
            _replace_matches(source, file, {(b.i, b.j): b for b in blocks}, sizes)
        put(copy, path)


@contextmanager
def _open(path: Path, mode: str = "r") -> Iterator[Any]:
    """Open an HDF5 file; faults inside it become an NmfsyncError that names the file."""
    h5py = optional("h5py", "hloc")
    if not path.is_file():
        raise NmfsyncError(f"{path}: no such file")
    try:
        with h5py.File(path, mode) as file:
            yield file
    except (OSError, RuntimeError, KeyError) as error:
        raise NmfsyncError(f"{path}: cannot be read as an HDF5 file ({error})") from None


def _groups_with(file: Any, name: str) -> list[str]:
    """Return the paths of the groups that contain a data set of this name, sorted."""
    groups: list[str] = []

    def visit(path: str, item: Any) -> None:
        if path.endswith("/" + name) and hasattr(item, "shape"):
            groups.append(path[: -len(name) - 1])

    file.visititems(visit)
    return sorted(groups)


def _digest(file: Any, name: str) -> str:
    """Digest all keypoints, or all matches with their scores, of an open file."""
    parts: list[Any] = []
    for path in _groups_with(file, name):
        for key in (name, _SCORES):
            if key in file[path]:
                array = np.asarray(file[path][key])
                parts += [[path, key, array.dtype.str, array.shape], array.tobytes()]
    return key_of(*parts)


def _check_unchanged(file: Any, path: Path, name: str, digest: str) -> None:
    """Raise NmfsyncError if the keypoints or matches are not those that were read."""
    if _digest(file, name) != digest:
        what = "matches" if name == _MATCHES else "images or keypoints"
        raise NmfsyncError(
            f"{path}: its {what} are not those of these matches; read the matches again"
        )


def _read_images(path: Path) -> tuple[tuple[str, ...], list[int], str]:
    """Read names, numbers of keypoints and their digest of all images, in order of name."""
    with _open(path) as file:
        names = _groups_with(file, "keypoints")
        shapes = [file[name]["keypoints"].shape for name in names]
        digest = _digest(file, "keypoints")
    if not names:
        raise NmfsyncError(f"{path}: contains no keypoints; is it a file of features?")
    for name, shape in zip(names, shapes, strict=True):
        if len(shape) != 2 or shape[1] < 2:
            raise NmfsyncError(f"{path}: the keypoints of {name} must be (n, 2), not {shape}")
    return tuple(names), [shape[0] for shape in shapes], digest


def _flat(name: str) -> str:
    """Return the name of an image as it stands in the key of a pair."""
    return name.replace("/", "-")


def _index_by_flat_name(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    """Map flat names to image numbers."""
    index_of: dict[str, int] = {}
    for image, name in enumerate(names):
        other = index_of.setdefault(_flat(name), image)
        if other != image:
            raise NmfsyncError(
                f"{path}: hloc's files of matches cannot distinguish {names[other]} from {name}; "
                "rename one of the images"
            )
    return index_of


def _image_pairs(path: Path, file: Any, index_of: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Map the key of every pair in a file of matches to its two images, in the order of the key."""
    return {key: _parse_key(path, key, index_of) for key in _groups_with(file, _MATCHES)}


def _parse_key(path: Path, key: str, index_of: dict[str, int]) -> tuple[int, int]:
    # Names may contain the separators themselves, so every split is tried.
    splits = [(key[:at], key[at + 1 :]) for at, sign in enumerate(key) if sign in "/_"]
    pairs = {(index_of[a], index_of[b]) for a, b in splits if a in index_of and b in index_of}
    if len(pairs) != 1:
        fault = "could mean several pairs" if pairs else "is no pair"
        raise NmfsyncError(f"{path}: {key!r} {fault} of images in the file of features")
    return pairs.pop()


def _read_block(
    path: Path, group: Any, pair: tuple[int, int], names: tuple[str, ...], sizes: list[int]
) -> ImagePair:
    """Read the matches of one pair, with their scores as weights, or 1 without scores."""
    i, j = pair
    stored, scores = _read_dataset(path, group, _MATCHES), np.ones(sizes[i])
    if _SCORES in group:
        scores = _read_dataset(path, group, _SCORES).astype(np.float64)
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
        # An int16 holds at most 32767: larger numbers were stored minus 65536.
        second = np.where(second < -1, second + 0x10000, second)
    first = np.flatnonzero(second != -1)
    block = ImagePair(i, j, np.column_stack([first, second[first]]), scores[first])
    check_rows(path, block, names, sizes)
    return block


def _read_dataset(path: Path, group: Any, name: str) -> AnyArray:
    values = np.asarray(group[name])
    kinds, wanted = ("iu", "whole numbers") if name == _MATCHES else ("f", "floating-point numbers")
    if values.ndim != 1 or values.dtype.kind not in kinds:
        raise NmfsyncError(f"{path}: {group.name}/{name} must be a list of {wanted}")
    return values


def _replace_matches(
    source: HlocSource, file: Any, blocks: dict[tuple[int, int], ImagePair], sizes: list[int]
) -> None:
    """Replace all matches of an open file; `blocks` are by pair of images i < j."""
    pairs = _image_pairs(source.path, file, _index_by_flat_name(source.features, source.names))
    scored = any(_SCORES in file[key] for key in pairs)
    written = set()
    for key, (i, j) in pairs.items():
        pair = min(i, j), max(i, j)
        if pair in written:  # a second key for this pair: in the other order, or of the other kind
            del file[key]
            continue
        written.add(pair)
        block = blocks.get(pair, ImagePair(*pair, np.empty((0, 2), np.int64), np.empty(0)))
        rows = block.rows if pair == (i, j) else block.rows[:, ::-1]
        block = block._replace(i=i, j=j, rows=rows)
        _replace_block(source.path, file[key], block, source.names, sizes)
    for pair, block in blocks.items():
        if pair not in written:
            group = file.create_group("/".join(_flat(source.names[image]) for image in pair))
            _create_datasets(group, block, sizes[block.i], block.weights if scored else None)


def _replace_block(
    path: Path, group: Any, block: ImagePair, names: tuple[str, ...], sizes: list[int]
) -> None:
    """Replace the matches of one pair; matches that stay keep their scores."""
    scores = None
    if _SCORES in group:
        old = _read_block(path, group, (block.i, block.j), names, sizes)
        score_of = dict(zip(map(tuple, old.rows.tolist()), old.weights.tolist(), strict=True))
        new = zip(map(tuple, block.rows.tolist()), block.weights.tolist(), strict=True)
        scores = np.array([score_of.get(row, weight) for row, weight in new])
        del group[_SCORES]
    del group[_MATCHES]
    _create_datasets(group, block, sizes[block.i], scores)


def _create_datasets(
    group: Any, block: ImagePair, size: int, scores: NDArray[np.float64] | None
) -> None:
    """Write matches and scores of one pair; `size` is the number of features of image i."""
    first, second = block.rows.T
    matches = np.full(size, -1, np.int32)
    matches[first] = second
    group.create_dataset(_MATCHES, data=matches)
    if scores is not None:
        values = np.zeros(size, np.float32)
        values[first] = scores
        group.create_dataset(_SCORES, data=values)
