"""`threshold-alp`: large values in a table, small ones in the ALP embedding (Theorems ALPpure and
ALPapprox).

Guarantee: with δ = 0 pure ε-differential privacy, with δ > 0 (ε, δ), for neighbours at ℓ1 distance
`sensitivity`: the sum of the exact losses of both stages. Proof: docs/privacy.md, "Threshold ALP".
Exact test: tests/mechanisms/test_exact_alp.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

import numpy as np

from .._util.lazy import cached_property
from ..errors import ParameterError
from ..privacy.laws import precise
from ..privacy.randomness import Randomness, Words
from ..structures.table import Counts, Table
from ..structures.thresholds import PureStage, StableStage, Stage
from .alp import CROWDED, Embedding
from .base import TABLE_SHAPES, ArrayShape, Plan
from .options import ALPHA, SCALING, SIZE_FACTOR, SPLIT, STORED_ZEROS, THRESHOLD_RULE
from .partial import Touched
from .problem import STAGE_MISFIT, Problem
from .reading import ArrayReader, Arrays, Estimates, Parts, Reader, tables_of
from .stability import plan_stable_stage, simulate_stable
from .threshold import TABLE_ENTRY_NBYTES, check_stored_zeros


@dataclass(frozen=True)
class ThresholdAlpPlan(Plan):
    """Threshold (or Threshold2) with one share of ε, ALP with the rest and β = T.

    If `upper` is at most T, nothing would be stored: then there is no threshold stage, β = `upper`,
    and ALP has the whole budget.
    """

    problem: Problem
    stage: Stage | None
    embedding: Embedding
    stored_zeros: Fraction
    crowded: bool = field(default=False, compare=False)  # as the bits of the release show
    reason: str = Plan.reason

    mechanism = "threshold-alp"
    row = 5
    pure = approximate = True
    options = (ALPHA, SIZE_FACTOR, SPLIT, SCALING, STORED_ZEROS, THRESHOLD_RULE)
    needs_size = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        alpha: float = 3.0,
        size_factor: float = 10.0,
        split: float = 0.5,
        scaling: str = "paper",
        stored_zeros: float = 1.0,
        threshold_rule: str = "tight",
    ) -> ThresholdAlpPlan:
        """`split` is the share ε₁/(ε₁ + ε₂) of the threshold stage."""
        if not 0 < split < 1:
            raise ParameterError(f"split (the threshold stage's share of epsilon) must be in (0, 1), got {split}")
        share = Decimal(split)
        zeros = Fraction(0)
        stage: Stage
        if problem.delta > 0:
            stage = plan_stable_stage(problem, share, threshold_rule)
        else:
            zeros = check_stored_zeros(stored_zeros, problem.domain)
            stage = PureStage.plan(problem.rate(share), problem.domain, zeros)
        upper = problem.upper_cells
        if upper is not None and upper <= stage.threshold:
            whole = Embedding.plan(problem, problem.rate(), max(1, upper), alpha, size_factor, scaling)
            return cls(problem, None, whole, Fraction(0))
        with precise():
            rest = problem.rate(1 - share)
        return cls(problem, stage, Embedding.plan(problem, rest, stage.threshold, alpha, size_factor, scaling), zeros)

    @property
    def step_loss(self) -> Decimal:
        with precise(ROUND_CEILING):
            stage = Decimal(0) if self.stage is None else self.stage.step_loss
            return stage + self.embedding.rounding.step_loss

    @property
    def exact_delta(self) -> Fraction:
        return self.stage.delta if isinstance(self.stage, StableStage) else Fraction(0)

    @property
    def expected_stored(self) -> float:
        if self.stage is None:
            return 0.0
        return float(self.stored_zeros) + float(self.problem.keys_above(self.stage.threshold)) / self.releases

    @property
    def cells_nbytes(self) -> float:
        return self.embedding.columns.nbytes + TABLE_ENTRY_NBYTES * self.expected_stored

    @property
    def access(self) -> int:
        return self.embedding.columns.levels + (self.stage is not None)

    @property
    def smallest_stored(self) -> int:
        return 1 if self.stage is None else self.stage.threshold

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        return self.embedding.array_shapes | (TABLE_SHAPES if self.stage is not None else {})

    def build(self, ids: Words, counts: Counts, randomness: Randomness) -> Arrays:
        arrays = self.embedding.build(ids, counts, randomness)
        if self.stage is not None:
            table = self.stage.select(ids, counts, randomness).table
            arrays |= {"table.ids": table.ids, "table.values": table.values}
        return arrays

    def wrong_arrays(self, parts: Parts, thorough: bool) -> Iterator[str]:
        yield from super().wrong_arrays(parts, thorough)
        yield from self.embedding.wrong_arrays(parts[0])

    def observed(self, parts: Parts) -> ThresholdAlpPlan:
        return replace(self, crowded=self.embedding.crowded(parts[0]))

    @property
    def overload(self) -> str | None:
        return CROWDED if self.crowded else None

    def reader(self, parts: Parts) -> Reader:
        plan = self.observed(parts)
        if self.stage is None:
            return ArrayReader(plan, parts, self.embedding.estimate)
        return ThresholdAlpReader(plan, self.stage, parts)

    def touched(self, arrays: Mapping[str, np.ndarray], part: int, ids: Words) -> dict[str, Touched]:
        return self.embedding.touched(arrays, ids)

    def simulate(self, count: int, samples: int) -> Estimates:
        estimates = self.embedding.simulate(count, samples)
        if self.stage is None:
            return self.clamp(estimates)
        if isinstance(self.stage, StableStage):
            stored, values = simulate_stable(self.stage, count, len(estimates))
        else:
            noisy = count + self.stage.noise.spread(len(estimates))
            stored, values = noisy >= self.stage.threshold, noisy.astype(np.float64)
        return self.clamp(np.where(stored, values, estimates))

    @property
    def expected_error_cells(self) -> float:
        """E|η| + the ALP bound: the error of Lemma ALPpure, with its integrals evaluated."""
        noise = 0.0 if self.stage is None else self.stage.noise.mean_size
        return noise + self.embedding.bounds.expected_error * self.embedding.unit_cells

    @property
    def maximum_error_cells(self) -> float | None:
        if self.stage is None:
            return None
        keys = (self.problem.entries or 1) + float(self.stored_zeros)
        return self.stage.threshold + self.stage.noise.largest_of(keys)

    def error_with_probability_cells(self, failure: float) -> float:
        """A stored key errs by |η|, any other by at most |η| plus ALP's error; each gets half of
        the failures.
        """
        if self.stage is None:
            error = self.embedding.bounds.error_with_probability(failure) * self.embedding.unit_cells
            return math.inf if self.crowded else error
        noise = self.stage.noise.exceeded_with(failure / 2)
        if self.crowded:  # other keys may have set all bits of a key, but it is not stored
            return noise + self.stage.threshold
        return noise + self.embedding.bounds.error_with_probability(failure / 2) * self.embedding.unit_cells

    def faults(self) -> Iterator[str]:
        if not self.problem.fits(self.stage):
            yield STAGE_MISFIT


class ThresholdAlpReader(Reader):
    """The stored value if the key is stored, whatever its value, and the ALP estimate otherwise."""

    plan: ThresholdAlpPlan

    def __init__(self, plan: ThresholdAlpPlan, stage: Stage, parts: Parts) -> None:
        self.plan = plan
        self._stage = stage
        (self._arrays,) = parts

    @cached_property
    def _table(self) -> Table:
        return tables_of((self._arrays,))[0]

    def over(self, parts: Parts) -> Reader:
        return ThresholdAlpReader(self.plan, self._stage, parts)

    def estimate(self, ids: Words, estimator: str, prior: str) -> Estimates:
        stored, values = self._table.find(ids)
        return np.where(stored, values, self.plan.embedding.estimate(self._arrays, ids))

    def estimate_one(self, id: int) -> float:
        return float(self.estimate(np.array([id], np.uint64), *self.check(None, self.priors[0]))[0])

    def interval(self, ids: Words, failure: float, prior: str) -> tuple[Estimates, Estimates]:
        """Half of the failures for the noise, half for ALP; a saturated embedding bounds a count
        only from below.
        """
        embedding, threshold = self.plan.embedding, self._stage.threshold
        estimates = embedding.estimate(self._arrays, ids)
        noise = self._stage.noise.exceeded_with(failure / 2)
        error = math.inf  # other keys may have set all bits
        if not self.plan.crowded:
            error = embedding.bounds.error_with_probability(failure / 2) * embedding.unit_cells
        stored, values = self._table.find(ids)
        unsaturated = estimates + error < threshold
        low = np.where(stored, values - noise, np.maximum(0.0, estimates - error))
        high = np.where(stored, values + noise, threshold - 1 + noise)
        high = np.where(~stored & unsaturated, np.minimum(high, estimates + error), high)
        # The top level reaches a little beyond the threshold; an interval contains its estimate.
        return low, np.where(stored, high, np.maximum(high, estimates))
