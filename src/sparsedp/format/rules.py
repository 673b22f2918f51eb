"""What a decoded object must fulfil, class by class: what is accepted could have been planned here.

Parts are checked before the whole. A file beyond these limits could keep a reader busy for long.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import singledispatch
from itertools import pairwise

from ..mechanisms import Problem
from ..mechanisms.alp import MOST_LEVELS, Embedding
from ..mechanisms.compact import FIELD_EXPONENTS, MOST_ENTRIES, MOST_VALUES, Buckets, CompactPlan
from ..mechanisms.laplace import LARGEST_DOMAIN, LaplacePlan
from ..mechanisms.retrieval import MOST_BUCKETS, NoiseBuckets, RetrievalPlan
from ..mechanisms.stability import StabilityPlan
from ..mechanisms.support import moved_keys, room, sizing_loss
from ..mechanisms.threshold import ThresholdPlan
from ..mechanisms.threshold_alp import ThresholdAlpPlan
from ..mechanisms.tight_alp import TightAlpPlan
from ..privacy.contributions import Contribution
from ..privacy.laws import WORD_BITS, Geometric, TwoSided
from ..privacy.neighbours import LARGEST_STEP_LOSS, SMALLEST_STEP_LOSS, Neighbours
from ..structures.embedding import BLOCK_BITS, Blocks, Columns
from ..structures.ladder import MOST_HEIGHT, Ladder, Level, Recipe, count_gaps
from ..structures.linear_system import LARGEST_SEGMENT, LinearSystem
from ..structures.rounding import LinearRounding
from ..structures.table import LARGEST_COUNT, PureStage, StableStage, smallest_unit

_MOST_LAW_DIGITS = 128
_MOST_NOISE_DIGITS = 62
_MOST_TAIL_STEPS = 256
_MOST_PATTERN_BITS = 12
_MOST_MASSES = 1 << 21
_LARGEST_GROWTH = 1.1e13  # e to the largest loss of a step
_LARGEST_EPSILON = 1e6

Wrong = Iterator[str]


@singledispatch
def check(value: object) -> Wrong:
    """What is wrong with a decoded object, if anything; its parts have been checked before."""
    yield from ()


@check.register
def _(law: Geometric) -> Wrong:
    if law.word_bits != WORD_BITS:
        yield f"words must have {WORD_BITS} bits"
    if len(law.digits) > _MOST_LAW_DIGITS or not all(0 < t < 1 << WORD_BITS for t in (*law.digits, law.tail)):
        yield f"thresholds must be in 1..2^64 - 1, of at most {_MOST_LAW_DIGITS} digits"


@check.register
def _(law: TwoSided) -> Wrong:
    if not 0 < law.zero < 1 << WORD_BITS:
        yield "the threshold of zero must be in 1..2^64 - 1"
    if len(law.magnitude.digits) > _MOST_NOISE_DIGITS or law.rate < SMALLEST_STEP_LOSS / 4:
        yield "the noise is wider than any that is drawn"


def _threshold_fits(noise: TwoSided, threshold: int) -> bool:
    return 1 <= threshold <= min(LARGEST_COUNT, _MOST_TAIL_STEPS * noise.magnitude.period)


@check.register
def _(stage: PureStage) -> Wrong:
    if not _threshold_fits(stage.noise, stage.threshold):
        yield "the threshold is out of range"
    if not 1 <= stage.domain <= 1 << 64:
        yield "the domain must be in 1..2^64"


@check.register
def _(stage: StableStage) -> Wrong:
    if not _threshold_fits(stage.noise, stage.threshold) or stage.threshold <= stage.unit:
        yield "the threshold is out of range"
    if not 0 < stage.distance <= 1 << 61 or stage.unit != smallest_unit(stage.distance):
        yield "the unit must be the smallest power of two that reaches the distance"
    elif not stage.absence_is_covered:
        yield "the threshold is too low for the noise"


@check.register
def _(neighbours: Neighbours) -> Wrong:
    if neighbours.sensitivity <= 0 or neighbours.step <= 0:
        yield "sensitivity and step must be positive"
    if max(neighbours.step.numerator, neighbours.step.denominator) >= 1 << 53:
        yield "the step must be a ratio of integers below 2^53"
    if not neighbours.real and (neighbours.step != 1 or neighbours.distance < 1):
        yield "integer counts have step 1 and a distance of at least 1"


@check.register
def _(contribution: Contribution) -> Wrong:
    if contribution.keys < 1 or contribution.per_key <= 0:
        yield "a contribution must be positive"


@check.register
def _(problem: Problem) -> Wrong:
    if not 0 < problem.epsilon <= _LARGEST_EPSILON or not 0 <= problem.delta < 1:
        yield "epsilon must be positive and at most 10^6, delta in [0, 1)"
    if not 1 <= problem.domain <= 1 << 64 or (problem.hashed and problem.domain != 1 << 64):
        yield "the domain must be in 1..2^64, and 2^64 for hashed keys"
    bounds = (problem.nonzero, problem.total, problem.upper)
    if any(bound is not None and bound <= 0 for bound in bounds) or not 0 <= problem.sizing_loss <= LARGEST_STEP_LOSS:
        yield "bounds must be positive, the loss of sizing at most that of a step"
    if problem.sizing_keys is not None and (problem.sizing_noise is None or problem.sizing_keys != moved_keys(problem)):
        yield "the keys that may come or go must be those of neighbours"
    elif problem.sizing_noise is not None and problem.sizing_loss != _loss_of_size(problem, problem.sizing_noise):
        yield "the loss of sizing must be that of its noise"
    if problem.contribution is not None and problem.contribution.total > problem.neighbours.sensitivity:
        yield "users must not contribute more than neighbours differ by"
    if problem.bounded and problem.sizing_keys is None:
        yield "only a size whose keys are counted is bounded"
    if problem.keep_keys and not (problem.hashed and problem.delta > 0):
        yield "only hashed keys are kept, and only with a delta"
    if not 1 <= problem.parts <= 1 << 20:
        yield "parts must be in 1..2^20"


def _loss_of_size(problem: Problem, noise: TwoSided) -> Decimal:
    return noise.step_loss if problem.sizing_keys is None else sizing_loss(problem, noise)


@check.register
def _(level: Level) -> Wrong:
    if not 1 <= level.bits <= 8 or level.word_bits != WORD_BITS or level.start < 0 or level.height < 1:
        yield "a level has 1..8 bits and at least two heights"
    for row in level.masses:
        if len(row) != level.symbols or min(row) <= 0 or sum(row) != 1 << WORD_BITS:
            yield "the masses of a height must be positive, one for each symbol, and sum to 2^64"
            return


@check.register
def _(ladder: Ladder) -> Wrong:
    starts = [sum(level.height for level in ladder.levels[:j]) for j in range(len(ladder.levels))]
    if ladder.bits > _MOST_PATTERN_BITS or ladder.height > MOST_HEIGHT:
        yield f"a pattern has at most {_MOST_PATTERN_BITS} bits, a ladder at most {MOST_HEIGHT} heights"
    if not 1 <= len(starts) <= 4 or [level.start for level in ladder.levels] != starts:
        yield "there must be 1..4 levels, each starting where the last one ends"


@check.register
def _(recipe: Recipe) -> Wrong:
    anchors, bits = recipe.anchors, recipe.bits
    if not 1 < recipe.growth <= _LARGEST_GROWTH:
        yield "the growth must be above 1, and that of a step at most"
    if not 1 <= len(bits) <= 4 or not all(1 <= b <= 8 for b in bits) or sum(bits) > _MOST_PATTERN_BITS:
        yield f"there must be 1..4 levels with symbols of 1..8 bits, {_MOST_PATTERN_BITS} in all"
    elif not count_gaps(bits[:-1]) + 1 < len(anchors) <= count_gaps(bits) + 1:
        yield "there must be anchors for every level, at most one for each symbol"
    elif anchors[0] != 0 or any(high <= low for low, high in pairwise(anchors)) or anchors[-1] > MOST_HEIGHT:
        yield f"anchors must ascend from 0 to at most {MOST_HEIGHT}"
    elif anchors[-1] << max(bits) > _MOST_MASSES:
        yield f"a ladder has at most {_MOST_MASSES} masses"


@check.register
def _(blocks: Blocks) -> Wrong:
    used = sum(level.bits * rows for level, rows in zip(blocks.ladder.levels, blocks.rows, strict=False))
    if len(blocks.rows) != len(blocks.ladder.levels) or min(blocks.rows) < 1 or used > BLOCK_BITS:
        yield f"the rows of all levels must fit in {BLOCK_BITS} bits"
    if not 1 <= blocks.blocks < 1 << 48:
        yield "blocks must be in 1..2^48"


@check.register
def _(columns: Columns) -> Wrong:
    p = columns.flip_probability
    if not 0 < p < Fraction(1, 2) or p.denominator.bit_length() > WORD_BITS or p.denominator & (p.denominator - 1):
        yield "the flip probability must be below one half, a multiple of a power of two"
    if not 1 <= columns.levels <= MOST_LEVELS or not 1 <= columns.rows < 1 << 39:
        yield "rows must be in 1..2^39, levels in 1..2^16"


@check.register
def _(rounding: LinearRounding) -> Wrong:
    if rounding.slope_fixed < 1 or rounding.slope > MOST_LEVELS or not 0 < rounding.flip_probability < Fraction(1, 2):
        yield "the slope must be positive and the flip probability below one half"


@check.register
def _(embedding: Embedding) -> Wrong:
    rounding, columns = embedding.rounding, embedding.columns
    if (rounding.levels, rounding.flip_probability) != (columns.levels, columns.flip_probability):
        yield "rounding and columns must agree"
    if not 1 <= embedding.entries < columns.rows:
        yield "there must be more rows than entries"


@check.register
def _(buckets: NoiseBuckets) -> Wrong:
    if not 2 <= buckets.threshold <= MOST_BUCKETS or not _threshold_fits(buckets.noise, buckets.threshold):
        yield "the threshold is out of range"
    elif buckets.lowest != 1 - buckets.threshold or buckets.bits not in range(8, 65, 8):
        yield "values must be symmetric, numbers of 8, 16, … 64 bits"
    elif min(buckets.widths) < 1:
        yield "every value must have a number"


@check.register
def _(system: LinearSystem) -> Wrong:
    if not 2 <= system.slots <= 8 or not 1 <= system.segment < LARGEST_SEGMENT or not 1 <= system.width <= 8:
        yield "a system has 2..8 slots of 1..8 bytes in segments below 2^31"
    if not 1 <= system.keys <= system.size:
        yield "there must be more slots than keys"


@check.register
def _(buckets: Buckets) -> Wrong:
    if buckets.prime not in [(1 << e) - 1 for e in FIELD_EXPONENTS] or not 1 <= buckets.largest <= MOST_VALUES:
        yield f"the field must be one of the known ones, the largest value at most {MOST_VALUES}"
    elif not _threshold_fits(buckets.noise, buckets.largest):
        yield "the largest value is out of range"
    elif min(buckets.widths) < 3:
        yield "every value must have elements of the field"


def _stage_fits(problem: Problem, stage: PureStage | StableStage | None) -> bool:
    if isinstance(stage, PureStage):
        return problem.delta == 0 and stage.domain == problem.domain
    return stage is None or (problem.delta > 0 and stage.distance == problem.neighbours.distance)


@check.register(ThresholdPlan)
@check.register(StabilityPlan)
@check.register(ThresholdAlpPlan)
def _(plan: ThresholdPlan | StabilityPlan | ThresholdAlpPlan) -> Wrong:
    if not _stage_fits(plan.problem, plan.stage):
        yield "the threshold stage must be for the domain and the neighbours of the problem"


@check.register
def _(plan: LaplacePlan) -> Wrong:
    if plan.problem.domain > LARGEST_DOMAIN:
        yield "the domain must be at most 2^32"


@check.register
def _(plan: CompactPlan) -> Wrong:
    if not 1 <= plan.entries <= MOST_ENTRIES or plan.cut_total != (plan.problem.nonzero is None):
        yield f"entries must be in 1..{MOST_ENTRIES}"


@check.register
def _(plan: RetrievalPlan) -> Wrong:
    if plan.problem.delta <= 0 or plan.problem.entries is None:
        yield "retrieval has a delta and a size"
    if plan.system.width * 8 != plan.buckets.bits:
        yield "the system must fit the buckets"
    problem = plan.problem
    if plan.count_noise is None and (problem.sizing_keys is None or (problem.nonzero is None and not problem.bounded)):
        yield "the noisy number of keys must be stated"
    elif plan.count_noise is None and (plan.room != _planned_room(problem) or not _margin_fits(plan)):
        yield "the system must have a margin above the number of keys"
    if not 0 <= (plan.room or 0) <= plan.system.keys or (plan.room is None and plan.count_noise is not None):
        yield "the system must fit the room"


def _planned_room(problem: Problem) -> int | None:
    noise = problem.sizing_noise
    return room(problem, noise) if problem.bounded and noise is not None and problem.entries is not None else None


def _margin_fits(plan: RetrievalPlan) -> bool:
    noise, moved = plan.problem.sizing_noise, plan.problem.sizing_keys
    if noise is None or moved is None:
        return False
    number = -(-(plan.problem.nonzero or 1) // plan.problem.parts) if plan.room is None else plan.room
    above = plan.system.keys - number
    return moved <= above <= _MOST_TAIL_STEPS * noise.magnitude.period


@check.register
def _(plan: TightAlpPlan) -> Wrong:
    if plan.blocks.hashed != plan.problem.hashed or plan.problem.entries is None:
        yield "the blocks must fit the keys"
    if plan.blocks.blocks % plan.problem.parts:
        yield "every part must have equally many blocks"
    if plan.blocks.ladder.height >= plan.stage.threshold:
        yield "the ladder must end below the threshold"
    if not _stage_fits(plan.problem, plan.stage):
        yield "the threshold stage must be for the domain and the neighbours of the problem"
