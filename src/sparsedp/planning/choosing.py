"""The choice of a mechanism: the paper's suggestions to practitioners, and how `auto` weighs them.

`auto` chooses by public parameters, and again when the size is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from ..errors import ParameterError
from ..mechanisms import MECHANISMS, Plan, Problem, create_plan, mechanism_named
from ..mechanisms.laplace import LARGEST_DOMAIN
from ..mechanisms.problem import GAUSSIAN, UserBounds
from ..mechanisms.support import LARGEST_SHARE
from ..mechanisms.tight_alp import DEFAULT_BITS
from ..privacy.neighbours import Neighbours, shown

# With δ > 0, the first has the smaller error, which is worth up to `MOST_TIMES` times the space of
# the second.
PREFERRED, SMALLER = "retrieval", "tight-alp"
MOST_TIMES = 3

# What either has besides its cells, about: with few keys this is most of the file, and no reason to
# choose.
FIXED_NBYTES = 3500

# Dense counters for up to this many keys take at most 8 MiB and have the least error, so they are
# preferred.
SMALL_DOMAIN = 1 << 20

# Below this, the slots of `retrieval` would need more than 64 bits.
SMALLEST_RETRIEVAL_DELTA = 1e-14

FINEST_CELL_LOSS = Fraction(1, 100)


def choose_mechanism(problem: Problem, options: Iterable[str] = ()) -> tuple[str, str]:
    """The paper's suggestions to practitioners: a mechanism, and why."""
    if not problem.hashed and problem.domain <= SMALL_DOMAIN and problem.parts == 1:
        return "laplace", f"a domain of {problem.domain} keys is small enough to store every noisy count"
    dense = problem.entries is not None and problem.domain <= 4 * problem.entries
    if not problem.hashed and dense and problem.domain <= LARGEST_DOMAIN and problem.parts == 1:
        return "laplace", "the data is dense in its domain, so a counter for every key is smaller"
    takes = [option.name for option in mechanism_named(SMALLER).options if option.name in options]
    if problem.delta > SMALLEST_RETRIEVAL_DELTA and takes:
        return SMALLER, f"approximate privacy, and it takes {' and '.join(takes)}"
    if problem.delta > SMALLEST_RETRIEVAL_DELTA:
        return PREFERRED, "a sparse vector in a large domain, approximate privacy: the error of noise on every key"
    kind = "tiny delta" if problem.delta else "pure privacy"
    return "tight-alp", f"a sparse vector in a large domain, {kind}: small error at every count"


def with_noise(problem: Problem, mechanism: type[Plan], asked: str) -> tuple[Problem, str]:
    """The problem with the noise that was asked for, or with the one that has the smaller predicted
    figure, and why.
    """
    if asked == GAUSSIAN and GAUSSIAN not in mechanism.noises:
        able = " or ".join(name for name, other in MECHANISMS.items() if GAUSSIAN in other.noises)
        raise ParameterError(f"{mechanism.mechanism} has no gaussian noise; use mechanism='auto', {able}")
    other = replace(problem, noise=GAUSSIAN)
    if asked == GAUSSIAN:
        UserBounds.of(problem)  # or the reason why not
        return other, ""
    if asked != "auto" or GAUSSIAN not in mechanism.noises or problem.delta == 0:
        return problem, ""
    try:
        ours, theirs = mechanism.figure_of_noise(other), mechanism.figure_of_noise(problem)
    except ParameterError:  # users' bounds are unknown, or too large for it
        return problem, ""
    if ours >= theirs:
        return problem, ""
    return other, f"gaussian noise: {mechanism.noise_figure} {ours:.3g}, where geometric noise has {theirs:.3g}"


def on_its_grid(problem: Problem, mechanism: type[Plan], share: float | None = None) -> Problem:
    """The problem for this mechanism: some mechanisms move to a coarser grid when a cell has very
    little budget.
    """
    if not mechanism.coarsens or problem.gaussian:
        return problem
    counts = mechanism.always_counts or problem.entries is None
    left = 1 - Fraction(LARGEST_SHARE if share is None else share) if counts else Fraction(1)
    return coarsened(problem, left)


def weighed(plan: Plan, problem: Problem) -> Plan:
    """The choice of `auto` once the size is known: for few keys the margin of `retrieval` takes too
    much space.

    `problem` is the one that `tight-alp` would have, including what has been spent.
    """
    cells = plan.cells_nbytes
    if plan.mechanism != PREFERRED or cells is None or problem.entries is None or problem.gaussian:
        return plan  # gaussian noise has a smaller error than the other mechanism could have
    if problem.nonzero is not None and problem.sizing_noise is not None and not problem.bounded:
        # With a margin, so that it is rarely too small.
        problem = replace(problem, nonzero=problem.nonzero + math.ceil(problem.sizing_spread))
    times = (FIXED_NBYTES + cells) / (FIXED_NBYTES + DEFAULT_BITS / 8 * (problem.entries or 1))
    if times <= MOST_TIMES:
        return plan
    reason = f"approximate privacy for few keys: {PREFERRED} would take {times:.0f} times the space"
    try:
        return create_plan(SMALLER, reason, problem, {})
    except ParameterError:  # a ladder would be too high
        return plan


def coarsened(problem: Problem, left: Fraction = Fraction(1)) -> Problem:
    """The problem on a coarser grid, if a cell's share of the remaining budget would need huge
    laws.

    Counts are then rounded at random to multiples of the new step, like real values; that costs
    about 1 % of ε.
    """
    old = problem.neighbours
    cell_loss = left * Fraction(problem.epsilon) * old.step / old.sensitivity
    if cell_loss >= FINEST_CELL_LOSS:
        return problem
    step = old.step * math.ceil(2 * FINEST_CELL_LOSS / cell_loss)
    if max(step.numerator, step.denominator) >= 1 << 53:
        large = step >= 1 << 50  # no step would help
        fix = "bound what one user may change by less, or use a larger epsilon" if large else "use a rounder step"
        raise ParameterError(
            f"epsilon {problem.epsilon} and sensitivity {shown(old.sensitivity)} need a grid of {shown(step)}, "
            f"which is not a ratio of integers below 2^53; {fix}"
        )
    return replace(problem, neighbours=Neighbours(old.sensitivity, step, real=True))
