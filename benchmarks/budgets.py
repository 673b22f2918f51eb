"""A debit to a ledger that has 10⁵ of them: the whole call, with the file read, checked, written and
synced, in a process that has used the ledger before, and in new ones.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path

from sparsedp import Ledger
from sparsedp.budget import journal, store

from .measuring import Row, seconds

DEBITS = 100_000
MOST = 0.1  # seconds of a decision
ROOMY = 20.0
# At its end, a budget needs more than a simple bound: equal debits cost 6.40 together, others 6.04.
ENDS = {"equal": 6.6, "different": 6.2}
FRESH = 10  # processes; the quickest counts

NEW_PROCESS = """
import time
start = time.perf_counter()
import hashlib, json, pathlib, sys
from sparsedp import Ledger
imported, used = time.perf_counter(), time.process_time()
ledger = Ledger.open(sys.argv[1])
opened = time.perf_counter()
ledger.spend(epsilon=float(sys.argv[2]))
spent, used = time.perf_counter(), time.process_time() - used
content = pathlib.Path(sys.argv[1]).read_bytes()
read = time.perf_counter()
hashlib.sha256(content).digest()
hashed = time.perf_counter()
print(json.dumps({
    "imports, s": imported - start, "open, s": opened - imported, "first debit, s": spent - opened,
    "decision, s": spent - imported, "decision, s of the processor": used, "SHA-256 of the file, s": hashed - read,
}))
"""


def ledger_rows() -> Iterator[Row]:
    """Debits that are alike, and debits of which no two are, composed and added up."""
    random.seed(1)
    kinds: dict[str, Callable[[], float]] = {"equal": lambda: 0.004, "different": lambda: random.uniform(0.001, 0.006)}
    with tempfile.TemporaryDirectory() as folder:
        few = filled(Path(folder, "few"), 10, kinds["equal"], "pld", ROOMY)
        theirs = seconds(lambda: few.spend(epsilon=0.004), 10)
        for kind, size in kinds.items():
            for budget, total in (("pld", ROOMY), ("pld at end", ENDS[kind]), ("basic", 1000.0)):
                ledger = filled(Path(folder, kind + budget), DEBITS, size, budget.split()[0], total)
                new = fresh(ledger.path, size)
                name = f"ledger: a new process, 10⁵ {kind}, {budget}"
                yield Row(name, "a tenth of a second", new["decision, s"], MOST, 1.0, figures=new)
                yield Row("… the same", "SHA-256 of the file", new["decision, s"], new["SHA-256 of the file, s"])
                store._checked.clear()
                whole = seconds(ledger.entries, 1)
                ours = seconds(partial(debit, ledger, size), 10)
                figures = {"all entries, with the full check, s": whole, "debit, s": ours}
                yield Row("… the next decisions of a process", "a tenth of a second", ours, MOST, 1.0, figures=figures)
                if total == ROOMY:
                    yield Row("… the same", "after 10 debits", ours, theirs)


def debit(ledger: Ledger, size: Callable[[], float]) -> None:
    """One debit."""
    ledger.spend(epsilon=size())


def fresh(path: Path, size: Callable[[], float]) -> dict[str, float]:
    """What the quickest of a few new processes took to open a ledger and to make its first debit."""
    runs = []
    for _ in range(FRESH):
        command = [sys.executable, "-c", NEW_PROCESS, str(path), repr(size())]
        runs.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    return min(runs, key=lambda run: float(run["decision, s"]))


def filled(path: Path, debits: int, size: Callable[[], float], accounting: str, total: float) -> Ledger:
    """A ledger with so many lines, as if each debit had been made on its own."""
    ledger = Ledger.create(path, epsilon=total, delta=1e-6, accounting=accounting)
    with FileIO(path) as file:
        checked, _ = journal.check(file, path)
    book, lines = checked.book, []
    for id in range(1, debits + 1):
        summary = journal.due_summary(checked)
        about = (repr(size()), "0.0", "tight-alp", "visits.sparsedp", "2026-01-01T00:00:00.000000+00:00")
        book.change("debit", id, "default", *about)
        line, mark = journal.line_of(checked.ends[-1], summary + book.changes)
        checked.append(line, mark, bool(summary))
        lines.append(line)
        book.changes.clear()
    with path.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"".join(lines))
        for mark in checked.ends[-2:]:
            file.seek(mark.place())
            file.write(mark.written())
    return ledger
