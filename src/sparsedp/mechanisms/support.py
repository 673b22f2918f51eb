"""The number of non-zero keys, with noise: the size of `retrieval`.

Guarantee: an array has a margin above the noisy number of keys, or above the largest such number
that a public bound allows. A part has more keys than its array was made for with probability at
most `overflow`, a part of δ. Between neighbours at most `moved_keys` keys come or go, so the number
moves by at most that much, however large the counts. Proof: docs/privacy.md, "Retrieval". Exact
test: tests/mechanisms/test_exact_retrieval.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np

from ..errors import ParameterError
from ..privacy.bounds import geometric_mean_error
from ..privacy.cut_laws import CutGaussian
from ..privacy.laws import LARGEST_STEP_LOSS, TwoSided, precise, round_down, round_up
from ..privacy.neighbours import HEADROOM
from ..privacy.randomness import Randomness
from ..structures.table import Counts, add_noise
from . import gaussian
from .problem import Problem, UserBounds
from .sizing import Sizing, law_of_size

OVERFLOW_SHARE = Fraction(3, 8)  # of δ, for an array that is too small

# Of ε: a trade-off between the noise that the number adds to the counts and the space of its
# margin.
SMALLEST_SHARE, LARGEST_SHARE = 0.01, 0.055
MOST_ERROR = 1.059  # times the error of noise with all of ε on every key
ASSUMED_KEYS = 10_000

UNFILLED_CHANCE = Fraction(1, 100)  # that a number of keys at its public bound appears to exceed it
LARGEST_EXPONENT = 1000


@dataclass(frozen=True)
class SupportSize(Sizing):
    """How many keys each part has; its array is made for that many and a margin."""

    law: TwoSided

    of_built_cells = True

    @classmethod
    def plan(cls, problem: Problem, share: float | None = None) -> SupportSize:
        """Noise that spends a share of ε, by default one that balances the margin with the noise on
        the counts.
        """
        share = planned_share(problem) if share is None else share
        with precise(ROUND_FLOOR):
            rate = problem.step_budget * Decimal(share) * HEADROOM
            if not problem.neighbours.real:
                rate *= round_down(problem.neighbours.distance) / problem.moved_keys
            rate = min(rate, LARGEST_STEP_LOSS * HEADROOM)
        return cls(law_of_size(rate, share))

    def count(self, cells: Counts, upper: int | None = None) -> int:
        return int(np.count_nonzero(cells)) if upper is None or upper > 0 else 0

    def noisy(self, counted: Sequence[int], randomness: Randomness) -> list[int]:
        return [int(number) for number in add_noise(np.array(counted), self.law, randomness)]

    def sized(self, problem: Problem, noisy: Sequence[int]) -> Problem:
        loss, moved = problem.loss_of_number(self.law), problem.moved_keys
        spent = replace(problem, sizing_loss=loss, sizing_noise=self.law, sizing_keys=moved)
        if problem.entries is not None:
            return replace(spent, bounded=True)
        return replace(spent, nonzero=problem.parts * max(1, *noisy))

    def unknown(self, problem: Problem) -> list[int]:
        return [0] * problem.parts


def room(problem: Problem, law: TwoSided | CutGaussian) -> int:
    """The noisy number of keys that a part may have, if there is a public bound on all of them."""
    assert problem.entries is not None
    most = _entries_of_part(problem.entries, problem.parts)
    if isinstance(law, CutGaussian):
        unit = UserBounds.of(problem).unit
        return unit * (-(-most // unit) + law.smallest_tail(UNFILLED_CHANCE))
    return most + law.smallest_tail(UNFILLED_CHANCE / problem.parts)


def margin(problem: Problem, law: TwoSided | CutGaussian) -> int:
    """What is added to a noisy number so that no key is left out, except with the share of δ for
    overflow.
    """
    if isinstance(law, CutGaussian):
        chance = gaussian.OVERFLOW_SHARE * Fraction(problem.delta)
        return gaussian.number_margin(UserBounds.of(problem), law, chance)
    whole = step_delta(problem) if problem.neighbours.real else Fraction(problem.delta)
    return law.smallest_tail(whole * OVERFLOW_SHARE / touched_parts(problem)) + problem.moved_keys - 1


def overflow(problem: Problem, law: TwoSided | CutGaussian, above: int) -> Fraction:
    """P[the keys of neighbours together exceed the noisy number of one of them by more than
    `above`].
    """
    if isinstance(law, CutGaussian):
        return gaussian.number_overflow(UserBounds.of(problem), law, above)
    return touched_parts(problem) * law.at_least(above + 1 - problem.moved_keys)


def planned_share(problem: Problem) -> float:
    """The share of ε with about the least error and space, within the accepted error."""
    keys = (problem.entries or ASSUMED_KEYS) / problem.parts
    whole = float(problem.epsilon) / float(problem.neighbours.distance)
    margin_at_one = -math.log(problem.delta) * problem.moved_keys / problem.epsilon
    if problem.neighbours.real:
        margin_at_one *= float(problem.neighbours.distance)
    share = min(LARGEST_SHARE, max(SMALLEST_SHARE, math.sqrt(margin_at_one / (3 * keys))))
    dense, left = geometric_mean_error(whole), float(problem.step_budget)
    while share > SMALLEST_SHARE and geometric_mean_error(left * (1 - share)) > MOST_ERROR * dense:
        share = max(SMALLEST_SHARE, 0.97 * share)
    return share


def step_delta(problem: Problem) -> Fraction:
    """The δ that one step may have."""
    return Fraction(problem.delta) / step_multiplier(problem, problem.step_budget)


def step_multiplier(problem: Problem, step_loss: Decimal) -> Fraction:
    """δ of all neighbours per δ of one step: (e^ε - 1)/(e^w - 1), rounded up (docs/privacy.md,
    "Steps with a δ").
    """
    if not problem.neighbours.real and problem.neighbours.distance == 1:
        return Fraction(1)
    with precise(ROUND_CEILING):
        loss = step_loss + problem.sizing_loss  # everything that a step loses
        cell = loss.exp() - 1
        whole = (cell if problem.neighbours.real else loss) * round_up(problem.neighbours.distance)
        if whole > LARGEST_EXPONENT:
            raise ParameterError(f"epsilon must be at most {LARGEST_EXPONENT} with delta > 0, got {whole:.6g}")
        return Fraction((whole.exp() - 1) / cell * (1 + Decimal("1e-30")))


def touched_parts(problem: Problem) -> int:
    """How many parts may gain or lose keys."""
    return min(problem.parts, problem.moved_keys)


def _entries_of_part(entries: int, parts: int) -> int:
    """Keys that a part has room for: six standard deviations above its share, for accuracy only."""
    share = entries / parts
    return entries if parts == 1 else min(entries, math.ceil(share + 6 * math.sqrt(share) + 6))
