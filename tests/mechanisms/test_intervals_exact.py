"""Intervals of `tight-alp` cover every count, by the exact law of what is published about its key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp.mechanisms.leftover import not_stored
from sparsedp.mechanisms.tight_alp import TightAlpPlan


def missed(plan: TightAlpPlan, failure: float, low: Any, high: Any, largest: int) -> Any:
    """How often the interval of each count does not contain it, at the loads of the plan."""
    counts = np.arange(largest + 1)
    noise, threshold = plan.stage.noise, plan.stage.threshold
    unstored = not_stored(plan.stage, counts)
    law = replace(plan.decoder, grid=counts, unstored=unstored).likelihood
    outside = (counts[:, None] < low) | (high < counts[:, None])
    by_pattern = unstored * (law * outside).sum(axis=1)
    # Stored, and the noise is larger than the interval says.
    radius, ratio = noise.exceeded_with(failure), np.exp(-float(noise.rate))
    above = ratio ** np.maximum(radius + 1, threshold - counts) / (1 + ratio)
    below = (ratio ** (radius + 1) - ratio ** np.maximum(radius + 1, counts - threshold + 1)) / (1 + ratio)
    return by_pattern + above + below


@pytest.mark.parametrize("failure", [0.2, 0.05, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sensitivity": 20},
        {"sensitivity": 95},
        {"sensitivity": 20, "upper": 800},
        {"sensitivity": 20, "upper": 300},
    ],
    ids=str,
)
def test_intervals_cover_every_count(options: dict[str, Any], failure: float) -> None:
    # Catches intervals that end where decoding does, a few noise scales above the threshold: there,
    # 1 count in 900 is not stored. And, with many keys per user, counts that decoding leaves out.
    plan = sparsedp.plan(1.0, nonzero=100_000, mechanism="tight-alp", **options)
    assert isinstance(plan, TightAlpPlan)
    low, high = plan.intervals(failure, plan.balanced)
    top = plan.stage.threshold + int(np.log(4 / failure) / float(plan.stage.noise.rate)) + 10
    worst = missed(plan, failure, low, high, min(top, options.get("upper", top)))
    assert worst.max() <= failure * (1 + 1e-9)
    assert (high <= options.get("upper", np.inf)).all()


def test_wider_intervals_end_higher_only_where_they_must() -> None:
    plan = sparsedp.plan(1.0, nonzero=100_000, sensitivity=20, mechanism="tight-alp")
    assert isinstance(plan, TightAlpPlan)
    ends = [plan.intervals(failure, plan.balanced)[1].max() for failure in (0.05, 1e-3, 1e-4)]
    assert ends[0] <= plan.decoder.grid[-1] < ends[1] < ends[2]
    assert ends[2] - ends[1] == pytest.approx(np.log(10) / float(plan.stage.noise.rate), abs=2)
