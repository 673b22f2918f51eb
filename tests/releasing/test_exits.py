"""A process that ends while others use a release ends quietly."""

from __future__ import annotations

import subprocess
import sys

import pytest

RELEASE = """
import sparsedp
release = sparsedp.release({f"k{i}": i for i in range(1000)}, epsilon=1.0, nonzero=1000)
keys = [f"k{i}" for i in range(100_000)]
"""
SCRIPTS = {
    # Python ends this thread when it asks for the interpreter lock; inside a kernel, this once
    # ended the process.
    "a thread looks keys up": """
import threading, time
def ask():
    while True:
        release.lookup(keys)
threading.Thread(target=ask, daemon=True).start()
time.sleep(0.2)
""",
    # The function refers to its connection as a global, and the connection to the function: the
    # cycle is never freed.
    "a connection of DuckDB holds it": """
import duckdb, pyarrow
connection = duckdb.connect()
def visits(column):
    return pyarrow.array(release.lookup(column))
connection.create_function("visits", visits, ["VARCHAR"], "DOUBLE", type="arrow")
assert connection.sql("SELECT sum(visits('k' || i)) FROM range(50000) t(i)").fetchall()
""",
    "a forked child ends while its parent's thread looks keys up": """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")  # from Python 3.12 on, which warns about forks beside threads
def ask():
    while True:
        release.lookup(keys)
threading.Thread(target=ask, daemon=True).start()
time.sleep(0.1)
for _ in range(5):
    child = os.fork()
    if not child:
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
""",
    "a release is asked at exit": """
import atexit
atexit.register(lambda: release.lookup(keys))
""",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_end_is_quiet(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", RELEASE + SCRIPTS[script]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "sparsedp" not in done.stderr  # DuckDB may print its own messages
    if "DuckDB" not in script:
        assert done.stderr == ""
