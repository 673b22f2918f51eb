"""Builds of 10⁶, 10⁷ and 10⁸ keys from NumPy arrays: time, cores and memory, each in a fresh
process.

`python -m benchmarks.scale [keys …]`. The peak is what the process grew by since before the input
was made; the target is at most twice input and output together for embeddings, and three times for
tables, whose output is small.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

import sparsedp

MECHANISMS = {"tight-alp": 0.0, "retrieval": 1e-9, "stability": 1e-9, "threshold": 0.0}
MOST_MEMORY = {"tight-alp": 2.0, "retrieval": 2.0, "stability": 3.0, "threshold": 3.0}


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measure(mechanism: str, keys: int) -> dict[str, float]:
    """One build in this process."""
    settings = {"epsilon": 1.0, "delta": MECHANISMS[mechanism], "mechanism": mechanism}
    sparsedp.release((np.arange(10), np.ones(10, np.int64)), nonzero=10, **settings)  # type: ignore[arg-type]
    before = resident()
    ids = np.arange(keys, dtype=np.int64) * 7919
    values = np.empty(keys, np.int64)
    random = np.random.default_rng(0)
    for start in range(0, keys, 1 << 20):
        part = values[start : start + (1 << 20)]
        part[:] = np.minimum(random.zipf(1.5, len(part)), 10**6)
    wall, cpu = time.perf_counter(), time.process_time()
    release = sparsedp.release((ids, values), nonzero=keys, **settings)  # type: ignore[arg-type]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    moved = ids.nbytes + values.nbytes + release.nbytes
    return {
        "seconds": wall,
        "cores": cpu / wall,
        "peak GB": peak / 1e9,
        "output GB": release.nbytes / 1e9,
        "peak": peak / moved,
    }


def main() -> None:
    """Every mechanism at every size, or one in this process."""
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
        return
    sizes = [int(float(size)) for size in sys.argv[1:]] or [10**6, 10**7, 10**8]
    print(f"{'':12}{'keys':>8}{'seconds':>10}{'cores':>8}{'peak GB':>10}{'output GB':>11}{'peak/(in + out)':>17}")
    missed = False
    for mechanism in MECHANISMS:
        for keys in sizes:
            command = [sys.executable, "-m", "benchmarks.scale", "one", mechanism, str(keys)]
            row = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
            judged = (
                row["peak"] > MOST_MEMORY[mechanism] and keys >= 10**8
            )  # below, fixed costs weigh more than the data
            missed |= judged
            times = f"{row['seconds']:10.2f}{row['cores']:8.1f}{row['peak GB']:10.2f}{row['output GB']:11.3f}"
            print(f"{mechanism:12}{keys:8.0e}{times}{row['peak']:17.2f}{'  MISSED' if judged else ''}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
