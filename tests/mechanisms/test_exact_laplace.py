"""Dense noise: exact loss of neighbouring vectors, and what is clipped."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from exact import exp_up
from sparsedp.privacy.laws import TwoSided
from sparsedp.privacy.neighbours import Neighbours
from sparsedp.privacy.randomness import ReproducibleRandomness
from sparsedp.structures.table import LARGEST_COUNT, add_noise


@pytest.mark.parametrize("bits", [6, 10])
def test_no_output_changes_by_more_than_the_distance_times_the_step_loss(bits: int) -> None:
    law = TwoSided.with_rate(Decimal("0.8"), bits)
    chance = {j: law.probability(j) for j in range(-9, 10)}
    bounds = [exp_up(law.step_loss, distance) for distance in range(7)]
    vectors = list(product(range(4), repeat=2))
    outputs = list(product(range(-6, 10), repeat=2))
    for x, y in product(vectors, repeat=2):
        distance = abs(x[0] - y[0]) + abs(x[1] - y[1])
        for v in outputs:
            p = chance[v[0] - x[0]] * chance[v[1] - x[1]]
            q = chance[v[0] - y[0]] * chance[v[1] - y[1]]
            assert p <= bounds[distance] * q


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("sensitivity", [1, 7])
def test_the_epsilon_of_a_step_loss_is_the_inverse_of_its_budget(epsilon: float, sensitivity: int) -> None:
    for neighbours in (
        Neighbours(Fraction(sensitivity)),
        Neighbours(Fraction(sensitivity), Fraction(1, 10), real=True),
    ):
        spent = neighbours.epsilon(neighbours.step_budget(epsilon))
        assert spent <= epsilon * (1 + 1e-15)  # plans leave headroom for this last rounding
        assert spent > epsilon * (1 - 1e-12)


def test_a_tenth_as_step_spends_one_plus_a_tenth_of_epsilon_per_cell() -> None:
    real = Neighbours(Fraction(1), Fraction(1, 10), real=True)
    assert abs(float(real.step_budget(1.0).exp()) - 1.1) < 1e-7


def test_sums_beyond_the_largest_count_are_clipped_not_wrapped() -> None:
    law = TwoSided.with_rate(Decimal("0.001"))
    noisy = add_noise(np.full(1000, 2**63 - 1), law, ReproducibleRandomness(3))
    assert noisy.max() == LARGEST_COUNT
    assert noisy.min() > LARGEST_COUNT - 100_000
