"""How times grow from 10⁴ to 10⁸ keys: lookups beside a gather, and builds; each size in a process
of its own.

`python -m benchmarks.growth` writes `docs/figures/growth.json`, which the figure of the page about
performance is drawn from (`python docs/making/figures.py growth`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import sparsedp

from .lookups import gather, half_present, random_counts
from .measuring import side_by_side, threads

FILE = Path(__file__).parents[1] / "docs" / "figures" / "growth.json"
SIZES = (10**4, 10**5, 10**6, 10**7, 10**8)
MECHANISMS = {"tight-alp": 0.0, "retrieval": 1e-9}
ASKED = 4 * 10**6


def measure(mechanism: str, keys: int) -> dict[str, float]:
    """Nanoseconds of one thread for each lookup and each line of a gather, and of all threads for
    each key of a build.
    """
    given = random_counts(keys)
    settings = {"epsilon": 1.0, "delta": MECHANISMS[mechanism], "mechanism": mechanism, "nonzero": keys}
    took = []
    for _ in range(3 if keys <= 10**7 else 1):
        start = time.perf_counter()
        release = sparsedp.release(given, **settings)  # type: ignore[arg-type]
        took.append(time.perf_counter() - start)
    asked = half_present(given[0], ASKED)
    del given
    with threads(1):
        lookup, line = side_by_side(partial(release.lookup, asked), gather(release.nbytes, ASKED))
    return {"lookup": lookup / ASKED * 1e9, "gather": line / ASKED * 1e9, "build": min(took) / keys * 1e9}


def main() -> None:
    """Every mechanism at every size, or one in this process."""
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]))))
        return
    found: dict[str, dict[str, list[float]]] = {}
    print(f"{'ns':12}{'keys':>8}{'lookup':>10}{'gather':>10}{'build':>10}")
    for mechanism in MECHANISMS:
        rows = found[mechanism] = {"lookup": [], "gather": [], "build": []}
        for keys in SIZES:
            command = [sys.executable, "-m", "benchmarks.growth", "one", mechanism, str(keys)]
            one = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
            for name, values in rows.items():
                values.append(float(f"{one[name]:.3g}"))
            print(
                f"{mechanism:12}{keys:8.0e}{one['lookup']:10.1f}{one['gather']:10.1f}{one['build']:10.1f}", flush=True
            )
    FILE.write_text(json.dumps({"keys": SIZES, **found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
