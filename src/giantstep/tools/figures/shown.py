"""A figure that a notebook shows by itself and once, whether it is the last line of a
cell or not.
"""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from giantstep.core.base.progress import in_notebook
from giantstep.tools.figures.style import style

_DOTS_PER_INCH = {"screen": 110, "paper": 180}
"""Dots per inch of a picture in a notebook: a figure fits the column of a cell, and
8-point type can be read.
"""


class ShownFigure(Figure):
    """A matplotlib figure that knows its picture.

    >>> ShownFigure(figsize=(1, 1))._repr_png_()[1:4]
    b'PNG'
    """

    paper: float | None = None
    """Its width in inches where it is for a paper."""
    waiting: bool = False
    """Whether the running cell of a notebook shows it at its end."""

    def _repr_png_(self) -> bytes:
        """Return the figure as a PNG; notebooks ask for it."""
        self.waiting = False
        stream = io.BytesIO()
        with style(self.paper):
            self.savefig(
                stream,
                format="png",
                dpi=_DOTS_PER_INCH["screen" if self.paper is None else "paper"],
            )
        return stream.getvalue()


class TitledAxes(Axes):
    """Axes with one title: a reader's own takes the place of ours, wherever either
    stands.

    >>> axes = ShownFigure().add_subplot(axes_class=TitledAxes)
    >>> _ = axes.set_title("ours", loc="left", color="grey"), axes.set_title("mine")
    >>> axes.get_title(loc="left"), axes.get_title()
    ('', 'mine')
    """

    def set_title(
        self,
        label: Any,
        fontdict: Any = None,
        loc: Any = None,
        pad: Any = None,
        **look: Any,
    ) -> Any:
        """Set the title; see matplotlib."""
        place = str(loc or matplotlib.rcParams["axes.titlelocation"])
        for other in {"left", "center", "right"} - {place}:
            super().set_title("", loc=other)  # type: ignore[arg-type]
        if not {"color", "c"} & {*look, *(fontdict or {})}:
            look["color"] = matplotlib.rcParams["text.color"]
        return super().set_title(label, fontdict, loc, pad, **look)


def shown_after_cell(figure: Figure) -> Figure:
    """Let a notebook show the figure at the end of the cell, unless the cell shows it
    itself; elsewhere do nothing.

    This is what figures of pyplot do, so that ``gs.plot(result);`` and ``figure =
    gs.plot(result)`` show it too.
    """
    shell = _notebook()
    if shell is None or not isinstance(figure, ShownFigure) or figure.waiting:
        return figure

    def show() -> None:
        # first: what cannot be drawn must not come back after every cell
        shell.events.unregister("post_execute", show)
        if figure.waiting:
            figure.waiting = False
            importlib.import_module("IPython.display").display(figure)

    figure.waiting = True
    shell.events.register("post_execute", show)
    return figure


def shown_by_pyplot(figure: Figure) -> Figure:
    """Return the figure of axes that a reader gave; as the last line of a cell it is
    not shown by pyplot once more.
    """
    if _notebook() is not None and "inline" in str(matplotlib.get_backend()):

        def take_from_pyplot() -> None:
            importlib.import_module("matplotlib._pylab_helpers").Gcf.destroy_fig(figure)
            raise NotImplementedError  # lets IPython show it as it always does

        figure._ipython_display_ = take_from_pyplot  # type: ignore[attr-defined]
    return figure


def _notebook() -> Any:
    """Return the shell of a notebook; None elsewhere."""
    return sys.modules["IPython"].get_ipython() if in_notebook() else None
