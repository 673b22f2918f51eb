"""The command that spends budget: release."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .app import (
    Debited,
    DebitedDataset,
    Delimiter,
    Delta,
    Domain,
    Encoding,
    Epsilon,
    Hive,
    Json,
    KeyColumns,
    KeyTypes,
    Mechanism,
    Noise,
    Nonzero,
    Options,
    Quiet,
    Quote,
    Signed,
    Step,
    Total,
    Upper,
    app,
    as_arguments,
    mechanism_options,
    number,
    plain,
    say,
    show,
    whole_number,
)

if TYPE_CHECKING:
    from ..budget.spending import Account
    from ..counting.request import Counting
    from ..planning.drafts import Draft

SPENT_SHARE = 0.99  # of ε; a release that spends less says so


@app.command()
def release(
    source: Annotated[
        str, typer.Argument(help="A table of events: Parquet, CSV or JSON lines; for many files, a quoted glob.")
    ],
    key: KeyColumns,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, such as visits.sparsedp.")],
    epsilon: Epsilon,
    delta: Delta = Fraction(0),
    user: Annotated[
        str | None,
        typer.Option("--user", help="The column that identifies users; without it, every row is a separate user."),
    ] = None,
    max_keys_per_user: Annotated[
        str | None,
        typer.Option(
            "--max-keys-per-user",
            help="A user contributes to at most this many keys; auto spends a share of ε on choosing (see suggest).",
            metavar="NUMBER|auto",
        ),
    ] = None,
    max_per_key: Annotated[
        Fraction,
        typer.Option(
            "--max-per-key", help="A user contributes at most this much to each key.", parser=number, metavar="NUMBER"
        ),
    ] = Fraction(1),
    value: Annotated[str | None, typer.Option("--value", help="A column to sum instead of counting rows.")] = None,
    step: Step = None,
    signed: Signed = False,
    nonzero: Nonzero = None,
    total: Total = None,
    upper: Upper = None,
    domain: Domain = None,
    mechanism: Mechanism = "auto",
    noise: Noise = "auto",
    option: Options = None,
    parts: Annotated[int, whole_number("Write a directory of this many parts.", "--parts")] = 1,
    keep_keys: Annotated[
        bool,
        typer.Option("--keep-keys", help="Publish stored keys too, so that top can name them; needs δ > 0."),
    ] = False,
    key_type: KeyTypes = None,
    nulls: Annotated[str, typer.Option("--nulls", help="Refuse or drop rows without a key, user or value.")] = "refuse",
    memory_limit: Annotated[
        str | None,
        typer.Option("--memory-limit", help="Memory for counting, such as 4GB; anything beyond it goes to disk."),
    ] = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    encoding: Encoding = None,
    hive: Hive = False,
    ledger: Debited = None,
    dataset: DebitedDataset = "default",
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace a release that exists; other files, and directories of parts, are not replaced."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be spent and written; read no rows, spend nothing.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Release the counts of a table with differential privacy.

    By default a release counts users: each user counts once for each of at most --max-keys-per-user
    keys. With --max-per-key a user's rows of the same key count up to that many times, and with
    --value a column is summed. One user changes the counts by at most --max-keys-per-user ×
    --max-per-key; ε protects a change of that size.
    """
    asked = as_arguments(locals())
    from ..counting.request import AUTO, Counting
    from ..counting.suggesting import Spending, check_user, suggested_for, warned
    from ..planning.drafts import draft
    from ..planning.request import Request
    from ..privacy.events import DECIDES
    from ..releasing.room import check_room
    from .budget import account_for, accounting_of, check_budget

    _check_output(output, force, parts, [source] if ledger is None else [source, ledger])
    account = account_for(ledger, dataset, _as_text(output))
    budget = None
    if max_keys_per_user == AUTO:
        budget = Spending.of(float(epsilon), float(delta))
        asked |= {"max_keys_per_user": 1, "epsilon": budget.left}
    elif max_keys_per_user is not None:
        asked["max_keys_per_user"] = plain(_keys_per_user(max_keys_per_user))
    # The parameters are checked before the table is read.
    counting = Counting.of(asked)
    options = {"options": mechanism_options(option)}
    if budget is not None:
        check_user(counting)
        Request.of(asked | counting.bounds | options | {"epsilon": budget.epsilon})  # first the ε that was stated
    drafted = draft(Request.of(asked | counting.bounds | options))
    check_room(drafted.ready, output)
    if account is not None and budget is None:
        check_budget(account, drafted.problem.epsilon, drafted.problem.delta, drafted.event)
    elif account is not None and budget is not None:
        # Both add up to ε and δ. Composed they may cost less, which depends on the bound.
        whole = accounting_of(account) == "basic"
        check_budget(account, *((budget.epsilon, budget.delta) if whole else (budget.spent, 0.0)), DECIDES)
    if user is None:
        say("no --user: every row counts as a separate user", quiet)
    if dry_run:
        if budget is not None:
            say(f"--max-keys-per-user auto would spend ε = {budget.spent:.4g}; this is for 1 key, and the rest", quiet)
        _dry_run(source, counting, drafted, account, output, json)
        return
    if budget is not None:
        wanted = {"mechanism": mechanism, "noise": noise}
        chosen = warned(suggested_for(source, counting, budget, wanted, account))
        say(f"--max-keys-per-user {chosen.max_keys_per_user}, chosen with ε = {chosen.epsilon:.4g}", quiet)
        counting = Counting.of(asked | {"max_keys_per_user": chosen.max_keys_per_user})
        drafted = draft(Request.of(asked | counting.bounds | options))
    _release(source, counting, drafted, account, output, json, quiet)


def _keys_per_user(text: str) -> Fraction:
    try:
        return number(text)
    except typer.BadParameter:
        why = f"must be a number such as 20, or auto, got {text!r}"
        raise typer.BadParameter(why, param_hint="--max-keys-per-user") from None


def _check_output(output: Path, force: bool, parts: int, read: Sequence[str | Path]) -> None:
    """Refuse the output for every reason that can be known before the work."""
    from ..format.addresses import check_local
    from ..format.container import check_replaceable, check_writable
    from ..format.files import check_release, check_unread

    check_local(output)
    if parts == 1:
        check_replaceable(output)
        for name in map(str, read):
            check_unread(output, [name] if os.path.exists(name) else glob.iglob(name, recursive=True))
        check_release(output)
    if output.exists() and parts > 1:
        # One directory cannot replace another in a single step, and deleting its contents is not
        # ours to do.
        why = ", and --force replaces single files only" if force else ""
        raise FileExistsError(f"{output} exists{why}; remove it first, or name another directory")
    if output.exists() and not force:
        raise FileExistsError(f"{output} exists; pass --force to replace it")
    if not output.absolute().parent.is_dir():
        raise FileExistsError(f"there is no directory {output.absolute().parent} to write {output.name} into")
    check_writable(output)


def _as_text(output: Path) -> str:
    """A path for the ledger, which takes text only: file names may have bytes that are not text."""
    return os.fsencode(output).decode(errors="backslashreplace")


def _dry_run(
    source: str, counting: Counting, drafted: Draft, account: Account | None, output: Path, json: bool
) -> None:
    from ..counting.opening import check_table
    from ..keys.kinds import columns_in_words

    keys = check_table(source, counting)
    plan = drafted.plan
    left = None
    if account is not None:
        left = next(b for b in account.ledger.datasets() if b.dataset == account.dataset)
    report = {
        "epsilon": plan.problem.epsilon,
        "delta": plan.problem.delta,
        "mechanism": plan.mechanism,
        "reason": plan.reason,
        "keys": [{"name": column.name, "kind": column.kind} for column in keys],
        "contribution": str(counting.contribution),
        "output": str(output),
        "expected_bytes": None if plan.problem.size_estimated else plan.nbytes,
        "left_epsilon": None if left is None else left.left_epsilon,
        "left_delta": None if left is None else left.left_delta,
    }
    if json:
        show(report)
        return
    print(f"would spend   ε = {plan.problem.epsilon:g}, δ = {plan.problem.delta:g}")
    if account is not None and left is not None:
        print(f"left          ε = {left.left_epsilon:g}, δ = {left.left_delta:g} in {account.ledger.path}")
    print(f"keys          {columns_in_words(keys)}")
    print(f"contribution  {counting.contribution}")
    print(f"mechanism     {plan.mechanism} ({plan.reason})")
    size = (
        "of a size that is estimated privately from the data"
        if report["expected_bytes"] is None
        else f"about {plan.nbytes:,} bytes"
    )
    print(f"would write   {output}, {size}")


def _release(
    source: str, counting: Counting, drafted: Draft, account: Account | None, output: Path, json: bool, quiet: bool
) -> None:
    from ..counting.local import count_table
    from ..mechanisms.words import guarantee
    from ..releasing.building import publish, told

    built = told(publish(drafted, count_table(source, counting), (), output, account))
    if json:
        show(
            {
                "output": str(output),
                "mechanism": built.mechanism,
                "epsilon": built.epsilon,
                "delta": built.delta,
                "bytes": built.nbytes,
                "guarantee": guarantee(built.plan),
                "filled": built.filled,
                "overload": built.overload,
            }
        )
        return
    say(f"{output}: {built.mechanism}, ε = {built.epsilon:.6g}, δ = {built.delta:.3g}, {built.nbytes:,} bytes", quiet)
    say(guarantee(built.plan), quiet)
    if built.plan.problem.gaussian and drafted.request.noise == "auto":
        say(f"{built.mechanism}: {built.plan.reason}", quiet)
    asked = drafted.problem.epsilon
    if built.epsilon < SPENT_SHARE * asked:
        say(f"{built.mechanism} could not use all of --epsilon {asked:g}: see the ε above", quiet)
