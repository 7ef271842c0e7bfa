"""What a first run compiles, and who does it."""

import os
import subprocess
import sys

import pytest

from builders import python
from nmfsync.run import kernels

RUN = (
    "import sys\n"
    "from nmfsync import Settings, run_scene\n"
    "from nmfsync.run import scene\n"
    "from nmfsync.evaluation import confidence, cycles\n"
    "from nmfsync.synchronisation.clustersync import counts, exchange\n"
    "scene.write_scene_report = lambda *arguments: None\n"
    "run_scene('sample/astronaut', Settings(methods=('clustersync',), features=30), 'out')\n"
    "kernels = (exchange.exchange_in_order, counts._count_confirmations, cycles._disagree,\n"
    "           counts._count_pairs_within, confidence._combine)\n"
    "print(*(len(k.stats.cache_hits) - len(k.stats.cache_misses) for k in kernels))"
)


@pytest.mark.benchmark  # not because it measures, but because it compiles everything twice
def test_the_process_beside_compiles_what_the_run_needs(tmp_path):
    """Types of arguments included: else it would compile in vain."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    python("-c", "from nmfsync.run.kernels import main; import os; main(os.getppid())",
           env=environment, cwd=tmp_path)  # fmt: skip
    done = python("-c", RUN, env=environment, cwd=tmp_path)
    assert done.stdout.split() == ["1"] * 5
    assert not [*(tmp_path / "kernels").rglob(".*")]  # no claim, no temporary file


def started(monkeypatch, threads=2, kept=False) -> list:
    calls = []
    monkeypatch.setattr(kernels, "thread_count", lambda: threads)
    monkeypatch.setattr(kernels, "is_kept", lambda kernel: kept)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: calls.append(command))
    monkeypatch.setattr(kernels.atexit, "register", lambda *arguments: None)
    kernels._start.cache_clear()
    return calls


def test_it_is_started_once_and_only_where_it_helps(monkeypatch):
    calls = started(monkeypatch)
    kernels.compile_beside(["unionfind"])  # which has no kernels
    assert calls == []
    kernels.compile_beside(["unionfind", "clustersync"])
    kernels.compile_beside(["clustersync"])
    assert [command[0] for command in calls] == [sys.executable]
    kernels._start.cache_clear()


@pytest.mark.parametrize("case", [{"threads": 1}, {"kept": True}])
def test_it_is_not_started_without_a_second_core_or_when_all_is_compiled(monkeypatch, case):
    calls = started(monkeypatch, **case)
    kernels.compile_beside(["clustersync"])
    assert calls == []


def test_a_system_without_room_for_another_process_does_without(monkeypatch):
    def full(*arguments, **options):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    started(monkeypatch)
    monkeypatch.setattr(subprocess, "Popen", full)
    kernels.compile_beside(["clustersync"])
    kernels._start.cache_clear()


PREPARED = (
    "import sys\n"
    "from nmfsync import Settings, run_scene\n"
    "from nmfsync.run import scene\n"
    "from nmfsync.synchronisation.clustersync import method\n"
    "from numba.core.dispatcher import Dispatcher\n"
    "def known():\n"
    "    modules = [m for n, m in sys.modules.items() if n.startswith('nmfsync.')]\n"
    "    kernels = {v for m in modules for v in vars(m).values() if isinstance(v, Dispatcher)}\n"
    "    return {(k.py_func.__module__, k.py_func.__name__, s)\n"
    "            for k in kernels for s in k.signatures}\n"
    "scene.write_scene_report = scene.compile_beside = lambda *arguments: None\n"
    "method.cluster_unweighted = None\n"
    "scene._compile_matching()\n"
    "scene._compile_method('clustersync', True)\n"
    "before = known()\n"
    "run_scene('sample/astronaut', Settings(methods=('clustersync',), features=60), 'out')\n"
    "print(len(before), *{name for folder, name, _ in known() - before\n"
    "                     if '.evaluation.' not in folder and folder.split('.')[1] != 'runtime'})"
)


def test_what_is_compiled_before_a_stage_is_what_the_stage_needs(tmp_path):
    """Else compiling would count as its time, or be done for matches of another kind."""
    number, *others = python("-c", PREPARED, cwd=tmp_path).stdout.split()
    assert int(number) > 10
    assert others == []
