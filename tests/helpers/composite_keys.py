"""Values of keys of several columns."""

from __future__ import annotations

from datetime import date, datetime, timezone

DAY, OTHER = date(2024, 2, 29), date(1969, 12, 31)
TIME = datetime(2024, 2, 29, 12, 30, 1, 500_000)
UTC_TIME = TIME.replace(tzinfo=timezone.utc)
