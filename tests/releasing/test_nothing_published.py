"""Nothing published is read off the data: equal public parameters give equal headers, whatever the
data.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import sparsedp
from fuzz.forging import split
from releases import VARIANTS
from sparsedp.privacy.randomness import reproducible_for_tests

Keys = list[Any]
Values = list[int]
Input = Callable[[Keys, Values], Any]
Measured = Callable[..., None]

# Noisy lengths: those of the table of stored keys and of the system solved for them; padding
# follows from them.
NOISY = ("table.", "keys.", "padding.", "negative.table.", "negative.keys.", "negative.padding.")


def counted(keys: Keys, values: Values) -> Any:
    """The result of `count` for one row per key."""
    kind = pa.int64() if keys and isinstance(keys[0], int) else pa.string()
    table = pa.table({"k": pa.array(keys, kind), "v": pa.array(values, pa.int64())})
    return sparsedp.count(table, key="k", value="v", max_per_key=10**6)


def of_type(dtype: str) -> Input:
    def make(keys: Keys, values: Values) -> Any:
        names: Any = np.array(keys, np.int64 if keys and isinstance(keys[0], int) else None if keys else "U1")
        return names, np.array(values).astype(dtype)

    return make


def with_keys_of_type(dtype: str) -> Input:
    return lambda keys, values: (np.array(keys, dtype), np.array(values, np.int64))


TEXT_INPUTS: dict[str, Input] = {
    "dict": lambda keys, values: dict(zip(keys, values, strict=True)),
    "lists": lambda keys, values: (keys, values),
    "tuples": lambda keys, values: (tuple(keys), tuple(map(float, values))),
    **{
        f"NumPy, {dtype}": of_type(dtype)
        for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", ">i8", "O")
    },
    "NumPy, objects": lambda keys, values: (np.array(keys, object), np.array(values, np.int64)),
    "Series": lambda keys, values: pd.Series(values, pd.Index(keys, dtype="str"), dtype="int64"),
    "Series, Float64": lambda keys, values: pd.Series(values, pd.Index(keys, dtype="str"), dtype="Float64"),
    "Series, categories": lambda keys, values: pd.Series(
        values, pd.CategoricalIndex(pd.Index(keys, dtype="str")), dtype="int16"
    ),
    "DataFrame": lambda keys, values: pd.DataFrame(
        {"k": pd.Series(keys, dtype="str"), "v": pd.Series(values, dtype="int32")}
    ),
    "DataFrame, Arrow": lambda keys, values: pd.DataFrame(
        {"k": pd.Series(keys, dtype=pd.ArrowDtype(pa.large_string())), "v": pd.Series(values, dtype="int64[pyarrow]")}
    ),
    "polars": lambda keys, values: pl.DataFrame({"k": keys, "v": values}, schema={"k": pl.String, "v": pl.Int64}),
    "polars, categories": lambda keys, values: pl.DataFrame(
        {"k": keys, "v": values}, schema={"k": pl.Categorical, "v": pl.UInt16}
    ),
    "LazyFrame": lambda keys, values: pl.LazyFrame({"k": keys, "v": values}, schema={"k": pl.String, "v": pl.Float64}),
    "Arrow": lambda keys, values: pa.table({"k": pa.array(keys, pa.string()), "v": pa.array(values, pa.int64())}),
    "Arrow, dictionary": lambda keys, values: pa.table(
        {"k": pa.array(keys, pa.string()).dictionary_encode(), "v": pa.array(values, pa.uint16())}
    ),
    "BoundedCounts": counted,
}
UNTYPED = ("dict", "lists", "NumPy, objects")


def row(keys: Keys, values: Values) -> Any:
    """A SciPy row whose length follows from its last key."""
    return scipy.sparse.csr_array(
        (values, ([0] * len(keys), keys)), shape=(1, max(keys, default=0) + 1), dtype=np.int64
    )


INTEGER_INPUTS: dict[str, Input] = {
    "dict": TEXT_INPUTS["dict"],
    "lists": TEXT_INPUTS["lists"],
    **{
        f"NumPy keys, {dtype}": with_keys_of_type(dtype)
        for dtype in ("u1", "i2", "i8", "u8")
    },
    "NumPy, objects": TEXT_INPUTS["NumPy, objects"],
    "Series": lambda keys, values: pd.Series(values, pd.Index(keys, dtype="int64"), dtype="int64"),
    "polars": lambda keys, values: pl.DataFrame({"k": keys, "v": values}, schema={"k": pl.UInt8, "v": pl.Int64}),
    "Arrow": lambda keys, values: pa.table({"k": pa.array(keys, pa.int16()), "v": pa.array(values, pa.int64())}),
    "SciPy row": row,
    "BoundedCounts": lambda keys, values: sparsedp.count(
        pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())}),
        key="k", value="v", max_per_key=10**6, domain=1000,
    ),
}  # fmt: skip

SOME = range(1, 4)
MANY = range(0, 200, 3)
# Keys by number, and values: a few, many and large, others, one, none.
DATA: dict[str, tuple[list[int], Values]] = {
    "few": (list(SOME), [5, 90, 1]),
    "many": (list(MANY), [key * 7 % 101 for key in MANY]),
    "one": ([99], [100]),
    "zeros": (list(SOME), [0, 0, 0]),
    "none": ([], []),
}


def written(counts: Any, folder: Path, **options: Any) -> bytes:
    """The file of a release, the same each time."""
    with reproducible_for_tests(11):
        sparsedp.release(counts, epsilon=1.0, **options).save(folder / "a.sparsedp")
    return (folder / "a.sparsedp").read_bytes()


def header(content: bytes, noisy: tuple[str, ...] = NOISY) -> tuple[Any, list[Any]]:
    """A header without checksums and noisy lengths: the description, and names, types and shapes."""
    entries, description, _ = split(content)
    del description["checksums"]
    kept = [
        (name, entry["dtype"], len(entry["shape"]) if name.startswith(noisy) else entry["shape"])
        for name, entry in entries.items()
        if "padding." not in name
    ]
    return description, kept


def headers(make: Input, text: bool, folder: Path, **options: Any) -> Iterator[tuple[str, Any]]:
    for name, (numbers, values) in DATA.items():
        keys = [f"key {number}" for number in numbers] if text else numbers
        yield name, header(written(make(keys, values), folder, **options))


def all_equal(found: Iterator[tuple[str, Any]]) -> None:
    (first, expected), *others = found
    for name, other in others:
        assert other == expected, f"the header of the data {name!r} is not that of {first!r}"


PUBLIC: dict[str, dict[str, Any]] = {
    "tight-alp": {"mechanism": "tight-alp", "nonzero": 60},
    "stability": {"mechanism": "stability", "delta": 1e-6},
}


@pytest.mark.parametrize("mechanism", PUBLIC)
@pytest.mark.parametrize("name", TEXT_INPUTS)
@pytest.mark.promise(23)
def test_headers_of_text_keys_are_equal_for_all_data(
    name: str, mechanism: str, tmp_path: Path, measured: Measured
) -> None:
    stated = {"key_type": "text"} if name != "BoundedCounts" else {}
    all_equal(headers(TEXT_INPUTS[name], True, tmp_path, **PUBLIC[mechanism], **stated))
    measured(input=f"{name} with text", sets=len(DATA))


@pytest.mark.parametrize("mechanism", PUBLIC)
@pytest.mark.parametrize("name", INTEGER_INPUTS)
@pytest.mark.promise(23)
def test_headers_of_a_domain_are_equal_for_all_data(
    name: str, mechanism: str, tmp_path: Path, measured: Measured
) -> None:
    all_equal(headers(INTEGER_INPUTS[name], False, tmp_path, domain=1000, **PUBLIC[mechanism]))
    measured(input=f"{name} with integers", sets=len(DATA))


@pytest.mark.parametrize("name", [name for name in INTEGER_INPUTS if name not in (*UNTYPED, "SciPy row")])
def test_headers_of_typed_integer_keys_are_equal_for_all_data(name: str, tmp_path: Path) -> None:
    all_equal(headers(INTEGER_INPUTS[name], False, tmp_path, **PUBLIC["stability"]))


@pytest.mark.parametrize("name", UNTYPED)
def test_headers_of_keys_whose_type_is_stated_are_equal_for_all_data(name: str, tmp_path: Path) -> None:
    # If the kind is not stated and there are no keys, the kind is text (docs/privacy.md, "The kind
    # of keys").
    all_equal(headers(INTEGER_INPUTS[name], False, tmp_path, key_type="integer", **PUBLIC["stability"]))


def options_of(variant: str) -> dict[str, Any]:
    options = dict(VARIANTS[variant])
    options.setdefault("delta", 1e-6 if options["mechanism"] in ("stability", "retrieval") else 0.0)
    options.setdefault("nonzero", 60)
    if options["mechanism"] == "laplace":
        options.setdefault("domain", 300)
    return options


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "tight-alp-sized"])
def test_headers_of_every_mechanism_are_equal_for_all_data(variant: str, tmp_path: Path) -> None:
    options = options_of(variant)
    stated = {} if "domain" in options else {"key_type": "integer"}
    all_equal(headers(TEXT_INPUTS["dict"], False, tmp_path, **options, **stated))


def test_types_of_values_are_not_published(tmp_path: Path) -> None:
    numbers, values = DATA["many"]
    keys = [f"key {number}" for number in numbers]
    for options in PUBLIC.values():
        files = {
            name: written(make(keys, values), tmp_path, key_type="text", **options)
            for name, make in TEXT_INPUTS.items()
            if name != "BoundedCounts"  # its contribution is published
        }
        assert [name for name, file in files.items() if file != files["dict"]] == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.promise(23)
def test_the_order_of_rows_is_not_published(variant: str, tmp_path: Path, measured: Measured) -> None:
    options = options_of(variant)
    numbers, values = DATA["many"]
    pairs = list(zip(numbers, values, strict=True))
    if not options.get("keep_keys"):
        pairs += [(number, 1) for number in numbers[::5]]  # some come twice
    files = set()
    for seed in range(4):
        random.Random(seed).shuffle(pairs)
        keys, numbers_of = [key for key, _ in pairs], [value for _, value in pairs]
        files.add(written((keys, numbers_of), tmp_path, **options))
    assert len(files) == 1
    measured(kind=variant)


@pytest.mark.parametrize("name", TEXT_INPUTS)
def test_the_order_of_rows_of_every_input_is_not_published(name: str, tmp_path: Path) -> None:
    numbers, values = DATA["many"]
    keys = [f"key {number}" for number in numbers]
    for options in PUBLIC.values():
        files = {written(TEXT_INPUTS[name](keys[::way], values[::way]), tmp_path, **options) for way in (1, -1)}
        assert len(files) == 1
