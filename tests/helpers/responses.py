"""All outcomes of randomised responses, in rational arithmetic."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

from sparsedp.privacy.laws import precise

SCALE = 10**25


def power(epsilon: str) -> int:
    """e^ε in units of 1e-25, rounded down: a loss that is no larger."""
    with precise():
        return int(Decimal(epsilon).exp() * SCALE)


class Exact:
    """Independent randomised responses: all outcomes, those with the largest loss first."""

    def __init__(self, epsilons: list[str]) -> None:
        outcomes: Counter[tuple[int, int]] = Counter({(1, 1): 1})
        for epsilon in epsilons:
            up, following = power(epsilon), Counter[tuple[int, int]]()
            for (p, q), times in outcomes.items():
                following[p * up, q * SCALE] += times
                following[p * SCALE, q * up] += times
            outcomes = following
        self.whole = math.prod(power(epsilon) + SCALE for epsilon in epsilons)
        # Any order gives a δ that is attained; this one gives the largest, but for the last digits.
        losses = {pair: math.log(pair[0]) - math.log(pair[1]) for pair in outcomes}
        ordered = sorted(outcomes, key=losses.__getitem__, reverse=True)
        self.losses = [-losses[pair] for pair in ordered]
        self.p = list(accumulate((p * outcomes[p, q] for p, q in ordered), initial=0))
        self.q = list(accumulate((q * outcomes[p, q] for p, q in ordered), initial=0))

    def delta(self, epsilon: float) -> Fraction:
        """Σ max(0, P - e^ε·Q), with e^ε rounded up: at most the true one."""
        factor = Fraction(power(repr(epsilon)) + 1, SCALE)
        above = bisect_left(self.losses, -epsilon)
        over = self.p[above] * factor.denominator - factor.numerator * self.q[above]
        return max(Fraction(over, self.whole * factor.denominator), Fraction(0))

    def epsilon(self, delta: Fraction) -> float:
        """The ε at this δ, to 1e-9."""
        low, high = 0.0, 50.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high
