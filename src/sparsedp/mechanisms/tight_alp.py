"""`tight-alp`: the paper's combined release with a fraction of its error and space.

Guarantee: with δ = 0 pure ε-differential privacy, with δ > 0 (ε, δ), for neighbours at ℓ1 distance
`sensitivity`; ε and δ are computed from the integer thresholds in use. The threshold stage uses the
whole budget. Keys that it stores are not embedded; for the others "not stored" has used up a part
of each step's budget, and the ladder spends the rest (and only the rest) on noisy symbols. More
non-zero keys than `nonzero` cost only accuracy. Proof: docs/privacy.md, "Tight ALP". Exact test:
tests/mechanisms/test_exact_tight_alp.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from .._util.lazy import cached_property
from ..errors import ParameterError
from ..keys.hashing import Partition
from ..privacy.numbers import check_number
from ..privacy.randomness import Randomness, Words
from ..structures.balancing import Game
from ..structures.decoding import ESTIMATORS, PRIORS, Decoder, FittedLoads, Floats, Loads, keys_above
from ..structures.embedding import BLOCK_BITS, Blocks
from ..structures.ladder import Ladder
from ..structures.table import Counts
from ..structures.thresholds import StableStage, Stage
from .base import ArrayShape, Built, DivisiblePlan, Plan
from .fitted import Fit, Symbols, fit_prior
from .layouts import assumed_loads, best_blocks, board_of, decoding_grid, decoding_top, game_of
from .leftover import assumed_above, expected_stored, not_stored, plan_stage, step_factors, unstored_loss
from .options import BITS_PER_ENTRY, STORED_ZEROS, TARGET_ERROR, THRESHOLD_RULE
from .partial import Touched
from .patterns import BALANCED, PatternReader
from .problem import STAGE_MISFIT, Problem
from .reading import Estimates, Parts, Reader
from .stability import simulate_stable
from .threshold import TABLE_ENTRY_NBYTES

# For each non-zero key, or each key of an estimated size, in which keys far below the noise count
# as fractions.
DEFAULT_BITS, EFFECTIVE_BITS = 40.0, 48.0
MOST_BITS = 4096
_FINE_GRID = 800  # counts of a decoder
VALUE_BITS = 16

# A release is overloaded if it has this many times the keys it was made for, and exceeds them by as
# many standard deviations of what its cells can show.
MOST_CROWDED, DEVIATIONS = 2, 6


@dataclass(frozen=True)
class TightAlpPlan(DivisiblePlan):
    """Threshold stage at the full ε, and unstored keys in a ladder of noisy symbols, one cache line
    per key.
    """

    problem: Problem
    stage: Stage
    blocks: Blocks
    # What other keys leave in the cells: assumed by the plan, and later read off the release.
    loads: Loads = field(default=(), compare=False)
    # The answers of the patterns that a release publishes. Files of format 1 have none.
    published: Floats | None = field(default=None, compare=False)
    default_prior: str = field(default=BALANCED, compare=False)
    reason: str = Plan.reason

    mechanism = "tight-alp"
    row = 7
    pure = approximate = True
    options = (BITS_PER_ENTRY, TARGET_ERROR, replace(STORED_ZEROS, optional=True), THRESHOLD_RULE)
    needs_size = True
    coarsens = True
    keeps_keys = True

    @classmethod
    def create(
        cls,
        problem: Problem,
        bits_per_entry: float | None = None,
        target_error: float | None = None,
        stored_zeros: float | None = None,
        threshold_rule: str = "tight",
    ) -> TightAlpPlan:
        """The least error for `bits_per_entry` bits per non-zero key (40), or the least space for a
        mean error.

        `stored_zeros` is the expected number of zero keys in the table (pure privacy), by default
        0.5 % of the keys.
        """
        stage = plan_stage(problem, stored_zeros, threshold_rule)
        if target_error is not None:
            return _smallest_plan(problem, stage, check_number("target_error", target_error))
        in_parts = problem.size_estimated and problem.sizing_keys is None and problem.step_budget < Decimal("0.5")
        default = EFFECTIVE_BITS if in_parts else DEFAULT_BITS
        return _best_plan(problem, stage, default if bits_per_entry is None else _check_bits(bits_per_entry))

    @classmethod
    def check(cls, problem: Problem, **options: Any) -> None:
        """The smallest size has the highest threshold, so a larger size is not refused later."""
        if options.get("target_error") is not None:  # only a search can tell whether it is possible
            cls.create(problem, **options)
            return
        if options.get("bits_per_entry") is not None:
            _check_bits(options["bits_per_entry"])
        plan_stage(problem, options.get("stored_zeros"), options.get("threshold_rule", "tight"))

    @cached_property
    def step_loss(self) -> Decimal:
        """The largest loss of one step: of a stored value, or of "not stored" and the symbols
        together.
        """
        return max(self.stage.step_loss, unstored_loss(self.stage, self.blocks.ladder))

    @property
    def epsilon(self) -> float:
        """The exact ε; all of it if the size was estimated, as another size could have had slightly
        more.
        """
        return self.problem.epsilon if self.problem.sizing_loss else self.exact_epsilon

    @property
    def exact_delta(self) -> Fraction:
        """The δ of the stage; all of δ if a number of keys decided for this mechanism and against
        `retrieval`.
        """
        own = self.stage.delta if isinstance(self.stage, StableStage) else Fraction(0)
        return max(own, Fraction(self.problem.delta)) if self.problem.counted else own

    @property
    def may_count_keys(self) -> bool:
        """Whether `auto` may have chosen this plan because there are few keys."""
        return self.problem.delta > 0 and self.problem.counted

    @property
    def expected_stored(self) -> float:
        return expected_stored(self.problem, self.stage, self.releases)

    @property
    def cells_nbytes(self) -> float:
        return self.blocks.nbytes + TABLE_ENTRY_NBYTES * self.expected_stored

    @property
    def access(self) -> int:
        return 2

    @property
    def smallest_stored(self) -> int:
        return self.stage.threshold

    @property
    def array_shapes(self) -> dict[str, ArrayShape]:
        symbols = sum(level.symbols for level in self.blocks.ladder.levels)
        return self.table_shapes | {
            "embedding.blocks": (np.uint64, (8 * self.blocks.blocks // self.problem.parts,)),
            "embedding.seeds": (np.uint64, (3,)),
            "embedding.symbols": (np.uint64, (symbols,)),
        }

    @property
    def shared_shapes(self) -> dict[str, ArrayShape]:
        return {"embedding.values": (np.uint16, (1 << self.blocks.ladder.bits,))}

    @classmethod
    def draw_partition(cls, problem: Problem, randomness: Randomness) -> Partition:
        """Parts are ranges of blocks, so placements use the seeds of the blocks."""
        first, second, row = randomness.words(3).tolist()
        return Partition(problem.parts, problem.hashed, (first, second, row))

    def build_part(self, part: int, partition: Partition, ids: Words, counts: Counts, randomness: Randomness) -> Built:
        """Stored keys leave the embedding."""
        table, stored = self.stage.select(ids, counts, randomness, partition, part)
        counts[stored] = 0  # so that it reaches no height and leaves no trace
        array = self.blocks.build(ids, counts, randomness, partition, part)
        arrays = {
            "table.ids": table.ids,
            "table.values": table.values,
            "embedding.blocks": array,
            "embedding.seeds": np.array(partition.seeds, np.uint64),
            "embedding.symbols": self.blocks.of_part(partition.parts).count_symbols(array),
        }
        return Built(arrays, stored)

    def completed(self, parts: Parts) -> Parts:
        """The parts with the answers of all patterns, which follow from the symbols of all parts."""
        answers = np.rint(self._loaded(parts).balanced / self._quantum).astype(np.uint16)
        return tuple({**arrays, "embedding.values": answers} for arrays in parts)

    @property
    def _quantum(self) -> float:
        """The unit of published answers: the power of two with which 16 bits reach the largest
        answer.
        """
        return 2.0 ** (decoding_top(self.problem, self.stage).bit_length() - VALUE_BITS)

    def wrong_arrays(self, parts: Parts, thorough: bool) -> Iterator[str]:
        yield from super().wrong_arrays(parts, thorough)
        top = decoding_top(self.problem, self.stage)
        if "embedding.values" in parts[0] and parts[0]["embedding.values"].max() * self._quantum > top:
            yield f"embedding.values must be at most {top}"
        layout = self.blocks.of_part(self.problem.parts)
        for part, arrays in enumerate(parts):
            partition = self.partition((arrays,))
            if thorough and (partition.part_of(arrays["table.ids"]) != part).any():
                yield "table.ids must be those of their part"
            if not np.array_equal(arrays["embedding.seeds"], parts[0]["embedding.seeds"]):
                yield "all parts must have the same embedding.seeds"
            counts, at = arrays["embedding.symbols"], 0
            for level, cells in zip(layout.ladder.levels, layout.cells, strict=True):
                if sum(counts[at : at + level.symbols].tolist()) != cells:
                    yield "embedding.symbols must count every cell"
                at += level.symbols
            if thorough and not np.array_equal(counts, layout.count_symbols(arrays["embedding.blocks"])):
                yield "embedding.symbols must be those of the blocks"

    def reader(self, parts: Parts) -> Reader:
        return PatternReader(self, parts)

    def partition(self, parts: Parts) -> Partition:
        first, second, row = parts[0]["embedding.seeds"].tolist()
        return Partition(self.problem.parts, self.problem.hashed, (first, second, row))

    def touched(self, arrays: Mapping[str, np.ndarray], part: int, ids: Words) -> dict[str, Touched]:
        (words,) = self.array_shapes["embedding.blocks"][1]
        assert words is not None
        starts = self.blocks.blocks_of(arrays["embedding.seeds"], ids) - part * words
        return {"embedding.blocks": Touched(starts, BLOCK_BITS // 64)}

    def observed(self, parts: Parts) -> TightAlpPlan:
        """The plan whose loads and answers are those of the release."""
        published = parts[0].get("embedding.values")
        if published is None:
            return replace(self._loaded(parts), default_prior=PRIORS[0])
        return replace(self._loaded(parts), published=published * self._quantum)

    def _loaded(self, parts: Parts) -> TightAlpPlan:
        levels, _, counts = zip(*self.symbols(parts), strict=True)
        return replace(self, loads=FittedLoads(levels, counts))

    def symbols(self, parts: Parts) -> Iterator[Symbols]:
        """The symbols of all cells."""
        counts, at = np.sum([arrays["embedding.symbols"] for arrays in parts], axis=0), 0
        for level, cells in zip(self.blocks.ladder.levels, self.blocks.cells, strict=True):
            yield Symbols(level, cells, counts[at : at + level.symbols])
            at += level.symbols

    @property
    def overload(self) -> str | None:
        made, seen = self.problem.entries or 1, self._seen_keys
        if self.published is None or seen < MOST_CROWDED * made + DEVIATIONS * math.sqrt(sum(self.blocks.cells)):
            return None
        return (
            f"its cells show about {seen:,.0f} keys, and it was made for {made:,}: errors are larger than planned, "
            "and so are intervals, which still cover; release again with a larger nonzero=, or without it"
        )

    @property
    def _seen_keys(self) -> float:
        """Σ min(count, cap)/cap over keys that are not stored, for a cap of a noise scale, as the
        loads show it.
        """
        cap, seen = math.ceil(1 / self.problem.step_budget), 0.0
        for level, load, cells in zip(self.blocks.ladder.levels, self.loads, self.blocks.cells, strict=True):
            seen += float(keys_above(cells, load)[: max(0, min(level.height, cap - level.start))].sum())
        return seen / cap

    def fit(self, parts: Parts) -> Fit:
        """The prior fitted to a release."""
        values = np.concatenate([arrays["table.values"] for arrays in parts])
        return fit_prior(self.problem, self.stage, values, list(self.symbols(parts)))

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder for the plan's loads."""
        return self._decoder(_FINE_GRID)

    def _decoder(self, points: int) -> Decoder:
        grid = decoding_grid(self.problem, self.stage, points)
        rate, upper = float(self.stage.noise.rate), self.problem.upper_cells
        largest = math.inf if upper is None else max(1.0, upper)
        unstored = not_stored(self.stage, grid)
        return Decoder(self.blocks.ladder, self.loads, grid, unstored, rate=rate, largest=largest)

    @cached_property
    def game(self) -> Game:
        """The cost of every answer to a pattern for every count."""
        return game_of(self.decoder, board_of(self.stage, self.decoder.grid))

    @cached_property
    def balanced(self) -> Floats:
        """The balanced answer of every pattern: the published one, or the one that would be
        published.
        """
        return self.game.balanced() if self.published is None else self.published

    def answers(self, estimator: str, prior: str) -> Floats:
        """The answer of every pattern."""
        return self.balanced if prior == BALANCED else self.decoder.estimates(estimator, prior)

    def intervals(self, failure: float, answers: Floats) -> tuple[Floats, Floats]:
        """The bounds of every pattern, which include its answer. Whatever the prior, they cover
        every count.
        """
        below, above = self.decoder.intervals(failure)
        return np.minimum(below, answers), np.maximum(above, answers)

    def simulate(self, count: int, samples: int) -> Estimates:
        """Evenly spaced quantiles of the exact law of the estimate."""
        if isinstance(self.stage, StableStage):
            stored, noisy = simulate_stable(self.stage, count, samples)
        else:
            noisy = (count + self.stage.noise.spread(samples)).astype(np.float64)
            stored = noisy >= self.stage.threshold if count else np.zeros(samples, bool)
        decoder = self.decoder
        row = decoder.likelihood[min(int(np.searchsorted(decoder.grid, count)), len(decoder.grid) - 1)]
        estimates = self.answers(ESTIMATORS[0], self.default_prior)
        at = np.searchsorted(np.cumsum(row), (np.arange(samples) + 0.5) / samples * row.sum())
        decoded = np.random.default_rng(3).permutation(estimates[np.minimum(at, len(estimates) - 1)])
        return self.clamp(np.where(stored, noisy, decoded))

    @property
    def maximum_error_cells(self) -> float:
        keys = expected_stored(self.problem, self.stage)
        return self.stage.threshold + self.stage.noise.largest_of(keys)

    def error_with_probability_cells(self, failure: float) -> float:
        """Whatever its symbols, a key that is not stored has count + noise below the threshold."""
        return self.stage.threshold + self.stage.noise.exceeded_with(failure)

    def faults(self) -> Iterator[str]:
        if self.blocks.hashed != self.problem.hashed or self.problem.entries is None:
            yield "the blocks must fit the keys"
        if self.blocks.blocks % self.problem.parts:
            yield "every part must have the same number of blocks"
        if self.blocks.ladder.height >= self.stage.threshold:
            yield "the ladder must end below the threshold"
        if not self.problem.fits(self.stage):
            yield STAGE_MISFIT


def _check_bits(bits_per_entry: float) -> float:
    if check_number("bits_per_entry", bits_per_entry) <= 0:
        raise ParameterError(f"bits_per_entry must be positive, got {bits_per_entry}")
    if bits_per_entry > MOST_BITS:
        raise ParameterError(f"bits_per_entry must be at most {MOST_BITS}, got {bits_per_entry}; 40 to 100 are useful")
    return float(bits_per_entry)


def _best_plan(problem: Problem, stage: Stage, bits_per_entry: float) -> TightAlpPlan:
    """The plan with the least predicted error for the space."""
    entries = problem.entries or 1
    table_bits = 8 * TABLE_ENTRY_NBYTES * expected_stored(problem, stage)
    blocks = math.floor((bits_per_entry * entries - table_bits) / BLOCK_BITS)
    blocks = max(1, -(-blocks // problem.parts)) * problem.parts
    layout = best_blocks(problem, stage, blocks)
    return _within_budget(TightAlpPlan(problem, stage, layout, assumed_loads(problem, stage, layout)))


def _within_budget(plan: TightAlpPlan) -> TightAlpPlan:
    """The plan with its ladder flattened until its exact loss is within the budget, which rounding
    exceeds slightly.
    """
    while (excess := plan.step_loss - plan.problem.step_budget) > 0:
        recipe = plan.blocks.ladder.recipe
        assert recipe is not None  # planned ladders have one
        growth = recipe.growth * (1 - 2 * float(excess) - 1e-9 * float(plan.problem.step_budget))
        factors = step_factors(plan.stage, growth, recipe.anchors[-1])
        ladder = Ladder.grown(factors, replace(recipe, growth=growth))
        plan = replace(plan, blocks=replace(plan.blocks, ladder=ladder))
    return plan


def predicted_error(plan: TightAlpPlan) -> float:
    """The mean error of present keys (by the assumed law of counts) and of absent ones, half and
    half.
    """
    board = plan.game.board
    error = plan.game.ratios(plan.balanced) * board.dense
    above = assumed_above(plan.problem, plan.stage, board.counts)
    present = -np.diff(above, append=0.0)
    return float(0.5 * error[0] + 0.5 * (present[:-1] * error[1:]).sum() / max(present[:-1].sum(), 1e-300))


def _smallest_plan(problem: Problem, stage: Stage, target: float) -> TightAlpPlan:
    """The smallest plan whose predicted mean error reaches the target (in the caller's units)."""
    cells = target / float(problem.neighbours.step)
    for bits in np.geomspace(12, 600, 40).tolist():
        plan = _best_plan(problem, stage, bits)
        if predicted_error(plan) <= cells:
            return plan
    raise ParameterError(f"target_error {target} is below what any size reaches at this epsilon; raise it or epsilon")
