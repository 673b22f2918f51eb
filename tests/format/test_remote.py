"""Remote files: the bytes that were asked for, of the file that was opened, or an error that says
what is wrong.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import sparsedp
from commands import Command
from releases import make
from sparsedp import FormatError, MissingDependencyError, ParameterError, Release, RemoteError
from sparsedp.format import remote, transport
from sparsedp.format.addresses import Address, address_of
from web import FaultyServer

NAME = "visits.sparsedp"
KEYS = np.arange(40_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose arrays are long enough to be read in pieces, and one in parts."""
    folder = tmp_path_factory.mktemp("served")
    options: dict[str, Any] = {"epsilon": 1.0, "nonzero": len(KEYS)}
    sparsedp.release((KEYS, 1 + 400 * (KEYS % 50 == 0)), **options).save(folder / NAME)
    make("tight-alp-parts").save(folder / "in.parts")
    return folder


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.0)


@pytest.fixture
def server(folder: Path) -> Iterator[FaultyServer]:
    with FaultyServer(folder) as serving:
        yield serving
        serving.released.set()


@pytest.fixture
def opened(server: FaultyServer) -> Release:
    return sparsedp.load(server.url + NAME)


def test_opening_and_asking_read_little(server: FaultyServer, folder: Path) -> None:
    visits, local = sparsedp.load(server.url + NAME), sparsedp.load(folder / NAME)
    requests, sent = server.moved()
    assert requests <= 5
    assert sent < 32 << 10
    assert visits[77] == local[77]
    requests, sent = server.moved()
    assert requests <= 20  # and mostly four
    assert sent < 16 << 10
    assert np.array_equal(visits.lookup([77, 100]), local.lookup([77, 100]))
    assert server.moved()[1] < 16 << 10
    assert np.array_equal(visits.lookup([77, 100]), local.lookup([77, 100]))
    assert server.moved() == (0, 0)  # they are here
    assert repr(visits) == repr(local)
    assert visits.nbytes == local.nbytes
    assert visits.stored_count == len(local.stored().keys)
    assert server.moved() == (0, 0)


def test_neighbours_share_a_range(server: FaultyServer, opened: Release, folder: Path) -> None:
    server.moved()
    assert np.array_equal(opened.lookup(KEYS), sparsedp.load(folder / NAME).lookup(KEYS))
    requests, sent = server.moved()
    assert requests < 2000
    assert sent <= (folder / NAME).stat().st_size


def test_no_range_is_longer_than_allowed(server: FaultyServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LONGEST", 4096)
    visits = sparsedp.load(server.url + NAME)
    assert np.array_equal(visits.stored().keys, sparsedp.load(folder / NAME).stored().keys)
    ends = [seen["Range"].removeprefix("bytes=").split("-") for seen in server.seen[1:]]
    assert max(int(last) - int(first) + 1 for first, last in ends) == 4096


def test_requests_ask_for_the_bytes_as_they_are(server: FaultyServer, opened: Release) -> None:
    assert {seen["Accept-Encoding"] for seen in server.seen} == {"identity"}


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


def test_what_needs_everything_reads_everything(opened: Release, folder: Path, tmp_path: Path) -> None:
    local = sparsedp.load(folder / NAME)
    assert str(opened.top(5)) == str(local.top(5))
    for mine, other in zip(opened.stored(), local.stored(), strict=True):
        assert np.array_equal(mine, other)
    opened.save(tmp_path / "copy.sparsedp")
    assert (tmp_path / "copy.sparsedp").read_bytes() == (folder / NAME).read_bytes()


def test_a_directory_of_parts_is_opened_with_or_without_a_slash(server: FaultyServer, folder: Path) -> None:
    local = sparsedp.load(folder / "in.parts", allow_reproducible=True)
    keys = np.arange(300)
    for url in (server.url + "in.parts/", server.url + "in.parts", server.url + "in.parts/?signature=1"):
        parts = sparsedp.load(url, allow_reproducible=True)
        assert np.array_equal(parts.lookup(keys), local.lookup(keys))
        assert np.array_equal(parts.interval(keys), local.interval(keys))
    sparsedp.verify(server.url + "in.parts/")
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        sparsedp.load(server.url + "nowhere/")


def test_threads_get_the_same_answers(opened: Release, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CACHE_BYTES", 1 << 16)  # so that sheets are replaced all the time
    wanted = sparsedp.load(folder / NAME).lookup(KEYS)

    def ask(first: int) -> bool:
        keys = KEYS[first::97]
        return np.array_equal(opened.lookup(keys), wanted[first::97])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(24)))


def test_the_cache_is_bounded(opened: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = opened.sides[0]
    assert isinstance(part, remote.RemoteArrays)
    (file,) = {file for file, _ in part._places.values()}
    monkeypatch.setattr(remote, "CACHE_BYTES", 1 << 16)
    for first in range(0, 2000, 50):
        opened.lookup(KEYS[first : first + 50])
        assert file._sheet.resident < (1 << 16) + 50 * 8 * 4096


FORKING = """
import os, sys
import sparsedp

visits = sparsedp.load(sys.argv[1])
before = visits.lookup(range(10)).tolist()
child = os.fork()
if child == 0:
    os._exit(0 if visits.lookup(range(10)).tolist() == before and visits[77] == float(sys.argv[2]) else 1)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_asks_for_itself(server: FaultyServer, folder: Path) -> None:
    wanted = sparsedp.load(folder / NAME)[77]
    program = [sys.executable, "-W", "ignore", "-c", FORKING, server.url + NAME, repr(wanted)]
    assert subprocess.run(program).returncode == 0


def test_pickled_it_is_its_address(server: FaultyServer, opened: Release) -> None:
    content = pickle.dumps(opened)
    assert len(content) < 500
    assert pickle.loads(content)[77] == opened[77]
    pickled = pickle.dumps(sparsedp.load(server.url + "in.parts/?signature=1", allow_reproducible=True))
    assert b"signature" in pickled  # without it, nobody could open it again
    pickle.loads(pickled)


def test_a_pickled_release_that_was_replaced_is_refused(server: FaultyServer, folder: Path) -> None:
    (folder / "replaced.sparsedp").write_bytes((folder / NAME).read_bytes())
    content = pickle.dumps(sparsedp.load(server.url + "replaced.sparsedp"))
    sparsedp.release({"a": 1}, epsilon=1.0).save(folder / "replaced.sparsedp")
    with pytest.raises(FormatError, match=r"replaced\.sparsedp has been replaced"):
        pickle.loads(content)


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda server: setattr(server, "fault", "no ranges"),
        lambda server: setattr(server, "stated_version", {"ETag": "another"}),
        lambda server: server.fail(9, 403),
        lambda server: server.fail(9, 404),
        lambda server: server.fail(99, 500),
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


def test_a_series_may_be_of_addresses(server: FaultyServer, folder: Path) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        sparsedp.release({"a": 500, "b": 3}, epsilon=1.0).save(folder / f"{day}.sparsedp")
    urls = [f"{server.url}{day}.sparsedp?until=1999-01-01" for day in ("2024-01-02", "2024-01-01")]
    days = sparsedp.series(urls)
    assert days.labels == ("2024-01-01", "2024-01-02")
    assert np.array_equal(days.lookup(["a", "b"]), sparsedp.series(folder / "2024*.sparsedp").lookup(["a", "b"]))
    with pytest.raises(ParameterError, match="must be a list of their addresses"):
        sparsedp.series(server.url + "2024*.sparsedp")


def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = Command(*arguments).wait()
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_commands_take_addresses(server: FaultyServer, folder: Path) -> None:
    url = f"{server.url}{NAME}?key={SECRET}"
    shown = f"{server.url}{NAME}"
    assert run("lookup", url, "50", "7").stdout == run("lookup", str(folder / NAME), "50", "7").stdout
    assert shown in run("info", url).stdout.splitlines()[0]
    assert run("verify", url).stderr == f"{shown} is intact\n"
    server.fault = "no ranges"
    failed = run("lookup", url, "50", code=1).stderr
    assert failed.startswith(f"sparsedp: {shown}: the server sends whole files only")
    assert SECRET not in failed
