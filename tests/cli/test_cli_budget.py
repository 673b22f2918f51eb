"""Releases of the command line with a ledger: debited once, before the noise, and never by what is
refused.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import sparsedp
from command_line import COMMAND, RELEASE, checked, run
from commands import Command
from sparsedp.budget.ledger import Ledger
from sparsedp.errors import ParameterError


def test_a_release_debits_and_refuses_to_overspend(visits: Path) -> None:
    run("ledger", "create", "b.db", "--epsilon", "1.5", "--delta", "1e-8")
    assert "a budget in b.db" in run("ledger", "create", "b.db", "--epsilon", 9, code=1).stderr.replace(
        f"{visits}/", ""
    )
    run(*RELEASE, "-o", "v.sparsedp", "--ledger", "b.db")
    done = run(*RELEASE, "-o", "w.sparsedp", "--ledger", "b.db", code=1)
    assert "nothing was spent" in done.stderr
    assert not Path("w.sparsedp").exists()
    shown = json.loads(run("ledger", "show", "b.db", "--json").stdout)
    assert shown["datasets"][0]["left_epsilon"] == 0.5
    assert [(entry["mechanism"], entry["note"]) for entry in shown["entries"]] == [("tight-alp", "v.sparsedp")]
    assert "0.5" in run("ledger", "show", "b.db").stdout


def test_a_ledger_that_composes_says_what_it_costs_together_and_what_fits(visits: Path) -> None:
    made = run("ledger", "create", "b.db", "--epsilon", 2, "--delta", "1e-6", "--accounting", "pld", "--per", "month")
    assert "chosen by what earlier ones published" in made.stderr
    assert "the guarantee is for the releases of one month" in made.stderr
    for name in ("a", "b"):
        run(*RELEASE[:-1], 0.1, "-o", f"{name}.sparsedp", "--ledger", "b.db")
    shown = json.loads(run("ledger", "show", "b.db", "--json").stdout)["datasets"][0]
    assert shown["spent_epsilon"] == 0.2
    assert shown["composed_epsilon"] < 0.2
    assert (shown["accounting"], shown["per"], len(shown["assumes"])) == ("pld", "month", 2)
    text = run("ledger", "show", "b.db").stdout
    assert "2 releases cost ε = 0.199996 together at that δ; added up, ε = 0.2, δ = 0" in text
    assert "chosen by what earlier ones published" in text
    plan = json.loads(run("ledger", "plan", "b.db", "--json").stdout)
    assert (plan["epsilon"], plan["mechanism"]) == (0.1, "tight-alp")
    assert 22 <= plan["more"] < 30
    assert f"{plan['more']} more releases of ε = 0.1, δ = 0" in run("ledger", "plan", "b.db").stdout
    assert "0 more releases of ε = 3, δ = 0 fit" in run("ledger", "plan", "b.db", "--epsilon", 3).stdout
    refused = run(*RELEASE[:-1], 3, "-o", "c.sparsedp", "--ledger", "b.db", code=1)
    assert "The table was not read" in refused.stderr
    assert "--epsilon must be given" in run("ledger", "plan", "b.db", "--delta", "1e-7", code=2).stderr


def test_a_ledger_is_upgraded_by_one_command(visits: Path) -> None:
    run("ledger", "create", "b.db", "--epsilon", 1, "--delta", "1e-6")
    assert "accounting must be 'pld'" in run("ledger", "upgrade", "b.db", "--accounting", "basic", code=2).stderr
    assert "past and future" in run("ledger", "upgrade", "b.db", "--accounting", "pld").stderr
    assert json.loads(run("ledger", "show", "b.db", "--json").stdout)["datasets"][0]["accounting"] == "pld"
    assert "--delta must be at least" in run("ledger", "create", "c.db", "-e", 1, "--accounting", "pld", code=2).stderr
    assert not Path("c.db").exists()


@pytest.mark.usefixtures("visits")
def test_a_ledger_of_an_older_version_is_brought_to_the_newest_one() -> None:
    shutil.copy(Path(__file__).parents[1] / "golden" / "ledgers" / "version-3.db", "old.db")
    before = run("ledger", "show", "old.db").stdout
    assert "newest format, with every debit" in run("ledger", "upgrade", "old.db").stderr
    assert Path("old.db").read_bytes().startswith(b"sparsedp ledger, version 4\n")
    assert run("ledger", "show", "old.db").stdout == before


@pytest.mark.usefixtures("visits")
@pytest.mark.parametrize("command", [("plan",), ("upgrade", "--accounting", "pld")])
def test_a_data_set_without_a_budget_comes_with_the_command_that_makes_one(command: tuple[str, ...]) -> None:
    run("ledger", "create", "b.db", "--epsilon", 1, "--delta", "1e-6")
    said = run("ledger", command[0], "b.db", *command[1:], "--dataset", "my data", code=1).stderr
    assert said.strip().endswith("create one with: sparsedp ledger create b.db --dataset 'my data' --epsilon TOTAL")


@pytest.mark.usefixtures("visits")
def test_a_delta_that_is_too_small_for_a_float_is_refused() -> None:
    for command in (("ledger", "create", "b.db"), ("plan", "--nonzero", 5)):
        said = run(*command, "--epsilon", 1, "--delta", "1e-400", code=2).stderr
        assert "must be 0 or at least 5e-324, got '1e-400'" in " ".join(said.split())
    assert not Path("b.db").exists()
    with pytest.raises(ParameterError, match="delta must be 0 or at least 5e-324"):
        Ledger.create("b.db", epsilon=1, delta=Fraction(1, 10**400))  # type: ignore[arg-type]


def test_malformed_data_is_not_debited(visits: Path) -> None:
    run("ledger", "create", "b.db", "--epsilon", 1)
    pd.DataFrame({"user": [1, 2], "url": ["a", None]}).to_parquet("visits.parquet")
    assert "first in row 2" in run(*RELEASE, "-o", "v.sparsedp", "--ledger", "b.db", code=2).stderr
    assert Ledger.open("b.db").entries() == []


def test_a_full_disk_says_that_the_debit_stays(visits: Path) -> None:
    run("ledger", "create", "b.db", "--epsilon", 1)
    # The kernel refuses to write files beyond a limit, as a full disk would; the ledger is smaller
    # than it.
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)); {COMMAND[2]}"
    done = subprocess.run(
        [sys.executable, "-c", limit, *map(str, RELEASE), "-o", "v.sparsedp", "--ledger", "b.db", "--nonzero", "1e6"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "they stay debited" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [name for name in os.listdir(visits) if "sparsedp" in name]
    assert len(Ledger.open("b.db").entries()) == 1


def test_two_processes_race_for_the_last_epsilon(visits: Path) -> None:
    for turn in range(2):
        ledger = f"race{turn}.db"
        run("ledger", "create", ledger, "--epsilon", 1)
        racers = [
            subprocess.Popen(
                [*COMMAND, *map(str, RELEASE), "-o", f"{turn}-{number}.sparsedp", "--ledger", ledger, "--quiet"],
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        codes = sorted((racer.communicate()[0] or racer.returncode) or racer.returncode for racer in racers)
        assert codes == [0, 1]
        assert len(list(visits.glob(f"{turn}-*.sparsedp"))) == 1
        assert len(Ledger.open(ledger).entries()) == 1


def test_killed_at_any_moment_nothing_is_half_written_and_what_was_published_is_debited(visits: Path) -> None:
    run("ledger", "create", "b.db", "--epsilon", 1000)
    release = (*RELEASE, "-o", "v.sparsedp", "--ledger", "b.db", "--force")
    start = time.monotonic()
    checked(Command(*release).wait(), 0)
    whole = time.monotonic() - start
    moments = random.Random(3)
    for _ in range(12):
        Path("v.sparsedp").unlink(missing_ok=True)
        before = len(Ledger.open("b.db").entries())
        command = Command(*release)
        time.sleep(moments.uniform(0, 1.2 * whole))
        os.kill(command.pid, signal.SIGKILL)
        command.wait()
        debits = len(Ledger.open("b.db").entries()) - before
        if Path("v.sparsedp").exists():
            sparsedp.verify("v.sparsedp")
            assert debits == 1
        assert debits in (0, 1)


def test_a_ledger_that_is_none_is_refused(visits: Path) -> None:
    sqlite3.connect("foreign.db").execute("CREATE TABLE a (b)").connection.close()
    run(*RELEASE, "-o", "v.sparsedp", "--ledger", "foreign.db", code=1)
    assert not Path("v.sparsedp").exists()
