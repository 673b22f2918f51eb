"""The service on loopback, against the same framework answering a constant, and against lookups in
the process that has the release.

One client and one server, each a process, on one connection that stays open. The constant has as
many bytes as the answer, and its server reads as many bytes of a request: what is left of the ratio
is what the service does.
"""

from __future__ import annotations

import json
import math
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import sparsedp
from sparsedp.serve.streams import read_stream, write_stream

from .measuring import Row, side_by_side

KEYS = 10**6
STORED = 200_000
REQUESTS, MOST_SECONDS = 300, 10.0  # of a row: so many requests, or so much time
JSON, ARROW = {"Content-Type": "application/json"}, {"Content-Type": "application/vnd.apache.arrow.stream"}
TURNS = 100  # of tens of milliseconds, so that the best of them is steady
HALF_THE_SPEED = 2.0
LARGEST, SMALL = 1 << 26, 1 << 16  # bytes of an answer; of what is sent with the head of a request
IDLE_SECONDS = 2.0  # after which a connection is made anew: servers close it after some more
COMMAND = "from sparsedp.cli import main; main()"


class Connection:
    """A connection that stays open, and memory for an answer that is used again: the client should
    take little of the time.
    """

    def __init__(self, address: str) -> None:
        self._address, self._used = address, -math.inf
        self._room = memoryview(bytearray(LARGEST))

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> memoryview:
        """The body of an answer, until the next one is asked for."""
        if time.monotonic() - self._used > IDLE_SECONDS:
            host, port = self._address.split(":")
            self._socket = socket.create_connection((host, int(port)), timeout=60)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = {"Host": self._address, "Content-Length": str(len(body)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._socket.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body[:SMALL])
        self._socket.sendall(memoryview(body)[SMALL:])
        content = self._answer(f"{method} {path}")
        self._used = time.monotonic()
        return content

    def _answer(self, what: str) -> memoryview:
        got, head = 0, b""
        while b"\r\n\r\n" not in head:
            got += self._receive(got, SMALL)
            head = bytes(self._room[:got])
        head = head.partition(b"\r\n\r\n")[0]
        size = re.search(rb"\r\ncontent-length: (\d+)", head.lower())
        if not head.startswith(b"HTTP/1.1 200 ") or size is None:
            raise RuntimeError(f"{what}: {head!r}")
        begin = len(head) + 4
        end = begin + int(size[1])
        while got < end:
            got += self._receive(got, end)
        return self._room[begin:end]

    def _receive(self, begin: int, end: int) -> int:
        count = self._socket.recv_into(self._room[begin:end])
        if not count:
            raise ConnectionError("the server has closed the connection")
        return count


@contextmanager
def server(*command: str) -> Iterator[str]:
    """A process that serves; gives its address."""
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = next(match for line in process.stderr if (match := re.search(r"http://([\w.:]+)/", line)))
        # Its log must not fill the pipe.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        yield found[1]
    finally:
        process.terminate()
        process.wait()
        drain.wait()


def serve_rows() -> Iterator[Row]:
    """Requests of one key, of 10⁵ as JSON, and of 10⁶ as an Arrow stream."""
    texts = pa.array([f"/page/{number}" for number in range(KEYS)])
    counts = np.random.default_rng(1).integers(1, 1000, STORED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.sparsedp"
        sparsedp.release((texts[:STORED], counts), epsilon=1.0, nonzero=STORED).save(path)
        release = sparsedp.load(path)
        release.answer(texts[:10])
        constant = Path(folder) / "constant.py"
        constant.write_text(CONSTANT, encoding="utf-8")
        with server("-c", COMMAND, "serve", str(path), "--port", "0") as ours, server(str(constant)) as theirs:
            yield from _rows(Connection(ours), Connection(theirs), release, texts)


def _rows(ours: Connection, theirs: Connection, release: sparsedp.Release, texts: pa.Array) -> Iterator[Row]:
    one = "/v1/releases/visits/lookup?key=/page/7"
    size = len(ours.ask("GET", one))
    got = latencies(partial(ours.ask, "GET", one), partial(theirs.ask, "GET", f"/constant?size={size}"))
    (own, other), figures = (np.median(times) for times in got), {}
    for name, times in zip(("ours", "theirs"), got, strict=True):
        figures[f"{name}, requests a second"] = len(times) / float(times.sum())
        figures[f"{name}, 99 % of requests within seconds"] = float(np.quantile(times, 0.99))
    yield Row("GET of one key", "a constant", float(own), float(other), figures=figures)

    body = json.dumps({"keys": texts[: KEYS // 10].to_pylist()}).encode()
    yield _batch("POST of 10⁵ keys, JSON", ours, theirs, body, JSON, KEYS // 10)
    body = b"".join(write_stream(pa.table({"key": texts})))
    yield _batch("POST of 10⁶ keys, Arrow", ours, theirs, body, ARROW, KEYS)
    asked = partial(ours.ask, "POST", "/v1/releases/visits/lookup", body, ARROW)
    answered = read_stream(asked(), KEYS)
    if not np.array_equal(answered.column("estimate").to_numpy(), release.lookup(texts)):
        raise AssertionError("the service gives other estimates than the release")
    estimates = partial(ours.ask, "POST", "/v1/releases/visits/lookup?columns=estimate", body, ARROW)
    if not read_stream(estimates(), KEYS).equals(answered.select(["estimate"])):
        raise AssertionError("the service gives other estimates if they are all that is asked for")
    size = len(estimates())
    constant = partial(theirs.ask, "POST", f"/constant?size={size}", body, ARROW)

    def look() -> object:
        return release.lookup(texts)

    whole, alone = "POST of 10⁶ keys, Arrow", "POST of 10⁶ keys, Arrow, estimates only"
    for name, request, against, work, most in (
        (whole, asked, "lookup and interval", lambda: (look(), release.interval(texts)), HALF_THE_SPEED),
        (whole, asked, "answer", lambda: release.answer(texts), None),
        (whole, asked, "lookup alone", look, None),
        (alone, estimates, "a constant", constant, None),
        (alone, estimates, "lookup", look, HALF_THE_SPEED),
    ):
        took, other = side_by_side(request, work, TURNS)
        yield Row(name, against, took, other, most=most, figures={"keys a second": KEYS / took})


def _batch(name: str, ours: Connection, theirs: Connection, body: bytes, kind: dict[str, str], keys: int) -> Row:
    asked = partial(ours.ask, "POST", "/v1/releases/visits/lookup", body, kind)
    size = len(asked())
    took, other = side_by_side(asked, partial(theirs.ask, "POST", f"/constant?size={size}", body, kind), 5)
    return Row(name, "a constant", took, other, figures={"keys a second": keys / took})


def latencies(*requests: Callable[[], object]) -> list[np.ndarray]:
    """The seconds of many requests of each kind, in turns, so that a busy neighbour disturbs all."""
    end = time.perf_counter() + MOST_SECONDS
    times: list[list[float]] = [[] for _ in requests]
    for _ in range(REQUESTS):
        if time.perf_counter() > end:
            break
        for request, own in zip(requests, times, strict=True):
            start = time.perf_counter()
            request()
            own.append(time.perf_counter() - start)
    return [np.array(own) for own in times]


CONSTANT = """
import socket, sys
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response

app = FastAPI()
known = {}

@app.api_route("/constant", methods=["GET", "POST"])
async def constant(request: Request, size: int) -> Response:
    async for _ in request.stream():
        pass
    if size not in known:
        known[size] = b"x" * size
    return Response(known[size], media_type="application/json")

listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listening.bind(("127.0.0.1", 0))
listening.listen()
print(f"http://127.0.0.1:{listening.getsockname()[1]}/", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])
"""
