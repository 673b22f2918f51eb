"""Plans, releases and comparisons as HTML, for notebooks.

Everything is escaped, nothing is loaded or executed, and colours are the page's own. Nothing here
takes long: predicted errors, which are simulated, appear only when a plan is printed.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from .words import guarantee, kind_of_keys

if TYPE_CHECKING:
    from ..keys.hashing import KeySpace
    from . import Plan

_TABLE = '<table style="color: inherit; font: inherit">'  # not every page passes these on to its tables
_NAME = "text-align: left; vertical-align: top; white-space: nowrap"
_LEFT = "text-align: left; vertical-align: top"
_RIGHT = "text-align: right; white-space: nowrap"


def of_release(plan: Plan, space: KeySpace, nbytes: int, reproducible: bool) -> str:
    """What a release is and guarantees."""
    rows = [
        ("Mechanism", plan.mechanism),
        ("Privacy", _privacy(plan)),
        ("Guarantee", guarantee(plan)),
        ("Keys", kind_of_keys(space, plan.problem.keep_keys)),
        ("Size", f"{nbytes:,} bytes"),
    ]
    if plan.problem.parts > 1:
        rows.append(("Parts", str(plan.problem.parts)))
    if reproducible:
        rows.insert(0, ("Made for tests", "anyone can compute its noise, so it protects nobody"))
    return facts("Release", rows)


def of_plan(plan: Plan) -> str:
    """What a release of this plan would be."""
    size = "not known" if plan.nbytes is None else f"{plan.nbytes:,} bytes planned"
    if plan.bits_per_entry is not None:
        size += f", {plan.bits_per_entry:.4g} bits per key"
    bounds = {
        "expected": plan.expected_error,
        "in 99 % of lookups": plan.error_with_probability(0.01),
        "expected maximum over all keys": plan.maximum_error,
    }
    known = [f"{name} ≤ {bound:.4g}" for name, bound in bounds.items() if bound is not None and bound < math.inf]
    rows = [
        ("Mechanism", f"{plan.mechanism} ({plan.reason})"),
        ("Privacy", _privacy(plan)),
        ("Guarantee", guarantee(plan)),
        ("Size", f"{size}, {plan.access} memory reads per lookup"),
        ("Error bounds", ", ".join(known) or "none proven; print the plan for predicted errors"),
    ]
    return facts("Plan", rows)


def grid(header: list[str], names: list[str], rows: list[list[str] | str], note: str = "", title: str = "") -> str:
    """A table of numbers; a row that is a single text spans all columns."""
    lines = [_caption(title)] if title else []
    lines += ["<tr>", *(_cell("th", text, _NAME if at == 0 else _RIGHT) for at, text in enumerate(header)), "</tr>"]
    for name, row in zip(names, rows, strict=True):
        cells = [_cell("td", row, _LEFT, span=len(header) - 1)] if isinstance(row, str) else []
        lines += ["<tr>", _cell("th", name, _NAME), *(cells or [_cell("td", text, _RIGHT) for text in row]), "</tr>"]
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"{_TABLE}{''.join(lines)}</table>{below}"


def _privacy(plan: Plan) -> str:
    return f"ε = {plan.epsilon:.6g}, δ = {plan.delta:.3g}, for {plan.problem.promise}"


def facts(title: str, rows: list[tuple[str, str]]) -> str:
    """A table of names and what is said of them."""
    lines = "".join(f"<tr>{_cell('th', name, _NAME)}{_cell('td', text, _LEFT)}</tr>" for name, text in rows)
    return f"{_TABLE}{_caption(title)}{lines}</table>"


def _caption(title: str) -> str:
    return f'<caption style="{_NAME}"><b>{escape(title)}</b></caption>'


def _cell(tag: str, text: str, style: str, span: int = 1) -> str:
    across = f' colspan="{span}"' if span > 1 else ""
    return f'<{tag}{across} style="{style}">{escape(text)}</{tag}>'
