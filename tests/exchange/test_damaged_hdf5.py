"""HDF5 files that are damaged or hostile: one line, or the right matches."""

import re

import numpy as np
import pytest
from hypothesis import given, settings

import strategies
from builders import NO_FILES, contents, no_file, result_or_line
from nmfsync import NmfsyncError, PairwiseMatches

h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")

SIZES = {"a.jpg": 5, "b.jpg": 4, "sub/c.jpg": 6}


def write_features(path, keypoints=None):
    """Write keypoints of three images; `keypoints` takes the place of those of b.jpg."""
    with h5py.File(path, "w") as file:
        for name, n in SIZES.items():
            values = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
            if name != "b.jpg" or keypoints is None:
                file[f"{name}/keypoints"] = values
            else:
                keypoints(file.create_group(name), "keypoints")
    return path


def write_matches(path, matches=None, scores=None):
    """Write matches of two pairs; the arguments take the place of those of a.jpg and b.jpg."""
    with h5py.File(path, "w") as file:
        file["a.jpg/sub-c.jpg/matches0"] = np.array([3, -1, -1, 0, -1], np.int16)
        group = file.create_group("a.jpg/b.jpg")
        if matches is None:
            group["matches0"] = np.array([0, -1, 3, -1, -1], np.int16)
        else:
            matches(group, "matches0")
        if scores is not None:
            scores(group, "matching_scores0")
    return path


@pytest.fixture
def files(tmp_path):
    return write_matches(tmp_path / "matches.h5"), write_features(tmp_path / "features.h5")


def values(array):
    return lambda group, name: group.create_dataset(name, data=array)


def far_away(shape, **options):
    return lambda group, name: group.create_dataset(name, shape, "f4", **options)


def external(group, name):
    group.create_dataset(name, (4, 2), "f4", external=[("secret", 0, 32)])


def virtual(group, name):
    layout = h5py.VirtualLayout((4, 2), "f4")
    layout[:] = h5py.VirtualSource("secret.h5", "x", (4, 2))
    group.create_virtual_dataset(name, layout)


def linked(link):
    def write(group, name):
        group[name] = link

    return write


def circle(group, name):
    group[name] = group


NO_KEYPOINTS = {
    "text": values("some text"),
    "texts": values(np.array([[b"a", b"b"]] * 4)),
    "objects": values(np.array([["ä", "b"]] * 4, h5py.string_dtype())),
    "complex": values(np.ones((4, 2), np.complex64)),
    "compound": values(np.zeros((4, 2), [("x", "f4"), ("y", "f4")])),
    "truth values": values(np.ones((4, 2), bool)),
    "references": lambda group, name: group.create_dataset(name, (4, 2), h5py.ref_dtype),
    "lists": lambda group, name: group.create_dataset(name, (4, 2), h5py.vlen_dtype("f4")),
    "times": values(np.ones((4, 2), "V8")),
    "scalar": values(1.0),
    "nothing": values(h5py.Empty("f4")),
    "line": values([1.0, 2.0]),
    "column": values(np.ones((4, 1))),
    "box": values(np.ones((4, 2, 2))),
    "not finite": values(np.array([[0, 1], [np.nan, 1], [0, 0], [0, 0]])),
    "too large": values(np.array([[0, 1], [1e300, 1], [0, 0], [0, 0]])),
    "never written": far_away((10**12, 2), chunks=(1000, 2)),
    "never written, compressed": far_away((10**9, 2), chunks=(1000, 2), compression="gzip"),
    "never written, overflow": far_away((2**61, 8), chunks=(1000, 8)),
    "external": external,
    "virtual": virtual,
    "soft link": linked(h5py.SoftLink("/a.jpg/keypoints")),
    "broken link": linked(h5py.SoftLink("/nowhere")),
    "external link": linked(h5py.ExternalLink("secret.h5", "/x")),
    "circle": circle,
    "type": linked(np.dtype("f4")),
}


@pytest.mark.parametrize("kind", NO_KEYPOINTS)
def test_keypoints_that_are_none(files, tmp_path, kind):
    (tmp_path / "secret").write_bytes(np.arange(8, dtype="f4").tobytes())
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.zeros((4, 2), np.float32)
    write_features(files[1], NO_KEYPOINTS[kind])
    before = contents(tmp_path)
    line = result_or_line(PairwiseMatches.from_hloc, *files)
    assert isinstance(line, str)
    assert line.startswith((f"{files[1]}: ", f"{files[0]}: 'a.jpg/b.jpg' is no pair of images"))
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("not finite", r"keypoint 1 of b\.jpg is at \(nan, 1\.0\), which is not finite"),
        ("too large", r"keypoint 1 of b\.jpg is at \(inf, 1\.0\), which is not finite"),
        ("external", "the values of /b.jpg/keypoints are in other files"),
        ("virtual", "the values of /b.jpg/keypoints are in other files"),
        ("external link", "/b.jpg/keypoints is a link"),
        ("soft link", "/b.jpg/keypoints is a link"),
        ("circle", "/b.jpg/keypoints/ is a group that also has another name"),
        (
            "complex",
            r"b\.jpg must be \(n, 2\) numbers, not \(4, 2\) of type complex64",
        ),
        ("never written", "most of them were never written"),
    ],
)
def test_what_is_wrong_is_said(files, kind, message):
    write_features(files[1], NO_KEYPOINTS[kind])
    with pytest.raises(NmfsyncError, match=message):
        PairwiseMatches.from_hloc(*files)


NO_LISTS = {
    "text": values("some text"),
    "texts": values(np.array([b"a"] * 5)),
    "complex": values(np.ones(5, np.complex64)),
    "compound": values(np.zeros(5, [("x", "i4")])),
    "scalar": values(1),
    "nothing": values(h5py.Empty("i4")),
    "box": values(np.ones((5, 1), np.int32)),
    "never written": lambda group, name: group.create_dataset(name, (10**12,), "i4", chunks=True),
    "external": lambda group, name: group.create_dataset(name, (5,), "i4", external="secret"),
    "link": linked(h5py.ExternalLink("secret.h5", "/x")),
    "group": lambda group, name: group.create_group(name),
}


@pytest.mark.parametrize("kind", NO_LISTS)
@pytest.mark.parametrize("scores", [False, True])
def test_matches_and_scores_that_are_none(files, tmp_path, kind, scores):
    (tmp_path / "secret").write_bytes(bytes(20))
    write_matches(files[0], *([None] * scores), NO_LISTS[kind])
    line = result_or_line(PairwiseMatches.from_hloc, *files)
    assert isinstance(line, str)
    assert line.startswith(f"{files[0]}: ")


def test_indices_of_eight_bits(tmp_path):
    features = tmp_path / "features.h5"
    with h5py.File(features, "w") as file:
        for name, n in (("a.jpg", 2), ("b.jpg", 200), ("c.jpg", 300)):
            file[f"{name}/keypoints"] = np.zeros((n, 2))
    with h5py.File(tmp_path / "matches.h5", "w") as file:
        file["a.jpg/b.jpg/matches0"] = np.array([150, -1]).astype(np.int8)
    matches = PairwiseMatches.from_hloc(tmp_path / "matches.h5", features)
    assert matches.W[0, 2 + 150] == 1
    with h5py.File(tmp_path / "matches.h5", "w") as file:
        file["a.jpg/c.jpg/matches0"] = np.array([150, -1]).astype(np.int8)
    with pytest.raises(NmfsyncError, match="have 8 bits, too few for the 300 features"):
        PairwiseMatches.from_hloc(tmp_path / "matches.h5", features)


def test_near_names_are_suggested(files):
    with h5py.File(files[0], "a") as file:
        file["b.jpg/sub-d.jpg/matches0"] = np.full(4, -1)
    message = "'b.jpg/sub-d.jpg' is no pair of images in the file of features; did you mean sub-c"
    with pytest.raises(NmfsyncError, match=re.escape(message)):
        PairwiseMatches.from_hloc(*files)


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("place", [0, 1])
def test_no_file_at_all(files, kind, place):
    assert files[place].name in result_or_line(
        PairwiseMatches.from_hloc, *files[:place], no_file(files[place], kind), *files[place + 1 :]
    )


@pytest.mark.parametrize("place", [0, 1])
def test_damaged_anywhere(files, place):
    sound = files[place].read_bytes()

    @settings(max_examples=100, derandomize=True, database=None)
    @given(strategies.damaged(sound))
    def check(content):
        files[place].write_bytes(content)
        matches = result_or_line(PairwiseMatches.from_hloc, *files)
        if not isinstance(matches, str):
            result_or_line(matches.source.xy)

    check()


def test_too_little_space_is_said_before_anything_is_written(files, tmp_path, monkeypatch):
    from nmfsync.runtime import files as runtime_files

    matches = PairwiseMatches.from_hloc(*files)
    usage = runtime_files.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(runtime_files.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(NmfsyncError, match=r"out\.h5: .*not enough space"):
        matches.to_hloc(tmp_path / "out.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.h5", "matches.h5"]
