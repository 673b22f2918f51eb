"""Files of separated values (CSV) as a stream of columns of text, by a stated dialect: nothing is
guessed.

Records follow RFC 4180: a field that begins with a quote ends with one, quotes inside are doubled,
and only such a field has separators, line ends or quotes in it. Any other file is refused. So the
end of a record and its fields depend only on its own bytes: removing records leaves all others as
they are. Line ends are LF, CRLF or CR; empty lines are not records; an empty field is null.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError, reason_of

ENCODINGS = {"utf-8": "utf-8", "utf-16": "utf-16", "latin-1": "latin-1"}
_BLOCK = 1 << 24
_LONGEST_RECORD = 1 << 23  # Arrow reads every record that is not longer than a block, wherever it begins
_WINDOW = 1 << 22
_LONGEST_HEADER = 1 << 20
_LINE_ENDS = (b"\n", b"\r")
_QUOTES_WRONG = (
    "a quote is not closed, or is followed by other text, or is inside a field that does not begin with one; is "
    "another delimiter= needed, or an empty quote= because quotes have no meaning in this file?"
)


@dataclass(frozen=True)
class Dialect:
    """How a file of separated values is written."""

    delimiter: str
    quote: str  # or empty
    encoding: str

    def __post_init__(self) -> None:
        for name, letter in (("delimiter", self.delimiter), ("quote", self.quote)):
            single = len(letter) == 1 and letter.isascii() and letter not in "\r\n\0"
            if not (single or (name == "quote" and not letter)):
                none = ", or '' for none" if name == "quote" else ""
                raise ParameterError(f"{name} must be one ASCII character{none}, got {letter!r}")
        if self.delimiter == self.quote:
            raise ParameterError(f"quote must not be the same character as delimiter, got {self.quote!r}")
        if self.encoding not in ENCODINGS:
            raise ParameterError(f"encoding must be one of {', '.join(map(repr, ENCODINGS))}, got {self.encoding!r}")


def header_of(file: str, dialect: Dialect) -> list[str]:
    """The names in the first record of a file."""
    with _errors_of(file), _Checked(file, dialect) as stream:
        text = stream.read(_LONGEST_HEADER).decode("utf-8", errors="ignore")  # a character may be cut in two
        quoting: Any = {"quoting": csv.QUOTE_NONE} if not dialect.quote else {"quotechar": dialect.quote}
        records = csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter, strict=True, **quoting)
        try:
            names = next((record for record in records if record), [])
        except csv.Error:
            raise InputError(f"the first line of {file} names no columns: {_QUOTES_WRONG}") from None
    if not names:
        raise InputError(f"{file} is empty: it has no columns")
    return names


def batches_of(file: str, dialect: Dialect, columns: list[str]) -> Iterator[Any]:
    """Some of the columns of a file, as record batches of text."""
    import pyarrow
    from pyarrow import csv as arrow

    uneven: list[Any] = []

    def refuse(row: Any) -> str:
        uneven.append(row)
        return "error"

    with _errors_of(file, uneven), _Checked(file, dialect) as stream:
        reader = arrow.open_csv(
            pyarrow.PythonFile(stream, mode="r"),
            read_options=arrow.ReadOptions(block_size=_BLOCK, use_threads=False),
            parse_options=arrow.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote or False,
                double_quote=bool(dialect.quote),
                escape_char=False,
                newlines_in_values=bool(dialect.quote),
                ignore_empty_lines=True,
                invalid_row_handler=refuse,
            ),
            convert_options=arrow.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns, pyarrow.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                auto_dict_encode=False,
                check_utf8=True,
            ),
        )
        yield from reader


@contextmanager
def _errors_of(file: str, uneven: list[Any] | None = None) -> Iterator[None]:
    """Turn errors of reading a file into messages that show no cells."""
    import pyarrow

    try:
        yield
    except InputError:
        raise
    except UnicodeError:
        raise InputError(f"the table cannot be read: {file} is not in the stated encoding") from None
    except (pyarrow.ArrowException, OSError) as error:
        if uneven:
            row = uneven[0]
            why = f"line {row.number}: it has {row.actual_columns} columns instead of {row.expected_columns}"
        elif "UTF8" in str(error):
            why = f"{file} has text in another encoding: it is not valid UTF-8; pass encoding="
        elif not isinstance(error, OSError) or error.errno is None:  # Arrow's own errors may be OSErrors
            why = f"{file} is malformed"
        else:
            why = reason_of(error)
        raise InputError(f"the table cannot be read: {why}") from None


class _Checked(io.RawIOBase):
    """The bytes of a file in UTF-8, decompressed according to its extension; anything that violates
    RFC 4180 raises.
    """

    def __init__(self, file: str, dialect: Dialect) -> None:
        import pyarrow

        super().__init__()
        self._file = file
        packing = {".gz": "gzip", ".zst": "zstd"}.get(os.path.splitext(file)[1].lower())
        self._packed = pyarrow.input_stream(os.path.abspath(file), compression=packing)  # here ~ is an ordinary folder
        self._decoder = None
        if dialect.encoding != "utf-8":
            self._decoder = codecs.getincrementaldecoder(ENCODINGS[dialect.encoding])("strict")
        self._quote = ord(dialect.quote) if dialect.quote else None
        self._around = np.frombuffer((dialect.delimiter + "\r\n").encode(), np.uint8)
        self._quotes = 0  # so far
        self._record = 0  # bytes of the record so far
        self._lines = 1
        self._last = ord("\n")  # the previous byte
        self._closing = False  # whether that byte was a closing quote, unless more follows
        self._left = b""
        self._first = True
        self._ended = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._packed.close()
        super().close()

    def read(self, size: int = -1) -> bytes:
        """As many bytes as asked for, one less, or the rest of the file; empty at the end.

        A CR and the byte after it are in one piece. Arrow takes an LF at the beginning of a piece for
        the rest of a CRLF, even inside quotes, and drops it: then a field would depend on where it is.
        """
        size = _BLOCK if size < 0 else max(size, 2)
        while len(self._left) < size and not self._ended:
            self._left += self._next(size)
        given = self._left[:size]
        if given.endswith(b"\r"):  # never the end of the file, which has an empty line after it
            given = given[:-1] or given
        self._left = self._left[len(given) :]
        return given

    def _next(self, size: int) -> bytes:
        data: bytes = self._packed.read(size)
        while len(data) < size and not self._ended:
            more = self._packed.read(size - len(data))
            data, self._ended = data + more, not more
        if self._first:
            data, self._first = data.removeprefix(codecs.BOM_UTF8), False
        if self._decoder is not None:
            data = self._decoder.decode(data, final=self._ended).encode()
        quotes = np.empty(0, np.int64)
        if self._quote is not None:
            quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == self._quote)
        for start in range(0, len(data), _WINDOW):
            self._measure(data, start, min(start + _WINDOW, len(data)), quotes)
        if self._quote is not None:
            self._check(data, quotes)
            if self._ended and self._quotes % 2:
                raise InputError(f"the table cannot be read: {self._file} ends inside quotes: {_QUOTES_WRONG}")
        return data + b"\n" if self._ended else data  # an empty line is not a record

    def _measure(self, data: bytes, start: int, end: int, quotes: npt.NDArray[np.int64]) -> None:
        """Refuse a record that is too long by itself; records inside the window are shorter."""
        first, last = self._line_end(data, start, end, quotes, True), self._line_end(data, start, end, quotes, False)
        if self._record + (end if first is None else first) - start > _LONGEST_RECORD:
            raise InputError(f"the table cannot be read: {self._file} has a record of over {_LONGEST_RECORD >> 20} MB")
        self._record = self._record + end - start if last is None else end - last

    def _line_end(self, data: bytes, start: int, end: int, quotes: npt.NDArray[np.int64], first: bool) -> int | None:
        """The end of the first or last line in a window that does not end inside quotes."""
        while start < end:
            ends = [
                at for at in ((data.find if first else data.rfind)(mark, start, end) for mark in _LINE_ENDS) if at >= 0
            ]
            if not ends:
                return None
            at = min(ends) if first else max(ends)
            before = int(np.searchsorted(quotes, at))
            if (self._quotes + before) % 2 == 0:
                return at
            if first:  # go on after the closing quote, or before the opening one
                start = int(quotes[before]) if before < len(quotes) else end
            else:
                end = int(quotes[before - 1]) if before else start
        return None

    def _check(self, data: bytes, at: npt.NDArray[np.int64]) -> None:
        """Quotes open after a separator and close before one; doubled quotes close and open again."""
        if not data:
            return
        letters = np.frombuffer(data, np.uint8)
        opens = (self._quotes + np.arange(len(at))) % 2 == 0
        before = np.where(at > 0, letters[at - 1], self._last)[opens]
        closes = at[~opens]
        after = letters[np.minimum(closes + 1, len(letters) - 1)]
        may = np.append(self._around, np.uint8(self._quote or 0))
        wrong_before = at[opens][~np.isin(before, may)]
        wrong_after = closes[(closes + 1 < len(letters)) & ~np.isin(after, may)]
        wrong = [*wrong_before[:1], *wrong_after[:1]]
        if self._closing and letters[0] not in may:
            wrong.append(0)
        if wrong:
            line = self._lines + data.count(b"\n", 0, min(wrong))
            raise InputError(f"the table cannot be read: line {line}: {_QUOTES_WRONG}")
        self._quotes += len(at)
        self._lines += data.count(b"\n")
        self._last = data[-1]
        self._closing = bool(len(closes)) and int(closes[-1]) == len(letters) - 1
