"""What is an address, how it is shown, and the stores that fsspec opens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import sparsedp
from remote_files import KEYS, NAME, SECRET
from sparsedp import MissingDependencyError, RemoteError
from sparsedp.format.addresses import Address, address_of


def test_what_is_an_address() -> None:
    for path in (
        r"C:\data\visits.sparsedp",
        "C:/data",
        "c://data",
        "a:b",
        "/data/http://x",
        "visits.sparsedp",
        "s3:/x",
    ):
        assert address_of(path) is None, path
    assert address_of(Path("https://example.org/a")) is None
    for url in ("https://example.org/a", "s3://bucket/a", "memory://a", "file:///a", "simplecache::s3://bucket/a"):
        assert str(address_of(url)) == url


@pytest.mark.parametrize(
    ("full", "shown"),
    [
        ("https://user:pass@example.org/a?sig=1#x", "https://example.org/a"),
        ("https://example.org?sig=1", "https://example.org"),
        ("HTTPS://example.org/a/?sig=1", "HTTPS://example.org/a/"),
        ("simplecache::https://u:p@example.org/a?b", "simplecache::https://example.org/a"),
        ("s3://bucket/a", "s3://bucket/a"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(full: str, shown: str) -> None:
    assert str(Address(full)) == shown
    assert repr(Address(full)) == f"<Address {shown}>"


def test_a_name_below_an_address_keeps_its_query() -> None:
    assert (Address("https://h/a/?sig=1") / "b").full == "https://h/a/b?sig=1"
    assert (Address("s3://bucket/a/") / "b").full == "s3://bucket/a/b"
    assert Address("https://h/a/?sig=1").is_directory
    assert not Address("https://h/a?sig=/").is_directory


@pytest.fixture
def memory(folder: Path) -> Iterator[Any]:
    """Files that fsspec keeps in memory, with the same releases."""
    system = fsspec.filesystem("memory")
    system.pipe_file(f"/{NAME}", (folder / NAME).read_bytes())
    for file in (folder / "in.parts").iterdir():
        system.pipe_file(f"/in.parts/{file.name}", file.read_bytes())
    yield system
    system.rm("/", recursive=True)


@pytest.mark.usefixtures("memory")
def test_any_store_of_fsspec_will_do(folder: Path) -> None:
    local, keys = sparsedp.load(folder / NAME), KEYS[:3000:7]
    for url in (f"memory://{NAME}", f"file://{folder / NAME}"):
        assert np.array_equal(sparsedp.load(url).lookup(keys), local.lookup(keys))
        sparsedp.verify(url)
    parts = sparsedp.load(folder / "in.parts", allow_reproducible=True)
    for url in ("memory://in.parts", "memory://in.parts/", f"file://{folder / 'in.parts'}"):
        assert np.array_equal(sparsedp.load(url, allow_reproducible=True).lookup(keys), parts.lookup(keys))
        sparsedp.verify(url)
    with pytest.raises(FileNotFoundError, match="memory://nothing"):
        sparsedp.load("memory://nothing")


def test_a_file_of_a_store_that_has_changed_is_refused(memory: Any, folder: Path) -> None:
    visits = sparsedp.load(f"memory://{NAME}")
    memory.pipe_file(f"/{NAME}", (folder / NAME).read_bytes())  # at another time
    with pytest.raises(RemoteError, match="has changed since it was opened"):
        visits.lookup(KEYS[:50])


def test_a_store_that_fails_is_asked_again(memory: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, asked, failing = type(memory), [0], [3]
    whole = kind.cat_ranges

    def flaky(*arguments: Any, **options: Any) -> Any:
        asked[0] += 1
        if failing[0]:
            failing[0] -= 1
            raise RuntimeError(f"https://example.org/?key={SECRET}")
        return whole(*arguments, **options)

    monkeypatch.setattr(kind, "cat_ranges", flaky)
    visits = sparsedp.load(f"memory://{NAME}")
    assert visits[3] == sparsedp.load(folder / NAME)[3]
    failing[0] = 99
    with pytest.raises(RemoteError, match=f"{NAME} cannot be read: RuntimeError, 5 times") as caught:
        visits.lookup(KEYS[:50])
    assert SECRET not in str(caught.value)
    monkeypatch.setattr(kind, "cat_ranges", lambda *arguments, **options: [b""] * len(arguments[1]))
    with pytest.raises(RemoteError, match=r"sent 0 bytes instead of the 8192 from 0 on"):
        sparsedp.load(f"memory://{NAME}")


def test_without_fsspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDependencyError, match=r"remote files need fsspec: pip install 'sparsedp\[remote\]'"):
        sparsedp.load("https://example.org/visits.sparsedp")


def test_without_the_package_of_a_store_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str) -> Any:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(
        MissingDependencyError, match=r"s3://bucket/a needs another package for fsspec: .*install s3fs$"
    ):
        sparsedp.load("s3://bucket/a")
    with pytest.raises(MissingDependencyError, match=r"pip install 'sparsedp\[remote\]'"):
        sparsedp.load("https://example.org/a")


def test_an_unknown_kind_of_address_is_an_error() -> None:
    with pytest.raises(RemoteError, match="fsspec knows no addresses such as nonsense://x"):
        sparsedp.load("nonsense://x")
