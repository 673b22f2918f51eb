"""`make report`: the numbers of the paper's Section 6 beside ours, with a verdict for each."""

from __future__ import annotations

import math
import sys

import numpy as np

from ..bounds import AlpBounds
from .error_distribution import simulate_errors

RUNS = 200_000

# collision probability → (mean absolute error, standard deviation, mean error, 90th percentile), as printed there
PAPER = {0.1: (6.4, 11.0, 2.33, 15.78), 0.01: (4.8, 7.8, 0.18, 11.5)}


def rounding_of(printed: float) -> float:
    """Half a unit of the last digit that the paper prints."""
    digits = len(f"{printed:g}".partition(".")[2])
    return float(0.5 * 10**-digits)


def main() -> int:
    """Print the table; exit code 1 if a number of the paper is missed."""
    print(f"Section 6: α = 3, ε = 1, β = 5000, {RUNS:,} runs; ± is five standard errors and the paper's rounding\n")
    print(f"{'':34}{'paper':>9}{'ours':>9}{'±':>8}")
    missed = 0
    for collision, printed in PAPER.items():
        print(f"simulating collision probability {collision} …", file=sys.stderr)
        errors = simulate_errors(3.0, collision, RUNS, seed=1)
        size = np.abs(errors)
        upper = float(np.quantile(size, 0.9))
        density = float(((size > upper - 1) & (size <= upper + 1)).mean()) / 2  # of |error| at its 90th percentile
        centred = errors - errors.mean()
        rows = {
            "mean absolute error": (float(size.mean()), float(size.std())),
            "standard deviation": (float(errors.std()), float(np.std(centred**2) / (2 * errors.std()))),
            "mean error": (float(errors.mean()), float(errors.std())),
            "90th percentile": (upper, math.sqrt(0.09) / density),
        }
        for paper, (name, (ours, spread)) in zip(printed, rows.items(), strict=True):
            # The paper has its own sampling error, of 10⁶ runs.
            tolerance = rounding_of(paper) + 5 * spread * math.sqrt(1 / RUNS + 1e-6)
            agrees = abs(ours - paper) <= tolerance
            missed += not agrees
            verdict = "agrees" if agrees else "DIFFERS"
            print(f"collision {collision:<5} {name:<18}{paper:9.2f}{ours:9.2f}{tolerance:8.2f}  {verdict}")
    print(f"{'bound at probability 0.9':<34}{75.33:9.2f}{AlpBounds(3.0, 0.1).error_with_probability(0.1):9.2f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
