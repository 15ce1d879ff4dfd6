"""Figures of a forecast (curves with their total standard error, experiments as
markers) and of a sensitivity.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import GiantstepError
from giantstep.core.scenario.lists import declaration, symbol_of
from giantstep.core.scenario.model import from_content
from giantstep.tools.figures.labels import mathtext, name_of, value_label
from giantstep.tools.figures.panels import experiment_points, limit_line, note
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DASHED,
    GREY,
    MARKERS,
    VERMILION,
    colours,
    log_axes,
    new_figure,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

MOST_CURVES = 5
"""Ridges drawn: more cannot be told apart."""
WORDS = {"mse": "mean squared test error", "error": "misclassified share"}


def draw_learning_curve(result: xarray.Dataset) -> Figure:
    """Draw mse (and the misclassified share, for classes) over samples, a curve for
    each of up to five ridges.
    """
    if result.attrs["task"] == "regression":
        names = ["mse"]
    else:
        names = ["error", "mse"]
    widths = {1: 5.6, 2: 9.2}
    figure, panels = new_figure(1, len(names), width=widths[len(names)], height=3.8)
    chosen = drawn_ridges(result, names[0])
    palette = colours(len(chosen), ordered=True)
    n = result["samples"].values
    count = int(result.attrs["N"])
    for axes, name in zip(panels, names):
        limits = result.sel(source="limit")
        for place, ridge in enumerate(chosen):
            point = limits.isel(ridge=ridge)
            colour = palette[place]
            limit_line(axes, n, point[name], colour, value_label(float(point["ridge"])))
            error = point[f"{name}_se_total"].values
            low = point[name].values - error
            high = point[name].values + error
            axes.fill_between(n, low, high, color=colour, alpha=0.15, linewidth=0)
            if "experiment" in result["source"].values:
                experiment_points(
                    axes,
                    n,
                    result.isel(ridge=ridge),
                    name,
                    colour,
                    marker=MARKERS[place % len(MARKERS)],
                )
        log_axes(axes, "x")
        axes.set(xlabel="training samples $n$", ylabel=WORDS[name])
        positive = limits[name].values[np.isfinite(limits[name]) & (limits[name] > 0)]
        if positive.size and positive.max() > 4 * positive.min():
            axes.set_ylim(0.8 * positive.min(), 1.25 * positive.max())
            log_axes(axes, "y")
        axes.axvline(count, color=GREY, linestyle=DASHED, linewidth=0.9, zorder=1)
        place_of = ("data", "axes fraction")
        axes.annotate(
            f" N = {count}",
            (count, 0.02),
            xycoords=place_of,
            color=GREY,
            fontsize=8,
            va="bottom",
        )
        axes.set_title(f"Forecast: {result.attrs[f'verdict_{name}']}", color=GREY)
    panels[0].legend(
        title="ridge (line: forecast, dots: experiment)", title_fontsize=8, ncols=2
    )
    return figure


def drawn_ridges(result: xarray.Dataset, name: str) -> list[int]:
    """Return which ridges to show: the best one with all rows, of which the statement
    speaks, and others evenly.
    """
    count = result.sizes["ridge"]
    if count <= MOST_CURVES:
        return list(range(count))
    known = np.abs(result["samples"].values - result.attrs["N"]).argmin()
    errors = result[name].sel(source="limit").isel(samples=known).values
    best = int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))
    even = np.round(np.linspace(0, count - 1, MOST_CURVES)).astype(int)
    even[np.abs(even - best).argmin()] = best
    return [int(place) for place in even]


# -- Bar charts of a sensitivity: which field matters most, and which way it pulls -----


_MOST = 20
"""Bars that are drawn; fields further down hardly matter."""


def draw_tornado(result: xarray.Dataset) -> Figure:
    """Draw the elasticities of one point as horizontal bars, the largest on top, with
    their measured errors.
    """
    elasticity = result["elasticity"]
    error = result["elasticity_error"]
    shown = np.flatnonzero(np.isfinite(elasticity.values))[:_MOST]
    values = elasticity.values[shown]
    spread = np.nan_to_num(error.values[shown])
    names = _labels([str(name) for name in result["field"].values[shown]], result.attrs)
    figure, (axes,) = new_figure(1, 1, width=6.2, height=1.3 + 0.3 * max(len(names), 1))
    places = np.arange(len(names))
    reach = float(np.max(np.abs(values), initial=1e-12))
    bars = np.where(spread > 0.005 * reach, spread, np.nan)
    axes.barh(
        places,
        values,
        xerr=bars,
        height=0.62,
        color=np.where(values > 0, VERMILION, BLUE).tolist(),
        ecolor=GREY,
    )
    axes.axvline(0, color=GREY, linewidth=0.8)
    for place, value in zip(places, values):
        side = 1 if value >= 0 else -1
        text = f"{value:+.2g}" if value else "0"
        towards = "left" if side > 0 else "right"
        note(
            axes,
            text,
            (float(value), float(place)),
            (4 * side, 0),
            BLACK,
            ha=towards,
            fontsize=8,
        )
    left = float(values.min(initial=0))
    right = float(values.max(initial=0))
    axes.set(
        yticks=places, yticklabels=names, xlim=(left - 0.2 * reach, right + 0.2 * reach)
    )
    axes.invert_yaxis()
    observable = str(result.attrs["observable"])
    along = f"percent that {name_of(observable)} changes for one percent of the field"
    axes.set_xlabel(textwrap.fill(along, 12 * int(figure.get_figwidth())))
    axes.set_title(
        f"{name_of(observable)} = {float(result[observable.partition('[')[0]]):.4g}"
    )
    return figure


def _labels(names: list[str], attrs: Mapping[str, Any]) -> list[str]:
    """Return fields as words, with their symbols where the result knows the
    scenario.
    """
    symbols: dict[str, str] = {}
    with suppress(
        GiantstepError, ValueError, KeyError, TypeError
    ):  # functions that live in Python only
        scenario = from_content(json.loads(str(attrs["scenario"])))
        symbols = {
            name: mathtext(symbol_of(declaration(scenario, name)).split(" = ")[0])
            for name in names
        }
    return [
        ", ".join(filter(None, [name_of(name), symbols.get(name, "")]))
        for name in names
    ]
