"""`retrieval`: a dense noisy histogram hidden in a sparse random linear system, for δ > 0.

Guarantee: (ε, δ)-differential privacy. The law of the noise is a table of integers, and the buckets
that hide it are the same table (`privacy/cut_laws.py`), so a key that is absent reads exactly the
noise that a present key has on its count. With geometric noise neighbours are at ℓ1 distance
`sensitivity`, with Gaussian noise they differ in at most `max_keys_per_user` keys by at most
`max_per_key` each. δ is the sum of the noise's own (values that a step makes impossible; for
Gaussian noise all of `composed_delta`) and of three events that concern hash seeds and a noisy
number of keys, never values: a row depends on others, the array is too small for the keys, no seed
gives independent rows. That number sets the size of the array, so that every key has its place; or a
public `nonzero` does, and with more keys the array is not filled, which costs only accuracy. Proof:
docs/privacy.md, "Retrieval". Exact tests: tests/mechanisms/test_exact_retrieval.py and
test_exact_gaussian.py.

Every key, present or not, is answered with the error of noise at (almost) the full ε.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .._util.lazy import cached_property
from .._util.progress import task
from .._util.threads import in_threads
from ..errors import ParameterError
from ..keys.hashing import Partition
from ..privacy.bounds import geometric_mean_error
from ..privacy.cut_laws import CutGaussian, CutGeometric, CutLaw
from ..privacy.laws import TwoSided, float_up
from ..privacy.randomness import Randomness, Words, pieces_and_streams
from ..structures.buckets import NoiseBuckets
from ..structures.linear_system import LinearSystem
from ..structures.table import LARGEST_COUNT, MOST_TAIL_STEPS, Counts, KeptPairs
from . import gaussian, retrieval_account
from .base import ArrayShape, Built, DivisiblePlan, Plan
from .gaussian import GaussianNoise, GaussianSize
from .partial import Touched, piece
from .problem import LEFT_OUT, NOISES, SAME_FINGERPRINT, Problem, UserBounds
from .reading import Arrays, Estimates, Parts, Reader
from .retrieval_account import DEPENDENCE_SHARE, STORED_SHARE
from .sizing import Sizing
from .slots import SlotReader
from .support import SupportSize, margin, planned_share, room, step_delta
from .threshold import TABLE_ENTRY_NBYTES, worst_thresholded_error

WORD_BITS = range(16, 65, 8)

# What the integers of a geometric law may lose beyond its rate, relative to it.
MOST_EXCESS = Decimal("0.0005")


@dataclass(frozen=True)
class RetrievalPlan(DivisiblePlan):
    """Large noisy counts in a table, all others in the linear system; absent keys read fresh noise
    around zero.

    Each part has its own table and its own system, all of the same size.
    """

    problem: Problem
    buckets: NoiseBuckets | CutGeometric | CutGaussian  # the first in files from before there were cut laws
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
    keeps_keys = True
    noises = NOISES

    @classmethod
    def sizing(cls, problem: Problem, share: float | None) -> Sizing | None:
        """The number of keys, with or without a public bound on it."""
        if problem.delta <= 0:
            return None
        return GaussianSize.plan(problem) if problem.gaussian else SupportSize.plan(problem, share)

    @classmethod
    def create(cls, problem: Problem) -> RetrievalPlan:
        """The noise, the slots and the bits of a slot with the least space within (ε, δ)."""
        if problem.delta <= 0:
            raise ParameterError(f"retrieval needs delta > 0, got {problem.delta}; use mechanism='tight-alp'")
        if problem.entries is None:
            raise ParameterError("the size of retrieval needs nonzero= or total=; release() can estimate it")
        if problem.sizing_noise is None:
            size = cls.sizing(problem, None)
            assert size is not None
            problem = size.sized(problem, size.unknown(problem))
        if isinstance(problem.sizing_noise, CutGaussian):
            law: CutGeometric | CutGaussian = _gaussian_law(problem, problem.sizing_noise)
            # Of all keys that a user may touch one row after the other must be independent, twice.
            failure = gaussian.DEPENDENCE_SHARE * Fraction(problem.delta) / (4 * UserBounds.of(problem).keys)
        else:
            law = _geometric_law(problem)
            # δ_h / (1 - p)² and p^16, with p at most 1/4 and far below
            failure = step_delta(problem) * DEPENDENCE_SHARE / 2
        assert problem.sizing_noise is not None
        most = room(problem, problem.sizing_noise) if problem.bounded else None
        keys = (keys_of_part(problem) if most is None else most) + margin(problem, problem.sizing_noise)
        plan = cls(problem, law, LinearSystem.smallest(keys, law.bits // 8, failure), most)
        if plan.exact_delta > problem.delta and problem.collision(problem.parts * plan.system.keys):
            raise ParameterError(SAME_FINGERPRINT.format(problem.delta))
        return plan

    @classmethod
    def figure_of_noise(cls, problem: Problem) -> float:
        """The mean error, about."""
        if problem.gaussian:
            delta = Fraction(problem.delta)
            if 2 * problem.collision(0) > gaussian.DEPENDENCE_SHARE * delta:
                raise ParameterError(SAME_FINGERPRINT.format(problem.delta))
            return GaussianNoise.plan(problem, gaussian.NOISE_SHARE * delta, counted=True).counts.mean_size
        return geometric_mean_error(float(problem.step_budget) * (1 - planned_share(problem)))

    def counted(self, noisy: list[int]) -> RetrievalPlan:
        """The plan that states, from the noisy numbers of keys of all parts, whether its array is
        filled.
        """
        return self if self.room is None else replace(self, array_filled=max(noisy) <= self.room)

    @cached_property
    def step_loss(self) -> Decimal:
        """The loss of a step from zero or elsewhere; Gaussian noise has no bound on it."""
        return retrieval_account.step_loss(self)

    @property
    def exact_epsilon(self) -> float:
        return self.problem.epsilon if self.problem.gaussian else super().exact_epsilon

    @cached_property
    def delta_events(self) -> dict[str, Fraction]:
        """The causes of δ, each for one step of a count, or with Gaussian noise for all of a user."""
        return retrieval_account.delta_events(self)

    @property
    def delta_parts(self) -> dict[str, float]:
        return {name: float_up(part) for name, part in self.delta_events.items()}

    @property
    def exact_delta(self) -> Fraction:
        """The sum of the parts, for all steps between neighbours; all of δ if the size was
        estimated.

        An estimated size could have been another size with more δ: the guarantee is the worst over
        all sizes.
        """
        exact = retrieval_account.whole_delta(self)
        return max(exact, Fraction(self.problem.delta)) if self.problem.size_estimated else exact

    @property
    def releases(self) -> int:
        """One: noise is added to negative counts as it is to positive ones. Older files have two."""
        return super().releases if isinstance(self.buckets, NoiseBuckets) else 1

    @property
    def expected_stored(self) -> float:
        return float(self.problem.keys_above(self.buckets.threshold))

    @property
    def cells_nbytes(self) -> float:
        return self.problem.parts * self.system.nbytes + TABLE_ENTRY_NBYTES * self.expected_stored

    @property
    def access(self) -> int:
        return self.system.slots + 1

    @property
    def smallest_stored(self) -> int:
        return self.buckets.threshold

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        shapes = self.table_shapes | {
            "retrieval.slots": (np.uint8, (self.system.size * self.system.width + 8,)),
            "retrieval.seed": (np.uint64, (2,)),
        }
        return shapes if self.room is None else shapes | {"retrieval.filled": (np.bool_, (1,))}

    def build_part(self, part: int, partition: Partition, ids: Words, counts: Counts, randomness: Randomness) -> Built:
        """Noise on every key; all keys enter the system, stored keys with uniform numbers that
        reveal nothing.
        """
        law = self.buckets
        assert isinstance(law, CutLaw)  # only older files have other buckets
        kept = np.empty(len(ids) if self.problem.keep_keys else 0, np.bool_)  # named only then
        numbers = counts.view(np.uint64)  # each count makes room for its number
        pairs = KeptPairs(len(ids))

        def add_noise(own: tuple[slice, Randomness]) -> tuple[int, Words, Counts]:
            piece, stream = own
            noisy = counts[piece] + law.draw(piece.stop - piece.start, stream)
            noisy.clip(-LARGEST_COUNT, LARGEST_COUNT, out=noisy)
            stored = np.abs(noisy) > law.reach
            if len(kept):
                kept[piece] = stored
            hidden = law.words_for(np.where(stored, 0, noisy), stream)
            numbers[piece] = np.where(stored, stream.words(len(noisy)), hidden)
            return len(noisy), ids[piece][stored], noisy[stored]

        with task("Adding noise", len(ids)) as advance:
            for length, own_ids, own_values in in_threads(add_noise, pieces_and_streams(randomness, len(ids))):
                pairs.add(own_ids, own_values)
                advance(length)
        table = pairs.table()
        del pairs
        if self.problem.keep_keys:  # of keys with the same fingerprint, the system holds the first
            first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
            ids, numbers = ids[first], numbers[first]
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
        end = self.system.size * self.system.width
        if any(piece(arrays, "retrieval.slots", end, end + 8).any() for arrays in parts):
            yield "the slots must be followed by eight zero bytes"

    def reader(self, parts: Parts) -> Reader:
        return SlotReader(self, parts)

    def touched(self, arrays: Mapping[str, np.ndarray], part: int, ids: Words) -> dict[str, Touched]:
        return {"retrieval.slots": Touched(self.system.places_of(arrays["retrieval.seed"], ids), 8)}

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

    @property
    def noise(self) -> CutLaw | TwoSided:
        """The law of the noise on counts."""
        return self.buckets if isinstance(self.buckets, CutLaw) else self.buckets.noise

    def simulate(self, count: int, samples: int) -> Estimates:
        noisy = np.maximum(count + self.noise.spread(samples), self.buckets.lowest)
        if not self.filled:
            noisy = np.where(noisy >= self.buckets.threshold, noisy, 0)
        return self.clamp(noisy.astype(np.float64))

    @property
    def noise_scale_cells(self) -> float:
        return self.noise.mean_size if self.problem.gaussian else super().noise_scale_cells

    @property
    def noise_variance(self) -> float | None:
        return self.noise.variance_of_draws if self.filled else None

    @property
    def expected_error_cells(self) -> float:
        return self.noise.mean_size if self.filled else worst_thresholded_error(self.noise, self.buckets.threshold)

    @property
    def maximum_error_cells(self) -> float:
        return max(self.buckets.threshold, self.noise.largest_of(self.problem.domain))

    def error_with_probability_cells(self, failure: float) -> float:
        noise = self.noise.exceeded_with(failure)
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
        if isinstance(self.buckets, CutGaussian) != problem.gaussian:
            yield "the counts and their number must have the same kind of noise"
        elif self.count_noise is None and unstated:
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
        above = self.system.keys - (keys_of_part(self.problem) if self.room is None else self.room)
        most = MOST_TAIL_STEPS * noise.magnitude.period if isinstance(noise, TwoSided) else self.system.keys
        return moved <= above <= most


def keys_of_part(problem: Problem) -> int:
    """The noisy number of keys of the fullest part."""
    return -(-(problem.nonzero or 1) // problem.parts)


def _geometric_law(problem: Problem) -> CutGeometric:
    """The fewest whole bytes in which the law is within the budget, and its last value within its
    share of δ.

    A very large ε would need more than 64 bits: then less of it is spent, and the release says so.
    """
    most, budget = step_delta(problem) * STORED_SHARE, problem.step_budget
    rate = problem.rate()
    while rate * 8 > budget:
        law = _shortest_law(rate, budget, most)
        if law is not None:
            return law
        rate *= Decimal("0.8")
    raise ParameterError(
        f"retrieval needs slots of more than 64 bits for delta = {problem.delta} at this epsilon and "
        "sensitivity; use a larger delta or mechanism='tight-alp'"
    )


@lru_cache(maxsize=64)  # a draft and its plan ask for the same law
def _shortest_law(rate: Decimal, budget: Decimal, most: Fraction) -> CutGeometric | None:
    for bits in WORD_BITS:
        law = CutGeometric(bits, rate)
        if law.reach > 1 and law.step_delta <= most:
            if law.step_loss > budget:
                law = CutGeometric(bits, rate * (1 - MOST_EXCESS))
            if law.step_loss <= budget and law.step_delta <= most:
                return law
    return None


def _gaussian_law(problem: Problem, number: CutGaussian) -> CutGaussian:
    """The noise on counts that was planned together with that on their number."""
    noise = GaussianNoise.plan(problem, gaussian.NOISE_SHARE * Fraction(problem.delta), counted=True)
    if noise.number != number:
        raise AssertionError("the noise on the number of keys was planned for another problem")
    return noise.counts
