"""Lookups in a release that is elsewhere: what the ids need is gathered, and the mechanism's own
reader answers from it.

So answers are those of the same file on disk, bit for bit: the same kernels read the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from ..keys.batches import Batch, ids_of
from ..privacy.randomness import Words
from .partial import PartialArrays
from .reading import Arrays, Ask, Estimates, Parts, Reader, Summed

if TYPE_CHECKING:
    from .base import Plan

_PIECE = 1 << 14  # ids that are gathered at once: their cache lines take up to some hundred megabytes
_PARTS_AT_ONCE = 8


def reader_of(plan: Plan, parts: Parts) -> Reader:
    """The reader of a release, wherever its arrays are."""
    if any(isinstance(arrays, PartialArrays) for arrays in parts):
        return GatheringReader(plan, parts)
    return plan.reader(parts)


class GatheringReader(Reader):
    """Reads what ids need, and then answers like the reader of the whole release."""

    def __init__(self, plan: Plan, parts: Parts) -> None:
        self._whole = plan.reader(parts)
        self.plan, self.priors = self._whole.plan, self._whole.priors
        self.estimators = self._whole.estimators  # type: ignore[misc]  # of the mechanism's own reader
        self._parts = parts
        self._partition = plan.partition(parts)

    def check(self, estimator: str | None, prior: str | None) -> tuple[str, str]:
        return self._whole.check(estimator, prior)

    def estimate(self, ids: Words, estimator: str, prior: str) -> Estimates:
        estimates = np.empty(len(ids))
        for rows in _in_pieces(ids):
            estimates[rows] = self._over(ids[rows]).estimate(ids[rows], estimator, prior)
        return estimates

    def estimate_one(self, id: int) -> float:
        return self._over(np.array([id], np.uint64)).estimate_one(id)

    def interval(self, ids: Words, failure: float, prior: str) -> tuple[Estimates, Estimates]:
        low, high = np.empty(len(ids)), np.empty(len(ids))
        for rows in _in_pieces(ids):
            low[rows], high[rows] = self._over(ids[rows]).interval(ids[rows], failure, prior)
        return low, high

    def answers(self, keys: Batch, ask: Ask) -> list[Estimates]:
        ids = ids_of(keys)
        answered = [np.empty(len(ids)) for _ in ask.wanted]
        for rows in _in_pieces(ids):
            for own, piece in zip(answered, self._over(ids[rows]).answers(ids[rows], ask), strict=True):
                own[rows] = piece
        return answered

    def sum(self, ids: Words) -> Summed:
        return self._over(ids).sum(ids)  # in one piece: floats are added in the order of the ids

    def over(self, parts: Parts) -> Reader:
        return self._whole.over(parts)

    def _over(self, ids: Words) -> Reader:
        """The reader of arrays that hold what these ids need."""
        ids = np.unique(ids)
        of_part = self._partition.part_of(ids) if len(self._parts) > 1 else np.zeros(len(ids), np.uint64)

        def gather(part: int) -> Arrays:
            return gathered(self.plan, self._parts[part], part, ids[of_part == part])

        if len(self._parts) == 1:
            return self._whole.over((gather(0),))
        with ThreadPoolExecutor(_PARTS_AT_ONCE) as pool:
            return self._whole.over(tuple(pool.map(gather, range(len(self._parts)))))


def gathered(plan: Plan, arrays: Mapping[str, np.ndarray], part: int, ids: Words) -> Arrays:
    """The arrays of a part as far as its reader needs them for these ids (distinct, ascending)."""
    assert isinstance(arrays, PartialArrays)
    touched = plan.touched(arrays, part, ids)
    held: Arrays = {}
    if "table.ids" in arrays:
        held["table.ids"], held["table.values"] = arrays.pairs(ids)
    for name in arrays:
        if name in touched:
            held[name] = arrays.holding(name, touched[name])
        elif name not in held and not name.startswith("keys."):  # readers need no names of keys
            held[name] = arrays[name]
    return held


def _in_pieces(ids: Words) -> list[np.ndarray]:
    """The positions of ids that are gathered together: near each other, so that they share ranges."""
    if len(ids) <= _PIECE:
        return [np.arange(len(ids))]
    order = np.argsort(ids, kind="stable")
    return [order[start : start + _PIECE] for start in range(0, len(ids), _PIECE)]
