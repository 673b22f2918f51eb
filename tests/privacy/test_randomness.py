"""Words, flips and samplers: exact on small words, χ² on 10⁶ draws (promise 4)."""

from __future__ import annotations

import os
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

from exact import PreparedWords
from sparsedp.privacy import randomness as rnd
from sparsedp.privacy.laws import Geometric, Passing, TwoSided
from statistics_helpers import LEVEL, chi_square_p, expected, histogram

DRAWS = 1_000_000


def test_words_are_the_aes_ctr_keystream(monkeypatch: pytest.MonkeyPatch) -> None:
    key = bytes(range(32))
    monkeypatch.setattr(os, "urandom", lambda count: key[:count])
    words = rnd.Randomness().words(300_001)  # more than one piece, and not a multiple of anything
    keystream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(8 * 300_001))
    assert words.tobytes() == keystream


def test_words_continue_where_they_stopped() -> None:
    whole = rnd.ReproducibleRandomness(5).words(100)
    stream = rnd.ReproducibleRandomness(5)
    assert np.array_equal(whole, np.concatenate([stream.words(n) for n in (1, 0, 37, 62)]))
    assert not np.array_equal(whole, rnd.ReproducibleRandomness(6).words(100))


def test_two_streams_have_different_keys() -> None:
    assert not np.array_equal(rnd.Randomness().words(8), rnd.Randomness().words(8))


def blocks_of(stream: rnd.Randomness, count: int) -> list[bytes]:
    """The next blocks of a keystream."""
    words = stream.words(2 * count).tobytes()
    return [words[at : at + 16] for at in range(0, len(words), 16)]


def test_branches_are_ranges_of_the_counter_that_never_meet() -> None:
    # Catches branches whose numbers are in the low half of the counter, and counters of any stream
    # that go on in another one: a block repeats only if its counter does.
    stream = rnd.ReproducibleRandomness(4)
    each = [stream, *stream.branches(3), *next(stream.branches(2)).branches(3), *stream.branches(2)]
    encrypt = Cipher(AES(stream._key()), ECB()).encryptor()
    counters = [number << 64 for number in (0, 1, 2, 3, 5, 6, 7, 8, 9)]
    for own, first in zip(each, counters, strict=True):
        for start in (0, 500):
            wanted = b"".join((first + start + at).to_bytes(16, "big") for at in range(500))
            assert own.words(1000).tobytes() == encrypt.update(wanted)


def test_a_single_branch_is_the_stream_itself() -> None:
    stream = rnd.ReproducibleRandomness(4)
    assert list(stream.branches(1)) == [stream]


def test_a_branch_of_a_secure_stream_has_its_key_and_other_words() -> None:
    stream, other = rnd.Randomness(), rnd.Randomness()
    each = [stream, *stream.branches(7), other, *other.branches(7)]
    blocks = [block for own in each for block in blocks_of(own, 100)]
    assert len(set(blocks)) == len(blocks)
    assert not any(own.reproducible for own in each)
    assert all(own.reproducible for own in rnd.ReproducibleRandomness(1).branches(2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_branches_of_a_forked_child_repeat_nothing() -> None:
    # Catches a branch that keeps the key of the parent, and numbers that begin anew in a child.
    stream = rnd.Randomness()
    older, *_ = stream.branches(2)
    blocks = blocks_of(older, 20)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        each = [older, stream, *stream.branches(3)]
        os.write(writing, b"".join(block for own in each for block in blocks_of(own, 20)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        theirs = file.read()
    os.waitpid(child, 0)
    blocks += [theirs[at : at + 16] for at in range(0, len(theirs), 16)]
    blocks += [block for own in (stream, *stream.branches(3)) for block in blocks_of(own, 20)]
    assert len(blocks) == len(set(blocks)) == 20 * (1 + 5 + 4)


def test_words_in_threads_are_those_of_the_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3 * rnd._PIECE_WORDS + 5
    each = rnd.pieces_and_streams(rnd.ReproducibleRandomness(9), count)
    wanted = np.concatenate([own.words(piece.stop - piece.start) for piece, own in each])
    for threads in ("1", "2", "3", "7"):
        monkeypatch.setenv("SPARSEDP_THREADS", threads)
        assert np.array_equal(rnd.words_in_threads(rnd.ReproducibleRandomness(9), count), wanted)


def test_below_rejects_what_would_bias_it() -> None:
    # 3 bits for a bound of 5: the top bits of each word decide, 5..7 are drawn again.
    draws = [rnd.ReproducibleRandomness.below(PreparedWords([w << 61, 4 << 61]), 5) for w in range(8)]
    assert draws == [0, 1, 2, 3, 4, 4, 4, 4]
    assert PreparedWords([]).below(1) == 0


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 6])
def test_flips_have_exactly_their_probability(digits: int) -> None:
    # Lane i of the words spells i in binary, so the 2^digits lanes go through every string of
    # random bits once.
    lanes = np.arange(1 << digits)
    words = [sum(int(lane >> d & 1) << int(lane) for lane in lanes) for d in range(digits)]
    for numerator in range(1 << digits):
        array = np.zeros(1, np.uint64)
        rnd.flip(PreparedWords(words), array, numerator, digits)
        assert (int(array[0]) & ((1 << (1 << digits)) - 1)).bit_count() == numerator


def test_flips_of_different_bits_are_independent() -> None:
    array = np.zeros(DRAWS // 8, np.uint64)
    rnd.flip(rnd.ReproducibleRandomness(1), array, 13108, 16)
    p = 13108 / 65536
    for shift in (0, 1, 17, 63):
        both = np.bitwise_count(array & np.roll(array, 1) if shift == 0 else array & (array << np.uint64(shift)))
        pairs = len(array) * (64 - shift)
        assert abs(both.sum() - pairs * p * p) < 5.5 * np.sqrt(pairs * p * p)
    assert abs(np.bitwise_count(array).sum() - 64 * len(array) * p) < 5.5 * np.sqrt(64 * len(array) * p * (1 - p))


@pytest.mark.parametrize("rate", ["0.02", "0.5", "1", "3"])
def test_geometric_draws_fit_their_law(rate: str) -> None:
    law = Geometric.with_rate(Decimal(rate))
    draws = rnd.geometric(rnd.ReproducibleRandomness(2), law, DRAWS)
    cells = range(int(14 / float(rate)) + 2)
    counts = np.bincount(np.minimum(draws, len(cells)).astype(np.int64), minlength=len(cells) + 1)
    assert chi_square_p(counts, expected(lambda n: float(law.probability(n)), cells, DRAWS)) > LEVEL


@pytest.mark.parametrize("rate", ["0.05", "1", "2.5"])
def test_two_sided_draws_fit_their_law(rate: str) -> None:
    # Catches a sign that depends on the magnitude, a zero counted twice, a high part that is lost.
    law = TwoSided.with_rate(Decimal(rate))
    draws = rnd.two_sided(rnd.ReproducibleRandomness(3), law, DRAWS)
    reach = int(14 / float(rate)) + 1
    inside = draws[np.abs(draws) <= reach] + reach
    counts = np.append(np.bincount(inside, minlength=2 * reach + 1), len(draws) - len(inside))
    wanted = expected(lambda j: float(law.probability(j)), range(-reach, reach + 1), DRAWS)
    assert chi_square_p(counts, wanted) > LEVEL
    # and far out in the tail, where only the high part reaches
    far = law.smallest_tail(Fraction(1, 1000))
    tail = float(law.at_least(far)) * DRAWS
    assert abs((draws >= far).sum() - tail) < 6 * np.sqrt(tail)


def test_draws_in_pieces_are_like_draws_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    law = TwoSided.with_rate(Decimal("0.3"))
    monkeypatch.setattr(rnd, "_PIECE_WORDS", 1000)
    draws = rnd.two_sided(rnd.ReproducibleRandomness(4), law, 50_000)
    cells = range(-20, 21)
    assert chi_square_p(histogram(draws, cells), expected(lambda j: float(law.probability(j)), cells, 50_000)) > LEVEL


def test_every_piece_reaches_its_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    # Beyond the period only the high part reaches; catches a high part that is added to the first
    # piece alone.
    law = TwoSided.with_rate(Decimal("0.7"))
    monkeypatch.setattr(rnd, "_PIECE_WORDS", 20_000)
    draws = np.abs(rnd.two_sided(rnd.ReproducibleRandomness(4), law, 200_000))
    magnitudes = rnd.geometric(rnd.ReproducibleRandomness(5), law.magnitude, 200_000)
    for found, chance in (
        (draws > law.magnitude.period, 2 * law.at_least(law.magnitude.period + 1)),
        (magnitudes >= law.magnitude.period, law.magnitude.at_least(law.magnitude.period)),
    ):
        for piece in np.array_split(found, 10):
            wanted = float(chance) * len(piece)
            assert abs(piece.sum() - wanted) < 6 * np.sqrt(wanted)


def test_positions_follow_the_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = np.array([0, 2, 5, 0, 100], np.uint64)
    monkeypatch.setattr(rnd, "geometric", lambda randomness, law, count: gaps)
    law = Passing.with_chance(Fraction(1, 4))
    assert rnd.passing_positions(rnd.Randomness(), law, 0, 50).tolist() == [0, 3, 9, 10]
    assert rnd.passing_positions(rnd.Randomness(), law, 0, 10).tolist() == [0, 3, 9]
    assert rnd.passing_positions(rnd.Randomness(), law, 0, 9).tolist() == [0, 3]


def test_each_position_passes_equally_often_and_independently() -> None:
    law = Passing.with_chance(Fraction(1, 5))
    stream = rnd.ReproducibleRandomness(6)
    runs, domain = 20_000, 4
    masks = [int(sum(1 << int(i) for i in rnd.passing_positions(stream, law, 0, domain))) for _ in range(runs)]
    counts = np.bincount(masks, minlength=1 << domain)
    chance = [0.2 ** m.bit_count() * 0.8 ** (domain - m.bit_count()) for m in range(1 << domain)]
    assert chi_square_p(counts, runs * np.array(chance)) > LEVEL


def test_the_largest_domain_is_searched_by_jumping() -> None:
    domain = 1 << 64
    law = Passing.with_chance(Fraction(1000, domain))
    found = np.concatenate([rnd.passing_positions(rnd.ReproducibleRandomness(s), law, 0, domain) for s in range(50)])
    assert abs(len(found) - 50_000) < 6 * np.sqrt(50_000)
    sixteenths = np.bincount((found >> np.uint64(60)).astype(np.int64), minlength=16)
    assert chi_square_p(sixteenths, np.full(16, len(found) / 16)) > LEVEL


def test_a_geometric_variable_saturates_instead_of_wrapping() -> None:
    wide = Geometric.with_rate(Decimal(2) ** -80)
    draws = rnd.geometric(rnd.ReproducibleRandomness(7), wide, 1000)
    assert (draws == np.uint64(2**64 - 1)).mean() > 0.99


@pytest.mark.parametrize("domain", [1 << 63, (1 << 64) - 1, 1 << 64])
def test_the_last_position_of_a_huge_domain_passes_as_rarely_as_any_other(domain: int) -> None:
    # A gap that leaves a domain of 2^64 saturates at 2^64 - 1, which must not be mistaken for its
    # last position.
    law = Passing.with_chance(Fraction(1, 4 * domain))
    found = [rnd.passing_positions(rnd.ReproducibleRandomness(seed), law, 0, domain) for seed in range(40)]
    assert not any(domain - 1 in positions.tolist() for positions in found)
    assert 0 < sum(map(len, found)) < 40
