"""Data of persons with many keys: the identifiers of the installed Python packages and of the
standard library.

A file is a user, an identifier is a key, and every occurrence is a row. Public, the same whenever
the same packages are installed, and there without a network. Like most logs it has a few users with
thousands of keys, and mostly rare keys.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

IDENTIFIER = re.compile(r"[A-Za-z_]\w+")
NAME = "identifiers.parquet"
_INSTALLED = {"site-packages", "dist-packages"}
_SCHEMA = pa.schema([("user", pa.string()), ("key", pa.string())])
_ROWS = 1 << 20  # of a group of rows, about


@dataclass(frozen=True)
class Corpus:
    """A Parquet file with the columns user and key, and how much is in it."""

    path: Path
    users: int
    rows: int


def folders() -> list[Path]:
    """Where this Python has its standard library and its packages."""
    places = [Path(sysconfig.get_path("stdlib")), *(Path(p) for p in sys.path if Path(p).name in _INSTALLED)]
    return list(dict.fromkeys(place.resolve() for place in places if place.is_dir()))


def sources(places: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """The Python files below each folder, with a name for each; packages inside of the standard
    library are not its.
    """
    for at, place in enumerate(places):
        for path in sorted(place.rglob("*.py")):
            inside = path.relative_to(place)
            if path.is_file() and not _INSTALLED.intersection(inside.parts):
                yield f"{at}/{inside.as_posix()}", path


def write(places: Sequence[Path], path: Path, most: int | None = None) -> Corpus:
    """Every identifier of every file as a row (user, key); of `most` files, evenly over all, if
    there are more.
    """
    files = list(sources(places))
    if most is not None and len(files) > most:
        files = [files[at * len(files) // most] for at in range(most)]
    users: list[str] = []
    keys: list[str] = []
    found = rows = 0
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as out:
        for user, source in files:
            words = IDENTIFIER.findall(source.read_text(encoding="utf-8", errors="replace"))
            found += bool(words)
            rows += len(words)
            users += [user] * len(words)
            keys += words
            if len(keys) >= _ROWS:
                out.write_table(pa.table([users, keys], schema=_SCHEMA))
                users, keys = [], []
        out.write_table(pa.table([users, keys], schema=_SCHEMA))
    return Corpus(path, found, rows)
