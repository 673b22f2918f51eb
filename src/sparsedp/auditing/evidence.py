"""From outcomes of two neighbouring inputs to a lower bound on ε that holds with a stated
confidence.

If an algorithm is (ε, δ)-private, P[S | x] <= e^ε P[S | x'] + δ for every set S of outcomes, so ε
>= ln((P[S | x] - δ) / P[S | x']). S is chosen on one half of the runs and judged on the other half,
with the Chernoff bound in its exact form (relative entropy), which holds for every number of runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_ERRORS = 6.0

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """The best event of one game: how often it happened on each side, and the ε that follows."""

    game: str
    claimed: float  # the ε, and below it the δ, that the algorithm states
    delta: float
    epsilon: float  # the lower bound
    likely: tuple[int, int]  # how often the event happened, and in how many runs, on the side where it is likely
    rare: tuple[int, int]

    @property
    def refutes(self) -> bool:
        """Whether the claim cannot be true, at the confidence of the finding."""
        return self.epsilon > self.claimed


def refute(game: str, left: Labels, right: Labels, claimed: float, delta: float, failure: float) -> Finding:
    """The largest ε that the outcomes prove at this δ; wrong with probability at most `failure`.

    Labels are small numbers, one for each run. `claimed` only guides the choice of events.
    """
    size = int(max(left.max(), right.max())) + 1
    findings = []
    for x, y in ((left, right), (right, left)):
        halves = [np.array_split(labels, 2) for labels in (x, y)]
        for event in _events(halves[0][0], halves[1][0], size, delta, claimed):
            likely, rare = (_count(half[1], event) for half in halves)
            findings.append((likely, rare))
    best = Finding(game, claimed, delta, 0.0, (0, 0), (0, 0))
    for likely, rare in findings:
        share = failure / (2 * len(findings))  # each of the events has two bounds
        excess = lower_bound(*likely, share) - delta
        bound = math.log(excess / upper_bound(*rare, share)) if excess > 0 else 0.0
        if bound > best.epsilon or best.likely == (0, 0):
            best = Finding(game, claimed, delta, max(bound, 0.0), likely, rare)
    return best


def _count(labels: Labels, event: npt.NDArray[np.bool_]) -> tuple[int, int]:
    return int(event[labels].sum()), len(labels)


def _events(x: Labels, y: Labels, size: int, delta: float, claimed: float) -> list[npt.NDArray[np.bool_]]:
    """Promising events: the labels with the largest ratios, and those that are too frequent on x
    for the claim.
    """
    p, q = (np.bincount(labels, minlength=size) / max(1, len(labels)) for labels in (x, y))
    runs = max(1, min(len(x), len(y)))
    order = np.argsort(-(p / np.maximum(q, 1 / runs)), kind="stable")
    likely, rare = np.cumsum(p[order]), np.cumsum(q[order])
    # The bound if both sides turn out to be worse by some standard errors than they look.
    lower = np.maximum(likely - _ERRORS * np.sqrt(likely / runs) - delta, 1e-300)
    bound = np.log(lower / (rare + _ERRORS * np.sqrt(rare / runs) + _ERRORS**2 / runs))
    events = []
    for cut in {int(np.argmax(bound)), int(np.argmax(likely - math.exp(claimed) * rare))}:
        event = np.zeros(size, np.bool_)
        event[order[: cut + 1]] = True
        events.append(event)
    return events


def lower_bound(happened: int, runs: int, failure: float) -> float:
    """A lower bound on the probability of an event seen this often; too high with probability at
    most `failure`.
    """
    return 1 - upper_bound(runs - happened, runs, failure)


def upper_bound(happened: int, runs: int, failure: float) -> float:
    """An upper bound on the probability of an event seen this often; too low with probability at
    most `failure`.
    """
    if happened >= runs:
        return 1.0
    observed, wanted = happened / runs, math.log(1 / failure) / runs
    low, high = observed, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if middle < 1 and _divergence(observed, middle) <= wanted:
            low = middle
        else:
            high = middle
    return high


def _divergence(p: float, q: float) -> float:
    """The relative entropy of two coins."""
    first = 0.0 if p == 0 else p * math.log(p / q)
    second = 0.0 if p == 1 else (1 - p) * math.log((1 - p) / (1 - q))
    return first + second
