"""The file of a release does not depend on the number of threads that built it."""

from __future__ import annotations

import hashlib
from pathlib import Path
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
        {"mechanism": "retrieval", "delta": 1e-9, "noise": "gaussian", "max_keys_per_user": 20},
        {"mechanism": "threshold"},
        {"mechanism": "stability", "delta": 1e-9, "sensitivity": 3},
    ],
)
def test_a_file_is_the_same_in_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parameters: dict[str, Any]
) -> None:
    # Catches branches of a stream that are numbered by the threads that use them, and a solver that
    # lets a key leave by another slot.
    keys = np.random.default_rng(1).integers(0, 1 << 20, KEYS)
    values = 1 + keys % 40
    digests = set()
    for threads in ("1", "2", "3", "7"):
        monkeypatch.setenv("SPARSEDP_THREADS", threads)
        with reproducible_for_tests(1):
            release = sparsedp.release((keys, values), **{"epsilon": 1, "nonzero": KEYS, **parameters})
        release.save(path := tmp_path / threads)
        digests.add(hashlib.sha256(path.read_bytes()).digest())
    assert len(digests) == 1
    assert np.array_equal(values, 1 + keys % 40)  # the caller's arrays are unchanged
