"""Row locality of files: what a user's rows add is a function of those rows and of public settings
(docs/privacy.md).

Each pair of tables differs in the rows of one user. Their counts may differ in as many keys as one
user may have, by as much as one user may have for a key. Where a table cannot be read row by row,
it is refused.
"""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparsedp
from locality import Rows, assert_local, counted
from sparsedp import InputError, ParameterError

pytestmark = pytest.mark.usefixtures("one_database")


def write(path: Path, rows: Rows, **dialect: Any) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, **{"lineterminator": "\n", **dialect})
        writer.writerows([("u", "k"), *rows])
    return path


PLAIN: Rows = [(f"u{at}", key) for at, key in enumerate(["a", "b", "c", "d"])]

# Rows of a file, and further rows of one user, which would mislead a guess.
ADDED: dict[str, tuple[Rows, Rows]] = {
    "quotes": ([("1", "'yes'"), ("2", "'no'"), ("3", "'yes'")], [("4", 'say "hi"')]),
    "single quotes": ([("1", "yes"), ("2", "no"), ("3", "it's")], [("4", "'yes'"), ("4", "'no, no'")]),
    "comments": ([("# 1", "a"), ("# 2", "b"), ("# 3", "c")], [("4", "#"), ("# 4", "x")]),
    "other separators": ([("1", "a;b"), ("2", "c;d")], [("3;x", "e|f"), ("3;x", "g;h;i")]),
    "line ends": ([("1", "a"), ("2", "b")], [("3", "c\r\nd"), ("3", "e\nf")]),
    "nothing": ([("1", "NULL"), ("2", "null"), ("3", "NA")], [("4", "\\N")]),
    "numbers": ([("1", "007"), ("2", "7"), ("3", "7.0")], [("4", "x")]),
    "dates": ([("1", "2024-01-02"), ("2", "02/01/2024")], [("4", "soon")]),
    "backslashes": ([("1", "a\\"), ("2", 'b\\"c'), ("3", "d")], [("4", '\\"')]),
    "blanks": ([("1", " a"), ("2", "a "), ("3", "a")], [("4", "  ")]),
    "a header": ([("u", "k"), ("1", "a")], [("4", "k")]),
}


@pytest.mark.parametrize("case", ADDED)
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_record_is_read_by_itself(case: str, place: str, tmp_path: Path) -> None:
    rows, more = ADDED[case]
    together = [*more, *rows] if place == "first" else [*rows, *more]
    with_user, without = (counted(write(tmp_path / "t.csv", some), 2) for some in (together, rows))
    assert_local(with_user, without, 2)
    expected: dict[str, int] = {}
    for _, key in together:
        expected[key] = expected.get(key, 0) + 1
    assert with_user == expected


@pytest.mark.parametrize("rows", [40, 30_000])
def test_what_a_user_writes_does_not_change_how_others_are_read(rows: int, tmp_path: Path) -> None:
    # Many rows of one kind and one row of another, before or after the rows that a guess would look
    # at.
    others = [(f"u{at}", f"'{at % 7}' # ; {at % 3}") for at in range(rows)]
    without = counted(write(tmp_path / "t.csv", others))
    assert len(without) == 21
    for key in ('"', '""', "'", "x\ny", "#", ";;;;", "\\", "a,b,c"):
        for together in ([("v", key), *others], [*others, ("v", key)]):
            with_user = counted(write(tmp_path / "t.csv", together))
            assert with_user == {**without, key: 1}


BROKEN = {
    "a quote that is not closed": b'u,k\n1,a\n2,"b\n3,c\n',
    "a quote that is not closed in the last column": b'u,k\n1,a\n3,c\n2,"b\n',
    "something behind a quote": b'u,k\n1,"a"x\n3,c\n',
    "a blank before a quote": b'u,k\n1, "a"\n3,c\n',
    "a quote inside of a field": b'u,k\n1,a"b"\n3,c\n',
    "two rows that quotes join": b'u,k\n1,"a\n2,"b\n3,c\n',
    "a field too many": b"u,k\n1,a\n2,b,\n",
    "a field too few": b"u,k\n1\n2,b\n",
    "a carriage return in a field": b"u,k\n1,a\rb\n",
    "other letters": b"u,k\n1,\xff\n",
    "names twice": b"u,k,k\n1,a,b\n",
    "no header": b"1,a\n2,b\n",
    "nothing": b"",
    "a quote in the header": b'u,"k\n1,a\n',
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_no_csv_is_refused(case: str, tmp_path: Path) -> None:
    for name, content in (("t.csv", BROKEN[case]), ("t.csv.gz", gzip.compress(BROKEN[case]))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as refused:
            counted(tmp_path / name)
        assert "2,b" not in str(refused.value)


def test_where_a_file_is_no_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for content, message in (
        (b'u,k\n1,a\n2,"b"c\n', "line 3: a quote is not closed, or is followed by other text.*an empty quote="),
        (b'u,k\n1,"a\nb"\n2,x"c\n', "line 4: a quote"),
        (b"u,k\n1,a\n2\n", "line 3: it has 1 columns instead of 2"),
        (b'u,k\n1,a\n2,"b\n', "ends inside quotes"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            counted(path)


def test_quotes_are_checked_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A quote and its required neighbour may be in different blocks; catches a check that forgets
    # the previous byte.
    rows: Rows = [(str(at), key) for at, key in enumerate(['"', '""', "a\nb", "c,d", "", 'x"', '"y', "é"] * 3) if key]
    path = write(tmp_path / "t.csv", rows)
    whole = counted(path)
    broken = tmp_path / "b.csv"
    for block in range(20, 60):
        monkeypatch.setattr("sparsedp.counting.separated._BLOCK", block)
        assert counted(path) == whole
        for bad in (b'9,"a"b\n', b'9,a"\n', b'9,"a'):
            broken.write_bytes(path.read_bytes() + bad)
            with pytest.raises(InputError, match="quote"):
                counted(broken)


def test_a_record_is_read_alike_wherever_a_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Catches an LF inside quotes that Arrow drops where a block begins with it: keys of some users
    # would depend on how many bytes the rows of others take.
    keys = ["a\r\nb", "\r\n\r\n", "\r\r\n\n", "\r", "c\r", "\nd", '"\r\n"', "e,\r\n,f"]
    path = tmp_path / "t.csv"
    for block in range(24, 48):  # Arrow reads no record that is longer than its block
        monkeypatch.setattr("sparsedp.counting.separated._BLOCK", block)
        for before in range(12):
            rows = [("x", "x" * before)] * (before > 0) + [(str(at), key) for at, key in enumerate(keys)]
            assert set(counted(write(path, rows, quoting=csv.QUOTE_ALL))) - {"x" * before} == set(keys)


def test_files_are_written_as_one_says(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("u;k\n1;a,b\n2;'c;d'\n")
    with pytest.raises(InputError, match="line 3: it has 3 columns instead of 2"):
        counted(path, delimiter=";")
    assert counted(path, delimiter=";", quote="'") == {"a,b": 1, "c;d": 1}
    path.write_text('u,k\n1,"a\n2,b"c\n')
    assert counted(path, quote="") == {'"a': 1, 'b"c': 1}
    for encoding in ("utf-16", "latin-1", "utf-8"):
        path.write_bytes("u,k\n1,é\n".encode(encoding))
        assert counted(path, encoding=encoding) == {"é": 1}
    path.write_bytes("\ufeffu,k\r\n1,é\r\n2,é\n".encode())
    assert counted(path) == {"é": 2}
    (tmp_path / "t.tsv").write_text("u\tk\n1\ta,b\n")
    assert counted(tmp_path / "t.tsv") == {"a,b": 1}
    for options, message in (
        ({"delimiter": ""}, "delimiter must be one ASCII character"),
        ({"delimiter": "ab"}, "delimiter must be one ASCII character"),
        ({"quote": "é"}, "quote must be one ASCII character"),
        ({"quote": ",", "delimiter": ","}, "quote must not be the same character"),
        ({"encoding": "ebcdic"}, "encoding must be one of 'utf-8'"),
        ({"delimiter": 3}, "delimiter must be text"),
    ):
        with pytest.raises(ParameterError, match=message):
            counted(path, **options)
    with pytest.raises(ParameterError, match="delimiter is for files"):
        counted(pa.table({"u": [1], "k": ["a"]}), delimiter=",")
    (tmp_path / "t.jsonl").write_text("")
    with pytest.raises(ParameterError, match="delimiter is for CSV files"):
        counted(tmp_path / "t.jsonl", delimiter=",")


def test_a_table_without_rows_is_a_table(tmp_path: Path) -> None:
    # Otherwise an error would reveal the only user of a table.
    for name, content in {"a.csv": "u,k\n", "b.csv": "u,k", "a.jsonl": "", "b.json": "[]", "c.json": "\n"}.items():
        (tmp_path / name).write_text(content)
        assert counted(tmp_path / name) == {}


def test_headers_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("u,k\n1,a\n")
    (tmp_path / "b.csv").write_text("k,u\nb,1\n")
    assert counted(str(tmp_path / "*.csv"), 2) == {"a": 1, "b": 1}
    (tmp_path / "b.csv").write_text("k,u,x\nb,1,2\n")
    with pytest.raises(InputError, match="files must have the same columns, and the first lines of"):
        counted(str(tmp_path / "*.csv"), 2)


def as_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


JSON: dict[str, tuple[list[Any], Any]] = {
    "a number among words": (["1", "02", "x"], 7),
    "a fraction among integers": ([1, 2, 3], 1.5),
    "a large integer": ([1, 2, 3], 1 << 70),
    "dates and a word": (["2024-01-02", "2024-01-03"], "soon"),
    "an object": (["a", "b"], {"a": [1, 2]}),
    "truth values": ([True, False], "true"),
    "a UUID": (["6f0f8f0e-0000-4000-8000-000000000000".upper()], "x"),
}


@pytest.mark.parametrize("case", JSON)
def test_a_json_record_is_read_by_itself(case: str, tmp_path: Path) -> None:
    keys, more = JSON[case]
    rows = [{"u": at, "k": key} for at, key in enumerate(keys)]
    added = {"u": 99, "k": more}
    for together in ([added, *rows], [*rows, added]):
        with_user, without = (counted(as_lines(tmp_path / "t.jsonl", some)) for some in (together, rows))
        assert_local(with_user, without)
        (tmp_path / "t.json").write_text(json.dumps(together, indent=1))
        assert counted(tmp_path / "t.json") == with_user
        assert counted(as_lines(tmp_path / "u.json", together)) == with_user
    for key in keys:
        text = key if isinstance(key, str) else json.dumps(key)
        assert with_user[text] >= 1


def test_fields_that_only_one_user_has(tmp_path: Path) -> None:
    rows = [{"u": at, "k": "a"} for at in range(3)]
    more = [{"u": 9, "k": "b", "value": 3, "K": "x"}]
    with_user, without = (counted(as_lines(tmp_path / "t.jsonl", some)) for some in (more + rows, rows))
    assert_local(with_user, without)


@pytest.mark.parametrize("content", ['{"u": 1, "k": "a", "k": "secret"}', '"secret"', '{"u": 1, "k": secret}', "[1]"])
def test_json_that_is_no_record_is_refused_without_it(content: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"u": 1, "k": "a"}\n' + content)
    with pytest.raises(InputError, match="is malformed near line") as refused:
        counted(tmp_path / "t.jsonl")
    assert "secret" not in str(refused.value)


def test_parquet_files_have_one_schema(tmp_path: Path) -> None:
    pq.write_table(pa.table({"u": [1, 2], "k": ["1", "02"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"u": [3], "k": [2]}), tmp_path / "b.parquet")
    with pytest.raises(
        InputError, match=r"column 'k' has VARCHAR values in .*a\.parquet and has BIGINT values in .*b\.p"
    ):
        counted(str(tmp_path / "*.parquet"))
    pq.write_table(pa.table({"u": [3]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"and is not in .*b\.parquet"):
        counted(str(tmp_path / "*.parquet"))


def in_folders(path: Path, keys: list[str], ending: str) -> str:
    for at, key in enumerate(keys):
        folder = path / f"k={key}"
        folder.mkdir(parents=True)
        name = str(folder / f"t.{ending}")
        if ending == "parquet":
            pq.write_table(pa.table({"u": [at]}), name)
        else:
            Path(name).write_text(f"u\n{at}\n" if ending == "csv" else json.dumps({"u": at}))
    return str(path / "*" / f"*.{ending}")


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_folders_are_columns_of_text_if_one_says_so(ending: str, tmp_path: Path) -> None:
    keys = ["0", "01", "1", "2024-01-02", "a%20b"]
    without = in_folders(tmp_path / "without", keys, ending)
    with_user = in_folders(tmp_path / "with", [*keys, "abc"], ending)
    assert counted(without, hive=True) == dict.fromkeys(["0", "01", "1", "2024-01-02", "a b"], 1)
    assert_local(counted(with_user, hive=True), counted(without, hive=True))
    with pytest.raises(InputError, match=r"no column 'k'|'k' is null"):
        counted(without)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_folder_never_hides_a_column(ending: str, tmp_path: Path) -> None:
    folder = tmp_path / "k=x"
    folder.mkdir()
    frame = pd.DataFrame({"u": [1], "k": ["a"]})
    path = folder / f"t.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    assert counted(path) == {"a": 1}
    with pytest.raises(InputError, match="has a column 'k' and is in a folder k="):
        counted(path, hive=True)


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("before", [0, 1, 3_999_999, 12_345_678])
def test_a_long_record_is_refused_by_its_length_wherever_it_begins(before: int, quoted: bool, tmp_path: Path) -> None:
    # Arrow reads a record that spans two blocks and refuses one that spans three, which depends on
    # other rows.
    path = tmp_path / "a.csv"
    for length, fits in ((8_000_000, True), (9_000_000, False), (17_000_000, False)):
        long = "line\n" * (length // 5) if quoted else "x" * length
        with path.open("w") as file:
            file.write("key\n" + "y" * 99 + "\n" + ("z" * 999 + "\n") * (before // 1000))
            file.write(f'"{long}"\n' if quoted else f"{long}\n")
            file.write("b\n" * 10)
        if fits:
            assert len(sparsedp.count(path, key="key").units) >= 3
            continue
        with pytest.raises(sparsedp.InputError, match="record of over 8 MB"):
            sparsedp.count(path, key="key")
