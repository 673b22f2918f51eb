"""What happens around every request: the check of its host, the headers of its answer, a line in the
log, and an answer even if the program fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from .logs import Log

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

SEEN = "sparsedp.seen"  # in the scope of a request: what its line in the log says besides
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_ENCODED = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """The application, guarded. Hosts are the names that it answers to; None is any."""

    def __init__(self, app: Application, log: Log, hosts: frozenset[str] | None) -> None:
        self.app, self._log, self._hosts = app, log, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0
        seen: dict[str, Any] = {}
        is_head = scope["method"] == "HEAD"
        inner = {**scope, SEEN: seen, "method": "GET" if is_head else scope["method"]}

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = list(message.get("headers", []))
                names = {name for name, _ in given}
                own = [*_ENCODED, (b"cache-control", b"no-store")]
                message = {**message, "headers": [*given, *(pair for pair in own if pair[0] not in names)]}
            elif is_head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        try:
            if self._hosts is not None and (host := _host(scope)) not in self._hosts:
                await answer(guarded, 400, f"this service does not answer to the host {host!r}; see --allow-host")
            else:
                await self.app(inner, receive, guarded)
        except Exception as error:
            self._log.failure(error)
            if status == 0:
                await answer(guarded, 500, "the service failed, and its log says where; this is a bug of sparsedp")
            else:  # the client must not take half of an answer for all of it
                raise ConnectionError("the answer was cut off") from None
        finally:
            self._line(scope, inner, seen, status, time.perf_counter() - begin)

    def _line(self, scope: Scope, inner: Scope, seen: dict[str, Any], status: int, seconds: float) -> None:
        route = inner.get("route")
        facts = {"method": scope["method"], "path": getattr(route, "path", None), "status": status}
        facts |= {"ms": round(1000 * seconds, 3), "keys": seen.get("keys", 0)}
        if self._log.keys:
            facts |= {"query": scope.get("query_string", b"").decode("ascii", "replace"), "asked": seen.get("asked")}
        self._log.write("request", **facts)


def _host(scope: Scope) -> str:
    """The host that a request is for, without its port."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    text = given[0].decode("latin-1").strip().lower() if len(given) == 1 else ""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


async def answer(send: Send, status: int, message: str) -> None:
    """A refusal, without the help of the framework."""
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
