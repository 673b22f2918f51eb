"""A plan except for its size: what is decided before the data is read, and how to finish it once
the size is known.

The search for the plan runs once: now if its size is public, and otherwise when the size has been
estimated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .._util.lazy import cached_property
from ..errors import ParameterError
from ..keys.hashing import Partition
from ..mechanisms import Plan, Problem, Sizing, check_options, create_plan, mechanism_named
from ..mechanisms.losing import event_of
from ..privacy.randomness import Randomness
from .choosing import PREFERRED, SMALLER, choose_mechanism, on_its_grid, weighed, with_noise
from .request import Request


@dataclass(frozen=True)
class Draft:
    """The mechanism and its parameters, all checked; `finish` makes the plan."""

    request: Request
    problem: Problem  # the problem of the request, on the grid of the mechanism
    name: str
    reason: str
    sizing: Sizing | None  # what has to be estimated from the data
    undecided: bool = False  # whether the size may still lead to tight-alp
    ready: Plan | None = field(default=None, compare=False)  # the plan, if its size is public

    @property
    def label(self) -> str:
        """The mechanism, as recorded in the ledger."""
        return f"{self.name} or {SMALLER}" if self.undecided else self.name

    @cached_property
    def event(self) -> str | None:
        """What the release will lose, as the ledger records it, if more is known than ε and δ."""
        event = event_of(mechanism_named(self.name), self.problem, self.ready)
        return None if event is None else event.written()

    @cached_property
    def plan(self) -> Plan:
        """The plan for the size that follows from public bounds, or for the smallest size."""
        return self.ready or create_plan(self.name, self.reason, self._smallest, self.request.options)

    @property
    def _smallest(self) -> Problem:
        return (
            self.problem if self.sizing is None else self.sizing.sized(self.problem, self.sizing.unknown(self.problem))
        )

    def finish(self, noisy: list[int]) -> Plan:
        """The plan, once what had to be estimated is known with noise."""
        assert self.sizing is not None
        problem = self.sizing.sized(self.problem, noisy)
        plan = self.ready or create_plan(self.name, self.reason, problem, self.request.options)
        plan = plan.counted(noisy)
        return weighed(plan, problem) if self.undecided else plan

    def check(self) -> None:
        """`ParameterError` for parameters that a plan of any size would refuse."""
        check_options(self.name, self.problem, self.request.options)
        mechanism_named(self.name).check(self._smallest, **self.request.options)

    def draw_partition(self, randomness: Randomness) -> Partition:
        """Which key belongs to which part, whichever mechanism the size leads to."""
        # The parts of hashed keys are ranges of fingerprints; the seeds are for the blocks of
        # tight-alp.
        mechanism = mechanism_named(SMALLER if self.undecided else self.name)
        return mechanism.draw_partition(self.problem, randomness)

    def builds_what_it_counted(self, plan: Plan) -> bool:
        """Whether the size is counted from the cells of the build, which are rounded once."""
        return self.sizing is not None and self.sizing.of_built_cells and plan.mechanism == self.name


def predicted_noise(request: Request) -> float:
    """The mean error that noise has on a frequent key, in the caller's units, without a plan."""
    name = request.mechanism
    if name == "auto":
        name, _ = choose_mechanism(request.problem, request.options)
    mechanism = mechanism_named(name)
    problem = on_its_grid(with_noise(request.problem, mechanism, request.noise)[0], mechanism)
    return mechanism.figure_of_noise(problem) * float(problem.neighbours.step)


def draft(request: Request) -> Draft:
    """The draft of a request, with its size open if it has to be estimated; or `ParameterError`."""
    if request.mechanism != "auto":
        return _planned(_draft(request, request.mechanism, Plan.reason))
    name, reason = choose_mechanism(request.problem, request.options)
    drafted = _draft(request, name, reason)
    try:
        return _planned(drafted)
    except ParameterError:
        if name != PREFERRED:
            raise
        # The other mechanism may have a plan, or its error says what is wrong.
        return _planned(_draft(request, SMALLER, f"approximate privacy, for which {PREFERRED} has no plan"))


def _draft(request: Request, name: str, reason: str) -> Draft:
    mechanism = mechanism_named(name)
    noisy, why = with_noise(request.problem, mechanism, request.noise)
    problem, reason = on_its_grid(noisy, mechanism, request.share), f"{reason}; {why}" if why else reason
    sizing = mechanism.sizing(problem, request.share)
    # If real values are rounded, the number of keys and the build of `retrieval` share their coins:
    # no choice then.
    free = not problem.neighbours.real and not problem.gaussian and (problem.hashed or problem.parts == 1)
    undecided = request.mechanism == "auto" and name == PREFERRED and problem.entries is None and free
    return Draft(request, problem, name, reason, sizing, undecided)


def _planned(drafted: Draft) -> Draft:
    """The draft, checked, and with its plan if its size is public."""
    request, problem = drafted.request, drafted.problem
    if drafted.sizing is not None and problem.entries is None:
        drafted.check()
        return drafted
    plan = drafted.plan
    chosen = weighed(plan, problem) if request.mechanism == "auto" else plan
    if chosen is not plan:  # the size is public, so this decision costs nothing
        return Draft(request, problem, chosen.mechanism, chosen.reason, None, ready=chosen)
    return replace(drafted, ready=plan)
