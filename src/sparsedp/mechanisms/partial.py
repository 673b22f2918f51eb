"""Arrays that are elsewhere, of which a lookup reads only what it needs.

A mapping like any other, except that asking for an array reads all of it. What needs only some
elements asks for those: `piece`, `length_of`, and `Plan.touched` for the elements that ids lead to.
Code that knows nothing of this gets the right arrays, only later.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..privacy.randomness import Words

Positions = npt.NDArray[np.int64]


class Touched(NamedTuple):
    """The elements of an array that a lookup reads: `length` from each start on."""

    starts: Positions
    length: int


class PartialArrays(Mapping[str, np.ndarray]):
    """The arrays of one part of a release that is elsewhere. An array that is read as a whole is
    checked against its checksum.
    """

    @abstractmethod
    def outline(self, name: str) -> np.ndarray:
        """An array of the same type and shape, without its contents."""

    @abstractmethod
    def holding(self, name: str, touched: Touched) -> np.ndarray:
        """An array of the full shape in which only the touched elements have been read; no other may
        be looked at.
        """

    @abstractmethod
    def pairs(self, ids: Words) -> tuple[Words, npt.NDArray[np.int64]]:
        """Those of the ids (distinct, ascending) that are in the table, and their values."""

    @abstractmethod
    def renamed(self, names: Mapping[str, str]) -> PartialArrays:
        """Some of the arrays, under new names."""

    @abstractmethod
    def joined(self, others: Mapping[str, np.ndarray]) -> PartialArrays:
        """These arrays and those."""


def piece(arrays: Mapping[str, np.ndarray], name: str, begin: int, end: int) -> np.ndarray:
    """Some consecutive elements of an array of one dimension."""
    if isinstance(arrays, PartialArrays):
        return arrays.holding(name, Touched(np.array([begin]), end - begin))[begin:end]
    return arrays[name][begin:end]


def outline(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """An array of the type and shape of the one of that name; its contents do not count."""
    return arrays.outline(name) if isinstance(arrays, PartialArrays) else arrays[name]


def length_of(arrays: Mapping[str, np.ndarray], name: str) -> int:
    """The length of an array."""
    return len(outline(arrays, name))


def renamed(arrays: Mapping[str, np.ndarray], names: Mapping[str, str]) -> Mapping[str, np.ndarray]:
    """Some of the arrays, under new names."""
    if isinstance(arrays, PartialArrays):
        return arrays.renamed(names)
    return {new: arrays[old] for new, old in names.items()}


def joined(some: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """The arrays of both."""
    return some.joined(others) if isinstance(some, PartialArrays) else {**some, **others}
