"""1.6 million features and 11 million matches: time and memory of every step, evidence included.

python -m pytest -m benchmark tests/benchmarks/test_scale.py -s

The ring of `synthetic.ring` that is ten times that of Middlebury's dino. Each case is solved in a
process of its own, which reads the matches from a file.
"""

import subprocess
import sys
from multiprocessing import get_context

import numpy as np
import psutil
import pytest
from scipy import sparse

from nmfsync import synthetic

pytestmark = pytest.mark.benchmark

MEASURE = """
import resource, sys, time, warnings
import numpy as np
from nmfsync import NmfsyncWarning, PairwiseMatches, synchronise
from nmfsync.evaluation.confidence import estimate_confidence
warnings.simplefilter("ignore", NmfsyncWarning)
def solve(load, say=lambda step: None):
    matches = PairwiseMatches.from_entries(*load())
    say("make W")
    result = synchronise(matches)
    say("synchronise")
    if matches.weighted:
        estimate_confidence(result, matches)
        say("estimate")
path, weighted = sys.argv[1], sys.argv[2] == "probabilities"
def load():
    with np.load(path) as file:
        return *(file[name] for name in ("p", "q", "sizes")), file["weights"] if weighted else None
few = [0, 2, 0], [2, 4, 4], [2, 2, 2]
solve(lambda: (*few, [0.3, 0.5, 0.6] if weighted else None))  # compiles most
last = [time.process_time(), time.perf_counter()]
def say(step):
    now = [time.process_time(), time.perf_counter()]
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{step:12}{now[0] - last[0]:8.1f}{now[1] - last[1]:8.1f}{megabytes:8,.0f}", flush=True)
    last[:] = now
solve(load, say)
"""


def make_ring(path) -> None:
    """Write the matches, and the probability of each by a score that is .7 ± .2 or .3 ± .2."""
    W, truth, sizes = synthetic.ring(3630, 106480, views=20, rho=0.752, sigma=0.2)
    above = sparse.triu(W, 1).tocoo()
    p, q = above.row.astype(np.int32), above.col.astype(np.int32)
    point = truth.indices[truth.indptr[:-1]]  # the first feature of it
    right = point[p] == point[q]
    score = np.random.default_rng(1).normal(np.where(right, 0.7, 0.3), 0.2)
    odds = right.mean() / (1 - right.mean()) * np.exp((0.7 - 0.3) / 0.2**2 * (score - 0.5))
    weights = np.clip(odds / (1 + odds), 0.001, 0.999)
    np.savez(path, p=p, q=q, sizes=sizes, weights=weights)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """Made in another process: the peak of a process is at least that of the one it comes from."""
    path = tmp_path_factory.mktemp("ring") / "ring.npz"
    process = get_context("spawn").Process(target=make_ring, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 0
    return path


@pytest.mark.parametrize("kind", ["equal", "probabilities"])
def test_scale(ring, kind):
    print(f"\n{kind}, load {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores")
    print(f"{'':12}{'CPU s':>8}{'wall s':>8}{'peak MB':>8}")
    command = [sys.executable, "-c", MEASURE, str(ring), kind]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(printed)
    assert len(printed.splitlines()) == (2 if kind == "equal" else 3)
