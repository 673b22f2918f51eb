"""Figure 3a: the paper's bound on the expected error, for α in 0.1..10 and collisions in 0..0.2."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..privacy.bounds import AlpBounds
from .sections import Check, Drawn, Section
from .study import Study

COLLISIONS = (0.0, 0.05, 0.1, 0.15, 0.2)
ALPHAS = tuple(np.round(np.arange(0.1, 10.05, 0.1), 1).tolist())
HIGHEST = 70.0


def run(study: Study) -> Section:
    """The curves, and the bound that Section 6 prints."""
    curves = {f"{c:g}": [AlpBounds(alpha, c).expected_error for alpha in ALPHAS] for c in COLLISIONS}
    best = {name: ALPHAS[int(np.argmin(curve))] for name, curve in curves.items()}
    return Section(
        "error-bound",
        "Figure 3a: the bound on the expected error",
        "(½ + (4α + 4)/α² + (4γ + 4)/γ²)·α with γ = (α + 2)/(1 + α·k/s) − 2, at ε = 1.",
        {"alphas": ALPHAS, "bounds": curves, "best": best},
        figures=[
            Drawn(
                "figure-3a",
                f"The bound is smallest at α = {best['0']:g} without collisions and at α = {best['0.2']:g} when one "
                "bit in five collides: "
                "the larger α is, the more a collision costs.",
                lambda f: draw_curves(f, ALPHAS, curves, "bound on the mean absolute error", HIGHEST),
            )
        ],
        checks=[
            Check(
                "bound at probability 0.9 (α = 3, collision 0.1)",
                75.33,
                AlpBounds(3.0, 0.1).error_with_probability(0.1),
                0.01,
                "the paper cuts 75.337 to two digits",
            )
        ],
    )


def draw_curves(figure: Any, alphas: Any, curves: Any, label: str, highest: float, errors: Any = None) -> None:
    """Error against α, one line for each collision probability."""
    axes = figure.subplots()
    for name, curve in curves.items():
        shown = np.array(curve)
        if errors is not None:
            spread = np.array(errors[name])
            axes.fill_between(alphas, shown - 5 * spread, shown + 5 * spread, alpha=0.25, linewidth=0)
        axes.plot(alphas, shown, label=f"collision {name}")
    axes.set_xlabel("α")
    axes.set_ylabel(label)
    axes.set_xlim(0, 10)
    axes.set_ylim(0, highest)
    axes.legend()
