"""Keys that are hashed several at a time have the ids of keys that are hashed one by one.

Their number decides which of them share a vector and which are left over, so every number up to a
few vectors is tried.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sparsedp import _native
from sparsedp.keys.batches import ids_of
from sparsedp.keys.hashing import HASHED_DOMAIN, KeySpace

SEED = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
KEY = bytes(range(16))
SPACE = KeySpace(HASHED_DOMAIN, SEED)
SOME = range(36)  # up to two vectors of eight words, and a rest of each length


def one_by_one(messages: list[bytes]) -> list[int]:
    """The ids of canonical bytes, each hashed by itself."""
    return [_native.siphash24(KEY, message) for message in messages]


def texts(count: int, longest: int) -> list[str]:
    """Texts of all kinds of lengths, the last of them long."""
    random = np.random.default_rng(count)
    lengths = random.integers(0, longest, count)
    lengths[-1:] = 300
    return ["".join(map(chr, random.integers(1, 0x250, length))) for length in lengths]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers(dtype: type) -> None:
    random = np.random.default_rng(1)
    for count in SOME:
        keys = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, count, dtype, endpoint=True)
        tags = [b"u" if key >= 1 << 63 else b"i" for key in keys.tolist()]
        expected = one_by_one([key.tobytes() + tag for key, tag in zip(keys, tags, strict=True)])
        assert ids_of(SPACE.batch(keys)).tolist() == expected


@pytest.mark.parametrize("longest", [3, 9, 40])
def test_text_of_mixed_lengths(longest: int) -> None:
    for count in SOME[1:]:
        keys = texts(count, longest)
        expected = one_by_one([key.encode() + b"s" for key in keys])
        assert SPACE.ids(keys).tolist() == expected
        for column in (pa.array(keys), pa.array(keys, pa.large_string()), pa.array(keys, pa.string_view())):
            assert ids_of(SPACE.batch(column)).tolist() == expected
        assert ids_of(SPACE.batch(np.array(keys))).tolist() == expected


def test_text_of_equal_lengths() -> None:
    for length in range(40):
        keys = [f"{at:0{length}}"[:length] for at in range(19)]
        expected = one_by_one([key.encode() + b"s" for key in keys])
        assert ids_of(SPACE.batch(pa.array(keys))).tolist() == expected


def test_one_column_is_not_turned_into_ids_first() -> None:
    keys = texts(5, 9)
    chunks = pa.chunked_array([keys[:2], keys[2:]])
    assert all(isinstance(SPACE.batch(one), _native.Keys) for one in (np.arange(5), pa.array(keys), np.array(keys)))
    joined = SPACE.batch(chunks)
    assert isinstance(joined, np.ndarray)
    assert np.array_equal(joined, SPACE.ids(keys))
