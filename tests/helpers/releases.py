"""Small releases of every mechanism, the same each time, for tests of files and lookups."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
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
# Noise whose law is a table of integers, which files of format 2 have had for some time.
CUT_LAWS: dict[str, dict[str, Any]] = {
    "retrieval-cut": {"mechanism": "retrieval"},
    "retrieval-cut-signed": {"mechanism": "retrieval", "signed": True, "sensitivity": 2},
    "retrieval-cut-sized": {"mechanism": "retrieval", "nonzero": None},
    "retrieval-gaussian": {"mechanism": "retrieval", "noise": "gaussian", "max_keys_per_user": 5},
    "retrieval-gaussian-kept": {
        "mechanism": "retrieval",
        "noise": "gaussian",
        "max_keys_per_user": 3,
        "keep_keys": True,
        "nonzero": None,
    },
    "stability-gaussian": {"mechanism": "stability", "noise": "gaussian", "max_keys_per_user": 4, "max_per_key": 2},
}
# Keys of several columns, which format 3 introduced.
COMPOSITE: dict[str, dict[str, Any]] = {
    "columns": {"mechanism": "tight-alp"},
    "columns-kept": {"mechanism": "stability", "keep_keys": True},
    "columns-retrieval": {"mechanism": "retrieval"},
    "columns-parts": {"mechanism": "tight-alp", "parts": 3},
    "day": {"mechanism": "tight-alp"},
}
KEYS = range(60)
_FIRST = datetime(2024, 2, 28, 23, 59, 59, 999_999)


def make(name: str, seed: int = 5) -> Release:
    """The release of that name; keys are the integers of KEYS, every third count is large."""
    options = dict((VARIANTS | DIRECTORIES | CUT_LAWS | COMPOSITE)[name])
    mechanism = options["mechanism"]
    options.setdefault("delta", 1e-6 if mechanism in ("stability", "retrieval") else 0.0)
    options.setdefault("nonzero", len(KEYS))
    if mechanism == "laplace":
        options.setdefault("domain", 100)
    counts = {key: (key % 7) * (30 if key % 3 == 0 else 1) for key in KEYS}
    named: Any = counts
    if name in COMPOSITE:
        named = (keys_of(name, len(KEYS)), list(counts.values()))
    with reproducible_for_tests(seed):
        return sparsedp.release(named, epsilon=1.0, **options)


def keys_of(name: str, count: int) -> Any:
    """The first keys of a release of that name; composite ones have a column of every kind."""
    if name not in COMPOSITE:
        return np.arange(count)
    numbers = range(count)
    days = [(_FIRST + timedelta(days=31 * at)).date() for at in numbers]
    if name == "day":
        return {"day": days}
    times = [_FIRST - timedelta(hours=at) for at in numbers]
    return {
        "day": days,
        "page": [f"/página/{at % 7}" if at % 5 else "" for at in numbers],
        "raw": [bytes([at, 0, 255]) for at in numbers],
        "number": [(-1) ** at * at if at != 3 else (1 << 64) - 1 for at in numbers],
        "new": [at % 2 == 0 for at in numbers],
        "local": times,
        "instant": [one.replace(tzinfo=timezone.utc) for one in times],
        "nanoseconds": np.array(times, "datetime64[ns]") + np.arange(count),
    }


def answers(release: Release) -> dict[str, list[float]]:
    """Everything that a release says about the first hundred keys."""
    keys: Any = np.arange(100)
    if release.key_space.columns:
        columns = tuple(keys_of("day" if len(release.key_columns) == 1 else "columns", 100).values())
        keys = columns if len(columns) > 1 else columns[0]
    low, high = release.interval(keys)
    return {"estimates": release.lookup(keys).tolist(), "low": low.tolist(), "high": high.tolist()}
