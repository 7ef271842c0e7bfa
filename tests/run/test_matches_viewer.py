"""The report of a file of matches shows them on photographs that are found by name."""

import base64
import io
import json
import re
import shutil
from itertools import combinations

import numpy as np
import pytest
from PIL import ExifTags, Image

from builders import contents
from faults.commands import without_times
from nmfsync import NmfsyncError, NmfsyncWarning, PairwiseMatches, synchronise_file

h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")

VIEWS = tuple(f"view{v}.jpg" for v in range(4))
N = 60  # features of an image; number n of each shows the same point


@pytest.fixture
def folder(tmp_path):
    """Files of hloc about four images, and their photographs, each with its own grey at left."""
    xy = np.random.default_rng(0).uniform([0, 0], [64, 48], (N, 2))
    with h5py.File(tmp_path / "features.h5", "w") as file:
        for name in VIEWS:
            file[f"{name}/keypoints"] = xy.astype(np.float32)
            file[f"{name}/image_size"] = [64, 48]
    with h5py.File(tmp_path / "in.h5", "w") as file:
        for a, b in combinations(VIEWS, 2):
            file[f"{a}/{b}/matches0"] = np.arange(N)
    (tmp_path / "photographs").mkdir()
    for n, name in enumerate(VIEWS):
        pixels = np.zeros((48, 64, 3), np.uint8)
        pixels[:, :32] = 60 * n
        Image.fromarray(pixels).save(tmp_path / "photographs" / name)
    return tmp_path


def viewer_of(folder, **options):
    """Synchronise the matches; return the data of the page's viewer."""
    done = synchronise_file(
        folder / "in.h5", folder / "out.h5", folder / "features.h5",
        images=folder / "photographs", **options,
    )  # fmt: skip
    page = done.report.read_text()
    return json.loads(re.search(r'id="viewer-data">(.*?)</script>', page, re.DOTALL)[1])


def pixels_of(image):
    data = image["source"].removeprefix("data:image/jpeg;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_shows_every_image_on_its_photograph(folder):
    before = contents(folder / "photographs")
    data = viewer_of(folder)
    assert contents(folder / "photographs") == before
    assert [image["name"] for image in data["images"]] == list(VIEWS)
    assert [image["label"] for image in data["images"]] == ["view0", "view1", "view2", "view3"]
    assert {(image["width"], image["height"]) for image in data["images"]} == {(64, 48)}
    greys = [pixels_of(image)[20, 5, 0] for image in data["images"]]
    assert np.abs(np.subtract(greys, [0, 60, 120, 180])).max() < 3
    assert [method["key"] for method in data["methods"]] == ["input", "clustersync"]
    assert data["tracks"] == "clustersync"


def test_what_is_wrong_with_a_photograph_is_said_and_the_others_are_shown(folder):
    photographs = folder / "photographs"
    (photographs / "view0.jpg").rename(photographs / "view_0.jpg")
    content = (photographs / "view1.jpg").read_bytes()
    (photographs / "view1.jpg").write_bytes(content[: len(content) // 2])
    Image.new("RGB", (64, 64)).save(photographs / "view2.jpg")
    with pytest.warns(NmfsyncWarning) as caught:
        data = viewer_of(folder)
    missing, damaged, other, *_ = (str(w.message) for w in caught)
    assert "no photograph of 1 of 4 images: view0.jpg (did you mean view_0.jpg" in missing
    assert "view1.jpg: is damaged" in damaged
    assert "view2.jpg: has 64 × 64 pixels, but its features are of an image of 64 × 48" in other
    page = (folder / "out.h5.report.html").read_text()
    assert "did you mean view_0.jpg" in page
    assert [bool(image["source"]) for image in data["images"]] == [False, False, False, True]
    assert {(image["width"], image["height"]) for image in data["images"]} == {(64, 48)}


def test_a_smaller_photograph_has_the_size_of_the_image(folder):
    Image.new("RGB", (32, 24)).save(folder / "photographs" / "view0.jpg")
    image = viewer_of(folder)["images"][0]
    assert (image["width"], image["height"]) == (64, 48)
    assert pixels_of(image).shape == (24, 32, 3)


@pytest.mark.parametrize(("size", "shape"), [((64, 48), (48, 64, 3)), ((48, 64), (64, 48, 3))])
def test_a_photograph_is_turned_if_it_was_for_its_features(folder, size, shape):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    path = folder / "photographs" / "view3.jpg"
    Image.open(path).save(path, exif=exif)
    with h5py.File(folder / "features.h5", "r+") as file:
        file["view3.jpg/image_size"][:] = size
        file["view3.jpg/keypoints"][:] = 5
    image = viewer_of(folder)["images"][3]
    assert (image["width"], image["height"]) == size
    assert pixels_of(image).shape == shape


def test_without_any_of_the_images_nothing_is_written(folder):
    shutil.rmtree(folder / "photographs")
    (folder / "photographs").mkdir()
    with pytest.raises(NmfsyncError, match=r"photographs: has none of the 4 images.*view0.jpg"):
        viewer_of(folder)
    assert not (folder / "out.h5").exists()


def test_matches_without_positions_are_refused(folder):
    PairwiseMatches.from_entries([0], [1], [1, 1]).save(folder / "in.npz")
    with pytest.raises(NmfsyncError, match=r"in.npz: .*no positions.*--images"):
        synchronise_file(folder / "in.npz", folder / "out.npz", images=folder / "photographs")


def test_the_same_page_every_time(folder):
    viewer_of(folder)
    first = without_times(folder / "out.h5.report.html")
    viewer_of(folder, overwrite=True)
    assert without_times(folder / "out.h5.report.html") == first
