"""One user moves the counts that Spark makes by at most m keys and M each: pairs of hostile tables,
as locally.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spark_counting

# Tables with every option: rows or users, values, steps, signs, a domain, gaps that are refused or
# dropped, keys cast to text; for each type of key at least one. DuckDB counts many more.
SEEDS = {
    "string": (0, 1),
    "binary": (1,),
    "bigint": (0,),
    "int": (1,),
    "date": (0,),
    "string and notes": (1,),
    "date and notes": (0,),
    "bigint and notes": (0,),
    "boolean and notes": (1,),
}


@pytest.mark.parametrize("name", SEEDS)
def test_one_user_moves_the_counts_of_a_dataframe_by_a_bounded_share(name: str, spark: Any, tmp_path: Path) -> None:
    seen = spark_counting.check_all(spark, [name], SEEDS[name], tmp_path)
    assert seen.pairs > 0
