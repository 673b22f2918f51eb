"""Commands for the budget: ledger create, show, plan, upgrade."""

from __future__ import annotations

import shlex
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .app import Delta, Epsilon, Json, Quiet, app, number, say, show

if TYPE_CHECKING:
    from ..budget.balance import Balance
    from ..budget.ledger import Ledger
    from ..budget.spending import Account
    from ..errors import BudgetError

ledger_app = typer.Typer(help="Keep the privacy budget of data sets.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")

LedgerFile = Annotated[Path, typer.Argument(help="The ledger: one file, private to the owner of the data.")]
Dataset = Annotated[str, typer.Option("--dataset", help="The data set that the budget belongs to.")]


Accounting = Annotated[
    str,
    typer.Option(
        "--accounting",
        help="How releases add up: basic (ε and δ are added) or pld (by privacy loss distributions; needs δ > 0).",
        metavar="basic|pld",
    ),
]

ASSUMES = (
    "This total holds if no parameter of a release (ε, δ, mechanism, noise, bounds on users, nonzero, total, parts, "
    "keep_keys) was chosen by what earlier ones published; which rows and columns are released may be."
)


def renewed(per: str) -> str:
    """What a budget per period does not promise."""
    own = f"Every {per} has a budget of its own: the guarantee is for the releases of one {per}"
    return f"{own}, and those of several add up."


def assumed(balance: Balance) -> list[str]:
    """What must be true for a balance to be the whole story."""
    return ([ASSUMES] if balance.accounting == "pld" else []) + ([renewed(balance.per)] if balance.per else [])


def open_ledger(path: Path) -> Ledger:
    """An existing ledger; the error for a missing one shows the command that creates it."""
    from ..budget.ledger import Ledger

    if not path.exists():
        raise FileNotFoundError(f"there is no ledger {path}; create it with: {creation(path)}")
    return Ledger.open(path)


def account_for(path: Path | None, dataset: str, note: str) -> Account | None:
    """The account that a command debits, if any."""
    from ..budget.spending import Account, account_of

    return account_of(None, dataset) if path is None else Account(open_ledger(path), dataset, note)


def creation(path: Path, dataset: str = "default") -> str:
    """The command that gives a data set a budget."""
    name = "" if dataset == "default" else f" --dataset {shlex.quote(dataset)}"
    return f"sparsedp ledger create {shlex.quote(str(path))}{name} --epsilon TOTAL"


def check_budget(account: Account, epsilon: float, delta: float, event: str | None = None) -> None:
    """Refuse before the work if the budget is already too small. The debit itself decides later."""
    from ..budget.spending import check_affordable
    from ..errors import BudgetError

    accounting_of(account)
    try:
        check_affordable(account, epsilon, delta, event)
    except BudgetError as error:
        raise BudgetError(f"{account.ledger.path}: {error}. The table was not read") from error


def accounting_of(account: Account) -> str:
    """How the debits of an account are composed; the error for a data set without a budget shows the
    command that creates one.
    """
    from ..errors import BudgetError

    try:
        return account.ledger.accounting(account.dataset)
    except BudgetError:
        raise no_budget(account.ledger.path, account.dataset) from None


def no_budget(path: Path, dataset: str) -> BudgetError:
    """The error for a data set without a budget, with the command that creates one."""
    from ..errors import BudgetError

    return BudgetError(f"{path} has no budget for data set {dataset!r}; create one with: {creation(path, dataset)}")


def open_account(path: Path, dataset: str) -> Ledger:
    """An existing ledger with a budget for this data set."""
    from ..errors import BudgetError

    ledger = open_ledger(path)
    try:
        ledger.accounting(dataset)
    except BudgetError:
        raise no_budget(path, dataset) from None
    return ledger


@ledger_app.command()
def create(
    path: LedgerFile,
    epsilon: Epsilon,
    delta: Delta = Fraction(0),
    dataset: Dataset = "default",
    accounting: Accounting = "basic",
    per: Annotated[
        str | None,
        typer.Option(
            "--per",
            help="A new budget for every calendar day, week or month (UTC): the guarantee is then for the releases of "
            "one period only.",
            metavar="day|week|month",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Give a data set its total ε and δ, for all releases together.

    A total never changes. One file may hold the budgets of several data sets.

    With --accounting pld, many releases cost less than the sum of their ε. It needs δ > 0, and it
    assumes that no parameter of a release (ε, δ, mechanism, noise, bounds on users, nonzero, total,
    parts, keep_keys) is chosen by what earlier releases published; which rows and columns are
    released may be. (What suggest publishes is taken care of.)
    """
    from ..budget.ledger import Ledger

    Ledger.create(path, epsilon=float(epsilon), delta=float(delta), dataset=dataset, accounting=accounting, per=per)
    time = "in all" if per is None else f"every {per} (UTC)"
    say(f"{path}: data set {dataset!r} may spend ε = {float(epsilon):g}, δ = {float(delta):g} {time}", quiet)
    if accounting == "pld":
        say(ASSUMES, quiet)
    if per is not None:
        say(renewed(per), quiet)


@ledger_app.command("show")
def show_ledger(path: LedgerFile, json: Json = False) -> None:
    """Show what was spent on what, what it costs together, and what is left."""
    ledger = open_ledger(path)
    balances, entries = ledger.datasets(), ledger.entries()
    if json:
        datasets = [vars(balance) | {"assumes": assumed(balance)} for balance in balances]
        show({"datasets": datasets, "entries": [vars(entry) for entry in entries]})
        return
    for balance in balances:
        left = f"ε = {balance.left_epsilon:g}, δ = {balance.left_delta:g}"
        period = f" for {balance.per} {balance.period}" if balance.per else ""
        print(f"{balance.dataset}: {left} left of ε = {balance.epsilon:g}, δ = {balance.delta:g}{period}")
        if balance.accounting == "pld":
            releases = "1 release costs" if balance.releases == 1 else f"{balance.releases:,} releases cost"
            sums = f"ε = {balance.spent_epsilon:g}, δ = {balance.spent_delta:g}"
            print(f"  {releases} ε = {balance.composed_epsilon:.6g} together at that δ; added up, {sums}")
        for words in assumed(balance):
            print(f"  {words}")
        for entry in entries:
            if entry.dataset == balance.dataset:
                what = f"{entry.mechanism} {entry.note}".strip() + (
                    "" if entry.released else "  (debited, not finished)"
                )
                print(f"  {entry.id:>4}  {entry.time}  ε = {entry.epsilon:g}, δ = {entry.delta:g}  {what}")


@ledger_app.command("plan")
def plan_ledger(
    path: LedgerFile,
    epsilon: Annotated[
        Fraction | None,
        typer.Option(
            "--epsilon", "-e", help="The ε of a release; by default the last one.", parser=number, metavar="NUMBER"
        ),
    ] = None,
    delta: Delta = Fraction(0),
    dataset: Dataset = "default",
    json: Json = False,
) -> None:
    """Show how many more releases like the last one fit, or with a given ε and δ."""
    from ..budget.balance import MOST_PLANNED
    from ..errors import ParameterError

    if epsilon is None and delta:
        raise ParameterError("epsilon must be given with delta; give neither for releases like the last one")
    ledger = open_account(path, dataset)
    outlook = ledger.plan(epsilon=None if epsilon is None else float(epsilon), delta=float(delta), dataset=dataset)
    if json:
        show(vars(outlook))
        return
    like = "" if outlook.mechanism is None else f", like the last one ({outlook.mechanism or 'no mechanism'}),"
    many = f"{'at least ' if outlook.more == MOST_PLANNED else ''}{outlook.more:,}"
    noun = "release" if outlook.more == 1 else "releases"
    verb = "fits" if outlook.more == 1 else "fit"
    period = f" in {outlook.period}" if outlook.period else ""
    print(f"{many} more {noun} of ε = {outlook.epsilon:g}, δ = {outlook.delta:g}{like} {verb}{period}")


@ledger_app.command("upgrade")
def upgrade(
    path: LedgerFile,
    accounting: Annotated[
        str | None,
        typer.Option(
            "--accounting", help="With pld, the debits of a data set are composed from now on.", metavar="pld"
        ),
    ] = None,
    dataset: Dataset = "default",
    quiet: Quiet = False,
) -> None:
    """Bring a ledger to the newest format, which is quick with many debits, or compose its debits.

    With --accounting pld, all debits of a data set, past ones too, are composed by privacy loss
    distributions from now on. Totals and debits stay as they are. There is no way back.
    """
    ledger = open_account(path, dataset) if accounting else open_ledger(path)
    ledger.upgrade(accounting=accounting, dataset=dataset)
    if accounting is None:
        say(f"{path}: the ledger has the newest format, with every debit", quiet)
        return
    say(f"{path}: the releases of data set {dataset!r}, past and future, are composed from now on", quiet)
    say(ASSUMES, quiet)
