"""Size and error before any data is touched, and which mechanism when."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from numbers import Rational

from .errors import MissingDependencyError, ParameterError
from .hashing import HASHED_DOMAIN
from .laws import TwoSided, precise
from .mechanisms import MECHANISMS, Plan, Problem, create_plan, mechanism_named
from .mechanisms.laplace import LARGEST_DOMAIN
from .privacy import HEADROOM, Neighbours, check_delta, check_epsilon

# Dense counters up to this many keys take at most 8 MiB and have the least error: prefer them.
SMALL_DOMAIN = 1 << 20

SIZING_SHARE = 0.02


def make_problem(
    *,
    epsilon: float,
    delta: float = 0.0,
    nonzero: int | None = None,
    total: float | None = None,
    upper: float | None = None,
    domain: int | None = None,
    sensitivity: float = 1,
    step: float | None = None,
    signed: bool = False,
) -> Problem:
    """The public parameters, checked."""
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    real = step is not None
    cell = Fraction(1) if step is None else _positive("step", step)
    if max(cell.numerator, cell.denominator) >= 1 << 53:
        raise ParameterError(f"step must be a ratio of integers below 2^53, got {step}; use a rounder one")
    distance = _positive("sensitivity", sensitivity)
    if distance < cell:
        what = "step" if real else "1 (one count)"
        raise ParameterError(f"sensitivity must be at least {what}, got {sensitivity}")
    if domain is not None and not 1 <= _whole("domain", domain) <= HASHED_DOMAIN:
        raise ParameterError(f"domain must be in 1..2^64, got {domain}")
    if nonzero is not None and _whole("nonzero", nonzero) < 1:
        raise ParameterError(f"nonzero must be at least 1, got {nonzero}")
    return Problem(
        epsilon=epsilon,
        delta=delta,
        neighbours=Neighbours(distance, cell, real),
        domain=HASHED_DOMAIN if domain is None else int(domain),
        nonzero=None if nonzero is None else int(nonzero),
        total=None if total is None else _positive("total", total),
        upper=None if upper is None else _positive("upper", upper),
        signed=bool(signed),
    )


def _positive(name: str, value: float) -> Fraction:
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


def _whole(name: str, value: int) -> int:
    exact = _positive(name, value)
    if exact.denominator != 1:
        raise ParameterError(f"{name} must be a whole number, got {value}")
    return exact.numerator


def choose_mechanism(problem: Problem, hashed: bool) -> tuple[str, str]:
    """The paper's suggestions to practitioners: a mechanism, and why."""
    if not hashed and problem.domain <= SMALL_DOMAIN:
        return "laplace", f"a domain of {problem.domain} keys is small enough to store every noisy count"
    dense = problem.entries is not None and problem.domain <= 4 * problem.entries
    if not hashed and dense and problem.domain <= LARGEST_DOMAIN:
        return "laplace", "the data is dense in its domain, so a counter for every key is smaller"
    kind = "approximate" if problem.delta > 0 else "pure"
    return "threshold-alp", f"a sparse vector in a large domain: small error at every count, {kind} privacy"


def plan_problem(problem: Problem, mechanism: str, hashed: bool, options: dict[str, object]) -> Plan:
    """The plan of a named mechanism, or of the one that suits the problem."""
    if mechanism != "auto":
        return create_plan(mechanism, problem, options)
    name, reason = choose_mechanism(problem, hashed)
    return replace(create_plan(name, problem, options), reason=reason)  # type: ignore[type-var]  # plans are dataclasses


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
    )
    return plan_problem(problem, mechanism, domain is None, options)


@dataclass(frozen=True)
class Sizing:
    """A private estimate of the size, when it is not public: of k for integer counts, of n for real vectors."""

    law: TwoSided
    share: float

    @classmethod
    def plan(cls, problem: Problem, share: float) -> Sizing:
        """Noise that spends a share of the budget."""
        with precise(ROUND_FLOOR):
            return cls(TwoSided.with_rate(problem.step_budget * Decimal(share) * HEADROOM), share)

    @property
    def margin(self) -> int:
        """Added to the noisy size, so that it is rarely too small: the noise is larger with probability about 1 %."""
        return math.ceil(4 / float(self.law.rate))

    def sized(self, problem: Problem, noisy: int) -> Problem:
        """The problem with its size known and the budget for it spent."""
        size = max(1, noisy + self.margin)
        loss = self.law.step_loss
        if problem.neighbours.real:
            return replace(problem, total=size * problem.neighbours.step, sizing_loss=loss)
        return replace(problem, nonzero=min(size, problem.domain), sizing_loss=loss)


def check_sizing_share(share: float) -> float:
    """A share in (0, 1), or `ParameterError`."""
    if _positive("sizing_share", share) >= 1:
        raise ParameterError(f"sizing_share must be in (0, 1), got {share}")
    return float(share)


def needs_sizing(problem: Problem, mechanism: str, hashed: bool) -> bool:
    """Whether the size must be estimated from the data."""
    name = choose_mechanism(problem, hashed)[0] if mechanism == "auto" else mechanism
    return problem.entries is None and mechanism_named(name).needs_size


@dataclass(frozen=True)
class ComparisonRow:
    """One mechanism in the comparison: its plan, or why it cannot be used."""

    mechanism: str
    plan: Plan | None
    refusal: str = ""


@dataclass(frozen=True)
class Comparison:
    """The paper's Table 1 in numbers, for the caller's parameters; print it, or read `rows`."""

    rows: tuple[ComparisonRow, ...]

    FAILURE = 0.01
    VALUES = (0.0, 1.0, 10.0, 100.0)

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def __getitem__(self, mechanism: str) -> ComparisonRow:
        for row in self.rows:
            if row.mechanism == mechanism:
                return row
        raise KeyError(mechanism)

    def __str__(self) -> str:
        header = ["mechanism", "ε", "δ", "bits/key", "size", "reads", "mean error ≤", "1 % exceed", "maximum ≤"]
        header += [f"at {value:g}" for value in self.VALUES]
        lines = [header, *(self._cells(row, len(header)) for row in self.rows)]
        widths = [max(len(line[i]) for line in lines if len(line) > 2) for i in range(len(header))]
        text = ["  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=False)))
                if len(line) > 2 else f"{line[0].ljust(widths[0])}  {line[1]}" for line in lines]
        notes = (
            "reads: memory words per lookup · mean error, maximum: bounds on expectations, for the worst true value · "
            "1 % exceed: guaranteed tail bound\nat v: predicted mean absolute error at true value v"
        )
        return "\n".join([*text, "", notes])

    def _cells(self, row: ComparisonRow, columns: int) -> list[str]:
        if row.plan is None:
            return [row.mechanism, row.refusal]
        p = row.plan
        cells = [row.mechanism, f"{p.epsilon:.4g}", f"{p.delta:.2g}", _number(p.bits_per_entry), _bytes(p.nbytes)]
        cells += [f"{p.access}", _number(p.expected_error), _number(p.error_with_probability(self.FAILURE))]
        cells += [_number(p.maximum_error)]
        return cells + [f"{p.error(value).mean_absolute:.2f}" for value in self.VALUES]


def compare(
    epsilon: float,
    delta: float = 0.0,
    *,
    nonzero: int,
    domain: int | None = None,
    upper: float | None = None,
    total: float | None = None,
    sensitivity: float = 1,
    step: float | None = None,
    signed: bool = False,
) -> Comparison:
    """Every mechanism for the same public parameters: space, access, expected error and tail error."""
    problem = make_problem(
        epsilon=epsilon,
        delta=delta,
        nonzero=nonzero,
        domain=domain,
        upper=upper,
        total=total,
        sensitivity=sensitivity,
        step=step,
        signed=signed,
    )
    rows = []
    for name in MECHANISMS:
        variants = [(name, problem)]
        if name == "threshold-alp" and delta > 0:
            variants = [(name, replace(problem, delta=0.0)), (f"{name}, δ > 0", problem)]
        for label, variant in variants:
            try:
                rows.append(ComparisonRow(label, create_plan(name, variant, {})))
            except (ParameterError, MissingDependencyError) as error:
                rows.append(ComparisonRow(label, None, f"not possible: {error}"))
    return Comparison(tuple(rows))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return "∞" if math.isinf(value) else f"{value:.4g}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "–"
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
