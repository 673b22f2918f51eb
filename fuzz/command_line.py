"""Target: what the commands read: numbers, options, keys one a line. Only the documented exceptions
may come out.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import typer

import sparsedp
from sparsedp import InputError, Release
from sparsedp.cli import lines, parsing, streams
from sparsedp.cli.app import mechanism_options, number, plain

from .choices import Choices

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "format-1"
RELEASES = ("stability", "tight-alp-domain", "laplace-real")


def seeds() -> Iterator[bytes]:
    """A number, an option and lines of each way to read them."""
    for text in ("1000", "1e6", "0.5", "2^64", "1/3", "-7", "1_0", "1e-9"):
        yield bytes([0]) + text.encode()
        yield bytes([1]) + f"bits_per_entry={text}".encode()
    for text in ("a\nb\r\nc", '"q",\\\n\x01\n', "1\n2\n-3\n", "18446744073709551615\n0\n", "ä\n日本\n"):
        for kind in range(8):
            yield bytes([2, kind, 3]) + text.encode()


def check(data: bytes) -> None:
    """Read some bytes as one of the things that the command line takes."""
    choices = Choices(data)
    choices.one_of([_check_number, _check_options, _check_lines])(choices)


def _check_number(choices: Choices) -> None:
    text = choices.rest().decode(errors="surrogateescape")
    try:
        value = number(text)
    except typer.BadParameter:
        return
    assert isinstance(value, Fraction)
    with suppress(typer.BadParameter):
        assert plain(value) == value or not isinstance(plain(value), int)


def _check_options(choices: Choices) -> None:
    options = choices.rest().decode(errors="surrogateescape").split("\n")
    try:
        read = mechanism_options(options)
    except typer.BadParameter:
        return
    assert set(read) == {option.partition("=")[0] for option in options}


def _check_lines(choices: Choices) -> None:
    kind, block = choices.below(8), 1 + choices.below(64)
    release, integer, as_json = _release(RELEASES[kind % 3]), bool(kind & 1), bool(kind & 2)
    text = choices.rest()
    written = io.BytesIO()
    expected: list[str] = []
    with mock.patch.object(lines, "BLOCK_BYTES", block), mock.patch.object(streams, "sys", _stdout(written)):
        writer = streams.Writer(as_json)
        try:
            for asked in parsing.asked_from(release, io.BytesIO(text), integer, ending=""):
                asked.texts["key"].validate(full=True)
                writer.write(streams.answer(release, asked, 0.9))
                expected += asked.texts["key"].to_pylist()
        except InputError:
            return
    assert expected == _lines(text)
    assert _keys_written(written.getvalue().decode(), as_json) == expected


def _stdout(written: io.BytesIO) -> SimpleNamespace:
    return SimpleNamespace(stdout=SimpleNamespace(buffer=written))


def _lines(text: bytes) -> list[str]:
    """The lines of a text, read slowly."""
    if text and not text.endswith(b"\n"):
        text += b"\n"
    return text.decode().replace("\r\n", "\n").split("\n")[:-1]


def _keys_written(output: str, as_json: bool) -> list[str]:
    """The keys that another program finds in the output."""
    if as_json:
        return [json.loads(line, parse_constant=_no_number)["key"] for line in output.split("\n")[:-1]]
    return [row[0] for row in list(csv.reader(io.StringIO(output, newline="")))[1:]]


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


@cache
def _release(name: str) -> Release:
    return sparsedp.load(GOLDEN / f"{name}.sparsedp", allow_reproducible=True)
