"""The plan of a file, with its guarantee computed again. This is exact arithmetic, and most of what
opening a file costs.

What it gives depends on the plan alone. So a plan that has been checked is kept, under everything
that it was decoded from, and files that state the very same, such as those of a series, share it.
Nothing is taken from a file unchecked: one that differs anywhere in its plan, or in the ε and δ that
it states, is another plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import FormatError
from ..mechanisms import MECHANISMS, Plan, check_privacy
from .codec import decode_plan
from .container import Container, checksums

PLAN = "plan"
_MOST_KEPT = 64
_kept: dict[tuple[object, ...], Plan] = {}


def checked_plan(header: Container) -> Plan:
    """The plan of a header file; `FormatError` unless it is valid and guarantees what the file
    states.
    """
    description = header.description
    matrices = {name: header.arrays[name] for name in header.arrays if name.startswith(PLAN + ".")}
    sums = checksums(matrices)
    if sums.items() - description["checksums"].items():
        raise FormatError("the thresholds of the plan fail their checksum: the file is damaged")
    stated = json.dumps([description[name] for name in ("mechanism", "format", "epsilon", "delta", "plan")])
    shapes = tuple((name, str(array.dtype), array.shape, sums[name]) for name, array in matrices.items())
    plan = _kept.get((stated, shapes))
    if plan is None:
        plan = decode_plan(
            MECHANISMS[description["mechanism"]], description["plan"], PLAN, description["format"], matrices
        )
        if matrices:
            raise FormatError(f"array {next(iter(matrices))!r} has no place in the plan")
        check_guarantee(plan, description)
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[stated, shapes] = plan
    return plan


def check_guarantee(plan: Plan, description: Mapping[str, Any]) -> None:
    """ε and δ follow from the integers of the plan; a file cannot state others.

    A file of format 1 may state a δ of `retrieval` above what is proved now, and an ε that relies
    on the price of its estimated size, which nobody can check: the release then states the ε that
    was requested. The δ of Gaussian noise is computed in floats, whose last digits differ between
    machines; its guard is ten times what is tolerated here.
    """
    try:
        check_privacy(plan)
        exact = {"epsilon": plan.epsilon, "delta": plan.delta}
    except (ArithmeticError, AssertionError, ValueError) as error:
        raise FormatError(f"the plan guarantees nothing: {error}") from None
    for name, value in exact.items():
        stated, first = description[name], description["format"] == 1
        near = name == "delta" and plan.problem.gaussian and _is_near(stated, value)
        larger = first and name == "delta" and plan.mechanism == "retrieval"
        smaller = first and name == "epsilon" and plan.problem.sized_unseen
        wanted = (plan.exact_epsilon, value) if smaller else (value,)
        if type(stated) not in (int, float) or not (near or (stated >= value if larger else stated in wanted)):
            raise FormatError(f"the file states {name} = {stated!r:.40}, but its thresholds guarantee {value!r}")


def _is_near(stated: Any, value: float) -> bool:
    return type(stated) is float and abs(stated - value) <= 1e-10 * value
