"""The contents of a ledger: budgets and entries, and the changes that make them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import LedgerError

VERSION = 2
Change: TypeAlias = list[Any]


class DamageError(Exception):
    """A file is not as it was written."""


@dataclass
class Book:
    """The contents of a ledger: totals and creation times by data set, debits by number, and the
    changes to commit.
    """

    budgets: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    entries: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def change(self, *change: Any) -> None:
        """Add a change to commit: a new budget, a debit, or what was released for a debit."""
        self.apply(list(change))
        self.changes.append(list(change))

    def apply(self, change: Change) -> None:
        """Apply a change, or `ValueError`: budgets are made once, debits are numbered in order and
        finished once.
        """
        match change:
            case ["budget", str(dataset), str(), str(), str()] if dataset not in self.budgets:
                self.budgets[dataset] = (change[2], change[3], change[4])
            case ["debit", int(id), str(dataset), str(), str(), str(), str(), str()] if (
                id == len(self.entries) + 1 and dataset in self.budgets
            ):
                self.entries[id] = (*change[1:], None)
            case ["released", int(id), str(text)] if id in self.entries and self.entries[id][-1] is None:
                self.entries[id] = (*self.entries[id][:-1], text)
            case _:
                raise ValueError("it holds something that is neither a budget nor a debit")


def check_version(path: Path, is_ledger: bool, version: int) -> None:
    """`LedgerError` unless this is a ledger, and not of a newer version."""
    if not is_ledger:
        raise LedgerError(f"path must be a ledger, got {path}, which is empty or is another file")
    if version > VERSION:
        raise LedgerError(f"{path} must have version {VERSION} or older, got {version}; use a newer sparsedp")
