"""Predicted errors: what a plan expects of a lookup, before there is a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .reading import Estimates

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


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
