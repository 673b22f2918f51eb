"""What one user may contribute, and counts that respect this bound.

A release of counts made from events is private only relative to what one person can change.
`Contribution` states that bound, and `BoundedCounts` carries it with the counts, so that `release`
cannot be given another bound by mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Contribution:
    """A user has at most `keys` keys (ℓ0) with at most `per_key` each (ℓ∞).

    So adding or removing one user moves the counts by at most the product (ℓ1).
    """

    keys: int
    per_key: Fraction
    user: str | None = None  # the column that identifies users; None if every row is a separate user
    stated: bool = field(default=False, metadata={"left_out": True})  # by the caller, who bounded the counts

    @property
    def total(self) -> Fraction:
        """The ℓ1 distance between data sets with and without one user."""
        return self.keys * self.per_key

    def __str__(self) -> str:
        who = "every row its own user" if self.user is None else f"users told apart by {self.user!r}"
        who = "users as the caller bounded them" if self.stated else who
        keys = "1 key" if self.keys == 1 else f"{self.keys} keys"
        return f"{who}, each with at most {keys} and {float(self.per_key):g} per key"

    def faults(self) -> Iterator[str]:
        """What is wrong with a contribution that was not stated here, if anything."""
        if self.keys < 1 or self.per_key <= 0:
            yield "a contribution must be positive"


@dataclass(frozen=True, repr=False)
class BoundedCounts:
    """Counts of bounded contributions. They are the data, with no privacy protection yet."""

    keys: Any  # distinct keys: an Arrow column, or a table if they have several columns
    units: npt.NDArray[np.int64]  # the counts, as multiples of `unit`
    unit: Fraction
    step: Fraction | None  # the grid on which real values are released
    contribution: Contribution
    signed: bool = False
    left_epsilon: float | None = None  # of the ε of which the choice of the bound took its share

    def __len__(self) -> int:
        return len(self.units)

    @property
    def values(self) -> npt.NDArray[Any]:
        """The counts in the caller's units."""
        return self.units if self.unit == 1 else self.units * float(self.unit)

    def __repr__(self) -> str:
        return f"<BoundedCounts of {len(self)} keys, {self.contribution}; not private, do not publish>"


def as_bounded(counts: object) -> BoundedCounts | None:
    """The counts, if they carry their bounds. This looks only at the type: the data must not be
    read yet.
    """
    return cast(BoundedCounts, counts) if issubclass(type(counts), BoundedCounts) else None
