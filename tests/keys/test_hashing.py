"""From keys to ids, and from ids to rows: published vectors, injective encoding, exact collisions
(promise 13).
"""

from __future__ import annotations

import unicodedata
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparsedp import InputError, KeyTypeError, _native
from sparsedp.keys.hashing import HASHED_DOMAIN, MOST_ROWS, ROW_PRIME, KeySpace, draw_row_functions
from sparsedp.privacy.randomness import ReproducibleRandomness

# The values published with SipHash: key 00..0f, the messages 00.. of length 0..63, eight bytes
# each.
SIP_KEY = bytes(range(16))
PUBLISHED = bytes.fromhex("""
310e0edd47db6f72 fd67dc93c539f874 5a4fa9d909806c0d 2d7efbd796666785 b7877127e09427cf 8da699cd64557618
cee3fe586e46c9cb 37d1018bf50002ab 6224939a79f5f593 b0e4a90bdf82009e f3b9dd94c5bb5d7a a7ad6b22462fb3f4
fbe50e86bc8f1e75 903d84c02756ea14 eef27a8e90ca23f7 e545be4961ca29a1 db9bc2577fcc2a3f 9447be2cf5e99a69
9cd38d96f0b3c14b bd6179a71dc96dbb 98eea21af25cd6be c7673b2eb0cbf2d0 883ea3e395675393 c8ce5ccd8c030ca8
94af49f6c650adb8 eab8858ade92e1bc f315bb5bb835d817 adcf6b0763612e2f a5c91da7acaa4dde 716595876650a2a6
28ef495c53a387ad 42c341d8fa92d832 ce7cf2722f512771 e37859f94623f3a7 381205bb1ab0e012 ae97a10fd434e015
b4a31508beff4d31 81396229f0907902 4d0cf49ee5d4dcca 5c73336a76d8bf9a d0a704536ba93e0e 925958fcd6420cad
a915c29bc8067318 952b79f3bc0aa6d4 f21df2e41d4535f9 87577519048f53a9 10a56cf5dfcd9adb eb75095ccd986cd0
51a9cb9ecba312e6 96afadfc2ce666c7 72fe52975a4364ee 5a1645b276d592a1 b274cb8ebf87870a 6f9bb4203de7b381
eaecb2a30b22a87f 9924a43cc1315724 bd838d3aafbf8db7 0b1a2a3265d51aea 135079a3231ce660 932b2846e4d70666
e1915f5cb1eca46c f325965ca16d629f 575ff28e60381be5 724506eb4c328a95
""")

MASK = (1 << 64) - 1
SEED = (int.from_bytes(SIP_KEY[:8], "little"), int.from_bytes(SIP_KEY[8:], "little"))
HASHED = KeySpace(HASHED_DOMAIN, SEED)


def rotate(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & MASK


def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & MASK
    v2 = (v2 + v3) & MASK
    v1 = rotate(v1, 13) ^ v0
    v3 = rotate(v3, 16) ^ v2
    v0 = (rotate(v0, 32) + v3) & MASK
    v2 = (v2 + v1) & MASK
    v1 = rotate(v1, 17) ^ v2
    v3 = rotate(v3, 21) ^ v0
    return v0, v1, rotate(v2, 32), v3


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 as the paper states it, on Python integers."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    constants = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v0, v1, v2, v3 = (c ^ k for c, k in zip(constants, (k0, k1, k0, k1), strict=True))
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for at in range(0, len(padded), 8):
        block = int.from_bytes(padded[at : at + 8], "little")
        v0, v1, v2, v3 = sip_round(*sip_round(v0, v1, v2, v3 ^ block))
        v0 ^= block
    v2 ^= 0xFF
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def wide_siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 with 128 bits of output, as in its authors' reference code."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    constants = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)
    v0, v1, v2, v3 = (c ^ k for c, k in zip(constants, (k0, k1, k0, k1), strict=True))
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for at in range(0, len(padded), 8):
        block = int.from_bytes(padded[at : at + 8], "little")
        v0, v1, v2, v3 = sip_round(*sip_round(v0, v1, v2, v3 ^ block))
        v0 ^= block
    v2 ^= 0xEE
    out = 0
    for half in range(2):
        v1 ^= 0xDD if half else 0
        for _ in range(4):
            v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        out |= (v0 ^ v1 ^ v2 ^ v3) << (64 * half)
    return out


def canonical(key: str | bytes | int) -> bytes:
    """The documented bytes of a key: its payload, then one tag."""
    if isinstance(key, str):
        return key.encode() + b"s"
    if isinstance(key, bytes):
        return key + b"b"
    return (key & MASK).to_bytes(8, "little") + (b"u" if key >> 63 == 1 else b"i")


@pytest.mark.parametrize("length", range(64))
def test_siphash_gives_the_published_values(length: int) -> None:
    expected = int.from_bytes(PUBLISHED[8 * length : 8 * length + 8], "little")
    assert _native.siphash24(SIP_KEY, bytes(range(length))) == expected
    assert siphash(SIP_KEY, bytes(range(length))) == expected


def test_siphash_gives_the_value_worked_out_in_the_paper() -> None:
    assert _native.siphash24(SIP_KEY, bytes(range(15))) == 0xA129CA6149BE45E5


def test_wide_siphash_gives_the_published_value() -> None:
    assert wide_siphash(SIP_KEY, b"").to_bytes(16, "little").hex() == "a3817f04ba25a8e66df67214c7550293"


@pytest.mark.parametrize("slots", [2, 3, 4, 5, 8])
def test_slots_are_32_bits_of_wide_siphash_each(slots: int) -> None:
    ids, segment = [0, 1, 77, MASK], 1000
    seed = (int.from_bytes(SIP_KEY[:8], "little"), int.from_bytes(SIP_KEY[8:], "little"))
    rows = _native.slots_of(*seed, slots, segment, np.array(ids, np.uint64)).reshape(-1, slots)
    for key, row in zip(ids, rows.tolist(), strict=True):
        first = wide_siphash(SIP_KEY, key.to_bytes(8, "little") + b"\0")
        second = wide_siphash(SIP_KEY, key.to_bytes(8, "little") + b"\4")
        bits = [(first | second << 128) >> (32 * j) & 0xFFFFFFFF for j in range(slots)]
        assert row == [j * segment + (own * segment >> 32) for j, own in enumerate(bits)]


@settings(deadline=None)
@given(key=st.binary(min_size=16, max_size=16), message=st.binary(max_size=300))
@example(key=SIP_KEY, message=bytes(255))
@example(key=SIP_KEY, message=bytes(256))  # the length is kept modulo 256
def test_siphash_is_that_of_the_paper_for_any_key_and_message(key: bytes, message: bytes) -> None:
    assert _native.siphash24(key, message) == siphash(key, message)


@pytest.mark.parametrize("length", range(33))
def test_a_tag_is_one_more_byte_of_the_message_at_every_length(length: int) -> None:
    key = bytes(range(200, 200 + length))
    text = "x" * length
    assert HASHED.id(key) == siphash(SIP_KEY, key + b"b")
    assert HASHED.id(text) == siphash(SIP_KEY, text.encode() + b"s")


KEYS = st.one_of(st.text(), st.binary(), st.integers(-(1 << 63), MASK))


@settings(deadline=None)
@given(key=KEYS)
@example(key="")
@example(key=b"")
@example(key="a\0b")
@example(key="\N{PILE OF POO}")
@example(key=0)
@example(key=-1)
@example(key=-(1 << 63))
@example(key=(1 << 63) - 1)
@example(key=1 << 63)
@example(key=MASK)
def test_an_id_is_the_hash_of_the_canonical_bytes(key: str | bytes | int) -> None:
    assert HASHED.id(key) == siphash(SIP_KEY, canonical(key))
    assert HASHED.ids([key, key]).tolist() == [HASHED.id(key)] * 2


def test_ids_are_pinned() -> None:
    # Computed with the function above: existing releases depend on these values.
    pinned: dict[str | bytes | int, int] = {
        "": 0xB1A640178998F4A7,
        "example.org": 0xDD1D7489F89573C9,
        b"example.org": 0xCE81DE9013C758D2,
        0: 0x71BA28B91D898EAF,
        -1: 0xB991973A2643943D,
        1 << 63: 0x6FEF67D6ECCB761E,
        MASK: 0x8D3E6970F18F1901,
    }
    assert {key: HASHED.id(key) for key in pinned} == pinned


@pytest.mark.parametrize(
    "different",
    [
        (1, "1", b"1", b"\1", "\1", (1).to_bytes(8, "little")),
        (-1, MASK, b"\xff" * 8),  # the same eight bytes
        (-(1 << 63), 1 << 63),
        ("", b"", 0, "\0", b"\0"),
        ("s", b"s", "b", b"b", "ss", b"sb"),  # tags inside the payload
        (unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")),
        ("K", "\N{KELVIN SIGN}", "k"),
    ],
)
def test_keys_that_look_alike_are_different_keys(different: tuple[str | bytes | int, ...]) -> None:
    assert len({HASHED.id(key) for key in different}) == len(different)


@settings(deadline=None)
@given(first=KEYS, second=KEYS)
def test_different_keys_have_different_ids(first: str | bytes | int, second: str | bytes | int) -> None:
    same = type(first) is type(second) and first == second
    assert (HASHED.id(first) == HASHED.id(second)) == same


def test_ids_depend_on_the_seed() -> None:
    other = KeySpace(HASHED_DOMAIN, (SEED[0], SEED[1] ^ 1))
    assert not set(HASHED.ids(range(1000)).tolist()) & set(other.ids(range(1000)).tolist())


def test_hash_seeds_are_drawn_as_two_words() -> None:
    space = KeySpace.draw(None, ReproducibleRandomness(1))
    assert space == KeySpace(1 << 64, tuple(ReproducibleRandomness(1).words(2).tolist()))
    assert KeySpace.draw(10, ReproducibleRandomness(1)) == KeySpace(10, None, "integer")


REFUSED: list[tuple[list[object], type[InputError], str, str]] = [
    ([1, True], KeyTypeError, "key at position 1", "must be str, bytes or int, got bool"),
    ([True], KeyTypeError, "key at position 0", "must be str, bytes or int, got bool"),
    ([1, np.True_], KeyTypeError, "at position 1", "must be str, bytes or int, got bool"),
    ([np.False_], KeyTypeError, "at position 0", "must be str, bytes or int, got bool"),
    (["a", None], KeyTypeError, "key at position 1", "must be str, bytes or int, got NoneType"),
    ([1, 2, 3.0], KeyTypeError, "key at position 2", "must be str, bytes or int, got float"),
    ([float("nan")], KeyTypeError, "key at position 0", "must be str, bytes or int, got float"),
    ([np.float64(1)], KeyTypeError, "at position 0", "must be str, bytes or int, got float64"),
    ([("a", 1)], KeyTypeError, "key at position 0", "must be str, bytes or int, got tuple"),
    ([b"a", bytearray(b"a")], KeyTypeError, "at position 1", "must be str, bytes or int, got bytearray"),
    ([np.array([5])], KeyTypeError, "at position 0", "must be str, bytes or int, got ndarray"),
    (["a", "b", 1], KeyTypeError, "str at position 0 and int at position 2", "convert them to one"),
    ([b"a", "a"], KeyTypeError, "bytes at position 0 and str at position 1", "convert them to one"),
    ([1, "1"], KeyTypeError, "int at position 0 and str at position 1", "convert them to one"),
    (["a", "\ud800"], InputError, "key at position 1", "use bytes"),
    ([0, 1 << 64], InputError, "key at position 1", "must be in [-2^63, 2^64); use str"),
    (
        [-(1 << 63) - 1],
        InputError,
        "key at position 0",
        "must be in [-2^63, 2^64); use str",
    ),
]


@pytest.mark.parametrize(("keys", "error", "where", "fix"), REFUSED)
def test_what_is_no_key_is_refused_with_its_position(
    keys: list[object], error: type[InputError], where: str, fix: str
) -> None:
    as_objects = np.empty(len(keys), object)
    as_objects[:] = keys
    for container in (keys, tuple(keys), iter(keys), as_objects):
        with pytest.raises(error) as caught:
            HASHED.ids(container)
        assert type(caught.value) is error
        assert where in str(caught.value)
        assert fix in str(caught.value)


def test_a_list_that_shrinks_while_it_is_read_is_noticed() -> None:
    class Shrinking:
        def __index__(self) -> int:
            keys.clear()
            return 1

    keys: list[object] = [Shrinking() for _ in range(1000)]
    with pytest.raises(IndexError):
        _native.hash_objects(*SEED, keys)


@pytest.mark.parametrize("single", ["abc", b"abc"])
def test_one_key_is_not_taken_for_a_collection(single: object) -> None:
    with pytest.raises(KeyTypeError, match=r"must be a collection of keys, .*use release\[key\]"):
        HASHED.ids(single)


@pytest.mark.parametrize("nothing", [5, None, 1.5, object()])
def test_what_has_no_keys_in_it_is_refused(nothing: object) -> None:
    with pytest.raises(KeyTypeError, match="must be a collection of str, bytes or int"):
        HASHED.ids(nothing)


@pytest.mark.parametrize("domain", [1, 2, 10, 1 << 32, (1 << 63) + 1, 1 << 64])
def test_a_domain_holds_its_integers_and_no_others(domain: int) -> None:
    space = KeySpace(domain, None)
    inside = [0, domain - 1]
    assert space.ids(inside).tolist() == inside
    assert space.ids(np.array(inside, np.uint64)).tolist() == inside
    assert [space.id(key) for key in inside] == inside
    for outside in (-1, domain, -(1 << 63), 1 << 64, -(1 << 70)):
        refused = pytest.raises(InputError, match=rf"^key at position 2 must be an integer in \[0, {domain}\)")
        with refused:
            space.ids([*inside, outside])
        if -(1 << 63) <= outside < 1 << 63:
            with refused:
                space.ids(np.array([0, min(domain, 1 << 63) - 1, outside], np.int64))
        if 0 <= outside < 1 << 64:
            with refused:
                space.ids(np.array([*inside, outside], np.uint64))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("domain", [100, 1 << 64])
def test_a_domain_may_be_larger_than_what_an_array_can_hold(dtype: type[np.integer], domain: int) -> None:
    assert KeySpace(domain, None).ids(np.array([0, 99], dtype)).tolist() == [0, 99]


@pytest.mark.parametrize("keys", [["a"], [b"a"], [1.0], [True], [None], np.array(["a"]), np.array([1.0])])
def test_a_domain_takes_integers_only(keys: object) -> None:
    with pytest.raises(KeyTypeError, match="must be"):
        KeySpace(10, None).ids(keys)


@settings(deadline=None)
@given(
    a=st.integers(1, ROW_PRIME - 1),
    b=st.integers(0, ROW_PRIME - 1),
    ids=st.lists(st.integers(0, MASK), min_size=1, max_size=5),
    rows=st.integers(1, MOST_ROWS),
)
@example(a=ROW_PRIME - 1, b=ROW_PRIME - 1, ids=[0, 1, MASK], rows=MOST_ROWS)
@example(a=1, b=0, ids=[0, 1, MASK], rows=1)
@example(a=1, b=ROW_PRIME - 1, ids=[0, 1, MASK], rows=MOST_ROWS)  # a x + b = P and P - 1 themselves
@example(a=(1 << 64) - 1, b=1, ids=[MASK], rows=MOST_ROWS)
@example(a=1 << 64, b=0, ids=[1 << 25, MASK], rows=12345)
def test_rows_are_the_scaled_residues(a: int, b: int, ids: list[int], rows: int) -> None:
    functions = np.array([[a & MASK, a >> 64, b & MASK, b >> 64]], np.uint64)
    expected = [((a * x + b) % ROW_PRIME) * rows >> 89 for x in ids]
    assert _native.rows_of(functions, rows, 0, np.array(ids, np.uint64)).tolist() == expected
    assert all(row < rows for row in expected)


def test_row_functions_are_drawn_below_the_prime_and_the_factor_is_not_zero() -> None:
    functions = draw_row_functions(ReproducibleRandomness(4), 50)
    stream = ReproducibleRandomness(4)
    for words in functions.tolist():
        a, b = words[0] | words[1] << 64, words[2] | words[3] << 64
        assert a == 1 + stream.below(ROW_PRIME - 1)
        assert b == stream.below(ROW_PRIME)


@pytest.mark.parametrize("bits", [3, 5, 7])
def test_two_ids_share_a_row_with_probability_at_most_one_in_rows(bits: int) -> None:
    # The same construction over the Mersenne primes 7, 31 and 127, all functions and all numbers of
    # rows.
    prime = (1 << bits) - 1
    functions = [(a, b) for a in range(1, prime) for b in range(prime)]
    pairs = list(combinations(range(prime), 2)) if bits < 7 else [(0, 1), (0, 126), (5, 77), (63, 64)]
    distinct = set(permutations(range(prime), 2))
    for x, y in pairs:  # the images of two ids are a uniform pair of distinct residues ...
        assert {((a * x + b) % prime, (a * y + b) % prime) for a, b in functions} == distinct
        assert len(functions) == len(distinct)
    for rows in range(1, prime):  # ... of which few enough share a row
        meeting = sum((r * rows >> bits) == (q * rows >> bits) for r, q in distinct)
        assert Fraction(meeting, len(distinct)) <= Fraction(1, rows)
