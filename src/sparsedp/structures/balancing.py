"""The balanced estimates: answers for which no count fares much worse than with dense noise.

Any prior is a choice of where to be good. Balanced estimates favour no count: they are the values
x(pattern) with the least

    (1 - spread) · max_c ratio(c) + spread · Σ_c base(c) · ratio(c),

where ratio(c) is the expected error of a key of count c, stored or not, in units of the error of
dense geometric noise at the same ε, clamped at 0. The maximum alone would be lazy: wherever it is
not attained, any answer would do.

This is a game. An opponent puts weights on the counts, and the best answers to weights are weighted
medians. The opponent learns by multiplicative weights, and as errors are convex, the *average*
answer over the rounds is nearly optimal. All of this reads only what is published, so it costs no
privacy. Sums of floats differ between machines in their last digits, so a release publishes the
values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import _native
from .._util.lazy import cached_property

Floats = npt.NDArray[np.float64]

ROUNDS = 320
LEARNING_RATE, FAST_ROUNDS = 0.8, 100  # the rate falls after this many rounds, or hard games would oscillate forever
LEAST_SPREAD, LARGEST_SPREAD = 0.2, 0.5
LEAST_ERROR = 1e-3  # of dense noise, in cells: at a large ε it is almost zero, and all else would be infinitely worse
MANY_PATTERNS = 128
FEW_COUNTS = 64


def dense_error(rate: float, counts: Floats) -> Floats:
    """E|max(0, c + η) - c| of two-sided geometric noise η with the given decay rate."""
    a = math.exp(-rate)
    error: Floats = a / (1 - a * a) * (2 - np.exp(-rate * counts))
    return np.maximum(error, LEAST_ERROR)


@dataclass(frozen=True)
class Board:
    """What games have in common that differ in their patterns only."""

    counts: Floats  # ascending from 0
    rate: float  # of the noise
    stored: Floats  # E[|error|; stored | count]

    @cached_property
    def dense(self) -> Floats:
        """The error of dense noise at each count."""
        return dense_error(self.rate, self.counts)

    @property
    def _apart(self) -> float:
        """The distance of one count from the next in noise scales, at most 1, which means that
        count one is visible.
        """
        return min(1.0, self.rate)

    @property
    def spread(self) -> float:
        """The share of the weights that the opponent does not choose."""
        return LEAST_SPREAD + (LARGEST_SPREAD - LEAST_SPREAD) * self._apart

    @cached_property
    def start(self) -> Floats:
        """Zipf's law in units of the noise, with as much on zero as on the first noise scale."""
        weights = self.rate * np.diff(self.counts, prepend=0.0) / (1 + self.rate * self.counts)
        weights[0] = math.log(2)
        normalised: Floats = weights / weights.sum()
        return normalised

    @cached_property
    def base(self) -> Floats:
        """The weights that the opponent does not choose: `start`, or Zipf's law of the counts of
        present keys.

        Most present keys have small counts. It is worth telling them from absent keys if the noise
        allows it.
        """
        present = -np.diff(1 / (1 + self.counts), prepend=1.0)
        weights: Floats = (1 - self._apart) * self.start + self._apart * present / present.sum()
        return weights

    @cached_property
    def guesses(self) -> tuple[Floats, Floats]:
        """Two guesses of the opponent's weights, mixed with those that it does not choose.

        The worst counts are the small ones, which other keys in their cells hide, or, if cells are
        roomy, those in the middle.
        """
        small = np.exp(-self.rate * self.counts / 4)
        small[0] = 0.25 * small.sum()
        return self._mixed(small), self._mixed(np.diff(self.counts, prepend=0.0))

    def _mixed(self, chosen: Floats) -> Floats:
        weights: Floats = (1 - self.spread) * (chosen / chosen.sum()) + self.spread * self.base
        return weights

    def every(self, step: int) -> Board:
        """The board with only one of `step` counts."""
        return Board(self.counts[::step], self.rate, self.stored[::step])


@dataclass(frozen=True)
class Game:
    """Counts against patterns: the cost of every answer for every count."""

    board: Board
    unstored: Floats  # P[not stored, and this pattern | count]: a row for each count, a column for each pattern

    def ratios(self, values: Floats) -> Floats:
        """The expected error of each count, in units of the error of dense noise, if patterns have
        these values.
        """
        distances = values - self.board.counts[:, None]
        np.abs(distances, out=distances)
        distances *= self.unstored
        errors: Floats = distances.sum(axis=1) + self.board.stored
        return errors / self.board.dense

    def objective(self, values: Floats) -> float:
        """What balanced values minimise."""
        ratios, spread = self.ratios(values), self.board.spread
        return float((1 - spread) * ratios.max() + spread * (self.board.base @ ratios))

    def balanced(self, rounds: int = ROUNDS) -> Floats:
        """The balanced value of every pattern."""
        game = self._thinned()
        board = game.board
        rates = LEARNING_RATE / np.sqrt(1 + np.arange(1.0, rounds + 1) / FAST_ROUNDS)
        cost, fixed = game._in_units()
        return _native.balanced(cost, board.counts, fixed, board.base, board.spread, np.log(board.start), rates)

    def bound(self) -> float:
        """A fast lower bound on the objective: the cost of the best answers to two guesses of the
        opponent's weights.
        """
        cost, fixed = self._in_units()
        return max(_native.least_cost(cost, self.board.counts, fixed, weights) for weights in self.board.guesses)

    def _in_units(self) -> tuple[Floats, Floats]:
        """The cost of an error of one, and of what is stored, in units of the error of dense noise."""
        return self.unstored / self.board.dense[:, None], self.board.stored / self.board.dense

    def _thinned(self) -> Game:
        """The game with fewer counts, still several in each noise scale."""
        counts, rate = self.board.counts, self.board.rate
        each = 4 if self.unstored.shape[1] > MANY_PATTERNS else 8
        fine = round(1 / (rate * each * (counts[1] - counts[0])))
        step = max(1, min(fine, len(counts) // FEW_COUNTS))
        return Game(self.board.every(step), self.unstored[::step])
