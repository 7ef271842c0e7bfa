"""Downloading and unpacking archives from servers that may fail or send anything."""

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

MAX_UNPACKED = 4 * 10**9  # bytes; the largest data set has a tenth of that

_T = TypeVar("_T")


def download(url: str, path: Path) -> None:
    """Download to a file; try again after faults that may be temporary.

    Raises
    ------
    NmfsyncError
        The fault of the last attempt.
    """
    downloader = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(),
        chunk_size=1 << 16,
        timeout=TIMEOUT,
        # Without this, some servers unpack a .tar.gz before they send it.
        headers={"Accept-Encoding": "identity"},
    )
    for wait in (*RETRY_WAITS, None):
        try:
            downloader(url, str(path), None)
            return
        except requests.HTTPError as error:
            answer = cast(requests.Response, error.response)
            fault = f"HTTP status {answer.status_code} ({answer.reason})"
            temporary = answer.status_code >= 500
        except requests.Timeout:
            fault, temporary = f"no answer for {TIMEOUT} seconds", True
        except requests.exceptions.ChunkedEncodingError as error:
            fault, temporary = f"the connection was cut ({_root(error)})", True
        except requests.ConnectionError as error:
            fault, temporary = f"no connection ({_root(error)})", True
        except requests.RequestException as error:
            fault, temporary = f"not a usable address ({error})", False
        if wait is None or not temporary:
            raise NmfsyncError(fault)
        time.sleep(wait)


def _root(error: BaseException) -> str:
    """Describe the first cause of an error, without the errors around it."""
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
    RuntimeError,  # zipfile raises it for an encrypted archive or an unknown compression
)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive that contains only files and folders.

    Raises
    ------
    NmfsyncError
        If the file is not an archive, is damaged or too large, or contains
        links, devices or paths out of `folder`. Nothing is written outside.
    """
    try:
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                members = _checked(tar, lambda m: (m.name, m.size, m.isreg() or m.isdir()))
                tar.extractall(folder, members, filter="data")
        else:
            with zipfile.ZipFile(archive) as pack:
                _checked(pack.infolist(), lambda m: (m.filename, m.file_size, not _is_link(m)))
                pack.extractall(folder)
    except _UNPACK_ERRORS as error:
        raise NmfsyncError(f"{describe(archive)}; it cannot be unpacked ({error})") from None


def _is_link(member: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(member.external_attr >> 16)


def _checked(members: Iterable[_T], facts: Callable[[_T], tuple[str, int, bool]]) -> list[_T]:
    """Check every member before anything is unpacked.

    `facts` returns its name, its size, and whether it is a file or a folder.
    """
    checked = []
    total = 0
    for member in members:
        name, size, plain = facts(member)
        parts = re.split(r"[/\\]", name)
        if not plain:
            raise NmfsyncError(
                f"the archive contains {name!r}, which is neither a file nor a folder"
            )
        if not parts[0] or ".." in parts or ":" in parts[0]:
            raise NmfsyncError(f"the archive contains {name!r}, which is outside its folder")
        total += size
        if total > MAX_UNPACKED:
            raise NmfsyncError(f"the archive unpacks to more than {MAX_UNPACKED // 10**9} GB")
        checked.append(member)
    return checked


def describe(file: Path) -> str:
    """Describe a downloaded file: size, hash, and whether it is a web page."""
    with file.open("rb") as start:
        page = b"<html" in start.read(2000).lower()
    kind = "an HTML page" if page else "a file"
    return f"received {kind} of {file.stat().st_size} bytes with SHA-256 {sha256_of(file)}"
