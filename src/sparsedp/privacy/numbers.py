"""Checks of the numbers and flags that a caller states, made before any data is read."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational

import numpy as np

from ..errors import ParameterError

_LONGEST_POWER = 4096  # bits


def check_epsilon(epsilon: float) -> float:
    """A positive finite ε, or `ParameterError`."""
    value = check_number("epsilon", epsilon)
    if value <= 0:
        raise ParameterError(f"epsilon must be positive, got {epsilon}")
    return value


def check_delta(delta: float) -> float:
    """A δ in [0, 1), or `ParameterError`."""
    value = check_number("delta", delta)
    if not 0 <= value < 1:
        raise ParameterError(f"delta must be in [0, 1), got {delta}")
    if value == 0 and delta != 0:
        raise ParameterError("delta must be 0 or at least 5e-324, got a smaller number, which a float cannot hold")
    return value


def check_number(name: str, value: object) -> float:
    """A finite real number, or `ParameterError`."""
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]  # whatever it is, the next lines say so
        if not math.isfinite(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be a finite number, got {value!r}") from None
    return number


def check_flag(name: str, value: object) -> bool:
    """True or False, or `ParameterError`: any other object has a truth value too, as "False" does, and
    a flag may decide what is published.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def positive_fraction(name: str, value: float | Fraction) -> Fraction:
    """A positive number as the decimal that it prints as: 0.1 is one tenth."""
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        if isinstance(value, Rational):  # including NumPy integers, whose arithmetic would overflow
            exact = Fraction(int(value.numerator), int(value.denominator))
        else:
            exact = Fraction(repr(float(value)))
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be a finite number, got {value!r}") from None
    if exact <= 0:
        raise ParameterError(f"{name} must be positive, got {value}")
    return exact


def whole_number(name: str, value: int) -> int:
    """A positive whole number, or `ParameterError`."""
    exact = positive_fraction(name, value)
    if exact.denominator != 1:
        raise ParameterError(f"{name} must be a whole number, got {value}")
    return exact.numerator


def written_number(text: str) -> Fraction:
    """1000, 1e6, 0.5 or 2^64, exactly as written; `ValueError` says what is wrong with other text."""
    base, power, exponent = text.partition("^")
    try:
        if power:
            value = _power(int(base), _small(exponent))
        else:
            _small(text.lower().partition("e")[2] or "0")
            value = Fraction(text)
        is_zero = float(value) == 0  # must not overflow: ε and real parameters are floats
    except (ArithmeticError, ValueError):
        raise ValueError(f"must be a number such as 1000, 1e6, 0.5 or 2^64, got {text!r}") from None
    if is_zero and value:
        raise ValueError(f"must be 0 or at least 5e-324, got {text!r}, which is too small for a float")
    return value


def _small(exponent: str) -> int:
    if not -1000 <= int(exponent) <= 1000:
        raise ValueError
    return int(exponent)


def _power(base: int, exponent: int) -> Fraction:
    if base.bit_length() * abs(exponent) > _LONGEST_POWER:  # it would take long, and would not fit a float
        raise ValueError
    return Fraction(base) ** exponent
