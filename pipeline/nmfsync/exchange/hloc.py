"""hloc's HDF5 files: features by image name, matches by pair of names.

In the file of features, `<name>/keypoints` has shape (n, 2). In the file of
matches, `<pair>/matches0` has shape (n0,): for every feature of the first image
the number of its match in the second, or -1. Features after its end have none.
`<pair>/matching_scores0`, also (n0,), is optional.

The key of a pair is `a/b`, in older files `a_b`, with `-` in place of the
slashes in both names. Either image may come first.
"""

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError, NmfsyncWarning, near_names, shown
from nmfsync.exchange.blocks import (
    check_positions,
    check_rows,
    choose,
    missing_rows,
    to_keypoints,
    to_matches,
    with_duplicates_marked,
)
from nmfsync.runtime.cache import key_of
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import (
    check_memory,
    check_space,
    check_target,
    put,
    reading,
    staging,
    writing,
)
from nmfsync.types.arrays import AnyArray, Float32Array, FloatArray, IntArray
from nmfsync.types.matches import ImagePair, Matches, PairwiseMatches, Source, StoredKeypoints

MAGIC = b"\x89HDF\r\n\x1a\n"

_KEYPOINTS = "keypoints"  # data set of an image
_SIGMAS, _DEGREES, _SIZE = "scales", "oris", "image_size"  # others, which need not be there
_MATCHES, _SCORES = "matches0", "matching_scores0"  # data sets of a pair

_LARGEST_SCORE = 1 + 1e-3  # a cosine of half precision can be rounded to more than 1

_ROUGH = 0.5  # pixels: as much as a good keypoint is wrong by itself

# No compression of real data reaches this; a few bytes can claim to be terabytes.
_COMPRESSION = 10_000


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

    def xy(self) -> list[Float32Array]:
        """Positions as `Source.xy` defines them, which is how hloc stores them."""
        with open_hdf5(self.features) as file:
            names, xy = _read_images(file)
            _check_unchanged("images or keypoints", key_of(names, *xy), self.digests[0])
            return xy

    def keypoints(self) -> list[StoredKeypoints]:
        """Positions of every image, and scales, orientations and size if hloc stored them."""
        with open_hdf5(self.features) as file:
            names, xy = _read_images(file)
            _check_unchanged("images or keypoints", key_of(names, *xy), self.digests[0])
            return [_read_keypoints(file[n], p) for n, p in zip(names, xy, strict=True)]


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
        Near-duplicates are marked, see `mark_duplicates`.

    Warns
    -----
    NmfsyncWarning
        If the scores are not in (0, 1], so that all weights are 1; if matches were dropped:
        repeated ones, and all but the best of several matches of a feature in the same
        image; or if positions are stored with half precision, and are too far from 0 for it.

    Raises
    ------
    NmfsyncError
        If a file is missing or damaged, or if it contains links or data that are
        stored in other files; if a position is not finite, if matches name images or
        keypoints that do not exist, or if the names of two images differ only in `/` and `-`.
    """
    path, features = Path(matches_path), Path(features_path)
    with open_hdf5(features) as file:
        names, xy = _read_images(file)
        sizes = [len(points) for points in xy]
        index_of = flat_names(names)
        error = _rounding_error(file, names)
    if error >= _ROUGH:
        text = (
            f"{features}: keypoints are stored with half precision, which moves them by up to "
            f"{error:g} pixels; store 32-bit positions (in hloc, as_half=False)"
        )
        warnings.warn(text, NmfsyncWarning, stacklevel=3)
    with open_hdf5(path) as file:
        pairs = _image_pairs(file, index_of)
        if not pairs:
            raise NmfsyncError(_why_no_matches(file))
        blocks = [_read_block(file[key], pair, names, sizes) for key, pair in pairs.items()]
        digests = key_of(names, *xy), _digest_of_blocks(blocks)
    if any(np.any((b.weights <= 0) | ~(b.weights <= _LARGEST_SCORE)) for b in blocks):
        text = (
            f"{path}: scores are not in (0, 1], so every match gets the weight 1; "
            "write scores in this range to have them used"
        )
        warnings.warn(text, NmfsyncWarning, stacklevel=3)
        blocks = [b._replace(weights=np.ones(len(b.rows))) for b in blocks]
    blocks = [b._replace(weights=np.minimum(b.weights, 1)) for b in blocks]
    matches, dropped = to_matches(blocks, sizes)
    if dropped:
        warnings.warn(f"{path}: {dropped}", NmfsyncWarning, stacklevel=3)
    matches = with_duplicates_marked(matches, xy)
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
    source, path = _source_of(matches), Path(path)
    check_target(path, [source.path, source.features], overwrite)
    optional("h5py", "hloc")
    with open_hdf5(source.features) as file:
        names, xy = _read_images(file)
        _check_unchanged("images or keypoints", key_of(names, *xy), source.digests[0])
    sizes = matches.sizes.tolist()
    blocks = {(b.i, b.j): b for b in choose(matches, added).by_image_pair()}
    # A match and a score have four bytes each.
    added_size = 8 * sum(sizes[first] for first, _ in blocks)
    _write_changed(source, path, lambda f: _replace_matches(source, f, blocks, sizes), added_size)


def _source_of(matches: Matches) -> HlocSource:
    if not isinstance(matches.source, HlocSource):
        raise NmfsyncError(
            "these matches do not come from a file of hloc; "
            "to_hloc needs matches read with PairwiseMatches.from_hloc"
        )
    return matches.source


def write_hloc_part(matches: PairwiseMatches, path: Path, part: PairwiseMatches) -> None:
    """Write a copy of the file of hloc that matches come from, with a part of them.

    Pairs of images without any stay, with -1 for every feature, because hloc asks for every pair
    of its list. Everything else is copied unchanged.

    Parameters
    ----------
    matches : PairwiseMatches
    path : Path
        Replaced if it exists.
    part : PairwiseMatches
        Some of the matches.

    Raises
    ------
    NmfsyncError
        If the file has changed since it was read.
    """
    source, sizes = _source_of(matches), matches.sizes.tolist()
    left_out = missing_rows(matches, part)
    _write_changed(source, path, lambda file: _clear_rows(source, file, left_out, sizes), 0)


def _clear_rows(
    source: HlocSource,
    file: Any,
    left_out: Mapping[tuple[int, int], IntArray | None],
    sizes: list[int],
) -> None:
    """Clear pairs of images i < j, where rows are None, and rows of the others."""
    for key, (i, j) in _unchanged_pairs(source, file, sizes).items():
        pair = min(i, j), max(i, j)
        if pair not in left_out:
            continue
        group, rows = file[key], left_out[pair]
        stored = group[_MATCHES][...]
        gone = np.ones(len(stored), bool)
        if rows is not None:
            first, second = (rows if pair == (i, j) else rows[:, ::-1]).T
            inside = first < len(stored)  # short lists are legal
            first, second = first[inside], second[inside]
            gone[:] = False
            gone[first] = stored[first] == second.astype(stored.dtype)  # which may be too short
        group[_MATCHES][...] = np.where(gone, -1, stored)
        if _SCORES in group:
            group[_SCORES][...] = np.where(gone, 0, group[_SCORES][...])


def _write_changed(
    source: HlocSource, path: Path, change: Callable[[Any], None], added: int
) -> None:
    """Write a copy of a file of matches, changed; `added` bytes may come to it."""
    h5py = optional("h5py", "hloc")
    with staging(path) as folder, writing(path):
        check_space(folder, source.path.stat().st_size + added)
        copy = folder / "matches.h5"
        shutil.copyfile(source.path, copy)
        with h5py.File(copy, "r+") as file:
            change(file)
        put(copy, path)


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open an HDF5 file to read it; faults inside become an NmfsyncError that names the file."""
    h5py = optional("h5py", "hloc")
    with reading(path, "cannot be read as an HDF5 file"), h5py.File(path) as file:
        yield file


def groups_with(file: Any, data_set: str) -> list[str]:
    """Return the paths of the groups that contain a data set of this name, sorted.

    Raises NmfsyncError for links, which may lead in circles or to other files.
    """
    h5py = optional("h5py", "hloc")
    found, waiting, seen = [], [("", file)], set()
    while waiting:
        path, group = waiting.pop()
        address = h5py.h5o.get_info(group.id).addr
        if address in seen:
            raise NmfsyncError(f"/{shown(path)} is a group that also has another name")
        seen.add(address)
        for name in group:
            if not isinstance(name, str):
                raise NmfsyncError(f"a name in /{shown(path)} is no text ({shown(name)})")
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise NmfsyncError(
                    f"/{shown(path + name)} is a link; put a copy of what it points to in its place"
                )
            item = group[name]
            if isinstance(item, h5py.Group) and (name != data_set or data_set in item):
                waiting.append((f"{path}{name}/", item))
            elif name == data_set and path:
                found.append(path[:-1])
    return sorted(found)


def _digest_of_blocks(blocks: Iterable[ImagePair]) -> str:
    return key_of(*(part for b in blocks for part in ((b.i, b.j), b.rows, b.weights)))


def _check_unchanged(what: str, found: str, digest: str) -> None:
    """Raise NmfsyncError if what a file contains is not what was read."""
    if found != digest:
        raise NmfsyncError(f"its {what} are not those of these matches; read the matches again")


def _read_images(file: Any) -> tuple[tuple[str, ...], list[Float32Array]]:
    """Read names and positions of keypoints (n, 2) of all images, in order of name."""
    names = groups_with(file, _KEYPOINTS)
    if not names:
        raise NmfsyncError(f"contains no {_KEYPOINTS}; is it a file of features?")
    return tuple(names), [_read_positions(file[name], name) for name in names]


def _read_positions(group: Any, name: str) -> Float32Array:
    keypoints = read_dataset(group, _KEYPOINTS)
    if keypoints.ndim != 2 or keypoints.shape[1] < 2 or keypoints.dtype.kind not in "fiu":
        raise NmfsyncError(
            f"the keypoints of {shown(name)} must be (n, 2) numbers, not {keypoints.shape} "
            f"of type {shown(keypoints.dtype)}"
        )
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        xy = keypoints[:, :2].astype(np.float32)
    check_positions(name, xy)
    return xy


def _rounding_error(file: Any, names: tuple[str, ...]) -> float:
    """Return by how many pixels half precision moves a position at most; 0 for other precisions."""
    stored = (file[name][_KEYPOINTS] for name in names)
    half = [np.abs(item[:, :2]).max() for item in stored if item.dtype == np.float16 and len(item)]
    return float(np.spacing(max(half)) / 2) if half else 0.0


def _read_keypoints(group: Any, xy: Float32Array) -> StoredKeypoints:
    width, height = _read_optional(group, _SIZE, 2)
    known = np.isfinite([width, height]).all()
    size = (int(width), int(height)) if known else None
    return to_keypoints(
        xy, _read_optional(group, _SIGMAS, len(xy)), _read_optional(group, _DEGREES, len(xy)), size
    )


def _read_optional(group: Any, name: str, n: int) -> FloatArray:
    """Read a data set of n numbers; NaN if there is none, or one of another kind."""
    h5py = optional("h5py", "hloc")
    item = group.get(name)
    if isinstance(item, h5py.Dataset) and item.shape == (n,) and item.dtype.kind in "fiu":
        return read_dataset(group, name).astype(np.float64)
    return np.full(n, np.nan)


def read_dataset(group: Any, name: str) -> AnyArray:
    """Read a data set, whose values must be in this file."""
    item = group[name]
    place = shown(item.name)
    if item.external or item.is_virtual:
        raise NmfsyncError(f"the values of {place} are in other files; store them in this file")
    if item.nbytes > _COMPRESSION * max(item.id.get_storage_size(), 10**5):
        raise NmfsyncError(
            f"{place} claims {shown(item.shape)} values, but most of them were never written"
        )
    check_memory(item.nbytes)
    return np.asarray(item[()])


def _flat(name: str) -> str:
    """Return the name of an image as it stands in the key of a pair."""
    return name.replace("/", "-")


def new_key(a: str, b: str) -> str:
    """Return the key of a pair of images of hloc's present kind."""
    return f"{_flat(a)}/{_flat(b)}"


def flat_names(names: tuple[str, ...]) -> dict[str, int]:
    """Map flat names to image numbers."""
    index_of: dict[str, int] = {}
    for image, name in enumerate(names):
        other = index_of.setdefault(_flat(name), image)
        if other != image:
            raise NmfsyncError(
                f"hloc's files of matches cannot distinguish {shown(names[other])} from "
                f"{shown(name)}; rename one of the images"
            )
    return index_of


def _why_no_matches(file: Any) -> str:
    if groups_with(file, "keypoints0"):
        return (
            "contains positions that belong to pairs of images (keypoints0, keypoints1), and no "
            f"{_MATCHES}; nmfsync merge makes shared keypoints of them"
        )
    return f"contains no {_MATCHES}; is it a file of matches?"


def _image_pairs(file: Any, index_of: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Map the key of every pair in a file of matches to its two images, in the order of the key."""
    return {key: parse_key(key, index_of) for key in groups_with(file, _MATCHES)}


def parse_key(
    key: str, index_of: dict[str, int], where: str = "in the file of features"
) -> tuple[int, int]:
    """Return the two images that the key of a pair names, given those there are by flat name."""
    # Names may contain the separators themselves, so every split is tried.
    splits = [(key[:at], key[at + 1 :]) for at, sign in enumerate(key) if sign in "/_"]
    pairs = {(index_of[a], index_of[b]) for a, b in splits if a in index_of and b in index_of}
    if len(pairs) > 1:
        raise NmfsyncError(f"'{shown(key)}' could mean several pairs of images")
    if not pairs:
        unknown = [b if a in index_of else a for a, b in splits if a in index_of or b in index_of]
        hint = near_names(unknown[0], index_of) if unknown else ""
        raise NmfsyncError(f"'{shown(key)}' is no pair of images {where}{hint}")
    return pairs.pop()


def _read_block(
    group: Any, pair: tuple[int, int], names: tuple[str, ...], sizes: list[int]
) -> ImagePair:
    """Read the matches of one pair, with their scores as weights, or 1 without scores."""
    i, j = pair
    both = f"{shown(names[i])} and {shown(names[j])}"
    stored = _read_list(group, _MATCHES)
    scores = np.ones(len(stored))
    if _SCORES in group:
        scores = _read_list(group, _SCORES).astype(np.float64)
    # hloc's aggregation of detector-free matches ends the list with the last match.
    if len(stored) > sizes[i] or len(scores) != len(stored):
        raise NmfsyncError(
            f"the matches of {both} are for {len(stored)} features and have {len(scores)} scores, "
            f"but {shown(names[i])} has {sizes[i]}"
        )
    second = stored.astype(np.int64)
    limit = 2 ** (8 * stored.dtype.itemsize)
    if limit <= 2**16:
        if sizes[j] >= limit:
            raise NmfsyncError(
                f"the matches of {both} have {8 * stored.dtype.itemsize} bits, too few for the "
                f"{sizes[j]} features of {shown(names[j])}; match again with 32 bits"
            )
        # An int16 holds at most 32767: larger numbers were stored minus 65536.
        second = np.where(second < -1, second + limit, second)
    first = np.flatnonzero(second != -1)
    block = ImagePair(i, j, np.column_stack([first, second[first]]), scores[first])
    check_rows(block, names, sizes)
    return block


def _read_list(group: Any, name: str) -> AnyArray:
    values = read_dataset(group, name)
    kinds, wanted = ("iu", "whole numbers") if name == _MATCHES else ("f", "floating-point numbers")
    if values.ndim != 1 or values.dtype.kind not in kinds:
        raise NmfsyncError(f"{shown(group.name)}/{name} must be a list of {wanted}")
    return values


def _unchanged_pairs(source: HlocSource, file: Any, sizes: list[int]) -> dict[str, tuple[int, int]]:
    """Return the pairs of an open file, see `_image_pairs`, if its matches are those of before."""
    pairs = _image_pairs(file, flat_names(source.names))
    old = [_read_block(file[key], pair, source.names, sizes) for key, pair in pairs.items()]
    _check_unchanged("matches", _digest_of_blocks(old), source.digests[1])
    return pairs


def _replace_matches(
    source: HlocSource, file: Any, blocks: dict[tuple[int, int], ImagePair], sizes: list[int]
) -> None:
    """Replace all matches of an open file; `blocks` are by pair of images i < j."""
    pairs = _unchanged_pairs(source, file, sizes)
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
        _replace_block(file[key], block, source.names, sizes)
    for pair, block in blocks.items():
        if pair not in written:
            group = file.create_group(new_key(*(source.names[image] for image in pair)))
            create_block(group, block, sizes[block.i], block.weights if scored else None)


def _replace_block(group: Any, block: ImagePair, names: tuple[str, ...], sizes: list[int]) -> None:
    """Replace the matches of one pair; matches that stay keep their scores."""
    scores = None
    if _SCORES in group:
        old = _read_block(group, (block.i, block.j), names, sizes)
        score_of = dict(zip(map(tuple, old.rows.tolist()), old.weights.tolist(), strict=True))
        new = zip(map(tuple, block.rows.tolist()), block.weights.tolist(), strict=True)
        scores = np.array([score_of.get(row, weight) for row, weight in new])
        del group[_SCORES]
    del group[_MATCHES]
    create_block(group, block, sizes[block.i], scores)


def create_block(
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
