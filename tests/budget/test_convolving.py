"""Products of measures of losses: convolutions with their errors, and totals of another library."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as peer

from sparsedp.budget.accounting import Composition, Together
from sparsedp.budget.convolving import Composed
from sparsedp.budget.kinds import Debit
from sparsedp.budget.losses import Pure


def test_the_error_of_transforms_is_charged_and_small() -> None:
    """The same composition, by transforms and in closed form. Catches an error that is not charged."""
    tail, step = 1e-12, 2.0**-10
    one = Composed.of(Pure(0.1, 1), step, tail)
    made = one
    for _ in range(63):
        made = Composed.product([made, one], tail)
    closed = Composed.of(Pure(0.1, 64), step, tail)
    assert 0 < made.error < 1e-9
    assert closed.error == 0
    for epsilon in (0.5, 2.0, 4.0):
        assert made.delta_at(epsilon) >= closed.delta_at(epsilon) * (1 - 1e-6)
        assert made.delta_at(epsilon) <= 1.02 * closed.delta_at(epsilon) + 1e-9


def test_a_product_is_the_convolution_and_misses_no_mass() -> None:
    """By the sums of the definition. Catches a circular convolution that is too short, tails that are
    lost, and an error that is too small.
    """
    draw = np.random.default_rng(5)
    parts, exact = [], np.ones(1)
    for size in (1, 2, 7, 30, 31, 64):
        masses = draw.random(size) / size * 2
        parts.append(Composed.made(0.125, -size // 2, masses, 1e-3, 1e-12))
        exact = np.convolve(exact, masses)
    for tail in (0.0, 1e-3):
        made = Composed.product(parts, tail)
        first = made.lower - sum(part.lower for part in parts)
        inner = exact[first : first + len(made.masses)]
        assert np.abs(made.masses[1:] - inner[1:]).sum() <= made.error < 1e-9
        assert made.masses[0] == pytest.approx(exact[: first + 1].sum())
        assert exact[:first].sum() <= tail * (1 + 1e-9)
        lost = exact[first + len(made.masses) :].sum()
        assert lost <= tail * (1 + 1e-9)
        others = [math.prod(other.mass for other in parts if other is not part) for part in parts]
        assert made.infinite >= lost + sum(1e-3 * mass for mass in others)
        assert made.mass + lost >= exact.sum()
        for epsilon in (0.0, 0.3, 2.0, 100.0):
            losses = 0.125 * (np.arange(len(exact)) + sum(part.lower for part in parts))
            gains = exact * np.maximum(-np.expm1(epsilon - losses), 0.0)
            true = float(gains.sum())
            assert made.delta_at(epsilon) >= true + sum(1e-3 * mass for mass in others)
            assert made.delta_at(epsilon) <= true + made.infinite + 2 * tail + 1e-6


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
def test_totals_are_those_of_dp_accounting(delta: float) -> None:
    """Randomised responses, and their composition there. Ours are upper bounds, and hardly larger."""
    each = [(0.1, 40), (0.25, 10), (0.03, 100)]
    debits = Counter({Debit(repr(epsilon), "0.0", ""): times for epsilon, times in each})
    laws = [
        peer.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon), value_discretization_interval=1e-4
        ).self_compose(times)
        for epsilon, times in each
    ]
    theirs = laws[0].compose(laws[1]).compose(laws[2]).get_epsilon_for_delta(delta)
    ours = Together.of(debits, delta).epsilon_at(Fraction(repr(delta)))
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("many", [3000, 20_000])
def test_thousands_of_different_debits_cost_little_more_than_each_alone(many: int) -> None:
    """Rounded up by kinds and merged, and composed in full by variance: for small ε's, the loss is
    nearly normal, with mean Σε²/2 and variance Σε². Catches rounding to a smaller ε.
    """
    random.seed(many)
    kept, squares = Composition(1e-6), 0.0
    for _ in range(many):
        epsilon = random.uniform(0.0005, 0.003)
        squares += epsilon**2
        kept.add(Debit(repr(epsilon), "0.0", ""))
    assert kept.kinds.bits is not None
    law = NormalDist()

    def delta_at(epsilon: float) -> float:
        root = math.sqrt(squares)
        return law.cdf(root / 2 - epsilon / root) - math.exp(epsilon) * law.cdf(-root / 2 - epsilon / root)

    epsilon = kept.together().epsilon_at(Fraction("1e-6"))
    assert delta_at(epsilon) <= 1.001e-6
    assert delta_at(epsilon / 1.01) >= 1e-6
