"""Keys of several columns on the command line: released, looked up by one argument for each column, or
from CSV and JSON lines.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sparsedp
from command_line import run
from sparsedp.cli import lines
from sparsedp.cli.parsing import asked_from

LOG = "day,page,user,at\n" + "".join(
    f"2024-01-0{1 + user % 2},/{'é' if user % 3 else ''},u{user},2024-01-01T10:00:00Z\n" for user in range(600)
)
RELEASE = ("release", "log.csv", "--user", "user", "--max-keys-per-user", 2, "--epsilon", 4, "-q")


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log in an empty folder, which becomes the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(LOG, encoding="utf-8")


def released(*options: object) -> None:
    run(*RELEASE, "--key", "day", "--key", "page", "--key-type", "date", "--key-type", "text", *options)


def looked_up(*arguments: object, stdin: str | None = None) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(run("lookup", "v.sparsedp", *arguments, stdin=stdin).stdout)))


def test_a_key_is_one_argument_for_each_column() -> None:
    released("-o", "v.sparsedp")
    (row,) = looked_up("2024-01-01", "/é")
    assert list(row) == ["day", "page", "estimate", "low", "high"]
    assert (row["day"], row["page"]) == ("2024-01-01", "/é")
    release = sparsedp.load("v.sparsedp")
    assert float(row["estimate"]) == release[date(2024, 1, 1), "/é"] > 150
    (line,) = run("lookup", "v.sparsedp", "2024-01-01", "/é", "--json").stdout.splitlines()
    assert json.loads(line)["page"] == "/é"
    assert run("verify", "v.sparsedp").stderr == "v.sparsedp is intact\n"


def test_names_of_columns_do_not_control_the_terminal() -> None:
    sparsedp.release(({"\x1b[2J": ["a"], "b": ["c"]}, [9]), epsilon=1.0, nonzero=9).save("v.sparsedp")
    shown = run("info", "v.sparsedp").stdout
    for arguments, stdin in ((("a",), None), ((), "x,y\n")):
        shown += run("lookup", "v.sparsedp", *arguments, stdin=stdin, code=2).stderr
    assert shown.count(r"\x1b[2J") == 3
    assert "\x1b" not in shown


def test_many_keys_are_csv_or_json_lines() -> None:
    released("-o", "v.sparsedp")
    expected = [row["estimate"] for row in (looked_up("2024-01-02", "/")[0], looked_up("2024-01-01", "/é")[0])]
    table = 'page,other,day\n/,1,2024-01-02\n"/é",2,2024-01-01\n'
    Path("keys.csv").write_text(table, encoding="utf-8")
    records = [{"day": "2024-01-02", "page": "/", "n": 1}, {"page": "/é", "day": "2024-01-01"}]
    Path("keys.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    for given in (("--file", "keys.csv"), ("-f", "keys.jsonl")):
        assert [row["estimate"] for row in looked_up(*given)] == expected
    assert [row["estimate"] for row in looked_up(stdin=table)] == expected
    best = json.loads(run("top", "v.sparsedp", "-c", "keys.csv", "-n", 1, "--json").stdout)
    assert [(one["day"], one["page"]) for one in best] == [("2024-01-01", "/é")]
    assert run("top", "v.sparsedp", "-c", "keys.jsonl", "-n", 1).stdout.endswith("  2024-01-01  /é\n")


REFUSED: list[tuple[list[str], str | None, str]] = [
    (["2024-01-01"], None, "2 columns, day (date), page (text): pass one argument for each, got 1; several keys are"),
    (["2024-01-01", "/", "x"], None, "got 3"),
    (["2024-1-1", "/"], None, "key '2024-1-1' (argument 1) must be a date such as 2024-01-31"),
    (["2024-02-30", "/"], None, "key '2024-02-30' (argument 1) must be a date"),
    ([], "", "it is empty; its first line must be day,page"),
    ([], "day,url\n2024-01-01,/\n", "the first line of the keys must name the columns of the key: day, page"),
    ([], "day,page\n2024-01-01,/\n2024-01-01\n", "line 3 has another number of columns than the first, which has 2"),
    ([], "day,page\n2024-01-01,/\nyesterday,/\n", "key 'yesterday' in line 3 must be a date"),
    ([], 'day,page\n\n2024-01-01,"a\nb"\n\nyesterday,/\n', "key 'yesterday' in line 6 must be a date"),
    ([], 'day,page,x\n2024-01-01,a"b,"/\n', "the record in line 2 has a quote that is not closed"),
    ([], "day,page,day\n2024-01-01,/,2024-01-02\n", "names several columns 'day'; rename all but one"),
    (
        [],
        'day,page\n2024-01-01,/\n2024-01-01,"/\n2024-01-02,/\n',
        "the record in line 3 has a quote that is not closed",
    ),
    ([], 'day,page\n2024-01-01,"/\n/"\n\n2024-01-01\n', "line 5 has another number of columns"),
]


@pytest.mark.parametrize(("arguments", "stdin", "message"), REFUSED)
def test_what_cannot_be_looked_up_is_refused(arguments: list[str], stdin: str | None, message: str) -> None:
    released("-o", "v.sparsedp")
    assert message in run("lookup", "v.sparsedp", *arguments, stdin=stdin, code=2).stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"day": "2024-01-01"}', "field 'page' in line 2 is missing"),
        ('{"day": "2024-01-01", "page": [1]}', "field 'page' in line 2 must be text, an integer or a truth value"),
        ("[]", "line 2 must be a JSON object with the fields day, page"),
        ("{", "line 2 is not JSON"),
        ("[" * 100_000, "line 2 is nested too deeply"),
        (
            '{"day": "2024-01-01", "page": "\\ud800"}',
            "field 'page' in line 2 must be valid Unicode, got a lone surrogate",
        ),
        ('\n \n{"day": "yesterday", "page": "/"}', "key 'yesterday' in line 4 must be a date"),
    ],
)
def test_json_lines_are_refused_with_their_line(line: str, message: str) -> None:
    released("-o", "v.sparsedp")
    Path("k.jsonl").write_text('{"day": "2024-01-01", "page": "/"}\n' + line + "\n")
    assert message in run("lookup", "v.sparsedp", "-f", "k.jsonl", code=2).stderr


@pytest.mark.parametrize("size", [1, 7, 1 << 22])
def test_records_may_end_anywhere_in_a_block(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", size)
    built = sparsedp.release({("a", date(2024, 1, 1)): 5}, epsilon=1.0, nonzero=9)

    def read(content: str) -> list[Any]:
        blocks = asked_from(built, io.BytesIO(content.encode()), False, "")
        return [asked.text(row) for asked in blocks for row in range(len(asked.keys[0]))]

    keys = [("a", "2024-01-01"), ("b\n,\n", "2024-01-02"), ('"', "2024-01-03"), ("c", "2024-01-04")] * 3
    written = io.StringIO()
    csv.writer(written, lineterminator="\n\n").writerows([("key1", "key2"), *keys])
    assert read(written.getvalue()) == read(written.getvalue().strip()) == keys
    assert read("key1,key2\n") == read("key1,key2") == []
    with pytest.raises(sparsedp.InputError, match="key 'never' in line 33 must be a date"):
        read(written.getvalue() + "d,never\n")


def test_csv_may_begin_with_a_mark_and_must_be_utf8() -> None:
    released("-o", "v.sparsedp")
    Path("k.csv").write_bytes(b"\xef\xbb\xbfday,page\r\n2024-01-01,/\r\n")
    assert looked_up("-f", "k.csv") == looked_up("2024-01-01", "/")
    Path("k.csv").write_bytes(b"day,page\n2024-01-01,\xff\n")
    assert "line 2 is not valid UTF-8" in run("lookup", "v.sparsedp", "-f", "k.csv", code=2).stderr


def test_columns_are_told_before_and_after() -> None:
    assert "keys          day (date), page (text)" in run(
        *(part for part in RELEASE if part != "-q"), "--key", "day", "--key", "page", "--key-type", "date",
        "--key-type", "text", "-o", "v.sparsedp", "--dry-run",
    ).stdout  # fmt: skip
    released("-o", "v.sparsedp")
    assert "  keys     day (date), page (text), hashed\n" in run("info", "v.sparsedp").stdout
    told = json.loads(run("info", "v.sparsedp", "--json").stdout)
    assert told["key_columns"] == [{"name": "day", "kind": "date"}, {"name": "page", "kind": "text"}]
    assert (told["key_kind"], told["format"]) == (None, 3)
    planned = json.loads(run("plan", "log.csv", "--key", "day", "--key", "page", "--nonzero", 9, "--json").stdout)
    assert [column["name"] for column in planned["keys"]] == ["day", "page"]
    assert "  keys     day (text)\n" in run("plan", "log.csv", "--key", "day", "--nonzero", 9).stdout
    chosen = run("suggest", "log.csv", "--key", "day", "--key", "page", "--user", "user", "--epsilon", 1, "--json")
    assert json.loads(chosen.stdout)["max_keys_per_user"] >= 1


def test_wrong_columns_are_refused_before_anything_is_spent() -> None:
    for options, message in (
        (("--key", "day", "--key", "day"), "--key must name every column once, got day, day"),
        (("--key", "day", "--key-type", "month"), "--key-type must be one of 'as stored', 'text'"),
        (("--key", "day", "--key", "page", "--domain", 9), "--domain is for keys of one column of integers"),
        (("--key", "day", "--key", "pag"), "has no column 'pag'; did you mean 'page'?"),
        (("--key", "page", "--key-type", "date"), "column 'page' is not a date such as 2024-01-31 in 600 rows"),
    ):
        assert message in run(*RELEASE, *options, "-o", "v.sparsedp", code=2).stderr
    assert not Path("v.sparsedp").exists()


def test_a_single_day_or_time_is_a_plain_argument() -> None:
    run(*RELEASE, "--key", "at", "--key-type", "timestamp[s, UTC]", "-o", "v.sparsedp")
    estimates = [row["estimate"] for row in looked_up("2024-01-01T10:00:00Z", "2024-01-01T11:00:00+01:00")]
    assert estimates[0] == estimates[1]
    assert float(estimates[0]) == sparsedp.load("v.sparsedp")[datetime(2024, 1, 1, 10, tzinfo=timezone.utc)] > 500
    assert looked_up(stdin="2024-01-01T10:00:00Z\n")[0]["estimate"] == estimates[0]
    assert "in s" in run("lookup", "v.sparsedp", "2024-01-01T10:00:00", code=2).stderr
    assert "in s" in run("lookup", "v.sparsedp", "2024-01-01T10:00:00.5Z", code=2).stderr


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_an_instant_is_listed_as_it_is_asked_for(unit: str) -> None:
    times = pd.DataFrame({"at": ["2024-01-01T10:00:00Z"] * 500})
    options = {"epsilon": 2.0, "delta": 1e-6, "keep_keys": True}
    counts = sparsedp.count(times, key="at", key_type=f"timestamp[{unit}, UTC]")
    sparsedp.release(counts, **options).save("v.sparsedp")  # type: ignore[arg-type]
    (best,) = json.loads(run("top", "v.sparsedp", "--json").stdout)
    assert list(best) == ["at", "estimate"]
    (line,) = run("top", "v.sparsedp").stdout.splitlines()
    assert line.split()[1] == best["at"]
    (answer,) = looked_up(best["at"])
    assert (answer["at"], float(answer["estimate"]) > 400) == (best["at"], True)
    Path("keys").write_text(best["at"] + "\n")
    (ranked,) = json.loads(run("top", "v.sparsedp", "-c", "keys", "--json").stdout)
    assert ranked["at"] == best["at"]


def test_columns_of_every_kind_are_named_as_they_are_asked_for() -> None:
    row: dict[str, Any] = {
        "day": date(2024, 1, 1),
        "local": datetime(2024, 1, 1, 10, 0, 0, 5),
        "instant": datetime(2024, 1, 1, 10, tzinfo=timezone.utc),
        "new": True,
        "n": -7,
        "raw": b"x",
        "low": "a\n",
    }
    frame = pd.DataFrame([row] * 500).astype({"instant": "datetime64[us, UTC]"})
    frame.to_parquet("t.parquet")
    options = [part for name in row for part in ("--key", name)]
    run("release", "t.parquet", *options, "--epsilon", 2, "--delta", "1e-6", "--keep-keys", "-q", "-o", "v.sparsedp")
    shown = run("top", "v.sparsedp").stdout
    assert shown.split("  ", 1)[1].strip().endswith("true  -7  x  a\\n")
    (best,) = json.loads(run("top", "v.sparsedp", "--json").stdout)
    asked = [str(value) for name, value in best.items() if name not in ("estimate", "low")]
    (answer,) = looked_up("--", *asked, "a\n")
    assert list(answer) == [*list(row)[:-1], "key_low", "estimate", "low", "high"]
    assert float(answer["estimate"]) > 400


PAGES = ["/", "a,b", 'say "é"']
SIMPLE_FILES = {
    "keys.txt": "".join(f"{page}\n" for page in PAGES),
    "keys.tsv": "".join(f"{page}\n" for page in PAGES),
    "one.csv": 'url\n/\n"a,b"\n"say ""é"""\n',
    "several.CSV": 'n,key\n1,/\n2,"a,b"\n3,"say ""é"""\n',
    "one.jsonl": "".join(json.dumps({"url": page}) + "\n" for page in PAGES),
    "several.ndjson": "".join(json.dumps({"n": 1, "key": page}) + "\n" for page in PAGES),
}


@pytest.mark.parametrize("name", SIMPLE_FILES)
def test_simple_keys_are_read_by_the_ending_of_their_file(name: str) -> None:
    # Catches a header, or the text of JSON, that is answered as a key.
    Path("days").mkdir()
    sparsedp.release(dict.fromkeys(PAGES, 500), epsilon=4.0, path="days/2024-01-31.sparsedp")
    Path("v.sparsedp").symlink_to("days/2024-01-31.sparsedp")
    Path(name).write_text(SIMPLE_FILES[name], encoding="utf-8")
    done = run("lookup", "v.sparsedp", "-f", name)
    assert [row["key"] for row in csv.DictReader(io.StringIO(done.stdout))] == PAGES
    assert done.stderr == ("keys are those of column 'url', as the file names it\n" if "one" in name else "")
    top = run("top", "v.sparsedp", "-c", name, "--json").stdout
    assert {row["key"] for row in json.loads(top)} == set(PAGES)
    series = csv.DictReader(io.StringIO(run("series", "lookup", "days", "-f", name).stdout))
    assert [row["key"] for row in series] == PAGES


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("k.csv", "n,url\n1,/\n", "must name the columns of the key: key, if there are several; or write one key in"),
        ("k.csv", "", "it is empty; its first line must be key"),
        ("k.csv", "url\n/\n/,/\n", "line 3 has another number of columns than the first, which has 1"),
        ("k.jsonl", '{"n": 1, "url": "/"}\n', "field 'key' in line 1 is missing"),
        ("k.jsonl", '{"url": "/"}\n{"page": "/"}\n', "field 'url' in line 2 is missing"),
        ("k.jsonl", '"/"\n', "line 1 must be a JSON object with the fields key"),
    ],
)
def test_files_of_simple_keys_are_refused_with_their_line(name: str, content: str, message: str) -> None:
    sparsedp.release({"/": 500}, epsilon=4.0, path="v.sparsedp")
    Path(name).write_text(content)
    assert message in run("lookup", "v.sparsedp", "-f", name, code=2).stderr
