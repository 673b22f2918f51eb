"""The laws state exactly what the samplers do, and how far they are from ideal."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from exact import exp_up, law_of_sampler
from sparsedp.privacy.laws import Geometric, Passing, TwoSided, float_up, log_bounds
from sparsedp.privacy.randomness import Randomness, geometric, two_sided

RATES = ["1e-6", "0.001", "0.1", "0.5", "1", "4", "25"]
COARSE = [Geometric.with_rate(Decimal(rate), bits) for rate in ("0.2", "0.7", "1.5") for bits in (4, 6, 9)]


@pytest.mark.parametrize("law", [Geometric((3,), 2, 3), Geometric((3, 1), 2, 3), Geometric((), 5, 3)])
def test_geometric_sampler_follows_its_law_on_every_bit_string(law: Geometric) -> None:
    # Catches < against <=, a wrong digit weight, a high part that restarts.
    length = len(law.digits) + 2

    def draw(randomness: Randomness) -> int:
        return int(geometric(randomness, law, 1)[0])

    sampled, short = law_of_sampler(draw, law.word_bits, length)
    assert short == law.tail_probability**2
    assert sampled == {n: law.probability(n) for n in range(2 * law.period)}


@pytest.mark.parametrize("law", [TwoSided(3, Geometric((3,), 2, 3)), TwoSided(1, Geometric((), 3, 3))])
def test_two_sided_sampler_follows_its_law_on_every_bit_string(law: TwoSided) -> None:
    length = len(law.magnitude.digits) + 4  # zero test, sign, digits, two rounds of the high part

    def draw(randomness: Randomness) -> int:
        return int(two_sided(randomness, law, 1)[0])

    sampled, short = law_of_sampler(draw, law.magnitude.word_bits, length)
    decided = 1 - short
    assert short == law.magnitude.tail_probability**2
    for j in range(1, 2 * law.magnitude.period + 1):
        assert sampled[j] == sampled[-j] == law.probability(j)
    # zero ignores its high part, so the strings that ran out are missing from it in proportion
    assert sampled[0] == law.probability(0) * decided


@pytest.mark.parametrize("law", COARSE)
def test_probabilities_and_tails_agree(law: Geometric) -> None:
    for n in range(3 * law.period):
        assert law.at_least(n) - law.at_least(n + 1) == law.probability(n)
        assert law.scaled(n, 12345) == math.floor(12345 * law.probability(n))
    assert law.at_least(0) == 1


@pytest.mark.parametrize("law", COARSE)
def test_deviation_bounds_every_ratio_at_every_distance(law: Geometric) -> None:
    width = law.deviation.width
    window = range(0, 4 * law.period, 1)
    for n in window:
        for distance in (1, 2, 3, 7):
            ratio = law.probability(n) / law.probability(n + distance)
            assert ratio <= exp_up(law.rate, distance) * exp_up(width)
            assert 1 / ratio * exp_up(law.rate, distance) <= exp_up(width) * (1 + Fraction(1, 10**40))


@pytest.mark.parametrize("bits", [4, 6, 9])
def test_step_loss_bounds_every_step_of_two_sided_noise(bits: int) -> None:
    law = TwoSided.with_rate(Decimal("0.7"), bits)
    bound = exp_up(law.step_loss)
    worst = max(law.probability(j) / law.probability(j + 1) for j in range(-40, 40))
    assert worst <= bound
    assert max(1 / (law.probability(j) / law.probability(j + 1)) for j in range(-40, 40)) <= bound


@pytest.mark.parametrize("rate", RATES)
def test_full_precision_noise_loses_its_rate_and_hardly_more(rate: str) -> None:
    law = TwoSided.with_rate(Decimal(rate))
    assert abs(law.step_loss / Decimal(rate) - 1) < Decimal("1e-8")
    assert law.deviation.width < Decimal("1e-10")


def test_smallest_tail_is_the_smallest() -> None:
    law = TwoSided.with_rate(Decimal("0.3"))
    for chance in (Fraction(1, 3), Fraction(1, 10), Fraction(1, 10**12), law.at_least(7)):
        j = law.smallest_tail(chance)
        assert law.at_least(j) <= chance < law.at_least(j - 1)


@pytest.mark.parametrize("chance", [Fraction(1, 3), Fraction(1, 1000), Fraction(1, 2**64), Fraction(1, 2**70)])
def test_passing_chance_is_bracketed_closely(chance: Fraction) -> None:
    low, high = Passing.with_chance(chance).chance
    assert low <= high
    assert abs(low / chance - 1) < Fraction(1, 10**12)
    assert abs(high / chance - 1) < Fraction(1, 10**12)


@pytest.mark.parametrize("bits", [5, 8])
def test_passing_odds_hold_for_every_configuration_of_a_small_domain(bits: int) -> None:
    # Removing one passing position from any set changes its probability by odds within the stated
    # bounds.
    law = Passing.with_chance(Fraction(1, 4), bits)
    domain = 6
    low, high = exp_up(law.log_odds.low - Decimal("1e-30")), exp_up(law.log_odds.high)
    for mask in range(1 << domain):
        for i in range(domain):
            if mask >> i & 1:
                odds = passing_probability(law, domain, mask) / passing_probability(law, domain, mask & ~(1 << i))
                assert low <= odds <= high


def passing_probability(law: Passing, domain: int, mask: int) -> Fraction:
    """P[exactly the positions of the mask pass]: a product of gaps, and the last gap reaches the
    end.
    """
    chance, previous = Fraction(1), -1
    for i in range(domain):
        if mask >> i & 1:
            chance *= law.gap.probability(i - previous - 1)
            previous = i
    return chance * law.gap.at_least(domain - previous - 1)


def test_floats_are_rounded_up() -> None:
    third = Fraction(1, 3)
    assert Fraction(float_up(third)) >= third
    assert float_up(Fraction(1, 2)) == 0.5
    bounds = log_bounds(Fraction(2))
    assert bounds.low < Decimal("0.693147180559945309417232121458176568075500134360255") < bounds.high
