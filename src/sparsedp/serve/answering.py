"""Answers as JSON or as an Arrow stream.

JSON is written row by row: other threads, above all the event loop, get their turn meanwhile. It has
no infinity, so where there is no bound, it says null.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import repeat
from json.encoder import encode_basestring_ascii as text_of
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import InputError
from ..keys.kinds import KeyColumn, is_instant, labels
from ..releasing.published import Answer
from .asking import Asked
from .catalog import Served
from .limits import RefusedError
from .streams import write_stream

ANSWERS = ("estimate", "low", "high")
_SAFE = (1 << 53) - 1  # JavaScript rounds larger integers


def check_size(served: Served, count: int, most: int) -> None:
    """`RefusedError` if so many keys make too many answers."""
    releases = len(served.parts)
    if count * releases > most:
        times = "" if releases == 1 else f" (here {most // releases}, as the series has {releases} releases)"
        raise RefusedError(413, f"a request may have at most {most} keys{times}, got {count}; send them in several")


def as_json(served: Served, asked: Asked, confidence: float) -> bytes:
    """The estimates and intervals of all keys."""
    keys = [value_of(key) for key in asked.values]
    if served.summary["kind"] == "release":
        return _document(served.name, confidence, rows_of(keys, _answer(served, asked, confidence)[0][1]))
    points: list[Iterator[str]] = []
    for label, answer in _answer(served, asked, confidence):
        points.append(rows_of(repeat(value_of(label)), answer, "label"))
    per_key = zip(*points, strict=True)
    rows = (f'{{"key":{key},"points":[{",".join(own)}]}}' for key, own in zip(keys, per_key, strict=True))
    return _document(served.name, confidence, rows)


def as_stream(served: Served, asked: Asked, confidence: float) -> bytes:
    """The columns of the key, estimate, low and high; in a series the label first, and a block of rows
    for each release.
    """
    assert asked.table is not None
    tables = []
    columns = asked.table.columns
    names = labels([KeyColumn(name, None) for name in asked.table.column_names], ("label", *ANSWERS))
    for label, answer in _answer(served, asked, confidence):
        given = dict(zip(names, columns, strict=True)) | dict(zip(ANSWERS, answer, strict=True))
        if label is not None:
            given = {"label": pa.repeat(pa.scalar(label, pa.string()), asked.count)} | given
        tables.append(pa.table(given))
    return write_stream(pa.concat_tables(tables))


def ranked_json(served: Served, count: int, confidence: float) -> bytes:
    """The largest estimates of the keys that a release names."""
    ranked = served.ranking(confidence)
    kinds = [column.kind for column in served.first.key_columns]
    keys = [value_of(_plain(key, kinds)) for key in ranked.keys[:count]]
    answer = Answer(ranked.estimates[:count], ranked.low[:count], ranked.high[:count])
    return _document(served.name, confidence, rows_of(keys, answer))


def _answer(served: Served, asked: Asked, confidence: float) -> list[tuple[str | None, Answer]]:
    if not asked.count:
        none = np.empty(0)
        return [(label, Answer(none, none, none)) for label, _ in served.parts]
    try:
        return [(label, release.answer(asked.keys, confidence)) for label, release in served.parts]
    except (pa.ArrowException, OverflowError) as error:  # a type of column that keys cannot have
        raise InputError(f"the keys cannot be read: {error}") from None


def rows_of(keys: Any, answer: Answer, name: str = "key") -> Iterator[str]:
    """A JSON object for each key; keys are JSON already."""
    start = f'{{"{name}":'
    columns = zip(keys, *map(_numbers, answer), strict=False)
    return (f'{start}{key},"estimate":{mid},"low":{low},"high":{high}}}' for key, mid, low, high in columns)


def _numbers(values: npt.NDArray[np.float64]) -> Sequence[object]:
    """Floats, whose text is their JSON, and null where they are not finite."""
    finite = np.isfinite(values)
    if finite.all():
        plain: list[object] = values.tolist()
        return plain
    return [value if known else "null" for value, known in zip(values.tolist(), finite.tolist(), strict=True)]


def value_of(value: Any) -> str:
    """JSON of a key or a label."""
    return text_of(value) if type(value) is str else json.dumps(value)


def _document(name: str, confidence: float, rows: Iterator[str]) -> bytes:
    head = f'{{"name":{text_of(name)},"confidence":{confidence!r},"results":['
    return f"{head}{','.join(rows)}]}}".encode("ascii")


def _plain(key: Any, kinds: Sequence[str | None]) -> Any:
    """A key as JSON, in the form in which it can be asked for."""
    if isinstance(key, tuple):
        return [_plain(own, [kind]) for own, kind in zip(key, kinds, strict=True)]
    if isinstance(key, bytes):
        try:
            return key.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(key).decode()}
    if isinstance(key, date):  # a datetime too
        return key.isoformat()
    if isinstance(key, np.datetime64):  # which has no time zone
        return f"{key}Z" if is_instant(kinds[0] or "") else str(key)
    if isinstance(key, int) and not isinstance(key, bool) and abs(key) > _SAFE:
        return str(key)
    return key
