"""Collections beyond one machine: what the client holds, what moves, and what a cut loses.

python -m pytest -m benchmark tests/benchmarks/test_cluster.py -s

- `-k client`: videos of 500, 1,000 and 2,000 simulated frames on a Dask cluster of 2 and 4
  workers on this machine, through `track_features`: memory of the client, and the bytes of all
  tasks and results. The control sends the descriptors (`match` of features in memory).
- `-k cost`: CPU seconds of every step on castle-P19, 2,000 features an image, and what they make of
  100,000 and 10 million such photographs.
- `-k cut`: the simulated ring of 1.6 million features and the real dino, in parts of several
  sizes, against the undivided result.
"""

import json
import subprocess
import sys
import time
from itertools import starmap
from pathlib import Path

import numba
import numpy as np
import pytest
from scipy import sparse

from benchmarks.comparison import Table, Watch, processor
from in_parts import problem_of
from nmfsync import (
    MultiMatching,
    PairwiseMatches,
    evaluation,
    extract_all,
    load_scene,
    match,
    synchronise,
    synthetic,
)
from nmfsync.matching.pairs import all_pairs
from nmfsync.matching.rows import Limits
from nmfsync.run.collection import track_features
from nmfsync.synchronisation.clustersync.parts import cluster_in_parts, parts_of
from real_data import real_data

pytestmark = pytest.mark.benchmark

FEATURES = 200  # points that a frame sees, and 40 others

# Runs in a process of its own: the client.
CLIENT = """
import json, pickle, resource, sys, time
from collections import Counter
from hashlib import sha256
from pathlib import Path
sys.path.insert(0, {tests!r})
from nmfsync.matching import match as matching
from nmfsync.matching.pairs import sequential_pairs
from nmfsync.matching.rows import Limits
from nmfsync.run import collection, row_matches
from nmfsync.runtime import engine, tasks
from video import frame, write_frames

address, folder, k, n, way = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:5]), sys.argv[5]
moved = Counter()
stream = engine.stream

def weighed(function, tasks):
    def counted():
        for task in tasks:
            moved["sent"] += len(pickle.dumps(task))
            yield task
    for result in stream(function, counted()):
        moved["received"] += len(pickle.dumps(result))
        yield result

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def frames(k, batch=20):
    tasks = (((folder, range(a, min(a + batch, k)), n),) for a in range(0, k, batch))
    return [f for part in stream(write_frames, tasks) for f in part]

collection.stream = row_matches.stream = tasks.stream = weighed
limits = Limits(None, None, 0.3, "homography")
with engine.engine("dask", address):
    warm = frames(40)
    collection.track_features(warm, sequential_pairs(40, 10), folder / "warm", limits, 0.4,
                              progress=False)
    if way == "stored":
        features = frames(k)
    else:
        features = [frame(i, n) for i in range(k)]
    pairs = sequential_pairs(k, 10)
    moved.clear()
    before, start = peak(), time.perf_counter()
    if way == "stored":
        done = collection.track_features(features, pairs, folder / "stages", limits, 0.4,
                                         most=2**15, progress=False)
        found = dict(found=done.found, kept=done.kept, parts=done.parts,
                     tracks=sha256(done.tracks.universe.tobytes()).hexdigest()[:12])
    else:
        found = dict(found=matching.match(features, weighted=True, pairs=pairs,
                                          progress=False).match_count)
    seconds = time.perf_counter() - start
print(json.dumps(dict(seconds=seconds, before=before, peak=peak(), features=sum(map(len, features)),
                      **found, **moved)))
"""


def client(workers: int, k: int, way: str, folder) -> dict:
    """Run a client on a cluster of so many workers; return what it prints."""
    distributed = pytest.importorskip("distributed", reason="needs nmfsync[dask]")
    tests = str(Path(__file__).parents[1])
    folder.mkdir()
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        remote = distributed.Client(cluster)
        remote.run(sys.path.insert, 0, tests)
        program = [sys.executable, "-c", CLIENT.format(tests=tests), cluster.scheduler_address]
        run = subprocess.run(
            [*program, str(folder), str(k), str(FEATURES), way],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        remote.close()
    return json.loads(run.stdout)


def test_client(tmp_path):
    print(f"\n{processor()}")
    table = Table(
        "client of a Dask cluster",
        ["images", "features", "matches", "s", "MB before", "MB peak", "MB sent", "MB back"],
    )
    tracks = {}
    for way, workers, k in (
        ("memory", 2, 500), ("memory", 2, 1000), ("stored", 2, 500), ("stored", 2, 1000),
        ("stored", 2, 2000), ("stored", 4, 2000),
    ):  # fmt: skip
        done = client(workers, k, way, tmp_path / f"{way}{workers}-{k}")
        table.add(
            f"{way}, {workers} workers", k, done["features"], done["found"], done["seconds"],
            done["before"], done["peak"], done["sent"] / 1e6, done["received"] / 1e6, digits=1,
        )  # fmt: skip
        if way == "stored":
            tracks.setdefault(k, set()).add(done["tracks"])
    table.write("cluster-client")
    assert all(len(found) == 1 for found in tracks.values())


# --- what it costs

NEIGHBOURS = 40  # images that an image is matched with, of a large collection


def test_cost(tmp_path):
    """On one thread, so that CPU seconds are core seconds."""
    real_data("epfl")
    print(f"\n{processor()}")
    scene = load_scene("epfl/castle-P19")
    last, seconds = ["features", time.process_time()], {}

    def step(name):
        seconds[last[0]] = time.process_time() - last[1]
        last[:] = [name, time.process_time()]

    numba.set_num_threads(1)
    for folder in ("warm", "cold"):  # the first time compiles
        last[:], features = ["features", time.process_time()], None
        features = extract_all(scene.paths, 2000, contrast=0.01, progress=False,
                               cache=tmp_path / folder)  # fmt: skip
        rooted, pairs = [f.rooted() for f in features], all_pairs(len(features))
        done = track_features(
            rooted, pairs, tmp_path / folder, Limits(None, None, 0.3, "fundamental"), 0.4,
            progress=False, step=step,
        )  # fmt: skip
        step("end")
    k, m = len(features), sum(map(len, features))
    size = {
        name: sum(path.stat().st_size for path in (tmp_path / "cold" / name).glob("*.npz"))
        for name in ("matches", "judged")
    }
    kept_a_pair = done.kept / len(pairs)
    per = {
        "features": ("image", seconds["features"] / k),
        "matches": ("pair", seconds["matches"] / len(pairs)),
        "verification": ("pair", (seconds["evidence"] + seconds["verification"]) / len(pairs)),
        "synchronisation": ("match", sum(
            seconds[name] for name in ("near-duplicates", "synchronisation", "estimates")
        ) / done.kept),
    }  # fmt: skip
    print(f"{k} images, {m / k:.0f} features an image, {done.found / len(pairs):.0f} matches found "
          f"and {kept_a_pair:.0f} kept a pair of images")  # fmt: skip
    photographs = (100_000, 10_000_000)
    table = Table("castle-P19 and more", ["each", *(f"{n:,}" for n in photographs)])
    for name, (unit, each) in per.items():
        count = {"image": 1, "pair": NEIGHBOURS / 2, "match": NEIGHBOURS / 2 * kept_a_pair}[unit]
        table.add(f"{name}, ms / {unit}; core hours", 1000 * each,
                  *(n * count * each / 3600 for n in photographs))  # fmt: skip
    pair = {name: total / len(pairs) for name, total in size.items()}
    stored = sum(path.stat().st_size for path in (tmp_path / "cold").glob("*.npz")) / k
    table.add("features stored, kB; TB", stored / 1e3, *(n * stored / 1e12 for n in photographs))
    for name, each in pair.items():
        table.add(f"{name} stored, kB / pair; TB", each / 1e3,
                  *(n * NEIGHBOURS / 2 * each / 1e12 for n in photographs))  # fmt: skip
    table.write("cluster-cost")


# --- what a cut loses


def solved_in_parts(matches: PairwiseMatches, most: int) -> tuple[MultiMatching, int, float]:
    """Solve matches in parts; also return the number of parts, and the matches across cuts."""
    problem = problem_of(matches)
    label, inside = cluster_in_parts(problem, 0.4, 3, most, starmap)
    parts = len(list(parts_of(problem, most)))
    return MultiMatching(label, matches.sizes), parts, 1 - inside / matches.match_count


def weighted_ring(k: int, d: int, sigma: float) -> tuple[PairwiseMatches, MultiMatching]:
    """Make a ring whose matches have probabilities, and the tracks that are right."""
    W, W_gt, sizes = synthetic.ring(k, d, views=20, rho=0.752, sigma=sigma)
    truth = MultiMatching(sparse.csgraph.connected_components(W_gt, directed=False)[1], sizes)
    above, rng = sparse.triu(W, 1, format="coo"), np.random.default_rng(0)
    right = truth.universe[above.row] == truth.universe[above.col]
    weight = np.where(right, rng.beta(5, 2, len(right)), rng.beta(2, 5, len(right)))
    weight = np.clip(weight, 0.01, 0.99)
    return PairwiseMatches.from_entries(above.row, above.col, sizes, weight), truth


def pair_scores(result: MultiMatching, truth: MultiMatching) -> tuple[float, float]:
    """Precision and recall of the matches of tracks, without W."""

    def pairs(label):
        n = np.unique(label, return_counts=True)[1].astype(float)
        return (n * (n - 1)).sum()

    both = pairs(result.universe.astype(np.int64) * truth.universe_size + truth.universe)
    return both / pairs(result.universe), both / pairs(truth.universe)


def changed(a: MultiMatching, b: MultiMatching) -> float:
    """Share of the features whose track is another set of features."""
    both = np.unique(np.stack([a.universe, b.universe]), axis=1, return_inverse=True)[1].ravel()
    size = np.bincount(both)[both]
    same = (size == np.bincount(a.universe)[a.universe]) & (
        size == np.bincount(b.universe)[b.universe]
    )
    return float(1 - same.mean())


def test_cut_ring():
    print(f"\n{processor()}")
    table = Table(
        "ring of 3,630 images, 18 % wrong",
        ["parts", "across", "changed", "precision", "recall", "s", "MB"],
    )
    matches, truth = weighted_ring(3630, 106480, 0.2)
    print(matches)
    start = time.perf_counter()
    with Watch() as watch:
        whole = synchronise(matches, theta=0.4)
    table.add("undivided", 1, 0.0, 0.0, *pair_scores(whole, truth),
              time.perf_counter() - start, watch.megabytes, digits=5)  # fmt: skip
    for most in (2**19, 2**18, 2**17, 2**16):
        start = time.perf_counter()
        with Watch() as watch:
            found, parts, across = solved_in_parts(matches, most)
        table.add(f"{most:,} features", parts, across, changed(whole, found),
                  *pair_scores(found, truth), time.perf_counter() - start, watch.megabytes,
                  digits=5)  # fmt: skip
    table.write("cluster-ring")


def test_cut_dino():
    real_data("middlebury/dino")
    print(f"\n{processor()}")
    scene = load_scene("middlebury/dino")
    features = extract_all(scene.paths, 355, contrast=0.01, progress=False)
    matches = match(features, weighted=True, progress=False).at_least(0.05)
    print(matches)
    table = Table(
        "dino",
        ["parts", "across", "changed", "FCM", "precision", "s"],
    )

    def scores(result):
        summary = evaluation.evaluate(result, features, None, 0, 0, scene.cameras)
        return summary.epipolar_fcm["0.01"], summary.epipolar_precision["0.01"]

    start = time.perf_counter()
    whole = synchronise(matches, theta=0.4)
    table.add("undivided", 1, 0.0, 0.0, *scores(whole), time.perf_counter() - start, digits=4)
    for most in (2**16, 2**15, 2**14, 2**13):
        start = time.perf_counter()
        found, parts, across = solved_in_parts(matches, most)
        table.add(f"{most:,} features", parts, across, changed(whole, found), *scores(found),
                  time.perf_counter() - start, digits=4)  # fmt: skip
    table.write("cluster-dino")
