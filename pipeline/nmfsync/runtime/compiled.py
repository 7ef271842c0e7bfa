"""Compiled kernels: plain loops over arrays, where NumPy would need as many temporary ones."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a function when it is first called, and keep the machine code on disk.

    It releases the GIL. Where neither the folder of the package nor a cache
    folder of the user can be written, every process compiles it anew.
    """
    kernel: Callable[..., Any]
    try:
        kernel = njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        kernel = njit(nogil=True, **options)(function)
    return kernel
