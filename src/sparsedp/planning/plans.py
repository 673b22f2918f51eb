"""Size and error before any data is touched, and which mechanism when."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from numbers import Rational

from ..errors import ParameterError
from ..keys.hashing import HASHED_DOMAIN
from ..mechanisms import Plan, Problem, create_plan, mechanism_named
from ..mechanisms.base import HEADER_NBYTES
from ..mechanisms.laplace import LARGEST_DOMAIN
from ..mechanisms.retrieval import RetrievalPlan
from ..mechanisms.support import LARGEST_SHARE
from ..mechanisms.tight_alp import DEFAULT_BITS
from ..privacy.contributions import Contribution
from ..privacy.neighbours import Neighbours, check_delta, check_epsilon, shown

# Dense counters up to this many keys take at most 8 MiB and have the least error: prefer them.
SMALL_DOMAIN = 1 << 20

# Below, the slots of `retrieval` would need more than 64 bits.
SMALLEST_RETRIEVAL_DELTA = 1e-14

# `auto` prefers the error of `retrieval` to the space of `tight-alp`, up to this many times of it.
MOST_TIMES = 3

MOST_PARTS = 1 << 20
KEPT_INTEGERS = "keep_keys is for hashed keys; integers of a domain are stored as they are anyway"
FINEST_CELL_LOSS = Fraction(1, 100)


def make_problem(
    *,
    epsilon: float,
    delta: float = 0.0,
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    sensitivity: float | Fraction = 1,
    step: float | Fraction | None = None,
    signed: bool = False,
    contribution: Contribution | None = None,
    parts: int = 1,
    keep_keys: bool = False,
) -> Problem:
    """The public parameters, checked."""
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    real = step is not None
    cell = Fraction(1) if step is None else positive_fraction("step", step)
    if max(cell.numerator, cell.denominator) >= 1 << 53:
        raise ParameterError(f"step must be a ratio of integers below 2^53, got {step}; use a rounder one")
    distance = positive_fraction("sensitivity", sensitivity)
    if not real and distance < 1:
        raise ParameterError(f"sensitivity must be at least 1 (one count), got {sensitivity}")
    neighbours = Neighbours(distance, cell, real)
    neighbours.check_spendable(epsilon)
    if domain is not None and not 1 <= whole_number("domain", domain) <= HASHED_DOMAIN:
        raise ParameterError(f"domain must be in 1..2^64, got {domain}")
    if nonzero is not None and whole_number("nonzero", nonzero) > HASHED_DOMAIN:
        raise ParameterError(f"nonzero must be in 1..2^64, got {nonzero}")
    if not 1 <= whole_number("parts", parts) <= MOST_PARTS:
        raise ParameterError(f"parts must be in 1..{MOST_PARTS}, got {parts}")
    if keep_keys and domain is not None:
        raise ParameterError(KEPT_INTEGERS)
    if keep_keys and delta == 0:
        raise ParameterError("keep_keys needs delta > 0: under pure privacy keys that never occurred are stored too")
    return Problem(
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        domain=HASHED_DOMAIN if domain is None else int(domain),
        hashed=domain is None,
        nonzero=None if nonzero is None else int(nonzero),
        total=None if total is None else positive_fraction("total", total),
        upper=None if upper is None else positive_fraction("upper", upper),
        signed=bool(signed),
        contribution=contribution,
        parts=int(parts),
        keep_keys=bool(keep_keys),
    )


def positive_fraction(name: str, value: float | Fraction) -> Fraction:
    """A positive number as the decimal that was written: 0.1 is one tenth."""
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        if isinstance(value, Rational):  # a NumPy integer too, whose arithmetic would overflow
            exact = Fraction(int(value.numerator), int(value.denominator))
        else:
            exact = Fraction(repr(float(value)))
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be a finite number, got {value!r}") from None
    if exact <= 0:
        raise ParameterError(f"{name} must be positive, got {value}")
    return exact


def whole_number(name: str, value: int) -> int:
    """A positive whole number, or `ParameterError`."""
    exact = positive_fraction(name, value)
    if exact.denominator != 1:
        raise ParameterError(f"{name} must be a whole number, got {value}")
    return exact.numerator


def choose_mechanism(problem: Problem) -> tuple[str, str]:
    """The paper's suggestions to practitioners: a mechanism, and why."""
    if not problem.hashed and problem.domain <= SMALL_DOMAIN and problem.parts == 1:
        return "laplace", f"a domain of {problem.domain} keys is small enough to store every noisy count"
    dense = problem.entries is not None and problem.domain <= 4 * problem.entries
    if not problem.hashed and dense and problem.domain <= LARGEST_DOMAIN and problem.parts == 1:
        return "laplace", "the data is dense in its domain, so a counter for every key is smaller"
    if problem.keep_keys:
        return "tight-alp", "small error at every count, and a table of stored keys that may be named"
    if problem.delta > SMALLEST_RETRIEVAL_DELTA:
        return "retrieval", "a sparse vector in a large domain, approximate privacy: the error of noise on every key"
    kind = "tiny delta" if problem.delta else "pure privacy"
    return "tight-alp", f"a sparse vector in a large domain, {kind}: small error at every count"


def resolve_mechanism(problem: Problem, mechanism: str, share: float | None = None) -> tuple[str, str, Problem]:
    """The mechanism asked for by name, or the one that suits the problem, why, and the problem on its grid."""
    name, reason = choose_mechanism(problem) if mechanism == "auto" else (mechanism, Plan.reason)
    chosen = mechanism_named(name)
    sized = problem.entries is not None and chosen is not RetrievalPlan
    left = Fraction(1) if sized else 1 - Fraction(LARGEST_SHARE if share is None else share)
    return name, reason, coarsened(problem, left) if chosen.coarsens else problem


def weighed(plan: Plan, problem: Problem) -> Plan:
    """The choice of `auto`, now that the size is known: for few keys the margin of `retrieval` is too much space.

    `problem` is the one that `tight-alp` would have, with what has been spent.
    """
    nbytes = plan.nbytes
    if not isinstance(plan, RetrievalPlan) or nbytes is None or problem.entries is None:
        return plan
    if (
        problem.nonzero is not None and problem.sizing_noise is not None and not problem.bounded
    ):  # so that it is rarely too small
        problem = replace(problem, nonzero=problem.nonzero + math.ceil(1 / float(problem.sizing_noise.rate)))
    times = nbytes / (HEADER_NBYTES + DEFAULT_BITS / 8 * (problem.entries or 1))
    if times <= MOST_TIMES:
        return plan
    reason = f"approximate privacy for few keys: retrieval would take {times:.0f} times the space"
    try:
        return create_plan("tight-alp", reason, problem, {})
    except ParameterError:  # a ladder would be too high
        return plan


def coarsened(problem: Problem, left: Fraction = Fraction(1)) -> Problem:
    """The problem on a coarser grid, if a cell's share of the budget that is left would ask for huge laws.

    Counts are then rounded at random to multiples of the new step, like real values; that costs about 1 % of ε.
    """
    old = problem.neighbours
    cell_loss = left * Fraction(problem.epsilon) * old.step / old.sensitivity
    if cell_loss >= FINEST_CELL_LOSS:
        return problem
    step = old.step * math.ceil(2 * FINEST_CELL_LOSS / cell_loss)
    if max(step.numerator, step.denominator) >= 1 << 53:
        raise ParameterError(
            f"epsilon {problem.epsilon} and sensitivity {shown(old.sensitivity)} need a grid of {shown(step)}, "
            "which is no ratio of integers below 2^53; use a larger epsilon or a rounder step"
        )
    return replace(problem, neighbours=Neighbours(old.sensitivity, step, real=True))


def plan(
    epsilon: float,
    delta: float = 0.0,
    *,
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    mechanism: str = "auto",
    sensitivity: float = 1,
    step: float | None = None,
    signed: bool = False,
    parts: int = 1,
    keep_keys: bool = False,
    **options: object,
) -> Plan:
    """Size, exact privacy and error of a release, from public parameters alone.

    Parameters are those of `release`; the size of an embedding needs `nonzero` (a bound on the non-zero keys) or
    `total` (a bound on the sum).
    """
    problem = make_problem(
        epsilon=epsilon,
        delta=delta,
        nonzero=nonzero,
        total=total,
        upper=upper,
        domain=domain,
        sensitivity=sensitivity,
        step=step,
        signed=signed,
        parts=parts,
        keep_keys=keep_keys,
    )
    name, reason, problem = resolve_mechanism(problem, mechanism)
    chosen = create_plan(name, reason, problem, options)
    return weighed(chosen, problem) if mechanism == "auto" else chosen


def check_sizing_share(share: float | None) -> float | None:
    """A share in (0, 1), or None for the mechanism's own, or `ParameterError`."""
    if share is None:
        return None
    if positive_fraction("sizing_share", share) >= 1:
        raise ParameterError(f"sizing_share must be in (0, 1), got {share}")
    return float(share)
