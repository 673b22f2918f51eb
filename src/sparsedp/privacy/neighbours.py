"""What is promised: ε, δ, and the inputs between which they hold.

Every mechanism works on integer counts and states its *step loss*: the largest change of the
logarithm of any output's probability when one count changes by one. `Neighbours` turns that into ε
(docs/privacy.md, "From steps to neighbours"):

- integer counts at ℓ1 distance at most L are L steps apart, so ε = L · step loss;
- real values are first rounded at random to multiples of a step g. A mixture of two laws whose
  ratio is at most e^w moves by at most (e^w - 1)/g per unit, so ε = (e^w - 1) · L/g. Rounding
  probabilities are cut to multiples of 2^-64 of a cell; for up to 2^40 entries that lengthens the
  distance by at most 2^-24 cells, which is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

from ..errors import ParameterError
from .laws import GUARD, LARGEST_STEP_LOSS, SMALLEST_STEP_LOSS, float_up, precise, round_down, round_up, to_decimal

QUANTISATION = Fraction(1, 1 << 24)

# Thresholds are chosen for this share of the budget, so that the exact loss of the integers stays
# within it.
HEADROOM = 1 - Decimal(2) ** -20


@dataclass(frozen=True)
class Neighbours:
    """Inputs at ℓ1 distance at most `sensitivity`; counts are multiples of `step` (1 for integers)."""

    sensitivity: Fraction = Fraction(1)
    step: Fraction = Fraction(1)
    real: bool = False

    @property
    def distance(self) -> Fraction:
        """The largest distance of neighbours, in cells of the grid."""
        cells = self.sensitivity / self.step
        return cells + QUANTISATION if self.real else Fraction(math.floor(cells))

    def _step_loss(self, epsilon: float) -> Decimal:
        share = round_down(Fraction(epsilon) / self.distance)
        with precise(ROUND_FLOOR):
            return (1 + share).ln() - GUARD if self.real else share

    def check_spendable(self, epsilon: float) -> None:
        """`ParameterError` for more than can be spent.

        Silently releasing with less would be private, but the books would be wrong: a ledger is
        debited with what was requested. And at such an ε there is almost no noise, so it is usually
        a slip (1000 for 1.000).
        """
        if self._step_loss(epsilon) > LARGEST_STEP_LOSS:
            with precise(ROUND_FLOOR):
                per_cell = LARGEST_STEP_LOSS.exp() - 1 if self.real else LARGEST_STEP_LOSS
                most = float(per_cell * round_down(self.distance))
            raise ParameterError(
                f"epsilon must be at most {most:.6g}, beyond which there is no noise left to draw, got {epsilon:g}; "
                "1 is common"
            )

    def step_budget(self, epsilon: float) -> Decimal:
        """The step loss that spends ε, rounded down."""
        budget = self._step_loss(epsilon)
        if budget < SMALLEST_STEP_LOSS:
            raise ParameterError(
                "epsilon * step / sensitivity must be at least 1e-6, got "
                f"{epsilon} * {shown(self.step)} / {shown(self.sensitivity)}; use a larger step"
            )
        return min(budget, LARGEST_STEP_LOSS)

    def epsilon(self, step_loss: Decimal) -> float:
        """The ε that a step loss guarantees, rounded up."""
        with precise(ROUND_CEILING):
            per_cell = step_loss.exp() * (1 + GUARD) - 1 if self.real else step_loss
            return float_up(per_cell * round_up(self.distance))

    def __str__(self) -> str:
        kind = "real vectors" if self.real else "integer counts"
        return f"{kind} at ℓ1 distance at most {shown(self.sensitivity)}"

    def faults(self) -> Iterator[str]:
        """What is wrong with neighbours that were not planned here, if anything."""
        if self.sensitivity <= 0 or self.step <= 0:
            yield "sensitivity and step must be positive"
        if max(self.step.numerator, self.step.denominator) >= 1 << 53:
            yield "the step must be a ratio of integers below 2^53"
        if not self.real and (self.step != 1 or self.distance < 1):
            yield "integer counts must have step 1 and a distance of at least 1"


def shown(value: Fraction) -> str:
    """A number for people to read, even if it does not fit a float."""
    try:
        return f"{float(value):g}"
    except OverflowError:
        return f"{to_decimal(value):.3g}"
