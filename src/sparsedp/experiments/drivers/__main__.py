"""One way of one library on bounded counts, with its time and memory: JSON in, JSON out.

The data are `keys` (texts, present ones first), `counts` (of the present ones), `rows` (user,
position of the key; no user has a key twice, or more than `--keys-per-user` keys), `asked`
(positions for ways that are slow to answer) and a `seed`. The answer has `estimates` (position and
number; what is missing was not asked or, where keys are `named`, not published), and what else the
library says: `named` (positions), `low` and `high`, `nbytes`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("way")
    parser.add_argument("data", type=Path)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--keys-per-user", type=int, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    chosen = parser.parse_args()
    library = importlib.import_module(f"with_{chosen.library}")
    data = json.loads(chosen.data.read_text(encoding="utf-8"))
    prepared = library.prepare(data)  # which also imports: a release is timed in a process that is ready
    start = time.perf_counter()
    released = library.release(chosen.way, prepared, chosen.keys_per_user, chosen.epsilon, chosen.delta)
    seconds = time.perf_counter() - start
    memory = peak_memory()  # of the release: answering all keys is not part of it
    answer: dict[str, Any] = library.answer(chosen.way, released, data)
    answer["estimates"] = list(answer["estimates"].items())  # JSON has no integers as keys
    answer.update(seconds=seconds, memory=memory)
    answer.update(version=metadata.version(library.PACKAGE), python=platform.python_version())
    chosen.answer.write_text(json.dumps(answer), encoding="utf-8")


def peak_memory() -> int | None:
    """The most bytes in memory of this process, and of those that it started and that still run;
    None where the system does not tell.
    """
    seen = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:  # it has ended meanwhile
            continue
        # Not the resources that the system counts: a new process inherits those of its parent.
        seen[int(status.parent.name)] = int(fields["PPid"]), 1024 * int(fields.get("VmHWM", "0 kB").split()[0])
    total, ours = 0, [os.getpid()]
    while ours:
        one = ours.pop()
        total += seen.get(one, (0, 0))[1]
        ours += [process for process, (parent, _) in seen.items() if parent == one]
    return total or None


if __name__ == "__main__":
    main()
