"""Lookups over HTTP give what the release gives: as JSON or Arrow, for every kind of key."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest

import sparsedp
from requests_in_process import ask, post
from serving import Running, running
from sparsedp.serve.asking import from_values
from sparsedp.serve.catalog import Source
from sparsedp.serve.streams import read_stream, write_stream

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def expected(release: sparsedp.Release, keys: Any, confidence: float = 0.95) -> list[tuple[float, ...]]:
    low, high = release.interval(keys, confidence)
    return list(zip(release.lookup(keys).tolist(), low.tolist(), high.tolist(), strict=True))


def numbers(rows: list[dict[str, Any]]) -> list[tuple[float, ...]]:
    return [(row["estimate"], row["low"], row["high"]) for row in rows]


def test_a_query_and_a_list_give_the_same_as_the_release(served: Running, folder: Path) -> None:
    release = sparsedp.load(folder / "visits.sparsedp")
    keys = ["a", "ü", 'say "hi"\\', "", "a b&c=d", "nobody"]
    query = "&".join(f"key={quote(key)}" for key in keys)
    got = ask(served.app, "GET", f"/v1/releases/visits/lookup?{query}&confidence=0.5")
    assert got.status == 200
    assert got.json == post(served.app, "/v1/releases/visits/lookup", {"keys": keys, "confidence": 0.5}).json
    assert [row["key"] for row in got.json["results"]] == keys
    assert numbers(got.json["results"]) == expected(release, keys, 0.5)
    assert (got.json["name"], got.json["confidence"]) == ("visits", 0.5)


@pytest.mark.parametrize("odd", ["plain", "tab\there", "nul\x00"])
def test_many_keys_are_written_like_a_few(served: Running, folder: Path, odd: str) -> None:
    keys = [f'key {number} "ü\\' for number in range(3000)] + [odd]
    got = post(served.app, "/v1/releases/visits/lookup", {"keys": keys}).json["results"]
    assert [row["key"] for row in got] == keys
    assert numbers(got) == expected(sparsedp.load(folder / "visits.sparsedp"), keys)


def test_many_points_of_a_series_are_written_like_a_few(served: Running) -> None:
    many = post(served.app, "/v1/releases/days/lookup", {"keys": ["a", "b"] * 50}).json["results"]
    few = post(served.app, "/v1/releases/days/lookup", {"keys": ["a", "b"]}).json["results"]
    assert many == few * 50
    assert [point["label"] for point in few[0]["points"]] == ["2026-11-01", "2026-11-02", "2026-11-03"]


def test_a_series_answers_for_each_day(served: Running, folder: Path) -> None:
    got = ask(served.app, "GET", "/v1/releases/days/lookup?key=a").json["results"]
    for day, point in enumerate(got[0]["points"], 1):
        release = sparsedp.load(folder / "days" / f"visits-2026-11-0{day}.sparsedp")
        assert numbers([point]) == expected(release, ["a"])


@pytest.mark.parametrize("keys", [[7, -5, 2**63], ["7", "-5", str(2**63)], [7, "-5", 2**63]])
def test_integers_are_numbers_or_text(served: Running, folder: Path, keys: list[Any]) -> None:
    release = sparsedp.load(folder / "numbers.sparsedp")
    got = post(served.app, "/v1/releases/numbers/lookup", {"keys": keys}).json["results"]
    assert [row["key"] for row in got] == keys
    assert numbers(got) == expected(release, [7, -5, 2**63])
    got = ask(served.app, "GET", f"/v1/releases/numbers/lookup?key=7&key=-5&key={2**63}").json["results"]
    assert numbers(got) == expected(release, [7, -5, 2**63])


def test_bytes_are_text_or_base64(served: Running, folder: Path) -> None:
    release = sparsedp.load(folder / "bytes.sparsedp")
    got = post(served.app, "/v1/releases/bytes/lookup", {"keys": [{"base64": "AP8="}, "text"]}).json["results"]
    assert numbers(got) == expected(release, [b"\x00\xff", b"text"])
    listed = ask(served.app, "GET", "/v1/releases/bytes/top").json["results"]
    assert [row["key"] for row in listed] == [{"base64": "AP8="}, "text"]


def test_a_key_of_several_columns_is_an_array(served: Running, folder: Path) -> None:
    release = sparsedp.load(folder / "pairs.sparsedp")
    keys = [["2026-11-01", "/"], ["2026-11-02", "/"]]
    query = "&".join(f"key={quote(json.dumps(key))}" for key in keys)
    got = ask(served.app, "GET", f"/v1/releases/pairs/lookup?{query}").json["results"]
    assert [row["key"] for row in got] == keys
    assert numbers(got) == expected(release, [tuple(key) for key in keys])
    assert post(served.app, "/v1/releases/pairs/lookup", {"keys": keys}).json["results"] == got


def test_every_kind_of_column_is_asked_for_in_text() -> None:
    key = (date(2026, 11, 1), datetime(2026, 11, 1, 12, tzinfo=timezone.utc), 2**64 - 1, True, "x", b"\xff")
    release = sparsedp.release({key: 1000}, epsilon=10.0, nonzero=10)
    written = ["2026-11-01", "2026-11-01T12:00:00Z", str(2**64 - 1), "true", "x", {"base64": "/w=="}]
    plain = [*written[:3], True, *written[4:]]
    for values in (written, plain):
        assert release.lookup(from_values(release, [values]).keys).tolist() == [release[key]]


def test_releases_of_parts_and_of_small_domains_answer(served: Running, folder: Path) -> None:
    got = ask(served.app, "GET", "/v1/releases/parts/lookup?key=a").json["results"]
    assert numbers(got) == expected(sparsedp.load(folder / "parts.sparsedp"), ["a"])
    got = ask(served.app, "GET", "/v1/releases/small/lookup?key=3").json["results"]
    assert numbers(got) == expected(sparsedp.load(folder / "small.sparsedp"), [3])
    assert "[0, 50)" in ask(served.app, "GET", "/v1/releases/small/lookup?key=77").error


def test_no_keys_have_no_answers(served: Running) -> None:
    for name in ("visits", "days", "pairs"):
        assert post(served.app, f"/v1/releases/{name}/lookup", {"keys": []}).json["results"] == []
    empty = write_stream(pa.table({"key": pa.array([], pa.string())}))
    got = ask(served.app, "POST", "/v1/releases/visits/lookup", body=b"".join(empty), headers=ARROW)
    assert read_stream(got.body, 0).column_names == ["key", "estimate", "low", "high"]


@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_an_arrow_stream_comes_back_with_its_answers(served: Running, folder: Path, type: pa.DataType) -> None:
    keys = ["a", "b", "ü", "a"]
    table = pa.table({"url": pa.array(keys).cast(type) if not pa.types.is_string_view(type) else pa.array(keys, type)})
    got = ask(
        served.app,
        "POST",
        "/v1/releases/visits/lookup?confidence=0.9",
        body=b"".join(write_stream(table)),
        headers=ARROW,
    )
    assert got.headers["content-type"] == ARROW["content-type"]
    answered = read_stream(got.body, 10)
    assert answered.column("url").to_pylist() == keys
    want = expected(sparsedp.load(folder / "visits.sparsedp"), keys, 0.9)
    assert list(zip(*(answered.column(name).to_pylist() for name in ("estimate", "low", "high")), strict=True)) == want


@pytest.mark.parametrize("batches", [3, 300])
def test_a_stream_of_many_batches_comes_back_whole(served: Running, batches: int) -> None:
    keys = [f"key {at}" for at in range(batches)]
    body = b"".join(write_stream(pa.table({"url": pa.chunked_array([[key] for key in keys])})))
    got = ask(served.app, "POST", "/v1/releases/visits/lookup", body=[body[:100], body[100:]], headers=ARROW)
    assert int(got.headers["content-length"]) == len(got.body)
    assert read_stream(got.body, batches).column("url").to_pylist() == keys


def test_a_stream_of_several_columns_and_other_columns(served: Running, folder: Path) -> None:
    columns = sparsedp.load(folder / "pairs.sparsedp").key_columns
    names = [column.name for column in columns]
    table = pa.table({"other": [1], str(names[1]): ["/"], str(names[0]): ["2026-11-01"]})
    got = ask(served.app, "POST", "/v1/releases/pairs/lookup", body=b"".join(write_stream(table)), headers=ARROW)
    answered = read_stream(got.body, 10)
    assert answered.column_names == [*names, "estimate", "low", "high"]
    lacking = b"".join(write_stream(table.select(["other"])))
    error = ask(served.app, "POST", "/v1/releases/pairs/lookup", body=lacking, headers=ARROW).error
    assert repr(names[0]) in error


def test_a_stream_to_a_series_comes_back_with_labels(served: Running) -> None:
    table = pa.table({"estimate": ["a", "b"]})  # a name that the answer needs itself
    got = ask(served.app, "POST", "/v1/releases/days/lookup", body=b"".join(write_stream(table)), headers=ARROW)
    answered = read_stream(got.body, 10)
    assert answered.column_names == ["label", "key_estimate", "estimate", "low", "high"]
    assert answered.column("label").to_pylist() == [f"2026-11-0{day}" for day in (1, 1, 2, 2, 3, 3)]


def test_infinite_bounds_are_null(tmp_path: Path) -> None:
    crowd = {f"key {number}": 50 for number in range(2000)}
    release = sparsedp.release(crowd, epsilon=1.0, nonzero=10, mechanism="alp")
    assert np.isinf(release.interval(["a"])[1]).all()
    release.save(tmp_path / "crowded.sparsedp")
    app = running([Source.of_file(str(tmp_path / "crowded.sparsedp"))]).app
    for keys in (["a"], ["a"] * 1000):
        row = post(app, "/v1/releases/crowded/lookup", {"keys": keys}).json["results"][-1]
        assert row["high"] is None


def test_the_largest_named_keys(served: Running, folder: Path) -> None:
    release = sparsedp.load(folder / "named.sparsedp")
    got = ask(served.app, "GET", "/v1/releases/named/top?n=2&confidence=0.9").json
    ranked = release.top(2, confidence=0.9)
    assert [row["key"] for row in got["results"]] == ranked.keys
    assert [row["high"] for row in got["results"]] == ranked.high.tolist()
    listed = ask(served.app, "GET", "/v1/releases/numbers/top").json["results"]
    assert [row["key"] for row in listed] == [str(2**63), -5, 7]  # JavaScript would round the first
    assert ask(served.app, "GET", "/v1/releases/small/top?n=1").json["results"][0]["key"] == 3
    assert ask(served.app, "GET", "/v1/releases/pairs/top?n=1").json["results"][0]["key"] == ["2026-11-01", "/"]


@pytest.mark.parametrize(("name", "why"), [("visits", "hashes"), ("days", "series")])
def test_what_has_no_names_is_not_ranked(served: Running, name: str, why: str) -> None:
    got = ask(served.app, "GET", f"/v1/releases/{name}/top")
    assert got.status == 400
    assert why in got.error
    (summary,) = (own for own in ask(served.app, "GET", "/v1/releases").json["releases"] if own["name"] == name)
    assert summary["names"] is False
