"""Pieces that published figures share: a curve with its experiment, a level, a panel
letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.result.layers import judged_side
from giantstep.tools.figures.style import DOTTED, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import Dataset


def sides(result: Dataset) -> tuple[Dataset, Dataset]:
    """Return what an experiment is compared with (the limit, corrected if that is
    known), and the experiment.
    """
    return judged_side(result), result.sel(source="experiment")


def limit_line(
    axes: Axes, x: Any, y: Any, colour: Any, label: str | None = None, **style: Any
) -> None:
    """Draw a limit as a line."""
    axes.plot(
        np.asarray(x), np.asarray(y), color=colour, label=label, zorder=2, **style
    )


def both_sides(grid: Floats, jumps: Sequence[float]) -> Floats:
    """Return a grid with a point just before and just after every jump, so that a curve
    jumps where it should.

    >>> both_sides(np.array([0.5, 1.5]), [1.0]).round(3).tolist()
    [0.5, 1.0, 1.0, 1.5]
    """
    places = np.asarray(jumps, dtype=np.float64)
    return np.unique(np.concatenate([grid, places * (1 - 1e-6), places * (1 + 1e-6)]))


def error_points(
    axes: Axes,
    x: Any,
    y: Any,
    errors: Any,
    colour: Any,
    marker: str = "o",
    label: str | None = None,
    **style: Any,
) -> None:
    """Draw measured points as open markers with error bars."""
    look = {
        "linestyle": "none",
        "markerfacecolor": "white",
        "markeredgewidth": 1.2,
        "elinewidth": 1.2,
        "zorder": 3,
    }
    axes.errorbar(
        np.asarray(x),
        y,
        errors,
        marker=marker,
        color=colour,
        label=label,
        **{**look, **style},
    )


def experiment_points(
    axes: Axes,
    x: Any,
    result: Dataset,
    name: str,
    colour: Any,
    marker: str = "o",
    label: Any = None,
    scale: float = 1.0,
) -> None:
    """Draw the experiment of a comparison (times `scale`) as markers with error bars of
    one standard error.
    """
    measured = result.sel(source="experiment")
    errors = abs(scale) * measured[f"{name}_stderr"].values
    error_points(
        axes,
        x,
        scale * measured[name].values,
        errors,
        colour,
        marker=marker,
        label=label,
    )


def compared(
    axes: Axes,
    x: Any,
    data: Dataset,
    name: str,
    colour: Any,
    marker: str = "o",
    label: str | None = None,
    **style: Any,
) -> None:
    """Draw both sides of a comparison at the points of its grid: a line for the theory,
    markers for the experiment.
    """
    limit_line(axes, x, sides(data)[0][name], colour, label, **style)
    experiment_points(axes, x, data, name, colour, marker=marker)


def level(
    axes: Axes, value: float, text: str, *, at: float = 1.0, above: bool = True
) -> None:
    """Draw a baseline across the axes and say on it what it is."""
    axes.axhline(value, color=GREY, linewidth=1.0, linestyle=DOTTED, zorder=1)
    side = "left"
    if at > 0.5:
        side = "right"
    edge = "top"
    shift = -2.5
    if above:
        edge = "bottom"
        shift = 2.5
    note(
        axes,
        text,
        (at, value),
        (0, shift),
        GREY,
        xycoords=axes.get_yaxis_transform(),
        ha=side,
        va=edge,
    )


def measured(axes: Axes, label: str) -> Any:
    """Return the legend entry of an experiment: an open marker with its error bar."""
    look: dict[str, Any] = {
        "linestyle": "none",
        "marker": "o",
        "markerfacecolor": "white",
        "markeredgewidth": 1.2,
    }
    return axes.errorbar([], [], [], color=GREY, label=label, **look)


def engines(axes: Axes, experiment: str, *, line: str = "limit") -> list[Any]:
    """Return the two legend entries that say which marks are the limit and which the
    experiment.
    """
    return [key(GREY, "", line), measured(axes, experiment)]


def key(
    colour: Any, marker: str, label: str, linestyle: Any = "-", **style: Any
) -> Any:
    """Return a legend entry: a line with a marker (or none) on it."""
    from matplotlib.lines import Line2D

    look = {
        "color": colour,
        "marker": marker,
        "markerfacecolor": "white",
        "linestyle": linestyle,
        "label": label,
    }
    return Line2D([], [], **{**look, **style})


def vertical(axes: Axes, x: float, colour: Any = GREY) -> None:
    """Mark a place on the horizontal axis by a dotted line behind everything else."""
    axes.axvline(x, color=colour, linewidth=0.9, linestyle=DOTTED, zorder=0)


def bars(axes: Axes, edges: Any, heights: Any, colour: Any = None) -> None:
    """Draw a histogram behind the lines: grey, or in the colour of the line it belongs
    to.
    """
    if colour is None:
        fill: dict[str, Any] = {"color": "0.87"}
        outline: dict[str, Any] = {"color": GREY}
    else:
        fill = {"alpha": 0.2}
        outline = {"alpha": 0.75}
    axes.stairs(
        heights, edges, fill=True, linewidth=0, zorder=1, **{"color": colour, **fill}
    )
    axes.stairs(heights, edges, linewidth=0.7, zorder=1, **{"color": colour, **outline})


def bars_key(label: str) -> Any:
    """Return the legend entry of a histogram."""
    from matplotlib.patches import Patch

    return Patch(facecolor="0.87", edgecolor=GREY, linewidth=0.7, label=label)


def stem(
    axes: Axes,
    x: float,
    height: float,
    measured: tuple[float, float],
    colour: Any,
    point_colour: Any = None,
) -> None:
    """Draw a predicted place as a line from the axis, with the measured one and its
    error on top.
    """
    axes.plot([x] * 2, [0, height], color=colour, linewidth=1.4, zorder=2)
    error_points(
        axes, [measured[0]], [height], None, point_colour or colour, xerr=[measured[1]]
    )


def note(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    shift: tuple[float, float],
    colour: Any,
    **style: Any,
) -> None:
    """Write a small text at a place of the axes, moved by some points."""
    look = {"fontsize": 7.5, "ha": "center", "va": "center"}
    axes.annotate(
        text,
        at,
        xytext=shift,
        textcoords="offset points",
        color=colour,
        **{**look, **style},
    )


def letters(axes: Sequence[Axes], *titles: str) -> None:
    """Name panels in their order by a bold letter and what they show: a, b, c, ..."""
    for panel, text, title in zip(axes, "abcdefghijkl", titles):
        panel.set_title(f"$\\bf{{{text}}}$   {title}")
