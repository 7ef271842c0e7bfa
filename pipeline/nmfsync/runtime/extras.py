"""Optional dependencies: imported when they are needed."""

from importlib import import_module
from typing import Any

from nmfsync.errors import NmfsyncError


def optional(module: str, extra: str) -> Any:
    """Import an optional dependency, or say in one line how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise NmfsyncError(f"{module} is needed for this: pip install 'nmfsync[{extra}]'") from None
