"""Small releases of every mechanism, the same each time, for tests of files and lookups."""

from __future__ import annotations

from typing import Any

import numpy as np

import sparsedp
from sparsedp import Release
from sparsedp.mechanisms import MECHANISMS
from sparsedp.privacy.randomness import reproducible_for_tests

# Mechanism, and what differs from a release of plain counts under pure privacy.
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"mechanism": name} for name in MECHANISMS},
    "laplace-real": {"mechanism": "laplace", "step": 0.25},
    "tight-alp-approximate": {"mechanism": "tight-alp", "delta": 1e-6},
    "tight-alp-signed": {"mechanism": "tight-alp", "signed": True, "step": 0.5, "upper": 50},
    "tight-alp-domain": {"mechanism": "tight-alp", "domain": 100_000},
    "tight-alp-sized": {"mechanism": "tight-alp", "nonzero": None},
    "stability-wide": {"mechanism": "stability", "sensitivity": 8},
    "threshold-alp-low": {"mechanism": "threshold-alp", "upper": 3},
    "retrieval-signed": {"mechanism": "retrieval", "signed": True, "sensitivity": 2},
    "tight-alp-kept": {"mechanism": "tight-alp", "delta": 1e-6, "keep_keys": True},
    "stability-kept": {"mechanism": "stability", "keep_keys": True},
    "compact-total": {"mechanism": "compact", "nonzero": None, "total": 50},
}
DIRECTORIES: dict[str, dict[str, Any]] = {"tight-alp-parts": {"mechanism": "tight-alp", "parts": 3}}
KEYS = range(60)


def make(name: str, seed: int = 5) -> Release:
    """The release of that name; keys are the integers of KEYS, every third count is large."""
    options = dict((VARIANTS | DIRECTORIES)[name])
    mechanism = options["mechanism"]
    options.setdefault("delta", 1e-6 if mechanism in ("stability", "retrieval") else 0.0)
    options.setdefault("nonzero", len(KEYS))
    if mechanism == "laplace":
        options.setdefault("domain", 100)
    counts = {key: (key % 7) * (30 if key % 3 == 0 else 1) for key in KEYS}
    with reproducible_for_tests(seed):
        return sparsedp.release(counts, epsilon=1.0, **options)


def answers(release: Release) -> dict[str, list[float]]:
    """Everything that a release says about the first hundred keys."""
    keys = np.arange(100)
    low, high = release.interval(keys)
    return {"estimates": release.lookup(keys).tolist(), "low": low.tolist(), "high": high.tolist()}
