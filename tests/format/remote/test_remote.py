"""Remote files: the bytes that were asked for, of the file that was opened, or an error that says
what is wrong.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import sparsedp
from commands import Command
from remote_files import KEYS, NAME, SECRET
from sparsedp import FormatError, ParameterError, Release
from sparsedp.format import remote
from web import FaultyServer


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
