"""Budgets per calendar period: a new one in each, and never one of the past."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparsedp.budget import ledger as ledger_module
from sparsedp.budget import store
from sparsedp.budget.ledger import Ledger
from sparsedp.budget.periods import day_after, period_of
from sparsedp.errors import BudgetError

DAYS = {"day": "2026-11-18", "week": "2026-11-23", "month": "2026-12-01"}


@pytest.mark.parametrize(("per", "name"), [("day", "2026-11-17"), ("week", "2026-W47"), ("month", "2026-11")])
@pytest.mark.parametrize("kind", ["basic", "pld"])
def test_a_new_period_has_a_new_budget(
    path: Path, per: str, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at(day: str) -> None:
        monkeypatch.setattr(ledger_module, "_now", lambda: f"{day}T23:59:59.999999+00:00")

    at("2026-11-17")
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6, per=per, accounting=kind)
    ledger.spend(epsilon=0.75)
    with pytest.raises(
        BudgetError, match=rf"{name} \(UTC\).*wait for the next {per}, which begins on {DAYS[per]} \(UTC\)$"
    ):
        ledger.spend(epsilon=0.5)
    at(DAYS[per])
    assert ledger.datasets()[0].left_epsilon == 1.0
    ledger.spend(epsilon=0.75)
    assert ledger.datasets()[0].releases == 1
    at("2026-11-17")  # the clock is set back: what is left there was given up
    assert ledger.datasets()[0].period != name
    after = {"day": "2026-11-19", "week": "2026-11-30", "month": "2027-01-01"}[per]
    with pytest.raises(BudgetError, match=rf"begins on {after} \(UTC\): the clock says {name}, but the ledger"):
        ledger.spend(epsilon=0.5)
    store._checked.clear()
    with pytest.raises(BudgetError):
        Ledger.open(path).spend(epsilon=0.5)
    assert len(ledger.entries()) == 2


def test_weeks_and_days_are_those_of_utc_and_of_the_calendar() -> None:
    assert period_of("2027-01-01T00:30:00+01:00", "day") == "2026-12-31"
    assert period_of("2027-01-01T00:00:00+00:00", "week") == "2026-W53"
    assert period_of("2027-01-04T00:00:00+00:00", "week") == "2027-W01"
    assert period_of("2026-12-31T23:30:00-01:00", "month") == "2027-01"
    assert str(day_after("2026-12-31", "day")) == str(day_after("2026-12", "month")) == "2027-01-01"
    assert str(day_after("2026-W53", "week")) == "2027-01-04"


@pytest.mark.parametrize("per", ["day", "week", "month"])
def test_a_clock_that_was_once_at_the_end_of_all_calendars_leaves_a_refusal(
    path: Path, monkeypatch: pytest.MonkeyPatch, per: str
) -> None:
    """Catches a message that cannot name the next period."""
    monkeypatch.setattr(ledger_module, "_now", lambda: "9999-12-31T23:00:00.000000+00:00")
    ledger = Ledger.create(path, epsilon=1.0, per=per)
    ledger.spend(epsilon=0.75)
    with pytest.raises(BudgetError, match=f"wait for the next {per}, which never begins$"):
        ledger.spend(epsilon=0.5)
    monkeypatch.setattr(ledger_module, "_now", lambda: "2026-01-01T00:00:00.000000+00:00")
    with pytest.raises(BudgetError, match=r"never begins: the clock says 2026-.*, but the ledger has reached 9999-"):
        ledger.spend(epsilon=0.5)
