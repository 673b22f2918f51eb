"""ALP: the exact loss of tiny arrays, every hash outcome, rounding, flip and output enumerated."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest

import sparsedp
from exact import exp_up
from sparsedp.mechanisms.threshold_alp import ThresholdAlpPlan
from sparsedp.privacy.laws import precise
from sparsedp.structures.embedding import dyadic_flip_probability
from sparsedp.structures.rounding import LinearRounding

Vector = tuple[int, ...]
Positions = tuple[tuple[int, ...], ...]  # positions[key][level] = row

ONE = 1 << 64
LINEAR = {
    "slope 1/4, p = 1/4": LinearRounding(ONE // 4, 2, Fraction(1, 4)),
    "slope 0.37, the paper's p": LinearRounding(int(0.37 * ONE), 2, dyadic_flip_probability(3)),
    "slope 1, p = 1/8": LinearRounding(ONE, 3, Fraction(1, 8)),
    "slope 1.6, p = 1/5": LinearRounding(int(1.6 * ONE), 3, Fraction(1, 5)),
}


def array_law(rounding: LinearRounding, rows: int, positions: Positions, x: Vector) -> dict[int, Fraction]:
    """P[noisy array | x] for fixed hash functions: ALP1-projection with its steps enumerated."""
    levels = rounding.levels
    flip = rounding.flip_probability
    clean: dict[int, Fraction] = {0: Fraction(1)}
    for rows_of_key, count in zip(positions, x, strict=True):
        whole, chance = rounding.round_up_chance(count)
        grown: dict[int, Fraction] = {}
        for height, mass in ((whole, 1 - chance), (whole + 1, chance)):
            if mass:
                bits = sum(1 << (level * rows + rows_of_key[level]) for level in range(height))
                for array, before in clean.items():
                    grown[array | bits] = grown.get(array | bits, Fraction(0)) + before * mass
        clean = grown
    noisy = {}
    size = rows * levels
    keep = 1 - flip
    for output in range(1 << size):
        flipped = ((mass, (array ^ output).bit_count()) for array, mass in clean.items())
        noisy[output] = sum((mass * flip**n * keep ** (size - n) for mass, n in flipped), Fraction(0))
    return noisy


def worst_unit_loss(rounding: LinearRounding, rows: int, positions: Positions, largest: int) -> Fraction:
    """The largest ratio of any output over all pairs of vectors that differ by one in one entry."""
    keys = len(positions)
    laws = {x: array_law(rounding, rows, positions, x) for x in product(range(largest + 1), repeat=keys)}
    worst = Fraction(1)
    for x, p in laws.items():
        for i in range(keys):
            q = laws.get((*x[:i], x[i] + 1, *x[i + 1 :]))
            if q is not None:
                worst = max(worst, *(max(p[z] / q[z], q[z] / p[z]) for z in p))
    return worst


@pytest.mark.parametrize("name", LINEAR)
def test_the_step_loss_is_exact_without_collisions(name: str) -> None:
    # Catches a flip probability or a slope that is slightly off: the bound is attained, not only
    # respected.
    rounding = LINEAR[name]
    worst = worst_unit_loss(rounding, rows=1, positions=((0,) * rounding.levels,), largest=9)
    assert worst <= exp_up(rounding.step_loss)
    assert worst >= exp_up(rounding.step_loss) * (1 - Fraction(1, 10**30))


@pytest.mark.parametrize("name", ["slope 1/4, p = 1/4", "slope 0.37, the paper's p"])
def test_collisions_never_raise_the_loss(name: str) -> None:
    rounding = LINEAR[name]
    bound = exp_up(rounding.step_loss)
    for rows_of_keys in product(range(2), repeat=2 * rounding.levels):
        positions = (rows_of_keys[: rounding.levels], rows_of_keys[rounding.levels :])
        assert worst_unit_loss(rounding, 2, positions, largest=4) <= bound


def test_a_smaller_flip_probability_breaks_the_stated_loss() -> None:
    right = LINEAR["slope 1/4, p = 1/4"]
    mutant = LinearRounding(right.slope_fixed, right.levels, right.flip_probability * Fraction(9, 10))
    assert worst_unit_loss(mutant, 1, ((0, 0),), largest=9) > exp_up(right.step_loss)


def test_losses_add_over_entries_and_distances() -> None:
    rounding = LINEAR["slope 0.37, the paper's p"]
    positions = ((0, 1), (1, 1))
    for x, y in (((0, 0), (2, 1)), ((1, 3), (4, 0)), ((2, 2), (0, 5))):
        distance = sum(abs(a - b) for a, b in zip(x, y, strict=True))
        p, q = array_law(rounding, 2, positions, x), array_law(rounding, 2, positions, y)
        assert max(max(p[z] / q[z], q[z] / p[z]) for z in p) <= exp_up(rounding.step_loss, distance)


@pytest.mark.parametrize("eighths", [1, 3, 8, 13])
def test_real_values_lose_at_most_their_distance_times_the_grid_ratio(eighths: int) -> None:
    # x is rounded at random to the grid first; (e^w - 1) per cell, exactly, at the worst point.
    rounding = LINEAR["slope 1/4, p = 1/4"]
    positions = ((0, 0),)
    grid = [array_law(rounding, 1, positions, (count,)) for count in range(12)]

    def law(x: Fraction) -> dict[int, Fraction]:
        whole, part = divmod(x, 1)
        low, high = grid[int(whole)], grid[int(whole) + 1]
        return {z: (1 - part) * low[z] + part * high[z] for z in low}

    distance = Fraction(eighths, 8)
    with precise():
        bound = exp_up((rounding.step_loss.exp() - 1) * Decimal(eighths) / 8)
    worst = Fraction(1)
    for start in range(0, 72 - eighths):
        p, q = law(Fraction(start, 8)), law(Fraction(start, 8) + distance)
        worst = max(worst, *(max(p[z] / q[z], q[z] / p[z]) for z in p))
    assert worst <= bound


@pytest.mark.parametrize("slope_sixteenths", [3, 16, 21, 40])
def test_the_steepest_rounding_for_a_loss_has_that_loss(slope_sixteenths: int) -> None:
    p = Fraction(1, 5)
    target = LinearRounding(slope_sixteenths * ONE // 16, 4, p).step_loss
    found = LinearRounding.for_loss(target, p, largest=4)
    assert abs(found.slope - Fraction(slope_sixteenths, 16)) < Fraction(1, 10**15)


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_threshold_alp_pays_for_both_stages(delta: float) -> None:
    plan = sparsedp.plan(1.0, delta, nonzero=100, mechanism="threshold-alp", split=0.3)
    assert isinstance(plan, ThresholdAlpPlan)
    assert plan.stage is not None
    with precise():
        assert plan.step_loss == plan.stage.step_loss + plan.embedding.rounding.step_loss
        assert abs(plan.stage.step_loss - Decimal("0.3")) < Decimal("1e-5")
    # The paper's scale ε₂ on integer counts loses ln(1 + ε₂).
    assert abs(plan.embedding.rounding.step_loss - Decimal("1.7").ln()) < Decimal("1e-5")


def test_exact_scaling_spends_the_whole_budget() -> None:
    plan = sparsedp.plan(1.0, nonzero=100, mechanism="threshold-alp", scaling="exact")
    assert 0.9999 < plan.epsilon <= 1.0


def test_a_small_upper_leaves_the_whole_budget_to_alp() -> None:
    plan = sparsedp.plan(1.0, nonzero=100, upper=10, mechanism="threshold-alp", scaling="exact")
    assert isinstance(plan, ThresholdAlpPlan)
    assert plan.stage is None
    assert 0.9999 < plan.epsilon <= 1.0
