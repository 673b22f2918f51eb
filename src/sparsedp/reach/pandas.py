"""A release beside pandas: `series.sparsedp.lookup(release)`, and `low` and `high`.

Importing this module gives every Series, and every DataFrame for keys of several columns, an
accessor `sparsedp`. Missing keys give NaN.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..errors import InputError, KeyTypeError, MissingDependencyError
from ..releasing.published import Release
from .answering import Question, questions, without_position

try:
    import pandas as pd
except ImportError:
    raise MissingDependencyError("sparsedp.reach.pandas needs pandas: pip install 'sparsedp[pandas]'") from None

AnyRelease = Release | str | os.PathLike[str]


class _Answers:
    """What both accessors have."""

    def __init__(self, keys: Any) -> None:
        self._keys = keys

    def lookup(self, release: AnyRelease) -> Any:
        """A Series of estimates, with the same index; NaN where a key is missing."""
        return self._asked(questions(release, 0.5)[0])

    def low(self, release: AnyRelease, confidence: float = 0.95) -> Any:
        """The low ends of the intervals."""
        return self._asked(questions(release, confidence)[1])

    def high(self, release: AnyRelease, confidence: float = 0.95) -> Any:
        """The high ends of the intervals."""
        return self._asked(questions(release, confidence)[2])

    def _asked(self, question: Question) -> Any:
        keys, missing = self._keys, self._missing(question)
        numbers = np.full(len(keys), np.nan)
        if not missing.any():
            numbers[:] = question.numbers(keys)
        elif not missing.all():
            try:
                numbers[~missing] = question.numbers(keys[~missing])
            except InputError as error:  # positions would be those among the keys that are there
                raise without_position(error) from None
        return pd.Series(numbers, keys.index, name=self._name(question))

    def _missing(self, question: Question) -> Any:
        raise NotImplementedError

    def _name(self, question: Question) -> Any:
        raise NotImplementedError


@pd.api.extensions.register_series_accessor("sparsedp")
class SeriesAnswers(_Answers):
    """`series.sparsedp`: the keys are the values."""

    def _missing(self, question: Question) -> Any:
        missing = np.asarray(self._keys.isna(), bool)
        if self._keys.dtype == np.float64 and not missing.all():
            raise KeyTypeError("keys must not be float64, as pandas reads integers with gaps; use .astype('Int64')")
        return missing

    def _name(self, question: Question) -> Any:
        return self._keys.name


@pd.api.extensions.register_dataframe_accessor("sparsedp")
class FrameAnswers(_Answers):
    """`frame.sparsedp`: the keys are rows of the columns that the release names; other columns are
    ignored.
    """

    def _missing(self, question: Question) -> Any:
        question.numbers(self._keys.iloc[:0])  # refuses columns that are missing, or twice there
        columns = [column.name for column in question.release.key_columns]
        return np.asarray(self._keys[columns].isna().any(axis=1), bool)

    def _name(self, question: Question) -> Any:
        return question.wanted
