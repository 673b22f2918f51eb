"""The commands, how they fail, and the options that many of them share.

Exit codes: 0 done, 1 the work failed (a damaged file, no budget, a full disk), 2 the input or an option is wrong.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import warnings
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, NoReturn, TypeAlias

import typer
import typer.core
import typer.main

from ..errors import (
    BudgetError,
    FormatError,
    LedgerError,
    ParameterError,
    ReproducibleReleaseError,
    SparseDPError,
    SpentError,
    reason_of,
)
from .wording import language, translated

# As one needs them: first a release and its readers, then what helps to decide on one, then the evidence.
ORDER = ("release", "lookup", "top", "info", "verify", "plan", "compare", "ledger", "demo", "audit", "reproduce")


class _InOrder(typer.core.TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    name="sparsedp",
    cls=_InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

FAILED, WRONG = 1, 2
_invoked: list[str] = []  # the command, for its language
_LONGEST_POWER = 4096  # bits


def run() -> None:
    """Run a command; what goes wrong is one line on stderr and an exit code."""
    from . import auditing, budget, planning, reading, releasing, reproducing  # noqa: F401  # they add their commands

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal without the letter shows its number
    warnings.formatwarning = lambda message, *_, **__: f"sparsedp: {in_options(str(message))}\n"
    signal.signal(signal.SIGTERM, _stop)
    try:
        app()
    except SparseDPError as error:
        failed = isinstance(error, (BudgetError, FormatError, LedgerError, ReproducibleReleaseError, SpentError))
        fail(in_options(error), FAILED if failed else WRONG)
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        fail(reason_of(error), WRONG)
    except (OSError, MemoryError) as error:
        fail(reason_of(error), FAILED)


def in_options(error: SparseDPError | str) -> str:
    """A message of the library in the language of the command line."""
    if isinstance(error, (FormatError, LedgerError)):  # they are about files: their fields are no options
        return str(error)
    flags = language(typer.main.get_command(app), _invoked[-1] if _invoked else None)
    return translated(str(error), flags, parameters=isinstance(error, (ParameterError, BudgetError, SpentError, str)))


def _show_version(asked: bool) -> None:
    if asked:
        from .. import __version__

        print(f"sparsedp {__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Differentially private counts over huge key spaces: one small file that answers for any key."""
    if context.invoked_subcommand is not None:
        _invoked.append(context.invoked_subcommand)


def _stop(*_: object) -> NoReturn:
    """End as after an interrupt, so that temporary files are removed: there are counts in them."""
    sys.exit(128 + signal.SIGTERM)


def fail(message: str, code: int) -> NoReturn:
    """End with a message."""
    print(f"sparsedp: {message}", file=sys.stderr)
    sys.exit(code)


def say(message: str, quiet: bool = False) -> None:
    """Words for whoever watches."""
    if not quiet:
        print(message, file=sys.stderr)


def show(value: dict[str, Any] | list[Any]) -> None:
    """A result for a program."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Fraction) else str(value)


def number(text: str | Fraction) -> Fraction:
    """1000, 1e6, 0.5 or 2^64, exactly as written."""
    if isinstance(text, Fraction):  # a default
        return text
    base, power, exponent = text.partition("^")
    try:
        if power:
            value = _power(int(base), _small(exponent))
        else:
            _small(text.lower().partition("e")[2] or "0")
            value = Fraction(text)
        float(value)  # which must be possible: ε and real parameters are floats
        return value
    except (ArithmeticError, ValueError):
        raise typer.BadParameter(f"must be a number such as 1000, 1e6, 0.5 or 2^64, got {text!r}") from None


def _small(exponent: str) -> int:
    if not -1000 <= int(exponent) <= 1000:
        raise ValueError
    return int(exponent)


def _power(base: int, exponent: int) -> Fraction:
    if base.bit_length() * abs(exponent) > _LONGEST_POWER:  # it would take long, and is no float
        raise ValueError
    return Fraction(base) ** exponent


def plain(value: Fraction | None) -> Any:
    """A number as the library takes it: an integer if it is one."""
    if value is None:
        return None
    return int(value) if value.denominator == 1 else float(value)


def as_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a command as the arguments of the library: numbers are plain ones."""
    return {name: plain(value) if isinstance(value, Fraction) else value for name, value in options.items()}


def _option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, **more)


def _number(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, parser=number, metavar="NUMBER")


Epsilon: TypeAlias = Annotated[
    Fraction, _number("The privacy to spend: 1 is common, less is safer.", "--epsilon", "-e")
]
Delta: TypeAlias = Annotated[
    Fraction, _number("How likely ε may fail: 0 is pure privacy, and 1e-9 buys less error.", "--delta", "-d")
]
Mechanism: TypeAlias = Annotated[str, _option("The name of a mechanism (see compare), or auto.", "--mechanism")]
Nonzero: TypeAlias = Annotated[
    Fraction | None,
    _number("A public bound on the number of keys; without any bound a small share of ε estimates it.", "--nonzero"),
]
Total: TypeAlias = Annotated[Fraction | None, _number("A public bound on the sum of all counts.", "--total")]
Upper: TypeAlias = Annotated[Fraction | None, _number("A public bound on one count; larger counts are cut.", "--upper")]
Domain: TypeAlias = Annotated[
    Fraction | None, _number("Keys are the integers below this; without it any text or integer is a key.", "--domain")
]
Step: TypeAlias = Annotated[Fraction | None, _number("Values are real and released on multiples of this.", "--step")]
Signed: TypeAlias = Annotated[bool, _option("Values may be negative.", "--signed")]
Options: TypeAlias = Annotated[
    list[str] | None,
    _option("An option of the mechanism, such as bits_per_entry=60; repeatable.", "--option", metavar="NAME=VALUE"),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    _option("What separates columns of CSV files; by itself a comma in .csv, a tab in .tsv.", "--delimiter"),
]
Quote: TypeAlias = Annotated[
    str | None, _option("What encloses fields of CSV files; by itself \", with '' nothing does.", "--quote")
]
Encoding: TypeAlias = Annotated[
    str | None, _option("The encoding of CSV files: utf-8 (by itself), utf-16 or latin-1.", "--encoding")
]
Hive: TypeAlias = Annotated[bool, _option("Take folders such as day=2024-01-02 for columns of text.", "--hive")]
Json: TypeAlias = Annotated[bool, _option("Print JSON.", "--json")]
Quiet: TypeAlias = Annotated[
    bool, _option("Write no words and no progress to stderr.", "--quiet", "-q", callback=lambda quiet: _hush(quiet))
]


def _hush(quiet: bool) -> bool:
    from .._util.progress import hush

    hush(quiet)
    return quiet


@cache
def _own_parameters() -> frozenset[str]:
    """What the library takes beside the options of a mechanism."""
    from ..planning.plans import plan
    from ..releasing.building import release

    return frozenset({*inspect.signature(release).parameters, *inspect.signature(plan).parameters})


def mechanism_options(options: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE pairs as options of a mechanism: numbers where they are numbers."""
    result: dict[str, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"must be NAME=VALUE, got {option!r}", param_hint="--option")
        if name in _own_parameters():  # it has an option of its own
            raise typer.BadParameter(f"{name} is no option of a mechanism", param_hint="--option")
        try:
            result[name] = plain(number(value))
        except typer.BadParameter:
            result[name] = value
    return result
