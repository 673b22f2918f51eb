"""Differentially private sparse vectors and histograms that answer for any key.

The package is a row of rooms, and each imports only rooms to its left (a test enforces this):

    errors → _util → privacy → keys → structures → mechanisms → planning → format → budget
    → counting → releasing → reach → experiments → auditing → serve → demo → cli

Start with `release`, `load`, `plan` and `compare`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import spark as spark
    from .budget.ledger import Ledger
    from .counting.local import count
    from .counting.suggesting import suggest
    from .counting.suggestion import Suggestion
    from .errors import (
        BudgetError,
        FormatError,
        InputError,
        KeyTypeError,
        LedgerError,
        MissingDependencyError,
        OverloadWarning,
        ParameterError,
        RemoteError,
        ReproducibleReleaseError,
        SparseDPError,
        SpentError,
        SuggestionWarning,
    )
    from .keys.kinds import KeyColumn
    from .mechanisms import ErrorPrediction, Plan
    from .planning.comparison import Comparison, compare
    from .planning.curves import ErrorCurves, error_curves
    from .planning.plans import plan
    from .privacy.contributions import BoundedCounts, Contribution
    from .releasing.building import release
    from .releasing.published import Release, load, verify
    from .releasing.series import Series, series

__version__ = "0.2.0"

# Where each name lives. Modules are imported when a name is first used, so `import sparsedp` alone
# costs nothing.
_HOMES = {
    "releasing.building": ("release",),
    "planning.comparison": ("Comparison", "compare"),
    "planning.curves": ("ErrorCurves", "error_curves"),
    "errors": (
        "BudgetError",
        "FormatError",
        "InputError",
        "KeyTypeError",
        "LedgerError",
        "MissingDependencyError",
        "OverloadWarning",
        "ParameterError",
        "RemoteError",
        "ReproducibleReleaseError",
        "SparseDPError",
        "SpentError",
        "SuggestionWarning",
    ),
    "budget.ledger": ("Ledger",),
    "keys.kinds": ("KeyColumn",),
    "mechanisms": ("ErrorPrediction", "Plan"),
    "planning.plans": ("plan",),
    "privacy.contributions": ("BoundedCounts", "Contribution"),
    "releasing.published": ("Release", "load", "verify"),
    "releasing.series": ("Series", "series"),
    "counting.local": ("count",),
    "counting.suggesting": ("suggest",),
    "counting.suggestion": ("Suggestion",),
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
    "KeyColumn",
    "KeyTypeError",
    "Ledger",
    "LedgerError",
    "MissingDependencyError",
    "OverloadWarning",
    "ParameterError",
    "Plan",
    "Release",
    "RemoteError",
    "ReproducibleReleaseError",
    "Series",
    "SparseDPError",
    "SpentError",
    "Suggestion",
    "SuggestionWarning",
    "compare",
    "count",
    "error_curves",
    "load",
    "plan",
    "release",
    "series",
    "suggest",
    "verify",
]


if not TYPE_CHECKING:  # otherwise any name would pass

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
