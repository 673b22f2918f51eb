"""`threshold`: noise on every key; only large noisy values are stored (Cormode et al. 2012; the
paper's Threshold).

Guarantee: ε-differential privacy for neighbours at ℓ1 distance `sensitivity`, in any domain up to
2^64, with ε computed from the integer thresholds. Proof: docs/privacy.md, "Threshold". Exact test:
tests/mechanisms/test_exact_threshold.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .. import _native
from .._util.lazy import cached_property
from ..errors import ParameterError
from ..keys.batches import Batch
from ..keys.hashing import Partition
from ..keys.kinds import KeyKind
from ..privacy.cut_laws import CutLaw
from ..privacy.laws import TwoSided
from ..privacy.randomness import Randomness, Words
from ..structures.scale import PLAIN, Scale
from ..structures.table import Counts
from ..structures.thresholds import GaussianStage, PureStage, StableStage
from .base import ArrayShape, Built, DivisiblePlan, Plan
from .options import STORED_ZEROS
from .problem import STAGE_MISFIT, Problem
from .reading import ESTIMATE, HIGH, LOW, Ask, Estimates, Parts, Reader, Single, tables_of

TABLE_ENTRY_NBYTES = 16
LEAST_STORED_ZEROS = 1e-9


def check_stored_zeros(stored_zeros: float, domain: int) -> Fraction:
    """The expected number of stored zero keys, or `ParameterError`; also refuses domains too small
    to threshold.
    """
    if domain <= 2:
        raise ParameterError(f"a threshold needs a domain of at least 3 keys, got {domain}; use mechanism='laplace'")
    if not LEAST_STORED_ZEROS <= stored_zeros < domain:  # smaller ones would need more than 50 digits
        raise ParameterError(f"stored_zeros must be at least 1e-9 and below the domain, got {stored_zeros}")
    return Fraction(stored_zeros)


class TablePlan(DivisiblePlan):
    """A table of the keys whose noisy value reaches the threshold of a stage; every other key is
    estimated as 0.
    """

    stage: PureStage | StableStage | GaussianStage

    @property
    def step_loss(self) -> Decimal:
        assert not isinstance(self.stage, GaussianStage)  # which has no bound on it
        return self.stage.step_loss

    @property
    def expected_zeros(self) -> float:
        """How many zero keys are stored in expectation."""
        return 0.0

    @property
    def expected_stored(self) -> float | None:
        if self.problem.entries is None:
            return None
        return self.expected_zeros + float(self.problem.keys_above(self.stage.threshold)) / self.releases

    @property
    def cells_nbytes(self) -> float | None:
        stored = self.expected_stored
        return None if stored is None else TABLE_ENTRY_NBYTES * stored

    @property
    def access(self) -> int:
        return 1

    @property
    def smallest_stored(self) -> int:
        return self.stage.threshold

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        return self.table_shapes

    def build_part(self, part: int, partition: Partition, ids: Words, counts: Counts, randomness: Randomness) -> Built:
        table, stored = self.stage.select(ids, counts, randomness, partition, part)
        return Built({"table.ids": table.ids, "table.values": table.values}, stored)

    def reader(self, parts: Parts) -> Reader:
        return TableReader(self, parts)

    @property
    def expected_error_cells(self) -> float:
        return worst_thresholded_error(self.stage.noise, self.stage.threshold)

    @property
    def maximum_error_cells(self) -> float:
        keys = (self.problem.entries or self.problem.domain) + self.expected_zeros
        return self.stage.threshold + self.stage.noise.largest_of(keys)

    def error_with_probability_cells(self, failure: float) -> float:
        # A key that is not stored has x + η < T, so the error x is below T - η.
        noise = self.stage.noise.exceeded_with(failure)
        return self.stage.threshold + noise

    def faults(self) -> Iterator[str]:
        if not self.problem.fits(self.stage):
            yield STAGE_MISFIT


class TableReader(Reader):
    """Stored keys from the table; all others are known not to have reached the threshold."""

    plan: TablePlan

    def __init__(self, plan: TablePlan, parts: Parts) -> None:
        self.plan, self._parts = plan, parts
        self._answering = lru_cache(maxsize=8)(lambda scale: self._reader([0.0], [0.0], scale))
        self._fused = lru_cache(maxsize=8)(self._new_fused)

    @cached_property
    def _tables(self) -> list[_native.Table]:
        return [table.index for table in tables_of(self._parts)]

    def over(self, parts: Parts) -> Reader:
        return TableReader(self.plan, parts)

    def _reader(self, offsets: Sequence[float], unstored: Sequence[float], scale: Scale) -> _native.TableReader:
        values = scale.apply(np.array(unstored, np.float64))
        return _native.TableReader(self._tables, self.plan.problem.hashed, values, 1.0, offsets, scale)

    def estimate(self, ids: Words, estimator: str, prior: str) -> Estimates:
        return self.on_scale(ids, estimator, prior, PLAIN)

    def on_scale(self, keys: Batch, estimator: str, prior: str, scale: Scale) -> Estimates:
        return self._answering(scale).read(keys)

    def estimate_one(self, id: int) -> float:
        return self._answering(PLAIN).read_one(id)

    def single(self, seed: tuple[int, int], kind: KeyKind | None, scale: Scale) -> Single:
        return _native.Single(self._answering(scale), *seed, kind or "any")

    def interval(self, ids: Words, failure: float, prior: str) -> tuple[Estimates, Estimates]:
        """A stored value is off by its noise; a key that is not stored has count + noise below the
        threshold.
        """
        low, high = self.answers(ids, Ask((LOW, HIGH), failure, prior))
        return low, high

    def fused(self, ask: Ask) -> _native.TableReader:
        return self._fused(ask)

    def _new_fused(self, ask: Ask) -> _native.TableReader:
        noise = self.plan.stage.noise.exceeded_with(ask.failure)
        most = self.plan.stage.threshold - 1 + noise + ask.margin
        both_signs = self.plan.problem.signed and self.plan.releases == 1
        least = -most if both_signs else -ask.margin
        answers = {ESTIMATE: (0.0, 0.0), LOW: (-noise - ask.margin, least), HIGH: (noise + ask.margin, most)}
        offsets, unstored = zip(*(answers[name] for name in ask.wanted), strict=True)
        return self._reader(offsets, unstored, ask.scale)


@dataclass(frozen=True)
class ThresholdPlan(TablePlan):
    """Noise on every key of the domain, zeros included."""

    problem: Problem
    stage: PureStage
    stored_zeros: Fraction
    reason: str = Plan.reason

    mechanism = "threshold"
    row = 2
    pure = True
    options = (STORED_ZEROS,)

    @classmethod
    def create(cls, problem: Problem, stored_zeros: float = 1.0) -> ThresholdPlan:
        """T with `stored_zeros` (the paper's 1) zero keys stored in expectation."""
        zeros = check_stored_zeros(stored_zeros, problem.domain)
        return cls(problem, PureStage.plan(problem.rate(), problem.domain, zeros), zeros)

    @property
    def expected_zeros(self) -> float:
        return float(self.stored_zeros)

    def faults(self) -> Iterator[str]:
        if self.stage.domain != self.problem.domain:  # a δ that was granted is not used
            yield STAGE_MISFIT

    def simulate(self, count: int, samples: int) -> Estimates:
        noisy = count + self.stage.noise.spread(samples)
        return self.clamp(np.where(noisy >= self.stage.threshold, noisy, 0).astype(np.float64))


def worst_thresholded_error(noise: TwoSided | CutLaw, threshold: int) -> float:
    """The largest expected error of a thresholded count over all true counts.

    For x below T, x is lost with P[x + η < T] and otherwise the noise is at least T - x.
    """
    x = np.arange(0, 2 * threshold + 1, max(1, threshold // 1000))
    if isinstance(noise, CutLaw):
        values = np.arange(noise.lowest, noise.threshold)
        sizes = np.append(np.cumsum((np.abs(values) * noise.probability_of(values))[::-1])[::-1], 0.0)
        kept = sizes[np.clip(threshold - x - noise.lowest, 0, len(values))]
        return float(np.max(x * (1 - noise.chance_at_least(threshold - x)) + kept))
    a = math.exp(-float(noise.rate))
    below = x < threshold
    # The noise j at which the outcome changes, its tail P[η >= j], and the tail's share Σ_{i >= j}
    # i P[η = i] of E|η|.
    j = np.where(below, threshold - x, x - threshold + 1).astype(np.float64)
    tail = a**j / (1 + a)
    beyond = tail * (j + a / (1 - a))
    lost = np.where(below, 1 - tail, tail)
    kept = np.where(below, beyond, 2 * a / (1 - a**2) - beyond)
    return float(np.max(x * lost + kept))
