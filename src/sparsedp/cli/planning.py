"""Commands that touch no data: plan, compare, demo."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParameterError
from .app import (
    Delimiter,
    Delta,
    Domain,
    Encoding,
    Epsilon,
    Hive,
    Json,
    Mechanism,
    Nonzero,
    Options,
    Quote,
    Signed,
    Step,
    Total,
    Upper,
    app,
    in_options,
    mechanism_options,
    number,
    plain,
    show,
)

Sensitivity = Annotated[
    Fraction,
    typer.Option(
        "--sensitivity",
        help="One user can change this much in all (keys × amount per key).",
        metavar="NUMBER",
        parser=number,
    ),
]


def described(plan: Any) -> dict[str, Any]:
    """A plan for a program."""
    predicted = {value: plan.error(value) for value in (0, 1, 10, 100)}
    return {
        "mechanism": plan.mechanism,
        "reason": plan.reason,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "neighbours": plan.problem.promise,
        "bytes": plan.nbytes,
        "bits_per_entry": plan.bits_per_entry,
        "memory_reads": plan.access,
        "error": {value: error.mean_absolute for value, error in predicted.items()},
    }


@app.command()
def plan(
    source: Annotated[str | None, typer.Argument(help="A table, of which only the columns are looked at.")] = None,
    epsilon: Epsilon = Fraction(1),
    delta: Delta = Fraction(0),
    nonzero: Nonzero = None,
    total: Total = None,
    upper: Upper = None,
    domain: Domain = None,
    mechanism: Mechanism = "auto",
    sensitivity: Sensitivity = Fraction(1),
    step: Step = None,
    signed: Signed = False,
    option: Options = None,
    key: Annotated[str | None, typer.Option("--key", help="The column of keys, to check that it can be one.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="The column of users, to check that it is there.")] = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    encoding: Encoding = None,
    hive: Hive = False,
    json: Json = False,
) -> None:
    """Predict size, privacy and error without touching any data.

    Everything follows from public parameters. Of a table only the columns are looked at.
    """
    from ..planning.plans import plan as make_plan

    if source is not None:
        check_source(source, key, user, delimiter=delimiter, quote=quote, encoding=encoding, hive=hive)
    made = make_plan(
        float(epsilon),
        float(delta),
        nonzero=plain(nonzero),
        total=plain(total),
        upper=plain(upper),
        domain=plain(domain),
        mechanism=mechanism,
        sensitivity=plain(sensitivity),
        step=plain(step),
        signed=signed,
        **mechanism_options(option),
    )
    show(described(made)) if json else print(made)


def check_source(source: str, key: str | None, user: str | None, **reading: Any) -> None:
    """The columns of a table, without reading a row of it."""
    from ..counting.files import Reading
    from ..counting.local import check_table
    from ..counting.tables import open_table

    if key is not None:
        check_table(source, key=key, user=user, max_keys_per_user=1, **reading)
        return
    with open_table(source, [] if user is None else [user], None, Reading(**reading)):
        pass


@app.command()
def compare(
    epsilon: Epsilon = Fraction(1),
    delta: Delta = Fraction(0),
    nonzero: Nonzero = None,
    total: Total = None,
    upper: Upper = None,
    domain: Domain = None,
    sensitivity: Sensitivity = Fraction(1),
    step: Step = None,
    json: Json = False,
) -> None:
    """Compare all mechanisms for the same public parameters.

    Shows size, speed and error side by side, and why a mechanism cannot be used where it cannot.
    """
    from ..planning.comparison import compare as make_comparison

    comparison = make_comparison(
        epsilon=float(epsilon),
        delta=float(delta),
        nonzero=plain(nonzero),
        total=plain(total),
        upper=plain(upper),
        domain=plain(domain),
        sensitivity=plain(sensitivity),
        step=plain(step),
    )
    comparison = replace(
        comparison, rows=tuple(replace(row, refusal=in_options(ParameterError(row.refusal))) for row in comparison)
    )
    if json:
        rows = [(row, None if row.plan is None else described(row.plan)) for row in comparison]
        show([{"mechanism": row.mechanism, "refusal": row.refusal or None, "plan": made} for row, made in rows])
    else:
        print(comparison)


@app.command()
def demo(
    write_log: Annotated[
        Path | None, typer.Option("--write-log", help="Only write a made-up log of visits, to try other commands on.")
    ] = None,
) -> None:
    """Release the word counts of a book and compare with the truth."""
    from .. import demo as sample

    if write_log is None:
        sample.main()
    else:
        sample.write_log(write_log)
