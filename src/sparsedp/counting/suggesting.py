"""`suggest()`: how many keys of a user to count, chosen privately.

A bound cuts users with many keys, which makes counts too small; a large bound costs noise. What is
best depends on how many keys users have, and reading that off the data would leak it.

Guarantee: ε-differential privacy for adding or removing a user, with all of their rows, at the
stated share of ε. Two things are published, with two-sided geometric noise: how many users have how
many keys (a user is in one class, so one number moves by one), and sums of the counts of a few keys
of every user with random signs (a user moves them by at most as many as those keys). Everything else
follows from these. Proof: docs/privacy.md, "Choosing a bound". Exact test:
tests/counting/test_suggesting.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..budget.book import BASIC
from ..budget.spending import DEFAULT_DATASET, Account, LedgerLike, account_of, check_affordable, spending
from ..errors import ParameterError, SuggestionWarning
from ..planning.drafts import predicted_noise
from ..planning.request import Request
from ..privacy.events import DECIDES
from ..privacy.laws import LARGEST_STEP_LOSS, LEAST_RATE, TwoSided, float_up, precise, to_decimal
from ..privacy.neighbours import HEADROOM
from ..privacy.numbers import check_delta, check_epsilon, positive_fraction
from ..privacy.randomness import Randomness, fresh_randomness, two_sided
from .opening import opened, run
from .request import Counting
from .sql import Query
from .suggestion import Choice, Suggestion, rest

DEFAULT_SHARE = 0.07
USERS_SHARE = 0.5  # of what is spent: for the numbers of users; the rest is for the sums of counts

# Public candidates, about √2 apart, which are also the classes of users by their numbers of keys; the
# last class has all users with more.
CLASSES = GRID = tuple(sorted({round(2 ** (i / 2)) for i in range(27)}))
_POINTS = 8  # of a class
_ORDER = np.arange(len(CLASSES))
SAMPLED_KEYS, SUMS = 16, 32
LABEL = "suggest"

_FREQUENT, _ROUNDS = 2.0, 30  # keys that weigh much are more frequent than the typical one
_CLEAR, _MOST_TAIL = 3.5, 0.6
_STANDS_OUT = 5.0  # of some classes among all that may
DEFAULT_KEYS = 8  # a public bound for data that does not show how many keys users have

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]
Habits: TypeAlias = tuple[Integers, Integers]  # users of each class, and sums of counts


def suggest(
    source: object,
    *,
    key: str | Sequence[str],
    user: str,
    epsilon: float,
    delta: float = 0.0,
    share: float = DEFAULT_SHARE,
    mechanism: str = "auto",
    noise: str = "auto",
    max_per_key: float = 1,
    key_type: str | Sequence[str] = "as stored",
    nulls: str = "refuse",
    memory_limit: str | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    hive: bool = False,
    ledger: LedgerLike | None = None,
    dataset: str = DEFAULT_DATASET,
) -> Suggestion:
    """Suggest max_keys_per_user for a release of this table, and spend a share of its ε on that.

    ε and δ are those of the release to come, of which `share` is spent here and the rest is left for
    `release`. The other parameters are those of `count` and `release`.
    """
    counting = Counting.of(locals() | {"max_keys_per_user": 1})
    account = account_of(ledger, dataset)
    asked = {"mechanism": mechanism, "noise": noise}
    return warned(suggested_for(source, counting, Spending.of(epsilon, delta, share), asked, account))


def warned(made: Suggestion) -> Suggestion:
    """The suggestion, with a warning if what is published may be noise alone."""
    if not made.supported:
        warnings.warn(made.doubt, SuggestionWarning, stacklevel=3)
    return made


@dataclass(frozen=True)
class Spending:
    """The ε of a release, and what is spent of it on a suggestion."""

    epsilon: float
    delta: float
    users: TwoSided  # noise on the number of users of a class
    sums: TwoSided  # noise on the sums of counts

    @classmethod
    def of(cls, epsilon: float, delta: float, share: float = DEFAULT_SHARE) -> Spending:
        """The laws that spend a share of ε, or `ParameterError`."""
        delta = check_delta(delta)
        if not 0 < positive_fraction("share", share) < 1:
            raise ParameterError(f"share must be in (0, 1), got {share}")
        with precise(ROUND_FLOOR):
            whole = to_decimal(positive_fraction("epsilon", check_epsilon(epsilon))) * to_decimal(
                positive_fraction("share", share)
            )
            users = whole * to_decimal(positive_fraction("share", USERS_SHARE))
            rates = (users, (whole - users) / SAMPLED_KEYS)
            if min(rates) >= LEAST_RATE:
                laws = [TwoSided.with_rate(min(rate, LARGEST_STEP_LOSS) * HEADROOM) for rate in rates]
                made = cls(float(epsilon), delta, *laws)
                if to_decimal(positive_fraction("epsilon", made.spent)) <= whole:  # else no law has so little loss
                    return made
        raise ParameterError(f"epsilon × share is too small for any noise, got {epsilon} × {share}; use more")

    @property
    def spent(self) -> float:
        """The exact ε of what is published, rounded up."""
        with precise():
            return float_up(self.users.step_loss + SAMPLED_KEYS * self.sums.step_loss)

    @property
    def left(self) -> float:
        """What is left for the release, rounded down."""
        return rest(self.epsilon, self.spent)


def suggested_for(
    source: object, counting: Counting, budget: Spending, asked: Mapping[str, Any], account: Account | None
) -> Suggestion:
    """The suggestion for a table and parameters that have been checked."""
    check_affordable(account, budget.spent, 0.0, DECIDES)
    noises = predicted_noises(counting, budget, asked)
    with opened(source, counting) as query:
        return suggested(habits(query), budget, noises, account)


def check_choice(account: Account | None, budget: Spending) -> None:
    """Refuse before any data is read if a choice and the release after it cost more than is left.

    Both add up to ε and δ. Composed they may cost less, which depends on the bound: then only the
    choice itself is checked.
    """
    if account is None:
        return
    adds_up = any(own.dataset == account.dataset and own.accounting == BASIC for own in account.ledger.datasets())
    whole = (budget.epsilon, budget.delta) if adds_up else (budget.spent, 0.0)
    check_affordable(account, *whole, DECIDES)


def suggested(habits: Habits, budget: Spending, noises: Sequence[float], account: Account | None) -> Suggestion:
    """The suggestion from the habits of users."""
    with spending(account, budget.spent, 0.0, LABEL, DECIDES):
        published = publish(*habits, budget, fresh_randomness())
    return choose(*published, budget, noises)


def habits(query: Query) -> Habits:
    """The numbers of users and the sums of counts, without noise: not to be published."""
    found = run(query.table, query.habits_sql(SAMPLED_KEYS, SUMS))
    if any(found.column("bad").to_pylist()):
        query.refuse()
    return habits_of(*(found.column(name).to_numpy() for name in ("users", "at", "n")))


def habits_of(users: Bits, at: Integers, numbers: Integers) -> Habits:
    """The habits from rows: so many users with so many keys, or else so much in one of the sums."""
    classes = np.bincount(_class_of(at[users]), numbers[users], len(CLASSES)).astype(np.int64)
    sums = np.bincount(at[~users], numbers[~users], SUMS).astype(np.int64)
    return classes, sums


def check_user(counting: Counting) -> None:
    """Refuse a table without users."""
    if counting.user is None:
        raise ParameterError("user must be given: without users there is nothing to bound")


def _class_of(keys: Integers) -> Integers:
    """The class of users with so many keys: the first that reaches them, or the last."""
    return np.minimum(np.searchsorted(CLASSES, keys), len(CLASSES) - 1)


def publish(classes: Integers, sums: Integers, budget: Spending, randomness: Randomness) -> tuple[Integers, Integers]:
    """The numbers of users and the sums of counts, with noise: all that may be known of the data."""
    return (
        classes + two_sided(randomness, budget.users, len(classes)),
        sums + two_sided(randomness, budget.sums, len(sums)),
    )


def choose(classes: Integers, sums: Integers, budget: Spending, noises: Sequence[float]) -> Suggestion:
    """The candidate with the least estimated error, from what is published; a public one if that may
    be noise alone.
    """
    spread = math.sqrt(budget.users.variance_of_draws)
    if _last_clear(classes, spread) is None and _standing_out(classes, spread) is None:
        unknown = tuple(Choice(bound, math.nan, noise, math.nan) for bound, noise in zip(GRID, noises, strict=True))
        return Suggestion(DEFAULT_KEYS, budget.epsilon, budget.spent, math.nan, unknown, supported=False)
    users, keys = _spread(_at_least(classes, spread))
    pairs = max(1.0, float(users @ keys))
    cut = np.minimum(keys, np.array(GRID)[:, None])  # a row for each candidate
    kept = cut @ users / pairs
    # The squares of sums with random signs add up to Σ count², on average, and the square of noise.
    noise = budget.sums.variance_of_draws * len(sums)
    doubt = noise * math.sqrt(5 / len(sums))  # the standard deviation of the noise's squares
    squares = max(float((sums.astype(np.float64) ** 2).sum()) - noise, doubt)
    typical, frequent = 1.0, kept
    for _ in range(_ROUNDS):  # what is kept of a frequent key depends on how frequent it is
        sampled = float(frequent[GRID.index(SAMPLED_KEYS)])
        typical = max(1.0, squares / (sampled**2 * pairs))
        having = _users_having(_FREQUENT * typical, users, keys)
        frequent = (cut / keys) @ (users * having) / max(float(users @ having), 1e-9)
    errors = [_folded(noise, typical * (1 - share)) for noise, share in zip(noises, frequent.tolist(), strict=True)]
    choices = tuple(map(Choice, GRID, kept.tolist(), noises, errors))
    best = min(choices, key=lambda choice: choice.error)
    return Suggestion(best.max_keys_per_user, budget.epsilon, budget.spent, typical, choices)


def _users_having(count: float, users: Floats, keys: Floats) -> Floats:
    """The share of users of each class that have a key of this count, if all users choose their keys
    alike: a user with more keys has it more likely.
    """
    low, high = 0.0, 1.0  # the chance that one of a user's keys is this one
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if float(users @ (1 - (1 - middle) ** keys)) < count else (low, middle)
    having: Floats = 1 - (1 - high) ** keys
    return having


def _at_least(classes: Integers, spread: float) -> Floats:
    """How many users have at least as many keys as those of each class, without what may be noise
    alone.

    Classes of many keys weigh most, and the noise of empty ones would outweigh all others. So beyond
    the last class from which on there are clearly users, their numbers fall as they did before it, and
    are not above what is published by more than its noise.
    """
    at_least, noise = _summed(classes, spread)
    last = _last_clear(classes, spread)
    if last is None:  # only the classes that stand out are believed
        begin, end = _standing_out(classes, spread) or (0, 1)
        at_least, noise = _summed(np.where((begin <= _ORDER) & (end > _ORDER), classes, 0), 0.0)
        last = end - 1
    # It falls from class to class, so neighbours that do not are averaged.
    blocks: list[list[float]] = []
    for number in at_least[: last + 1].tolist():
        blocks.append([max(number, 1.0), 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            mean, length = blocks.pop()
            above = blocks[-1]
            above[:] = [(above[0] * above[1] + mean * length) / (above[1] + length), above[1] + length]
    smooth = np.concatenate([np.full(int(length), mean) for mean, length in blocks])
    falls = smooth[1:] / smooth[:-1]
    steeper = min(1.0, falls[-1] / falls[-2]) if last > 1 else 0.0
    tail = [smooth[-1]]
    fall = min(_MOST_TAIL, falls[-1]) if last else 0.0
    while len(tail) < len(classes) - last:
        fall *= steeper
        at = last + len(tail)
        tail.append(min(tail[-1] * fall, max(at_least[at], 0.0) + noise[at]))
    return np.concatenate([smooth[:-1], tail])


def _summed(classes: Integers, spread: float) -> tuple[Floats, Floats]:
    """How many users have at least as many keys as those of each class, and the noise of that."""
    return np.cumsum(classes[::-1].astype(np.float64))[::-1], spread * np.sqrt(np.arange(len(classes), 0, -1))


def _last_clear(classes: Integers, spread: float) -> int | None:
    """The last class from which on there are clearly users, if there is any."""
    at_least, noise = _summed(classes, spread)
    clear = np.flatnonzero(at_least > _CLEAR * noise)
    return int(clear[-1]) if len(clear) else None


def _standing_out(classes: Integers, spread: float) -> tuple[int, int] | None:
    """The neighbouring classes, from one to before another, that stand out most from the noise, which
    hides a few hundred users among all classes; None if none do.
    """
    before = np.append(0, np.cumsum(classes)).astype(np.float64)
    ends = [(begin, end) for end in range(1, len(before)) for begin in range(end)]
    begin, end = max(ends, key=lambda own: (before[own[1]] - before[own[0]]) / math.sqrt(own[1] - own[0]))
    return (begin, end) if before[end] - before[begin] > _STANDS_OUT * spread * math.sqrt(end - begin) else None


def _spread(at_least: Floats) -> tuple[Floats, Floats]:
    """Users and their numbers of keys, several for each class: between the ends of a class, the number
    of users with at least so many keys falls by a power law.
    """
    first, last = np.array([1.0, *(end + 1.0 for end in CLASSES[:-1])]), np.array(CLASSES, np.float64)
    below = np.append(at_least[1:], 0.0)
    own = at_least - below
    share = (np.arange(_POINTS) + 0.5) / _POINTS  # of the users of a class that have fewer keys
    # If nearly all of them end here, a power law would put them all at the beginning of the class.
    gone = np.maximum(1 / _POINTS, 1 - own / np.maximum(at_least, 1e-9))
    width = np.append(first[1:], 2 * first[-1]) / first
    power = -np.log(np.clip(gone, 1e-6, 1 - 1e-6)) / np.log(width)
    left = np.clip(1 - share * (1 - gone)[:, None], 1e-6, 1.0)
    keys = np.minimum(first[:, None] * left ** (-1 / power[:, None]), last[:, None])
    return np.repeat(own / _POINTS, _POINTS), keys.ravel()


def predicted_noises(counting: Counting, budget: Spending, asked: Mapping[str, Any]) -> list[float]:
    """The size of the noise with each candidate, in units of one contribution; or `ParameterError` for
    what no release could have, before the table is read.
    """
    check_user(counting)
    given = {"max_per_key": counting.max_per_key, "step": counting.step, "signed": counting.signed}
    release = {"epsilon": budget.left, "delta": budget.delta, **given, **asked}
    per_key = float(counting.max_per_key)
    Request(**release | {"epsilon": budget.epsilon, "max_keys_per_user": GRID[0]})  # first the ε that was stated
    return [predicted_noise(Request(max_keys_per_user=bound, **release)) / per_key for bound in GRID]


def _folded(noise: float, bias: float) -> float:
    """E|bias + η| for Gaussian η with a mean size of `noise`."""
    spread = noise * math.sqrt(math.pi / 2)
    if spread == 0:
        return bias
    ratio = bias / spread
    return noise * math.exp(-(ratio**2) / 2) + bias * math.erf(ratio / math.sqrt(2))
