"""Ledgers of older versions: read as they are, and upgraded without losing a debit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgers import checked, composing, small, state, version_1, version_2
from sparsedp.budget import journal
from sparsedp.budget.ledger import Ledger
from sparsedp.errors import BudgetError, LedgerError, ParameterError


def test_suggestions_of_old_files_are_added_after_an_upgrade(path: Path) -> None:
    """Files of version 2 have no events. Catches suggestions that are composed."""
    version_2(path)
    old = Ledger.create(path, epsilon=1.0, delta=1e-6, dataset="daily")
    new = composing(path.with_name("new"), epsilon=1.0, dataset="daily")
    for ledger in (old, new):
        for _ in range(5):
            ledger.spend(epsilon=0.1, dataset="daily", mechanism="suggest", event="decides")
    assert path.read_bytes().startswith(journal.HEADS[2])
    old.upgrade(dataset="daily")
    assert old.plan(epsilon=0.01, dataset="daily").more == new.plan(epsilon=0.01, dataset="daily").more
    assert old.datasets()[0].composed_epsilon == new.datasets()[0].composed_epsilon >= 0.5


def test_a_ledger_of_version_2_is_read_and_spent_as_it_is(path: Path) -> None:
    ledger = version_2(path)
    assert [entry.event for entry in ledger.entries()] == [None] * 3
    assert {balance.accounting for balance in ledger.datasets()} == {"basic"}
    receipt = ledger.spend(epsilon=0.125, delta=1e-9, event="decides")
    assert receipt.event is None  # such files have no events
    ledger.finish(receipt, "x")
    Ledger.create(path, epsilon=1, dataset="new")
    assert path.read_bytes().startswith(journal.HEADS[2])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_upgrade_keeps_every_debit_and_is_recorded(path: Path, version: int) -> None:
    """Catches a conversion that loses debits, and a total that is opened anew."""
    makers: dict[int, Callable[[Path], object]] = {1: version_1, 2: version_2, 3: small}
    makers[version](path)
    balances, entries = state(path)
    ledger = Ledger.open(path)
    ledger.upgrade()
    after, same = state(path)
    assert same == entries
    assert [balance.spent_epsilon for balance in after] == [balance.spent_epsilon for balance in balances]
    assert [balance.epsilon for balance in after] == [balance.epsilon for balance in balances]
    assert [balance.accounting for balance in after] == ["pld", "basic"]
    assert after[0].composed_epsilon <= after[0].spent_epsilon
    assert path.read_bytes().startswith(journal.HEAD)
    assert b'["accounting","default","pld","20' in path.read_bytes()
    for dataset in ("default", "other", "no"):
        with pytest.raises(BudgetError, match="dataset must have"):
            ledger.upgrade(dataset=dataset)
    with pytest.raises(ParameterError, match="a ledger cannot go back to 'basic'"):
        ledger.upgrade(accounting="basic")
    with pytest.raises(BudgetError):
        ledger.spend(epsilon=0.9)


def test_a_refused_upgrade_leaves_an_old_file_as_it_is(path: Path) -> None:
    ledger = version_2(path)
    before = path.read_bytes()
    with pytest.raises(BudgetError, match="must have a δ of at least"):
        ledger.upgrade(dataset="other")
    assert path.read_bytes() == before


@pytest.mark.parametrize("make", [version_1, version_2])
def test_a_refused_budget_leaves_an_old_file_as_it_is(path: Path, make: Callable[[Path], object]) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(BudgetError, match="dataset must be new, got 'default'"):
        composing(path)
    assert path.read_bytes() == before


def test_a_budget_of_a_new_kind_renews_a_file_of_version_2(path: Path) -> None:
    version_2(path)
    before = state(path)
    composing(path, dataset="composed")
    after = state(path)
    assert after[1] == before[1]
    assert [b for b in after[0] if b.dataset != "composed"] == before[0]
    assert path.read_bytes().startswith(journal.HEAD)


NEVER_WRITTEN: list[Any] = [
    ["budget", "new", "1.0", "1e-06", "2026-01-01T00:00:00+00:00", "rdp", ""],
    ["budget", "new", "1.0", "1e-06", "2026-01-01T00:00:00+00:00", "pld", "year"],
    ["budget", "new", "1.0", "1e-06", "yesterday", "basic", "day"],
    ["budget", "new", "0.0", "1e-06", "2026-01-01T00:00:00+00:00"],
    ["debit", 4, "default", "-0.5", "0.0", "", "", ""],
    ["debit", 4, "default", "nan", "0.0", "", "", ""],
    ["debit", 4, "default", "0.5", "1.0", "", "", ""],
    ["debit", 4, "default", "0.1", "0.0", "", "", "", "gaussian"],
    ["debit", 4, "default", "0.1", "0.0", "", "", "", "", ""],
    ["accounting", "default", "basic", "2026-01-01T00:00:00+00:00"],
    ["accounting", "none", "pld", "2026-01-01T00:00:00+00:00"],
]


@pytest.mark.parametrize("change", NEVER_WRITTEN, ids=str)
@pytest.mark.parametrize("version", [2, 3])
def test_a_line_that_no_ledger_has_is_refused(path: Path, change: list[Any], version: int) -> None:
    small(path) if version == 3 else version_2(path)
    content = path.read_bytes()
    path.write_bytes(content + journal.line_of(checked(path).ends[-1], [change])[0])
    with pytest.raises(LedgerError, match="is not a ledger, or is damaged"):
        Ledger.open(path)
