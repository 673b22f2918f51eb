"""The command that tries to refute the others: audit."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from .app import Epsilon, Json, Quiet, app, number, plain, say, show


@app.command()
def audit(
    epsilon: Epsilon = Fraction(1),
    mechanism: Annotated[
        str, typer.Option("--mechanism", help="The name of a mechanism, or all, or opendp:laplace_threshold.")
    ] = "tight-alp",
    delta: Annotated[
        Fraction | None,
        typer.Option(
            "--delta",
            "-d",
            help="The δ of the claim, large enough to be detected, such as 0.02.",
            parser=number,
            metavar="NUMBER",
        ),
    ] = None,
    runs: Annotated[
        Fraction,
        typer.Option("--runs", help="Play each game this many times on each side.", parser=number, metavar="NUMBER"),
    ] = Fraction(1_000_000),
    confidence: Annotated[
        float, typer.Option("--confidence", help="The probability that a true claim is not refuted.")
    ] = 1 - 1e-6,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the bounds into this image file.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Try to refute a privacy claim by telling inputs apart.

    Distinguishing neighbouring inputs proves a lower bound on ε. The games look where a flaw is
    hard to hide: 0 or 1, at the threshold, where levels begin, keys that share cells, several keys,
    signs, two releases. The exit code is 1 if the claimed ε is refuted.
    """
    from ..auditing import audit as play
    from ..auditing import check_audit, check_plot
    from ..auditing.peers import PEERS, audit_peer, check_peer
    from ..mechanisms import MECHANISMS

    played: int = plain(runs)  # a fraction is refused below
    names = list(MECHANISMS) if mechanism == "all" else [mechanism]
    given = None if delta is None else float(delta)
    # An audit takes minutes, so everything that may be wrong or missing is checked before the first
    # one.
    if plot is not None:
        if len(names) > 1:
            raise typer.BadParameter("draws a single audit; name one mechanism", param_hint="--plot")
        check_plot(plot)
    for name in names:
        if name in PEERS:
            check_peer(played, confidence)
        else:
            check_audit(name, float(epsilon), given, runs=played, confidence=confidence)
    audits = []
    for name in names:
        say(f"auditing {name} …", quiet)
        if name in PEERS:
            audits.append(audit_peer(name, float(epsilon), runs=played, confidence=confidence))
        else:
            audits.append(play(name, float(epsilon), given, runs=played, confidence=confidence))
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
