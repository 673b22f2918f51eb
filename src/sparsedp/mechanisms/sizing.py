"""How large a release must be, if that is not public: a number read off the data, with noise.

Guarantee: the number is private by the noise added to it, whose step loss is part of the release's
(docs/privacy.md, "Estimating the size"). Everything computed from it afterwards is post-processing.
Each mechanism decides what to count: `EffectiveSize` is for embeddings, `mechanisms/support.py` has
the count for `retrieval`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from typing import ClassVar

import numpy as np

from ..errors import ParameterError
from ..privacy.laws import TwoSided, precise
from ..privacy.neighbours import HEADROOM
from ..privacy.randomness import Randomness
from ..structures.table import Counts, add_noise
from .problem import Problem

MOST_DIGITS = 40  # of the noise: more would drown any size
EFFECTIVE_SHARE = 0.02


@dataclass(frozen=True)
class Sizing(ABC):
    """What is counted, and with which noise."""

    # Whether the counted cells must be those of the build; real values are then rounded only once.
    of_built_cells: ClassVar[bool] = False

    @abstractmethod
    def count(self, cells: Counts, upper: int | None = None) -> int:
        """The number for the cells of one part, without noise; the cells will be cut to ±upper."""

    @abstractmethod
    def noisy(self, counted: Sequence[int], randomness: Randomness) -> list[int]:
        """What may be published about the numbers of all parts."""

    @abstractmethod
    def sized(self, problem: Problem, noisy: Sequence[int]) -> Problem:
        """The problem with its size known and the budget for the size spent."""

    @abstractmethod
    def unknown(self, problem: Problem) -> list[int]:
        """The numbers to plan with before there is data: the smallest possible."""


def law_of_size(rate: Decimal, share: float) -> TwoSided:
    """Noise of this rate, or `ParameterError` if it would drown any size, or no file may have it."""
    law = TwoSided.with_rate(rate)
    if len(law.magnitude.digits) > MOST_DIGITS or any(law.faults()):
        raise ParameterError(
            f"sizing_share must be large enough to estimate a size, got {share:g}; use a larger one or a larger "
            "epsilon, or give nonzero= or total="
        )
    return law


@dataclass(frozen=True)
class EffectiveSize(Sizing):
    """A private estimate of the number of keys that matter to an embedding.

    It is Σ min(count, cap)/cap for a cap of about one noise scale: k for histograms where every
    count matters (cap = 1), and n, with each key cut at one noise scale, for real vectors and small
    ε. A step of one count changes the sum by at most one.
    """

    law: TwoSided
    cap: int

    @classmethod
    def plan(cls, problem: Problem, share: float | None = None) -> EffectiveSize:
        """Noise that spends a share of the budget."""
        share = EFFECTIVE_SHARE if share is None else share
        with precise(ROUND_FLOOR):
            rate = problem.step_budget * Decimal(share) * HEADROOM
        return cls(law_of_size(rate, share), math.ceil(1 / problem.step_budget))

    def count(self, cells: Counts, upper: int | None = None) -> int:
        return int(np.minimum(np.abs(cells), self.cap if upper is None else min(self.cap, upper)).sum())

    def noisy(self, counted: Sequence[int], randomness: Randomness) -> list[int]:
        return [int(add_noise(np.array([sum(counted)]), self.law, randomness)[0])]

    @property
    def margin(self) -> int:
        """Added to the noisy sum so that it is rarely too small: the noise is larger with
        probability about 1 %.
        """
        return math.ceil(4 / float(self.law.rate))

    def sized(self, problem: Problem, noisy: Sequence[int]) -> Problem:
        size = max(1, -(-(sum(noisy) + self.margin) // self.cap))
        size = min(size, problem.domain)
        return replace(problem, nonzero=size, sizing_loss=self.law.step_loss, sizing_noise=self.law)

    def unknown(self, problem: Problem) -> list[int]:
        return [0]
