"""What a process remembers of a ledger is never what the file no longer says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults import in_child
from ledgers import composing, small
from sparsedp.budget import journal, store
from sparsedp.budget.ledger import Ledger
from sparsedp.errors import BudgetError, LedgerError


def test_what_others_spend_is_seen(path: Path) -> None:
    """What was checked before is kept in memory. Catches a balance of yesterday."""
    ledger = composing(path, epsilon=1.0)
    ledger.spend(epsilon=0.5)
    assert in_child(lambda: Ledger.open(path).spend(epsilon=0.375).id) == 2
    with pytest.raises(BudgetError):
        ledger.spend(epsilon=0.25)
    assert [entry.id for entry in ledger.entries()] == [1, 2]
    path.unlink()
    composing(path, epsilon=1.0)
    assert ledger.entries() == []


def test_a_byte_that_changes_after_it_was_checked_is_noticed(path: Path) -> None:
    ledger = small(path)
    content = path.read_bytes()
    for at in range(0, len(content), 3):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        try:
            assert len(ledger.entries()) == 3
        except LedgerError:
            continue
        assert journal.BLOCK <= at < journal.FIRST  # an older mark, of the two


@pytest.mark.parametrize("at", [1, 2])
def test_a_debit_that_was_not_written_is_not_remembered(path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Catches a cache that has a debit which the file lacks, or lacks one that the file has."""
    ledger = composing(path, epsilon=1.0)
    real, calls = os.fsync, []

    def failing(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == at:
            raise OSError(5, "I/O error")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(LedgerError):
            ledger.spend(epsilon=0.75)
    assert len(ledger.entries()) == at - 1
    assert ledger.datasets()[0].spent_epsilon == 0.75 * (at - 1)


def test_a_refused_debit_does_not_make_the_next_one_slow(path: Path) -> None:
    ledger = composing(path, epsilon=1.0)
    ledger.spend(epsilon=0.5)
    with pytest.raises(BudgetError):
        ledger.spend(epsilon=0.9)
    assert ledger.path in store._checked
    assert store._checked[ledger.path].book.changes == []
