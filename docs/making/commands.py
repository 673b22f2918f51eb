"""The reference of the command line, taken from the program itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from sparsedp.cli import auditing, budget, planning, reading, releasing, reproducing, series, serving, suggesting
from sparsedp.cli.app import app

# Importing them adds their commands.
GROUPS = (releasing, reading, series, serving, planning, suggesting, budget, auditing, reproducing)


def reference() -> str:
    """A section for each command, in the order of `sparsedp --help`."""
    return "\n\n".join(_sections(typer.main.get_command(app), ["sparsedp"]))


def _sections(command: Any, names: list[str]) -> Iterator[str]:
    context = command.make_context(names[-1], [], resilient_parsing=True)
    subcommands = command.list_commands(context) if hasattr(command, "list_commands") else []
    if len(names) > 1:
        yield _section(command, names, context)
    for name in subcommands:
        yield from _sections(command.get_command(context, name), [*names, name])


def _section(command: Any, names: list[str], context: Any) -> str:
    heading = f"{'#' * len(names)} {' '.join(names)}"
    pieces = " ".join(piece.strip("{}").upper() for piece in command.collect_usage_pieces(context))
    usage = f"```text\n{' '.join(names)} {pieces}\n```"
    table = [_row(*record) for record in _records(command, context)]
    about = _marked(str(command.help).strip())
    rows = "\n".join(["| option | meaning |", "|---|---|", *table])
    return "\n\n".join([heading, about, usage, *([rows] if table else [])])


def _records(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in record[0]:
            yield record


def _row(name: str, meaning: str) -> str:
    """One option; outside of code a pipe would end the cell."""
    shown, about = (" ".join(text.split()) for text in (name, meaning))
    return f"| `{shown}` | {_marked(about.replace('|', chr(92) + '|'))} |"


def _marked(text: str) -> str:
    """Text with the options in it marked as code."""
    return re.sub(r"(?<![\w-])--\w[\w-]*", r"`\g<0>`", text)
