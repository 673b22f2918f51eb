"""Cut laws are tables of whole numbers: that they are near ideal, and that words are cut just so."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from exact import PreparedWords, exp_up
from sparsedp.privacy.cut_laws import LARGEST_VARIANCE, MOST_REACH, CutGaussian, CutGeometric, CutLaw
from sparsedp.privacy.laws import precise, to_decimal
from sparsedp.privacy.randomness import Randomness
from statistics_helpers import LEVEL, chi_square_p


def gaussian(bits: int, variance: str, most: int = 0) -> CutGaussian:
    """A law that is cut where its masses end, if not before."""
    exact = Fraction(variance)
    return CutGaussian(bits, exact, most or min(MOST_REACH, 14 * math.isqrt(int(exact)) + 40))


TINY: list[CutLaw] = [
    gaussian(8, "1/2"),
    gaussian(8, "3"),
    gaussian(10, "7/3"),
    gaussian(10, "5", most=4),
    gaussian(16, "0.8"),
    gaussian(16, "30"),
    CutGeometric(8, Decimal("0.7")),
    CutGeometric(8, Decimal("0.1")),  # too coarse for its rate
    CutGeometric(10, Decimal("1.5")),
    CutGeometric(16, Decimal("0.2")),
]
WIDE = ["1/2", "0.6", "1", "7/3", "5", "37", "100.25", "1234.5", "1e4", "100000", "1e6", "1e7"]


def needed_bits(variance: Fraction) -> int:
    """So many bits are enough: log-concave masses round off a few parts in the variance."""
    return 16 + 4 * math.ceil(max(0.0, math.log2(variance)) * 5 / 8)


def both_sides(law: CutLaw) -> dict[int, int]:
    return {v: law.masses[abs(v)] for v in range(-law.reach, law.reach + 1)}


def name_of(law: CutLaw) -> str:
    return f"{type(law).__name__}-{law.bits}-{getattr(law, 'variance', getattr(law, 'rate', ''))}"


def ideal_masses(law: CutGaussian) -> list[Decimal]:
    """2^bits·g(v) for the discrete Gaussian law g on the values that the law may have."""
    with precise():
        twice = 2 * Decimal(law.variance.numerator) / law.variance.denominator
        weights = [(-(v * v) / twice).exp() for v in map(Decimal, range(law.reach + 1))]
        beyond = sum((-(v * v) / twice).exp() for v in map(Decimal, range(law.reach + 1, law.most + 1)[:400]))
        return [weight * (1 << law.bits) / (2 * (sum(weights) + beyond) - 1) for weight in weights]


@pytest.mark.parametrize("variance", WIDE)
def test_gaussian_masses_are_all_words_and_next_to_the_ideal_ones(variance: str) -> None:
    # Catches words that are lost in rounding, and a zero that gets all that is left.
    for bits in range(40, 65, 4 if Fraction(variance) < 1000 else 8):
        law = gaussian(bits, variance)
        assert sum(both_sides(law).values()) == 1 << bits
        assert min(law.masses) >= 1
        if law.reach < 5000:
            assert max(abs(m - ideal) for m, ideal in zip(law.masses, ideal_masses(law), strict=True)) <= 2


@pytest.mark.parametrize("law", TINY, ids=name_of)
def test_tiny_masses_are_all_words(law: CutLaw) -> None:
    assert sum(both_sides(law).values()) == 1 << law.bits
    assert min(law.masses) >= 1


@pytest.mark.parametrize(
    ("law", "digest"),
    [
        (gaussian(16, "3"), "40df33a62230ac98bfcc7aa5442b809dbea4ed5306b4eeec0084c8944d0ffe69"),
        (gaussian(48, "150.5"), "2abe0558d45052c5a842368f144c9646960bb1eca590bd43113932bc66419033"),
        (gaussian(56, "30000"), "3c170186c1f7668075c51e796ceeb67bab6b0926c5081f04839ab7c7e128b63e"),
        (gaussian(64, "1/2"), "a8386b48938abbe97f431d1077026a2b1da41024dc2cd314386afe10ed2272a0"),
        (gaussian(56, "100", most=20), "47f9a078763c906f65897c1da8084b733a66237a55f22c92f364d7162a658699"),
        (CutGeometric(48, Decimal("0.05")), "d824ff0876c9208dcf12b00641ec99a5f696018798ababeb0f7d0cf266176d89"),
        (CutGeometric(64, Decimal("1.25")), "319651effa8b748c16776796b7372e85feff88b63947abfba61c130f234baecb"),
    ],
    ids=lambda it: name_of(it) if isinstance(it, CutLaw) else "",
)
def test_every_machine_has_the_same_masses(law: CutLaw, digest: str) -> None:
    # Catches a float on the way to a mass, and any change of the laws that published files name.
    assert law.digest == digest


@pytest.mark.parametrize("bits", [16, 24, 32])
def test_every_value_has_words_however_coarse_they_are_for_the_rate(bits: int) -> None:
    # Catches a mass of zero below zero, where rounding up the many others takes all words: its step
    # loss would seem small, and whether such a law can be used would show whether there are keys.
    for rate in np.geomspace(5e-4, 1, 60):
        masses = CutGeometric(bits, Decimal(f"{rate:.6f}")).masses
        assert min(masses) >= 1
        assert 2 * sum(masses) - masses[0] == 1 << bits


@pytest.mark.parametrize("law", TINY, ids=name_of)
def test_each_value_has_exactly_its_words(law: CutLaw) -> None:
    # Every word there is. Catches a cut that is one off, a wrong sign, a table of leading bits that
    # begins too late.
    words = np.arange(1 << law.bits, dtype=np.uint64)
    values = law.values_of(words)
    assert Counter(values.tolist()) == both_sides(law)
    assert (np.diff(values) >= 0).all()
    assert [int(np.searchsorted(values, v, side="right")) for v in range(-law.reach, law.reach + 1)] == law.ends


@pytest.mark.parametrize("bits", [32, 48, 56, 64])
@pytest.mark.parametrize("rate", ["1", "0.05", "0.01"])
def test_words_at_every_distance_from_the_ends_are_cut_by_the_table(bits: int, rate: str) -> None:
    # Catches a guide to narrow buckets that is off by one cell: uniform words hardly ever get there.
    law = CutGeometric(bits, Decimal(rate))
    drawn = np.random.default_rng(1).integers(0, 1 << 63, 20_000, dtype=np.uint64)
    distances = drawn >> np.arange(len(drawn), dtype=np.uint64) % np.uint64(bits) >> np.uint64(64 - bits)
    near = np.concatenate([distances, law._lasts, law._lasts + np.uint64(1)]) & law._lasts[-1]
    words = np.concatenate([near, law._lasts[-1] - near])
    assert np.array_equal(law.values_of(words), np.searchsorted(law._lasts, words) - law.reach)


@pytest.mark.parametrize("law", TINY, ids=name_of)
def test_draws_are_the_values_of_leading_bits(law: CutLaw) -> None:
    # Catches draws from the low bits, whose words the law would share with something else.
    words = np.arange(1 << law.bits, dtype=np.uint64)
    padded = (words << np.uint64(64 - law.bits)) | np.uint64(5)
    assert np.array_equal(law.draw(len(words), PreparedWords(padded.tolist())), law.values_of(words))


@pytest.mark.parametrize("law", [law for law in TINY if law.bits < 16], ids=name_of)
def test_words_for_a_value_are_its_words_each_equally_often(law: CutLaw) -> None:
    # The grid has three random numbers in the interval of each word. Catches a first word that is
    # never given, a last one of the next value, low words that are ignored.
    of_value: dict[int, list[int]] = {}
    for word, value in enumerate(law.values_of(np.arange(1 << law.bits, dtype=np.uint64)).tolist()):
        of_value.setdefault(value, []).append(word)
    for value, mass in both_sides(law).items():
        grid = [((2 * i + 1) << 127) // (3 * mass) for i in range(3 * mass)]
        random = [half for number in grid for half in (number & (1 << 64) - 1, number >> 64)]
        words = law.words_for(np.full(3 * mass, value), PreparedWords(random))
        assert Counter(words.tolist()) == dict.fromkeys(of_value[value], 3)


def test_words_for_a_value_are_exact_to_128_bits() -> None:
    # Just below and at the first number of each word. Catches a product of 64 bits, whose words
    # would differ in probability by up to 2^-64·mass.
    law = gaussian(64, "2")
    for value in (-law.reach, -3, 0, 4):
        mass, first = law.masses[abs(value)], int(law.ends[value + law.reach]) - law.masses[abs(value)]
        for i in {0, min(1, mass - 1), mass // 3, mass - 1}:
            least = -(-(i << 128) // mass)  # the least number of word i
            for number, wanted in ((least, i), (least - 1, i - 1)):
                if wanted >= 0:
                    random = PreparedWords([number & (1 << 64) - 1, number >> 64])
                    assert int(law.words_for(np.array([value]), random)[0]) == first + wanted


@pytest.mark.parametrize("law", [*TINY, gaussian(56, "1e4"), CutGeometric(64, Decimal(1))], ids=name_of)
def test_words_for_values_are_read_as_these_values(law: CutLaw) -> None:
    values = np.tile(np.arange(-law.reach, law.reach + 1), 20)
    assert np.array_equal(law.values_of(law.words_for(values, Randomness())), values)


@pytest.mark.parametrize("law", TINY, ids=name_of)
def test_tails_are_sums_of_masses(law: CutLaw) -> None:
    # Catches > for >=, a tail of both sides, and a search that ends one too early.
    masses, whole = both_sides(law), 1 << law.bits
    tails = {v: Fraction(sum(n for u, n in masses.items() if u >= v), whole) for v in range(-40, 41)}
    for v, tail in tails.items():
        assert law.at_least(v) == tail
    assert law.at_least(-law.reach) == 1
    assert law.at_least(law.reach + 1) == 0
    chances = {tail + off for tail in tails.values() for off in (0, Fraction(1, 3 * whole), Fraction(-1, 3 * whole))}
    for chance in chances | {Fraction(0), Fraction(1)}:
        if chance < 0:
            continue
        least = next(v for v in range(1, law.reach + 2) if law.at_least(v) <= chance)
        assert law.smallest_tail(chance) == least
    for failure in (0.9, 0.5, 0.1, 2.0**-law.bits, 0.0):
        beyond = (
            r
            for r in range(law.reach + 1)
            if sum(n for v, n in masses.items() if abs(v) > r) <= Fraction(failure) * whole
        )
        assert law.exceeded_with(failure) == next(beyond)


@pytest.mark.parametrize("bits", [16, 24, 32, 48, 56, 64])
def test_neighbouring_geometric_values_differ_by_at_most_their_factor(bits: int) -> None:
    # Catches masses rounded down (a factor too large), a zero that takes all that is left.
    finest, coarsest = 4 * 2 ** (-bits / 4), bits * math.log(2) / 2
    for rate in ("0.005", "0.01", "0.03", "0.07", "0.3", "0.9", "1", "2.5", "5", "8", "11", "15", "20"):
        if not finest <= float(rate) <= coarsest:
            continue
        law = CutGeometric(bits, Decimal(rate))
        factor = 1 / exp_up(-law.rate)  # rounded down
        for inner, outer in pairwise(law.masses):
            assert 1 <= Fraction(inner, outer) <= factor
        assert law.step_loss <= law.rate + Decimal("1e-39")
        assert sum(both_sides(law).values()) == 1 << bits


@pytest.mark.parametrize("bits", [16, 32, 48, 64])
@pytest.mark.parametrize("rate", ["0.05", "0.3", "1", "4"])
def test_the_last_geometric_value_is_as_rare_and_as_near_as_its_bits_allow(bits: int, rate: str) -> None:
    # Catches a law that is cut too early, whose last value costs more δ, and one that is not cut
    # where masses no longer fall. Equation (2) of docs/paper.md.
    law = CutGeometric(bits, Decimal(rate))
    factor = math.exp(float(rate)) * (1 - 2.0 ** -(bits // 2))
    assert law.masses[-1] * (1 - 1 / factor) < 1 + 1e-9
    assert law.reach <= 2 + bits * math.log(2) / math.log(factor) + 1 / (factor - 1)


@pytest.mark.parametrize("bits", [8, 16, 48, 64])
@pytest.mark.parametrize("rate", ["0.002", "0.05", "0.7", "4", "20", "44"])
def test_the_step_loss_is_that_of_the_masses_however_coarse(bits: int, rate: str) -> None:
    # Every law, also where words are too few for the rate. Catches a loss that is taken from the
    # rate, and a last value whose mass is not in δ.
    law = CutGeometric(bits, Decimal(rate))
    factor = exp_up(law.step_loss)
    here, there = both_sides(law), {v + 1: n for v, n in both_sides(law).items()}
    for p, q in ((here, there), (there, here)):
        assert sum(n for v, n in p.items() if v not in q) == law.step_delta * (1 << bits)
        assert all(n <= factor * q[v] for v, n in p.items() if v in q)


@pytest.mark.parametrize("variance", ["1", "2", "5.5", "100", "1e4", "1e6"])
@pytest.mark.parametrize("bits", [48, 56, 64])
def test_gaussian_draws_have_the_variance_and_the_mean_size_of_the_ideal(bits: int, variance: str) -> None:
    # Catches a missing factor two in the exponent, and one side counted twice.
    law = gaussian(bits, variance)
    exact = float(Fraction(variance))
    ideal = {v: math.exp(-v * v / (2 * exact)) for v in range(-law.reach, law.reach + 1)}
    whole = math.fsum(ideal.values())
    assert law.variance_of_draws == pytest.approx(math.fsum(v * v * p for v, p in ideal.items()) / whole, rel=3e-6)
    assert law.mean_size == pytest.approx(math.fsum(abs(v) * p for v, p in ideal.items()) / whole, rel=3e-6)
    if exact > 2:  # where the lattice does not matter
        assert law.variance_of_draws == pytest.approx(exact, rel=3e-6)


@pytest.mark.parametrize(
    "law", [gaussian(16, "3"), gaussian(48, "100"), gaussian(56, "2500.5"), gaussian(64, "2")], ids=name_of
)
def test_deviations_are_those_from_the_ideal_law(law: CutGaussian) -> None:
    # Against 50 digits. Catches differences of rounded logarithms, deviations from the ideal of
    # another number of values.
    with precise():
        rate = -to_decimal(1 / (2 * law.variance))
        ideal = [(rate * v * v).exp() for v in range(40 + 14 * math.isqrt(int(law.variance)))]
        log_whole = (2 * sum(ideal, Decimal(0)) - 1).ln()
        for v in range(law.reach + 1):
            exact = to_decimal(Fraction(law.masses[v], 1 << law.bits)).ln() - rate * v * v + log_whole
            # The ideal of the law ends where it is a quarter of a word.
            assert (
                abs(Decimal(float(law.deviations[v])) - exact) < abs(exact) * Decimal("1e-9") + Decimal(2) ** -law.bits
            )


@pytest.mark.parametrize("bits", [40, 48, 56, 64])
@pytest.mark.parametrize("variance", ["1/2", "5", "100", "1e4", "1e6"])
def test_gaussian_masses_are_few_words_from_the_ideal(bits: int, variance: str) -> None:
    # Catches words left over that all go to zero, and tails cut long before their masses end. Tails
    # are lower where masses are smaller than the variance, to be log-concave.
    law = gaussian(max(bits, needed_bits(Fraction(variance))), variance)
    away = np.abs(np.expm1(law.deviations)) / np.exp(law.deviations) * np.array(law.masses, float)
    assert 2 * away.sum() <= law.reach * (3 + float(law.variance) / 200)


def test_a_law_is_cut_at_the_most_it_may_reach() -> None:
    law = gaussian(56, "100", most=20)
    assert law.reach == 20
    assert sum(both_sides(law).values()) == 1 << 56
    assert gaussian(56, "100").reach > 80


@pytest.mark.parametrize(
    "law",
    [
        CutGaussian(48, Fraction(49, 100), 40),
        CutGaussian(64, LARGEST_VARIANCE + 1, MOST_REACH),
        CutGaussian(48, Fraction((1 << 40) + 1, 1 << 40), 40),
        CutGaussian(48, Fraction(10), 0),
        CutGaussian(48, Fraction(10), MOST_REACH + 1),
        CutGaussian(48, Fraction(-1), 40),
        CutGaussian(47, Fraction(10), 40),
        CutGaussian(8, Fraction(3), 40),
        CutGaussian(1 << 40, Fraction(3), 40),
        CutGaussian(-8, Fraction(3), 40),
        CutGeometric(50, Decimal(1)),
        CutGeometric(48, Decimal("1e-9")),  # a table of 10^10 values
        CutGeometric(48, Decimal(10**9)),  # a factor of 10^8 digits
        CutGeometric(48, Decimal(-1)),
        CutGeometric(48, Decimal("nan")),
        CutGeometric(48, Decimal("inf")),
    ],
    ids=name_of,
)
def test_a_law_that_cannot_be_is_found_without_computing_it(law: CutLaw) -> None:
    # Catches a file whose law takes all memory, or an exception that is not a fault.
    assert list(law.faults())
    assert "masses" not in vars(law)


@pytest.mark.parametrize(
    "law", [gaussian(16, "3"), gaussian(48, "1/2"), gaussian(64, "1e4"), CutGeometric(56, Decimal(1))]
)
def test_a_law_that_can_be_has_no_faults(law: CutLaw) -> None:
    assert not list(law.faults())


@pytest.mark.parametrize(
    "law", [gaussian(48, "6.5"), gaussian(64, "150"), CutGeometric(56, Decimal("0.4"))], ids=name_of
)
def test_draws_have_the_law_of_the_masses(law: CutLaw) -> None:
    # Fresh words. Catches a variance that is 5 % off, a shift by one, a sign that is always plus.
    draws = law.draw(400_000, Randomness())
    observed = np.bincount(draws + law.reach, minlength=2 * law.reach + 1)
    wanted = np.array(list(both_sides(law).values()), float) / (1 << law.bits) * len(draws)
    assert chi_square_p(observed, wanted) > LEVEL
