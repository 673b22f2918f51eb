"""Files that are elsewhere, as containers whose arrays are read when they are needed, in few ranges.

Opening reads the header, which is checked as that of any file, and what is small: short arrays, and
the ends of long ones. After that, arrays that are asked for as a whole are read as a whole and
checked against their checksums; of others, only the lines that a lookup touches are read, and kept
in a `Sheet`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ..mechanisms.partial import PartialArrays, Touched
from . import searching, transport
from .addresses import Address
from .container import LENGTH, Container, Entry, array_of, checksums, header_length, is_padding, parse_header
from .sheet import LINE, Lines, Range, Sheet, merged

CACHE_BYTES = 256 << 20  # of memory, for each file
HEAD = 8 << 10  # bytes of the first request
GAP = 1 << 10  # bytes that are read rather than asked around: about what a request costs in headers
LONGEST = 4 << 20  # bytes of a range
_SHORT = 32 << 10  # an array of so many bytes is read when the file is opened
_KEPT = 4 << 20  # an array of so many bytes is kept once it was read as a whole
_CHUNK = 32 << 20  # bytes that are read before they are put in place

Words = npt.NDArray[np.uint64]


class RemoteFile:
    """One file that is elsewhere, and what was read of it. Threads may share it, and a forked process
    has its own connection and memory.
    """

    def __init__(self, address: Address) -> None:
        self.transport = transport.opened(address)
        (head,) = self.transport.read([Range(0, HEAD)])
        assert self.transport.size is not None
        self._process, self._kept = os.getpid(), dict[str, np.ndarray]()
        self._sheet = Sheet(self.transport.size)
        self._keep(self._sheet, Range(0, len(head) // LINE * LINE), head)
        self._start = LENGTH + header_length(head[:LENGTH], self.transport.size)
        self._read(self._sheet, self._sheet.missing_between(0, self._start))
        header = self._sheet.view(LENGTH, np.dtype(np.uint8), (self._start - LENGTH,)).tobytes()
        parsed = parse_header(header, self.transport.size - self._start)
        self.description, self.digest = parsed.description, parsed.digest
        self.entries = {name: entry for name, entry in parsed.entries.items() if not is_padding(name)}
        self._read_first()

    def _read_first(self) -> None:
        """Read short arrays, and the ends of others."""
        lines = [np.empty(0, np.int64)]
        for begin, end in (self._range(entry) for entry in self.entries.values() if entry.end > entry.begin):
            first, last = begin // LINE, (end - 1) // LINE
            lines.append(np.arange(first, last + 1) if end - begin <= _SHORT else np.array([first, last]))
        self._read(self._sheet, self._sheet.missing(np.concatenate(lines)))

    def _range(self, entry: Entry) -> Range:
        return Range(self._start + entry.begin, self._start + entry.end)

    def holding(self, name: str, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> np.ndarray:
        """An array in which the elements of these ranges have been read."""
        entry, sheet = self.entries[name], self._current()
        at, size = self._start + entry.begin, entry.dtype.itemsize
        if len(starts) == 1:
            self._read_between(sheet, int(at + starts[0] * size), int(at + ends[0] * size))
        else:
            self._read(sheet, sheet.missing(_lines(at + starts * size, at + ends * size)))
        return sheet.view(at, entry.dtype, entry.shape)

    def whole(self, name: str) -> np.ndarray:
        """An array, after all of it was read and checked."""
        if name in self._kept:
            return self._kept[name]
        entry, sheet = self.entries[name], self._current()
        begin, end = self._range(entry)
        self._read_between(sheet, begin, end)
        data = sheet.view(begin, np.dtype(np.uint8), (end - begin,))
        array = array_of(name, entry, data.data)
        if checksums({name: array})[name] != self.description["checksums"].get(name):
            raise FormatError(f"array {name!r} fails its checksum: the file is damaged")
        if array.nbytes <= _KEPT:
            self._kept[name] = array = array.copy()
            array.flags.writeable = False
        return array

    def _current(self) -> Sheet:
        """The sheet for what is read next: a new one if it is full, or belongs to another process."""
        sheet = self._sheet
        if self._process != os.getpid():
            self.transport = self.transport.again()
            self._process = os.getpid()
            sheet = self._sheet = Sheet(sheet.size)
        if sheet.resident > CACHE_BYTES:
            sheet = self._sheet = Sheet(sheet.size)
        return sheet

    def _read_between(self, sheet: Sheet, begin: int, end: int) -> None:
        for start in range(begin // LINE * LINE, end, _CHUNK):
            self._read(sheet, sheet.missing_between(start, min(start + _CHUNK, end)))

    def _read(self, sheet: Sheet, lines: Lines) -> None:
        """Read lines into a sheet."""
        ranges = merged(lines, GAP, LONGEST, sheet.size)
        if ranges:
            sheet.write(zip(ranges, self.transport.read(ranges), strict=True))

    @staticmethod
    def _keep(sheet: Sheet, whole_lines: Range, content: bytes) -> None:
        """Keep the first answer; if it is all of the file, its last line too."""
        end = len(content) if len(content) == sheet.size else whole_lines.end
        if end:
            sheet.write([(Range(0, end), content[:end])])


def _lines(begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Lines:
    """All lines of ranges of bytes; some may come several times."""
    firsts = begins // LINE
    counts = (ends - 1) // LINE - firsts + 1
    before = np.cumsum(counts) - counts
    return np.repeat(firsts - before, counts) + np.arange(int(counts.sum()))


class RemoteArrays(PartialArrays):
    """Arrays of one file, or of several."""

    def __init__(self, places: Mapping[str, tuple[RemoteFile, str]]) -> None:
        self._places = dict(places)

    def __getitem__(self, name: str) -> np.ndarray:
        file, label = self._places[name]
        return file.whole(label)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def outline(self, name: str) -> np.ndarray:
        file, label = self._places[name]
        entry = file.entries[label]
        return np.broadcast_to(np.zeros((), entry.dtype), entry.shape)

    def holding(self, name: str, touched: Touched) -> np.ndarray:
        file, label = self._places[name]
        return file.holding(label, touched.starts, touched.starts + touched.length)

    def pairs(self, ids: Words) -> tuple[Words, npt.NDArray[np.int64]]:
        (file, column), (other, values) = self._places["table.ids"], self._places["table.values"]
        found = searching.find(ids, file.entries[column].shape[0], lambda *ends: file.holding(column, *ends))
        at = found[found >= 0]
        return ids[found >= 0], other.holding(values, at, at + 1)[at]

    def renamed(self, names: Mapping[str, str]) -> RemoteArrays:
        return RemoteArrays({new: self._places[old] for new, old in names.items()})

    def joined(self, others: Mapping[str, np.ndarray]) -> RemoteArrays:
        assert isinstance(others, RemoteArrays)
        return RemoteArrays(self._places | others._places)


def read(address: Address) -> Container:
    """The container in a file that is elsewhere."""
    file = RemoteFile(address)
    return Container(file.description, RemoteArrays({name: (file, name) for name in file.entries}), file.digest)


def open_first(address: Address, header_name: str) -> tuple[Address | None, Container]:
    """The directory, if it is one, and the file with the header. An address need not say that it is
    a directory: if there is no file, it may be one.
    """
    if address.is_directory:
        return address, read(address / header_name)
    try:
        return None, read(address)
    except (FileNotFoundError, IsADirectoryError) as error:
        try:
            return address, read(address / header_name)
        except (OSError, FormatError):
            raise error from None


def copy(address: Address, path: Path) -> None:
    """Write all of a file that is elsewhere to a new file."""
    source = transport.opened(address)
    ends = Range(0, LENGTH)
    source.read([ends])
    assert source.size is not None
    with path.open("xb") as file:
        for start in range(0, source.size, _CHUNK):
            end = min(start + _CHUNK, source.size)
            ranges = [Range(at, min(at + LONGEST, end)) for at in range(start, end, LONGEST)]
            file.writelines(source.read(ranges))
