"""How time and memory grow with images, with features of an image, and with matches of a feature.

python -m pytest -m benchmark tests/benchmarks/test_growth.py -s

Every problem is solved in a process of its own: `nmfsync.synchronise` in Python, also from
features on, and `nmfsync synchronise` from file to file, report included. Figures go to
outputs/benchmarks/growth.csv, the picture to growth.png beside it and to docs.
"""

import json
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import growth
from benchmarks.comparison import OUTPUTS, Table
from nmfsync.report.figures.style import to_png

pytestmark = pytest.mark.benchmark

PICTURE = Path(__file__).parents[2] / "docs" / "growth.png"

# Prints the number of matches, CPU seconds, and the peak of the resident memory in MB, before
# the work and after: making the problem is not measured, but for the memory that it holds.
MEASURE = """
import json, resource, sys, time, warnings
from pathlib import Path
import growth
from nmfsync import NmfsyncWarning, PairwiseMatches, match, synchronise
from nmfsync.matching.pairs import sequential_pairs
from nmfsync.run.matches_file import synchronise_file
warnings.simplefilter("ignore", NmfsyncWarning)
way, family, options, folder = *sys.argv[1:3], json.loads(sys.argv[3]), Path(sys.argv[4])
def from_features(features):
    matches = match(features, ratio=0.8, pairs=sequential_pairs(len(features), 10), progress=False)
    assert synchronise(matches).tracks()
    return matches
def solve(family, **options):
    problem = getattr(growth, family)(**options)
    if way == "features":
        return lambda: from_features(problem).match_count
    if way == "python":
        return lambda: (synchronise(problem), problem.match_count)[1]
    problem.save(folder / "in.npz")
    count = problem.match_count
    del problem
    files = folder / "in.npz", folder / "out.npz"
    return lambda: (synchronise_file(*files, overwrite=True), count)[1]
solve("frames" if way == "features" else "video", k=40)()  # compiles
work = solve(family, **options)
start = time.process_time()
count = work()
used = time.process_time() - start
print(count, used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@dataclass(frozen=True)
class Series:
    """Problems of one family that differ in one number.

    Attributes
    ----------
    way : str
        "python", "features" or "file".
    family : str
        A function of `growth`.
    axis : str
        The option that grows: "k" (images), "features" (of an image), or "window" (images that
        an image is matched with, on either side).
    values : tuple of int
    fixed : dict of str to number
        The other options.
    """

    way: str
    family: str
    axis: str
    values: tuple[int, ...]
    fixed: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        way = {"python": "", "features": ", from features", "file": ", from file to file"}[self.way]
        return f"{self.family.replace('_', ' ')}{way}"


MANY = (25_000, 50_000, 100_000)
FRAMES = (2_500, 5_000, 10_000)
SERIES = (
    Series("python", "chain", "k", MANY),
    Series("python", "one_track", "k", MANY),
    Series("python", "star", "k", MANY),
    Series("python", "video", "k", FRAMES),
    Series("features", "frames", "k", FRAMES),
    Series("file", "chain", "k", MANY),
    # Fewer wrong matches: else tracks join by chance, in long sequences by far more, and the
    # matches of a result, all of which are estimated, are not in proportion to the images.
    Series("file", "video", "k", (1_250, 2_500, 5_000), {"wrong": 0.05}),
    Series("python", "video", "features", (200, 400, 800), {"k": 120}),
    Series("python", "video", "window", (12, 24, 48), {"k": 150, "life": 150, "features": 200}),
)
AXES = {"k": "images", "features": "features of an image", "window": "matches of a feature"}
MOST = 1.1  # of the exponents
ROUNDS = 3


def measure(way: str, family: str, options: dict[str, float], folder: Path) -> list[float]:
    """Return the number of matches, the CPU seconds and the peak MB of one problem.

    Of several rounds the least: what else the machine does only ever adds.
    """
    command = [sys.executable, "-c", MEASURE, way, family, json.dumps(options), str(folder)]
    rounds = []
    for _ in range(ROUNDS):
        printed = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=Path(growth.__file__).parent
        ).stdout
        rounds.append([float(figure) for figure in printed.split()])
    return np.min(rounds, axis=0).tolist()


def exponents(values: tuple[int, ...], figures: np.ndarray) -> np.ndarray:
    """Fit (2,) exponents of time and memory."""
    return np.polyfit(np.log(values), np.log(figures), 1)[0]


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def test_growth(tmp_path):
    libraries = " ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    print(f"\n{processor()}, Python {platform.python_version()}, {libraries}")
    table = Table("growth", ["images", "features", "matches", "CPU s", "MB"], 40)
    found = []
    for series in SERIES:
        empty = "frames" if series.way == "features" else "nearly_empty"
        start = measure(series.way, empty, {"k": 20}, tmp_path)[2]  # Python and the libraries
        rows = []
        for value in series.values:
            options = series.fixed | {series.axis: value}
            matches, seconds, megabytes = measure(series.way, series.family, options, tmp_path)
            rows.append((seconds, max(megabytes - start, 1)))
            size = [options.get(name, 0) for name in ("k", "features")]
            table.add(f"{series.name}, {series.axis}", *size, matches, seconds, megabytes, digits=2)
        figures = np.array(rows)
        time, memory = exponents(series.values, figures)
        print(f"{series.name} over {series.axis}: time {time:.2f}, memory {memory:.2f}")
        found.append((series, figures, time, memory))
    table.write("growth")
    picture = to_png(draw(found))
    for path in (OUTPUTS / "growth.png", PICTURE):
        path.write_bytes(picture)
    assert max(max(time, memory) for _, _, time, memory in found) <= MOST


def draw(found) -> Figure:
    """Draw time (above) and memory (below) over every axis, and what grows with the power 1."""
    figure = Figure(figsize=(12, 9), dpi=110, layout="constrained")
    for column, axes in zip(AXES, figure.subplots(2, len(AXES)).T, strict=True):
        for series, figures, *exponent in found:
            if series.axis != column:
                continue
            for ax, values, power in zip(axes, figures.T, exponent, strict=True):
                ax.loglog(series.values, values, "o-", label=f"{series.name}: {power:.2f}")
        for ax, title in zip(axes, ("CPU seconds", "MB beyond the libraries"), strict=True):
            low, high = ax.get_xlim()
            bottom = ax.get_ylim()[0]
            ax.loglog([low, high], [bottom, bottom * high / low], ":", color="#333333")
            ax.set(xlabel=AXES[column], ylabel=title)
            ax.grid(alpha=0.3)
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8)
    return figure
