"""What the benchmarks of methods share: peers, measuring, tables and plots."""

import csv
import importlib.util
import platform
import re
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmfsync import METHODS, MultiMatching, NmfsyncError, NmfsyncWarning, PairwiseMatches
from nmfsync import synchronise as _synchronise
from nmfsync.report.figures.style import styles_of, to_png

OUTPUTS = Path(__file__).parents[2] / "outputs" / "benchmarks"
PEER = "pylibmgm"
PEER_PAIRS = 6_000_000  # pairs of features it takes; it holds every one of them
MATCHALS_FEATURES = 3500  # more take minutes
NAMES = [*METHODS, PEER]


class LeftOutError(Exception):
    """A method cannot take part, and why."""


def synchronise(
    matches: PairwiseMatches, method: str, price: float = 0.1, swaps: bool = True, **options
):
    """As `nmfsync.synchronise`; knows pylibmgm as well, and is silent about degraded results.

    `price` and `swaps` are for pylibmgm alone.

    Raises
    ------
    LeftOutError
        If the method is not installed, or there are too many features for it.
    """
    if method == PEER:
        return peer(matches, price, swaps)
    if method == "matchals" and len(matches.image_of) > MATCHALS_FEATURES:
        raise LeftOutError(f"{len(matches.image_of):,} features take too long")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NmfsyncWarning)
        try:
            return _synchronise(matches, method, **options)
        except NmfsyncError as error:
            raise LeftOutError(str(error)) from None


def peer(matches: PairwiseMatches, price: float, swaps: bool) -> MultiMatching:
    """Solve by pylibmgm (Kahl et al., CVPR 2025), whose licence keeps it out of the package.

    A match in a cluster costs minus its weight, every other pair `price` (of
    images that were never matched nothing), and the number of clusters is free.
    Without swaps its search is shorter: ten times faster, and on real images about
    as good.
    """
    if importlib.util.find_spec(PEER) is None:
        raise LeftOutError(f"{PEER} is not installed (pip install {PEER})")
    sizes, offsets = matches.sizes, matches.offsets
    count = (sizes.sum() ** 2 - (sizes**2).sum()) // 2
    if count > PEER_PAIRS:
        raise LeftOutError(f"{count:,} pairs of features are too many")
    import pylibmgm
    from pylibmgm.solver import OptimizationLevel, solve_mgm

    model = pylibmgm.MgmModel()
    graphs = [pylibmgm.Graph(i, int(n)) for i, n in enumerate(sizes)]
    for i in range(len(sizes)):
        rows = matches.W[offsets[i] : offsets[i + 1]].toarray()
        for j in range(i + 1, len(sizes)):
            block = rows[:, offsets[j] : offsets[j + 1]]
            pair = pylibmgm.GmModel(graphs[i], graphs[j], block.size, 0)
            for (a, b), cost in np.ndenumerate(np.where(block > 0, -block, price * block.any())):
                pair.add_assignment(a, b, float(cost))
            model.add_model(pair)
    level = OptimizationLevel.EXHAUSTIVE if swaps else OptimizationLevel.DEFAULT
    universe = np.arange(sizes.sum()) + sizes.sum()
    for number, clique in enumerate(solve_mgm(model, level).cliques()):
        for image, feature in clique.items():
            universe[offsets[image] + feature] = number
    return MultiMatching(universe, sizes)


def compile_kernels() -> None:
    """Let no method be charged for being compiled."""
    W = np.kron(np.ones((4, 4)), np.eye(4))
    for method in (name for name, record in METHODS.items() if not record.needs_descriptors):
        for weight in (1.0, 0.5):
            synchronise(PairwiseMatches(weight * W, [4] * 4), method)


def processor():
    """Name and model of the processor, as Linux tells them."""
    known = dict(re.findall(r"(\S[^:\n]*?)\s*: (.*)", Path("/proc/cpuinfo").read_text()))
    return f"{known.get('model name', platform.processor())} (model {known.get('model', '?')})"


def timed(work: Callable, *arguments, **options):
    """Return what a call returns, and the CPU seconds it took in all threads.

    Unlike wall time, these depend little on what else the machine does.
    """
    start = time.process_time()
    result = work(*arguments, **options)
    return result, time.process_time() - start


class Watch:
    """Measure a block: wall seconds, and by how much the resident memory grows (10⁶ bytes)."""

    def __enter__(self):
        self._process = psutil.Process()
        self._before = self._peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        self.seconds = -time.perf_counter()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def __exit__(self, *_) -> None:
        self.seconds += time.perf_counter()
        self._done.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        return (self._peak - self._before) / 1e6


class Table:
    """A table that is printed as it grows, and written as CSV."""

    def __init__(self, title: str, columns: list[str], width: int = 28):
        self.columns, self.rows, self._width = columns, [], width
        print(f"\n{title}\n{'':{width}}" + "".join(f"{column:>12}" for column in columns))

    def add(self, name: str, *values, digits: int = 3) -> None:
        self.rows.append([name, *values])
        cells = [
            f"{value:>12,.{digits}f}"
            if isinstance(value, float) and np.isfinite(value)
            else f"{'-' if isinstance(value, float) else value:>12}"
            for value in values
        ]
        print(f"{name:{self._width}}" + "".join(cells), flush=True)

    def write(self, name: str) -> None:
        OUTPUTS.mkdir(parents=True, exist_ok=True)
        with (OUTPUTS / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["", *self.columns], *self.rows])


def plot(width: float, height: float, x: str, y: str) -> tuple[Figure, Axes]:
    """Make a figure of one plot with named axes."""
    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return figure, axes


def look(method: str) -> dict:
    """Colour and marker of a method, the same in all plots."""
    style = styles_of(["input", *NAMES])[method]
    return {"color": style.colour, "marker": style.marker or "x", "label": style.name}


def save(figure: Figure, name: str) -> None:
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    (OUTPUTS / f"{name}.png").write_bytes(to_png(figure))
