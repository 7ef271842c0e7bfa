"""The study `robustness` with pylibmgm among the methods.

python -m pytest -m benchmark tests/benchmarks/test_robustness.py -s

The tables and all samples go to outputs/benchmarks. An interrupted run continues.
"""

from dataclasses import replace

import pytest

from benchmarks.comparison import NAMES, OUTPUTS, PEER, Table, compile_kernels, peer
from nmfsync.study.definitions import METRICS, STUDIES, MethodVariant
from nmfsync.study.results import Results
from nmfsync.study.runner import run_samples
from nmfsync.synchronisation.methods import METHODS, Method

pytestmark = pytest.mark.benchmark

SAMPLES = 2  # pylibmgm takes up to a minute for each


def test_robustness():
    pytest.importorskip(PEER)
    compile_kernels()
    methods = {**METHODS, PEER: Method(PEER, lambda matches: peer(matches, 0.1, True), "", ())}
    study = replace(
        STUDIES["robustness"],
        methods=lambda: [MethodVariant(name, method) for name, method in methods.items()],
    )
    results = run_samples(study, OUTPUTS / "robustness", SAMPLES)
    for metric in study.metrics:
        write(results, metric)
    scores = results.means("f_score")
    assert all(row["clustersync"] >= row["input"] for row in scores.values())


def write(results: Results, metric: str) -> None:
    """Print the means over every parameter, and write them."""
    table = Table(f"mean {METRICS[metric]} of {SAMPLES} samples", ["input", *NAMES])
    for parameter, means in results.means(metric).items():
        table.add(parameter, *means.values(), digits=1 if metric == "gt_error" else 3)
    table.write(f"robustness-{metric.replace('_', '-')}")
