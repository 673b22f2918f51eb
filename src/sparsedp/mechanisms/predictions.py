"""Predicted errors: what a plan expects of a lookup, before there is a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import ParameterError
from ..privacy.numbers import check_number, whole_number
from .reading import Estimates

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_MOST_SAMPLES = 10**8


@dataclass(frozen=True)
class ErrorPrediction:
    """The predicted error (estimate minus true value) of one lookup."""

    value: float
    mean_absolute: float
    bias: float
    quantiles: Mapping[float, float]

    @classmethod
    def from_samples(cls, value: float, errors: Estimates) -> ErrorPrediction:
        """The prediction whose error is a uniformly chosen sample."""
        quantiles = dict(zip(QUANTILES, np.quantile(errors, QUANTILES).tolist(), strict=True))
        return cls(value, float(np.abs(errors).mean()), float(errors.mean()), quantiles)


def check_prediction(value: float, samples: int, step: float, signed: bool) -> None:
    """`ParameterError` if no release has such a value, or if there are no, or too many, samples."""
    if check_number("value", value) < 0 and not signed:
        raise ParameterError(f"value must not be negative without signed=True, got {value}")
    if abs(value) / step >= 1 << 63:
        raise ParameterError(f"value must be below 2^63 steps, as in a release, got {value}")
    if whole_number("samples", samples) > _MOST_SAMPLES:
        raise ParameterError(f"samples must be at most {_MOST_SAMPLES:,}, got {samples}")
