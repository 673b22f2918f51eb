"""Labels of releases in a series: text, usually dates, whose text has their order."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import TypeAlias

from ..errors import ParameterError

Label: TypeAlias = str | date

DAY = re.compile(r"(?<![0-9])([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?![0-9])")
MONTH = re.compile(r"(?<![0-9])([0-9]{4})-([0-9]{2})(?![-0-9])")


def text_of(label: object) -> str:
    """The text of a label, or `ParameterError`."""
    if isinstance(label, datetime):
        if label.time() != time():
            raise ParameterError(f"a label must be text or a date, got {label!r}, which is a time of a day")
        label = label.date()
    if isinstance(label, date):
        return label.isoformat()
    if isinstance(label, str) and label:
        return label
    raise ParameterError(f"a label must be text or a date, got {label!r}")


def is_dated(label: str) -> bool:
    """Whether a label is a day or a month of the calendar; their text has their order."""
    return as_day(label) is not None or (MONTH.fullmatch(label) is not None and as_day(f"{label}-01") is not None)


def as_day(label: str) -> date | None:
    """The day that a label is, if it is one."""
    try:
        return date.fromisoformat(label) if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", label) else None
    except ValueError:
        return None
