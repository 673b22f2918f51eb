"""Commands that read a release: lookup, top, info, verify."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import standard
from .app import Json, Quiet, app, say, show, whole_number

if TYPE_CHECKING:
    from ..keys.kinds import KeyColumn
    from ..releasing.published import Release
    from .parsing import Asked

File = Annotated[
    str,
    typer.Argument(
        help="A release: a .sparsedp file, a directory of parts, or the address of one, such as https://… or s3://…."
    ),
]
Confidence = Annotated[
    float, typer.Option("--confidence", help="The probability that an interval contains its true count.")
]
Integer = Annotated[
    bool, typer.Option("--integer", help="Read keys as integers, for files that do not state the kind of their keys.")
]
Reproducible = Annotated[
    bool, typer.Option("--allow-reproducible", help="Open a release made for tests, which protects nobody.")
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        help="Read keys from this file, one per line; - is stdin. A .csv file names its columns in the first line, and "
        "a .jsonl file in each object; they must have the key's columns, or just one. Keys of several columns are "
        "always CSV or JSON lines.",
        show_default=False,
    ),
]


@app.command()
def lookup(
    release: File,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            help="Keys to look up, or the columns of one key that has several; without any, keys are read from stdin."
        ),
    ] = None,
    file: Keys = None,
    confidence: Confidence = 0.95,
    integer: Integer = False,
    json: Json = False,
    allow_reproducible: Reproducible = False,
) -> None:
    """Estimate how often keys occurred, with an interval for each.

    Prints CSV (or JSON lines with --json): key, estimate, low, high. Keys that never occurred are
    answered too. A key of several columns is one argument for each of them.
    """
    from ..releasing.published import load
    from .streams import Writer, answer

    opened = load(release, allow_reproducible=allow_reproducible)
    writer = Writer(json)
    for asked in asked_keys(opened, keys, file, integer):
        writer.write(answer(opened, asked, confidence))


def asked_keys(release: Release, keys: list[str] | None, file: Path | None, integer: bool) -> Iterator[Asked]:
    """The keys of the arguments, or of a file or stdin."""
    from .parsing import asked_of

    if keys and file is not None:
        raise typer.BadParameter("pass keys as arguments or with --file, not both")
    if keys:
        yield asked_of(release, keys, integer)
        return
    yield from _read_keys(release, file, integer)


def _read_keys(release: Release, file: Path | None, integer: bool) -> Iterator[Asked]:
    """The keys in a file, or on stdin, some megabytes at a time."""
    from .parsing import asked_from

    if file is not None and str(file) != "-":
        with file.open("rb") as stream:
            yield from asked_from(release, stream, integer, file.suffix.lower())
        return
    typed = standard.stdin("name a file of keys, or pass keys as arguments")
    if typed.isatty():
        say("reading keys from the terminal, one per line, until Ctrl-D")
    yield from asked_from(release, typed, integer, "")


@app.command()
def top(
    release: File,
    count: Annotated[int, whole_number("List this many keys.", "--count", "-n")] = 20,
    candidates: Annotated[
        Path | None,
        typer.Option("--candidates", "-c", help="Rank the keys of this file, as in lookup --file; - is stdin."),
    ] = None,
    integer: Integer = False,
    json: Json = False,
    allow_reproducible: Reproducible = False,
) -> None:
    """List the largest estimates, of stored keys or of candidates.

    A release of hashed keys does not know their names, unless it was made with --keep-keys. It
    lists fingerprints, or ranks the candidates that you give it. Keys that are listed because their
    estimates are the largest are estimated too high on average, and without candidates some may
    have been stored by chance.
    """
    from ..keys.kinds import labels
    from ..releasing.published import load
    from ..releasing.ranking import Fingerprint, largest

    opened = load(release, allow_reproducible=allow_reproducible)
    best: list[tuple[Any, float]] = []
    named = True
    if candidates is None:
        ranked = opened.top(count)
        shown = [_shown(key, opened.key_columns) for key in ranked.keys]
        best = list(zip(shown, ranked.estimates.tolist(), strict=True))
        named = not any(isinstance(key, Fingerprint) for key in ranked.keys)
        if not named:
            say(
                "keys are hashed, so these are fingerprints, some perhaps of keys that never occurred and were stored "
                "by chance; name keys with --candidates"
            )
    else:
        for asked in _read_keys(opened, candidates, integer):
            estimates = opened.lookup(asked.keys, prior=opened.table_prior)
            rows = largest(opened.key_space.ids(asked.keys), estimates, count)
            best += [(asked.text(row), float(estimates[row])) for row in rows.tolist()]
            best = sorted(dict(best).items(), key=lambda pair: -pair[1])[:count]
    if json:
        names = labels(opened.key_columns, ["estimate"]) if named else ["key"]
        show([_as_json(names, key) | {"estimate": value} for key, value in best])
        return
    for key, value in best:
        print(f"{value:>16,.1f}  {'  '.join(map(str, key)) if isinstance(key, tuple) else key}")


def _as_json(names: list[str], key: Any) -> dict[str, Any]:
    return dict(zip(names, key if isinstance(key, tuple) else (key,), strict=True))


def _shown(key: Any, columns: Sequence[KeyColumn]) -> Any:
    """A key for the terminal: the columns of a key that has several, each by itself."""
    if isinstance(key, tuple):
        return tuple(_printable(own, column.kind) for own, column in zip(key, columns, strict=True))
    return _printable(key, columns[0].kind)


def _printable(key: Any, kind: str | None) -> str | int:
    """The key, or a column of it, as `lookup` takes it, without anything that a terminal would obey,
    and with its backslashes doubled.
    """
    import numpy as np

    from ..keys.kinds import is_instant

    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, date):  # a datetime too
        return key.isoformat()
    if isinstance(key, np.datetime64):  # which has no time zone
        return f"{key}Z" if is_instant(kind or "") else str(key)
    if not isinstance(key, (str, bytes)):
        return key if isinstance(key, int) else str(key)
    text = key.decode(errors="surrogateescape") if isinstance(key, bytes) else key
    shown = (letter if letter.isprintable() else _escaped(letter) for letter in text.replace("\\", "\\\\"))
    return "".join(shown)


def _escaped(letter: str) -> str:
    byte = ord(letter) - 0xDC00  # of bytes that are not text
    return f"\\x{byte:02x}" if 0x80 <= byte < 0x100 else letter.encode("unicode_escape").decode()


@app.command()
def info(release: File, json: Json = False) -> None:
    """Show what a release guarantees and how it was made."""
    from ..format.addresses import address_of
    from ..mechanisms.words import guarantee, kind_of_keys
    from ..releasing.describing import description_of
    from ..releasing.published import load

    opened = load(release, allow_reproducible=True)
    plan, problem = opened.plan, opened.plan.problem
    estimated = problem.size_estimated
    size = _size_of(opened, Path(release))
    if json:
        show(description_of(opened, size))
        return
    print(f"{address_of(release) or release}: {size:,} bytes, {problem.parts} part{'s' if problem.parts > 1 else ''}")
    if opened.reproducible:
        print("MADE FOR TESTS: anyone can compute its noise, so it protects nobody.")
    print()
    print(guarantee(plan))
    print()
    print(plan)
    print(f"  keys     {kind_of_keys(opened.key_space, problem.keep_keys)}")
    if estimated and problem.sizing_keys is not None:
        print(f"  size     for about {problem.nonzero:,} keys, counted with noise")
    elif estimated:
        # It is Σ min(count, cap)/cap for a cap of about one noise scale: see `EffectiveSize`.
        print(
            f"  size     for {problem.nonzero:,} keys, estimated from the data with noise; keys with counts far below"
        )
        print("           the noise count as fractions of a key, so this is not the number of keys")
    if opened.overload is not None:
        print(f"  OVERLOAD {opened.overload}")


def _size_of(release: Release, path: Path) -> int:
    if release.source is None or not isinstance(release.source.path, Path):
        return release.nbytes
    return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size


@app.command()
def verify(release: File, quiet: Quiet = False) -> None:
    """Check that a release is undamaged and keeps its promise.

    Reads every byte, and recomputes the ε and δ that its thresholds give.
    """
    from ..format.addresses import address_of
    from ..releasing.published import verify as check

    check(release)
    say(f"{address_of(release) or release} is intact", quiet)
