"""A small ledger, and everything in it."""

from __future__ import annotations

from pathlib import Path

from sparsedp.budget.ledger import Balance, Entry, Ledger


def small(path: Path) -> Ledger:
    """Two data sets, three debits."""
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
    Ledger.create(path, epsilon=2.0, dataset="other")
    ledger.finish(ledger.spend(epsilon=0.5, delta=1e-7, mechanism="laplace", note="first"), "a.sparsedp sha256:00")
    ledger.spend(epsilon=0.25, dataset="other")
    ledger.spend(epsilon=0.25)
    return ledger


def state(path: Path) -> tuple[list[Balance], list[Entry]]:
    ledger = Ledger.open(path)
    return ledger.datasets(), ledger.entries()
