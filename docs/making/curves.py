"""Figures of errors, as the planner predicts them, and of answers that releases gave."""

from __future__ import annotations

import csv
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import sparsedp
from sparsedp import demo
from sparsedp.mechanisms.laplace import LaplacePlan
from sparsedp.privacy.randomness import reproducible_for_tests

from .drawing import Palette, axes_of

KEYS = 100_000
M = 20  # keys of a user, where a figure shows one number of them
SEED = 7
PAGES = ("/", "/page/2", "/page/3", "/page/5", "/page/10", "/page/40", "/never-visited")
COUNTS = (0, 5, 10, 20, 40, 60, 80, 120, 160, 220, 300, 400, 500, 600, 700, 750, 800, 850, 900, 1000, 1200)
BOUNDS = (1, 2, 5, 10, 20, 50, 100)

Curve = list[float]


def errors(plan: sparsedp.Plan, counts: tuple[int, ...]) -> Curve:
    """The predicted mean absolute error at each count."""
    return [plan.error(count).mean_absolute for count in counts]


def dense(m: int) -> LaplacePlan:
    """Noise on every key: the limit."""
    problem = sparsedp.plan(1.0, domain=1, sensitivity=m, mechanism="laplace").problem
    return LaplacePlan.create(problem)


@cache
def visits() -> tuple[Curve, Curve, Curve, Curve]:
    """Users of some pages of the made-up log, and what a release says of them."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "visits.csv"
        demo.write_log(log)
        counted = sparsedp.count(str(log), key="url", user="user", max_keys_per_user=10)
    true = dict(zip(counted.keys.to_pylist(), counted.values.tolist(), strict=True))
    with reproducible_for_tests(SEED):
        release = sparsedp.release(counted, epsilon=1.0)
    low, high = release.interval(list(PAGES))
    return [true.get(page, 0) for page in PAGES], release.lookup(list(PAGES)).tolist(), low.tolist(), high.tolist()


def overview(palette: Palette) -> Figure:
    """Counts, and the answers of a release that anyone may have."""
    true, estimates, low, high = visits()
    figure, axes = axes_of(3.5, palette)
    places = np.arange(len(PAGES))[::-1]
    axes.barh(places, true, height=0.62, color=palette.faint, label="users who opened the page (secret)")
    spread = np.array([np.subtract(estimates, low), np.subtract(high, estimates)])
    axes.errorbar(
        estimates, places, xerr=spread, fmt="o", color=palette.ours, markersize=6, capsize=4, elinewidth=2,
        label="what the release answers, with 95 % intervals",
    )  # fmt: skip
    axes.set_yticks(places, PAGES)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.08 * max(high))
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper left")
    return figure


@cache
def by_count() -> dict[str, Curve]:
    """Errors by true count, for users of M keys."""
    pure = {
        name: sparsedp.plan(1.0, nonzero=KEYS, sensitivity=M, mechanism=name) for name in ("threshold", "tight-alp")
    }
    return {
        **{name: errors(plan, COUNTS) for name, plan in pure.items()},
        "threshold-alp": errors(sparsedp.plan(1.0, nonzero=KEYS, sensitivity=M, mechanism="threshold-alp"), COUNTS),
        "retrieval": errors(sparsedp.plan(1.0, 1e-9, nonzero=KEYS, sensitivity=M, mechanism="retrieval"), COUNTS),
        "dense": errors(dense(M), COUNTS),
    }


def _by_count_axes(palette: Palette, height: float) -> tuple[Figure, Any]:
    figure, axes = axes_of(height, palette)
    axes.set(xlabel="true count", ylabel="mean absolute error", xlim=(0, COUNTS[-1]), yscale="log", ylim=(8, 1000))
    axes.set_yticks([10, 20, 50, 100, 200, 500, 1000], ["10", "20", "50", "100", "200", "500", "1000"])
    axes.minorticks_off()
    axes.grid()
    return figure, axes


def error_by_count(palette: Palette) -> Figure:
    """Error against true count, with its limit."""
    curves = by_count()
    figure, axes = _by_count_axes(palette, 4.1)
    # At a count of 0 a threshold has no error, which a logarithmic axis cannot show.
    axes.plot(COUNTS[1:], curves["threshold"][1:], "-.", color=palette.other, label="only large counts: threshold")
    axes.plot(COUNTS, curves["threshold-alp"], ":", color=palette.third, label="the paper's: threshold-alp")
    axes.plot(COUNTS, curves["tight-alp"], "-", color=palette.ours, label="tight-alp (δ = 0)")
    axes.plot(COUNTS, curves["retrieval"], "-", color=palette.ours, linewidth=1, label="retrieval (δ = 10⁻⁹)")
    axes.plot(COUNTS, curves["dense"], "--", color=palette.limit, label="limit: noise on every key")
    figure.legend(loc="outside upper left", ncols=1)
    return figure


def parts_of_threshold_alp(palette: Palette) -> Figure:
    """What each half of `threshold-alp` is good for."""
    curves = by_count()
    figure, axes = _by_count_axes(palette, 3.6)
    axes.plot(COUNTS[1:], curves["threshold"][1:], "-.", color=palette.other, label="the table alone (threshold)")
    axes.plot(COUNTS, curves["threshold-alp"], ":", color=palette.third, label="table and bits (threshold-alp)")
    axes.plot(COUNTS, curves["dense"], "--", color=palette.limit, label="limit: noise on every key")
    figure.legend(loc="outside upper left")
    return figure


@cache
def by_bound() -> dict[str, Curve]:
    """The largest error at any count, by the number of keys of a user; and what the bound keeps of
    the log.
    """
    curves: dict[str, Curve] = {"dense": [], "tight-alp": [], "retrieval": []}
    for m in BOUNDS:
        counts = tuple(m * count for count in (0, 1, 2, 4, 7, 10, 15, 20, 25, 30, 40, 60))
        plans = {
            "dense": dense(m),
            "tight-alp": sparsedp.plan(1.0, nonzero=KEYS, sensitivity=m, mechanism="tight-alp"),
            "retrieval": sparsedp.plan(1.0, 1e-9, nonzero=KEYS, max_keys_per_user=m, mechanism="retrieval"),
        }
        for name, plan in plans.items():
            curves[name].append(max(errors(plan, counts)))
    return curves


@cache
def kept_shares() -> Curve:
    """The share of all (user, page) pairs of the made-up log that each bound keeps."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "visits.csv"
        demo.write_log(log)
        with log.open(encoding="ascii") as file:
            pages: dict[str, set[str]] = {}
            for row in csv.DictReader(file):
                pages.setdefault(row["user"], set()).add(row["url"])
    numbers = np.array([len(each) for each in pages.values()])
    return [float(np.minimum(numbers, m).sum() / numbers.sum()) for m in BOUNDS]


def cost_of_keys(palette: Palette) -> Figure:
    """What m keys per user cost, and what they keep."""
    curves, shares = by_bound(), kept_shares()
    figure, (above, below) = axes_of(4.9, palette, 2, sharex=True, height_ratios=(3, 2))
    above.plot(BOUNDS, curves["tight-alp"], "o-", color=palette.ours, label="tight-alp (δ = 0)")
    above.plot(
        *(BOUNDS, curves["retrieval"], "o-"),
        color=palette.ours,
        linewidth=1,
        markersize=3,
        label="retrieval (δ = 10⁻⁹)",
    )
    above.plot(BOUNDS, curves["dense"], "--", color=palette.limit, label="noise on every key (δ = 0)")
    above.set(xscale="log", yscale="log", title="The error grows with m: largest at any count")
    above.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    above.legend(loc="upper left")
    below.plot(BOUNDS, [100 * share for share in shares], "s-", color=palette.other)
    below.set(title="… and less is cut off: % of a log that counts", ylim=(0, 105))
    below.set_xlabel("m, the number of keys of one user (ε = 1)")
    below.set_xticks(BOUNDS, [str(m) for m in BOUNDS])
    for axes in (above, below):
        axes.minorticks_off()
        axes.grid()
    return figure


RELEASES, TRUE_COUNT = 40, 250


@cache
def repeated() -> tuple[Curve, Curve, Curve]:
    """Answers of independent releases of the same counts, about one key."""
    counts = {f"key {i}": 40 + i for i in range(100)} | {"ours": TRUE_COUNT}
    answers: tuple[Curve, Curve, Curve] = ([], [], [])
    for seed in range(RELEASES):
        with reproducible_for_tests(seed):
            release = sparsedp.release(counts, epsilon=1.0, nonzero=1_000, sensitivity=M)
        low, high = release.interval(["ours"])
        for series, value in zip(answers, (release["ours"], low[0], high[0]), strict=True):
            series.append(float(value))
    return answers


def intervals(palette: Palette) -> Figure:
    """Intervals of many releases, and the true count."""
    estimates, low, high = repeated()
    figure, axes = axes_of(3.2, palette)
    places = np.arange(RELEASES)
    missed = [not least <= TRUE_COUNT <= most for least, most in zip(low, high, strict=True)]
    colours = [palette.other if miss else palette.ours for miss in missed]
    axes.vlines(places, low, high, colors=colours, linewidth=2.5)
    axes.scatter(places, estimates, s=16, color=palette.ink, zorder=3)
    axes.axhline(TRUE_COUNT, color=palette.limit, linestyle="--", linewidth=1.5)
    axes.text(RELEASES - 0.5, TRUE_COUNT - 8, "true count", va="top", ha="left", rotation=90, color=palette.limit)
    covered = RELEASES - sum(missed)
    axes.set(
        title=f"{covered} of {RELEASES} intervals contain the true count of {TRUE_COUNT}",
        xlabel="release",
        ylim=(0, None),
    )
    axes.set_xticks([0, 10, 20, 30, 39], ["1", "11", "21", "31", "40"])
    axes.set_ylabel("estimate, 95 % interval")
    return figure


DAYS, DAILY = 30, ("/home", "/news")


@cache
def month() -> tuple[Curve, Curve, Curve]:
    """Estimates and intervals of two pages in a series of thirty days, one page after the other."""
    days = {}
    for at in range(DAYS):
        weekend = at % 7 in (0, 1)  # June 2024 begins with a Saturday
        counts = {page: (1200, 830)[rank] // (1 + weekend) + at for rank, page in enumerate(DAILY)}
        with reproducible_for_tests(at):
            days[f"2024-06-{at + 1:02}"] = sparsedp.release(
                counts, epsilon=0.5, delta=1e-7, noise="gaussian", max_keys_per_user=8, mechanism="retrieval"
            )
    series = sparsedp.series(days)
    low, high = series.interval(list(DAILY))
    estimates, below, above = (answers.T.ravel().tolist() for answers in (series.lookup(list(DAILY)), low, high))
    return estimates, below, above


def every_day(palette: Palette) -> Figure:
    """Two pages over a month, with the bands of their intervals."""
    figure, axes = axes_of(3.4, palette)
    days = np.arange(1, DAYS + 1)
    estimates, low, high = (np.reshape(part, (len(DAILY), DAYS)) for part in month())
    for at, colour in enumerate((palette.ours, palette.other)):
        axes.fill_between(days, low[at], high[at], color=colour, alpha=0.2, linewidth=0)
        axes.plot(days, estimates[at], "o-", color=colour, markersize=3, label=DAILY[at])
    axes.set(title="A month of daily releases, with 95 % intervals", xlabel="day of June", ylim=(0, None))
    axes.set_ylabel("visitors")
    axes.set_xticks([1, 8, 15, 22, 29])
    axes.legend(loc="upper right", ncols=2)
    axes.grid()
    return figure
