"""Whatever comes in, the answer is a result or a refusal that says what to do: never a traceback, and
never more work than the limits allow.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from requests_in_process import Answer, ask, asked, post
from serving import Running, running
from sparsedp.serve.limits import Limits
from sparsedp.serve.streams import write_stream

LOOKUP = "/v1/releases/visits/lookup"
JSON, ARROW = {"content-type": "application/json"}, {"content-type": "application/vnd.apache.arrow.stream"}


def refused(got: Answer, status: int, words: str) -> None:
    assert got.status == status
    assert words in got.error
    assert "Traceback" not in got.error


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"[1, 2]", '{"keys"'),
        (b"\xff\xfe", "UTF-8"),
        (b'{"keys": 5}', "a list of keys, got a number (5)"),
        (b'{"keys": "abc"}', "a list of keys"),
        (b"{}", "got nothing"),
        (b'{"keys": ["a"], "confidance": 0.9}', "confidance"),
        (b'{"keys": ["a"], "confidence": 2}', "in (0, 1)"),
        (b'{"keys": ["a"], "confidence": true}', "in (0, 1)"),
        (b'{"keys": ["a"], "confidence": "0.9"}', "in (0, 1)"),
        (b'{"keys": ["a"], "confidence": NaN}', "NaN"),
        (b'{"keys": ["a"], "confidence": 1e999}', "in (0, 1)"),
        (b'{"keys": ["a", null]}', "position 1 must be text, got nothing"),
        (b'{"keys": ["a", 5]}', "position 1 must be text, got a number (5)"),
        (b'{"keys": [["a"]]}', "position 0 must be text, got a list"),
        (b'{"keys": [{"a": 1}]}', "an object"),
        (b'{"keys": [true]}', "truth value"),
        (b'{"keys": ["\\ud800"]}', "lone surrogate"),
        (b'{"keys": [' + b"9" * 10_000 + b"]}", "4300 digits"),
        (b"[" * 200_000, "brackets"),
        (b'{"keys": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "brackets"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else "",
)
def test_a_body_that_is_not_a_list_of_keys(served: Running, body: bytes, words: str) -> None:
    refused(ask(served.app, "POST", LOOKUP, body=body, headers=JSON), 400, words)


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("numbers", [1.5], "an integer"),
        ("numbers", [True], "an integer"),
        ("numbers", [2**64], "64-bit"),
        ("numbers", ["0x10"], "64-bit"),
        ("numbers", [1, "x"], "64-bit"),
        ("bytes", [{"base64": "?"}], "base64"),
        ("bytes", [{"base64": "AP8=", "more": 1}], "base64"),
        ("bytes", [{"base64": 5}], "base64"),
        ("pairs", ["a"], "JSON array of 2 values"),
        ("pairs", [["a"]], "got 1 values"),
        ("pairs", [["a", 5]], "in column"),
        ("pairs", [{"a": "b"}], "JSON array"),
    ],
)
def test_keys_of_another_kind(served: Running, name: str, keys: list[Any], words: str) -> None:
    refused(post(served.app, f"/v1/releases/{name}/lookup", {"keys": keys}), 400, words)


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        (LOOKUP, 400, "no key"),
        (f"{LOOKUP}?key=a&confidence=0", 400, "confidence must be greater than 0"),
        (f"{LOOKUP}?key=a&confidence=nan", 400, "confidence"),
        (f"{LOOKUP}?key=a&confidence=x", 400, "confidence must be a valid number"),
        (f"{LOOKUP}?key=a&confidence=0.9&confidence=0.8", 400, "once"),
        (f"{LOOKUP}?keys=a", 400, "there are: key, columns, confidence"),
        (f"{LOOKUP}?key=%ff", 400, "UTF-8"),
        (f"{LOOKUP}?key=\xff", 400, "UTF-8"),
        ("/v1/releases/pairs/lookup?key=a", 400, "JSON array"),
        ("/v1/releases/pairs/lookup?key=[NaN,1]", 400, "JSON array"),
        ("/v1/releases/nothing/lookup?key=a", 404, "'nothing'"),
        ("/v1/releases/nothing", 404, "'visits'"),
        ("/v1/releases/..%2f..%2fetc%2fpasswd", 404, ""),
        ("/v1/releases/visits/", 404, ""),
        ("/v1/releases/named/top?n=0", 400, "n must be greater"),
        ("/v1/releases/named/top?n=1e9", 400, "n must be"),
        ("/v1/releases/named/top?n=2.5", 400, "n must be"),
        ("/healthz?x=1", 400, "no parameter"),
        ("/docs", 404, "openapi.json"),
    ],
)
def test_a_query_that_is_wrong(served: Running, target: str, status: int, words: str) -> None:
    refused(ask(served.app, "GET", target), status, words)


@pytest.mark.parametrize(
    "name",
    ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "....//app.py", "/etc/passwd", "%00", "a%00.js", ".", "", "x" * 5000,
     "pages/../../app.py", "..\\app.py", "index.html/", "__pycache__"],
)  # fmt: skip
def test_only_files_of_the_pages_are_served(served: Running, name: str) -> None:
    refused(ask(served.app, "GET", f"/static/{name}"), 404, "")


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "a" * 5000]
)
def test_another_type_of_body(served: Running, kind: str) -> None:
    refused(ask(served.app, "POST", LOOKUP, body=b"{}", headers={"content-type": kind}), 415, "application/json")


def test_the_type_of_a_body_may_have_parameters(served: Running) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert ask(served.app, "POST", LOOKUP, body=b'{"keys": ["a"]}', headers=headers).status == 200


def test_a_compressed_body(served: Running) -> None:
    packed = gzip.compress(b'{"keys": ["a"]}')
    got = ask(served.app, "POST", LOOKUP, body=packed, headers={**JSON, "content-encoding": "gzip"})
    refused(got, 415, "must not be compressed")


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_buffers_in_a_stream_are_not_unpacked(served: Running, codec: str) -> None:
    for column in (pa.array(["a"] * 10_000), pa.array(["a"] * 10_000).dictionary_encode()):
        table = pa.table({"key": column})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_table(table)
        got = ask(served.app, "POST", LOOKUP, body=sink.getvalue().to_pybytes(), headers=ARROW)
        refused(got, 400, "compress")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([1, 2]), ""),
        (pa.array([1.5]), ""),
        (pa.array(["a", None]), "position 1"),
        (pa.array([["a"]]), ""),
        (pa.array([{"a": 1}]), ""),
        (pa.nulls(3), ""),
    ],
)
def test_streams_with_other_columns(served: Running, column: pa.Array, words: str) -> None:
    body = b"".join(write_stream(pa.table({"key": column})))
    refused(ask(served.app, "POST", LOOKUP, body=body, headers=ARROW), 400, words)


def test_a_stream_of_several_columns_must_say_which(served: Running) -> None:
    body = b"".join(write_stream(pa.table({"x": ["a"], "y": ["a"]})))
    refused(ask(served.app, "POST", LOOKUP, body=body, headers=ARROW), 400, "'key'")


def test_a_stream_with_a_column_twice(served: Running) -> None:
    table = pa.Table.from_arrays([pa.array([text]) for text in ("/", "/", "x")], ["key1", "key2", "key1"])
    got = ask(served.app, "POST", "/v1/releases/pairs/lookup", body=b"".join(write_stream(table)), headers=ARROW)
    refused(got, 400, "several columns 'key1'")


def test_times_that_python_lacks_are_refused_also_by_a_service_that_logs_keys(served: Running) -> None:
    own = running(served.catalog, log_keys=True)
    times = pa.array([1 << 62]).view(pa.timestamp("s"))
    body = b"".join(write_stream(pa.table({"key": times})))
    refused(ask(own.app, "POST", LOOKUP, body=body, headers=ARROW), 400, "")
    assert "timestamp[s]" in own.log.getvalue()


def test_a_stream_that_is_cut_off_anywhere(served: Running) -> None:
    whole = b"".join(write_stream(pa.table({"key": ["a", "b"]})))
    for length in range(0, len(whole), 5):
        refused(ask(served.app, "POST", LOOKUP, body=whole[:length], headers=ARROW), 400, "complete")


@given(st.data())
@settings(max_examples=60)
def test_a_stream_with_changed_bytes(served: Running, data: st.DataObject) -> None:
    whole = bytearray(b"".join(write_stream(pa.table({"key": pa.array(["a", "b"]).dictionary_encode()}))))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    got = ask(served.app, "POST", LOOKUP, body=bytes(whole), headers=ARROW)
    assert got.status in (200, 400, 413), got


TREES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(TREES, st.sampled_from(["visits", "numbers", "bytes", "pairs", "days", "small"]))
@settings(max_examples=80)
def test_any_json(served: Running, value: Any, name: str) -> None:
    for body in (value, {"keys": value}, {"keys": [value]}, {"keys": [[value, value]]}):
        got = post(served.app, f"/v1/releases/{name}/lookup", body)
        assert got.status == 200 or (got.status == 400 and got.error), got


def test_a_hundred_thousand_keys_in_a_query(served: Running) -> None:
    got = ask(served.app, "GET", f"{LOOKUP}?{'&'.join(['key=a'] * 10**5)}")
    assert len(got.json["results"]) == 10**5


@pytest.fixture
def small(served: Running) -> Running:
    return running(served.catalog, Limits(body=1000, keys=10, seconds=60, requests=2))


def test_the_limit_of_keys(small: Running) -> None:
    refused(post(small.app, LOOKUP, {"keys": ["a"] * 11}), 413, "at most 10 keys")
    refused(ask(small.app, "GET", f"{LOOKUP}?{'&'.join(['key=a'] * 11)}"), 413, "at most 10 keys")
    refused(post(small.app, "/v1/releases/days/lookup", {"keys": ["a"] * 4}), 413, "here 3")
    body = b"".join(write_stream(pa.table({"key": ["a"] * 11})))
    refused(ask(small.app, "POST", LOOKUP, body=body, headers=ARROW), 413, "at most 10 keys")
    assert post(small.app, LOOKUP, {"keys": ["a"] * 10}).status == 200


def test_rows_that_take_no_bytes_are_counted_too(served: Running) -> None:
    body = b"".join(write_stream(pa.table({"key": pa.nulls(2_000_000)})))
    refused(ask(served.app, "POST", LOOKUP, body=body, headers=ARROW), 413, "at most 1000000 keys")


@pytest.mark.parametrize("pieces", [[b"x" * 2000], [b"x" * 100] * 20], ids=["whole", "pieces"])
def test_the_limit_of_bytes(small: Running, pieces: list[bytes]) -> None:
    refused(ask(small.app, "POST", LOOKUP, body=pieces, headers=JSON), 413, "at most 1000 bytes")


def test_a_client_that_goes_away_frees_its_place(small: Running) -> None:
    async def leave() -> None:
        for _ in range(5):
            body = [b'{"keys": [']
            await asked(small.app, "POST", LOOKUP, body=body, headers=JSON, leaves=True)

    asyncio.run(leave())
    assert post(small.app, LOOKUP, {"keys": ["a"]}).status == 200


class Stuck:
    """Work that ends when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.end, self.begun = threading.Event(), threading.Semaphore(0)
        monkeypatch.setattr("sparsedp.serve.answering.as_json", self._work)

    def _work(self, *_: object) -> bytes:
        self.begun.release()
        assert self.end.wait(60)
        return b"{}"

    async def wait(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.begun.acquire)


def test_requests_beyond_the_limit_are_refused_and_the_others_end(
    small: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Stuck(monkeypatch)

    async def crowd() -> tuple[list[Answer], Answer, Answer]:
        waiting = [asyncio.create_task(asked(small.app, "GET", f"{LOOKUP}?key=a")) for _ in range(2)]
        for _ in waiting:
            await work.wait()
        third, health = [await asked(small.app, "GET", path) for path in (f"{LOOKUP}?key=a", "/healthz")]
        work.end.set()
        return [await task for task in waiting], third, health

    others, third, health = asyncio.run(crowd())
    refused(third, 503, "2 requests")
    assert third.headers["retry-after"] == "1"
    assert health.status == 200  # which is never too busy
    assert [own.status for own in others] == [200, 200]
    monkeypatch.undo()
    assert ask(small.app, "GET", f"{LOOKUP}?key=a").status == 200


def test_work_that_takes_too_long_is_given_up_and_keeps_its_place(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = running(served.catalog, Limits(seconds=0.2, requests=1))
    work = Stuck(monkeypatch)

    async def wait() -> tuple[Answer, Answer, Answer]:
        slow = await asked(own.app, "GET", f"{LOOKUP}?key=a")
        next_one = await asked(own.app, "GET", f"{LOOKUP}?key=a")
        work.end.set()
        while (last := await asked(own.app, "GET", f"{LOOKUP}?key=a")).status == 503:
            await asyncio.sleep(0.01)
        return slow, next_one, last

    slow, next_one, last = asyncio.run(wait())
    refused(slow, 503, "0.2 s")
    refused(next_one, 503, "1 requests")
    assert last.status == 200


def test_a_body_that_comes_too_slowly(served: Running) -> None:
    own = running(served.catalog, Limits(seconds=0.2))
    got = asyncio.run(asked(own.app, "POST", LOOKUP, body=[b"{"], headers=JSON, stays=True))
    refused(got, 503, "faster")


def test_a_damaged_array_is_not_an_answer(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from sparsedp.errors import FormatError

    def fail(*_: object) -> None:
        raise FormatError("table.ids must ascend")

    own = running(served.catalog)
    monkeypatch.setattr("sparsedp.serve.answering.as_json", fail)
    refused(ask(own.app, "GET", f"{LOOKUP}?key=a"), 500, "damaged")


def test_memory_that_is_not_there(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    own = running(served.catalog)
    monkeypatch.setattr("sparsedp.serve.answering.as_json", fail)
    refused(ask(own.app, "GET", f"{LOOKUP}?key=a"), 503, "memory")


def test_json_of_errors_is_json_whatever_was_asked(served: Running, tmp_path: Path) -> None:
    got = ask(served.app, "GET", "/v1/releases/%22%5C%0a%F0%9F%98%80/lookup?key=a")
    assert json.loads(got.body)["error"].startswith("there is no release")


@pytest.mark.parametrize("type", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    ("ends", "letters"),
    [
        ([0, 1, 2], b"a\xff"),
        ([0, 1, 2], "ü".encode()),  # cut in the middle of a letter
        ([0, 90, 2], b"ab"),
        ([0, -1, 2], b"ab"),
        ([-1, 1, 2], b"ab"),
        ([0, 1, 3], b"ab"),
    ],
)
def test_text_that_is_none_is_refused(served: Running, type: pa.DataType, ends: list[int], letters: bytes) -> None:
    # Catches a check of bytes alone, one of letters that forgets where keys end, and one that forgets
    # the first and the last end. pyarrow does not write all of them, so ends are put in afterwards.
    kind = np.int64 if pa.types.is_large_string(type) else np.int32
    whole, wrong = np.array([0, 1, 2], kind).tobytes(), np.array(ends, kind).tobytes()
    keys = pa.Array.from_buffers(type, 2, [None, pa.py_buffer(whole), pa.py_buffer(letters)])
    before, _, after = b"".join(write_stream(pa.table({"url": keys}))).rpartition(whole)
    body = before + wrong + after
    refused(ask(served.app, "POST", LOOKUP, body=body, headers=ARROW), 400, "complete Arrow stream")
