"""Commands for releases made day after day: series show, lookup, sum, plot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import Json, app, show, whole_number
from .reading import Confidence, Integer, Keys, Reproducible, asked_keys

if TYPE_CHECKING:
    from ..releasing.series import Series

series_app = typer.Typer(help="Ask releases of many days as one.", no_args_is_help=True)
app.add_typer(series_app, name="series")

Releases = Annotated[
    str,
    typer.Argument(
        help="A folder of releases, or a glob in quotes, such as 'days/*.sparsedp'. The dates in their names are their "
        "labels."
    ),
]
Asking = Annotated[
    list[str] | None,
    typer.Argument(help="Keys, or the columns of one key that has several; without any, keys are read from stdin."),
]
Since = Annotated[str | None, typer.Option("--since", help="The first day, month or year.")]
Until = Annotated[str | None, typer.Option("--until", help="The last day, month or year, included.")]


@series_app.command("show")
def show_series(releases: Releases, json: Json = False, allow_reproducible: Reproducible = False) -> None:
    """List the releases, and say what all of them together protect."""
    opened = _open(releases, allow_reproducible)
    if json:
        rows: list[dict[str, Any]] = [
            {
                "label": label,
                "mechanism": own.mechanism,
                "epsilon": own.epsilon,
                "delta": own.delta,
                "bytes": own.nbytes,
            }
            for label, own in opened
        ]
        show({"releases": rows, "epsilon": opened.epsilon, "delta": opened.delta, "guarantee": opened.guarantee})
        return
    for label, own in opened:
        print(f"{label:12}  {own.mechanism:12} ε = {own.epsilon:<8.4g} δ = {own.delta:<8.3g} {own.nbytes:>12,} bytes")
    print(opened.guarantee)


@series_app.command("lookup")
def lookup_series(
    releases: Releases,
    keys: Asking = None,
    file: Keys = None,
    since: Since = None,
    until: Until = None,
    confidence: Confidence = 0.95,
    integer: Integer = False,
    json: Json = False,
    allow_reproducible: Reproducible = False,
) -> None:
    """Estimate how often keys occurred in each release, with an interval for each.

    Prints CSV (or JSON lines with --json): label, key, estimate, low, high.
    """
    import pyarrow as pa

    from .streams import Writer, answer

    opened = _open(releases, allow_reproducible).between(since, until)
    writer = Writer(json)
    for asked in asked_keys(opened.releases[0], keys, file, integer):
        name = "label" if "label" not in asked.texts else "series_label"
        for label, release in opened:
            table = answer(release, asked, confidence)
            writer.write(table.add_column(0, name, pa.array([label] * len(table), pa.large_string())))


@series_app.command("sum")
def sum_series(
    releases: Releases,
    keys: Asking = None,
    file: Keys = None,
    since: Since = None,
    until: Until = None,
    window: Annotated[int | None, whole_number("Sum every window of so many consecutive releases.", "--window")] = None,
    integer: Integer = False,
    json: Json = False,
    allow_reproducible: Reproducible = False,
) -> None:
    """Sum counts over all the keys and releases together, with a standard error.

    Prints CSV (or JSON with --json): first, last, total, standard_error.
    """
    import pyarrow as pa
    import pyarrow.csv

    opened = _open(releases, allow_reproducible).between(since, until)
    blocks = [asked.keys for asked in asked_keys(opened.releases[0], keys, file, integer)]
    if not blocks:
        raise typer.BadParameter("there is no key to sum")
    joined = blocks[0] if len(blocks) == 1 else _joined(blocks)
    made = opened.window_sums(joined, len(opened) if window is None else window)
    rows = [
        {"first": first, "last": last, "total": total, "standard_error": error}
        for first, last, total, error in zip(
            made.first, made.last, made.totals.tolist(), made.standard_errors.tolist(), strict=True
        )
    ]
    if json:
        show(rows)
        return
    pyarrow.csv.write_csv(
        pa.Table.from_pylist(rows), sys.stdout.buffer, pyarrow.csv.WriteOptions(quoting_style="needed")
    )


@series_app.command("plot")
def plot_series(
    releases: Releases,
    keys: Asking = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The image to write: .png, .svg or .pdf.")] = Path(
        "series.png"
    ),
    file: Keys = None,
    since: Since = None,
    until: Until = None,
    confidence: Confidence = 0.95,
    integer: Integer = False,
    allow_reproducible: Reproducible = False,
) -> None:
    """Draw estimates as lines with the bands of their intervals."""
    from ..auditing import check_plot

    check_plot(output, "output")
    opened = _open(releases, allow_reproducible).between(since, until)
    blocks = [asked.keys for asked in asked_keys(opened.releases[0], keys, file, integer)]
    if not blocks:
        raise typer.BadParameter("there is no key to draw")
    opened.plot(blocks[0] if len(blocks) == 1 else _joined(blocks), output, confidence)


def _open(releases: str, allow_reproducible: bool) -> Series:
    from ..releasing.series import series

    return series(releases, allow_reproducible=allow_reproducible)


def _joined(blocks: list[Any]) -> Any:
    """Blocks of keys as one."""
    import pyarrow as pa

    if isinstance(blocks[0], tuple):
        return tuple(_joined([block[at] for block in blocks]) for at in range(len(blocks[0])))
    if all(isinstance(block, pa.Array) for block in blocks) and len({block.type for block in blocks}) == 1:
        return pa.concat_arrays(blocks)
    return [key for block in blocks for key in (block.to_pylist() if isinstance(block, pa.Array) else block)]
