"""A request may name the columns of its answer: nothing else is computed or sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

import sparsedp
from requests_in_process import ask, post
from serving import Running
from sparsedp.serve.streams import read_stream, write_stream

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}

SOME = ["estimate", "key,estimate", "low", "high,low", "key", "key,estimate,low,high", " key , high"]


@pytest.mark.parametrize("keys", [["a", "ü"], [f"key {at}" for at in range(200)]])
@pytest.mark.parametrize("columns", SOME)
def test_an_answer_has_the_columns_that_are_asked_for(served: Running, keys: list[str], columns: str) -> None:
    # Few and many keys are written in different ways.
    whole = post(served.app, "/v1/releases/visits/lookup", {"keys": keys}).json["results"]
    names = [name.strip() for name in columns.split(",")]
    got = post(served.app, f"/v1/releases/visits/lookup?columns={quote(columns)}", {"keys": keys})
    assert got.json["results"] == [{name: row[name] for name in row if name in names} for row in whole]
    repeated = "&".join(f"columns={name}" for name in names)
    asked = "&".join(f"key={quote(key)}" for key in keys)
    assert ask(served.app, "GET", f"/v1/releases/visits/lookup?{asked}&{repeated}").json == got.json


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("columns", SOME)
def test_points_of_a_series_have_the_columns_that_are_asked_for(served: Running, count: int, columns: str) -> None:
    keys = ["a", "b"] * count
    whole = post(served.app, "/v1/releases/days/lookup", {"keys": keys}).json["results"]
    got = post(served.app, f"/v1/releases/days/lookup?columns={quote(columns)}", {"keys": keys}).json["results"]
    for row, part in zip(whole, got, strict=True):
        assert part.pop("key", None) == (row["key"] if "key" in columns else None)
        points = [
            {name: point[name] for name in point if name == "label" or name in columns} for point in row["points"]
        ]
        assert part == {"points": points}


@pytest.mark.parametrize("columns", SOME)
@pytest.mark.parametrize("name", ["visits", "days", "pairs"])
def test_a_stream_has_the_columns_that_are_asked_for(served: Running, name: str, columns: str) -> None:
    asked = {"url": ["a", "b", "nobody"]}
    if name == "pairs":
        asked = {"key1": ["2026-11-01", "2026-11-02"], "key2": ["/", "/"]}
    body = b"".join(write_stream(pa.table(asked)))
    path = f"/v1/releases/{name}/lookup"
    whole = read_stream(ask(served.app, "POST", path, body=body, headers=ARROW).body, 10)
    got = ask(served.app, "POST", f"{path}?columns={quote(columns)}", body=body, headers=ARROW)
    names = [own.strip() for own in columns.split(",")]
    kept = {*names, "label", *(asked if "key" in names else ())}
    assert read_stream(got.body, 10).equals(whole.select([own for own in whole.column_names if own in kept]))


def test_intervals_that_nobody_asks_for_are_not_computed(
    served: Running, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("an interval was computed")

    monkeypatch.setattr(sparsedp.Release, "answer", refuse)
    monkeypatch.setattr(sparsedp.Release, "interval", refuse)
    got = ask(served.app, "GET", "/v1/releases/visits/lookup?key=a&columns=estimate").json["results"]
    assert got == [{"estimate": sparsedp.load(folder / "visits.sparsedp")["a"]}]


def test_no_keys_have_no_answers_in_any_columns(served: Running) -> None:
    path = "/v1/releases/visits/lookup?columns=estimate"
    assert post(served.app, path, {"keys": []}).json["results"] == []
    empty = write_stream(pa.table({"key": pa.array([], pa.string())}))
    got = ask(served.app, "POST", path, body=b"".join(empty), headers=ARROW)
    assert read_stream(got.body, 0).column_names == ["estimate"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("columns=", "columns must be some of key, estimate, low, high, got ''"),
        ("columns=estimate,", "columns must be some of key, estimate, low, high, got ''"),
        ("columns=estimates", "columns must be some of key, estimate, low, high, got 'estimates'"),
        ("columns=label", "columns must be some of key, estimate, low, high, got 'label'"),
        ("columns=low,low", "columns must name each column once, got 'low' again"),
        ("columns=low&columns=low", "columns must name each column once, got 'low' again"),
    ],
)
def test_columns_that_no_answer_has_are_refused(served: Running, columns: str, message: str) -> None:
    for got in (
        ask(served.app, "GET", f"/v1/releases/visits/lookup?key=a&{columns}"),
        post(served.app, f"/v1/releases/visits/lookup?{columns}", {"keys": ["a"]}),
        ask(served.app, "POST", f"/v1/releases/days/lookup?{columns}", body=b"?", headers=ARROW),
    ):
        assert (got.status, got.error) == (400, message)
