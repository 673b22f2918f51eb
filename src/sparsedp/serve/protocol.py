"""HTTP as the server speaks it: that of uvicorn, with a limit on the head of a request.

With httptools, the faster of its two parsers, uvicorn keeps as many bytes of a request line, of
headers and of trailers as a client sends, and nothing of the service sees them before they are
complete. h11, which it takes where there is no httptools, has a limit of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

LONGEST_HEAD = 1 << 16  # bytes, as with h11
_FRAMES = 8  # bytes around each byte of a body, at most: a body may come in chunks of one byte

HttpProtocol: type[asyncio.Protocol]
try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:
    from uvicorn.protocols.http.h11_impl import H11Protocol

    HttpProtocol = H11Protocol
else:

    class _Bounded(HttpToolsProtocol):
        """Ends a connection that sends too much that is not a body."""

        _spare = LONGEST_HEAD  # bytes that may still come without a body

        def data_received(self, data: bytes) -> None:
            self._spare -= len(data)
            super().data_received(data)  # which calls the functions below
            if self._spare < 0 and not self.transport.is_closing():
                self.logger.warning("Too long a head of a request.")
                self.send_400_response("The head of the request is too long.")

        def on_message_begin(self) -> None:
            self._spare = LONGEST_HEAD
            super().on_message_begin()

        def on_body(self, body: bytes) -> None:
            self._spare = min(self._spare + (1 + _FRAMES) * len(body), LONGEST_HEAD)
            # A piece that is read before the next one comes is handed on as it is. Others are gathered
            # in a bytearray, or many small ones would take time by the square of their number.
            cycle: Any = self.cycle
            if not cycle.body:
                cycle.body = b""
            elif isinstance(cycle.body, bytes):
                cycle.body = bytearray(cycle.body)
            super().on_body(body)

    HttpProtocol = _Bounded
