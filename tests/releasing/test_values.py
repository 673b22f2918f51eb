"""Values: which ones are refused, before anything is drawn, and exact rounding to the grid (promise 12)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import sparsedp
from sparsedp import InputError, _native
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness
from sparsedp.releasing.inputs import check_values
from sparsedp.structures.rounding import round_to_grid

WORD = 1 << 64
KEYS = ["a", "b", "c"]


@pytest.fixture
def _nothing_may_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(stream: Randomness, count: int) -> None:
        raise AssertionError(f"{count} words were drawn")

    monkeypatch.setattr(Randomness, "words", fail)


NAN, INFINITY = float("nan"), float("inf")

# A bad value, the parameters with which it is bad, and the message.
REFUSED: list[tuple[object, dict[str, Any], str]] = [
    (NAN, {}, "must be finite; drop or fix it"),
    (NAN, {"step": 0.5, "signed": True}, "must be finite"),
    (INFINITY, {}, "must be finite"),
    (-INFINITY, {"signed": True}, "must be finite"),
    (INFINITY, {"step": 0.5}, "must be finite"),
    (-1, {}, "must not be negative; pass signed=True"),
    (-1.0, {}, "must not be negative; pass signed=True"),
    (-0.25, {"step": 0.5}, "must not be negative; pass signed=True"),
    (1.5, {}, "must be a whole number; pass step="),
    (-1.5, {"signed": True}, "must be a whole number; pass step="),
    (5e-324, {}, "must be a whole number; pass step="),
    (1 << 63, {}, "must be below 2^63; use a larger unit"),
    (-(1 << 63), {"signed": True}, "must be below 2^63; use a larger unit"),
    (float(1 << 63), {}, "must be below 2^63; use a larger unit"),
    (10**30, {}, "must be below 2^63; use a larger unit"),
    (-(10**30), {"signed": True}, "must be below 2^63; use a larger unit"),
    (1e30, {}, "must be below 2^63; use a larger unit"),
    (1e30, {"step": 0.5}, "must be below 2^63; use a larger unit"),
    (float(1 << 62), {"step": 0.25}, "must be below 2^63 steps; use a larger step"),
    (-1e18, {"step": 0.001, "signed": True}, "must be below 2^63 steps; use a larger step"),
    ((1 << 53) + 1, {"step": 0.5}, "must be at most 2^53 when step= is given; pass it as a float"),
    (-(1 << 53) - 1, {"step": 0.5, "signed": True}, "must be at most 2^53 when step= is given"),
]


def numpy(values: list[Any]) -> np.ndarray:
    """An array of the values; NumPy would turn 2^63 into a float."""
    large = any(isinstance(value, int) and value >> 63 == 1 for value in values)
    return np.array(values, np.uint64 if large else None)


# Ways to pass values, given as a list.
COLUMNS: dict[str, Callable[[list[Any]], object]] = {
    "list": list,
    "tuple": tuple,
    "array": numpy,
    "object array": lambda values: np.array(values, object),
    "pandas": pd.Series,
    "pandas objects": lambda values: pd.Series(values, dtype=object),
}
TYPED_COLUMNS: dict[str, Callable[[list[Any]], object]] = {
    "Arrow": lambda values: pa.array(numpy(values)),
    "polars": lambda values: pl.Series(numpy(values)),
}


@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize(("bad", "parameters", "message"), REFUSED)
def test_a_bad_value_is_refused_with_its_position_before_anything_is_drawn(
    bad: object, parameters: dict[str, Any], message: str
) -> None:
    values = [0, 0, bad] if isinstance(bad, int) else [0.0, 0.0, bad]
    fits_a_type = not isinstance(bad, int) or abs(bad) < WORD
    for make in [*COLUMNS.values(), *(TYPED_COLUMNS.values() if fits_a_type else [])]:
        with pytest.raises(InputError, match="at position 2 ") as caught:
            sparsedp.release((KEYS, make(values)), epsilon=1, nonzero=3, **parameters)
        assert message in str(caught.value)
        assert str(caught.value).startswith("value at position 2 must ")
        assert str(bad) not in str(caught.value).replace("position 2", "").replace("2^63", "").replace("2^53", "")


@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize("bad", [True, np.True_, "1", b"1", None, 1j, [1], np.ma.masked, pd.NA, object()])
@pytest.mark.parametrize("others", [[1, 1], [1.0, 1.0]])
def test_what_is_no_number_is_refused_with_its_position(bad: object, others: list[float]) -> None:
    values = [*others, bad]
    for counts in (dict(zip(KEYS, values, strict=True)), (KEYS, values), (KEYS, tuple(values))):
        with pytest.raises(InputError, match=f"^value at position 2 must be a number, got {type(bad).__name__}$"):
            sparsedp.release(counts, epsilon=1)


@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize(
    "values",
    [
        np.array([True, False, True]),
        np.array(["1", "2", "3"]),
        np.array([1j, 2, 3]),
        np.array(["2024-01-01"] * 3, "datetime64[D]"),
        np.array([1, 2, 3], "timedelta64[s]"),
        np.ma.array([True, False, True]),
        [np.timedelta64(1, "s")] * 3,
        pa.array([1, 2, 3], pa.duration("s")),
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, 1], pa.int8())),
        pa.array([[1], [2], [3]]),
        pd.Series(pd.to_datetime(["2024-01-01"] * 3, utc=True)),
        pd.Series([True, False, True], dtype="category"),
        pd.Series([1, 2, 3], dtype=pd.ArrowDtype(pa.duration("s"))),
        pa.array([True, False, True]),
        pa.array(["1", "2", "3"]),
        pd.Series([True, False, True]),
        pd.Series([True, False, True], dtype="boolean"),
        pd.Series(["1", "2", "3"], dtype="string"),
        pl.Series(["1", "2", "3"]),
    ],
)
def test_columns_of_other_types_are_refused(values: object) -> None:
    with pytest.raises(InputError, match=r"must be (a )?number"):
        sparsedp.release((KEYS, values), epsilon=1)


WIDE = np.longdouble(2) ** 53
needs_wide_floats = pytest.mark.skipif(np.finfo(np.longdouble).nmant == 52, reason="a long double is a double here")


@needs_wide_floats
@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize("bad", [WIDE + 3, np.longdouble(1) / 3, np.longdouble("1e400")])
@pytest.mark.parametrize("step", [None, 0.5])
def test_a_wide_float_that_is_no_double_is_refused_with_its_position(bad: Any, step: float | None) -> None:
    # 2^53 + 2 and 2^53 + 3 would become 2^53 + 2 and 2^53 + 4: one count would become two.
    values = [WIDE + 2, np.longdouble(1), bad]
    for column in (
        np.array(values),
        values,
        np.array(values, object),
        pd.Series(np.array(values)),
        np.ma.array(values),
    ):
        with pytest.raises(InputError, match=r"^value at position 2 must be exactly a 64-bit float; convert it"):
            sparsedp.release((KEYS, column), epsilon=1, step=step)


@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize("entry", [-1, 5, NAN, 1.5, 1e300])
def test_a_masked_value_is_refused_with_its_position_whatever_is_under_the_mask(entry: float) -> None:
    values = np.ma.array([1, entry, 3], mask=[False, True, False])
    for column in (values, values.astype(object)):
        with pytest.raises(InputError, match=r"^value at position 1 is masked; fill or drop masked entries first$"):
            sparsedp.release((KEYS, column), epsilon=1)


@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize("bad", [Decimal("0.1"), Fraction(1, 3), Decimal("1e-999999999"), Decimal(2**53 + 1) / 2])
def test_a_fraction_that_is_no_double_is_refused_with_its_position(bad: object) -> None:
    for step in (None, 0.1):
        with pytest.raises(InputError, match=r"^value at position 2 must be exactly a 64-bit float"):
            sparsedp.release((KEYS, [Decimal(1), Fraction(1), bad]), epsilon=1, step=step)


@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Decimal("NaN"), "must be finite"),
        (Decimal("sNaN"), "must be finite"),
        (Decimal("-Infinity"), "must be finite"),
        (Decimal("1e999999999"), r"must be below 2\^63"),
        (Fraction(1 << 2000), r"must be below 2\^63"),
        (Fraction((1 << 2000) + 1, 2), r"must be below 2\^63"),
        (Decimal(-1), "must not be negative"),
        (Decimal("0.5"), "must be a whole number; pass step="),
    ],
)
def test_decimals_and_fractions_have_the_limits_of_other_numbers(bad: object, message: str) -> None:
    with pytest.raises(InputError, match=f"^value at position 1 {message}"):
        sparsedp.release((KEYS, [Decimal(1), bad, Fraction(3)]), epsilon=1)


def test_decimals_fractions_and_unmasked_arrays_are_taken_exactly() -> None:
    large = (1 << 63) - 1
    for values in (
        [Decimal(large), Fraction(large), Decimal("2.00")],
        pa.array([Decimal(large), Decimal(large), Decimal("2.00")], pa.decimal128(38, 2)),
        pl.Series([large, large, 2]).cast(pl.Decimal(38, 2)),
        pd.Series([large, large, 2], dtype=pd.ArrowDtype(pa.decimal128(38, 2))),
        np.ma.array([large, large, 2]),
        np.ma.array([large, large, 2], mask=[False] * 3, dtype=object),
    ):
        assert check_values(values, signed=False, step=None).tolist() == [large, large, 2]
    halves = [Decimal("0.5"), Fraction(-3, 2), np.float16(2.5), np.longdouble(7)]
    assert check_values(halves, signed=True, step=Fraction(1, 2)).tolist() == [0.5, -1.5, 2.5, 7.0]


@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 3]),
        pa.chunked_array([[1], [None, 3]]),
        pa.array([1.5, None, 3]),
        pl.Series([1, None, 3]),
        pd.Series([1, None, 3], dtype="Int64"),
        pd.Series([1.5, None, 3], dtype="Float64"),
        pd.Series([1, None, 3], dtype=pd.ArrowDtype(pa.int64())),
        pd.Series([1, None, 3], dtype="category"),
        pd.array([1, None, 3], dtype="Int64"),
    ],
)
def test_a_null_among_the_values_is_refused_with_its_position(values: object) -> None:
    with pytest.raises(InputError, match="value at position 1 is null; drop or fill missing rows first"):
        sparsedp.release((KEYS, values), epsilon=1, step=0.5)


@pytest.mark.usefixtures("_nothing_may_be_drawn")
@pytest.mark.parametrize(
    "counts",
    [
        pd.Series([1, None, 3], index=KEYS),
        pd.Series([1, None, 3], index=KEYS, dtype="Int64"),
        pd.DataFrame({"key": KEYS, "value": [1, None, 3]}),
        pd.DataFrame({"key": KEYS, "value": [1, None, 3]}).convert_dtypes(),
        pl.DataFrame({"key": KEYS, "value": [1, None, 3]}),
    ],
)
def test_a_gap_in_a_table_is_refused_with_its_position(counts: object) -> None:
    with pytest.raises(InputError, match="at position 1"):
        sparsedp.release(counts, epsilon=1)


LARGEST = (1 << 63) - 1

ACCEPTED: list[tuple[list[Any], list[int]]] = [
    ([], []),
    ([0, 1, LARGEST], [0, 1, LARGEST]),
    ([-LARGEST, LARGEST], [-LARGEST, LARGEST]),
    ([LARGEST - 1, (1 << 53) + 1], [LARGEST - 1, (1 << 53) + 1]),
    ([0.0, -0.0, 3.0, 2.0**62], [0, 0, 3, 1 << 62]),
    ([1, 2.0, -3, 1 << 53], [1, 2, -3, 1 << 53]),
    ([np.int8(-5), np.uint64(7), np.float32(2)], [-5, 7, 2]),
    ([np.uint64(LARGEST), 1], [LARGEST, 1]),
]


@pytest.mark.parametrize(("values", "expected"), ACCEPTED)
def test_whole_numbers_below_63_bits_are_taken_exactly(values: list[Any], expected: list[int]) -> None:
    for container in (values, tuple(values), np.array(values, object), pd.Series(values, dtype=object)):
        checked = check_values(container, signed=True, step=None)
        assert checked.dtype == np.int64
        assert checked.tolist() == expected


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">i8", ">f4"])
def test_arrays_of_every_number_type_are_taken_exactly(dtype: str) -> None:
    assert check_values(np.array([0, 1, 100], dtype), signed=False, step=None).tolist() == [0, 1, 100]
    checked = check_values(np.array([0, 1, 100], dtype), signed=False, step=Fraction(1, 3))
    assert checked.dtype == np.float64
    assert checked.tolist() == [0.0, 1.0, 100.0]


def test_an_integer_that_floats_would_round_is_refused_beside_floats() -> None:
    # As a float it would move, and differently from its neighbour: one count would become two.
    with pytest.raises(InputError, match=r"^value at position 1 must be at most 2\^53 beside floats; use one type$"):
        check_values([1.0, (1 << 53) + 1], signed=False, step=None)
    assert check_values([1, (1 << 53) + 1], signed=False, step=None).tolist() == [1, (1 << 53) + 1]


STEPS = st.builds(Fraction, st.integers(1, (1 << 53) - 1), st.integers(1, (1 << 53) - 1))
NICE_STEPS = st.sampled_from([Fraction(1), Fraction(1, 10), Fraction(1, 3), Fraction(5), Fraction(1, 1 << 40)])
REALS = st.one_of(
    st.floats(-1e15, 1e15),
    st.floats(-1e-290, 1e-290, allow_subnormal=True),
    st.floats(-4, 4),
    st.floats(-(2.0**63), 2.0**63, exclude_min=True, exclude_max=True),
    st.integers(-(1 << 53), 1 << 53).map(float),
)


def rounded(values: object, step: Fraction, words: list[int]) -> list[int]:
    """The cells of the values for these random words, straight from the kernel."""
    reals, uniform = np.asarray(values, np.float64), np.array(words, np.uint64)
    cells = _native.round_to_grid(reals, step.numerator, step.denominator, uniform)
    assert not isinstance(cells, int)  # the position of a value that does not fit
    return [int(cell) for cell in cells]


@settings(deadline=None, max_examples=500)
@given(value=REALS, step=st.one_of(STEPS, NICE_STEPS), word=st.integers(0, WORD - 1))
@example(value=5e-324, step=Fraction(1, (1 << 53) - 1), word=0)
@example(value=2.0**-64, step=Fraction(1), word=0)  # the smallest probability of going up
@example(value=1 - 2.0**-53, step=Fraction(1), word=0)
@example(value=-0.5, step=Fraction(1), word=0)
@example(value=float(1 << 62), step=Fraction(1), word=0)
@example(value=2.0**63 - 1024, step=Fraction((1 << 53) - 1, (1 << 53) - 2), word=0)
@example(value=0.0, step=Fraction(1), word=0)
def test_rounding_to_the_grid_is_exact(value: float, step: Fraction, word: int) -> None:
    # Up with probability ⌊frac · 2^64⌋ / 2^64, where frac is the fraction of |value| / step in exact arithmetic.
    cells = abs(Fraction(value)) / step
    whole = math.floor(cells)
    assume(whole < LARGEST)
    threshold = math.floor((cells - whole) * WORD)
    words = [w for w in (0, threshold - 1, threshold, threshold + 1, word, WORD - 1) if 0 <= w < WORD]
    expected = [(whole + (w < threshold)) * (-1 if value < 0 else 1) for w in words]
    assert rounded([value] * len(words), step, words) == expected


@settings(deadline=None)
@given(values=st.lists(st.floats(-1e6, 1e6), max_size=20), step=NICE_STEPS, seed=st.integers(0, 9))
def test_each_value_has_its_own_word(values: list[float], step: Fraction, seed: int) -> None:
    words = ReproducibleRandomness(seed).words(len(values)).tolist()
    result = round_to_grid(np.array(values), step, ReproducibleRandomness(seed)).tolist()
    for value, word, cell in zip(values, words, result, strict=True):
        cells = abs(Fraction(value)) / step
        whole, fraction = divmod(cells, 1)
        assert abs(cell) == whole + (word < math.floor(fraction * WORD))
        assert cell * value >= 0


@settings(deadline=None)
@given(step=st.one_of(STEPS, NICE_STEPS))
@example(step=Fraction(1))
@example(step=Fraction(1, 1 << 40))
def test_values_are_accepted_exactly_as_long_as_their_cells_fit_in_63_bits(step: Fraction) -> None:
    exact = LARGEST * step
    assume(exact < 1 << 62)
    largest = float(exact)
    if largest > exact:
        largest = math.nextafter(largest, 0)
    values = check_values([largest, -largest], signed=True, step=step)
    whole, fraction = divmod(Fraction(largest) / step, 1)
    up = whole + (math.floor(fraction * WORD) > 0)
    assert rounded(values, step, [0, 0]) == [up, -up]
    assert up <= LARGEST
    with pytest.raises(InputError, match=r"at position 0 must be below 2\^63 steps"):
        check_values([math.nextafter(largest, math.inf)], signed=False, step=step)


def test_rounding_refuses_what_does_not_fit_by_itself() -> None:
    with pytest.raises(InputError, match=r"at position 1 is 2\^63 steps or more; use a larger step than 0.25"):
        round_to_grid(np.array([1.0, 2.0**62]), Fraction(1, 4), ReproducibleRandomness(0))


class Column:
    """A column of a library that is not known here: to make an array of it would round."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def to_numpy(self) -> np.ndarray:
        return np.array(self.values)


@pytest.mark.parametrize("values", [[2**62 + 1, 1.0, 2], [True, 2.5, 3]])
def test_values_of_an_unknown_column_are_taken_one_by_one(values: list[Any]) -> None:
    # Catches an array that another library makes, of one type: a neighbour's count could move by a thousand.
    with pytest.raises(InputError, match="value at position 0 must be"):
        sparsedp.release((["a", "b", "c"], Column(values)), epsilon=1.0, step=0.5)
