"""The threshold stage: which keys are stored with a noisy value.

`PureStage` is the paper's Threshold (Cormode et al.): noise on *every* key of the domain, zeros
included, and a key is stored if its noisy value is at least T. `StableStage` is Threshold2
(Korolova et al.): noise on non-zero keys only, which costs δ. Both state their exact loss. Proofs:
docs/privacy.md; exact tests: tests/mechanisms/test_exact_threshold.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.lazy import cached_property
from .._util.progress import task
from .._util.threads import in_threads
from ..keys.hashing import Partition
from ..privacy.composition import Moved, naming_delta
from ..privacy.cut_laws import CutGaussian
from ..privacy.laws import GUARD, Interval, Passing, TwoSided, log_bounds, precise
from ..privacy.neighbours import QUANTISATION
from ..privacy.randomness import Randomness, Words, bernoulli, geometric, passing_positions, pieces_and_streams
from .table import LARGEST_COUNT, Counts, KeptPairs, Table, add_noise, threshold_fits

WHOLE = Partition(1, hashed=True)


class Selection(NamedTuple):
    """The table, and which of the non-zero keys are in it."""

    table: Table
    stored: npt.NDArray[np.bool_]


def _noisy_values(
    ids: Words,
    counts: Counts,
    randomness: Randomness,
    noisy: Callable[[Counts, Randomness], tuple[npt.NDArray[np.bool_], Counts]],
) -> tuple[npt.NDArray[np.bool_], KeptPairs]:
    """Which keys are kept, and their ids and noisy values; noisy(counts, stream) decides both, piece
    by piece in several threads.
    """
    stored, pairs = np.empty(len(ids), np.bool_), KeptPairs(len(ids))

    def add(own: tuple[slice, Randomness]) -> tuple[int, Words, Counts]:
        piece, stream = own
        kept, values = noisy(counts[piece], stream)
        stored[piece] = kept
        return len(kept), ids[piece][kept], values[kept]

    with task("Adding noise", len(ids)) as advance:
        for length, own_ids, own_values in in_threads(add, pieces_and_streams(randomness, len(ids))):
            pairs.add(own_ids, own_values)
            advance(length)
    return stored, pairs


@dataclass(frozen=True)
class PureStage:
    """Threshold: every key of the domain gets noise and is stored if it reaches `threshold`. Pure,
    for any domain.
    """

    noise: TwoSided
    threshold: int
    passing: Passing
    domain: int

    @classmethod
    def plan(cls, rate: Decimal, domain: int, stored_zeros: Fraction) -> PureStage:
        """The smallest threshold T >= 1 with at most `stored_zeros` zero keys stored in
        expectation.
        """
        noise = TwoSided.with_rate(rate)
        threshold = noise.smallest_tail(min(stored_zeros / domain, noise.one_side))
        return cls(noise, threshold, Passing.with_chance(noise.at_least(threshold)), domain)

    def at_least(self, threshold: int) -> PureStage:
        """The same stage with a threshold of at least this."""
        if self.threshold >= threshold:
            return self
        return replace(self, threshold=threshold, passing=Passing.with_chance(self.noise.at_least(threshold)))

    @cached_property
    def step_loss(self) -> Decimal:
        """The largest change of the log-probability of any output when one count changes by one,
        rounded up.
        """
        excess = self.noise.magnitude
        with precise():
            low, high = map(log_bounds, self.passing.chance)
            log_chance = Interval(low.low, high.high)
            # ln P[0 is stored with v] + λ v, to be compared with the same for counts of one and
            # more
            shift = log_bounds(excess.at_zero) + self.noise.rate * self.threshold
            zero = log_chance + shift + excess.deviation
        stored = zero.hull(self.noise.deviation).width
        one_absent = 1 - self.noise.at_least(self.threshold - 1)
        with precise(ROUND_CEILING):
            absent = [log_bounds((1 - chance) / one_absent) for chance in self.passing.chance]
            unstored = max(abs(bound) for pair in absent for bound in pair)
            return max(self.noise.rate + stored + GUARD, unstored)

    def unstored(self, largest: int) -> list[Fraction]:
        """P[a key of count c is not stored] for c = 1..largest < T, to 2^-240."""
        tails = self.noise.tails(self.threshold - largest, self.threshold - 1)
        return [1 - tail for tail in reversed(tails)]

    def select(
        self, ids: Words, counts: Counts, randomness: Randomness, partition: Partition = WHOLE, part: int = 0
    ) -> Selection:
        """Steps (1) and (2) of Threshold for all keys of a part, without looping over them; ids
        ascend.
        """

        def noisy(counts: Counts, stream: Randomness) -> tuple[npt.NDArray[np.bool_], Counts]:
            values = add_noise(counts, self.noise, stream)
            return values >= self.threshold, values

        stored, pairs = _noisy_values(ids, counts, randomness, noisy)
        zeros = self._passing_zeros(randomness, partition, part)
        zeros = zeros[_native.find(ids, zeros) < 0]  # a non-zero key has had its own noise
        excess = geometric(randomness, self.noise.magnitude, len(zeros))
        zero_values = self.threshold + np.minimum(excess, LARGEST_COUNT - self.threshold).astype(np.int64)
        return Selection(pairs.table(zeros, zero_values), stored)

    def _passing_zeros(self, randomness: Randomness, partition: Partition, part: int) -> Words:
        if partition.parts == 1:
            return passing_positions(randomness, self.passing, 0, self.domain)
        if partition.hashed:
            return passing_positions(randomness, self.passing, *partition.range_of(part))
        # The keys of a part lie anywhere in the domain; the keys of other parts are decided there.
        zeros = passing_positions(randomness, self.passing, 0, self.domain)
        own: Words = zeros[partition.part_of(zeros) == part]
        return own

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        if not threshold_fits(self.noise, self.threshold):
            yield "the threshold is out of range"
        if not 1 <= self.domain <= 1 << 64:
            yield "the domain must be in 1..2^64"


@dataclass(frozen=True)
class StableStage:
    """Threshold2: non-zero keys get noise and are stored if they reach `threshold`; costs δ.

    Counts below `unit` (a power of two, at least the distance of neighbours; the paper's 1) are
    first rounded at random to 0 or `unit`, so that a neighbour who spreads over many keys creates
    no more than one key's chance of being stored. Neighbours are `distance` cells apart.
    """

    noise: TwoSided
    threshold: int
    unit: int
    distance: Fraction

    @classmethod
    def plan(cls, rate: Decimal, distance: Fraction, delta: Fraction) -> StableStage:
        """The smallest threshold whose δ is within the given one and whose step loss covers "not
        stored".
        """
        unit = smallest_unit(distance)
        lowest = cls(TwoSided.with_rate(rate), unit + 1, unit, distance)
        return replace(lowest, threshold=unit + lowest.noise.smallest_tail(delta / lowest.spread))._covered()

    @classmethod
    def at_threshold(cls, rate: Decimal, distance: Fraction, threshold: int) -> StableStage:
        """A given threshold, raised if the step loss would not cover "not stored"."""
        unit = smallest_unit(distance)
        return cls(TwoSided.with_rate(rate), max(threshold, unit + 1), unit, distance)._covered()

    def _covered(self) -> StableStage:
        stage = self
        while not stage.absence_is_covered:
            stage = replace(stage, threshold=stage.threshold + 1)
        return stage

    @property
    def stored_chance(self) -> Fraction:
        """P[unit + η >= T], exactly."""
        return self.noise.at_least(self.threshold - self.unit)

    @property
    def delta(self) -> Fraction:
        """The probability that a key that a neighbour lacks is stored, for the worst neighbour."""
        return self.stored_chance * self.spread

    @cached_property
    def spread(self) -> Fraction:
        """δ in units of `stored_chance`: L/U, or the growth of one key's chance beyond U if L is
        slightly above it.
        """
        beyond = self.distance - self.unit
        if beyond <= 0:
            return self.distance / self.unit
        with precise(ROUND_CEILING):
            growth = Fraction(self.step_loss.exp() * (1 + GUARD)) - 1
        return max(self.distance / self.unit, 1 + growth * beyond)

    @property
    def step_loss(self) -> Decimal:
        """The loss of one count away from the δ event."""
        return self.noise.step_loss

    @property
    def absence_is_covered(self) -> bool:
        """Whether moving a count by one below `unit` changes P[not stored] by no more than the step
        loss.
        """
        change = self.stored_chance / (self.unit * (1 - self.stored_chance))
        return log_bounds(1 + change).high <= self.step_loss

    def unstored(self, largest: int) -> list[Fraction]:
        """P[a key of count c is not stored] for c = 1..largest < T, to 2^-240."""
        small = [1 - Fraction(count, self.unit) * self.stored_chance for count in range(1, min(self.unit, largest + 1))]
        if largest < self.unit:
            return small
        tails = self.noise.tails(self.threshold - largest, self.threshold - self.unit)
        return small + [1 - tail for tail in reversed(tails)]

    def select(
        self, ids: Words, counts: Counts, randomness: Randomness, partition: Partition = WHOLE, part: int = 0
    ) -> Selection:
        """Threshold2: random rounding below `unit`, noise on the counts that are then non-zero,
        threshold.
        """

        def noisy(counts: Counts, stream: Randomness) -> tuple[npt.NDArray[np.bool_], Counts]:
            if self.unit > 1:
                small = counts < self.unit
                chances = counts[small].astype(np.uint64) << np.uint64(65 - self.unit.bit_length())  # count/unit
                counts = counts.copy()
                counts[small] = np.where(bernoulli(stream, chances), self.unit, 0)
            values = add_noise(counts, self.noise, stream)
            return (counts != 0) & (values >= self.threshold), values

        stored, pairs = _noisy_values(ids, counts, randomness, noisy)
        return Selection(pairs.table(), stored)

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        if not threshold_fits(self.noise, self.threshold) or self.threshold <= self.unit:
            yield "the threshold is out of range"
        if not 0 < self.distance <= 1 << 61 or self.unit != smallest_unit(self.distance):
            yield "the unit must be the smallest power of two that reaches the distance"
        elif not self.absence_is_covered:
            yield "the threshold is too low for the noise"


@dataclass(frozen=True)
class GaussianStage:
    """Gaussian noise on non-zero keys, which are stored if they reach `threshold`, for users with
    many keys.

    It is Threshold2 with another law: a user has at most `keys` keys with at most `per_key` each
    (Wilkins, Kifer, Zhang and Karrer 2024).
    """

    noise: CutGaussian
    threshold: int
    keys: int
    per_key: int
    signed: bool = field(default=False, metadata={"left_out": True})  # large negative values are stored too

    def delta(self, epsilon: float, enough: float = 0.0) -> float:
        """The δ for the worst split of a user's keys into shared and new ones, rounded up by 1 % or
        to `enough`.
        """
        # Neighbours may each have keys that the other one lacks, whatever their signs.
        return naming_delta(epsilon, Moved(self.noise, self.keys, self.per_key), self.named, True, enough)

    @property
    def named(self) -> float:
        """P[a key that a neighbour lacks is stored], at most."""
        named = self.noise.at_least(self.threshold - self.per_key)
        if self.signed:
            named += self.noise.at_least(self.threshold + self.per_key)
        return float(named)

    def select(
        self, ids: Words, counts: Counts, randomness: Randomness, partition: Partition = WHOLE, part: int = 0
    ) -> Selection:
        """Noise on every key, and the threshold."""

        def noisy(counts: Counts, stream: Randomness) -> tuple[npt.NDArray[np.bool_], Counts]:
            values = np.clip(counts + self.noise.draw(len(counts), stream), -LARGEST_COUNT, LARGEST_COUNT)
            return (np.abs(values) if self.signed else values) >= self.threshold, values

        stored, pairs = _noisy_values(ids, counts, randomness, noisy)
        return Selection(pairs.table(), stored)

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        if not 1 <= self.threshold <= self.per_key + self.noise.reach + 1 or self.keys < 1 or self.per_key < 1:
            yield "the threshold is out of range"


Stage: TypeAlias = PureStage | StableStage


def smallest_unit(distance: Fraction) -> int:
    """The smallest power of two that is at least the distance of neighbours, not counting the 2^-24
    of quantisation.
    """
    return 1 << max(0, math.ceil(distance - QUANTISATION) - 1).bit_length()
