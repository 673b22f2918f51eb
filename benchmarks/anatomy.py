"""Where the time of lookups and files goes: `python -m benchmarks.anatomy`, one thread, 10⁷ keys
and lookups.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import sparsedp

from .lookups import MANY, half_present, random_counts
from .measuring import seconds, threads


def main() -> None:
    """Each step alone, and the whole."""
    keys, counts = random_counts(MANY)
    asked = half_present(keys, MANY)
    for mechanism, delta in (("tight-alp", 0.0), ("retrieval", 1e-9)):
        release = sparsedp.release((keys, counts), epsilon=1.0, delta=delta, mechanism=mechanism, nonzero=MANY)
        (reader,) = release._readers
        ids = release.key_space.ids(asked)
        kind = reader.check(None, None)
        one = int(ids[0])
        with threads(1):
            steps = {
                "hashing the keys": seconds(partial(release.key_space.ids, asked), 5),
                "reading": seconds(partial(reader.estimate, ids, *kind), 5),
                "the whole lookup": seconds(partial(release.lookup, asked), 5),
            }
        for name, took in steps.items():
            print(f"{mechanism:10} {name:32} {took / MANY * 1e9:8.1f} ns per key")
        core = seconds(partial(list, map(reader.estimate_one, [one] * 10**5)), 1) / 10**5
        print(f"{mechanism:10} {'one id, with the call':32} {core * 1e9:8.1f} ns")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.sparsedp"
            size = release.nbytes / 1e9
            print(f"{mechanism:10} {'save':32} {size / seconds(partial(release.save, path)):8.2f} GB/s")
            print(f"{mechanism:10} {'verify':32} {size / seconds(partial(sparsedp.verify, path)):8.2f} GB/s")
            print(f"{mechanism:10} {'load':32} {seconds(partial(sparsedp.load, path)) * 1e3:8.1f} ms")
            opened = sparsedp.load(path)
            start = time.perf_counter()
            opened.lookup(asked[:1])
            print(f"{mechanism:10} {'the first lookup':32} {(time.perf_counter() - start) * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
