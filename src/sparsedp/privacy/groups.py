"""Farther apart than neighbours: what a guarantee says of larger distances.

A guarantee is for inputs that differ by one *hop*. Inputs that differ by k hops lose k times ε, and
a δ that grows with e^ε (docs/privacy.md, "Farther than neighbours"). Exact test:
tests/privacy/test_groups.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction

from ..errors import ParameterError
from .laws import GUARD, float_up, precise, to_decimal

# From this loss on, δ·(1 + e^ε + … ) is above one for every δ that a float can hold, if there are two
# hops or more.
_MOST_LOSS = 2000


@dataclass(frozen=True)
class Hop:
    """How far apart neighbours may be: in all, and if the guarantee depends on it, in how many keys
    and by how much in each.
    """

    total: Fraction
    keys: int | None = None
    per_key: int = 1

    def between(self, keys: int, total: Fraction, per_key: Fraction) -> int:
        """How many hops are enough between any inputs that differ in at most so many keys, by at
        most so much in all, and by at most so much in each key.
        """
        if keys < 0 or total < 0 or per_key < 0:
            raise ParameterError(f"a distance must not be negative, got {(keys, total, per_key)}")
        distance = min(total, keys * per_key)
        if self.keys is None:
            return math.ceil(distance / self.total)
        # Each key moves in pieces of at most `per_key`, all in different hops.
        whole = math.floor(distance)
        moved, most = min(keys, whole), min(math.floor(per_key), whole)
        longest = -(-most // self.per_key)
        pieces = min(moved * longest, (whole + moved * (self.per_key - 1)) // self.per_key)
        return max(longest, -(-pieces // self.keys))


def group(epsilon: float, delta: float, hops: int) -> tuple[float, float]:
    """ε and δ of inputs that are k hops apart, rounded up: k·ε, and δ·(1 + e^ε + … + e^((k−1)ε))."""
    loss = hops * Fraction(epsilon)
    if hops < 2 or delta == 0:
        return float_up(loss), delta if hops else 0.0
    if loss > _MOST_LOSS:
        return float_up(loss), 1.0
    with precise(ROUND_FLOOR):
        least = to_decimal(Fraction(epsilon), ROUND_FLOOR).exp() * (1 - GUARD) - 1
    with precise(ROUND_CEILING):
        grown = to_decimal(loss, ROUND_CEILING).exp() * (1 + GUARD)
        # Within the guard's reach, every term counts as much as the largest.
        terms = (grown - 1) / least if least > GUARD else hops * grown
    return float_up(loss), min(1.0, float_up(Fraction(delta) * Fraction(terms)))
