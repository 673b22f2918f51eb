"""What the threshold stage of `tight-alp` leaves over: keys that are not stored, and the rest of
each step's budget.

Privacy is decided by `unstored_chances` and `ratio_up`, in exact arithmetic; the floats here choose
plans and decode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..errors import ParameterError
from ..privacy.bounds import geometric_mean_error
from ..privacy.laws import log_bounds, precise
from ..privacy.neighbours import HEADROOM
from ..privacy.numbers import check_number
from ..structures.decoding import Floats
from ..structures.ladder import MOST_HEIGHT, RATIO_BITS, Ladder
from ..structures.table import Counts
from ..structures.thresholds import PureStage, StableStage, Stage
from .problem import Problem
from .stability import plan_stable_stage
from .support import OVERFLOW_SHARE
from .threshold import check_stored_zeros

STORED_ZERO_SHARE = 0.005  # of the keys, for pure privacy
LEAST_FACTOR = 1 + 1e-9  # where "not stored" leaves nothing


def plan_stage(problem: Problem, stored_zeros: float | None, threshold_rule: str) -> Stage:
    """The threshold stage of a plan, at the full budget, or `ParameterError`."""
    if problem.entries is None:
        raise ParameterError("the size of an embedding needs nonzero= or total=; release() can estimate it")
    if problem.delta > 0:
        own = problem
        if problem.counted:  # the rest of δ is for a number of keys that is too small
            own = replace(problem, delta=float((1 - OVERFLOW_SHARE) * Fraction(problem.delta)))
        stage: Stage = plan_stable_stage(own, Decimal(1), threshold_rule)
    else:
        zeros = max(1.0, STORED_ZERO_SHARE * problem.entries) if stored_zeros is None else stored_zeros
        zeros = check_number("stored_zeros", zeros)
        zeros = min(zeros, problem.domain / 4) if stored_zeros is None else zeros
        stage = PureStage.plan(problem.rate(), problem.domain, check_stored_zeros(zeros, problem.domain))
        stage = stage.at_least(2)  # below 2 nothing is left to embed
    if stage.threshold > MOST_HEIGHT:
        raise ParameterError(
            f"tight-alp would need {stage.threshold} heights at this epsilon and delta, more than {MOST_HEIGHT}; "
            "use a larger epsilon or delta, or a larger step"
        )
    return stage


@lru_cache(maxsize=8)  # planning and opening a release each need it twice
def unstored_chances(stage: Stage, counts: int) -> tuple[tuple[Fraction, ...], ...]:
    """P[not stored | c] for c = 0..counts - 1; for a zero of the pure stage, both of its bounds.

    Tails of the noise have an error of 2^-240, far below the 1e-40 by which logarithms are widened.
    """
    first = tuple(1 - chance for chance in stage.passing.chance) if isinstance(stage, PureStage) else (Fraction(1),)
    return first, *((chance,) for chance in stage.unstored(counts - 1))


def unstored_loss(stage: Stage, ladder: Ladder) -> Decimal:
    """The largest loss of one step of "not stored" and the symbols together."""
    absent = unstored_chances(stage, ladder.height + 1)
    worst = 1 << RATIO_BITS
    for count in steepest(absent, *ladder.rough_ratios):
        (up, down), (after, *_) = ladder.step_ratios(count), absent[count + 1]
        # P[z, not stored] changes by P[not stored | c + 1]/P[not stored | c] times the symbols' ratio.
        for start in absent[count]:
            worst = max(worst, ratio_up(up, after, start), ratio_up(down, start, after))
    return log_bounds(Fraction(worst, 1 << RATIO_BITS)).high


def steepest(absent: Sequence[Sequence[Fraction]], up: Floats, down: Floats) -> list[int]:
    """The steps whose loss may be the largest, by the ratios of their symbols and the chances of "not
    stored" before and after.

    Floats only leave out steps that cannot have it: ratios are off by less than 1e-15 of themselves,
    and chances and three operations by 2^-53 each, far less than the 1e-12 that is left. What is not
    a number is not left out.
    """
    least = np.array([float(min(chances)) for chances in absent])
    most = np.array([float(max(chances)) for chances in absent])
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.maximum(up * least[1:] / least[:-1], down * most[:-1] / most[1:])
        return np.flatnonzero(~(losses < losses.max() * (1 - 1e-12))).tolist()


def ratio_up(factor: Fraction, above: Fraction, below: Fraction) -> int:
    """Factor · above/below in units of 2^-192, rounded up; fractions would spend their time on
    common divisors.
    """
    numerator = factor.numerator * above.numerator * below.denominator
    denominator = factor.denominator * above.denominator * below.numerator
    return (numerator << RATIO_BITS) // denominator + 1


def not_stored(stage: Stage, counts: Counts) -> Floats:
    """P[not stored | count] as floats, for decoding."""
    rate = float(stage.noise.rate)
    a = math.exp(-rate)
    start = counts.astype(np.float64)
    if isinstance(stage, StableStage):
        start = np.maximum(start, stage.unit)
    gap = stage.threshold - start
    stored = np.where(
        gap >= 1, np.exp(-rate * np.maximum(gap, 1)) / (1 + a), 1 - np.exp(-rate * (1 - np.minimum(gap, 1))) / (1 + a)
    )
    if isinstance(stage, StableStage):
        stored = stored * np.minimum(counts / stage.unit, 1.0)
    return 1 - stored


def stored_error(stage: Stage, counts: Counts) -> Floats:
    """E[|error|; stored | count] as floats: what stored keys add to the expected error."""
    rate = float(stage.noise.rate)
    a = math.exp(-rate)

    def tail(j: Floats) -> Floats:
        """Σ i P[η = i] over i >= j, for j >= 1."""
        return np.exp(-rate * j) / (1 + a) * (j + a / (1 - a))

    start = counts.astype(np.float64)
    if isinstance(stage, StableStage):
        start = np.maximum(start, stage.unit)  # small counts are stored as this one, or not at all
    gap = stage.threshold - start
    above = np.maximum(gap, 1)
    raised = tail(above) + (start - counts) * np.exp(-rate * above) / (1 + a)
    error: Floats = np.where(gap >= 1, raised, geometric_mean_error(rate) - tail(1 - np.minimum(gap, 0)))
    if isinstance(stage, StableStage):
        error = error * np.minimum(counts / stage.unit, 1.0)
    return error


def assumed_above(problem: Problem, stage: Stage, counts: Floats, uniform: bool = False) -> Floats:
    """How many unstored keys are assumed above each count: Zipf's law in units of the noise, or
    uniform to 2T.
    """
    keys = float(problem.entries or 1)
    if uniform:
        return keys * np.maximum(stage.threshold - counts, 0.0) / (2 * stage.threshold)
    return np.maximum(problem.keys_above(counts) - problem.keys_above(stage.threshold), 0.0)


def expected_stored(problem: Problem, stage: Stage, sides: int = 1) -> float:
    """How many pairs a plan assumes in the table, or in each of two if keys have both signs."""
    zeros = float(stage.passing.chance[1] * problem.domain) if isinstance(stage, PureStage) else 0.0
    return zeros + float(problem.keys_above(stage.threshold)) / sides


def step_growth(problem: Problem) -> float:
    """The exponential of a step's budget, rounded down slightly."""
    with precise(ROUND_FLOOR):
        return float((problem.step_budget * HEADROOM).exp())


def step_factors(stage: Stage, growth: float, steps: int) -> Floats:
    """The factor by which each of the first steps may change symbol probabilities: the growth, less
    "not stored".

    These are exact chances, rounded to doubles, and their quotients, so they are the same on every
    machine.
    """
    absent = np.array([float(chances[-1]) for chances in unstored_chances(stage, steps + 1)])
    factors: Floats = np.maximum(growth * (absent[1:] / absent[:-1]), LEAST_FACTOR)
    return factors


def ladder_top(problem: Problem, stage: Stage) -> int:
    """The steps that a ladder separates: below T - 1 (from there on "not stored" leaves nothing),
    and below upper.
    """
    top = stage.threshold - 1
    return top if problem.upper_cells is None else min(top, max(1, problem.upper_cells))
