"""The bound that needs no transform never says that debits fit when they do not, and says that they do
but for the last part of a budget.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from responses import Exact
from sparsedp.budget.accounting import Composition, Together
from sparsedp.budget.book import Budget, Tally
from sparsedp.budget.bounding import surely_fit
from sparsedp.budget.kinds import Debit
from sparsedp.privacy.events import DECIDES

DELTAS = [Fraction("1e-10"), Fraction("1e-6"), Fraction("0.01"), Fraction("0.3")]
UNEQUAL = [f"0.{at:02d}" for at in range(3, 15)]


def least(debits: Counter[Debit], delta: Fraction) -> float:
    """The ε from which on debits surely fit, nearly."""
    low, high = 0.0, 1000.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if surely_fit(debits.items(), Fraction(middle), delta) else (middle, high)
    return high


@pytest.mark.parametrize("epsilons", [["0.1"], ["3.0"], ["0.1"] * 100, ["1.5"] * 8, UNEQUAL], ids=len)
@pytest.mark.parametrize("delta", DELTAS, ids=float)
def test_what_surely_fits_fits_in_exact_arithmetic(epsilons: list[str], delta: Fraction) -> None:
    epsilon = least(Counter(Debit(one, "0.0", "") for one in epsilons), delta)
    assert Exact(epsilons).delta(epsilon) <= delta


def test_thousands_of_debits_surely_fit_but_for_the_last_part_of_the_budget() -> None:
    rng = random.Random(1)
    debits = Counter(Debit(repr(rng.uniform(0.001, 0.006)), "0.0", "") for _ in range(3000))
    exact = Together.of(debits, 1e-6).epsilon_at(Fraction("1e-6"))
    assert exact < least(debits, Fraction("1e-6")) < 1.1 * exact


def test_deltas_and_deciding_debits_add_up() -> None:
    pure, delta = Counter({Debit("0.1", "0.0", ""): 50}), Fraction("1e-6")
    alone = least(pure, delta)
    deciding = Debit("1.0", "0.0", DECIDES)
    assert least(pure + Counter({deciding: 2}), delta) == pytest.approx(alone + 2, abs=1e-4)
    half = Counter({Debit("0.1", "1e-08", ""): 50})
    assert least(half, delta) == pytest.approx(least(pure, delta / 2), abs=1e-4)
    assert not surely_fit(half.items(), Fraction(100), Fraction("5e-7"))  # nothing is left for the losses


def test_nothing_is_said_about_gaussian_noise_and_numbers_that_floats_do_not_hold() -> None:
    total, delta = Fraction(10**99), Fraction("0.1")
    for debit in (Debit("1.0", "1e-9", "gaussian"), Debit("1e101", "0.0", ""), Debit("1e-200", "0.0", "")):
        assert not surely_fit([(debit, 1)], total, delta), debit


def test_a_budget_decides_by_the_bound_and_then_by_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, debit = Budget("6.5", "1e-06", "2026-01-01T00:00:00+00:00", "pld"), Debit("0.1", "0.0", "")
    tally = Tally("", Composition(1e-6))
    asked: list[int] = []
    together = Composition.together

    def noted(self: Composition, *more: Any) -> Together:
        asked.append(tally.releases)
        return together(self, *more)

    monkeypatch.setattr(Composition, "together", noted)
    while tally.fits(budget, debit):
        tally.add(debit)
    assert tally.releases == 169  # as exact arithmetic allows
    assert 130 < asked[0] < 169
