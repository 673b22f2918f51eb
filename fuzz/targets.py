"""The targets by name, and where their findings are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import command_line, key_encoding, release_files
from .mutation import MutateBytes as MutateBytes

FINDINGS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Target:
    """What is fuzzed: a check, inputs to begin with, and how an input changes (None: any of its
    bytes).
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    mutate: Callable[[bytes, int, int, MutateBytes], bytes] | None = None
    largest: int = 1 << 12


TARGETS = {
    "release_files": Target(release_files.check, release_files.seeds, release_files.mutate, largest=1 << 16),
    "key_encoding": Target(key_encoding.check, key_encoding.seeds),
    "command_line": Target(command_line.check, command_line.seeds),
}


def findings(name: str) -> list[Path]:
    """The files that once broke a promise of a target."""
    return sorted(path for path in (FINDINGS / name).glob("*") if path.is_file())
