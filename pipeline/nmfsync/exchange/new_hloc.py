"""New files of hloc: features, matches, and the list of the pairs of images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmfsync.errors import NmfsyncError, shown
from nmfsync.exchange.hloc import create_block, flat_names, new_key
from nmfsync.exchange.new_database import NewImage, check_images
from nmfsync.runtime.extras import optional
from nmfsync.runtime.files import check_target, put, staging, writing
from nmfsync.types.matches import PairwiseMatches

FEATURES, MATCHES, PAIRS = HLOC_FILES = ("features.h5", "matches.h5", "pairs.txt")


def write_new_hloc(
    folder: Path | str,
    images: Sequence[NewImage],
    matches: PairwiseMatches,
    overwrite: bool = False,
) -> None:
    """Write features.h5, matches.h5 and pairs.txt as hloc names and reads them.

    Needs `pip install 'nmfsync[hloc]'`.

    Parameters
    ----------
    folder : Path or str
        It is made if it does not exist.
    images : sequence of NewImage
        In the order of the matches.
    matches : PairwiseMatches
        Their weights become scores.
    overwrite : bool
        Replace these files in the folder if they exist.

    Raises
    ------
    NmfsyncError
        If hloc cannot tell the names of the images apart, images and matches do not belong
        together, or a file exists or cannot be written.
    """
    folder = Path(folder)
    for name in HLOC_FILES:
        check_target(folder / name, [], overwrite)
    check_images(images, matches)
    names = tuple(image.name for image in images)
    check_hloc_names(names)
    h5py = optional("h5py", "hloc")
    blocks = list(matches.by_image_pair())
    with staging(folder / MATCHES) as new, writing(folder):
        with h5py.File(new / FEATURES, "w") as file:
            for image in images:
                _write_features(file.create_group(image.name), image)
        with h5py.File(new / MATCHES, "w") as file:
            for block in blocks:
                key = new_key(names[block.i], names[block.j])
                size = int(matches.sizes[block.i])
                create_block(file.create_group(key), block, size, block.weights)
        lines = "".join(f"{names[b.i]} {names[b.j]}\n" for b in blocks)
        (new / PAIRS).write_text(lines, encoding="utf-8")
        for name in HLOC_FILES:
            put(new / name, folder / name)


def check_hloc_names(names: Sequence[str]) -> None:
    """Raise NmfsyncError if files of hloc cannot tell images with these names apart."""
    flat_names(tuple(names))
    for name in names:
        if name != "".join(name.split()):
            raise NmfsyncError(
                f"hloc's list of pairs cannot name {shown(name)}, which has a space; rename it"
            )
        try:
            name.encode()
        except UnicodeEncodeError:
            raise NmfsyncError(
                f"hloc cannot name {shown(name)}, which is no text in UTF-8"
            ) from None


def _write_features(group: Any, image: NewImage) -> None:
    keypoints = image.keypoints
    group.create_dataset("keypoints", data=keypoints.xy.astype(np.float32))
    group.create_dataset("scales", data=keypoints.scale / 2)  # SIFT's σ
    group.create_dataset("oris", data=np.nan_to_num(keypoints.orientation))
    group.create_dataset("image_size", data=np.array(image.size))
    if image.descriptors is not None:
        # hloc stores a descriptor a column, RootSIFT of length 1.
        values = image.descriptors.astype(np.float32)
        shares = values / np.maximum(values.sum(axis=1, keepdims=True), 1)
        group.create_dataset("descriptors", data=np.sqrt(shares).T)
