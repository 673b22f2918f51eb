"""A web server on the loopback that can go wrong in the ways that web servers do."""

from __future__ import annotations

import threading
from http import HTTPStatus
from pathlib import Path

from benchmarks.range_server import RangeHandler, RangeServer


class FaultyHandler(RangeHandler):
    """Answers as the server's `fault` says."""

    server: FaultyServer

    def do_GET(self) -> None:  # noqa: N802  # the base class names it
        self.server.seen.append(dict(self.headers))
        if self.server.failing > 0:
            self.server.failing -= 1
            self.server.count(0)
            self.answer(HTTPStatus(self.server.status), b"no")
            return
        if self.server.fault == "silent":
            self.server.count(0)
            self.server.released.wait()
            self.close_connection = True
            return
        super().do_GET()

    def send_file(self, path: Path, content: bytes, begin: int, size: int, *, ranged: bool) -> None:
        fault = self.server.fault
        headers = self.version(path) | self.content_range(begin, len(content), size, ranged)
        if fault == "no ranges":
            self.answer(HTTPStatus.OK, path.read_bytes(), self.version(path))
        elif fault == "short":
            self.answer(HTTPStatus.PARTIAL_CONTENT, content[:-1], headers)
        elif fault == "long":
            self.answer(HTTPStatus.PARTIAL_CONTENT, content + b"?", headers)
        elif fault == "compressed":
            self.answer(HTTPStatus.PARTIAL_CONTENT, content, {**headers, "Content-Encoding": "gzip"})
        elif fault == "cut off":
            self.answer(HTTPStatus.PARTIAL_CONTENT, content[:-1], {**headers, "Content-Length": str(len(content))})
            self.close_connection = True
        elif fault == "another range":
            self.answer(HTTPStatus.PARTIAL_CONTENT, content, self.content_range(begin + 64, len(content), size, True))
        elif fault == "no Content-Range":
            self.answer(HTTPStatus.PARTIAL_CONTENT, content, self.version(path))
        elif fault == "another size":
            self.answer(HTTPStatus.PARTIAL_CONTENT, content, self.content_range(begin, len(content), size + 64, True))
        else:
            super().send_file(path, content, begin, size, ranged=ranged)

    def version(self, path: Path) -> dict[str, str]:
        return dict(self.server.stated_version)


class FaultyServer(RangeServer):
    """A server of a folder; `fault` may be set at any time, and `failing` requests get `status`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FaultyHandler)
        self.fault = ""
        self.failing, self.status = 0, 500
        self.stated_version = {"ETag": '"one"'}
        self.released = threading.Event()  # ends silence
        self.seen: list[dict[str, str]] = []

    def fail(self, times: int, status: int) -> None:
        """Answer the next requests with this status."""
        self.failing, self.status = times, status

    def __enter__(self) -> FaultyServer:
        super().__enter__()
        return self
