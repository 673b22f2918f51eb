"""Requests to the service without a network: a small client of ASGI, which can also do what clients
should not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The message of a refusal, which is all that a refusal has."""
        assert self.headers["content-type"] == "application/json"
        (message,) = self.json.values()
        assert list(self.json) == ["error"]
        assert isinstance(message, str)
        return message


async def asked(
    app: Any,
    method: str,
    target: str,
    *,
    body: bytes | Iterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    leaves: bool = False,
    stays: bool = False,
) -> Answer:
    """The answer to one request; a target is a path, and maybe a query. A client that leaves goes
    before its body is complete; one that stays never completes it.
    """
    path, _, query = target.partition("?")
    given = {"host": HOST, **(headers or {})}
    pieces = [body] if isinstance(body, bytes) else list(body)
    messages = [
        {"type": "http.request", "body": piece, "more_body": at + 1 < len(pieces) or leaves or stays}
        for at, piece in enumerate(pieces)
    ]
    if leaves:
        messages.append({"type": "http.disconnect"})
    got: list[Any] = []

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()  # the client stays, and sends no more

    async def send(message: Any) -> None:
        got.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": (HOST, 50000),
        "server": (HOST, 8000),
    }
    await app(scope, receive, send)
    if leaves and not got:
        return Answer(0, {}, b"")
    start, *rest = got
    named = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], named, b"".join(message.get("body", b"") for message in rest))


def ask(app: Any, method: str, target: str, **more: Any) -> Answer:
    """The same, for tests that ask one thing after the other."""
    return asyncio.run(asked(app, method, target, **more))


def post(app: Any, target: str, value: Any) -> Answer:
    """A request with a JSON body."""
    return ask(app, "POST", target, body=json.dumps(value).encode(), headers={"content-type": "application/json"})
