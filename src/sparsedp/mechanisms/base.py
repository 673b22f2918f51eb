"""What every mechanism provides: a plan (public parameters → sizes, exact privacy, error) and a
build.

A plan is made from public parameters alone. `build` turns counts and randomness into arrays, which
are all that is published; `estimate` reads them. Counts and estimates here are in cells of the grid
(1 for integers); the public methods use the caller's units.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._util.lazy import cached_property
from .._util.plotting import Path
from ..errors import ParameterError
from ..keys.hashing import Partition
from ..privacy.bounds import failure_of, geometric_mean_error
from ..privacy.laws import float_up, precise
from ..privacy.numbers import check_number
from ..privacy.randomness import Randomness, Words
from ..structures.table import LARGEST_COUNT, Counts
from . import drawing, notebook
from .filesize import expected_nbytes
from .options import Option
from .partial import Touched, length_of, piece
from .predictions import ErrorPrediction, check_prediction
from .problem import NOISES, Problem
from .reading import Arrays, Estimates, Parts, Reader, tables_of
from .sizing import EffectiveSize, Sizing
from .words import summary

ArrayShape: TypeAlias = tuple[type[np.generic], tuple[int | None, ...]]

TABLE_SHAPES: dict[str, ArrayShape] = {"table.ids": (np.uint64, (None,)), "table.values": (np.int64, (None,))}
KEPT_SHAPES: dict[str, ArrayShape] = {"keys.offsets": (np.int64, (None,)), "keys.bytes": (np.uint8, (None,))}

_SAMPLES = 200_000


class Built(NamedTuple):
    """The arrays of one part, and which of its non-zero keys are in the table, if they are named."""

    arrays: Arrays
    stored: npt.NDArray[np.bool_]


# Every mechanism by its name; `mechanisms/__init__` imports them all, and sorts them by their rows.
REGISTERED: dict[str, type[Plan]] = {}


class Plan(ABC):
    """Sizes, exact privacy and predicted error of one mechanism, from public parameters.

    A subclass that has a name is a mechanism, and is registered under that name.
    """

    mechanism: ClassVar[str]
    row: ClassVar[int]  # in the comparison
    pure: ClassVar[bool] = False  # whether it has plans with δ = 0
    approximate: ClassVar[bool] = False  # whether it makes use of δ > 0
    options: ClassVar[tuple[Option, ...]] = ()  # that `create` takes
    estimates_sign: ClassVar[bool] = False  # whether negative counts need no second release
    needs_size: ClassVar[bool] = False  # whether `nonzero` or `total` must be known or estimated
    always_counts: ClassVar[bool] = False  # whether the number of keys is counted even if a bound is public
    noises: ClassVar[tuple[str, ...]] = NOISES[:1]  # kinds of noise, with δ > 0
    noise_figure: ClassVar[str] = "a mean error of"  # by which `noise="auto"` decides
    keeps_keys: ClassVar[bool] = False  # whether stored keys may be published unhashed
    coarsens: ClassVar[bool] = False  # whether counts move to a coarser grid when a cell has very little budget

    problem: Problem
    reason: str = "asked for by name"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "mechanism" in cls.__dict__ and REGISTERED.setdefault(cls.mechanism, cls) is not cls:
            raise TypeError(f"there are two mechanisms {cls.mechanism!r}")

    @classmethod
    @abstractmethod
    def create(cls, problem: Problem, *args: Any, **options: Any) -> Plan:
        """The plan of a problem, or `ParameterError`; the options are those that the mechanism
        declares.
        """

    @classmethod
    def check(cls, problem: Problem, **options: Any) -> None:
        """`ParameterError` for what `create` would refuse, without a search for the best plan."""
        cls.create(problem, **options)

    @property
    @abstractmethod
    def step_loss(self) -> Decimal:
        """The exact loss of one count, rounded up."""

    @property
    @abstractmethod
    def cells_nbytes(self) -> float | None:
        """Expected bytes of one release of counts; None when it depends on an unknown size."""

    @property
    def expected_stored(self) -> float | None:
        """Keys in each table, as `Problem.keys_above` assumes; None if that is not known yet."""
        return 0.0

    @property
    @abstractmethod
    def access(self) -> int:
        """Memory reads of one lookup."""

    @property
    @abstractmethod
    def array_shapes(self) -> dict[str, ArrayShape]:
        """The types and shapes of the arrays of each part of `build`, with None for a noisy length."""

    @property
    def shared_shapes(self) -> dict[str, ArrayShape]:
        """The arrays that belong to a release as a whole: they are the same in all of its parts."""
        return {}

    def completed(self, parts: Parts) -> Parts:
        """All parts of a release, with the arrays that they share; those follow from what the parts
        publish.
        """
        return parts

    @property
    def table_shapes(self) -> dict[str, ArrayShape]:
        """The arrays of the table."""
        return TABLE_SHAPES | (KEPT_SHAPES if self.problem.keep_keys else {})

    @classmethod
    def sizing(cls, problem: Problem, share: float | None) -> Sizing | None:
        """What has to be estimated from the data, with a share of ε, before a plan can be made."""
        return EffectiveSize.plan(problem, share) if cls.needs_size and problem.entries is None else None

    @classmethod
    def figure_of_noise(cls, problem: Problem) -> float:
        """`noise_figure` for the noise of the problem: smaller is better."""
        return geometric_mean_error(float(problem.step_budget))

    def counted(self, noisy: list[int]) -> Plan:
        """The plan with the noisy numbers from which its size was estimated."""
        return self

    @classmethod
    def draw_partition(cls, problem: Problem, randomness: Randomness) -> Partition:
        """Which key belongs to which part; the randomness it draws is public."""
        return Partition(problem.parts, problem.hashed)

    @abstractmethod
    def build(self, ids: Words, counts: Counts, randomness: Randomness) -> Arrays:
        """The arrays that are published. Ids are distinct and ascending, counts are positive."""

    def build_part(self, part: int, partition: Partition, ids: Words, counts: Counts, randomness: Randomness) -> Built:
        """One part, for its share of the keys; here the only part."""
        return Built(self.build(ids, counts, randomness), np.zeros(len(ids), np.bool_))

    def faults(self) -> Iterator[str]:
        """What is wrong with a plan that was not made here, if anything; its fields have already
        been checked.
        """
        yield from ()

    def wrong_arrays(self, parts: Parts, thorough: bool) -> Iterator[str]:
        """What is wrong with arrays of the right shapes; always checks small ones, and all of them
        if thorough.
        """
        both_signs = self.problem.signed and self.releases == 1
        for arrays in parts if not self.problem.hashed else ():
            stored = length_of(arrays, "table.ids") if "table.ids" in arrays else 0
            if stored and int(piece(arrays, "table.ids", stored - 1, stored)[0]) >= self.problem.domain:
                yield "table.ids must be below the domain"
        for table in tables_of(parts) if thorough else ():
            if len(table.ids):
                _ = table.index  # refuses ids that do not ascend
                values = np.abs(table.values) if both_signs else table.values
                if not self.smallest_stored <= int(values.min()) <= int(values.max()) <= LARGEST_COUNT:
                    yield f"table.values must be in {self.smallest_stored}..2^61"

    @abstractmethod
    def reader(self, parts: Parts) -> Reader:
        """The reader that answers lookups from the arrays."""

    def touched(self, arrays: Mapping[str, np.ndarray], part: int, ids: Words) -> dict[str, Touched]:
        """Which elements of large arrays, besides the table, the answers of a part's ids depend on."""
        return {}

    def partition(self, parts: Parts) -> Partition:
        """Which part of a release has the answer of a key."""
        return Partition(len(parts), self.problem.hashed)

    def observed(self, parts: Parts) -> Plan:
        """The plan with predictions updated from what was published; the guarantee stays the same."""
        return self

    @abstractmethod
    def simulate(self, count: int, samples: int) -> Estimates:
        """Clamped estimates of a key of this count over many releases, in cells; for predictions
        only.
        """

    @property
    def expected_error_cells(self) -> float | None:
        """A bound on the expected error of any entry, in cells; None if no bound is known."""
        return None

    @property
    def maximum_error_cells(self) -> float | None:
        """A bound on the expected largest error over the domain, in cells; None if there is none."""
        return None

    def error_with_probability_cells(self, failure: float) -> float:
        """An error that one entry exceeds with probability at most `failure`, in cells."""
        return math.inf

    @property
    def smallest_stored(self) -> int:
        """The smallest value that a table can hold, in cells."""
        return 1

    @property
    def noise_scale_cells(self) -> float:
        """The size of the noise, about."""
        return 1 / float(self.problem.rate())

    @property
    def delta_parts(self) -> dict[str, float]:
        """The parts of δ, if it has several causes: each for one step, or with Gaussian noise for a
        user.
        """
        return {}

    @property
    def noise_variance(self) -> float | None:
        """The variance of an unclamped estimate, in cells, if every key has the same noise;
        otherwise None.
        """
        return None

    @property
    def may_count_keys(self) -> bool:
        """Whether its size can be a noisy number of keys."""
        return self.always_counts

    @property
    def of_first_format(self) -> bool:
        """Whether only files of format 1 can hold this plan."""
        return False

    @property
    def filled(self) -> bool:
        """Whether the release holds what it should about keys that are not stored."""
        return True

    @property
    def overload(self) -> str | None:
        """What to expect of a release that is visibly fuller than planned; otherwise None."""
        return None

    @property
    def assumption(self) -> str | None:
        """What the guarantee assumes about the data beyond being neighbours; None if nothing."""
        return None

    # In the caller's units.

    @property
    def exact_delta(self) -> Fraction:
        """δ, exactly."""
        return Fraction(0)

    @cached_property
    def exact_epsilon(self) -> float:
        """The exact ε of the thresholds in use, rounded up."""
        with precise(ROUND_CEILING):
            return self.problem.neighbours.epsilon(self.step_loss + self.problem.sizing_loss)

    @property
    def epsilon(self) -> float:
        """The ε that the release states: the exact ε, or the requested one.

        It states the requested ε if a share of it cannot be checked, or if the number of keys could
        have led to another plan.
        """
        all_of_it = self.problem.sized_unseen or self.problem.counted
        return self.problem.epsilon if all_of_it else self.exact_epsilon

    @cached_property
    def delta(self) -> float:
        """The exact δ, rounded up; never above the requested δ."""
        return float_up(self.exact_delta)

    @property
    def releases(self) -> int:
        """2 if negative values are released beside the positive ones, otherwise 1."""
        return 2 if self.problem.signed and not self.estimates_sign else 1

    @property
    def nbytes(self) -> int | None:
        """Expected bytes of the file, or of all files of a release in parts, with their headers.

        How many keys are stored depends on their counts, which are assumed to follow Zipf's law in
        units of the noise: with more large ones, the file is larger.
        """
        return expected_nbytes(self)

    @property
    def bits_per_entry(self) -> float | None:
        """Expected bits of the arrays for each of the `nonzero` keys."""
        entries = self.problem.entries
        return None if self.cells_nbytes is None or entries is None else 8 * self.cells_nbytes * self.releases / entries

    @property
    def expected_error(self) -> float | None:
        """A bound on the expected error of any entry."""
        return self._in_units(self.expected_error_cells)

    @property
    def maximum_error(self) -> float | None:
        """A bound on the expected largest error over the domain."""
        return self._in_units(self.maximum_error_cells)

    def error_with_probability(self, failure: float) -> float:
        """An error that one entry exceeds with probability at most `failure` (the paper's ψ)."""
        if not 1e-300 <= check_number("failure probability", failure) < 1:  # a smaller one has no inverse
            raise ParameterError(f"failure probability must be in [1e-300, 1), got {failure}")
        return self.error_with_probability_cells(failure / self.releases) * self.releases * self._step

    def tail_probability(self, error: float) -> float:
        """A bound on P[one entry's error exceeds `error`]: the inverse of `error_with_probability`."""
        return failure_of(self.error_with_probability, check_number("error", error))

    def error(self, value: float, samples: int = _SAMPLES) -> ErrorPrediction:
        """The predicted error of a lookup whose true value is `value`; more samples, less luck."""
        check_prediction(value, samples, self._step, self.problem.signed)
        cells = min(round(abs(value) / self._step), LARGEST_COUNT)
        if self.problem.upper_cells is not None:
            cells = min(cells, self.problem.upper_cells)
        estimates = self.simulate(cells, samples)
        if self.releases == 2:
            other = self.simulate(0, samples)
            estimates = estimates - np.random.default_rng(1).permutation(other)
        sign = -1 if value < 0 else 1
        return ErrorPrediction.from_samples(value, sign * estimates * self._step - value)

    @property
    def _step(self) -> float:
        return float(self.problem.neighbours.step)

    def _in_units(self, cells: float | None) -> float | None:
        return None if cells is None else cells * self._step * self.releases

    def __str__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        return notebook.of_plan(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:  # of IPython: the fields are long
        printer.text(f"<Plan {self.mechanism}, ε = {self.epsilon:.6g}, δ = {self.delta:.3g}>")

    def plot(self, path: Path | None = None, values: Sequence[float] | None = None) -> Any:
        """The predicted error against the true value, as a figure of matplotlib that notebooks show.

        With a path it is also written there (PNG, SVG or PDF, by the extension).
        """
        return drawing.of_plan(self, path, values)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The least and the largest count, in cells: [0, upper], or [-upper, upper] when signed."""
        upper = math.inf if self.problem.upper_cells is None else float(self.problem.upper_cells)
        return -upper if self.problem.signed else 0.0, upper

    def clamp(self, estimates: Estimates) -> Estimates:
        """Cut estimates (in cells) to the range of counts."""
        return np.clip(estimates, *self.limits)


class DivisiblePlan(Plan):
    """A plan whose release can be built in parts, each with its own stream, for its share of the
    keys.
    """

    @abstractmethod
    def build_part(self, part: int, partition: Partition, ids: Words, counts: Counts, randomness: Randomness) -> Built:
        """One part; ids are distinct and ascending; counts are positive, and may be overwritten."""

    def build(self, ids: Words, counts: Counts, randomness: Randomness) -> Arrays:
        part = self.build_part(0, self.draw_partition(self.problem, randomness), ids, counts.copy(), randomness)
        return dict(self.completed((part.arrays,))[0])
