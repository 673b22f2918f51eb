"""The search in a sorted column of ids that is elsewhere, for many ids at once.

Fingerprints are uniform, so that the place of an id is known to about the square root of the number
of ids between two known ones: a line is read where the id should be, then one where it should be
from there, and so on. Each round reads its windows together. Integer keys of a domain may lie in
any way, so later rounds halve what is left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..errors import FormatError

Words = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

_LINE = 8  # ids of a cache line
_FEW = 256  # ids, for which wide windows are worth a round less
_WIDE, _NARROW = 256, 24  # half a window at most, in ids
_GUESSING = 6  # rounds, before every second one halves


def find(ids: Words, count: int, read: Callable[[Positions, Positions], Words]) -> Positions:
    """The position of each id (distinct, ascending) in a column of `count` ids, or -1.

    `read` gets the begins and ends of windows, and returns an array of the whole column in which
    these have been read. `FormatError` if what is read does not ascend.
    """
    found = np.full(len(ids), -1)
    if not count or not len(ids):
        return found
    ends = np.array([0, count - 1])
    lowest, highest = read(ends, ends + 1)[ends]
    if lowest > highest or (count > 1 and lowest == highest):
        raise _damaged()
    found[ids == lowest], found[ids == highest] = 0, count - 1
    open_ = np.flatnonzero((ids > lowest) & (ids < highest))
    low, high = np.zeros(len(open_), np.int64), np.full(len(open_), count - 1)
    below, above = np.full(len(open_), lowest, np.uint64), np.full(len(open_), highest, np.uint64)
    turn = 0
    while True:
        left = high - low > 1  # ids between those that are known
        open_, low, high, below, above = open_[left], low[left], high[left], below[left], above[left]
        if not len(open_):
            return found
        wanted = ids[open_]
        begin, end = _windows(wanted, low, high, below, above, turn)
        column = read(begin, end)
        first, last = column[begin], column[end - 1]
        if (first <= below).any() or (last >= above).any() or (first > last).any():
            raise _damaged()
        at = _bisected(column, begin, end, wanted)
        found[open_] = np.where(column[at] == wanted, at, -1)
        before, after = wanted < first, wanted > last
        high, above = np.where(before, begin, high), np.where(before, first, above)
        low, below = np.where(after, end - 1, low), np.where(after, last, below)
        inside = ~(before | after)
        low[inside] = high[inside]  # decided
        turn += 1


def _windows(
    wanted: Words, low: Positions, high: Positions, below: Words, above: Words, turn: int
) -> tuple[Positions, Positions]:
    """Where ids should be, between the known ones; whole cache lines."""
    between = (high - low).astype(np.float64)
    share = (wanted - below).astype(np.float64) / (above - below).astype(np.float64)
    if turn >= _GUESSING and turn % 2:
        share[:] = 0.5
    spread = np.sqrt(between * share * (1 - share))
    few = len(wanted) <= _FEW
    half = 3 * spread + 8 if few else 2 * spread + 3
    half = np.where(half > (_WIDE if few else _NARROW), 0, half)  # it would miss anyway
    guess = low + share * between
    begin = np.floor(np.clip(guess - half, low + 1, high - 1)).astype(np.int64) // _LINE * _LINE
    end = -(-(np.ceil(np.clip(guess + half, low + 1, high - 1)).astype(np.int64) + 1) // _LINE) * _LINE
    return np.maximum(begin, low + 1), np.minimum(end, high)


def _bisected(column: Words, begin: Positions, end: Positions, wanted: Words) -> Positions:
    """The last position of each window whose id is at most the wanted one, or its first."""
    at, length = begin, end - begin
    while (length > 1).any():
        half = length // 2
        at = np.where(column[at + half] <= wanted, at + half, at)
        length = length - half
    return at


def _damaged() -> FormatError:
    return FormatError("a stored table is damaged: the ids of a table must ascend")
