"""Ledgers with summaries: a new process reads only what comes after the last one, and loses nothing by
it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from faults import at_call, ending_of_child, in_child, stop
from ledgers import EVENT, checked, small, state
from sparsedp.budget import journal, kinds, store
from sparsedp.budget.book import Book, Row
from sparsedp.budget.kinds import Debit, Kinds
from sparsedp.budget.ledger import Ledger
from sparsedp.budget.periods import period_of
from sparsedp.errors import BudgetError, LedgerError, ParameterError

GOLDEN = Path(__file__).parents[1] / "golden" / "ledgers"
TIME = "2026-01-01T00:00:00.000000+00:00"


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every line has a summary."""
    monkeypatch.setattr(journal, "TAIL", 1)
    monkeypatch.setattr(journal, "TAIL_PER_SUMMARY", 1)


def summaries(path: Path) -> int:
    return path.read_bytes().count(b" " + journal.SUMMARY)


def forget() -> None:
    """As in a new process."""
    store._checked.clear()


def quick(path: Path) -> Book:
    """What a new process knows before its first decision."""
    return checked(path, since=None).book


def whole(path: Path) -> Book:
    return checked(path).book


def random_change(book: Book, number: int, draw: random.Random) -> None:
    """A change as any caller could make it."""
    name = draw.choice(sorted(book.budgets))
    event = draw.choice(["", "", "", "decides", EVENT])
    epsilon = repr(draw.choice([0.1, 0.25, draw.uniform(1e-6, 1.0), 1e200]))
    time = f"2026-01-{1 + number // 20:02}T00:00:00.000000+00:00"
    unfinished = [row.id for row in book.entries.values() if row.released is None]
    if unfinished and draw.random() < 0.3:
        book.change("released", draw.choice(unfinished), f"r{number}")
    elif draw.random() < 0.05:
        per = draw.choice(["", "day", "month"])
        book.change("budget", f"d{number} é", "5.0", "1e-06", time, draw.choice(["basic", "pld"]), per)
    elif draw.random() < 0.05 and book.budgets[name].accounting == "basic":
        book.change("accounting", name, "pld", time)
    else:
        delta = draw.choice(["0.0", "1e-09", repr(draw.uniform(0, 1e-7))])
        book.add_debit(Row(book.debits + 1, name, epsilon, delta, "m", '[["summary",', time, event, None))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("most", [2048, 12])
def test_what_a_summary_leads_to_is_what_all_lines_say(path: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches anything that summaries forget, also when kinds of debits are rounded."""
    monkeypatch.setattr(kinds, "MOST_KINDS", most)
    monkeypatch.setattr(kinds, "MOST_LAWS", 2)
    draw = random.Random(most)
    Ledger.create(path, epsilon=100.0, delta=1e-3)
    for number in range(120):
        with store.transaction(path, 1.0, write=True, since=1) as book:
            random_change(book, number, draw)
        if number % 3 == 0:
            forget()  # the next line is by a process that has read all of them
        read = quick(path)
        assert read.stated() == book.stated()
        assert len(read.entries) < 40 or number < 40
        assert [read.entries[id] for id in read.entries] == [
            book.entries[id]._replace(released=read.entries[id].released) for id in read.entries
        ]
    assert summaries(path) > 20
    full = whole(path)
    assert (full.stated(), full.entries) == (book.stated(), book.entries)
    for name, tally in full.tallies.items():
        per = full.budgets[name].per
        times = [(row, period_of(row.time, per)) for row in full.entries.values() if row.dataset == name]
        rows = [row for row, period in times if period == tally.period]
        assert Fraction(tally.epsilon) == sum(Fraction(row.epsilon) for row in rows)
        assert Fraction(tally.delta) == sum(Fraction(row.delta) for row in rows)
        assert tally.releases == len(rows)


@pytest.mark.usefixtures("often")
def test_a_process_that_never_reads_old_lines_writes_the_same_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches summaries that depend on what a process has read."""
    monkeypatch.setattr(kinds, "MOST_KINDS", 5)
    other = path.with_name("other.db")
    Ledger.create(path, epsilon=100.0)
    shutil.copy(path, other)
    for number in range(60):
        row = Row(number + 1, "default", repr(0.01 + number / 1000), "1e-09", "", "", TIME, "", None)
        for file, since in ((path, None), (other, 1)):
            forget()
            with store.transaction(file, 1.0, write=True, since=since) as book:
                book.add_debit(row)
    assert path.read_bytes() == other.read_bytes()
    assert len(whole(path).entries) == 60


def test_a_new_process_reads_only_the_lines_after_the_last_summary(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(path, epsilon=100.0)
    with store.transaction(path, 1.0, write=True) as book:
        for id in range(1, 3001):
            book.change("debit", id, "default", "0.001", "0.0", "", "", TIME)
    assert summaries(path) == 0
    assert ledger.spend(epsilon=1.0).id == 3001
    assert summaries(path) == 1
    forget()
    applied = []
    apply = Book.apply

    def counted(book: Book, change: list[Any]) -> None:
        applied.append(change[0])
        apply(book, change)

    monkeypatch.setattr(Book, "apply", counted)
    opened = Ledger.open(path)
    assert opened.datasets()[0].spent_epsilon == 4.0
    assert opened.plan().epsilon == 1.0
    opened.check(epsilon=96.0)
    assert opened.spend(epsilon=95.0).id == 3002
    assert Counter(applied) == {"summary": 1, "debit": 2}
    assert len(opened.entries()) == 3002
    with pytest.raises(BudgetError):
        opened.spend(epsilon=1.5)


@pytest.mark.usefixtures("often")
def test_a_truncated_file_with_summaries_is_refused_or_has_every_debit(path: Path) -> None:
    ledger = small(path)
    assert summaries(path) > 2
    spent = ledger.datasets()
    intact = path.read_bytes()
    for length in range(len(intact) - 1, -1, -1):
        os.truncate(path, length)
        forget()
        with suppress(LedgerError):
            assert ledger.datasets() == spent
    path.write_bytes(intact)
    assert ledger.datasets() == spent


@pytest.mark.usefixtures("often")
def test_a_damaged_byte_is_refused_before_a_summary_too(path: Path) -> None:
    """Catches a digest of the lines before a summary that leaves some of them out."""
    ledger = small(path)
    spent = ledger.datasets()
    intact = path.read_bytes()
    for at in range(journal.FIRST, len(intact)):
        for bit in (1 << at % 8, 1 << (at + 3) % 8):
            path.write_bytes(intact[:at] + bytes([intact[at] ^ bit]) + intact[at + 1 :])
            forget()
            with pytest.raises(LedgerError, match="is not a ledger, or is damaged"):
                ledger.datasets()
    path.write_bytes(intact)
    assert ledger.datasets() == spent


def forged(path: Path, change: Any) -> None:
    """A file whose last summary says something else, with all digests right."""
    content = path.read_bytes()
    known = checked(path)
    book = known.book
    summary = ["summary", known.ends[-1].number, sha256(content[journal.FIRST :]).hexdigest(), *book.stated()]
    book.add_debit(Row(book.debits + 1, "default", "0.01", "0.0", "", "", TIME, "", None))
    line, mark = journal.line_of(known.ends[-1], [change(summary), *book.changes])
    path.write_bytes(content + line)
    with path.open("r+b") as file:
        file.seek(mark.place())
        file.write(mark.written())


def edited(at: tuple[int, ...], value: Any) -> Any:
    def change(summary: list[Any]) -> list[Any]:
        inner: Any = summary
        for step in at[:-1]:
            inner = inner[step]
        inner[at[-1]] = value
        return summary

    return change


FORGED = {
    "other lines": edited((2,), "0" * 64),
    "another number of lines": edited((1,), 2),
    "a number of lines that is none": edited((1,), 5.0),
    "fewer debits": edited((3,), 2),
    "no data sets": edited((4,), []),
    "a data set that is none": edited((4, 0), 3),
    "another total": edited((4, 0, 1, 0), "9.0"),
    "no last debit": edited((4, 0, 2), []),
    "another sum": edited((4, 0, 3, 1), "0.1"),
    "a sum that is none": edited((4, 0, 3, 1), "x"),
    "fewer kinds": edited((4, 0, 3, 5), []),
    "kinds that are not there": edited((4, 0, 3, 5), [["0.5", "0.0", "", 0]]),
    "kinds of nothing": edited((4, 0, 3, 5), [[1, 2, 3, 4]]),
    "another rounding": edited((4, 0, 3, 4), 3),
    "too little": lambda summary: summary[:4],
    "too much": lambda summary: [*summary, 1],
}


@pytest.mark.parametrize("what", FORGED)
def test_a_summary_that_does_not_say_what_the_lines_say_is_refused_by_the_full_check(path: Path, what: str) -> None:
    """Digests are no signatures: a quick check believes a summary that someone has made, if it is
    one.
    """
    small(path)
    forged(path, lambda summary: summary)
    assert len(Ledger.open(path).entries()) == 4
    forged(path, FORGED[what])
    forget()
    with suppress(LedgerError):
        Ledger.open(path)
    with pytest.raises(LedgerError, match="is not a ledger, or is damaged"):
        Ledger(path, 1.0).entries()


def spend_until(moment: int, path: Path) -> int:
    forget()
    return at_call(moment, stop(signal.SIGKILL), partial(Ledger(path, 1.0).spend, epsilon=0.25))


@pytest.mark.usefixtures("often")
def test_killed_at_any_call_a_debit_with_a_summary_is_whole_or_absent(tmp_path: Path) -> None:
    first = tmp_path / "first"
    Ledger.create(first, epsilon=1).spend(epsilon=0.25)
    Ledger(first, 1.0).spend(epsilon=0.25)
    before = summaries(first)
    shutil.copy(first, tmp_path / "counted")
    seen = set()
    for moment in range(1, in_child(partial(spend_until, 0, tmp_path / "counted")) + 1):
        path = tmp_path / str(moment)
        shutil.copy(first, path)
        assert ending_of_child(partial(spend_until, moment, path)) == -signal.SIGKILL
        made = quick(path).debits
        seen.add((made, summaries(path) - before))
        ledger = Ledger(path, 1.0)
        for id in range(made + 1, 5):
            forget()
            assert ledger.spend(epsilon=0.25).id == id
        with pytest.raises(BudgetError):
            ledger.spend(epsilon=0.01)
        assert [entry.id for entry in ledger.entries()] == [1, 2, 3, 4]
    assert (2, 0) in seen
    assert (3, 1) in seen


@pytest.mark.usefixtures("often")
def test_after_a_power_cut_there_is_all_of_a_debit_with_a_summary_or_nothing(path: Path) -> None:
    """A part of the line and the old marks, or all of it and any part of its mark."""
    ledger = Ledger.create(path, epsilon=100)
    ledger.spend(epsilon=1)
    ledger.spend(epsilon=1)
    before, made = path.read_bytes(), summaries(path)
    ledger.spend(epsilon=1)
    after = path.read_bytes()
    assert summaries(path) == made + 1
    at = next(at for at in (512, 1024) if before[at : at + 512] != after[at : at + 512])
    states = {before + after[len(before) : cut]: 2 for cut in range(len(before), len(after), 5)}
    line = before + after[len(before) :]
    states |= {line[:at] + after[at : at + cut] + line[at + cut :]: 3 for cut in range(0, 512, 13)}
    for content, expected in states.items():
        path.write_bytes(content)
        forget()
        assert quick(path).debits == expected
        assert ledger.spend(epsilon=1).id == expected + 1
        forget()
        assert len(ledger.entries()) == expected + 1


@pytest.mark.usefixtures("often")
def test_a_debit_before_the_summary_is_finished_once(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=100)
    receipts = [ledger.spend(epsilon=1) for _ in range(12)]
    forget()
    assert len(quick(path).entries) < 12
    ledger.finish(receipts[0], "built")
    forget()
    with pytest.raises(ParameterError, match="receipt must be an unfinished debit"):
        ledger.finish(receipts[0], "again")
    for _ in range(3):
        forget()
        ledger.spend(epsilon=1)
    forget()
    assert [entry.released for entry in ledger.entries()] == ["built"] + [None] * 14


@pytest.mark.usefixtures("often")
def test_an_older_file_has_no_summaries_until_it_is_upgraded(path: Path) -> None:
    shutil.copy(GOLDEN / "version-3.db", path)
    before = state(path)
    ledger = Ledger.open(path)
    ledger.spend(epsilon=0.001)
    Ledger.create(path, epsilon=1.0, delta=1e-6, dataset="new", accounting="pld")
    assert path.read_bytes().startswith(journal.HEADS[3])
    assert summaries(path) == 0
    ledger.upgrade(accounting=None)
    assert path.read_bytes().startswith(journal.HEADS[4])
    ledger.upgrade(accounting=None)  # nothing is left to do
    assert ledger.spend(epsilon=0.001).id == len(before[1]) + 2
    assert summaries(path) == 1
    forget()
    assert state(path)[1][:-2] == before[1]


@pytest.mark.parametrize("version", [3, 4])
def test_golden_ledgers_say_what_they_said(path: Path, version: int) -> None:
    """Catches rules of summaries that change without a new version."""
    shutil.copy(GOLDEN / f"version-{version}.db", path)
    expected = json.loads((GOLDEN / f"version-{version}.json").read_text(encoding="utf-8"))
    ledger = Ledger.open(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsedp.budget.ledger._now", lambda: "2026-01-10T22:00:00.000000+00:00")
        for balance, stated in zip(ledger.datasets(), expected["datasets"], strict=True):
            composed = stated.pop("composed_epsilon"), stated.pop("left_epsilon"), stated.pop("left_delta")
            assert asdict(balance).items() >= stated.items()
            assert (balance.composed_epsilon, balance.left_epsilon, balance.left_delta) == pytest.approx(composed, 1e-3)
    assert (summaries(path) > 3) == (version == 4)
    assert [asdict(entry) for entry in ledger.entries()] == expected["entries"]


def test_kinds_are_rounded_as_they_were() -> None:
    """The rules are part of the format: with others, ledgers that were written would be refused."""
    draw = random.Random(7)
    counted = Kinds()
    for number in range(8_000):
        event = "decides" if number % 500 == 7 else EVENT if number % 40 == 3 else ""
        epsilon = 1.0 if event == EVENT else draw.uniform(0.001, 1.0)
        counted.add(Debit(repr(epsilon), "1e-07" if number % 3 else "0.0", event))
    assert counted.bits == 8
    text = json.dumps(counted.stated(), separators=(",", ":"))
    assert sha256(text.encode()).hexdigest() == "c6d6857a4321d3b29ec4d802bf08bb61bcd6c53cfd612c66feecc64acbfe647a"
    read = Kinds.read(*json.loads(text))
    assert read.stated() == counted.stated()
    for number in range(3000):
        debit = Debit(repr(draw.uniform(0.0001, 2.0)), "1e-08", ("", "decides", EVENT)[number % 3])
        assert read.add(debit) == counted.add(debit)
    assert read.stated() == counted.stated()


@pytest.mark.parametrize("spread", [3, 300])
def test_kinds_have_bounded_room_and_never_say_less(spread: int) -> None:
    """By their sums: of all ε's and of all δ's."""
    draw = random.Random(spread)
    counted = Kinds()
    epsilon = delta = Decimal(0)
    for number in range(8_000):
        size = 2.0 ** draw.uniform(-spread, 0) if number % 50 else 5e-324 * (1 + number)
        debit = Debit(repr(size), repr(draw.uniform(0, 1e-9)), ("", "decides")[number % 7 == 0])
        kind = counted.add(debit)
        assert Decimal(kind.epsilon) * (1 + Decimal("1e-16")) >= Decimal(debit.epsilon)
        assert kind.delta == debit.delta
        epsilon, delta = kinds.EXACT.add(epsilon, Decimal(debit.epsilon)), kinds.EXACT.add(delta, Decimal(debit.delta))
        assert len(counted.counts) <= kinds.MOST_KINDS
    assert counted.bits is not None
    stated = sum(kinds.EXACT.multiply(Decimal(kind.epsilon), times) for kind, times in counted.counts.items())
    assert epsilon <= stated <= epsilon * (1 + Decimal(2) ** -counted.bits)
    assert delta == sum(kinds.EXACT.multiply(Decimal(kind.delta), times) for kind, times in counted.counts.items())
