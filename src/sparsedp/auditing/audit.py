"""Play the games against a mechanism, and report what they prove."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._util.plotting import check_picture, finished, new_figure
from .._util.progress import counting
from ..errors import ParameterError
from ..format.container import check_writable
from ..mechanisms import MECHANISMS, Plan, mechanism_named
from ..planning.plans import plan as make_plan
from ..privacy.numbers import whole_number
from ..releasing.building import release as build
from .evidence import Finding, Labels, refute
from .games import Game, Views, games_for, read

DEFAULT_RUNS = 1_000_000
APPROXIMATE = ("stability", "retrieval")
DELTA = 0.02  # large enough that keys that appear are seen
_GROUPS = 100_000  # of one release
_SLOW_GROUPS = {"compact": 500, "alp": 50_000, "threshold-alp": 50_000}
_MOST_RUNS = {"compact": 5_000}  # its builds are quadratic and its lookups linear in the keys
_MOST_LABELS = 4000


@dataclass(frozen=True)
class Audit:
    """What an audit found: a lower bound on ε from every game, at the claimed δ."""

    mechanism: str
    epsilon: float
    delta: float
    runs: int
    confidence: float
    findings: tuple[Finding, ...]

    @property
    def lower_bound(self) -> float:
        """No smaller ε can be true, at the stated confidence."""
        return max(finding.epsilon for finding in self.findings)

    @property
    def refuted(self) -> bool:
        """Whether the claimed ε is too small."""
        return any(finding.refutes for finding in self.findings)

    def __str__(self) -> str:
        lines = [
            f"{self.mechanism}: claimed ε = {self.epsilon:g}, δ = {self.delta:g}; {self.runs:,} runs per side and game"
        ]
        for finding in self.findings:
            seen = "{:,}/{:,} against {:,}/{:,}".format(*finding.likely, *finding.rare)
            verdict = "REFUTED" if finding.refutes else ""
            lines.append(f"  {finding.game:42} ε ≥ {finding.epsilon:<8.4f} {seen}  {verdict}")
        verdict = "REFUTED" if self.refuted else "not refuted"
        lines.append(f"{verdict}: ε is at least {self.lower_bound:.4f}, at confidence {self.confidence:.6%}")
        return "\n".join(lines)

    def plot(self, path: Any) -> None:
        """Draw the bounds into an image file."""
        figure, axes = new_figure(7, 0.6 + 0.35 * len(self.findings))
        names = [finding.game for finding in self.findings][::-1]
        bounds = [finding.epsilon for finding in self.findings][::-1]
        colours = ["#cc3311" if bound > self.epsilon else "#0077bb" for bound in bounds]
        axes.barh(names, bounds, color=colours)
        axes.axvline(self.epsilon, color="black", linestyle="--", label=f"claimed ε = {self.epsilon:g}")
        axes.set_xlabel("proven lower bound on ε")
        axes.set_title(self.mechanism)
        axes.legend(loc="lower right")
        finished(figure, path)


def check_plot(path: Path, name: str = "plot") -> None:
    """Raise before the work what would stop its picture."""
    check_picture(path, name)
    check_writable(path)


def audit(
    mechanism: str,
    epsilon: float = 1.0,
    delta: float | None = None,
    *,
    runs: int = DEFAULT_RUNS,
    confidence: float = 1 - 1e-6,
    **options: object,
) -> Audit:
    """Try to refute that a mechanism is (ε, δ)-private: lower bounds on ε from many runs on
    neighbouring inputs.

    All bounds hold together with the stated confidence: a true claim is refuted with at most the
    remaining probability.
    """
    plan = check_audit(mechanism, epsilon, delta, runs=runs, confidence=confidence, **options)
    delta = plan.problem.delta
    runs, groups, settings = _sizes(mechanism, runs, options)
    games = list(games_for(plan))
    findings = []
    with counting(f"Auditing {mechanism}", len(games)) as advance:
        for game in games:
            failure = (1 - confidence) / len(games)
            findings.append(_play(game, mechanism, epsilon, delta, runs, groups, settings, failure))
            advance(1)
    return Audit(mechanism, epsilon, delta, runs, confidence, tuple(findings))


def check_audit(
    mechanism: str, epsilon: float, delta: float | None, *, runs: int, confidence: float, **options: object
) -> Plan:
    """The plan that an audit attacks, or `ParameterError`."""
    mechanism_named(mechanism)
    check_trials(runs, confidence)
    if delta is None:
        delta = DELTA if mechanism in APPROXIMATE else 0.0
    *_, settings = _sizes(mechanism, runs, options)
    return make_plan(epsilon, delta, mechanism=mechanism, **settings)


def check_trials(runs: int, confidence: float) -> None:
    """`ParameterError` for values with which no audit is possible."""
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must be in (0, 1), got {confidence}")
    if whole_number("runs", runs) < 1000:
        raise ParameterError(f"runs must be at least 1000, got {runs}")


def _sizes(mechanism: str, runs: int, options: dict[str, object]) -> tuple[int, int, dict[str, Any]]:
    """Runs, groups of keys in one release, and its parameters."""
    runs = min(runs, _MOST_RUNS.get(mechanism, runs))
    groups = min(_SLOW_GROUPS.get(mechanism, _GROUPS), runs)
    return runs, groups, _settings(mechanism, groups, options)


def _settings(mechanism: str, groups: int, options: dict[str, object]) -> dict[str, Any]:
    """Public parameters that make rare events likely: a small domain, many stored zeros, exact
    scaling.
    """
    keys = 8 * groups
    domain = 1 << max(12, (keys - 1).bit_length())
    settings: dict[str, Any] = {"domain": domain, "nonzero": keys}
    if mechanism in ("threshold", "threshold-alp", "tight-alp"):
        settings["stored_zeros"] = domain / 20
    if mechanism in ("alp", "threshold-alp"):
        settings["scaling"] = "exact"
    if mechanism == "alp":
        settings["upper"] = 40
    if mechanism == "compact":
        settings |= {"domain": 1 << 20, "nonzero": 5 * groups}
    return settings | options


def _play(
    game: Game,
    mechanism: str,
    epsilon: float,
    delta: float,
    runs: int,
    groups: int,
    settings: dict[str, Any],
    failure: float,
) -> Finding:
    parameters = {"epsilon": epsilon, "delta": delta, "mechanism": mechanism, **settings, **game.options}
    if delta:
        parameters.pop("stored_zeros", None)
    width = len(game.left)
    keys = np.arange(groups * (width + len(game.crowd)), dtype=np.uint64).reshape(groups, -1)
    inputs = np.array([[*counts, *game.crowd] for counts in (game.left, game.right)], np.int64)
    coins = np.random.default_rng()

    def released(sides: npt.NDArray[np.int64]) -> Views:
        built = build((keys.reshape(-1), inputs[sides].reshape(-1)), **parameters)
        return read(built, keys[:, :width].reshape(-1), game.whole).reshape(groups, width)

    stated = build((keys[:0, 0], inputs[:0, 0]), **parameters)
    seen: tuple[list[Views], list[Views]] = ([], [])
    for _ in range(math.ceil(2 * runs / groups)):
        # A coin for each group: the other keys in its cells have the same law, whichever side it is
        # on.
        sides = coins.integers(0, 2, groups)
        views = released(sides)
        if game.twice:
            views = np.stack([views[:, 0], released(np.zeros_like(sides))[:, 0]], axis=1)
        outcomes = game.view(views)
        for side in (0, 1):
            seen[side].append(outcomes[sides == side])
    left, right = map(np.concatenate, seen)
    return refute(game.name, *_labels(left, right), claimed=stated.epsilon, delta=stated.delta, failure=failure)


def _labels(left: Views, right: Views) -> tuple[Labels, Labels]:
    """Small numbers for what was seen; rare outcomes are grouped by rank."""
    values, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
    if len(values) > _MOST_LABELS:
        codes = codes * _MOST_LABELS // len(values)
    return codes[: len(left)].astype(np.int64), codes[len(left) :].astype(np.int64)


def audit_samples(
    name: str,
    sample: Callable[[bool, int], npt.NDArray[np.float64]],
    epsilon: float,
    delta: float,
    *,
    runs: int = DEFAULT_RUNS,
    confidence: float = 1 - 1e-6,
) -> Audit:
    """The same for any algorithm: `sample(right, runs)` returns what is seen in many runs on one of
    two inputs.
    """
    labels = _labels(sample(False, runs), sample(True, runs))
    finding = refute("two inputs", *labels, claimed=epsilon, delta=delta, failure=1 - confidence)
    return Audit(name, epsilon, delta, runs, confidence, (finding,))


assert set(_SLOW_GROUPS) <= set(MECHANISMS)
