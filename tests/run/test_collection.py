"""Collections in parts: the same bits as in memory, on any engine, whatever happens."""

import os
import pickle
import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from builders import bits, overlapping_images, wait_until
from nmfsync import match, synchronise, verify
from nmfsync.errors import NmfsyncError
from nmfsync.evaluation.confidence import estimate_confidence, precision_by_track
from nmfsync.features import stored
from nmfsync.features.stored import StoredFeatures, pack
from nmfsync.matching import rows
from nmfsync.matching.pairs import all_pairs, sequential_pairs
from nmfsync.matching.rows import Limits
from nmfsync.run import collection as module
from nmfsync.run.collection import track_features
from nmfsync.runtime.cache import save
from nmfsync.runtime.engine import engine, stream
from nmfsync.synchronisation.duplicates import mark_duplicates

PLAIN = Limits(None, None, 0.3, None)


@pytest.fixture
def features(tmp_path):
    """Features of ten images, on disk; every twentieth is there twice, at another orientation."""
    found = []
    for n, image in enumerate(overlapping_images(10, 300)):
        twice = np.append(np.arange(len(image)), np.arange(0, len(image), 20))
        arrays = ("xy", "descriptors", "scale", "orientation")
        image = replace(image, **{name: getattr(image, name)[twice] for name in arrays})
        image.orientation[len(image) - len(image) // 21 :] += 1
        save(tmp_path / f"{n}.npz", str(n), pack((image, [])))
        found.append(StoredFeatures(tmp_path / f"{n}.npz", str(n), image))
    return found


def in_memory(features, pairs, limits):
    """The tracks of `match`, `verify` and `synchronise`, and their estimated precision."""
    matches = match(features, limits.ratio, weighted=True, distance=limits.distance, pairs=pairs)
    matches = matches.at_least(limits.evidence)
    xy, sizes = [f.xy for f in features], [f.image_size for f in features]
    if limits.geometry:
        matches = verify(matches, xy, limits.geometry, sizes=sizes)
    matches = mark_duplicates(matches, xy)
    result = synchronise(matches)
    return result, precision_by_track(estimate_confidence(result, matches), result)


def same_tracks(found, expected):
    result, precision = expected
    return (
        np.array_equal(found.tracks.universe, result.universe)
        and np.array_equal(found.tracks.duplicate_of, result.duplicate_of)
        and np.array_equal(found.precision, precision, equal_nan=True)
    )


@pytest.mark.parametrize(
    "limits",
    [
        PLAIN,
        Limits(0.9, 300.0, 0.0, None),
        Limits(None, None, 0.3, "fundamental"),
        Limits(None, None, 0.3, "homography"),
    ],
)
def test_the_same_bits_as_in_memory(features, limits, tmp_path):
    pairs = all_pairs(10)
    expected = in_memory(features, pairs, limits)
    assert expected[0].duplicate_count > 10
    found = track_features(features, pairs, tmp_path, limits, 0.4)
    assert same_tracks(found, expected)
    assert found.found > found.kept > 1000
    in_parts = track_features(features, pairs, tmp_path, limits, 0.4, most=600)
    assert in_parts.cut == 0
    assert same_tracks(in_parts, expected)


def test_only_a_row_of_matches_is_in_memory(features, tmp_path, monkeypatch):
    """And what is there is not made again, by `match` neither."""
    monkeypatch.setattr(rows, "ROWS", 1)
    pairs = sequential_pairs(10, 3)
    found = track_features(features, pairs, tmp_path, PLAIN, 0.4)
    monkeypatch.setattr(rows, "match_batch", None)
    assert same_tracks(track_features(features, pairs, tmp_path, PLAIN, 0.4), (found[0], found[1]))
    monkeypatch.setattr("nmfsync.matching.match.match_batch", None)
    kept = match(features, weighted=True, pairs=pairs, cache=tmp_path / "matches")
    assert kept.match_count == found.found


def test_matches_that_tracks_keep(features, tmp_path):
    """Those of near-duplicates, too."""
    pairs = all_pairs(10)
    found = track_features(features, pairs, tmp_path, PLAIN, 0.4)
    matches = match(features, weighted=True, pairs=pairs).at_least(0.3)
    kept = matches.W.multiply(found.tracks.kept_of(matches).W)
    assert (kept != found.matches.kept_by(found.tracks).W).nnz == 0
    assert found.matches.kept_by(found.tracks).match_count > 1000


def test_no_matches_at_all(tmp_path):
    features = overlapping_images(3, 5)
    for pairs in (np.empty((0, 2), np.int64), all_pairs(3)):
        found = track_features(features, pairs, tmp_path, Limits(None, None, 1.0, None), 0.4)
        assert found.kept == 0
        assert found.tracks.universe_size == 15


@pytest.mark.parametrize("folder", ["matches", "judged"])
def test_what_vanishes_is_one_clear_line(features, tmp_path, monkeypatch, folder):
    steps = {"matches": "evidence", "judged": "near-duplicates"}

    def step(name):
        if name == steps[folder]:
            for entry in (tmp_path / "s" / folder).iterdir():
                entry.unlink()

    with pytest.raises(NmfsyncError, match="are gone or damaged; run again"):
        track_features(features, all_pairs(10), tmp_path / "s", PLAIN, 0.4, step=step)
    again = track_features(features, all_pairs(10), tmp_path / "s", PLAIN, 0.4)
    assert again.kept > 1000


# --- on a cluster


@pytest.fixture(scope="module")
def cluster():
    """Two workers of one thread each, and where their scheduler listens."""
    distributed = pytest.importorskip("distributed", reason="needs nmfsync[dask]")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield cluster


def test_a_cluster_finds_the_same_and_gets_no_descriptors(features, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "together", lambda sizes, pairs: [1] * len(np.unique(pairs[:, 0])))
    pairs, sent, received = sequential_pairs(10, 4), Counter(), Counter()

    def weighed(function, tasks):
        def counted():
            for task in tasks:
                sent[function.__name__] += len(pickle.dumps(task))
                yield task

        for result in stream(function, counted()):
            received[function.__name__] += len(pickle.dumps(result))
            yield result

    for place in ("collection", "row_matches"):
        monkeypatch.setattr(f"nmfsync.run.{place}.stream", weighed)
    here = track_features(features, pairs, tmp_path / "here", PLAIN, 0.4, most=600)
    sent.clear()
    received.clear()
    monkeypatch.setattr(stored, "_recent", type(stored._recent)(1, stored._bytes_of))
    with engine("dask", cluster.scheduler_address):
        there = track_features(features, pairs, tmp_path / "there", PLAIN, 0.4, most=600)
    assert same_tracks(there, (here.tracks, here.precision))
    everything = sum(f.descriptors.nbytes for f in features)
    for work in ("match_rows", "judge_rows"):
        assert sent[work] + received[work] < everything / 10
    assert sent.total() + received.total() < 2 * everything  # mostly labels, and where rows lie


def test_matching_sends_where_features_lie(features, cluster, tmp_path, monkeypatch):
    """`match` alone, as `nmfsync run` calls it, whose matches come back."""
    sent = []

    def weighed(function, tasks):
        for task in tasks:
            sent.append(len(pickle.dumps(task)))
            yield function(*task)

    monkeypatch.setattr("nmfsync.runtime.tasks.stream", weighed)
    monkeypatch.setattr("nmfsync.matching.match.TASK", 10**5)
    found = match(features, weighted=True)
    assert len(sent) > 20
    assert max(sent) < features[0].descriptors.nbytes / 5
    with engine("dask", cluster.scheduler_address):
        monkeypatch.undo()
        there = match(features, weighted=True, cache=tmp_path / "c")
    assert bits(there) == bits(found)


def test_a_worker_that_is_killed_changes_nothing(features, cluster, tmp_path, monkeypatch):
    pairs = all_pairs(10)
    here = track_features(features, pairs, tmp_path / "here", PLAIN, 0.4, most=600)
    worker = min(worker.pid for worker in cluster.workers.values())
    steps = []

    def step(name):
        steps.append(name)
        if name == "synchronisation":
            os.kill(worker, signal.SIGKILL)

    with engine("dask", cluster.scheduler_address):
        there = track_features(features, pairs, tmp_path / "there", PLAIN, 0.4, most=600, step=step)
    assert "estimates" in steps
    wait_until(lambda: worker not in {worker.pid for worker in cluster.workers.values()})
    assert same_tracks(there, (here.tracks, here.precision))
