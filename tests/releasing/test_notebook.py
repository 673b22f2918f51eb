"""What notebooks show: the guarantee in words, escaped, at once, and in the page's own colours."""

from __future__ import annotations

import re
import time
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest

import sparsedp
from releases import DIRECTORIES, VARIANTS, make
from sparsedp.counting.suggestion import Choice
from sparsedp.mechanisms import Plan
from sparsedp.mechanisms.words import guarantee, kind_of_keys
from sparsedp.planning.plans import make_plan
from sparsedp.planning.request import Request
from sparsedp.privacy.contributions import Contribution


class Checked(HTMLParser):
    """The text of a page whose tags are plain and all closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("table", "caption", "tr", "th", "td", "b", "p")
        assert {name for name, _ in attrs} <= {"style", "colspan"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def shown(thing: Any) -> str:
    """The text of what a notebook shows."""
    page = thing._repr_html_()
    assert len(page) < 10_000
    assert not re.search(r"url\(|https?:|background|#[0-9a-f]{3}|color: (?!inherit)", page)
    return "\n".join(Checked(page).text)


@pytest.mark.parametrize("name", [*VARIANTS, *DIRECTORIES])
def test_a_release_shows_its_guarantee(name: str) -> None:
    release = make(name)
    text = shown(release)
    for said in (release.mechanism, f"ε = {release.epsilon:.6g}", guarantee(release.plan), f"{release.nbytes:,} bytes"):
        assert said in text
    assert kind_of_keys(release.key_space, release.plan.problem.keep_keys) in text
    assert "protects nobody" in text  # these are made for tests
    assert ("Parts" in text) == (name in DIRECTORIES)


def test_a_release_of_secure_noise_has_no_warning() -> None:
    text = shown(sparsedp.release({"a": 1}, epsilon=1))
    assert "tests" not in text
    assert "text, hashed" in text


def test_a_plan_shows_bounds_and_simulates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("simulated")

    monkeypatch.setattr(Plan, "error", refuse)
    for mechanism in sparsedp.mechanisms.MECHANISMS:
        delta = 1e-6 if mechanism in ("stability", "retrieval") else 0.0
        plan = sparsedp.plan(1.0, delta, nonzero=1000, domain=10**5, mechanism=mechanism)
        assert f"{mechanism} (asked for by name)" in shown(plan)
        assert "Error bounds" in shown(plan)
    assert "not known" in shown(sparsedp.plan(1.0, mechanism="threshold"))
    shown(sparsedp.compare(1.0, 1e-9, nonzero=1000))


def test_a_comparison_shows_every_mechanism_or_why_not() -> None:
    comparison = sparsedp.compare(1.0, nonzero=1000)
    text = shown(comparison)
    for row in comparison:
        assert row.mechanism in text
        assert row.refusal in text
    assert text.count("not possible") == sum(row.plan is None for row in comparison) > 0


def test_a_series_shows_what_all_releases_protect() -> None:
    series = sparsedp.series({"monday": make("tight-alp"), "tuesday": make("tight-alp", seed=6)})
    text = shown(series)
    for said in ("2, monday to tuesday", "tight-alp", series.guarantee, f"ε = {series.epsilon:.4g}"):
        assert said in text


def test_a_suggestion_shows_every_bound_and_marks_one() -> None:
    choices = tuple(Choice(keys, 0.25 * keys, 2.0 * keys, 1000.0 - keys) for keys in (1, 2, 3))
    text = shown(sparsedp.Suggestion(2, 1.0, 0.07, 1234.0, choices))
    for said in ("max_keys_per_user = 2", "ε = 0.07", "75.0%", "997", "1,234"):
        assert said in text
    assert text.count("← chosen") == 1


def test_a_ranking_shows_its_first_keys_and_how_many_are_left() -> None:
    release = make("tight-alp")
    text = shown(release.top(3, candidates=range(60)))
    assert all(column in text for column in ("key", "estimate", "low", "high"))
    assert "more" not in text
    many = shown(release.top(60, candidates=range(60)))
    assert "and 30 more; to_pandas() has all" in many
    pairs = shown(make("columns-kept").top(2))
    assert "2024-" in pairs
    escaped = sparsedp.release({"<b>&": 10**6}, epsilon=1).top(1, candidates=["<b>&"])
    assert "<b>&" in shown(escaped)
    assert "<b>" not in escaped._repr_html_()


def test_ipython_prints_plans_and_comparisons_in_one_line() -> None:
    # Their fields are the laws of noise and ladders, up to a megabyte.
    class Printer:
        said = ""

        def text(self, words: str) -> None:
            self.said += words

    for thing in (sparsedp.plan(1.0, nonzero=100), sparsedp.compare(1.0, nonzero=100)):
        printer = Printer()
        thing._repr_pretty_(printer, False)
        assert 10 < len(printer.said) < 100


def test_what_is_shown_takes_no_time() -> None:
    things = [make("tight-alp"), sparsedp.plan(1.0, nonzero=10**6), sparsedp.compare(1.0, 1e-9, nonzero=10**6)]
    start = time.perf_counter()
    for thing in things:
        shown(thing)
    assert time.perf_counter() - start < 1


def test_names_are_escaped() -> None:
    name = "<script>alert('&')</script>"
    events = pd.DataFrame({"k": ["a"], name: [1]})
    counts = sparsedp.count(events, key="k", user=name, max_keys_per_user=1)
    page = sparsedp.release(counts, epsilon=1)._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert repr(name) in "".join(Checked(page).text)


@pytest.mark.parametrize(("epsilon", "factor"), [(1.0, "2.72"), (20.0, "485,1"), (800.0, "e^799.999")])
def test_the_guarantee_has_words_for_every_epsilon(epsilon: float, factor: str) -> None:
    plan = sparsedp.plan(epsilon, nonzero=10, sensitivity=100, mechanism="threshold")
    assert f"by at most a factor of {factor}" in guarantee(plan)
    assert factor in shown(plan)


def test_the_guarantee_speaks_of_users_where_they_are_known() -> None:
    contribution = Contribution(3, Fraction(2), "person")
    request = Request(1.0, 1e-6, "stability", nonzero=10, sensitivity=6, contribution=contribution)
    words = guarantee(make_plan(request))
    assert words.startswith("Whether any one user is in the data or not changes")
    assert "(δ)" in words
    assert "users told apart by 'person'" in words
    assert "It assumes that" in guarantee(sparsedp.plan(1.0, nonzero=10, mechanism="compact"))


def test_words_round_delta_up() -> None:
    words = guarantee(sparsedp.plan(1.0, 1e-9, nonzero=1000, mechanism="stability"))
    stated = float(words.split("probability of ")[-1].split(" ")[0])
    assert sparsedp.plan(1.0, 1e-9, nonzero=1000, mechanism="stability").delta <= stated <= 1e-9
