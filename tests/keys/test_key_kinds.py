"""A release knows the kind of its keys: looking integers up as text is an error, not a wrong answer
(promise 27).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsedp
from sparsedp import KeyTypeError, ParameterError
from sparsedp.errors import InputError

KEYS: dict[str, list[Any]] = {"text": ["1", "2"], "bytes": [b"1", b"2"], "integer": [1, 2]}
KINDS = list(KEYS)


def made(kind: str, **options: Any) -> sparsedp.Release:
    return sparsedp.release(dict.fromkeys(KEYS[kind], 1000), epsilon=1.0, nonzero=10, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_published_and_survives_the_file(kind: str, tmp_path: Path) -> None:
    made(kind).save(tmp_path / "a.sparsedp")
    loaded = sparsedp.load(tmp_path / "a.sparsedp")
    assert loaded.key_space.kind == kind
    assert loaded.lookup(KEYS[kind]).min() > 900


def columns_of(keys: list[Any]) -> list[object]:
    return [
        keys,
        tuple(keys),
        iter(keys),
        dict.fromkeys(keys).keys(),
        np.array(keys),
        np.array(keys, object),
        pa.array(keys),
        pa.array(keys).dictionary_encode(),
        pa.chunked_array([keys]),
        pd.Series(keys),
        pd.Series(keys, dtype=object),
        pd.Index(keys),
        pd.Series(keys).astype("category"),
        pl.Series(keys),
    ]


@pytest.mark.parametrize("asked", KINDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.promise(27)
def test_keys_of_another_kind_are_refused_with_the_fix(kind: str, asked: str, measured: Callable[..., None]) -> None:
    release, refused = made(kind), 0
    for keys in columns_of(KEYS[asked]):
        if asked == kind:
            assert release.lookup(keys).min() > 900
            continue
        with pytest.raises(KeyTypeError, match=r"the keys of this release are .*, got .*; ask for "):
            release.lookup(keys)
        refused += 1
    measured(refused=refused)
    if asked != kind:
        for ask in (release.__getitem__, lambda key: release.interval([key]), lambda key: release.sum([key])):
            with pytest.raises(KeyTypeError, match="the keys of this release are"):
                ask(KEYS[asked][0])


def test_the_case_that_was_answered_wrongly() -> None:
    release = sparsedp.release({1: 5000, 2: 3}, epsilon=1.0, nonzero=2)
    assert release[1] > 4900
    assert release.lookup([np.int64(1)]) == release[1]
    with pytest.raises(KeyTypeError, match=r"are integers, got text \(str\); ask for int\(key\)"):
        release["1"]


def test_keys_of_a_domain_are_integers() -> None:
    release = sparsedp.release({1: 5}, epsilon=1.0, domain=100)
    assert release.key_space.kind == "integer"
    with pytest.raises(KeyTypeError):
        release["1"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_keys_are_of_the_kind_that_is_stated(kind: str) -> None:
    empty = sparsedp.release({}, epsilon=1.0, nonzero=10, key_type=kind)
    assert empty.key_space.kind == made(kind, key_type=kind).key_space.kind == kind
    assert sparsedp.release({}, epsilon=1.0, nonzero=10).key_space.kind == "text"


@pytest.mark.parametrize("column", [pa.array([], pa.int32()), np.array([], np.uint8), pd.Series([], dtype="int64")])
def test_a_column_tells_its_kind_when_it_is_empty_too(column: object) -> None:
    assert sparsedp.release((column, []), epsilon=1.0, nonzero=10).key_space.kind == "integer"


def test_a_stated_kind_must_be_one_and_that_of_the_keys() -> None:
    with pytest.raises(ParameterError, match=r"key_type must be one of 'text', 'bytes', 'integer', .*, got 'int'"):
        made("text", key_type="int")
    with pytest.raises(ParameterError, match="key_type must be 'integer' with domain="):
        sparsedp.release({1: 5}, epsilon=1.0, domain=100, key_type="text")
    with pytest.raises(ParameterError, match="key_type must not be 'boolean' for keys of one column"):
        made("text", key_type="boolean")
    with pytest.raises(InputError, match="keys must be of the stated kind, bytes, got text keys"):
        made("text", key_type="bytes")


def test_files_of_format_1_answer_for_keys_of_any_kind() -> None:
    old = sparsedp.load(
        Path(__file__).parents[1] / "golden" / "format-1" / "tight-alp.sparsedp", allow_reproducible=True
    )
    assert old.key_space.kind is None
    for keys in KEYS.values():
        assert len(old.lookup(keys)) == 2
