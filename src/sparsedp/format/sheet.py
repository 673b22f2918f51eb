"""A sheet of memory as long as a file that is elsewhere, filled line by line with what was read.

Only the lines that were written take memory: the rest is address space. A line is written once, so
that whoever sees it present may read it without a lock. When a sheet is full, the file gets a new
one, and the old one lives as long as an array that lies in it.
"""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LINE = 64
_PAGE = 4096
_LINES_OF_PAGE = _PAGE // LINE
# Python has the name since 3.13.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000) if sys.platform == "linux" else 0

Lines = npt.NDArray[np.int64]


class Range(NamedTuple):
    """Bytes of a file, half-open."""

    begin: int
    end: int


class Sheet:
    """The lines of a file that were read."""

    def __init__(self, size: int) -> None:
        self.size = size
        lines = -(-size // LINE)
        self._memory = reserved(lines * LINE)
        self._present = np.zeros(lines, np.bool_)
        self._paged = np.zeros(-(-lines // _LINES_OF_PAGE), np.bool_)
        self._lock = threading.Lock()
        self.resident = 0  # bytes of memory

    def missing(self, lines: Lines) -> Lines:
        """Those of the lines that are not here, ascending."""
        return np.unique(lines[~self._present[lines]])

    def missing_between(self, begin: int, end: int) -> Lines:
        """The lines of a range of bytes that are not here."""
        first = begin // LINE
        return np.flatnonzero(~self._present[first : -(-end // LINE)]) + first

    def write(self, pieces: Iterable[tuple[Range, bytes]]) -> None:
        """Keep what was read. Ranges begin with a line, and end with one or with the file."""
        with self._lock:
            for piece, content in pieces:
                self._write(piece, content)

    def _write(self, piece: Range, content: bytes) -> None:
        first, last = piece.begin // LINE, -(-piece.end // LINE)
        absent = ~self._present[first:last]
        if absent.all():
            self._memory[piece.begin : piece.end] = np.frombuffer(content, np.uint8)
        else:
            lines = np.zeros((last - first, LINE), np.uint8)
            lines.reshape(-1)[: len(content)] = np.frombuffer(content, np.uint8)
            self._memory[first * LINE : last * LINE].reshape(-1, LINE)[absent] = lines[absent]
        pages = self._paged[first // _LINES_OF_PAGE : -(-last // _LINES_OF_PAGE)]
        self.resident += _PAGE * (len(pages) - int(np.count_nonzero(pages)))
        pages[:] = True
        self._present[first:last] = True  # last: from here on others read it

    def view(self, begin: int, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> np.ndarray:
        """An array that lies in the sheet, whether or not it has been read."""
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(self._memory.data, dtype, count, begin).reshape(shape)
        array.flags.writeable = False
        return array


def reserved(size: int) -> npt.NDArray[np.uint8]:
    """Zeros that take memory only where they are written, page by page."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # on Windows
        return np.zeros(size, np.uint8)
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # in large pages, a line would take two megabytes
        with suppress(OSError):  # a kernel without large pages
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def merged(lines: Lines, gap: int, most: int, size: int) -> list[Range]:
    """Ranges of bytes that have all the lines (ascending): lines less than `gap` bytes apart share a
    range, and no range has more than `most` bytes.
    """
    if not len(lines):
        return []
    breaks = np.flatnonzero(np.diff(lines) > gap // LINE + 1) + 1
    firsts, lasts = lines[np.append(0, breaks)], lines[np.append(breaks - 1, len(lines) - 1)]
    ranges = []
    for begin, end in zip((firsts * LINE).tolist(), (lasts * LINE + LINE).tolist(), strict=True):
        ranges += [Range(at, min(at + most, end, size)) for at in range(begin, min(end, size), most)]
    return ranges
