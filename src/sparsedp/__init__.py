"""Differentially private sparse vectors and histograms that answer for any key.

The package reads in this order, each module knowing only those before it:

    errors → progress → laws → privacy → randomness → hashing (arrow) → rounding → ladder → embedding → decoding
    → retrieval → table → bounds → mechanisms → planning → comparison, curves; inputs → release

Start with `release`, `plan` and `compare`.
"""

from .comparison import Comparison, compare
from .curves import ErrorCurves, error_curves
from .errors import InputError, KeyTypeError, MissingDependencyError, ParameterError, SparseDPError
from .mechanisms import ErrorPrediction, Plan
from .planning import plan
from .release import Release, release

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "ErrorCurves",
    "ErrorPrediction",
    "InputError",
    "KeyTypeError",
    "MissingDependencyError",
    "ParameterError",
    "Plan",
    "Release",
    "SparseDPError",
    "compare",
    "error_curves",
    "plan",
    "release",
]
