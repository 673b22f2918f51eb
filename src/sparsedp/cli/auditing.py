"""The command that tries to refute the others: audit."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from .app import Epsilon, Json, Quiet, app, number, say, show


@app.command()
def audit(
    epsilon: Epsilon = Fraction(1),
    mechanism: Annotated[
        str, typer.Option("--mechanism", help="A mechanism by name, all, or opendp:laplace_threshold.")
    ] = "tight-alp",
    delta: Annotated[
        Fraction | None,
        typer.Option("--delta", "-d", help="Large enough to be seen, such as 0.02.", parser=number, metavar="NUMBER"),
    ] = None,
    runs: Annotated[
        Fraction, typer.Option("--runs", help="Of each game, on each side.", parser=number, metavar="NUMBER")
    ] = Fraction(1_000_000),
    confidence: Annotated[float, typer.Option("--confidence", help="Of the verdict.")] = 1 - 1e-6,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the bounds into this image file.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Try to refute a privacy claim: distinguish neighbouring inputs, and prove a lower bound on ε.

    Plays games that are hard to hide: 0 or 1, at the threshold, where levels begin, keys that share cells, several
    keys, signs, two releases. Exit code 1 if the claimed ε is refuted.
    """
    from ..auditing import audit as play
    from ..auditing.peers import PEERS, audit_peer
    from ..mechanisms import MECHANISMS

    audits = []
    for name in MECHANISMS if mechanism == "all" else [mechanism]:
        say(f"auditing {name} …", quiet)
        if name in PEERS:
            audits.append(audit_peer(name, float(epsilon), runs=int(runs), confidence=confidence))
        else:
            given = None if delta is None else float(delta)
            audits.append(play(name, float(epsilon), given, runs=int(runs), confidence=confidence))
        if not json:
            print(audits[-1], flush=True)
    if json:
        show(
            [
                {
                    "mechanism": one.mechanism,
                    "epsilon": one.epsilon,
                    "delta": one.delta,
                    "runs": one.runs,
                    "confidence": one.confidence,
                    "lower_bound": one.lower_bound,
                    "refuted": one.refuted,
                    "games": [vars(finding) for finding in one.findings],
                }
                for one in audits
            ]
        )
    if plot is not None:
        audits[-1].plot(plot)
    if any(one.refuted for one in audits):
        raise typer.Exit(1)
