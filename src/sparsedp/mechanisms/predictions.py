"""Predicted errors: what a plan expects of a lookup, before there is a release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..privacy.laws import TwoSided
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


def spread_noise(law: TwoSided, samples: int) -> npt.NDArray[np.int64]:
    """Evenly spaced quantiles of the noise in random order: a sample without sampling error, for
    predictions only.
    """
    rate = float(law.rate)
    fractions = (np.arange(samples) + 0.5) / samples
    side = np.minimum(fractions, 1 - fractions)  # P[η <= -j] = exp(-λ j)/(1 + exp(-λ))
    magnitudes = np.floor(-np.log(side * (1 + math.exp(-rate))) / rate)
    noise = np.where(fractions < 0.5, -1, 1) * np.maximum(magnitudes, 0)
    return np.random.default_rng(0).permutation(noise).astype(np.int64)
