"""`stability`: noise on non-zero keys only, large noisy values are stored (Korolova et al. 2009; Threshold2).

Guarantee: (ε, δ)-differential privacy for neighbours at ℓ1 distance `sensitivity`; both are computed exactly from
the integer thresholds, and δ is the probability that a key which a neighbour lacks is stored. Proof:
docs/privacy.md, "Stability". Exact test: tests/test_exact_threshold.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from .. import bounds
from ..errors import ParameterError
from ..randomness import Randomness, Words
from ..table import Counts, StableStage, thresholded_interval
from .base import Arrays, Estimates, Plan, Problem, spread_noise
from .threshold import TABLE_ENTRY_NBYTES, worst_thresholded_error


def plan_stable_stage(problem: Problem, share: Decimal, rule: str) -> StableStage:
    """The stage that spends a share of the budget and all of δ, with the tight threshold or the paper's."""
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
class StabilityPlan(Plan):
    """A table of the non-zero keys whose noisy value reaches the threshold; every other key is estimated as 0."""

    problem: Problem
    stage: StableStage
    reason: str = Plan.reason

    mechanism = "stability"

    @classmethod
    def create(cls, problem: Problem, threshold_rule: str = "tight") -> StabilityPlan:
        """The smallest threshold for δ (`tight`), or the paper's t = ln(1/δ)/ε + 2 (`paper`)."""
        return cls(problem, plan_stable_stage(problem, Decimal(1), threshold_rule))

    @property
    def step_loss(self) -> Decimal:
        return self.stage.step_loss

    @property
    def exact_delta(self) -> Fraction:
        return self.stage.delta

    @property
    def cells_nbytes(self) -> float | None:
        entries = self.problem.entries
        return None if entries is None else TABLE_ENTRY_NBYTES * entries

    @property
    def access(self) -> int:
        return 1

    def build(self, ids: Words, counts: Counts, randomness: Randomness) -> Arrays:
        table = self.stage.select(ids, counts, randomness)
        return {"table.ids": table.ids, "table.values": table.values}

    def estimate(self, arrays: Arrays, ids: Words) -> Estimates:
        return self.stored(arrays).find(ids)[1].astype(np.float64)

    def simulate(self, count: int, samples: int) -> Estimates:
        return self.clamp(simulate_stable(self.stage, count, samples)[1])

    def interval(self, arrays: Arrays, ids: Words, failure: float) -> tuple[Estimates, Estimates]:
        noise = bounds.geometric_error_with_probability(float(self.stage.noise.rate), failure)
        return thresholded_interval(self.stored(arrays), ids, self.stage.threshold, noise)[1:]

    @property
    def expected_error_cells(self) -> float:
        return worst_thresholded_error(float(self.stage.noise.rate), self.stage.threshold)

    @property
    def maximum_error_cells(self) -> float:
        return self.stage.threshold + bounds.expected_maximum(float(self.stage.noise.rate), self.problem.entries or 1)

    def error_with_probability_cells(self, failure: float) -> float:
        noise = bounds.geometric_error_with_probability(float(self.stage.noise.rate), failure)
        return self.stage.threshold + noise


def simulate_stable(stage: StableStage, count: int, samples: int) -> tuple[np.ndarray, Estimates]:
    """Whether a key of this count is stored, and its value (0 where not), over many draws."""
    noisy = count + spread_noise(stage.noise, samples)
    if count < stage.unit:
        up = np.random.default_rng(2).random(samples) < count / stage.unit
        noisy = np.where(up, noisy - count + stage.unit, -1)
    stored = noisy >= stage.threshold
    return stored, np.where(stored, noisy, 0).astype(np.float64)
