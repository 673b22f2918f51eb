"""`retrieval`: a dense noisy histogram hidden in a sparse random linear system, for δ > 0.

Guarantee: (ε, δ)-differential privacy for neighbours at ℓ1 distance `sensitivity`. ε follows from
the thresholds of the noise and from the integer widths of the buckets. δ is the sum of four events:
a key that a neighbour lacks is stored, its row depends on the others', the array is too small for
the keys, no seed gives independent rows. The last three concern hash seeds and a noisy number of
keys, never values. That number sets the size of the array, so that every key has its place; or a
public `nonzero` does, and with more keys the array is not filled, which costs only accuracy. Proof:
docs/privacy.md, "Retrieval". Exact test: tests/mechanisms/test_exact_retrieval.py.

Every key, present or not, is answered with the error of geometric noise at (almost) the full ε.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np

from .._util.lazy import cached_property
from .._util.progress import task
from ..errors import ParameterError
from ..keys.hashing import Partition
from ..privacy import bounds
from ..privacy.laws import TwoSided, float_up, log_bounds, precise
from ..privacy.randomness import Randomness, Words, pieces
from ..structures.buckets import NoiseBuckets
from ..structures.linear_system import MOST_DEFECT, MOST_REDRAWS, LinearSystem
from ..structures.table import MOST_TAIL_STEPS, Counts, Table, add_noise
from .base import TABLE_SHAPES, ArrayShape, Built, DivisiblePlan, Plan
from .predictions import spread_noise
from .problem import LEFT_OUT, Problem
from .reading import Arrays, Estimates, Parts, Reader
from .sizing import Sizing
from .slots import SlotReader
from .support import SupportSize, margin, overflow, room, step_delta, step_multiplier
from .threshold import TABLE_ENTRY_NBYTES, worst_thresholded_error

# Shares of δ for a stored key that a neighbour lacks, and for dependent rows; the rest is for
# overflow.
STORED_SHARE, DEPENDENCE_SHARE = Fraction(1, 2), Fraction(1, 8)


@dataclass(frozen=True)
class RetrievalPlan(DivisiblePlan):
    """Large noisy counts in a table, all others in the linear system; absent keys read fresh noise
    around zero.

    Each part has its own table and its own system, all of the same size.
    """

    problem: Problem
    buckets: NoiseBuckets
    system: LinearSystem
    # With a public bound, the array is filled if the noisy number of keys of each part is at most
    # `room`.
    room: int | None = field(default=None, metadata=LEFT_OUT)
    # In files of format 1 each part decided on its own, by a number with this noise.
    count_noise: TwoSided | None = field(default=None, metadata=LEFT_OUT)
    array_filled: bool = field(default=True, compare=False)  # from the number of keys, or as the arrays show
    reason: str = Plan.reason

    mechanism = "retrieval"
    row = 8
    approximate = True
    needs_size = always_counts = True
    coarsens = True

    @classmethod
    def sizing(cls, problem: Problem, share: float | None) -> Sizing | None:
        """The number of keys, with or without a public bound on it."""
        return SupportSize.plan(problem, share) if problem.delta > 0 else None

    @classmethod
    def create(cls, problem: Problem) -> RetrievalPlan:
        """T, the slots and the bits of a slot with the least space within (ε, δ)."""
        if problem.delta <= 0:
            raise ParameterError(f"retrieval needs delta > 0, got {problem.delta}; use mechanism='tight-alp'")
        if problem.entries is None:
            raise ParameterError("the size of retrieval needs nonzero= or total=; release() can estimate it")
        if problem.sizing_noise is None:
            size = SupportSize.plan(problem)
            problem = size.sized(problem, size.unknown(problem))
        planned = problem
        while (plan := cls._planned(planned)) is None or (plan := plan._within_budget()).buckets.bits > 64:
            # A very large ε would need slots wider than 64 bits; less of it is spent, and the
            # release says so.
            planned = replace(planned, epsilon=0.8 * planned.epsilon)
            if planned.step_budget < problem.step_budget / 8:
                raise ParameterError(
                    f"retrieval needs slots of more than 64 bits for delta = {problem.delta} at this epsilon and "
                    "sensitivity; use a larger delta or mechanism='tight-alp'"
                )
        return replace(plan, problem=problem)

    @classmethod
    def _planned(cls, problem: Problem) -> RetrievalPlan | None:
        assert problem.sizing_noise is not None
        buckets = _buckets(problem, Decimal(1))
        if buckets.bits > 64:
            return None
        most = room(problem, problem.sizing_noise) if problem.bounded else None
        keys = (_keys_of_part(problem) if most is None else most) + margin(problem, problem.sizing_noise)
        # δ_h / (1 - p)² and p^16, with p at most 1/4 and far below
        failure = step_delta(problem) * DEPENDENCE_SHARE / 2
        return cls(problem, buckets, LinearSystem.smallest(keys, buckets.bits // 8, failure), most)

    def _within_budget(self) -> RetrievalPlan:
        """The plan, or one with a little more noise if the buckets' integers lose more than the
        budget.
        """
        plan, share = self, Decimal(1)
        while plan.step_loss > plan.problem.step_budget:
            with precise(ROUND_FLOOR):
                share -= (plan.step_loss - plan.problem.step_budget) / plan.problem.step_budget + Decimal("1e-9")
            if share <= 0:  # with a δ that allows nearly everything, buckets lose more than all of ε
                raise ParameterError(
                    f"retrieval finds no buckets for delta = {plan.problem.delta}; use a delta far below 1"
                )
            buckets = _buckets(plan.problem, share)
            plan = replace(plan, buckets=buckets, system=replace(plan.system, width=buckets.bits // 8))
        return plan

    def counted(self, noisy: list[int]) -> RetrievalPlan:
        """The plan that states, from the noisy numbers of keys of all parts, whether its array is
        filled.
        """
        return self if self.room is None else replace(self, array_filled=max(noisy) <= self.room)

    @cached_property
    def step_loss(self) -> Decimal:
        """The loss of a step from zero or elsewhere."""
        # If nothing is filled, a key of count one is at least not stored.
        absent = log_bounds(1 / (1 - self.buckets.noise.at_least(self.buckets.threshold - 1))).high
        counted = Decimal(0) if self.count_noise is None else self.count_noise.step_loss
        with precise(ROUND_CEILING):
            return max(self.buckets.noise.step_loss, self.buckets.zero_loss, absent) + counted

    @cached_property
    def step_delta_parts(self) -> dict[str, Fraction]:
        """The four events behind δ: stored, dependent rows, no seed and overflow, each for one
        step.

        The exception is the overflow of integer counts whose number set the size: it is for all
        steps together.
        """
        defect = self.system.rank_defect
        if defect > MOST_DEFECT:
            raise AssertionError("the system is too small for its keys")
        return {
            "stored": self.buckets.noise.at_least(self.buckets.threshold - 1),
            "dependent": self.system.dependence / (1 - defect) ** 2,
            "no seed": defect**MOST_REDRAWS,
            "overflow": self._overflow,
        }

    @property
    def _overflow(self) -> Fraction:
        above = self.system.keys - (_keys_of_part(self.problem) if self.room is None else self.room)
        if self.count_noise is not None:
            return self.count_noise.at_least(above)
        if self.problem.sizing_noise is None:
            raise AssertionError("the noise of the number of keys is not known")
        return overflow(self.problem, self.problem.sizing_noise, above)

    @property
    def delta_parts(self) -> dict[str, float]:
        return {name: float_up(part) for name, part in self.step_delta_parts.items()}

    @property
    def exact_delta(self) -> Fraction:
        """The sum of the parts, for all steps between neighbours; all of δ if the size was
        estimated.

        An estimated size could have been another size with more δ: the guarantee is the worst over
        all sizes.
        """
        parts = dict(self.step_delta_parts)
        at_once = Fraction(0)
        if self.count_noise is None and not self.problem.neighbours.real:
            at_once = parts.pop("overflow", at_once)
        step = sum(parts.values(), Fraction(0))
        exact = step * step_multiplier(self.problem, self.step_loss) * (1 + Fraction(1, 10**9)) + at_once
        return max(exact, Fraction(self.problem.delta)) if self.problem.size_estimated else exact

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
        shapes = TABLE_SHAPES | {
            "retrieval.slots": (np.uint8, (self.system.size * self.system.width + 8,)),
            "retrieval.seed": (np.uint64, (2,)),
        }
        return shapes if self.room is None else shapes | {"retrieval.filled": (np.bool_, (1,))}

    def build_part(self, part: int, partition: Partition, ids: Words, counts: Counts, randomness: Randomness) -> Built:
        """Noise on every key; all keys enter the system, stored keys with uniform numbers that
        reveal nothing.
        """
        numbers, kept = np.empty(len(ids), np.uint64), np.empty(len(ids), np.bool_)
        stored_ids, stored_values = [ids[:0]], [counts[:0]]
        with task("Adding noise", len(ids)) as advance:
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
        assert self.count_noise is None  # only files of format 1 have it
        slots, seed = self.system.draw(ids, numbers, randomness) if self.array_filled else self.system.noise(randomness)
        arrays: Arrays = {
            "table.ids": table.ids,
            "table.values": table.values,
            "retrieval.slots": slots,
            "retrieval.seed": seed,
        }
        if self.room is not None:
            arrays["retrieval.filled"] = np.array([self.array_filled])
        return Built(arrays, kept)

    def wrong_arrays(self, parts: Parts, thorough: bool) -> Iterator[str]:
        yield from super().wrong_arrays(parts, thorough)
        if any(arrays["retrieval.slots"][-8:].any() for arrays in parts):
            yield "the slots must be followed by eight zero bytes"

    def reader(self, parts: Parts) -> Reader:
        return SlotReader(self, parts)

    def observed(self, parts: Parts) -> RetrievalPlan:
        return replace(self, array_filled=all(self.filled_parts(parts)))

    @property
    def filled(self) -> bool:
        return self.array_filled

    def filled_parts(self, parts: Parts) -> list[bool]:
        """Which parts hold the counts of keys that are not stored."""
        if self.room is None:
            return [True] * len(parts)
        return [bool(arrays["retrieval.filled"][0]) for arrays in parts]

    @property
    def overload(self) -> str | None:
        if self.filled:
            return None
        return (
            "there are more keys than its public bound allows, so its array was not filled: keys that are not stored "
            "are answered 0, with an interval up to the threshold; release again with a larger nonzero=, or without it"
        )

    def simulate(self, count: int, samples: int) -> Estimates:
        noisy = np.maximum(count + spread_noise(self.buckets.noise, samples), self.buckets.lowest)
        if not self.filled:
            noisy = np.where(noisy >= self.buckets.threshold, noisy, 0)
        return self.clamp(noisy.astype(np.float64))

    @property
    def noise_variance(self) -> float | None:
        return bounds.geometric_variance(float(self.buckets.noise.rate)) if self.filled else None

    @property
    def expected_error_cells(self) -> float:
        rate = float(self.buckets.noise.rate)
        if not self.filled:
            return worst_thresholded_error(rate, self.buckets.threshold)
        return bounds.geometric_mean_error(rate)

    @property
    def maximum_error_cells(self) -> float:
        keys = self.problem.domain
        return max(self.buckets.threshold, bounds.expected_maximum(float(self.buckets.noise.rate), keys))

    def error_with_probability_cells(self, failure: float) -> float:
        noise = bounds.geometric_error_with_probability(float(self.buckets.noise.rate), failure)
        return noise if self.filled else self.buckets.threshold + noise

    @property
    def of_first_format(self) -> bool:
        return self.count_noise is not None

    def faults(self) -> Iterator[str]:
        problem = self.problem
        if problem.delta <= 0 or problem.entries is None:
            yield "retrieval has a delta and a size"
        if self.system.width * 8 != self.buckets.bits:
            yield "the system must fit the buckets"
        unstated = problem.sizing_keys is None or (problem.nonzero is None and not problem.bounded)
        if self.count_noise is None and unstated:
            yield "the noisy number of keys must be stated"
        elif self.count_noise is None and (self.room != self._planned_room or not self._margin_fits):
            yield "the system must have a margin above the number of keys"
        if not 0 <= (self.room or 0) <= self.system.keys or (self.room is None and self.count_noise is not None):
            yield "the system must fit the room"

    @property
    def _planned_room(self) -> int | None:
        problem, noise = self.problem, self.problem.sizing_noise
        return room(problem, noise) if problem.bounded and noise is not None and problem.entries is not None else None

    @property
    def _margin_fits(self) -> bool:
        noise, moved = self.problem.sizing_noise, self.problem.sizing_keys
        if noise is None or moved is None:
            return False
        number = -(-(self.problem.nonzero or 1) // self.problem.parts) if self.room is None else self.room
        above = self.system.keys - number
        return moved <= above <= MOST_TAIL_STEPS * noise.magnitude.period


def _keys_of_part(problem: Problem) -> int:
    """The noisy number of keys of the fullest part."""
    assert problem.nonzero is not None
    return -(-problem.nonzero // problem.parts)


def _buckets(problem: Problem, share: Decimal) -> NoiseBuckets:
    """Buckets for noise with this share of the budget, and the threshold that its share of δ
    allows.
    """
    noise = TwoSided.with_rate(problem.rate(share))
    return NoiseBuckets.plan(noise, 1 + noise.smallest_tail(step_delta(problem) * STORED_SHARE))
