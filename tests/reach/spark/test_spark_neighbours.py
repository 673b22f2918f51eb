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

TABLES = 3
CONNECT_TABLES = 1


@pytest.mark.parametrize("name", spark_counting.NAMES)
def test_one_user_moves_the_counts_of_a_dataframe_by_a_bounded_share(name: str, spark: Any, tmp_path: Path) -> None:
    seen = spark_counting.check_all(spark, [name], range(TABLES), tmp_path)
    assert seen.pairs > 0


# A separate process: a Spark Connect session and a classic one cannot coexist.
CLIENT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
import spark_counting
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
assert not hasattr(spark, "_jsparkSession")
seen = spark_counting.check_all(spark, spark_counting.NAMES, range(int(sys.argv[2])), Path("."))
print(f"{seen.pairs} pairs are bounded")
"""


def test_one_user_moves_the_counts_through_spark_connect(connect: str, tmp_path: Path) -> None:
    here, helpers = Path(__file__).parent, Path(__file__).parents[2] / "helpers"
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, connect, str(CONNECT_TABLES), str(here), str(helpers)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert "pairs are bounded" in done.stdout, done.stderr[-3000:]
