"""Keys of several columns against one column of text with the same bytes: count, release, lookup."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import sparsedp

from .measuring import Row, seconds, side_by_side, threads

EVENTS, KEYS, USERS = 4 * 10**6, 10**6, 10**5
KEYS_PER_USER = 20
MOST = 2.0
SINGLE = 10**4


def events(rows: int) -> pa.Table:
    """Visits of pages on days with an integer and a truth value; and as text of the same bytes, two
    columns together and all four.
    """
    random = np.random.default_rng(5)
    day = pa.array(random.integers(19_000, 19_365, rows).astype(np.int32)).cast(pa.date32())
    address = pc.cast(pa.array(random.zipf(1.3, rows) % 10**5), pa.string())
    page = pc.binary_join_element_wise("https://example.org/page/", address, "")
    number = pa.array(random.integers(0, 3, rows))
    new = pc.equal(number, 0)
    two = pc.binary_join_element_wise(pc.strftime(day, format="%y%j"), page, "")  # four bytes of a day are five here
    eight = pc.utf8_lpad(pc.cast(number, pa.string()), 8, "0")
    four = pc.binary_join_element_wise(two, eight, pc.if_else(new, "t", "f"), "")
    user = pa.array(random.integers(0, USERS, rows))
    return pa.table({"day": day, "page": page, "number": number, "new": new, "user": user, "two": two, "four": four})


def composite_rows() -> Iterator[Row]:
    """Two columns, and four, each against one."""
    table = events(EVENTS)
    few, values = table.slice(0, KEYS), np.ones(KEYS, np.int64)
    bounds: dict[str, Any] = {"user": "user", "max_keys_per_user": KEYS_PER_USER}
    for joined, names in (("two", ["day", "page"]), ("four", ["day", "page", "number", "new"])):
        ours, theirs = side_by_side(
            partial(sparsedp.count, table, key=names, **bounds), partial(sparsedp.count, table, key=joined, **bounds), 3
        )
        yield Row(f"count by {joined} columns", "one of text", ours, theirs, most=MOST)
        with threads(1):
            made = partial(sparsedp.release, (few.select(names), values), epsilon=1.0, nonzero=KEYS)
            text = partial(sparsedp.release, (few.column(joined), values), epsilon=1.0, nonzero=KEYS)
            ours, theirs = side_by_side(made, text, 3)
            yield Row(f"release of 10⁶ keys of {joined} columns", "one of text", ours, theirs, most=MOST)
            ours, theirs = side_by_side(
                partial(made().lookup, few.select(names)), partial(text().lookup, few.column(joined))
            )
            yield Row(f"10⁶ lookups by {joined} columns", "one of text", ours, theirs, most=MOST)
    yield from tuple_rows(few, values)


def tuple_rows(few: pa.Table, values: npt.NDArray[np.int64]) -> Iterator[Row]:
    """Keys as Python objects."""
    tuples = list(zip(few.column("day").to_pylist(), few.column("page").to_pylist(), strict=True))
    texts = few.column("two").to_pylist()
    built, plain = (sparsedp.release((keys, values), epsilon=1.0, nonzero=KEYS) for keys in (tuples, texts))
    with threads(1):
        ours, theirs = side_by_side(partial(built.lookup, tuples), partial(plain.lookup, texts), 3)
    yield Row("10⁶ lookups of tuples", "10⁶ str", ours, theirs)
    ours, theirs = (
        seconds(partial(_one_by_one, release, key)) / SINGLE for release, key in ((built, tuples[0]), (plain, texts[0]))
    )
    yield Row("single release[day, page]", "release[text]", ours, theirs)


def _one_by_one(release: sparsedp.Release, key: Any) -> None:
    for _ in range(SINGLE):
        release[key]
