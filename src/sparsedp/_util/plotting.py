"""Figures, if matplotlib is there."""

from __future__ import annotations

import io
import os
from functools import lru_cache
from typing import Any, TypeAlias

from ..errors import MissingDependencyError, ParameterError

Path: TypeAlias = str | os.PathLike[str]

_DENSITY = 144  # of the picture that a notebook shows, at half its size: sharp on every screen


@lru_cache(maxsize=1)
def figure_class() -> Any:
    """A class of matplotlib's figures, which need no display; or `MissingDependencyError`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("plots need matplotlib: pip install 'sparsedp[plot]'") from None

    class Picture(Figure):
        """A figure that a notebook shows, even if it has not imported pyplot."""

        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            content = io.BytesIO()
            self.savefig(content, format="png", dpi=_DENSITY)
            width, height = (round(inches * _DENSITY / 2) for inches in self.get_size_inches())
            return content.getvalue(), {"width": width, "height": height}

    return Picture


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of this size in inches, and its axes."""
    figure = figure_class()(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def check_picture(path: object, name: str = "path") -> None:
    """`ParameterError` for what does not name an image file of a kind that matplotlib writes."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or "\0" in text:
        raise ParameterError(f"{name} must be the path of an image file, got {path!r:.250}")
    kinds = sorted(figure_class()().canvas.get_supported_filetypes())
    if os.path.splitext(text)[1].lstrip(".").lower() not in kinds:
        raise ParameterError(f"{name} must end in one of .{', .'.join(kinds)}, got {text!r:.250}")


def finished(figure: Any, path: Path | None) -> Any:
    """The figure, which is also written into an image file if there is a path."""
    if path is not None:
        check_picture(path)
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:  # on a full disk it names no file
            if error.errno is not None:
                error.filename = os.fspath(path)
            raise
    return figure


def as_label(name: object) -> str:
    """A key as text that matplotlib takes as it is; one of several columns is a tuple."""
    words = ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)
    return words.replace("$", r"\$")
