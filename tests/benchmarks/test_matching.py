"""Matching against OpenCV, FAISS and pycolmap, over the number of images, and its memory.

python -m pytest -m benchmark tests/benchmarks/test_matching.py -s

Needs `pip install faiss-cpu pycolmap`; a peer that is missing is left out. `test_on_avx2` compares
with FAISS where both take the processor for one without AVX-512, as most are.
"""

import csv
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cv2
import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.comparison import OUTPUTS, processor
from nmfsync import Features, NmfsyncWarning, extract_all, load_scene, match
from nmfsync.matching import nearest
from nmfsync.matching.kernels import BLAS, KERNEL
from nmfsync.matching.match import match_pairs
from nmfsync.matching.pairs import all_pairs
from nmfsync.matching.similarity import nearest_pairs
from nmfsync.report.figures.style import to_png
from nmfsync.runtime.engine import engine
from nmfsync.runtime.threads import thread_count
from real_data import real_data

pytestmark = pytest.mark.benchmark

# Scene, folder of data, features an image, contrast threshold low enough to find as many.
CASES = {
    "25 × 2,000": ("epfl/Herz-Jesu-P25", "epfl", 2000, 0.01),
    "363 × 355": ("middlebury/dino", "middlebury/dino", 355, 0.01),
    "6 × 8,000": ("graffiti/graf", "graffiti", 8000, 0.001),
}
PEER_WORK = 4e8  # pairs of features that peers are given: those of the first images
DINO = CASES["363 × 355"]


def extracted(case):
    scene, folder, limit, contrast = case
    real_data(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NmfsyncWarning)
        return extract_all(load_scene(scene).paths, limit, contrast=contrast)


def described(descriptors):
    """Features that have nothing but descriptors."""
    n = len(descriptors)
    nothing = np.zeros((n, 2), np.float32), np.zeros(n, np.float32)
    return Features(nothing[0], descriptors, nothing[1], nothing[1], (1, 1), n, n)


def ours(images, pairs):
    found = [None] * len(pairs)
    features = [described(image) for image in images]
    for numbers, some in match_pairs(features, pairs, progress=False):
        for n, matched in zip(numbers, some, strict=True):
            found[n] = matched[:, :2]
    return found


def ours_by_blas(images, pairs):
    """The way of processors that do not multiply bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "KERNEL", BLAS)
        return ours(images, pairs)


def ours_in_processes(images, pairs):
    with engine("processes"):
        return ours(images, pairs)


def on_a_pool(work, pairs):
    """Give every thread pairs of its own, instead of all threads one pair."""
    with ThreadPoolExecutor(thread_count()) as pool:
        return list(pool.map(work, *zip(*pairs.tolist(), strict=True)))


def by_opencv(images, pairs):
    floats = [image.astype(np.float32) for image in images]

    def matched(i, j):
        found = cv2.BFMatcher(cv2.NORM_L2, crossCheck=True).match(floats[i], floats[j])
        return np.array([(m.queryIdx, m.trainIdx) for m in found])

    return on_a_pool(matched, pairs)


def by_faiss(images, pairs, own_threads=False):
    """Flat indices, searched from either side."""
    import faiss

    floats = [image.astype(np.float32) for image in images]
    indices = [faiss.IndexFlatL2(128) for _ in images]
    for index, image in zip(indices, floats, strict=True):
        index.add(image)

    def matched(i, j):
        faiss.omp_set_num_threads(thread_count() if own_threads else 1)  # of this thread
        _, there = indices[j].search(floats[i], 1)
        _, back = indices[i].search(floats[j], 1)
        p = np.flatnonzero(back[there[:, 0], 0] == np.arange(len(there)))
        return np.column_stack([p, there[p, 0]])

    return [matched(i, j) for i, j in pairs.tolist()] if own_threads else on_a_pool(matched, pairs)


def by_faiss_threads(images, pairs):
    return by_faiss(images, pairs, own_threads=True)


def by_colmap(images, pairs, folder):
    """COLMAP's CPU matcher, brute force, without ratio test, distance limit and verification."""
    import pycolmap

    pycolmap.logging.minloglevel = 2
    path = folder / f"{time.monotonic_ns()}.db"
    with pycolmap.Database.open(path) as database:
        model = pycolmap.CameraModelId.SIMPLE_PINHOLE
        camera = pycolmap.Camera.create_from_model_id(1, model, 500, 640, 480)
        camera_id = database.write_camera(camera)
        sift = pycolmap.FeatureExtractorType.SIFT
        for n, image in enumerate(images, start=1):
            written = pycolmap.Image(name=f"{n:04}.png", camera_id=camera_id, image_id=n)
            database.write_image(written, True)
            database.write_keypoints(n, np.zeros((len(image), 4), np.float32))
            database.write_descriptors(n, pycolmap.FeatureDescriptors(type=sift, data=image))
    options = pycolmap.FeatureMatchingOptions(
        use_gpu=False,
        num_threads=thread_count(),
        skip_geometric_verification=True,
        max_num_matches=2**16,
    )
    options.sift.max_ratio = options.sift.max_distance = 1e6
    options.sift.cpu_brute_force_matcher = True
    start = time.perf_counter()
    pycolmap.match_exhaustive(path, options)
    seconds = time.perf_counter() - start
    with pycolmap.Database.open(path) as database:
        found = [database.read_matches(i + 1, j + 1).astype(np.int64) for i, j in pairs.tolist()]
    return found, seconds


def by_distance(A, B):
    """Squared distances, exactly."""
    A, B = A.astype(np.float64), B.astype(np.float64)
    return (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T


def by_product(A, B):
    """What COLMAP's brute force calls distance: it takes all descriptors for equally long."""
    return -np.minimum(A.astype(np.float64) @ B.astype(np.float64).T, 512**2)


def untied_differences(images, pairs, found, distances):
    """Pairs of features, untied from either side, that `found` does not judge as it should."""
    count = 0
    for (i, j), matched in zip(pairs.tolist(), found, strict=True):
        D = distances(images[i], images[j])
        untied = [(np.diff(np.partition(D, 1, axis).take([0, 1], axis), axis=axis) > 0).ravel()
                  for axis in (1, 0)]  # fmt: skip
        q, p = D.argmin(axis=1), D.argmin(axis=0)
        mutual = np.flatnonzero(p[q] == np.arange(len(q)))
        right = {(a, int(q[a])) for a in mutual.tolist()}
        different = right ^ set(map(tuple, matched.tolist()))
        count += sum(untied[0][a] and untied[1][b] for a, b in different)
    return count


def peers(folder):
    """Every peer that is installed, and its notion of distance."""
    cv2.setNumThreads(1)
    found = {"OpenCV BFMatcher": (by_opencv, by_distance)}
    if importlib.util.find_spec("faiss"):
        found["FAISS, pool"] = by_faiss, by_distance
        found["FAISS, threads"] = by_faiss_threads, by_distance
    if importlib.util.find_spec("pycolmap"):
        found["pycolmap CPU"] = lambda *a: by_colmap(*a, folder), by_product
    return found


def timed(work, *arguments):
    start = time.perf_counter()
    found = work(*arguments)
    seconds = time.perf_counter() - start
    return found if isinstance(found, tuple) else (found, seconds)


def best_of(times, work, *arguments):
    return min((timed(work, *arguments) for _ in range(times)), key=lambda result: result[1])


def print_versions():
    known = [f"Python {platform.python_version()}"]
    for name in ("numpy", "numba", "opencv-python-headless", "faiss-cpu", "pycolmap"):
        try:
            known.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            known.append(f"{name} not installed")
    print(f"\n{', '.join(known)}; {processor()}, {thread_count()} threads, {KERNEL.name}")


def work_of(images, pairs):
    return int(np.array([len(image) for image in images])[pairs].prod(axis=1).sum())


def first_images(images):
    """As many images as make `PEER_WORK` pairs of features, all pairs of them matched."""
    k = len(images)
    while work_of(images[:k], all_pairs(k)) > 1.01 * PEER_WORK:
        k -= 1
    return images[:k]


def test_against_other_matchers(tmp_path):
    print_versions()
    rows = []
    for case, inputs in CASES.items():
        images = [features.descriptors for features in extracted(inputs)]
        for warm in (ours, ours_by_blas, ours_in_processes):
            warm(images[:3], all_pairs(3))
        everything = all_pairs(len(images))
        found, seconds = best_of(3, ours, images, everything)
        print(f"\n{case}: {len(everything):,} pairs of images, "
              f"{work_of(images, everything) / 1e9:.2f}·10⁹ of features, "
              f"{sum(map(len, found)):,} matches: {seconds:.2f} s")  # fmt: skip
        some = first_images(images)
        pairs = all_pairs(len(some))
        work = work_of(some, pairs)
        found, seconds = best_of(3, ours, some, pairs)
        print(f"first {len(some)} images, {work / 1e9:.2f}·10⁹ pairs of features:")
        assert untied_differences(some, pairs, found, by_distance) == 0
        rows.append((case, "nmfsync", seconds, 1.0, seconds / work * 1e9, 0))
        others = {
            "nmfsync by BLAS": (ours_by_blas, by_distance),
            "nmfsync, processes": (ours_in_processes, by_distance),
            **peers(tmp_path),
        }
        for name, (peer, distances) in others.items():
            theirs, needed = best_of(1 if "colmap" in name else 3, peer, some, pairs)
            differ = untied_differences(some, pairs, theirs, distances)
            rows.append((case, name, needed, needed / seconds, needed / work * 1e9, differ))
            if not name.startswith("nmfsync"):
                assert needed > seconds
                assert differ == 0
        for _, name, needed, ratio, nanoseconds, differ in rows[-len(others) - 1 :]:
            print(f"  {name:20}{needed:8.2f} s{ratio:8.1f} ×{nanoseconds:8.2f} ns; "
                  f"{differ} differ", flush=True)  # fmt: skip
    header = ("case", "matcher", "seconds", "ratio", "nanoseconds a pair of features", "differ")
    write_table("matching.csv", header, rows)


def test_on_avx2():
    """Matching and FAISS, both told that the processor has AVX2 and nothing newer."""
    told = {
        "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+sse4.2,+avx,+avx2,+fma,+bmi,+bmi2",
        "FAISS_OPT_LEVEL": "avx2", "OPENBLAS_CORETYPE": "Haswell",
    }  # fmt: skip
    code = (
        "import json\n"
        "from benchmarks import test_matching as b\n"
        "b.print_versions()\n"
        "print('|', json.dumps(b.against_faiss()))"
    )
    told["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, **told},
                         capture_output=True, text=True, check=True)  # fmt: skip
    versions, _, found = run.stdout.rpartition("|")
    print(versions)
    rows = json.loads(found)
    for case, matcher, nanoseconds, ratio in rows:
        print(f"{case:12} {matcher:16}{nanoseconds:8.2f} ns a pair of features{ratio:8.2f} ×")
    header = ("case", "matcher", "nanoseconds a pair of features", "ratio")
    write_table("matching-avx2.csv", header, rows)
    assert "AVX2" in versions
    assert all(ratio >= 2 for _, matcher, _, ratio in rows if "FAISS" in matcher)


def against_faiss():
    """For every case: matcher, time of a pair of features, and that by ours; three times each."""
    rows = []
    for case, inputs in CASES.items():
        images = first_images([features.descriptors for features in extracted(inputs)])
        pairs = all_pairs(len(images))
        ours(images[:3], all_pairs(3))
        matchers = {"nmfsync": ours, "FAISS, pool": by_faiss, "FAISS, threads": by_faiss_threads}
        seconds = {name: best_of(3, work, images, pairs)[1] for name, work in matchers.items()}
        for name, needed in seconds.items():
            each = needed / work_of(images, pairs) * 1e9
            rows.append((case, name, each, needed / seconds["nmfsync"]))
    return rows


def write_table(name, header, rows):
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    with (OUTPUTS / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    print(f"written: {OUTPUTS / name}")


def simulated(rng, k, n=355):
    """Images along a way: each shares most of its points with its neighbours, in other noise."""
    points = rng.gamma(0.6, 60, (n + 20 * k, 128))
    for i in range(k):
        seen = points[20 * i : 20 * i + n] + rng.normal(0, 12, (n, 128))
        zeros = np.zeros(n, np.float32)
        xy = np.zeros((n, 2), np.float32)
        yield Features(xy, np.clip(seen, 0, 255).astype(np.uint8), zeros, zeros, (9, 9), n, n)


def test_time_over_the_number_of_images():
    """All pairs, of dino and simulated; and the nearest 20 of every image, simulated."""
    dino = extracted(DINO)
    collections = [("dino, all pairs", dino[:: 363 // k][:k]) for k in (16, 32, 64, 128, 363)]
    rng = np.random.default_rng(0)
    many = list(simulated(rng, 2000))
    collections += [("simulated, all pairs", many[:k]) for k in (16, 64, 250, 1000, 2000)]
    collections += [("simulated, nearest 20", many[:k]) for k in (250, 1000, 2000)]
    match(dino[:3], progress=False)
    rows = []
    for kind, images in collections:
        pairs, chosen = timed(_pairs_of, kind, images)
        matches, seconds = timed(lambda p=pairs, i=images: match(i, 0.8, pairs=p, progress=False))
        rows.append((kind, len(images), len(pairs), chosen, seconds, (matches.W.nnz) // 2))
        each = 1e6 * seconds / len(pairs)
        print(f"{kind:22}{len(images):6} images{len(pairs):10,} pairs{chosen:7.2f} s to choose"
              f"{seconds:8.2f} s to match{each:7.0f} µs a pair", flush=True)  # fmt: skip
    write_table(
        "matching-images.csv", ("kind", "images", "pairs", "choosing", "matching", "W"), rows
    )
    (OUTPUTS / "matching-images.png").write_bytes(to_png(_figure(rows)))


def _pairs_of(kind, images):
    return nearest_pairs(images, 20, False) if "nearest" in kind else all_pairs(len(images))


def _figure(rows):
    figure = Figure((7, 4), layout="constrained")
    axes = figure.add_subplot()
    marks = {"dino, all pairs": "o-", "simulated, all pairs": "s-", "simulated, nearest 20": "^-"}
    for kind, mark in marks.items():
        points = [(row[1], row[3] + row[4]) for row in rows if row[0] == kind]
        axes.loglog(*zip(*points, strict=True), mark, label=kind)
    axes.set(xlabel="images of 355 features", ylabel="seconds to choose and match pairs")
    axes.grid(which="both", alpha=0.25)
    axes.legend()
    return figure


def test_memory_of_363_images(tmp_path):
    """Extract and match all of dino in a process of its own, and look at its peak."""
    real_data(DINO[1])
    code = (
        "import json, re, warnings; warnings.simplefilter('ignore')\n"
        "from nmfsync import extract_all, load_scene, match\n"
        "peak = re.compile(r'VmHWM:\\s+([0-9]+) kB')\n"
        "used = lambda: int(peak.search(open('/proc/self/status').read())[1]) / 1e6\n"
        "match(extract_all(load_scene('sample/astronaut').paths, 50)); start = used()\n"
        f"features = extract_all(load_scene('{DINO[0]}').paths, {DINO[2]}, contrast={DINO[3]})\n"
        "found = used(); matches = match(features, weighted=True)\n"
        "print(json.dumps([start, found, used(), sum(f.descriptors.nbytes for f in features) / 1e9,"
        " matches.W.nnz]))"
    )
    # Not getrusage, which tells the peak of the process that started this one.
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    start, found, peak, size, entries = json.loads(run.stdout)
    print(f"\nPeak in GB: libraries {start:.2f}, extraction {found:.2f}, matching {peak:.2f}; "
          f"descriptors {size:.3f}, W of {entries:,} entries {entries * 12 / 1e9:.2f}")  # fmt: skip
    assert peak < size + 2
