"""The figure of the page as a file: its panels, drawn with the lines, markers, maps and
look of every other figure.

The page sends what it shows: lines, dots, maps and names, with colours and dashes, as
JSON. It is drawn as it is. The results behind it are not asked again: an experiment
that was stopped, a curve that the reader kept and a forecast of a table could not be.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.tools.figures.labels import place_legend
from giantstep.tools.figures.maps import cell_edges, coded
from giantstep.tools.figures.panels import error_points, key, limit_line
from giantstep.tools.figures.style import (
    COLORMAP,
    GREY,
    ORANGE,
    log_axes,
    new_figure,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE = 5.6
_ALONE = 8.6
_TALL = 3.9
"""Inches of a panel, of one alone, and their height."""
_MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^"}
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")
_MOST_PANELS = 4
_MOST_SERIES = 400
"""Panels, and lines in one, that a request may ask for: the page never has more, and
drawing stays below seconds.
"""
_LOOK: dict[Any, Any] = {
    # letters as outlines: whoever gets the file need not have our font
    "svg.fonttype": "path",
    # long enough for the longest dashes of the page
    "legend.handlelength": 3.0,
}
"""How a file differs from other figures."""
_THINNEST = 0.5
_WIDEST = 4.0
"""Widths of lines in points, whatever a request asks for."""


def figure_file(
    panels: Sequence[Mapping[str, Any]], kind: str, title: str = ""
) -> bytes:
    """Return panels as the bytes of a PNG, SVG or PDF; what is no panel raises an
    `InputError`.
    """
    from matplotlib import rc_context

    _check_size(panels)
    file = BytesIO()
    with style(), rc_context(_LOOK):
        try:
            figure = _figure(panels, title)
            figure.savefig(file, format=kind)
        except (
            AttributeError,
            IndexError,
            KeyError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:
            raise InputError(
                f"The figure cannot be drawn: {type(error).__name__}."
            ) from None
    return file.getvalue()


def _check_size(panels: Sequence[Mapping[str, Any]]) -> None:
    """Refuse more than the page ever shows."""
    curves = [panel.get("series") for panel in panels]
    is_good = all(
        isinstance(series, list) and len(series) <= _MOST_SERIES for series in curves
    )
    if not 0 < len(panels) <= _MOST_PANELS or not is_good:
        raise InputError(
            f"A figure has 1 to {_MOST_PANELS} panels of at most {_MOST_SERIES} curves."
        )


def _figure(panels: Sequence[Mapping[str, Any]], title: str) -> Figure:
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    if columns == 1:
        width = _ALONE
    else:
        width = _WIDE * columns
    figure, places = new_figure(rows, columns, width=width, height=_TALL * rows)
    for unused in places[len(panels) :]:
        unused.remove()
    if title:
        figure.suptitle(_text(title), fontsize="large", fontweight="bold")
    handles: dict[str, Any] = {}
    for panel, axes in zip(panels, places):
        _draw(panel, axes)
        for series in panel["series"]:
            if series.get("label"):
                label = _text(series["label"])
                handles.setdefault(label, _legend_entry(series, label))
    # a curve alone is what the title says
    if len(handles) > 1:
        place_legend(places[: len(panels)], list(handles.values()))
    return figure


def _draw(panel: Mapping[str, Any], axes: Axes) -> None:
    """Draw one panel of the page."""
    axes.set_title(_text(panel["title"]))
    if panel["kind"] == "text":
        _draw_text(panel["text"], axes)
        return
    if panel["kind"] == "map":
        _draw_map(panel["map"], axes)
    else:
        _draw_curves(panel, axes)
    for mark in panel["marks"]:
        axes.plot(
            [mark["x"]],
            [mark["y"]],
            marker="*",
            color=ORANGE,
            markeredgecolor="black",
            markersize=11,
        )
    _set_axes(panel, axes)


def _set_axes(panel: Mapping[str, Any], axes: Axes) -> None:
    """Set labels, scales and ticks; after the curves, whose span decides the ticks."""
    x = panel["x"]
    y = panel["y"]
    axes.set_xlabel(_text(x["label"]))
    axes.set_ylabel(_text(y.get("label", "")))
    for side, about in (("x", x), ("y", y)):
        if about.get("log"):
            log_axes(axes, side)
    if panel["kind"] == "map":
        return
    if x.get("whole") and not x.get("log"):
        axes.locator_params(axis="x", integer=True)
    if x.get("names"):
        names = [_text(name) for name in x["names"]]
        axes.set_xticks(range(len(names)), names)


def _draw_text(entries: Sequence[Mapping[str, Any]], axes: Axes) -> None:
    """Write single numbers in the middle of a panel."""
    lines = []
    for entry in entries:
        if entry["label"]:
            lines.append(f"{entry['label']}: {entry['value']}")
        else:
            lines.append(entry["value"])
    axes.text(
        0.5, 0.5, _text("\n".join(lines)), ha="center", va="center", fontsize="large"
    )
    axes.set_axis_off()


def _draw_curves(panel: Mapping[str, Any], axes: Axes) -> None:
    axes.grid(color="#e7eaed")
    for area in panel["areas"]:
        axes.fill_between(
            area["x"],
            area["low"],
            area["high"],
            color=_colour(area["colour"]),
            alpha=0.15,
            linewidth=0,
        )
    for band in panel["bands"]:
        axes.axvspan(band["from"], band["to"], color=ORANGE, alpha=0.13)
        axes.text(
            (band["from"] + band["to"]) / 2,
            0.96,
            _text(band["label"]),
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="top",
        )
    for series in panel["series"]:
        _draw_series(series, axes)


def _draw_series(series: Mapping[str, Any], axes: Axes) -> None:
    """Draw a line, or dots with their error bars."""
    x = np.array(series["x"], dtype=float)
    y = np.array(series["y"], dtype=float)
    # a jump is drawn upright, halfway between its two places; from behind, since each
    # one moves the places after it
    for place in reversed(series.get("jumps", ())):
        middle = x[place : place + 2].mean()
        y = np.insert(y, place + 1, y[place : place + 2])
        x = np.insert(x, place + 1, [middle, middle])
    colour = _colour(series["colour"])
    if series["kind"] == "dots":
        errors = None
        if series.get("errors"):
            errors = np.array(series["errors"], dtype=float)
        error_points(axes, x, y, errors, colour, _marker(series))
    else:
        limit_line(axes, x, y, colour, **_line(series))


def _legend_entry(series: Mapping[str, Any], label: str) -> Any:
    colour = _colour(series["colour"])
    if series["kind"] == "dots":
        return key(colour, _marker(series), label, linestyle="none")
    return key(colour, label=label, **_line(series))


def _line(series: Mapping[str, Any]) -> dict[str, Any]:
    """Return how matplotlib draws a line of the page."""
    width = min(max(float(series["width"]), _THINNEST), _WIDEST)
    dashes: Any = "-"
    lengths = [float(length) for length in series.get("dash", ())][:4]
    if len(lengths) in (2, 4) and min(lengths) > 0:
        # matplotlib counts dashes in widths of the line, the page in points
        dashes = (0, tuple(length / width for length in lengths))
    marker = ""
    if series.get("points"):
        marker = "o"
    return {
        "linestyle": dashes,
        "linewidth": width,
        "marker": marker,
        "markersize": 4,
        "markerfacecolor": _colour(series["colour"]),
    }


def _marker(series: Mapping[str, Any]) -> str:
    return _MARKERS.get(series.get("marker", ""), "o")


def _draw_map(about: Mapping[str, Any], axes: Axes) -> None:
    """Draw numbers over two fields as colours, or names as coloured regions."""
    values = np.array(about["z"], dtype=float)
    look: dict[str, Any] = {"cmap": COLORMAP}
    names = [_text(name) for name in about.get("names") or ()]
    if names:
        fills = dict(zip(names, map(_colour, about["colours"]), strict=True))
        values, handles, look = coded(_named(values, names), names, fills)
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    drawn = axes.pcolormesh(
        cell_edges(about["x"]),
        cell_edges(about["y"]),
        np.ma.masked_invalid(values),
        rasterized=True,
        **look,
    )
    if not names:
        bar = axes.figure.colorbar(drawn, ax=axes, pad=0.02)
        bar.outline.set_visible(False)


def _named(places: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return names by their places in a list; an empty text where there is no place."""
    known = np.isfinite(places)
    rows = np.where(known, places, 0).astype(int)
    return np.where(known, np.array(names)[rows], "")


def _colour(text: Any) -> str:
    """Return a colour of the page; grey for what is none."""
    if isinstance(text, str) and _COLOUR.fullmatch(text):
        return text
    return GREY


_SHIFTS = {"sub": "_", "sup": "^"}
"""How matplotlib writes what stands below the line, and above."""


def _text(marked: Any) -> str:
    r"""Return a title of the page, HTML with few marks, as matplotlib writes it.

    >>> print(_text("<b>test error</b>  <i>m<sub>u</sub></i>, cost in $"))
    test error  m$_{u}$, cost in \$
    """
    text = str(marked).replace("$", r"\$")
    text = re.sub(
        r"<(sub|sup)>([\w,+∞*-]+)</\1>",
        lambda found: f"${_SHIFTS[found[1]]}{{{found[2]}}}$",
        text,
    )
    text = text.replace("<sub>", "_").replace("<sup>", "^")
    return html.unescape(re.sub(r"</?(?:i|b|sub|sup)>", "", text))
