"""The commands, how they fail, and the options that many of them share.

Exit codes: 0 done, 1 the work failed (a damaged file, no budget, a full disk), 2 the input or an
option is wrong.
"""

from __future__ import annotations

import inspect
import json
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias

import typer
import typer.core
import typer.main

from ..errors import (
    BudgetError,
    FormatError,
    LedgerError,
    ParameterError,
    RemoteError,
    ReproducibleReleaseError,
    SparseDPError,
    SpentError,
    reason_of,
)
from ..privacy.numbers import written_number
from . import standard
from .wording import language, translated

# In the order of use: a release and its readers, then the commands that help to plan one, then the
# evidence.
ORDER = (
    "release",
    "lookup",
    "top",
    "info",
    "verify",
    "series",
    "serve",
    "plan",
    "compare",
    "suggest",
    "ledger",
    "demo",
    "audit",
    "reproduce",
)


class _PastTyperError(BaseException):
    """What typer would end without a word, or with another exit code."""


class _Commands(typer.core.TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _past_typer():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with _past_typer():
            return super().invoke(ctx)


@contextmanager
def _past_typer() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError) as error:
        raise _PastTyperError from error
    except typer.BadParameter as error:
        error.message = _with_value(error)
        raise
    except Exception as error:  # typer does not name its error for an option that there is not
        context = getattr(error, "ctx", None) if hasattr(error, "possibilities") else None
        if any(own.name == "keys" for own in getattr(getattr(context, "command", None), "params", ())):
            error.message += "; write -- before keys that begin with -"  # type: ignore[attr-defined]
        raise


# What pydantic, with which typer reads numbers, says in words of its own.
_NO_NUMBER = {"int_parsing": "must be a whole number", "float_parsing": "must be a number such as 0.95"}

_LIMITS = {"greater than or equal to": "at least", "less than or equal to": "at most"}


def _with_value(error: typer.BadParameter) -> str:
    """The message of an option that cannot be read, with what was typed."""
    listed = getattr(error.__cause__, "errors", None)
    if listed is None:
        return error.message
    first = listed()[0]
    must = _NO_NUMBER.get(first["type"], first["msg"].replace("Input should be", "must be"))
    for longer, shorter in _LIMITS.items():
        must = must.replace(longer, shorter)
    return f"{must}, got {first['input']}"


app = typer.Typer(
    name="sparsedp",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

FAILED, WRONG, INTERRUPTED = 1, 2, 130
_FAILURES = (BudgetError, FormatError, LedgerError, RemoteError, ReproducibleReleaseError, SpentError)
_invoked: list[str] = []  # the command, so that messages name its options
_told_to_end: list[bool] = []


def run() -> None:
    """Run a command; report any failure as one line on stderr and an exit code."""
    # They add their commands.
    from . import auditing, budget, planning, reading, releasing, reproducing, series, serving, suggesting  # noqa: F401

    standard.hold()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # characters that the terminal cannot show appear as escapes
    warnings.formatwarning = lambda message, *_, **__: f"sparsedp: {in_options(str(message))}\n"
    signal.signal(signal.SIGTERM, _stop)
    try:
        try:
            _command()
        finally:
            standard.finish()
    except SparseDPError as error:
        fail(in_options(error), FAILED if isinstance(error, _FAILURES) else WRONG)
    except BrokenPipeError:  # the reader of the output has closed the pipe
        standard.give_up()
        sys.exit(0)
    except (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        fail(reason_of(error), WRONG)
    except (OSError, MemoryError) as error:
        fail(reason_of(error), FAILED)


def _command() -> None:
    try:
        _commands()()
    except _PastTyperError as past:
        raise (past.__cause__ or past) from None
    except BaseException:
        # The exit may have come up in a library that made another error of it.
        if _told_to_end:
            sys.exit(128 + signal.SIGTERM)
        raise


@cache
def _commands() -> Any:
    """All commands with their options, read from the signatures of the functions."""
    return typer.main.get_command(app)


def in_options(error: SparseDPError | str) -> str:
    """A message of the library in the language of the command line."""
    if isinstance(
        error, (FormatError, LedgerError, RemoteError)
    ):  # these are about files, whose fields are not options
        return str(error)
    flags = language(_commands(), _invoked[-1] if _invoked else None)
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
    """Release differentially private counts over huge key spaces as one small file that answers for
    any key.
    """
    if context.invoked_subcommand is not None:
        _invoked.append(context.invoked_subcommand)


def _stop(*_: object) -> NoReturn:
    """Exit as after an interrupt, so that temporary files are removed: they contain counts."""
    _told_to_end.append(True)
    sys.exit(128 + signal.SIGTERM)


def fail(message: str, code: int) -> NoReturn:
    """Exit with a message."""
    print(f"sparsedp: {message}", file=sys.stderr)
    sys.exit(code)


def say(message: str, quiet: bool = False) -> None:
    """Print a message for the terminal."""
    if not quiet:
        print(message, file=sys.stderr)


def show(value: dict[str, Any] | list[Any]) -> None:
    """Print a result as JSON, for programs."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Fraction) else str(value)


def number(text: str | Fraction) -> Fraction:
    """1000, 1e6, 0.5 or 2^64, exactly as written."""
    if isinstance(text, Fraction):  # a default
        return text
    try:
        return written_number(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def whole(text: str | int) -> int:
    """A positive whole number, which may be written as others are: 1000 or 1e3."""
    if isinstance(text, int):  # a default
        return text
    try:
        exact = written_number(text)
    except ValueError:
        exact = Fraction(1, 2)
    if exact.denominator != 1:
        raise typer.BadParameter(f"must be a whole number, got {text}")
    if exact < 1:
        raise typer.BadParameter(f"must be at least 1, got {text}")
    return int(exact)


def whole_number(text: str, *names: str) -> Any:
    """An option for a positive whole number."""
    return typer.Option(*names, help=text, parser=whole, metavar="NUMBER")


def plain(value: Fraction | None) -> Any:
    """A number as the library takes it: an integer if it is one."""
    if value is None:
        return None
    return int(value) if value.denominator == 1 else float(value)


def as_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a command as arguments of the library, with fractions as plain numbers."""
    arguments = {name: plain(value) if isinstance(value, Fraction) else value for name, value in options.items()}
    for name in ("key", "key_type"):  # a single one is that of a plain key, or applies to all columns
        if isinstance(value := arguments.get(name), list) and len(value) == 1:
            arguments[name] = value[0]
    return {name: value for name, value in arguments.items() if name != "key_type" or value is not None}


def _option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, **more)


def _number(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, parser=number, metavar="NUMBER")


Epsilon: TypeAlias = Annotated[
    Fraction, _number("The privacy to spend: 1 is common, less is safer.", "--epsilon", "-e")
]
Delta: TypeAlias = Annotated[
    Fraction, _number("How likely ε may fail: 0 is pure privacy; 1e-9 reduces the error.", "--delta", "-d")
]
Debited: TypeAlias = Annotated[Path | None, _option("Debit this budget before any noise is drawn.", "--ledger")]
DebitedDataset: TypeAlias = Annotated[str, _option("The data set of the ledger whose budget is debited.", "--dataset")]
Noise: TypeAlias = Annotated[
    str, _option("Geometric or gaussian (which suits users with many keys and needs δ > 0), or auto.", "--noise")
]
Mechanism: TypeAlias = Annotated[str, _option("The name of a mechanism (see compare), or auto.", "--mechanism")]
Nonzero: TypeAlias = Annotated[
    Fraction | None,
    _number(
        "A public bound on the number of keys; without one, release estimates it with a small share of ε.", "--nonzero"
    ),
]
Total: TypeAlias = Annotated[Fraction | None, _number("A public bound on the sum of all counts.", "--total")]
Upper: TypeAlias = Annotated[Fraction | None, _number("A public bound on one count; larger counts are cut.", "--upper")]
Domain: TypeAlias = Annotated[
    Fraction | None, _number("Keys are the integers below this; without it, any text or integer is a key.", "--domain")
]
Step: TypeAlias = Annotated[Fraction | None, _number("Values are real, released as multiples of this.", "--step")]
Signed: TypeAlias = Annotated[bool, _option("Values may be negative.", "--signed")]
Options: TypeAlias = Annotated[
    list[str] | None,
    _option("An option of the mechanism, such as bits_per_entry=60; repeatable.", "--option", metavar="NAME=VALUE"),
]
KeyColumns: TypeAlias = Annotated[
    list[str], _option("The column of keys; repeat it for a key of several columns.", "--key")
]
KeyTypes: TypeAlias = Annotated[
    list[str] | None,
    _option(
        "How keys are read: integer, date, timestamp[s] or boolean reads text as these, text takes the text of other "
        "values; repeat it for each --key. By default, as stored.",
        "--key-type",
        metavar="TYPE",
    ),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    _option("The separator of columns in CSV files; by default a comma in .csv, a tab in .tsv.", "--delimiter"),
]
Quote: TypeAlias = Annotated[
    str | None, _option("The quote character of CSV files, by default \"; '' means that there is none.", "--quote")
]
Encoding: TypeAlias = Annotated[
    str | None, _option("The encoding of CSV files: utf-8 (the default), utf-16 or latin-1.", "--encoding")
]
Hive: TypeAlias = Annotated[bool, _option("Read folder names such as day=2024-01-02 as columns of text.", "--hive")]
Json: TypeAlias = Annotated[bool, _option("Print JSON.", "--json")]
Quiet: TypeAlias = Annotated[
    bool, _option("Write no messages or progress to stderr.", "--quiet", "-q", callback=lambda quiet: _hush(quiet))
]


def _hush(quiet: bool) -> bool:
    from .._util.progress import hush

    hush(quiet)
    return quiet


@cache
def _own_parameters() -> frozenset[str]:
    """The parameters of the library that are not options of a mechanism."""
    from ..planning.plans import plan
    from ..releasing.building import release

    return frozenset({*inspect.signature(release).parameters, *inspect.signature(plan).parameters})


def mechanism_options(options: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE pairs as options of a mechanism; values that are numbers become numbers."""
    result: dict[str, Any] = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"must be NAME=VALUE, got {option!r}", param_hint="--option")
        if name in _own_parameters():  # it has its own option
            raise typer.BadParameter(f"{name} is not an option of a mechanism", param_hint="--option")
        try:
            result[name] = plain(number(value))
        except typer.BadParameter:
            result[name] = value
    return result
