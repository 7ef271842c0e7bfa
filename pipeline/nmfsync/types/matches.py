"""The two kinds of matches: pairwise ones, and cycle-consistent ones."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple, TypeVar
from zipfile import ZipFile

import numpy as np
import psutil
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nmfsync.errors import NmfsyncError, TooLargeError, shown
from nmfsync.runtime.files import ONE_PARSER, atomic_write, check_memory, reading
from nmfsync.types.arrays import AnyArray, BoolArray, FloatArray, IntArray
from nmfsync.types.notebook import html_facts

T = TypeVar("T")


class StoredKeypoints(NamedTuple):
    """The features of an image as another program stores them.

    Attributes
    ----------
    xy : (n, 2) float32 array
        As of `Source.xy`.
    scale : (n,) float32 array
        Diameter of the blob in pixels, as of `Features`; 0 if it is not known.
    orientation : (n,) float32 array
        Degrees from 0 to 360, clockwise as the image is seen; NaN if it is not known.
    image_size : tuple of int, or None
        Width and height, in pixels, of the image in which the positions are, if the file says.
    """

    xy: NDArray[np.float32]
    scale: NDArray[np.float32]
    orientation: NDArray[np.float32]
    image_size: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Source:
    """Where matches come from, so that a file like it can be written.

    Attributes
    ----------
    path : Path
        The file with the matches.
    names : tuple of str, length k
        Names of the images.
    verified : bool
        The matches were verified since (`verification.verify`).
    """

    path: Path
    names: tuple[str, ...]
    verified: bool = field(default=False, kw_only=True)

    def xy(self) -> list[NDArray[np.float32]]:
        """Positions of the features of every image, (n, 2) arrays.

        Pixels, x to the right and y down; the centre of the top-left pixel is (0, 0).
        """
        raise NotImplementedError

    def keypoints(self) -> list[StoredKeypoints]:
        """Positions, and what the file knows of the sizes and orientations, for every image."""
        raise NotImplementedError


class FileFormat(NamedTuple):
    """How matches are read from the files of another program, and written to them."""

    read: Callable[..., "PairwiseMatches"]
    write: Callable[..., None]


ENTRY = 40  # bytes for an entry of W while it is made and sorted, and another array is made from it

# Of a probability that is estimated, which is no larger than 1 minus this either.
LEAST_PROBABILITY = 1e-3

# For checks of W, which need more memory for an entry than W does.
FEATURES_AT_A_TIME = 2**14

# Products of two of their numbers must fit in 64 bits.
_MOST_FEATURES = 2**31 - 1

_BYTES_OF_A_FEATURE = 64  # at least, in W and in what every method needs beside it

# By name. `nmfsync.exchange` enters the formats, because types import no stage; `_entered`
# imports it when it is needed.
FILE_FORMATS: dict[str, FileFormat] = {}

# The same for what makes pandas DataFrames.
DATAFRAMES: dict[str, Callable[..., Any]] = {}


def _entered(registry: dict[str, T], name: str) -> T:
    import_module("nmfsync.exchange")
    return registry[name]


class ImagePair(NamedTuple):
    """The matches of two images.

    Attributes
    ----------
    i, j : int
        The images, counted from 0.
    rows : (n, 2) int64 array
        A feature of image i and the feature of image j that matches it, counted
        from 0 in each image.
    weights : (n,) float64 array
    """

    i: int
    j: int
    rows: IntArray
    weights: FloatArray

    def __repr__(self) -> str:
        return f"ImagePair(images {self.i} and {self.j}, {len(self.rows):,} matches)"


class _MatchesOfImages:
    """What both kinds of matches know about the m features of the k images.

    Feature p of all is feature `p - offsets[i]` of image `i = image_of[p]`.
    """

    sizes: IntArray
    W: sparse.csr_array
    # The file of another program that they come from. `save` does not keep it.
    source: Source | None = None
    # Of a result of `synchronise`: what it was made from, and with which settings.
    input_matches: "PairwiseMatches | None" = None
    settings: Mapping[str, Any] | None = None
    # (m,) ints, if near-duplicates are marked (`duplicates.mark_duplicates`): the feature of the
    # same image that stands for every feature, itself for most.
    duplicate_of: IntArray | None = None
    # Whether the matches of two images agree with one geometry: those that `verify` kept, or that
    # a program had verified.
    verified: bool = False

    @property
    def offsets(self) -> IntArray:
        """(k + 1,) ints: image i has the features offsets[i] to offsets[i + 1] - 1."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def image_of(self) -> IntArray:
        """(m,) ints: the image of every feature."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def match_count(self) -> int:
        """Number of matches between images, each counted once."""
        return int(self.W.nnz - self.W.shape[0]) // 2

    @property
    def duplicate_count(self) -> int:
        """Number of near-duplicates: features that another one of their image stands for."""
        stands = self.duplicate_of
        return 0 if stands is None else int((stands != np.arange(len(stands))).sum())

    def between_images(self) -> sparse.csr_array:
        """Return a copy of W without its diagonal, indices sorted."""
        W = sparse.csr_array(self.W, copy=True)
        W.setdiag(0)
        W.eliminate_zeros()
        W.sort_indices()
        return W

    def by_image_pair(self) -> Iterator[ImagePair]:
        """Hand out the matches, one pair of images after the other.

        Yields
        ------
        ImagePair
            Of images i < j that have matches, in order of i, then j; rows in order of
            the features of image i.

        Examples
        --------
        >>> matches = PairwiseMatches.from_entries([0, 1], [3, 4], sizes=[2, 1, 2])
        >>> [(pair.i, pair.j, pair.rows.tolist()) for pair in matches.by_image_pair()]
        [(0, 2, [[0, 0], [1, 1]])]
        """
        k, image_of, offsets = len(self.sizes), self.image_of, self.offsets
        above = sparse.triu(self.W, k=1, format="coo")
        p, q = above.row.astype(np.int64), above.col.astype(np.int64)
        pair = image_of[p] * k + image_of[q]
        order = np.argsort(pair, kind="stable")  # W has p, then q, in ascending order
        for part in np.split(order, np.flatnonzero(np.diff(pair[order])) + 1):
            if len(part):
                i, j = divmod(int(pair[part[0]]), k)
                rows = np.column_stack([p[part] - offsets[i], q[part] - offsets[j]])
                yield ImagePair(i, j, rows, above.data[part])

    def arrays(self) -> dict[str, Any]:
        """Return the content as plain arrays."""
        raise NotImplementedError

    def save(self, path: Path | str) -> None:
        """Write the content to an `.npz` file; see `PairwiseMatches.load`."""
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self.arrays())

    def to_colmap(
        self,
        path: Path | str,
        verify: bool | None = None,
        added: str = "none",
        overwrite: bool = False,
    ) -> None:
        """Write the COLMAP database that they come from with these matches.

        See `nmfsync.exchange.colmap.write_colmap`.
        """
        _entered(FILE_FORMATS, "colmap").write(self, path, verify, added, overwrite)

    def to_hloc(self, path: Path | str, added: str = "none", overwrite: bool = False) -> None:
        """Write the hloc file that they come from with these matches.

        See `nmfsync.exchange.hloc.write_hloc`.
        """
        _entered(FILE_FORMATS, "hloc").write(self, path, added, overwrite)


class PairwiseMatches(_MatchesOfImages):
    """Matches between pairs of images, in one sparse matrix.

    Parameters
    ----------
    W : sparse or dense array, shape (m, m)
        Block (i, j) holds the matches between image i and image j: 1, or the
        probability, in (0, 1], that the match is right. Symmetric; at most one
        match of a feature in every other image. The diagonal may be left out: it is set to 1.
    sizes : sequence of int, shape (k,)
        Number of features of every image; they add up to m.

    Attributes
    ----------
    W : scipy.sparse.csr_array of float64, shape (m, m)
        Unit diagonal, symmetric, indices sorted.
    descriptors : sequence of (n, 128) uint8 arrays, length k, or None
        Those of the features, if `match` made these matches. `save` does not keep them.
    scored : bool
        Whether the weights are scores of a matcher, which rise with the probability
        that a match is right: `synchronise` calibrates them. Other weights are
        probabilities.
    ratios : (n,) float32 array or None
        The distance ratio of every match p < q, in order of p, then q, if `match`
        made these matches.

    Raises
    ------
    NmfsyncError
        If W or `sizes` is not as described; the message names the first fault.
    """

    cycle_consistent: ClassVar[bool] = False
    descriptors: Sequence[NDArray[np.uint8]] | None = None
    scored: bool = False
    ratios: NDArray[np.float32] | None = None

    def __init__(self, W: Any, sizes: Sequence[int] | ArrayLike) -> None:
        self.sizes = _check_sizes(sizes)
        self.W = _check_matrix(_copy_matrix(W), self.sizes)

    def __repr__(self) -> str:
        return (
            f"PairwiseMatches({len(self.sizes):,} images, {self.W.shape[0]:,} features, "
            f"{self.match_count:,} matches)"
        )

    def _repr_html_(self) -> str:
        k = len(self.sizes)
        p, q = sparse.triu(self.W, k=1, format="coo").coords
        pairs = len(np.unique(self.image_of[p] * k + self.image_of[q]))
        facts = {
            "images": k,
            "features": self.W.shape[0],
            "matches": self.match_count,
            "image pairs with matches": f"{pairs:,} of {k * (k - 1) // 2:,}",
            "weights": "scores" if self.scored else "probabilities" if self.weighted else "none",
        }
        facts |= {"from": self.source.path} if self.source else {}
        return html_facts("PairwiseMatches", facts)

    @classmethod
    def from_entries(
        cls,
        p: ArrayLike,
        q: ArrayLike,
        sizes: Sequence[int] | ArrayLike,
        weights: ArrayLike | None = None,
    ) -> "PairwiseMatches":
        """Build W from matches that are listed once.

        Parameters
        ----------
        p, q : (n,) ints
            Matched features, counted through all images.
        sizes : (k,) ints
            Number of features of every image.
        weights : (n,) floats, optional
            In (0, 1]; by default 1.

        Returns
        -------
        PairwiseMatches

        Raises
        ------
        NmfsyncError
            As for the class.

        Examples
        --------
        >>> PairwiseMatches.from_entries([0], [2], sizes=[1, 1, 1]).W.toarray()
        array([[1., 0., 1.],
               [0., 1., 0.],
               [1., 0., 1.]])
        """
        p, q = _whole_numbers(p, "p"), _whole_numbers(q, "q")
        values = np.ones(len(p)) if weights is None else _real_numbers(weights, "weights")
        if not len(p) == len(q) == len(values):
            raise NmfsyncError(
                f"p, q and weights must have one length, not {len(p)}, {len(q)} and {len(values)}"
            )
        sizes = _check_sizes(sizes)
        m = int(sizes.sum())
        if len(p) and not 0 <= min(p.min(), q.min()) <= max(p.max(), q.max()) < m:
            raise NmfsyncError(f"features must be numbers from 0 to {m - 1}")
        p, q = p.astype(np.int32), q.astype(np.int32)
        matches = cls.__new__(cls)  # without a copy of W
        matches.sizes, matches.W = sizes, _check_matrix(_symmetric_matrix(p, q, values, m), sizes)
        return matches

    @classmethod
    def from_pairs(
        cls,
        pairs: Mapping[tuple[int, int], ArrayLike],
        sizes: Sequence[int] | ArrayLike,
        weights: Mapping[tuple[int, int], ArrayLike] | None = None,
    ) -> "PairwiseMatches":
        """Build W from the matches of every pair of images.

        Parameters
        ----------
        pairs : dict of (int, int) to array
            For images (i, j), counted from 0, either an (n, 2) int array of matches, a feature of
            image i and a feature of image j; or an (m_i,) int array with the match in image j of
            every feature of image i, -1 for none, as `matches0` of hloc and LightGlue. Features
            are counted from 0 in each image. Of (i, j) and (j, i), one may be given.
        sizes : (k,) ints
            Number of features of every image.
        weights : dict of (int, int) to array, optional
            For every one of these pairs the weights of its matches in (0, 1], (n,) or (m_i,)
            floats; weights of features without a match do not count. By default 1.

        Returns
        -------
        PairwiseMatches

        Raises
        ------
        NmfsyncError
            If a pair cannot be used; the message names it.

        Examples
        --------
        >>> one = PairwiseMatches.from_pairs({(0, 1): [[0, 0], [1, 2]]}, sizes=[2, 3])
        >>> same = PairwiseMatches.from_pairs({(0, 1): [0, 2]}, sizes=[2, 3])
        >>> one
        PairwiseMatches(2 images, 5 features, 2 matches)
        >>> (one.W != same.W).nnz
        0
        """
        sizes = _check_sizes(sizes)
        if weights is not None and (unknown := weights.keys() - pairs.keys()):
            raise NmfsyncError(f"weights of a pair without matches: {shown(min(unknown, key=str))}")
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        parts: dict[tuple[int, int], tuple[IntArray, FloatArray]] = {}
        for key, given in pairs.items():
            i, j = _check_images(key, len(sizes))
            if (i, j) in parts or (j, i) in parts:
                raise NmfsyncError(f"images {i} and {j}: given twice, as ({i}, {j}) and ({j}, {i})")
            try:
                own = None if weights is None else weights[key]
                rows, values = _matches_of_pair(given, own, sizes[i], sizes[j])
            except KeyError:
                raise NmfsyncError(f"images {i} and {j}: weights are missing") from None
            except NmfsyncError as error:
                raise NmfsyncError(f"images {i} and {j}: {error}") from None
            parts[i, j] = (rows + offsets[[i, j]], values)
        p, q = np.concatenate([np.empty((0, 2), np.int64), *(r for r, _ in parts.values())]).T
        values = np.concatenate([np.empty(0), *(v for _, v in parts.values())])
        return cls.from_entries(p, q, sizes, values)

    @property
    def weighted(self) -> bool:
        """Whether the weights tell matches apart: two of them differ.

        Matches that all have the same weight are as good as 0/1 matches.
        """
        least = self.W.data.min(initial=1.0)
        if least == 1:
            return False
        return bool(np.count_nonzero(self.W.data == least) < self.W.nnz - self.W.shape[0])

    def unweighted(self) -> "PairwiseMatches":
        """Return the same matches, each with the weight 1."""
        if np.all(self.W.data == 1):
            return self
        W = self.W.copy()
        W.data[:] = 1.0
        return self.with_matrix(W)

    def at_least(self, probability: float) -> "PairwiseMatches":
        """Return the matches whose weight is not smaller."""
        if probability <= 0:
            return self
        W = self.W.copy()
        W.data[W.data < probability] = 0
        return self.with_matrix(W)

    def without_image_pairs(self, pairs: Collection[tuple[int, int]]) -> "PairwiseMatches":
        """Return the matches that are not between these pairs of images (i, j)."""
        k = len(self.sizes)
        listed = [(i, j) for a, b in pairs for i, j in ((a, b), (b, a))]
        codes = np.array([i * k + j for i, j in listed], np.int64)
        W = self.W.tocoo()
        image_of = self.image_of
        kept = ~np.isin(image_of[W.row] * k + image_of[W.col], codes)
        parts = (W.data[kept], (W.row[kept], W.col[kept]))
        return self.with_matrix(sparse.csr_array(parts, shape=W.shape))

    def with_matrix(self, W: Any) -> "PairwiseMatches":
        """Return other matches of the same features, with the origin of these."""
        return PairwiseMatches(W, self.sizes).with_origin_of(self)

    def contracted(self) -> "PairwiseMatches":
        """Return the matches of the features that stand for near-duplicates.

        Two of them match with the largest weight of the matches between those that they stand
        for. If one then has several matches in an image, that of the largest weight is kept, then
        the one that most matches say. Near-duplicates have no match left.
        """
        if self.duplicate_of is None:
            return self
        above = sparse.triu(self.W, k=1, format="coo")
        p, q = np.sort(self.duplicate_of[np.stack(above.coords)], axis=0)
        m, k, image_of = self.W.shape[0], len(self.sizes), self.image_of
        p, q, weight = strongest_first(p, q, above.data, m)
        kept = first_compatible(p * k + image_of[q], q * k + image_of[p])
        result = PairwiseMatches.from_entries(p[kept], q[kept], self.sizes, weight[kept])
        result.with_origin_of(self).duplicate_of = None
        return result

    def with_origin_of(self, matches: "Matches") -> "PairwiseMatches":
        """Take over from other matches where they come from; return these."""
        self.source, self.input_matches = matches.source, matches.input_matches
        self.settings, self.duplicate_of = matches.settings, matches.duplicate_of
        self.verified = matches.verified
        if isinstance(matches, PairwiseMatches):
            self.descriptors, self.scored = matches.descriptors, matches.scored
            self.ratios = _ratios_of(self, matches)
        return self

    def arrays(self) -> dict[str, Any]:
        """W and sizes as plain arrays, from which `from_arrays` makes the same again."""
        W = self.W
        arrays = {"data": W.data, "indices": W.indices, "indptr": W.indptr, "sizes": self.sizes}
        arrays |= {"scored": np.array(True)} if self.scored else {}
        arrays |= {"verified": np.array(True)} if self.verified else {}
        arrays |= {} if self.duplicate_of is None else {"duplicate_of": self.duplicate_of}
        return arrays | ({} if self.ratios is None else {"ratios": self.ratios})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> "PairwiseMatches":
        """Inverse of `arrays`; raises NmfsyncError if they do not make a valid W.

        The arrays of a `MultiMatching` give all of its matches.
        """
        if "universe" in arrays and "data" not in arrays:
            matching = MultiMatching(arrays["universe"], arrays.get("sizes", ()))
            matches = cls(matching.W, matching.sizes)
            matches.duplicate_of = _check_duplicates(arrays, matches.sizes)
            return matches
        for name in ("data", "indices", "indptr", "sizes"):
            if name not in arrays:
                raise NmfsyncError(
                    f"array {name!r} is missing; write the file with PairwiseMatches.save"
                )
        data = _real_numbers(arrays["data"], "data")
        indices, indptr = (_whole_numbers(arrays[name], name) for name in ("indices", "indptr"))
        m = len(indptr) - 1
        try:
            W = sparse.csr_array((data, indices, indptr), shape=(m, m))
            W.check_format()
        except (TypeError, ValueError) as error:
            raise NmfsyncError(f"data, indices and indptr are not a CSR matrix ({error})") from None
        matches = cls(W, arrays["sizes"])
        matches.scored = bool(np.any(arrays.get("scored", False)))
        matches.verified = bool(np.any(arrays.get("verified", False)))
        matches.ratios = _check_ratios(arrays["ratios"], matches) if "ratios" in arrays else None
        matches.duplicate_of = _check_duplicates(arrays, matches.sizes)
        return matches

    @classmethod
    def load(cls, path: Path | str) -> "PairwiseMatches":
        """Read the W and the sizes that `save` wrote.

        Of a `MultiMatching`, `save` writes `universe` and `sizes` only; W is made from these.

        Raises
        ------
        NmfsyncError
            If the file is missing, is not such a file, or its W is not valid or does not fit
            into memory.
        """
        with reading(path, "not a matches file; write it with PairwiseMatches.save"):
            return cls.from_arrays(read_arrays(Path(path)))

    @classmethod
    def from_colmap(cls, path: Path | str, verified: bool | None = None) -> "PairwiseMatches":
        """Read the matches of a COLMAP database; see `nmfsync.exchange.colmap.read_colmap`."""
        return _entered(FILE_FORMATS, "colmap").read(path, verified)

    @classmethod
    def from_hloc(cls, matches_path: Path | str, features_path: Path | str) -> "PairwiseMatches":
        """Read matches and features of hloc; see `nmfsync.exchange.hloc.read_hloc`."""
        return _entered(FILE_FORMATS, "hloc").read(matches_path, features_path)


class MultiMatching(_MatchesOfImages):
    """Cycle-consistent matches: every feature shows one universe feature.

    Two features match exactly if they show the same universe feature, so that
    W = UUᵀ for the 0/1 matrix U (m × d) and every cycle of matches agrees.

    Parameters
    ----------
    universe : sequence of int, shape (m,)
        The universe feature of every feature. The numbers mean nothing: they
        are replaced by 0, 1, 2 … in order of first appearance.
    sizes : sequence of int, shape (k,)
        Number of features of every image; they add up to m.

    Attributes
    ----------
    universe : (m,) int array

    Raises
    ------
    NmfsyncError
        If the lengths disagree or two features of one image share a universe
        feature.
    """

    universe: IntArray
    cycle_consistent: ClassVar[bool] = True

    def __init__(self, universe: ArrayLike, sizes: Sequence[int] | ArrayLike) -> None:
        self.sizes = _check_sizes(sizes)
        m = self.sizes.sum()
        labels = _whole_numbers(universe, "universe")
        if labels.shape != (m,):
            raise NmfsyncError(f"universe has shape {labels.shape}, but the sizes add up to {m}")
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        self.universe = rank[inverse]
        order = np.lexsort((self.image_of, self.universe))
        same = (np.diff(self.universe[order]) == 0) & (np.diff(self.image_of[order]) == 0)
        if same.any():
            p, q = order[np.argmax(same)], order[np.argmax(same) + 1]
            raise NmfsyncError(
                f"features {min(p, q)} and {max(p, q)} of image {self.image_of[p]} "
                "share a universe feature"
            )

    def __repr__(self) -> str:
        return (
            f"MultiMatching({len(self.sizes):,} images, {len(self.universe):,} features, "
            f"{self.universe_size:,} universe features)"
        )

    def _repr_html_(self) -> str:
        lengths = np.bincount(self.universe, minlength=1)
        facts = {
            "images": len(self.sizes),
            "features": len(self.universe),
            "tracks": int((lengths > 1).sum()),
            "features in tracks": int(lengths[lengths > 1].sum()),
            "longest track": int(lengths.max()) if len(self.universe) else 0,
            "matches": self.match_count,
        }
        return html_facts("MultiMatching", facts)

    @property
    def universe_size(self) -> int:
        """Number d of universe features, those seen only once included."""
        return int(self.universe.max(initial=-1)) + 1

    @property
    def universe_of_stand_ins(self) -> IntArray:
        """(m,) ints: `universe`, but a near-duplicate has that of the feature it counts as."""
        stands = self.duplicate_of
        return self.universe if stands is None else self.universe[stands]

    @property
    def U(self) -> sparse.csr_array:
        """Sparse 0/1 array (m, d): feature p shows universe feature c."""
        m = len(self.universe)
        # SciPy makes a W of large indices from large ones.
        parts = (np.ones(m), self.universe.astype(np.int32), np.arange(m + 1, dtype=np.int32))
        return sparse.csr_array(parts, shape=(m, self.universe_size))

    @property
    def match_count(self) -> int:
        """Number of matches between images, each counted once; this does not make W."""
        lengths = np.bincount(self.universe)
        return int((lengths * (lengths - 1)).sum() // 2)

    @cached_property
    def W(self) -> sparse.csr_array:
        """Sparse 0/1 array (m, m), W = UUᵀ: every match, and the unit diagonal.

        A track of n features has n² entries, so long tracks may not fit into memory.

        Raises
        ------
        TooLargeError
            If W does not fit into memory.
        """
        needed = ENTRY * (2 * self.match_count + len(self.universe))
        available = psutil.virtual_memory().available
        if needed > 0.9 * available:
            raise TooLargeError(
                f"W of {self.match_count:,} matches needs about {needed / 1e9:,.0f} GB, but "
                f"{available / 1e9:,.0f} GB are free: long tracks have very many matches; use "
                "`universe` or `tracks()`, or only the matches of the input (added: none)"
            )
        U = self.U
        W = (U @ U.T).tocsr()
        W.sort_indices()
        return W

    def arrays(self) -> dict[str, Any]:
        """Universe and sizes, which W follows from, and `duplicate_of` if it is known."""
        marks = {} if self.duplicate_of is None else {"duplicate_of": self.duplicate_of}
        return {"universe": self.universe, "sizes": self.sizes, **marks}

    def keeps(self, matches: "PairwiseMatches") -> BoolArray:
        """Say which entries of the W of other matches of the same features this contains.

        A near-duplicate counts as the feature that stands for it.

        Returns
        -------
        (n,) bool array
            In the order of `matches.W.data`, the diagonal included.
        """
        track = self.universe_of_stand_ins
        p = np.repeat(np.arange(len(track)), np.diff(matches.W.indptr))
        return np.asarray(track[p] == track[matches.W.indices])

    def kept_of(self, matches: "PairwiseMatches") -> "PairwiseMatches":
        """Return those of other matches of the same features that this contains; their weight is 1.

        W of this is not needed.
        """
        W = matches.W.copy()
        W.data = self.keeps(matches).astype(np.float64)
        return PairwiseMatches(W, self.sizes)

    def tracks(self) -> list[IntArray]:
        """Universe features seen in at least two images.

        Returns
        -------
        list of (n, 2) int arrays
            One array a track, in order of universe feature: rows (image,
            feature within the image), in order of image.
        """
        order = np.argsort(self.universe, kind="stable")
        image = self.image_of[order]
        members = np.column_stack([image, order - self.offsets[image]])
        ends = np.cumsum(np.bincount(self.universe, minlength=self.universe_size))
        return [track for track in np.split(members, ends[:-1]) if len(track) > 1]

    def to_dataframe(
        self,
        names: Sequence[str] | None = None,
        xy: Sequence[AnyArray] | None = None,
        precision: FloatArray | None = None,
    ) -> Any:
        """Return the tracks as a pandas DataFrame with the columns of `tracks.csv`.

        This needs pandas: ``pip install 'nmfsync[pandas]'``.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the images; by default those of their source, or else their numbers.
        xy : sequence of (n_i, 2) arrays, optional
            Positions of the features of every image in pixels; by default those of their source,
            or else NaN.
        precision : (d,) float64 array, optional
            The estimated precision of every universe feature, from
            `evaluation.precision_by_track`; NaN otherwise.

        Returns
        -------
        pandas.DataFrame
            One row for every feature of every track, in the order of `tracks`: track, image,
            feature, x, y, estimated_precision.

        Raises
        ------
        NmfsyncError
            If pandas is missing, or `names` or `xy` are not of these images.
        """
        return _entered(DATAFRAMES, "tracks")(self, names, xy, precision)


Matches = PairwiseMatches | MultiMatching


def matches_from_arrays(arrays: Mapping[str, Any]) -> Matches:
    """Inverse of `arrays` of either class."""
    if "universe" in arrays:
        matching = MultiMatching(arrays["universe"], arrays["sizes"])
        matching.duplicate_of = _check_duplicates(arrays, matching.sizes)
        return matching
    return PairwiseMatches.from_arrays(arrays)


def _check_images(key: Any, k: int) -> tuple[int, int]:
    """Return the two images that a key names."""
    if not (isinstance(key, tuple) and len(key) == 2):
        raise NmfsyncError(f"a pair must be two images (i, j), got {shown(key)}")
    i, j = key
    if not all(isinstance(n, int | np.integer) and 0 <= n < k for n in key) or i == j:
        raise NmfsyncError(
            f"a pair must be two different images from 0 to {k - 1}, got {shown(key)}"
        )
    return int(i), int(j)


def _matches_of_pair(
    given: ArrayLike, weights: ArrayLike | None, size_i: int, size_j: int
) -> tuple[IntArray, FloatArray]:
    """Return the matches (n, 2) of two images in either form, and their weights (n,)."""
    array = _numbers_of_pair(given, size_i)
    values = np.ones(len(array)) if weights is None else _real_numbers(weights, "weights")
    if len(values) != len(array):
        raise NmfsyncError(f"there must be {len(array)} weights, got {len(values)}")
    if array.ndim == 1:
        matched = np.flatnonzero(array != -1)
        array, values = np.column_stack([matched, array[matched]]), values[matched]
    if not np.all((values > 0) & (values <= 1)):
        raise NmfsyncError("weights must be larger than 0 and at most 1")
    for column, size, which in ((array[:, 0], size_i, "first"), (array[:, 1], size_j, "second")):
        outside = (column < 0) | (column >= size)
        if outside.any():
            raise NmfsyncError(
                f"the {which} image has the features 0 to {size - 1}, got {column[outside][0]}"
            )
        number, count = np.unique(column, return_counts=True)
        if np.any(count > 1):
            raise NmfsyncError(f"feature {number[count > 1][0]} of the {which} image matches twice")
    return array, values.astype(np.float64)


def _numbers_of_pair(given: ArrayLike, size: int) -> IntArray:
    """Return the whole numbers (n, 2) or (size,) of the matches of two images."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        raise NmfsyncError("the rows of matches have different lengths") from None
    if array.size == 0 and array.ndim in (1, 2):
        return np.empty((0, 2), np.int64)
    if array.shape != (size,) and (array.ndim != 2 or array.shape[1] != 2):
        raise NmfsyncError(
            f"matches must be an array (n, 2), or ({size},) with -1 for none, not {array.shape}"
        )
    return _whole_numbers(array.ravel(), "matches").reshape(array.shape)


def _upper_entries(W: sparse.csr_array) -> IntArray:
    """P · m + q of every entry p < q of W, ascending."""
    upper = sparse.triu(W, k=1, format="csr")
    p = np.repeat(np.arange(W.shape[0]), np.diff(upper.indptr))
    return np.asarray(p * W.shape[0] + upper.indices)


def _ratios_of(matches: PairwiseMatches, origin: PairwiseMatches) -> NDArray[np.float32] | None:
    """Ratios that other matches of the same features know, if they know all of these."""
    if origin.ratios is None:
        return None
    if np.array_equal(origin.W.indices, matches.W.indices) and np.array_equal(
        origin.W.indptr, matches.W.indptr
    ):
        return origin.ratios
    known, wanted = _upper_entries(origin.W), _upper_entries(matches.W)
    return origin.ratios[np.isin(known, wanted)] if np.isin(wanted, known).all() else None


def _check_ratios(ratios: Any, matches: PairwiseMatches) -> NDArray[np.float32]:
    ratios = np.asarray(ratios)
    count = (matches.W.nnz - matches.W.shape[0]) // 2
    if ratios.shape != (count,) or ratios.dtype.kind != "f" or not np.isfinite(ratios).all():
        raise NmfsyncError(f"ratios must be {count} numbers, one for each match")
    return np.asarray(ratios, dtype=np.float32)


def _check_duplicates(arrays: Mapping[str, Any], sizes: IntArray) -> IntArray | None:
    """Return the stand-ins of a file, None if it has none."""
    if "duplicate_of" not in arrays:
        return None
    stands = _whole_numbers(arrays["duplicate_of"], "duplicate_of")
    m, image_of = int(sizes.sum()), np.repeat(np.arange(len(sizes)), sizes)
    inside = stands.shape == (m,) and bool(np.all((stands >= 0) & (stands < m)))
    same_image = inside and np.array_equal(image_of[stands], image_of)
    if not same_image or not np.array_equal(stands[stands], stands):
        raise NmfsyncError(
            f"duplicate_of must be {m} features, each of the same image, that stand for themselves"
        )
    return stands


def strongest_first(
    p: IntArray, q: IntArray, weight: FloatArray, m: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return every match p–q once, with its largest weight; those of the largest weight first.

    Of equal ones those that are listed most often come first, then in order of p, then q.

    Parameters
    ----------
    p, q : (n,) int64 arrays
        Features below m.
    weight : (n,) float64 array
    m : int
    """
    pairs, place, count = np.unique(p * m + q, return_inverse=True, return_counts=True)
    most = np.zeros(len(pairs))
    np.maximum.at(most, place, weight)
    order = np.lexsort((-count, -most))
    p, q = np.divmod(pairs[order], m)
    return p, q, most[order]


def first_compatible(a: IntArray, b: IntArray) -> IntArray:
    """Places of the rows to keep, first come first served, so that no a and no b repeats."""
    free = (np.bincount(_ranks(a))[_ranks(a)] == 1) & (np.bincount(_ranks(b))[_ranks(b)] == 1)
    taken_a: set[int] = set()
    taken_b: set[int] = set()
    keep = free.copy()
    contested = np.flatnonzero(~free)
    for at, x, y in zip(
        contested.tolist(), a[contested].tolist(), b[contested].tolist(), strict=True
    ):
        if x not in taken_a and y not in taken_b:
            taken_a.add(x)
            taken_b.add(y)
            keep[at] = True
    return np.flatnonzero(keep)


def _ranks(values: IntArray) -> IntArray:
    return np.unique(values, return_inverse=True)[1]


def _symmetric_matrix(p: IntArray, q: IntArray, weights: FloatArray, m: int) -> sparse.csr_array:
    """W (m, m) with unit diagonal; a function, so that its large arrays are gone afterwards."""
    # SciPy would make these from larger numbers.
    row, column = np.empty((2, 2 * len(p) + m), np.int32)
    data = np.ones(len(row))
    for start, a, b in ((0, p, q), (len(p), q, p)):
        part = slice(start, start + len(p))
        row[part], column[part], data[part] = a, b, weights
    row[2 * len(p) :] = column[2 * len(p) :] = np.arange(m)
    return sparse.csr_array((data, (row, column)), shape=(m, m))


def read_arrays(path: Path) -> dict[str, AnyArray]:
    """Read the arrays of an `.npz` file whose sizes agree with what their headers claim."""
    with ZipFile(path) as file:
        check_memory(sum(member.file_size for member in file.infolist()))
        for member in file.infolist():
            with ONE_PARSER, file.open(member) as stream:
                _check_header(stream, member.filename, member.file_size)
    with ONE_PARSER, np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _check_header(stream: IO[bytes], name: str, size: int) -> None:
    """Raise NmfsyncError if a stored array claims to be larger than it is."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize > size:
        raise NmfsyncError(
            f"{shown(name)} is no array of numbers; write the file with PairwiseMatches.save"
        )


def _real_numbers(values: Any, name: str) -> AnyArray:
    """Return a list of real numbers as an array (n,)."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # lists of different lengths
        array = np.empty(0, object)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise NmfsyncError(f"{name} must be a list of numbers")
    return array


def _whole_numbers(values: Any, name: str) -> IntArray:
    """Return a list of whole numbers as an array (n,)."""
    array = _real_numbers(values, name)
    fits = array.dtype.kind != "b" and np.all((array >= -(2**63)) & (array < 2**63))
    if not fits or (array.dtype.kind == "f" and np.any(array != np.floor(array))):
        raise NmfsyncError(f"{name} must be whole numbers")
    return array.astype(np.int64)


def _check_sizes(sizes: Any) -> IntArray:
    array = _whole_numbers(sizes, "sizes")
    if len(array) == 0:
        raise NmfsyncError("sizes must be a list with the number of features of every image")
    if array.min() < 0:
        raise NmfsyncError(f"sizes must not be negative: image {array.argmin()} has {array.min()}")
    if (m := sum(array.tolist())) > _MOST_FEATURES:
        raise NmfsyncError(
            f"sizes add up to {m:,} features; at most {_MOST_FEATURES:,} can be used"
        )
    check_memory(_BYTES_OF_A_FEATURE * m)
    return array


def _copy_matrix(W: Any) -> sparse.csr_array:
    """Return a copy of W in CSR form; its numbers must be real, and all its indices inside it."""
    try:
        W = W.copy() if sparse.issparse(W) else np.asarray(W)
        if W.ndim != 2 or W.dtype.kind not in "biuf":
            raise TypeError(f"it has {W.ndim} dimensions and values of type {W.dtype}")
        if hasattr(W, "check_format"):
            W.check_format()
        # The conversion of a COO matrix does not look at its indices.
        for indices, length in zip(getattr(W, "coords", ()), W.shape, strict=False):
            if len(indices) and not 0 <= indices.min() <= indices.max() < length:
                raise ValueError("it has an index outside its shape")
        return sparse.csr_array(W, dtype=np.float64)
    except MemoryError:
        raise
    except Exception as error:
        raise NmfsyncError(f"W must be a matrix of numbers ({shown(error, 200)})") from None


def _check_matrix(W: sparse.csr_array, sizes: IntArray) -> sparse.csr_array:
    """W, changed in place, as the class promises it, or an error that names the first fault."""
    m = int(sizes.sum())
    if W.shape[0] != W.shape[1]:
        raise NmfsyncError(f"W must be square, not {W.shape[0]} × {W.shape[1]}")
    if W.shape[0] != m:
        raise NmfsyncError(f"W is {W.shape[0]} × {W.shape[0]}, but the sizes add up to {m}")
    W.sum_duplicates()
    if not np.isfinite(W.data).all():
        raise NmfsyncError("W holds NaN or infinite values")
    if len(W.data) and (W.data.min() < 0 or W.data.max() > 1):
        raise NmfsyncError("the values of W must lie between 0 and 1")
    entries = W.nnz
    W.setdiag(1.0)
    if W.nnz > entries:
        W.has_sorted_indices = False  # SciPy before 1.17 does not say so of what it inserts
    W.eliminate_zeros()
    W.sort_indices()
    image_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    for rows, columns in _by_blocks(W):
        inside = (image_of[rows] == image_of[columns]) & (rows != columns)
        if inside.any():
            p, q = rows[inside][0], columns[inside][0]
            raise NmfsyncError(f"features {p} and {q} match, but both are in image {image_of[p]}")
    _check_symmetry(W)
    for rows, columns in _by_blocks(W):
        # Indices are sorted, so two matches of a row in one image stand side by side.
        twice = (np.diff(image_of[columns]) == 0) & (np.diff(rows) == 0)
        if twice.any():
            at = np.argmax(twice)
            p, image = rows[at], image_of[columns[at]]
            raise NmfsyncError(
                f"feature {p} has two matches in image {image}; "
                "at most one is allowed in every image"
            )
    return W


def _by_blocks(W: sparse.csr_array) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows and columns (n,) of the entries of W, some features at a time."""
    m = W.shape[0]
    for start in range(0, m, FEATURES_AT_A_TIME):
        stop = min(start + FEATURES_AT_A_TIME, m)
        entries = slice(W.indptr[start], W.indptr[stop])
        rows = np.repeat(np.arange(start, stop), np.diff(W.indptr[start : stop + 1]))
        yield rows, W.indices[entries]


def _check_symmetry(W: sparse.csr_array) -> None:
    """Raise NmfsyncError, which names a place, if W, with sorted indices, is not symmetric."""
    other = W.T.tocsr()  # sorted, too
    parts = ("indptr", "indices", "data")
    if all(np.array_equal(getattr(W, part), getattr(other, part)) for part in parts):
        return
    asymmetric = (W - other).tocoo()
    at = np.flatnonzero(asymmetric.data)[0]
    p, q = asymmetric.row[at], asymmetric.col[at]
    raise NmfsyncError(f"W is not symmetric at features {p} and {q}; use (W + W.T) / 2")
