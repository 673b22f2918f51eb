"""`make bench`: speed as ratios, each against a peer or a physical limit in the same run.

A table on stdout and all figures in a JSON file; progress on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

import sparsedp

from . import budgets, builds, composite, lookups, serving, sql
from .measuring import Row

GROUPS: list[Callable[[], Iterator[Row]]] = [
    lookups.memory_rows,
    lookups.user_rows,
    lookups.string_rows,
    lookups.opening_rows,
    lookups.series_rows,
    composite.composite_rows,
    sql.sql_rows,
    builds.alp_rows,
    builds.stability_rows,
    builds.growth_rows,
    builds.noise_rows,
    budgets.ledger_rows,
    serving.serve_rows,
]


def main() -> None:
    """Measure every row, print the table, and judge it."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"), help="the JSON file (%(default)s)")
    parser.add_argument("--only", help="groups whose name contains this")
    arguments = parser.parse_args()
    start = time.perf_counter()
    rows = []
    print(f"{'':48}{'against':32}{'ours':>10}{'theirs':>10}{'ratio':>9}   {'target':9}")
    for group in GROUPS:
        if arguments.only and arguments.only not in group.__name__:
            continue
        for row in group():
            rows.append(row)
            verdict = {True: "reached", False: "MISSED", None: ""}[row.reached]
            times = f"{short(row.ours):>10}{short(row.theirs):>10}{row.ratio:8.3g}×"
            print(f"{row.name:48}{row.against:32}{times}   {row.target:9} {verdict}", flush=True)
        print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    report = {
        "sparsedp": sparsedp.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": len(os.sched_getaffinity(0)),
        "seconds": time.perf_counter() - start,
        "rows": [{**asdict(row), "ratio": row.ratio, "target": row.target, "reached": row.reached} for row in rows],
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to {arguments.out}", file=sys.stderr)
    sys.exit(0 if all(row.reached is not False for row in rows) else 1)


def short(duration: float) -> str:
    """Seconds with a fitting unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if duration >= size:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 1e-9:.3g} ns"


if __name__ == "__main__":
    main()
