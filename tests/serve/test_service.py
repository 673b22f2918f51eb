"""What the service says of itself and of its releases, and what surrounds every answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sparsedp
from requests_in_process import ask, post
from serving import Running, running
from sparsedp.releasing.describing import description_of
from sparsedp.serve import pages
from sparsedp.serve.catalog import Source

PATHS = (
    "/healthz",
    "/v1/releases",
    "/v1/releases/visits",
    "/v1/releases/visits/lookup?key=a",
    "/v1/releases/named/top",
    "/v1/plan",
    "/v1/compare",
)


def test_health(served: Running) -> None:
    assert ask(served.app, "GET", "/healthz").json == {
        "status": "ok",
        "version": sparsedp.__version__,
        "releases": len(served.catalog),
    }


def test_the_list_has_everything_in_its_order(served: Running, sources: list[Source], folder: Path) -> None:
    got = ask(served.app, "GET", "/v1/releases").json
    assert got["title"] == "Our counts"
    assert [own["name"] for own in got["releases"]] == [source.name for source in sources]
    by_name = {own["name"]: own for own in got["releases"]}
    visits, release = by_name["visits"], sparsedp.load(folder / "visits.sparsedp")
    assert (visits["kind"], visits["labels"], visits["names"]) == ("release", None, False)
    assert (visits["epsilon"], visits["delta"], visits["nbytes"]) == (release.epsilon, release.delta, release.nbytes)
    assert visits["keys"] == [{"name": None, "kind": "text"}]
    assert "factor" in visits["guarantee"]
    assert [column["kind"] for column in by_name["pairs"]["keys"]] == ["text", "text"]
    assert by_name["numbers"]["keys"][0]["kind"] == "integer"
    assert by_name["named"]["names"]
    days = by_name["days"]
    assert (days["kind"], days["labels"]) == ("series", ["2026-11-01", "2026-11-02", "2026-11-03"])
    assert days["epsilon"] == sparsedp.series(folder / "days").epsilon


def test_one_of_them_is_described_as_by_info(served: Running, folder: Path) -> None:
    path = folder / "visits.sparsedp"
    got = ask(served.app, "GET", "/v1/releases/visits").json
    assert got["plan"] == json.loads(json.dumps(description_of(sparsedp.load(path), path.stat().st_size)))
    days = ask(served.app, "GET", "/v1/releases/days").json
    assert days["plan"]["guarantee"] == sparsedp.series(folder / "days").guarantee
    assert [own["label"] for own in days["plan"]["releases"]] == days["labels"]


def test_names_are_those_of_files_and_may_have_any_letters(tmp_path: Path) -> None:
    name = "Besuche pro Tag? 50 % #1"
    sparsedp.release({"a": 1}, epsilon=1.0, nonzero=10).save(tmp_path / f"{name}.sparsedp")
    own = running([Source.of_file(str(tmp_path / f"{name}.sparsedp"))])
    assert ask(own.app, "GET", "/v1/releases").json["releases"][0]["name"] == name
    assert ask(own.app, "GET", "/v1/releases/Besuche%20pro%20Tag%3F%2050%20%25%20%231").json["name"] == name


def test_every_path_has_a_description_with_an_example_of_its_form(served: Running) -> None:
    described = ask(served.app, "GET", "/openapi.json").json
    for target in PATHS:
        path = target.partition("?")[0].replace("/visits", "/{name}").replace("/named", "/{name}")
        operation = described["paths"][path]["get"]
        assert "422" not in operation["responses"]  # which is never answered
        example = operation["responses"]["200"]["content"]["application/json"]["example"]
        assert shape(example) == shape(ask(served.app, "GET", target).json), target
    posted = described["paths"]["/v1/releases/{name}/lookup"]["post"]
    assert set(posted["requestBody"]["content"]) == {"application/json", "application/vnd.apache.arrow.stream"}
    example = posted["requestBody"]["content"]["application/json"]["example"]
    assert post(served.app, "/v1/releases/visits/lookup", example).status == 200


def shape(value: Any, depth: int = 3) -> Any:
    """The names of fields, inside of each other; of lists, those of their first entry."""
    if isinstance(value, dict) and depth:
        return {name: shape(own, depth - 1) for name, own in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shape(value[0], depth - 1)]
    return None


@pytest.mark.parametrize("target", [*PATHS, "/", "/planner", "/nowhere", "/static/nothing", "/v1/plan?epsilon=no"])
def test_every_answer_has_headers_that_keep_browsers_safe(served: Running, target: str) -> None:
    headers = ask(served.app, "GET", target).headers
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert not any(name.startswith("access-control") for name in headers)
    assert "cache-control" in headers


@pytest.mark.parametrize("target", PATHS)
def test_head_has_the_headers_of_get_and_no_body(served: Running, target: str) -> None:
    head, get = (ask(served.app, method, target) for method in ("HEAD", "GET"))
    assert (head.status, head.headers, head.body) == (get.status, get.headers, b"")


def test_options_and_other_methods(served: Running) -> None:
    told = ask(served.app, "OPTIONS", "/v1/releases/visits/lookup")
    assert (told.status, told.headers["allow"], told.body) == (204, "GET, HEAD, OPTIONS, POST", b"")
    for method in ("DELETE", "PUT", "PATCH", "TRACE", "QUERY"):
        refused = ask(served.app, method, "/v1/releases/visits")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert method in refused.error


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil:8000", "127.0.0.1, x"])
def test_a_page_of_another_site_whose_name_leads_here_reads_nothing(served: Running, host: str) -> None:
    got = ask(served.app, "GET", "/v1/releases", headers={"host": host})
    assert got.status == 400
    assert "--allow-host" in got.error


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "[::1]"])
def test_names_of_this_machine_are_answered_to(served: Running, host: str) -> None:
    assert ask(served.app, "GET", "/healthz", headers={"host": host}).status == 200


def test_the_log_has_no_keys_unless_asked_for(served: Running) -> None:
    secret = "secret-key"
    for log_keys in (False, True):
        own = running(served.catalog, log_keys=log_keys)
        ask(own.app, "GET", f"/v1/releases/named/lookup?key={secret}")
        post(own.app, "/v1/releases/named/lookup", {"keys": [secret, "b"]})
        post(own.app, "/v1/releases/named/lookup", {"keys": [secret, 5]})
        ask(own.app, "GET", f"/{secret}?{secret}")
        lines = [json.loads(line) for line in own.log.getvalue().splitlines()]
        assert [line["status"] for line in lines] == [200, 200, 400, 404]
        assert [line["keys"] for line in lines] == [1, 2, 2, 0]
        assert [line["path"] for line in lines] == ["/v1/releases/{name}/lookup"] * 3 + [None]
        assert all(line["ms"] >= 0 and line["event"] == "request" for line in lines)
        assert (secret in own.log.getvalue()) == log_keys


def test_a_bug_is_an_answer_without_a_traceback(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    own = running(served.catalog)

    def fail(*_: object) -> None:
        raise RuntimeError("secret-key")

    monkeypatch.setattr("sparsedp.serve.answering.as_json", fail)
    got = ask(own.app, "GET", "/v1/releases/visits/lookup?key=a")
    assert got.status == 500
    assert "bug" in got.error
    failure, line = map(json.loads, own.log.getvalue().splitlines())
    assert (failure["event"], failure["error"]) == ("failure", "RuntimeError")
    assert line["status"] == 500
    assert "secret-key" not in got.body.decode() + own.log.getvalue()


def test_the_pages_and_their_files_are_cached_by_their_content(served: Running) -> None:
    for target in ("/", "/planner", *(f"/static/{path.name}" for path in pages.FOLDER.iterdir() if path.is_file())):
        got = ask(served.app, "GET", target)
        assert got.status == 200
        again = ask(served.app, "GET", target, headers={"if-none-match": f'"other", {got.headers["etag"]}'})
        assert (again.status, again.body) == (304, b"")
        packed = ask(served.app, "GET", target, headers={"accept-encoding": "gzip"})
        if "content-encoding" in packed.headers:
            assert packed.headers["etag"] != got.headers["etag"]


@pytest.mark.parametrize("name", pages.VENDORED)
def test_charts_come_from_an_installed_package(served: Running, name: str) -> None:
    got = ask(served.app, "GET", f"/static/{name}")
    assert (got.status, got.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert len(got.body) > 10**4


def test_without_releases_the_first_page_is_the_planner() -> None:
    own = running([])
    got = ask(own.app, "GET", "/")
    assert (got.status, got.headers["location"]) == (307, "/planner")
    assert ask(own.app, "GET", "/v1/releases").json["releases"] == []
    assert ask(own.app, "GET", "/v1/releases/a").status == 404
