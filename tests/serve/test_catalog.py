"""Which files are served, and how replaced ones are taken up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sparsedp
from requests_in_process import ask
from serving import running
from sparsedp import FormatError, InputError, ParameterError, ReproducibleReleaseError
from sparsedp.privacy.randomness import reproducible_for_tests
from sparsedp.serve.catalog import Catalog, Source


def save(path: Path, count: int = 1000) -> None:
    sparsedp.release({"a": count}, epsilon=10.0, nonzero=10).save(path)


def damage(path: Path) -> None:
    """Change a bit of an array, which only a complete check sees, in a file of its own."""
    content = bytearray(path.read_bytes())
    content[len(content.rstrip(b"\0")) - 1] ^= 1
    path.unlink()
    path.write_bytes(content)


def estimate(app: object, name: str = "visits") -> float:
    return float(ask(app, "GET", f"/v1/releases/{name}/lookup?key=a").json["results"][0]["estimate"])


def events(log: str) -> list[str]:
    return [line["event"] for line in map(json.loads, log.splitlines()) if line["event"] != "request"]


def test_a_replaced_file_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "visits.sparsedp"
    save(path)
    own = running([Source.of_file(str(path))])
    old = own.catalog["visits"]
    assert abs(estimate(own.app) - 1000) < 100
    own.catalog.refresh()
    assert own.catalog["visits"] is old  # nothing has changed
    save(path, 5000)
    own.catalog.refresh()
    assert abs(estimate(own.app) - 5000) < 100
    assert abs(old.first["a"] - 1000) < 100  # a request that began with it ends with it
    assert events(own.log.getvalue()) == ["reloaded"]


def test_a_damaged_file_does_not_replace_an_intact_one(tmp_path: Path) -> None:
    path = tmp_path / "visits.sparsedp"
    save(path)
    own = running([Source.of_file(str(path))])
    save(path, 5000)
    damage(path)
    own.catalog.refresh()
    own.catalog.refresh()
    assert abs(estimate(own.app) - 1000) < 100
    assert events(own.log.getvalue()) == ["not reloaded"]  # which is said once
    path.unlink()
    own.catalog.refresh()
    assert abs(estimate(own.app) - 1000) < 100
    save(path, 7000)
    own.catalog.refresh()
    assert abs(estimate(own.app) - 7000) < 100
    assert events(own.log.getvalue())[-1] == "reloaded"


def test_a_new_day_joins_its_series(tmp_path: Path) -> None:
    for day in ("2026-11-01", "2026-11-02"):
        save(tmp_path / f"{day}.sparsedp")
    own = running([Source.of_series(f"days={tmp_path}/*.sparsedp")])
    save(tmp_path / "2026-11-03.sparsedp")
    own.catalog.refresh()
    assert own.catalog["days"].summary["labels"] == ["2026-11-01", "2026-11-02", "2026-11-03"]
    save(tmp_path / "undated.sparsedp")
    own.catalog.refresh()
    assert len(own.catalog["days"].summary["labels"]) == 3
    assert events(own.log.getvalue()) == ["reloaded", "not reloaded"]


def test_a_replaced_release_of_parts_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "visits.sparsedp"
    sparsedp.release({"a": 1000}, epsilon=10.0, nonzero=10, parts=2).save(path)
    own = running([Source.of_file(str(path))])
    sparsedp.release({"a": 5000}, epsilon=10.0, nonzero=10, parts=2).save(tmp_path / "new")
    path.rename(tmp_path / "old")
    (tmp_path / "new").rename(path)
    own.catalog.refresh()
    assert abs(estimate(own.app) - 5000) < 100


def test_a_damaged_file_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "visits.sparsedp"
    save(path)
    damage(path)
    with pytest.raises(FormatError, match="checksum"):
        Catalog([Source.of_file(str(path))])
    assert len(Catalog([Source.of_file(str(path))], thorough=False)) == 1  # its header is intact
    path.write_bytes(b"no release")
    with pytest.raises(FormatError):
        Catalog([Source.of_file(str(path))], thorough=False)


def test_what_is_not_there_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Catalog([Source.of_file(str(tmp_path / "none.sparsedp"))])
    with pytest.raises(InputError, match="no release"):
        Catalog([Source.of_series(f"days={tmp_path}/*.sparsedp")])


def test_a_release_for_tests_is_served_only_if_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "visits.sparsedp"
    with reproducible_for_tests(1):
        save(path)
    with pytest.raises(ReproducibleReleaseError):
        Catalog([Source.of_file(str(path))])
    own = Catalog([Source.of_file(str(path))], allow_reproducible=True)
    assert own["visits"].summary["reproducible"]


def test_names_must_be_different_and_fit_into_a_path(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        save(tmp_path / folder / "visits.sparsedp")
    files = [Source.of_file(str(tmp_path / folder / "visits.sparsedp")) for folder in ("one", "two")]
    with pytest.raises(ParameterError, match="'visits' is that of two"):
        Catalog(files)
    for text in ("visits", "=x", "visits=", "a/b=x", "..=x", "a\n=x"):
        with pytest.raises(ParameterError):
            Source.of_series(text)
    with pytest.raises(ParameterError, match="printable"):
        Source.of_file("\udcff.sparsedp")
