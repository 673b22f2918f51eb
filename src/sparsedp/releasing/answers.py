"""What a release answers, as tuples with names."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..privacy.numbers import check_number
from ..privacy.randomness import Words

Floats = npt.NDArray[np.float64]


class Stored(NamedTuple):
    """The explicitly stored keys, ascending, and their noisy values.

    Keys are integers of the domain, or 64-bit fingerprints when keys are hashed.
    """

    keys: Words
    values: Floats


class Answer(NamedTuple):
    """Estimates of some keys, and the ends of their intervals."""

    estimates: Floats
    low: Floats
    high: Floats


class Sum(NamedTuple):
    """A sum over keys and its standard error."""

    total: float
    standard_error: float


def check_confidence(confidence: float) -> None:
    """`ParameterError` unless it is a probability that an interval can have."""
    number = confidence if isinstance(confidence, float) else check_number("confidence", confidence)
    if not 0 < number < 1:
        raise ParameterError(f"confidence must be in (0, 1), got {confidence}")
