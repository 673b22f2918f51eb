"""A release and the budget it is debited to: first the debit, then the noise."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import LedgerError, ParameterError, SpentError, reason_of
from .ledger import Ledger

DEFAULT_DATASET = "default"


@dataclass(frozen=True)
class Account:
    """A data set of a ledger, and what its next entry will record about the release."""

    ledger: Ledger
    dataset: str = DEFAULT_DATASET
    note: str = ""


LedgerLike: TypeAlias = Account | Ledger | str | os.PathLike[str]


def account_of(ledger: LedgerLike | None, dataset: str) -> Account | None:
    """The account that a caller means by a ledger or its path; None if nothing is debited."""
    if ledger is None:
        if not isinstance(dataset, str) or dataset != DEFAULT_DATASET:  # who names one believes that its budget is kept
            raise ParameterError(
                f"dataset needs ledger=, the file that keeps its budget, got {dataset!r} alone; pass both, or omit "
                "dataset="
            )
        return None
    if isinstance(ledger, Account):
        return ledger
    return Account(ledger if isinstance(ledger, Ledger) else Ledger.open(ledger), dataset)


def check_affordable(account: Account | None, epsilon: float, delta: float, event: str | None = None) -> None:
    """Refuse before any data is read if the budget is already too small. The debit itself decides
    later.
    """
    if account is not None:
        account.ledger.check(epsilon=epsilon, delta=delta, dataset=account.dataset, event=event)


@contextmanager
def spending(
    account: Account | None,
    epsilon: float,
    delta: float,
    mechanism: str,
    event: str | None = None,
    stacklevel: int = 4,
) -> Iterator[None]:
    """Debit the account before the block draws noise; if the block fails, the debit stays and the
    error says so.
    """
    if account is None:
        yield
        return
    ledger = account.ledger
    receipt = ledger.spend(
        epsilon=epsilon, delta=delta, dataset=account.dataset, mechanism=mechanism, note=account.note, event=event
    )
    try:
        yield
    except Exception as error:
        raise SpentError(
            f"the release failed after ε = {epsilon:g}, δ = {delta:g} were debited (entry {receipt.id} of "
            f"{ledger.path}), and they stay debited: {reason_of(error)}"
        ) from error
    try:
        ledger.finish(receipt, "built")
    except LedgerError as error:  # the release is debited, and must not be lost for a missing remark
        warnings.warn(
            f"the release is built and debited, but entry {receipt.id} does not record that it was built: {error}",
            stacklevel=stacklevel,
        )
