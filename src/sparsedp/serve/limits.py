"""What a request may cost, and the threads that do the work.

A request has a place from its first byte until its work is done, even if its answer was given up
before: threads cannot be stopped, so a place that was freed early would let work pile up.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from fastapi import Request

Result = TypeVar("Result")

_DRAINED = 1 << 28  # bytes of a refused body that are still read, so that the client gets to read the refusal
_NOTHING = memoryview(b"")


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    body: int = 64 << 20  # bytes
    keys: int = 1_000_000  # answers of a request: keys, times the releases of a series
    seconds: float = 30.0
    requests: int = 32  # that are worked on, or wait for it, at a time


class RefusedError(Exception):
    """An answer that is not a result: its status, and a message that says what to do."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


class Workers:
    """Threads for lookups, and one for plans, which take longer and compute in Python."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.busy = 0  # requests that have a place; only the event loop changes it
        self.answering: Executor = ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 2)), "sparsedp-answers")
        self.planning: Executor = ThreadPoolExecutor(1, "sparsedp-plans")

    def close(self) -> None:
        """Let running work end."""
        for pool in (self.answering, self.planning):
            pool.shutdown(wait=False, cancel_futures=True)

    async def work(
        self, request: Request, pool: Executor, compute: Callable[[memoryview], Result], reads_body: bool = False
    ) -> Result:
        """What `compute` makes of the body, in a thread, within all limits."""
        if self.busy >= self.limits.requests:
            raise RefusedError(
                503,
                f"the service is working on {self.busy} requests, the most at a time; try again in a moment",
                {"Retry-After": "1"},
            )
        self.busy += 1
        free: Callable[[], None] | None = self._free
        try:
            begin = asyncio.get_running_loop().time()
            body = await self._body(request) if reads_body else _NOTHING
            running = pool.submit(compute, body)
            left = self.limits.seconds - (asyncio.get_running_loop().time() - begin)
            try:
                return await asyncio.wait_for(_watched(running), max(left, 0.001))
            except (asyncio.TimeoutError, asyncio.CancelledError) as error:
                if not running.cancel():  # it has begun, and keeps its place until it ends
                    free = None
                    _when_done(running, self._free)
                if isinstance(error, asyncio.CancelledError):
                    raise
                raise self._too_slow("ask for less at a time") from None
        finally:
            if free is not None:
                free()

    def _free(self) -> None:
        self.busy -= 1

    def _too_slow(self, fix: str) -> RefusedError:
        return RefusedError(503, f"the request took longer than {self.limits.seconds:g} s, the most; {fix}")

    async def _body(self, request: Request) -> memoryview:
        try:
            return await asyncio.wait_for(self._read(request), self.limits.seconds)
        except asyncio.TimeoutError:
            raise self._too_slow("send the body faster") from None

    async def _read(self, request: Request) -> memoryview:
        """The body of a request, if it is not too large."""
        coding = request.headers.get("content-encoding", "identity")
        if coding.strip().lower() not in ("", "identity"):
            raise RefusedError(
                415, f"the body must not be compressed, got Content-Encoding {coding!r}; send it as it is"
            )
        most, size = self.limits.body, 0
        room = _room(request, most)
        async for piece in request.stream():
            begin, size = size, size + len(piece)
            if size <= len(room):
                room[begin:size] = piece
            elif size <= most:
                wider = _empty(min(2 * size, most))
                wider[:begin], wider[begin:size] = room[:begin], piece
                room = wider
            elif size > most + _DRAINED:
                break
        if size > most:
            raise RefusedError(
                413, f"the body must have at most {most} bytes, got more; send the keys in several requests"
            )
        return room[:size]


def _room(request: Request, most: int) -> memoryview:
    """Memory for a body of the size that its client states. It is taken from the system only as far
    as it is filled, so that a statement costs nothing.
    """
    stated = request.headers.get("content-length", "")
    return _empty(min(int(stated), most) if stated.isdecimal() and len(stated) < 20 else 0)


def _empty(size: int) -> memoryview:
    return np.empty(size, np.uint8).data


async def _watched(running: Future[Result]) -> Result:
    """The result of work in a thread, which goes on if nobody waits for it any more."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end(_: Any) -> None:
        if not ended.done():
            ended.set_result(None)

    _when_done(running, lambda: end(None))
    await ended
    return running.result()


def _when_done(running: Future[Any], call: Callable[[], None]) -> None:
    """Call a function in the event loop when work ends; the loop may have ended before."""
    loop = asyncio.get_running_loop()

    def done(_: Future[Any]) -> None:
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            return

    running.add_done_callback(done)
