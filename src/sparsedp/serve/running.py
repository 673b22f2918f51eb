"""The service as a process: a socket, a server, and an end in which running requests finish."""

from __future__ import annotations

import logging
import math
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from .app import create_app
from .guarding import LOOPBACK
from .logs import Forwarded
from .paths import Service
from .protocol import HttpProtocol

_CONNECTIONS = 512  # at a time; a server that is asked for more answers 503
_HANDLED = (signal.SIGINT, signal.SIGTERM)


class _Server(uvicorn.Server):
    """A server that ends well when it is told to end: the signal has been obeyed then, and is not
    raised again.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in _HANDLED}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """A socket that accepts connections from now on; `OSError` if it cannot be had."""
    # With its protocol: asyncio sends small answers at once only if the socket says that it is TCP.
    # Otherwise the body of an answer waits some 40 ms for the client to confirm its head.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_CONNECTIONS)
    except OSError:
        listening.close()
        raise
    return listening


def address_of(listening: socket.socket, host: str) -> str:
    """Where a browser finds the service."""
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def hosts_for(host: str, allowed: list[str]) -> frozenset[str] | None:
    """The names that a service answers to. On loopback only those of loopback: a page of a site whose
    name leads here must not read it.
    """
    if host in LOOPBACK:
        return LOOPBACK | frozenset(name.lower() for name in allowed)
    return frozenset(name.lower() for name in allowed) or None


def serve(service: Service, listening: socket.socket, ready: Callable[[], Any] = lambda: None) -> None:
    """Serve until a signal says to end; then let running requests finish."""
    logger = logging.getLogger("uvicorn")
    logger.handlers, logger.propagate = [Forwarded(service.log)], False
    config = uvicorn.Config(
        create_app(service, watch=True),
        http=HttpProtocol,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=math.ceil(service.limits.seconds) + 5,
    )
    ready()
    _Server(config).run(sockets=[listening])
