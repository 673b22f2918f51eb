"""Debits by kind: exact while there are few kinds, and rounded up to bounded room when there are many.

Of up to `MOST_KINDS` kinds, each keeps its numbers. With more, pure ε's are rounded up to ten
significant bits, and to one bit less each time there are still too many: together they lose no less
then, and at most 2^-bits more. What adds up anyway becomes one kind with the exact sum, and the most
common laws of Gaussian noise stay as they are. Rounding depends on the order of debits and on nothing
else, so every process has the same kinds; ledgers state them in their summaries, so these rules are
part of the format of the file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Any, NamedTuple

from ..privacy.events import DECIDES

LARGEST_EPSILON = 1e100  # above, squares and sums may be too large for floats, and debits add up
MOST_KINDS = 2048
MOST_LAWS = 64  # of Gaussian noise; others count by their ε and δ
FINEST = 10  # bits

EXACT = Context(prec=2000, traps=[Inexact, InvalidOperation, Overflow])  # the digits of all floats


class Debit(NamedTuple):
    """What a release lost: ε and δ as decimals, and the event that says more, or an empty text."""

    epsilon: str
    delta: str
    event: str


NOTHING = Debit("0", "0", DECIDES)


class Kinds:
    """How many debits there are of each kind."""

    def __init__(self, counts: Iterable[tuple[Debit, int]] = (), bits: int | None = None) -> None:
        self.counts: Counter[Debit] = Counter(dict(counts))
        self.bits = bits  # of ε; None if no kind was rounded
        # Of rounded kinds: the laws of noise that are kept, and the kind that has what adds up.
        self._laws = {kind.event: kind for kind in self.counts if kind.event not in ("", DECIDES)}
        self._sums = next((kind for kind in self.counts if kind.event == DECIDES), NOTHING)

    def stated(self) -> list[Any]:
        """What a summary says."""
        return [self.bits, [[*kind, times] for kind, times in self.counts.items()]]

    @classmethod
    def read(cls, bits: int | None, counts: list[Any]) -> Kinds:
        """What a summary said, or `ValueError`."""
        if not all(isinstance(times, int) and times > 0 for *_, times in counts):
            raise ValueError("a summary counts debits that are not there")
        return cls(((Debit(epsilon, delta, event), times) for epsilon, delta, event, times in counts), bits)

    def add(self, debit: Debit) -> Debit:
        """Add a debit, and return one that is known to lose no less, alone or with others."""
        kind = self._add(debit, 1)
        while len(self.counts) > MOST_KINDS:
            self._round()
        return kind

    def _add(self, debit: Debit, times: int) -> Debit:
        kind = debit if self.bits is None else self._kind(debit)
        if kind is None:
            self._add_up(EXACT.multiply(Decimal(debit.epsilon), times), EXACT.multiply(Decimal(debit.delta), times))
            return debit
        self.counts[kind] += times
        if kind.delta == debit.delta or kind.event:
            return kind
        self._add_up(Decimal(0), EXACT.multiply(Decimal(debit.delta), times))
        return kind._replace(delta=debit.delta)

    def _kind(self, debit: Debit) -> Debit | None:
        """The kind as which a debit counts, but for the δ of a pure one; None if it is added up."""
        law = self._laws.get(debit.event) if debit.event else None
        if law and Decimal(debit.epsilon) <= Decimal(law.epsilon) and Decimal(debit.delta) <= Decimal(law.delta):
            return law
        epsilon = float(debit.epsilon)
        if debit.event == DECIDES or epsilon > LARGEST_EPSILON:
            return None
        return Debit(repr(rounded_up(epsilon, self.bits or 0)), "0.0", "")

    def _add_up(self, epsilon: Decimal, delta: Decimal) -> None:
        if epsilon or delta:
            self.counts.pop(self._sums, None)
            before = Decimal(self._sums.epsilon), Decimal(self._sums.delta)
            self._sums = Debit(str(EXACT.add(before[0], epsilon)), str(EXACT.add(before[1], delta)), DECIDES)
            self.counts[self._sums] = 1

    def _round(self) -> None:
        old = self.counts
        if self.bits is None:
            self._laws = {}
            for kind, _ in old.most_common():
                if kind.event not in ("", DECIDES) and len(self._laws) < MOST_LAWS:
                    self._laws.setdefault(kind.event, kind)
        self.bits = FINEST if self.bits is None else self.bits - 1
        self.counts, self._sums = Counter(), NOTHING
        for kind, times in old.items():
            self._add(kind, times)


def rounded_up(epsilon: float, bits: int) -> float:
    """The next number with so many bits after the first."""
    fraction, exponent = math.frexp(epsilon)
    return math.ldexp(math.ceil(math.ldexp(fraction, bits + 1)), exponent - bits - 1)
