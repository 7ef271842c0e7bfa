"""hloc's HDF5 files, in and out."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import nmfsync
from builders import between, contents
from nmfsync import MultiMatching, NmfsyncError, NmfsyncWarning, PairwiseMatches, synchronise

h5py = pytest.importorskip("h5py", reason="needs pip install 'nmfsync[hloc]'")

NAMES = ("a.jpg", "b.jpg", "sub/c.jpg")


def write_features(path, sizes=(5, 4, 6), names=NAMES, dtype=np.float32, seed=0):
    """Write keypoints as hloc does; return their positions."""
    rng = np.random.default_rng(seed)
    xy = [rng.uniform(0, 600, (n, 2)).astype(dtype) for n in sizes]
    with h5py.File(path, "w") as file:
        for name, points in zip(names, xy, strict=True):
            group = file.create_group(name)
            group.create_dataset("keypoints", data=points)
            group.create_dataset("scores", data=np.ones(len(points), np.float16))
            group.create_dataset("image_size", data=[640, 480])
            group.create_dataset("descriptors", data=np.zeros((128, len(points)), np.float16))
    return xy


def write_matches(path, pairs, dtype=np.int16, mode="w"):
    """Write matches as hloc does: {key: (matches0, scores or None)}."""
    with h5py.File(path, mode) as file:
        for key, (matches, scores) in pairs.items():
            group = file.create_group(key)
            group.create_dataset("matches0", data=np.array(matches, dtype))
            if scores is not None:
                group.create_dataset("matching_scores0", data=np.array(scores, np.float16))


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    features, matches = tmp_path / "features.h5", tmp_path / "matches.h5"
    write_features(features)
    write_matches(
        matches,
        {
            "a.jpg/b.jpg": ([0, -1, 3, -1, -1], [0.5, 0, 0.25, 0, 0]),
            "sub-c.jpg/a.jpg": ([-1, 4, -1, -1, 0, -1], [0, 1, 0, 0, 0.75, 0]),
        },
    )
    return matches, features


def block(matches, i, j):
    part = between(matches, i, j)
    return sorted(zip(part.row.tolist(), part.col.tolist(), part.data.tolist(), strict=True))


def content(path):
    with h5py.File(path) as file:
        found = {}
        file.visititems(
            lambda key, item: (
                found.update({key: item[()].tolist()}) if isinstance(item, h5py.Dataset) else None
            )
        )
        return found


# In ------------------------------------------------------------------------------------


def test_reads_what_hloc_writes(files, tmp_path):
    before = contents(tmp_path)
    matches = PairwiseMatches.from_hloc(*files)
    assert matches.sizes.tolist() == [5, 4, 6]
    assert matches.source.names == NAMES
    assert block(matches, 0, 1) == [(0, 0, 0.5), (2, 3, 0.25)]
    assert block(matches, 0, 2) == [(0, 4, 0.75), (4, 1, 1.0)]
    assert block(matches, 1, 2) == []
    assert contents(tmp_path) == before
    assert matches.unweighted().source is matches.source


@pytest.mark.parametrize("key", ["a.jpg/sub-c.jpg", "sub-c.jpg/a.jpg", "a.jpg_sub-c.jpg",
                                 "sub-c.jpg_a.jpg"])  # fmt: skip
def test_every_key_that_hloc_has_used(tmp_path, key):
    write_features(tmp_path / "f.h5")
    first = key.startswith("a")
    write_matches(tmp_path / "m.h5", {key: ([-1, 3, -1, -1, -1] + [-1] * (not first), None)})
    matches = PairwiseMatches.from_hloc(tmp_path / "m.h5", tmp_path / "f.h5")
    assert block(matches, 0, 2) == [(1, 3, 1.0) if first else (3, 1, 1.0)]


def test_names_full_of_separators(tmp_path):
    names = ("a/b_c.jpg", "a_b-c.jpg", "d_.jpg")
    write_features(tmp_path / "f.h5", (2, 2, 2), names)
    keys = "a-b_c.jpg_a_b-c.jpg", "a_b-c.jpg/d_.jpg"
    write_matches(tmp_path / "m.h5", {key: ([1, -1], None) for key in keys})
    matches = PairwiseMatches.from_hloc(tmp_path / "m.h5", tmp_path / "f.h5")
    assert matches.source.names == names
    assert block(matches, 0, 1) == block(matches, 1, 2) == [(0, 1, 1.0)]


def test_names_that_cannot_be_told_apart(files, tmp_path):
    write_features(tmp_path / "f.h5", (5, 4, 6), ("a.jpg", "sub-c.jpg", "sub/c.jpg"))
    with pytest.raises(NmfsyncError, match=r"cannot distinguish sub-c\.jpg from sub/c\.jpg"):
        PairwiseMatches.from_hloc(files[0], tmp_path / "f.h5")
    write_features(tmp_path / "g.h5", (2, 2, 2, 2), ("a", "b_c", "a_b", "c"))
    write_matches(tmp_path / "m.h5", {"a_b_c": ([0, -1], None)})
    with pytest.raises(NmfsyncError, match="'a_b_c' could mean several pairs"):
        PairwiseMatches.from_hloc(tmp_path / "m.h5", tmp_path / "g.h5")


def test_half_precision_is_tolerated(tmp_path):
    """40,000 as int16 is −25,536, and 3001.3 as float16 is 3002."""
    sizes = (40_001, 2, 40_001)
    xy = write_features(tmp_path / "f.h5", sizes, dtype=np.float16)
    second = np.full(2, -1)
    second[1] = 40_000
    assert second.astype(np.int16)[1] == -25_536
    write_matches(tmp_path / "m.h5", {"b.jpg/sub-c.jpg": (second.astype(np.int16), None)})
    matches = PairwiseMatches.from_hloc(tmp_path / "m.h5", tmp_path / "f.h5")
    assert block(matches, 1, 2) == [(1, 40_000, 1.0)]
    for found, stored in zip(matches.source.xy(), xy, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, stored)
    matches.to_hloc(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["b.jpg/sub-c.jpg/matches0"].dtype == np.int32
        assert file["b.jpg/sub-c.jpg/matches0"][:].tolist() == [-1, 40_000]


def test_indices_that_int16_cannot_restore(tmp_path):
    write_features(tmp_path / "f.h5", (2, 65_536, 2))
    write_matches(tmp_path / "m.h5", {"a.jpg/b.jpg": ([0, 1], None)})
    with pytest.raises(NmfsyncError, match=r"a\.jpg and b\.jpg have 16 bits, too few"):
        PairwiseMatches.from_hloc(tmp_path / "m.h5", tmp_path / "f.h5")
    write_matches(tmp_path / "m.h5", {"a.jpg/b.jpg": ([0, 1], None)}, np.int32)
    matches = PairwiseMatches.from_hloc(tmp_path / "m.h5", tmp_path / "f.h5")
    assert block(matches, 0, 1) == [(0, 0, 1.0), (1, 1, 1.0)]


def test_the_best_of_several_matches_stays(files):
    pairs = {"b.jpg/sub-c.jpg": ([2, 2, 0, 2], [0.25, 0.5, 0.5, 0.5])}
    write_matches(files[0], pairs, mode="a")
    with pytest.warns(NmfsyncWarning, match="2 of 8 rows of matches dropped: 0 repeated, 2 of"):
        matches = PairwiseMatches.from_hloc(*files)
    assert block(matches, 1, 2) == [(1, 2, 0.5), (2, 0, 0.5)]


def test_a_pair_in_both_orders_counts_once(files, tmp_path):
    write_matches(files[0], {"b.jpg/a.jpg": ([0, -1, -1, 4], [0.5, 0, 0, 0.5])}, mode="a")
    with pytest.warns(NmfsyncWarning, match="2 of 6 rows of matches dropped: 1 repeated, 1 of"):
        matches = PairwiseMatches.from_hloc(*files)
    # Feature 3 of b has two matches in a, (2, 3) and (4, 3): the better one stays.
    assert block(matches, 0, 1) == [(0, 0, 0.5), (4, 3, 0.5)]
    matches.to_hloc(tmp_path / "out.h5")
    keys = {key.rsplit("/", 1)[0] for key in content(tmp_path / "out.h5")}
    assert keys == {"a.jpg/b.jpg", "sub-c.jpg/a.jpg"}
    again = PairwiseMatches.from_hloc(tmp_path / "out.h5", files[1])
    assert (again.W != matches.W).nnz == 0


def test_half_precision_that_moves_features_is_named(files):
    matches, features = files
    with h5py.File(features, "r+") as file:
        for name, largest in (("a.jpg", 3001.3), ("b.jpg", 500)):
            xy = file[name]["keypoints"][:]
            xy[0, 0] = largest
            del file[name]["keypoints"]
            file[name]["keypoints"] = xy.astype(np.float16)
    with pytest.warns(NmfsyncWarning, match="half precision, which moves them by up to 1 pixels"):
        PairwiseMatches.from_hloc(matches, features)


def test_scores_that_were_rounded_up_are_1(files):
    write_matches(files[0], {"b.jpg/sub-c.jpg": ([2, -1, -1, -1], [1.0009] * 4)}, mode="a")
    assert block(PairwiseMatches.from_hloc(*files), 1, 2) == [(0, 2, 1.0)]


@pytest.mark.parametrize("score", [0, -1, 1.5, np.nan])
def test_scores_that_are_no_weights(files, score):
    write_matches(files[0], {"b.jpg/sub-c.jpg": ([2, -1, -1, -1], [score] * 4)}, mode="a")
    with pytest.warns(NmfsyncWarning, match="every match gets the weight 1"):
        matches = PairwiseMatches.from_hloc(*files)
    assert set(matches.W.data) == {1.0}


def test_scores_of_features_without_a_match_do_not_matter(files):
    write_matches(files[0], {"b.jpg/sub-c.jpg": ([2, -1, -1, -1], [0.5, 7, -1, 0])}, mode="a")
    assert block(PairwiseMatches.from_hloc(*files), 1, 2) == [(0, 2, 0.5)]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"b.jpg/sub-c.jpg": ([6, -1, -1, -1], None)}, "match (0, 6) of b.jpg and sub/c.jpg"),
        ({"b.jpg/sub-c.jpg": ([-2, -1, -1, -1], None)}, "match (0, -2) of b.jpg and sub/c.jpg"),
        ({"b.jpg/sub-c.jpg": ([1, -1, -1, -1, -1], None)}, "are for 5 features"),
        ({"b.jpg/sub-c.jpg": ([1, -1, -1, -1], [1.0])}, "but b.jpg has 4"),
        ({"b.jpg/x.jpg": ([1, -1, -1, -1], None)}, "'b.jpg/x.jpg' is no pair of images"),
        ({"b.jpg/b.jpg": ([1, -1, -1, -1], None)}, "b.jpg has matches with itself"),
        ({"b.jpg/sub-c.jpg": ([[1, -1, -1, -1]], None)}, "must be a list of whole numbers"),
    ],
)
def test_impossible_matches_are_named(files, pairs, message):
    write_matches(files[0], pairs, np.int32, mode="a")
    with pytest.raises(NmfsyncError, match=re.escape(message)):
        PairwiseMatches.from_hloc(*files)


def test_lists_may_end_with_the_last_match(files):
    write_matches(files[0], {"b.jpg/sub-c.jpg": ([2, -1, 1], [0.5, 0, 0.25])}, mode="a")
    assert block(PairwiseMatches.from_hloc(*files), 1, 2) == [(0, 2, 0.5), (2, 1, 0.25)]


def test_positions_of_pairs_are_referred_to_merge(files, tmp_path):
    with h5py.File(tmp_path / "dense.h5", "w") as file:
        file["a.jpg/b.jpg/keypoints0"] = file["a.jpg/b.jpg/keypoints1"] = np.zeros((1, 2))
    with pytest.raises(NmfsyncError, match="nmfsync merge"):
        PairwiseMatches.from_hloc(tmp_path / "dense.h5", files[1])


def test_damaged_files_are_named(files, tmp_path):
    matches, features = files
    cases = [
        (tmp_path / "absent.h5", features, "absent.h5: no such file"),
        (matches, tmp_path / "absent.h5", "absent.h5: no such file"),
        (features, features, "contains no matches0"),
        (matches, matches, "contains no keypoints"),
    ]
    (tmp_path / "cut.h5").write_bytes(matches.read_bytes()[:3000])
    (tmp_path / "text.h5").write_text("hello")
    cases += [(tmp_path / name, features, f"{name}: cannot be read as an HDF5 file")
              for name in ("cut.h5", "text.h5")]  # fmt: skip
    for m, f, message in cases:
        with pytest.raises(NmfsyncError, match=re.escape(message)):
            PairwiseMatches.from_hloc(m, f)
    with h5py.File(tmp_path / "odd.h5", "w") as file:
        file.create_dataset("a.jpg/keypoints", data=[1.0, 2.0])
    with pytest.raises(NmfsyncError, match=r"keypoints of a\.jpg must be"):
        PairwiseMatches.from_hloc(matches, tmp_path / "odd.h5")


def test_scales_and_orientations_are_read_if_hloc_stored_them(files):
    matches, features = files
    with h5py.File(features, "r+") as file:
        file["a.jpg"]["scales"] = np.array([1, 2, 4, 0, np.inf], np.float16)
        file["a.jpg"]["oris"] = np.array([0, -90, 450, np.nan, np.inf], np.float16)  # degrees
        file["b.jpg"]["scales"] = np.ones(7)  # of other features
        del file["b.jpg"]["image_size"]
        del file["sub/c.jpg"]["image_size"]
        file["sub/c.jpg"]["image_size"] = [np.nan, -1]
    first, second, third = PairwiseMatches.from_hloc(matches, features).source.keypoints()
    assert first.scale.tolist() == [2, 4, 8, 0, 0]
    np.testing.assert_array_equal(first.orientation, [0, 270, 90, np.nan, np.nan])
    assert set(second.scale) == set(third.scale) == {0}
    assert [k.image_size for k in (first, second, third)] == [(640, 480), None, None]


# Out -----------------------------------------------------------------------------------


def test_round_trip_keeps_everything_but_matches(files, tmp_path):
    with h5py.File(files[0], "a") as file:
        file["a.jpg/b.jpg"].attrs["made by"] = "somebody"
        file["a.jpg/b.jpg"].create_dataset("other", data=[1, 2])
    before = contents(tmp_path)
    matches = PairwiseMatches.from_hloc(*files)
    matches.to_hloc(tmp_path / "new" / "out.h5")
    assert content(tmp_path / "new" / "out.h5") == content(files[0])
    with h5py.File(tmp_path / "new" / "out.h5") as file:
        assert file["a.jpg/b.jpg"].attrs["made by"] == "somebody"
    assert contents(tmp_path) == before
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["out.h5"]


def test_other_matches_keep_scores_and_keys(files, tmp_path):
    matches = PairwiseMatches.from_hloc(*files)
    # Tracks: a0–b0–c4 (b0–c4 is new, between images that had no matches), a1–b3 (new).
    universe = np.arange(15)
    universe[[0, 5, 13]] = 0
    universe[[1, 8]] = 1
    result = MultiMatching(universe, matches.sizes)
    result.source, result.input_matches = matches.source, matches
    result.to_hloc(tmp_path / "none.h5")
    assert content(tmp_path / "none.h5") == {
        "a.jpg/b.jpg/matches0": [0, -1, -1, -1, -1],
        "a.jpg/b.jpg/matching_scores0": [0.5, 0, 0, 0, 0],
        "sub-c.jpg/a.jpg/matches0": [-1, -1, -1, -1, 0, -1],
        "sub-c.jpg/a.jpg/matching_scores0": [0, 0, 0, 0, 0.75, 0],
    }
    result.to_hloc(tmp_path / "matched.h5", added="matched")
    assert content(tmp_path / "matched.h5") == {
        "a.jpg/b.jpg/matches0": [0, 3, -1, -1, -1],
        "a.jpg/b.jpg/matching_scores0": [0.5, 1, 0, 0, 0],
        "sub-c.jpg/a.jpg/matches0": [-1, -1, -1, -1, 0, -1],
        "sub-c.jpg/a.jpg/matching_scores0": [0, 0, 0, 0, 0.75, 0],
    }
    result.to_hloc(tmp_path / "all.h5", added="all")
    more = content(tmp_path / "all.h5")
    assert more["b.jpg/sub-c.jpg/matches0"] == [4, -1, -1, -1]
    assert more["b.jpg/sub-c.jpg/matching_scores0"] == [1, 0, 0, 0]
    again = PairwiseMatches.from_hloc(tmp_path / "all.h5", files[1])
    assert (again.W.astype(bool) != result.W.astype(bool)).nnz == 0
    with pytest.raises(NmfsyncError, match="must be none, matched, all, not 'some'"):
        result.to_hloc(tmp_path / "some.h5", added="some")
    assert not (tmp_path / "some.h5").exists()


def test_pairs_that_lose_all_matches_stay(files, tmp_path):
    matches = PairwiseMatches.from_hloc(*files)
    nothing = PairwiseMatches(sparse.eye_array(15), matches.sizes)
    nothing.source = matches.source
    nothing.to_hloc(tmp_path / "out.h5")
    left = content(tmp_path / "out.h5")
    assert left["a.jpg/b.jpg/matches0"] == [-1] * 5
    assert left["sub-c.jpg/a.jpg/matches0"] == [-1] * 6
    again = PairwiseMatches.from_hloc(tmp_path / "out.h5", files[1])
    assert again.W.nnz == 15


def test_without_scores_none_are_written(tmp_path):
    write_features(tmp_path / "f.h5")
    write_matches(tmp_path / "m.h5", {"a.jpg_b.jpg": ([0, -1, -1, -1, 1], None)})
    result = synchronise(PairwiseMatches.from_hloc(tmp_path / "m.h5", tmp_path / "f.h5"))
    result.to_hloc(tmp_path / "out.h5")
    assert content(tmp_path / "out.h5") == content(tmp_path / "m.h5")
    write_matches(tmp_path / "m.h5", {"b.jpg_sub-c.jpg": ([0, 1, -1, -1], None)}, mode="a")
    result = synchronise(PairwiseMatches.from_hloc(tmp_path / "m.h5", tmp_path / "f.h5"))
    result.to_hloc(tmp_path / "all.h5", added="all")
    assert content(tmp_path / "all.h5")["a.jpg/sub-c.jpg/matches0"] == [0, -1, -1, -1, 1]
    assert not [key for key in content(tmp_path / "all.h5") if "scores" in key]


def test_targets_are_protected(files, tmp_path):
    matches = PairwiseMatches.from_hloc(*files)
    (tmp_path / "out.h5").write_text("precious")
    before = contents(tmp_path)
    for path in files:
        with pytest.raises(NmfsyncError, match="is an input file"):
            matches.to_hloc(path, overwrite=True)
    with pytest.raises(NmfsyncError, match="exists already"):
        matches.to_hloc(tmp_path / "out.h5")
    assert contents(tmp_path) == before
    matches.to_hloc(tmp_path / "out.h5", overwrite=True)
    assert content(tmp_path / "out.h5") == content(files[0])


def test_failure_leaves_nothing(files, tmp_path, monkeypatch):
    matches = PairwiseMatches.from_hloc(*files)

    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(h5py.Group, "create_dataset", fail)
    with pytest.raises(KeyboardInterrupt):
        matches.to_hloc(tmp_path / "out.h5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["features.h5", "matches.h5"]


def test_features_that_changed_are_refused(files, tmp_path):
    matches = PairwiseMatches.from_hloc(*files)
    write_features(files[1], (5, 5, 6))
    with pytest.raises(NmfsyncError, match="not those of these matches"):
        matches.to_hloc(tmp_path / "out.h5")


@pytest.mark.parametrize(("number", "what"), [(1, "images or keypoints"), (0, "matches")])
def test_contents_that_changed_are_refused(files, tmp_path, number, what):
    matches = PairwiseMatches.from_hloc(*files)
    with h5py.File(files[number], "r+") as file:
        arrays = []
        file.visititems(lambda name, item: arrays.append(item) if hasattr(item, "shape") else None)
        array = next(a for a in arrays if a.name.endswith(("keypoints", "matches0")))
        array[0] = array[0] - 1
    with pytest.raises(NmfsyncError, match=f"its {what} are not those of these matches"):
        matches.to_hloc(tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()


def test_matches_from_elsewhere_cannot_be_written(tmp_path):
    W, _, sizes = nmfsync.synthetic.generate(k=3, d=4, rho=1.0, sigma=0.0)
    with pytest.raises(NmfsyncError, match=r"do not come from .*from_hloc"):
        PairwiseMatches(W, sizes).to_hloc(tmp_path / "out.h5")


def test_missing_h5py_is_one_line(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(NmfsyncError, match=r"pip install 'nmfsync\[hloc\]'"):
        PairwiseMatches.from_hloc(*files)
