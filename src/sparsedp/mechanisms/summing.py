"""Sums of `tight-alp`: what each pattern adds to them, and how far they may be off.

Everything here reads only what is published, so it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._util.lazy import cached_property
from ..structures.decoding import Floats, keys_above, poisson_load
from ..structures.sharing import BLOCK_WORDS, MOST_BLOCKS, Patterns, SharingDecoder
from ..structures.unbiased import Summands, summands
from .fitted import fit_numbers
from .leftover import not_stored
from .partial import length_of, piece
from .problem import Problem
from .reading import Parts, Summed

if TYPE_CHECKING:
    from .tight_alp import TightAlpPlan

_EVERY_COUNT = 32  # up to here, whatever the grid
_SOME_FREE = 0.1  # of the cells: where fewer are, noise may hide that none is


@dataclass(frozen=True)
class Sums:
    """What each pattern adds to a sum over keys, and what is known of all of them together."""

    each: Summands
    present: float  # how many keys there are in the release, at most
    mean_error: float  # the standard error of what absent keys add on average
    cells_error: float  # of what present keys add on average, by the noise of the cells of others

    @classmethod
    def of(cls, plan: TightAlpPlan, parts: Parts) -> Sums:
        """The sums of a release with this plan."""
        symbols, stage = list(plan.symbols(parts)), plan.stage
        values = np.concatenate([arrays["table.values"] for arrays in parts])
        numbers = fit_numbers(plan.problem, stage, values, symbols)
        loads = tuple(
            poisson_load(cells, numbers.above(level.start + np.arange(level.height + 1))) for level, cells, _ in symbols
        )
        some = max(1, MOST_BLOCKS // len(parts)) * BLOCK_WORDS  # keys are placed by hashing, so that these are any
        name = "embedding.blocks"
        pieces = (piece(arrays, name, 0, min(some, length_of(arrays, name))) for arrays in parts)
        patterns = Patterns.read(plan.blocks, pieces, [own.seen for own in symbols])
        grid, rate = plan.decoder.grid, float(stage.noise.rate)
        grid = np.union1d(grid, np.arange(min(_EVERY_COUNT, grid[-1]) + 1))
        unstored, cells = not_stored(stage, grid), plan.blocks.cells
        decoder = SharingDecoder(plan.blocks.ladder, loads, grid, unstored, rate=rate, patterns=patterns, cells=cells)
        present = min(_most_keys(plan.problem), _shown_keys(decoder))
        # An overfull release does not tell which counts its keys have.
        each = summands(
            decoder, rate, stage.threshold, decoder.others, None if math.isinf(present) else numbers.unstored_on(grid)
        )
        return cls(each, present, patterns.error_of_mean(each.values), patterns.error_of_cells(each.values, cells))

    @cached_property
    def besides(self) -> Floats:
        """What each pattern adds to the variance, to the bias and to the number of keys that are not
        stored.
        """
        return np.stack([self.each.variances, self.each.biases, np.ones(len(self.each.values))], axis=1)

    def summed(self, keys: int, unstored: int, total: float, variance: float, bias: float) -> Summed:
        """A sum over distinct keys, from what those that are not stored add up to."""
        own, present = self.each, min(unstored, self.present)  # nothing of absent keys can be hidden
        variance = max(variance, keys * own.least_variance)
        variance += (unstored * self.mean_error) ** 2 + (present * self.cells_error) ** 2
        bias = min(max(bias, 0.0) + present * own.hidden, unstored * own.largest_bias)
        return Summed(total, variance, bias)


def _most_keys(problem: Problem) -> float:
    """How many keys there are, at most, if data tell: an estimated size is Σ min(count, cap)/cap, and
    rarely too small. Public bounds may be exceeded.
    """
    if not problem.size_estimated or problem.sizing_noise is None:
        return math.inf
    keys = float(problem.entries or 1)
    if problem.sizing_keys is not None:
        return keys + 4 * problem.sizing_spread
    return keys * math.ceil(1 / problem.neighbours.step_budget(problem.epsilon))


def _shown_keys(decoder: SharingDecoder) -> float:
    """How many keys explain that this share of cells is free, at most."""
    least = min(decoder.loads_of_first, key=lambda load: float(load[0]))
    return float(keys_above(decoder.cells[0], least)[0]) if least[0] > _SOME_FREE else math.inf
