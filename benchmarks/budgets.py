"""A debit to a ledger that has 10⁵ of them, and composes: the whole call, with the file read, checked,
written and synced.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from sparsedp import Ledger
from sparsedp.budget import store

from .measuring import Row, seconds

DEBITS = 100_000
MOST = 0.1  # seconds of a decision


def ledger_rows() -> Iterator[Row]:
    """Debits that are alike, and debits of which no two are."""
    random.seed(1)
    kinds: dict[str, Callable[[], float]] = {"equal": lambda: 0.004, "different": lambda: random.uniform(0.001, 0.006)}
    with tempfile.TemporaryDirectory() as folder:
        few = filled(Path(folder, "few"), 10, kinds["equal"])
        theirs = seconds(lambda: few.spend(epsilon=0.004), 10)
        for kind, size in kinds.items():
            ledger = filled(Path(folder, kind), DEBITS, size)
            store._checked.clear()
            opening = seconds(partial(Ledger.open, ledger.path), 1)
            first = seconds(partial(debit, ledger, size), 1)
            ours = seconds(partial(debit, ledger, size), 10)
            figures = {"open, s": opening, "first debit, s": first, "debit, s": ours}
            yield Row(f"ledger: a debit after 10⁵ {kind} ones", "a tenth of a second", ours, MOST, 1.0, figures=figures)
            yield Row("… the same", "after 10 debits", ours, theirs)
            yield Row("… opening it and the first debit", "a tenth of a second", opening + first, MOST)


def debit(ledger: Ledger, size: Callable[[], float]) -> None:
    """One debit."""
    ledger.spend(epsilon=size())


def filled(path: Path, debits: int, size: Callable[[], float]) -> Ledger:
    """A ledger with so many lines, as if each debit had been made on its own."""
    ledger = Ledger.create(path, epsilon=20.0, delta=1e-6, accounting="pld")
    checked, _ = store._check(path.read_bytes(), path)
    before = last = checked.ends[-1]
    lines = []
    for id in range(1, debits + 1):
        about = (repr(size()), "0.0", "tight-alp", "visits.sparsedp", "2026-01-01T00:00:00.000000+00:00")
        line, mark = store._line(last, [["debit", id, "default", *about]])
        lines.append(line)
        before, last = last, mark
    with path.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"".join(lines))
        for written in (before, last):
            file.seek(written.place())
            file.write(written.written())
    return ledger
