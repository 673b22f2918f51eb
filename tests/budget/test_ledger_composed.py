"""Ledgers that compose: how much fits, which events releases hand over, periods, and ledgers that were
made before.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sparsedp
from ledgers import EVENT, composing
from responses import Exact
from sparsedp.budget import store
from sparsedp.budget.accounting import Composition
from sparsedp.budget.balance import Balance
from sparsedp.budget.book import Budget, Tally
from sparsedp.budget.kinds import Debit
from sparsedp.budget.ledger import Ledger
from sparsedp.errors import BudgetError, LedgerError, ParameterError
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.planning.drafts import draft
from sparsedp.planning.request import Request
from sparsedp.privacy.events import GaussianEvent


def fill(ledger: Ledger, debits: int, epsilon: str = "0.1") -> None:
    """Many debits at once, each its own."""
    with store.transaction(ledger.path, 30.0, write=True) as book:
        for _ in range(debits):
            book.change("debit", len(book.entries) + 1, "default", epsilon, "0.0", "m", "", "2026-01-01T00:00:00+00:00")


def test_as_many_releases_fit_as_their_exact_composition_allows(path: Path) -> None:
    """65 by adding up, more than 85 composed, and not one more than rational arithmetic allows."""
    ledger = composing(path)
    fill(ledger, 65)
    fill(ledger, 20)
    ledger.spend(epsilon=0.1)
    more = ledger.plan(epsilon=0.1).more
    assert more == 83
    fill(ledger, more - 1)
    assert ledger.spend(epsilon=0.1).id == 169
    with pytest.raises(BudgetError, match=r"cost ε = 6\.49597 and would cost ε = 6\.53798, for .* nothing was spent"):
        ledger.spend(epsilon=0.1)
    assert ledger.plan(epsilon=0.1).more == 0
    assert Exact(["0.1"] * 169).delta(6.5) <= Fraction("1e-6") < Exact(["0.1"] * 170).delta(6.5)
    (balance,) = ledger.datasets()
    assert balance.spent_epsilon == 16.9
    assert 6.4 < balance.composed_epsilon <= 6.5
    assert 0 < balance.left_epsilon < 0.1


def test_a_year_of_daily_releases_costs_what_the_page_says(path: Path) -> None:
    ledger = composing(path, epsilon=36.5)
    fill(ledger, 365)
    (balance,) = ledger.datasets()
    assert round(balance.composed_epsilon, 2) == 10.31
    assert balance.spent_epsilon == 36.5
    assert balance.releases == 365


def test_composing_is_never_worse_than_adding_up(path: Path) -> None:
    ledger = composing(path, epsilon=1.0)
    ledger.spend(epsilon=0.75, delta=9e-7)
    ledger.spend(epsilon=0.25, delta=1e-7)
    assert ledger.datasets()[0].composed_epsilon <= 1.0
    with pytest.raises(BudgetError, match="nothing was spent"):
        ledger.spend(epsilon=0.5)


def test_what_is_left_can_be_spent(path: Path) -> None:
    ledger = composing(path, epsilon=2.0)
    fill(ledger, 20)
    left = ledger.datasets()[0].left_epsilon
    assert left > 0.19
    ledger.spend(epsilon=left)


@pytest.mark.parametrize("delta", [0.0, 1e-11])
def test_composing_needs_a_delta(path: Path, delta: float) -> None:
    with pytest.raises(ParameterError, match=r"delta must be at least 1e-10 with accounting='pld', got .*'basic'"):
        composing(path, delta=delta)
    assert not path.exists()


@pytest.mark.parametrize("bad", [{"accounting": "rdp"}, {"accounting": None}, {"per": "year"}, {"per": 1}, {"per": ""}])
def test_other_kinds_of_budgets_are_refused(path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"^(accounting|per) must be 'basic' or 'pld'|^per must be 'day', 'week'"):
        Ledger.create(path, epsilon=1, delta=1e-6, **bad)
    assert not path.exists()


def test_no_decision_needs_the_package_that_totals_are_compared_with() -> None:
    """Catches an import that takes longer than everything else in a new process."""
    script = """
import sys
from sparsedp import Ledger
ledger = Ledger.create(sys.argv[1], epsilon=1.5, delta=1e-6, accounting="pld")
for number in range(30):
    ledger.spend(epsilon=0.04 + number / 1000)
assert ledger.datasets()[0].spent_epsilon > 1.5
assert not {"dp_accounting", "scipy", "pandas", "duckdb"} & set(sys.modules), set(sys.modules)
"""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", script, f"{folder}/ledger.db"], check=True)


class Unreadable(dict[str, int]):
    """Counts that nobody may read."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the data was read")

    items = keys = values = __len__ = __iter__  # type: ignore[assignment]  # that is the point


@pytest.mark.parametrize("kind", ["basic", "pld"])
def test_a_release_that_does_not_fit_reads_nothing(path: Path, kind: str) -> None:
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6, accounting=kind)
    with pytest.raises(BudgetError, match="nothing was spent"):
        sparsedp.release(Unreadable(), epsilon=2.0, nonzero=5, ledger=ledger)
    with pytest.raises(AssertionError, match="the data was read"):
        sparsedp.release(Unreadable(), epsilon=0.5, nonzero=5, ledger=ledger)
    assert ledger.entries() == []


def test_a_gaussian_release_hands_over_its_law(path: Path) -> None:
    ledger = composing(path, epsilon=6.0, delta=1e-4)
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "noise": "gaussian", "max_keys_per_user": 20}
    for mechanism in ("retrieval", "stability"):
        made = sparsedp.release({"a": 500, "b": 3}, mechanism=mechanism, ledger=ledger, **options)
        entry = ledger.entries()[-1]
        assert entry.event is not None
        event = GaussianEvent.read(entry.event)
        noise = made.plan.stage.noise if mechanism == "stability" else made.plan.buckets  # type: ignore[attr-defined]
        assert (event.moves[0].law, event.moves[0].draws, event.moves[0].by) == (noise, 20, 1)
        assert event.covers(1.0, 1e-6)
        if mechanism == "retrieval":
            assert event.moves[1].law == made.plan.problem.sizing_noise
            lost = {name: part for name, part in made.plan.delta_parts.items() if name != "noise"}
            assert sum(lost.values()) <= event.delta * (1 + 1e-9)
    assert ledger.datasets()[0].composed_epsilon < 1.3
    assert ledger.plan().more >= 25  # by adding up, 4
    assert ledger.plan(epsilon=1.0, delta=1e-6).more < 15  # a pair says less than the law of the noise


@pytest.mark.parametrize("keys", [1, 20, 300])
@pytest.mark.parametrize("nonzero", [None, 1000, 10**6])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
@pytest.mark.parametrize("keep_keys", [False, True])
def test_an_event_has_the_law_and_all_other_deltas_of_any_plan_that_may_follow(
    keys: int, nonzero: int | None, delta: float, keep_keys: bool
) -> None:
    """The noisy number of keys is not known when the event is stated."""
    asked = {"epsilon": 1.0, "delta": delta, "mechanism": "retrieval", "noise": "gaussian", "nonzero": nonzero}
    absent = ("total", "upper", "domain", "sensitivity", "step", "max_per_key", "sizing_share")
    rest = {"signed": False, "parts": 1, "keep_keys": keep_keys, "max_keys_per_user": keys, "options": {}}
    drafted = draft(Request.of(asked | rest | dict.fromkeys(absent)))
    assert drafted.event is not None
    event = GaussianEvent.read(drafted.event)
    for number in (-5, 10, 10**5):
        plan = drafted.finish([number])
        assert isinstance(plan, RetrievalPlan)
        assert [move.law for move in event.moves] == [plan.buckets, plan.problem.sizing_noise]
        others = sum((part for name, part in plan.delta_events.items() if name != "noise"), Fraction(0))
        assert others <= Fraction(event.delta)


def test_geometric_releases_have_no_event(path: Path) -> None:
    ledger = composing(path, epsilon=6.0)
    sparsedp.release({"a": 5}, epsilon=1.0, ledger=ledger)
    sparsedp.release({"a": 5}, epsilon=1.0, delta=1e-8, noise="geometric", ledger=ledger)
    assert [entry.event for entry in ledger.entries()] == [None, None]


@pytest.mark.parametrize("event", ["gaussian: nothing", "decide", "x" * 20_000, 7])
def test_an_event_that_is_none_is_refused(path: Path, event: Any) -> None:
    ledger = composing(path)
    with pytest.raises(ParameterError, match="event must be"):
        ledger.spend(epsilon=1.0, delta=1e-7, event=event)
    assert ledger.entries() == []


def test_an_event_that_states_too_little_is_refused(path: Path) -> None:
    ledger = composing(path)
    for epsilon, delta in ((1.5, 1e-6), (1.0, 2e-6)):
        with pytest.raises(ParameterError, match=r"event must be that of the release, .* must state at least"):
            ledger.spend(epsilon=epsilon, delta=delta, event=EVENT)
    ledger.spend(epsilon=1.0, delta=1e-6, event=EVENT)
    assert ledger.entries()[0].event == EVENT


def test_an_event_in_the_file_that_states_too_little_is_named(path: Path) -> None:
    ledger = composing(path)
    with store.transaction(path, 1.0, write=True) as book:
        row = ("default", "2.0", "0.001", "m", "", "2026-01-01T00:00:00+00:00", EVENT)
        book.change("debit", 1, *row)
    with pytest.raises(LedgerError, match=r"must state at least ε = 2\.0, δ = 0\.001 of its release"):
        ledger.spend(epsilon=5.0)


def test_suggestions_are_added_and_releases_after_them_composed(path: Path) -> None:
    ledger = composing(path, epsilon=3.0)
    ledger.spend(epsilon=0.5, mechanism="suggest", event="decides")
    alone = composing(path.with_name("alone"), epsilon=2.5)
    fill(ledger, 20)
    fill(alone, 20)
    assert ledger.plan(epsilon=0.1).more == alone.plan(epsilon=0.1).more
    assert ledger.entries()[0].event == "decides"


def test_the_plan_is_what_then_fits(path: Path) -> None:
    ledger = composing(path, epsilon=1.0)
    with pytest.raises(ParameterError, match="epsilon must be given: data set 'default' has no release yet"):
        ledger.plan()
    ledger.spend(epsilon=0.125, mechanism="laplace")
    outlook = ledger.plan()
    assert (outlook.epsilon, outlook.mechanism, outlook.accounting) == (0.125, "laplace", "pld")
    for _ in range(outlook.more):
        ledger.spend(epsilon=0.125)
    with pytest.raises(BudgetError):
        ledger.spend(epsilon=0.125)
    assert ledger.plan(epsilon=1e-7).more >= 0
    basic = Ledger.create(path.with_name("basic"), epsilon=1.0)
    assert basic.plan(epsilon=0.1).more == 10
    assert basic.plan(epsilon=1e-9).more == 1_000_000
    assert basic.plan(epsilon=1.1).more == basic.plan(epsilon=0.1, delta=1e-9).more == 0


def test_a_huge_epsilon_is_refused_and_shown(path: Path) -> None:
    """Catches squares of ε that no float can hold."""
    with pytest.raises(ParameterError, match=r"epsilon must be at most 1e\+100 with accounting='pld', got 1e\+160"):
        composing(path, epsilon=1e160)
    assert not path.exists()
    ledger = composing(path)
    ledger.spend(epsilon=5e-324)  # whose grid is so fine that no integer counts its steps up to the total
    for epsilon in (1e155, 1e308):
        with pytest.raises(BudgetError, match="nothing was spent"):
            ledger.spend(epsilon=epsilon)
        assert ledger.plan(epsilon=epsilon).more == 0
    Ledger.create(path, epsilon=1e160, delta=1e-6, dataset="huge")
    with pytest.raises(BudgetError, match=r"must have an ε of at most 1e\+100 for accounting='pld', got 'huge'"):
        ledger.upgrade(dataset="huge")
    with store.transaction(path, 1.0, write=True) as book:  # as they could be made before
        book.add_budget("old", Budget("1e+160", "1e-06", "2026-01-01T00:00:00+00:00", "pld"))
    for _ in range(2):
        ledger.spend(epsilon=4e159, dataset="old")
    assert ledger.datasets()[-1].composed_epsilon == pytest.approx(8e159)
    assert ledger.plan(dataset="old").more == 0


def test_what_costs_more_than_any_epsilon_leaves_nothing() -> None:
    budget, tally = Budget("1.0", "1e-06", "", "pld"), Tally("", Composition(1e-6))
    tally.add(Debit("0.1", "0.5", ""))
    balance = Balance.of("default", budget, tally)
    assert math.isinf(balance.composed_epsilon)
    assert balance.left_epsilon == balance.left_delta == 0
