"""JSON files are refused, or not, by what they are, whatever other users' rows are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

import sparsedp
from sparsedp import InputError

RECORD = b'{"u": "v", "k": "a"}\n'


def written(path: Path, content: bytes) -> Path:
    """A file, compressed as its name says."""
    packed = {".gz": gzip.compress, ".zst": lambda own: bytes(pa.Codec("zstd").compress(own))}.get(path.suffix)
    path.write_bytes(packed(content) if packed else content)
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("others", [0, 1, 4_000])
@pytest.mark.parametrize("length", [15_999_999, 16_100_000])
def test_a_long_line_is_refused_whatever_is_before_it(ending: str, others: int, length: int, tmp_path: Path) -> None:
    """Catches a limit that depends on where a record begins in a buffer: DuckDB takes one of 20 MB
    in a file of its own, and refuses it after 17 MB of another user's records.
    """
    before = others * (b'{"u": "w", "k": "b", "n": "' + b"x" * 4_000 + b'"}\n')
    frame = b'{"u": "v", "k": "a", "n": "%s"}'
    record = frame % (b"y" * (length - len(frame) + 2))
    path = written(tmp_path / f"log.jsonl{ending}", before + record + b"\n" + RECORD)
    if length < 16_000_000:
        assert len(sparsedp.count(path, key="k", user="u", max_keys_per_user=2)) == 1 + (others > 0)
    else:
        with pytest.raises(InputError, match=f"line {others + 1} of .* has over 16 MB, the most of a record"):
            sparsedp.count(path, key="k", user="u", max_keys_per_user=2)


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("layout", ["lines", "array"])
def test_a_byte_order_mark_is_refused_on_every_machine(
    ending: str, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = RECORD if layout == "lines" else json.dumps([{"k": "a"}]).encode()
    path = written(tmp_path / f"log.json{ending}", b"\xef\xbb\xbf" + content)
    for threads in ("1", "2"):
        monkeypatch.setenv("SPARSEDP_THREADS", threads)
        with pytest.raises(InputError, match=r"log\.json.* begins with a byte order mark.*first 3 bytes"):
            sparsedp.count(path, key="k")


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_file_that_is_cut_off_is_not_a_shorter_table(ending: str, kind: str, tmp_path: Path) -> None:
    whole = written(tmp_path / f"whole.{kind}{ending}", RECORD * 20_000).read_bytes()
    for size in (10, len(whole) // 2, len(whole) - 1):
        path = tmp_path / f"cut.{kind}{ending}"
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"cannot be read|malformed"):
            sparsedp.count(path, key="k")


def test_a_checksum_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "log.jsonl.gz", RECORD * 1000)
    path.write_bytes(path.read_bytes()[:-8] + b"\0" * 8)
    with pytest.raises(InputError, match=r"log\.jsonl\.gz cannot be read"):
        sparsedp.count(path, key="k")
