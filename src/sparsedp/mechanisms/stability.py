"""`stability`: noise on non-zero keys only; large noisy values are stored (Korolova et al. 2009;
Threshold2).

Guarantee: (ε, δ)-differential privacy for neighbours at ℓ1 distance `sensitivity`; both are
computed exactly from the integer thresholds, and δ is the probability that a key that a neighbour
lacks is stored. Proof: docs/privacy.md, "Stability". Exact test:
tests/mechanisms/test_exact_threshold.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from ..errors import ParameterError
from ..structures.thresholds import StableStage
from .base import Plan
from .options import THRESHOLD_RULE
from .predictions import spread_noise
from .problem import Problem
from .reading import Estimates
from .threshold import TablePlan


def plan_stable_stage(problem: Problem, share: Decimal, rule: str) -> StableStage:
    """The stage that spends a share of the budget and all of δ, with the tight threshold or the
    paper's.
    """
    if problem.delta <= 0:
        raise ParameterError(f"a threshold on non-zero keys only needs delta > 0, got {problem.delta}")
    rate, distance, delta = problem.rate(share), problem.neighbours.distance, Fraction(problem.delta)
    if rule == "tight":
        return StableStage.plan(rate, distance, delta)
    if rule == "paper":  # t = ln(1/δ)/ε + 2 for neighbours at distance 1
        threshold = math.ceil(math.log(1 / problem.delta) / float(rate) + 2 * float(distance))
        return StableStage.at_threshold(rate, distance, threshold)
    raise ParameterError(f"threshold_rule must be 'tight' or 'paper', got {rule!r}")


@dataclass(frozen=True)
class StabilityPlan(TablePlan):
    """Noise on non-zero keys only."""

    problem: Problem
    stage: StableStage
    reason: str = Plan.reason

    mechanism = "stability"
    row = 6
    approximate = True
    options = (THRESHOLD_RULE,)
    keeps_keys = True

    @classmethod
    def create(cls, problem: Problem, threshold_rule: str = "tight") -> StabilityPlan:
        """The smallest threshold for δ (`tight`), or the paper's t = ln(1/δ)/ε + 2 (`paper`)."""
        return cls(problem, plan_stable_stage(problem, Decimal(1), threshold_rule))

    @property
    def exact_delta(self) -> Fraction:
        return self.stage.delta

    def simulate(self, count: int, samples: int) -> Estimates:
        return self.clamp(simulate_stable(self.stage, count, samples)[1])


def simulate_stable(stage: StableStage, count: int, samples: int) -> tuple[np.ndarray, Estimates]:
    """Whether a key of this count is stored, and its value (0 if it is not), over many draws."""
    noisy = count + spread_noise(stage.noise, samples)
    if count < stage.unit:
        up = np.random.default_rng(2).random(samples) < count / stage.unit
        noisy = np.where(up, noisy - count + stage.unit, -1)
    stored = noisy >= stage.threshold
    return stored, np.where(stored, noisy, 0).astype(np.float64)
