"""What moves over the network when a release of 1 GB is asked for 1, 10² and 10⁴ keys.

`python -m benchmarks.remote [gigabytes]`. Files are built in a temporary folder (of TMPDIR), and a
web server on the loopback counts the requests and the bytes of its answers. Half of the keys that
are asked for are in the data. Answers must be those of the same file on disk.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sparsedp

from .range_server import RangeServer

# Bytes of a file for each key that it has room for, about, and δ.
MECHANISMS = {"tight-alp": (4.6, 0.0), "retrieval": (5.2, 1e-9)}
PRESENT = 10_000_000
ASKED = (1, 100, 10_000)
MOST_BYTES = 10e6  # for 10⁴ keys


def build(mechanism: str, size: float, path: Path) -> None:
    """A release with a file of about this size, whose table has some of the present keys."""
    each, delta = MECHANISMS[mechanism]
    present = min(PRESENT, int(size / each / 2))
    counts = np.minimum(np.random.default_rng(0).zipf(1.5, present), 10**6)
    room = int(size / each)
    options = {"epsilon": 1.0, "delta": delta, "mechanism": mechanism, "nonzero": room}
    sparsedp.release((np.arange(present), counts), **options).save(path)  # type: ignore[arg-type]


def main() -> None:
    """Each mechanism, with a new connection and an empty cache for each number of keys."""
    size = 1e9 * float(sys.argv[1] if len(sys.argv) > 1 else 1)
    print(f"{'':11}{'file GB':>8}{'stored':>11}{'keys':>8}{'requests':>10}{'KB':>10}{'bytes/key':>11}{'seconds':>9}")
    missed = False
    with tempfile.TemporaryDirectory() as folder, RangeServer(Path(folder)) as server:
        for mechanism in MECHANISMS:
            path = Path(folder) / f"{mechanism}.sparsedp"
            build(mechanism, size, path)
            local = sparsedp.load(path)
            about = f"{mechanism:11}{path.stat().st_size / 1e9:8.2f}{local.stored_count:11,}"
            for count in ASKED:
                keys = np.random.default_rng(count).integers(0, 2 * PRESENT, count)
                server.moved()
                start = time.perf_counter()
                opened = sparsedp.load(server.url + path.name)
                if count == ASKED[0]:
                    print(f"{about}{'opened':>8}{_moved(*server.moved(), 0, time.perf_counter() - start)}", flush=True)
                server.moved()
                start = time.perf_counter()
                answers = opened.lookup(keys)
                took = time.perf_counter() - start
                requests, sent = server.moved()
                if not np.array_equal(answers, local.lookup(keys)):
                    raise AssertionError("a remote file must answer as the same file on disk")
                too_many = count == ASKED[-1] and sent > MOST_BYTES
                missed |= too_many
                print(f"{about}{count:8,}{_moved(requests, sent, count, took)}{'  MISSED' * too_many}", flush=True)
            path.unlink()
    sys.exit(1 if missed else 0)


def _moved(requests: int, sent: int, keys: int, seconds: float) -> str:
    each = f"{sent / keys:11,.0f}" if keys else " " * 11
    return f"{requests:10,}{sent / 1e3:10,.1f}{each}{seconds:9.2f}"


if __name__ == "__main__":
    main()
