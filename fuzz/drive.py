"""One target under atheris, which keeps what reaches new code: `python -m fuzz.drive NAME SECONDS`."""

from __future__ import annotations

import gc
import hashlib
import resource
import sys
from pathlib import Path
from types import FunctionType

import atheris

from .targets import FINDINGS, TARGETS

WORKING = Path("build/fuzz")
MOST_MEMORY = 1 << 30
MOST_SECONDS_FOR_ONE = 20


def main() -> None:
    """Fuzz one target; what breaks a promise is written to the corpus of findings."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    target = TARGETS[name]
    working = WORKING / name
    working.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (working / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    found = FINDINGS / name
    found.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={target.largest}",
        f"-timeout={MOST_SECONDS_FOR_ONE}",
        f"-rss_limit_mb={MOST_MEMORY >> 20}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    mutate = target.mutate
    mutator = {}
    if mutate is not None:
        mutator["custom_mutator"] = lambda data, largest, seed: mutate(data, largest, seed, atheris.Mutate)
    _instrument()
    atheris.Setup([sys.argv[0], *options, str(working), str(found)], target.check, **mutator)
    _bound_memory()
    atheris.Fuzz()


def _instrument() -> None:
    """Make every function of sparsedp tell which code it reaches.

    atheris can do so while modules are imported, but not with the importer of an editable
    installation.
    """
    for function in [found for found in gc.get_objects() if isinstance(found, FunctionType)]:
        if function.__module__ and function.__module__.partition(".")[0] == "sparsedp":
            atheris.instrument_func(function)


def _bound_memory() -> None:
    """An allocation far beyond what is in use fails, and a `MemoryError` is a finding."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main()
