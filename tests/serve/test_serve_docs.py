"""The requests on the page of the service are answered as shown, up to noise."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparsedp
from requests_in_process import ask
from serving import Running, running
from sparsedp import demo
from sparsedp.serve.catalog import Source
from sparsedp.serve.streams import read_stream

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
REQUESTS = re.findall(r"^```http\n(\w+) (\S+)\n(.*?)```$(?:\n\n```json\n(.*?)^```$)?", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Running:
    folder = tmp_path_factory.mktemp("page")
    demo.write_log(folder / "visits.csv")
    counts = sparsedp.count(folder / "visits.csv", key="url", user="user", max_keys_per_user=20)
    sparsedp.release(counts, epsilon=1.0, nonzero=20_000).save(folder / "visits.sparsedp")
    return running([Source.of_file(str(folder / "visits.sparsedp"))])


@pytest.mark.parametrize(("method", "target", "body", "shown"), REQUESTS)
def test_a_request_of_the_page(visits: Running, method: str, target: str, body: str, shown: str) -> None:
    got = ask(visits.app, method, target, body=body.encode(), headers={"content-type": "application/json"}).json
    if shown:
        assert near(json.loads(shown), got), got
    else:
        assert len(got["results"]) == len(json.loads(body)["keys"])


def near(shown: Any, got: Any) -> bool:
    """Whether two values of JSON are the same, or about the same where there is noise."""
    if isinstance(shown, dict):
        return shown.keys() == got.keys() and all(near(shown[name], got[name]) for name in shown)
    if isinstance(shown, list):
        return len(shown) == len(got) and all(map(near, shown, got))
    if isinstance(shown, float):
        return bool(abs(shown - got) < 1000)  # noise of scale 20
    return bool(shown == got)


def test_the_stream_of_the_page(visits: Running) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(text, names)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    got = ask(visits.app, "POST", "/v1/releases/visits/lookup?confidence=0.95", body=names["body"], headers=headers)
    assert read_stream(got.body, 10).column("url").equals(pa.chunked_array([["/", "/page/2", "/nowhere"]]))


def test_the_page_has_requests() -> None:
    assert len(REQUESTS) >= 3
