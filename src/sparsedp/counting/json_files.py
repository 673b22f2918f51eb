"""JSON files before DuckDB reads them: how their records are laid out, and what it would take or
refuse depending on other records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError, reason_of

_PACKINGS = {".gz": "gzip", ".zst": "zstd"}
_MARK = b"\xef\xbb\xbf"
# DuckDB reads every record of up to 2^24 bytes, and a longer one if its buffer has room for it.
_LONGEST_RECORD = 16_000_000
_PIECE = 1 << 22


def packing_of(file: str) -> str | None:
    """How a file is compressed, by its name."""
    return _PACKINGS.get(Path(file).suffix.lower())


def check_records(file: str) -> None:
    """`InputError` for a line that is too long, whatever is before it, for a file whose compression is
    damaged, and for a byte order mark.
    """
    packing = packing_of(file)
    with _opened(file, packing) as stream:
        begin = piece = stream.read(_PIECE)
        if begin.startswith(_MARK):
            raise InputError(
                f"{file} begins with a byte order mark, which JSON must not have; remove its first 3 bytes"
            )
        if packing is None and os.path.getsize(file) <= _LONGEST_RECORD:
            return
        is_array, line, size = begin.lstrip().startswith(b"["), 1, 0
        while piece:
            first, last = piece.find(b"\n"), piece.rfind(b"\n")
            size += len(piece) if first < 0 else first
            if size > _LONGEST_RECORD and not is_array:
                raise InputError(f"line {line} of {file} has over {_LONGEST_RECORD // 10**6} MB, the most of a record")
            if first >= 0:
                line, size = line + piece.count(b"\n"), len(piece) - last - 1
            piece = stream.read(_PIECE)


def begins_with_bracket(file: str) -> bool:
    """Whether the first byte that is no space is an opening bracket."""
    with _opened(file, packing_of(file)) as stream:
        begin = b""
        while not begin and (data := stream.read(1 << 16)):
            begin = data.lstrip()
    return begin.startswith(b"[")


@contextmanager
def _opened(file: str, packing: str | None) -> Iterator[Any]:
    import pyarrow

    try:
        with pyarrow.input_stream(os.path.abspath(file), compression=packing) as stream:
            yield stream
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{file} cannot be read: {reason_of(error)}") from None
