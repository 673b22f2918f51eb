"""From estimates in cells to answers: cut to the range of counts, and times the size of a cell."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Scale(NamedTuple):
    """Answers are in [low, high] × step. Kernels do the same with values that are stored."""

    low: float
    high: float
    step: float

    @property
    def uncut(self) -> Scale:
        """The same size of a cell, without limits."""
        return Scale(-math.inf, math.inf, self.step)

    def apply(self, estimates: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The answers, in the array of the estimates."""
        if self.low > -math.inf:
            np.maximum(estimates, self.low, out=estimates)  # np.clip takes several times as long for one key
        if self.high < math.inf:
            np.minimum(estimates, self.high, out=estimates)
        if self.step != 1:
            estimates *= self.step
        return estimates


PLAIN = Scale(-math.inf, math.inf, 1.0)
