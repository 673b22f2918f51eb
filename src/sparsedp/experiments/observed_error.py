"""Figure 3b: the observed mean error on the grid of Figure 3a."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ..privacy.bounds import AlpBounds
from .error_bound import ALPHAS, COLLISIONS, draw_curves
from .sections import Check, Drawn, Section
from .simulation import simulate_errors
from .study import Study

RUNS, QUICK_RUNS = 100_000, 4_000
HIGHEST = 25.0


def run(study: Study) -> Section:
    """Mean absolute errors with their standard errors, against the bound."""
    runs = QUICK_RUNS if study.quick else RUNS
    alphas = [alpha for alpha in ALPHAS if not study.quick or (alpha * 10) % 5 == 0]
    points = {
        f"α = {alpha:g}, collision {collision:g}": (alpha, collision) for alpha in alphas for collision in COLLISIONS
    }
    tasks = {
        name: partial(mean_error, alpha, collision, runs, study.seed + at)
        for at, (name, (alpha, collision)) in enumerate(points.items())
    }
    found = study.pieces("Figure 3b", tasks, parallel=True)
    means: dict[str, list[float]] = {f"{c:g}": [] for c in COLLISIONS}
    spreads: dict[str, list[float]] = {f"{c:g}": [] for c in COLLISIONS}
    ratios = []
    for name, (alpha, collision) in points.items():
        mean, spread = found[name]
        means[f"{collision:g}"].append(mean)
        spreads[f"{collision:g}"].append(spread)
        ratios.append(AlpBounds(alpha, collision).expected_error / mean)
    finite = [ratio for ratio in ratios if math.isfinite(ratio)]
    best = {name: alphas[int(np.argmin(curve))] for name, curve in means.items()}
    return Section(
        "observed-error",
        "Figure 3b: the observed error",
        f"The same grid, {runs:,} runs per point: x uniform in [0, 5000], rounded, collided and flipped as in the "
        "mechanism alp. Bands are five "
        "standard errors.",
        {
            "alphas": alphas,
            "runs": runs,
            "means": means,
            "standard_errors": spreads,
            "bound_over_mean": finite,
            "best": best,
        },
        figures=[
            Drawn(
                "figure-3b",
                f"Observed errors are lowest at α = {best['0']:g} (no collisions) to {best['0.2']:g} (one in five); "
                f"the bound is {min(finite):.1f} to "
                f"{max(finite):.1f} times the observed error.",
                lambda f: draw_curves(f, alphas, means, "mean absolute error", HIGHEST, spreads),
            )
        ],
        checks=[
            Check(
                "bound ÷ observed error, median over the grid",
                2.0,
                float(np.median(finite)),
                0.75,
                "“approximately twice as large for most parameters”, read here as 1.25 to 2.75",
            )
        ],
    )


def mean_error(alpha: float, collision: float, runs: int, seed: int) -> tuple[float, float]:
    """The mean absolute error and its standard error."""
    sizes = np.abs(simulate_errors(alpha, collision, runs, seed))
    return float(sizes.mean()), float(sizes.std() / math.sqrt(runs))
