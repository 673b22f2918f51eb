"""Answers as JSON or as an Arrow stream.

JSON is written by columns, in Arrow, which leaves Python to other threads meanwhile, above all to the
event loop. It has no infinity, so where there is no bound, it says null.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from datetime import date
from json.encoder import encode_basestring_ascii as text_of
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError
from ..keys.kinds import KeyColumn, is_instant, labels
from ..releasing.published import Floats, Release
from .asking import Asked
from .catalog import Served
from .limits import RefusedError
from .streams import write_stream

KEY, ANSWERS = "key", ("estimate", "low", "high")
COLUMNS = (KEY, *ANSWERS)  # of an answer, of which a request may name some
_FEW = 64
Answer: TypeAlias = dict[str, Floats]  # of one release: what is asked, by its name

_SAFE = (1 << 53) - 1  # JavaScript rounds larger integers


def check_size(served: Served, count: int, most: int) -> None:
    """`RefusedError` if so many keys make too many answers."""
    releases = len(served.parts)
    if count * releases > most:
        times = "" if releases == 1 else f" (here {most // releases}, as the series has {releases} releases)"
        raise RefusedError(413, f"a request may have at most {most} keys{times}, got {count}; send them in several")


def chosen(texts: Sequence[str]) -> tuple[str, ...]:
    """The columns that a query names, in the order of `COLUMNS`; all of them if it names none."""
    names = [name.strip() for text in texts for name in text.split(",")]
    for at, name in enumerate(names):
        if name not in COLUMNS:
            raise RefusedError(400, f"columns must be some of {', '.join(COLUMNS)}, got {name[:80]!r}")
        if name in names[:at]:
            raise RefusedError(400, f"columns must name each column once, got {name!r} again")
    return tuple(name for name in COLUMNS if name in names or not names)


def as_json(served: Served, asked: Asked, confidence: float, columns: Sequence[str] = COLUMNS) -> bytes:
    """The estimates and intervals of all keys, or some columns of these."""
    answers = _answer(served, asked, confidence, columns)
    if asked.count * len(answers) <= _FEW:
        return _few(served, asked, confidence, columns, answers)
    row: list[list[Any]] = [['"key":', _written(asked)]] if KEY in columns else []
    if served.summary["kind"] == "release":
        return _document(served.name, confidence, _object([*row, *_numbers(answers[0][1])]), asked.count)
    points = [_object([[f'"label":{text_of(label or "")}'], *_numbers(answer)]) for label, answer in answers]
    return _document(served.name, confidence, _object([*row, ['"points":[', *_listed(points), "]"]]), asked.count)


def as_stream(
    served: Served, asked: Asked, confidence: float, columns: Sequence[str] = COLUMNS
) -> list[bytes | memoryview]:
    """The columns of the key, estimate, low and high, or some of these; in a series the label first,
    and a block of rows for each release.
    """
    assert asked.table is not None
    tables = []
    names = labels([KeyColumn(name, None) for name in asked.table.column_names], ("label", *ANSWERS))
    keys = dict(zip(names, asked.table.columns, strict=True)) if KEY in columns else {}
    for label, answer in _answer(served, asked, confidence, columns):
        given: dict[str, Any] = keys | answer
        if label is not None:
            given = {"label": pa.repeat(pa.scalar(label, pa.string()), asked.count)} | given
        tables.append(pa.table(given))
    return write_stream(pa.concat_tables(tables))


def ranked_json(served: Served, count: int, confidence: float) -> bytes:
    """The largest estimates of the keys that a release names."""
    ranked = served.ranking(confidence)
    kinds = [column.kind for column in served.first.key_columns]
    keys = pa.array([json.dumps(_plain(key, kinds)) for key in ranked.keys[:count]], pa.large_string())
    whole = (ranked.estimates[:count], ranked.low[:count], ranked.high[:count])
    answer = dict(zip(ANSWERS, whole, strict=True))
    return _document(served.name, confidence, _object([['"key":', keys], *_numbers(answer)]), len(keys))


def _answer(served: Served, asked: Asked, confidence: float, columns: Sequence[str]) -> list[tuple[str | None, Answer]]:
    if not asked.count:
        return [(label, {name: np.empty(0) for name in ANSWERS if name in columns}) for label, _ in served.parts]
    try:
        return [(label, _numbers_of(release, asked.keys, confidence, columns)) for label, release in served.parts]
    except (pa.ArrowException, OverflowError) as error:  # a type of column that keys cannot have
        raise InputError(f"the keys cannot be read: {error}") from None


def _numbers_of(release: Release, keys: Any, confidence: float, columns: Sequence[str]) -> Answer:
    """What is asked of one release, and nothing else."""
    wanted = [name for name in ANSWERS if name in columns]
    if wanted == ["estimate"]:
        return {"estimate": release.lookup(keys)}
    whole = dict(zip(ANSWERS, release.answer(keys, confidence), strict=True)) if wanted else {}
    return {name: whole[name] for name in wanted}


def _few(
    served: Served, asked: Asked, confidence: float, columns: Sequence[str], answers: list[tuple[str | None, Answer]]
) -> bytes:
    """The same for a few keys, for which columns would take longer."""
    rows: list[dict[str, Any]] = [{"key": key} if KEY in columns else {} for key in asked.values]
    for at, row in enumerate(rows):
        if served.summary["kind"] == "release":
            row.update(_fields(answers[0][1], at))
        else:
            row["points"] = [{"label": label, **_fields(answer, at)} for label, answer in answers]
    whole = {"name": served.name, "confidence": confidence, "results": rows}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False).encode()


def _fields(answer: Answer, at: int) -> dict[str, float | None]:
    return {name: float(values[at]) if math.isfinite(values[at]) else None for name, values in answer.items()}


def _written(asked: Asked) -> pa.Array:
    """The JSON of each key, as it was asked for."""
    texts = asked.keys
    if isinstance(texts, pa.Array) and pa.types.is_large_string(texts.type) and not _has_controls(texts):
        escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
        return _joined(['"', escaped, '"'])
    written = [text_of(key) if type(key) is str else json.dumps(key) for key in asked.values]
    return pa.array(written, pa.large_string())


def _has_controls(texts: pa.Array) -> bool:
    """Whether there are letters that JSON writes as escapes."""
    return bool(pc.any(pc.match_substring_regex(texts, "[\\x00-\\x1f]"), min_count=0).as_py())


def _numbers(answer: Answer) -> list[list[Any]]:
    """The fields of an answer, each in pieces; what is not finite is null."""
    fields = []
    for name, values in answer.items():
        finite = np.isfinite(values)
        known = pa.array(values, mask=None if finite.all() else ~finite)
        fields.append([f'"{name}":', pc.cast(known, pa.large_string())])
    return fields


def _object(fields: Sequence[Sequence[Any]]) -> list[Any]:
    """The pieces of an object, from those of its fields."""
    return ["{", *_listed(fields), "}"]


def _listed(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """The pieces of several things, with commas between these."""
    return [piece for at, one in enumerate(lists) for piece in ([",", *one] if at else one)]


def _joined(pieces: Sequence[Any]) -> pa.Array:
    """Columns of text and text between them, row by row."""
    wide = [pa.scalar(piece, pa.large_string()) if isinstance(piece, str) else piece for piece in pieces]
    empty = pa.scalar("", pa.large_string())
    return pc.binary_join_element_wise(*wide, empty, null_handling="replace", null_replacement="null")


def _document(name: str, confidence: float, row: Sequence[Any], count: int) -> bytes:
    """The whole answer, from the pieces of its rows."""
    head = f'{{"name":{text_of(name)},"confidence":{confidence!r},"results":['.encode("ascii")
    if not count:
        return head + b"]}"
    letters = memoryview(_joined([*row, ","]).buffers()[2])
    return b"".join([head, letters[:-1], b"]}"])


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
