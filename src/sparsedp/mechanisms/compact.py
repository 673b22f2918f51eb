"""`compact`: a dense noisy histogram hidden in a polynomial (Balcer & Vadhan 2017).

Guarantee: ε-differential privacy for neighbours at ℓ1 distance `sensitivity`. With `total` alone,
counts are cut to that total first, which doubles the distance and makes the guarantee
unconditional. With `nonzero`, it holds for neighbours that both have at most `nonzero` non-zero
keys (the paper's Definition of privacy for k-sparse vectors): `nonzero` must be a public fact. If
it nevertheless does not hold, what is published is pure noise.

The polynomial lives in a field of prime order P. The field is cut into buckets of n_v elements, one
for each noisy value v, with n_v/P within 2/P of the law of a zero count, so a key that was never
inserted decodes to fresh noise. ε follows from the thresholds of the noise and from the smallest
n_v. Proof: docs/privacy.md, "Compact". Exact test: tests/mechanisms/test_exact_compact.py.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .._util.lazy import cached_property
from ..errors import MissingDependencyError, ParameterError
from ..privacy.laws import TwoSided, precise, round_up
from ..privacy.randomness import Randomness, Words
from ..structures.table import Counts, add_noise, threshold_fits
from .base import ArrayShape, Plan
from .problem import Problem
from .reading import ArrayReader, Arrays, Estimates, Parts, Reader

# Exponents of Mersenne primes 2^e - 1: the more bits, the larger the counts that fit.
FIELD_EXPONENTS = (521, 607, 1279, 2203, 4253, 9689)
SMALLEST_BUCKET_BITS = 60
MOST_ENTRIES = 20_000
MOST_VALUES = 1 << 15  # the table has a bucket for each value; without `upper`, counts saturate there


def import_flint() -> Any:
    """The python-flint module, or an error that says how to install it."""
    try:
        import flint
    except ImportError:
        raise MissingDependencyError("compact needs python-flint: pip install 'sparsedp[compact]'") from None
    return flint


@dataclass(frozen=True)
class Buckets:
    """The field cut into runs of elements, one run for each noisy value 0..largest."""

    prime: int
    noise: TwoSided
    largest: int

    @cached_property
    def ends(self) -> list[int]:
        """Elements below ends[v] decode to at most v: P · P[clamp(η, 0, largest) <= v], less than
        one element off.
        """
        extra = 1 << 64  # keeps the floors of all values together less than one element off
        at_most_zero = math.floor((1 - self.noise.one_side) * self.prime * extra)
        side = math.floor(self.noise.one_side * self.prime * extra)
        masses = (self.noise.magnitude.scaled(v - 1, side) for v in range(1, self.largest))
        return [end // extra for end in accumulate(masses, initial=at_most_zero)] + [self.prime]

    @cached_property
    def widths(self) -> list[int]:
        """n_v, the number of elements that decode to v."""
        return [high - low for low, high in pairwise([0, *self.ends])]

    @cached_property
    def loss(self) -> Decimal:
        """Bound on |ln(n_v / (P · P[v]))|, rounded up: widths err by less than two elements, and
        ln(1 + t) <= t.
        """
        return round_up(Fraction(2, min(self.widths) - 2))

    def decode(self, element: int) -> int:
        """The noisy value of a field element."""
        return bisect_right(self.ends, element)

    def encode(self, value: int, randomness: Randomness) -> int:
        """A uniform element among those that decode to the value."""
        return self.ends[value] - 1 - randomness.below(self.widths[value])

    def faults(self) -> Iterator[str]:
        """What is wrong with buckets that were not planned here, if anything."""
        if self.prime not in [(1 << e) - 1 for e in FIELD_EXPONENTS] or not 1 <= self.largest <= MOST_VALUES:
            yield f"the field must be a known one, and the largest value at most {MOST_VALUES}"
        elif not threshold_fits(self.noise, self.largest):
            yield "the largest value is out of range"
        elif min(self.widths) < 3:
            yield "every value must have elements of the field"


@dataclass(frozen=True)
class CompactPlan(Plan):
    """A polynomial of degree `entries` whose value at every key decodes to that key's noisy count."""

    problem: Problem
    entries: int
    cut_total: bool
    buckets: Buckets
    reason: str = Plan.reason

    mechanism = "compact"
    row = 3
    pure = True

    @classmethod
    def create(cls, problem: Problem) -> CompactPlan:
        """Counts above `upper` saturate; without it, they saturate at the largest that 2^521 - 1
        elements can hold.
        """
        import_flint()
        cut_total = problem.nonzero is None
        entries = problem.entries
        if entries is None:
            raise ParameterError("compact needs a public nonzero= or total=: the size cannot be estimated privately")
        if entries > MOST_ENTRIES:
            raise ParameterError(
                f"compact is usable up to {MOST_ENTRIES} keys, got {entries}; use mechanism='threshold-alp'"
            )
        noise = TwoSided.with_rate(problem.rate(Decimal("0.5") if cut_total else Decimal(1)))
        for exponent in FIELD_EXPONENTS:
            room = exponent - SMALLEST_BUCKET_BITS + math.log2(noise.one_side * noise.magnitude.at_zero)
            fits = min(math.floor(room * math.log(2) / float(noise.rate)), MOST_VALUES)
            wanted = fits if problem.upper_cells is None else max(1, problem.upper_cells)
            if 1 <= wanted <= fits:
                return cls(problem, entries, cut_total, Buckets((1 << exponent) - 1, noise, wanted))
        raise ParameterError(
            f"compact holds counts up to {fits} at this epsilon, got upper of {wanted}; use mechanism='threshold-alp'"
        )

    @property
    def step_loss(self) -> Decimal:
        with precise(ROUND_CEILING):
            loss = self.buckets.noise.step_loss + self.buckets.loss
            return 2 * loss if self.cut_total else loss

    @property
    def assumption(self) -> str | None:
        return None if self.cut_total else f"at most {self.entries} keys are non-zero, in every neighbouring data set"

    @property
    def element_words(self) -> int:
        """64-bit words of one coefficient."""
        return -(-self.buckets.prime.bit_length() // 64)

    @property
    def cells_nbytes(self) -> float:
        return 8 * self.element_words * (self.entries + 1)

    @property
    def access(self) -> int:
        return self.element_words * (self.entries + 1)

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        return {"coefficients": (np.uint64, (self.entries + 1, self.element_words))}

    def build(self, ids: Words, counts: Counts, randomness: Randomness) -> Arrays:
        if self.cut_total:
            ids, counts = cut_to_total(ids, counts, self.entries)
        if len(ids) > self.entries + 1:  # the public bound does not hold: publish nothing about the data
            ids, counts = ids[:0], counts[:0]
        capped = np.minimum(counts, self.buckets.largest)
        noisy = np.clip(add_noise(capped, self.buckets.noise, randomness), 0, self.buckets.largest)
        points = [int(i) for i in ids]
        elements = [self.buckets.encode(int(value), randomness) for value in noisy]
        free = [randomness.below(self.buckets.prime) for _ in range(self.entries + 1 - len(points))]
        coefficients = interpolate(self.buckets.prime, points, elements, free)
        width = 8 * self.element_words
        packed = b"".join(c.to_bytes(width, "little") for c in coefficients)
        return {"coefficients": np.frombuffer(packed, np.uint64).reshape(-1, self.element_words)}

    def wrong_arrays(self, parts: Parts, thorough: bool) -> Iterator[str]:
        for row in parts[0]["coefficients"]:
            if int.from_bytes(row.tobytes(), "little") >= self.buckets.prime:
                yield "coefficients must be elements of the field"
                return

    def reader(self, parts: Parts) -> Reader:
        return ArrayReader(self, parts, self.estimate)

    def estimate(self, arrays: Mapping[str, np.ndarray], ids: Words) -> Estimates:
        """Unclamped estimates, in cells."""
        ring = polynomial_ring(self.buckets.prime)
        polynomial = ring([int.from_bytes(row.tobytes(), "little") for row in arrays["coefficients"]])
        elements = polynomial.multipoint_evaluate([int(i) for i in ids]) if len(ids) else []
        return np.array([self.buckets.decode(int(element)) for element in elements], np.float64)

    def simulate(self, count: int, samples: int) -> Estimates:
        noisy = min(count, self.buckets.largest) + self.buckets.noise.spread(samples)
        return self.clamp(np.clip(noisy, 0, self.buckets.largest).astype(np.float64))

    @property
    def expected_error_cells(self) -> float:
        return self.buckets.noise.mean_size

    @property
    def maximum_error_cells(self) -> float:
        return self.buckets.noise.largest_of(self.problem.domain)

    def error_with_probability_cells(self, failure: float) -> float:
        return self.buckets.noise.exceeded_with(failure)

    def faults(self) -> Iterator[str]:
        if not 1 <= self.entries <= MOST_ENTRIES or self.cut_total != (self.problem.nonzero is None):
            yield f"entries must be in 1..{MOST_ENTRIES}"


def cut_to_total(ids: Words, counts: Counts, total: int) -> tuple[Words, Counts]:
    """Keep counts in the order of their ids until `total` is used up; changes of the input at most
    double.
    """
    order = np.argsort(ids)
    ids, counts = ids[order], np.minimum(counts[order], total)
    left = np.maximum(total - (np.cumsum(counts) - counts), 0)
    kept = np.minimum(counts, left)
    return ids[kept > 0], kept[kept > 0]


@lru_cache(maxsize=16)
def polynomial_ring(prime: int) -> Any:
    """Polynomials over the field of prime order. Each is made once: FLINT proves that it is prime,
    which takes a fifth of a second.
    """
    flint = import_flint()
    return flint.fmpz_mod_poly_ctx(flint.fmpz_mod_ctx(prime))


def interpolate(prime: int, points: list[int], elements: list[int], free: list[int]) -> list[int]:
    """Coefficients of a polynomial through the points, with `free` for the rest: I(x) + Π(x -
    points) · free(x).
    """
    ring = polynomial_ring(prime)
    x = ring.gen()
    vanishing = _product([x - point for point in points], ring.one())
    result = vanishing * ring(free)
    if points:
        slopes = vanishing.derivative().multipoint_evaluate(points)
        weights = [ring([element]) * ring([slope.inverse()]) for element, slope in zip(elements, slopes, strict=True)]
        result += _combine([x - point for point in points], weights)[1]
    coefficients = [int(c) for c in result.coeffs()]
    return coefficients + [0] * (len(points) + len(free) - len(coefficients))


def _product(factors: list[Any], one: Any) -> Any:
    while len(factors) > 1:
        factors = [a * b for a, b in zip(factors[::2], [*factors[1::2], one], strict=False)]
    return factors[0] if factors else one


def _combine(factors: list[Any], weights: list[Any]) -> tuple[Any, Any]:
    """Π factors and Σ weights[i] Π_{j≠i} factors[j], by halving (Lagrange's formula in quasi-linear
    time).
    """
    if len(factors) == 1:
        return factors[0], weights[0]
    half = len(factors) // 2
    left, left_sum = _combine(factors[:half], weights[:half])
    right, right_sum = _combine(factors[half:], weights[half:])
    return left * right, left_sum * right + right_sum * left
