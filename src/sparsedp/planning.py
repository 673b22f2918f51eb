"""Size and error before any data is touched, and which mechanism when."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from numbers import Rational

import numpy as np
import numpy.typing as npt

from .contributions import Contribution
from .errors import ParameterError
from .hashing import HASHED_DOMAIN
from .laws import TwoSided, precise
from .mechanisms import Plan, Problem, create_plan, mechanism_named
from .mechanisms.laplace import LARGEST_DOMAIN
from .privacy import HEADROOM, Neighbours, check_delta, check_epsilon, shown

# Dense counters up to this many keys take at most 8 MiB and have the least error: prefer them.
SMALL_DOMAIN = 1 << 20

# Below, the slots of `retrieval` would need more than 64 bits.
SMALLEST_RETRIEVAL_DELTA = 1e-14

MOST_PARTS = 1 << 20
MOST_DIGITS = 40  # of the noise of an estimated size: more would drown any size
SIZING_SHARE = 0.02
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


def resolve_mechanism(problem: Problem, mechanism: str, sizing_share: float = 0.0) -> tuple[str, str, Problem]:
    """The mechanism asked for by name, or the one that suits the problem, why, and the problem on its grid."""
    name, reason = choose_mechanism(problem) if mechanism == "auto" else (mechanism, Plan.reason)
    left = 1 - Fraction(sizing_share) if problem.entries is None else Fraction(1)
    return name, reason, coarsened(problem, left) if mechanism_named(name).coarsens else problem


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
    return create_plan(*resolve_mechanism(problem, mechanism), options)


@dataclass(frozen=True)
class Sizing:
    """A private estimate of the number of keys that matter to an embedding, when it is not public.

    It is Σ min(count, cap)/cap for a cap of about one noise scale: k for histograms where every count matters
    (cap = 1), and n, with each key cut at one noise scale, for real vectors and small ε. A step of one count changes
    the sum by at most one.
    """

    law: TwoSided
    share: float
    cap: int

    @classmethod
    def plan(cls, problem: Problem, share: float) -> Sizing:
        """Noise that spends a share of the budget."""
        with precise(ROUND_FLOOR):
            law = TwoSided.with_rate(problem.step_budget * Decimal(share) * HEADROOM)
        if len(law.magnitude.digits) > MOST_DIGITS:
            raise ParameterError(f"sizing_share is too small to estimate a size with, got {share}")
        return cls(law, share, math.ceil(1 / problem.step_budget))

    def total(self, cells: npt.NDArray[np.int64], upper: int | None = None) -> int:
        """The sum itself, without noise, of cells that will be cut to ±upper."""
        return int(np.minimum(np.abs(cells), self.cap if upper is None else min(self.cap, upper)).sum())

    @property
    def margin(self) -> int:
        """Added to the noisy sum, so that it is rarely too small: the noise is larger with probability about 1 %."""
        return math.ceil(4 / float(self.law.rate))

    def sized(self, problem: Problem, noisy_sum: int) -> Problem:
        """The problem with its size known and the budget for it spent."""
        size = max(1, -(-(noisy_sum + self.margin) // self.cap))
        size = min(size, problem.domain)
        return replace(problem, nonzero=size, sizing_loss=self.law.step_loss, sizing_noise=self.law)


def check_sizing_share(share: float) -> float:
    """A share in (0, 1), or `ParameterError`."""
    if positive_fraction("sizing_share", share) >= 1:
        raise ParameterError(f"sizing_share must be in (0, 1), got {share}")
    return float(share)
