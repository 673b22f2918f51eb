"""Symbols of cells → the law of the heights in them, the *load*, for sums.

Symbols are a mixture over the load, so it is a law that explains them. Many laws do: with noise of
20, heights of 1, 2 and 3 show nearly the same symbols, and so the symbols do not tell how many cells
are free. Of all laws that explain the symbols, this takes one near a given law. It maximises

    Σ_s seen_s log (Σ_o load_o P[s | o]) + weight · Σ_o prior_o log load_o,

as if the prior were as many cells more whose heights are known. That is concave and has one
maximum, far from all borders, which rounding moves as little as the sums themselves: so published
files answer alike everywhere. Expectation maximisation needs ten thousands of rounds for it; here
are some 30 steps of Newton's method, primal and dual, with a weight that falls to the wanted one.
"""

from __future__ import annotations

import numpy as np

from .decoding import Floats

_UNIFORM = 1e-3  # of the prior: no height is impossible
_MOST_STEPS = 200  # far more than needed
_FALL, _INSIDE, _CONVERGED = 0.1, 0.95, 1e-6


def likely_load(law: Floats, seen: Floats, prior: Floats, weight: float) -> Floats:
    """The law of heights that explains how often each symbol was seen, near a prior that is worth
    `weight` cells; `law` is P[symbol | height], a row for each height.
    """
    total, heights = float(seen.sum()), len(law)
    wanted = (1 - _UNIFORM) * prior / prior.sum() + _UNIFORM / heights
    law, seen = np.ascontiguousarray(law[:, seen > 0]), seen[seen > 0]
    load = 0.5 * wanted + 0.5 / heights
    current = max(total, weight)
    slack = current * wanted / load  # of each height: how much less likely more of it would make the symbols
    for _ in range(_MOST_STEPS):
        current = max(weight, min(current, _FALL * float(slack @ load)))
        symbols = load @ law
        pull = current * wanted / load
        gradient = law @ (seen / symbols) - (total + current) + pull
        # (law D lawᵀ + diag(slack/load)) step = gradient, by Woodbury's identity: symbols are few.
        roots, free = law * (np.sqrt(seen) / symbols), load / slack
        inner = np.eye(roots.shape[1]) + roots.T @ (free[:, None] * roots)
        step = free * gradient
        step -= free * (roots @ np.linalg.solve(inner, roots.T @ step))
        slack_step = pull - slack - slack * step / load
        moved = step / load
        load, slack = load + _reach(load, step) * step, slack + _reach(slack, slack_step) * slack_step
        if current == weight and float(np.abs(moved).max()) < _CONVERGED:
            break
    normalised: Floats = load / load.sum()
    return normalised


def _reach(values: Floats, step: Floats) -> float:
    """How much of a step leaves all values positive."""
    falling = step < 0
    return min(1.0, _INSIDE * float((-values[falling] / step[falling]).min())) if falling.any() else 1.0
