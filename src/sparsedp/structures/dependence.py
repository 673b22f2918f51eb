"""How often a random sparse row depends on others: an upper bound with a proven numerical error.

Rows have one slot in each of q segments. t rows sum to zero iff every slot of every segment is hit
evenly, which for one segment of m equally likely slots has a probability P_t that does not increase
over even t, and for every y > 0

    P_t <= (t - 1)!! / m^(t/2)      and      P_t <= t! cosh(y)^m / (m y)^t

(docs/privacy.md, "Retrieval"). So a given row is a sum of some of k others with probability at most
Σ_{t even} C(k, t - 1) P_t^q. Everything is computed with 40 digits, in logarithms below 10^13; the
fewer than 100 operations behind one of them err by less than 10^-24 together, and each is raised by
10^-20. Floats only choose y and where to cut the sum; no choice can make the bound wrong.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

_DIGITS = Context(prec=40)
_RAISED = Decimal("1e-20")
_SINGLE = 16  # sets up to this size are summed one by one
_NEGLIGIBLE = Decimal("1e-6")  # of the sum of small sets: a run of sizes that adds more is cut in two
_MOST_CUTS = 200  # nobody would plan a system that needs more


def pairs(keys: int, slots: int, segment: int) -> Fraction:
    """The first term of that bound, C(k, 1) P_2^q: whatever exceeds a limit by it alone need not be
    summed.
    """
    return keys / _even_slots(segment) ** slots


def _even_slots(segment: int) -> Fraction:
    """m: a slot takes 32 bits of hash, and the likeliest slot of a segment has probability 1/m."""
    return 1 / Fraction(-(-(1 << 32) // segment), 1 << 32)


@lru_cache(maxsize=256)  # planning and opening a release need it repeatedly
def dependence(keys: int, slots: int, segment: int) -> Fraction:
    """A bound on P[a given row is a sum of rows of `keys` others], at most 1."""
    m = _even_slots(segment)
    with localcontext(_DIGITS):
        terms = _Terms(keys, slots, Decimal(m.numerator) / Decimal(m.denominator))
        total = sum((terms.run(t, t) for t in range(2, min(_SINGLE, keys + 1) + 1, 2)), Decimal(0))
        first = _SINGLE + 2
        last = _geometric_until(keys, slots, m, first)
        if last >= first:
            total += 2 * terms.run(first, first, pairings=True)
            first = last + 2
        total += terms.rest(first, keys + 1, total)
        return min(Fraction(1), Fraction(total) * (1 + Fraction(1, 10**20)))


def _geometric_until(keys: int, slots: int, m: Fraction, first: int) -> int:
    """The largest t up to which bounds by pairings halve from each even t to the next, or less than
    `first`.

    From t to t + 2 they change by (k - t + 1)(k - t)/(t (t + 1)) · ((t + 1)/m)^q, at most k² (t +
    1)^q/(t² m^q); over t that falls and then rises, if at all, so its largest value is at an end.
    """

    def halves(t: int) -> bool:
        return Fraction(2 * keys**2 * (t + 1) ** slots, t**2) <= m**slots

    most = (keys + 1) // 2 * 2
    if most < first or not halves(first):
        return first - 2
    low, high = first // 2, most // 2  # they halve up to 2 · low
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if halves(2 * middle) else (low, middle - 1)
    return 2 * low


class _Terms:
    """C(k, t - 1) P_t^q, bounded, for runs of even t."""

    def __init__(self, keys: int, slots: int, m: Decimal) -> None:
        self.keys, self.slots, self.m = keys, slots, m
        self.log_m, self.log_2 = m.ln(), Decimal(2).ln()
        self.log_factorial_keys = _log_factorial(keys)

    def run(self, low: int, high: int, pairings: bool = False) -> Decimal:
        """A bound on the sum over even t in [low, high], on request by pairings only."""
        chosen = min(max(self.keys // 2, low - 1), high - 1)  # C(k, .) rises up to the middle
        choose = self.log_factorial_keys - _log_factorial(chosen) - _log_factorial(self.keys - chosen)
        even = self._log_pairings(low) if pairings else min(self._log_pairings(low), self._log_cosh(low), Decimal(0))
        many = Decimal((high - low) // 2 + 1)
        # Kept within the range of exp: below it, this adds a little more; above it, the bound
        # exceeds 1 anyway.
        log = min(max(choose + self.slots * even + _RAISED, Decimal(-100_000)), Decimal(100))
        return many * log.exp()

    def rest(self, first: int, last: int, known: Decimal) -> Decimal:
        """A bound on the sum over even t in [first, last]: runs that double, cut in two until they
        add little.
        """
        runs, total, cuts = [], Decimal(0), 0
        low = first
        while low <= last:
            high = min(2 * low, last // 2 * 2)
            runs.append((low, high))
            low = high + 2
        while runs:
            low, high = runs.pop()
            bound = self.run(low, high)
            if low < high and bound > _NEGLIGIBLE * known and cuts < _MOST_CUTS:
                cuts += 1
                middle = (low + high) // 4 * 2
                runs += [(low, middle), (middle + 2, high)]
            else:
                total += bound
        return total

    def _log_pairings(self, t: int) -> Decimal:
        half = t // 2
        return _log_factorial(t) - _log_factorial(half) - half * (self.log_2 + self.log_m)

    def _log_cosh(self, t: int) -> Decimal:
        y = Decimal(_best_y(t / float(self.m)))
        log_cosh = y + (1 + (-2 * y).exp()).ln() - self.log_2
        return _log_factorial(t) + self.m * log_cosh - t * (self.log_m + y.ln())


_LOG_ROOT = _DIGITS.divide(_DIGITS.ln(_DIGITS.multiply(2, Decimal("3.141592653589793238462643383279502884197"))), 2)
# B_2j/(2j (2j - 1)) at x^(2j - 1), after 1/(12 x)
_STIRLING = (
    (3, _DIGITS.divide(-1, 360)),
    (5, _DIGITS.divide(1, 1260)),
    (7, _DIGITS.divide(-1, 1680)),
    (9, _DIGITS.divide(1, 1188)),
    (11, _DIGITS.divide(-691, 360360)),
    (13, _DIGITS.divide(1, 156)),
)


@lru_cache(maxsize=4096)  # systems of the same keys need the same ones
def _log_factorial(n: int) -> Decimal:
    """The logarithm of n!, by Stirling's series, whose error is below 10^-25 from n = 40 on."""
    with localcontext(_DIGITS):
        if n < 40:
            return Decimal(math.factorial(n)).ln()
        x = Decimal(n)
        series = 1 / (12 * x)
        for power, coefficient in _STIRLING:
            series += coefficient / x**power
        return (x + Decimal("0.5")) * x.ln() - x + _LOG_ROOT + series


def _best_y(ratio: float) -> float:
    """Approximately the y with y tanh y = t/m, at which the bound with cosh is least."""
    y = math.sqrt(ratio) + ratio
    for _ in range(60):
        tanh = math.tanh(y)
        y = max(y - (y * tanh - ratio) / (tanh + y * (1 - tanh**2)), 1e-300)
    return y
