"""What are no keys of several columns is refused, with the fix and without a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sparsedp
from composite_keys import DAY, TIME
from sparsedp import InputError, KeyTypeError

REFUSED: list[tuple[Any, str]] = [
    ("a", r"a key of this release is a tuple \(day \(date\), page \(text\)\), got str"),
    (("2024-02-29", "/"), r"column 'day' .* must be dates \(datetime.date\), got text \(str\); use .*fromisoformat"),
    ((TIME, "/"), r"column 'day' .*got timestamps in us \(datetime\); use value.date\(\)"),
    ((DAY, b"/"), r"column 'page' .*must be text \(str\), got bytes; use value.decode\(\)"),
    ((DAY, 1), r"column 'page' .*got integers; use str\(value\)"),
    ((DAY, True), r"column 'page' .*got truth values"),
    ((DAY, None), r"column 'page' .* at position 0 is null; drop or fill"),
    ((np.datetime64("NaT", "D"), "/"), r"column 'day' .* at position 0 is null; drop or fill"),
    ((DAY, "\ud800"), r"column 'page' .*valid Unicode"),
    ((DAY,), r"key at position 0 must have 2 values, got 1"),
    ((DAY, "/", 1), r"key at position 0 must have 2 values, got 3"),
    ([DAY, "/"], r"a key of this release is a tuple .* got list"),
]


@pytest.mark.parametrize(("key", "message"), REFUSED)
def test_keys_of_other_types_are_refused_with_the_fix(key: Any, message: str) -> None:
    built = sparsedp.release(({"day": [DAY], "page": ["/"]}, [5]), epsilon=1.0, nonzero=9)
    with pytest.raises(InputError, match=message):
        built[key]


FAR = np.array([19723, (1 << 32) + 19723]).astype("datetime64[D]")  # Arrow would read both as one date

WEEKS = np.array([1], "datetime64[7D]")

ASKED: list[tuple[Any, str]] = [
    ("a", "got a single key, str"),
    ((DAY, "/"), "got a single key, tuple; use release"),
    ([(DAY, "/"), 5], "key at position 1 must be a tuple of 2 values, got int"),
    ([DAY], "key at position 0 must be a tuple"),
    (["a"], "key at position 0 must be a tuple"),
    (np.arange(3), "keys must be tuples, a table, or a tuple of columns, got ndarray"),
    (pa.table({"day": [DAY]}), r"columns day \(date\), page \(text\), and the table has no column 'page' .*rename"),
    (pa.table({"day": pa.array([None], pa.date32()), "page": ["/"]}), "column 'day' of the keys at position 0 is null"),
    (pd.DataFrame({"day": [DAY], "page": [1]}), "column 'page' of the keys must be text"),
    (([DAY], ["/"], [1]), r"keys must have 2 columns \(day \(date\), page \(text\)\), got 3"),
    (([DAY, DAY], ["/"]), "must have one length, got 2, 1"),
    ({"day": np.array(["2024-02"], "datetime64[M]"), "page": ["/"]}, "in days, s, ms, us or ns, got datetime64"),
    ({"day": [DAY], "page": np.array([1.5])}, "got an array of float64"),
    ({"day": np.array([[DAY]]), "page": ["/"]}, "one-dimensional"),
    ({"day": [np.datetime64("NaT", "D")], "page": ["/"]}, "at position 0"),
    ({"day": FAR, "page": ["/", "/"]}, r"column 'day' .* at position 1 must be within 2\^31 days of 1970"),
    ({"day": list(FAR), "page": ["/", "/"]}, r"at position 1 must be within 2\^31 days of 1970"),
    ({"day": WEEKS, "page": ["/"]}, r"got datetime64\[7D\]; use \.astype\('datetime64\[s\]'\)"),
    ({"day": list(WEEKS), "page": ["/"]}, r"must be a date, got datetime64\[7D\]; use \.astype\('datetime64\[D\]'\)"),
    (5, "got int"),
]


@pytest.mark.parametrize(("keys", "message"), ASKED)
def test_what_are_no_keys_is_refused_with_the_fix(keys: Any, message: str) -> None:
    built = sparsedp.release(({"day": [DAY], "page": ["/"]}, [5]), epsilon=1.0, nonzero=9)
    for ask in (built.lookup, built.interval, built.sum, built.to_pandas, lambda keys: built.top(1, keys)):
        with pytest.raises(InputError, match=message):
            ask(keys)


RELEASED: list[tuple[Any, str]] = [
    ({("a", 1): 5, ("a", 2, 3): 5}, "key at position 1 must have 2 values, got 3"),
    ({("a", 1): 5, "b": 5}, "key at position 1 must be a tuple of 2 values, got str"),
    ({("a", 1): 5, (1, "a"): 5}, "column 'key1' .*one type, got str at position 0 and int at position 1"),
    ({("a", 1.5): 5}, "column 'key2' .*at position 0 must be str, bytes, int, bool, .*, got float"),
    ({("a", None): 5}, "column 'key2' .* at position 0 is null"),
    ({("a", 1): 5, ("a", 1.5): 5}, "at position 1 must be integers, got float"),
    ({("a", -(1 << 63) - 1): 5}, r"must be in \[-2\^63, 2\^64\)"),
    ({("a", np.timedelta64(1, "s")): 5}, "got timedelta64"),
    ({("a",): 5}, "column 'key' .*got tuple"),
    ({True: 5}, "got bool"),
    (({"a": [1], "b": []}, [5]), "one length, got 1, 0"),
    (({f"c{at}": [1] for at in range(65)}, [5]), "1 to 64 columns, got 65"),
    (({"": [1], "b": [1]}, [5]), "must have names, got ''"),
    (({"a\ud800": [1], "b": [1]}, [5]), r"names of valid Unicode, at most 1000 bytes, got 'a\\ud800'…; rename it"),
    (({"é" * 501: [1], "b": [1]}, [5]), "at most 1000 bytes, got 'éé"),
    (([("a", 1)], [5, 6]), "as many keys as values, got 1 keys and 2 values"),
]


@pytest.mark.parametrize(("counts", "message"), RELEASED)
def test_malformed_counts_are_refused(counts: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sparsedp.release(counts, epsilon=1.0, nonzero=9)


def test_a_domain_is_for_keys_of_one_column() -> None:
    with pytest.raises(KeyTypeError, match="omit domain="):
        sparsedp.release({(1, 2): 5}, epsilon=1.0, domain=10)
