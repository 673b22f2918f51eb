"""Whether the Python of the executors can do the work: checked first, because Spark's own errors
are obscure.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ..errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark reports about an interpreter that is missing or has another version.
_WRONG_PYTHON = ("Cannot run program", "PYTHON_VERSION_MISMATCH", "Python in worker has different version")
# Sessions whose executors were found fit: a session keeps its Python, and asking takes a job.
_FIT: WeakSet[SparkSession] = WeakSet()


def check_executors(session: SparkSession) -> None:
    """`MissingDependencyError` with the fix unless an executor's Python has this version of
    sparsedp. A session is asked until it is found fit.
    """
    from .. import __version__

    if session in _FIT:
        return
    found = _probe(session)
    missing = [name for name in ("pyarrow", "sparsedp") if found[name] is None]
    if missing:
        raise _unfit(f"{' and '.join(missing)} cannot be imported by the executors' Python, {found['python']}")
    if found["sparsedp"] != __version__:
        raise _unfit(
            f"the executors' Python, {found['python']}, has sparsedp {found['sparsedp']}, the driver's {__version__}"
        )
    _FIT.add(session)


def _unfit(what: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"{what}; set PYSPARK_PYTHON={sys.executable} in the environment before the session is made (or "
        "spark.pyspark.python, to a Python that every executor has), or install sparsedp there"
    )


def _probe(session: SparkSession) -> dict[str, Any]:
    """The executors' interpreter and its version of each module (None if missing), found by a job
    of one row.
    """
    from pyspark.sql import functions

    # A nested function is sent as code, so an executor without sparsedp can run it.
    def versions(_: int) -> str:
        import importlib
        import json
        import sys

        found: dict[str, str | None] = {"python": sys.executable}
        for name in ("pyarrow", "sparsedp"):
            try:
                found[name] = str(importlib.import_module(name).__version__)
            except ImportError:
                found[name] = None
        return json.dumps(found)

    probe = functions.udf(versions, "string", useArrow=False)
    try:
        (row,) = session.range(0, 1, 1, 1).select(probe("id")).collect()
    except Exception as error:  # Spark has many classes, which differ between classic and Connect
        if any(words in str(error) for words in _WRONG_PYTHON):
            raise _unfit("the executors' Python cannot be run, or its version is not the driver's") from error
        raise
    found: dict[str, Any] = json.loads(row[0])
    return found
