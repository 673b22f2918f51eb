"""Changes to release files that keep what is checked first right, so that they reach what is
checked later.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from sparsedp import FormatError
from sparsedp.format import container as storage
from sparsedp.format.codec import decode_plan
from sparsedp.mechanisms import MECHANISMS

from .forging import NASTY, Header, Place, join, leaves, sealed, split, with_arrays

MutateBytes = Callable[[bytes, int], bytes]
Change = Callable[[bytes, Random, MutateBytes], bytes]


def mutate(content: bytes, largest: int, seed: int, mutate_bytes: MutateBytes) -> bytes:
    """A changed file; what cannot be taken apart any more is changed as bytes."""
    random = Random(seed)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change = random.choices(list(CHANGES), list(CHANGES.values()))[0]
        try:
            changed = change(content, random, mutate_bytes)
        except Exception:  # the file is too broken for this change
            changed = mutate_bytes(content, largest)
        if len(changed) <= largest:
            content = changed
    return content


def _any_bytes(content: bytes, _: Random, mutate_bytes: MutateBytes) -> bytes:
    return mutate_bytes(content, len(content) + 64)


def _header_text(content: bytes, _: Random, mutate_bytes: MutateBytes) -> bytes:
    end = 8 + int.from_bytes(content[:8], "little")
    text = mutate_bytes(content[8:end].rstrip(), end + 64)
    return sealed(text.decode("latin-1"), content[end:])


def _entry(content: bytes, random: Random, mutate_bytes: MutateBytes) -> bytes:
    entries, description, data = split(content)
    return join(_changed(entries, random, mutate_bytes), description, data)


def _description(content: bytes, random: Random, mutate_bytes: MutateBytes) -> bytes:
    entries, description, data = split(content)
    return join(entries, _changed(description, random, mutate_bytes), data)


def _plan(content: bytes, random: Random, mutate_bytes: MutateBytes) -> bytes:
    """Another plan, and mostly the ε and δ that it guarantees: a forger can compute them too."""
    container = storage.from_bytes(content)
    description = container.description
    description["plan"] = _changed(description["plan"], random, mutate_bytes)
    if random.random() < 0.8:
        _restate(description, dict(container.arrays))
    return with_arrays(description, dict(container.arrays))


def _restate(description: Header, arrays: storage.Arrays) -> None:
    matrices = {name: array for name, array in arrays.items() if name.startswith("plan.")}
    with suppress(FormatError, ArithmeticError, AssertionError, ValueError):
        plan: Any = decode_plan(
            MECHANISMS[description["mechanism"]], description["plan"], "plan", description["format"], matrices
        )
        description["keys"]["domain"] = description["plan"]["problem"]["domain"]
        description["epsilon"], description["delta"] = plan.epsilon, plan.delta


def _array_values(content: bytes, random: Random, mutate_bytes: MutateBytes) -> bytes:
    container = storage.from_bytes(content)
    arrays = {name: array.copy() for name, array in container.arrays.items()}
    name = random.choice(sorted(name for name, array in arrays.items() if array.size))
    array = arrays[name]
    at = random.randrange(array.size)
    kind = random.randrange(5)
    if kind == 0:
        blob = mutate_bytes(array.tobytes(), array.nbytes)
        padded = blob[: array.nbytes].ljust(array.nbytes, b"\0")
        arrays[name] = np.frombuffer(padded, array.dtype).reshape(array.shape)
    elif kind == 1:
        array.flat[at] = array.flat[random.randrange(array.size)]
    elif kind == 2:
        array.view(np.uint8).reshape(-1)[random.randrange(array.nbytes)] ^= 1 << random.randrange(8)
    elif kind == 3:
        array.flat[at] = random.choice((0, 1, np.iinfo(array.dtype).min, np.iinfo(array.dtype).max))
    else:
        array.flat[at] += np.array(random.choice((-1, 1))).astype(array.dtype)
    return with_arrays(container.description, arrays)


def _array_shapes(content: bytes, random: Random, _: MutateBytes) -> bytes:
    container = storage.from_bytes(content)
    arrays = dict(container.arrays)
    name = random.choice(sorted(arrays))
    array = arrays[name]
    kind = random.randrange(5)
    if kind == 0:
        for other in [name, *(other for other in arrays if other.startswith("table."))]:
            arrays[other] = arrays[other][: random.choice((0, 1, len(array) // 2, max(len(array) - 1, 0)))]
    elif kind == 1:
        arrays[name] = np.concatenate([array, array[: random.choice((1, 8, len(array)))]])
    elif kind == 2:
        arrays[name] = array.reshape(-1) if array.ndim == 2 else array.reshape(1, -1)
    elif kind == 3:
        arrays[name] = array.reshape(-1).view(random.choice((np.uint8, np.uint64, np.int64)))
    else:
        del arrays[name]
        if random.random() < 0.5:
            arrays[random.choice(("padding.9", "negative.table.ids", "table.ids", "x"))] = array
    return with_arrays(container.description, arrays)


def _crossed(content: bytes, random: Random, _: MutateBytes) -> bytes:
    """Some of this file with some of a golden one."""
    container, other = storage.from_bytes(content), storage.from_bytes(random.choice(_golden()))
    description, arrays = dict(container.description), dict(container.arrays)
    if random.random() < 0.5:
        shared = sorted(set(description) & set(other.description))
        for name in random.sample(shared, random.randint(1, len(shared))):
            description[name] = other.description[name]
    for name in sorted(other.arrays):
        if random.random() < 0.5:
            arrays[name] = other.arrays[name]
    return with_arrays(description, arrays)


CHANGES: dict[Change, int] = {
    _any_bytes: 1,
    _header_text: 1,
    _entry: 2,
    _description: 4,
    _plan: 10,
    _array_values: 6,
    _array_shapes: 3,
    _crossed: 2,
}


@cache
def _golden() -> list[bytes]:
    folder = Path(__file__).parent.parent / "tests" / "golden"
    return [path.read_bytes() for path in sorted(folder.rglob("*.sparsedp")) if path.is_file()]


def _changed(tree: Any, random: Random, mutate_bytes: MutateBytes) -> Any:
    """A JSON tree with another value at one place."""
    tree = copy.deepcopy(tree)
    places = list(leaves(tree))[1:]
    place = random.choice(places)
    inner = _at(tree, place[:-1])
    last = place[-1]
    kind = random.randrange(10)
    if kind == 0:
        del inner[last]
    elif kind == 1:
        inner[last] = copy.deepcopy(_at(tree, random.choice(places)))
    elif kind == 2:
        inner[last] = random.choice(NASTY)
    elif kind == 3 and isinstance(inner, list):
        inner.insert(random.randrange(len(inner) + 1), copy.deepcopy(inner[last]))
    else:
        inner[last] = _near(inner[last], random, mutate_bytes)
    return tree


def _at(tree: Any, place: Place) -> Any:
    for name in place:
        tree = tree[name]
    return tree


def _near(value: Any, random: Random, mutate_bytes: MutateBytes) -> Any:
    """A value of the same type that is not far."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return _near_integer(value, random)
    if isinstance(value, float):
        return random.choice((math.nextafter(value, math.inf), value * 2, value / 2, -value, 1 / value if value else 1))
    if isinstance(value, str):
        if value.isdecimal():
            return str(_near_integer(int(value), random))
        return mutate_bytes(value.encode(), len(value) + 8).decode("latin-1")
    if isinstance(value, list):
        return random.choice((value[:-1], value[::-1], value * 2, [*value, *value[:1]]))
    if isinstance(value, dict) and value:
        return {name: item for name, item in value.items() if name != random.choice(list(value))}
    return random.choice(NASTY)


def _near_integer(value: int, random: Random) -> int:
    return random.choice((value + 1, value - 1, value * 2, value // 2, value ^ 1 << random.randrange(64), -value))
