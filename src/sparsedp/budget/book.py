"""What a ledger says: budgets and entries, and the changes that make them."""

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
    """What a ledger says: totals and creation by data set, debits by number, and the changes to commit."""

    budgets: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    entries: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def change(self, *change: Any) -> None:
        """A new budget, a debit or what was released for one, to be committed."""
        self.apply(list(change))
        self.changes.append(list(change))

    def apply(self, change: Change) -> None:
        """`ValueError` for what is none: budgets are made once, debits numbered in order, and finished once."""
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
                raise ValueError("it holds something that is no budget and no debit")


def check_version(path: Path, is_ledger: bool, version: int) -> None:
    """`LedgerError` for what is no ledger, or one of a newer version."""
    if not is_ledger:
        raise LedgerError(f"path must be a ledger, got {path}, which is empty or something else")
    if version > VERSION:
        raise LedgerError(f"{path} must be of version {VERSION} or older, got {version}; use a newer sparsedp")
