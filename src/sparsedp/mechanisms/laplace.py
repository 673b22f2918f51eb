"""`laplace`: noise on every key of the domain, stored densely (Dwork et al. 2006; the paper's
Algorithm 1).

Guarantee: ε-differential privacy for neighbours at ℓ1 distance `sensitivity`, with ε computed from
the integer thresholds of the two-sided geometric noise. Proof: docs/privacy.md, "Dense noise".
Exact test: tests/mechanisms/test_exact_laplace.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from ..errors import ParameterError
from ..privacy.laws import TwoSided
from ..privacy.randomness import Randomness, Words
from ..structures.table import LARGEST_COUNT, Counts, add_noise
from .base import ArrayShape, Plan
from .partial import Touched
from .problem import Problem
from .reading import ArrayReader, Arrays, Estimates, Parts, Reader

LARGEST_DOMAIN = 1 << 32


@dataclass(frozen=True)
class LaplacePlan(Plan):
    """One noisy counter for each key of a public, moderate domain."""

    problem: Problem
    noise: TwoSided
    reason: str = Plan.reason

    mechanism = "laplace"
    row = 1
    pure = True
    estimates_sign = True

    @classmethod
    def create(cls, problem: Problem) -> LaplacePlan:
        """Spend the whole budget on the noise."""
        if problem.domain > LARGEST_DOMAIN:
            got = "none, which is 2^64" if problem.hashed else problem.domain
            raise ParameterError(
                f"laplace stores a counter for every key: domain must be at most 2^32, got {got}; "
                "pass domain= with integer keys, or use another mechanism"
            )
        return cls(problem, TwoSided.with_rate(problem.rate()))

    @property
    def step_loss(self) -> Decimal:
        return self.noise.step_loss

    @property
    def cells_nbytes(self) -> float:
        return 8 * self.problem.domain

    @property
    def access(self) -> int:
        return 1

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        return {"values": (np.int64, (self.problem.domain,))}

    def build(self, ids: Words, counts: Counts, randomness: Randomness) -> Arrays:
        dense = np.zeros(self.problem.domain, np.int64)
        dense[ids] = counts
        return {"values": add_noise(dense, self.noise, randomness)}

    def wrong_arrays(self, parts: Parts, thorough: bool) -> Iterator[str]:
        values = parts[0]["values"]
        if thorough and (values.max() > LARGEST_COUNT or values.min() < -LARGEST_COUNT):
            yield "values must be at most 2^61"

    def reader(self, parts: Parts) -> Reader:
        return ArrayReader(self, parts, self.estimate)

    def touched(self, arrays: Mapping[str, np.ndarray], part: int, ids: Words) -> dict[str, Touched]:
        return {"values": Touched(ids.astype(np.int64), 1)}

    def estimate(self, arrays: Mapping[str, np.ndarray], ids: Words) -> Estimates:
        """Unclamped estimates, in cells."""
        return arrays["values"][ids].astype(np.float64)

    def simulate(self, count: int, samples: int) -> Estimates:
        return self.clamp(count + self.noise.spread(samples).astype(np.float64))

    @property
    def noise_variance(self) -> float:
        return self.noise.variance_of_draws

    @property
    def expected_error_cells(self) -> float:
        return self.noise.mean_size

    @property
    def maximum_error_cells(self) -> float:
        return self.noise.largest_of(self.problem.domain)

    def error_with_probability_cells(self, failure: float) -> float:
        return self.noise.exceeded_with(failure)

    def faults(self) -> Iterator[str]:
        if self.problem.domain > LARGEST_DOMAIN:
            yield "the domain must be at most 2^32"
