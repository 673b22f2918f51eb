"""Counting 10⁸ events with bounded contributions, against DuckDB alone on the same query.

`python -m benchmarks.counting [rows]`: 10⁶ users, 10⁶ keys, Parquet made here; each side in a
process of its own, which has done the same with a few rows before: importing is not timed.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import sparsedp

MEMORY = "6GB"
MOST = 1.25
KEYS_PER_USER = 20


def make_events(path: str, rows: int) -> None:
    """Users at random, keys by a power law."""
    duckdb.connect().execute(
        f"COPY (SELECT (random() * 1e6)::INTEGER AS user_id, "
        f"'https://example.org/' || (1e6 * random() * random() * random())::INTEGER AS url FROM range({rows})) "
        f"TO '{path}' (ROW_GROUP_SIZE 1000000)"
    )


def count_alone(path: str) -> int:
    """The bounded GROUP BY in plain SQL."""
    with tempfile.TemporaryDirectory() as spilled:
        connection = duckdb.connect()
        connection.execute(f"SET memory_limit = '{MEMORY}'; SET temp_directory = '{spilled}'")
        pairs = f"SELECT user_id, url FROM read_parquet('{path}') GROUP BY user_id, url"
        kept = f"row_number() OVER (PARTITION BY user_id ORDER BY hash(user_id, url), url) <= {KEYS_PER_USER}"
        counts = f"SELECT url, count(*) FROM (FROM ({pairs}) QUALIFY {kept}) GROUP BY url"
        (rows,) = connection.execute(f"SELECT count(*) FROM ({counts})").fetchall()
    return int(rows[0])


def release_events(path: str) -> int:
    """Table to release."""
    counts = sparsedp.count(path, key="url", user="user_id", max_keys_per_user=KEYS_PER_USER, memory_limit=MEMORY)
    return sparsedp.release(counts, epsilon=1.0).nbytes


def main() -> None:
    """Both sides, one after the other."""
    if sys.argv[1:2] == ["one"]:
        work = {"ours": release_events, "DuckDB": count_alone}[sys.argv[2]]
        work(sys.argv[4])
        start = time.perf_counter()
        work(sys.argv[3])
        took = time.perf_counter() - start
        print(json.dumps({"seconds": took, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
        return
    rows = int(float(sys.argv[1])) if sys.argv[1:] else 10**8
    with tempfile.TemporaryDirectory() as folder:
        path, few = (str(Path(folder) / name) for name in ("events.parquet", "few.parquet"))
        make_events(path, rows)
        make_events(few, 1000)
        sides = {}
        for side in ("DuckDB", "ours"):
            command = [sys.executable, "-m", "benchmarks.counting", "one", side, path, few]
            sides[side] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(f"{side:8}{rows:10.0e} rows  {sides[side]['seconds']:8.1f} s  {sides[side]['peak'] / 1e9:6.2f} GB")
    ratio = sides["ours"]["seconds"] / sides["DuckDB"]["seconds"]
    print(f"ratio {ratio:.2f}, at most {MOST}: {'reached' if ratio <= MOST else 'MISSED'}; memory limit {MEMORY}")
    sys.exit(ratio > MOST)


if __name__ == "__main__":
    main()
