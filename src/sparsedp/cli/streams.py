"""Answers as CSV or JSON lines, in blocks: at the speed of the release, not of Python's loops."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..releasing.published import Release
from .parsing import ANSWERS, Asked
from .standard import writing

_CONTROL = re.compile(r"[\x00-\x1f]")


def answer(release: Release, asked: Asked, confidence: float) -> pa.Table:
    """The estimate and the interval of each key."""
    numbers = [_floats(values) for values in release.answer(asked.keys, confidence)]
    return pa.Table.from_arrays([*asked.texts.values(), *numbers], [*asked.texts, *ANSWERS])


def _floats(values: npt.NDArray[np.float64]) -> pa.Array:
    """A column of numbers. `pa.array` would import pandas, if it is installed, to see that they are
    not its own: half a second.
    """
    return pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


class Writer:
    """Answers as CSV or as JSON lines on stdout."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._out = sys.stdout.buffer
        self._first = True

    def write(self, table: pa.Table) -> None:
        """Append a block of rows."""
        with writing():
            if self._json:
                self._out.write(_json_lines(table))
            else:
                header = pyarrow.csv.WriteOptions(include_header=self._first, quoting_style="needed")
                pyarrow.csv.write_csv(table, self._out, header)
            self._out.flush()
        self._first = False


def _json_lines(table: pa.Table) -> bytes:
    names = table.column_names[: -len(ANSWERS)]
    columns = [pc.cast(table.column(name), pa.large_string()) for name in names]
    if any(pc.any(pc.match_substring_regex(texts, _CONTROL.pattern)).as_py() for texts in columns):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()
    pieces: list[Any] = []
    for name, texts in zip(names, columns, strict=True):
        escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
        pieces += [f'{", " if pieces else "{"}{json.dumps(name, ensure_ascii=False)}: "', escaped, '"']
    for name in ANSWERS:
        pieces += [f', "{name}": ', pc.cast(table.column(name), pa.large_string())]
    pieces.append("}\n")
    wide = [pa.scalar(piece, pa.large_string()) if isinstance(piece, str) else piece for piece in pieces]
    joined = pc.binary_join_element_wise(*wide, pa.scalar("", pa.large_string()))
    return b"".join(np.frombuffer(_letters(chunk), np.uint8).tobytes() for chunk in joined.chunks)


def _letters(chunk: pa.Array) -> memoryview:
    """The text of a whole column, one value after the other."""
    offsets = np.frombuffer(chunk.buffers()[1], np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    return memoryview(chunk.buffers()[2])[offsets[0] : offsets[-1]]
