"""The kernels that take longest to compile, compiled beside the first steps of a first run."""

import atexit
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import numpy as np

from nmfsync import synthetic
from nmfsync.evaluation.confidence import estimate_confidence
from nmfsync.evaluation.cycles import cycle_error
from nmfsync.runtime.compiled import is_kept
from nmfsync.runtime.threads import thread_count
from nmfsync.runtime.workers import end_with_parent
from nmfsync.synchronisation.clustersync.exchange import exchange_in_order
from nmfsync.synchronisation.clustersync.search import compile_later_steps
from nmfsync.synchronisation.methods import METHODS
from nmfsync.types.matches import MultiMatching, PairwiseMatches

_PROGRAM = "from nmfsync.run.kernels import main; main({parent})"


def compile_beside(methods: Sequence[str]) -> None:
    """Let another process compile what a run needs last, if it has to be compiled.

    These are half of all. This process meanwhile compiles those that are needed first; who comes
    second to a kernel waits for the other.

    Parameters
    ----------
    methods : sequence of str
        Those that are going to be run.
    """
    needed = any(METHODS[name].compiles for name in methods)
    if needed and thread_count() > 1 and not is_kept(exchange_in_order):
        _start()


@cache
def _start() -> None:
    """Start the process, once; it ends when it is done, or with this one."""
    if not sys.executable or getattr(sys, "frozen", False):
        return
    program = _PROGRAM.format(parent=os.getpid())
    nowhere = subprocess.DEVNULL
    with suppress(OSError):  # no process is left for us: then we compile all ourselves
        helper = subprocess.Popen(
            [sys.executable, "-P", "-c", program], stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
        atexit.register(_end, helper)


def _end(helper: "subprocess.Popen[bytes]") -> None:
    helper.terminate()
    helper.wait()


def main(parent: int) -> None:
    """Compile, and keep the machine code."""
    end_with_parent(parent)
    W, _, sizes = synthetic.generate(k=6, d=4, rho=1.0, sigma=0.5)
    matches = PairwiseMatches(W, sizes)
    compile_later_steps(matches)
    cycle_error(matches.W, matches.sizes)
    estimate_confidence(MultiMatching(np.tile(np.arange(4), 6), sizes), matches)
