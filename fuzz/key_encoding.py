"""Target: keys to ids. Every form of the same keys gives the same ids, and what is no key is
refused as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from sparsedp import FormatError, InputError
from sparsedp.keys.composite import EncodedKeys, KeyTable
from sparsedp.keys.encoding import canonical, original_row
from sparsedp.keys.hashing import HASHED_DOMAIN, KeySpace
from sparsedp.keys.kept import BYTES, OFFSETS, keep, kept_keys
from sparsedp.keys.kinds import Key

from .choices import Choices

HASHED = KeySpace(HASHED_DOMAIN, (0x0706050403020100, 0x0F0E0D0C0B0A0908))
SMALL = KeySpace(1000, None)
MOST_KEYS = 12


def seeds() -> Iterator[bytes]:
    """Some of every kind of keys."""
    for kind in range(len(KINDS)):
        yield bytes([kind]) + bytes(range(120))
        yield bytes([kind]) + "\x05grüße\0\x03日本\x10\U0001f600".encode() * 3


def check(data: bytes) -> None:
    """Hash the keys of some bytes in every form that holds them."""
    choices = Choices(data)
    make = choices.one_of(KINDS)
    if make is _rows:
        _check_composite(_rows(choices), choices)
        return
    keys = make(choices)
    _check_space(HASHED, keys)
    _check_space(SMALL, keys)
    _check_kept(data)


def _check_space(space: KeySpace, keys: list[Any]) -> None:
    try:
        ids = space.ids(keys)
    except InputError as refusal:
        _every_form_refuses(space, keys, refusal)
        return
    assert ids.dtype == np.uint64
    assert ids.shape == (len(keys),)
    assert [space.id(key) for key in keys] == ids.tolist()
    names = [canonical(key) for key in keys]
    assert len(set(names)) == len(set(ids.tolist()))
    assert len({*zip(names, ids.tolist(), strict=True)}) == len(set(names))
    for form in FORMS:
        other = _formed(form, keys)
        if other is not None:
            np.testing.assert_array_equal(space.ids(other), ids, err_msg=form.__name__)
    if space is HASHED:
        _names_survive(keys, ids)


def _every_form_refuses(space: KeySpace, keys: list[Any], refusal: InputError) -> None:
    """A column that holds the same keys is refused too, if one can be made."""
    for form in FORMS:
        other = _formed(form, keys)
        if other is None:
            continue
        try:
            space.ids(other)
        except InputError:
            continue
        raise AssertionError(f"{form.__name__} accepts what a list does not: {refusal}")


def _names_survive(keys: list[Key], ids: np.ndarray) -> None:
    """Kept keys come back as they were, but for those that share an id."""
    order = np.argsort(ids, kind="stable")
    ids, sorted_keys = ids[order], [keys[at] for at in order.tolist()]
    table = {"table.ids": ids, "table.values": np.zeros(len(ids), np.int64)}
    back = kept_keys(keep(table, ids, map(canonical, sorted_keys)))
    expected = [key for key in sorted_keys if (ids == HASHED.id(key)).sum() == 1]
    assert back == expected
    assert list(map(canonical, back)) == list(map(canonical, expected))  # 1 and b"1" are two keys


def _check_kept(data: bytes) -> None:
    """Bytes that were never written are refused, or are the canonical bytes of what they are read
    as.
    """
    arrays: dict[str, np.ndarray] = {
        "table.ids": np.zeros(1, np.uint64),
        OFFSETS: np.array([0, len(data)], np.int64),
        BYTES: np.frombuffer(data, np.uint8),
    }
    try:
        (key,) = kept_keys(arrays)
    except FormatError:
        return
    assert canonical(key) == data


def _texts(choices: Choices) -> list[Any]:
    return [choices.take(choices.below(40)).decode(errors="replace") for _ in _count(choices)]


def _surrogates(choices: Choices) -> list[Any]:
    return [choices.take(choices.below(20)).decode(errors="surrogateescape") for _ in _count(choices)]


def _bytes(choices: Choices) -> list[Any]:
    return [choices.take(choices.below(40)) for _ in _count(choices)]


def _integers(choices: Choices) -> list[Any]:
    return [choices.integer() for _ in _count(choices)]


def _small_integers(choices: Choices) -> list[Any]:
    return [choices.below(1001) for _ in _count(choices)]


def _mixed(choices: Choices) -> list[Any]:
    others: list[Callable[[], Any]] = [
        lambda: choices.take(3),
        lambda: choices.take(3).decode(errors="replace"),
        choices.integer,
        lambda: choices.integer() / 3,
        lambda: bool(choices.below(2)),
        lambda: None,
        lambda: (choices.integer(),),
        lambda: np.int16(choices.below(1 << 15)),
        lambda: np.bool_(choices.below(2)),
        lambda: np.str_(choices.take(3).decode(errors="replace")),
    ]
    return [choices.one_of(others)() for _ in _count(choices)]


def _rows(choices: Choices) -> list[Any]:
    """Tuples, mostly of one length and of the same kinds."""
    values: list[Callable[[], Any]] = [
        lambda: choices.take(choices.below(9)).decode(errors="replace"),
        lambda: choices.take(choices.below(9)),
        choices.integer,
        lambda: bool(choices.below(2)),
        lambda: date.fromordinal(1 + choices.below(1 << 16) * 55),
        lambda: datetime(1970, 1, 1) + timedelta(microseconds=choices.integer() % (1 << 56)),
        lambda: np.datetime64(choices.integer() % (1 << 62), "ns"),
    ]
    own = [choices.one_of(values) for _ in range(2 + choices.below(3))]
    odd = choices.below(8) == 0
    return [tuple((choices.one_of(values) if odd else make)() for make in own) for _ in _count(choices)]


def _check_composite(rows: list[Any], choices: Choices) -> None:
    """Rows, their columns and their canonical bytes have the same ids; bytes that were never written
    are refused.
    """
    if not rows:
        return
    try:
        table = KeyTable.read(rows)
    except InputError:
        return
    names = table.names()
    space = KeySpace(HASHED_DOMAIN, HASHED.seed, None, table.columns)
    ids = space.ids(rows)
    assert ids.tolist() == [space.id(row) for row in rows]
    assert [original_row(name, table.columns) for name in names] == rows
    assert len(set(names)) == len(set(map(repr, rows)))
    np.testing.assert_array_equal(space.ids(tuple(map(list, zip(*rows, strict=True)))), ids)
    np.testing.assert_array_equal(EncodedKeys(table.encoded()).ids(space.seed or (0, 0)), ids)
    forged = choices.rest() or names[0][:-1]
    try:
        key = original_row(forged, table.columns)
    except FormatError:
        return
    assert KeyTable.read([key], table.columns).names() == [forged]


KINDS: list[Callable[[Choices], list[Any]]] = [_texts, _surrogates, _bytes, _integers, _small_integers, _mixed, _rows]


def _count(choices: Choices) -> range:
    return range(choices.below(MOST_KEYS + 1))


def _formed(form: Callable[[list[Any]], Any], keys: list[Any]) -> Any:
    """A column of these keys, or None if this form cannot hold them exactly."""
    if not keys:
        return None
    try:
        column = form(keys)
        held = next(getattr(column, name) for name in ("to_pylist", "to_list", "tolist") if hasattr(column, name))()
    except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException, pl.exceptions.PolarsError):
        return None
    same = len(held) == len(keys) and all(type(a) is type(b) and a == b for a, b in zip(held, keys, strict=True))
    return column if same else None


def _objects(keys: list[Any]) -> Any:
    column = np.empty(len(keys), object)
    column[:] = keys
    return column


def _unaligned(keys: list[Any]) -> Any:
    column = np.array(keys)
    room = np.empty(column.nbytes + 1, np.uint8)
    moved: Any = np.frombuffer(room.data[1:], column.dtype)
    moved[:] = column
    return moved


def _arrow(kind: pa.DataType) -> Callable[[list[Any]], Any]:
    def form(keys: list[Any]) -> Any:
        return pa.array(keys, kind)

    form.__name__ = f"arrow {kind}"
    return form


def _numpy(dtype: str) -> Callable[[list[Any]], Any]:
    def form(keys: list[Any]) -> Any:
        return np.array(keys, dtype)

    form.__name__ = f"numpy {dtype}"
    return form


def _sliced(keys: list[Any]) -> Any:
    return pa.array([keys[0], *keys, keys[-1]]).slice(1, len(keys))


def _chunks(keys: list[Any]) -> Any:
    kind = pa.array(keys).type
    half = len(keys) // 2
    return pa.chunked_array([pa.array(keys[:half], kind), pa.array([], kind), pa.array(keys[half:], kind)])


def _unaligned_arrow(keys: list[Any]) -> Any:
    column = pa.array(keys)
    buffers = []
    for buffer in column.buffers():
        moved = None if buffer is None else pa.py_buffer(b"\0" + buffer.to_pybytes()).slice(1)
        buffers.append(moved)
    return pa.Array.from_buffers(column.type, len(column), buffers)


def _dictionary(keys: list[Any]) -> Any:
    return pa.array(keys).dictionary_encode()


def _polars(keys: list[Any]) -> Any:
    column = pl.Series(keys, strict=True)
    if str(column.dtype) == "Int128":
        raise TypeError("Arrow has no integers of 128 bits")
    return column


FORMS: list[Callable[[list[Any]], Any]] = [
    np.array,
    _objects,
    _unaligned,
    *(_numpy(dtype) for dtype in ("i1", "i8", "u8", ">i8", "u2", "U50", ">U50", "S50")),
    lambda keys: np.repeat(np.array(keys), 2)[::2],
    *(_arrow(kind) for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())),
    *(_arrow(kind) for kind in (pa.string_view(), pa.binary_view(), pa.int64(), pa.uint64(), pa.int8())),
    _sliced,
    _chunks,
    _unaligned_arrow,
    _dictionary,
    pd.Series,
    pd.Index,
    lambda keys: pd.Series(keys, dtype="category"),
    _polars,
]
