"""Differentially private sparse vectors and histograms that answer for any key.

The package reads in this order, each module knowing only those before it:

    errors → progress → laws → privacy → randomness → hashing (arrow) → rounding → ladder → embedding → decoding
    → retrieval → table → bounds → mechanisms → planning → comparison, curves; inputs
    storage → schema → files → release

Start with `release`, `plan` and `compare`.
"""

from .comparison import Comparison, compare
from .curves import ErrorCurves, error_curves
from .errors import (
    FormatError,
    InputError,
    KeyTypeError,
    MissingDependencyError,
    ParameterError,
    ReproducibleReleaseError,
    SparseDPError,
)
from .mechanisms import ErrorPrediction, Plan
from .planning import plan
from .release import Release, load, release, verify

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "ErrorCurves",
    "ErrorPrediction",
    "FormatError",
    "InputError",
    "KeyTypeError",
    "MissingDependencyError",
    "ParameterError",
    "Plan",
    "Release",
    "ReproducibleReleaseError",
    "SparseDPError",
    "compare",
    "error_curves",
    "load",
    "plan",
    "release",
    "verify",
]
