"""Differentially private sparse vectors and histograms that answer for any key.

The package reads in this order, each module knowing only those before it:

    errors, lazy → progress → laws → privacy → randomness → containers → hashing (arrow) → columns → keeping → rounding
    → ladder → embedding → decoding → balancing → fitting → dependence → retrieval → table → bounds → unbiased → wording
    → notebook → mechanisms → planning → comparison, curves; storage → rules → schema → files → ranking → published
    sealed → ledger → spending
    contributions → inputs → naming → portions → building → sources (spark) → experiments, auditing → cli

Start with `release`, `load`, `plan` and `compare`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import spark as spark
    from .building import release
    from .comparison import Comparison, compare
    from .contributions import BoundedCounts, Contribution
    from .curves import ErrorCurves, error_curves
    from .errors import (
        BudgetError,
        FormatError,
        InputError,
        KeyTypeError,
        LedgerError,
        MissingDependencyError,
        OverloadWarning,
        ParameterError,
        ReproducibleReleaseError,
        SparseDPError,
        SpentError,
    )
    from .ledger import Ledger
    from .mechanisms import ErrorPrediction, Plan
    from .planning import plan
    from .published import Release, load, verify
    from .sources.local import count

__version__ = "0.1.0"

# Where each name lives. Modules are imported when a name is first used: `import sparsedp` alone costs nothing.
_HOMES = {
    "building": ("release",),
    "comparison": ("Comparison", "compare"),
    "curves": ("ErrorCurves", "error_curves"),
    "errors": (
        "BudgetError",
        "FormatError",
        "InputError",
        "KeyTypeError",
        "LedgerError",
        "MissingDependencyError",
        "OverloadWarning",
        "ParameterError",
        "ReproducibleReleaseError",
        "SparseDPError",
        "SpentError",
    ),
    "ledger": ("Ledger",),
    "mechanisms": ("ErrorPrediction", "Plan"),
    "planning": ("plan",),
    "contributions": ("BoundedCounts", "Contribution"),
    "published": ("Release", "load", "verify"),
    "sources.local": ("count",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BoundedCounts",
    "BudgetError",
    "Comparison",
    "Contribution",
    "ErrorCurves",
    "ErrorPrediction",
    "FormatError",
    "InputError",
    "KeyTypeError",
    "Ledger",
    "LedgerError",
    "MissingDependencyError",
    "OverloadWarning",
    "ParameterError",
    "Plan",
    "Release",
    "ReproducibleReleaseError",
    "SparseDPError",
    "SpentError",
    "compare",
    "count",
    "error_curves",
    "load",
    "plan",
    "release",
    "verify",
]


if not TYPE_CHECKING:  # or any name would pass

    def __getattr__(name: str) -> Any:
        if name == "spark":
            return import_module(".spark", __name__)
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
