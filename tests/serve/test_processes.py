"""The command `sparsedp serve`: how it starts, what it refuses, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sparsedp
from commands import Command
from sparsedp.serve import running

LIMIT = 120.0  # seconds that only end what hangs


class Client:
    """A connection to a service that runs."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = http.client.HTTPConnection(address, timeout=LIMIT)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, target: str, body: bytes | None = None) -> tuple[int, Any]:
        self._connection.request(method, target, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def estimate(self) -> float:
        status, got = self.ask("GET", "/v1/releases/visits/lookup?key=a")
        assert status == 200
        return float(got["results"][0]["estimate"])


def until(happened: Any) -> Any:
    """What a function gives, once it gives something."""
    end = time.monotonic() + LIMIT
    while not (got := happened()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return got


class Service:
    """A service that runs."""

    def __init__(self, *arguments: object) -> None:
        self._command = Command("serve", "--port", "0", *arguments)
        self._ended: subprocess.CompletedProcess[str] | None = None
        self.pid, self.said = self._command.pid, self._command.said

    def tell(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self._ended is None:
            os.kill(self.pid, number)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """How it ended."""
        self._ended = self._ended or self._command.wait()
        return self._ended


@contextmanager
def serving(*arguments: object) -> Iterator[tuple[Service, Client]]:
    """A service on a free port; it is ended if the test has not done so."""
    service = Service(*arguments)
    try:
        found = until(lambda: re.search(r"http://([\w.:]+)/", service.said()) or not alive(service.pid))
        assert found is not True, service.said()
        client = Client(found[1])
        try:
            yield service, client
        finally:
            client.close()
    finally:
        service.tell(signal.SIGKILL)
        service.wait()


def alive(pid: int) -> bool:
    """Whether a process has not ended, though its exit code may not have been read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def save(path: Path, count: int) -> None:
    sparsedp.release({"a": count}, epsilon=10.0, nonzero=10).save(path)


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    save(tmp_path / "visits.sparsedp", 1000)
    return tmp_path / "visits.sparsedp"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_running_requests_finish(visits: Path, number: int) -> None:
    with serving(visits, "--title", "Ours") as (service, client), connected(client.address) as late:
        assert "serving 1 release at" in service.said()
        assert client.ask("GET", "/v1/releases")[1]["title"] == "Ours"
        # A request whose body is still on its way when the signal comes.
        body = json.dumps({"keys": ["a"]}).encode()
        head = f"POST /v1/releases/visits/lookup HTTP/1.1\r\nHost: {client.address}\r\nContent-Length: {len(body)}\r\n"
        late.sendall(f"{head}Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n".encode())
        assert late.recv(1000).startswith(b"HTTP/1.1 100")  # the request has begun
        service.tell(number)
        until(lambda: refuses(client.address))
        late.sendall(body)
        answer = b"".join(iter(lambda: late.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"estimate"' in answer
        ended = service.wait()
    assert ended.returncode == 0
    lines = [json.loads(line) for line in ended.stderr.splitlines()[1:]]
    assert [line["status"] for line in lines] == [200, 200]
    assert "Traceback" not in ended.stderr


def connected(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=LIMIT)


def refuses(address: str) -> bool:
    try:
        connected(address).close()
    except ConnectionError:
        return True
    return False


def test_a_replaced_file_is_taken_up_without_dropping_a_request(visits: Path) -> None:
    with serving(visits) as (service, client):
        failed: list[BaseException] = []
        ended = threading.Event()

        def keep_asking() -> None:
            own = Client(client.address)
            try:
                while not ended.is_set():
                    own.estimate()
            except BaseException as error:
                failed.append(error)
            own.close()

        others = [threading.Thread(target=keep_asking) for _ in range(2)]
        for thread in others:
            thread.start()
        save(visits, 5000)
        until(lambda: client.estimate() > 4000)
        content = bytearray(visits.read_bytes())
        content[len(content.rstrip(b"\0")) - 1] ^= 1
        (visits.parent / "new").write_bytes(content)
        (visits.parent / "new").rename(visits)
        until(lambda: "not reloaded" in service.said())
        assert client.estimate() > 4000  # the old one stays
        ended.set()
        for thread in others:
            thread.join()
        assert failed == []


def test_without_files_it_serves_the_planner() -> None:
    with serving() as (service, client):
        assert "serving the planner" in service.said()
        assert client.ask("GET", "/v1/releases")[1]["releases"] == []
        assert client.ask("GET", "/v1/plan")[0] == 200


def test_only_loopback_hears_it(visits: Path) -> None:
    with serving(visits) as (service, client):
        port = int(client.address.rpartition(":")[2])
        table = Path(f"/proc/{service.pid}/net/tcp").read_text().splitlines()[1:]
        listening = [line.split()[1] for line in table if line.split()[3] == "0A"]
        assert [own for own in listening if own.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "not a release"), (b"x" * 5000, "not a release"), (None, "No such file")]
)
def test_what_cannot_be_served_is_said_at_the_start(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "visits.sparsedp"
    if content is not None:
        path.write_bytes(content)
    ended = Command("serve", path, "--port", "0").wait()
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert str(path) in ended.stderr


def test_two_files_of_one_name_and_a_series_without_a_name(visits: Path) -> None:
    ended = Command("serve", visits, visits, "--port", "0").wait()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "'visits' is that of two files" in ended.stderr
    ended = Command("serve", "--series", visits, "--port", "0").wait()
    assert ended.returncode == 2
    assert "NAME=GLOB" in ended.stderr


ENDLESS = {
    "line": "GET /healthz?",
    "header": "GET /healthz HTTP/1.1\r\nHost: {address}\r\nX: ",
    "headers": "GET /healthz HTTP/1.1\r\nHost: {address}\r\n",
    "trailer": "POST /v1/releases/visits/lookup HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n0\r\nX: ",
}
ENDS = {"line": " HTTP/1.1\r\nHost: {address}\r\n\r\n", "headers": "\r\n"}


def test_a_head_of_any_length_is_not_kept(visits: Path) -> None:
    with serving(visits) as (service, client):
        for kind, begin in ENDLESS.items():
            line = b"X: " + b"a" * 1000 + b"\r\n" if kind == "headers" else b"a" * 1000
            end = ENDS.get(kind, "\r\n\r\n")
            with connected(client.address) as own:
                got = b""
                try:
                    own.sendall(begin.format(address=client.address).encode())
                    for _ in range(2000):
                        own.sendall(line)
                    own.sendall(end.format(address=client.address).encode())
                    got = own.recv(1000)
                except ConnectionError:  # it has been closed
                    pass
                assert not got or got.startswith(b"HTTP/1.1 400"), kind
            assert client.ask("GET", "/healthz")[0] == 200
        service.tell(signal.SIGTERM)
        assert "Traceback" not in service.wait().stderr


def test_a_body_in_the_smallest_chunks_is_read(visits: Path) -> None:
    body = json.dumps({"keys": ["a" * 20_000]}).encode()
    head = "POST /v1/releases/visits/lookup HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
    with serving(visits) as (_, client), connected(client.address) as own:
        own.sendall(f"{head.format(address=client.address)}Transfer-Encoding: chunked\r\n\r\n".encode())
        own.sendall(b"".join(b"1\r\n%c\r\n" % letter for letter in body) + b"0\r\n\r\n")
        assert own.recv(1000).startswith(b"HTTP/1.1 200")


def test_answers_are_sent_at_once() -> None:
    # Without a protocol, asyncio leaves the wait of TCP for more bytes: 40 ms for every answer.
    with running.listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken(visits: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = Command("serve", visits, "--port", taken.getsockname()[1]).wait()
    assert ended.returncode == 1
    assert "in use" in ended.stderr
