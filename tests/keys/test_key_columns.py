"""The same keys give the same ids in lists, NumPy, Arrow, pandas and polars, or are refused
(promise 13).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparsedp import InputError, KeyTypeError
from sparsedp.keys.hashing import HASHED_DOMAIN, KeySpace

HASHED = KeySpace(HASHED_DOMAIN, (0x0123456789ABCDEF, 0xFEDCBA9876543210))
TEXTS = ["example.org", "", "é", "a\0b", "naïve café", "x" * 7, "y" * 8, "z" * 100, "日本語"]
ARROW_STRING = pd.ArrowDtype(pa.string())
LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
BINARIES = [b"\xff\xfe", b"", b"a\0b", bytes(range(256)), b"12345678"]


def one_by_one(keys: Any) -> list[int]:
    """The ids of the keys, computed one by one."""
    return [HASHED.id(key) for key in keys]


def arrow(keys: list[Any]) -> Any:
    """An Arrow array; Arrow itself would not infer more than 63 bits."""
    return pa.array(keys, pa.uint64() if (1 << 64) - 1 in keys else None)


COLLECTIONS: dict[str, Callable[[list[Any]], object]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "dict keys": lambda keys: dict.fromkeys(keys).keys(),
    "dict": dict.fromkeys,
    "ordered dict": OrderedDict.fromkeys,
    "counter": Counter,
    "object array": lambda keys: np.array(keys, object),
    "pandas object series": lambda keys: pd.Series(keys, dtype=object),
    "pandas series": pd.Series,
    "pandas series with an index": lambda keys: pd.Series(keys, index=range(7, 7 + len(keys))),
    "pandas index": pd.Index,
    "pandas object index": lambda keys: pd.Index(keys, dtype=object),
    "pandas categories": lambda keys: pd.Series(keys, dtype="category"),
    "polars series": lambda keys: pl.Series(keys),
    "arrow array": arrow,
    "arrow chunks": lambda keys: pa.chunked_array([keys[:2], [], keys[2:]], type=arrow(keys).type),
    "arrow dictionary": lambda keys: arrow(keys).dictionary_encode(),
    "arrow table column": lambda keys: pa.table({"key": arrow(keys)}).column("key"),
}


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("keys", [TEXTS, BINARIES, [3, -1, 0, 1 << 62], [0, 1, 1 << 63, (1 << 64) - 1]])
def test_every_collection_gives_the_ids_of_its_keys(collection: str, keys: list[Any]) -> None:
    assert HASHED.ids(COLLECTIONS[collection](keys)).tolist() == one_by_one(keys)


@pytest.mark.parametrize("order", ["<", ">"])
@given(
    keys=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=30
    )
)
def test_numpy_strings_give_the_ids_of_their_keys(order: str, keys: list[str]) -> None:
    array = np.array(keys, f"{order}U{max(map(len, keys)) or 1}")
    assert HASHED.ids(array).tolist() == one_by_one(keys)
    assert HASHED.ids(array[::2]).tolist() == one_by_one(keys[::2])


@given(keys=st.lists(st.binary(max_size=20), min_size=1, max_size=30))
def test_numpy_bytes_give_the_ids_of_their_keys(keys: list[bytes]) -> None:
    array = np.array(keys, f"S{max(map(len, keys)) or 1}")
    assert HASHED.ids(array).tolist() == one_by_one(array.tolist())  # tolist() drops trailing zeros


def test_a_numpy_string_that_is_no_unicode_is_named() -> None:
    array = np.array(["good", "bad"])
    array.view(np.uint32)[4] = 0xD800
    with pytest.raises(InputError, match=r"at position 1 must be valid Unicode"):
        HASHED.ids(array)


@given(keys=st.lists(st.text(max_size=30), max_size=40), start=st.integers(0, 40))
def test_views_of_strings_give_the_ids_of_their_keys_in_every_slice(keys: list[str], start: int) -> None:
    column = pa.array([*keys, "a longer key than fits in a view"], pa.string_view())[start:]
    assert HASHED.ids(column).tolist() == one_by_one(column.to_pylist())


TEXT_COLUMNS: dict[str, Callable[[list[str]], object]] = {
    "string": lambda keys: pa.array(keys, pa.string()),
    "large_string": lambda keys: pa.array(keys, pa.large_string()),
    "string_view": lambda keys: pa.array(keys, pa.string_view()),
    "dictionary of large_string": lambda keys: pa.DictionaryArray.from_arrays(
        pa.array(range(len(keys)), pa.int8()), pa.array(keys, pa.large_string())
    ),
    "dictionary of string_view": lambda keys: pa.DictionaryArray.from_arrays(
        pa.array(range(len(keys)), pa.uint16()), pa.array(keys, pa.string_view())
    ),
    "pandas with Arrow": lambda keys: pd.Series(keys, dtype=ARROW_STRING),
    "pandas with Arrow in chunks": lambda keys: pd.concat([pd.Series([key], dtype=ARROW_STRING) for key in keys]),
    "pandas string": lambda keys: pd.Series(keys, dtype="string"),
    "pandas string index": lambda keys: pd.Index(keys, dtype="string"),
    "pandas array of categories": pd.Categorical,
    "pandas index of categories": pd.CategoricalIndex,
    "polars categories": lambda keys: pl.Series(keys, dtype=pl.Categorical),
    "polars enum": lambda keys: pl.Series(keys, dtype=pl.Enum(keys)),
}


@pytest.mark.parametrize("column", TEXT_COLUMNS)
def test_every_column_of_text_gives_the_ids_of_its_strings(column: str) -> None:
    assert HASHED.ids(TEXT_COLUMNS[column](TEXTS)).tolist() == one_by_one(TEXTS)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_every_column_of_bytes_gives_the_ids_of_its_bytes(kind: Any) -> None:
    assert HASHED.ids(pa.array(BINARIES, kind)).tolist() == one_by_one(BINARIES)


def test_fixed_width_numpy_strings_give_the_ids_of_their_strings() -> None:
    assert HASHED.ids(np.array(TEXTS)).tolist() == one_by_one(TEXTS)
    assert HASHED.ids(np.array(BINARIES)).tolist() == one_by_one(BINARIES)
    assert HASHED.ids(np.array(TEXTS)[::-2]).tolist() == one_by_one(TEXTS[::-2])


WIDTHS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("width", WIDTHS)
def test_integers_of_every_width_give_the_ids_of_their_values(width: str) -> None:
    limits = np.iinfo(width)
    keys = [int(limits.min), 0, 1, 77, int(limits.max)]
    expected = one_by_one(keys)
    array = np.array(keys, width)
    padded = np.array([5, *keys, 6], width)
    columns: list[object] = [
        array,
        array.astype(array.dtype.newbyteorder(">")),
        np.repeat(array, 3)[::3],
        list(array),  # NumPy scalars
        np.array(list(array), object),
        pd.Series(array),
        pd.Index(array),
        pd.Series(keys, dtype=width.replace("i", "I").replace("u", "U")),  # the nullable type
        pd.Index(keys, dtype=width.replace("i", "I").replace("u", "U")),
        pd.Series(keys, dtype=pd.ArrowDtype(pa.from_numpy_dtype(width))),
        pd.Series(array, dtype=pd.SparseDtype(array.dtype)),
        pl.Series(array),
        pa.array(keys, width),
        pa.array(padded).slice(1, 5),
        pa.chunked_array([pa.array(keys[:2], width), pa.array(keys[2:], width)]),
        pa.array(keys, width).dictionary_encode(),
    ]
    for column in columns:
        assert HASHED.ids(column).tolist() == expected


def test_a_range_is_its_integers() -> None:
    assert HASHED.ids(range(-3, 10, 4)).tolist() == one_by_one([-3, 1, 5, 9])
    assert KeySpace(10, None).ids(range(10)).tolist() == list(range(10))


ARROW_TEXT = st.sampled_from([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string())])


@settings(deadline=None)
@given(
    keys=st.lists(st.text(max_size=12), max_size=20),
    cuts=st.lists(st.integers(0, 20), max_size=4),
    window=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    kind=ARROW_TEXT,
)
@example(keys=["", "", ""], cuts=[1], window=(1, 1), kind=pa.string())
@example(keys=["a", "bb", "ccc"], cuts=[], window=(2, 0), kind=pa.large_string())
def test_slices_and_chunks_of_arrow_columns_give_the_ids_of_what_they_show(
    keys: list[str], cuts: list[int], window: tuple[int, int], kind: Any
) -> None:
    whole = pa.array(keys, kind)
    edges = [0, *sorted(min(cut, len(keys)) for cut in cuts), len(keys)]
    pieces = [whole.slice(start, end - start) for start, end in pairwise(edges)]
    column = pa.chunked_array(pieces, type=kind)
    assert HASHED.ids(column).tolist() == one_by_one(keys)
    start, length = window
    shown = keys[start : start + length]
    assert HASHED.ids(column.slice(start, length)).tolist() == one_by_one(shown)
    assert HASHED.ids(whole.slice(start, length)).tolist() == one_by_one(shown)


@settings(deadline=None)
@given(keys=st.lists(st.binary(max_size=12), max_size=20), start=st.integers(0, 20))
def test_slices_of_binary_columns_give_the_ids_of_what_they_show(keys: list[bytes], start: int) -> None:
    for kind in (pa.binary(), pa.large_binary()):
        assert HASHED.ids(pa.array(keys, kind).slice(start)).tolist() == one_by_one(keys[start:])


NOTHING: list[object] = [
    [],
    (),
    {},
    range(0),
    np.array([]),
    np.array([], np.int64),
    np.array([], object),
    pa.array([]),
    pa.array([], pa.string()),
    pa.array([], pa.float64()),
    pa.chunked_array([], pa.int64()),
    pa.array(["a"]).slice(1),
    pa.array([], pa.dictionary(pa.int8(), pa.string())),
    pd.Series([], dtype=object),
    pd.Series([], dtype=float),
    pd.Index([]),
    pl.Series([]),
    pl.Series([], dtype=pl.String),
]


@pytest.mark.parametrize("nothing", NOTHING)
@pytest.mark.parametrize("space", [HASHED, KeySpace(10, None)])
def test_no_keys_give_no_ids_of_whatever_type_they_are_not(space: KeySpace, nothing: object) -> None:
    ids = space.ids(nothing)
    assert ids.shape == (0,)
    assert ids.dtype == np.uint64


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.large_string(), pa.binary_view(), pa.int64()], ids=str
)
def test_a_null_of_a_dictionary_that_no_row_refers_to_matters_to_nobody(kind: pa.DataType) -> None:
    values = [1, 2] if kind == pa.int64() else [b"a", b"longer than a view's"] if "binary" in str(kind) else ["a", "b"]
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([*values, None], kind))
    assert np.array_equal(HASHED.ids(column), HASHED.ids(values[::-1]))


def test_buffers_that_do_not_belong_together_are_refused_as_input() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 1], np.int32).tobytes())
    falling = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    longer = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(offsets.to_pybytes() + b"x"), pa.py_buffer(b"ab")]
    )
    assert np.array_equal(HASHED.ids(longer), HASHED.ids(["ab"]))
    with pytest.raises(InputError, match="this Arrow column is damaged"):
        HASHED.ids(falling)
    with pytest.raises(InputError, match="key at position 1 must be valid Unicode"):
        HASHED.ids(np.array([0x61, 0x110000], np.uint32).view("U1"))


NULLS: list[object] = [
    pa.array(["a", "b", None]),
    pa.array(["a", "b", None], pa.large_string()),
    pa.array(["a", "b", None], pa.string_view()),
    pa.array([b"a", b"b", None]),
    pa.array([1, 2, None]),
    pa.array(["a", "b", None]).dictionary_encode(),
    pa.chunked_array([["a", "b"], [None]]),
    pa.array(["x", "a", "b", None]).slice(1),
    pa.DictionaryArray.from_arrays(pa.array([0, 0, 1]), pa.array(["a", None])),  # a null in the dictionary
    pl.Series(["a", "b", None]),
    pd.Series(["a", "b", None], dtype="string"),
    pd.Series(["a", "b", None], dtype=ARROW_STRING),
    pd.Series(["a", "b", None], dtype="category"),
    pd.Series([1, 2, None], dtype="category"),
    pd.Series([1, 2, None], dtype="Int64"),
    pd.Series([1, 2, None], dtype=pd.ArrowDtype(pa.int64())),
    pd.Index(["a", "b", None], dtype="string"),
    pd.Index([1, 2, None], dtype="Int64"),
    pd.CategoricalIndex(["a", "b", None]),
    pd.Categorical(["a", "b", None]),
    pd.array([1, 2, None], dtype="Int64"),
]


@pytest.mark.parametrize("column", NULLS)
@pytest.mark.parametrize("space", [HASHED, KeySpace(10, None)])
def test_a_null_among_the_keys_is_refused_with_its_position(space: KeySpace, column: object) -> None:
    with pytest.raises(InputError, match="key at position 2 is null; drop or fill missing rows first"):
        space.ids(column)


@pytest.mark.parametrize("values", [["a", None], [5, None]])
def test_a_dictionary_may_hold_a_null_that_no_row_has(values: list[Any]) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(values))
    assert HASHED.ids(column).tolist() == one_by_one([values[0], values[0]])


@pytest.mark.parametrize(
    "column",
    [["a", "b", None], np.array(["a", "b", None], object), pd.Series(["a", "b", None], dtype=object)],
)
def test_a_none_among_the_keys_is_refused_with_its_position(column: object) -> None:
    with pytest.raises(KeyTypeError, match=r"^key at position 2 must be str, bytes or int"):
        HASHED.ids(column)


@pytest.mark.parametrize(
    "column",
    [
        np.array([1.0]),
        np.array([True]),
        np.array(["2024-01-01"], "datetime64[D]"),
        np.array([[1, 2], [3, 4]]),
        np.array(5),
        pa.array([1.0]),
        pa.array([True]),
        pa.array([[1]]),
        pl.Series([1.5]),
        pl.Series([True]),
        pd.Series([1.0]),
        pd.Series([True]),
        pd.Series([1, None]),  # floats, since there is a gap
        pd.Series([1.0], dtype="Float64"),
        pd.Series([True], dtype="boolean"),
        pd.Series([1.0], dtype=pd.ArrowDtype(pa.float64())),
        pd.Series(pd.to_datetime(["2024-01-01"]).tz_localize("UTC")),
        pd.interval_range(0, 2),
        pd.MultiIndex.from_tuples([("a", 1)]),
        pd.Series(pd.to_datetime(["2024-01-01"])),
    ],
)
def test_columns_of_other_types_are_refused(column: object) -> None:
    with pytest.raises(KeyTypeError, match="must be"):
        HASHED.ids(column)


@pytest.mark.parametrize("values", [[1, "a"], [1, True], [1 << 70], ["\ud800"]])
@pytest.mark.parametrize("collection", ["pandas object series", "object array", "pandas object index", "list"])
def test_what_is_no_key_is_refused_by_our_own_exception(collection: str, values: list[Any]) -> None:
    column = COLLECTIONS[collection](values)
    with pytest.raises(InputError, match=f"at position {len(values) - 1}"):
        HASHED.ids(column)


def test_categories_that_are_no_keys_are_refused() -> None:
    with pytest.raises(InputError, match="be of one type, got int at position 0"):
        HASHED.ids(pd.Series([1, "a"], dtype="category"))


def test_the_position_of_a_refused_key_is_counted_over_all_chunks() -> None:
    chunks = pa.chunked_array([[1, 2], [], [3, 10]])
    for column in (chunks, chunks.dictionary_encode(), chunks.cast(pa.uint8()), pl.Series([1, 2, 3, 10])):
        with pytest.raises(InputError, match=r"^key at position 3 must be an integer in \[0, 10\)"):
            KeySpace(10, None).ids(column)


def test_a_dictionary_may_hold_values_outside_the_domain_that_no_row_has() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0]), pa.array([9, 10, 0]))
    assert KeySpace(10, None).ids(column).tolist() == [9, 0, 9]


@pytest.mark.parametrize("column", [pa.array(["1"]), pa.array([b"1"]), pa.array(["1"]).dictionary_encode()])
def test_a_domain_refuses_columns_of_text_and_says_how_to_hash_them(column: object) -> None:
    with pytest.raises(KeyTypeError, match=r"integers in \[0, 10\), got .* keys; omit domain= to hash them"):
        KeySpace(10, None).ids(column)


def test_categories_of_text_and_bytes_are_refused_like_a_list_of_them() -> None:
    with pytest.raises(KeyTypeError, match="got str at position 0 and bytes at position 1"):
        HASHED.ids(pd.Series(["a", b"b"], dtype="category"))
    of_both = pd.Categorical(["a", "a"], categories=["a", b"b"])
    assert HASHED.ids(of_both).tolist() == one_by_one(["a", "a"])


def test_categories_may_be_integers_of_both_ends() -> None:
    keys = [-1, 2**64 - 1]
    assert HASHED.ids(pd.Series(keys, dtype="category")).tolist() == one_by_one(keys)


@pytest.mark.parametrize("keys", [np.arange(5), np.arange(5, dtype=np.uint64), np.array(["a", "bcd", "日本"])])
def test_columns_may_begin_at_any_address(keys: np.ndarray) -> None:
    packed = np.zeros(len(keys), np.dtype([("flag", "u1"), ("key", keys.dtype)]))
    packed["key"] = keys
    shifted: np.ndarray = np.frombuffer(b"\0" + keys.tobytes(), keys.dtype, offset=1)
    assert not shifted.flags.aligned
    for column in (packed["key"], shifted):
        assert HASHED.ids(column).tolist() == HASHED.ids(keys).tolist()


def test_arrow_offsets_may_begin_at_any_address() -> None:
    keys = pa.array(["a", "bcd", "日本"])
    buffers = [buffer and pa.py_buffer(b"\0" + buffer.to_pybytes()).slice(1) for buffer in keys.buffers()]
    shifted = pa.Array.from_buffers(keys.type, len(keys), buffers)
    assert HASHED.ids(shifted).tolist() == HASHED.ids(keys).tolist()
