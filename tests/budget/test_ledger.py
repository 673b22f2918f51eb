"""The ledger: exact sums, totals that hold, errors that say what to do."""

from __future__ import annotations

import math
import os
import pickle
import stat
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsedp
from ledgers import small
from sparsedp.budget import ledger as ledger_module
from sparsedp.budget.balance import rounded_down, rounded_up
from sparsedp.budget.ledger import Entry, Ledger
from sparsedp.errors import BudgetError, LedgerError, ParameterError

NAN, INFINITY = float("nan"), float("inf")


def decimal(amount: float) -> Fraction:
    return Fraction(repr(amount))


def test_ten_tenths_are_one_and_not_a_bit_more_is_left(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1.0, delta=3e-6)
    for _ in range(10):
        ledger.spend(epsilon=0.1, delta=3e-7)
    (balance,) = ledger.datasets()
    assert (balance.spent_epsilon, balance.left_epsilon) == (1.0, 0.0)
    assert (balance.spent_delta, balance.left_delta) == (3e-6, 0.0)
    with pytest.raises(BudgetError, match=r"at most 0\.0 and 0\.0, what is left of 1\.0 and 3e-06 for .*got 5e-324"):
        ledger.spend(epsilon=5e-324)
    assert len(ledger.entries()) == 10


def test_a_refused_debit_spends_neither_epsilon_nor_delta(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
    for epsilon, delta in ((1.0000000000000002, 0.0), (0.5, 1.1e-6)):
        with pytest.raises(BudgetError, match=r"at most 1\.0 and 1e-06, .* nothing was spent: ask for less"):
            ledger.spend(epsilon=epsilon, delta=delta)
    assert ledger.entries() == []
    assert ledger.datasets()[0].left_delta == 1e-6
    ledger.spend(epsilon=1.0, delta=1e-6)


AMOUNTS = st.one_of(
    st.sampled_from([0.1, 0.2, 0.3, 1e-9, 5e-324, 1e-17, 0.7, 1.0]),
    st.floats(min_value=0, max_value=2, exclude_min=True),
)


@settings(max_examples=30, deadline=None)
@given(AMOUNTS, st.sampled_from([0.0, 1e-6, 0.3]), st.lists(st.tuples(AMOUNTS, st.sampled_from([0.0, 1e-7, 0.1]))))
def test_a_debit_is_allowed_exactly_if_the_sums_stay_within_the_totals(
    epsilon: float, delta: float, debits: list[tuple[float, float]]
) -> None:
    """Catches sums in floats (10 × 0.1), a comparison without equality, and a δ that is not
    checked.
    """
    with tempfile.TemporaryDirectory() as directory:
        ledger = Ledger.create(Path(directory, "l"), epsilon=epsilon, delta=delta)
        spent = [Fraction(), Fraction()]
        for debit in debits[:12]:
            after = [sum + decimal(amount) for sum, amount in zip(spent, debit, strict=True)]
            if after[0] <= decimal(epsilon) and after[1] <= decimal(delta):
                ledger.spend(epsilon=debit[0], delta=debit[1])
                spent = after
            else:
                with pytest.raises(BudgetError):
                    ledger.spend(epsilon=debit[0], delta=debit[1])
        entries = ledger.entries()
        assert [sum((decimal(x.epsilon) for x in entries), Fraction()), sum(decimal(x.delta) for x in entries)] == spent
        (balance,) = ledger.datasets()
        assert decimal(balance.spent_epsilon) >= spent[0]
        assert decimal(balance.left_epsilon) <= decimal(epsilon) - spent[0]
        if balance.left_epsilon:  # what is reported as left can be spent
            ledger.spend(epsilon=balance.left_epsilon, delta=balance.left_delta)


@given(st.fractions(min_value=0, max_value=10), st.floats(min_value=0, max_value=10), st.integers(-3, 3))
def test_no_float_lies_between_a_fraction_and_its_rounding(fraction: Fraction, near: float, offset: int) -> None:
    """Catches rounding to the nearest float, which allows more than is left, and rounding one float
    too far.
    """
    for exact in (fraction, max(Fraction(near) + Fraction(offset, 10**17), Fraction())):
        down, up = rounded_down(exact), rounded_up(exact)
        assert decimal(down) <= exact < decimal(math.nextafter(down, INFINITY))
        assert decimal(up) >= exact > decimal(math.nextafter(up, -INFINITY))


BAD_AMOUNTS: list[dict[str, Any]] = [
    *({"epsilon": bad} for bad in (0, -1, NAN, INFINITY, -INFINITY, True, "1", b"1", None, 1j)),
    *({"epsilon": 0.5, "delta": bad} for bad in (-1e-9, 1, 1.5, NAN, INFINITY, False, "0", None)),
]
BAD_NAMES: list[Any] = ["", " ", " a", "a\n", "a\0b", "x" * 201, "\ud800", None, 3, b"default"]


@pytest.mark.parametrize(
    "bad", [*BAD_AMOUNTS, *({"epsilon": 0.5, "dataset": name} for name in BAD_NAMES)], ids=lambda bad: ascii(bad)[:60]
)
def test_bad_parameters_are_refused_before_the_file_is_touched(path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"^(epsilon|delta|dataset) must be .*, got"):
        Ledger.create(path, **bad)
    assert list(path.parent.iterdir()) == []
    with pytest.raises(ParameterError, match=r"^(epsilon|delta|dataset) must be .*, got"):
        Ledger(path, 1.0).spend(**bad)  # the file does not even exist


@pytest.mark.parametrize("bad", [{"note": 1}, {"mechanism": "x" * 10_001}, {"note": "\udfff"}])
def test_bad_texts_are_refused(path: Path, bad: dict[str, Any]) -> None:
    ledger = Ledger.create(path, epsilon=1)
    with pytest.raises(ParameterError, match="must be text of at most 10000 characters"):
        ledger.spend(epsilon=0.1, **bad)
    with pytest.raises(ParameterError, match="released must be text"):
        ledger.finish(ledger.spend(epsilon=0.1), None)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("timeout", [-1, NAN, INFINITY, 1e300, "1", True])
def test_a_timeout_is_a_number_of_seconds(path: Path, timeout: Any) -> None:
    with pytest.raises(ParameterError, match="timeout must be"):
        Ledger.create(path, epsilon=1, timeout=timeout)
    with pytest.raises(ParameterError, match="timeout must be"):
        Ledger.open(path, timeout=timeout)


def test_a_total_never_changes(path: Path) -> None:
    Ledger.create(path, epsilon=1.0)
    before = path.read_bytes()
    for epsilon in (1.0, 5.0):
        with pytest.raises(BudgetError, match=r"dataset must be new, got 'default'.*spend what is left"):
            Ledger.create(path, epsilon=epsilon)
    assert path.read_bytes() == before


def test_data_sets_have_budgets_of_their_own(path: Path) -> None:
    ledger = small(path)
    assert [(b.dataset, b.epsilon, b.left_epsilon) for b in ledger.datasets()] == [
        ("default", 1.0, 0.25),
        ("other", 2.0, 1.75),
    ]
    assert [entry.id for entry in ledger.entries()] == [1, 2, 3]
    assert [entry.id for entry in ledger.entries("default")] == [1, 3]
    for use in (lambda: ledger.spend(epsilon=0.1, dataset="none"), lambda: ledger.entries("none")):
        with pytest.raises(BudgetError, match=r"dataset must have a budget in .*, got 'none'; create one"):
            use()


@pytest.mark.parametrize("name", ["données", "数据集", "🗳 ballots", "O'Brien; DROP TABLE entries", "%", "x" * 200])
def test_names_are_any_printable_text(path: Path, name: str) -> None:
    ledger = Ledger.create(path, epsilon=1, dataset=name)
    ledger.spend(epsilon=0.5, dataset=name)
    assert ledger.datasets()[0].dataset == name
    assert [entry.dataset for entry in Ledger.open(path).entries(name)] == [name]


def test_a_name_is_the_same_however_its_letters_are_encoded(path: Path) -> None:
    """Otherwise the same data would have a budget for each encoding."""
    Ledger.create(path, epsilon=1, dataset="donn\u00e9es").spend(epsilon=1, dataset="donne\u0301es")
    with pytest.raises(BudgetError, match="must be new"):
        Ledger.create(path, epsilon=1, dataset="donne\u0301es")


@pytest.mark.parametrize("name", ["a b?mode=memory#x%41.db", ":memory:", "file:x", "é🗳", "x" * 255])
def test_paths_are_taken_as_they_are(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create(name, epsilon=1)
    monkeypatch.chdir("/")
    ledger.spend(epsilon=0.5)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_release_is_finished_once_and_by_its_own_receipt(path: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1)
    receipt = ledger.spend(epsilon=0.5, mechanism="laplace", note="spring")
    (entry,) = ledger.entries()
    assert entry.released is None
    other = Ledger.create(tmp_path / "other.db", epsilon=1)
    other.spend(epsilon=0.5, mechanism="laplace", note="spring")
    with pytest.raises(ParameterError, match=r"must be an unfinished debit of .*other\.db"):
        other.finish(receipt, "x")
    ledger.finish(receipt, "spring.sparsedp")
    assert ledger.entries() == [Entry(**{**vars(receipt), "released": "spring.sparsedp"})]
    with pytest.raises(ParameterError, match=r"must be an unfinished debit of .*; spend for each release"):
        ledger.finish(receipt, "summer.sparsedp")
    late = ledger.spend(epsilon=0.25)
    ledger.finish(ledger.entries()[-1], "found after a crash")  # an entry is a receipt
    assert ledger.entries()[-1].released == "found after a crash"
    assert late.id == 2


def test_the_order_is_that_of_the_debits_whatever_the_clock_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(path, epsilon=1)
    for year in (2030, 1970, 2000):
        monkeypatch.setattr(ledger_module, "_now", lambda year=year: f"{year}-01-01T00:00:00.000000+00:00")
        ledger.spend(epsilon=0.1)
    assert [entry.time[:4] for entry in ledger.entries()] == ["2030", "1970", "2000"]


def test_times_are_utc(path: Path) -> None:
    ledger = small(path)
    assert all(entry.time.endswith("+00:00") for entry in ledger.entries())
    assert all(balance.created.endswith("+00:00") for balance in ledger.datasets())


def test_the_file_is_private_and_alone(path: Path) -> None:
    mask = os.umask(0)
    try:
        small(path)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_debit_is_reported_after_its_line_and_its_mark_are_synced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test can cut the power, so this looks at the file at each sync. Catches a mark that is
    synced with, or before, its line, and one that is not synced.
    """
    ledger = small(path)
    before = path.read_bytes()
    synced: list[bytes] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(path.read_bytes())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    ledger.spend(epsilon=0.125)
    line, mark = synced
    assert line[: len(before)] == before
    assert len(line) > len(before)
    assert mark == path.read_bytes()
    assert [at for at in range(0, len(mark), 512) if mark[at : at + 512] != line[at : at + 512]] in ([512], [1024])


def test_a_ledger_pickles(path: Path) -> None:
    ledger = pickle.loads(pickle.dumps(small(path)))
    assert len(ledger.entries()) == 3


def test_a_missing_ledger_is_not_made(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="which does not exist; create it"):
        Ledger.open(path)
    ledger = Ledger.create(path, epsilon=1)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        ledger.spend(epsilon=0.1)
    assert list(path.parent.iterdir()) == []
    with pytest.raises(LedgerError, match="cannot be created; use a writable directory"):
        Ledger.create(path / "no" / "directory", epsilon=1)
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger.open(path.parent)


def test_a_remark_that_cannot_be_written_points_to_the_caller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Catches a level that names a line of the library, where Python shows a warning once and nobody
    # looks.
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=2)

    def fail(*_: object) -> None:
        raise LedgerError("no room")

    monkeypatch.setattr(Ledger, "finish", fail)
    with pytest.warns(UserWarning, match="built and debited") as seen:
        sparsedp.release({"a": 1}, epsilon=1.0, nonzero=5, ledger=ledger)
    assert [Path(one.filename).name for one in seen if "debited" in str(one.message)] == ["test_ledger.py"]
