"""The command that shows the evidence: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import INTERRUPTED, Json, Quiet, app, fail, say, show


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the report into this folder.")] = Path("report"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Use fewer runs and points: two minutes instead of a quarter of an hour.")
    ] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Run only this experiment; repeatable.")] = None,
    peers: Annotated[
        bool,
        typer.Option(
            "--peers",
            help="Install OpenDP, PipelineDP, PyDP and Tumult Analytics, each into an environment"
            " of its own in that folder, and measure them too.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the simulations.")] = 2021,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recompute the figures and numbers of the paper.

    Also compares all mechanisms with each other and with other libraries. Writes index.html,
    figures and results.json. An interrupted run continues where it stopped. The exit code is 1 if a
    number of the paper is missed.
    """
    from ..experiments.reproduction import reproduce as run

    try:
        sections = run(out, quick, only or (), lambda words: say(words, quiet), seed, peers)
    except KeyboardInterrupt:
        fail(f"interrupted; what is done is kept in {out}, and the same command continues", INTERRUPTED)
    checks = [check for section in sections for check in section.checks]
    if json:
        show([vars(check) | {"reached": check.reached} for check in checks])
    else:
        for check in checks:
            verdict = "agrees" if check.reached else "DIFFERS"
            print(f"{check.name:62} {check.expected:9.2f} {check.measured:9.2f} ± {check.tolerance:<8.2f} {verdict}")
    say(f"{out / 'index.html'}", quiet)
    if not all(check.reached for check in checks):
        raise typer.Exit(1)
