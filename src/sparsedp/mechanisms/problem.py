"""The public parameters that every mechanism plans from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .._util.lazy import cached_property
from ..errors import ParameterError
from ..privacy.contributions import Contribution
from ..privacy.cut_laws import CutGaussian
from ..privacy.laws import LARGEST_STEP_LOSS, TwoSided, precise, round_down
from ..privacy.neighbours import HEADROOM, Neighbours
from ..structures.table import LARGEST_COUNT
from ..structures.thresholds import GaussianStage, PureStage, Stage

STAGE_MISFIT = "the threshold stage must be for the domain and the neighbours of the problem"

_LARGEST_EPSILON = 1e6
MOST_PARTS = 1 << 20
GEOMETRIC, GAUSSIAN = NOISES = ("geometric", "gaussian")
FINGERPRINTS = 1 << 64
SAME_FINGERPRINT = "delta must cover keys that share a fingerprint of 64 bits, got {}; use a larger delta"
MOST_NUMBER_SHIFT = 64  # keys are counted in units if a user has more

# Fields that files omit if they have their default: they are newer than the first files.
LEFT_OUT = {"left_out": True}


@dataclass(frozen=True)
class Problem:
    """Privacy, neighbours, keys and bounds, as requested."""

    epsilon: float
    delta: float
    neighbours: Neighbours
    domain: int
    hashed: bool = True  # keys are hashed to the domain, rather than being integers in it
    nonzero: int | None = None
    total: Fraction | None = None
    upper: Fraction | None = None
    signed: bool = False
    sizing_loss: Decimal = Decimal(0)  # step loss already spent on estimating the size
    contribution: Contribution | None = None  # what one user may change, if known
    parts: int = 1  # built one by one, each for its share of the keys
    keep_keys: bool = field(default=False, metadata=LEFT_OUT)  # stored keys are published, not only hashed
    sizing_noise: TwoSided | CutGaussian | None = field(default=None, metadata=LEFT_OUT)  # of the estimate of the size
    sizing_keys: int | None = field(default=None, metadata=LEFT_OUT)  # keys that may come or go, if it counts keys
    bounded: bool = field(default=False, metadata=LEFT_OUT)  # keys are counted, but the size is that of public bounds
    noise: str = field(default=GEOMETRIC, metadata=LEFT_OUT)  # "geometric" or "gaussian"

    @cached_property
    def step_budget(self) -> Decimal:
        """The step loss that the mechanism may spend, rounded down."""
        with precise(ROUND_FLOOR):
            return self.neighbours.step_budget(self.epsilon) - self.sizing_loss

    @property
    def sized_unseen(self) -> bool:
        """Whether the noise of an estimated size is not stated, as in files of format 1: its price
        is only claimed.
        """
        return self.sizing_loss > 0 and self.sizing_noise is None

    @property
    def size_estimated(self) -> bool:
        """Whether `nonzero` was estimated from the data."""
        return (self.sizing_loss > 0 or self.sizing_noise is not None) and not self.bounded

    @property
    def sizing_spread(self) -> float:
        """The mean size of the noise on an estimated size; 0 if there is none."""
        if self.sizing_noise is None:
            return 0.0
        if isinstance(self.sizing_noise, CutGaussian):
            return self.sizing_noise.mean_size * UserBounds.of(self).unit
        return 1 / float(self.sizing_noise.rate)

    @property
    def counted(self) -> bool:
        """Whether a noisy number of keys decided the plan: the guarantee is then the worst over all
        numbers.
        """
        return self.size_estimated and self.sizing_keys is not None

    @property
    def promise(self) -> str:
        """The inputs between which the guarantee holds, in words."""
        if self.gaussian:
            user = UserBounds.of(self)
            keys = "1 key" if user.keys == 1 else f"{user.keys} keys"
            return f"integer counts that differ in at most {keys} by at most {user.per_key}"
        few = self.sizing_keys is not None and not self.neighbours.real and self.sizing_keys < self.neighbours.distance
        return f"{self.neighbours} in at most {self.sizing_keys} keys" if few else str(self.neighbours)

    @property
    def gaussian(self) -> bool:
        """Whether counts get Gaussian noise."""
        return self.noise == GAUSSIAN

    @property
    def upper_cells(self) -> int | None:
        """`upper` in cells, rounded down."""
        if self.upper is None:
            return None
        return min(LARGEST_COUNT, math.floor(self.upper / self.neighbours.step))

    @property
    def total_cells(self) -> int | None:
        """`total` in cells, rounded up."""
        return None if self.total is None else math.ceil(self.total / self.neighbours.step)

    @property
    def entries(self) -> int | None:
        """The best public bound on the number of non-zero keys: `nonzero`, or `total` for integer
        counts.
        """
        bounds = [bound for bound in (self.nonzero, self.total_cells) if bound is not None]
        return max(1, min(bounds)) if bounds else None

    def keys_above(self, counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """How many keys are assumed above each count, without the data: Zipf's law in units of the
        noise.
        """
        unit = min(1.0, float(self.step_budget))
        return float(self.entries or 1) / (1 + unit * np.asarray(counts, np.float64))

    def rate(self, share: Decimal = Decimal(1)) -> Decimal:
        """The decay rate of noise that spends a share of the budget, with headroom for its
        thresholds.
        """
        with precise(ROUND_FLOOR):
            return self.step_budget * share * HEADROOM

    @property
    def moved_keys(self) -> int:
        """How many keys may come or go: between neighbours for integer counts, otherwise in one
        step.
        """
        if self.neighbours.real:
            return 1
        steps = int(self.neighbours.distance)
        contribution = self.contribution
        if contribution is None or contribution.total != self.neighbours.sensitivity:
            return steps
        return min(steps, contribution.keys)

    def loss_of_number(self, law: TwoSided | CutGaussian) -> Decimal:
        """The loss of a number of keys with this noise, spread over the steps between neighbours,
        rounded up.
        """
        if isinstance(law, CutGaussian):
            return Decimal(0)  # it is composed with the noise on the counts
        if self.neighbours.real:
            return law.step_loss
        with precise(ROUND_CEILING):
            return law.step_loss * self.moved_keys / round_down(self.neighbours.distance)

    def collision(self, keys: int) -> Fraction:
        """P[a key that a user may change shares its fingerprint], where that matters, at most.

        Kept keys have noise of their own, and `keys` is how many keys an array holds one for each
        fingerprint (0 if there is none). Other keys are counted by fingerprint: two keys of a user
        with the same one would move it by more than Gaussian noise is made for.
        """
        if not self.hashed:
            return Fraction(0)
        if self.keep_keys:
            return Fraction(self.moved_keys * keys, FINGERPRINTS)
        return Fraction(math.comb(self.moved_keys, 2), FINGERPRINTS) if self.gaussian else Fraction(0)

    def fits(self, stage: Stage | GaussianStage | None) -> bool:
        """Whether a threshold stage is for the domain and the neighbours of the problem."""
        if isinstance(stage, GaussianStage):
            same = stage.signed == self.signed and UserBounds(stage.keys, stage.per_key) == UserBounds.of(self)
            return self.gaussian and same
        if isinstance(stage, PureStage):
            return self.delta == 0 and stage.domain == self.domain
        return stage is None or (self.delta > 0 and stage.distance == self.neighbours.distance)

    def faults(self) -> Iterator[str]:
        """What is wrong with a problem that was not made from a request, if anything."""
        if not 0 < self.epsilon <= _LARGEST_EPSILON or not 0 <= self.delta < 1:
            yield "epsilon must be positive and at most 10^6, delta in [0, 1)"
        if not 1 <= self.domain <= 1 << 64 or (self.hashed and self.domain != 1 << 64):
            yield "the domain must be in 1..2^64, and 2^64 for hashed keys"
        bounds = (self.nonzero, self.total, self.upper)
        if any(bound is not None and bound <= 0 for bound in bounds) or not 0 <= self.sizing_loss <= LARGEST_STEP_LOSS:
            yield "bounds must be positive, and the loss of sizing at most that of a step"
        if self.sizing_keys is not None and (self.sizing_noise is None or self.sizing_keys != self.moved_keys):
            yield "the keys that may come or go must be those of neighbours"
        elif self.sizing_noise is not None and self.sizing_loss != self._loss_of_size(self.sizing_noise):
            yield "the loss of sizing must be that of its noise"
        if self.contribution is not None and self.contribution.total > self.neighbours.sensitivity:
            yield "users must not contribute more than neighbours differ by"
        if self.noise not in NOISES:
            yield "noise must be geometric or gaussian"
        elif self.sizing_noise is not None and isinstance(self.sizing_noise, CutGaussian) != self.gaussian:
            yield "the noise of the size must be that of the counts"
        if self.bounded and self.sizing_keys is None:
            yield "only a size whose keys are counted is bounded"
        if self.keep_keys and not (self.hashed and self.delta > 0):
            yield "only hashed keys are kept, and only with a delta"
        if not 1 <= self.parts <= MOST_PARTS:
            yield "parts must be in 1..2^20"

    def _loss_of_size(self, noise: TwoSided | CutGaussian) -> Decimal:
        if self.sizing_keys is None and not isinstance(noise, CutGaussian):
            return noise.step_loss
        return self.loss_of_number(noise)


@dataclass(frozen=True)
class UserBounds:
    """What a user may change: at most `keys` keys, by at most `per_key` counts each."""

    keys: int
    per_key: int

    @classmethod
    def of(cls, problem: Problem) -> UserBounds:
        """The bounds of a problem, or `ParameterError` if Gaussian noise can do nothing with them."""
        neighbours, contribution = problem.neighbours, problem.contribution
        if neighbours.real:
            raise ParameterError(
                "gaussian noise is for counts in whole units: rounding real values at random has no guarantee for it; "
                "use noise='geometric'"
            )
        if contribution is None and neighbours.distance == 1:
            return cls(1, 1)
        if contribution is None or contribution.total != neighbours.sensitivity:
            raise ParameterError(
                "gaussian noise needs max_keys_per_user and max_per_key: sensitivity alone does not say over how many "
                "keys a user is spread"
            )
        if contribution.per_key < 1:
            raise ParameterError(
                f"gaussian noise is for counts in whole units: max_per_key must be at least 1, got "
                f"{float(contribution.per_key):g}; use noise='geometric'"
            )
        return cls(contribution.keys, math.floor(contribution.per_key))

    @property
    def unit(self) -> int:
        """Keys are counted in units of this many."""
        return 1 << max(0, (self.keys // MOST_NUMBER_SHIFT).bit_length() - 1)

    @property
    def number_shift(self) -> int:
        """By how many units their number may move."""
        return -(-self.keys // self.unit)
