"""Sums beyond 64 bits are cut, and never an error: that one is raised would depend on the sums."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sparsedp
from sparsedp.structures.table import LARGEST_COUNT

pytestmark = pytest.mark.usefixtures("one_database")


@pytest.mark.parametrize("most", [1 << 61, 1 << 63, 1 << 200])
def test_a_bound_above_all_sums_cuts_them_where_all_sums_are_cut(most: int) -> None:
    # Catches a cast to 64 bits of a sum that only the bound has cut.
    table = pa.table({"k": ["a"] * 5 + ["b"], "u": ["one"] * 5 + ["two"], "v": [1 << 62] * 5 + [7]})
    counts = sparsedp.count(table, key="k", user="u", value="v", max_keys_per_user=1, max_per_key=most)
    assert dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True)) == {"a": LARGEST_COUNT, "b": 7}
    counts = sparsedp.count(table, key="k", value="v", max_per_key=most)
    assert dict(zip(counts.keys.to_pylist(), counts.units.tolist(), strict=True)) == {"a": LARGEST_COUNT, "b": 7}
