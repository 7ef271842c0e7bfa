"""A web server for tests, and archives for it to serve."""

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Reply:
    body: bytes = b""
    status: int = 200
    claimed: int | None = None  # Content-Length, if it shall not be the truth
    pieces: Iterable[bytes] = ()  # sent after the body, without a Content-Length
    location: str = ""  # of a redirection


@dataclass
class ArchiveServer:
    """Serves `replies` by path, and keeps a list of what was asked for."""

    address: str
    replies: dict[str, Reply] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    # Answers are held back until this many requests wait.
    crowd: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))

    def serve(self, name: str, body: bytes, status: int = 200, claimed: int | None = None) -> str:
        return self.answer(name, Reply(body, status, claimed))

    def answer(self, name: str, reply: Reply) -> str:
        self.replies[f"/{name}"] = reply
        return f"{self.address}/{name}"


@contextmanager
def archive_server() -> Iterator[ArchiveServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append(self.path)
            server.crowd.wait(timeout=120)
            reply = server.replies.get(self.path, Reply(b"not here", 404))
            self.send_response(reply.status)
            length = len(reply.body) if reply.claimed is None else reply.claimed
            if not reply.pieces:
                self.send_header("Content-Length", str(length))
            if reply.location:
                self.send_header("Location", reply.location)
            self.end_headers()
            with suppress(ConnectionError):  # who asked wants no more
                self.wfile.write(reply.body)
                for piece in reply.pieces:
                    self.wfile.write(piece)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = ArchiveServer(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def tar_gz(files: Mapping[str, bytes], *special: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in special:
            tar.addfile(member)
    return buffer.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as pack:
        for name, content in files.items():
            pack.writestr(name, content)
    return buffer.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
