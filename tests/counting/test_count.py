"""Counting events: bounds per user hold and depend on that user only; bad tables are refused with
the place.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sparsedp
from sparsedp import BoundedCounts, InputError, ParameterError

EVENTS = pd.DataFrame(
    {
        "user": [1, 1, 1, 1, 2, 2, 3, 3, 3],
        "url": ["a", "a", "b", "c", "a", "b", "a", "a", "b"],
        "seconds": [1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.25],
    }
)


def as_dict(counts: BoundedCounts) -> dict[Any, Any]:
    return dict(zip(counts.keys.to_pylist(), counts.values.tolist(), strict=True))


def write_csv(path: Path) -> Path:
    EVENTS.to_csv(path / "events.csv", index=False)
    return path / "events.csv"


def write_gzip(path: Path) -> Path:
    with gzip.open(path / "events.csv.gz", "wt", encoding="utf-8") as file:
        EVENTS.to_csv(file, index=False)
    return path / "events.csv.gz"


def write_parquet(path: Path) -> Path:
    EVENTS.to_parquet(path / "events.parquet")
    return path / "events.parquet"


def write_json(path: Path) -> Path:
    EVENTS.to_json(path / "events.jsonl", orient="records", lines=True)
    return path / "events.jsonl"


def write_many(path: Path) -> str:
    for at in range(3):
        EVENTS.iloc[3 * at : 3 * at + 3].to_parquet(path / f"{at}.parquet")
    return str(path / "*.parquet")


SOURCES: dict[str, Callable[[Path], object]] = {
    "csv": write_csv,
    "csv.gz": write_gzip,
    "parquet": write_parquet,
    "json lines": write_json,
    "glob": write_many,
    "pandas": lambda _: EVENTS,
    "polars": lambda _: pl.from_pandas(EVENTS),
    "arrow": lambda _: pa.Table.from_pandas(EVENTS),
    "relation": lambda _: duckdb.from_df(EVENTS),
    "path as text": lambda path: str(write_csv(path)),
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    return SOURCES[request.param](tmp_path)


def test_rows_of_all_sources_are_counted(source: object) -> None:
    assert as_dict(sparsedp.count(source, key="url")) == {"a": 5, "b": 3, "c": 1}


def test_users_count_once_per_key_of_all_sources(source: object) -> None:
    counts = sparsedp.count(source, key="url", user="user", max_keys_per_user=9)
    assert as_dict(counts) == {"a": 3, "b": 3, "c": 1}
    assert counts.contribution.total == 9
    assert "users told apart by 'user', each with at most 9 keys and 1 per key" in repr(counts)


def test_values_of_all_sources_are_summed_and_cut(source: object) -> None:
    counts = sparsedp.count(
        source, key="url", user="user", value="seconds", max_keys_per_user=3, max_per_key=6.5, step=0.5
    )
    assert as_dict(counts) == {"a": 3.5 + 5 + 6.5, "b": 3 + 6 + 0.25, "c": 4}
    assert counts.contribution.total == Fraction(39, 2)


Events = list[tuple[int, int, int]]


def plain_count(events: Events, most_keys: int, per_key: int, order: dict[tuple[int, int], int]) -> dict[int, int]:
    """The same in plain Python, given the order of each user's keys."""
    users: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for user, key, value in events:
        users[user][key] += value
    counts: dict[int, int] = defaultdict(int)
    for user, keys in users.items():
        for key in sorted(keys, key=lambda key: (order[user, key], key))[:most_keys]:
            counts[key] += max(-per_key, min(per_key, keys[key]))
    return dict(counts)


def count_events(events: Events, most_keys: int, per_key: int) -> dict[int, int]:
    table = (
        pa.table({name: [event[i] for event in events] for i, name in enumerate("ukv")})
        if events
        else pa.table({name: pa.array([], pa.int64()) for name in "ukv"})
    )
    counts = sparsedp.count(
        table, key="k", user="u", value="v", max_keys_per_user=most_keys, max_per_key=per_key, signed=True
    )
    return as_dict(counts)


EVENT_LISTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(-5, 9)), max_size=40)


@pytest.mark.usefixtures("one_database")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENT_LISTS, most_keys=st.integers(1, 5), per_key=st.integers(1, 8))
def test_counts_are_those_of_plain_python(events: Events, most_keys: int, per_key: int) -> None:
    pairs = [(user, key) for user in range(5) for key in range(7)]
    digests = {(user, key): hashlib.md5(f"{user}:{key}".encode()).digest()[:4] for user, key in pairs}
    order = {pair: int.from_bytes(digest, "little") for pair, digest in digests.items()}
    assert count_events(events, most_keys, per_key) == plain_count(events, most_keys, per_key, order)


@pytest.mark.usefixtures("one_database")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENT_LISTS, user=st.integers(0, 4), most_keys=st.integers(1, 4), per_key=st.integers(1, 8))
def test_removing_a_user_moves_the_counts_by_no_more_than_stated(
    events: Events, user: int, most_keys: int, per_key: int
) -> None:
    # Catches a bound that is applied to rows instead of users, or a choice of keys that looks at
    # other users.
    with_user = count_events(events, most_keys, per_key)
    without = count_events([event for event in events if event[0] != user], most_keys, per_key)
    changes = [abs(with_user.get(key, 0) - without.get(key, 0)) for key in {*with_user, *without}]
    assert sum(changes) <= most_keys * per_key
    assert sum(change > 0 for change in changes) <= most_keys
    assert max(changes, default=0) <= per_key


def test_real_contributions_never_exceed_their_bound() -> None:
    random = np.random.default_rng(1)
    events = pd.DataFrame({"u": range(500), "k": "x", "v": random.random(500) * 3})
    for bound in (0.1, 0.3, 1 / 3, 2.7):
        counts = sparsedp.count(events, key="k", user="u", value="v", max_keys_per_user=1, max_per_key=bound, step=0.01)
        exact = sum(min(Fraction(value), Fraction(repr(bound))) for value in events["v"].tolist())
        total = int(counts.units[0]) * counts.unit
        assert exact - 500 * counts.unit <= total <= exact
        assert counts.unit == Fraction(1, 100) / (1 << 20)


def test_a_release_takes_its_sensitivity_from_the_counts() -> None:
    counts = sparsedp.count(EVENTS, key="url", user="user", max_keys_per_user=3, max_per_key=2)
    release = sparsedp.release(counts, epsilon=1.0)
    assert release.plan.problem.neighbours.sensitivity == 6
    assert sparsedp.release(counts, epsilon=1.0, sensitivity=10).plan.problem.neighbours.sensitivity == 10
    with pytest.raises(ParameterError, match=r"sensitivity must be at least 6, which one user may change"):
        sparsedp.release(counts, epsilon=1.0, sensitivity=1)
    with pytest.raises(ParameterError, match="step must be that of the counts"):
        sparsedp.release(counts, epsilon=1.0, step=0.5)


def test_real_sums_are_released_on_their_grid() -> None:
    events = pd.DataFrame({"u": range(3000), "k": "x", "v": 2.3})
    counts = sparsedp.count(events, key="k", user="u", value="v", max_keys_per_user=1, max_per_key=5, step=0.25)
    release = sparsedp.release(counts, epsilon=2.0)
    assert release.plan.problem.neighbours.real
    assert abs(release["x"] - 6900) < 60
    signed = events.assign(v=-2.3)
    counts = sparsedp.count(
        signed, key="k", user="u", value="v", max_keys_per_user=1, max_per_key=5, step=0.25, signed=True
    )
    assert abs(sparsedp.release(counts, epsilon=2.0)["x"] + 6900) < 60


def test_keys_of_every_kind() -> None:
    for keys, kind in (
        ([b"\xff", b"a"], pa.binary()),
        (["é", "日本"], pa.string()),
        (["x", "y"], pa.large_string()),
        (["x", "y"], pa.dictionary(pa.int8(), pa.string())),
        ([1, 2], pa.int8()),
        ([1, (1 << 64) - 1], pa.uint64()),
        ([-5, 7], pa.int64()),
    ):
        table = pa.table({"k": pa.array(keys, kind)})
        counts = sparsedp.count(table, key="k")
        assert as_dict(counts) == dict.fromkeys(keys, 1)
        sparsedp.release(counts, epsilon=1, nonzero=5)


def test_text_files_have_text_keys_unless_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,user\n007,1\n7,2\n")
    assert as_dict(sparsedp.count(tmp_path / "a.csv", key="id")) == {"007": 1, "7": 1}
    assert as_dict(sparsedp.count(tmp_path / "a.csv", key="id", key_type="integer")) == {7: 2}
    (tmp_path / "a.jsonl").write_text('{"day": "2024-01-02", "n": 3}\n{"day": "x", "n": 4}\n')
    assert as_dict(sparsedp.count(tmp_path / "a.jsonl", key="day")) == {"2024-01-02": 1, "x": 1}


def test_names_that_need_quotes(tmp_path: Path) -> None:
    path = tmp_path / 'it\'s a "file".csv'
    path.write_text('"the ""key""","select"\na,1\n')
    counts = sparsedp.count(path, key='the "key"', user="select", max_keys_per_user=1)
    assert as_dict(counts) == {"a": 1}


def test_an_empty_table_has_no_counts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([], pa.string()), "u": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    counts = sparsedp.count(tmp_path / "a.parquet", key="k", user="u", max_keys_per_user=2)
    assert len(counts) == 0
    sparsedp.release(counts, epsilon=1)


def bad(tmp_path: Path, name: str, content: bytes) -> str:
    (tmp_path / name).write_bytes(content)
    return str(tmp_path / name)


REFUSED: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "a missing column": (lambda _: EVENTS, {"key": "ulr"}, r"no column 'ulr' in the table; did you mean 'url'"),
    "a column like no other": (lambda _: EVENTS, {"key": "zzzzz"}, r"no column 'zzzzz'.*it has 'user', 'url'"),
    "a missing user": (lambda _: EVENTS, {"key": "url", "user": "usr", "max_keys_per_user": 1}, "no column 'usr'"),
    "a missing file": (lambda path: path / "no.csv", {"key": "url"}, r"there is no file .*no\.csv"),
    "an empty glob": (lambda path: str(path / "*.csv"), {"key": "url"}, "there is no file"),
    "a directory": (lambda path: path, {"key": "url"}, r"is a directory; pass its files, such as .*\*\.parquet"),
    "an unknown ending": (lambda path: bad(path, "a.xlsx", b"PK"), {"key": "url"}, r"must end in \.parquet, \.csv"),
    "an empty file": (lambda path: bad(path, "a.csv", b""), {"key": "url"}, "is empty: it has no columns"),
    "no Parquet": (lambda path: bad(path, "a.parquet", b"url,user\na,1\n"), {"key": "url"}, "cannot be read"),
    "no JSON": (lambda path: bad(path, "a.jsonl", b"url,user\na,1\n"), {"key": "url"}, "cannot be read|no column"),
    "not UTF-8": (lambda path: bad(path, "a.csv", b"url\n\xff\xfe\xfd\n"), {"key": "url"}, "cannot be read"),
    "times of day as keys": (
        lambda _: pa.table({"at": pa.array([1], pa.time64("us"))}),
        {"key": "at"},
        r"has TIME values.*pass key_type='text'",
    ),
    "floats as keys": (lambda _: EVENTS, {"key": "seconds"}, "has DOUBLE values.*cast it"),
    "truth values as keys": (lambda _: pa.table({"k": [True]}), {"key": "k"}, "has BOOLEAN values"),
    "text to sum": (
        lambda path: bad(path, "a.csv", b"url,n\na,1\nb,many\nc,few\n"),
        {"key": "url", "value": "n"},
        r"column 'n' is not a whole number.* in 2 rows, first in row 2",
    ),
    "fractions without a step": (
        lambda path: bad(path, "a.csv", b"url,n\na,1\nb,1.5\n"),
        {"key": "url", "value": "n"},
        r"column 'n' is not a whole number below 2\^63 \(pass step= for reals\) in 1 row, first in row 2",
    ),
    "reals without a step": (lambda _: EVENTS, {"key": "url", "value": "seconds"}, "has real values.*pass step="),
    "structs to sum": (
        lambda _: pa.table({"k": ["a"], "v": [{"x": 1}]}),
        {"key": "k", "value": "v"},
        "must be numbers",
    ),
    "a null key": (
        lambda _: pa.table({"k": ["a", None, "b", None], "u": [1, 2, 3, 4]}),
        {"key": "k", "user": "u", "max_keys_per_user": 1},
        r"column 'k' is null in 2 rows, first in row 2; fix them or pass nulls='drop'",
    ),
    "a null key among many of a user": (
        lambda _: pa.table({"k": [*map(str, range(50)), None], "u": [1] * 51}),
        {"key": "k", "user": "u", "max_keys_per_user": 1},
        "column 'k' is null in 1 row, first in row 51",
    ),
    "a null user": (
        lambda _: pa.table({"k": ["a", "b"], "u": [1, None]}),
        {"key": "k", "user": "u", "max_keys_per_user": 1},
        "column 'u' is null in 1 row, first in row 2",
    ),
    "an empty field": (
        lambda path: bad(path, "a.csv", b"url,n\na,1\n,2\n"),
        {"key": "url"},
        "is null in 1 row, first in row 2",
    ),
    "NaN": (
        lambda _: pa.table({"k": ["a", "b"], "v": [1.0, float("nan")]}),
        {"key": "k", "value": "v", "step": 1},
        "column 'v' is not finite in 1 row, first in row 2",
    ),
    "infinity": (
        lambda _: pa.table({"k": ["a"], "v": [float("inf")]}),
        {"key": "k", "value": "v", "step": 1},
        "column 'v' is not finite",
    ),
    "negative values": (
        lambda _: pa.table({"k": ["a", "b", "c"], "v": [1, -2, -3]}),
        {"key": "k", "value": "v", "max_per_key": 9},
        r"column 'v' is negative \(pass signed=True to allow it\) in 2 rows, first in row 2",
    ),
    "values beyond 63 bits": (
        lambda _: pa.table({"k": ["a"], "v": pa.array([1 << 63], pa.uint64())}),
        {"key": "k", "value": "v"},
        r"not a whole number below 2\^63",
    ),
    "a list": (
        lambda _: [1, 2],
        {"key": "k"},
        "source must be a path, a list of paths, a DuckDB relation, .* or a table that supports Arrow",
    ),
    "text as integer keys": (
        lambda path: bad(path, "a.csv", b"id\n5\nx\n"),
        {"key": "id", "key_type": "integer"},
        "column 'id' is not an integer from -2\\^63 to below 2\\^63 in decimal digits in 1 row, first in row 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_tables_are_refused_with_the_place_and_a_fix(case: str, tmp_path: Path) -> None:
    make, arguments, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        sparsedp.count(make(tmp_path), **arguments)


BAD_PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"user": "user"}, "max_keys_per_user must be given"),
    ({"user": "user", "max_keys_per_user": 0}, "max_keys_per_user must be positive"),
    ({"user": "user", "max_keys_per_user": 1.5}, "must be a whole number"),
    ({"user": "user", "max_keys_per_user": 1, "max_per_key": -1}, "max_per_key must be positive"),
    ({"user": "user", "max_keys_per_user": 1, "max_per_key": float("nan")}, "max_per_key must be a finite number"),
    ({"user": "user", "max_keys_per_user": 1, "max_per_key": 1.5}, "max_per_key must be a whole number"),
    ({"max_keys_per_user": 3}, "max_keys_per_user needs user="),
    ({"max_per_key": 3}, "max_per_key needs user= or value="),
    ({"step": 0.5}, "step is for sums of a value column"),
    ({"nulls": "ignore"}, "nulls must be 'refuse' or 'drop'"),
    ({"key_type": "float"}, "key_type must be"),
    ({"user": ""}, "user must be the name of a column|max_keys_per_user"),
    ({"memory_limit": "much"}, "memory_limit must be a size such as '4GB', got 'much'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_PARAMETERS, ids=str)
def test_bad_parameters_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sparsedp.count(EVENTS, key="url", **arguments)


def test_rows_with_nulls_can_be_dropped() -> None:
    table = pa.table({"k": ["a", None, "b", "b"], "u": [1, 2, None, 3], "v": [1, 1, 1, None]})
    assert as_dict(sparsedp.count(table, key="k", nulls="drop")) == {"a": 1, "b": 2}
    assert as_dict(sparsedp.count(table, key="k", user="u", max_keys_per_user=1, nulls="drop")) == {"a": 1, "b": 1}
    assert as_dict(sparsedp.count(table, key="k", value="v", nulls="drop")) == {"a": 1, "b": 1}


def test_a_table_larger_than_memory_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARSEDP_THREADS", "2")  # each needs its own memory
    events = "SELECT range // 40 AS u, 'key ' || (range * 7919 % 300000) AS k FROM range(3_000_000)"
    duckdb.connect().execute(f"COPY ({events}) TO '{tmp_path}/a.parquet'")
    counts = sparsedp.count(
        tmp_path / "a.parquet", key="k", user="u", max_keys_per_user=40, max_per_key=1, memory_limit="200MB"
    )
    assert len(counts) == 300_000
    assert int(counts.units.sum()) == 3_000_000
    with pytest.raises(InputError, match=r"more memory than memory_limit allows|cannot be read"):
        sparsedp.count(tmp_path / "a.parquet", key="k", user="u", max_keys_per_user=40, memory_limit="1MB")


def test_json_rows_are_described_as_the_table_is(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"url": f"p{i}", "user": i}) for i in range(5)))
    assert len(sparsedp.count(tmp_path / "a.jsonl", key="url", user="user", max_keys_per_user=1)) == 5


def test_a_sum_of_real_values_does_not_depend_on_the_order_of_the_rows() -> None:
    # As floats these sums differ in their last digits, which rounding down to units would show. The
    # order in which the database adds depends on other users' rows; catches sums that are rounded
    # after they were added.
    values = [1e9, 2**-20, -1e9, 0.1, 0.7, 3e8, -3e8, 2**-20] * 5
    random = np.random.default_rng(0)
    sums = set()
    for _ in range(20):
        table = pa.table({"k": ["key"] * len(values), "u": [1] * len(values), "v": random.permutation(values)})
        bounds: dict[str, Any] = {"max_keys_per_user": 1, "max_per_key": 1000, "step": 1, "signed": True}
        counts = sparsedp.count(table, key="k", user="u", value="v", **bounds)
        sums.add(tuple(counts.units.tolist()))
    assert len(sums) == 1


@pytest.mark.parametrize(
    ("extreme", "message"),
    [
        (
            {"value": "v", "step": 0.25, "max_per_key": 10**400},
            "max_per_key must be at most 2\\^41 steps, .* got 1.00e",
        ),
        ({"value": "v", "max_per_key": 10**400}, "max_per_key must be at most 2\\^61, as counts are, got 1.00e"),
        ({"value": "v", "step": 5e-324}, "step must be a ratio of integers below 2\\^53, got 5e-324"),
        ({"user": "v", "max_keys_per_user": 10**400}, "max_keys_per_user must be at most 2\\^61, got 1.00e"),
        ({"domain": 10**400}, "domain must be in 1..2\\^64, got 1000"),
    ],
)
def test_an_extreme_bound_is_refused(extreme: dict[str, Any], message: str) -> None:
    # Catches an OverflowError, and a bound on keys that no database can compare with: nothing was
    # counted then.
    with pytest.raises(ParameterError, match=message):
        sparsedp.count(pd.DataFrame({"k": ["a", "b"], "v": [1, 2]}), key="k", **extreme)
