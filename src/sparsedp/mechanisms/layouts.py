"""The planner of `tight-alp`: which ladder and which rows suit a problem best.

Candidates differ in the symbols of their levels, in how their anchors are spread and in the rows of
each level. All are ranked by a lower bound on what the balanced estimates minimise (`balancing`),
and the best few are solved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..structures.balancing import Board, Game
from ..structures.decoding import Decoder, Floats, Loads, poisson_load
from ..structures.embedding import BLOCK_BITS, Blocks
from ..structures.ladder import Ladder, Recipe, count_gaps, spread_anchors
from ..structures.table import Counts
from ..structures.thresholds import Stage
from .leftover import assumed_above, ladder_top, not_stored, step_factors, step_growth, stored_error
from .problem import Problem

COARSE_GRID, FINALIST_GRID = 120, 400  # counts of decoders that are only used to compare plans
FINALISTS, FINALIST_ROUNDS = 5, 30
CROWDED_WEIGHT = 0.1

# Symbols of the levels, and shares of a block that the first level may get; the planner tries them
# all.
SYMBOL_BITS: tuple[tuple[int, ...], ...] = ((3,), (4,), (5,), (6,), (7,), (4, 4), (4, 5), (5, 3), (5, 4))
FIRST_SHARES = (0.6, 0.68, 0.74, 0.79, 0.84, 0.88)
# Anchors get rarer with the count: by 1 + s · (budget below). Small counts need fine symbols, large
# ones few of them.
SPREADS = (0.1, 0.3, 1.0)
MANY_COUNTS = 100  # from here on, one level is best
SLOW_COUNTS = 500  # ladders are slow: all symbols are tried with the first spread, only the best with the other
SLOW_SPREADS = (0.2, 0.35)


def best_blocks(problem: Problem, stage: Stage, blocks: int) -> Blocks:
    """The ladder and the rows of a block with the least objective, at the assumed loads."""
    growth = step_growth(problem)
    factors = step_factors(stage, growth, ladder_top(problem, stage))
    budgets = np.log(factors)
    slow = len(budgets) > SLOW_COUNTS

    def best_of(shapes: Iterable[tuple[tuple[int, ...], float]]) -> tuple[float, Blocks]:
        ladders = [_grown(growth, factors, budgets, bits, spread) for bits, spread in shapes]
        return _best_of(
            problem,
            stage,
            [Blocks(ladder, rows, blocks, problem.hashed) for ladder in ladders for rows in _layouts(ladder)],
        )

    least, best = best_of(_shapes(budgets, SLOW_SPREADS[:1] if slow else SPREADS))
    if slow:
        recipe = best.ladder.recipe
        assert recipe is not None  # the ladder was grown from one
        other, again = best_of([(recipe.bits, SLOW_SPREADS[1])])
        best = again if other < least else best
    return best


def _best_of(problem: Problem, stage: Stage, candidates: Sequence[Blocks]) -> tuple[float, Blocks]:
    """The candidate with the least objective: all are ranked by a bound, and the first few are
    solved.
    """
    coarse, fine = _Grid.of(problem, stage, COARSE_GRID), _Grid.of(problem, stage, FINALIST_GRID)
    bounds = [coarse.game(blocks).bound() for blocks in candidates]
    best, least = candidates[0], math.inf
    for i in sorted(range(len(candidates)), key=bounds.__getitem__)[:FINALISTS]:
        game, crowded = fine.game(candidates[i]), coarse.game(candidates[i], uniform=True)
        objective = game.objective(game.balanced(FINALIST_ROUNDS)) + CROWDED_WEIGHT * crowded.bound()
        if objective < least:
            best, least = candidates[i], objective
    return least, best


def assumed_loads(problem: Problem, stage: Stage, layout: Blocks, uniform: bool = False) -> Loads:
    """What other keys are assumed to leave in the cells of each level."""
    return tuple(
        poisson_load(cells, assumed_above(problem, stage, level.start + np.arange(level.height + 1.0), uniform))
        for level, cells in zip(layout.ladder.levels, layout.cells, strict=True)
    )


def decoding_top(problem: Problem, stage: Stage) -> int:
    """The largest count that is decoded: a larger one is certainly stored, or nearly so."""
    top = stage.threshold + math.ceil(6 / float(stage.noise.rate))
    return top if problem.upper_cells is None else min(top, max(1, problem.upper_cells))


def decoding_grid(problem: Problem, stage: Stage, points: int) -> Counts:
    """About `points` counts, evenly spaced from 0 to the largest that is decoded."""
    top = decoding_top(problem, stage)
    return np.arange(0, top + 1, max(1, top // points))


def board_of(stage: Stage, grid: Counts) -> Board:
    """What the games of a stage on this grid have in common."""
    return Board(grid.astype(np.float64), float(stage.noise.rate), stored_error(stage, grid))


def game_of(decoder: Decoder, board: Board) -> Game:
    """The cost of every answer to a pattern for every count."""
    return Game(board, decoder.likelihood * decoder.unstored[:, None])


@dataclass(frozen=True)
class _Grid:
    """The counts at which all candidates are compared."""

    problem: Problem
    stage: Stage
    counts: Counts
    unstored: Floats
    board: Board

    @classmethod
    def of(cls, problem: Problem, stage: Stage, points: int) -> _Grid:
        counts = decoding_grid(problem, stage, points)
        return cls(problem, stage, counts, not_stored(stage, counts), board_of(stage, counts))

    def game(self, layout: Blocks, uniform: bool = False) -> Game:
        """The game of a candidate, at the assumed loads."""
        loads = assumed_loads(self.problem, self.stage, layout, uniform)
        return game_of(Decoder(layout.ladder, loads, self.counts, self.unstored), self.board)


def _shapes(budgets: Floats, spreads: Sequence[float]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Symbols and spreads worth trying: symbols at most about a noise scale apart, and not more of
    them than counts.
    """
    wanted = min(float(len(budgets)), 0.8 * float(budgets.sum()))
    gaps = {bits: count_gaps(bits) for bits in SYMBOL_BITS}
    fitting: Sequence[tuple[int, ...]] = [bits for bits in SYMBOL_BITS if wanted <= gaps[bits] <= max(6 * wanted, 7)]
    if len(budgets) > MANY_COUNTS:
        fitting = [bits for bits in fitting if len(bits) == 1]
    for bits in fitting or [max(SYMBOL_BITS, key=gaps.__getitem__) if wanted > 10 else SYMBOL_BITS[0]]:
        for spread in spreads if len(bits) == 1 and gaps[bits] < len(budgets) else (0.0,):
            yield bits, spread


def _grown(growth: float, factors: Floats, budgets: Floats, bits: tuple[int, ...], spread: float) -> Ladder:
    below = np.cumsum(budgets) - budgets
    anchors = spread_anchors(budgets / (1 + spread * below), count_gaps(bits))
    return Ladder.grown(factors, Recipe(growth, tuple(anchors), bits))


def _layouts(ladder: Ladder) -> Iterator[tuple[int, ...]]:
    """Rows of each level in a block."""
    bits = [level.bits for level in ladder.levels]
    if len(bits) == 1:
        yield (BLOCK_BITS // bits[0],)
        return
    for share in FIRST_SHARES:
        first = int(BLOCK_BITS * share / bits[0])
        yield first, (BLOCK_BITS - first * bits[0]) // bits[1]
