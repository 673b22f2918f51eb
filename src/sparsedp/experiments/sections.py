"""The elements of a report: sections of text, figures and tables, and checks that are met or
missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Drawn:
    """A figure: `draw` fills a matplotlib figure of this size (in inches), and the caption states
    the finding.
    """

    name: str
    caption: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (7.0, 4.2)


@dataclass(frozen=True)
class Check:
    """One expected number: how far off it may be, and whether it is."""

    name: str
    expected: float
    measured: float
    tolerance: float
    note: str = ""

    @property
    def reached(self) -> bool:
        """Whether the measured number is within the tolerance."""
        return abs(self.measured - self.expected) <= self.tolerance


@dataclass(frozen=True)
class Grid:
    """A table: a header and rows of text."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """One part of the report; `data` is what goes into results.json."""

    name: str
    title: str
    text: str
    data: Any
    figures: Sequence[Drawn] = ()
    grids: Sequence[Grid] = ()
    checks: Sequence[Check] = ()


def number(value: float | None, digits: int = 3) -> str:
    """A number with a few significant digits, or a dash."""
    if value is None or value != value:
        return "–"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def size(nbytes: float) -> str:
    """Bytes as KB, MB, GB."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if nbytes < 1000 or unit == "TB":
            break
        nbytes /= 1000
    return f"{nbytes:.3g} {unit}"


def duration(seconds: float | None) -> str:
    """Seconds as ns, µs, ms or s."""
    if seconds is None:
        return "–"
    for unit in ("s", "ms", "µs"):
        if seconds >= 1:
            return f"{seconds:.3g} {unit}"
        seconds *= 1000
    return f"{seconds:.3g} ns"
