"""A small web server on the loopback that sends ranges of bytes, and counts what it sends."""

from __future__ import annotations

import re
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class RangeHandler(BaseHTTPRequestHandler):
    """Answers with a range of a file below the server's folder."""

    protocol_version = "HTTP/1.1"  # connections stay open
    disable_nagle_algorithm = True
    server: RangeServer

    def do_GET(self) -> None:
        """Answer one request."""
        path = self.server.folder / unquote(urlsplit(self.path).path).lstrip("/")
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        self.server.count(0)
        if not path.is_file() or ".." in path.parts:
            self.answer(HTTPStatus.NOT_FOUND, b"")
            return
        size = path.stat().st_size
        begin, end = (int(asked[1]), min(int(asked[2]) + 1, size)) if asked else (0, size)
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read(end - begin)
        self.send_file(path, content, begin, size, ranged=asked is not None)

    def send_file(self, path: Path, content: bytes, begin: int, size: int, *, ranged: bool) -> None:
        """Send what was asked for."""
        status = HTTPStatus.PARTIAL_CONTENT if ranged else HTTPStatus.OK
        self.answer(status, content, self.version(path) | self.content_range(begin, len(content), size, ranged))

    def version(self, path: Path) -> dict[str, str]:
        """What says which version of a file this is."""
        about = path.stat()
        return {"ETag": f'"{about.st_mtime_ns:x}-{about.st_size:x}"'}

    def content_range(self, begin: int, length: int, size: int, ranged: bool) -> dict[str, str]:
        """What says which bytes these are."""
        return {"Content-Range": f"bytes {begin}-{begin + length - 1}/{size}"} if ranged else {}

    def answer(self, status: HTTPStatus, content: bytes, headers: dict[str, str] | None = None) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.server.count(len(content), requests=0)  # before the client can know that it has them
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to stderr."""


class RangeServer(ThreadingHTTPServer):
    """Serves the files of a folder on a free port, inside a `with` block."""

    daemon_threads = True
    block_on_close = False  # connections that a client keeps open would keep it waiting
    request_queue_size = 256

    def __init__(self, folder: Path, handler: type[RangeHandler] = RangeHandler) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.folder = folder
        self.requests = self.sent = 0
        self._counting = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """The address of the folder, with a slash at its end."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def count(self, sent: int, requests: int = 1) -> None:
        """Count requests, and bytes of the bodies of answers."""
        with self._counting:
            self.requests += requests
            self.sent += sent

    def moved(self) -> tuple[int, int]:
        """Requests and bytes since this was last asked."""
        with self._counting:
            moved = self.requests, self.sent
            self.requests = self.sent = 0
        return moved

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Answer the requests of a connection, which is remembered so that it can be ended."""
        with self._counting:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """End a connection."""
        with self._counting:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client may go away in the middle of an answer."""

    def __enter__(self) -> RangeServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
        with self._counting:
            open_ones = list(self._connections)
        for connection in open_ones:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has just ended
                continue
