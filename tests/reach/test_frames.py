"""Expressions of polars and accessors of pandas give what the release gives, batch by batch."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsedp.reach.pandas
import sparsedp.reach.polars
from asking import KINDS, release_of
from sparsedp import KeyTypeError, ParameterError

LETTERS = release_of(["a", "b"])
BY_DAY = release_of([(date(2024, 1, 1), "a"), (date(2024, 1, 2), "b")])  # its columns are key1 and key2
DAYS = {"key2": ["a", "b", None, "b"], "other": [1, 2, 3, 4], "key1": [date(2024, 1, 1 + at % 2) for at in range(4)]}
EXPECTED = [*BY_DAY.lookup([(date(2024, 1, 1), "a"), (date(2024, 1, 2), "b")]).tolist(), None, None]
EXPECTED[3] = BY_DAY[date(2024, 1, 2), "b"]


def asked(expression: pl.Expr, release: Any) -> list[pl.Expr]:
    answers: Any = expression.sparsedp  # type: ignore[attr-defined]  # a namespace
    return [answers.lookup(release), answers.low(release, 0.9).alias("low"), answers.high(release, 0.9).alias("high")]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("kind", KINDS)
def test_polars_answers_like_the_release(kind: str, engine: Any) -> None:
    keys = KINDS[kind]
    release = release_of(keys)
    if isinstance(keys[0], tuple):
        frame = pl.DataFrame({f"key{at + 1}": list(column) for at, column in enumerate(zip(*keys, strict=True))})
        expression = pl.struct(pl.all()).alias("k")
    else:
        frame, expression = pl.DataFrame({"k": keys}), pl.col("k")
    found = frame.lazy().select(asked(expression, release)).collect(engine=engine)
    low, high = release.interval(keys, 0.9)
    assert found["k"].to_list() == release.lookup(keys).tolist()
    assert (found["low"].to_list(), found["high"].to_list()) == (low.tolist(), high.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_pandas_answers_like_the_release(kind: str) -> None:
    keys = KINDS[kind]
    release = release_of(keys)
    index = [7, 7, 8, 9]
    if isinstance(keys[0], tuple):
        columns = {f"key{at + 1}": pd.array(pa.array(column)) for at, column in enumerate(zip(*keys, strict=True))}
        columns["key1"] = pd.array(columns["key1"], dtype=pd.ArrowDtype(pa.date32()))
        answers: Any = pd.DataFrame(columns, index).sparsedp
    else:
        answers = pd.Series(keys, index, dtype=pd.ArrowDtype(pa.date32()) if kind == "date" else None).sparsedp
    found = answers.lookup(release)
    assert (found.tolist(), found.index.tolist()) == (release.lookup(keys).tolist(), index)
    assert answers.low(release, 0.9).tolist() == release.interval(keys, 0.9)[0].tolist()
    assert answers.high(release, 0.9).tolist() == release.interval(keys, 0.9)[1].tolist()


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["a", "b", "c"])])
def test_missing_keys_of_polars_are_null(dtype: Any) -> None:
    frame = pl.DataFrame({"k": ["a", None, "c", "b"]}, {"k": dtype})
    a, b, c = LETTERS.lookup(["a", "b", "c"]).tolist()
    assert frame.select(asked(pl.col("k"), LETTERS))["k"].to_list() == [a, None, c, b]
    series: Any = frame["k"]
    assert series.sparsedp.lookup(LETTERS).to_list() == [a, None, c, b]
    assert series.sparsedp.high(LETTERS, 0.9).to_list()[0] == LETTERS.interval(["a"], 0.9)[1][0]
    assert series.sparsedp.low(LETTERS, 0.9).to_list()[1] is None


@pytest.mark.parametrize("dtype", [None, object, "string", "category", "string[pyarrow]"])
def test_missing_keys_of_pandas_are_nan(dtype: Any) -> None:
    series: Any = pd.Series(["a", None, "b"], dtype=dtype, name="k")
    found = series.sparsedp.lookup(LETTERS)
    assert found.name == "k"
    assert found.isna().tolist() == [False, True, False]
    assert found.dropna().tolist() == LETTERS.lookup(["a", "b"]).tolist()


def test_columns_without_rows_and_without_values() -> None:
    for column in (pl.Series("k", [], pl.String), pl.Series("k", [None, None]), pl.Series("k", [None], pl.String)):
        answers: Any = column.sparsedp  # type: ignore[attr-defined]  # a namespace
        assert answers.low(LETTERS).to_list() == [None] * len(column)
    for values in ([], [None, None], [np.nan, np.nan]):
        series: Any = pd.Series(values)
        assert series.sparsedp.low(LETTERS).isna().sum() == len(values)


def test_keys_of_several_columns_are_found_by_their_names() -> None:
    frame = pl.DataFrame(DAYS)
    found = frame.select(asked(pl.struct("other", "key2", "key1").alias("k"), BY_DAY))["k"]
    assert found.to_list() == EXPECTED
    hidden = pl.when(pl.col("other") > 1).then(pl.struct("key1", "key2")).alias("k")  # no struct at all in the first
    assert frame.select(asked(hidden, BY_DAY))["k"].to_list() == [None, *EXPECTED[1:]]
    other: Any = pd.DataFrame(DAYS).astype({"key1": pd.ArrowDtype(pa.date32())})
    expected = pd.Series(EXPECTED, dtype=float, name="estimate")
    pd.testing.assert_series_equal(other.sparsedp.lookup(BY_DAY), expected)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (pl.col("other"), r"the keys of this release have 2 columns \(key1 \(date\), key2 \(text\)\), got 1"),
        (pl.struct("key1", "other"), r"the struct has the fields 'key1', 'other'; name them with pl\.struct"),
        (pl.struct(pl.col("other").alias("key1"), "key2"), r"column 'key1' of the keys must be dates"),
    ],
)
def test_other_columns_of_polars_are_refused(expression: pl.Expr, message: str) -> None:
    with pytest.raises(KeyTypeError, match=message):
        pl.DataFrame(DAYS).select(asked(expression, BY_DAY))


def test_other_types_are_refused_with_the_fix() -> None:
    with pytest.raises(KeyTypeError, match=r"are text .*, got integers; ask for str"):
        pl.LazyFrame({"k": [None, 1]}).select(asked(pl.col("k"), LETTERS)).collect()
    with pytest.raises(KeyTypeError, match=r"are text .*, got integers"):  # of a column whose values are all null
        pl.DataFrame({"k": pl.Series([None], dtype=pl.Int64)}).select(asked(pl.col("k"), LETTERS))
    numbers, gaps, table = pd.Series([1, 2]), pd.Series([1, None]), pd.DataFrame(DAYS)
    for keys, release, message in (
        (numbers, LETTERS, "got integers; ask for str"),
        (gaps, release_of([1]), r"integers with gaps; use \.astype\('Int64'\)"),
        (table, LETTERS, "keys must be one column, got a table"),
        (table[["key1"]], BY_DAY, "the table has no column 'key2'"),
    ):
        with pytest.raises(KeyTypeError, match=message):
            keys.sparsedp.lookup(release)
    with pytest.raises(ParameterError, match="confidence must be in"):
        numbers.sparsedp.low(LETTERS, confidence=1)


def test_a_bad_key_is_refused_without_a_position_unless_it_is_that_of_the_caller() -> None:
    small = release_of([5, 6], domain=10)
    with pytest.raises(sparsedp.InputError, match=r"key must be an integer in \[0, 10\)"):
        pl.DataFrame({"k": [5, 11]}).select(asked(pl.col("k"), small))
    whole: Any = pd.Series([5, 11])
    with pytest.raises(sparsedp.InputError, match="key at position 1 must"):
        whole.sparsedp.lookup(small)
    gaps: Any = pd.Series([None, 11], dtype="Int64")
    with pytest.raises(sparsedp.InputError, match=r"^key must be an integer"):
        gaps.sparsedp.lookup(small)


def test_the_streaming_engine_asks_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    # Catches an expression for which polars would hold the whole column.
    sizes: list[int] = []
    answer = sparsedp.reach.answering.Question.of_batch

    def counted(self: Any, columns: Any) -> Any:
        sizes.append(len(columns[0]))
        return answer(self, columns)

    monkeypatch.setattr(sparsedp.reach.answering.Question, "of_batch", counted)
    rows = 1_000_000
    query = pl.LazyFrame({"i": pl.int_range(rows, eager=True)}).select(k="k" + pl.col("i").cast(pl.String))
    answers: Any = pl.col("k").sparsedp  # type: ignore[attr-defined]  # a namespace
    found = query.select(answers.lookup(LETTERS).count()).collect(engine="streaming")
    assert found.item() == rows
    assert sum(sizes) == rows
    assert max(sizes) < rows


def test_eight_threads_get_the_same_answers() -> None:
    frame = pl.DataFrame({"k": [f"k{at}" for at in range(20_000)]})
    expected = LETTERS.lookup(frame["k"]).tolist()

    def answers(_: int) -> list[float]:
        found: list[float] = frame.lazy().select(asked(pl.col("k"), LETTERS)).collect()["k"].to_list()
        return found

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(answers, range(16)))


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_missing_library_is_named_with_the_command(library: str) -> None:
    script = f"import sys; sys.modules[{library!r}] = None; import sparsedp.reach.{library}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"MissingDependencyError: sparsedp.reach.{library} needs {library}: pip install 'sparsedp[{library}]'" in (
        done.stderr
    )
