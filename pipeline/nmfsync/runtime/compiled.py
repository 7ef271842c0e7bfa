"""Compiled kernels: plain loops over arrays, where NumPy would need large temporary arrays."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a function at its first call, and keep the machine code on disk.

    The compiled function releases the GIL. If neither the folder of the package
    nor the user's cache folder is writable, every process compiles it again.
    """
    kernel: Callable[..., Any]
    try:
        kernel = njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        kernel = njit(nogil=True, **options)(function)
    return kernel
