"""Whether a release of the planned size fits into this machine, told before its budget is spent."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from ..errors import ParameterError
from ..mechanisms import Plan


def check_room(plan: Plan | None, path: Path | None) -> None:
    """`ParameterError` if a part of the release is larger than the memory, or the whole than the room
    on the disk. Both sizes follow from public parameters; without those there is no plan yet.

    They are the sizes that are expected. A table may turn out larger, by 16 bytes for each key whose
    count is larger than assumed. A bound on that would have to count every key as stored, and refuse
    releases of a tenth of that size. So a release may still not fit, as if others had filled the disk
    meanwhile: it then fails with its budget spent.
    """
    if plan is None or plan.nbytes is None:
        return
    memory, parts = memory_here(), plan.problem.parts
    if memory is not None and plan.nbytes / parts > memory:
        raise ParameterError(
            f"this release would have {plan.nbytes / parts:.3g} bytes{' in each part' if parts > 1 else ''}, and there "
            f"are {memory:.3g} bytes of memory here; use a smaller nonzero= or total=, or more parts="
        )
    folder = None if path is None else path.absolute().parent
    if folder is not None and folder.is_dir():
        free = shutil.disk_usage(folder).free
        if plan.nbytes > free:
            raise ParameterError(
                f"this release would have {plan.nbytes:.3g} bytes, and {folder} has room for {free:.3g}; "
                "use a smaller nonzero= or total=, or another disk"
            )


def memory_here() -> int | None:
    """The bytes of memory that this process may use at most, where that is known."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # not on Windows
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(ImportError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            found.append(limit)
    return min(found, default=None)
