"""Servers that fail, lie, or are gone, and files that changed: errors say what is wrong, and no
secret.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sparsedp
from remote_files import KEYS, NAME, SECRET
from sparsedp import FormatError, Release, RemoteError
from sparsedp.format import transport
from web import FaultyServer


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no ranges", "sends whole files only, not ranges of bytes; download the file"),
        ("compressed", "the server compresses what it sends"),
        ("another range", r"sent 'bytes \d+-\d+/\d+' for the bytes \d+-\d+"),
        ("no Content-Range", r"sent 'no Content-Range' for the bytes \d+-\d+"),
        ("short", r"cannot be read: \d+ bytes came instead of \d+, 5 times"),
        ("long", r"cannot be read: \w+, 5 times|cannot be read: \d+ bytes came instead of \d+, 5 times"),
        ("cut off", r"cannot be read: \w+, 5 times"),
    ],
)
def test_a_wrong_answer_is_an_error_at_opening_and_later(
    server: FaultyServer, folder: Path, fault: str, message: str
) -> None:
    server.fault = fault
    with pytest.raises(RemoteError, match=message):
        sparsedp.load(server.url + NAME)
    server.fault = ""
    visits = sparsedp.load(server.url + NAME)
    server.fault = fault
    with pytest.raises(RemoteError, match=message):
        visits.lookup(KEYS[:50])
    server.fault = ""
    assert np.array_equal(visits.lookup(KEYS[:50]), sparsedp.load(folder / NAME).lookup(KEYS[:50]))


@pytest.mark.parametrize(
    "version",
    [{"ETag": '"two"'}, {}, {"ETag": '"one"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}],
    ids=["another ETag", "none", "a new date"],
)
def test_a_file_that_has_changed_is_refused(server: FaultyServer, opened: Release, version: dict[str, str]) -> None:
    server.stated_version = version
    with pytest.raises(RemoteError, match="has changed since it was opened; load it again"):
        opened.lookup(KEYS[:50])
    sparsedp.load(server.url + NAME).lookup(KEYS[:50])


def test_a_file_of_another_length_has_changed(server: FaultyServer, opened: Release) -> None:
    server.fault = "another size"
    with pytest.raises(RemoteError, match="has changed since it was opened; load it again"):
        opened.lookup(KEYS[:50])


def test_silence_ends_with_an_error(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SECONDS", 0.2)
    monkeypatch.setattr(transport, "ATTEMPTS", 2)
    server.fault = "silent"
    with pytest.raises(RemoteError, match=r"cannot be read: no answer within 0\.2 seconds, 2 times"):
        sparsedp.load(server.url + NAME)


def test_a_server_that_is_gone_is_an_error(folder: Path) -> None:
    with FaultyServer(folder) as server:
        url = server.url
    with pytest.raises(RemoteError, match=r"cannot be read: .*5 times"):
        sparsedp.load(url + NAME)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_that_passes_is_not_seen(server: FaultyServer, folder: Path, status: int) -> None:
    server.fail(transport.ATTEMPTS - 1, status)
    visits = sparsedp.load(server.url + NAME)
    assert len(server.seen) >= transport.ATTEMPTS
    assert visits[3] == sparsedp.load(folder / NAME)[3]


def test_a_failure_that_stays_is_an_error(server: FaultyServer) -> None:
    server.fail(transport.ATTEMPTS, 503)
    with pytest.raises(RemoteError, match="the server answered with status 503, 5 times"):
        sparsedp.load(server.url + NAME)
    assert len(server.seen) == transport.ATTEMPTS


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (401, PermissionError, r"refuses it \(status 401\)"),
        (403, PermissionError, r"refuses it \(status 403\)"),
        (404, FileNotFoundError, "there is no such file"),
        (418, RemoteError, "answered with status 418"),
    ],
)
def test_a_refusal_is_not_asked_again(server: FaultyServer, status: int, error: type[OSError], message: str) -> None:
    server.fail(2, status)  # a file, and the same as a directory
    with pytest.raises(error, match=message):
        sparsedp.load(server.url + NAME)
    assert len(server.seen) <= 2


def test_a_file_that_is_not_a_release_is_refused(server: FaultyServer, folder: Path) -> None:
    (folder / "page.html").write_text("<html>" * 1000)
    (folder / "empty").write_bytes(b"")
    with pytest.raises(FormatError, match=r"page\.html: this is not a sparsedp release"):
        sparsedp.load(server.url + "page.html")
    with pytest.raises((RemoteError, FormatError)):
        sparsedp.load(server.url + "empty")


def test_a_cut_off_file_is_refused(server: FaultyServer, folder: Path) -> None:
    content = (folder / NAME).read_bytes()
    (folder / "cut.sparsedp").write_bytes(content[:-100])
    with pytest.raises(FormatError, match=r"cut\.sparsedp: .*cut off"):
        sparsedp.load(server.url + "cut.sparsedp")


def test_damage_is_found_where_all_of_an_array_is_read_and_otherwise_by_verify(
    server: FaultyServer, folder: Path
) -> None:
    content = bytearray((folder / NAME).read_bytes())
    sparsedp.verify(server.url + NAME)
    content[len(content) // 2] ^= 1  # in the middle of the blocks
    (folder / "damaged.sparsedp").write_bytes(content)
    damaged = sparsedp.load(server.url + "damaged.sparsedp")
    with pytest.raises(FormatError, match="fails its checksum"):
        damaged.save(folder / "copy.sparsedp")
    assert not (folder / "copy.sparsedp").exists()
    with pytest.raises(FormatError, match=r"damaged\.sparsedp: array .* fails its checksum: the file is damaged"):
        sparsedp.verify(server.url + "damaged.sparsedp")


def test_a_table_out_of_order_is_refused(server: FaultyServer, folder: Path) -> None:
    local = sparsedp.load(folder / NAME)
    ids = local.sides[0][0]["table.ids"]
    content = bytearray((folder / NAME).read_bytes())
    at = content.find(ids[:8].tobytes())
    content[at : at + ids.nbytes] = ids[::-1].tobytes()
    (folder / "shuffled.sparsedp").write_bytes(content)
    with pytest.raises(FormatError, match="the ids of a table must ascend"):
        sparsedp.load(server.url + "shuffled.sparsedp").lookup(KEYS[:50])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda server: setattr(server, "fault", "no ranges"),
        lambda server: setattr(server, "stated_version", {"ETag": "another"}),
        lambda server: server.fail(9, 403),
        lambda server: server.fail(9, 404),
        lambda server: server.fail(10**6, 500),  # each of the requests that are under way at once, every time
        lambda server: setattr(server, "fault", "cut off"),
    ],
)
def test_no_error_shows_a_secret(server: FaultyServer, spoil: Callable[[FaultyServer], None]) -> None:
    url = server.url.replace("//", f"//user:{SECRET}@") + f"{NAME}?X-Signature={SECRET}#{SECRET}"
    visits = sparsedp.load(url)
    for shown in (repr(visits), str(visits.source), repr(visits.source)):
        assert SECRET not in shown
    spoil(server)
    with pytest.raises((RemoteError, OSError)) as caught:
        visits.lookup(KEYS[:50])
    seen: BaseException | None = caught.value
    while seen is not None:
        assert SECRET not in str(seen) + repr(seen)
        assert NAME in str(seen)
        seen = None if seen.__suppress_context__ else seen.__context__
