"""Fuzz every target for its share of some seconds: `python -m fuzz 60`, or `python -m fuzz 60
release_files`.
"""

from __future__ import annotations

import subprocess
import sys

from .targets import TARGETS


def main() -> None:
    """Run the targets one after the other; the exit code is not 0 if one of them found something."""
    seconds, names = int(sys.argv[1]), sys.argv[2:] or list(TARGETS)
    failed = []
    for name in names:
        print(f"{name}: {seconds // len(names)} seconds", flush=True)
        done = subprocess.run([sys.executable, "-m", "fuzz.drive", name, str(seconds // len(names))])
        if done.returncode:
            failed.append(name)
    if failed:
        sys.exit(f"fuzzing found something in {', '.join(failed)}: see the new files in fuzz/corpus/")


if __name__ == "__main__":
    main()
