"""The one way to build a release: part by part, wherever a part is built.

`PartWork` is all that a part needs besides its share of the data. It can be pickled, so it can be sent to executors;
noise is drawn where the part is built, from the part's own stream. A release of one part is built like one of many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..keys.hashing import Partition
from ..mechanisms import Arrays, Plan, Problem, Sizing
from ..planning.drafts import Draft
from ..privacy.randomness import PartStreams, Randomness
from .cells import Sums


@dataclass(frozen=True)
class PartWork:
    """What every part of a release shares."""

    problem: Problem
    partition: Partition
    streams: PartStreams
    plan: Plan | None = None  # once the size is known
    counted: tuple[int, ...] | None = None  # the cells of each part, if the size was counted from them

    def size(self, part: int, sums: Sums, sizing: Sizing) -> int:
        """The part's contribution to the estimate of the size. It is exact: noise must be added before it is published.

        Real values are rounded with the coins of the build if its cells are counted, and otherwise with coins that
        the build never sees (docs/privacy.md, "Estimating the size").
        """
        rounding = self.streams.coins(part) if sizing.of_built_cells else self.streams.sizing(part)
        return sizing.count(sums.counts(self.problem.neighbours, rounding), self.problem.upper_cells)

    def build(self, part: int, sums: Sums) -> tuple[Arrays, ...]:
        """The arrays of the part: of its counts, and if signed counts have two releases, of the negative ones."""
        assert self.plan is not None
        rounding = self.streams.rounding(part) if self.counted is None else self.streams.coins(part)
        cells = sums.cells(sums.counts(self.problem.neighbours, rounding), self.problem.upper_cells)
        if self.counted is not None and len(cells.ids) != self.counted[part]:
            # An array for other rows would protect nobody.
            raise RuntimeError("the rows changed between counting and building; nothing was published")
        sides = cells.by_sign() if self.plan.releases == 2 else (cells,)
        return tuple(
            own.published(
                self.plan.build_part(part, self.partition, own.ids, own.counts, self.streams.noise(side, part))
            )
            for side, own in enumerate(sides)
        )


def planned(
    draft: Draft,
    randomness: Randomness,
    partition: Partition,
    count: Callable[[PartWork, Sizing], list[int]],
) -> tuple[Plan, PartWork]:
    """The plan, with its size estimated if necessary, and the work on each of its parts.

    `count` returns the `PartWork.size` of every part, computed here one after the other or on many machines.
    """
    work = PartWork(draft.problem, partition, randomness.part_streams())
    same = None
    if draft.sizing is None:
        plan = draft.plan
    else:
        counted = count(work, draft.sizing)
        plan = draft.finish(draft.sizing.noisy(counted, randomness))
        same = tuple(counted) if draft.builds_what_it_counted(plan) else None
    if (plan.problem.neighbours, plan.problem.upper_cells) != (draft.problem.neighbours, draft.problem.upper_cells):
        raise AssertionError("the plan is for another grid than the one that its size was estimated on")
    return plan, replace(work, plan=plan, problem=plan.problem, counted=same)
