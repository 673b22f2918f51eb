"""What releases with Gaussian noise lose, for a ledger that composes them.

It is known before any noise is drawn: neither law depends on the noisy number of keys. Proof:
docs/privacy.md, "Accounting over releases".
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..privacy.composition import GUARD, Moved, composed_delta
from ..privacy.events import GaussianEvent
from ..privacy.laws import float_up
from ..structures.thresholds import GaussianStage
from .base import Plan
from .gaussian import DRAWING_LOSS, NOISE_SHARE, GaussianNoise, moves_of
from .problem import Problem, UserBounds
from .retrieval import RetrievalPlan
from .stability import StabilityPlan


def event_of(mechanism: type[Plan], problem: Problem, plan: Plan | None) -> GaussianEvent | None:
    """What a release loses, or None if no more is known of it than ε and δ; the plan is given if it
    does not depend on the data.
    """
    if not problem.gaussian:
        return None
    if mechanism is RetrievalPlan:
        return _of_array(problem)
    if isinstance(plan, StabilityPlan) and isinstance(plan.stage, GaussianStage):
        return _of_names(problem, plan.stage)
    return None


def _of_array(problem: Problem) -> GaussianEvent:
    """What `retrieval` loses with Gaussian noise, whatever the noisy number of keys will be.

    All of δ that is not the noise's is for the array, for which the plan takes no more.
    """
    user = UserBounds.of(problem)
    noise = GaussianNoise.plan(problem, NOISE_SHARE * Fraction(problem.delta), counted=True)
    rest = Fraction(problem.delta) - Fraction(noise.delta(problem.epsilon, user))
    moves = moves_of(user, noise.counts, noise.number)
    return GaussianEvent(moves, user.keys * DRAWING_LOSS, float_up(max(rest, Fraction(0))))


def _of_names(problem: Problem, stage: GaussianStage) -> GaussianEvent:
    """What `stability` loses with Gaussian noise: all keys of a user shared, and all of them new
    (docs/privacy.md, "Accounting over releases").
    """
    hidden = stage.keys * math.log1p(-stage.named)  # the logarithm of a
    moved = Moved(stage.noise, stage.keys, stage.per_key)
    shown = Fraction(-GUARD * math.expm1(hidden)) + problem.collision(0)
    rest = Fraction(problem.delta) - Fraction(composed_delta(problem.epsilon + GUARD * hidden, [moved]))
    return GaussianEvent((moved,), -GUARD * hidden, float_up(max(rest, shown)))
