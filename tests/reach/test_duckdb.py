"""SQL functions of DuckDB give what the release gives, for every kind of key, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparsedp
from asking import KINDS, release_of
from sparsedp import ParameterError
from sparsedp.reach.duckdb import register, unregister

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def con() -> Iterator[Any]:
    with duckdb.connect() as made:
        yield made


def rows(con: Any, sql: str) -> list[Any]:
    found: list[Any] = con.execute(sql).fetchall()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_three_functions_answer_like_the_release(con: Any, kind: str) -> None:
    # Catches an answer for another type: the keys pass through DuckDB's own types.
    keys = KINDS[kind]
    release = release_of(keys)
    register(con, release, "visits", confidence=0.9)
    several = isinstance(keys[0], tuple)
    columns = list(zip(*keys, strict=True)) if several else [keys]
    con.register("asked", pa.table({f"k{at}": pa.array(column) for at, column in enumerate(columns)}))
    names = ", ".join(f"k{at}" for at in range(len(columns)))
    found = con.sql(f"SELECT visits({names}), visits_low({names}), visits_high({names}) FROM asked").fetchall()
    estimates, (low, high) = release.lookup(keys), release.interval(keys, 0.9)
    assert found == list(zip(estimates.tolist(), low.tolist(), high.tolist(), strict=True))


def test_functions_are_typed_by_the_file(con: Any) -> None:
    register(con, release_of([(date(2024, 1, 1), "a", True, 3, b"x", datetime(2024, 1, 1, tzinfo=timezone.utc))]))
    (types,) = rows(con, "SELECT parameter_types FROM duckdb_functions() WHERE function_name = 'visits_low'")
    assert types == (["DATE", "VARCHAR", "BOOLEAN", "HUGEINT", "BLOB", "TIMESTAMP WITH TIME ZONE"],)


def test_a_null_in_any_column_gives_null(con: Any) -> None:
    register(con, release_of([("a", 1), ("b", 2)]))
    found = rows(con, "SELECT visits(a, b) FROM (VALUES ('a', 1), (NULL, 1), ('b', NULL), (NULL, NULL)) t(a, b)")
    assert [one is None for (one,) in found] == [False, True, True, True]
    assert rows(con, "SELECT visits(NULL, 1), visits_low('a', NULL), visits_high(NULL, NULL)") == [(None, None, None)]


def test_tables_without_rows_and_columns_without_values(con: Any) -> None:
    register(con, release_of(["a"]))
    assert rows(con, "SELECT visits(k) FROM (SELECT 'a' AS k WHERE false)") == []
    many = rows(con, "SELECT count(*), count(visits(k)) FROM (SELECT NULL::VARCHAR AS k FROM range(5000))")
    assert many == [(5000, 0)]


@pytest.mark.parametrize(
    "call", ["visits(1)", "visits(1.5)", "visits(DATE '2024-01-01')", "visits('a'::BLOB)", "visits('a', 'b')"]
)
def test_other_types_are_refused_with_the_signature(con: Any, call: str) -> None:
    register(con, release_of(["a"]))
    with pytest.raises(duckdb.BinderException, match=r"(?s)explicit type casts.*visits\(.*VARCHAR"):
        rows(con, f"SELECT {call}")


def test_every_integer_type_works_and_both_ends_in_one_vector(con: Any) -> None:
    keys = [-(2**63), -1, 0, 5, 2**63, 2**64 - 1]
    release = release_of(keys)
    register(con, release)
    expected = release.lookup(keys).tolist()
    values = ", ".join(f"({key}::HUGEINT)" for key in keys)
    assert [one for (one,) in rows(con, f"SELECT visits(k) FROM (VALUES {values}, (NULL)) t(k)")] == [*expected, None]
    small = ["TINYINT", "USMALLINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"][:6]
    assert rows(con, "SELECT " + ", ".join(f"visits(5::{kind})" for kind in small)) == [(release[5],) * len(small)]
    con.execute("SET arrow_lossless_conversion = true")
    assert [one for (one,) in rows(con, f"SELECT visits(k) FROM (VALUES {values}, (NULL)) t(k)")] == [*expected, None]


@pytest.mark.parametrize("outside", [2**64, -(2**63) - 1, 2**127 - 1, 1 - 2**127])
def test_integers_of_128_bits_are_hashed_whole(con: Any, outside: int) -> None:
    # Catches a kernel that reads the low words only: it would answer for another key.
    keys = [-(2**63), 5, 2**63, -1, 2**64 - 1, 0]
    release = release_of(keys)
    register(con, release)
    values = ", ".join(f"({key}::HUGEINT)" for key in keys)
    found = rows(con, f"SELECT visits(k) FROM (VALUES {values}) t(k)")
    assert [one for (one,) in found] == release.lookup(keys).tolist()
    with pytest.raises(duckdb.InvalidInputException, match=r"InputError: an integer key must be in \[-2\^63, 2\^64\)"):
        rows(con, f"SELECT visits(k) FROM (VALUES {values}, ({outside}::HUGEINT)) t(k)")


@pytest.mark.parametrize("column", ["i", "i::VARCHAR", "(i // 500)::VARCHAR::BLOB", "left(i::VARCHAR, 0)"])
def test_nulls_in_a_vector_do_not_change_the_other_answers(con: Any, column: str) -> None:
    # Vectors without nulls go a shorter way.
    con.execute(f"CREATE TABLE asked AS SELECT i, {column} AS k, i % 3 = 0 AND i > 3000 AS gap FROM range(5000) t(i)")
    keys = con.sql("SELECT k FROM asked").to_arrow_table().column(0)
    release = sparsedp.release((keys, np.ones(len(keys))), epsilon=1.0, nonzero=5000)
    register(con, release)
    found = rows(con, "SELECT visits(k), visits_low(k), visits(if(gap, NULL, k)), gap FROM asked ORDER BY i")
    assert [one for one, *_ in found] == release.lookup(keys).tolist()
    assert [low for _, low, *_ in found] == release.interval(keys)[0].tolist()
    assert [one for *_, one, _ in found] == [None if gap else one for one, *_, gap in found]


def test_keys_outside_of_a_domain_are_refused_without_a_position(con: Any) -> None:
    # Rows come in vectors: a position in one of them would mislead.
    register(con, release_of([5, 6], domain=10))
    with pytest.raises(duckdb.InvalidInputException, match=r"InputError: key must be an integer in \[0, 10\)"):
        rows(con, "SELECT visits(k) FROM (VALUES (5), (11)) t(k)")


def test_times_in_other_units_are_converted_if_that_is_exact(con: Any) -> None:
    release = release_of(np.array(["2024-01-01T05:00:00"], "datetime64[s]"))
    register(con, release)
    expected = release.lookup(np.array(["2024-01-01T05:00:00"], "datetime64[s]"))[0]
    calls = ", ".join(f"visits('2024-01-01 05:00:00'::{kind})" for kind in ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP"))
    assert rows(con, f"SELECT {calls}, visits('2024-01-01 05:00:00')") == [(expected,) * 4]
    with pytest.raises(duckdb.InvalidInputException, match="must be a whole number of s; cut it to that unit"):
        rows(con, "SELECT visits(TIMESTAMP '2024-01-01 05:00:00.5')")


@pytest.mark.parametrize(
    "setting", ["arrow_large_buffer_size", "produce_arrow_string_view", "arrow_lossless_conversion"]
)
def test_dictionaries_and_other_layouts_of_strings(con: Any, setting: str) -> None:
    release = release_of(["a", "b" * 100])
    register(con, release)
    con.execute(f"SET {setting} = true")
    con.register("asked", pa.table({"k": pa.array(["a", "b" * 100, None, "a"]).dictionary_encode()}))
    expected = [release["a"], release["b" * 100], None, release["a"]]
    assert [one for (one,) in con.sql("SELECT visits(k) FROM asked").fetchall()] == expected
    assert rows(con, "SELECT visits('a'::ENUM('a', 'b'))") == [(release["a"],)]


def test_releases_of_every_sort_go_through(con: Any, tmp_path: Path) -> None:
    counts = {f"k{at}": 100.5 - at for at in range(200)}
    real = sparsedp.release(counts, epsilon=1.0, step=0.5, signed=True, upper=500, nonzero=200)
    named = sparsedp.release({"a": 1000, "b": 5}, epsilon=1.0, delta=1e-6, mechanism="stability", keep_keys=True)
    sparsedp.release({"a": 1000}, epsilon=1.0, nonzero=200, parts=3).save(tmp_path / "parts.sparsedp")
    parts = sparsedp.load(tmp_path / "parts.sparsedp")
    for at, release in enumerate((real, named, parts)):
        register(con, release if release is not parts else tmp_path / "parts.sparsedp", f"f{at}")
        keys = ["a", "b", "k0", "k150"]
        found = con.sql(f"SELECT f{at}(k), f{at}_low(k) FROM (SELECT unnest({keys}) AS k)").fetchall()
        assert found == list(zip(release.lookup(keys).tolist(), release.interval(keys)[0].tolist(), strict=True))


def test_a_file_that_does_not_state_its_kind_takes_any(con: Any) -> None:
    release = sparsedp.load(GOLDEN / "format-1" / "tight-alp.sparsedp", allow_reproducible=True)
    assert release.key_columns[0].kind is None
    register(con, release)
    assert rows(con, "SELECT visits(3), visits('3'), visits(NULL)") == [(release[3], release["3"], None)]
    with pytest.raises(duckdb.InvalidInputException, match="KeyTypeError: keys must be str, bytes or int"):
        rows(con, "SELECT visits(1.5)")


@pytest.mark.parametrize("name", ["", "1x", "a-b", "a b", 'a"', "é", "select", "Values", 5])
def test_names_that_sql_cannot_call_are_refused(con: Any, name: Any) -> None:
    with pytest.raises(ParameterError, match="name must"):
        register(con, release_of(["a"]), name)


@pytest.mark.parametrize("name", ["abs", "UPPER", "sum"])
def test_functions_of_the_database_are_not_replaced(con: Any, name: str) -> None:
    with pytest.raises(ParameterError, match=f"already has a function '{name.lower()}'"):
        register(con, release_of(["a"]), name)


def test_registering_again_replaces_and_unregistering_removes(con: Any) -> None:
    register(con, release_of(["a"]))
    second = release_of([7])
    register(con, second, "Visits")
    assert rows(con, "SELECT visits(7), VISITS_HIGH(7)") == [(second[7], second.interval([7])[1][0])]
    with pytest.raises(ParameterError, match="not made on this connection"):
        register(con.cursor(), release_of(["a"]))
    unregister(con)
    with pytest.raises(duckdb.CatalogException):
        rows(con, "SELECT visits_low(7)")
    with pytest.raises(ParameterError, match="no functions 'visits'"):
        unregister(con)


@pytest.mark.parametrize(("first", "second"), [("v", "v_low"), ("v", "V_HIGH"), ("v_low", "v"), ("V_high", "v")])
def test_a_function_of_another_release_is_neither_replaced_nor_removed(con: Any, first: str, second: str) -> None:
    # Catches an interval whose end is an estimate of another release.
    release = release_of(["a"])
    register(con, release, first)
    before = rows(con, f"SELECT {first}('a'), {first}_low('a'), {first}_high('a')")
    with pytest.raises(ParameterError, match=rf"is one of the release that is registered as '(?i:{first})'; pass"):
        register(con, release_of([7]), second)
    with pytest.raises(ParameterError, match="no functions"):
        unregister(con, second)
    assert rows(con, f"SELECT {first}('a'), {first}_low('a'), {first}_high('a')") == before
    unregister(con, first)
    register(con, release_of([7]), second)


def test_registering_leaves_an_unfinished_result_alone(con: Any) -> None:
    con.execute("SELECT * FROM range(5000)")
    assert con.fetchone() == (0,)
    try:
        register(con, release_of(["a"]))
    except duckdb.Error:  # from version 2 on, DuckDB itself asks to finish the result first
        assert con.fetchone() == (1,)


def test_the_confidence_is_checked_before_anything_is_made(con: Any) -> None:
    with pytest.raises(ParameterError, match=r"confidence must be in \(0, 1\), got 1"):
        register(con, release_of(["a"]), confidence=1)
    with pytest.raises(duckdb.CatalogException):
        rows(con, "SELECT visits('a')")


def test_eight_threads_get_the_same_answers(con: Any) -> None:
    keys = [f"k{at}" for at in range(200)]
    release = sparsedp.release({key: at for at, key in enumerate(keys)}, epsilon=1.0, nonzero=200)
    register(con, release)
    con.execute("CREATE TABLE t AS SELECT 'k' || (i % 500) AS k FROM range(20000) r(i)")
    expected = float(release.lookup([f"k{at % 500}" for at in range(20000)]).sum())

    def total(_: int) -> float:
        with con.cursor() as own:
            ((found,),) = own.execute("SELECT fsum(visits(k)) FROM t").fetchall()
            return float(found)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(total, range(24))) == pytest.approx([expected] * 24, rel=1e-12)


@pytest.mark.parametrize("owner", ["duckdb.connect()", "duckdb"])
def test_the_end_is_quiet(owner: str) -> None:
    # A function that refers to the caller's variables keeps its connection forever: DuckDB then prints
    # a page about leaks.
    script = (
        "import duckdb, sparsedp\n"
        "from sparsedp.reach.duckdb import register\n"
        f"con = {owner}\n"
        "release = sparsedp.release({'a': 5}, epsilon=1.0, nonzero=10)\n"
        "register(con, release)\n"
        "con.execute('SET enable_progress_bar = false')\n"  # a slow machine would get one
        "assert con.execute('SELECT count(visits(i::VARCHAR)) FROM range(5000) t(i)').fetchall() == [(5000,)]\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
