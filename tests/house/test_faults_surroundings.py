"""Odd surroundings: file names, environment variables, a folder that is gone, a clock that is
wrong.
"""

from __future__ import annotations

import datetime
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sparsedp
from faults import in_child
from releases import answers, make
from sparsedp import BudgetError, _native
from sparsedp.budget import ledger as ledger_module
from sparsedp.budget.ledger import Ledger
from sparsedp.privacy.randomness import reproducible_for_tests

COMMAND = [sys.executable, "-c", "from sparsedp.cli import main; main()"]
EVENTS = pd.DataFrame({"user": range(40), "key": [f"page {number % 4}" for number in range(40)]})

NAMES = {
    "spaces": " a b ",
    "a new line": "a\nb",
    "quotes": "a'b\"c;--",
    "an option": "--output",
    "a pattern": "*?[a]",
    "no UTF-8": os.fsdecode(b"a\xff\xfe"),
    "the longest": "a" * 255,
    "the longest in letters": "ä" * 127,
    "a name of ours": ".a.0123456789abcdef.tmp",
}


@pytest.mark.parametrize("kind", ["tight-alp", "tight-alp-parts"])
@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_saved_and_loaded(name: str, kind: str, tmp_path: Path) -> None:
    """Catches a temporary name that is longer than the name."""
    path = tmp_path / NAMES[name]
    release = make(kind)
    release.save(path)
    sparsedp.verify(path)
    loaded = sparsedp.load(path, allow_reproducible=True)
    assert answers(loaded) == answers(pickle.loads(pickle.dumps(loaded))) == answers(release)
    assert os.listdir(tmp_path) == [NAMES[name]]


@pytest.mark.parametrize("name", ["a new line", "no UTF-8", "the longest"])
def test_any_name_can_be_released_to_and_debited(name: str, tmp_path: Path) -> None:
    """Catches a ledger that refuses the name of the output, after all of the work."""
    EVENTS.to_parquet(tmp_path / "events.parquet")
    Ledger.create(tmp_path / "ledger.db", epsilon=1)
    path = tmp_path / NAMES[name]
    options = ["--key", "key", "--epsilon", "1", f"--output={NAMES[name]}", "--ledger", "ledger.db", "--json"]
    done = subprocess.run(
        [*COMMAND, "release", "events.parquet", *options], cwd=tmp_path, capture_output=True, encoding="utf-8"
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert json.loads(done.stdout)["output"] == NAMES[name]
    sparsedp.verify(path)
    (entry,) = Ledger.open(tmp_path / "ledger.db").entries()
    assert entry.note == NAMES[name].replace(os.fsdecode(b"\xff\xfe"), "\\xff\\xfe")


@pytest.mark.parametrize("threads", ["", "0", "-3", "many", "²", "1e3", "99999999999999999999", " 2 "])
def test_any_number_of_threads_counts_and_builds(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a number that Python accepts as digits but cannot read, one that DuckDB refuses, and the
    1 that 1e3 begins with.
    """
    monkeypatch.delenv("SPARSEDP_THREADS", raising=False)
    everyone = _native.thread_count()
    monkeypatch.setenv("SPARSEDP_THREADS", threads)
    assert _native.thread_count() == {" 2 ": 2, "99999999999999999999": 1024}.get(threads, everyone)
    counts = sparsedp.count(EVENTS, key="key", user="user", max_keys_per_user=1)
    with reproducible_for_tests(1):
        release = sparsedp.release(counts, epsilon=30, delta=1e-6)
    assert release.lookup(["page 0", "page 9"]).round().tolist() == [10, 0]


def test_a_current_folder_that_is_gone_matters_to_relative_paths_only(tmp_path: Path) -> None:
    release = make("tight-alp")
    gone = tmp_path / "gone"
    gone.mkdir()
    EVENTS.to_parquet(tmp_path / "events.parquet")

    def work() -> str:
        os.chdir(gone)
        gone.rmdir()
        release.save(tmp_path / "a")
        make("tight-alp-parts").save(tmp_path / "b")
        assert answers(sparsedp.load(tmp_path / "a", allow_reproducible=True)) == answers(release)
        ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1)
        sparsedp.release({1: 5}, epsilon=1, nonzero=9, path=tmp_path / "c", ledger=ledger)
        for use in (release.save, sparsedp.load, Ledger.open):
            with pytest.raises(FileNotFoundError):
                use("a")
        # Some versions of Python (3.13.0) cannot import the command-line parser from such a folder.
        parser = subprocess.run([sys.executable, "-c", "import pydantic_core"], capture_output=True)
        if parser.returncode:
            (tmp_path / "d").touch()
            return ""
        options = ["--key", "key", "--epsilon", "1", "-o", str(tmp_path / "d"), "-q"]
        done = subprocess.run(
            [*COMMAND, "release", str(tmp_path / "events.parquet"), *options], capture_output=True, text=True
        )
        return done.stderr

    assert in_child(work) == ""
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c", "d", "events.parquet", "ledger.db"]


def test_a_command_needs_no_environment(tmp_path: Path) -> None:
    """No HOME, no PATH, no locale, as for services. Catches settings that are looked for in the
    home folder.
    """
    EVENTS.to_csv(tmp_path / "événements.csv", index=False)
    options = ["--key", "key", "--user", "user", "--max-keys-per-user", "1", "--epsilon", "1", "-o", "ä.sparsedp"]
    for command in (["release", "événements.csv", *options], ["lookup", "ä.sparsedp", "page ä"]):
        done = subprocess.run([*COMMAND, *command], cwd=tmp_path, env={}, capture_output=True)
        assert done.returncode == 0, done.stderr
    sparsedp.verify(tmp_path / "ä.sparsedp")


def test_a_build_does_not_depend_on_the_seed_of_python_s_hashes(tmp_path: Path) -> None:
    """Catches an order of sets or of hashes that reaches the file."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); import sparsedp; from sparsedp.privacy.randomness import *\n"
        "with reproducible_for_tests(1):\n"
        "    counts = {f'key {n}': n for n in range(200)}\n"
        "    sparsedp.release(counts, epsilon=1, delta=1e-6, keep_keys=True, path=sys.argv[1])\n"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", program, tmp_path / seed, Path(__file__).parent], env=environment, check=True
        )
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_a_clock_that_is_set_back_changes_no_order_and_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches debits that are sorted by time, and future ones that are ignored."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1)
    for year in (2040, 1971, 2000):

        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz: Any = None, year: int = year) -> Any:
                return datetime.datetime(year, 1, 1, tzinfo=tz)

        monkeypatch.setattr(ledger_module, "datetime", Clock)
        sparsedp.release({1: 5}, epsilon=0.25, nonzero=9, ledger=ledger)
    assert [(entry.id, entry.time[:4]) for entry in ledger.entries()] == [(1, "2040"), (2, "1971"), (3, "2000")]
    assert ledger.datasets()[0].left_epsilon == 0.25
    with pytest.raises(BudgetError):
        sparsedp.release({1: 5}, epsilon=0.5, nonzero=9, ledger=ledger)
