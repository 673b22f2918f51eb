"""What releases cost together, by their privacy loss distributions: upper bounds only.

Debits with the same numbers are one group with a measure of its own in closed form
(`losses.py`); groups are composed by transforms, which are charged their rounding errors
(`convolving.py`). Proof: docs/privacy.md, "Accounting over releases". Exact test:
tests/budget/test_accounting.py.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from ..errors import LedgerError
from ..privacy.events import DECIDES, GaussianEvent
from .convolving import Composed
from .kinds import LARGEST_EPSILON, MOST_LAWS, Debit, Kinds
from .losses import NONE, NUDGE, Gaussian, Pure, Spread

LEAST_DELTA = 1e-10  # below, the rounding errors of transforms would take too large a share
POINTS = 1 << 15  # of the grid, about
# For many groups, whose losses are finer together. A grid adds at most a quarter of its squared step
# to the variance of a group: for hundreds of groups, a thousandth of it all, and merging adds more.
FEW_POINTS = 1 << 13
MANY = 24  # from so many groups on, pure ones are merged, and their composition is kept
_ADDED = 0.004  # of the variance: what merging groups may add
_TAILS, _ERRORS = 1e-5, 1e-3  # shares of δ: for what transforms cut off, and for their errors
_BUNCH = 4  # measures that are multiplied at a time
_LEAST_REACH = 1e-30
_OFF = 4  # how much finer or coarser a grid may be than that for all debits


Group: TypeAlias = Pure | Gaussian


@lru_cache(maxsize=256)
def event_of(debit: Debit) -> GaussianEvent | None:
    """The event of a debit, or `LedgerError` if it states less than the debit's own ε and δ."""
    if debit.event in ("", DECIDES):
        return None
    event = GaussianEvent.read(debit.event)
    if not event.covers(float(debit.epsilon), float(debit.delta)):
        raise LedgerError(
            f"an event must state at least ε = {debit.epsilon}, δ = {debit.delta} of its release, got {debit.event!r}"
        )
    return event


class Together(NamedTuple):
    """The losses of debits on a grid with this step, and what adds up beside them."""

    losses: Composed | None
    step: float
    plain: Fraction = Fraction(0)  # δ of all debits, but for their losses
    decided: Fraction = Fraction(0)  # ε of debits that decide about others, or are huge
    spread: Spread = NONE  # of the losses

    @classmethod
    def of(cls, debits: Counter[Debit], delta: float) -> Together:
        """The debits, composed from the narrowest to the widest."""
        groups, plain, decided = _grouped(debits)
        if not groups:
            return cls(None, 1.0, plain, decided)
        spread = _spread(groups)
        points = POINTS if len(groups) <= MANY else FEW_POINTS
        step, tail = _step(spread, delta, points), _TAILS * delta / (2 * len(groups))
        each = [Composed.of(group, step, tail) for group in groups]
        while len(each) > 1:
            each.sort(key=lambda losses: losses.masses.size)  # most transforms are short then
            bunches = [each[at : at + _BUNCH] for at in range(0, len(each), _BUNCH)]
            each = [Composed.product(bunch, tail) for bunch in bunches]
        return cls(each[0], step, plain, decided, spread)

    def then(self, debits: Counter[Debit], delta: float) -> Together | None:
        """These and a few more on the same grid; None if it is too fine (many points) or too coarse
        (a large total) for all of them.
        """
        groups, plain, decided = _grouped(debits)
        tail, losses, spread = _TAILS * delta / 1000, self.losses, _spread(groups, self.spread)
        if groups and (losses is None or not 1 / _OFF <= self.step / _step(spread, delta) <= _OFF):
            return None
        for group in groups:
            more = Composed.of(group, self.step, tail)
            losses = more if losses is None else Composed.product([losses, more], tail)
        return Together(losses, self.step, self.plain + plain, self.decided + decided, spread)

    @property
    def error(self) -> float:
        """The error of the transforms."""
        return 0.0 if self.losses is None else self.losses.error

    @property
    def added(self) -> Fraction:
        """The δ's that add up, whatever the masses of the other debits are."""
        return self.plain * (1 if self.losses is None else Fraction(self.losses.mass))

    def delta_at(self, epsilon: Fraction) -> Fraction:
        """The δ at this ε, rounded up."""
        left = epsilon - self.decided
        if left < 0:
            return Fraction(1)
        return self.added + (0 if self.losses is None else Fraction(self.losses.delta_at(float(left))))

    def epsilon_at(self, delta: Fraction) -> float:
        """The ε at this δ, rounded up; it may be infinite."""
        left = delta - self.added
        if left < 0 or (left == 0 and self.losses is not None):
            return math.inf
        composed = 0.0 if self.losses is None else self.losses.epsilon_at(float(left) * (1 - NUDGE))
        return composed + float(self.decided) * (1 + NUDGE) + NUDGE * composed


class Composition:
    """The debits of one budget, and what they cost together."""

    def __init__(self, delta: float, kinds: Kinds | None = None) -> None:
        self.delta = delta
        self.kinds = Kinds() if kinds is None else kinds
        # Of many different debits: what all but the last ones cost, and what they cost with one more.
        self._kept: Together | None = None
        self._most_error = 0.0  # of what is kept: it grows with every debit
        self._last: Counter[Debit] = Counter()
        self._tried: tuple[Debit, Together] | None = None

    def add(self, debit: Debit) -> None:
        """Add a debit."""
        kind = self.kinds.add(debit)
        if self._tried is not None and self._tried[0] == debit:
            self._kept = self._tried[1]
        elif self._kept is not None:
            self._last[kind] += 1
        self._tried = None

    def together(self, more: Debit | None = None, times: int = 1) -> Together:
        """All debits, and more of one kind."""
        added = Counter() if more is None else Counter({more: times})
        debits = self.kinds.counts
        if len(debits) + len(added) <= MANY:
            return Together.of(debits + added, self.delta)
        kept = self._kept if len(self._last) <= MANY else None
        if kept is not None and self._last:
            kept = kept.then(self._last, self.delta)
        if kept is None or kept.error > self._most_error:
            kept = Together.of(debits, self.delta)
            self._most_error = max(_ERRORS * self.delta, 2 * kept.error)
        self._kept = kept
        self._last.clear()
        if more is None:
            return kept
        together = kept.then(added, self.delta) or Together.of(debits + added, self.delta)
        self._tried = (more, together) if times == 1 else None
        return together


def _spread(groups: Iterable[Group], before: Spread = NONE) -> Spread:
    """How far the losses of groups reach together, and with those before."""
    return Spread(*map(sum, zip(before, *(group.spread for group in groups), strict=True)))


def _step(spread: Spread, delta: float, points: int = POINTS) -> float:
    """A power of two, such that the losses that matter have about so many multiples of it."""
    reach = min(math.sqrt(2 * spread.variance * math.log(1 / (_TAILS * delta))), spread.largest)
    reach = max(reach, _LEAST_REACH)
    return 2.0 ** math.ceil(math.log2(2 * reach / points))


def _grouped(debits: Counter[Debit]) -> tuple[list[Group], Fraction, Fraction]:
    """Groups of debits with the same losses, and the δ's and ε's that add up beside them."""
    pure: defaultdict[float, int] = defaultdict(int)  # a Counter is slow for keys that are new
    deltas: defaultdict[str, int] = defaultdict(int)
    decided = Fraction(0)
    laws: dict[GaussianEvent, Counter[Debit]] = {}
    for debit, times in debits.most_common():
        event = event_of(debit) if debit.event else None
        epsilon = float(debit.epsilon)
        if debit.event == DECIDES or epsilon > LARGEST_EPSILON:
            decided += Fraction(debit.epsilon) * times
            deltas[debit.delta] += times
        elif event is not None and (event in laws or len(laws) < MOST_LAWS):
            laws.setdefault(event, Counter())[debit] += times
        else:
            pure[epsilon] += times
            deltas[debit.delta] += times
    plain = sum((Fraction(delta) * times for delta, times in deltas.items()), Fraction(0))
    groups: list[Group] = []
    for event, same in laws.items():
        group = Gaussian(event, same.total())
        if group.is_fine:
            groups.append(group)
            plain += Fraction(group.plain)
        else:
            others, beside, _ = _grouped(Counter({debit._replace(event=""): times for debit, times in same.items()}))
            groups, plain = groups + others, plain + beside
    return groups + [Pure(epsilon, times) for epsilon, times in _merged(pure).items()], plain, decided


def _merged(pure: Mapping[float, int]) -> dict[float, int]:
    """Pure releases by ε; of many, those with nearly the same ε count as the largest of them."""
    if len(pure) <= MANY:
        return dict(pure)
    most = _ADDED / 64 * sum(times * epsilon**2 for epsilon, times in pure.items())
    merged: dict[float, int] = {}
    head, added = math.inf, math.inf
    for epsilon in sorted(pure, reverse=True):
        added += pure[epsilon] * (head**2 - epsilon**2)
        if not added <= most:
            head, added = epsilon, 0.0
            merged[head] = 0
        merged[head] += pure[epsilon]
    return merged
