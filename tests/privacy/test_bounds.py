"""The paper's bounds, both ways."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

import sparsedp
from sparsedp.experiments.simulation import simulate_errors
from sparsedp.mechanisms.threshold import worst_thresholded_error
from sparsedp.privacy import bounds
from sparsedp.privacy.bounds import AlpBounds
from sparsedp.privacy.cut_laws import CutGeometric
from sparsedp.privacy.laws import TwoSided


def test_the_papers_own_figures() -> None:
    # Section 6: α = 3, k/s = 0.1, at most 75.33 with probability 0.9; γ = 5/1.3 - 2.
    paper = AlpBounds(3.0, 0.1)
    assert paper.error_with_probability(0.1) == pytest.approx(75.33, abs=0.01)
    assert paper.gamma == pytest.approx(5 / 1.3 - 2)
    assert paper.expected_error == pytest.approx((0.5 + 16 / 9 + (4 * paper.gamma + 4) / paper.gamma**2) * 3)


@pytest.mark.parametrize("alpha", [0.5, 3.0, 10.0])
@pytest.mark.parametrize("collision", [0.0, 0.05, 0.2])
def test_tail_bounds_are_inverse_to_each_other(alpha: float, collision: float) -> None:
    alp = AlpBounds(alpha, collision)
    for failure in (0.5, 0.1, 1e-3, 1e-9):
        assert alp.tail_probability(alp.error_with_probability(failure)) == pytest.approx(failure)


def test_vacuous_bounds_are_infinite_and_never_negative() -> None:
    assert AlpBounds(3.0, 0.5).expected_error == math.inf  # s = 2k
    assert AlpBounds(3.0, 0.6).error_with_probability(0.1) == math.inf
    assert AlpBounds(3.0, 0.6).tail_probability(1000) == 1.0
    assert AlpBounds(3.0, 0.1).tail_probability(1.0) == 1.0  # below α the lemma says nothing
    steep = AlpBounds(100.0, 0.0)
    vacuous = 2 / (math.sqrt(math.pi) * (1 - 2 / 102))
    assert steep.error_with_probability(vacuous) == math.inf


@pytest.mark.parametrize("collision", [0.01, 0.1])
def test_observed_errors_keep_the_bounds(collision: float) -> None:
    errors = np.abs(simulate_errors(3.0, collision, runs=5000, seed=21))
    alp = AlpBounds(3.0, collision)
    assert errors.mean() < alp.expected_error
    for error in (10.0, 30.0, 60.0):
        assert (errors >= error).mean() <= alp.tail_probability(error)


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0, 4.0])
def test_geometric_bounds_are_the_laws_own(rate: float) -> None:
    a = math.exp(-rate)
    reach = np.arange(1, int(60 / rate) + 2)
    chance = (1 - a) / (1 + a) * a**reach
    assert bounds.geometric_mean_error(rate) == pytest.approx(2 * (reach * chance).sum(), rel=1e-9)
    for failure in (0.9, 0.5, 0.05, 1e-6):
        error = bounds.geometric_error_with_probability(rate, failure)
        assert bounds.geometric_tail_probability(rate, error + 1) <= failure * (1 + 1e-9)
        assert error == 0 or bounds.geometric_tail_probability(rate, error) > failure


@pytest.mark.parametrize(("rate", "threshold"), [(1.0, 21), (0.3, 7), (0.05, 300)])
def test_the_worst_error_of_a_threshold_is_found(rate: float, threshold: int) -> None:
    a = math.exp(-rate)
    noise = np.arange(-int(50 / rate), int(50 / rate) + 1)
    chance = (1 - a) / (1 + a) * a ** np.abs(noise)
    worst = max(
        float((chance * np.where(x + noise >= threshold, np.abs(noise), x)).sum()) for x in range(2 * threshold)
    )
    for law in (TwoSided.with_rate(Decimal(str(rate))), CutGeometric(64, Decimal(str(rate)))):
        assert worst_thresholded_error(law, threshold) == pytest.approx(worst, rel=0.01)


@pytest.mark.parametrize("mechanism", ["laplace", "threshold", "stability", "compact", "alp", "threshold-alp"])
@pytest.mark.parametrize("step", [None, 0.5])
def test_plans_invert_their_tail_bounds(mechanism: str, step: float | None) -> None:
    delta = 1e-9 if mechanism in ("stability", "retrieval") else 0.0
    domain = 1000 if mechanism == "laplace" else None
    plan = sparsedp.plan(0.5, delta, nonzero=100, upper=300, domain=domain, mechanism=mechanism, step=step)
    error = plan.error_with_probability(0.01)
    assert 0 < error < math.inf
    assert plan.tail_probability(error) == pytest.approx(0.01, rel=1e-6) or plan.tail_probability(error) < 0.01
    assert plan.tail_probability(0.0) > 0.3
    assert plan.expected_error is not None
    assert plan.error(20).mean_absolute <= plan.expected_error * 1.01
