"""Pictures show what lookups answer, are figures that notebooks show, and need no display."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparsedp
from releases import make
from sparsedp import MissingDependencyError, ParameterError
from sparsedp._util import plotting
from sparsedp.counting.suggestion import Choice
from sparsedp.planning.comparison import ComparisonRow
from sparsedp.releasing import pictures

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def release() -> sparsedp.Release:
    counts = {f"/page/{n}": 3_000 // (n + 1) for n in range(200)}
    return sparsedp.release(counts, epsilon=1.0, max_keys_per_user=20)


def labels(figure: Any) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def drawn(figure: Any) -> tuple[Any, Any, Any]:
    """The dots of a picture, and the ends of its intervals."""
    (axes,) = figure.axes
    (dots,) = axes.lines
    ends = np.array(axes.collections[0].get_segments())
    return dots.get_xdata(), ends[:, 0, 0], ends[:, 1, 0]


def test_a_picture_has_the_answers_of_lookups(release: sparsedp.Release) -> None:
    keys = ["/page/0", "/never", "/page/9"]
    estimates, low, high = drawn(release.plot(iter(keys), confidence=0.9))
    np.testing.assert_array_equal(estimates, release.lookup(keys))
    np.testing.assert_array_equal((low, high), release.interval(keys, 0.9))
    assert labels(release.plot(keys)) == keys
    assert "90 %" in release.plot(keys, confidence=0.9).axes[0].get_title()


def test_one_key_is_not_a_list_of_letters(release: sparsedp.Release) -> None:
    assert labels(release.plot("/page/0")) == ["/page/0"]
    rows = sparsedp.release({("de", 1): 500, ("fr", 2): 100}, epsilon=1)
    assert labels(rows.plot(("de", 1))) == labels(rows.plot([("de", 1)])) == ["de, 1"]
    assert labels(rows.plot((["de", "fr"], [1, 2]))) == ["de, 1", "fr, 2"]


def test_without_keys_the_largest_stored_ones_are_shown() -> None:
    kept = make("stability-kept")
    top = kept.top(4)
    assert labels(kept.plot(n=4)) == [str(key) for key in top.keys]
    np.testing.assert_array_equal(drawn(kept.plot(n=4))[0], top.estimates)
    assert labels(make("laplace").plot(n=2)) == [str(key) for key in make("laplace").top(2).keys]
    hashed = make("tight-alp")
    assert labels(hashed.plot(n=1)) == [str(hashed.top(1).keys[0])]
    with pytest.raises(ParameterError, match="keys to plot"):
        make("alp").plot()
    assert labels(make("alp").plot([1, 2])) == ["1", "2"]


def test_intervals_without_an_end_go_to_the_edge() -> None:
    values = np.array([5.0, -3.0])
    figure = pictures.dots(["a", "b"], values, np.array([-np.inf, -9.0]), np.array([np.inf, 4.0]), 0.95, None)
    _, low, high = drawn(figure)
    assert figure.axes[0].get_xlim() == (low[0], high[0])
    assert (low[1], high[1]) == (-9, 4)
    assert figure._repr_png_()[0].startswith(PNG)


def test_names_are_shown_as_they_are(release: sparsedp.Release) -> None:
    figure = release.plot(["$x^2$", "_hidden", "<b>"])
    assert [label.replace("\\$", "$") for label in labels(figure)] == ["$x^2$", "_hidden", "<b>"]
    assert figure._repr_png_()[0].startswith(PNG)


@pytest.mark.parametrize("count", [0, 61])
def test_too_many_keys_or_none_are_refused(release: sparsedp.Release, count: int) -> None:
    with pytest.raises(ParameterError, match=f"must be 1 to 60, got {count}"):
        release.plot([f"/page/{n}" for n in range(count)])


def test_a_plan_shows_its_predictions() -> None:
    plan = sparsedp.plan(1.0, mechanism="laplace", domain=100, max_keys_per_user=20)
    values = [0.0, 20.0, 200.0]
    (axes,) = plan.plot(values=values).axes
    line = axes.lines[0]
    assert line.get_ydata().tolist() == [plan.error(value).mean_absolute for value in values]
    shown = plan.plot().axes[0].lines[0].get_xdata()
    assert shown[0] == 0
    assert shown[-1] > 300
    cut = sparsedp.plan(1.0, mechanism="laplace", domain=100, upper=7).plot().axes[0].lines[0].get_xdata()
    assert cut[-1] == 7


def test_a_comparison_has_a_line_for_each_mechanism_that_is_possible() -> None:
    comparison = sparsedp.compare(1.0, nonzero=100, max_keys_per_user=20)
    figure = comparison.plot(values=[0, 10])
    possible = [row.mechanism for row in comparison if row.plan is not None]
    assert [line.get_label() for line in figure.axes[0].lines] == possible
    assert [text.get_text() for text in figure.legends[0].get_texts()] == possible
    with pytest.raises(ParameterError, match="no mechanism to plot"):
        sparsedp.Comparison(()).plot()


def pictures_of(release: sparsedp.Release) -> dict[str, Any]:
    plan = sparsedp.plan(1.0, mechanism="laplace", domain=10)
    curves = sparsedp.ErrorCurves((0.0, 5.0), {"ours": (1.0, 2.0)})
    return {
        "release": release,
        "plan": plan,
        "curves": curves,
        "comparison": sparsedp.Comparison((ComparisonRow("laplace", plan),)),
        "suggestion": sparsedp.Suggestion(2, 1.0, 0.1, 50.0, (choice(1, 5.0), choice(2, 4.0))),
        "series": sparsedp.series({"a": release}),
    }


def choice(keys: int, error: float) -> Any:
    return Choice(keys, 0.5, 1.0, error)


@pytest.mark.parametrize("name", ["release", "plan", "curves", "comparison", "suggestion", "series"])
def test_a_picture_is_a_figure_and_is_written_if_there_is_a_path(
    name: str, release: sparsedp.Release, tmp_path: Path
) -> None:
    thing = pictures_of(release)[name]
    keys = (["/page/0"],) if name in ("release", "series") else ()
    few: dict[str, Any] = {"values": [0, 5]} if name in ("plan", "comparison") else {}
    figure = thing.plot(*keys, path=tmp_path / "a.png", **few)
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    content, size = figure._repr_png_()
    assert content.startswith(PNG)
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (2 * size["width"], 2 * size["height"])
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    assert thing.plot(*keys, tmp_path / "b.svg", **few) is not figure
    assert "<svg" in (tmp_path / "b.svg").read_text()


def test_without_matplotlib_it_says_what_to_install(release: sparsedp.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    plotting.figure_class.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    try:
        with pytest.raises(MissingDependencyError, match="plot"):
            release.plot("/page/0")
    finally:
        plotting.figure_class.cache_clear()
