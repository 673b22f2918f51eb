"""Dates and times in keys: their units, time zones, and years that Python lacks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sparsedp
from composite_keys import DAY, OTHER, TIME, UTC_TIME
from sparsedp import InputError, KeyTypeError
from sparsedp.keys.kinds import KeyColumn


def test_a_single_column_of_dates_is_a_key_without_tuples() -> None:
    for days in (
        [DAY, OTHER],
        pa.array([DAY, OTHER]),
        np.array([DAY, OTHER], "datetime64[D]"),
        pl.Series([DAY, OTHER]),
    ):
        built = sparsedp.release((days, [1000, 2000]), epsilon=1.0, nonzero=10)
        assert built.key_columns == (KeyColumn("key", "date"),)
        assert abs(built[DAY] - 1000) < 60
        assert built.lookup(pd.Series([DAY, OTHER])).tolist() == built.lookup([DAY, OTHER]).tolist()
        assert built[np.datetime64(DAY)] == built[DAY]
    built = sparsedp.release({TIME: 1000}, epsilon=1.0, nonzero=10)
    assert built.key_columns == (KeyColumn("key", "timestamp[us]"),)
    assert abs(built[pd.Timestamp(TIME)] - 1000) < 60


def test_times_in_other_units_are_the_same_if_that_is_exact() -> None:
    seconds = TIME.replace(microsecond=0)
    built = sparsedp.release({("a", seconds): 1000}, epsilon=1.0, nonzero=9, key_type=["text", "timestamp[s]"])
    assert built.key_columns[1].kind == "timestamp[s]"
    for same in (seconds, np.datetime64(seconds, "ns"), pd.Timestamp(seconds), np.datetime64(seconds, "s")):
        assert built["a", same] > 900
    assert built.lookup({"key1": ["a"], "key2": np.array([seconds], "datetime64[ns]")})[0] > 900
    for finer in (TIME, np.datetime64(TIME, "ns"), np.datetime64("NaT", "s")):
        with pytest.raises(InputError, match=r"must be a whole number of s|is null"):
            built["a", finer]
    with pytest.raises(InputError, match=r"at position 0 must be a whole number of s; cut it to that unit"):
        built.lookup((["a"], np.array([TIME], "datetime64[us]")))
    wide = sparsedp.release({("a", np.datetime64(0, "ns")): 5}, epsilon=1.0, nonzero=9)
    with pytest.raises(InputError, match=r"within the range of 64-bit ns"):
        wide.lookup((["a"], np.array([1 << 60], "datetime64[s]")))


def test_multiples_of_a_unit_are_refused() -> None:
    built = sparsedp.release({np.datetime64(25, "s"): 1000}, epsilon=1.0, nonzero=9)
    multiples = np.array([1], "datetime64[25s]")
    for keys in (multiples, list(multiples)):
        with pytest.raises(KeyTypeError, match=r"got datetime64\[25s\]; use \.astype\('datetime64\[s\]'\)"):
            built.lookup(keys)
        with pytest.raises(KeyTypeError, match=r"datetime64"):
            sparsedp.release((keys, [5]), epsilon=1.0, nonzero=9)
    assert built.lookup(multiples.astype("datetime64[s]"))[0] > 900


def test_the_unit_of_times_does_not_depend_on_their_values() -> None:
    # A pandas Timestamp takes its unit from its digits, and the first key decides what is published.
    kinds = {
        sparsedp.release({("a", pd.Timestamp(text)): 5}, epsilon=1.0, nonzero=9).key_columns[1].kind
        for text in ("2024-01-01", "2024-01-01 00:00:00.5", "2024-01-01 00:00:00.000005")
    }
    assert kinds == {"timestamp[us]"}
    with pytest.raises(InputError, match="whole number of us"):
        sparsedp.release({("a", pd.Timestamp("2024-01-01 00:00:00.000000001")): 5}, epsilon=1.0, nonzero=9)
    mixed = ([("a", np.datetime64(0, "s")), ("a", np.datetime64(0, "us"))], [5, 5])
    with pytest.raises(KeyTypeError, match=r"must have one unit .* got another at position 1"):
        sparsedp.release(mixed, epsilon=1.0, nonzero=9)
    stated = sparsedp.release(mixed, epsilon=1.0, nonzero=9, key_type=["text", "timestamp[ms]"])
    assert stated.key_columns[1].kind == "timestamp[ms]"


def test_local_times_are_no_instants() -> None:
    local = sparsedp.release({("a", TIME): 1000}, epsilon=1.0, nonzero=9)
    instants = sparsedp.release({("a", UTC_TIME): 1000}, epsilon=1.0, nonzero=9)
    assert instants.key_columns[1].kind == "timestamp[us, UTC]"
    other_zone = UTC_TIME.astimezone(timezone(timedelta(hours=5)))
    assert instants["a", other_zone] == instants["a", UTC_TIME] > 900
    assert instants.lookup((["a"], pd.Series([UTC_TIME]).dt.tz_convert("Asia/Tokyo")))[0] > 900
    for built, wrong in ((local, UTC_TIME), (instants, TIME)):
        with pytest.raises(KeyTypeError, match=r"a time zone"):
            built["a", wrong]
        with pytest.raises(KeyTypeError, match=r"a time zone"):
            built.lookup((["a"], pa.array([wrong])))
        with pytest.raises(KeyTypeError, match=r"a time zone"):
            built.lookup((["a"], pd.Series([wrong])))


class Unknown(tzinfo):
    """A time zone that does not know its offset: its times are local ones."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


def test_a_time_zone_without_an_offset_is_none() -> None:
    local = sparsedp.release({("a", TIME): 1000}, epsilon=1.0, nonzero=9)
    instants = sparsedp.release({("a", UTC_TIME): 1000}, epsilon=1.0, nonzero=9)
    unknown = TIME.replace(tzinfo=Unknown())
    assert local["a", unknown] == local["a", TIME]
    with pytest.raises(KeyTypeError, match="give it a time zone"):
        instants["a", unknown]
    with pytest.raises(InputError, match="is null"):
        local["a", pd.NaT]
    with pytest.raises(InputError, match="is null"):
        sparsedp.release({("a", pd.NaT): 5}, epsilon=1.0, nonzero=9)
    assert sparsedp.release({("a", unknown): 5}, epsilon=1.0, nonzero=9).key_columns[1].kind == "timestamp[us]"
