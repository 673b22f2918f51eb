"""The standard streams of a command: closed ones, and readers that have enough."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ..errors import InputError

OUTPUT = "standard output"


def hold() -> None:
    """Keep the numbers of closed streams taken, so that no file that is opened later is written to as
    one of them. What is printed to a closed stdout fails when it is written, and to a closed stderr is
    lost.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # stdin and stdout are opened the wrong way round: reading and writing them go on failing.
            mode = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)[number]
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # it is that of the process
    if sys.stderr is None:  # `print` would take None for stdout
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def stdin(instead: str) -> BinaryIO:
    """The standard input, or `InputError` with what to do instead."""
    if sys.stdin is None:
        raise InputError(f"standard input is closed, so no keys can be read from it; {instead}")
    return sys.stdin.buffer


@contextmanager
def writing() -> Iterator[None]:
    """Errors of writing to stdout name it, and what is left in memory goes nowhere."""
    try:
        yield
    except OSError as error:
        give_up()
        if error.errno == errno.EBADF:
            raise InputError(f"{OUTPUT} is closed; redirect it to a file, or to /dev/null") from None
        error.filename = OUTPUT
        raise


def finish() -> None:
    """Write what is left in memory; an interpreter that did it would print a page of errors."""
    with writing():
        sys.stdout.flush()


def give_up() -> None:
    """Send what is left in memory to nowhere: nobody can read it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
