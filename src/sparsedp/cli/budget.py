"""Commands for the budget: ledger create, ledger show."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from .app import Delta, Epsilon, Json, Quiet, app, say, show

ledger_app = typer.Typer(help="The privacy budget of a data set, spent once.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")

LedgerFile = Annotated[Path, typer.Argument(help="The ledger: an SQLite file, private to the owner of the data.")]
Dataset = Annotated[str, typer.Option("--dataset", help="The data set that the budget belongs to.")]


@ledger_app.command()
def create(
    path: LedgerFile,
    epsilon: Epsilon,
    delta: Delta = Fraction(0),
    dataset: Dataset = "default",
    quiet: Quiet = False,
) -> None:
    """Give a data set its total ε and δ, for all releases together. A total is never changed."""
    from ..ledger import Ledger

    Ledger.create(path, epsilon=float(epsilon), delta=float(delta), dataset=dataset)
    say(f"{path}: data set {dataset!r} may spend ε = {float(epsilon):g}, δ = {float(delta):g} in all", quiet)


@ledger_app.command("show")
def show_ledger(path: LedgerFile, json: Json = False) -> None:
    """What was spent on what, and what is left."""
    from ..ledger import Ledger

    ledger = Ledger.open(path)
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
