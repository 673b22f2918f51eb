"""What is left of a budget: sums rounded up, remainders rounded down, and how much more fits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from .book import PLD, Budget, Tally
from .kinds import Debit

MOST_PLANNED = 1_000_000


@dataclass(frozen=True)
class Balance:
    """The total of a data set, what is spent, rounded up to a float, and what is left, rounded
    down.

    `spent_epsilon` and `spent_delta` add the debits up. `composed_epsilon` is what they cost together
    at the total δ: the same with basic accounting, and less with privacy loss distributions. A pure
    release of `left_epsilon` fits in any case.
    """

    dataset: str
    epsilon: float
    delta: float
    spent_epsilon: float
    spent_delta: float
    left_epsilon: float
    left_delta: float
    created: str
    accounting: str = "basic"
    per: str | None = None  # the budget begins anew with each day, week or month, in UTC
    period: str | None = None  # the one that this is about
    composed_epsilon: float = 0.0
    releases: int = 0

    @classmethod
    def of(cls, dataset: str, budget: Budget, tally: Tally) -> Balance:
        """The balance of one data set."""
        total, most = Fraction(budget.epsilon), Fraction(budget.delta)
        spent, lost = Fraction(tally.epsilon), Fraction(tally.delta)
        composed, left_delta = rounded_up(spent), most - lost
        if budget.accounting == PLD:
            together = tally.debits.together()
            by_losses = together.epsilon_at(most)
            composed = min(composed, by_losses) if left_delta >= 0 else by_losses
            left_delta = max(
                left_delta if spent <= total else Fraction(0), most - together.delta_at(total), Fraction(0)
            )
        return cls(
            dataset,
            float(budget.epsilon),
            float(budget.delta),
            rounded_up(spent),
            rounded_up(lost),
            rounded_down(max(total - exact(composed), Fraction(0))) if composed < math.inf else 0.0,
            rounded_down(left_delta),
            budget.created,
            budget.accounting,
            budget.per or None,
            tally.period or None,
            composed,
            tally.releases,
        )


@dataclass(frozen=True)
class Outlook:
    """How many more releases of one kind fit a budget; `more` ends at a million."""

    dataset: str
    epsilon: float
    delta: float
    mechanism: str | None  # of the last release, if this is about more of those
    more: int
    accounting: str
    period: str | None


def most_that_fit(budget: Budget, tally: Tally, debit: Debit) -> int:
    """How many more debits of one kind fit, up to a million, by doubling and halving."""
    if not tally.fits(budget, debit):
        return 0
    low, high = 1, 2
    while high <= MOST_PLANNED and tally.fits(budget, debit, high):
        low, high = high, 2 * high
    high = min(high, MOST_PLANNED + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tally.fits(budget, debit, middle) else (low, middle)
    return low


def exact(amount: float) -> Fraction:
    """A float as the decimal that it prints as: 0.1 is one tenth."""
    return Fraction(repr(amount))


def rounded_down(fraction: Fraction) -> float:
    """The largest float whose decimal is at most this."""
    nearest = float(fraction)
    return math.nextafter(nearest, -math.inf) if exact(nearest) > fraction else nearest


def rounded_up(fraction: Fraction) -> float:
    """The smallest float whose decimal is at least this."""
    nearest = float(fraction)
    return math.nextafter(nearest, math.inf) if exact(nearest) < fraction else nearest
