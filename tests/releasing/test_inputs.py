"""Every container of counts is read the same way; keys that repeat are summed, without overflow
(promises 11, 12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sparsedp
from sparsedp import InputError, KeyTypeError, ParameterError
from sparsedp.keys.hashing import HASHED_DOMAIN, KeySpace
from sparsedp.privacy.neighbours import Neighbours
from sparsedp.privacy.randomness import Randomness, ReproducibleRandomness, Words, reproducible_for_tests
from sparsedp.releasing.inputs import Pairs, key_ids, read_pairs
from sparsedp.structures.table import LARGEST_COUNT
from summing import cut, to_cells

DOMAIN = 10
INTEGERS = KeySpace(DOMAIN, None, "integer")
HASHED = KeySpace(HASHED_DOMAIN, (1, 2))
COUNTS = {3: 5, 1: 2, 9: 7}
KEYS, VALUES = list(COUNTS), list(COUNTS.values())


def read(counts: object, space: KeySpace, step: Fraction | None = None) -> dict[int, int]:
    """The ids and cells that a mechanism would see."""
    pairs = read_pairs(counts, signed=True, step=step)
    neighbours = Neighbours() if step is None else Neighbours(step=step, real=True)
    ids, cells = to_cells(key_ids(pairs, space)[0], pairs, neighbours, ReproducibleRandomness(0))
    ids, cells = cut(ids, cells, None)
    return dict(zip(ids.tolist(), cells.tolist(), strict=True))


def dense_row() -> np.ndarray:
    row = np.zeros((1, DOMAIN), np.int64)
    row[0, KEYS] = VALUES
    return row


CONTAINERS: dict[str, Callable[[], object]] = {
    "dict": lambda: COUNTS,
    "mapping": lambda: MappingProxyType(COUNTS),
    "counter": lambda: Counter([key for key, count in COUNTS.items() for _ in range(count)]),
    "dict of floats": lambda: {key: float(value) for key, value in COUNTS.items()},
    "dict of NumPy scalars": lambda: {np.int32(key): np.uint8(value) for key, value in COUNTS.items()},
    "lists": lambda: (KEYS, VALUES),
    "iterators": lambda: (iter(KEYS), iter(VALUES)),
    "dict views": lambda: (COUNTS.keys(), COUNTS.values()),
    "NumPy arrays": lambda: (np.array(KEYS), np.array(VALUES)),
    "small NumPy types": lambda: (np.array(KEYS, np.uint8), np.array(VALUES, np.float16)),
    "big-endian arrays": lambda: (np.array(KEYS, ">i4"), np.array(VALUES, ">u8")),
    "strided arrays": lambda: (np.repeat(KEYS, 2)[::2], np.repeat(VALUES, 2)[::2]),
    "object arrays": lambda: (np.array(KEYS, object), np.array(VALUES, object)),
    "Arrow arrays": lambda: (pa.array(KEYS), pa.array(VALUES)),
    "Arrow chunks": lambda: (pa.chunked_array([[3], [1, 9]]), pa.chunked_array([[5, 2], [7]])),
    "Arrow floats": lambda: (KEYS, pa.array([5.0, 2.0, 7.0])),
    "Arrow table": lambda: pa.table({"key": KEYS, "value": VALUES}),
    "Arrow batches": lambda: pa.table({"key": KEYS, "value": VALUES}).to_reader(max_chunksize=2),
    "pandas series": lambda: pd.Series(VALUES, index=KEYS),
    "pandas objects": lambda: pd.Series(VALUES, index=pd.Index(KEYS, dtype=object), dtype=object),
    "pandas nullable": lambda: pd.Series(VALUES, index=KEYS, dtype="Int64"),
    "pandas on Arrow": lambda: pd.Series(VALUES, index=KEYS, dtype=pd.ArrowDtype(pa.int16())),
    "pandas sparse": lambda: pd.Series(VALUES, index=KEYS, dtype=pd.SparseDtype("int64", 0)),
    "pandas nullable pair": lambda: (pd.array(KEYS, dtype="Int64"), pd.array(VALUES, dtype="UInt8")),
    "pandas nullable frame": lambda: pd.DataFrame({"key": KEYS, "value": VALUES}, index=[4, 5, 6]).convert_dtypes(),
    "pandas pair": lambda: (pd.Series(KEYS), pd.Series(VALUES)),
    "pandas frame": lambda: pd.DataFrame({"key": KEYS, "value": VALUES}),
    "pandas frame with an index": lambda: pd.DataFrame({"key": [0, *KEYS], "value": [0, *VALUES]})[1:],
    "polars frame": lambda: pl.DataFrame({"key": KEYS, "value": VALUES}),
    "polars pair": lambda: (pl.Series(KEYS), pl.Series(VALUES)),
    "sparse row": lambda: sp.csr_matrix(dense_row()),
    "sparse array": lambda: sp.csr_array(dense_row()),
    "sparse columns": lambda: sp.csc_array(dense_row()),
    "sparse coordinates": lambda: sp.coo_matrix(dense_row()),
    "sparse vector": lambda: sp.coo_array(dense_row()[0]),
    "sparse vector in rows": lambda: sp.csr_array(dense_row()[0]),
    "sparse row of floats": lambda: sp.csr_array(dense_row().astype(float)),
    "sparse row with a repetition": lambda: sp.coo_array(
        ([4, 2, 1, 7], ([0, 0, 0, 0], [3, 1, 3, 9])), shape=(1, DOMAIN)
    ),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_ids_and_cells(container: str) -> None:
    assert read(CONTAINERS[container](), INTEGERS) == COUNTS
    assert read(CONTAINERS[container](), HASHED) == {HASHED.id(key): count for key, count in COUNTS.items()}
    doubled = {key: 2 * count for key, count in COUNTS.items()}
    assert read(CONTAINERS[container](), INTEGERS, step=Fraction(1, 2)) == doubled


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_release(container: str) -> None:
    def build(counts: object) -> Any:
        with reproducible_for_tests(3):
            release = sparsedp.release(counts, epsilon=1, domain=DOMAIN, mechanism="laplace")
        return release.lookup(range(DOMAIN)).tolist()

    assert build(CONTAINERS[container]()) == build(COUNTS)


@pytest.mark.parametrize(
    "counts",
    [
        {"é": 3, "b": 1},
        (np.array(["b", "é"]), [1, 3]),
        pd.Series([3, 1], index=["é", "b"]),
        pd.DataFrame({"key": ["é", "b"], "value": [3, 1]}),
        pl.DataFrame({"key": ["é", "b"], "value": [3, 1]}),
        pa.table({"key": ["é", "b", "é"], "value": [1, 1, 2]}),
        pa.table({"key": pa.array(["é", "b"]).dictionary_encode(), "value": [3, 1]}),
    ],
)
def test_text_keys_are_read_from_every_container(counts: object) -> None:
    assert read(counts, HASHED) == {HASHED.id("é"): 3, HASHED.id("b"): 1}


def test_the_length_of_a_sparse_row_is_not_published() -> None:
    # Without a shape, SciPy takes the length from the largest index, which would tell two data sets
    # apart.
    row = sp.csr_array(([5, 7], ([0, 0], [3, 9])))
    assert row.shape == (1, 10)
    for options in ({}, {"delta": 1e-6, "keep_keys": True}, {"mechanism": "laplace"}):
        with pytest.raises(ParameterError, match=r"domain must be given with a sparse row: .*; pass domain="):
            sparsedp.release(row, epsilon=1, **options)
    for domain in (DOMAIN, DOMAIN + 5):
        assert sparsedp.release(row, epsilon=1, domain=domain).key_space == KeySpace(domain, None, "integer")
    assert sparsedp.release(sp.csr_array((1, 1000)), epsilon=1, domain=DOMAIN).key_space == INTEGERS
    with pytest.raises(InputError, match=r"^key at position 1 must be an integer in \[0, 9\)$"):
        sparsedp.release(row, epsilon=1, domain=9)


PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(1 - (1 << 63), (1 << 63) - 1)), max_size=30)


def saturated(value: int, limit: int = LARGEST_COUNT) -> int:
    return max(-limit, min(limit, value))


@settings(deadline=None)
@given(pairs=PAIRS, upper=st.one_of(st.none(), st.integers(0, 1 << 61)))
@example(pairs=[(1, 1 << 61)] * 8, upper=None)  # the sum is 2^64, which would wrap to zero
@example(pairs=[(1, 1 << 61)] * 4, upper=None)  # and 2^63 to -2^63
@example(pairs=[(1, (1 << 63) - 1)] * 3, upper=None)
@example(pairs=[(1, -(1 << 61))] * 9 + [(2, 1 << 61)] * 9, upper=5)
@example(pairs=[(1, 7), (1, -7)], upper=None)
def test_values_of_one_key_are_summed_and_saturate(pairs: list[tuple[int, int]], upper: int | None) -> None:
    ids = np.array([key for key, _ in pairs], np.uint64)
    cells = np.array([value for _, value in pairs], np.int64)
    sums: Counter[int] = Counter()
    for key, value in pairs:
        sums[key] += value
    limit = LARGEST_COUNT if upper is None else upper
    expected = {key: saturated(saturated(total), limit) for key, total in sorted(sums.items())}
    found_ids, found_cells = cut(*to_cells(ids, Pairs([], cells), Neighbours(), ReproducibleRandomness(0)), upper)
    found = dict(zip(found_ids.tolist(), found_cells.tolist(), strict=True))
    assert list(found.items()) == [(key, total) for key, total in expected.items() if total]


def test_sums_are_rounded_and_not_their_terms() -> None:
    # Otherwise the noise of rounding would reveal how a value was split up: inputs with the same
    # vector are the same.
    key = np.zeros(1000, np.uint64)
    random = ReproducibleRandomness(1)
    coarse = Neighbours(step=Fraction(40), real=True)
    ones = Pairs([], np.ones(1000, np.int64))
    assert {int(to_cells(key, ones, coarse, random)[1][0]) for _ in range(50)} == {25}
    fine = Neighbours(step=Fraction(1), real=True)
    for values in ([0.5] * 1000, [-0.75, 1.75] * 500, [-0.5] * 1000):
        sums = {int(to_cells(key, Pairs([], np.array(values)), fine, random)[1][0]) for _ in range(50)}
        assert sums == {int(sum(values))}
    quarters = Pairs([], np.array([0.5, -3.25, 0.5]))  # -2.25
    found = [int(to_cells(key[:3], quarters, fine, random)[1][0]) for _ in range(4000)]
    assert set(found) == {-3, -2}
    assert sum(found) / 4000 == pytest.approx(-2.25, abs=0.04)


@pytest.mark.parametrize("bits", [4, 10, 30])  # a few keys, runs that cross pieces, hardly any duplicates
@pytest.mark.parametrize("scale", [1, 0.25])
def test_work_in_pieces_changes_nothing(monkeypatch: pytest.MonkeyPatch, bits: int, scale: float) -> None:
    random = np.random.default_rng(bits)
    ids = random.integers(0, 1 << bits, 2000).astype(np.uint64)
    whole = random.integers(-99, 99, 2000)
    values = Pairs([], whole if scale == 1 else (whole * scale).astype(np.float64))
    coarse = Neighbours(step=Fraction(7), real=True)
    found = []
    for piece in (1 << 18, 64):
        monkeypatch.setattr("sparsedp.privacy.randomness._PIECE_WORDS", piece)
        stream = ReproducibleRandomness(3)
        kept, cells = to_cells(ids, values, coarse, stream)
        found.append((kept.tolist(), cells.tolist(), stream.words(1).tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("mechanism", ["tight-alp", "retrieval"])
def test_what_becomes_of_a_huge_count_does_not_depend_on_other_keys(mechanism: str) -> None:
    # Equal vectors, once with a duplicate elsewhere, on a coarse grid: catches a cut that only
    # duplicates trigger.
    answers = []
    for keys, values in (([1, 2], [1 << 62, 2]), ([1, 2, 2], [1 << 62, 1, 1])):
        delta = 1e-6 if mechanism == "retrieval" else 0.0
        counts = np.array(keys), np.array(values)
        answers.append(sparsedp.release(counts, epsilon=0.005, delta=delta, nonzero=10, mechanism=mechanism)[1])
    assert abs(answers[0] - answers[1]) < 1e6
    assert answers[0] == pytest.approx(1 << 61, rel=1e-6)


def test_integers_are_rounded_to_large_steps_without_bias() -> None:
    step = 20_000_000_000  # above 2^32: sensitivity 10^12 at epsilon 1
    coarse = Neighbours(step=Fraction(step), real=True)
    for share in (0.125, 0.25, 0.5, 0.75):
        values = Pairs([], np.full(4000, int(share * step)))
        _, cells = to_cells(np.arange(4000, dtype=np.uint64), values, coarse, ReproducibleRandomness(2))
        assert cells.mean() == pytest.approx(share, abs=0.04)


def test_a_sum_beyond_64_bits_is_released_as_a_large_count() -> None:
    counts = (["a"] * 8, [1 << 61] * 8)
    release = sparsedp.release(counts, epsilon=1, delta=1e-9, mechanism="stability")
    assert release["a"] == pytest.approx(LARGEST_COUNT)
    signed = sparsedp.release(([0] * 8, [-(1 << 61)] * 8), epsilon=1, mechanism="laplace", domain=2, signed=True)
    assert signed[0] == pytest.approx(-LARGEST_COUNT)


@settings(deadline=None)
@given(counts=st.dictionaries(st.text(max_size=5), st.integers(0, 1000)), parts=st.integers(1, 4))
def test_splitting_the_value_of_a_key_over_rows_changes_nothing(counts: dict[str, int], parts: int) -> None:
    keys = list(counts) * parts
    values = [v * (part + 1) // parts - v * part // parts for part in range(parts) for v in counts.values()]
    assert read((keys, values), HASHED) == read(counts, HASHED)


def test_keys_of_value_zero_are_as_good_as_absent() -> None:
    assert read({"a": 0, "b": 1, "c": 0.0}, HASHED) == {HASHED.id("b"): 1}


EMPTY: dict[str, object] = {
    "dict": {},
    "lists": ([], []),
    "arrays": (np.array([]), np.array([])),
    "Arrow arrays": (pa.array([]), pa.array([])),
    "Arrow table": pa.table({"key": pa.array([], pa.int64()), "value": pa.array([], pa.int64())}),
    "pandas series": pd.Series([], dtype=float),
    "pandas frame": pd.DataFrame({"key": [], "value": []}),
    "polars frame": pl.DataFrame({"key": [], "value": []}),
    "sparse row": sp.csr_array((1, DOMAIN)),
}


@pytest.mark.parametrize("container", EMPTY)
def test_no_counts_are_fine_in_every_container(container: str) -> None:
    assert read(EMPTY[container], HASHED) == {}
    assert read(EMPTY[container], INTEGERS, step=Fraction(1, 2)) == {}


def test_a_column_of_another_type_is_refused_also_when_it_is_empty() -> None:
    for values in ([], ["a"]):
        with pytest.raises(KeyTypeError, match="integer"):
            read((pa.array(values, pa.string()), [1] * len(values)), INTEGERS)


MALFORMED: list[tuple[object, str]] = [
    ([1, 2], "counts must be a mapping"),
    ("text", "counts must be a mapping"),
    (None, "counts must be a mapping"),
    (7, "counts must be a mapping"),
    (np.array([1, 2]), "counts must be a mapping"),
    ((["a"], [1], [2]), "got a tuple of 3"),
    (((),), "got a tuple of 1"),
    ((["a", "b"], [1]), "as many keys as values, got 2 keys and 1 values"),
    ((["a"], np.array([[1]])), "one-dimensional, got 2 dimensions"),
    ((["a"], "1"), "values must be a sequence of numbers, got str"),
    ((["a"], 1), "values must be a sequence of numbers, got int"),
    (pa.table([[1], [2], [3]], ["a", "a", "c"]), "columns of keys must have different names"),
    (pl.DataFrame({"a": [1]}), "columns of keys and, as the last one, of values, got a$"),
    (pd.DataFrame({"a": [1], 7: [2], "b": [3]}), "columns of keys must have names, got 7"),
    (pd.DataFrame(), "columns of keys and, as the last one, of values, got none"),
    (pl.Series([1, 2]), "a table of keys and values, got Series"),
    (pa.chunked_array([[1, 2]]), "a table of keys and values, got ChunkedArray"),
]


def test_a_sparse_matrix_of_several_rows_is_refused() -> None:
    with pytest.raises(InputError, match="must have one row, got 2"):
        sparsedp.release(sp.csr_array(np.ones((2, 3))), epsilon=1, domain=3)


@pytest.mark.parametrize(("counts", "message"), MALFORMED)
def test_what_holds_no_counts_is_refused(counts: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sparsedp.release(counts, epsilon=1)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many words were drawn, call by call."""
    calls: list[int] = []
    words = Randomness.words

    def counted(stream: Randomness, count: int) -> Words:
        calls.append(count)
        return words(stream, count)

    monkeypatch.setattr(Randomness, "words", counted)
    return calls


@pytest.mark.parametrize("counts", [{"a": 1, None: 1}, {"a": 1, 1: 1}, (["a"], [1, 2]), {1.5: 1}, {"\ud800": 1}])
@pytest.mark.parametrize("options", [{}, {"step": 0.5}, {"signed": True}, {"nonzero": 5}])
def test_a_bad_key_is_found_when_only_the_public_hash_seed_is_drawn(
    drawn: list[int], counts: object, options: dict[str, Any]
) -> None:
    with pytest.raises(InputError):
        sparsedp.release(counts, epsilon=1, **options)
    assert drawn == [2]


@pytest.mark.parametrize("key", [-1, 10, "a", 1.0, 1 << 64])
def test_a_key_outside_the_domain_is_found_before_anything_is_drawn(drawn: list[int], key: object) -> None:
    with pytest.raises(InputError, match=r"^key at position 1 must be an integer"):
        sparsedp.release({3: 1, key: 1}, epsilon=1, domain=10, step=0.5)
    assert drawn == []
    with pytest.raises(InputError):
        sparsedp.release({3: 1}, epsilon=1, domain=10)[key]  # type: ignore[index]  # that is the point
