"""`python installed.py` uses the installed package the way its users do: from Python and by the
command line, in an empty folder. Run by .ci/check-dist and by cibuildwheel, with nothing but the
package and its dependencies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import sparsedp

VISITS = {"example.org": 900, "example.com": 100}
NEAR = 60  # noise of scale 1 is this large once in 10²⁶ runs


def by_python() -> None:
    """Make a release, save it and load it."""
    sparsedp.release(VISITS, epsilon=1.0, nonzero=1000).save("visits.sparsedp")
    sparsedp.verify("visits.sparsedp")
    release = sparsedp.load("visits.sparsedp")
    for site, estimate in zip(VISITS, release.lookup(list(VISITS)), strict=True):
        assert abs(estimate - VISITS[site]) < NEAR, (site, estimate)
        assert release[site] == estimate


def by_command_line() -> None:
    """Count a log of events, release it and look keys up."""
    lines = [f"user {at},{site}" for site, count in VISITS.items() for at in range(count)]
    Path("visits.csv").write_text("\n".join(["user,site", *lines]), encoding="utf-8")
    bounds = ["--key", "site", "--user", "user", "--max-keys-per-user", "1", "--nonzero", "1000"]
    command("release", "visits.csv", *bounds, "--epsilon", "1", "-o", "log.sparsedp")
    for site in VISITS:
        assert site in command("lookup", "log.sparsedp", site)


def command(*arguments: str) -> str:
    """What a command prints."""
    program = Path(sys.executable).parent / "sparsedp"
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Run everything."""
    home = Path(sparsedp.__file__)
    assert Path(sys.prefix) in home.parents, f"{home} is not an installed package"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        by_python()
        by_command_line()
        os.chdir("/")
    print(f"sparsedp {sparsedp.__version__} on Python {sys.version.split()[0]}: released and looked up")


if __name__ == "__main__":
    main()
