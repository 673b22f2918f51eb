"""`alp`: the ALP mechanism alone (the paper's ALP-projection and ALP-estimator, Theorem ALPplain).

Guarantee: ε-differential privacy for neighbours at ℓ1 distance `sensitivity`; ε is the exact loss
of the linear rounding and of the flip probability in use. More non-zero keys than `nonzero`, or
counts above `upper`, cost only accuracy. Proof: docs/privacy.md, "ALP". Exact test:
tests/mechanisms/test_exact_alp.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from ..errors import ParameterError
from ..keys.hashing import MOST_ROWS, ROW_PRIME
from ..privacy.bounds import AlpBounds
from ..privacy.randomness import Randomness, Words
from ..structures.embedding import LARGEST_ALPHA, SMALLEST_ALPHA, Columns, dyadic_flip_probability, estimate_bits
from ..structures.rounding import MOST_LEVELS, LinearRounding
from ..structures.table import Counts
from .base import ArrayShape, Plan
from .options import ALPHA, SCALING, SIZE_FACTOR
from .partial import Touched, piece
from .problem import Problem
from .reading import ArrayReader, Arrays, Estimates, Parts, Reader

# Without `upper`, counts beyond this many noise scales saturate.
DEFAULT_UPPER_SCALES = 200

_MOST_SIMULATED_BITS = 20_000_000

# An array is crowded if it is twice as full as planned, by at least this many standard deviations
# of the sampled words.
DEVIATIONS, MOST_COUNTED_WORDS = 6, 1 << 17
CROWDED = (
    "its first level is more than twice as full as planned: estimates of keys that are not stored may be far too "
    "large, and their intervals say so; release again with a larger nonzero=, or without it"
)


@dataclass(frozen=True)
class Embedding:
    """Rounding and columns together: ALP-projection and its estimator for counts up to β."""

    rounding: LinearRounding
    columns: Columns
    entries: int

    @classmethod
    def plan(
        cls, problem: Problem, loss: Decimal, largest: int, alpha: float, size_factor: float, scaling: str
    ) -> Embedding:
        """The paper's parameters: p = 1/(α + 2), m = ⌈β ε/α⌉ levels, s = size_factor · k rows."""
        if not SMALLEST_ALPHA <= alpha <= LARGEST_ALPHA:
            raise ParameterError(f"alpha must be in [{SMALLEST_ALPHA}, {LARGEST_ALPHA:g}], got {alpha}")
        if not size_factor > 2:
            raise ParameterError(f"size_factor (rows per non-zero key) must be above 2, got {size_factor}")
        if scaling not in ("paper", "exact"):
            raise ParameterError(f"scaling must be 'paper' or 'exact', got {scaling!r}")
        entries = problem.entries
        if entries is None:
            raise ParameterError("the size of an embedding needs nonzero= or total=; release() can estimate it")
        flip = dyadic_flip_probability(alpha)
        # Integer neighbours move by whole counts, for which the paper's scale ε loses only ln(1 +
        # ε); "exact" spends the rest. Real values have already moved to the grid, where the two are
        # the same (docs/privacy.md).
        paper = scaling == "paper" and not problem.neighbours.real
        make = LinearRounding.for_scale if paper else LinearRounding.for_loss
        rounding = make(loss, flip, largest)
        if rounding.levels > MOST_LEVELS:
            raise ParameterError(
                f"alp needs {rounding.levels} levels for counts up to {largest}, more than {MOST_LEVELS}; "
                "lower upper=, or use mechanism='threshold-alp'"
            )
        if problem.total_cells is not None:  # the paper's O(nε) variant: that many keys set their first bit
            entries = min(entries, max(1, -(-problem.total_cells * rounding.slope_fixed >> 64)))
        rows = int(np.ceil(size_factor * entries))
        if rows > MOST_ROWS:
            raise ParameterError(f"an embedding must have at most {MOST_ROWS} rows, got {rows}; lower size_factor=")
        return cls(rounding, Columns(rows, rounding.levels, flip), entries)

    def build(self, ids: Words, counts: Counts, randomness: Randomness) -> Arrays:
        """ALP-projection."""
        heights = self.rounding.heights(counts, randomness)
        array, functions = self.columns.project(ids, heights, randomness)
        return {"embedding.bits": array, "embedding.functions": functions}

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        """The bits of all levels, and their row functions."""
        levels = self.columns.levels
        return {
            "embedding.bits": (np.uint64, (levels * self.columns.words_per_level,)),
            "embedding.functions": (np.uint64, (levels, 4)),
        }

    def wrong_arrays(self, arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
        """What is wrong with the row functions: a must be in 1..P - 1, b in 0..P - 1."""
        for a_low, a_high, b_low, b_high in arrays["embedding.functions"].tolist():
            if not 1 <= a_high << 64 | a_low < ROW_PRIME or b_high << 64 | b_low >= ROW_PRIME:
                yield "embedding.functions must be coefficients below 2^89 - 1"
                return

    def touched(self, arrays: Mapping[str, np.ndarray], ids: Words) -> dict[str, Touched]:
        """The words that the estimates of ids read: one of each level."""
        return {"embedding.bits": Touched(self.columns.words_of(arrays["embedding.functions"], ids), 1)}

    def estimate(self, arrays: Mapping[str, np.ndarray], ids: Words) -> Estimates:
        """ALP-estimator, in cells."""
        levels = self.columns.estimate(arrays["embedding.bits"], arrays["embedding.functions"], ids)
        return levels / float(self.rounding.slope)

    def simulate(self, count: int, samples: int) -> Estimates:
        """Estimates of a key of this count if other keys collide with it at every level: the
        paper's worst case.
        """
        levels = self.columns.levels
        samples = min(samples, max(1000, _MOST_SIMULATED_BITS // levels))
        random = np.random.default_rng(count)
        whole, chance = self.rounding.round_up_chance(count)
        heights = whole + (random.random(samples) < float(chance))
        bits = np.arange(levels) < heights[:, None]
        bits |= random.random(bits.shape, np.float32) < self.collision
        bits ^= random.random(bits.shape, np.float32) < float(self.columns.flip_probability)
        return estimate_bits(bits) / float(self.rounding.slope)

    def crowded(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether the first level, which every key may reach, is more than twice as full as
        planned.
        """
        words = piece(arrays, "embedding.bits", 0, min(self.columns.words_per_level, MOST_COUNTED_WORDS))
        flip, bits = float(self.columns.flip_probability), 64 * len(words)
        ones = int(np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).sum())
        full = (ones / bits - flip) / (1 - 2 * flip)  # corrected for flipped bits
        return full > 2 * self.collision + DEVIATIONS / ((1 - 2 * flip) * math.sqrt(4 * bits))

    @property
    def collision(self) -> float:
        """P[some other key shares a given bit]."""
        return float(-np.expm1(self.entries * np.log1p(-1 / self.columns.rows)))

    @property
    def bounds(self) -> AlpBounds:
        """The paper's bounds, in units of α cells per level."""
        return AlpBounds(float(1 / self.columns.flip_probability - 2), self.entries / self.columns.rows)

    @property
    def unit_cells(self) -> float:
        """Cells per unit of the paper's scaled vector (1/ε)."""
        return 1 / (float(self.rounding.slope) * self.bounds.alpha)

    def faults(self) -> Iterator[str]:
        """What is wrong with an embedding that was not planned here, if anything."""
        rounding, columns = self.rounding, self.columns
        if (rounding.levels, rounding.flip_probability) != (columns.levels, columns.flip_probability):
            yield "rounding and columns must agree"
        if not 1 <= self.entries < columns.rows:
            yield "there must be more rows than entries"


@dataclass(frozen=True)
class AlpPlan(Plan):
    """The noisy bit array alone, for counts up to β = `upper`."""

    problem: Problem
    embedding: Embedding
    crowded: bool = field(default=False, compare=False)  # as the bits of the release show
    reason: str = Plan.reason

    mechanism = "alp"
    row = 4
    pure = True
    options = (ALPHA, SIZE_FACTOR, SCALING)
    needs_size = True

    @classmethod
    def create(cls, problem: Problem, alpha: float = 3.0, size_factor: float = 10.0, scaling: str = "paper") -> AlpPlan:
        """β = `upper`; without one, counts above 200 · sensitivity/ε saturate."""
        largest = problem.upper_cells
        if largest is None:
            largest = int(DEFAULT_UPPER_SCALES / problem.rate()) + 1
        return cls(problem, Embedding.plan(problem, problem.rate(), max(1, largest), alpha, size_factor, scaling))

    @property
    def step_loss(self) -> Decimal:
        return self.embedding.rounding.step_loss

    @property
    def flip_probability(self) -> Fraction:
        """The probability p of randomized response."""
        return self.embedding.columns.flip_probability

    @property
    def cells_nbytes(self) -> float:
        return self.embedding.columns.nbytes

    @property
    def access(self) -> int:
        return self.embedding.columns.levels

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        return self.embedding.array_shapes

    def build(self, ids: Words, counts: Counts, randomness: Randomness) -> Arrays:
        return self.embedding.build(ids, counts, randomness)

    def wrong_arrays(self, parts: Parts, thorough: bool) -> Iterator[str]:
        yield from self.embedding.wrong_arrays(parts[0])

    def observed(self, parts: Parts) -> AlpPlan:
        return replace(self, crowded=self.embedding.crowded(parts[0]))

    @property
    def overload(self) -> str | None:
        return CROWDED if self.crowded else None

    def reader(self, parts: Parts) -> Reader:
        return ArrayReader(self.observed(parts), parts, self.embedding.estimate)

    def touched(self, arrays: Mapping[str, np.ndarray], part: int, ids: Words) -> dict[str, Touched]:
        return self.embedding.touched(arrays, ids)

    def simulate(self, count: int, samples: int) -> Estimates:
        return self.clamp(self.embedding.simulate(count, samples))

    @property
    def expected_error_cells(self) -> float:
        return self.embedding.bounds.expected_error * self.embedding.unit_cells

    def error_with_probability_cells(self, failure: float) -> float:
        if self.crowded:  # other keys may have set all bits of a key
            return math.inf
        return self.embedding.bounds.error_with_probability(failure) * self.embedding.unit_cells
