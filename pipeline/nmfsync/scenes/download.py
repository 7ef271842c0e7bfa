"""Downloading and unpacking archives from places that may fail or may not be trusted."""

import lzma
import re
import stat
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar, cast

import pooch
import requests

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.files import sha256_of

RETRY_WAITS = (0.5, 1.5)  # seconds before the second and the third attempt

TIMEOUT = 30  # seconds without a byte

MAX_UNPACKED = 4 * 10**9  # bytes; the largest archive unpacks to a tenth of it

_T = TypeVar("_T")


def download(url: str, path: Path) -> None:
    """Download to a file; try again after faults that may pass.

    Raises
    ------
    NmfsyncError
        What happened at the last attempt.
    """
    downloader = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(),
        chunk_size=1 << 16,
        timeout=TIMEOUT,
        # Some servers unpack .tar.gz on the way if they may.
        headers={"Accept-Encoding": "identity"},
    )
    for wait in (*RETRY_WAITS, None):
        try:
            return downloader(url, str(path), None)
        except requests.HTTPError as error:
            answer = cast(requests.Response, error.response)
            fault = f"HTTP status {answer.status_code} ({answer.reason})"
            passing = answer.status_code >= 500
        except requests.Timeout:
            fault, passing = f"no answer for {TIMEOUT} seconds", True
        except requests.exceptions.ChunkedEncodingError as error:
            fault, passing = f"the connection was cut ({_root(error)})", True
        except requests.ConnectionError as error:
            fault, passing = f"no connection ({_root(error)})", True
        except requests.RequestException as error:
            fault, passing = f"not a usable address ({error})", False
        if wait is None or not passing:
            raise NmfsyncError(fault)
        time.sleep(wait)
    return None


def _root(error: BaseException) -> str:
    """Return the first cause of an error, without the layers around it."""
    while error.__context__ is not None:
        error = error.__context__
    return getattr(error, "strerror", None) or str(error)


_UNPACK_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,  # zipfile's word for an encrypted or unknown kind of archive
)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive that holds nothing but files and folders.

    Raises
    ------
    NmfsyncError
        If it is no archive, is damaged, is too large, or holds links, devices
        or paths that lead out of `folder`. Nothing is written outside.
    """
    try:
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                members = _admit(tar, lambda m: (m.name, m.size, m.isreg() or m.isdir()))
                tar.extractall(folder, members, filter="data")
        else:
            with zipfile.ZipFile(archive) as pack:
                _admit(pack.infolist(), lambda m: (m.filename, m.file_size, not _is_link(m)))
                pack.extractall(folder)
    except _UNPACK_ERRORS as error:
        raise NmfsyncError(f"{describe(archive)}; it cannot be unpacked ({error})") from None


def _is_link(member: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(member.external_attr >> 16)


def _admit(members: Iterable[_T], look: Callable[[_T], tuple[str, int, bool]]) -> list[_T]:
    """Check name, size and kind of every member before anything is unpacked."""
    admitted = []
    total = 0
    for member in members:
        name, size, plain = look(member)
        parts = re.split(r"[/\\]", name)
        if not plain:
            raise NmfsyncError(f"the archive holds {name!r}, which is neither file nor folder")
        if not parts[0] or ".." in parts or ":" in parts[0]:
            raise NmfsyncError(f"the archive holds {name!r}, which would lie outside its folder")
        total += size
        if total > MAX_UNPACKED:
            raise NmfsyncError(f"the archive unpacks to more than {MAX_UNPACKED // 10**9} GB")
        admitted.append(member)
    return admitted


def describe(file: Path) -> str:
    """Say what arrived: size and hash, and whether it is a web page instead of an archive."""
    with file.open("rb") as start:
        page = b"<html" in start.read(2000).lower()
    kind = "looks like an HTML page" if page else "is a file"
    return f"what arrived {kind} of {file.stat().st_size} bytes with SHA-256 {sha256_of(file)}"
