"""A long run: memory stays as it is, whatever is asked for, and files that are replaced leave nothing
behind. `SPARSEDP_SOAK_SECONDS` is how long, by default ten minutes.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sparsedp
from sparsedp.serve.streams import write_stream

SECONDS = float(os.environ.get("SPARSEDP_SOAK_SECONDS", "600"))
CLIENTS = 3
ALLOWED = 1.10  # of the memory after the first fifth
COMMAND = "from sparsedp.cli import main; main()"
JSON, ARROW = {"Content-Type": "application/json"}, {"Content-Type": "application/vnd.apache.arrow.stream"}


def resident(pid: int) -> int:
    """Bytes of memory that are not files."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def save(path: Path, texts: pa.Array, seed: int) -> None:
    counts = np.random.default_rng(seed).integers(1, 1000, len(texts))
    sparsedp.release((texts, counts), epsilon=1.0, nonzero=len(texts)).save(path)


def ask_for_everything(address: str, end: float, number: int, counted: list[int], failed: list[BaseException]) -> None:
    """One request after the other, of all kinds and sizes, good and bad."""
    choice, keys = random.Random(number), [f"/page/{at}" for at in range(20_000)]
    stream = b"".join(write_stream(pa.table({"key": keys})))
    connection = http.client.HTTPConnection(address, timeout=120)
    targets: list[tuple[int, Callable[[], tuple[str, str, bytes | None, dict[str, str]]]]] = [
        (200, lambda: ("GET", f"/v1/releases/visits/lookup?key=/page/{choice.randrange(10**9)}", None, {})),
        (200, lambda: ("GET", "/v1/releases", None, {})),
        (200, lambda: ("GET", "/", None, {})),
        (200, lambda: ("GET", f"/v1/plan?epsilon={choice.randrange(10, 200) / 100}&nonzero=1000", None, {})),
        (200, lambda: ("POST", "/v1/releases/visits/lookup", _body(keys[: choice.randrange(1, 20_000)]), JSON)),
        (200, lambda: ("POST", "/v1/releases/visits/lookup", stream, ARROW)),
        (400, lambda: ("POST", "/v1/releases/visits/lookup", b"[" * choice.randrange(1, 50_000), JSON)),
        (400, lambda: ("POST", "/v1/releases/visits/lookup", stream[: choice.randrange(len(stream))], ARROW)),
        (404, lambda: ("GET", f"/v1/releases/{choice.randrange(10**9)}", None, {})),
    ]
    try:
        while time.monotonic() < end:
            wanted, target = choice.choice(targets)
            connection.request(*target())
            response = connection.getresponse()
            content = response.read()
            assert response.status == wanted, (response.status, content[:200])
            counted[number] += 1
    except BaseException as error:
        failed.append(error)
    connection.close()


def _body(keys: list[str]) -> bytes:
    return json.dumps({"keys": keys}).encode()


@pytest.mark.audit
def test_memory_stays_as_it_is(tmp_path: Path) -> None:
    texts, path = pa.array([f"/page/{at}" for at in range(20_000)]), tmp_path / "visits.sparsedp"
    save(path, texts, 0)
    with (tmp_path / "log").open("w+") as log:
        service = subprocess.Popen([sys.executable, "-c", COMMAND, "serve", str(path), "--port", "0"], stderr=log)
        try:
            while not (found := re.search(r"http://([\w.:]+)/", (tmp_path / "log").read_text())):
                assert service.poll() is None
                time.sleep(0.05)
            begin = time.monotonic()
            counted, failed = [0] * CLIENTS, list[BaseException]()
            clients = [
                threading.Thread(target=ask_for_everything, args=(found[1], begin + SECONDS, at, counted, failed))
                for at in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            memory, replaced = [], 0
            while any(client.is_alive() for client in clients):
                time.sleep(min(1.0, SECONDS / 30))
                memory.append((time.monotonic() - begin, resident(service.pid)))
                if memory[-1][0] / SECONDS * 20 > replaced + 1:
                    replaced += 1
                    save(path, texts, replaced)
            assert failed == []
        finally:
            service.terminate()
            ended = service.wait()
    assert ended == 0
    early = max(size for at, size in memory if at <= SECONDS / 5)
    late = max(size for at, size in memory if at >= SECONDS * 4 / 5)
    print(
        f"{sum(counted)} requests in {SECONDS:g} s, {replaced} files replaced, {early >> 20} MB, then {late >> 20} MB"
    )
    assert '"event": "reloaded"' in (tmp_path / "log").read_text()
    assert "failure" not in (tmp_path / "log").read_text()
    assert late <= ALLOWED * early + (16 << 20)
