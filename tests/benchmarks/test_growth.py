"""How time and memory grow with the number of images, whose matches grow in proportion.

python -m pytest -m benchmark tests/benchmarks/test_growth.py -s

Every problem is solved in a process of its own: `nmfsync.synchronise` in Python, and
`nmfsync synchronise` from file to file, report included.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from growth import FAMILIES

pytestmark = pytest.mark.benchmark

IMAGES = {"video": (2_500, 5_000, 10_000)}
MANY_IMAGES = (20_000, 40_000, 80_000)

# Prints CPU seconds and the peak of the resident memory in MB; with no problem, those of Python
# and the libraries.
MEASURE = """
import resource, sys, time, warnings
from pathlib import Path
from growth import FAMILIES
from nmfsync import NmfsyncWarning, PairwiseMatches, synchronise
from nmfsync.run.matches_file import synchronise_file
warnings.simplefilter("ignore", NmfsyncWarning)
way, name, k, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
def solve(name, k):
    if way == "python":
        return lambda matches=FAMILIES[name](k): synchronise(matches)
    FAMILIES[name](k).save(folder / "in.npz")
    return lambda: synchronise_file(folder / "in.npz", folder / "out.npz", overwrite=True)
solve("video", 40)()  # compiles
work = solve(name, k)
start = time.process_time()
work()
used = time.process_time() - start
print(used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure(way: str, family: str, k: int, folder: Path) -> tuple[float, float]:
    command = [sys.executable, "-c", MEASURE, way, family, str(k), str(folder)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = map(float, printed.split())
    return seconds, megabytes


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("way", ["python", "file"])
def test_growth(way, family, tmp_path):
    images = IMAGES.get(family, MANY_IMAGES)
    _, start = measure(way, "nearly_empty", 2, tmp_path)
    figures = np.array([measure(way, family, k, tmp_path) for k in images])
    print(f"\n{family}, {way}")
    for k, (seconds, megabytes) in zip(images, figures, strict=True):
        print(f"{k:>9,} images{seconds:>9.2f} s{megabytes:>9,.0f} MB")
    # Of Python and the libraries, and of what is measured from it.
    grown = np.column_stack([figures[:, 0], np.maximum(figures[:, 1] - start, 1)])
    exponents = np.polyfit(np.log(images), np.log(grown), 1)[0]
    print("exponents: {:.2f} of time, {:.2f} of memory beyond the libraries".format(*exponents))
    assert exponents[1] < 1.5
