"""The figure of a forecast: learning curves with their total standard error, the experiment as markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from giantstep.figures.labels import value_label
from giantstep.figures.panels import experiment_points, limit_line
from giantstep.figures.style import DASHED, GREY, MARKERS, colours, log_axes, new_figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

MOST_CURVES = 5
"""Ridges drawn: more cannot be told apart."""
WORDS = {"mse": "mean squared test error", "error": "misclassified share"}


def draw_learning_curve(result: xarray.Dataset) -> Figure:
    """Draw mse (and the misclassified share, for classes) over samples, a curve for each of up to five ridges."""
    names = ["mse"] if result.attrs["task"] == "regression" else ["error", "mse"]
    figure, panels = new_figure(1, len(names), width=5.6 if len(names) == 1 else 9.2, height=3.8)
    chosen = drawn_ridges(result, names[0])
    palette = colours(len(chosen), ordered=True)
    n, count = result["samples"].values, int(result.attrs["N"])
    for axes, name in zip(panels, names):
        limits = result.sel(source="limit")
        for place, ridge in enumerate(chosen):
            point, colour = limits.isel(ridge=ridge), palette[place]
            limit_line(axes, n, point[name], colour, value_label(float(point["ridge"])))
            low, high = (point[name].values + side * point[f"{name}_se_total"].values for side in (-1, 1))
            axes.fill_between(n, low, high, color=colour, alpha=0.15, linewidth=0)
            if "experiment" in result["source"].values:
                experiment_points(axes, n, result.isel(ridge=ridge), name, colour, MARKERS[place % len(MARKERS)])
        log_axes(axes, "x")
        axes.set(xlabel="training samples $n$", ylabel=WORDS[name])
        positive = limits[name].values[np.isfinite(limits[name]) & (limits[name] > 0)]
        if positive.size and positive.max() > 4 * positive.min():
            axes.set_ylim(0.8 * positive.min(), 1.25 * positive.max())
            log_axes(axes, "y")
        axes.axvline(count, color=GREY, linestyle=DASHED, linewidth=0.9, zorder=1)
        place_of = ("data", "axes fraction")
        axes.annotate(f" N = {count}", (count, 0.02), xycoords=place_of, color=GREY, fontsize=8, va="bottom")
        axes.set_title(f"Forecast: {result.attrs[f'verdict_{name}']}", color=GREY)
    panels[0].legend(title="ridge (line: forecast, dots: experiment)", title_fontsize=8, ncols=2)
    return figure


def drawn_ridges(result: xarray.Dataset, name: str) -> list[int]:
    """Return which ridges to show: the best one with all rows, of which the statement speaks, and others evenly."""
    count = result.sizes["ridge"]
    if count <= MOST_CURVES:
        return list(range(count))
    known = np.abs(result["samples"].values - result.attrs["N"]).argmin()
    errors = result[name].sel(source="limit").isel(samples=known).values
    best = int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))
    even = np.round(np.linspace(0, count - 1, MOST_CURVES)).astype(int)
    even[np.abs(even - best).argmin()] = best
    return [int(place) for place in even]
