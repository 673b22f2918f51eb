"""Commands that touch no data: plan, compare, demo."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from .app import (
    Delta,
    Domain,
    Epsilon,
    Json,
    Mechanism,
    Nonzero,
    Options,
    Signed,
    Step,
    Total,
    Upper,
    app,
    mechanism_options,
    number,
    plain,
    show,
)

Sensitivity = Annotated[
    Fraction,
    typer.Option(
        "--sensitivity",
        help="How much one user can change in all (keys × amount per key).",
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
        "neighbours": str(plan.problem.neighbours),
        "bytes": plan.nbytes,
        "bits_per_entry": plan.bits_per_entry,
        "memory_reads": plan.access,
        "error": {value: error.mean_absolute for value, error in predicted.items()},
    }


@app.command()
def plan(
    source: Annotated[Path | None, typer.Argument(help="A table; only the names of its columns are looked at.")] = None,
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
    json: Json = False,
) -> None:
    """Size, exact privacy and expected error of a release, from public parameters alone."""
    from ..planning import plan as make_plan

    if source is not None:
        check_source(source, key, user)
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


def check_source(source: Path, key: str | None, user: str | None) -> None:
    """The columns of a table, without reading a row of it."""
    from ..sources.tables import open_table

    columns = [name for name in (key, user) if name is not None]
    with open_table(source, columns, None):
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
    """All mechanisms side by side: size, speed and error for the same parameters."""
    from ..comparison import compare as make_comparison

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
    """Release the word counts of a book, and compare the estimates with the truth."""
    from .. import demo as sample

    if write_log is None:
        sample.main()
    else:
        sample.write_log(write_log)
