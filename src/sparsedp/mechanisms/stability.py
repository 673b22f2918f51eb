"""`stability`: noise on non-zero keys only; large noisy values are stored (Korolova et al. 2009;
Threshold2).

Guarantee: (ε, δ)-differential privacy for neighbours at ℓ1 distance `sensitivity`; both are
computed exactly from the integer thresholds, and δ is the probability that a key that a neighbour
lacks is stored. With Gaussian noise neighbours differ in at most `max_keys_per_user` keys by at most
`max_per_key` each, and δ is an upper bound at the requested ε. Proof: docs/privacy.md, "Stability"
and "Gaussian names". Exact tests: tests/mechanisms/test_exact_threshold.py, test_exact_names.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from .._util.lazy import cached_property
from ..errors import ParameterError
from ..structures.thresholds import GaussianStage, StableStage
from .base import Plan
from .gaussian import plan_names
from .options import GOAL, THRESHOLD_RULE
from .problem import NOISES, Problem
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
    stage: StableStage | GaussianStage
    reason: str = Plan.reason

    mechanism = "stability"
    row = 6
    approximate = True
    options = (THRESHOLD_RULE, GOAL)
    keeps_keys = True
    noises = NOISES
    noise_figure = "keys are stored from"

    @classmethod
    def create(cls, problem: Problem, threshold_rule: str = "tight", goal: str = "names") -> StabilityPlan:
        """The smallest threshold for δ (`tight`), or the paper's t = ln(1/δ)/ε + 2 (`paper`).

        With Gaussian noise, threshold and noise are chosen together: for the lowest threshold
        (`names`), or for little noise (`error`).
        """
        if goal not in ("names", "error"):
            raise ParameterError(f"goal must be 'names' or 'error', got {goal!r}")
        if not problem.gaussian:
            return cls(problem, plan_stable_stage(problem, Decimal(1), threshold_rule))
        if threshold_rule != "tight":
            raise ParameterError("the paper's threshold is for geometric noise; use threshold_rule='tight'")
        return cls(problem, plan_names(problem, goal))

    @classmethod
    def figure_of_noise(cls, problem: Problem) -> float:
        """The threshold."""
        return float(cls.create(problem).stage.threshold)

    @property
    def releases(self) -> int:
        """One with Gaussian noise, which is added to negative values as it is to positive ones."""
        return 1 if self.problem.gaussian else super().releases

    @property
    def noise_scale_cells(self) -> float:
        return self.stage.noise.mean_size if self.problem.gaussian else super().noise_scale_cells

    @property
    def exact_epsilon(self) -> float:
        return self.problem.epsilon if self.problem.gaussian else super().exact_epsilon

    @cached_property
    def exact_delta(self) -> Fraction:
        stage = self.stage
        if isinstance(stage, GaussianStage):
            return Fraction(stage.delta(self.problem.epsilon)) + self.problem.collision(0)
        return stage.delta

    def simulate(self, count: int, samples: int) -> Estimates:
        if isinstance(self.stage, StableStage):
            return self.clamp(simulate_stable(self.stage, count, samples)[1])
        noisy = count + self.stage.noise.spread(samples)
        return self.clamp(np.where((noisy >= self.stage.threshold) & (count > 0), noisy, 0).astype(np.float64))


def simulate_stable(stage: StableStage, count: int, samples: int) -> tuple[np.ndarray, Estimates]:
    """Whether a key of this count is stored, and its value (0 if it is not), over many draws."""
    noisy = count + stage.noise.spread(samples)
    if count < stage.unit:
        up = np.random.default_rng(2).random(samples) < count / stage.unit
        noisy = np.where(up, noisy - count + stage.unit, -1)
    stored = noisy >= stage.threshold
    return stored, np.where(stored, noisy, 0).astype(np.float64)
