"""Sums beyond 64 bits are cut, and never an error: that one is raised would depend on the sums."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sparsedp
from sparsedp.structures.table import LARGEST_COUNT

pytestmark = pytest.mark.usefixtures("one_database")


def test_sums_beyond_the_largest_bound_are_cut() -> None:
    # Catches a cast to 64 bits of a sum that only the bound has cut.
    table = pa.table({"k": ["a"] * 5 + ["b"], "u": ["one"] * 5 + ["two"], "v": [1 << 62] * 5 + [7]})
    users: list[dict[str, Any]] = [{"user": "u", "max_keys_per_user": 1}, {}]
    for user in users:
        counts = sparsedp.count(table, key="k", value="v", max_per_key=LARGEST_COUNT, **user)
        assert dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True)) == {"a": LARGEST_COUNT, "b": 7}


@pytest.mark.parametrize("most", [LARGEST_COUNT + 1, 1 << 63, 1 << 200])
def test_a_bound_that_no_sum_reaches_is_refused(most: int) -> None:
    with pytest.raises(sparsedp.ParameterError, match=r"max_per_key must be at most 2\^61"):
        sparsedp.count(pa.table({"k": ["a"], "v": [1]}), key="k", value="v", max_per_key=most)
