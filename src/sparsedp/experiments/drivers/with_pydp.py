"""PyDP, the Python face of Google's library in C++: keys selected by their noisy counts, which are
published.

It takes counts that are bounded already, one after the other. Without δ it needs a list of all keys
that is public.
"""

from __future__ import annotations

import importlib
from typing import Any

PACKAGE = "python-dp"


def prepare(data: dict[str, Any]) -> list[int]:
    """The counts."""
    importlib.import_module("pydp.algorithms.partition_selection")
    counts: list[int] = data["counts"]
    return counts


def release(way: str, counts: list[int], keys: int, epsilon: float, delta: float) -> dict[int, float]:
    """The noisy counts that reach the threshold of the strategy."""
    from pydp.algorithms import partition_selection

    create = getattr(partition_selection, f"create_{way.lower()}_partition_strategy")
    strategy = create(epsilon, delta, keys)
    noisy = ((place, strategy.noised_value_if_should_keep(count)) for place, count in enumerate(counts))
    return {place: value for place, value in noisy if value is not None}


def answer(way: str, released: dict[int, float], data: dict[str, Any]) -> dict[str, Any]:
    """What is published."""
    return {"estimates": released, "named": list(released)}
