"""Legends that hide nothing: inside the axes where there is room, beside them where there is none; titles that fit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.style import paper_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False}
"""Where a legend stands that would cover data."""
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.02), "frameon": False}
"""Where legends of a paper stand: a column has no room beside the axes."""
_LETTERS_PER_INCH = 20
"""Letters of 8 points that an inch holds, for the columns of a legend of a paper."""
_HANDLE = 0.5
"""Inches of a legend's column that its sample of a line takes."""
MARGIN = 8.0
"""Dots between a title and what stands right of it."""


def outside(labels: Sequence[str]) -> dict[str, Any]:
    """Return where a legend stands that must not cover data: beside the axes, in a paper above them."""
    paper = paper_width()
    if paper is None:
        return _BESIDE
    letters = [len(re.sub(r"\\[A-Za-z]+|[${}_^]", "", label)) for label in labels]
    column = _HANDLE + max(letters, default=1) / _LETTERS_PER_INCH
    return {**_ABOVE, "ncols": int(np.clip((paper - 0.5) / column, 1, 3))}


def clear_of_data(figure: Figure, panels: Sequence[Axes]) -> None:
    """Move legends that cover a line, a marker, an error bar or a histogram out of their axes."""
    inside = [axes for axes in panels if (legend := axes.get_legend()) is not None and legend.get_frame_on()]
    if inside:
        figure.draw_without_rendering()
    for axes in inside:
        legend = axes.get_legend()
        if legend is not None and covers_data(axes, legend.get_window_extent()):
            legend.set_loc(_BESIDE["loc"])
            legend.set_bbox_to_anchor(_BESIDE["bbox_to_anchor"], transform=axes.transAxes)
            legend.set_frame_on(_BESIDE["frameon"])


def covers_data(axes: Axes, box: Bbox) -> bool:
    """Tell whether a box on paper lies over anything that was drawn from numbers."""
    for line in axes.lines:
        path = line.get_transform().transform_path(line.get_path())
        vertices = np.asarray(path.vertices, dtype=float)
        if not np.isfinite(vertices).any():
            continue
        joined = line.get_linestyle() not in ("None", "none", "", " ")
        points = vertices[np.isfinite(vertices).all(axis=1)]
        if box.count_contains(points) or (joined and path.intersects_bbox(box, filled=False)):
            return True
    for patch in axes.patches:
        path = patch.get_transform().transform_path(patch.get_path())
        if path.intersects_bbox(box, filled=True):
            return True
    for collection in axes.collections:
        transform = collection.get_transform()
        if any(transform.transform_path(path).intersects_bbox(box, filled=True) for path in collection.get_paths()):
            return True
    return False


def fit_titles(figure: Figure, panels: Sequence[Axes]) -> None:
    """Break titles that would run into the next panel or out of the figure."""
    from matplotlib.text import Text

    titled = [axes for axes in panels if axes.get_title(loc="left")]
    if not titled:
        return
    figure.draw_without_rendering()
    edges = [box.x0 for axes in panels if (box := axes.get_tightbbox()) is not None]
    for axes in titled:
        text, left = axes.get_title(loc="left"), axes.get_window_extent().x0
        artist = next(c for c in axes.get_children() if isinstance(c, Text) and c.get_text() == text)
        room = min([figure.bbox.x1, *(edge for edge in edges if edge > left)]) - left - MARGIN
        width = artist.get_window_extent().width
        if width > room:
            letters = int(max(map(len, text.split("\n"))) * room / width)
            artist.set_text(textwrap.fill(text.replace("\n", " "), max(letters, 12)))
