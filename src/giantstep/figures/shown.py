"""A figure that a notebook shows by itself and once: as the last line of a cell, behind a semicolon, or given a name."""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any

from matplotlib.figure import Figure

_DOTS_PER_INCH = 110
"""Dots per inch of a picture in a notebook: a figure 5.6 inches wide fits the column of a cell."""
_WAITING: list[Figure] = []
"""Figures of the running cell of a notebook; empty between cells."""


class ShownFigure(Figure):
    """A matplotlib figure that knows its picture.

    >>> ShownFigure(figsize=(1, 1))._repr_png_()[1:4]
    b'PNG'
    """

    dots_per_inch = _DOTS_PER_INCH

    def _repr_png_(self) -> bytes:
        """Return the figure as a PNG; notebooks ask for it."""
        from giantstep.figures.style import style

        if self in _WAITING:
            _WAITING.remove(self)
        stream = io.BytesIO()
        with style():
            self.savefig(stream, format="png", dpi=self.dots_per_inch)
        return stream.getvalue()


def shown_after_cell(figure: Figure) -> Figure:
    """Let a notebook show the figure at the end of the cell, unless the cell shows it itself; elsewhere do nothing.

    This is what figures of pyplot do, so that ``gs.plot(result);`` and ``figure = gs.plot(result)`` show it too.
    """
    shell = _notebook()
    if shell is not None and isinstance(figure, ShownFigure) and figure not in _WAITING:
        _WAITING.append(figure)
        if _show_waiting not in shell.events.callbacks["post_execute"]:
            shell.events.register("post_execute", _show_waiting)
    return figure


def _notebook() -> Any:
    """Return the shell of a notebook; None elsewhere."""
    from giantstep.progress import in_notebook

    return sys.modules["IPython"].get_ipython() if in_notebook() else None


def _show_waiting() -> None:
    display = importlib.import_module("IPython.display").display
    for figure in list(_WAITING):
        display(figure)
    _WAITING.clear()
