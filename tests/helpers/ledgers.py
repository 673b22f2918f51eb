"""A small ledger, and everything in it."""

from __future__ import annotations

import json
from io import FileIO
from pathlib import Path

from sparsedp.budget import journal
from sparsedp.budget.balance import Balance
from sparsedp.budget.ledger import Entry, Ledger


def small(path: Path) -> Ledger:
    """Two data sets, three debits."""
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
    Ledger.create(path, epsilon=2.0, dataset="other")
    ledger.finish(ledger.spend(epsilon=0.5, delta=1e-7, mechanism="laplace", note="first"), "a.sparsedp sha256:00")
    ledger.spend(epsilon=0.25, dataset="other")
    ledger.spend(epsilon=0.25)
    return ledger


def checked(path: Path, since: int | None = 1) -> journal.Checked:
    """What a new process finds in a file."""
    with FileIO(path) as file:
        return journal.check(file, path, since=since)[0]


def state(path: Path) -> tuple[list[Balance], list[Entry]]:
    ledger = Ledger.open(path)
    return ledger.datasets(), ledger.entries()


def version_2(path: Path) -> Ledger:
    """A small ledger as it was made before there were events."""
    small(path)
    content = path.read_bytes()
    changes = [json.loads(line[journal.DIGEST :]) for line in content[journal.FIRST :].splitlines()]
    mark, lines = journal.STARTS[2], b""
    marks: list[journal.Mark] = []
    for change in changes:
        line, mark = journal.line_of(mark, change)
        lines, marks = lines + line, [*marks, mark]
    blocks = {last.place(): last.written() for last in marks[-2:]}
    path.write_bytes(journal.HEADS[2] + b"".join(blocks[at] for at in sorted(blocks)) + lines)
    return Ledger.open(path)
