"""A value that is not a key or a count is refused with its position, before anything is debited,
and never shown.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsedp
from sparsedp import InputError, KeyTypeError
from sparsedp.keys.hashing import HASHED_DOMAIN, KeySpace

HASHED = KeySpace(HASHED_DOMAIN, (1, 2))


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (["a", "b", "c"], np.ma.array([1, -2, 3], mask=[False, True, False])),
        (["a", "b", "c"], [1, -1, 3]),
        (["a", "b", "c"], [1, Decimal("0.1"), 3]),
        (["a", "b", "c"], pa.array([1, None, 3])),
        (["a", "b", "c"], np.array([1, 2, 3], bool)),
        (np.ma.array([1, 2, 3], mask=[False, True, False]), [1, 2, 3]),
        (np.ma.array(["a", "b", "c"], mask=[False, True, False]), [1, 2, 3]),
        (["a", "b", "\ud800"], [1, 2, 3]),
    ],
)
@pytest.mark.parametrize("options", [{}, {"keep_keys": True}, {"parts": 2}, {"step": 0.5}])
def test_what_is_refused_is_not_debited(tmp_path: Path, keys: Any, values: Any, options: dict[str, Any]) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "ledger.db", epsilon=1, delta=1e-6)
    with pytest.raises(InputError):
        sparsedp.release((keys, values), epsilon=1, delta=1e-6, ledger=ledger, **options)
    assert ledger.entries() == []
    assert ledger.datasets()[0].left_epsilon == 1


@pytest.mark.parametrize("keys", [[1, 2, 3], ["a", "b", "c"], [b"a", b"b", b"c"]])
@pytest.mark.parametrize("dtype", [None, object])
def test_masked_keys_are_refused_with_their_position_and_others_are_plain(keys: list[Any], dtype: Any) -> None:
    plain = np.array(keys, dtype)
    assert HASHED.ids(np.ma.array(plain)).tolist() == HASHED.ids(keys).tolist()
    assert type(HASHED.ids(np.ma.array(plain))) is np.ndarray
    masked = np.ma.array(plain, mask=[False, True, True])
    kept: dict[str, Any] = {"delta": 1e-6, "keep_keys": True}
    for options in ({}, kept):
        with pytest.raises(InputError, match=r"^key at position 1 is masked; fill or drop masked entries first$"):
            sparsedp.release((masked, [1, 1, 1]), epsilon=1, **options)
    with pytest.raises(InputError, match=r"^key at position 1 is masked"):
        HASHED.ids(masked)


def test_masked_integers_of_a_domain_are_refused_too() -> None:
    masked = np.ma.array([1, 99], mask=[False, True])
    with pytest.raises(InputError, match=r"^key at position 1 is masked"):
        sparsedp.release((masked, [1, 1]), epsilon=1, domain=10)


@pytest.mark.parametrize(
    "keys",
    [
        np.array([1], np.longdouble),
        np.array([1.0]),
        np.array([1.0], np.float16),
        np.array([True]),
        np.array([1], "timedelta64[s]"),
        np.array([1], complex),
        np.array([[1]]),
        [np.longdouble(1)],
        [True],
        [Decimal(1)],
        [Fraction(1)],
        [np.timedelta64(1, "s")],
        [[1]],
        [("a",)],
        [np.ma.masked],
        pa.array([1.0]),
        pa.array([True]),
        pa.array([Decimal(1)]),
        pa.array([["a"]]),
        pd.array([True], dtype="boolean"),
        pd.Series([1.0], dtype="category"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"domain": 10}, {"delta": 1e-6, "keep_keys": True}])
def test_other_types_of_keys_are_refused_and_nothing_is_debited(
    tmp_path: Path, keys: object, options: dict[str, Any]
) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "ledger.db", epsilon=1, delta=1e-6)
    with pytest.raises(KeyTypeError):
        sparsedp.release((keys, [1]), epsilon=1, ledger=ledger, **options)
    assert ledger.entries() == []


SECRET = 48_151_623


@pytest.mark.parametrize(
    ("counts", "options"),
    [
        ({f"{SECRET}": 1, None: 1}, {}),
        ({f"{SECRET}\ud800": 1}, {}),
        ({(SECRET,): 1}, {}),
        ({SECRET << 64: 1}, {}),
        ({SECRET: 1}, {"domain": 10}),
        (([f"{SECRET}"] * 2, [1, 1]), {"delta": 1e-6, "keep_keys": True}),
        ((f"{SECRET}", [1]), {}),
        ({"a": -SECRET}, {}),
        ({"a": SECRET + 0.5}, {}),
        ({"a": f"{SECRET}"}, {}),
        ({"a": SECRET << 64}, {}),
        ({"a": Decimal(f"{SECRET}.1")}, {}),
        ({"a": float(SECRET) * 2**60}, {"step": 0.5}),
        ({"a": 1.0, "b": SECRET << 40}, {}),
        ((pd.Series(["a", SECRET], dtype="category"), [1, 1]), {}),
        (pl.LazyFrame({"key": ["a"], "value": [f"x{SECRET}"]}).cast({"value": pl.Int64}), {}),
        (pd.Series([1], index=pd.Index([f"{SECRET}"], dtype="string")), {"domain": 10}),
    ],
)
def test_errors_about_data_show_no_cell_of_it(counts: object, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        sparsedp.release(counts, epsilon=1, **options)
    shown = f"{caught.value} {caught.value.__cause__}"
    assert str(SECRET) not in shown.replace("_", "").replace(",", "")
