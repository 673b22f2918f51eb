"""The mechanisms, one file per row of the comparison, and their registry."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import replace

from ..errors import ParameterError
from ..privacy.neighbours import check_number
from .alp import AlpPlan
from .base import Arrays, ArrayShape, DivisiblePlan, ErrorPrediction, Parts, Plan, Reader, check_privacy, tables_of
from .compact import CompactPlan
from .laplace import LaplacePlan
from .problem import LEFT_OUT, Problem
from .retrieval import RetrievalPlan
from .sizing import Sizing
from .stability import StabilityPlan
from .threshold import ThresholdPlan
from .threshold_alp import ThresholdAlpPlan
from .tight_alp import TightAlpPlan

__all__ = [
    "LEFT_OUT",
    "MECHANISMS",
    "ArrayShape",
    "Arrays",
    "DivisiblePlan",
    "ErrorPrediction",
    "Parts",
    "Plan",
    "Problem",
    "Reader",
    "Sizing",
    "check_privacy",
    "create_plan",
    "mechanism_named",
    "tables_of",
]

Mechanism = (
    type[LaplacePlan]
    | type[ThresholdPlan]
    | type[CompactPlan]
    | type[AlpPlan]
    | type[ThresholdAlpPlan]
    | type[StabilityPlan]
    | type[TightAlpPlan]
    | type[RetrievalPlan]
)

_ALL: tuple[Mechanism, ...] = (
    LaplacePlan,
    ThresholdPlan,
    CompactPlan,
    AlpPlan,
    ThresholdAlpPlan,
    StabilityPlan,
    TightAlpPlan,
    RetrievalPlan,
)
MECHANISMS: dict[str, Mechanism] = {plan.mechanism: plan for plan in _ALL}


def mechanism_named(name: str) -> Mechanism:
    """The mechanism of that name, or `ParameterError` with the nearest one."""
    if name in MECHANISMS:
        return MECHANISMS[name]
    near = difflib.get_close_matches(str(name), MECHANISMS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(MECHANISMS)}"
    raise ParameterError(f"there is no mechanism {name!r}; {hint}")


def create_plan(name: str, reason: str, problem: Problem, options: dict[str, object]) -> Plan:
    """The plan of a mechanism with the given options, its privacy checked."""
    mechanism = mechanism_named(name)
    known = dict(list(inspect.signature(mechanism.create).parameters.items())[1:])
    for option, value in options.items():
        if option not in known:
            fix = f"it takes {', '.join(known)}" if known else "it takes no options"
            raise ParameterError(f"mechanism {name!r} has no option {option!r}; {fix}")
        if isinstance(known[option].default, float):
            check_number(option, value)
    if problem.parts > 1 and not issubclass(mechanism, DivisiblePlan):
        divisible = ", ".join(name for name, plan in MECHANISMS.items() if issubclass(plan, DivisiblePlan))
        raise ParameterError(f"mechanism {name!r} has one part only, got parts = {problem.parts}; use {divisible}")
    if problem.keep_keys and not mechanism.keeps_keys:
        keeping = ", ".join(name for name, plan in MECHANISMS.items() if plan.keeps_keys)
        raise ParameterError(f"mechanism {name!r} stores no keys that may be named; keep_keys needs {keeping}")
    plan = mechanism.create(problem, **options)  # type: ignore[arg-type]  # checked above
    check_privacy(plan)
    return replace(plan, reason=reason)
