"""The privacy of `retrieval`: what a step loses, and the events behind δ (docs/privacy.md,
"Retrieval").

Geometric noise has a loss and a δ for every step of a count. Gaussian noise has a δ for all that a
user may move.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from ..privacy.cut_laws import CutGaussian, CutGeometric
from ..privacy.laws import log_bounds, precise
from ..structures.linear_system import MOST_DEFECT, MOST_REDRAWS
from . import gaussian
from .problem import UserBounds
from .support import overflow, step_multiplier, touched_parts

if TYPE_CHECKING:
    from .retrieval import RetrievalPlan

# Shares of δ for values that a step makes impossible, and for dependent rows; the rest is for
# overflow.
STORED_SHARE, DEPENDENCE_SHARE = Fraction(1, 2), Fraction(1, 8)

DRAWING_LOSS = Decimal(2) ** -60  # of a uniform word among those of a value


def step_loss(plan: RetrievalPlan) -> Decimal:
    """The largest loss of one step of a count, rounded up."""
    buckets = plan.buckets
    if isinstance(buckets, CutGaussian):
        raise AssertionError("gaussian noise has no loss of a step")
    if isinstance(buckets, CutGeometric):
        with precise(ROUND_CEILING):
            return buckets.step_loss + DRAWING_LOSS
    # If nothing is filled, a key of count one is at least not stored.
    absent = log_bounds(1 / (1 - buckets.noise.at_least(buckets.threshold - 1))).high
    counted = Decimal(0) if plan.count_noise is None else plan.count_noise.step_loss
    with precise(ROUND_CEILING):
        return max(buckets.noise.step_loss, buckets.zero_loss, absent) + counted


def delta_events(plan: RetrievalPlan) -> dict[str, Fraction]:
    """The causes of δ: the noise, dependent rows, no seed and overflow; each for one step of
    geometric noise, or for all that a user may move with Gaussian noise.

    The exception is the overflow of integer counts whose number set the size: it is for all steps
    together.
    """
    problem, buckets, system = plan.problem, plan.buckets, plan.system
    defect = system.rank_defect
    if defect > MOST_DEFECT:
        raise AssertionError("the system is too small for its keys")
    dependent = system.dependence / (1 - defect) ** 2
    same = problem.collision(problem.parts * system.keys)  # two keys of any part have the same fingerprint
    no_seed = defect**MOST_REDRAWS
    if not isinstance(buckets, CutGaussian):
        stored = (
            buckets.step_delta if isinstance(buckets, CutGeometric) else buckets.noise.at_least(buckets.threshold - 1)
        )
        dependent += same / problem.moved_keys
        return {"stored": stored, "dependent": dependent, "no seed": no_seed, "overflow": _overflow(plan)}
    user = UserBounds.of(problem)
    assert isinstance(problem.sizing_noise, CutGaussian)
    noise = gaussian.noise_delta(problem.epsilon, user, buckets, problem.sizing_noise)
    return {
        "noise": Fraction(noise),
        "dependent": 2 * user.keys * dependent + same,
        "no seed": touched_parts(problem) * no_seed,
        "overflow": _overflow(plan),
    }


def whole_delta(plan: RetrievalPlan) -> Fraction:
    """δ between neighbours, rounded up slightly."""
    problem, events = plan.problem, dict(plan.delta_events)
    if problem.gaussian:
        return sum(events.values(), Fraction(0))
    at_once = Fraction(0)
    if plan.count_noise is None and not problem.neighbours.real:
        at_once = events.pop("overflow")
    step = sum(events.values(), Fraction(0))
    return step * step_multiplier(problem, plan.step_loss) * (1 + Fraction(1, 10**9)) + at_once


def _overflow(plan: RetrievalPlan) -> Fraction:
    problem, most = plan.problem, plan.room
    above = plan.system.keys - (-(-(problem.nonzero or 1) // problem.parts) if most is None else most)
    if plan.count_noise is not None:
        return plan.count_noise.at_least(above)
    if problem.sizing_noise is None:
        raise AssertionError("the noise of the number of keys is not known")
    return overflow(problem, problem.sizing_noise, above)
