"""`count()`: from a table of events to counts in which no user has more than a bounded share.

DuckDB does the grouping, out of core if necessary. Adding or removing a user changes the counts by
that user's own bounded pairs and by nothing else (docs/privacy.md, "Bounded contributions").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..budget.spending import DEFAULT_DATASET, LedgerLike, account_of
from ..errors import ParameterError
from ..keys.arrow import as_chunked_array
from ..keys.kinds import is_instant, is_simple, unit_of
from ..privacy.contributions import BoundedCounts
from ..privacy.numbers import check_delta
from .key_columns import KeySource
from .opening import opened, run
from .request import AUTO, Counting
from .sql import Query
from .suggesting import Spending, check_choice, habits, predicted_noises, suggested, warned


def count(
    source: object,
    *,
    key: str | Sequence[str],
    user: str | None = None,
    value: str | None = None,
    max_keys_per_user: int | Literal["auto"] | None = None,
    max_per_key: float = 1,
    step: float | None = None,
    signed: bool = False,
    key_type: str | Sequence[str] = "as stored",
    nulls: str = "refuse",
    domain: int | None = None,
    memory_limit: str | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    hive: bool = False,
    epsilon: float | None = None,
    delta: float = 0.0,
    ledger: LedgerLike | None = None,
    dataset: str = DEFAULT_DATASET,
) -> BoundedCounts:
    """Count events by key, bounding the contribution of each user.

    In JSON lines, a string is its text; a number, truth value, object or array is the JSON text of
    its value (1.50 is "1.5"); a missing field is null.

    Parameters
    ----------
    source
        A path or glob of Parquet, CSV or JSON-lines files (text formats also .gz and .zst), a list
        of paths, each taken literally, a DuckDB relation, a polars LazyFrame, a pyarrow Dataset, or
        a table that supports Arrow: pandas, polars, pyarrow. LazyFrames and Datasets are streamed;
        a Scanner or RecordBatchReader is read into memory, once.
    key
        The column of keys: text, bytes, integers, dates or timestamps. Or a list of columns, which
        together are the key, such as `["day", "page"]`; these may also be truth values.
    user
        The column that tells users apart. Without it, every row is a separate user: this is right
        only if nobody has more than one row.
    value
        A numeric column to sum; without it, rows are counted.
    max_keys_per_user
        A user contributes to at most this many different keys. "auto" chooses the bound privately,
        like `suggest`, and spends a share of ε on it.
    max_per_key
        A user contributes at most this much to each key. With 1, users are counted.
    step
        The grid on which sums of real values will be released.
    signed
        Values may be negative.
    key_type
        "integer" reads keys of text files as integers in decimal digits, "date" as 2024-01-31,
        "timestamp[s]" as 2024-01-31T12:00:00 (units are s, ms, us and ns; "timestamp[s, UTC]" reads
        text that ends in Z), "boolean" as true or false. "date" and coarser units also cut
        timestamps, by UTC if they have a time zone. "text" uses the text of values that cannot be
        keys themselves. With "as stored", keys of text files are text. Or a list, with one of these
        for each column of the key.
    nulls
        "refuse" rows in which the key, any of its columns, user or value is null, or "drop" them.
    domain
        Refuse keys that are not integers in [0, domain); `release` is to be given the same domain.
    memory_limit
        The memory that counting may use, such as "4GB"; anything beyond it goes to a temporary
        folder on disk.
    delimiter
        What separates the columns of CSV files: by default commas (.csv) or tabs (.tsv). Nothing is
        guessed from rows, and the first line names the columns. An empty field is null.
    quote
        Fields of CSV files may be in these quotes, by default `"`; with `quote=""`, quotes have no
        meaning.
    encoding
        That of CSV files: "utf-8" (the default), "utf-16" or "latin-1".
    hive
        Read folder names such as `day=2024-01-02` as columns of text.
    epsilon, delta
        For max_keys_per_user="auto" only: those of the release to come. What is left of ε for it is
        `left_epsilon` of the counts.
    ledger, dataset
        Where the choice of "auto" is debited.

    """
    asked = locals()
    if max_keys_per_user != AUTO:
        if epsilon is not None or check_delta(delta) or ledger is not None:
            raise ParameterError(
                "epsilon, delta and ledger are for max_keys_per_user='auto': counting alone adds no noise and spends "
                "nothing; pass them to release()"
            )
        account_of(None, dataset)
        return count_table(source, Counting.of(asked))
    if epsilon is None:
        raise ParameterError("max_keys_per_user='auto' needs epsilon=, that of the release to come")
    counting = Counting.of(asked | {"max_keys_per_user": 1})
    budget = Spending.of(epsilon, delta)
    account = account_of(ledger, dataset)
    check_choice(account, budget)
    noises = predicted_noises(counting, budget, {})
    with opened(source, counting) as query:
        chosen = warned(suggested(habits(query), budget, noises, account))
        bounded = replace(counting, max_keys_per_user=chosen.max_keys_per_user)
        return replace(_counted(Query(query.table, bounded)), left_epsilon=chosen.left)


def count_table(source: object, counting: Counting) -> BoundedCounts:
    """The result of `count`, for parameters that have been checked."""
    with opened(source, counting) as query:
        return _counted(query)


def _counted(query: Query) -> BoundedCounts:
    counting, counted = query.asked, run(query.table, query.sql())
    if counted.filter(counted.column("bad")).num_rows:
        query.refuse()
    keys = counted_keys(counted, query.keys)
    # Not to_numpy, which imports pandas where it is installed.
    units = np.concatenate([np.empty(0, np.int64), *map(np.from_dlpack, counted.column("n").chunks)])
    return BoundedCounts(keys, units, counting.unit, counting.grid, counting.contribution, counting.signed)


def counted_keys(counted: Any, sources: Sequence[KeySource]) -> Any:
    """The keys of a query: a column if they are simple, otherwise a table."""
    import pyarrow as pa

    columns = []
    for at, source in enumerate(sources):
        column, unit = as_chunked_array(counted.column(at)), unit_of(source.kind)
        columns.append(
            column if unit is None else column.cast(pa.timestamp(unit, "UTC" if is_instant(source.kind) else None))
        )
    if len(sources) == 1 and is_simple(sources[0].kind):
        return columns[0]
    return pa.Table.from_arrays(columns, [source.name for source in sources])
