"""Bar charts of a sensitivity: which field matters most, and which way it pulls."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.errors import GiantstepError
from giantstep.figures.labels import mathtext, name_of
from giantstep.figures.panels import note
from giantstep.figures.style import BLACK, BLUE, GREY, VERMILION, new_figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

_MOST = 20
"""Bars that are drawn; fields further down hardly matter."""


def draw_tornado(result: xarray.Dataset) -> Figure:
    """Draw the elasticities of one point as horizontal bars, the largest on top, with their measured errors."""
    elasticity, error = result["elasticity"], result["elasticity_error"]
    shown = np.flatnonzero(np.isfinite(elasticity.values))[:_MOST]
    values, spread = elasticity.values[shown], np.nan_to_num(error.values[shown])
    names = _labels([str(name) for name in result["field"].values[shown]], result.attrs)
    figure, (axes,) = new_figure(1, 1, width=6.2, height=1.3 + 0.3 * max(len(names), 1))
    places = np.arange(len(names))
    reach = float(np.max(np.abs(values), initial=1e-12))
    bars = np.where(spread > 0.005 * reach, spread, np.nan)
    axes.barh(places, values, xerr=bars, height=0.62, color=np.where(values > 0, VERMILION, BLUE).tolist(), ecolor=GREY)
    axes.axvline(0, color=GREY, linewidth=0.8)
    for place, value in zip(places, values):
        side = 1 if value >= 0 else -1
        text, towards = f"{value:+.2g}" if value else "0", "left" if side > 0 else "right"
        note(axes, text, (float(value), float(place)), (4 * side, 0), BLACK, ha=towards, fontsize=8)
    left, right = float(values.min(initial=0)), float(values.max(initial=0))
    axes.set(yticks=places, yticklabels=names, xlim=(left - 0.2 * reach, right + 0.2 * reach))
    axes.invert_yaxis()
    observable = str(result.attrs["observable"])
    along = f"percent that {name_of(observable)} changes for one percent of the field"
    axes.set_xlabel(textwrap.fill(along, 12 * int(figure.get_figwidth())))
    axes.set_title(f"{name_of(observable)} = {float(result[observable.partition('[')[0]]):.4g}")
    return figure


def _labels(names: list[str], attrs: Mapping[str, Any]) -> list[str]:
    """Return fields as words, with their symbols where the result knows the scenario."""
    from giantstep.partlists import declaration, symbol_of
    from giantstep.scenario import from_content

    symbols: dict[str, str] = {}
    with suppress(GiantstepError, ValueError, KeyError, TypeError):  # functions that live in Python only
        scenario = from_content(json.loads(str(attrs["scenario"])))
        for name in names:
            symbols[name] = mathtext(symbol_of(declaration(scenario, name)).split(" = ")[0])
    return [", ".join(filter(None, [name_of(name), symbols.get(name, "")])) for name in names]
