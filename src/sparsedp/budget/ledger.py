"""The privacy budgets of data sets, each spent only once: totals and debits in one file.

By basic composition, releases of the same data with (ε₁, δ₁), (ε₂, δ₂), … are together (Σε,
Σδ)-differentially private. A ledger holds the total of each data set, which never changes, and a
debit for each release, made before its noise is drawn and never refunded: what a failed release
left on a disk or a screen cannot be recalled either.

ε and δ count as the decimals that their floats print as, so ten debits of 0.1 use up 1.0. Sums are
exact fractions.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import BudgetError, ParameterError
from ..privacy.numbers import check_delta, check_epsilon, check_number
from . import store
from .book import Book

LONGEST_NAME = 200
LONGEST_TEXT = 10_000
LONGEST_WAIT = 1_000_000


@dataclass(frozen=True)
class Receipt:
    """A debit, which pays for one release."""

    id: int
    dataset: str
    epsilon: float
    delta: float
    mechanism: str
    note: str
    time: str  # UTC, ISO 8601, for people to read: the ids give the order


@dataclass(frozen=True)
class Entry(Receipt):
    """A debit and what was released for it, or None if it was debited and never finished."""

    released: str | None


@dataclass(frozen=True)
class Balance:
    """The total of a data set, what is spent, rounded up to a float, and what is left, rounded
    down.
    """

    dataset: str
    epsilon: float
    delta: float
    spent_epsilon: float
    spent_delta: float
    left_epsilon: float
    left_delta: float
    created: str


@dataclass(frozen=True)
class Ledger:
    """A ledger file, for any number of threads and processes; an operation waits for others, at
    most `timeout` seconds.

    Each operation opens the file again, so a ledger may be shared by threads, survive a fork, and
    be pickled.
    """

    path: Path
    timeout: float

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float = 0.0,
        dataset: str = "default",
        timeout: float = 30.0,
    ) -> Ledger:
        """Add a data set with its total, which can never be changed, to a new file or an existing
        ledger.
        """
        budget = (_name(dataset), repr(check_epsilon(epsilon)), repr(_delta(delta)), _now())
        ledger = cls(Path(path).absolute(), _seconds(timeout))
        if ledger.path.exists() or not store.make(ledger.path, ledger.timeout, "budget", *budget):
            with ledger._transaction(write=True) as book:
                if budget[0] in book.budgets:
                    raise BudgetError(
                        f"dataset must be new, got {dataset!r}, which has a budget in {path} that never changes; "
                        "open the ledger and spend what is left"
                    )
                book.change("budget", *budget)
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = 30.0) -> Ledger:
        """An existing ledger, checked completely."""
        ledger = cls(Path(path).absolute(), _seconds(timeout))
        with ledger._transaction():
            return ledger

    def spend(
        self, *, epsilon: float, delta: float = 0.0, dataset: str = "default", mechanism: str = "", note: str = ""
    ) -> Receipt:
        """Debit a release before its noise is drawn; `BudgetError`, and no debit, if it needs more
        than is left.
        """
        dataset, epsilon, delta = _name(dataset), check_epsilon(epsilon), _delta(delta)
        about = (_text("mechanism", mechanism), _text("note", note), _now())
        with self._transaction(write=True) as book:
            balance = self._balance(book, dataset)
            # Exact: the remainder was rounded down to the largest float whose decimal is not above
            # it.
            if epsilon > balance.left_epsilon or delta > balance.left_delta:
                raise BudgetError(
                    f"epsilon and delta must be at most {balance.left_epsilon} and {balance.left_delta}, what is left "
                    f"of {balance.epsilon} and {balance.delta} for data set {dataset!r}, got {epsilon} and {delta}; "
                    "nothing was spent: ask for less, or release nothing more of this data"
                )
            id = len(book.entries) + 1
            book.change("debit", id, dataset, repr(epsilon), repr(delta), *about)
        return Receipt(id, dataset, epsilon, delta, *about)

    def finish(self, receipt: Receipt, released: str) -> None:
        """Record what was released for a debit, for example a path and a digest."""
        _text("released", released)
        unfinished = (*astuple(receipt)[:7], None)
        with self._transaction(write=True) as book:
            if unfinished not in [astuple(_entry(row)) for row in book.entries.values() if row[0] == receipt.id]:
                raise ParameterError(
                    f"receipt must be an unfinished debit of {self.path}, got {receipt}; spend for each release"
                )
            book.change("released", receipt.id, released)

    def datasets(self) -> list[Balance]:
        """The balance of each data set, by name."""
        with self._transaction() as book:
            return [self._balance(book, name) for name in sorted(book.budgets)]

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """The debits of a data set, or of all, in the order in which they were made."""
        name = None if dataset is None else _name(dataset)
        with self._transaction() as book:
            if name is not None:
                self._balance(book, name)  # refuses an unknown name
            return [_entry(row) for row in book.entries.values() if name in (None, row[1])]

    def _transaction(self, write: bool = False) -> AbstractContextManager[Book]:
        return store.transaction(self.path, self.timeout, write=write)

    def _balance(self, book: Book, dataset: str) -> Balance:
        if dataset not in book.budgets:
            raise BudgetError(
                f"dataset must have a budget in {self.path}, got {dataset!r}; create one with Ledger.create"
            )
        *total, created = book.budgets[dataset]
        epsilon, delta = map(float, total)
        spent_epsilon = _sum(row[2] for row in book.entries.values() if row[1] == dataset)
        spent_delta = _sum(row[3] for row in book.entries.values() if row[1] == dataset)
        return Balance(
            dataset,
            epsilon,
            delta,
            _rounded_up(spent_epsilon),
            _rounded_up(spent_delta),
            _rounded_down(_exact(epsilon) - spent_epsilon),
            _rounded_down(_exact(delta) - spent_delta),
            created,
        )


def _entry(row: tuple[Any, ...]) -> Entry:
    id, dataset, epsilon, delta, *others = row
    return Entry(id, dataset, float(epsilon), float(delta), *others)


def _sum(amounts: Iterable[str]) -> Fraction:
    """The exact sum of decimals, many of which are often equal."""
    return sum((Fraction(amount) * times for amount, times in Counter(amounts).items()), Fraction())


def _exact(amount: float) -> Fraction:
    """A float as the decimal that it prints as: 0.1 is one tenth."""
    return Fraction(repr(amount))


def _rounded_down(exact: Fraction) -> float:
    """The largest float whose decimal is at most this."""
    nearest = float(exact)
    return math.nextafter(nearest, -math.inf) if _exact(nearest) > exact else nearest


def _rounded_up(exact: Fraction) -> float:
    """The smallest float whose decimal is at least this."""
    nearest = float(exact)
    return math.nextafter(nearest, math.inf) if _exact(nearest) < exact else nearest


def _delta(delta: float) -> float:
    return abs(check_delta(delta))  # -0.0 becomes 0.0


def _name(dataset: str) -> str:
    """The name of a data set, the same for all ways to encode the same letters."""
    name = unicodedata.normalize("NFC", _text("dataset", dataset))
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise ParameterError(
            f"dataset must be 1 to {LONGEST_NAME} printable characters, no space first or last, got {dataset[:250]!r}"
        )
    return name


def _text(name: str, value: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or value.encode(errors="replace").decode() != value:
        raise ParameterError(f"{name} must be text of at most {LONGEST_TEXT} characters, got {str(value)[:250]!r}")
    return value


def _seconds(timeout: float) -> float:
    if not 0 <= (seconds := check_number("timeout", timeout)) <= LONGEST_WAIT:
        raise ParameterError(f"timeout must be in 0..{LONGEST_WAIT} seconds, got {timeout}")
    return seconds


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")
