"""ClusterSync beside the other methods: quality on synthetic and real problems, and scale.

python -m pytest -m benchmark tests/benchmarks/test_clustersync.py -s

Tables and plots go to outputs/benchmarks.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import psutil
import pytest
from scipy import sparse

from benchmarks.comparison import (
    NAMES,
    PEER,
    LeftOutError,
    Table,
    Watch,
    compile_kernels,
    look,
    plot,
    save,
    synchronise,
    timed,
)
from nmfsync import PairwiseMatches, evaluation, extract_all, load_scene, match, synthetic
from nmfsync.scenes.catalogue import scene_names
from nmfsync.study.landmarks import landmark_matches, load_landmarks
from real_data import real_data

pytestmark = pytest.mark.benchmark

MISSING = float("nan")


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    compile_kernels()
    print(f"\nload of the machine: {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores")


# --- Synthetic problems ----------------------------------------------------------------

Instance = tuple[PairwiseMatches, sparse.csr_array]


def generated(k, d, rho, sigma, seed) -> Instance:
    W, W_gt, sizes = synthetic.generate(k, d, rho, sigma, seed)
    return PairwiseMatches(W, sizes), W_gt


def changed(change: Callable, k, d, rho, sigma, seed) -> Instance:
    """Change the blocks of a generated problem at random.

    `change` takes (rng, i, j, block, points of image i, points of image j) and
    writes into the block of the dense W.
    """
    matches, W_gt = generated(k, d, rho, sigma, seed)
    rng = np.random.default_rng([seed, 1])
    A, ends = matches.W.toarray(), matches.offsets
    point = W_gt.indices[W_gt.indptr[:-1]]  # the first feature that shows the same point
    for i in range(k):
        for j in range(i + 1, k):
            rows, columns = slice(*ends[i : i + 2]), slice(*ends[j : j + 2])
            change(rng, i, j, A[rows, columns], point[rows], point[columns])
            A[columns, rows] = A[rows, columns].T
    return PairwiseMatches(A, matches.sizes), W_gt


def corrupt_first(rng, i, j, block, *_) -> None:
    """Make the matches of image 0 random."""
    if i == 0:
        block[:] = block[rng.permutation(len(block))]


def drop_third(rng, i, j, block, *_) -> None:
    """Never match a third of the pairs of images."""
    if rng.random() < 1 / 3:
        block[:] = 0


def confuse_two(rng, i, j, block, points_i, points_j) -> None:
    """Confuse the first two points of image 0 in 40 % of the pairs of images."""
    a, b = (np.isin(points, (0, 1)) for points in (points_i, points_j))
    if rng.random() < 0.4 and a.any() and b.any():
        block[a] = block[:, b] = 0
        crossed = points_i[a][:, None] != points_j[b]
        p, q = np.argwhere(crossed).T if crossed.any() else (np.empty(0, int),) * 2
        block[np.flatnonzero(a)[p], np.flatnonzero(b)[q]] = 1


def unequal_visibility(k, d, rho, sigma, seed) -> Instance:
    """Every point is visible with a probability of its own: rho times 0 to 2."""
    matches, W_gt = generated(k, d, 1.0, sigma, seed)
    rng = np.random.default_rng([seed, 1])
    point = W_gt.indices[W_gt.indptr[:-1]]  # numbered within image 0, which sees all
    kept = np.flatnonzero(rng.random(len(point)) < 2 * rho * rng.random(d)[point])
    sizes = np.bincount(matches.image_of[kept], minlength=k)
    return PairwiseMatches(matches.W[kept][:, kept], sizes), W_gt[kept][:, kept]


def with_probabilities(k, d, rho, sigma, seed) -> Instance:
    """Every match has the probability that it is right, by a score that is .7 ± .2 or .3 ± .2."""
    matches, W_gt = generated(k, d, rho, sigma, seed)
    rng = np.random.default_rng([seed, 1])
    above = sparse.triu(matches.W, 1).tocoo()
    right = np.asarray(W_gt[above.row, above.col]).ravel() > 0
    score = rng.normal(np.where(right, 0.7, 0.3), 0.2)
    odds = right.mean() / (1 - right.mean()) * np.exp((0.7 - 0.3) / 0.2**2 * (score - 0.5))
    weights = np.clip(odds / (1 + odds), 0.001, 0.999)
    return PairwiseMatches.from_entries(above.row, above.col, matches.sizes, weights), W_gt


@dataclass(frozen=True)
class Problem:
    name: str
    make: Callable[..., Instance]
    k: int
    d: int
    rho: float = 0.6
    sigma: float = 0.5
    seeds: int = 20


PROBLEMS = [
    Problem("k30 d20 rho.6 sigma.4", generated, 30, 20, 0.6, 0.4),
    Problem("k30 d20 rho.6 sigma.6", generated, 30, 20, 0.6, 0.6),
    Problem("k20 d20 rho.5 sigma.5", generated, 20, 20, 0.5, 0.5),
    Problem("k10 d20 rho.6 sigma.4", generated, 10, 20, 0.6, 0.4),
    Problem("k30 d20 rho.6 sigma.7", generated, 30, 20, 0.6, 0.7),
    Problem("k20 d20 rho.6 sigma.8", generated, 20, 20, 0.6, 0.8),
    *(Problem(f"k{k} d20 rho.6 sigma.3", generated, k, 20, 0.6, 0.3) for k in (3, 4, 5, 6)),
    Problem("unequal visibility", unequal_visibility, 20, 20),
    Problem("one image corrupted", partial(changed, corrupt_first), 20, 20),
    Problem("two points look alike", partial(changed, confuse_two), 20, 20),
    Problem("third of pairs unmatched", partial(changed, drop_third), 20, 20),
    Problem("k20 d20 rho.6 sigma.7", generated, 20, 20, 0.6, 0.7),
    Problem("the same, with probabilities", with_probabilities, 20, 20, 0.6, 0.7),
    Problem("k20 d100 rho.6 sigma.4", generated, 20, 100, 0.6, 0.4, 3),
    Problem("k100 d200 rho.6 sigma.5", generated, 100, 200, 0.6, 0.5, 3),
]


def solved(problem: Problem, method: str) -> tuple[float, float]:
    """Mean gt-error and CPU seconds; NaN if the method is left out, and why is printed."""
    errors, seconds = [], []
    for seed in range(problem.seeds):
        matches, W_gt = problem.make(problem.k, problem.d, problem.rho, problem.sigma, seed)
        try:
            result, duration = timed(synchronise, matches, method, universe_size=problem.d)
        except LeftOutError as reason:
            print(f"  ({method} left out: {reason})")
            return MISSING, MISSING
        errors.append(evaluation.gt_error(result.W, W_gt))
        seconds.append(duration)
    return float(np.mean(errors)), float(np.mean(seconds))


def of_input(problem: Problem) -> float:
    instances = (
        problem.make(problem.k, problem.d, problem.rho, problem.sigma, seed)
        for seed in range(problem.seeds)
    )
    return float(np.mean([evaluation.gt_error(m.W, W_gt) for m, W_gt in instances]))


def test_synthetic_quality():
    """Mean gt-error, and CPU seconds; every method that wants it is told the true d."""
    errors = Table("mean gt-error", ["input", *NAMES])
    seconds = []
    for problem in PROBLEMS:
        outcome = np.array([solved(problem, method) for method in NAMES])
        errors.add(problem.name, of_input(problem), *outcome[:, 0].tolist(), digits=1)
        seconds.append(outcome[:, 1].tolist())
    errors.write("clustersync-synthetic")
    times = Table("mean CPU seconds", NAMES)
    for problem, row in zip(PROBLEMS, seconds, strict=True):
        times.add(problem.name, *row)
    times.write("clustersync-synthetic-seconds")
    plot_errors(errors)
    ours = NAMES.index("clustersync") + 2  # after name and input
    for row in errors.rows[:5]:  # those with published figures
        assert row[ours] == np.nanmin(row[1:])


def plot_errors(table: Table) -> None:
    figure, axes = plot(9, 7, "gt-error, as a share of that of the input", "")
    place = -np.arange(len(table.rows))
    for column, method in enumerate(NAMES):
        shares = [row[column + 2] / row[1] for row in table.rows]
        ours = method == "clustersync"
        axes.plot(
            shares, place, linestyle="", markersize=9 if ours else 6, zorder=2 + ours,
            **look(method),
        )  # fmt: skip
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_yticks(place, [row[0] for row in table.rows])
    axes.set_xlim(-0.03, 1.6)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    save(figure, "clustersync-synthetic")


# --- Real images -----------------------------------------------------------------------

THETAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PRICES = (0.1, 0.3, 0.5, 1.0)
EDGES = (0.67, 0.75, 0.9, 1.0)  # ρ_edge of quickmatch: that of its authors, and more
FEATURES = 200
COLUMNS = ["FCM 1 %", "precision", "matches", "CPU s"]


def prepared(name: str):
    """Return the scene, its features and its weighted matches."""
    scene = load_scene(name)
    features = extract_all(scene.paths, FEATURES, progress=False)
    return scene, features, match(features, weighted=True, progress=False)


def figures(matches, errors, seconds: float) -> list[float]:
    """FCM and precision at 1 %, the number of matches, and the seconds."""
    fcm = evaluation.fcm(errors, matches.sizes, [0.01])[0]
    precision = evaluation.precision_at(errors, [0.01])[0]
    return [float(fcm), float(precision), len(errors.p) / 2, seconds]


def measured(scenes, method: str | None, weighted: bool, judge: Callable, **options) -> list[float]:
    """Mean figures over scenes of a method, or of the input; `judge` measures the errors."""
    rows = []
    for scene, features, weights in scenes:
        matches = weights if weighted else weights.unweighted()
        result, seconds = matches, MISSING
        if method is not None:
            result, seconds = timed(synchronise, matches, method, swaps=False, **options)
        rows.append(figures(result, judge(result, features, scene), seconds))
    return np.mean(rows, axis=0).tolist()


def surest(scenes, judge: Callable) -> list[float]:
    """Mean figures of the surest matches of the input, as many as clustersync keeps.

    What the evidence alone achieves, without any synchronisation.
    """
    rows = []
    for scene, features, matches in scenes:
        count = synchronise(matches, "clustersync").W.nnz - len(matches.image_of)
        above = sparse.triu(matches.W, 1).tocoo()
        kept = np.argsort(-above.data, kind="stable")[: count // 2]
        p, q = above.row[kept], above.col[kept]
        A = sparse.coo_array((np.ones(len(kept)), (p, q)), above.shape)
        chosen = PairwiseMatches(A + A.T, matches.sizes)
        rows.append(figures(chosen, judge(chosen, features, scene), MISSING))
    return np.mean(rows, axis=0).tolist()


RATIOS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)


def ratio_tested(scenes, limit: float, judge: Callable) -> list[float]:
    """Mean figures of the matches of the input that pass a ratio test."""
    rows = []
    for scene, features, matches in scenes:
        above = sparse.triu(matches.W, 1).tocsr()
        above.data[matches.ratios >= limit] = 0  # in the order of the entries
        chosen = matches.with_matrix(above + above.T)
        rows.append(figures(chosen, judge(chosen, features, scene), MISSING))
    return np.mean(rows, axis=0).tolist()


def by_truth(matches, features, scene):
    return evaluation.match_errors(matches, features, scene.truth)


def by_lines(matches, features, scene):
    return evaluation.epipolar_errors(matches, features, scene.cameras)


def test_graffiti():
    """Mean over eight scenes; the paper's θ for nmfsync, and all θ for clustersync."""
    real_data("graffiti")
    scenes = [prepared(name) for name in scene_names("graffiti")]
    table = Table(f"Graffiti, {FEATURES} features, mean of {len(scenes)} scenes", COLUMNS)
    table.add("input", *measured(scenes, None, False, by_truth))
    table.add("input, surest", *surest(scenes, by_truth))
    for limit in RATIOS:
        table.add(f"input, ratio {limit}", *ratio_tested(scenes, limit, by_truth))
    for theta in THETAS:
        for weighted in (True, False):
            kind = "weighted" if weighted else "unweighted"
            row = measured(scenes, "clustersync", weighted, by_truth, theta=theta)
            table.add(f"clustersync {kind} {theta}", *row)
    for edge in EDGES:
        row = measured(scenes, "quickmatch", False, by_truth, rho_edge=edge)
        table.add(f"quickmatch {edge}", *row)
    for method in (name for name in NAMES[1:-1] if name != "quickmatch"):
        theta = 0.4 if method == "nmfsync" else None
        table.add(method, *measured(scenes, method, False, by_truth, theta=theta))
    for price in PRICES:
        try:
            table.add(f"{PEER} {price}", *measured(scenes, PEER, False, by_truth, price=price))
        except LeftOutError as reason:
            print(f"  ({PEER} left out: {reason})")
            break
    table.write("clustersync-graffiti")
    plot_trade_off(table, "FCM at 1 %", "clustersync-graffiti")
    rows = {row[0]: row[1:] for row in table.rows}
    # An independent implementation of quickmatch has these.
    assert np.round(rows["quickmatch 0.9"][:2], 3).tolist() == [0.271, 0.881]
    assert rows["clustersync weighted 0.4"][1] > rows["input"][1]


def plot_trade_off(table: Table, x: str, name: str) -> None:
    """Precision against FCM; rows whose names differ in the last word only make a curve."""
    figure, axes = plot(8, 6, x, "precision at 1 %")
    curves: dict[str, list] = {}
    for row in table.rows:
        words = row[0].split()
        method = " ".join(words[:-1]) if words[-1][0].isdigit() else row[0]
        curves.setdefault(method, []).append((row[1], row[2], words[-1]))
    for method, points in curves.items():
        fcm, precision, _ = zip(*points, strict=True)
        style = look(method.split()[0].rstrip(",")) | {"label": method}
        axes.plot(fcm, precision, linestyle=":" if "unweighted" in method else "-", **style)
        last = (np.inf, np.inf)
        for *at, label in points if len(points) > 1 else ():
            if np.hypot(*np.subtract(at, last)) > 0.008:  # else they would cover each other
                axes.annotate(label, at, (5, 3), textcoords="offset points", fontsize=7)
                last = at
    axes.legend(frameon=False)
    save(figure, name)


CAMERAS = [
    "epfl/fountain-P11", "epfl/Herz-Jesu-P8", "epfl/Herz-Jesu-P25", "epfl/castle-P19",
    "epfl/castle-P30", "epfl/entry-P10", "middlebury/dinoSparseRing", "middlebury/templeSparseRing",
]  # fmt: skip


def test_scenes_with_cameras():
    """By the distance to epipolar lines, which passes what is wrong along the line."""
    means: dict[str, list[list[float]]] = {}
    table = Table(f"EPFL and Middlebury, {FEATURES} features, epipolar", COLUMNS, 44)
    real_data("epfl")
    real_data("middlebury")
    for name in CAMERAS:
        scenes = [prepared(name)]
        contestants = [("input", None, False), ("clustersync weighted", "clustersync", True)]
        contestants += [(method, method, False) for method in NAMES]
        for label, method, weighted in contestants:
            try:
                row = measured(scenes, method, weighted, by_lines)
            except LeftOutError as reason:
                print(f"  ({method} left out: {reason})")
                continue
            table.add(f"{name} {label}", *row)
            means.setdefault(label, []).append(row)
        means.setdefault("input, surest", []).append(surest(scenes, by_lines))
        table.add(f"{name} input, surest", *means["input, surest"][-1])
        for limit in RATIOS:
            row = ratio_tested(scenes, limit, by_lines)
            means.setdefault(f"input, ratio {limit}", []).append(row)
    whole = {label: rows for label, rows in means.items() if len(rows) == len(CAMERAS)}
    mean = Table("mean of the scenes", COLUMNS)
    for label, rows in whole.items():
        mean.add(label, *np.mean(rows, axis=0).tolist())
    table.write("clustersync-cameras")
    plot_trade_off(mean, "FCM at 1 %, epipolar", "clustersync-cameras")
    assert np.mean(whole["clustersync weighted"], axis=0)[1] > np.mean(whole["input"], axis=0)[1]


def test_landmarks():
    """House and Hotel, all frames, 30 landmarks; the true d is given."""
    real_data("landmarks/house/house_sync_data.mat")
    table = Table("f-score of House and Hotel, all frames", ["House", "CPU s", "Hotel", "CPU s"])
    problems = []
    for name in ("house", "hotel"):
        sequence = load_landmarks(name)
        problems.append(landmark_matches(sequence, len(sequence.xy), seed=0))
    table.add("input", *(f for m, t in problems for f in (evaluation.f_score(m.W, t.W), MISSING)))
    for method in NAMES:
        row = []
        for matches, truth in problems:
            try:
                result, seconds = timed(synchronise, matches, method, universe_size=30, swaps=False)
                row += [evaluation.f_score(result.W, truth.W), seconds]
            except LeftOutError as reason:
                print(f"  ({method} left out: {reason})")
                row += [MISSING, MISSING]
        table.add(method, *row)
    table.write("clustersync-landmarks")
    figure, axes = plot(7, 4, "f-score", "")
    for place, (name, *values) in enumerate(table.rows):
        for column, fill in ((0, "full"), (2, "none")):
            axes.plot(values[column], -place, **look(name) | {"label": None}, fillstyle=fill)
    axes.set_yticks(-np.arange(len(table.rows)), [row[0] for row in table.rows])
    axes.set_title("filled: House, hollow: Hotel", fontsize=9)
    save(figure, "clustersync-landmarks")
    rows = {row[0]: row[1:] for row in table.rows}
    assert all(rows["clustersync"][column] > rows["input"][column] for column in (0, 2))


# --- Scale -----------------------------------------------------------------------------


def rings(k: int, d: int, sigma: float, table: Table) -> list[float]:
    """Solve a ring; add size, seconds, MB, precision and recall to the table."""
    W, W_gt, sizes = synthetic.ring(k, d, views=20, rho=0.752, sigma=sigma)
    matches = PairwiseMatches(W, sizes)
    del W
    gc.collect()
    with Watch() as watch:
        result, seconds = timed(synchronise, matches, "clustersync")
    scores = [measure(result.W, W_gt) for measure in (evaluation.precision, evaluation.recall)]
    row = [len(matches.image_of), matches.W.nnz, seconds, watch.seconds, watch.megabytes, *scores]
    table.add(f"k{k} d{d} sigma{sigma}", *row, digits=4)
    return row


SIZES = ["features", "entries", "CPU s", "wall s", "peak MB", "precision", "recall"]


def test_large_rings():
    """The size of Middlebury's dino, and ten times as large."""
    table = Table("rings, views 20, rho .752", SIZES)
    rows = [rings(363, 10648, sigma, table) for sigma in (0.2, 0.5)]
    rings(3630, 106480, 0.2, table)
    table.write("clustersync-rings")
    assert min(rows[0][-2:]) > 0.999


def test_cost_grows_linearly():
    """The slope of CPU seconds over features, 10⁴ to 10⁶, both as logarithms."""
    table = Table("cost, sigma .2", SIZES)
    universes = (1173, 2100, 3700, 6650, 11700, 21000, 37000, 66500)
    rows = [rings(max(40, round(d / 29.3)), d, 0.2, table) for d in universes]
    table.write("clustersync-cost")
    features, seconds = np.array(rows)[:, [0, 2]].T
    slope, constant = np.polyfit(np.log(features), np.log(seconds), 1)
    print(f"slope: {slope:.2f}")
    figure, axes = plot(6, 4.5, "features", "CPU seconds")
    axes.loglog(features, seconds, **look("clustersync"))
    axes.loglog(
        features,
        np.exp(constant) * features**slope,
        "--",
        color="#333333",
        label=f"slope {slope:.2f}",
    )
    axes.legend(frameon=False)
    save(figure, "clustersync-cost")
    assert slope < 1.5
