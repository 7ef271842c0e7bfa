"""Figures of the pages, drawn with matplotlib, which is imported here first.

matplotlib reads the user's settings when it is imported, and complains about
those that it does not like; none of them matters to figures without a window.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nmfsync.runtime.files import is_writable, private_folder


def _import_matplotlib() -> None:
    """Import matplotlib without noise and without a need of its backend, home or disk."""
    _give_a_folder()
    with _silent(logging.getLogger("matplotlib")):
        # A notebook's backend need not be installed where the program is.
        backend = os.environ.pop("MPLBACKEND", None)
        try:
            import matplotlib.font_manager  # makes a list of fonts, and keeps it
        finally:
            if backend is not None:
                os.environ["MPLBACKEND"] = backend
        if backend:
            with suppress(ValueError):
                matplotlib.rcParams["backend"] = backend


def _give_a_folder() -> None:
    """Without a home, let matplotlib keep its list of fonts, which takes seconds to make."""
    usual = {"XDG_CONFIG_HOME": "~/.config", "XDG_CACHE_HOME": "~/.cache"}
    homes = [os.environ.get(name) or os.path.expanduser(home) for name, home in usual.items()]
    own = os.environ.get("MPLCONFIGDIR")
    folders = [Path(own).absolute()] if own else [Path(home, "matplotlib") for home in homes]
    usable = all(folder.is_absolute() and is_writable(folder) for folder in folders)
    if not usable and (folder := private_folder()):
        os.environ["MPLCONFIGDIR"] = str(folder / "matplotlib")


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


if "matplotlib" not in sys.modules:
    _import_matplotlib()
