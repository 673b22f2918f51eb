"""One part of a release, wherever it is built: on this machine one after the other, or on many.

`PartWork` is all that a part needs beside its share of the data. It pickles, so it travels to executors; noise is drawn
from a stream of the part's own, where it is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ..keys.hashing import Partition
from ..mechanisms import Arrays, DivisiblePlan, Sizing
from ..privacy.randomness import PartStreams, Randomness, Words
from .inputs import Cells, Pairs, cut, to_cells

Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class PartWork:
    """What every part of a release shares."""

    plan: DivisiblePlan
    partition: Partition
    unit: Fraction  # what an integer value stands for
    streams: PartStreams
    counted: tuple[int, ...] | None = None  # the cells of each part, if the size was counted from them

    def cells(self, ids: Words, values: Values, rounding: Randomness) -> Cells:
        """The non-zero cells of a part, ascending; ids may come in any order and several times."""
        problem = self.plan.problem
        pairs = Pairs(None, values, unit=self.unit)
        sorted_ids, cells = to_cells(ids, pairs, problem.neighbours, rounding)
        return Cells(*cut(sorted_ids, cells, problem.upper_cells))

    def size(self, part: int, ids: Words, values: Values, sizing: Sizing) -> int:
        """What is counted of the part to estimate the size. It is exact: noise must be added before it is told.

        Real values are rounded with the coins of the build where its cells are counted, and otherwise with coins that
        it never sees (docs/privacy.md, "Estimating the size").
        """
        rounding = self.streams.coins(part) if sizing.of_built_cells else self.streams.sizing(part)
        return sizing.count(self.cells(ids, values, rounding).counts)

    def build(self, part: int, ids: Words, values: Values) -> tuple[Arrays, ...]:
        """The arrays of the part: of the counts, and if they have two releases, of the negative ones."""
        if self.counted is None:
            cells = self.cells(ids, values, self.streams.rounding(part))
        else:
            cells = self.cells(ids, values, self.streams.coins(part))
            if len(cells.ids) != self.counted[part]:  # an array for other rows would protect nobody
                raise RuntimeError("the rows changed between counting and building; nothing was published")
        sides: tuple[Cells, ...] = (cells,)
        if self.plan.releases == 2:
            sides = (cells[cells.counts > 0], cells[cells.counts < 0].negated())
        return tuple(
            self.plan.build_part(part, self.partition, own.ids, own.counts, self.streams.noise(side, part)).arrays
            for side, own in enumerate(sides)
        )
