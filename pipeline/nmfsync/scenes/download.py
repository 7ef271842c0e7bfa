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
from threading import Thread
from typing import Any, BinaryIO, Self, TypeVar, cast

import pooch
import requests

from nmfsync.errors import NmfsyncError
from nmfsync.runtime.files import sha256_of

RETRY_WAITS = (0.5, 1.5)  # seconds before the second and the third attempt

TIMEOUT = 30  # seconds without a byte

WINDOW = 60  # seconds in which an address has to send enough

LEAST_RATE = 16_000  # bytes a second, as a mean over the window

MAX_RECEIVED = 10**9  # bytes; the largest archive has less than half of that

MAX_UNPACKED = 4 * 10**9  # bytes; the largest data set has a tenth of that

MAX_MEMBERS = 10_000  # files and folders of an archive

_MAX_HEADER = 10**6  # bytes that describe a member of a tar archive

MAX_DEPTH, MAX_NAME = 20, 400  # folders in each other, and letters, of a path in an archive

_T = TypeVar("_T")


def download(url: str, path: Path) -> None:
    """Download to a file; try again after faults that may be temporary.

    Raises
    ------
    NmfsyncError
        The fault of the last attempt.
    """
    downloader = pooch.HTTPDownloader(
        progressbar=sys.stderr is not None and sys.stderr.isatty(),
        chunk_size=1 << 13,  # few, so that a slow address is noticed
        timeout=TIMEOUT,
        # Without this, some servers unpack a .tar.gz before they send it.
        headers={"Accept-Encoding": "identity"},
    )
    for wait in (*RETRY_WAITS, None):
        try:
            _receive(downloader, url, path)
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


class _Received:
    """A file that counts what is written to it, and takes no more than `MAX_RECEIVED`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes, self.wanted = 0, True

    def write(self, chunk: bytes) -> None:
        """Write a chunk, or end the download by an error."""
        self.bytes += len(chunk)
        if self.bytes > MAX_RECEIVED or not self.wanted:
            raise NmfsyncError(f"sends more than {MAX_RECEIVED:,} bytes")
        self._file.write(chunk)

    def flush(self) -> None:
        """Do nothing: the file is complete when it is closed."""


def _receive(downloader: Callable[..., Any], url: str, path: Path) -> None:
    """Download on a thread, which is left alone if it gets too little.

    Time limits of sockets cannot do that: each byte that arrives starts them anew.
    """
    faults: list[BaseException] = []

    def work() -> None:
        try:
            downloader(url, received, None)
        except BaseException as error:  # raised below, on the thread of the caller
            faults.append(error)

    with path.open("wb") as file:
        received, thread = _Received(file), Thread(target=work, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads
            work()
        try:
            _wait_for(thread, received)
        finally:
            received.wanted = False
    if faults:
        raise faults[0]


def _wait_for(thread: Thread, received: _Received) -> None:
    before = 0
    while thread.is_alive():
        thread.join(WINDOW)
        new, before = received.bytes - before, received.bytes
        if thread.is_alive() and new < LEAST_RATE * WINDOW:
            raise NmfsyncError(f"too slow: sent {new:,} bytes in {WINDOW} seconds")


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
        try:
            tar = tarfile.open(archive, tarinfo=_TarMember)  # noqa: SIM115
        except tarfile.ReadError:
            _unpack_zip(archive, folder)
        else:
            with tar:
                members = _checked(tar, lambda m: (m.name, m.size, m.isreg() or m.isdir()))
                tar.extractall(folder, members, filter="data")
    except _UNPACK_ERRORS as error:
        raise NmfsyncError(f"{describe(archive)}; it cannot be unpacked ({error})") from None


class _TarMember(tarfile.TarInfo):
    """A member whose own description fits in memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header; long names and other additions to it follow as content."""
        member = super().frombuf(buf, encoding, errors)
        if member.type not in tarfile.REGULAR_TYPES and member.size > _MAX_HEADER:
            raise NmfsyncError(f"the archive has a header of {member.size:,} bytes")
        return member


def _unpack_zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as pack:
        members = _checked(pack.infolist(), lambda m: (m.filename, m.file_size, not _is_link(m)))
        if sum(member.compress_size for member in members) > archive.stat().st_size:
            raise NmfsyncError("the archive contains the same bytes several times")
        pack.extractall(folder)


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
        _check_name(name, plain)
        total += size
        if total > MAX_UNPACKED:
            raise NmfsyncError(f"the archive unpacks to more than {MAX_UNPACKED // 10**9} GB")
        checked.append(member)
        if len(checked) > MAX_MEMBERS:
            raise NmfsyncError(f"the archive contains more than {MAX_MEMBERS:,} files")
    if not total:
        raise NmfsyncError("the archive contains nothing")
    return checked


def _check_name(name: str, plain: bool) -> None:
    parts = re.split(r"[/\\]", name)
    short = name if len(name) <= MAX_NAME else f"{name[:40]}…"
    if not plain:
        raise NmfsyncError(f"the archive contains {short!r}, which is neither a file nor a folder")
    if not parts[0] or ".." in parts or ":" in parts[0]:
        raise NmfsyncError(f"the archive contains {short!r}, which is outside its folder")
    if len(parts) > MAX_DEPTH or len(name) > MAX_NAME or not name.isprintable():
        raise NmfsyncError(f"the archive contains {short!r}, which is not a usable name")


def describe(file: Path) -> str:
    """Describe a downloaded file: size, hash, and whether it is a web page."""
    with file.open("rb") as start:
        page = b"<html" in start.read(2000).lower()
    kind = "an HTML page" if page else "a file"
    return f"received {kind} of {file.stat().st_size} bytes with SHA-256 {sha256_of(file)}"
