"""The service on loopback, against the same framework answering a constant, and against lookups in
the process that has the release.

One client and one server, each a process, on one connection that stays open. The constant has as
many bytes as the answer, and its server reads as many bytes of a request: what is left of the ratio
is what the service does.
"""

from __future__ import annotations

import http.client
import json
import re
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
HALF_THE_SPEED = 2.0
COMMAND = "from sparsedp.cli import main; main()"


class Connection:
    """A connection that stays open."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=60)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
        """The body of an answer."""
        self._connection.request(method, path, body, headers or {})
        response = self._connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {content[:200]!r}")
        return content


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
    for against, work, most in (
        ("lookup and interval", lambda: (release.lookup(texts), release.interval(texts)), HALF_THE_SPEED),
        ("lookup alone", lambda: release.lookup(texts), None),
    ):
        took, alone = side_by_side(asked, work, 5)
        yield Row("POST of 10⁶ keys, Arrow", against, took, alone, most=most, figures={"keys a second": KEYS / took})


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
    return Response(known.setdefault(size, b"x" * size), media_type="application/json")

listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listening.bind(("127.0.0.1", 0))
listening.listen()
print(f"http://127.0.0.1:{listening.getsockname()[1]}/", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])
"""
