"""Budgets that begin anew with each calendar period, in UTC."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

from ..errors import ParameterError

PERIODS = ("day", "week", "month")


def check_period(per: str | None) -> str:
    """The period of a budget, empty if there is none; or `ParameterError`."""
    if per is None:
        return ""
    if per in PERIODS:
        return per
    raise ParameterError(f"per must be 'day', 'week' or 'month', or left out, got {per!r}")


def period_of(time: str, per: str) -> str:
    """The calendar period of a time, such as 2026-11-17, 2026-W47 or 2026-11; later ones are larger
    texts. Without periods, the empty text.
    """
    if not per:
        return ""
    moment = datetime.fromisoformat(time).astimezone(timezone.utc)
    week = moment.isocalendar()
    return {"day": f"{moment:%Y-%m-%d}", "week": f"{week[0]:04}-W{week[1]:02}", "month": f"{moment:%Y-%m}"}[per]


def day_after(period: str, per: str) -> date | None:
    """The first day after a calendar period; None after the last one that calendars have."""
    year, *rest = (int(part) for part in period.replace("W", "").split("-"))
    try:
        if per == "month":
            return date(year + rest[0] // 12, rest[0] % 12 + 1, 1)
        last = date(year, *rest) if per == "day" else date.fromisocalendar(year, rest[0], 7)
        return last + timedelta(days=1)
    except (ValueError, OverflowError):
        return None
