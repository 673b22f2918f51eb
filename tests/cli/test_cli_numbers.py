"""Whole numbers are read as other numbers are, and what is no number, or no key, is told so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sparsedp
from command_line import run

RELEASE = ("release", "log.csv", "--key", "url", "-o", "new.sparsedp")


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log and a release in an empty folder, which becomes the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("user,url\n1,a\n2,b\n")
    sparsedp.release({-1: 500, 2: 300}, epsilon=2.0, path="2024-01-31.sparsedp")


def test_whole_numbers_may_be_written_with_an_exponent() -> None:
    run("release", "log.csv", "--key", "url", "--epsilon", 1, "--nonzero", 10, "--parts", "2e0", "-o", "parts.sparsedp")
    assert sparsedp.load("parts.sparsedp").plan.problem.parts == 2
    assert len(json.loads(run("top", "2024-01-31.sparsedp", "-n", "1e0", "--json").stdout)) == 1
    plan = run("plan", "--nonzero", "1e3", "--max-keys-per-user", "2^3", "--json").stdout
    assert plan == run("plan", "--nonzero", "1000", "--max-keys-per-user", "8", "--json").stdout


@pytest.mark.parametrize(("number", "message"), [("x", "a whole number, got x"), ("0", "at least 1, got 0")])
@pytest.mark.parametrize(
    "command",
    [("top", "2024-01-31.sparsedp", "-n"), ("series", "sum", ".", "2", "--window"), ("serve", ".", "--max-keys")],
)
def test_what_is_no_whole_number_is_refused(command: tuple[str, ...], number: str, message: str) -> None:
    assert f"must be {message}" in run(*command, number, code=2).stderr
    assert "must be a whole number, got 2.5" in run(*command, "2.5", code=2).stderr


@pytest.mark.parametrize("command", [("lookup", "2024-01-31.sparsedp"), ("series", "lookup", ".")])
def test_keys_that_begin_with_a_dash_come_after_two(command: tuple[str, ...]) -> None:
    assert "No such option: -1; write -- before keys that begin with -" in run(*command, "-1", code=2).stderr
    assert "-1" in run(*command, "--", "-1").stdout
    assert "--" not in run("info", "2024-01-31.sparsedp", "-1", code=2).stderr.split("No such option")[1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("suggest", "log.csv", "--key", "url", "--user", "user", "-e", 1000), "must be at most 30"),
        (("suggest", "log.csv", "--key", "url", "--user", "user", "-e", 1000), "got 1000;"),
        ((*RELEASE, "--user", "user", "--max-keys-per-user", "auto", "-e", 1000), "got 1000;"),
        (("plan", "--mechanism", "laplace"), "--domain must be at most 2^32, got none, which is 2^64; pass --domain"),
        (("series", "plot", ".", "2", "-o", "p.xyz"), "--output must end in one of "),
        (
            ("ledger", "create", "s3://bucket/a.db", "--epsilon", 1),
            "must be a file of this machine, got s3://bucket/a.db",
        ),
    ],
)
def test_messages_name_what_was_typed(command: tuple[object, ...], message: str) -> None:
    assert message in run(*command, code=2).stderr


def test_very_many_releases_are_told_as_such() -> None:
    run("ledger", "create", "a.db", "--epsilon", "1e6", "-q")
    assert run("ledger", "plan", "a.db", "--epsilon", "1e-9").stdout.startswith("at least ")
