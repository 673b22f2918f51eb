"""`plan()`: size and error before any data is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..mechanisms import Plan, create_plan
from .drafts import draft
from .request import Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..mechanisms import MechanismOptions


def plan(
    epsilon: float,
    delta: float = 0.0,
    *,
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    mechanism: str = "auto",
    sensitivity: float | None = None,
    step: float | None = None,
    signed: bool = False,
    parts: int = 1,
    keep_keys: bool = False,
    noise: str = "auto",
    max_keys_per_user: int | None = None,
    max_per_key: float | None = None,
    **options: Unpack[MechanismOptions],
) -> Plan:
    """Size, exact privacy and error of a release, from public parameters alone.

    Parameters are those of `release`; the size of an embedding needs `nonzero` (a bound on the
    non-zero keys) or `total` (a bound on the sum).
    """
    return make_plan(Request.of(locals()))


def make_plan(request: Request) -> Plan:
    """The plan of a request whose size is public."""
    drafted = draft(request)
    # If the size would have to be estimated, the mechanism's error says what it needs.
    return drafted.ready or create_plan(drafted.name, drafted.reason, drafted.problem, request.options)
