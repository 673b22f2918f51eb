"""LazyFrames, Datasets, Scanners and lists of files are counted like the same table passed as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sparsedp
from sparsedp import InputError
from sparsedp.privacy.randomness import reproducible_for_tests

pytestmark = pytest.mark.usefixtures("one_database")

RANDOM = np.random.default_rng(3)
ROWS = 5000
EVENTS = pa.table(
    {
        "url": [f"page {number}" for number in RANDOM.zipf(1.5, ROWS) % 50],
        "user": RANDOM.integers(0, 300, ROWS),
        "seconds": RANDOM.integers(0, 60, ROWS) / 4,
        "^.*$": RANDOM.integers(0, 9, ROWS),  # polars would read this name as a pattern of all columns
    }
)
COUNTED: list[dict[str, Any]] = [
    {"key": "url"},
    {"key": "^.*$"},
    {"key": "user", "user": "user", "max_keys_per_user": 1},
    {"key": "url", "user": "user", "max_keys_per_user": 3, "max_per_key": 2},
    {"key": "url", "user": "user", "value": "seconds", "max_keys_per_user": 3, "max_per_key": 9, "step": 0.5},
]


def as_dict(source: object, **arguments: Any) -> dict[Any, Any]:
    counts = sparsedp.count(source, **arguments)
    return dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True))


def files(path: Path) -> list[Path]:
    """The events in three Parquet files."""
    names = [path / name for name in ("a.parquet", "b[1].parquet", "c*.parquet")]
    for at, name in enumerate(names):
        pq.write_table(EVENTS.slice(at * 2000, 2000), name)
    return names


def unbatched(path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.delattr(pl.LazyFrame, "collect_batches", raising=False)  # as in older versions of polars
    return pl.from_arrow(EVENTS).lazy()  # type: ignore[union-attr]  # it is a DataFrame


SOURCES: dict[str, Callable[[Path, pytest.MonkeyPatch], object]] = {
    "LazyFrame": lambda _, __: pl.from_arrow(EVENTS).lazy(),  # type: ignore[union-attr]  # it is a DataFrame
    "LazyFrame of a file": lambda path, _: pl.scan_parquet(files(path), glob=False),
    "LazyFrame of categories": lambda _, __: pl.LazyFrame(EVENTS).with_columns(pl.col("url").cast(pl.Categorical)),
    "LazyFrame, collected": unbatched,
    "Dataset": lambda _, __: ds.dataset(EVENTS),
    "Dataset of files": lambda path, _: ds.dataset(files(path)),
    "Dataset with a filter": lambda _, __: ds.dataset(pa.concat_tables([EVENTS, EVENTS.slice(0, 0)])).filter(
        ds.field("user") >= 0
    ),
    "Scanner": lambda _, __: ds.dataset(EVENTS).scanner(),
    "Scanner of batches": lambda _, __: ds.Scanner.from_batches(EVENTS.to_reader(100)),
    "batches": lambda _, __: EVENTS.to_reader(100),
    "list of files": lambda path, _: files(path),
    "tuple of names": lambda path, _: tuple(map(str, files(path))),
    "pandas": lambda _, __: EVENTS.to_pandas(),
}


@pytest.mark.parametrize("arguments", COUNTED, ids=str)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_counts_of_the_whole_table(
    source: str, arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_dict(SOURCES[source](tmp_path, monkeypatch), **arguments) == as_dict(EVENTS, **arguments)


GAPS = pa.table({"url": ["a", "b", None, "c"]})


@pytest.mark.parametrize(
    "source",
    [GAPS, pl.LazyFrame(GAPS), ds.dataset(GAPS), ds.dataset(GAPS).scanner(), GAPS.to_reader()],
    ids=lambda source: type(source).__name__,
)
def test_the_place_of_a_bad_row_is_told_also_of_what_can_be_read_once(source: object) -> None:
    with pytest.raises(InputError, match="column 'url' is null in 1 row, first in row 3"):
        sparsedp.count(source, key="url")


@pytest.mark.parametrize("source", [pl.LazyFrame(EVENTS), ds.dataset(EVENTS), ds.dataset(EVENTS).scanner()])
def test_a_missing_column_is_named(source: object) -> None:
    with pytest.raises(InputError, match="no column 'ulr' in the table; did you mean 'url'"):
        sparsedp.count(source, key="ulr")


def test_a_query_that_fails_is_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    frame = pl.LazyFrame({"k": ["1", "x"]})
    with pytest.raises(InputError, match="cannot be read"):
        sparsedp.count(frame.select(pl.col("k").str.to_integer()), key="k")
    with pytest.raises(InputError, match="the LazyFrame cannot be read: unable to find column"):
        sparsedp.count(frame.select("nothing"), key="k")
    pairs = frame.with_columns(v=pl.col("k").str.to_integer())
    with pytest.raises(InputError, match="the LazyFrame cannot be read"):
        sparsedp.release(pairs, epsilon=1)


def test_a_literal_name_is_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given t[1].csv, DuckDB would read t1.csv: as one path or in a list, the file of exactly that
    # name is read.
    monkeypatch.chdir(tmp_path)
    Path("~").mkdir()
    names = ["t[1].csv", "t1.csv", "q?.csv", "qq.csv", "s*.csv", "star.csv", "~/t.csv", "a:b.csv", "y].csv"]
    for name in names:
        Path(name).write_text(f'key\n"{name}"\n')
    for name in names:
        for source in (name, Path(name), [name], (Path(name),), tmp_path / name, [str(tmp_path / name)]):
            assert as_dict(source, key="key") == {name: 1}
    assert as_dict(names, key="key") == dict.fromkeys(names, 1)
    assert as_dict("t?.csv", key="key") == {"t1.csv": 1}  # a pattern, as there is no such file
    assert as_dict("[st]*.csv", key="key") == dict.fromkeys(["t[1].csv", "t1.csv", "s*.csv", "star.csv"], 1)


def test_columns_of_several_files_go_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("url,user\na,1\n")
    (tmp_path / "b.csv").write_text("user,url\n2,b\n")
    for source in ([tmp_path / "a.csv", tmp_path / "b.csv"], str(tmp_path / "*.csv")):
        assert as_dict(source, key="url", user="user", max_keys_per_user=1) == {"a": 1, "b": 1}


def refused(path: Path) -> list[tuple[object, str]]:
    pq.write_table(pa.table({"k": ["a"]}), path / "a.parquet")
    (path / "a.csv").write_text("k\na\n")
    (path / "b.csv").write_text("")
    (path / "link.csv").symlink_to(path / "a.csv")
    return [
        ([], "at least one file"),
        ((), "at least one file"),
        ([path / "a.csv", path / "no.csv"], r"there is no file .*no\.csv$"),
        ([str(path / "*.csv")], "there is no file .*; pass a pattern alone, not in a list"),
        ([path], "is a directory; list its files"),
        ([path / "a.csv", path / "a.parquet"], r"several kinds \(csv, parquet\)"),
        ([path / "a.csv", path / "b.csv"], "b.csv is empty"),
        ([path / "a.csv", path / "a.csv"], "listed twice"),
        ([path / "a.csv", path / "link.csv"], "listed twice"),
        ([path / "a.csv", 3], "source must be a path, a list of paths"),
        ([pa.table({"k": ["a"]})], "source must be a path, a list of paths"),
        ({path / "a.csv"}, "source must be a path, a list of paths"),
        (pa.array(["a"]), "source must be a path|cannot be read as Arrow"),
    ]


def test_lists_that_are_no_files_are_refused(tmp_path: Path) -> None:
    for source, message in refused(tmp_path):
        with pytest.raises(InputError, match=message):
            sparsedp.count(source, key="k")


PAIRS = pa.table({"url": ["a", "b", "a", "é"], "n": [5, 7, 1, 2]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.LazyFrame(PAIRS),
        lambda: pl.LazyFrame(PAIRS).with_columns(pl.col("url").cast(pl.Categorical)),
        lambda: ds.dataset(PAIRS),
        lambda: ds.dataset(PAIRS).scanner(),
        lambda: ds.Scanner.from_batches(PAIRS.to_reader()),
        lambda: PAIRS.to_pandas(),
    ],
)
def test_two_columns_that_are_not_read_yet_are_released(make: Callable[[], Any]) -> None:
    answers = []
    for counts in (PAIRS, make()):
        with reproducible_for_tests(4):
            release = sparsedp.release(counts, epsilon=1, nonzero=5)
        answers.append(release.lookup(["a", "b", "é", "x"]).tolist())
    assert answers[0] == answers[1]


@pytest.mark.parametrize("make", [pl.LazyFrame, ds.dataset, lambda table: ds.dataset(table).scanner(), pd.DataFrame])
def test_the_last_of_at_least_two_columns_has_the_values(make: Callable[[Any], Any]) -> None:
    def table(**columns: list[Any]) -> Any:
        return make(columns if make is pd.DataFrame else pa.table(columns))

    with pytest.raises(InputError, match=r"columns of keys and, as the last one, of values, got x$"):
        sparsedp.release(table(x=["a"]), epsilon=1)
    with pytest.raises(InputError, match="must be a number"):
        sparsedp.release(table(x=["a"], y=[1], z=["a"]), epsilon=1)
    release = sparsedp.release(table(x=["a"], y=[1], z=[500]), epsilon=1, nonzero=9)
    assert [column.name for column in release.key_columns] == ["x", "y"]
    assert release["a", 1] > 400


@pytest.mark.parametrize("make", [pl.LazyFrame, ds.dataset, lambda table: ds.dataset(table).scanner()])
def test_keys_that_are_not_read_yet_are_not_looked_up(make: Callable[[Any], Any]) -> None:
    release = sparsedp.release({"a": 1}, epsilon=1)
    with pytest.raises(sparsedp.KeyTypeError, match=r"one column, got a table.*collect\(\)"):
        release.lookup(make(pa.table({"key": ["a"]})))


@pytest.mark.skipif(not hasattr(pl.LazyFrame, "collect_batches"), reason="polars before 1.34 has no batches")
def test_a_lazy_frame_is_counted_in_batches_and_never_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    # Catches a query that is held in memory as a whole.
    batches = pl.LazyFrame.collect_batches
    heights: list[int] = []

    def counted(self: Any, **options: Any) -> Iterator[Any]:
        for batch in batches(self, **options):
            heights.append(batch.height)
            yield batch

    def collected(*_: Any, **__: Any) -> None:
        raise AssertionError("the query was collected")

    monkeypatch.setattr(pl.LazyFrame, "collect_batches", counted)
    monkeypatch.setattr(pl.LazyFrame, "collect", collected)
    rows = 1_000_000
    frame = pl.LazyFrame({"i": pl.int_range(rows, eager=True)}).select(k="k" + (pl.col("i") % 7).cast(pl.String))
    counts = sparsedp.count(frame, key="k")
    assert int(counts.units.sum()) == sum(heights) == rows
    assert max(heights) < rows


def test_a_stream_is_read_once_and_never_taken_for_an_empty_table() -> None:
    """Catches a stream at its end that is counted again: it has no rows, and nothing tells why."""
    events, pairs = pa.table({"k": ["a", "a", "b"]}), pa.table({"k": ["a", "b"], "n": [2, 1]})
    reader, other = events.to_reader(), events.to_reader()
    assert len(sparsedp.count(reader, key="k")) == 2
    with pytest.raises(InputError, match=r"read before, and it can be read only once.*read_all\(\)"):
        sparsedp.count(reader, key="k")
    with pytest.raises(InputError, match="no column 'key'"):
        sparsedp.count(other, key="key")
    with pytest.raises(InputError, match="read only once"):  # a refusal has read it too
        sparsedp.count(other, key="k")
    reader = pairs.to_reader()
    sparsedp.release(reader, epsilon=1.0)
    with pytest.raises(InputError, match="read only once"):
        sparsedp.release(reader, epsilon=1.0)
    for _ in range(100):  # readers that are gone are no reason to refuse new ones
        assert len(sparsedp.count(events.to_reader(), key="k")) == 2


def test_an_empty_json_file_has_no_rows(tmp_path: Path) -> None:
    """It may be what is left without the rows of a user: an error would tell that they are gone."""
    for name, content in (("a.jsonl", ""), ("b.jsonl", "\n"), ("c.json", "[]"), ("d.json", "")):
        (tmp_path / name).write_text(content)
        counts = sparsedp.count(tmp_path / name, key="k", user="u", max_keys_per_user=2)
        assert len(counts) == 0
        sparsedp.release(counts, epsilon=1.0)
