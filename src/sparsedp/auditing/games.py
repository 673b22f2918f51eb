"""Neighbouring inputs that are hard to hide, and what an attacker looks at.

A release answers for many keys, so one release is many runs of the same game: groups of keys, each
with the counts of one input or the other, by a coin. The attacker sees what the release says about
the keys of a group. The noise of groups is independent, except for the few that share a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _native
from ..mechanisms import Parts, Plan, tables_of
from ..mechanisms.alp import AlpPlan
from ..mechanisms.problem import GAUSSIAN
from ..mechanisms.threshold_alp import ThresholdAlpPlan
from ..mechanisms.tight_alp import TightAlpPlan
from ..releasing.published import Release
from ..structures.embedding import Columns
from ..structures.table import Table

Counts = npt.NDArray[np.int64]
Views = npt.NDArray[np.float64]
View = Callable[
    [Views], Views
]  # from the estimates of each group's keys to one number, equal for outcomes that look alike


_LEVELS = 5
_BETWEEN = 4096.0  # patterns and small stored values of one side are below


@dataclass(frozen=True)
class Game:
    """Two inputs for each group of keys, at distance `distance`, and what the attacker computes
    from the answers.
    """

    name: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    view: View
    options: Mapping[str, Any] = field(default_factory=dict)
    crowd: tuple[int, ...] = ()  # counts of further keys, the same on both sides
    twice: bool = False  # the attacker also has a release of known counts: those on the left
    whole: bool = False  # for stored keys, the attacker also looks at their place in the embedding

    @property
    def distance(self) -> int:
        """The ℓ1 distance of the two inputs."""
        return int(np.abs(np.subtract(self.left, self.right)).sum())


def alone(views: Views) -> Views:
    """The answer for the first key."""
    return views[:, 0]


def together(views: Views) -> Views:
    """All answers, each rounded, as one number."""
    clipped = np.clip(np.round(views), -3, 60) + 3
    joined: Views = clipped @ (64.0 ** np.arange(views.shape[1]))
    return joined


def difference(views: Views) -> Views:
    """The first answer minus the second: zero if both have the same noise."""
    apart: Views = np.round(views[:, 0] - views[:, 1], 6)
    return apart


def added(views: Views) -> Views:
    """The sum of all answers, on which the loss of Gaussian noise depends."""
    whole: Views = np.round(views.sum(axis=1), 6)
    return whole


def added_with_signs(views: Views) -> Views:
    """The same for counts that move in turn up and down."""
    return added(views * (-1.0) ** np.arange(views.shape[1]))


def games_for(plan: Plan) -> Iterator[Game]:
    """The games against a mechanism; thresholds and level boundaries are read off its plan, which
    is public.
    """
    yield Game("0 or 1", (0,), (1,), alone)
    yield Game("1 or 2", (1,), (2,), alone)
    for count in sorted(_borders(plan)):
        yield Game(f"{count - 1} or {count}", (count - 1,), (count,), alone)
    high = _threshold(plan) + 5
    yield Game("two keys, is their noise the same?", (high, high), (high + 1, high), difference)
    yield Game("two releases, is their noise the same?", (high,), (high + 1,), difference, twice=True)
    yield Game("stored, and what is left in its place", (1,), (2,), alone, whole=True)
    if not plan.problem.gaussian:  # which is for users, below
        yield Game("three keys that appear together", (0, 0, 0), (1, 1, 1), together, {"sensitivity": 3})
        yield Game("one count moves to another key", (1, 0), (0, 1), together, {"sensitivity": 2})
    yield Game("0 or 1 in a crowd", (0,), (1,), alone, crowd=(1, 3, 9, 200))
    yield Game("the sign of 1", (0,), (1,), alone, {"signed": True})
    yield Game("from -1 to 0", (-1,), (0,), alone, {"signed": True})
    if GAUSSIAN in plan.noises and plan.problem.delta > 0:
        yield from _games_of_a_user()


def _games_of_a_user() -> Iterator[Game]:
    """A user with three keys, and Gaussian noise."""
    user = {"max_keys_per_user": 3, "noise": GAUSSIAN}
    yield Game("three keys of a user appear", (0, 0, 0), (1, 1, 1), added, user)
    yield Game("three names of a user appear", (0, 0, 0), (1, 1, 1), together, user)
    yield Game("three keys of a user move", (200, 200, 200), (201, 201, 201), added, user)
    yield Game("keys of a user appear and vanish", (0, 1, 0), (1, 0, 1), added_with_signs, user)
    yield Game("keys of a user, of both signs", (0, 0, 0), (1, -1, 1), added_with_signs, {**user, "signed": True})


def _threshold(plan: Plan) -> int:
    for holder in ("stage", "buckets"):
        threshold = getattr(getattr(plan, holder, None), "threshold", None)
        if threshold is not None:
            return int(threshold)
    return 3


def _borders(plan: Plan) -> set[int]:
    """Counts at which something changes: the threshold, and where levels begin."""
    borders = {_threshold(plan), _threshold(plan) + 1}
    ladder = getattr(getattr(plan, "blocks", None), "ladder", None)
    if ladder is not None:
        borders |= {edge for level in ladder.levels for edge in (level.start, level.start + 1)}
    slope = getattr(getattr(getattr(plan, "embedding", None), "rounding", None), "slope", None)
    if slope is not None:
        borders |= {round(1 / float(slope)), round(1 / float(slope)) + 1}
    return {count for count in borders if count > 2}


def read(release: Release, keys: npt.NDArray[np.uint64], whole: bool = False) -> Views:
    """What a release says about keys, as finely as possible: symbols, bits, or otherwise estimates."""
    plan = release.plan
    ids = release.key_space.ids(keys)
    if isinstance(plan, TightAlpPlan):
        sides = [_symbols(plan, parts, ids, whole) for parts in release.sides]
    elif isinstance(plan, AlpPlan | ThresholdAlpPlan):
        sides = [_first_bits(plan.embedding.columns, parts[0], ids) for parts in release.sides]
    else:
        return release.lookup(keys, clamp=False)
    return sides[0] if len(sides) == 1 else sides[0] + _BETWEEN * sides[1]


def _first_bits(columns: Columns, arrays: Mapping[str, np.ndarray], ids: npt.NDArray[np.uint64]) -> Views:
    """The bits of a key in the first levels as a number, or its stored value, placed above all of
    those.
    """
    seen = np.zeros(len(ids))
    for level in range(min(_LEVELS, columns.levels)):
        rows = _native.rows_of(arrays["embedding.functions"], columns.rows, level, ids).astype(np.int64)
        words = arrays["embedding.bits"][level * columns.words_per_level + rows // 64]
        seen += (words >> (rows % 64).astype(np.uint64) & np.uint64(1)) * float(1 << level)
    for table in tables_of((arrays,)):
        stored, values = table.find(ids)
        seen[stored] = values[stored] + float(1 << _LEVELS)
    return seen


def _symbols(plan: TightAlpPlan, parts: Parts, ids: npt.NDArray[np.uint64], whole: bool) -> Views:
    """The number of a key's pattern of symbols, or its stored value, placed above all patterns; or
    both.
    """
    blocks = [arrays["embedding.blocks"] for arrays in parts]
    seeds = parts[0]["embedding.seeds"]
    patterns = np.arange(1 << plan.blocks.ladder.bits, dtype=np.float64)
    tables = [table.index for table in tables_of(parts)]
    found = plan.blocks.reader(tables, blocks, seeds, patterns, 1.0, (float(len(patterns)),)).read(ids)
    if not whole:
        return found
    nothing = [Table(np.empty(0, np.uint64), np.empty(0, np.int64)).index for _ in parts]
    beneath = plan.blocks.reader(nothing, blocks, seeds, patterns).read(ids)
    stored = np.maximum(found - len(patterns) + 1, 0.0)
    both: Views = beneath + len(patterns) * stored
    return both
