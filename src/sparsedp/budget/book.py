"""The contents of a ledger: budgets and entries, the changes that make them, running sums, and
summaries of all of it, from which a book can go on without the entries before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..errors import LedgerError
from ..privacy.events import DECIDES, GaussianEvent
from .accounting import Composition
from .bounding import surely_fit
from .kinds import EXACT, Debit, Kinds
from .periods import PERIODS, period_of

VERSION = 4
SUMMARIES = 4  # the first version that has them
EVENTS = 3  # and the kinds of budgets
OLDEST = 2  # of files of this format
BASIC, PLD = ACCOUNTINGS = ("basic", "pld")
SUGGESTION = "suggest"  # the mechanism of debits that decide
Change: TypeAlias = list[Any]


class DamageError(Exception):
    """A file is not as it was written."""


class Budget(NamedTuple):
    """The total of a data set, how debits are composed, and the period that it is for."""

    epsilon: str
    delta: str
    created: str
    accounting: str = BASIC
    per: str = ""  # one of PERIODS, or empty: for ever


class Row(NamedTuple):
    """A debit, and what was released for it."""

    id: int
    dataset: str
    epsilon: str
    delta: str
    mechanism: str
    note: str
    time: str
    event: str
    released: str | None

    @property
    def debit(self) -> Debit:
        """What was lost. Files of version 2 have no events, and suggestions decide there too."""
        return Debit(self.epsilon, self.delta, self.event or (DECIDES if self.mechanism == SUGGESTION else ""))


_FIELDS = [int, *[str] * 7]  # of a debit in a file, with its event


@dataclass
class Tally:
    """What was debited to a budget in one period."""

    period: str
    debits: Composition
    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    releases: int = 0

    def add(self, debit: Debit) -> None:
        """Add a debit."""
        self.epsilon = EXACT.add(self.epsilon, Decimal(debit.epsilon))
        self.delta = EXACT.add(self.delta, Decimal(debit.delta))
        self.releases += 1
        self.debits.add(debit)

    def fits(self, budget: Budget, more: Debit, times: int = 1) -> bool:
        """Whether more debits of one kind stay within the budget: if they add up to no more, or if
        they compose to no more, which is composed only if a simple bound does not tell.
        """
        whole = Fraction(budget.epsilon), Fraction(budget.delta)
        epsilon = Fraction(self.epsilon) + times * Fraction(more.epsilon)
        delta = Fraction(self.delta) + times * Fraction(more.delta)
        if epsilon <= whole[0] and delta <= whole[1]:
            return True
        if budget.accounting != PLD:
            return False
        debits = chain(self.debits.kinds.counts.items(), [(more, times)])
        return surely_fit(debits, *whole) or self.debits.together(more, times).delta_at(whole[0]) <= whole[1]


@dataclass
class Book:
    """The contents of a ledger: budgets by data set, debits by number, and the changes to commit.

    A book that was continued from a summary has no entries of debits before it.
    """

    version: int = VERSION
    budgets: dict[str, Budget] = field(default_factory=dict)
    entries: dict[int, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)  # of the latest period of each data set
    last: dict[str, tuple[Debit, str]] = field(default_factory=dict)  # debit and mechanism, by data set
    summarised: int = 0  # debits without entries

    @property
    def debits(self) -> int:
        """How many there are."""
        return self.summarised + len(self.entries)

    def change(self, *change: Any) -> None:
        """Add a change to commit: a new budget, a debit, what was released for a debit, or another
        accounting.
        """
        self.changes.append(list(change))
        self.apply(self.changes[-1])

    def add_budget(self, dataset: str, budget: Budget) -> None:
        """Add a budget to commit, with its kind if that is not the usual one."""
        self.change("budget", dataset, *(budget[:3] if budget == Budget(*budget[:3]) else budget))

    def add_debit(self, row: Row) -> None:
        """Add a debit to commit, with its event if there is one; files of version 2 have none."""
        self.change("debit", *(row[:-1] if row.event and self.version >= EVENTS else row[:-2]))

    def apply(self, change: Change) -> None:
        """Apply a change, or `ValueError`: budgets are made once, debits are numbered in order and
        finished once, and a summary says what the changes before it say.
        """
        new = self.version >= EVENTS
        match change:
            case ["debit", *fields]:  # of all changes, nearly each is one of these
                self._debit(self._row(fields))
            case ["budget", str(dataset), *fields] if dataset not in self.budgets and len(fields) in (3, 5)[: 1 + new]:
                self._open(dataset, Budget(*_texts(fields)))
            case ["released", int(id), str(text)] if id in self.entries and self.entries[id].released is None:
                self.entries[id] = self.entries[id]._replace(released=text)
            case ["released", int(id), str()] if 0 < id <= self.summarised:
                pass  # of a debit before the summary: only whoever reads all entries needs it
            case ["accounting", str(dataset), "pld", str()] if (
                new and dataset in self.budgets and self.budgets[dataset].accounting == BASIC
            ):
                self.budgets[dataset] = self.budgets[dataset]._replace(accounting=PLD)
            case ["summary", int(), str(), *stated] if self.version >= SUMMARIES and stated == self.stated():
                pass
            case _:
                raise ValueError("it holds something that is neither a budget nor a debit")

    def stated(self) -> list[Any]:
        """What a summary says: the number of debits, and for each data set its budget, its last
        debit, and what was debited in its latest period.
        """
        datasets: list[Any] = []
        for name, tally in self.tallies.items():
            debit, mechanism = self.last.get(name, (None, ""))
            sums = [tally.period, str(tally.epsilon), str(tally.delta), tally.releases, *tally.debits.kinds.stated()]
            datasets.append([name, list(self.budgets[name]), [*debit, mechanism] if debit else [], sums])
        return [self.debits, datasets]

    @classmethod
    def of_summary(cls, version: int, debits: int, datasets: list[Any]) -> Book:
        """The book that a summary speaks of, without entries. What is wrong with it makes any kind
        of error, or a book that says something else.
        """
        book = cls(version, summarised=debits)
        for name, budget, last, (period, epsilon, delta, releases, bits, counts) in datasets:
            book._open(name, Budget(*_texts(budget)))
            if last:
                book.last[name] = (Debit(*_texts(last[:3])), last[3])
            debits_of = Composition(float(budget[1]), Kinds.read(bits, counts))
            book.tallies[name] = Tally(period, debits_of, Decimal(epsilon), Decimal(delta), releases)
        return book

    def all_changes(self) -> Iterator[Change]:
        """The changes that make a file of the newest version with the same contents."""
        new = Book()
        for name, budget in self.budgets.items():
            new.add_budget(name, budget)
        for row in self.entries.values():
            new.add_debit(row)
        yield from new.changes
        yield from (["released", row.id, row.released] for row in self.entries.values() if row.released is not None)

    def tally(self, dataset: str, now: str) -> Tally:
        """What was debited in the period of this time, or in the latest one if the clock was set
        back.
        """
        budget, tally = self.budgets[dataset], self.tallies[dataset]
        period = period_of(now, budget.per)
        return Tally(period, Composition(float(budget.delta))) if period > tally.period else tally

    def _open(self, dataset: str, budget: Budget) -> None:
        if not (_amount(budget.epsilon) and _amount(budget.delta) < 1):
            raise ValueError("it has a budget that is out of range")
        if budget.accounting not in ACCOUNTINGS or budget.per not in ("", *PERIODS):
            raise ValueError("it has a budget of another kind")
        self.budgets[dataset] = budget
        period = period_of(budget.created, budget.per)
        self.tallies[dataset] = Tally(period, Composition(float(budget.delta)))

    def _row(self, fields: list[Any]) -> Row:
        """The entry of a debit, or `ValueError`."""
        has_event = len(fields) == len(_FIELDS) and self.version >= EVENTS
        if list(map(type, fields)) != (_FIELDS if has_event else _FIELDS[:-1]):
            raise ValueError("it has a debit of another kind")
        row = Row._make([*fields, None] if has_event else [*fields, "", None])
        if row.id != self.debits + 1 or row.dataset not in self.budgets:
            raise ValueError("it has a debit out of order, or to no budget")
        return row

    def _debit(self, row: Row) -> None:
        tally, debit = self.tally(row.dataset, row.time), row.debit
        if debit not in tally.debits.kinds.counts:  # most are like others
            if not 0 <= _amount(debit.delta) < 1 or not _amount(debit.epsilon):
                raise ValueError("it has a debit that is out of range")
            if debit.event not in ("", DECIDES):
                GaussianEvent.read(debit.event)
        tally.add(debit)
        self.tallies[row.dataset] = tally
        self.last[row.dataset] = (debit, row.mechanism)
        self.entries[row.id] = row


def _texts(values: list[Any]) -> list[Any]:
    if set(map(type, values)) - {str}:
        raise ValueError("it has a value that is not text")
    return values


def _amount(text: str) -> float:
    """A decimal that is not negative, or `ValueError`."""
    if not 0 <= (amount := float(text)) < float("inf"):
        raise ValueError("it has an amount that is out of range")
    return amount


def check_version(path: Path, is_ledger: bool, version: int) -> None:
    """`LedgerError` unless this is a ledger, and not of a newer version."""
    if not is_ledger:
        raise LedgerError(f"path must be a ledger, got {path}, which is empty or is another file")
    if version > VERSION:
        raise LedgerError(f"{path} must have version {VERSION} or older, got {version}; use a newer sparsedp")
