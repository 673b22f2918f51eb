"""Plans and comparisons for the planner page: quick enough to follow a slider.

Everything here follows from public parameters, which are limited to what plans are made for, so that
no request takes long. Results are kept, as sliders come back to where they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..errors import ParameterError
from ..mechanisms import MECHANISMS, Plan
from ..mechanisms.predictions import QUANTILES
from ..mechanisms.problem import NOISES
from ..planning.comparison import ComparisonRow, make_comparison
from ..planning.plans import make_plan
from ..planning.request import Request
from ..privacy.numbers import written_number

PAPER = ("alp", "threshold-alp")  # the mechanisms of the paper that sparsedp began with
SAMPLES = 5_000  # of simulated errors: means are off by about one percent
KEPT = 256
PARAMETERS = ("epsilon", "delta", "max_keys_per_user", "max_per_key", "nonzero", "domain", "mechanism", "noise")
_POINTS = 16

# The least and the most of each parameter; δ may also be 0.
RANGES: dict[str, tuple[Fraction, Fraction]] = {
    "epsilon": (Fraction(1, 100), Fraction(30)),
    "delta": (Fraction(1, 10**18), Fraction(1, 100)),
    "max_keys_per_user": (Fraction(1), Fraction(10**4)),
    "max_per_key": (Fraction(1), Fraction(10**3)),
    "nonzero": (Fraction(1), Fraction(10**12)),
    "domain": (Fraction(1), Fraction(2**64)),
}


@dataclass(frozen=True)
class Asked:
    """The parameters of the planner."""

    epsilon: float
    delta: float
    max_keys_per_user: int
    max_per_key: int
    nonzero: int
    domain: int | None
    mechanism: str
    noise: str

    @classmethod
    def read(cls, texts: dict[str, str]) -> Asked:
        """Parameters that are written as text, or `ParameterError`."""
        numbers = {name: _number(name, texts[name]) for name in RANGES if name != "domain"}
        whole = {name: _whole(name, numbers[name]) for name in ("max_keys_per_user", "max_per_key", "nonzero")}
        domain = _whole("domain", _number("domain", texts["domain"])) if texts["domain"].strip() else None
        mechanism, noise = texts["mechanism"], texts["noise"]
        if mechanism not in ("auto", *MECHANISMS):
            raise ParameterError(f"mechanism must be auto or one of {', '.join(MECHANISMS)}, got {mechanism!r}")
        if noise not in ("auto", *NOISES):
            raise ParameterError(f"noise must be auto, {' or '.join(NOISES)}, got {noise!r}")
        epsilon, delta = float(numbers["epsilon"]), float(numbers["delta"])
        return cls(epsilon, delta, **whole, domain=domain, mechanism=mechanism, noise=noise)

    @property
    def request(self) -> Request:
        """The parameters as the library takes them."""
        return Request.of(vars(self))


def _number(name: str, text: str) -> Fraction:
    try:
        value = written_number(text.strip())
    except ValueError as error:
        raise ParameterError(f"{name} {error}") from None
    least, most = RANGES[name]
    if not least <= value <= most and not (name == "delta" and value == 0):
        zero = "0 or " if name == "delta" else ""
        raise ParameterError(f"{name} must be {zero}in {_written(least)}..{_written(most)}, got {text.strip()}")
    return value


def _whole(name: str, value: Fraction) -> int:
    if value.denominator != 1:
        raise ParameterError(f"{name} must be a whole number, got {float(value):g}")
    return value.numerator


def _written(value: Fraction | float | int) -> str:
    """A number as one types it."""
    if isinstance(value, Fraction):
        value = value.numerator if value.denominator == 1 else float(value)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else repr(value)


@lru_cache(maxsize=KEPT)
def planned(asked: Asked) -> dict[str, Any]:
    """One plan: what it costs, and the errors that it predicts."""
    made = make_plan(asked.request)
    return {
        **_described(made),
        "reason": made.reason,
        "errors": [_error(made, count) for count in _counts(made)],
        "command": command(asked),
        "python": python(asked),
    }


@lru_cache(maxsize=KEPT)
def compared(asked: Asked) -> dict[str, Any]:
    """All mechanisms for the same parameters, and the one that is chosen."""
    chosen = make_plan(asked.request)
    counts = _counts(chosen)
    rows = make_comparison(asked.request).rows
    return {
        "counts": counts,
        "chosen": next((row.mechanism for row in rows if row.plan and _is_same(row.plan, chosen)), chosen.mechanism),
        "reason": chosen.reason,
        "command": command(asked),
        "python": python(asked),
        "mechanisms": [_row(row, counts) for row in rows],
    }


def _described(plan: Plan) -> dict[str, Any]:
    return {
        "mechanism": plan.mechanism,
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "noise": NOISES[1] if plan.problem.gaussian else NOISES[0],
        "nbytes": plan.nbytes,
        "bits_per_entry": plan.bits_per_entry,
    }


def _is_same(one: Plan, other: Plan) -> bool:
    return (one.mechanism, one.problem.gaussian, one.problem.delta > 0) == (
        other.mechanism,
        other.problem.gaussian,
        other.problem.delta > 0,
    )


def _row(row: ComparisonRow, counts: list[int]) -> dict[str, Any]:
    name = row.mechanism.partition(",")[0]
    if row.plan is None:
        empty = dict.fromkeys(("epsilon", "delta", "noise", "nbytes", "bits_per_entry"))
        errors: list[float | None] = [None] * len(counts)
        note: str | None = row.refusal.removeprefix("not possible: ")
    else:
        empty = _described(row.plan)
        errors = [_finite(row.plan.error(count, SAMPLES).mean_absolute) for count in counts]
        note = None
    return {**empty, "mechanism": row.mechanism, "paper": name in PAPER, "errors": errors, "note": note}


def _error(plan: Plan, count: int) -> dict[str, Any]:
    predicted = plan.error(count, SAMPLES)
    return {
        "count": count,
        "mean_absolute": _finite(predicted.mean_absolute),
        "bias": _finite(predicted.bias),
        "low": _finite(predicted.quantiles[QUANTILES[0]]),
        "high": _finite(predicted.quantiles[QUANTILES[-1]]),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _counts(plan: Plan) -> list[int]:
    """True counts from 0 to far above the noise, as a logarithmic axis shows them: 0, 1, 2, 3, 5, …"""
    scale = plan.noise_scale_cells * float(plan.problem.neighbours.step)
    steps = (digit * 10**power for power in range(19) for digit in (1, 2, 3, 5, 7))
    counts = [count for count in steps if count >= scale / 20]
    return [0, *counts[:_POINTS]]


def command(asked: Asked) -> str:
    """The command that makes such a release of the log of visits that `sparsedp demo` writes."""
    options = ["--key item --key-type integer" if asked.domain else "--key url", "--user user"]
    options += [f"--max-keys-per-user {asked.max_keys_per_user}", f"--max-per-key {asked.max_per_key}"]
    options += [f"--epsilon {_written(asked.epsilon)}", *_only(asked, lambda name, value: f"--{name} {value}")]
    return f"sparsedp release visits.csv {' '.join(options)} -o visits.sparsedp"


def python(asked: Asked) -> str:
    """The same in Python."""
    key = 'key="item", key_type="integer"' if asked.domain else 'key="url"'
    bounds = f"max_keys_per_user={asked.max_keys_per_user}, max_per_key={asked.max_per_key}"
    options = [f"epsilon={_written(asked.epsilon)}"]
    options += _only(asked, lambda name, value: f"{name}={value}" if name in RANGES else f'{name}="{value}"')
    return (
        "import sparsedp\n\n"
        f'counts = sparsedp.count("visits.csv", {key}, user="user", {bounds})\n'
        f"release = sparsedp.release(counts, {', '.join(options)})\n"
        'release.save("visits.sparsedp")\n'
    )


def _only(asked: Asked, written: Callable[[str, str], str]) -> list[str]:
    """The parameters that differ from what is taken without them."""
    given = {
        "delta": _written(asked.delta) if asked.delta else None,
        "nonzero": str(asked.nonzero),
        "domain": str(asked.domain) if asked.domain else None,
        "mechanism": asked.mechanism if asked.mechanism != "auto" else None,
        "noise": asked.noise if asked.noise != "auto" else None,
    }
    return [written(name, value) for name, value in given.items() if value is not None]
