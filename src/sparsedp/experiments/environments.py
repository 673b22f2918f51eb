"""Other libraries in environments of their own, and their drivers as processes with a limit on
time.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DRIVERS = Path(__file__).parent / "drivers"
INSTALL_SECONDS, RUN_SECONDS = 600.0, 300.0
UNREACHABLE = "the package index cannot be reached"
_BROKEN = "connection broken by"  # what pip says of a network, before it says that there is no such package
_DONE = "installed"
_WORDS = 200


@dataclass(frozen=True)
class Peer:
    """A library: its driver, what to install, and the ways to use it, by whether there is a δ."""

    name: str
    driver: str
    package: str
    module: str
    pure: Sequence[str]
    approximate: Sequence[str]
    cannot: str

    def ways(self, delta: float) -> Sequence[str]:
        """Those that can work with this δ."""
        return self.approximate if delta else self.pure


@dataclass(frozen=True)
class Environment:
    """The Python that has a library, or why there is none."""

    python: Path | None
    refused: str = ""


def own(peer: Peer) -> Environment:
    """The running Python, if it has the library."""
    if importlib.util.find_spec(peer.module):
        return Environment(Path(sys.executable))
    return Environment(None, "not installed here: sparsedp reproduce --peers gives it an environment of its own")


def created(peer: Peer, folder: Path, say: Callable[[str], None]) -> Environment:
    """A new environment in the folder, or the one that is there."""
    place = (folder / peer.driver).absolute()  # drivers run in folders of their own
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (place / _DONE).exists():
        return Environment(python)
    say(f"{peer.name}: a new environment, with what pip install {peer.package} brings …")
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(place)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", peer.package],
    )
    for command in commands:
        failed = _failure(command)
        if failed is not None:
            shutil.rmtree(place, ignore_errors=True)
            refused = f"does not install on Python {platform.python_version()}: {failed}"
            say(f"{peer.name} {refused}")
            return Environment(None, refused)
    (place / _DONE).touch()
    return Environment(python)


def _failure(command: Sequence[str]) -> str | None:
    """The last line that says what is wrong; None if nothing is."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {INSTALL_SECONDS:.0f} seconds"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    words = done.stderr or done.stdout
    return UNREACHABLE if _BROKEN in words else last_words(words)


def last_words(text: str) -> str:
    """The last line that begins with “error”, or else the last line, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if line.lower().startswith("error")] or lines or ["it ended without a word"]
    return said[-1].removeprefix("ERROR: ")[:_WORDS]


def run_driver(
    python: Path, driver: str, way: str, data: Path, options: Mapping[str, float], limit: float = RUN_SECONDS
) -> dict[str, Any]:
    """The answer of a driver with the seconds of its whole process, or why it was refused."""
    with tempfile.TemporaryDirectory() as folder:  # where Spark leaves its tables
        out = Path(folder) / "answer.json"
        command = [str(python), str(DRIVERS), driver, way, str(data.resolve()), str(out)]
        command += [part for name, value in options.items() for part in (f"--{name}", f"{value!r}")]
        start = time.perf_counter()
        words, code = _watched(command, folder, limit)
        process = time.perf_counter() - start
        if code is None:
            return {"refused": f"not done after {limit:g} seconds"}
        if code != 0:
            return {"refused": f"fails: {last_words(words)}"}
        try:
            answer = json.loads(out.read_text(encoding="utf-8"))
            answer["estimates"] = {int(place): float(value) for place, value in answer["estimates"]}
        except (OSError, ValueError, TypeError, KeyError) as error:
            return {"refused": nonsense(error)}
    return {**answer, "process": process}


def nonsense(error: Exception) -> str:
    """Why an answer cannot be judged."""
    return f"its answer makes no sense: {type(error).__name__}"


def _watched(command: Sequence[str], folder: str, limit: float) -> tuple[str, int | None]:
    """What a process wrote to stderr, and its exit code; None if it was ended, with all that it
    started.
    """
    with (Path(folder) / "stderr").open("w+", encoding="utf-8", errors="replace") as words:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words,
            start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        words.seek(0)
        return words.read(), code


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, with all that it has started where there are sessions."""
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
