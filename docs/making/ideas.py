"""Figures of the mechanisms: what each of them publishes, with real plans and laws."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import sparsedp
from sparsedp.mechanisms.retrieval import RetrievalPlan
from sparsedp.mechanisms.tight_alp import TightAlpPlan
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.structures.thresholds import StableStage, Stage

from .drawing import TEXT, Palette, arrow, axes_of, box, canvas, cell

Curve = list[float]

LADDER_COUNT, LADDER_STEP = 150, 20


@cache
def ladder_laws() -> tuple[Curve, Curve, Curve]:
    """The anchors of the ladder for users of 20 keys, and the law of the symbol at two counts."""
    plan = sparsedp.plan(1.0, nonzero=100_000, sensitivity=LADDER_STEP, mechanism="tight-alp")
    assert isinstance(plan, TightAlpPlan)
    ladder = plan.blocks.ladder
    assert ladder.recipe is not None
    level = next(level for level in ladder.levels if level.start <= LADDER_COUNT < level.start + level.height)
    first = sum((1 << lower.bits) - 1 for lower in ladder.levels if lower.start < level.start)
    anchors = list(ladder.recipe.anchors[first : first + level.symbols])
    laws = [
        level.law[count - level.start, : len(anchors)].tolist() for count in (LADDER_COUNT, LADDER_COUNT + LADDER_STEP)
    ]
    return [float(anchor) for anchor in anchors], laws[0], laws[1]


def ladder(palette: Palette) -> Figure:
    """How a count becomes a symbol on a ladder."""
    anchors, law, moved = ladder_laws()
    ratio = max(max(b / a, a / b) for a, b in zip(law, moved, strict=True))
    assert ratio <= math.e
    shown = [i for i, anchor in enumerate(anchors) if anchor <= 400]
    drawn = next(i for i in shown if anchors[i] > LADDER_COUNT + 25)
    figure, (above, rungs) = axes_of(4.3, palette, 2, height_ratios=(5, 1), sharex=True)
    places = [anchors[i] for i in shown]
    above.vlines(
        places, 0, [law[i] for i in shown], color=palette.ours, linewidth=4, label=f"at the count {LADDER_COUNT}"
    )
    label = f"at {LADDER_COUNT + LADDER_STEP}: by a factor of at most {ratio:.2f} more or less likely"
    marks = {"markersize": 9, "markeredgewidth": 2, "color": palette.other}
    above.plot(places, [moved[i] for i in shown], "_", label=label, **marks)
    above.axvline(LADDER_COUNT, color=palette.ink, linestyle="--", linewidth=1.2)
    above.annotate(
        f"one symbol is drawn:\n“about {anchors[drawn]:.0f}”", (anchors[drawn], law[drawn]), (250, 1.02 * max(law)),
        arrowprops={"arrowstyle": "-|>", "color": palette.ink}, va="top",
    )  # fmt: skip
    above.set(ylabel="probability of a symbol", xlim=(-6, 406), ylim=(0, 1.08 * max(law)))
    rungs.vlines(places, 0, 1, color=palette.muted, linewidth=1.5)
    rungs.vlines([anchors[drawn]], 0, 1, color=palette.ours, linewidth=4)
    rungs.set(yticks=[], xlabel="rungs: the counts that symbols stand for", ylim=(0, 1))
    rungs.spines["left"].set_visible(False)
    figure.legend(loc="outside upper left")
    return figure


@cache
def bucket_edges() -> tuple[list[int], Curve]:
    """Noisy values, and where the bucket of each begins in the numbers below 1, and the last ends."""
    plan = sparsedp.plan(1.0, 1e-9, nonzero=100_000, mechanism="retrieval")
    assert isinstance(plan, RetrievalPlan)
    law = plan.buckets
    return list(range(-law.reach, law.reach + 1)), [0.0, *(end / (1 << law.bits) for end in law.ends)]


SLOTS = [83, 201, 14, 96, 177, 58, 240, 122, 35, 219, 164, 71]
PRESENT, ABSENT = (1, 5, 10), (3, 7, 8)  # slots of a key: one in each third


def linear_system(palette: Palette) -> Figure:
    """How a linear system hides noise."""
    values, edges = bucket_edges()
    wanted = values.index(2)  # a count of 3 with a noise of -1
    slots = list(SLOTS)
    middle = round(256 * (edges[wanted] + edges[wanted + 1]) / 2)
    slots[PRESENT[2]] = middle ^ slots[PRESENT[0]] ^ slots[PRESENT[1]]
    figure, axes = canvas(4.5, palette)
    width, left, y = 0.75, 0.5, 4.6
    for i, slot in enumerate(slots):
        x = left + width * i
        mine, absent = i in PRESENT, i in ABSENT
        colour = palette.ours if mine else palette.other if absent else palette.faint
        cell(axes, x, y, (width, 0.75), str(slot), edge=colour if mine or absent else palette.muted, ink=palette.ink,
             weight="bold" if mine or absent else "normal")  # fmt: skip
    keys = (("“/”  occurs 3 times", PRESENT, palette.ours, 0.3), ("“/new”  never occurs", ABSENT, palette.other, 5.3))
    for text, places, colour, x in keys:
        box(axes, x, 7.3, 4.4, 0.9, text, edge=colour, ink=palette.ink)
        for i in places:
            arrow(axes, (x + 2.2, 7.3), (left + width * (i + 0.5), y + 0.8), colour)
    axes.text(0.3, 5.6, "what is\npublished", va="bottom", color=palette.muted, fontsize=TEXT - 1)
    strip, low, high = 1.35, 0.5, 9.5
    for places, colour, x in ((PRESENT, palette.ours, 0.3), (ABSENT, palette.other, 5.3)):
        number = slots[places[0]] ^ slots[places[1]] ^ slots[places[2]]
        at = low + (high - low) * (number + 0.5) / 256
        text = " ⊕ ".join(str(slots[i]) for i in places) + f" = {number}"
        axes.text(x + 2.2, 3.75, text, ha="center", va="center", color=colour, weight="bold")
        arrow(axes, (x + 2.2, 3.45), (at, strip + 0.8), colour)
    for value, begin, end in zip(values, edges, edges[1:], strict=False):
        x, wide = low + (high - low) * begin, (high - low) * (end - begin)
        axes.add_patch(Rectangle((x, strip), wide, 0.7, facecolor="none", edgecolor=palette.muted, linewidth=1))
        if wide > 0.35:
            axes.text(
                x + wide / 2, strip + 0.35, str(value).replace("-", "−"), ha="center", va="center", color=palette.ink
            )
    note = "The numbers 0 to 255, cut into buckets as wide as noise is\nlikely: every number is read as a noisy count."
    axes.text(low, 0.85, note, va="top", color=palette.muted, fontsize=TEXT - 1)
    return figure


@cache
def noisy_counts() -> tuple[Curve, Curve]:
    """Twelve counts, and what `laplace` makes of them at ε = 1."""
    true = [0, 4, 9, 2, 0, 7, 12, 5, 1, 0, 3, 8]
    with reproducible_for_tests(3):
        release = sparsedp.release(dict(enumerate(true)), epsilon=1.0, domain=len(true), mechanism="laplace")
    return [float(count) for count in true], release.lookup(list(range(len(true))), clamp=False).tolist()


def dense_noise(palette: Palette) -> Figure:
    """Noise on every key."""
    true, noisy = noisy_counts()
    figure, axes = axes_of(2.9, palette)
    places = np.arange(len(true))
    axes.bar(places, true, color=palette.faint, label="count")
    axes.plot(places, noisy, "o", color=palette.ours, markersize=8, label="published: count and noise")
    axes.axhline(0, color=palette.ink, linewidth=1)
    axes.set(xlabel="key")
    axes.set_xticks(places, [str(place) for place in places])
    figure.legend(loc="outside upper left", ncols=2)
    return figure


def _stage(mechanism: str, delta: float, m: int) -> Stage:
    plan = sparsedp.plan(1.0, delta, nonzero=100_000, sensitivity=m, mechanism=mechanism)
    stage: Stage = plan.stage  # type: ignore[attr-defined]  # of the plans with a table
    return stage


@cache
def stored_chances() -> dict[str, Curve]:
    """The chance that a key is stored, by its count, for users of 20 keys."""
    chances: dict[str, Curve] = {}
    for name, delta in (("threshold", 0.0), ("stability", 1e-9)):
        stage = _stage(name, delta, 20)
        curve = []
        for count in range(0, 1201, 10):
            least = stage.unit if isinstance(stage, StableStage) else 1
            raised = max(count, least)  # a small count is first rounded to 0 or to the least one
            share = min(1.0, count / least) if isinstance(stage, StableStage) else 1.0
            curve.append(share * float(stage.noise.at_least(stage.threshold - raised)))
        chances[name] = curve
        chances[f"{name}: T"] = [float(stage.threshold)]
    return chances


def stored(palette: Palette) -> Figure:
    """Which keys a table keeps."""
    chances = stored_chances()
    figure, axes = axes_of(3.3, palette)
    counts = np.arange(0, 1201, 10)
    for name, line, colour, delta in (
        ("threshold", "-.", palette.other, "0"),
        ("stability", "-", palette.ours, "10⁻⁹"),
    ):
        (threshold,) = chances[f"{name}: T"]
        label = f"{name}, δ = {delta}: T = {threshold:.0f}"
        axes.plot(counts, [100 * chance for chance in chances[name]], line, color=colour, label=label)
    axes.set(xlabel="true count", ylabel="chance to be stored, %", xlim=(0, 1200), ylim=(0, 102))
    axes.grid()
    figure.legend(loc="outside upper left")
    return figure


@cache
def many_noisy() -> tuple[Curve, Curve, float]:
    """Counts of many keys with noise at ε = 1, and the threshold of `threshold`."""
    least = _stage("threshold", 0.0, 1).threshold
    noise = np.random.default_rng(5).laplace(size=36).round()
    true = np.array(
        [120, 95, 80, 66, 60, 52, 47, 44, 38, 33, 28, 24, 20, 17, 14, 12, 10, 8, 7, 6, 5, 4, 3, 2, *[0] * 12]
    )
    return true.astype(float).tolist(), (true + noise).tolist(), float(least)


def threshold(palette: Palette) -> Figure:
    """Only large noisy counts are stored."""
    true, noisy, least = many_noisy()
    figure, axes = axes_of(3.2, palette)
    places = np.arange(len(true))
    kept = np.array(noisy) >= least
    axes.bar(places, true, color=palette.faint, label="count")
    axes.plot(places[kept], np.array(noisy)[kept], "o", color=palette.ours, label="stored: count and noise")
    axes.plot(places[~kept], np.zeros((~kept).sum()), "x", color=palette.other, label="not stored: answered with 0")
    axes.axhline(least, color=palette.ink, linestyle="--", linewidth=1.2)
    axes.text(len(true) - 0.5, least + 2, f"threshold T = {least:.0f}", ha="right", color=palette.ink)
    axes.set(xlabel="keys, from frequent to absent", xticks=[])
    figure.legend(loc="outside upper left")
    return figure
