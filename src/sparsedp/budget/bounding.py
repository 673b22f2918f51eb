"""Whether debits surely fit a budget, by Hoeffding's inequality: no transform, and a few milliseconds
for thousands of kinds.

The answer is yes only if an upper bound is small enough. For many debits it is some percent of ε above
what transforms find, so they decide about the last part of a budget. Proof: docs/privacy.md,
"Accounting over releases". Exact test: tests/budget/test_bounding.py.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

from ..privacy.composition import GUARD
from ..privacy.events import DECIDES
from .kinds import LARGEST_EPSILON, Debit
from .losses import NUDGE

_LEAST = 1e-100  # of a variance and of a δ: below, floats get coarse, and at last 0


def surely_fit(debits: Iterable[tuple[Debit, int]], epsilon: Fraction, delta: Fraction) -> bool:
    """Whether debits, each so many times, are known to be (ε, δ)-private together; False if not
    known, and for Gaussian noise.
    """
    mean = variance = 0.0
    decided = Fraction(0)
    deltas: defaultdict[str, int] = defaultdict(int)
    for debit, times in debits:
        deltas[debit.delta] += times
        if debit.event == DECIDES:
            decided += Fraction(debit.epsilon) * times
        elif debit.event or (own := float(debit.epsilon)) > LARGEST_EPSILON:
            return False
        else:
            mean += times * own * math.tanh(own / 2)
            variance += times * own**2
    plain = sum((Fraction(one) * times for one, times in deltas.items()), Fraction(0))
    above = float(epsilon - decided) * (1 - NUDGE) - GUARD * mean
    if above <= 0 or variance < _LEAST:
        return False
    return plain + Fraction(_beyond(above, GUARD * variance)) <= delta


def _beyond(above: float, variance: float) -> float:
    """The δ of losses whose bound is so far above their mean, rounded up: with the best λ for
    E[e^(λ·loss)], and the largest (1 - e^-x)·e^(-λx) of all x.
    """
    slope = above / variance
    if slope < _LEAST:
        return 1.0
    largest = math.exp(-slope * math.log1p(1 / slope)) / (1 + slope)
    return max(_LEAST, GUARD * largest * math.exp(-slope * above / 2))
