"""Releases as measurements of OpenDP, which compose, chain and are post-processed there.

Guarantee: the privacy map of `make_release` is that of the plan for inputs as near as it was made
for, and that of as many hops as it takes for inputs that are farther apart. Proof: docs/privacy.md,
"Farther than neighbours". Exact test: tests/reach/test_opendp.py, tests/privacy/test_groups.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..errors import InputError, MissingDependencyError, ParameterError
from ..keys.kinds import ColumnKind
from ..mechanisms import mechanism_named
from ..mechanisms.problem import UserBounds
from ..planning.drafts import Draft, draft
from ..planning.request import Request
from ..privacy.contributions import as_bounded
from ..privacy.groups import Hop, group
from ..releasing.building import check_readable, publish
from ..releasing.inputs import check_key_type, check_row
from ..releasing.published import Release
from ..structures.table import LARGEST_COUNT

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..mechanisms import MechanismOptions

DISTANCE = "sparsedp distance (keys, total, per key)"

_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "usize")


def make_release(
    input_domain: Any = None,
    input_metric: Any = None,
    *,
    epsilon: float,
    delta: float = 0.0,
    mechanism: str = "auto",
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    sensitivity: float | None = None,
    step: float | None = None,
    signed: bool = False,
    parts: int = 1,
    keep_keys: bool = False,
    key_type: str | Sequence[str] | None = None,
    noise: str = "auto",
    max_keys_per_user: int | None = None,
    max_per_key: float | None = None,
    sizing_share: float | None = None,
    **options: Unpack[MechanismOptions],
) -> Any:
    """A `Measurement` of OpenDP that takes counts and gives a `Release`.

    OpenDP asks for its features "contrib" and "honest-but-curious" (`dp.enable_features`).

    Parameters
    ----------
    input_domain, input_metric
        `map_domain` from text or integers to integers, with `l01inf_distance` of their
        `absolute_distance`: what OpenDP's own `make_count_by` gives. Every input of that domain is
        released: negative counts are taken for 0 unless `signed`, and with `domain=` keys outside
        of it are left out.

        Without them, the domain is of all counts that `sparsedp.release` takes, with keys of kind
        `key_type` (text, unless there is a `domain`). The metric has the same distances as
        `l01inf_distance`, but is a `user_distance`, which OpenDP's interactive combinators take
        too.
    epsilon, delta, mechanism, nonzero, total, upper, domain, sensitivity, step, signed, parts
        As for `release`, as are the next ones. There is no ledger: OpenDP does the accounting.
    keep_keys, key_type, noise, max_keys_per_user, max_per_key, sizing_share
        As for `release`.
    options
        Options of the mechanism.

    Notes
    -----
    Distances are (keys, total, per key): in how many keys two inputs differ, by how much in all, and
    by how much at most in one key. Within the bounds that the release is planned for,
    (`max_keys_per_user`, their product, `max_per_key`) or any that move no more than `sensitivity`
    in all, the map gives the ε and δ of the plan; if the size is estimated, those that were asked
    for. Inputs that are k times as far apart, in a sense that the page of proofs makes precise, have
    k·ε, and δ·(1 + e^ε + … + e^((k−1)ε)) or 1; equal inputs have 0. The measure is `max_divergence`
    if `delta` is 0, and otherwise `approximate(max_divergence())`.

    `compact` with `nonzero` is refused: its guarantee assumes something of the data that OpenDP's
    domains do not state. With `total` it has no such assumption.

    """
    opendp = _opendp()
    taken = None if input_domain is None else _MapOfCounts.of(input_domain, input_metric, opendp)
    if taken is None and input_metric is not None:
        raise ParameterError("input_domain must be given with input_metric")
    if taken is not None:
        if step is not None:
            raise ParameterError("step must not be given with a map_domain, whose values are integers")
        key_type = taken.stated(key_type, domain)
    elif key_type is None:
        key_type = "text" if domain is None else "integer"
    request = Request.of(locals())
    kinds = check_key_type(key_type, request.problem.hashed)
    drafted = draft(request)
    spent, hop = _spent(drafted), hop_of(drafted)
    if drafted.ready is not None and drafted.ready.assumption is not None:
        raise ParameterError(
            f"{drafted.name} assumes that {drafted.ready.assumption}, which no domain of OpenDP states; "
            "give total= instead of nonzero=, or take another mechanism"
        )

    def release(counts: Any) -> Release:
        data = _checked(counts, drafted) if taken is None else taken.inside(counts, domain, signed)
        return publish(drafted, data, kinds, None, None)

    def privacy_map(distance: object) -> float | tuple[float, float]:
        lost = group(*spent, hop.between(*_triple(distance)))
        return lost if request.delta > 0 else lost[0]

    measure = opendp.max_divergence()
    if request.delta > 0:
        measure = opendp.approximate(measure)
    space = (input_domain, input_metric) if taken is not None else _any_counts(drafted, kinds, opendp)
    return opendp.m.make_user_measurement(*space, measure, release, privacy_map)


def hop_of(drafted: Draft) -> Hop:
    """The distance that a draft's ε and δ are for, in the caller's units."""
    problem, contribution = drafted.problem, drafted.problem.contribution
    sensitivity = problem.neighbours.sensitivity
    total = sensitivity if drafted.request.problem.neighbours.real else Fraction(math.floor(sensitivity))
    if problem.gaussian:
        user = UserBounds.of(problem)
        return Hop(total, user.keys, user.per_key)
    # A noisy number of keys is planned for how many of them may come or go.
    counts_keys = drafted.undecided or mechanism_named(drafted.name).always_counts
    steps = problem.neighbours.distance
    if counts_keys and contribution is not None and not problem.neighbours.real and problem.moved_keys < steps:
        return Hop(total, contribution.keys, math.floor(contribution.per_key))
    return Hop(total)


def _spent(drafted: Draft) -> tuple[float, float]:
    """ε and δ for one hop, whatever the data: those of the plan, if it does not depend on the data."""
    own = drafted.problem if drafted.ready is None else drafted.ready
    return own.epsilon, own.delta


@dataclass(frozen=True)
class _MapOfCounts:
    """A map domain of OpenDP whose members are counts."""

    key: str  # types of Rust
    value: str

    @classmethod
    def of(cls, domain: Any, metric: Any, opendp: Any) -> _MapOfCounts:
        carrier = domain.carrier_type
        parts = (getattr(carrier, "origin", ""), *getattr(carrier, "args", ()))
        kind, *types = (str(part).rpartition("::")[2] for part in parts)
        if kind != "HashMap" or types[0] not in ("String", *_INTEGERS):
            raise ParameterError(f"input_domain must be a map_domain of text or integer keys, got {domain}")
        if types[1] not in _INTEGERS:
            raise ParameterError(
                f"input_domain must have integer values, got {domain}; leave it out for real values, and pass step="
            )
        wanted = opendp.l01inf_distance(opendp.absolute_distance(T=types[1]))
        if metric != wanted:
            raise ParameterError(f"input_metric must be {wanted} for this domain, got {metric}")
        return cls(*types)

    def stated(self, key_type: Any, domain: int | None) -> str:
        """The kind of the keys, which the domain states; `ParameterError` if something else is asked
        for.
        """
        kind = "text" if self.key == "String" else "integer"
        if key_type not in (None, kind) or (domain is not None and kind == "text"):
            asked = f"key_type={key_type!r}" if key_type not in (None, kind) else f"domain={domain}"
            raise ParameterError(f"the keys of input_domain are of kind {kind}, got {asked}")
        return kind

    def inside(self, counts: Mapping[Any, int], domain: int | None, signed: bool) -> dict[Any, int]:
        """The counts without what a release refuses: no two inputs are farther apart afterwards."""
        least = -LARGEST_COUNT if signed else 0
        return {
            key: min(max(count, least), LARGEST_COUNT)
            for key, count in counts.items()
            if domain is None or 0 <= key < domain
        }


def _any_counts(drafted: Draft, kinds: tuple[ColumnKind, ...], opendp: Any) -> tuple[Any, Any]:
    """The domain of everything that `release` takes for these parameters, and its metric."""
    request = drafted.request
    more = [f"{name}={value}" for name in ("domain", "step") if (value := getattr(request, name)) is not None]
    more += ["signed"] if request.signed else []
    name = f"sparsedp counts ({', '.join([' and '.join(kinds) + ' keys', *more])})"
    return opendp.user_domain(name, _member(drafted, kinds)), opendp.user_distance(DISTANCE)


def _member(drafted: Draft, kinds: tuple[ColumnKind, ...]) -> Callable[[Any], bool]:
    def member(counts: Any) -> bool:
        try:
            check_readable(drafted, _checked(counts, drafted), kinds)
        except (InputError, ParameterError):
            return False
        return True

    return member


def _checked(counts: Any, drafted: Draft) -> Any:
    """The counts, or `ParameterError` if what they say of themselves does not fit; nothing is read."""
    check_row(counts, drafted.request.domain)
    bounded = as_bounded(counts)
    if bounded is None:
        return counts
    own, hop = bounded.contribution, hop_of(drafted)
    near = drafted.request.covers(own, bounded.step, bounded.signed)
    if not near or (hop.keys is not None and (own.keys > hop.keys or own.per_key >= hop.per_key + 1)):
        raise ParameterError(
            f"the counts were made for other bounds ({own}) than the measurement; pass theirs to make_release, "
            "and step= and signed= of count()"
        )
    return counts


def _triple(distance: Any) -> tuple[int, Fraction, Fraction]:
    """In how many keys inputs differ, by how much in all, and by how much in one key."""
    try:
        keys, total, per_key = (Fraction(own) for own in distance)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"a distance must be three finite numbers (keys, total, per key), such as (20, 20, 1), got {distance!r}"
        ) from None
    return math.floor(keys), total, per_key


def _opendp() -> Any:
    try:
        import opendp.prelude
    except ImportError:
        raise MissingDependencyError("measurements need OpenDP: pip install 'sparsedp[opendp]'") from None
    return opendp.prelude
