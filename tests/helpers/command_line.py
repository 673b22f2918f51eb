"""Commands and how they end."""

from __future__ import annotations

import os
import subprocess
import sys

from commands import Command

COMMAND = [sys.executable, "-c", "from sparsedp.cli import main; main()"]
RELEASE = ("release", "visits.parquet", "--key", "url", "--user", "user", "--max-keys-per-user", 20, "--epsilon", 1)


def run(*arguments: object, code: int = 0, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; it must end with the code, and never with a traceback."""
    return checked(Command(*arguments, stdin=stdin).wait(), code)


def run_anew(
    *arguments: object, code: int = 0, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same in a new interpreter, with pipes."""
    command = [*COMMAND, *map(str, arguments)]
    settings = {**os.environ, **environment}
    return checked(subprocess.run(command, capture_output=True, text=True, input=stdin, env=settings), code)


def checked(done: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, done.stderr
    return done
