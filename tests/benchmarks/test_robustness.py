"""The study `robustness` with pylibmgm among the methods.

python -m pytest -m benchmark tests/benchmarks/test_robustness.py -s

The tables and all samples go to outputs/benchmarks. An interrupted run continues.
"""

from dataclasses import replace

import pytest

from benchmarks.comparison import OUTPUTS, PEER, Table, compile_kernels, peer
from nmfsync.study.definitions import METRICS, STUDIES, MethodVariant, all_methods
from nmfsync.study.results import Results
from nmfsync.study.runner import run_samples
from nmfsync.synchronisation.methods import Method

pytestmark = pytest.mark.benchmark

SAMPLES = 2  # pylibmgm takes up to a minute for each


def test_robustness():
    pytest.importorskip(PEER)
    compile_kernels()
    method = Method(PEER, lambda matches: peer(matches, price=0.1, swaps=True), arguments=())
    study = replace(
        STUDIES["robustness"], methods=lambda: [*all_methods(), MethodVariant(PEER, method)]
    )
    results = run_samples(study, OUTPUTS / "robustness", SAMPLES)
    for metric in study.metrics:
        write(results, metric)
    scores = results.means("f_score")
    assert all(row["clustersync"] >= row["input"] for row in scores.values())


def write(results: Results, metric: str) -> None:
    """Print the means over every parameter, and write them."""
    rows = results.means(metric)
    columns = list(next(iter(rows.values())))
    table = Table(f"mean {METRICS[metric]} of {SAMPLES} samples", columns)
    for parameter, means in rows.items():
        table.add(parameter, *means.values(), digits=1 if metric == "gt_error" else 3)
    table.write(f"robustness-{metric.replace('_', '-')}")
