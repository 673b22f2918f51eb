"""`suggest` and `release --max-keys-per-user auto`: what is refused before anything is read, and what
is spent.
"""

from __future__ import annotations

import csv
import json
import math
import os
import random
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sparsedp
from commands import Command
from sparsedp import BudgetError, InputError, ParameterError, SpentError, SuggestionWarning
from sparsedp.budget.ledger import Ledger
from sparsedp.counting import suggesting
from sparsedp.counting.suggesting import DEFAULT_KEYS, GRID, Spending
from sparsedp.privacy.randomness import reproducible_for_tests


def written(path: Path, rows: list[tuple[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("u", "k"), *rows])
    return path


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in an empty folder, which becomes the current folder."""
    monkeypatch.chdir(tmp_path)
    generator = random.Random(1)
    rows = [
        (f"user {user}", f"key {generator.randrange(50)}")
        for user in range(12)
        for _ in range(generator.choice((1, 2, 9, 40, 200)))
    ]
    return written(tmp_path / "t.csv", rows)


ASKED = ("t.csv", "--key", "k", "--user", "u", "--epsilon", 1)
AUTO = ("release", *ASKED, "--max-keys-per-user", "auto", "-o", "t.sparsedp")


def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = Command(*arguments).wait()
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"share": 0}, "share must be positive"),
        ({"share": 1}, r"share must be in \(0, 1\)"),
        ({"share": math.nan}, "share must be a finite number"),
        ({"share": -0.5}, "share must be positive"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"epsilon": math.inf}, "epsilon must be"),
        ({"delta": -1}, "delta must be"),
        ({"delta": math.nan}, "delta must be"),
        ({"user": None}, "user must be given|max_keys_per_user"),
        ({"noise": "gaussian"}, "delta"),
        ({"noise": "uniform"}, "noise must be"),
        ({"mechanism": "magic"}, "mechanism"),
        ({"max_per_key": 0}, "max_per_key must be"),
        ({"nulls": "keep"}, "nulls must be"),
    ],
)
def test_parameters_are_refused_before_the_table_is_read(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        sparsedp.suggest("no.csv", **{"key": "k", "user": "u", "epsilon": 1.0, **wrong})


def test_commands_refuse_before_the_table_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # there is no t.csv
    Ledger.create("l.db", epsilon=0.05)
    assert "Missing option '--epsilon'" in run("suggest", "t.csv", "--key", "k", "--user", "u", code=2).stderr
    assert "Missing option '--epsilon'" in run(*AUTO[:5], "--delta", "1e-9", "-o", "a", code=2).stderr
    assert "Missing option '--user'" in run("suggest", "t.csv", "--key", "k", "--epsilon", 1, code=2).stderr
    for share in (0, 1, "nan", -1):
        assert "--share" in run("suggest", *ASKED, "--share", share, code=2).stderr
    for command in (("suggest", *ASKED), AUTO):
        assert "The table was not read" in run(*command, "--ledger", "l.db", code=1).stderr
    no_user = ("release", "t.csv", "--key", "k", "--epsilon", 1, "--max-keys-per-user", "auto", "-o", "a")
    for more in ((), ("--dry-run",)):
        assert "--user must be given" in run(*no_user, *more, code=2).stderr
    assert Ledger.open("l.db").entries() == []
    assert sorted(os.listdir()) == ["l.db"]


def test_a_plot_that_cannot_be_drawn_spends_nothing(events: Path) -> None:
    """Catches a suggestion that is paid for and lost with its plot."""
    Ledger.create("l.db", epsilon=1)
    with_ledger = ("suggest", *ASKED, "--ledger", "l.db", "--plot")
    assert "--plot must end in one of" in run(*with_ledger, "a.xyz", code=2).stderr
    assert "No such file or directory: no/a.png" in run(*with_ledger, "no/a.png", code=2).stderr
    gone = "; ".join(f"sys.modules[{name!r}] = None" for name in ("matplotlib", "matplotlib.figure"))
    program = f"import sys; {gone}; from sparsedp.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, with_ledger), "a.png"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'sparsedp[plot]'" in done.stderr
    assert Ledger.open("l.db").entries() == []
    run(*with_ledger, "a.png")
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert len(Ledger.open("l.db").entries()) == 1


def test_bad_rows_are_refused_and_nothing_is_spent(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("u,k\n1,a\n,b\n2,\n")
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    with pytest.raises(InputError, match="column 'k' is null in 1 row, first in row 3; column 'u' is null in 1 row"):
        sparsedp.suggest(path, key="k", user="u", epsilon=1.0, ledger=ledger)
    with pytest.raises(InputError, match="no column"):
        sparsedp.suggest(path, key="k", user="v", epsilon=1.0, ledger=ledger)
    assert ledger.entries() == []
    sparsedp.suggest(path, key="k", user="u", epsilon=1.0, nulls="drop", ledger=ledger)
    assert len(ledger.entries()) == 1


def test_a_suggestion_for_programs(events: Path) -> None:
    made = json.loads(run("suggest", *ASKED, "--delta", "1e-9", "--json").stdout)
    assert set(made) == {"max_keys_per_user", "epsilon", "left_epsilon", "supported", "typical_count", "choices"}
    assert [choice["max_keys_per_user"] for choice in made["choices"]] == list(GRID)
    if made["supported"]:  # by noise, as there are 12 users
        best = min(made["choices"], key=lambda choice: choice["error"])
        assert made["max_keys_per_user"] == best["max_keys_per_user"]
    else:
        assert {made["typical_count"], *(choice["error"] for choice in made["choices"])} == {None}
    assert made["epsilon"] + made["left_epsilon"] <= 1
    shown = run("suggest", *ASKED, "--share", "1/4").stdout.splitlines()
    assert "chosen with ε = 0.25 (ε = 0.75 is left)" in shown[0]
    assert sum(line.startswith("  → ") for line in shown) == 1
    assert len(shown) == 3 + len(GRID)


def test_a_release_that_chooses_its_bound_has_two_entries_that_add_up(events: Path) -> None:
    """Catches a release with all of ε after a suggestion, and a suggestion that is not debited."""
    Ledger.create("l.db", epsilon=1, delta=1e-6)
    said = run(*AUTO, "--delta", "1e-6", "--ledger", "l.db").stderr
    first, second = Ledger.open("l.db").entries()
    assert (first.mechanism, first.delta) == ("suggest", 0)
    release = sparsedp.load("t.sparsedp")
    assert release.mechanism in second.mechanism
    assert second.epsilon == pytest.approx(release.epsilon, rel=1e-3)
    assert Fraction(first.epsilon) + Fraction(second.epsilon) <= 1
    assert first.epsilon == Spending.of(1.0, 0.0, 0.07).spent
    assert first.epsilon + second.epsilon > 0.99
    contribution = release.plan.problem.contribution
    assert contribution is not None
    assert f"--max-keys-per-user {contribution.keys}, chosen with ε = 0.07" in said
    assert "t.sparsedp" in second.note
    run(*AUTO, "--force", "--ledger", "l.db", code=1)  # nothing is left
    assert len(Ledger.open("l.db").entries()) == 2


def test_a_release_with_a_bound_that_the_data_does_not_support_says_so(
    events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = suggesting.choose
    monkeypatch.setattr(suggesting, "choose", lambda classes, *given: own(0 * classes, *given))
    from sparsedp.cli import app, releasing

    assert releasing  # which adds the command
    with pytest.warns(SuggestionWarning, match="state a bound, or let suggest spend a larger share"):
        CliRunner().invoke(app.app, [*map(str, AUTO), "--quiet"])
    contribution = sparsedp.load("t.sparsedp").plan.problem.contribution
    assert contribution is not None
    assert contribution.keys == DEFAULT_KEYS


def test_a_dry_run_spends_nothing(events: Path) -> None:
    Ledger.create("l.db", epsilon=1)
    done = run(*AUTO, "--ledger", "l.db", "--dry-run")
    assert "--max-keys-per-user auto would spend ε = 0.07" in done.stderr
    assert "would spend   ε = 0.93" in done.stdout
    assert Ledger.open("l.db").entries() == []


def test_the_debit_comes_before_the_noise(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches noise that is drawn, and may be seen, before it is paid for."""
    ledger = Ledger.create("l.db", epsilon=1)
    own = suggesting.publish

    def watched(*given: Any) -> Any:
        assert len(ledger.entries()) == 1
        return own(*given)

    monkeypatch.setattr(suggesting, "publish", watched)
    sparsedp.suggest(events, key="k", user="u", epsilon=1.0, ledger="l.db")

    def failing(*given: Any) -> Any:
        raise OSError("no more words")

    monkeypatch.setattr(suggesting, "publish", failing)
    with pytest.raises(SpentError, match="stay debited: no more words"):
        sparsedp.suggest(events, key="k", user="u", epsilon=1.0, ledger=ledger)
    assert len(ledger.entries()) == 2
    tight = Ledger.create("small.db", epsilon=0.01)
    monkeypatch.setattr(suggesting, "fresh_randomness", pytest.fail)
    with pytest.raises(BudgetError):
        sparsedp.suggest(events, key="k", user="u", epsilon=1.0, ledger=tight)


@pytest.mark.parametrize(
    ("where", "debits"),
    [
        ("sparsedp.counting.suggesting.habits", 0),
        ("sparsedp.counting.suggesting.publish", 1),
        ("sparsedp.counting.suggesting.choose", 1),
        ("sparsedp.counting.local.count_table", 1),
        ("sparsedp.releasing.building.planned", 2),
    ],
)
def test_a_release_that_is_killed_loses_no_debit(where: str, debits: int, events: Path) -> None:
    """Killed where noise is drawn, or later: what was drawn is debited, and no file is half there."""
    Ledger.create("l.db", epsilon=1)
    module, name = where.rsplit(".", 1)
    program = (
        f"import os, {module}\n"
        f"{module}.{name} = lambda *_, **__: os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
        "from sparsedp.cli import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, AUTO), "--ledger", "l.db"], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [entry.mechanism == "suggest" for entry in Ledger.open("l.db").entries()] == [True, False][:debits]
    assert not Path("t.sparsedp").exists()


def test_count_chooses_the_bound_itself(events: Path) -> None:
    """Catches another choice than that of `suggest`, a debit that is not made, and ε spent twice."""
    Ledger.create("l.db", epsilon=1, delta=1e-9)
    with reproducible_for_tests(4):
        alone = sparsedp.suggest(events, key="k", user="u", epsilon=0.5, delta=1e-9)
    with reproducible_for_tests(4):
        counts = sparsedp.count(
            events, key="k", user="u", max_keys_per_user="auto", epsilon=0.5, delta=1e-9, ledger="l.db"
        )
    assert counts.contribution.keys == alone.max_keys_per_user
    assert counts.left_epsilon == alone.left
    fixed = sparsedp.count(events, key="k", user="u", max_keys_per_user=alone.max_keys_per_user)
    assert dict(zip(counts.keys.to_pylist(), counts.units, strict=True)) == dict(
        zip(fixed.keys.to_pylist(), fixed.units, strict=True)
    )
    with pytest.raises(ParameterError, match=r"epsilon must be at most 0\.46.*left_epsilon"):
        sparsedp.release(counts, epsilon=0.5, delta=1e-9)
    assert counts.left_epsilon is not None
    release = sparsedp.release(counts, epsilon=counts.left_epsilon, delta=1e-9, ledger="l.db")
    spent = [entry.epsilon for entry in Ledger.open("l.db").entries()]
    assert spent == [alone.epsilon, counts.left_epsilon]
    assert sum(map(Fraction, spent)) <= Fraction(0.5)
    assert release.plan.problem.contribution == counts.contribution


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_keys_per_user": "auto"}, "needs epsilon="),
        ({"max_keys_per_user": "auto", "epsilon": 1.0, "user": None}, "user must be given"),
        ({"max_keys_per_user": 3, "epsilon": 1.0}, "pass them to release"),
        ({"max_keys_per_user": 3, "ledger": "l.db"}, "pass them to release"),
        ({"max_keys_per_user": "many"}, "max_keys_per_user must be"),
        ({"max_keys_per_user": "auto", "epsilon": -1.0}, "epsilon must be"),
    ],
)
def test_auto_is_refused_before_the_table_is_read(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        sparsedp.count("missing.csv", **{"key": "k", "user": "u", **wrong})


def test_auto_reads_a_stream_once(events: Path) -> None:
    """Catches a second opening of what can be read only once."""
    reader = pq.ParquetFile(events) if events.suffix == ".parquet" else None
    table = pa.csv.read_csv(events) if reader is None else reader.read()
    options: dict[str, Any] = {"key": "k", "user": "u", "max_keys_per_user": "auto", "epsilon": 1.0}
    with reproducible_for_tests(1):
        streamed = sparsedp.count(table.to_reader(), **options)
    with reproducible_for_tests(1):
        assert len(streamed) == len(sparsedp.count(table, **options))


def test_auto_with_real_values(events: Path) -> None:
    table = pa.table({"u": [1, 1, 2], "k": ["a", "b", "a"], "v": [0.5, 0.25, 2.0]})
    counts = sparsedp.count(
        table, key="k", user="u", value="v", step=0.25, max_per_key=1.5, max_keys_per_user="auto", epsilon=1.0
    )
    assert counts.step == Fraction(1, 4)


def test_threshold_may_be_granted_a_delta_that_it_does_not_use(events: Path) -> None:
    """Catches a loader that refuses what `release` wrote."""
    run(*AUTO, "--delta", "1e-9", "--mechanism", "threshold")
    assert sparsedp.load("t.sparsedp").delta == 0
