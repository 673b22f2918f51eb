"""A release described for programs: what it guarantees and how it was made."""

from __future__ import annotations

from typing import Any

from ..mechanisms.words import guarantee
from .published import Release


def description_of(release: Release, nbytes: int) -> dict[str, Any]:
    """What is stated about a release whose files have so many bytes, as JSON."""
    plan, problem = release.plan, release.plan.problem
    estimated = problem.size_estimated
    hashed = "hashed, with stored keys kept" if problem.keep_keys else "hashed"
    return {
        "mechanism": plan.mechanism,
        "epsilon": release.epsilon,
        "delta": release.delta,
        "guarantee": guarantee(plan),
        "neighbours": problem.promise,
        "contribution": None if problem.contribution is None else str(problem.contribution),
        "assumption": plan.assumption,
        "keys": hashed if problem.hashed else f"integers below {problem.domain}",
        "key_kind": release.key_space.kind,
        "key_columns": [vars(column) for column in release.key_columns],
        "nonzero": None if estimated else problem.nonzero,
        "estimated_size": problem.nonzero if estimated else None,
        "filled": release.filled,
        "overload": release.overload,
        "stored": release.stored_count,
        "bytes": nbytes,
        "parts": problem.parts,
        "reproducible": release.reproducible,
        "format": release.format,
    }
