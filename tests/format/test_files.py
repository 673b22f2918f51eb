"""Files of releases: what is saved is what is loaded, in any process, or nothing (promises 8, 14,
16, 17).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from safetensors.numpy import load_file

import sparsedp
from releases import DIRECTORIES, KEYS, VARIANTS, answers, make
from sparsedp import FormatError, Release, ReproducibleReleaseError
from sparsedp.format.description import Contents
from sparsedp.format.files import save
from sparsedp.mechanisms import MECHANISMS, Plan
from sparsedp.mechanisms.alp import AlpPlan
from sparsedp.privacy.laws import Passing


@pytest.fixture(scope="module", params=VARIANTS)
def release(request: pytest.FixtureRequest) -> Release:
    return make(request.param)


def reload(release: Release, path: Path) -> Release:
    release.save(path)
    return sparsedp.load(path, allow_reproducible=True)


def test_a_loaded_release_answers_as_the_saved_one(release: Release, tmp_path: Path) -> None:
    loaded = reload(release, tmp_path / "a.sparsedp")
    assert answers(loaded) == answers(release)
    assert [loaded[key] for key in KEYS] == [release[key] for key in KEYS]
    assert (loaded.epsilon, loaded.delta, loaded.mechanism) == (release.epsilon, release.delta, release.mechanism)
    assert loaded.plan == release.plan
    assert loaded.key_space == release.key_space
    assert loaded.nbytes == release.nbytes
    for mine, other in zip(release.stored(), loaded.stored(), strict=True):
        assert np.array_equal(mine, other)
    sparsedp.verify(tmp_path / "a.sparsedp")


def test_saving_again_gives_the_same_bytes(release: Release, tmp_path: Path) -> None:
    reload(release, tmp_path / "a.sparsedp").save(tmp_path / "b.sparsedp")
    assert (tmp_path / "a.sparsedp").read_bytes() == (tmp_path / "b.sparsedp").read_bytes()


def test_the_arrays_have_the_shapes_that_the_plan_states(release: Release) -> None:
    for side in release.sides:
        for part in side:
            shapes = release.plan.array_shapes | release.plan.shared_shapes
            assert set(part) == set(shapes)
            for name, (dtype, shape) in shapes.items():
                assert part[name].dtype == dtype
                assert all(want in (None, got) for want, got in zip(shape, part[name].shape, strict=True))


def test_any_safetensors_reader_opens_the_file(release: Release, tmp_path: Path) -> None:
    release.save(tmp_path / "a.sparsedp")
    arrays = load_file(tmp_path / "a.sparsedp")
    for prefix, side in zip(("", "negative."), release.sides, strict=False):
        for name, array in side[0].items():
            assert np.array_equal(arrays[prefix + name], array)


def test_arrays_begin_at_cache_lines_and_cannot_be_written(release: Release, tmp_path: Path) -> None:
    loaded = reload(release, tmp_path / "a.sparsedp")
    for side in loaded.sides:
        for array in side[0].values():
            if not array.size:
                continue
            assert array.ctypes.data % 64 == 0
            with pytest.raises(ValueError, match="read-only"):
                array.reshape(-1)[:1] = 0


@pytest.mark.promise(14)
def test_another_process_gives_the_same_answers(tmp_path: Path, measured: Callable[..., None]) -> None:
    program = (
        "import json, sys, sparsedp; sys.path.insert(0, sys.argv[2]); from releases import answers;"
        "print(json.dumps(answers(sparsedp.load(sys.argv[1], allow_reproducible=True))))"
    )
    for name in ("tight-alp", "retrieval", "threshold-alp"):
        release = make(name)
        release.save(tmp_path / name)
        for hash_seed in ("0", "77"):
            output = subprocess.run(
                [sys.executable, "-c", program, tmp_path / name, Path(__file__).parents[1] / "helpers"],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert json.loads(output) == answers(release)
    measured(processes=6)


def test_a_reproducible_release_is_refused_unless_told(tmp_path: Path) -> None:
    make("tight-alp").save(tmp_path / "a.sparsedp")
    with pytest.raises(ReproducibleReleaseError, match=r"protects nobody.*allow_reproducible=True"):
        sparsedp.load(tmp_path / "a.sparsedp")
    sparsedp.release({"a": 1}, epsilon=1).save(tmp_path / "b.sparsedp")
    assert not sparsedp.load(tmp_path / "b.sparsedp").reproducible


@pytest.mark.promise(10)
def test_headers_do_not_depend_on_the_data(tmp_path: Path, figure: Callable[[str], None]) -> None:
    headers = []
    for counts in ({1: 5, 2: 1000}, {key: key for key in range(50)}):
        release = sparsedp.release(counts, epsilon=1, nonzero=50, mechanism="tight-alp")
        release.save(tmp_path / "a.sparsedp")
        content = (tmp_path / "a.sparsedp").read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        description = json.loads(header["__metadata__"]["sparsedp"])
        del description["checksums"], description["keys"]["seed"]
        shapes = {name: entry["shape"] for name, entry in header.items() if "." in name}
        noisy = {name for name in shapes if name.startswith(("table.", "padding."))}
        headers.append((description, {name: shape for name, shape in shapes.items() if name not in noisy}))
    assert headers[0] == headers[1]
    figure("equal headers for two data sets")


def test_pickles_go_by_path_when_there_is_one(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "a.sparsedp"
    loaded = reload(release, path)
    pickled = pickle.dumps(loaded)
    assert len(pickled) < 500
    assert answers(pickle.loads(pickled)) == answers(release)
    assert answers(pickle.loads(pickle.dumps(release))) == answers(release)
    make("threshold", seed=6).save(path)
    with pytest.raises(FormatError, match="has been replaced"):
        pickle.loads(pickled)
    assert answers(loaded) == answers(release)  # the old file is still mapped


def _answer_in_child(release: Release) -> dict[str, list[float]]:
    return answers(release)


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_release_goes_to_other_processes(method: str, tmp_path: Path) -> None:
    release = reload(make("tight-alp"), tmp_path / "a.sparsedp")
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_answer_in_child, [release] * 4) == [answers(release)] * 4


def test_many_threads_ask_one_release(release: Release, tmp_path: Path) -> None:
    loaded = reload(release, tmp_path / "a.sparsedp")  # its readers do not exist yet
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(answers, [loaded] * 16)) == [answers(release)] * 16


def test_a_file_gets_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        make("threshold").save(tmp_path / "a.sparsedp")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.sparsedp").stat().st_mode) == 0o640


class FullError(OSError):
    """No space left."""


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.sparsedp"
    make("threshold").save(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise FullError

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FullError):
        make("tight-alp").save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.sparsedp"]


@pytest.mark.promise(17)
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(tmp_path: Path, figure: Callable[[str], None]) -> None:
    program = (
        "import numpy as np, sys, sparsedp\n"
        "release = sparsedp.release((np.arange(200_000), np.ones(200_000, int)), epsilon=1, nonzero=200_000)\n"
        "print('ready', flush=True)\n"
        "while True: release.save(sys.argv[1])\n"
    )
    path = tmp_path / "a.sparsedp"
    make("threshold").save(path)
    moments = (0.0, 0.003, 0.01, 0.02, 0.05)
    for moment in moments:
        with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(moment)
            writer.send_signal(signal.SIGKILL)
        sparsedp.verify(path)
    figure(f"a writer killed at {len(moments)} moments: a whole file each time")


@pytest.mark.parametrize("what", ["missing", "directory", "no directory above"])
def test_paths_that_hold_no_release(what: str, tmp_path: Path) -> None:
    if what == "missing":
        with pytest.raises(FileNotFoundError):
            sparsedp.load(tmp_path / "nothing.sparsedp")
    elif what == "directory":
        with pytest.raises(FormatError, match=r"a directory without release\.sparsedp"):
            sparsedp.load(tmp_path)
    else:
        with pytest.raises(FileNotFoundError):
            make("threshold").save(tmp_path / "no" / "a.sparsedp")


@pytest.mark.parametrize("name", [*VARIANTS, *DIRECTORIES])
def test_the_size_that_is_told_is_that_of_the_file(name: str, tmp_path: Path) -> None:
    release, path = make(name), tmp_path / "a.sparsedp"
    release.save(path)
    files = list(path.iterdir()) if path.is_dir() else [path]
    assert release.nbytes == sum(file.stat().st_size for file in files)


@pytest.mark.parametrize("sensitivity", [1, 20, 100])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_a_release_of_a_few_keys_takes_little_space(sensitivity: int, delta: float) -> None:
    counts = {"a": 5, "b": 100}
    release = sparsedp.release(counts, epsilon=1.0, delta=delta, sensitivity=sensitivity, mechanism="tight-alp")
    assert release.nbytes <= 10_000


@pytest.mark.parametrize("parts", [1, 500])
def test_the_header_of_a_large_release_is_short(parts: int, tmp_path: Path) -> None:
    path = tmp_path / "a.sparsedp"
    sparsedp.release({"a": 5}, epsilon=0.1, sensitivity=20, nonzero=10**6, parts=parts).save(path)
    header = path if parts == 1 else path / "release.sparsedp"
    assert int.from_bytes(header.read_bytes()[:8], "little") < 20_000


def test_a_release_from_an_old_file_is_saved_in_the_format_it_had(tmp_path: Path) -> None:
    for old in sorted((Path(__file__).parents[1] / "golden" / "format-1").glob("*.sparsedp")):
        release = sparsedp.load(old, allow_reproducible=True)
        release.save(tmp_path / old.name)
        again = sparsedp.load(tmp_path / old.name, allow_reproducible=True)
        assert again.format == 1
        assert again.nbytes == release.nbytes
        np.testing.assert_array_equal(again.lookup(np.arange(100)), release.lookup(np.arange(100)))


def test_an_old_file_with_an_estimated_size_states_the_epsilon_that_was_asked_for(tmp_path: Path) -> None:
    """Format 1 claims the price of the size without its noise. A mutant that adds the claimed price
    states 0.98.
    """
    made = sparsedp.release({"a": 5}, epsilon=1.0, mechanism="alp")
    unseen = replace(made.plan.problem, sizing_noise=None, sizing_loss=Decimal("1e-6"))
    assert isinstance(made.plan, AlpPlan)
    old = Contents(replace(made.plan, problem=unseen), made.key_space, made.sides, made.reproducible, format=1)
    save(old, tmp_path / "a.sparsedp")
    release = sparsedp.load(tmp_path / "a.sparsedp", allow_reproducible=True)
    assert release.plan.exact_epsilon < 0.99
    assert release.epsilon == 1.0


def reachable(hint: Any, found: set[type]) -> set[type]:
    """The classes that a plan of this type may hold, by the types of its fields."""
    for part in get_args(hint):
        reachable(part, found)
    if isinstance(hint, type) and is_dataclass(hint) and hint not in found:
        found.add(hint)
        hints = get_type_hints(hint)
        for field in fields(hint):
            if field.compare:
                reachable(hints[field.name], found)
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_class_of_a_plan_says_what_is_wrong_with_one_from_a_file(mechanism: str) -> None:
    # Catches a class that is read from files and checked by nobody. A law of gaps, and a plan, may
    # have nothing to say beyond what their parts do.
    for one in reachable(MECHANISMS[mechanism], set()) - {Passing}:
        assert issubclass(one, Plan) or "faults" in one.__dict__, one


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    # Catches a device that becomes a file, for everybody.
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="is a device or pipe; name a file"):
        make("tight-alp").save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_release_does_not_replace_its_ledger(tmp_path: Path) -> None:
    ledger = sparsedp.Ledger.create(tmp_path / "budget.db", epsilon=1.0)
    with pytest.raises(FileExistsError, match="is read for this release, which would replace it"):
        sparsedp.release({"a": 1}, epsilon=1.0, nonzero=10, ledger=ledger, path=tmp_path / "budget.db")
    assert ledger.datasets()[0].left_epsilon == 1.0
