"""The landmark sequences, and the shape contexts that match Hotel's frames."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import io

import strategies
from builders import NO_FILES, no_file, result_or_line
from nmfsync import run_study
from nmfsync.errors import NmfsyncError
from nmfsync.runtime.files import sha256_of
from nmfsync.study import landmarks, runner
from nmfsync.study.landmarks import (
    RINGS,
    SECTORS,
    LandmarkSequence,
    chi_square,
    landmark_matches,
    load_landmarks,
    match_by_shape,
    shape_contexts,
)
from nmfsync.study.results import Results
from nmfsync.types.matches import PairwiseMatches
from real_data import real_data

CORNER = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0]])


def small_sequence():
    """Five frames of six points that move a little."""
    rng = np.random.default_rng(0)
    xy = rng.uniform(0, 100, (6, 2)) + rng.normal(0, 8, (5, 6, 2))
    return LandmarkSequence("small", xy, match_by_shape(xy))


def accuracy(matches):
    """Share of the matches between different frames that join a landmark to itself."""
    W, n = matches.W.tocoo(), matches.sizes[0]
    between = W.row // n != W.col // n
    return np.mean(W.row[between] % n == W.col[between] % n)


def real_sequence(name, file):
    folder = real_data(f"landmarks/{name}/{file}").parents[2]
    return load_landmarks(name, folder)


# --- Shape contexts ------------------------------------------------------------------


def test_three_points_by_hand():
    """Mean distance (10 + 10 + 14.1) · 2 / 9 = 7.6, so all lie in the outermost ring, 7.6 to 15.2.

    From the first point the others are in the directions 0° and 45°: sectors 0 and 1; from
    the second at 180° and 90°: sectors 6 and 3; from the third at 225° and 270°: 7 and 9.
    """
    expected = np.zeros((3, RINGS, SECTORS))
    expected[0, 4, [0, 1]] = expected[1, 4, [6, 3]] = expected[2, 4, [7, 9]] = 0.5
    np.testing.assert_array_equal(shape_contexts(CORNER), expected.reshape(3, -1))


def test_rings_double():
    """Two far pairs of near points; the mean distance is about 50, the rings end at 6.3, 12.5 …"""
    xy = [[0, 0], [0, 5], [100, 0], [100, 10]]
    rings = shape_contexts(xy).reshape(4, RINGS, SECTORS).sum(axis=2)
    near, next_ring = [1 / 3, 0, 0, 0, 2 / 3], [0, 1 / 3, 0, 0, 2 / 3]
    np.testing.assert_allclose(rings, [near, near, next_ring, next_ring])


def test_far_points_are_not_counted():
    """Ten points in a heap and one 1000 pixels away, farther than twice the mean distance."""
    heap = np.column_stack([np.arange(10.0), np.arange(10.0) ** 2 / 10])
    contexts = shape_contexts([*heap, [1000, 0]])
    assert not contexts[-1].any()
    np.testing.assert_allclose(contexts[:-1].sum(axis=1), 1)


@pytest.mark.parametrize("change", [lambda xy: xy - 64, lambda xy: 4 * xy])
def test_shape_contexts_keep_under_translation_and_scale(change):
    xy = np.random.default_rng(1).integers(0, 500, (20, 2)).astype(float)
    np.testing.assert_array_equal(shape_contexts(change(xy)), shape_contexts(xy))


def test_shape_contexts_do_not_keep_under_rotation():
    assert not np.array_equal(shape_contexts(CORNER[:, ::-1]), shape_contexts(CORNER))


def test_coincident_points_give_empty_contexts():
    assert not shape_contexts(np.zeros((3, 2))).any()


def test_chi_square_by_hand():
    a = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    b = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    third = 0.5 * (0.25 / 1.5 + 0.25 / 0.5)
    np.testing.assert_allclose(chi_square(a, b), [[0, 1], [third, third]])


def test_rings_agree_with_the_published_histograms():
    """Points exactly on a line between two sectors (0.23 % of the bins) may fall on either side.

    The published directions point the other way: half a turn, six sectors.
    """
    published = io.loadmat(real_data("landmarks/house/permsync_house.mat"))
    for xy, counts in zip(published["data"].ravel(), published["scf"].ravel(), strict=True):
        theirs = counts.reshape(30, RINGS, SECTORS) / counts.sum(axis=1)[:, None, None]
        ours = shape_contexts(xy).reshape(30, RINGS, SECTORS)
        np.testing.assert_allclose(ours.sum(axis=2), theirs.sum(axis=2))
        assert np.mean(~np.isclose(np.roll(ours, 6, axis=2), theirs)) < 0.01


# --- Matches -------------------------------------------------------------------------


def test_frames_of_one_shape_match_by_identity():
    xy = np.random.default_rng(2).uniform(0, 500, (12, 2))
    matches = match_by_shape(np.stack([xy, 3 * xy, xy + 7]))
    np.testing.assert_array_equal(matches.W.toarray(), np.tile(np.eye(12), (3, 3)))


def test_matches_follow_a_new_order_of_the_points():
    xy = np.random.default_rng(3).uniform(0, 500, (6, 2))
    order = np.array([2, 0, 1, 5, 3, 4])
    block = match_by_shape(np.stack([xy, xy[order]])).W.toarray()[:6, 6:]
    np.testing.assert_array_equal(block, np.eye(6)[:, order])


def test_every_block_is_a_permutation():
    blocks = small_sequence().matches.W.toarray().reshape(5, 6, 5, 6)
    assert (blocks.sum(axis=1) == 1).all()
    assert (blocks.sum(axis=3) == 1).all()
    assert accuracy(small_sequence().matches) < 1


# --- Subsets -------------------------------------------------------------------------


def test_truth_is_the_identity_in_every_block():
    _, truth = landmark_matches(small_sequence(), frames=3, seed=0)
    np.testing.assert_array_equal(truth.W.toarray(), np.tile(np.eye(6), (3, 3)))


def test_subset_is_the_matches_of_some_frames_in_order_of_time():
    sequence = small_sequence()
    matches, _ = landmark_matches(sequence, frames=3, seed=4)
    chosen = np.sort(np.random.default_rng(4).choice(5, 3, replace=False))
    np.testing.assert_array_equal(
        matches.W.toarray(), match_by_shape(sequence.xy[chosen]).W.toarray()
    )


def test_all_frames_are_the_sequence():
    sequence = small_sequence()
    matches, truth = landmark_matches(sequence, frames=5, seed=7)
    assert (matches.W != sequence.matches.W).nnz == 0
    assert matches.sizes.tolist() == truth.sizes.tolist() == [6] * 5


def test_seed_decides_the_subset():
    def chosen(seed):
        return landmark_matches(small_sequence(), frames=2, seed=seed)[0].W.toarray().tobytes()

    assert chosen(1) == chosen(1)
    assert len({chosen(seed) for seed in range(20)}) > 1


@pytest.mark.parametrize("frames", [1, 6])
def test_wrong_number_of_frames(frames):
    with pytest.raises(NmfsyncError, match=f"small has 5 frames: choose 2 to 5.*got {frames}"):
        landmark_matches(small_sequence(), frames, seed=0)


# --- Files ---------------------------------------------------------------------------


@pytest.fixture
def write_house(monkeypatch):
    """Write a file that is taken for the published one."""

    def write(folder, **content):
        path = write_small_house(folder, **content)
        monkeypatch.setitem(landmarks._SHA256, "house", sha256_of(path))
        return path

    return write


def write_small_house(folder, **content):
    path = folder / "landmarks" / "house" / "house_sync_data.mat"
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = np.empty((1, 2), dtype=object)
    frames[0, 0], frames[0, 1] = CORNER, CORNER + 1
    io.savemat(path, {"data": frames, **content})
    return path


def test_house_takes_the_given_matches_as_they_are(tmp_path, monkeypatch, write_house):
    W = np.tile(np.eye(3), (2, 2))
    W[:3, 3:] = np.eye(3)[[1, 2, 0]]
    W[3:, :3] = W[:3, 3:].T
    write_house(tmp_path, Wnoise=W.astype(np.uint8))
    monkeypatch.setenv("NMFSYNC_DATA", str(tmp_path))
    house = load_landmarks("house")
    assert house.name == "house"
    np.testing.assert_array_equal(house.xy, [CORNER, CORNER + 1])
    np.testing.assert_array_equal(house.matches.W.toarray(), W)


def test_named_folder_comes_before_the_environment(tmp_path, monkeypatch, write_house):
    monkeypatch.setenv("NMFSYNC_DATA", str(tmp_path / "nowhere"))
    write_house(tmp_path, Wnoise=np.eye(6))
    assert isinstance(load_landmarks("house", tmp_path).matches, PairwiseMatches)


def test_missing_data_say_where_and_whose(tmp_path):
    with pytest.raises(NmfsyncError, match=r"groundT.mat is not in .*hotel.*VASC.*Pachauri") as e:
        load_landmarks("hotel", tmp_path)
    assert str(tmp_path) in str(e.value)
    assert "\n" not in str(e.value)


def test_a_file_that_has_changed_since_it_was_hashed(tmp_path, write_house):
    path = write_house(tmp_path, Wnoise=np.eye(6))
    before = sha256_of(path)
    load_landmarks("house", tmp_path, before)
    write_house(tmp_path, Wnoise=np.eye(6)[::-1])
    with pytest.raises(NmfsyncError, match=r"house_sync_data.mat: has changed while it was used"):
        load_landmarks("house", tmp_path, before)


def test_samples_of_other_landmarks_are_not_used(tmp_path, monkeypatch, write_house):
    keys = []

    def run_samples(study, *_):
        keys.append(study.base)
        return Results([], [])

    monkeypatch.setattr("nmfsync.run.study.run_samples", run_samples)
    monkeypatch.setattr("nmfsync.run.study.write_study_report", lambda *_: None)
    (tmp_path / "landmarks/hotel").mkdir(parents=True)
    (tmp_path / "landmarks/hotel/groundT.mat").write_bytes(b"published")
    for content in (np.eye(6), np.eye(6)[::-1]):
        write_house(tmp_path, Wnoise=content)
        run_study("landmarks", tmp_path / "out", data=tmp_path)
    before, after = (runner._key(base, 0) for base in keys)
    assert before != after


def test_no_folder_at_all(monkeypatch):
    monkeypatch.delenv("NMFSYNC_DATA", raising=False)
    with pytest.raises(NmfsyncError, match=r"VASC.*set NMFSYNC_DATA"):
        load_landmarks("house")


def test_unknown_sequence(tmp_path):
    with pytest.raises(NmfsyncError, match="no landmark sequence 'castle'; there are house and"):
        load_landmarks("castle", tmp_path)


@pytest.mark.parametrize("kept", [0, 60, 130, 200, -20])
def test_damaged_file(tmp_path, kept, write_house):
    path = write_house(tmp_path, Wnoise=np.eye(6))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(NmfsyncError, match=r"house_sync_data.mat: not the published MATLAB file"):
        load_landmarks("house", tmp_path)


def test_file_without_matches(tmp_path, write_house):
    write_house(tmp_path)
    with pytest.raises(NmfsyncError, match=r"house_sync_data.mat: .*KeyError"):
        load_landmarks("house", tmp_path)


def test_matches_of_another_size_name_the_file(tmp_path, write_house):
    write_house(tmp_path, Wnoise=np.eye(9))
    with pytest.raises(NmfsyncError, match=r"house_sync_data.mat: W is 9 × 9"):
        load_landmarks("house", tmp_path)


# --- The real sequences --------------------------------------------------------------


def test_house_as_published():
    house = real_sequence("house", "house_sync_data.mat")
    assert house.xy.shape == (111, 30, 2)
    assert house.matches.W.nnz == 111 * 111 * 30
    assert accuracy(house.matches) == pytest.approx(0.8665, abs=5e-5)


def test_hotel_by_shape():
    hotel = real_sequence("hotel", "groundT.mat")
    assert hotel.xy.shape == (101, 30, 2)
    assert hotel.matches.W.nnz == 101 * 101 * 30
    assert accuracy(hotel.matches) == pytest.approx(0.9075, abs=2e-3)


def test_our_shape_contexts_on_house():
    house = real_sequence("house", "house_sync_data.mat")
    assert accuracy(match_by_shape(house.xy)) == pytest.approx(0.9226, abs=2e-3)


# --- Damaged files


def test_only_the_published_file_is_read(tmp_path, write_house):
    path = write_house(tmp_path, Wnoise=np.eye(6))
    sound = path.read_bytes()

    @settings(max_examples=50, derandomize=True, database=None)
    @given(strategies.damaged(sound))
    def check(content):
        path.write_bytes(content)
        found = result_or_line(load_landmarks, "house", tmp_path)
        assert content == sound or f"{path}: not the published MATLAB file" in found

    check()


@pytest.mark.parametrize("kind", NO_FILES)
def test_no_file_at_all(tmp_path, kind, write_house):
    no_file(write_house(tmp_path), kind)
    assert "house_sync_data.mat" in result_or_line(load_landmarks, "house", tmp_path)
