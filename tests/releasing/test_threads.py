"""A release does not depend on the number of threads that built it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparsedp
from sparsedp.privacy.randomness import reproducible_for_tests

KEYS = 150_000


@pytest.mark.parametrize(
    "parameters",
    [
        {"mechanism": "tight-alp"},
        {"mechanism": "tight-alp", "domain": 1 << 40},
        {"mechanism": "tight-alp", "delta": 1e-9},
        {"mechanism": "retrieval", "delta": 1e-9},
        {"mechanism": "retrieval", "delta": 1e-9, "step": 0.5},
        {"mechanism": "threshold"},
        {"mechanism": "stability", "delta": 1e-9, "sensitivity": 3},
    ],
)
def test_a_release_is_the_same_in_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any]
) -> None:
    keys = np.random.default_rng(1).integers(0, 1 << 20, KEYS)
    values = 1 + keys % 40
    arrays = []
    for threads in ("1", "2", "3", "4"):
        monkeypatch.setenv("SPARSEDP_THREADS", threads)
        with reproducible_for_tests(1):
            release = sparsedp.release((keys, values), **{"epsilon": 1, "nonzero": KEYS, **parameters})
        arrays.append({name: array.tolist() for name, array in release.sides[0][0].items()})
    assert all(built == arrays[0] for built in arrays)
    assert np.array_equal(values, 1 + keys % 40)  # the caller's arrays are unchanged
