"""The viewer of a file of matches, with the photographs of a folder."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmfsync.errors import NmfsyncError, reason_of
from nmfsync.evaluation.confidence import Confidence
from nmfsync.exchange.photographs import Size, find_photographs, fit, misfit, turned
from nmfsync.report.photographs import ViewerImage
from nmfsync.report.viewer_data import Keypoints, viewer_data, viewer_json
from nmfsync.scenes.images import exif_orientation, look_at, read_stored
from nmfsync.types.matches import Matches, Source, StoredKeypoints

_MOST_NAMED = 5  # photographs that are left out

_Read = Callable[[], NDArray[np.uint8]]


class Photographs:
    """The photographs of the images of a source of matches, and what is wrong with them.

    Parameters
    ----------
    source : Source
    folder : Path, str or None
        Where the photographs are; None for nowhere.

    Raises
    ------
    NmfsyncError
        If the folder has none of them.
    """

    def __init__(self, source: Source, folder: Path | str | None) -> None:
        self.source = source
        self._files: dict[int, Path] = {}
        self._missing, self._faults = "", dict[int, str]()
        if folder is not None:
            self._files, self._missing = find_photographs(Path(folder), source.names)

    def images(self, keypoints: Sequence[StoredKeypoints]) -> list[ViewerImage]:
        """Return all images, each with its photograph if there is one that fits its features."""
        labels = short_names(self.source.names)
        return [
            ViewerImage(name, labels[n], *self._look_at(n, keypoints[n]))
            for n, name in enumerate(self.source.names)
        ]

    @property
    def warnings(self) -> list[str]:
        """What is missing, does not fit or, known once it is read, is damaged."""
        faults = [f"photograph left out: {text}" for _, text in sorted(self._faults.items())]
        more = len(faults) - _MOST_NAMED
        texts = [self._missing, *faults[:_MOST_NAMED]]
        texts += [f"{more:,} more photographs left out"] if more > 0 else []
        return [text for text in texts if text]

    def _look_at(self, n: int, keypoints: StoredKeypoints) -> tuple[Size, _Read | None]:
        if n in self._files:
            try:
                turn, size = _fitted(self._files[n], keypoints)
            except NmfsyncError as error:
                self._faults[n] = reason_of(error)
            else:
                return size, lambda: self._read(n, turn)
        return keypoints.image_size or _extent(keypoints), None

    def _read(self, n: int, turn: int) -> NDArray[np.uint8]:
        try:
            return turned(read_stored(self._files[n]), turn)
        except NmfsyncError as error:
            self._faults[n] = reason_of(error)
            raise


def viewer_of(
    photographs: Photographs,
    results: Mapping[str, Matches],
    confidences: Mapping[str, Confidence],
) -> str:
    """Return the JSON of the viewer of a file of matches.

    Parameters
    ----------
    photographs : Photographs
    results : dict of str to PairwiseMatches or MultiMatching
        "input", and one method.
    confidences : dict of str to Confidence
        Of both.
    """
    stored = photographs.source.keypoints()
    images = photographs.images(stored)
    keypoints = [Keypoints(k.xy, k.scale, k.orientation) for k in stored]
    return viewer_json(viewer_data(images, keypoints, results, list(results)[-1], confidences))


def short_names(names: Sequence[str]) -> list[str]:
    """Return the last parts of paths, without their endings, or the paths where these repeat."""
    stems = [Path(name).stem or name for name in names]
    return stems if len(set(stems)) == len(stems) else list(names)


def _fitted(path: Path, keypoints: StoredKeypoints) -> tuple[int, Size]:
    """Return how a photograph must be turned for its features, and the size that they are in."""
    file = look_at(path)
    fitted = fit(file.size, exif_orientation(path, file.sha256), keypoints)
    if fitted is None:
        raise NmfsyncError(f"{path}: {misfit(file.size, keypoints)}: is it another photograph?")
    return fitted


def _extent(keypoints: StoredKeypoints) -> Size:
    """Guess the size of an image from its features."""
    width, height = np.ceil(keypoints.xy.max(axis=0, initial=0)).astype(int) + 1
    return int(width), int(height)
