"""The mechanisms here, called as users call them: sizes are estimated, and keys are named where the
mechanism may name them. The randomness is reproducible, which protects nobody.
"""

from __future__ import annotations

import importlib
from typing import Any

PACKAGE = "sparsedp"
NAMING = ("tight-alp", "retrieval", "stability")


def prepare(data: dict[str, Any]) -> tuple[list[str], Any, int]:
    """Keys, counts and the seed."""
    import numpy as np

    importlib.import_module("sparsedp.releasing.building")
    counts = np.array(data["counts"], np.int64)
    return data["keys"][: len(counts)], counts, data["seed"]


def release(way: str, prepared: tuple[list[str], Any, int], keys: int, epsilon: float, delta: float) -> Any:
    """The release; `way` is a mechanism, and its noise if it has a choice."""
    import sparsedp
    from sparsedp.privacy.randomness import reproducible_for_tests

    mechanism, _, noise = way.partition(", ")
    names, counts, seed = prepared
    with reproducible_for_tests(seed):
        return sparsedp.release(
            (names, counts),
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            noise=noise.lower() or "auto",
            keep_keys=delta > 0 and mechanism in NAMING,
            max_keys_per_user=keys,
        )


def answer(way: str, released: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Estimates and intervals for all keys, and the names."""
    given = released.answer(data["keys"])
    found = {
        "estimates": dict(enumerate(given.estimates.tolist())),
        "low": given.low.tolist(),
        "high": given.high.tolist(),
        "nbytes": released.nbytes,
    }
    if released.plan.problem.keep_keys:
        places = {name: place for place, name in enumerate(data["keys"])}
        found["named"] = [places[name] for name in released.kept_keys()]
    return found
