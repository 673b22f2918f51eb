"""Attributes that are computed at first use, and kept.

Before Python 3.12, `functools.cached_property` computes under a lock that all instances share. A
child that is forked while another thread computes would wait for that lock forever. Without it, two
threads may both compute the value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

if sys.version_info >= (3, 12):
    from functools import cached_property
else:
    Value = TypeVar("Value")

    class cached_property(Generic[Value]):  # noqa: N801  # it replaces the one of functools
        """A property that is computed once."""

        def __init__(self, compute: Callable[[Any], Value]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        @overload
        def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Value: ...
        def __get__(self, instance: object, owner: type) -> Value | cached_property[Value]:
            if instance is None:
                return self
            # From now on Python finds the value in the instance before it gets here.
            value: Value = instance.__dict__.setdefault(self._name, self._compute(instance))
            return value


__all__ = ["cached_property"]
