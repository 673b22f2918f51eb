"""One user moves the counts that Spark makes by at most m keys and M each: pairs of hostile tables,
as locally.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spark_counting

TABLES = 2
# Only the way to the engine differs there.
CONNECT_NAMES = ("string", "bigint", "date and notes")


@pytest.mark.parametrize("name", spark_counting.NAMES)
def test_one_user_moves_the_counts_of_a_dataframe_by_a_bounded_share(name: str, spark: Any, tmp_path: Path) -> None:
    seen = spark_counting.check_all(spark, [name], range(TABLES), tmp_path)
    assert seen.pairs > 0


# A separate process: a Spark Connect session and a classic one cannot coexist.
CLIENT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:4]
import spark_counting
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
assert not hasattr(spark, "_jsparkSession")
seen = spark_counting.check_all(spark, sys.argv[4:], range(1), Path("."))
print(f"{seen.pairs} pairs are bounded")
"""


def test_one_user_moves_the_counts_through_spark_connect(connect: str, tmp_path: Path) -> None:
    here, helpers = Path(__file__).parent, Path(__file__).parents[2] / "helpers"
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, connect, str(here), str(helpers), *CONNECT_NAMES],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert "pairs are bounded" in done.stdout, done.stderr[-3000:]
