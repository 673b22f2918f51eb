"""The mechanisms, one file per row of the comparison: a plan from public parameters, a build, and a
reader.

Uses privacy, keys and structures. A mechanism registers itself by subclassing `Plan`; adding one
takes a new file here and nothing else. Provides `MECHANISMS`, `create_plan`, and what plans and
readers have in common.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ..errors import ParameterError
from .base import REGISTERED, ArrayShape, Built, DivisiblePlan, Plan
from .options import MechanismOptions
from .predictions import ErrorPrediction
from .problem import LEFT_OUT, Problem
from .reading import WANTED, Arrays, Ask, Parts, Reader, Single, Summed, tables_of
from .sizing import Sizing

__all__ = [
    "LEFT_OUT",
    "MECHANISMS",
    "WANTED",
    "ArrayShape",
    "Arrays",
    "Ask",
    "Built",
    "DivisiblePlan",
    "ErrorPrediction",
    "MechanismOptions",
    "Parts",
    "Plan",
    "Problem",
    "Reader",
    "Single",
    "Sizing",
    "Summed",
    "check_options",
    "check_privacy",
    "create_plan",
    "mechanism_named",
    "tables_of",
]

for _module in iter_modules(__path__):
    import_module(f".{_module.name}", __name__)

MECHANISMS: dict[str, type[Plan]] = dict(sorted(REGISTERED.items(), key=lambda item: item[1].row))


def mechanism_named(name: str) -> type[Plan]:
    """The mechanism of that name, or `ParameterError` with the nearest one."""
    if name in MECHANISMS:
        return MECHANISMS[name]
    near = difflib.get_close_matches(str(name), MECHANISMS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(MECHANISMS)}"
    raise ParameterError(f"there is no mechanism {name!r}; {hint}")


def check_options(name: str, problem: Problem, options: Mapping[str, object]) -> None:
    """`ParameterError` for options that the mechanism does not have, and for requests that it
    cannot meet.
    """
    mechanism = mechanism_named(name)
    known = {option.name: option for option in mechanism.options}
    for option, value in options.items():
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1, cutoff=0.6)
            fix = f"it takes {', '.join(known)}" if known else "it takes no options"
            fix += f"; did you mean {near[0]!r}?" if near else ""
            raise ParameterError(f"mechanism {name!r} has no option {option!r}; {fix}")
        known[option].check(value)
    if problem.parts > 1 and not issubclass(mechanism, DivisiblePlan):
        divisible = ", ".join(name for name, plan in MECHANISMS.items() if issubclass(plan, DivisiblePlan))
        raise ParameterError(f"mechanism {name!r} has one part only, got parts = {problem.parts}; use {divisible}")
    if problem.keep_keys and not mechanism.keeps_keys:
        keeping = ", ".join(name for name, plan in MECHANISMS.items() if plan.keeps_keys)
        raise ParameterError(f"mechanism {name!r} stores no keys that may be named; keep_keys needs {keeping}")


def create_plan(name: str, reason: str, problem: Problem, options: Mapping[str, object]) -> Plan:
    """The plan of a mechanism with the given options, with its privacy checked."""
    check_options(name, problem, options)
    return _planned(name, reason, problem, tuple(sorted(options.items())))


# Releases of many days or data sets often have the same public parameters, and a search takes
# longer than the rest of a small release.
@lru_cache(maxsize=16)
def _planned(name: str, reason: str, problem: Problem, options: tuple[tuple[str, Any], ...]) -> Plan:
    plan = mechanism_named(name).create(problem, **dict(options))
    plan = replace(plan, reason=reason)  # type: ignore[type-var]  # plans are dataclasses
    check_privacy(plan)
    return plan


def check_privacy(plan: Plan) -> None:
    """Refuse a plan whose computed ε or δ exceeds what was requested: a bug, found before any data
    is read.
    """
    if max(plan.exact_epsilon, plan.epsilon) > plan.problem.epsilon or plan.delta > plan.problem.delta:
        raise AssertionError(
            f"{plan.mechanism} would spend ε = {plan.exact_epsilon}, δ = {plan.delta}, "
            f"more than {plan.problem.epsilon}, {plan.problem.delta}"
        )
