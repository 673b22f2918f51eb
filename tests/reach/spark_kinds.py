"""Kinds of releases that Spark builds: some on a real Spark, the others in the process of the test.

A real Spark has every way to count, every mechanism, sizes that are public and estimated, each once
and together with others; for the other pairs an executor runs the same code (`spark_in_process.py`).
"""

from __future__ import annotations

from typing import Any

COUNTING: dict[str, dict[str, Any]] = {
    "rows": {"key": "url"},
    "users": {"key": "url", "user": "user", "max_keys_per_user": 40, "max_per_key": 30},
    "cut users": {"key": "url", "user": "user", "max_keys_per_user": 4, "max_per_key": 2},
    "integers": {"key": "page"},
    "sums": {
        "key": "url",
        "user": "user",
        "value": "change",
        "signed": True,
        "max_keys_per_user": 40,
        "max_per_key": 500,
    },
    "reals": {"key": "url", "value": "amount", "step": 0.5, "max_per_key": 20},
}
RELEASING: dict[str, dict[str, Any]] = {
    "pure": {"nonzero": 2000},
    "sized": {},
    "retrieval": {"delta": 1e-6, "nonzero": 2000},
    "counted": {"delta": 1e-6, "mechanism": "retrieval"},
    "retrieval or tight-alp": {"delta": 1e-6},
    "stability": {"delta": 1e-6, "mechanism": "stability"},
    "threshold": {"mechanism": "threshold"},
    "tiny ε": {"epsilon": 0.004, "nonzero": 2000},
}
# Two ways to count see all mechanisms, and the others two.
PAIRS = [
    (counting, releasing)
    for counting in COUNTING
    for releasing in RELEASING
    if counting in ("rows", "sums") or releasing in ("sized", "retrieval")
]
ON_SPARK = [
    ("rows", "threshold"),
    ("cut users", "sized"),
    ("integers", "pure"),
    ("sums", "counted"),
    ("reals", "stability"),
]
GAUSSIAN: dict[str, dict[str, Any]] = {
    "20 keys": {"max_keys_per_user": 20},
    "100 keys": {"max_keys_per_user": 100},
    "public size": {"max_keys_per_user": 50, "nonzero": 2000},
    "names": {"max_keys_per_user": 20, "mechanism": "stability"},
    "several per key": {"max_keys_per_user": 20, "max_per_key": 5},
    "signed": {"max_keys_per_user": 30, "value": "change", "signed": True, "max_per_key": 4},
    "integers": {"max_keys_per_user": 20, "key": "page"},
    "a domain": {"max_keys_per_user": 20, "key": "page", "domain": 2000},
}
GAUSSIAN_ON_SPARK = ["signed", "a domain"]

_USERS: dict[str, Any] = {"user": "user", "max_keys_per_user": 20}

NAMED: dict[str, dict[str, Any]] = {
    "retrieval": {"mechanism": "retrieval"},
    "public size": {"mechanism": "retrieval", "nonzero": 2000},
    "stability": {"mechanism": "stability"},
    "tight-alp": {"mechanism": "tight-alp"},
    "gaussian": {**_USERS, "delta": 1e-9, "noise": "gaussian", "mechanism": "retrieval"},
    "gaussian names": {**_USERS, "delta": 1e-9, "noise": "gaussian", "mechanism": "stability"},
    "signed": {"value": "change", "signed": True, "max_per_key": 9, "epsilon": 40.0},
    "reals": {"value": "amount", "step": 0.5, "max_per_key": 10, "epsilon": 40.0},
    "coins": {"mechanism": "retrieval", "value": "amount", "step": 0.5, "max_per_key": 1},
}
NAMED_ON_SPARK = ["tight-alp", "gaussian names", "coins"]  # coins of retrieval
