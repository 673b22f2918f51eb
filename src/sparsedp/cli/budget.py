"""Commands for the budget: ledger create, ledger show."""

from __future__ import annotations

import shlex
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .app import Delta, Epsilon, Json, Quiet, app, say, show

if TYPE_CHECKING:
    from ..budget.ledger import Ledger
    from ..budget.spending import Account

ledger_app = typer.Typer(help="Keep the privacy budget of data sets.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")

LedgerFile = Annotated[Path, typer.Argument(help="The ledger: one file, private to the owner of the data.")]
Dataset = Annotated[str, typer.Option("--dataset", help="The data set that the budget belongs to.")]


def open_ledger(path: Path) -> Ledger:
    """An existing ledger; the error for a missing one shows the command that creates it."""
    from ..budget.ledger import Ledger

    if not path.exists():
        raise FileNotFoundError(f"there is no ledger {path}; create it with: {creation(path)}")
    return Ledger.open(path)


def creation(path: Path, dataset: str = "default") -> str:
    """The command that gives a data set a budget."""
    name = "" if dataset == "default" else f" --dataset {shlex.quote(dataset)}"
    return f"sparsedp ledger create {shlex.quote(str(path))}{name} --epsilon TOTAL"


def check_budget(account: Account, epsilon: float, delta: float) -> None:
    """Refuse before the work if the budget is already too small. The debit itself decides later."""
    from ..errors import BudgetError

    for balance in account.ledger.datasets():
        if balance.dataset != account.dataset:
            continue
        if epsilon > balance.left_epsilon or delta > balance.left_delta:
            left = f"ε = {balance.left_epsilon:g}, δ = {balance.left_delta:g}"
            raise BudgetError(
                f"{account.ledger.path} has {left} left; ask for less. The table was not read, nothing was spent"
            )
        return
    fix = creation(account.ledger.path, account.dataset)
    raise BudgetError(f"{account.ledger.path} has no budget for data set {account.dataset!r}; create one with: {fix}")


@ledger_app.command()
def create(
    path: LedgerFile,
    epsilon: Epsilon,
    delta: Delta = Fraction(0),
    dataset: Dataset = "default",
    quiet: Quiet = False,
) -> None:
    """Give a data set its total ε and δ, for all releases together.

    A total never changes. One file may hold the budgets of several data sets.
    """
    from ..budget.ledger import Ledger

    Ledger.create(path, epsilon=float(epsilon), delta=float(delta), dataset=dataset)
    say(f"{path}: data set {dataset!r} may spend ε = {float(epsilon):g}, δ = {float(delta):g} in all", quiet)


@ledger_app.command("show")
def show_ledger(path: LedgerFile, json: Json = False) -> None:
    """Show what was spent on what, and what is left."""
    ledger = open_ledger(path)
    balances, entries = ledger.datasets(), ledger.entries()
    if json:
        show(
            {
                "datasets": [
                    {
                        "dataset": balance.dataset,
                        "epsilon": balance.epsilon,
                        "delta": balance.delta,
                        "left_epsilon": balance.left_epsilon,
                        "left_delta": balance.left_delta,
                        "created": balance.created,
                    }
                    for balance in balances
                ],
                "entries": [vars(entry) for entry in entries],
            }
        )
        return
    for balance in balances:
        left = f"ε = {balance.left_epsilon:g}, δ = {balance.left_delta:g}"
        print(f"{balance.dataset}: {left} left of ε = {balance.epsilon:g}, δ = {balance.delta:g}")
        for entry in entries:
            if entry.dataset == balance.dataset:
                what = f"{entry.mechanism} {entry.note}".strip() + (
                    "" if entry.released else "  (debited, not finished)"
                )
                print(f"  {entry.id:>4}  {entry.time}  ε = {entry.epsilon:g}, δ = {entry.delta:g}  {what}")
