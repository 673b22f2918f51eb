"""The ladder: a count as a few noisy symbols, one per level, with integer thresholds and their
exact loss.

ALP writes a count in unary, one noisy bit per level. A bit is a symbol with two values; the ladder
has symbols of 2, 4, 8, … values. A level that starts at count b and is V counts high sees
clamp(count - b, 0, V), its *height*, so a step of the count is a step of only one level. Each
height has a law over the level's symbols, given by cumulative integer thresholds, and the laws of
neighbouring heights differ by a factor that is computed from them.

The laws spend the budget of every step fully (docs/privacy.md, "Ladder"). A symbol s stands for an
*anchor* height t_s. At anchors the law is two-sided geometric with ratio a_s between the symbols s
and s + 1, cut at the ends:

    P[σ | t_s] = π_σ · Π a_i (i between s and σ),   π_σ = (1 - a_{σ-1} a_σ) / ((1 + a_{σ-1})(1 + a_σ)),

with a = 0 beyond the ends; every ratio between neighbouring anchors is a_s or 1/a_s, for all
outcomes. Between two anchors the mass g above s climbs as fast as each step's budget w allows, g →
min(g e^w, 1 - (1 - g) e^-w), from g₀ to 1 - g₀, which determines a_s = g₀/(1 - g₀), and π_σ = 1 -
g₀ of the gap below σ - g₀ of the gap above. With two symbols this is the tightest rounding of ALP's
bit.

A ladder has thousands of masses, all of which follow from a few numbers: its `Recipe`, which is
what a file holds. Masses are computed only with sums, products and quotients of doubles, which are
the same on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .._util.lazy import cached_property
from ..privacy.laws import WORD_BITS

Matrix = npt.NDArray[np.float64]

RATIO_BITS = 192

# More heights would take long to check, and only a tiny ε with a tiny δ would need them.
MOST_HEIGHT = 1 << 15
MOST_PATTERN_BITS, MOST_MASSES = 12, 1 << 21
LARGEST_GROWTH = 1.1e13  # e to the largest loss of a step


@dataclass(frozen=True)
class Level:
    """One level: heights 0..V above `start`, each with the integer masses of its 2^bits symbols."""

    start: int
    bits: int
    masses: tuple[tuple[int, ...], ...]  # masses[height][symbol], each row summing to 2^word_bits
    word_bits: int = WORD_BITS

    @property
    def height(self) -> int:
        """V, the largest height."""
        return len(self.masses) - 1

    @property
    def symbols(self) -> int:
        """The number of different symbols."""
        return 1 << self.bits

    @cached_property
    def thresholds(self) -> npt.NDArray[np.uint64]:
        """Row h, column s: a uniform word below it gives a symbol of at most s; the last symbol
        needs no threshold.
        """
        # Exact: each row adds up to at most 2^64, and what is left out is not 0.
        return np.cumsum(np.array(self.masses, np.uint64)[:, :-1], axis=1, dtype=np.uint64)

    @cached_property
    def law(self) -> Matrix:
        """P[symbol | height], as floats: for decoding, not for privacy."""
        return np.array(self.masses, np.uint64).astype(np.float64) / float(1 << self.word_bits)

    def step_ratios(self, height: int) -> tuple[Fraction, Fraction]:
        """The largest P[s | h + 1]/P[s | h] and P[s | h]/P[s | h + 1] over all symbols, rounded up
        slightly.
        """
        low, high = self.masses[height], self.masses[height + 1]
        # Floats only leave out symbols that cannot have the largest ratio: a quotient of two rounded
        # masses is off by less than 4e-16 of itself, so the largest is within 1e-15 of the largest
        # quotient.
        quotients = self.law[height + 1] / self.law[height]
        rising = np.flatnonzero(quotients >= quotients.max() * (1 - 1e-14)).tolist()
        falling = np.flatnonzero(quotients <= quotients.min() * (1 + 1e-14)).tolist()
        up = max((high[s] << RATIO_BITS) // low[s] for s in rising)
        down = max((low[s] << RATIO_BITS) // high[s] for s in falling)
        return Fraction(up + 1, 1 << RATIO_BITS), Fraction(down + 1, 1 << RATIO_BITS)

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        if not 1 <= self.bits <= 8 or self.word_bits != WORD_BITS or self.start < 0 or self.height < 1:
            yield "a level must have 1..8 bits and at least two heights"
        for row in self.masses:
            if len(row) != self.symbols or min(row) <= 0 or sum(row) != 1 << WORD_BITS:
                yield "the masses of a height must be positive, one for each symbol, and sum to 2^64"
                return


@dataclass(frozen=True)
class Recipe:
    """What a ladder is made from, besides the price of every step: e to the budget of a step,
    anchors and symbols.
    """

    growth: float
    anchors: tuple[int, ...]
    bits: tuple[int, ...]  # of the symbols of each level

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        anchors, bits = self.anchors, self.bits
        if not 1 < self.growth <= LARGEST_GROWTH:
            yield "the growth must be above 1, and that of a step at most"
        if not 1 <= len(bits) <= 4 or not all(1 <= b <= 8 for b in bits) or sum(bits) > MOST_PATTERN_BITS:
            yield f"there must be 1..4 levels with symbols of 1..8 bits, {MOST_PATTERN_BITS} in all"
        elif not count_gaps(bits[:-1]) + 1 < len(anchors) <= count_gaps(bits) + 1:
            yield "there must be anchors for every level, at most one for each symbol"
        elif anchors[0] != 0 or any(high <= low for low, high in pairwise(anchors)) or anchors[-1] > MOST_HEIGHT:
            yield f"anchors must ascend from 0 to at most {MOST_HEIGHT}"
        elif anchors[-1] << max(bits) > MOST_MASSES:
            yield f"a ladder must have at most {MOST_MASSES} masses"


@dataclass(frozen=True)
class Ladder:
    """Stacked levels: a step of a count below `height` is a step of exactly one level."""

    levels: tuple[Level, ...]
    recipe: Recipe | None = field(default=None, compare=False)

    @classmethod
    def climb(cls, budgets: Sequence[float], bits: Sequence[int], word_bits: int = WORD_BITS) -> Ladder:
        """The ladder with symbols of the given bits whose step from c to c + 1 loses about
        budgets[c].
        """
        return cls(make_levels(np.exp(budgets), spread_anchors(budgets, count_gaps(bits)), bits, word_bits))

    @classmethod
    def grown(cls, factors: Matrix, recipe: Recipe) -> Ladder:
        """The ladder of a recipe whose step from c to c + 1 multiplies no probability by more than
        factors[c].
        """
        levels = make_levels(factors, recipe.anchors, recipe.bits, WORD_BITS)
        return cls(levels, replace(recipe, bits=recipe.bits[: len(levels)]))

    @property
    def height(self) -> int:
        """The largest count that is distinguished from its predecessor."""
        return sum(level.height for level in self.levels)

    @property
    def bits(self) -> int:
        """Bits of all symbols of a key together: the size of a pattern."""
        return sum(level.bits for level in self.levels)

    @property
    def digest(self) -> str:
        """The SHA-256 of all masses, in 64-bit words: every machine must get the same from the
        recipe.
        """
        digest = hashlib.sha256()
        for level in self.levels:
            digest.update(np.array(level.masses, "<u8").tobytes())
        return digest.hexdigest()

    def step_ratios(self, count: int) -> tuple[Fraction, Fraction]:
        """The largest ratios up and down of the step from a count to the next, rounded up."""
        level = next(level for level in self.levels if count < level.start + level.height)
        return level.step_ratios(count - level.start)

    @cached_property
    def rough_ratios(self) -> tuple[Matrix, Matrix]:
        """The same of all steps below the top, as floats that are off by less than 1e-15 of
        themselves.
        """
        quotients = [level.law[1:] / level.law[:-1] for level in self.levels]
        rising = np.concatenate([each.max(axis=1) for each in quotients])
        return rising, 1 / np.concatenate([each.min(axis=1) for each in quotients])

    def faults(self) -> Iterator[str]:
        """What is wrong with one that was not planned here, if anything."""
        starts = [sum(level.height for level in self.levels[:j]) for j in range(len(self.levels))]
        if self.bits > MOST_PATTERN_BITS or self.height > MOST_HEIGHT:
            yield f"a pattern must have at most {MOST_PATTERN_BITS} bits, and a ladder at most {MOST_HEIGHT} heights"
        if not 1 <= len(starts) <= 4 or [level.start for level in self.levels] != starts:
            yield "there must be 1..4 levels, each starting where the previous one ends"


def spread_anchors(budgets: Sequence[float] | Matrix, gaps: int) -> list[int]:
    """Counts 0 = t_0 < t_1 < … that cut the budget into about equal parts, at most `gaps` of them."""
    spent = np.concatenate([[0.0], np.cumsum(budgets)])
    anchors = [0]
    while len(anchors) <= gaps and anchors[-1] < len(budgets):
        left = spent[-1] - spent[anchors[-1]]
        wanted = spent[anchors[-1]] + left / (gaps + 1 - len(anchors))
        anchors.append(max(anchors[-1] + 1, int(np.searchsorted(spent, wanted * (1 - 1e-12)))))
    anchors[-1] = len(budgets)
    return anchors


def count_gaps(bits: Sequence[int]) -> int:
    """The gaps between the anchors of all levels; the last anchor of a level is the first of the
    next.
    """
    return sum((1 << b) - 1 for b in bits)


def make_levels(factors: Matrix, anchors: Sequence[int], bits: Sequence[int], word_bits: int) -> tuple[Level, ...]:
    """The levels of the given bits, as many as there are anchors for."""
    levels, first = [], 0
    for b in bits:
        own = anchors[first : first + (1 << b)]
        if len(own) < 2:
            break  # fewer counts than symbols: the remaining levels would be empty
        levels.append(make_level(factors, own, b, word_bits))
        first += (1 << b) - 1
    return tuple(levels)


def make_level(factors: Matrix, anchors: Sequence[int], bits: int, word_bits: int) -> Level:
    """The level between the first and the last anchor."""
    first, gaps = np.array(anchors[:-1]), np.diff(anchors)
    starts, climbs = np.empty(len(gaps)), np.empty(anchors[-1] - anchors[0])
    for length in np.unique(gaps):  # gaps of one length at a time: planning makes thousands of them
        own = gaps == length
        steps = first[own, None] + np.arange(length)
        climb = fastest_climb(factors[steps])
        starts[own], climbs[steps - anchors[0]] = climb[:, 0], climb[:, 1:]
    ratios = starts / (1 - starts)
    diagonal = 1 - np.append(0.0, starts) - np.append(starts, 0.0)
    at_anchors = diagonal * _products(ratios)
    # From anchor s on, the symbols up to s lose what those above gain.
    s = np.repeat(np.arange(len(gaps)), gaps)
    falling, rising = (1 - climbs) / (1 - starts)[s], climbs / starts[s]
    lower = np.arange(len(anchors)) <= s[:, None]
    rows = np.concatenate([at_anchors[:1], at_anchors[s] * np.where(lower, falling[:, None], rising[:, None])])
    unused = (1 << bits) - len(anchors)
    masses = whole_masses(split_last(rows, unused), word_bits)
    return Level(anchors[0], bits, tuple(map(tuple, masses.tolist())), word_bits)


def _products(ratios: Matrix) -> Matrix:
    """Row s: the products of all ratios between symbol s and every other symbol."""
    from_s = np.arange(len(ratios) + 1)
    s = from_s[:, None]
    above: Matrix = np.where(from_s > s, np.append(1.0, ratios), 1.0)
    below: Matrix = np.where(from_s < s, np.append(ratios, 1.0), 1.0)
    products: Matrix = np.cumprod(above, axis=1) * np.cumprod(below[:, ::-1], axis=1)[:, ::-1]  # one of them is 1
    return products


def split_last(rows: Matrix, unused: int) -> Matrix:
    """Spread the last symbol's mass over itself and the unused symbols, so that every symbol can
    occur.
    """
    shares = np.repeat(rows[:, -1:] / (unused + 1), unused + 1, axis=1)
    return np.concatenate([rows[:, :-1], shares], axis=1)


def fastest_climb(factors: Matrix) -> Matrix:
    """g₀, …, g_n = 1 - g₀, where each step multiplies g and 1 - g by at most its factor, or its
    inverse; for each row of factors, if there are several.

    A step by a factor f is limited by g while g <= 1/(1 + f), and by 1 - g after that. If the first
    m steps are limited by g, the last value is 1 - (1 - g₀ F_m) F_m/F_n, with F the partial
    products; setting it to 1 - g₀ gives g₀.
    """
    steps = factors.shape[-1]
    grown = np.ones((*factors.shape[:-1], steps + 1))
    np.cumprod(factors, axis=-1, out=grown[..., 1:])
    starts = 1 / (grown + grown[..., -1:] / grown)
    # The switch is at the last m for which the previous step was still limited by g.
    limited = starts[..., 1:] * grown[..., :-1] <= (1 + 1e-12) / (1 + factors)
    m = np.where(limited, np.arange(1, steps + 1), 0).max(axis=-1, keepdims=True)
    start, switch = np.take_along_axis(starts, m, -1), np.take_along_axis(grown, m, -1)
    above = 1 - (1 - start * switch) * (switch / grown)
    climb: Matrix = np.where(np.arange(steps + 1) <= m, start * grown, above)
    climb[..., -1:] = 1 - start
    return climb


def whole_masses(rows: Matrix, word_bits: int) -> npt.NDArray[np.uint64]:
    """Integers proportional to each row that sum to 2^word_bits, none so small that rounding
    changes ratios much.
    """
    scale = 1 << word_bits
    nearest = np.minimum(np.floor(rows * float(scale) + 0.5), scale * (1 - 2.0**-53))  # always below 2^64
    # Whole numbers from 2^20 on are off by 5e-7 at most, which is little even for a step whose
    # budget is 0.01.
    masses = np.maximum(nearest, max(1, scale >> 44)).astype(np.uint64)
    # 2^64 is zero in 64 bits; the largest mass of a row is large enough to absorb what is missing.
    missing = np.uint64(scale % (1 << 64)) - masses.sum(axis=1, dtype=np.uint64)
    masses[np.arange(len(masses)), masses.argmax(axis=1)] += missing
    return masses
