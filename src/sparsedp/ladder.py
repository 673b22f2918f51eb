"""The ladder: a count as a few noisy symbols, one for each level, with integer thresholds and their exact loss.

ALP writes a count in unary, one noisy bit per level. A bit is a symbol with two values; the ladder has symbols of
2, 4, 8, … values. A level that starts at count b and is V counts high sees clamp(count - b, 0, V), its *height*, so a
step of the count is a step of one level only. Each height has a law over the level's symbols, given by cumulative
integer thresholds, and neighbouring heights' laws differ by a factor that is computed from them.

The laws spend the budget of every step fully (docs/privacy.md, "Ladder"). A symbol s stands for an *anchor* height
t_s. At anchors the law is two-sided geometric with ratio a_s between the symbols s and s + 1, cut at the ends:

    P[σ | t_s] = π_σ · Π a_i (i between s and σ),   π_σ = (1 - a_{σ-1} a_σ) / ((1 + a_{σ-1})(1 + a_σ)),

with a = 0 beyond the ends; every ratio between neighbouring anchors is a_s or 1/a_s, for all outcomes. Between two
anchors the mass g above s climbs as fast as each step's budget w allows, g → min(g e^w, 1 - (1 - g) e^-w), from g₀ to
1 - g₀, which determines a_s = g₀/(1 - g₀). With two symbols this is the tightest rounding of ALP's bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .laws import WORD_BITS
from .lazy import cached_property

Matrix = npt.NDArray[np.float64]

RATIO_BITS = 192

# More heights would take long to check, and only a tiny ε with a tiny δ would need them.
MOST_HEIGHT = 1 << 15


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
        """Row h, column s: a uniform word below it gives a symbol of at most s; the last symbol needs none."""
        cumulative = [[sum(row[: s + 1]) for s in range(self.symbols - 1)] for row in self.masses]
        return np.array(cumulative, np.uint64)

    @cached_property
    def law(self) -> Matrix:
        """P[symbol | height], as floats: for decoding, not for privacy."""
        return np.array(self.masses, dtype=object).astype(np.float64) / float(1 << self.word_bits)

    def step_ratios(self, height: int) -> tuple[Fraction, Fraction]:
        """The largest P[s | h + 1]/P[s | h] and P[s | h]/P[s | h + 1] over all symbols, rounded up a hair."""
        low, high = self.masses[height], self.masses[height + 1]
        up = max((b << RATIO_BITS) // a for a, b in zip(low, high, strict=True))
        down = max((a << RATIO_BITS) // b for a, b in zip(low, high, strict=True))
        return Fraction(up + 1, 1 << RATIO_BITS), Fraction(down + 1, 1 << RATIO_BITS)


@dataclass(frozen=True)
class Ladder:
    """Levels above one another: a step of a count below `height` is a step of exactly one level."""

    levels: tuple[Level, ...]

    @classmethod
    def climb(cls, budgets: Sequence[float], bits: Sequence[int], word_bits: int = WORD_BITS) -> Ladder:
        """The ladder with symbols of the given bits whose step from c to c + 1 loses about budgets[c]."""
        anchors = spread_anchors(budgets, sum((1 << b) - 1 for b in bits))
        levels, first = [], 0
        for b in bits:
            own = anchors[first : first + (1 << b)]
            if len(own) < 2:
                break  # fewer counts than symbols: the remaining levels would be empty
            levels.append(make_level(budgets, own, b, word_bits))
            first += (1 << b) - 1
        return cls(tuple(levels))

    @property
    def height(self) -> int:
        """The largest count that is told from its predecessor."""
        return sum(level.height for level in self.levels)

    @property
    def bits(self) -> int:
        """Bits of all symbols of a key together: the size of a pattern."""
        return sum(level.bits for level in self.levels)

    def step_ratios(self) -> list[tuple[Fraction, Fraction]]:
        """For each step c → c + 1 below the top, the largest ratios up and down, rounded up."""
        return [level.step_ratios(h) for level in self.levels for h in range(level.height)]


def spread_anchors(budgets: Sequence[float], gaps: int) -> list[int]:
    """Counts 0 = t_0 < t_1 < … that cut the budget into about equal parts, at most `gaps` of them."""
    spent = np.concatenate([[0.0], np.cumsum(budgets)])
    anchors = [0]
    while len(anchors) <= gaps and anchors[-1] < len(budgets):
        left = spent[-1] - spent[anchors[-1]]
        wanted = spent[anchors[-1]] + left / (gaps + 1 - len(anchors))
        anchors.append(max(anchors[-1] + 1, int(np.searchsorted(spent, wanted * (1 - 1e-12)))))
    anchors[-1] = len(budgets)
    return anchors


def make_level(budgets: Sequence[float], anchors: Sequence[int], bits: int, word_bits: int) -> Level:
    """The level between the first and the last anchor."""
    climbs = [fastest_climb(budgets[low:high]) for low, high in pairwise(anchors)]
    ratios = [climb[0] / (1 - climb[0]) for climb in climbs]
    left, right = np.array([0.0, *ratios]), np.array([*ratios, 0.0])
    diagonal = (1 - left * right) / ((1 + left) * (1 + right))
    position = np.concatenate([[0.0], np.cumsum(-np.log(ratios))])
    at_anchors = diagonal * np.exp(-np.abs(position[:, None] - position))
    rows = [at_anchors[0]]
    for s, climb in enumerate(climbs):
        lower = np.arange(len(anchors)) <= s
        for g in climb[1:]:
            rows.append(at_anchors[s] * np.where(lower, (1 - g) / (1 - climb[0]), g / climb[0]))
    unused = (1 << bits) - len(anchors)
    return Level(anchors[0], bits, tuple(whole_masses(split_last(row, unused), word_bits) for row in rows), word_bits)


def split_last(row: Matrix, unused: int) -> Matrix:
    """Spread the last symbol's mass over itself and the unused ones, so that every symbol can occur."""
    return np.concatenate([row[:-1], np.full(unused + 1, row[-1] / (unused + 1))])


def fastest_climb(budgets: Sequence[float]) -> list[float]:
    """g₀, …, g_n = 1 - g₀, where each step multiplies g and 1 - g by at most e^±budget.

    A step is limited by g while g <= 1/(1 + e^w), and by 1 - g after that. If the first m steps are limited by g, the
    last value is 1 - (1 - g₀ e^{U_m}) e^{-(U_n - U_m)}, with U the partial sums; setting it to 1 - g₀ gives g₀.
    """
    steps = np.asarray(budgets)
    spent = np.concatenate([[0.0], np.cumsum(steps)])
    starts = 1 / (np.exp(spent) + np.exp(spent[-1] - spent))
    # The switch happens at the last m for which the step before it was still limited by g.
    limited = starts[1:] * np.exp(spent[:-1]) <= (1 + 1e-12) / (1 + np.exp(steps))
    m = int(np.flatnonzero(limited)[-1]) + 1 if limited.any() else 0
    start = starts[m]
    below = start * np.exp(spent[: m + 1])
    above = 1 - (1 - below[-1]) * np.exp(-(spent[m + 1 :] - spent[m]))
    climb = np.concatenate([below, above])
    climb[-1] = 1 - start
    return [float(g) for g in climb]


def whole_masses(row: Matrix, word_bits: int) -> tuple[int, ...]:
    """Integers proportional to the row that sum to 2^word_bits, none so small that rounding changes ratios much."""
    scale = 1 << word_bits
    least = max(1, scale >> 52)
    masses = [max(least, int(p * scale + 0.5)) for p in row.tolist()]
    largest = max(range(len(masses)), key=masses.__getitem__)
    masses[largest] += scale - sum(masses)
    return tuple(masses)
