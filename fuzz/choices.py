"""Values from bytes: the same bytes give the same values, and no bytes give the simplest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Reads values from the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        """The next bytes, fewer at the end."""
        taken = self._data[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def rest(self) -> bytes:
        """All bytes that are left."""
        return self.take(len(self._data))

    def below(self, limit: int) -> int:
        """An integer in [0, limit), from two bytes at most."""
        return int.from_bytes(self.take(1 if limit <= 256 else 2), "little") % limit

    def integer(self) -> int:
        """An integer of up to nine bytes, often one near a power of two."""
        kind = self.below(4)
        if kind == 0:
            return self.below(256) - 128
        if kind == 1:
            return int.from_bytes(self.take(9), "little", signed=True)
        sign = 1 if kind == 2 else -1
        return sign * (1 << self.below(70)) + self.below(5) - 2

    def one_of(self, options: Sequence[T]) -> T:
        """One of some options."""
        return options[self.below(len(options))]
