"""Pieces that published figures share: a curve with its experiment, a level, a panel letter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.style import GREY

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes


def limit_line(axes: Axes, x: Any, y: Any, colour: Any, label: str | None = None, **style: Any) -> None:
    """Draw a limit as a line."""
    axes.plot(np.asarray(x), np.asarray(y), color=colour, label=label, zorder=2, **style)


def experiment_points(
    axes: Axes,
    x: Any,
    result: xarray.Dataset,
    name: str,
    colour: Any,
    marker: str = "o",
    label: str | None = None,
) -> None:
    """Draw the experiment of a comparison as markers with error bars of one standard error."""
    measured = result.sel(source="experiment")
    axes.errorbar(
        np.asarray(x),
        measured[name].values,
        measured[f"{name}_stderr"].values,
        linestyle="none",
        marker=marker,
        color=colour,
        markerfacecolor="white",
        markeredgewidth=1.2,
        elinewidth=1.2,
        zorder=3,
        label=label,
    )


def level(
    axes: Axes, value: float, text: str, *, at: float = 1.0, above: bool = True, dashes: Any = (0, (1, 1.5))
) -> None:
    """Draw a baseline across the axes and say on it what it is."""
    axes.axhline(value, color=GREY, linewidth=1.0, linestyle=dashes, zorder=1)
    axes.annotate(
        text,
        (at, value),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, 2.5 if above else -2.5),
        textcoords="offset points",
        ha="right" if at > 0.5 else "left",
        va="bottom" if above else "top",
        fontsize=7.5,
        color=GREY,
    )


def engines(axes: Axes, experiment: str, *, line: str = "limit") -> list[Any]:
    """Return the two legend entries that say which marks are the limit and which the experiment."""
    from matplotlib.lines import Line2D

    bars = axes.errorbar(
        [], [], [], linestyle="none", marker="o", color=GREY, markerfacecolor="white", markeredgewidth=1.2
    )
    bars.set_label(experiment)
    return [Line2D([], [], color=GREY, label=line), bars]


def key(colour: Any, marker: str, label: str, linestyle: Any = "-") -> Any:
    """Return a legend entry: a line with a marker (or none) on it."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, marker=marker, markerfacecolor="white", linestyle=linestyle, label=label)


def letter(axes: Axes, text: str, title: str) -> None:
    """Name a panel: a bold letter and what it shows."""
    axes.set_title(f"$\\bf{{{text}}}$   {title}")
