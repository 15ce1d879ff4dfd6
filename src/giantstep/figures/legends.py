"""Where legends stand: inside the axes where they are short, beside them else; one for several panels."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.style import paper_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False}
"""Where a legend stands that would cover data."""
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.02), "frameon": False}
"""Where legends of a paper stand: a column has no room beside the axes."""
ROOM = 4
"""Entries beyond which a legend stands beside the axes."""
_LETTERS_PER_INCH = 20
"""Letters of 8 points that an inch holds, for the columns of a legend of a paper."""
_HANDLE = 0.5
"""Inches of a legend's column that its sample of a line takes."""
_TICKS = 0.5
"""Inches beside the axes of a paper, for ticks and their label."""
_ROWS, _ROW = 3, 0.16
"""Rows of a legend for which a figure of a paper has room above its axes, and inches of each further one."""


def outside(labels: Sequence[str]) -> dict[str, Any]:
    """Return where a legend stands that must not cover data: beside the axes, in a paper above them."""
    paper = paper_width()
    return _BESIDE if paper is None else {**_ABOVE, "ncols": _columns(labels, paper - _TICKS)}


def _columns(labels: Sequence[str], width: float) -> int:
    """Return how many entries of a legend of a paper stand beside each other in so many inches."""
    letters = [len(re.sub(r"\\[A-Za-z]+|[${}_^]", "", label)) for label in labels]
    column = _HANDLE + max(letters, default=1) / _LETTERS_PER_INCH
    return int(np.clip(width / column, 1, 4))


def place_legend(panels: Sequence[Axes], handles: Sequence[Any]) -> None:
    """Put a legend where it covers little: into a single panel if it is short, else beside all, in a paper above."""
    named = {str(handle.get_label()): handle for handle in handles}
    if not named:
        return
    entries, paper = list(named.values()), paper_width()
    if paper is not None:
        _make_room(panels[0], math.ceil(len(named) / _columns(list(named), paper - _TICKS * (len(panels) == 1))))
    if len(panels) == 1 and paper is None and len(named) <= ROOM:
        panels[0].legend(handles=entries, loc="best")
    elif len(panels) == 1:
        panels[0].legend(handles=entries, **outside(list(named)))
    elif paper is None:
        panels[0].figure.legend(handles=entries, loc="outside right upper", frameon=False)
    else:
        panels[0].figure.legend(handles=entries, loc="outside upper center", ncols=_columns(list(named), paper))


def _make_room(panel: Axes, rows: int) -> None:
    """Make a figure of a paper higher where a legend of many rows above it would leave its axes a strip."""
    figure = panel.get_figure(root=True)
    if figure is not None and rows > _ROWS:
        figure.set_figheight(figure.get_figheight() + (rows - _ROWS) * _ROW)
