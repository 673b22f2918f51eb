"""Ledgers shared by processes and threads, and processes that are killed: no debit is lost, none is
granted twice.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from multiprocessing.pool import Pool
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from faults import HANGS
from sparsedp.budget import store
from sparsedp.budget.ledger import Ledger
from sparsedp.errors import BudgetError

# New processes, made by one that has imported what they need.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])
ROUNDS = 60

_together: Barrier


def _meet(barrier: Barrier) -> None:
    global _together
    _together = barrier


def pool(processes: int) -> Pool:
    """Processes that can wait for each other."""
    return PROCESSES.Pool(processes, _meet, (PROCESSES.Barrier(processes),))


def won(attempt: Callable[[], object]) -> bool:
    _together.wait(HANGS)
    try:
        attempt()
    except BudgetError:
        return False
    return True


def race_to_spend(path: Path, _: int) -> list[bool]:
    ledger = Ledger.open(path, timeout=HANGS)
    return [won(partial(ledger.spend, epsilon=0.5, dataset=f"round {round}")) for round in range(ROUNDS)]


def race_to_compose(path: Path, _: int) -> list[bool]:
    ledger = Ledger.open(path, timeout=HANGS)
    return [won(partial(ledger.spend, epsilon=0.1, dataset=f"round {round}")) for round in range(ROUNDS)]


def race_to_create(path: Path, _: int) -> list[bool]:
    return [
        won(partial(Ledger.create, path.with_name(f"{round}"), epsilon=1.0, timeout=HANGS)) for round in range(ROUNDS)
    ]


@pytest.mark.promise(18)
def test_of_two_processes_one_gets_the_last_epsilon(path: Path, figure: Callable[[str], None]) -> None:
    """Catches a balance that is read before the transaction, or in one that is not immediate: both
    would win, or one would fail with a lock.
    """
    for round in range(ROUNDS):
        Ledger.create(path, epsilon=0.9, dataset=f"round {round}").spend(epsilon=0.2, dataset=f"round {round}")
    with pool(2) as workers:
        first, second = workers.map(partial(race_to_spend, path), range(2), chunksize=1)
    assert all(mine != other for mine, other in zip(first, second, strict=True))
    assert {balance.left_epsilon for balance in Ledger.open(path).datasets()} == {0.2}
    figure(f"two processes race {ROUNDS} times for the last ε: one wins each time, and what is left is exact")


def test_of_two_processes_one_gets_the_last_composed_epsilon(path: Path) -> None:
    """As many releases as fit but for one, which is more than add up."""
    time = "2026-01-01T00:00:00+00:00"
    fitting = Ledger.create(path, epsilon=2.3, delta=1e-6, accounting="pld").plan(epsilon=0.1).more
    assert fitting > 23
    for round in range(ROUNDS):
        Ledger.create(path, epsilon=2.3, delta=1e-6, accounting="pld", dataset=f"round {round}")
    with store.transaction(path, HANGS, write=True) as book:
        for round in range(ROUNDS):
            for _ in range(fitting - 1):
                book.change("debit", len(book.entries) + 1, f"round {round}", "0.1", "0.0", "", "", time)
    assert Ledger.open(path).plan(epsilon=0.1, dataset="round 1").more == 1
    with pool(2) as workers:
        first, second = workers.map(partial(race_to_compose, path), range(2), chunksize=1)
    assert all(mine != other for mine, other in zip(first, second, strict=True))
    assert len(Ledger.open(path).entries()) == fitting * ROUNDS


def test_of_two_processes_one_creates_the_file(path: Path) -> None:
    """Catches a new file that replaces the one that another process has just made, and one that is
    seen half made.
    """
    with pool(2) as workers:
        first, second = workers.map(partial(race_to_create, path), range(2), chunksize=1)
    assert all(mine != other for mine, other in zip(first, second, strict=True))
    assert sorted(file.name for file in path.parent.iterdir()) == sorted(str(round) for round in range(ROUNDS))


def spend_often(path: Path, _: int) -> list[int]:
    ledger = Ledger.open(path, timeout=HANGS)
    _together.wait(HANGS)
    ids = []
    for _ in range(25):
        receipt = ledger.spend(epsilon=0.001, delta=1e-9)
        ledger.finish(receipt, str(receipt.id))
        ids.append(receipt.id)
    return ids


def test_no_debit_of_many_processes_is_lost(path: Path) -> None:
    """Catches ids assigned twice, lost updates, and processes that do not wait for locks."""
    Ledger.create(path, epsilon=0.2, delta=2e-7)
    with pool(8) as workers:
        ids = [id for of_one in workers.map(partial(spend_often, path), range(8), chunksize=1) for id in of_one]
    ledger = Ledger.open(path)
    assert sorted(ids) == list(range(1, 201))
    assert [(entry.id, entry.released) for entry in ledger.entries()] == [(id, str(id)) for id in range(1, 201)]
    (balance,) = ledger.datasets()
    assert (balance.left_epsilon, balance.left_delta) == (0.0, 0.0)
    with pytest.raises(BudgetError):
        ledger.spend(epsilon=0.001)


def test_threads_share_a_ledger(path: Path) -> None:
    """Catches a connection shared between threads, and one whose closing drops the locks of the
    others.
    """
    ledger = Ledger.create(path, epsilon=0.5, timeout=HANGS)

    def attempt(_: int) -> bool:
        ledger.datasets()
        try:
            ledger.spend(epsilon=0.01)
        except BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(80))) == 50
    assert ledger.datasets()[0].left_epsilon == 0


SPENDER = """
import sys
from sparsedp.budget import store
from sparsedp.budget.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
print("ready", flush=True)
while True:
    receipt = ledger.spend(epsilon=0.001)
    print(receipt.id, flush=True)
    ledger.finish(receipt, "released")
"""


def test_a_killed_process_has_spent_what_it_said(path: Path) -> None:
    """Catches receipts that are given before the commit, and files that a kill leaves unusable."""
    Ledger.create(path, epsilon=1000.0)
    moments = random.Random(1)
    seen: list[int] = []
    for _ in range(15):
        with subprocess.Popen([sys.executable, "-c", SPENDER, str(path)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            said = "".join(child.stdout.readline() for _ in range(moments.randint(0, 3)))
            time.sleep(moments.random() * 0.02)
            child.send_signal(signal.SIGKILL)
            said += child.stdout.read()
        seen += [int(line) for line in said.splitlines(keepends=True) if line.endswith("\n")]
        ledger = Ledger.open(path)
        entries = ledger.entries()
        assert {entry.id for entry in entries} >= set(seen)
        assert [entry.id for entry in entries] == list(range(1, len(entries) + 1))
        assert ledger.datasets()[0].spent_epsilon == float(len(entries) * Fraction("0.001"))
    assert len(seen) > 15
    assert len(entries) <= len(seen) + 15  # at most one debit of each child was not reported


def die_in_the_middle(path: Path, most: int) -> None:
    real = os.pwrite

    def torn(descriptor: int, content: bytes, at: int) -> int:
        real(descriptor, content[:most], at)
        os.kill(os.getpid(), signal.SIGKILL)
        return most

    os.pwrite = torn  # type: ignore[assignment]  # takes any buffer
    Ledger.open(path).spend(epsilon=0.25, note="note " * 50)


@pytest.mark.parametrize("most", [0, 1, 64, 66, 300])
def test_a_process_killed_before_the_commit_has_spent_nothing(path: Path, most: int) -> None:
    """Part of its line is in the file. Catches a torn line that makes the file unusable, or that
    another follows.
    """
    Ledger.create(path, epsilon=1.0).spend(epsilon=0.5)
    before = path.read_bytes()
    child = PROCESSES.Process(target=die_in_the_middle, args=(path, most))
    child.start()
    child.join(HANGS)
    assert child.exitcode == -signal.SIGKILL
    torn = path.read_bytes()
    assert torn[: len(before)] == before
    assert len(torn) == len(before) + most
    ledger = Ledger.open(path)
    assert ledger.datasets()[0].left_epsilon == 0.5
    assert path.read_bytes() == torn  # reading changes nothing
    assert ledger.spend(epsilon=0.5).id == 2
    assert [entry.epsilon for entry in Ledger.open(path).entries()] == [0.5, 0.5]
