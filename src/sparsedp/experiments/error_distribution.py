"""Figure 3c and the numbers of Section 6: the distribution of the error at α = 3, with few and many
collisions.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .sections import Check, Drawn, Section
from .simulation import Floats, simulate_errors
from .study import Study

ALPHA = 3.0
RUNS, QUICK_RUNS = 1_000_000, 200_000
PAPER_RUNS = 1_000_000
_EDGES = np.arange(-60.25, 60.5, 0.5)
_TAIL = 1000

_EXTREME = "one draw in the paper; here, the middle of the range in which it must lie"

# collision probability → what the paper prints
PAPER: dict[float, dict[str, float]] = {
    0.1: {
        "mean absolute error": 6.4,
        "standard deviation": 11.0,
        "mean error": 2.33,
        "90th percentile": 15.78,
        "lowest error": -114.0,
        "highest error": 274.0,
    },
    0.01: {
        "mean absolute error": 4.8,
        "standard deviation": 7.8,
        "mean error": 0.18,
        "90th percentile": 11.5,
        "highest error": 147.0,
    },
}


def run(study: Study) -> Section:
    """The numbers with their statistical errors, and the histogram."""
    runs = QUICK_RUNS if study.quick else RUNS
    tasks = {
        f"collision {collision:g}": partial(summary, collision, runs, study.seed + at)
        for at, collision in enumerate(PAPER)
    }
    found = study.pieces("Figure 3c", tasks, parallel=True)
    checks = [
        _check(f"{name} (collision {collision:g})", printed, found[f"collision {collision:g}"]["numbers"][name])
        for collision, numbers in PAPER.items()
        for name, printed in numbers.items()
    ]
    checks.append(
        Check("standard deviation of the Laplace distribution with scale 4.5", 6.36, 4.5 * math.sqrt(2), 0.005)
    )
    many, few = (found[f"collision {collision:g}"]["numbers"] for collision in PAPER)
    improved = all(abs(few[name][0]) < abs(many[name][0]) for name in PAPER[0.01])
    checks.append(Check("every number improves with fewer collisions", 1, float(improved), 0))
    percentile = many["90th percentile"][0]
    return Section(
        "error-distribution",
        "Figure 3c: the distribution of the error",
        f"α = 3, {runs:,} runs. Tolerances are the paper's rounding and five standard errors, of its {PAPER_RUNS:,} "
        "runs and of ours; for the "
        "extremes, the range in which the extreme of as many runs lies with probability 1 − 10⁻⁶, from the tail that "
        "we observe.",
        {"runs": runs, **found},
        figures=[
            Drawn(
                "figure-3c",
                f"Nine of ten errors are below {percentile:.1f} (dashed), where the bound says 75.3; the distribution "
                "is as wide as Laplace noise with "
                "scale 4.5 and shifted upwards by collisions.",
                lambda f: _draw(f, found["collision 0.1"], percentile),
            )
        ],
        checks=checks,
    )


def _check(name: str, printed: float, found: tuple[float, float]) -> Check:
    return Check(name, printed, found[0], found[1], _EXTREME if "est error" in name else "")


def summary(collision: float, runs: int, seed: int) -> dict[str, Any]:
    """The numbers that the paper prints, each with the tolerance for its difference, and a
    histogram.
    """
    errors = simulate_errors(ALPHA, collision, runs, seed)
    sizes = np.abs(errors)
    percentile = float(np.quantile(sizes, 0.9))
    density = float(((sizes > percentile - 1) & (sizes <= percentile + 1)).mean()) / 2
    variances = (errors - errors.mean()) ** 2
    spreads = {
        "mean absolute error": (float(sizes.mean()), float(sizes.std())),
        "standard deviation": (float(errors.std()), float(variances.std() / (2 * errors.std()))),
        "mean error": (float(errors.mean()), float(errors.std())),
        "90th percentile": (percentile, math.sqrt(0.09) / density),
    }
    numbers = {}
    for name, printed in PAPER[collision].items():
        if name in spreads:
            value, spread = spreads[name]
            numbers[name] = (value, rounding_of(printed) + 5 * spread * math.sqrt(1 / runs + 1 / PAPER_RUNS))
        else:
            sign = 1 if name == "highest error" else -1
            centre, reach = extreme_of(sign * errors)
            numbers[name] = (sign * centre, reach)
    counts, _ = np.histogram(errors, _EDGES)
    return {"numbers": numbers, "density": (counts / (runs * 0.5)).tolist()}


def rounding_of(printed: float) -> float:
    """Half a unit of the last digit that the paper prints."""
    digits = len(f"{printed:g}".partition(".")[2])
    return float(0.5 * 10**-digits)


def extreme_of(errors: Floats) -> tuple[float, float]:
    """The middle and half width of the range of the largest of the paper's runs, with probability 1
    - 10⁻⁶.

    The tail is exponential. Its rate comes from the thousand largest errors, with five standard
    errors of slack.
    """
    top = np.sort(errors)[-_TAIL:]
    start = float(top[0])
    scale = float((top - start).mean())
    # The largest of n has P[max <= y] = exp(-n P[error > y]), and P[error > y] = tail/runs ·
    # exp(-(y - start)/scale).
    expected = PAPER_RUNS * _TAIL / len(errors)
    low, high = (start + scale * math.log(expected / -math.log(chance)) for chance in (5e-7, 1 - 5e-7))
    slack = 5 * scale / math.sqrt(_TAIL) * math.log(expected)
    return (low + high) / 2, (high - low) / 2 + slack


def _draw(figure: Any, found: Any, percentile: float) -> None:
    axes = figure.subplots()
    middles = (_EDGES[:-1] + _EDGES[1:]) / 2
    axes.fill_between(middles, found["density"], step="mid", alpha=0.5, label="ALP, α = 3, collision 0.1")
    for scale, style, colour in ((1.0, "-", "C3"), (4.5, "--", "C1")):
        density = np.exp(-np.abs(middles) / scale) / (2 * scale)
        axes.plot(middles, density, style, color=colour, label=f"Laplace, scale {scale:g}")
    for sign in (-1, 1):
        axes.axvline(sign * percentile, color="grey", linestyle=":", label="90 % of errors" if sign > 0 else None)
    axes.set_xlim(-40, 40)
    axes.set_ylim(0, 0.2)
    axes.set_xlabel("estimate − true value")
    axes.set_ylabel("density")
    axes.legend()
