"""One user moves the counts that Spark makes by at most m keys and M each: pairs of hostile tables,
as locally.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spark_counting

# Tables with every option: rows or users, values, steps, signs, a domain, gaps that are refused or
# dropped, keys cast to text; one for each type of key, most of them small. DuckDB counts many more.
SEEDS = {
    "string": 1,
    "binary": 12,
    "bigint": 0,
    "int": 12,
    "date": 9,
    "string and notes": 1,
    "date and notes": 9,
    "bigint and notes": 8,
    "boolean and notes": 3,
}


@pytest.mark.parametrize("name", SEEDS)
def test_one_user_moves_the_counts_of_a_dataframe_by_a_bounded_share(name: str, spark: Any, tmp_path: Path) -> None:
    seen = spark_counting.check_one(spark, name, SEEDS[name], tmp_path)
    assert seen.pairs > 0
