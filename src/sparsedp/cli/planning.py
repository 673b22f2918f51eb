"""Commands that read none of your data: plan, compare, demo."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from ..errors import ParameterError
from ..keys.kinds import KeyColumn, columns_in_words
from .app import (
    Delimiter,
    Delta,
    Domain,
    Encoding,
    Epsilon,
    Hive,
    Json,
    KeyTypes,
    Mechanism,
    Noise,
    Nonzero,
    Options,
    Quote,
    Signed,
    Step,
    Total,
    Upper,
    app,
    as_arguments,
    in_options,
    mechanism_options,
    number,
    say,
    show,
    whole_number,
)

Sensitivity = Annotated[
    Fraction | None,
    typer.Option(
        "--sensitivity",
        help="The most that one user can change in all, if it is not --max-keys-per-user × --max-per-key.",
        metavar="NUMBER",
        parser=number,
    ),
]
MaxKeys = Annotated[int | None, whole_number("A user contributes to at most this many keys.", "--max-keys-per-user")]
MaxPerKey = Annotated[
    Fraction | None,
    typer.Option(
        "--max-per-key", help="A user contributes at most this much to each key (1).", parser=number, metavar="NUMBER"
    ),
]


def described(plan: Any) -> dict[str, Any]:
    """A plan as JSON, for programs."""
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
    source: Annotated[str | None, typer.Argument(help="A table; only its columns are looked at.")] = None,
    epsilon: Epsilon = Fraction(1),
    delta: Delta = Fraction(0),
    nonzero: Nonzero = None,
    total: Total = None,
    upper: Upper = None,
    domain: Domain = None,
    mechanism: Mechanism = "auto",
    sensitivity: Sensitivity = None,
    max_keys_per_user: MaxKeys = None,
    max_per_key: MaxPerKey = None,
    noise: Noise = "auto",
    step: Step = None,
    signed: Signed = False,
    option: Options = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="The column of keys, to check its type; repeatable.")
    ] = None,
    key_type: KeyTypes = None,
    user: Annotated[str | None, typer.Option("--user", help="The column of users, to check that it exists.")] = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    encoding: Encoding = None,
    hive: Hive = False,
    json: Json = False,
) -> None:
    """Predict size, privacy and error without reading any data.

    Everything follows from public parameters. If a table is given, only its columns are looked at.
    """
    asked = as_arguments(locals())
    from ..planning.plans import make_plan
    from ..planning.request import Request

    if source is None:
        _refuse_without_table(asked)
    keys = () if source is None else check_source(source, asked)
    made = make_plan(Request.of(asked | {"options": mechanism_options(option)}))
    if json:
        show(described(made) | {"keys": [vars(column) for column in keys] or None})
        return
    print(made)
    if keys:
        print(f"  keys     {columns_in_words(keys)}")


def _refuse_without_table(asked: dict[str, Any]) -> None:
    """Refuse options that are for a table: who gives them believes that it was looked at."""
    for name in ("key", "key_type", "user", "delimiter", "quote", "encoding", "hive"):
        if asked.get(name) not in (None, False):
            raise typer.BadParameter("is for a table; name one, or omit it", param_hint=f"--{name.replace('_', '-')}")


def check_source(source: str, asked: dict[str, Any]) -> tuple[KeyColumn, ...]:
    """Check the columns of a table without reading any of its rows; returns those of the key."""
    from ..counting.files import Reading
    from ..counting.opening import check_table
    from ..counting.request import Counting
    from ..counting.tables import open_table

    if asked["key"] is None and "key_type" in asked:
        raise typer.BadParameter("is that of --key; pass --key too, or omit it", param_hint="--key-type")
    if asked["key"] is not None:
        names = ("key", "key_type", "user", "delimiter", "quote", "encoding", "hive")
        reading = {name: asked[name] for name in names if name in asked}
        return check_table(source, Counting.of(reading | {"max_keys_per_user": 1}))
    stated = Reading(*(asked[name] for name in ("delimiter", "quote", "encoding", "hive")))
    with open_table(source, [] if asked["user"] is None else [asked["user"]], None, stated):
        return ()


@app.command()
def compare(
    epsilon: Epsilon = Fraction(1),
    delta: Delta = Fraction(0),
    nonzero: Nonzero = None,
    total: Total = None,
    upper: Upper = None,
    domain: Domain = None,
    sensitivity: Sensitivity = None,
    max_keys_per_user: MaxKeys = None,
    max_per_key: MaxPerKey = None,
    noise: Noise = "auto",
    step: Step = None,
    json: Json = False,
) -> None:
    """Compare all mechanisms for the same public parameters.

    Shows size, speed and error side by side, and for mechanisms that cannot be used, why.
    """
    asked = as_arguments(locals())
    from ..planning.comparison import make_comparison
    from ..planning.request import Request

    comparison = make_comparison(Request.of(asked))
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
        Path | None, typer.Option("--write-log", help="Only write a made-up log of visits, for trying other commands.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the sample, and two weeks of made-up visits, to a browser.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port of --serve, 8000 unless given; 0 is a free one."),
    ] = None,
) -> None:
    """Release the word counts of a book and compare with the truth."""
    from .. import demo as sample

    if serve and write_log is not None:
        raise typer.BadParameter("only writes a log; omit it, or --serve", param_hint="--write-log")
    if port is not None and not serve:
        raise typer.BadParameter("is that of --serve; pass --serve too, or omit it", param_hint="--port")
    if serve:
        from .serving import begin

        with TemporaryDirectory() as folder:
            say("releasing the words of a book, and two weeks of made-up visits ...")
            words, days = sample.write_releases(Path(folder))
            begin(
                [str(path) for path in words],
                [f"visits={days}"],
                port=8000 if port is None else port,
                title="sparsedp demo",
            )
    elif write_log is None:
        sample.main()
    else:
        sample.write_log(write_log)
