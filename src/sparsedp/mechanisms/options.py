"""The options of mechanisms: each mechanism declares those that its `create` takes.

`MechanismOptions` lists all of them for type checkers, so that a misspelt option is a type error; a
test compares it with what the mechanisms declare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from ..errors import ParameterError
from ..privacy.numbers import check_number


@dataclass(frozen=True)
class Option:
    """One option of a mechanism."""

    name: str
    meaning: str
    number: bool = True  # otherwise a word
    optional: bool = False  # None means that the planner chooses a value

    def check(self, value: object) -> None:
        """`ParameterError` unless the value is of the right kind; its range is checked by the
        mechanism.
        """
        if value is None and self.optional:
            return
        if self.number:
            check_number(self.name, value)
        elif not isinstance(value, str):
            raise ParameterError(f"{self.name} must be a word, got {value!r}")


ALPHA = Option("alpha", "the paper's α: levels are α/ε counts apart")
SIZE_FACTOR = Option("size_factor", "rows of a level for each non-zero key (the paper's s/k)")
SCALING = Option("scaling", "'paper', or 'exact' to spend all of ε on integer counts", number=False)
SPLIT = Option("split", "the share of ε that the threshold stage spends")
STORED_ZEROS = Option("stored_zeros", "the expected number of zero keys in the table, with pure privacy")
THRESHOLD_RULE = Option("threshold_rule", "'tight', the smallest threshold for δ, or the 'paper' one", number=False)
GOAL = Option("goal", "'names', the lowest threshold of Gaussian noise, or 'error', the least noise", number=False)
BITS_PER_ENTRY = Option("bits_per_entry", "the space for each non-zero key", optional=True)
TARGET_ERROR = Option("target_error", "the mean error to reach in the least space", optional=True)


class MechanismOptions(TypedDict, total=False):
    """The options that `release` and `plan` take besides their own parameters."""

    alpha: float
    size_factor: float
    scaling: str
    split: float
    stored_zeros: float
    threshold_rule: str
    goal: str
    bits_per_entry: float | None
    target_error: float | None
