"""The part of the report about people with many keys: references against sums by hand, drivers that
fail in every way, and a run on a small folder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults import wait_until
from sparsedp.experiments import environments, identifiers, users
from sparsedp.experiments.environments import Environment, Peer, created, last_words, own, run_driver
from sparsedp.experiments.judging import questions
from sparsedp.experiments.references import Sparse, SparseGaussian, SparseGeometric
from sparsedp.experiments.reproduction import reproduce

FAKE = """
import os, subprocess, sys, time
PACKAGE = "numpy"

def prepare(data):
    return data

def release(way, data, keys, epsilon, delta):
    if way == "fails":
        raise ValueError("no such noise")
    if way == "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(data["note"], "w") as note:
            note.write(str(child.pid))
        time.sleep(600)
    if way == "dies":
        os._exit(0)
    return keys, epsilon, delta

def answer(way, released, data):
    if way == "nonsense":
        return {"estimates": {"x": "y"}}
    if way == "elsewhere":
        return {"estimates": {10**6: 1.0}, "named": [10**6]}
    print("words that are no answer")
    return {"estimates": {1: 6.0}, "named": [1], "given": released}
"""


def fake(*ways: str) -> Peer:
    return Peer("Fake", "fake", "no-such-package", "numpy", (), ways, "anything")


@pytest.fixture
def with_fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The drivers and one more, which does what it is told; returns data for them."""
    shutil.copytree(environments.DRIVERS, tmp_path / "drivers")
    (tmp_path / "drivers" / "with_fake.py").write_text(FAKE, encoding="utf-8")
    monkeypatch.setattr(environments, "DRIVERS", tmp_path / "drivers")
    data = tmp_path / "data.json"
    counts = {"keys": ["a", "b", "c"], "counts": [3, 4], "rows": [], "asked": [0, 1, 2], "seed": 1}
    data.write_text(json.dumps({**counts, "note": str(tmp_path / "note")}), encoding="utf-8")
    return data


def driven(way: str, data: Path, **limit: float) -> dict[str, Any]:
    options = {"keys-per-user": 5, "epsilon": 0.5, "delta": 1e-6}
    return run_driver(Path(sys.executable), "fake", way, data, options, **limit)


def test_an_answer_comes_with_its_cost_and_version(with_fake: Path) -> None:
    found = driven("answers", with_fake)
    assert found["given"] == [5, 0.5, 1e-6]
    assert found["estimates"] == {1: 6.0}
    assert found["version"] == np.__version__
    assert 0 <= found["seconds"] < found["process"]
    assert sys.platform != "linux" or found["memory"] > 1e6


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("fails", "fails: ValueError: no such noise"),
        ("dies", "its answer makes no sense: FileNotFoundError"),
        ("nonsense", "its answer makes no sense: ValueError"),
    ],
)
def test_a_driver_that_fails_says_why(way: str, words: str, with_fake: Path) -> None:
    assert driven(way, with_fake) == {"refused": words}


def test_answers_for_keys_that_nobody_asked_for_are_refused(with_fake: Path) -> None:
    found = users.measure(Path(sys.executable), "fake", "elsewhere", with_fake, 5, 1e-6)
    assert found == {"refused": "its answer makes no sense: IndexError"}


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
def test_a_driver_that_hangs_is_ended_with_all_that_it_started(
    with_fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Catches the end of the driver alone: a Spark would go on.
    note = with_fake.parent / "note"

    class Impatient(subprocess.Popen[bytes]):
        """Has waited for long enough as soon as the driver has started its own process."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout is None:
                return super().wait()
            wait_until(lambda: note.exists() and note.read_text() != "")
            raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess, "Popen", Impatient)
    assert driven("hangs", with_fake, limit=600) == {"refused": "not done after 600 seconds"}
    wait_until(lambda: not runs(int(note.read_text())))


def runs(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_published_answer_is_judged_with_zero_for_all_other_keys() -> None:
    asked = questions(None, np.array([3, 4, 10]), 1)
    cost = {"seconds": 1.0, "process": 2.0, "memory": 3, "version": "1", "python": "3"}
    found = users.judge(asked, {"estimates": {2: 12.0}, "named": [2], **cost})
    assert found["errors"]["all"] == pytest.approx((3 + 4 + 2) / 3)
    assert (found["named"], found["frequent"]) == (1, 1)
    assert "coverage" not in found
    every = users.judge(asked, {"estimates": {0: 3.0, 2: 10.0, 3: 5.0}, "low": [0] * 4, "high": [3, 4, 9, 9], **cost})
    assert every["errors"]["all"] == 0  # of those that were asked
    assert every["errors"]["absent"] == 5
    assert every["named"] is None
    assert every["coverage"] == pytest.approx(2 / 3)


def law(sparse: Sparse) -> tuple[np.ndarray, np.ndarray]:
    """Values of the noise and their chances, on a fine grid."""
    if isinstance(sparse, SparseGeometric):
        noise = np.arange(-3000.0, 3001.0)
        chances = np.exp(-np.abs(noise) / sparse.scale)
    else:
        assert isinstance(sparse, SparseGaussian)
        noise = np.linspace(-12, 12, 2_000_001) * sparse.spread
        chances = np.exp(-((noise / sparse.spread) ** 2) / 2)
    return noise, chances / chances.sum()


@pytest.mark.parametrize("sparse", [SparseGeometric(5.0, 60), SparseGeometric(1.0, 15), SparseGaussian(18.0, 90.5)])
def test_sparse_histograms_err_as_their_noise_says(sparse: Sparse) -> None:
    # Mutants: the noise of counts that are not published, a threshold that is off by one.
    counts = np.array([1, 2, 14, 15, 16, 59, 60, 61, 90, 91, 300])
    noise, chances = law(sparse)
    for count, error, named in zip(counts.tolist(), sparse.error(counts), sparse.published(counts), strict=True):
        kept = count + noise >= sparse.threshold  # type: ignore[attr-defined]
        assert error == pytest.approx((chances * np.where(kept, np.abs(noise), count)).sum(), rel=1e-4)
        assert named == pytest.approx(chances[kept].sum(), rel=1e-4, abs=1e-12)
    assert sparse.error(np.array([0])) == 0
    assert sparse.names(np.array([1, 300, 300])) == pytest.approx(sparse.published(np.array([1, 300])) @ [1, 2])


@pytest.mark.parametrize("keys", [1, 20])
def test_the_geometric_threshold_is_the_least_for_delta(keys: int) -> None:
    least = SparseGeometric.least(keys, 1.0, 1e-6)

    def seen(threshold: int) -> float:  # the chance that any of a user's own keys is published
        return float(1 - (1 - SparseGeometric(least.scale, threshold).published(np.array([1]))[0]) ** keys)

    assert seen(least.threshold) <= 1e-6 * (1 + 1e-9) < seen(least.threshold - 1)


def wheel(folder: Path) -> Path:
    """An empty package that installs without a network."""
    path, about = folder / "emptiness-1.5-py3-none-any.whl", "emptiness-1.5.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("emptiness.py", "")
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: emptiness\nVersion: 1.5\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    return path


def test_an_environment_is_made_once_and_not_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    peer = Peer("Emptiness", "emptiness", str(wheel(tmp_path)), "emptiness", (), (), "")
    assert own(peer).python is None
    monkeypatch.chdir(tmp_path)
    first = created(peer, Path("environments"), said.append)  # as with --out report
    assert first.python is not None
    assert first.python.is_absolute()  # drivers run elsewhere
    assert list(first.python.parents[1].glob("lib*/**/emptiness.py"))
    assert created(peer, Path("environments"), said.append) == first
    assert len(said) == 1
    # Again without what was installed, in the environment that is there: to make one takes long.
    place, failure = tmp_path / "environments" / "emptiness", environments._failure
    (place / "installed").unlink()
    monkeypatch.setattr(environments, "_failure", lambda command: None if "venv" in command else failure(command))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    missed = created(replace(peer, package="no-such-package"), tmp_path / "environments", said.append)
    assert missed.python is None
    assert missed.refused.startswith("does not install on Python 3.")
    assert missed.refused.endswith("the package index cannot be reached")
    assert said[-1] == f"Emptiness {missed.refused}"
    assert not place.exists()


def test_last_words_are_those_of_the_error() -> None:
    assert last_words("ERROR: first\nERROR: No matching distribution\n\n[notice] pip\n") == "No matching distribution"
    assert last_words("Traceback\n  File\nKeyError: 'x'\n") == "KeyError: 'x'"
    assert last_words("") == "it ended without a word"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty files, and one or two mechanisms for each δ."""
    monkeypatch.setattr(identifiers, "folders", lambda: [Path(sysconfig.get_path("stdlib")) / "asyncio"])
    monkeypatch.setattr(users, "FILES", {"quick": 10})
    monkeypatch.setattr(users, "ABSENT", {"quick": 50})
    monkeypatch.setattr(users, "PURE", ("tight-alp", "laplace"))
    monkeypatch.setattr(users, "APPROXIMATE", ("tight-alp", "retrieval, Gaussian"))


def test_the_report_has_a_row_for_everyone(
    small: None, with_fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "PEERS", (fake("answers", "fails"),))
    (section,) = reproduce(tmp_path / "report", quick=True, only=("users",), say=lambda words: None)
    facts = section.data["facts"]
    assert facts["files"] == 10
    assert 10 < facts["m = 20"]["keys"] <= facts["m = 20"]["total"] <= 10 * 20
    pure, approximate = section.data["blocks"].values()
    assert list(pure) == ["0 for every key", "dense geometric noise", "tight-alp", "laplace", "Fake"]
    assert pure["Fake"] == {"refused": users.SELECTS}
    assert pure["tight-alp"]["named"] is None
    assert pure["tight-alp"]["coverage"] > 0.5
    assert list(approximate)[5:] == ["tight-alp", "retrieval, Gaussian", "Fake, answers", "Fake, fails"]
    assert approximate["retrieval, Gaussian"]["named"] is not None
    assert approximate["Fake, answers"]["named"] == 1
    page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert "fails: ValueError: no such noise" in page
    assert "needs a counter for every key" in page


def nothing(way: str, data: Path, bound: int, delta: float) -> dict[str, Any]:
    """Zero for every key, as if a mechanism had answered it."""
    asked = users.read(data)
    size = len(asked.keys)
    cost = {"seconds": 1.0, "process": 2.0, "memory": 3, "version": "1", "python": "3"}
    return users.judge(asked, {"estimates": {}, "named": [], "low": [0] * size, "high": [0] * size, **cost})


def test_peers_that_do_not_install_are_missed_with_a_clear_word(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[tuple[Peer, Path]] = []

    def missing(peer: Peer, folder: Path, say: Callable[[str], None]) -> Environment:
        wanted.append((peer, folder))
        return Environment(None, "does not install")

    monkeypatch.setattr(users, "created", missing)
    monkeypatch.setattr(users, "PEERS", (fake("answers"),))
    monkeypatch.setattr(users, "measure_ours", nothing)
    report = tmp_path / "report"
    (section,) = reproduce(report, quick=True, only=("users",), say=lambda words: None, with_peers=True)
    assert section.data["blocks"]["m = 20, δ = 1e-6"]["Fake"] == {"refused": "does not install"}
    assert "does not install" in (report / "index.html").read_text(encoding="utf-8")
    ((peer, folder),) = wanted
    assert peer.name == "Fake"
    assert folder.is_relative_to(report)


def test_a_mechanism_that_fails_ends_the_report(with_fake: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no-such: fails: .*mechanism"):
        users.measure_ours("no-such", with_fake, 5, 1e-6)


def test_a_library_that_is_not_here_is_named_with_the_way_to_it() -> None:
    missing = own(Peer("Other", "other", "other", "no_such_module", (), (), ""))
    assert missing == Environment(None, missing.refused)
    assert "--peers" in missing.refused
