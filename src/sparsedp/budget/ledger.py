"""The privacy budgets of data sets, each spent only once: totals and debits in one file.

A ledger holds the total of each data set, which never changes, and a debit for each release, made
before its noise is drawn and never refunded: what a failed release left on a disk or a screen cannot
be recalled either.

Debits add up (`basic`): releases of the same data with (ε₁, δ₁), (ε₂, δ₂), … are together (Σε,
Σδ)-differentially private. Or they are composed by their privacy loss distributions (`pld`), which is
less for many releases, needs δ > 0, and assumes that no parameter of a release (ε, δ, mechanism,
noise, bounds on users, nonzero, total, parts, keep_keys) is chosen by what earlier ones published;
which rows and columns are released may be (docs/privacy.md, "Accounting over releases").

ε and δ count as the decimals that their floats print as, so ten debits of 0.1 use up 1.0. Sums are
exact.
"""

from __future__ import annotations

import math
import os
import unicodedata
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import BudgetError, LedgerError, ParameterError
from ..format.addresses import path_of, taken_for_path
from ..privacy.numbers import check_delta, check_epsilon, check_number
from . import store
from .accounting import LEAST_DELTA, event_of
from .balance import Balance, Outlook, most_that_fit
from .book import ACCOUNTINGS, BASIC, EVENTS, OLDEST, PLD, VERSION, Book, Budget, Row, Tally
from .kinds import LARGEST_EPSILON, Debit
from .periods import check_period, day_after, period_of

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
    time: str  # UTC, ISO 8601, for people to read, and for periods: the ids give the order
    event: str | None = None  # what was lost, if more is known of it than ε and δ


@dataclass(frozen=True)
class Entry(Receipt):
    """A debit and what was released for it, or None if it was debited and never finished."""

    released: str | None = None


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
        accounting: str = BASIC,
        per: str | None = None,
        timeout: float = 30.0,
    ) -> Ledger:
        """Add a data set with its total, which can never be changed, to a new file or an existing
        ledger.

        Parameters
        ----------
        path
            The file.
        epsilon, delta
            The total, for all releases together.
        dataset
            The name of the data set.
        accounting
            "basic": debits add up. "pld": they are composed by their privacy loss distributions, so
            more of them fit; needs a δ of at least 1e-10, and assumes that no parameter of a release
            (ε, δ, mechanism, noise, bounds on users, nonzero, total, parts, keep_keys) is chosen by
            what earlier releases of the data set published. Which rows and columns are released may
            be.
        per
            "day", "week" or "month": the total is for each calendar period (UTC), and a new period
            gives a new budget. The guarantee is then for the releases of one period, not for all.
        timeout
            How many seconds to wait for others, at most.

        """
        amounts = repr(check_epsilon(epsilon)), repr(_delta(delta))
        _check_accounting(accounting, epsilon, delta)
        name, budget = _name(dataset), Budget(*amounts, _now(), accounting, check_period(per))
        ledger = cls(_path(path), _seconds(timeout))
        is_plain = budget == Budget(*budget[:3])
        first = Book()
        first.add_budget(name, budget)
        if ledger.path.exists() or not store.make(ledger.path, ledger.timeout, first.changes):
            with ledger._transaction() as book:  # refuses before a file is converted
                _check_new(book, name, path)
            with ledger._transaction(write=True, renew=OLDEST if is_plain else EVENTS) as book:
                _check_new(book, name, path)
                book.add_budget(name, budget)
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = 30.0) -> Ledger:
        """An existing ledger. Every byte of it is checked, as at every use; `entries` also adds every
        debit up again.
        """
        ledger = cls(_path(path), _seconds(timeout))
        with ledger._transaction():
            return ledger

    def spend(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        dataset: str = "default",
        mechanism: str = "",
        note: str = "",
        event: str | None = None,
    ) -> Receipt:
        """Debit a release before its noise is drawn; `BudgetError`, and no debit, if it needs more
        than is left.

        `event` says what is lost beyond ε and δ: the line of a `GaussianEvent`, or "decides" for a
        release whose output may choose the parameters of later ones, which is then always added up.
        """
        name, debit = _name(dataset), _debit(epsilon, delta, event)
        about = (_text("mechanism", mechanism), _text("note", note))
        with self._transaction(write=True) as book:
            now = _now()
            self._check(book, name, debit, now)
            row = Row(book.debits + 1, name, debit.epsilon, debit.delta, *about, now, debit.event, None)
            book.add_debit(row)
            made = book.entries[row.id]  # files of version 2 have no events
        return Receipt(**_fields(made))

    def check(self, *, epsilon: float, delta: float = 0.0, dataset: str = "default", event: str | None = None) -> None:
        """`BudgetError` if `spend` would refuse this now; nothing is debited."""
        name, debit = _name(dataset), _debit(epsilon, delta, event)
        with self._transaction() as book:
            self._check(book, name, debit, _now())

    def plan(self, *, epsilon: float | None = None, delta: float = 0.0, dataset: str = "default") -> Outlook:
        """How many more releases of (ε, δ) fit, or of the last release if ε is not given."""
        name = _name(dataset)
        asked = None if epsilon is None else _debit(epsilon, delta, None)
        with self._transaction() as book:
            budget, tally = self._budget(book, name, _now())
            debit, mechanism = asked, None
            if debit is None:
                if name not in book.last:
                    raise ParameterError(f"epsilon must be given: data set {name!r} has no release yet")
                debit, mechanism = book.last[name]
            more = most_that_fit(budget, tally, debit)
        amounts = float(debit.epsilon), float(debit.delta)
        return Outlook(name, *amounts, mechanism, more, budget.accounting, tally.period or None)

    def upgrade(self, *, accounting: str | None = PLD, dataset: str = "default") -> None:
        """Compose the debits of a data set by their privacy loss distributions from now on, past ones
        included. The file gets the newest format; with `accounting=None`, that is all.

        The total and all debits stay. This cannot be taken back, and assumes of past releases too
        that none chose a parameter of another.
        """
        name = _name(dataset)
        if accounting is None:
            with self._transaction(write=True, renew=VERSION):
                return
        if accounting != PLD:
            raise ParameterError(f"accounting must be 'pld', got {accounting!r}; a ledger cannot go back to 'basic'")
        with self._transaction() as book:  # refuses before a file is converted
            self._check_upgrade(book, name)
        with self._transaction(write=True, renew=VERSION) as book:
            self._check_upgrade(book, name)
            book.change("accounting", name, accounting, _now())

    def _check_upgrade(self, book: Book, name: str) -> None:
        budget, _ = self._budget(book, name, _now())
        if budget.accounting == PLD:
            raise BudgetError(f"dataset must have basic accounting, got {name!r}, which has 'pld' already")
        if float(budget.delta) < LEAST_DELTA:
            raise BudgetError(
                f"dataset must have a δ of at least {LEAST_DELTA:g} for accounting='pld', got {name!r} with "
                f"{budget.delta}, which never changes; its debits add up as before"
            )
        if float(budget.epsilon) > LARGEST_EPSILON:
            raise BudgetError(
                f"dataset must have an ε of at most {LARGEST_EPSILON:g} for accounting='pld', got {name!r} with "
                f"{budget.epsilon}, which never changes; its debits add up as before"
            )

    def finish(self, receipt: Receipt, released: str) -> None:
        """Record what was released for a debit, for example a path and a digest."""
        if not isinstance(receipt, Receipt):
            raise ParameterError(f"receipt must be what spend() gave, got {receipt!r:.250}")
        _text("released", released)
        unfinished = {**asdict(receipt), "released": None}
        with self._transaction(write=True, since=receipt.id) as book:
            row = book.entries.get(receipt.id)
            if row is None or asdict(_entry(row)) != unfinished:
                raise ParameterError(
                    f"receipt must be an unfinished debit of {self.path}, got {receipt}; spend for each release"
                )
            book.change("released", receipt.id, released)

    def accounting(self, dataset: str = "default") -> str:
        """How the debits of a data set are composed, "basic" or "pld"."""
        name = _name(dataset)
        with self._transaction() as book:
            return self._known(book, name).accounting

    def datasets(self) -> list[Balance]:
        """The balance of each data set, by name."""
        with self._transaction() as book:
            return [Balance.of(name, *self._budget(book, name, _now())) for name in sorted(book.budgets)]

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """The debits of a data set, or of all, in the order in which they were made. Every line of the
        file is read and added up again.
        """
        name = None if dataset is None else _name(dataset)
        with self._transaction(since=1) as book:
            if name is not None:
                self._known(book, name)
            return [_entry(row) for row in book.entries.values() if name in (None, row.dataset)]

    def _transaction(
        self, write: bool = False, renew: int = OLDEST, since: int | None = None
    ) -> AbstractContextManager[Book]:
        return store.transaction(self.path, self.timeout, write=write, renew=renew, since=since)

    def _known(self, book: Book, name: str) -> Budget:
        if name not in book.budgets:
            raise BudgetError(f"dataset must have a budget in {self.path}, got {name!r}; create one with Ledger.create")
        return book.budgets[name]

    def _budget(self, book: Book, name: str, now: str) -> tuple[Budget, Tally]:
        """A budget and what was debited to it in the period of now."""
        return self._known(book, name), book.tally(name, now)

    def _check(self, book: Book, name: str, debit: Debit, now: str) -> None:
        budget, tally = self._budget(book, name, now)
        if tally.fits(budget, debit):
            return
        balance = Balance.of(name, budget, tally)
        in_period = f" of {balance.per} {balance.period} (UTC)" if balance.per else ""
        wait = _wait(budget.per, tally.period, now) if budget.per else "release nothing more of this data"
        total = f"{balance.epsilon} and {balance.delta}{in_period}"
        if budget.accounting == BASIC:
            what = f"be at most {balance.left_epsilon} and {balance.left_delta}, what is left of {total} for"
        else:
            after = tally.debits.together(debit).epsilon_at(Fraction(budget.delta))
            would = "more than any ε" if math.isinf(after) else f"ε = {after:.6g}"
            what = f"fit {total}, of which releases cost ε = {balance.composed_epsilon:.6g} and would cost {would}, for"
        raise BudgetError(
            f"epsilon and delta must {what} data set {name!r}, got {debit.epsilon} and {debit.delta}; "
            f"nothing was spent: ask for less, or {wait}"
        )


def _fields(row: Row) -> dict[str, Any]:
    fields = row._asdict() | {"epsilon": float(row.epsilon), "delta": float(row.delta), "event": row.event or None}
    fields.pop("released")
    return fields


def _entry(row: Row) -> Entry:
    return Entry(**_fields(row), released=row.released)


def _debit(epsilon: float, delta: float, event: str | None) -> Debit:
    """A debit, or `ParameterError`, also for an event that states less than ε and δ."""
    debit = Debit(repr(check_epsilon(epsilon)), repr(_delta(delta)), "" if event is None else _text("event", event))
    try:
        event_of(debit)
    except (LedgerError, ValueError) as error:
        raise ParameterError(f"event must be that of the release, got {str(event)[:250]!r}: {error}") from error
    return debit


def _path(path: str | os.PathLike[str]) -> Path:
    local = path_of(path, "ledger")
    if address := taken_for_path(local):
        raise ParameterError(f"a ledger must be a file of this machine, got {address}; name a local path")
    return local.absolute()


def _check_new(book: Book, name: str, path: str | os.PathLike[str]) -> None:
    if name in book.budgets:
        raise BudgetError(
            f"dataset must be new, got {name!r}, which has a budget in {path} that never changes; "
            "open the ledger and spend what is left"
        )


def _wait(per: str, period: str, now: str) -> str:
    """Until when to wait for a new budget, which is longer if the clock was set back."""
    following = day_after(period, per)
    begins = f"begins on {following} (UTC)" if following else "never begins"
    words = f"wait for the next {per}, which {begins}"
    today = period_of(now, per)
    return words if today == period else f"{words}: the clock says {today}, but the ledger has reached {period} already"


def _check_accounting(accounting: str, epsilon: float, delta: float) -> None:
    if accounting not in ACCOUNTINGS:
        raise ParameterError(f"accounting must be 'basic' or 'pld', got {accounting!r}")
    if accounting == BASIC:
        return
    if delta < LEAST_DELTA:
        raise ParameterError(
            f"delta must be at least {LEAST_DELTA:g} with accounting='pld', got {delta}: composed losses are below the "
            "sum of all ε except with a small probability, which δ has to cover; use a larger delta, or 'basic'"
        )
    if epsilon > LARGEST_EPSILON:
        raise ParameterError(
            f"epsilon must be at most {LARGEST_EPSILON:g} with accounting='pld', got {epsilon}; use less, or 'basic'"
        )


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
