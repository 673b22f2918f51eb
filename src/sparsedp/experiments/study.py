"""A long computation in cached pieces: finished pieces are read back, so an interrupted run can
continue.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .._util.progress import counting
from ..format.container import replacing

Work = Callable[[], Any]


@cache
def program_digest() -> str:
    """A digest of the package's own files: pieces are cached for exactly this program."""
    package = Path(__file__).parent.parent
    files = sorted(path for path in package.rglob("*") if path.suffix in (".py", ".so", ".pyd"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Study:
    """Where results are cached, how thorough to be, the seed of everything random, and whether other
    libraries get environments of their own.
    """

    folder: Path
    quick: bool
    seed: int
    peers: bool = False
    say: Callable[[str], None] = print

    @property
    def place(self) -> Path:
        """Where the pieces of this program, thoroughness and seed are."""
        return self.folder / f"{program_digest()}-{'quick' if self.quick else 'full'}-{self.seed}"

    def pieces(self, title: str, tasks: Mapping[str, Work], parallel: bool = False) -> dict[str, Any]:
        """The result of each task, as JSON: cached, or computed now, in several processes if
        `parallel`.

        Tasks that measure time must not be parallel.
        """
        self.place.mkdir(parents=True, exist_ok=True)
        paths = {name: self.place / (re.sub(r"[^0-9A-Za-z.]+", "-", f"{title} {name}") + ".json") for name in tasks}
        assert len(set(paths.values())) == len(paths)
        missing = {name: tasks[name] for name in tasks if not paths[name].exists()}
        with counting(title, len(tasks)) as advance:
            advance(len(tasks) - len(missing))
            for name, result in _results(missing, parallel):
                with replacing(paths[name]) as file:
                    file.write(json.dumps(result).encode())
                advance(1)
        return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}


def _results(tasks: Mapping[str, Work], parallel: bool) -> Any:
    if not parallel or len(tasks) < 2:
        yield from ((name, work()) for name, work in tasks.items())
        return
    # A fork would share the locks of threads; SPARSEDP_THREADS limits each worker to one core.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _one_thread) as pool:
        futures = {pool.submit(work): name for name, work in tasks.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _one_thread() -> None:
    os.environ["SPARSEDP_THREADS"] = "1"
