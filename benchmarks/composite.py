"""Keys of several columns against one column of text with the same bytes: count, release, lookup."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import sparsedp

from .measuring import Row, side_by_side, threads

EVENTS, KEYS, USERS = 4 * 10**6, 10**6, 10**5
KEYS_PER_USER = 20
MOST = 2.0


def events(rows: int) -> pa.Table:
    """Visits of pages on days, and both together as text of the same bytes."""
    random = np.random.default_rng(5)
    day = pa.array(random.integers(19_000, 19_365, rows).astype(np.int32)).cast(pa.date32())
    page = pc.binary_join_element_wise(
        "https://example.org/page/", pc.cast(pa.array(random.zipf(1.3, rows) % 10**5), pa.string()), ""
    )
    joined = pc.binary_join_element_wise(
        pc.strftime(day, format="%y%j"), page, ""
    )  # a day has four bytes, or five here
    user = pa.array(random.integers(0, USERS, rows))
    number = pa.array(random.integers(0, 3, rows))
    return pa.table(
        {"day": day, "page": page, "joined": joined, "user": user, "number": number, "new": pc.equal(number, 0)}
    )


def composite_rows() -> Iterator[Row]:
    """Two columns, and four, against one."""
    table = events(EVENTS)
    bounds: dict[str, Any] = {"user": "user", "max_keys_per_user": KEYS_PER_USER}
    two, four = ["day", "page"], ["day", "page", "number", "new"]
    one = partial(sparsedp.count, table, key="joined", **bounds)
    for names in (two, four):
        ours, theirs = side_by_side(partial(sparsedp.count, table, key=names, **bounds), one, 3)
        yield Row(f"count by {len(names)} columns", "one of text", ours, theirs, most=MOST if names is two else None)
    few = table.slice(0, KEYS)
    values = np.ones(KEYS, np.int64)
    with threads(1):
        text = partial(sparsedp.release, (few.column("joined"), values), epsilon=1.0, nonzero=KEYS)
        for names in (two, four):
            made = partial(sparsedp.release, (few.select(names), values), epsilon=1.0, nonzero=KEYS)
            ours, theirs = side_by_side(made, text, 3)
            yield Row(f"release of 10⁶ keys of {len(names)} columns", "one of text", ours, theirs, most=MOST)
            ours, theirs = side_by_side(
                partial(made().lookup, few.select(names)), partial(text().lookup, few.column("joined"))
            )
            yield Row(f"10⁶ lookups by {len(names)} columns", "one of text", ours, theirs, most=MOST)
        tuples = list(zip(*(few.column(name).to_pylist() for name in two), strict=True))
        texts = few.column("joined").to_pylist()
        built, plain = sparsedp.release((tuples, values), epsilon=1.0), sparsedp.release((texts, values), epsilon=1.0)
        ours, theirs = side_by_side(partial(built.lookup, tuples), partial(plain.lookup, texts), 3)
        yield Row("10⁶ lookups of tuples", "10⁶ str", ours, theirs)
        key, text_key = tuples[0], texts[0]
        ours, theirs = side_by_side(
            lambda: [built[key] for _ in range(10**4)], lambda: [plain[text_key] for _ in range(10**4)]
        )
        yield Row("10⁴ single release[day, page]", "release[text]", ours, theirs)
