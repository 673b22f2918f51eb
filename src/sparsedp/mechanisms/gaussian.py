"""Gaussian noise for users with many keys: the laws of the counts and of the number of keys.

Guarantee: adding or removing a user moves at most m keys by at most M each, and the number of keys
by at most m. `composed_delta` bounds δ for all of these draws together at the ε of the problem;
what else costs δ (`retrieval`) is added to it. Proof: docs/privacy.md, "Gaussian composition".
Exact test: tests/privacy/test_composition.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..errors import ParameterError
from ..privacy.composition import Moved, composed_delta, most_revealed
from ..privacy.cut_laws import MOST_REACH, SMALLEST_VARIANCE, CutGaussian
from ..privacy.randomness import Randomness
from ..structures.table import Counts
from ..structures.thresholds import GaussianStage
from .problem import SAME_FINGERPRINT, Problem, UserBounds
from .sizing import Sizing

# Shares of δ: for the noise, for an array that is too small, and for dependent rows.
NOISE_SHARE, OVERFLOW_SHARE, DEPENDENCE_SHARE = Fraction(7, 8), Fraction(1, 16), Fraction(1, 16)


class Goal(NamedTuple):
    """What the noise is planned for."""

    cut_share: float  # of the δ for the noise: for values that are cut off, so that keys are stored early
    number_share: float  # of what the noise may reveal: for the number of keys, at most


LEAST_ERROR, MOST_NAMES = Goal(0.2, 0.08), Goal(0.5, 0.03)
SMALLEST_NUMBER_SHARE = 0.01
ASSUMED_KEYS = 10_000

WORD_BITS = (40, 48, 56, 64)
FINEST_VARIANCE = 1 << 10  # its denominator
_ATTEMPTS, _MOST_ROUNDING = 12, 0.2
_FACTORS = np.linspace(1.001, 1.06, 31).tolist()  # times the least noise
NO_NOISE = (
    "there is no gaussian noise for these bounds: a smaller max_keys_per_user or max_per_key, a larger epsilon or "
    "delta, or noise='geometric' will do"
)
DRAWING_LOSS = 2.0**-60  # of a uniform word among those of a value, for each key


@dataclass(frozen=True)
class GaussianNoise:
    """The laws of the noise on counts and on the number of keys, if that is published."""

    counts: CutGaussian
    number: CutGaussian | None

    def delta(self, epsilon: float, user: UserBounds) -> float:
        """The δ of all draws that a user may move, rounded up."""
        return noise_delta(epsilon, user, self.counts, self.number)

    @classmethod
    def plan(cls, problem: Problem, delta: Fraction, counted: bool) -> GaussianNoise:
        """The least noise on counts for this δ, with a number of keys or without.

        It is the same before the number is known and afterwards.
        """
        user = UserBounds.of(problem)
        entries = None if problem.size_estimated else problem.entries
        keys = max(1, (entries or ASSUMED_KEYS) // problem.parts)
        goal = MOST_NAMES if problem.keep_keys else LEAST_ERROR
        return _planned(problem.epsilon, float(delta), user, goal, keys if counted else None)


@lru_cache(maxsize=64)  # draft, size and plan ask for the same
def _planned(epsilon: float, delta: float, user: UserBounds, goal: Goal, keys: int | None) -> GaussianNoise:
    """The fewest bits, and with them the smallest variance, up to a small factor."""
    reason: ParameterError | None = None
    for bits in WORD_BITS:
        left = 1 - 0.5 * goal.cut_share  # of δ, for the noise itself
        for _ in range(_ATTEMPTS):
            try:
                noise, rounding = _attempted(epsilon, delta, left, user, goal, keys, bits)
            except ParameterError as wrong:  # too many values for words of so many bits
                reason = wrong
                break
            if rounding > (goal.cut_share + _MOST_ROUNDING) * delta:
                break
            if noise.delta(epsilon, user) <= delta:
                return noise
            left *= 0.97
    raise ParameterError(NO_NOISE) from reason


def _attempted(
    epsilon: float, delta: float, left: float, user: UserBounds, goal: Goal, keys: int | None, bits: int
) -> tuple[GaussianNoise, float]:
    """The laws whose noise would take a share of δ if it were continuous, and what rounding adds to
    that.
    """
    variance = user.keys * user.per_key**2 / most_revealed(epsilon, left * delta) ** 2
    ratio = None if keys is None else _number_ratio(user, goal, keys, variance, delta)
    if ratio is not None:
        variance *= 1 + float(1 / (ratio * user.per_key * user.unit))
    exact = max(Fraction(math.ceil(variance * FINEST_VARIANCE), FINEST_VARIANCE), SMALLEST_VARIANCE)
    cut = user.per_key + math.ceil(math.sqrt(variance) * _tail_quantile(goal.cut_share * delta / user.keys))
    counts = CutGaussian(bits, exact, cut)
    number = None if ratio is None else CutGaussian(64, exact * ratio * user.number_shift / user.per_key, MOST_REACH)
    if any(wrong for law in (counts, number) if law is not None for wrong in law.faults()):
        raise ParameterError(NO_NOISE)
    return GaussianNoise(counts, number), Moved(counts, user.keys, user.per_key).rounding


def _number_ratio(user: UserBounds, goal: Goal, keys: int, variance: float, delta: float) -> Fraction:
    """How much more the number of keys varies than the counts, relative to what a user moves.

    It is whole or the inverse of a whole number: the loss is then a function of one whole number.
    """
    quantile, each = _tail_quantile(delta / 16), user.per_key * user.unit

    def cost(ratio: Fraction) -> float:
        share = float(1 / (ratio * each))
        margin = user.unit * quantile * math.sqrt(variance * float(ratio) * user.number_shift / user.per_key)
        return (1 + margin / keys) * (1 + share)

    shares = np.geomspace(SMALLEST_NUMBER_SHARE, goal.number_share, 12).tolist()
    whole = {Fraction(max(1, round(1 / (share * each)))) for share in shares}
    parts = {Fraction(1, max(1, round(share * each))) for share in shares}
    # The inner variance of the composition must be at least one.
    inner = [ratio for ratio in whole | parts if user.keys * variance > 2 * max(ratio * each + 1, (1 + each / ratio))]
    small = [ratio for ratio in inner if 1 / (ratio * each) <= 1.05 * goal.number_share]
    return min(sorted(small), key=cost) if small else max(inner or whole)


def noise_delta(epsilon: float, user: UserBounds, counts: CutGaussian, number: CutGaussian | None) -> float:
    """The δ of the noise on counts, and on their number if that is published, at this ε."""
    return composed_delta(epsilon - user.keys * DRAWING_LOSS, moves_of(user, counts, number))


def moves_of(user: UserBounds, counts: CutGaussian, number: CutGaussian | None) -> tuple[Moved, ...]:
    """What a user moves: the counts of keys, and their number if that is published."""
    of_counts = Moved(counts, user.keys, user.per_key)
    return (of_counts,) if number is None else (of_counts, Moved(number, 1, user.number_shift))


def _tail_quantile(chance: float) -> float:
    """The z with P[N(0, 1) > z] = chance, by halving."""
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) / 2 > chance else (low, middle)
    return high


@dataclass(frozen=True)
class GaussianSize(Sizing):
    """How many keys the fullest part has, in units; all parts have arrays for that many and a
    margin.

    A user's keys may lie in several parts, and the largest number moves by no more than their
    number.
    """

    law: CutGaussian
    user: UserBounds

    of_built_cells = True

    @classmethod
    def plan(cls, problem: Problem) -> GaussianSize:
        """The noise that `GaussianNoise` plans."""
        number = GaussianNoise.plan(problem, NOISE_SHARE * Fraction(problem.delta), counted=True).number
        assert number is not None
        return cls(number, UserBounds.of(problem))

    def count(self, cells: Counts, upper: int | None = None) -> int:
        return int(np.count_nonzero(cells)) if upper is None or upper > 0 else 0

    def noisy(self, counted: Sequence[int], randomness: Randomness) -> list[int]:
        units = -(-max(counted) // self.user.unit)
        return [self.user.unit * (units + int(self.law.draw(1, randomness)[0]))]

    def sized(self, problem: Problem, noisy: Sequence[int]) -> Problem:
        spent = replace(problem, sizing_noise=self.law, sizing_keys=self.user.keys)
        if problem.entries is not None:
            return replace(spent, bounded=True)
        return replace(spent, nonzero=problem.parts * max(1, *noisy, 0))

    def unknown(self, problem: Problem) -> list[int]:
        return [0]


def number_margin(user: UserBounds, law: CutGaussian, chance: Fraction) -> int:
    """What is added to a noisy number of keys so that all keys of neighbours have room, except with
    this chance.
    """
    return user.unit * (law.smallest_tail(chance) - 1) + user.keys


def number_overflow(user: UserBounds, law: CutGaussian, above: int) -> Fraction:
    """P[the keys of neighbours together exceed the noisy number of one of them by more than
    `above`].
    """
    return law.at_least((above - user.keys) // user.unit + 1)


def plan_names(problem: Problem, goal: str) -> GaussianStage:
    """The stage with the lowest threshold (`names`), or the one with little more noise than there
    must be (`error`).
    """
    user = UserBounds.of(problem)
    delta = problem.delta - float(problem.collision(0)) * (1 + 1e-9)
    if delta <= 0:
        raise ParameterError(SAME_FINGERPRINT.format(problem.delta))
    stage = _stage(problem.epsilon, delta, user, goal, problem.signed)
    if stage is None:
        raise ParameterError(NO_NOISE)
    return stage


@lru_cache(maxsize=64)  # also of what cannot be, which takes longest
def _stage(epsilon: float, delta: float, user: UserBounds, goal: str, signed: bool) -> GaussianStage | None:
    least = math.sqrt(user.keys) * user.per_key / most_revealed(epsilon, delta)

    def lowest(factor: float) -> GaussianStage | None:
        variance = Fraction(math.ceil((factor * least) ** 2 * FINEST_VARIANCE), FINEST_VARIANCE)
        law = CutGaussian(64, max(variance, SMALLEST_VARIANCE), MOST_REACH)
        return _lowest_threshold(epsilon, delta, GaussianStage(law, 1, user.keys, user.per_key, signed))

    if all(lowest(factor) is None for factor in _FACTORS[::10]):
        return None
    stages: list[GaussianStage] = []
    for factor in _FACTORS:
        stage = lowest(factor)
        if stages and (stage is None or stage.threshold > stages[-1].threshold):
            break  # more noise raises the threshold from here on
        if stage is not None:
            stages.append(stage)
    best = stages[-1]  # of the lowest threshold, the most noise: most keys are below it
    if goal == "error":  # the least noise whose threshold is nearly as low
        best = next(stage for stage in stages if stage.threshold <= 1.02 * best.threshold)
    return best


def _lowest_threshold(epsilon: float, delta: float, stage: GaussianStage) -> GaussianStage | None:
    """The stage with the lowest threshold for its noise; None if there is none."""

    def fits(threshold: int) -> bool:
        return replace(stage, threshold=threshold).delta(epsilon, enough=delta) <= delta

    low, high = stage.per_key + 1, stage.per_key + stage.noise.reach + 1
    if not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return replace(stage, threshold=high)
