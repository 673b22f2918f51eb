"""Ranges of bytes of one file that is elsewhere, by fsspec; every answer is checked to be those
bytes, of the file that was opened.

A web server is asked here, on the session of fsspec, because its answers say what they are: the
range, the length of the file, and its version (ETag or Last-Modified). Any other store is asked
through fsspec, and after each batch whether the file is still the same.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ..errors import MissingDependencyError, RemoteError
from .addresses import Address
from .sheet import Range

ATTEMPTS = 5
FIRST_PAUSE = 0.2  # seconds, doubled for each further attempt
AT_ONCE = 32  # requests
SECONDS = 60.0  # without a byte
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_INSTALL = "pip install 'sparsedp[remote]'"
# What the stores call the version of a file.
_VERSIONS = ("ETag", "etag", "LastModified", "last_modified", "mtime", "created", "updated", "generation", "ino")

Answer = TypeVar("Answer")


class _PassingError(Exception):
    """A failure that may pass; its text says what happened."""


class Transport(ABC):
    """One file, opened: its size and version are those of the first answer."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.size: int | None = None  # known from the first answer on
        self.requests = self.received = 0  # for measurements; threads may miss some
        self._version: object = None

    @abstractmethod
    def read(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of each range, or `RemoteError`. A first range may reach beyond the end of the
        file.
        """

    def again(self) -> Transport:
        """The same file over a new connection: that of another process cannot be shared."""
        other = opened(self.address)
        other.size, other._version = self.size, self._version
        return other

    def _same(self, size: int, version: object) -> None:
        """Remember the file, or refuse another one."""
        if self.size is None:
            self.size, self._version = size, version
        elif (self.size, self._version) != (size, version):
            raise RemoteError(f"{self.address} has changed since it was opened; load it again")

    def _wrong_length(self, wanted: Range, got: int) -> RemoteError:
        return RemoteError(
            f"{self.address} sent {got} bytes instead of the {wanted.end - wanted.begin} from {wanted.begin} on"
        )

    def _failed(self, why: str) -> RemoteError:
        return RemoteError(f"{self.address} cannot be read: {why}, {ATTEMPTS} times")


def opened(address: Address) -> Transport:
    """The transport for an address, or `MissingDependencyError` with what it needs."""
    try:
        import fsspec
    except ImportError:
        raise MissingDependencyError(f"remote files need fsspec: {_INSTALL}") from None
    try:
        system, path = fsspec.core.url_to_fs(address.full)
    except ImportError as error:  # of the package for this kind of address; its message names it
        needed = _INSTALL if address.is_web else f"pip install {_package(str(error))}"
        raise MissingDependencyError(f"{address} needs another package for fsspec: {needed}") from None
    except ValueError:
        raise RemoteError(f"fsspec knows no addresses such as {address}") from None
    except Exception as error:  # some packages connect here; without what they say, which may hold a key
        raise RemoteError(f"{address} cannot be read: {_in_words(error)}") from None
    return Web(address, system) if address.is_web else Store(address, system, path)


def _package(message: str) -> str:
    """The package that fsspec misses: its messages are "Install s3fs to access S3"."""
    found = re.search(r"[Ii]nstall (?:the )?['\"`]?([\w-]+)", message)
    return found[1] if found else "what fsspec's documentation names for it"


class Web(Transport):
    """A file of a web server."""

    def __init__(self, address: Address, system: Any) -> None:
        super().__init__(address)
        self._system = system

    def read(self, ranges: Sequence[Range]) -> list[bytes]:
        from fsspec.asyn import sync

        return list(sync(self._system.loop, self._read, ranges))

    async def _read(self, ranges: Sequence[Range]) -> list[bytes]:
        session = await self._system.set_session()
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(wanted: Range) -> bytes:
            async with turn:
                return await again(lambda: self._ask(session, wanted), self._failed)

        tasks = [asyncio.ensure_future(one(wanted)) for wanted in ranges]
        try:
            return await asyncio.gather(*tasks)
        finally:  # after an error, nothing is left running
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, session: Any, wanted: Range) -> bytes:
        import aiohttp

        options = dict(self._system.kwargs)
        headers = {
            **options.pop("headers", {}),
            "Range": f"bytes={wanted.begin}-{wanted.end - 1}",
            "Accept-Encoding": "identity",
        }
        options.setdefault("timeout", aiohttp.ClientTimeout(total=None, sock_connect=SECONDS, sock_read=SECONDS))
        try:
            async with session.get(self._system.encode_url(self.address.full), headers=headers, **options) as answer:
                expected = self._checked(answer, wanted)
                content = await _body(answer, expected.end - expected.begin)
        except (FileNotFoundError, PermissionError, RemoteError):
            raise
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise _PassingError(_in_words(error)) from None
        self.requests += 1
        self.received += len(content)
        if len(content) != expected.end - expected.begin:
            raise _PassingError(f"{len(content)} bytes came instead of {expected.end - expected.begin}")
        return content

    def _checked(self, answer: Any, wanted: Range) -> Range:
        """The range that an answer has, if it is what was asked for."""
        if answer.status in (404, 410):
            raise FileNotFoundError(2, "there is no such file", str(self.address))
        if answer.status in (401, 403):
            raise PermissionError(13, f"the server refuses it (status {answer.status})", str(self.address))
        if answer.status in _PASSING_STATUS:
            raise _PassingError(f"the server answered with status {answer.status}")
        if answer.status == 416:
            changed = "is empty" if self.size is None else "has changed since it was opened: it is shorter now"
            raise RemoteError(f"{self.address} {changed}")
        if answer.status == 200:
            raise RemoteError(
                f"{self.address}: the server sends whole files only, not ranges of bytes; "
                "download the file and load it from disk, or use another server"
            )
        if answer.status != 206:
            raise RemoteError(f"{self.address}: the server answered with status {answer.status}")
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise RemoteError(f"{self.address}: the server compresses what it sends, so that ranges are not the file's")
        stated = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        begin, last, size = map(int, stated.groups()) if stated else (-1, -1, -1)
        same = self.size in (None, size) or stated is None  # if not, it is another file
        if same and (begin, last + 1) != (wanted.begin, min(wanted.end, size)):
            sent = answer.headers.get("Content-Range", "no Content-Range")
            raise RemoteError(
                f"{self.address}: the server sent {sent!r:.60} for the bytes {wanted.begin}-{wanted.end - 1}"
            )
        self._same(size, (answer.headers.get("ETag"), answer.headers.get("Last-Modified")))
        return Range(begin, last + 1)


async def _body(answer: Any, length: int) -> bytes:
    """The body of an answer, which is given up as soon as it is too long."""
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > length:
            break
    return bytes(content)


class Store(Transport):
    """A file of any other store that fsspec knows."""

    def __init__(self, address: Address, system: Any, path: str) -> None:
        super().__init__(address)
        self._system, self._path = system, path

    def read(self, ranges: Sequence[Range]) -> list[bytes]:
        if self.size is None:
            self._look()
        assert self.size is not None
        ranges = [Range(begin, min(end, self.size)) for begin, end in ranges]
        contents = self._patiently(lambda: self._contents(ranges))
        self._look()  # what was read is of the version that was there before and is there now
        for wanted, content in zip(ranges, contents, strict=True):
            if len(content) != wanted.end - wanted.begin:
                raise self._wrong_length(wanted, len(content))
        return contents

    def _contents(self, ranges: Sequence[Range]) -> list[bytes]:
        begins, ends = [own.begin for own in ranges], [own.end for own in ranges]
        contents = self._system.cat_ranges([self._path] * len(ranges), begins, ends, on_error="raise")
        self.requests += len(ranges)
        self.received += sum(map(len, contents))
        return list(map(bytes, contents))

    def _look(self) -> None:
        def look() -> Any:
            self._system.invalidate_cache(self._path)
            return self._system.info(self._path)

        info = self._patiently(look)
        if info.get("type") == "directory":
            raise IsADirectoryError(21, "this is a directory", str(self.address))
        if type(info.get("size")) is not int:
            raise RemoteError(f"{self.address} does not say how long it is")
        self._same(info["size"], tuple(str(info.get(name)) for name in _VERSIONS))

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        for attempt in range(ATTEMPTS):
            try:
                return ask()
            except FileNotFoundError:
                raise FileNotFoundError(2, "there is no such file", str(self.address)) from None
            except PermissionError:
                raise PermissionError(13, "the store refuses it", str(self.address)) from None
            except IsADirectoryError:
                raise IsADirectoryError(21, "this is a directory", str(self.address)) from None
            except RemoteError:
                raise
            except Exception as error:  # whatever a store's package raises, without what it says: it may hold a key
                if attempt + 1 == ATTEMPTS:
                    raise self._failed(_in_words(error)) from None
                time.sleep(pause(attempt))
        raise AssertionError("unreachable")


def pause(attempt: int) -> float:
    """Seconds to wait after an attempt that failed; not the same for all who wait."""
    return FIRST_PAUSE * (1 << attempt) * (0.5 + random.random())  # no randomness of a release comes from here


async def again(ask: Callable[[], Awaitable[Answer]], failed: Callable[[str], RemoteError]) -> Answer:
    """The answer, asked for several times if need be."""
    for attempt in range(ATTEMPTS):
        try:
            return await ask()
        except _PassingError as error:
            if attempt + 1 == ATTEMPTS:
                raise failed(str(error)) from None
            await asyncio.sleep(pause(attempt))
    raise AssertionError("unreachable")


def _in_words(error: BaseException) -> str:
    """What went wrong, without an address that the error may name."""
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return f"no answer within {SECONDS:g} seconds"
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else type(error).__name__
