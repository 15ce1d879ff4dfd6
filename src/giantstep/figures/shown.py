"""A figure that a notebook shows by itself, as the last line of a cell, without any setting of matplotlib."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

_DOTS_PER_INCH = 110


class ShownFigure(Figure):
    """A matplotlib figure that knows its picture.

    >>> ShownFigure(figsize=(1, 1))._repr_png_()[1:4]
    b'PNG'
    """

    def _repr_png_(self) -> bytes:
        """Return the figure as a PNG; notebooks ask for it."""
        from giantstep.figures.style import style

        stream = io.BytesIO()
        with style():
            self.savefig(stream, format="png", dpi=_DOTS_PER_INCH)
        return stream.getvalue()
