"""The command that chooses a bound on the keys of a user: suggest."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import (
    Debited,
    DebitedDataset,
    Delimiter,
    Delta,
    Encoding,
    Epsilon,
    Hive,
    Json,
    KeyColumns,
    KeyTypes,
    Mechanism,
    Noise,
    Quote,
    app,
    as_arguments,
    number,
    show,
)

if TYPE_CHECKING:
    from ..counting.suggestion import Suggestion

Share = Annotated[
    Fraction,
    typer.Option("--share", help="The share of ε to spend on the choice.", parser=number, metavar="NUMBER"),
]


@app.command()
def suggest(
    source: Annotated[
        str, typer.Argument(help="A table of events: Parquet, CSV or JSON lines; for many files, a quoted glob.")
    ],
    key: KeyColumns,
    user: Annotated[str, typer.Option("--user", help="The column that identifies users.")],
    epsilon: Epsilon,
    delta: Delta = Fraction(0),
    share: Share = Fraction("0.07"),
    mechanism: Mechanism = "auto",
    noise: Noise = "auto",
    max_per_key: Annotated[
        Fraction,
        typer.Option(
            "--max-per-key", help="A user contributes at most this much to each key.", parser=number, metavar="NUMBER"
        ),
    ] = Fraction(1),
    key_type: KeyTypes = None,
    nulls: Annotated[str, typer.Option("--nulls", help="Refuse or drop rows without a key or user.")] = "refuse",
    memory_limit: Annotated[
        str | None, typer.Option("--memory-limit", help="Memory for counting, such as 4GB.")
    ] = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    encoding: Encoding = None,
    hive: Hive = False,
    ledger: Debited = None,
    dataset: DebitedDataset = "default",
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the trade-off into this image file.")] = None,
    json: Json = False,
) -> None:
    """Choose --max-keys-per-user privately, with a small share of ε.

    A small bound cuts users with many keys, a large one costs noise. ε and δ are those of the release
    to come, of which --share is spent here. A release with --max-keys-per-user auto does both.
    """
    asked = as_arguments(locals())
    from ..counting.request import Counting
    from ..counting.suggesting import Spending, suggested_for
    from ..privacy.events import DECIDES
    from .budget import account_for, check_budget

    if plot is not None:
        from ..auditing import check_plot

        check_plot(plot)  # before anything is spent
    counting = Counting.of(asked | {"max_keys_per_user": 1})
    budget = Spending.of(float(epsilon), float(delta), float(share))
    account = account_for(ledger, dataset, "suggest")
    if account is not None:
        check_budget(account, budget.spent, 0.0, DECIDES)
    wanted = {"mechanism": mechanism, "noise": noise}
    made = suggested_for(source, counting, budget, wanted, account)
    show(as_json(made)) if json else print(made, flush=True)  # first: it is paid for, whatever becomes of the plot
    if plot is not None:
        made.plot(plot)


def as_json(made: Suggestion) -> dict[str, Any]:
    """A suggestion for programs."""
    return {
        "max_keys_per_user": made.max_keys_per_user,
        "epsilon": made.epsilon,
        "left_epsilon": made.left,
        "supported": made.supported,
        "typical_count": made.typical_count if made.supported else None,
        "choices": [{name: _known(own) for name, own in vars(choice).items()} for choice in made.choices],
    }


def _known(number: float) -> float | None:
    """A number for JSON, which has none for what is not known."""
    return None if math.isnan(number) else number
