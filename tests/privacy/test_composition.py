"""What draws of cut Gaussian laws cost together is never understated, and hardly overstated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import numpy.typing as npt
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer

from exact import exp_up
from sparsedp.errors import ParameterError
from sparsedp.privacy import composition
from sparsedp.privacy.composition import GUARD, Moved, composed_delta, gaussian_delta, most_revealed
from sparsedp.privacy.cut_laws import MOST_REACH, PI, CutGaussian
from sparsedp.privacy.laws import precise, to_decimal

# How many outcomes have the words (p, q) in two laws. All that divergences depend on.
Pairs = Counter[tuple[int, int]]

EPSILONS = (0.0, 0.1, 1.0, 3.0, 8.0)
TINY = [
    CutGaussian(bits, Fraction(variance), most)
    for bits, variance, most in [
        (8, "1/2", 40),
        (8, "3", 40),
        (10, "1", 40),
        (12, "1/2", 40),
        (12, "5", 40),
        (12, "5", 4),  # cut at two standard deviations
        (16, "1/2", 40),
        (16, "2", 40),
        (16, "4", 1),
    ]
]
REALISTIC = [
    (m, epsilon, delta) for m in (5, 20, 100, 1000) for epsilon in (0.1, 1.0, 4.0) for delta in (1e-6, 1e-9, 1e-12)
]
# Sums of a thousand wide draws take a second: each number of bits and each δ once.
WIDE = {(48, 1e-6), (56, 1e-9), (64, 1e-12)}
SUMS = [
    (bits, m, epsilon, delta)
    for bits in (48, 56, 64)
    for m, epsilon, delta in REALISTIC
    if (m, epsilon) != (1000, 0.1) or (bits, delta) in WIDE
]


def law_of(bits: int, variance: Fraction) -> CutGaussian:
    return CutGaussian(bits, variance, min(MOST_REACH, 14 * math.isqrt(int(variance)) + 40))


def as_gaussian(draws: int, epsilon: float, delta: float) -> Fraction:
    """The variance that continuous noise needs, in 64ths."""
    return Fraction(math.ceil(64 * draws / most_revealed(epsilon, delta) ** 2), 64)


def pairs(law: CutGaussian, by: int) -> Pairs:
    """The words of each value of a draw, and of a draw that is moved."""
    masses = {v: law.masses[abs(v)] for v in range(-law.reach, law.reach + 1)}
    values = {*masses, *(v + by for v in masses)}
    return Counter((masses.get(v, 0), masses.get(v - by, 0)) for v in values)


def together(kinds: Iterable[Pairs]) -> Pairs:
    """The same of independent draws."""
    joint: Pairs = Counter({(1, 1): 1})
    for kind in kinds:
        following: Pairs = Counter()
        for ((p, q), n), ((a, b), k) in product(joint.items(), kind.items()):
            following[p * a, q * b] += n * k
        joint = following
    return joint


def hockey_stick(joint: Pairs, epsilon: float) -> Fraction:
    """Σ max(0, P - e^ε·Q), with e^ε rounded down."""
    factor = 1 / exp_up(Decimal(-epsilon))
    over, under = factor.numerator, factor.denominator
    whole = sum(p * n for (p, _), n in joint.items())
    return Fraction(sum(n * max(0, p * under - q * over) for (p, q), n in joint.items()), whole * under)


def vectors(draws: int, by: int) -> Iterator[tuple[int, ...]]:
    """Every vector of at most so many moves of at most so much, each in one order and one sign."""
    return combinations_with_replacement(range(by + 1), draws)


def name_of(it: CutGaussian | Moved) -> str:
    if isinstance(it, Moved):
        return f"{it.draws}x{it.by}-{name_of(it.law)}"
    return f"{it.bits}-{it.variance}-{it.most}"


@pytest.mark.parametrize("law", TINY, ids=name_of)
def test_moves_in_either_direction_have_the_same_divergences(law: CutGaussian) -> None:
    # Up, down, and with both laws exchanged: so it is enough to enumerate moves that are positive.
    for by in range(1, 2 * law.reach + 3):
        here = pairs(law, by)
        assert here == pairs(law, -by)
        assert here == Counter({(q, p): n for (p, q), n in here.items()})


@pytest.mark.parametrize("law", TINY, ids=name_of)
@pytest.mark.parametrize(("draws", "by"), [(1, 1), (1, 3), (1, 12), (2, 1), (2, 3), (3, 1), (3, 2)])
def test_no_vector_of_moves_costs_more_than_is_stated(law: CutGaussian, draws: int, by: int) -> None:
    # Exact, for every vector of at most `draws` moves of at most `by`. Catches rounding that is not
    # paid for, a draw that is not counted, a constant of the sum without its lattice.
    stated = [composed_delta(epsilon, [Moved(law, draws, by)]) for epsilon in EPSILONS]
    kinds = [pairs(law, move) for move in range(by + 1)]
    for vector in vectors(draws, by):
        joint = together(kinds[move] for move in vector)
        for epsilon, bound in zip(EPSILONS, stated, strict=True):
            assert hockey_stick(joint, epsilon) <= Fraction(bound)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # slopes 1/3 and 1/3, 1/8 and 1/4, 1/2 and 1/4, 2/3 and 1/3, 1/24 and 1/8
        (Moved(CutGaussian(12, Fraction(3), 40), 2, 1), Moved(CutGaussian(12, Fraction(6), 40), 1, 2)),
        (Moved(CutGaussian(12, Fraction(8), 40), 2, 1), Moved(CutGaussian(16, Fraction(8), 40), 1, 2)),
        (Moved(CutGaussian(16, Fraction(4), 40), 1, 2), Moved(CutGaussian(12, Fraction(4), 40), 2, 1)),
        (Moved(CutGaussian(10, Fraction(3), 4), 1, 2), Moved(CutGaussian(8, Fraction(3), 40), 2, 1)),
        (Moved(CutGaussian(16, Fraction(24), 40), 1, 1), Moved(CutGaussian(16, Fraction(24), 40), 1, 3)),
    ],
    ids=name_of,
)
def test_no_moves_of_two_kinds_cost_more_than_is_stated(first: Moved, second: Moved) -> None:
    # Catches a second kind whose rounding, centre or lattice is left out.
    stated = [composed_delta(epsilon, [first, second]) for epsilon in EPSILONS]
    assert stated == pytest.approx([composed_delta(epsilon, [second, first]) for epsilon in EPSILONS], rel=1e-9)
    for vector in product(vectors(first.draws, first.by), vectors(second.draws, second.by)):
        joint = together(
            pairs(kind.law, by) for kind, moves in zip((first, second), vector, strict=True) for by in moves
        )
        for epsilon, bound in zip(EPSILONS, stated, strict=True):
            assert hockey_stick(joint, epsilon) <= Fraction(bound)


@pytest.mark.parametrize("law", TINY, ids=name_of)
def test_the_sum_of_draws_is_bounded_everywhere(law: CutGaussian) -> None:
    # P[s] <= C·exp(-s²/(2·draws·variance)), exactly. Catches the Z of another variance, and √draws.
    sums = {0: 1}
    masses = {v: law.masses[abs(v)] for v in range(-law.reach, law.reach + 1)}
    for draws in range(1, 9):
        following: Counter[int] = Counter()
        for (s, n), (v, mass) in product(sums.items(), masses.items()):
            following[s + v] += n * mass
        sums = dict(following)
        log_constant = Moved(law, draws, 1).log_constant
        for s, n in sums.items():
            ideal = math.exp(log_constant - s * s / (2 * draws * law.variance))
            assert n / (1 << law.bits * draws) <= ideal * (1 + 1e-12)


@pytest.mark.parametrize("draws", [1, 1000, 10**7])
@pytest.mark.parametrize("variance", ["1/2", "37", "4000", "100000"])
def test_the_constant_of_a_sum_is_exact_to_its_guard(variance: str, draws: int) -> None:
    # Against 50 digits. Catches logarithms that are multiplied by the draws before they cancel:
    # that is wrong by more than the guard from some million draws on.
    move = Moved(law_of(56, Fraction(variance)), draws, 1)
    law = move.law
    with precise():
        exact = to_decimal(law.variance)
        above = max(Decimal(mass).ln() + v * v / (2 * exact) for v, mass in enumerate(law.masses))
        each = (2 * PI * exact).ln() / 2 + (1 + 3 * (-PI * PI * exact).exp()).ln()
        wanted = draws * (above - law.bits * Decimal(2).ln()) + (draws - 1) * each - Decimal(draws).ln() / 2
        assert abs(Decimal(move.log_constant) - wanted) <= (Decimal("1e-12") * (1 + abs(wanted)))


def delta_of_sum(law: CutGaussian, draws: int, epsilon: float) -> float:
    """The δ of the sum of draws that all move by one, which no more than all of them reveals.

    Probabilities of the sum are a power of a Fourier transform. The law is tilted to the sums that
    decide, so that their probabilities have small relative errors.
    """
    values = np.arange(-law.reach, law.reach + 1)
    chances = np.concatenate([law.probabilities[::-1], law.probabilities[1:]])
    deviation = math.sqrt(draws * law.variance_of_draws)
    decides = epsilon * float(law.variance) - draws / 2
    tilt = decides / deviation**2
    tilted = chances * np.exp(tilt * values)
    scale = float(tilted.sum())
    length = 1 << math.ceil(math.log2(60 * deviation + 4 * draws + 2 * law.reach + 100))
    centre = round(decides / draws)
    around: npt.NDArray[np.float64] = np.zeros(length)
    around[(values - centre) % length] = tilted / scale
    power = np.roll(np.fft.irfft(np.fft.rfft(around) ** draws, length), length // 2)
    sums = np.arange(length) - length // 2 + draws * centre
    exact = np.maximum(power, 0) * np.exp(draws * math.log(scale) - tilt * sums)
    near = slice(int(np.searchsorted(sums, decides)), int(np.searchsorted(sums, decides + 14 * deviation)))
    moved = exact[near.start + draws : near.stop + draws]
    return float(np.maximum(0, exact[near] - math.exp(epsilon) * moved).sum())


@pytest.mark.parametrize(("bits", "draws", "epsilon", "delta"), SUMS)
def test_delta_is_that_of_the_sum_apart_from_rounding(bits: int, draws: int, epsilon: float, delta: float) -> None:
    # Two sides of the exact δ. Catches a variance or a number of draws that is 0.1 % off, terms of
    # the sum that are left out, and blocks of terms that are too coarse.
    law = law_of(bits, as_gaussian(draws, epsilon, delta))
    move = Moved(law, draws, 1)
    if list(law.faults()):
        assert bits < 64
        return
    least, stated = delta_of_sum(law, draws, epsilon), composed_delta(epsilon, [move])
    assert least == pytest.approx(delta, rel=0.3)  # the sum was evaluated where it matters
    assert stated >= least * (1 - 1e-8)
    assert stated - move.rounding <= least * 1.002


@pytest.mark.parametrize(
    ("draws", "epsilon", "delta"), [(5, 1.0, 1e-9), (20, 0.1, 1e-6), (100, 4.0, 1e-9), (1000, 1.0, 1e-6)]
)
def test_delta_is_that_of_dp_accounting(draws: int, epsilon: float, delta: float) -> None:
    # Theirs is between a bound from below and one from above, which connects dots and is close.
    law = law_of(56, as_gaussian(draws, epsilon, delta))

    def theirs(above: bool) -> float:
        one = peer.from_discrete_gaussian_mechanism(
            math.sqrt(law.variance),
            1,
            truncation_bound=law.reach,
            pessimistic_estimate=above,
            value_discretization_interval=2e-5,
            use_connect_dots=above,
        )
        return float(one.self_compose(draws).get_delta_for_epsilon(epsilon))

    stated = composed_delta(epsilon, [Moved(law, draws, 1)])
    assert stated >= theirs(above=False)
    assert stated == pytest.approx(theirs(above=True), rel=1e-3)


@pytest.mark.parametrize(("draws", "epsilon"), [(5, 1.0), (20, 4.0)])
def test_delta_of_the_very_masses_is_that_of_dp_accounting(draws: int, epsilon: float) -> None:
    law = law_of(48, as_gaussian(draws, epsilon, 1e-6))
    logs = {v: math.log(law.masses[abs(v)]) - law.bits * math.log(2) for v in range(-law.reach, law.reach + 1)}

    def theirs(above: bool) -> float:
        moved = {v + 1: log for v, log in logs.items()}
        one = peer.from_two_probability_mass_functions(moved, logs, above, 1e-5)
        return float(one.self_compose(draws).get_delta_for_epsilon(epsilon))

    assert theirs(above=False) <= composed_delta(epsilon, [Moved(law, draws, 1)]) <= theirs(above=True)


def smallest_variance(bits: int, draws: int, epsilon: float, delta: float) -> Fraction:
    low, high = as_gaussian(draws, epsilon, delta) * Fraction(9, 10), as_gaussian(draws, epsilon, delta) * 2
    while high - low > high / 10_000:
        middle = Fraction(math.floor(32 * (low + high)), 64)
        if middle <= low:
            break
        enough = composed_delta(epsilon, [Moved(law_of(bits, middle), draws, 1)]) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


@pytest.mark.parametrize(
    ("bits", "draws", "epsilon", "delta"),
    [
        (48, 5, 1.0, 1e-9),
        (48, 100, 0.1, 1e-6),
        (48, 1000, 1.0, 1e-6),
        (56, 20, 1.0, 1e-12),
        (56, 100, 0.1, 1e-9),
        (56, 1000, 1.0, 1e-9),
        (64, 100, 0.1, 1e-12),
        (64, 1000, 1.0, 1e-12),
        (64, 1000, 0.1, 1e-9),
    ],
)
def test_noise_is_within_a_hundredth_of_continuous_noise(bits: int, draws: int, epsilon: float, delta: float) -> None:
    # Catches a bound that wastes noise: composition by a sum of ε, or a loose constant.
    variance = smallest_variance(bits, draws, epsilon, delta)
    assert math.sqrt(variance * most_revealed(epsilon, delta) ** 2 / draws) <= 1.01


@pytest.mark.parametrize("draws", [5, 20, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_less_noise_or_one_more_draw_is_refuted(draws: int, epsilon: float) -> None:
    # The tests above are sharp: δ of a law with 0.95 σ, and of draws with one left out, is less
    # than what the sum reveals.
    variance = as_gaussian(draws, epsilon, 1e-9)
    stated = composed_delta(epsilon, [Moved(law_of(64, variance), draws, 1)])
    smaller = Fraction(math.floor(64 * variance * Fraction("0.9025")), 64)
    assert delta_of_sum(law_of(64, smaller), draws, epsilon) > stated
    assert delta_of_sum(law_of(64, variance), draws, epsilon) > composed_delta(
        epsilon, [Moved(law_of(64, variance), draws - 1, 1)]
    )


@pytest.mark.parametrize("law", [CutGaussian(12, Fraction(5), 4), CutGaussian(16, Fraction(4), 1)], ids=name_of)
def test_a_bound_that_does_not_pay_for_what_is_cut_off_is_refuted(law: CutGaussian) -> None:
    move = Moved(law, 2, 1)
    joint = together([pairs(law, 1)] * 2)
    assert composed_delta(3.0, [move]) - GUARD * move.rounding < hockey_stick(joint, 3.0) / 2


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.5])
def test_terms_that_are_taken_together_are_never_less(epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # Catches a block of terms that has the factor of its first one, or is one term short.
    moves = [Moved(law_of(64, Fraction(2000)), 50, 1)]
    one_by_one = composed_delta(epsilon, moves)
    monkeypatch.setattr(composition, "_MOST_TERMS", 100)
    assert one_by_one < composed_delta(epsilon, moves) < 1.5 * one_by_one


def test_moves_beyond_the_reach_hide_nothing() -> None:
    law = CutGaussian(16, Fraction(3), 40)
    for by in (2 * law.reach + 1, 1000):
        assert composed_delta(8.0, [Moved(law, 1, by)]) >= 1
        assert hockey_stick(pairs(law, by), 8.0) == 1


def test_delta_falls_with_epsilon_and_grows_with_draws_and_moves() -> None:
    law = law_of(56, Fraction(200))
    of_epsilon = [composed_delta(epsilon, [Moved(law, 10, 1)]) for epsilon in np.linspace(0, 4, 81)]
    assert of_epsilon == sorted(of_epsilon, reverse=True)
    of_draws = [composed_delta(1.0, [Moved(law, draws, 1)]) for draws in range(1, 60)]
    assert of_draws == sorted(of_draws)
    of_moves = [composed_delta(1.0, [Moved(law, 10, by)]) for by in range(1, 30)]
    assert of_moves == sorted(of_moves)


def test_laws_too_coarse_for_their_draws_promise_nothing() -> None:
    # Catches an overflow, and the product of zero and infinity, which compares with nothing.
    assert composed_delta(1.0, [Moved(law_of(16, Fraction(30)), 10**6, 1)]) >= 1
    assert composed_delta(1.0, [Moved(law_of(56, Fraction(1, 2)), 10**6, 1)]) >= 1


def test_kinds_of_draws_that_have_no_bound_are_refused() -> None:
    law = law_of(48, Fraction(30))
    with pytest.raises(ValueError, match="multiples of one another"):
        composed_delta(1.0, [Moved(law, 5, 2), Moved(law, 1, 3)])
    with pytest.raises(ParameterError, match="too small to be composed"):
        composed_delta(1.0, [Moved(law_of(48, Fraction(1, 2)), 1, 1), Moved(law_of(48, Fraction(1)), 1, 1)])
    for kinds in (0, 3):  # a third one would have been left out in part
        with pytest.raises(ValueError, match=f"one or two kinds of draws, got {kinds}"):
            composed_delta(1.0, [Moved(law, 5, 1)] * kinds)


def test_continuous_noise_reveals_what_balle_and_wang_say() -> None:
    # Catches a sign in either tail, and a search that ends above δ. The first is their Theorem 8 by
    # numerical integration.
    for epsilon, revealed in ((0.1, 0.02), (1.0, 0.3), (4.0, 1.5)):
        x = np.linspace(-40, 40, 2_000_001)
        density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        excess = np.maximum(0, -np.expm1(epsilon - revealed * x - revealed**2 / 2))
        assert gaussian_delta(epsilon, revealed) == pytest.approx(float((density * excess).sum() * 4e-5), rel=1e-6)
    for _, epsilon, delta in REALISTIC:
        most = most_revealed(epsilon, delta)
        assert gaussian_delta(epsilon, most) <= delta
        assert gaussian_delta(epsilon, most) == pytest.approx(delta, rel=1e-6)
    assert gaussian_delta(1.0, 0.0) == 0
