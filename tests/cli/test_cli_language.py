"""What commands say in their own words: options, arguments, and fixes that a command has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sparsedp
from command_line import run
from test_cli_messages import commands


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with releases of text and of integers, and a series, which is the current one."""
    monkeypatch.chdir(tmp_path)
    sparsedp.release({"a": 9}, epsilon=1, nonzero=9).save("text.sparsedp")
    sparsedp.release({4: 9}, epsilon=1, nonzero=9).save("numbers.sparsedp")
    pairs = {("a", 4): 9}
    sparsedp.release(pairs, epsilon=1, nonzero=9).save("pairs.sparsedp")
    Path("days").mkdir()
    sparsedp.release({"a": 9}, epsilon=1, nonzero=9).save("days/2024-01-31.sparsedp")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [("lookup", "text.sparsedp", "1"), ("series", "lookup", "days", "1"), ("lookup", "pairs.sparsedp", "a", "1")],
)
def test_integer_is_refused_where_the_file_states_another_kind(command: tuple[str, ...]) -> None:
    said = run(*command, "--integer", code=2).stderr
    assert "--integer is for files that do not state the kind of their keys, and those of this one are" in said
    assert "text" in said
    assert said.endswith("; omit it\n")


def test_a_name_without_a_date_is_to_be_changed() -> None:
    Path("notes.sparsedp").write_bytes(Path("text.sparsedp").read_bytes())
    said = run("series", "show", "no*.sparsedp", code=2).stderr
    assert said == "sparsedp: there is no date such as 2024-01-31 in the name of notes.sparsedp; rename it\n"


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_the_ends_of_a_series_are_options(option: str) -> None:
    said = run("series", "lookup", "days", "a", option, "nope", code=2).stderr
    assert said.startswith(f"sparsedp: {option} must be a date such as 2024-01-31, 2024-01 or 2024, got 'nope'")


def test_keys_that_were_typed_are_arguments_and_not_lines() -> None:
    assert (
        "key 'x' (argument 3) must be a 64-bit integer" in run("lookup", "numbers.sparsedp", 4, 5, "x", code=2).stderr
    )
    assert "key 'x' (argument 2) must be a 64-bit integer" in run("lookup", "pairs.sparsedp", "a", "x", code=2).stderr
    assert "key 'x' in line 2 must be" in run("lookup", "numbers.sparsedp", stdin="4\nx\n", code=2).stderr


def test_numbers_are_called_numbers_in_every_help() -> None:
    def check(command: Any, *path: str) -> None:
        below = getattr(command, "commands", {})
        assert "<Fraction>" not in run(*path, "--help").stdout, path
        for name, own in below.items():
            check(own, *path, name)

    check(commands())


LOG = ("t.csv", "--key", "k", "--epsilon", 1)

IGNORED: list[tuple[tuple[object, ...], str]] = [
    (("audit", "--runs", "1000.9"), "--runs must be a whole number, got 1000.9"),
    (("audit", "--runs", "1.5"), "--runs must be a whole number, got 1.5"),
    (("audit", "--mechanism", "opendp:laplace_threshold", "--runs", "1000.9"), "--runs must be a whole number"),
    (("release", *LOG, "-o", "x.sparsedp", "--dataset", "foo"), "--dataset needs --ledger, the file that keeps"),
    (("suggest", *LOG, "--user", "k", "--dataset", "foo"), "--dataset needs --ledger, the file that keeps"),
    (("demo", "--write-log", "log.csv", "--serve"), "--write-log: only writes a log"),
    (("demo", "--port", 8000), "--port: is that of --serve"),
    (("plan", "--nonzero", 9, "--user", "u"), "--user: is for a table"),
    (("plan", "--nonzero", 9, "--key", "k"), "--key: is for a table"),
    (("plan", "--nonzero", 9, "--key-type", "text"), "--key-type: is for a table"),
    (("plan", "--nonzero", 9, "--delimiter", ";"), "--delimiter: is for a table"),
    (("plan", "--nonzero", 9, "--quote", ""), "--quote: is for a table"),
    (("plan", "--nonzero", 9, "--encoding", "utf-8"), "--encoding: is for a table"),
    (("plan", "--nonzero", 9, "--hive"), "--hive: is for a table"),
    (("plan", "t.csv", "--nonzero", 9, "--key-type", "text"), "--key-type: is that of --key"),
    (("release", *LOG, "-o", "x.sparsedp", "--signed"), "--signed is for sums of a value column"),
    (
        ("release", *LOG, "-o", "x.sparsedp", "--key-type", "boolean"),
        "truth values are keys only beside other columns; pass --key-type text",
    ),
]


@pytest.mark.parametrize(("command", "message"), IGNORED)
def test_an_option_that_would_be_ignored_or_cut_is_refused(command: tuple[object, ...], message: str) -> None:
    Path("t.csv").write_text("k\ntrue\n")
    said = run(*command, code=2).stderr.replace("Invalid value for ", "")
    assert message in said
    assert not Path("x.sparsedp").exists()
    assert not Path("log.csv").exists()


def test_a_data_set_without_a_ledger_is_refused_in_python_too() -> None:
    # Catches a budget that is believed to be kept.
    table = pd.DataFrame({"k": ["a"], "u": [1]})
    tries: list[Callable[[], object]] = [
        lambda: sparsedp.release({"a": 1}, epsilon=1, dataset="x"),
        lambda: sparsedp.suggest(table, key="k", user="u", epsilon=1, dataset="x"),
        lambda: sparsedp.count(table, key="k", dataset="x"),
        lambda: sparsedp.count(table, key="k", user="u", max_keys_per_user="auto", epsilon=1, dataset="x"),
    ]
    for attempt in tries:
        with pytest.raises(sparsedp.ParameterError, match=r"dataset needs ledger=, .* got 'x' alone"):
            attempt()
