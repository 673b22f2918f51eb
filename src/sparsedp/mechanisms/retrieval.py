"""`retrieval`: a dense noisy histogram hidden in a sparse random linear system, for δ > 0.

Guarantee: (ε, δ)-differential privacy for neighbours at ℓ1 distance `sensitivity`. ε follows from the thresholds of the
noise and from the integer widths of the buckets. δ is the sum of four events: a key that a neighbour lacks is stored,
its row depends on the others', the array is too small for the keys, no seed gives independent rows. The last three
concern hash seeds and a noisy count, never values. More keys than `nonzero` cost accuracy only: the noisy count decides
whether the array is filled at all. Proof: docs/privacy.md, "Retrieval". Exact test: tests/test_exact_retrieval.py.

Every key, present or not, is answered with the error of geometric noise at (almost) the full ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np

from .. import _native, bounds
from ..errors import ParameterError
from ..hashing import Partition
from ..laws import TwoSided, float_up, log_bounds, precise, round_up
from ..lazy import cached_property
from ..privacy import HEADROOM
from ..progress import stage
from ..randomness import Randomness, Words, pieces
from ..retrieval import MOST_DEFECT, MOST_REDRAWS, LinearSystem
from ..table import Counts, Table, add_noise
from .base import (
    TABLE_SHAPES,
    Arrays,
    ArrayShape,
    Built,
    DivisiblePlan,
    Estimates,
    Parts,
    Plan,
    Reader,
    spread_noise,
    tables_of,
)
from .fitted import LEAST_STORED, Posterior, posterior_of_noisy
from .problem import Problem
from .threshold import TABLE_ENTRY_NBYTES

# Shares of δ: for a stored key that a neighbour lacks, for dependent rows, for an array that is too small.
STORED_SHARE, DEPENDENCE_SHARE, OVERFLOW_SHARE = Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)
COUNT_SHARE = Decimal("0.02")  # of ε, for the noisy number of keys

# Buckets err by less than two of 2^b numbers: with 2^17 in the smallest that costs less than 2^-15 of loss, and with
# 2^7, which a tiny δ may need, less than 2^-5.
WANTED_BUCKET_BITS, SMALLEST_BUCKET_BITS = 17, 7

MOST_BUCKETS = 1 << 13  # noisy values up to the threshold; plans stay well below
LARGEST_EXPONENT = 1000


@dataclass(frozen=True)
class NoiseBuckets:
    """The numbers below 2^bits, cut into one run for each noisy value from `lowest` to threshold - 1."""

    noise: TwoSided
    lowest: int
    threshold: int
    bits: int

    @classmethod
    def plan(cls, noise: TwoSided, threshold: int) -> NoiseBuckets:
        """The fewest whole bytes that keep every bucket large; values below the mirror image of T are cut."""
        chance = noise.probability(threshold - 1)  # which may be too small for a float
        rarest = math.log2(chance.denominator) - math.log2(chance.numerator)
        bits = 8 * math.ceil((rarest + WANTED_BUCKET_BITS) / 8)
        if bits > 64 >= rarest + SMALLEST_BUCKET_BITS:
            bits = 64
        return cls(noise, 1 - threshold, threshold, bits)

    @cached_property
    def ends(self) -> list[int]:
        """Numbers below ends[i] decode to at most lowest + i: P[η <= v | η < T] · 2^bits, less than two off."""
        extra = 1 << 64  # so that the floors of all values together are less than one off
        scale = Fraction(extra << self.bits) / (1 - self.noise.at_least(self.threshold))
        side = math.floor(self.noise.one_side * scale)
        at_zero = math.floor(self.noise.at_zero * scale)
        lowest = math.floor(self.noise.at_least(-self.lowest) * scale)  # η <= lowest
        inner = (
            at_zero if v == 0 else self.noise.magnitude.scaled(abs(v) - 1, side)
            for v in range(self.lowest + 1, self.threshold - 1)
        )
        return [end // extra for end in accumulate(inner, initial=lowest)] + [1 << self.bits]

    @cached_property
    def widths(self) -> list[int]:
        """How many numbers decode to each value."""
        return [high - low for low, high in pairwise([0, *self.ends])]

    @cached_property
    def zero_loss(self) -> Decimal:
        """The largest |ln(P[v | count 1] / P[v | count 0])| over values that are not stored, rounded up."""
        scale = 1 << (self.bits + 256)  # masses are floors, less than two off, of integers of 2^200 and more
        side, at_zero = math.floor(self.noise.one_side * scale), math.floor(self.noise.at_zero * scale)
        masses = [math.floor(self.noise.at_least(1 - self.lowest) * scale)]  # 1 + η <= lowest
        for v in range(self.lowest + 1, self.threshold):
            masses.append(at_zero if v == 1 else self.noise.magnitude.scaled(abs(v - 1) - 1, side))
        widths = [width << 256 for width in self.widths]
        most = max(Fraction(mass + 2, width) for mass, width in zip(masses, widths, strict=True))
        least = min(Fraction(mass, width) for mass, width in zip(masses, widths, strict=True))
        # A uniform number below a width is off by a share of 2^-64.
        worst = max(most, 1 / least) * (1 + Fraction(1, 1 << 60))
        return log_bounds(worst).high

    def draw(self, values: Counts, randomness: Randomness) -> Words:
        """A uniform number that decodes to each value."""
        index = values - self.lowest
        widths = np.array(self.widths, np.uint64)
        starts = np.array([0, *self.ends[:-1]], np.uint64)
        return starts[index] + _native.uniform_below(widths[index], randomness.words(2 * len(values)))


@dataclass(frozen=True)
class RetrievalPlan(DivisiblePlan):
    """Large noisy counts in a table, all other keys' in the linear system; absent keys read fresh noise around zero.

    Each part has a table and a system of its own, and decides by its own noisy number of keys whether it is filled.
    """

    problem: Problem
    buckets: NoiseBuckets
    system: LinearSystem
    count_noise: TwoSided
    room: int  # the noisy number of keys of a part may be at most this much, or nothing is filled in
    reason: str = Plan.reason

    mechanism = "retrieval"
    needs_size = True
    coarsens = True

    @classmethod
    def create(cls, problem: Problem) -> RetrievalPlan:
        """T, the slots and the bits of a slot with the least space within (ε, δ)."""
        if problem.delta <= 0:
            raise ParameterError(f"retrieval needs delta > 0, got {problem.delta}; use mechanism='tight-alp'")
        if problem.entries is None:
            raise ParameterError("the size of retrieval needs nonzero= or total=; release() can estimate it")
        planned = problem
        while (plan := cls._planned(planned)) is None or (plan := plan._within_budget()).buckets.bits > 64:
            # A very large ε asks for wider slots than 64 bits; less of it is spent, and the release says so.
            planned = replace(planned, epsilon=0.8 * planned.epsilon)
            if planned.step_budget < problem.step_budget / 8:
                raise ParameterError(
                    f"retrieval needs slots of more than 64 bits for delta = {problem.delta} at this epsilon and "
                    "sensitivity; use a larger delta or mechanism='tight-alp'"
                )
        return replace(plan, problem=problem)

    @classmethod
    def _planned(cls, problem: Problem) -> RetrievalPlan | None:
        assert problem.entries is not None
        buckets, step_delta = _buckets(problem, 1 - COUNT_SHARE), _step_delta(problem)
        if buckets.bits > 64:
            return None
        with precise(ROUND_FLOOR):
            count_noise = TwoSided.with_rate(problem.step_budget * COUNT_SHARE * HEADROOM)
        margin = count_noise.smallest_tail(step_delta * OVERFLOW_SHARE)
        room = _entries_of_part(problem.entries, problem.parts) + margin
        # δ_h / (1 - p)² and p^16, with p at most 1/4 and far below
        system = LinearSystem.smallest(room + margin, buckets.bits // 8, step_delta * DEPENDENCE_SHARE / 2)
        return cls(problem, buckets, system, count_noise, room)

    def _within_budget(self) -> RetrievalPlan:
        """The plan, or one with a little more noise if the buckets' integers lose more than the budget."""
        plan, share = self, 1 - COUNT_SHARE
        while plan.step_loss > plan.problem.step_budget:
            with precise(ROUND_FLOOR):
                share -= (plan.step_loss - plan.problem.step_budget) / plan.problem.step_budget + Decimal("1e-9")
            if share <= 0:  # buckets of a δ that allows nearly everything lose more than all of ε
                raise ParameterError(
                    f"retrieval finds no buckets for delta = {plan.problem.delta}; use a delta far below 1"
                )
            buckets = _buckets(plan.problem, share)
            plan = replace(plan, buckets=buckets, system=replace(plan.system, width=buckets.bits // 8))
        return plan

    @cached_property
    def step_loss(self) -> Decimal:
        """The loss of a step from zero or elsewhere, and that of the noisy number of keys."""
        # When nothing is filled, a key of count one is at least not stored.
        absent = log_bounds(1 / (1 - self.buckets.noise.at_least(self.buckets.threshold - 1))).high
        with precise(ROUND_CEILING):
            return max(self.buckets.noise.step_loss, self.buckets.zero_loss, absent) + self.count_noise.step_loss

    @cached_property
    def step_delta_parts(self) -> dict[str, Fraction]:
        """The four events behind the δ of one step: stored, dependent rows, overflow, no seed."""
        defect = self.system.rank_defect
        if defect > MOST_DEFECT:
            raise AssertionError("the system is too small for its keys")
        return {
            "stored": self.buckets.noise.at_least(self.buckets.threshold - 1),
            "dependent": self.system.dependence / (1 - defect) ** 2,
            "overflow": self.count_noise.at_least(self.system.keys - self.room),
            "no seed": defect**MOST_REDRAWS,
        }

    @property
    def delta_parts(self) -> dict[str, float]:
        return {name: float_up(part) for name, part in self.step_delta_parts.items()}

    @property
    def exact_delta(self) -> Fraction:
        """The sum of the parts, for all steps between neighbours; all of δ when the size was estimated.

        An estimated size could have been another one, with more δ: the guarantee is the worst of all, not this one's.
        """
        step = sum(self.step_delta_parts.values(), Fraction(0))
        exact = step * step_multiplier(self.problem, self.step_loss) * (1 + Fraction(1, 10**9))
        return max(exact, Fraction(self.problem.delta)) if self.problem.sizing_loss else exact

    @property
    def cells_nbytes(self) -> float:
        stored = float(self.problem.keys_above(self.buckets.threshold))
        return self.problem.parts * self.system.nbytes + TABLE_ENTRY_NBYTES * stored

    @property
    def access(self) -> int:
        return self.system.slots + 1

    @property
    def smallest_stored(self) -> int:
        return self.buckets.threshold

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        return TABLE_SHAPES | {
            "retrieval.slots": (np.uint8, (self.system.size * self.system.width + 8,)),
            "retrieval.seed": (np.uint64, (2,)),
            "retrieval.filled": (np.bool_, (1,)),
        }

    def build_part(self, part: int, partition: Partition, ids: Words, counts: Counts, randomness: Randomness) -> Built:
        """Noise on every key; all keys enter the system, the stored ones with uniform numbers that say nothing."""
        numbers, kept = np.empty(len(ids), np.uint64), np.empty(len(ids), np.bool_)
        stored_ids, stored_values = [ids[:0]], [counts[:0]]
        with stage("Adding noise", len(ids)) as advance:
            for piece in pieces(len(ids)):
                noisy = add_noise(counts[piece], self.buckets.noise, randomness)
                stored = kept[piece] = noisy >= self.buckets.threshold
                stored_ids.append(ids[piece][stored])
                stored_values.append(noisy[stored])
                values = np.clip(noisy, self.buckets.lowest, self.buckets.threshold - 1)
                hidden = self.buckets.draw(values, randomness)
                numbers[piece] = np.where(stored, randomness.words(len(noisy)), hidden)
                advance(len(noisy))
        table = Table.sorted(np.concatenate(stored_ids), np.concatenate(stored_values))
        del stored_ids, stored_values
        size = int(add_noise(np.array([len(ids)]), self.count_noise, randomness)[0])
        if size <= self.room:
            slots, seed = self.system.draw(ids, numbers, randomness)
        else:
            slots, seed = self.system.noise(randomness)
        arrays: Arrays = {
            "table.ids": table.ids,
            "table.values": table.values,
            "retrieval.slots": slots,
            "retrieval.seed": seed,
            "retrieval.filled": np.array([size <= self.room]),
        }
        return Built(arrays, kept)

    def wrong_arrays(self, parts: Parts, thorough: bool) -> Iterator[str]:
        yield from super().wrong_arrays(parts, thorough)
        if any(arrays["retrieval.slots"][-8:].any() for arrays in parts):
            yield "the slots must be followed by eight zero bytes"

    def reader(self, parts: Parts) -> Reader:
        return SlotReader(self, parts)

    def simulate(self, count: int, samples: int) -> Estimates:
        noisy = np.maximum(count + spread_noise(self.buckets.noise, samples), self.buckets.lowest)
        return self.clamp(noisy.astype(np.float64))

    @property
    def noise_variance(self) -> float:
        return bounds.geometric_variance(float(self.buckets.noise.rate))

    @property
    def expected_error_cells(self) -> float:
        return bounds.geometric_mean_error(float(self.buckets.noise.rate))

    @property
    def maximum_error_cells(self) -> float:
        keys = self.problem.domain
        return max(self.buckets.threshold, bounds.expected_maximum(float(self.buckets.noise.rate), keys))

    def error_with_probability_cells(self, failure: float) -> float:
        return bounds.geometric_error_with_probability(float(self.buckets.noise.rate), failure)


class SlotReader(Reader):
    """Stored keys from the table, all others from the buckets that the XORs of their slots fall into.

    Flat: the noisy values themselves, which are right on average. Fitted: what they tell of a key, given the table; the
    same as flat if hardly anything is stored.
    """

    priors = ("flat", "fitted")
    plan: RetrievalPlan

    def __init__(self, plan: RetrievalPlan, parts: Parts) -> None:
        self.plan = plan
        self._tables = tables_of(parts)
        self._packed = [arrays["retrieval.slots"] for arrays in parts]
        self._seeds = [arrays["retrieval.seed"] for arrays in parts]
        self._lasts = np.array([end - 1 for end in plan.buckets.ends], np.uint64)
        self._noisy = np.arange(plan.buckets.lowest, plan.buckets.threshold)
        self._slots = self._reader(self._noisy.astype(np.float64))
        self._bounds = lru_cache(maxsize=8)(self._bounds_of)

    def _reader(self, values: Estimates) -> _native.SlotReader:
        indexes = [table.index for table in self._tables]
        return self.plan.system.reader(
            indexes, self._packed, self._seeds, self.plan.problem.hashed, self._lasts, values
        )

    def _is_fitted(self, prior: str) -> bool:
        return prior == "fitted" and sum(len(table.ids) for table in self._tables) >= LEAST_STORED

    def _of_buckets(self, answers: Estimates) -> Estimates:
        """The answers for noisy values from 0 on, for those of all buckets."""
        return answers[np.maximum(self._noisy, 0)]

    @cached_property
    def _fit(self) -> Posterior:
        values = np.concatenate([table.values for table in self._tables])
        problem, buckets = self.plan.problem, self.plan.buckets
        keys = None if problem.sizing_noise is not None else float(problem.entries or 1)
        return posterior_of_noisy(problem, buckets.noise, buckets.threshold, values, keys)

    @cached_property
    def _fitted(self) -> _native.SlotReader:
        return self._reader(self._of_buckets(self._fit.medians))

    def estimate(self, ids: Words, estimator: str, prior: str) -> Estimates:
        return (self._fitted if self._is_fitted(prior) else self._slots).read(ids)

    def estimate_one(self, id: int) -> float:
        return self._slots.read_one(id)

    def interval(self, ids: Words, failure: float, prior: str) -> tuple[Estimates, Estimates]:
        """Flat: for every key from the law of the noise. Fitted: of keys that are not stored, from the posterior."""
        if not self._is_fitted(prior):
            return super().interval(ids, failure, prior)
        noise = self.plan.error_with_probability_cells(failure)
        below, above = self._bounds(failure, noise)
        return below.read(ids) - noise, above.read(ids) + noise

    def _bounds_of(self, failure: float, noise: float) -> tuple[_native.SlotReader, _native.SlotReader]:
        """Readers of bounds that are off by the noise, which will be taken from or added to stored values too."""
        low, high = self._fit.bounds(failure)
        return self._reader(self._of_buckets(low + noise)), self._reader(self._of_buckets(high - noise))


def _entries_of_part(entries: int, parts: int) -> int:
    """Keys that a part has room for: six standard deviations above its share, for accuracy only."""
    share = entries / parts
    return entries if parts == 1 else min(entries, math.ceil(share + 6 * math.sqrt(share) + 6))


def _step_delta(problem: Problem) -> Fraction:
    """The δ that one step may have."""
    return Fraction(problem.delta) / step_multiplier(problem, problem.step_budget)


def _buckets(problem: Problem, share: Decimal) -> NoiseBuckets:
    """Buckets for noise with this share of the budget, and the threshold that its share of δ allows."""
    noise = TwoSided.with_rate(problem.rate(share))
    return NoiseBuckets.plan(noise, 1 + noise.smallest_tail(_step_delta(problem) * STORED_SHARE))


def step_multiplier(problem: Problem, step_loss: Decimal) -> Fraction:
    """δ of all neighbours per δ of one step: (e^ε - 1)/(e^w - 1), rounded up (docs/privacy.md, "Steps with a δ")."""
    if not problem.neighbours.real and problem.neighbours.distance == 1:
        return Fraction(1)
    with precise(ROUND_CEILING):
        loss = step_loss + problem.sizing_loss  # everything that a step loses
        cell = loss.exp() - 1
        whole = (cell if problem.neighbours.real else loss) * round_up(problem.neighbours.distance)
        if whole > LARGEST_EXPONENT:
            raise ParameterError(f"epsilon must be at most {LARGEST_EXPONENT} with delta > 0, got {whole:.6g}")
        return Fraction((whole.exp() - 1) / cell * (1 + Decimal("1e-30")))
