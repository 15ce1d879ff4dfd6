"""Drawing: the limit as lines, the experiment as markers with error bars, spectra, maps
and tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.lab.feature_spectra import cell_edges
from giantstep.tools.figures.curves import DrawnCurve, curves_of
from giantstep.tools.figures.labels import name_of, title, value_label, x_label, y_label
from giantstep.tools.figures.layout import View, is_ordered
from giantstep.tools.figures.maps import draw_map, draw_names
from giantstep.tools.figures.panels import (
    bars,
    bars_key,
    error_points,
    key,
    limit_line,
    measured,
)
from giantstep.tools.figures.reading import Reading
from giantstep.tools.figures.style import (
    DOTTED,
    GREY,
    MARKERS,
    VERMILION,
    colours,
    dashes,
    is_geometric,
    log_axes,
    paper_width,
    spans_decades,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from giantstep.tools.figures.best_possible import BoundDrawer


MANY = 60
"""Points of an experiment beyond which a band says more than markers."""
THIN = 0.6
"""Width of a bare limit beside a theory."""
_MOST_LETTERS = 40
"""Letters below an axis beyond which names are written at a slope."""
MOST_ENTRIES = 16
"""Curves that a legend names; of more it says how many there are."""
BINS = 48
"""Bars of a histogram: of a few hundred eigenvalues each has some."""

FAILED: dict[str, Any] = {
    "linestyle": "none",
    "marker": "x",
    "markersize": 5,
    "color": VERMILION,
}
"""How points look that were not computed."""
LEVEL: dict[str, Any] = {
    "color": GREY,
    "linestyle": DOTTED,
    "linewidth": 1.0,
    "zorder": 1,
}
"""How values stand across the axes that a variable is held against."""
SAMPLES_LABEL = r"all samples, of every step and of the fit,  $n_{\mathrm{all}}/d$"
EXPERIMENT = r"experiment, mean $\pm$ 1 s.e."


def draw(
    axes: Axes,
    reading: Reading,
    views: Sequence[View],
    log: str | None,
    bounds: BoundDrawer | None,
    titled: bool = True,
) -> list[Any]:
    """Draw variables that share a horizontal axis, `bounds` under their curves, and
    return the entries of a legend.
    """
    first = views[0]
    handles = list[Any]()
    if first.kind == "table":
        table(axes, reading, [view.name for view in views])
        return []
    if first.kind in ("map", "names"):
        if first.kind == "map":
            draw_map(axes, reading, first, log)
        else:
            draw_names(axes, reading, first, log)
    else:
        handles = _lines(axes, reading, views, log, bounds)
    if reading.all_samples is not None:
        axes.set_xlabel(SAMPLES_LABEL)
    else:
        x = reading.data[first.x]
        dimension = reading.dimension(first.x)
        axes.set_xlabel(x_label(x, first.x, dimension, _letters_along(axes)))
        whole_ticks(axes, x.values, is_time=dimension.role == "trajectory")
    if len(views) == 1 and first.kind not in ("map", "names"):
        axes.set_ylabel(y_label(first.array, first.name, classes=reading.classes()))
    if (
        len(views) == 1 and titled and paper_width() is None
    ):  # the caption of a paper says it
        axes.set_title(
            title(first.array, int(1.5 * _letters_along(axes)), reading.classes()),
            color=GREY,
        )
    return handles


def _letters_along(axes: Axes) -> int:
    """Return how many letters a line of a label holds."""
    inches = axes.get_window_extent().width / axes.figure.dpi
    return max(int((11 if paper_width() is None else 15) * inches), 16)


# -- curves ----------------------------------------------------------------------------


class _Line(NamedTuple):
    """A curve as it is drawn, and what the legend calls it."""

    curve: DrawnCurve
    label: str
    colour: Any
    marker: str
    dashes: Any


def _lines(
    axes: Axes,
    reading: Reading,
    views: Sequence[View],
    log: str | None,
    bounds: BoundDrawer | None,
) -> list[Any]:
    """Draw curves or spectra (which have no bounds), and return the entries of their
    legend.
    """
    spectra = views[0].kind == "spectrum"
    alone = len(reading.sources) == 1
    counts = [reading.count(view.others) for view in views]
    ordered = len(views) == 1 and is_ordered(reading, views[0])
    palette = colours(sum(counts), ordered=ordered)
    drawn = list[_Line]()
    extra = list[Any]()
    for number, view in enumerate(views):
        places: dict[int, Any] = {}
        for curve in curves_of(reading, view):
            place = sum(counts[:number]) + curve.place
            name = name_of(view.name) if len(views) > 1 else ""
            if spectra:
                mass = _at(reading, "atom", curve, reading.main)
            else:
                mass = np.zeros(0)
            if mass.size == 1 and mass[0] > 1e-9:
                atom = f"mass {mass[0]:.3g} at $x = 0$"
            else:
                atom = ""
            label = ", ".join(filter(None, [name, curve.label, atom]))
            # bounds have dashes of their own
            style = dashes(place, ordered or (bounds is not None and not spectra))
            line = _Line(
                curve, label, palette[place], MARKERS[place % len(MARKERS)], style
            )
            drawn.append(line)
            places[curve.place] = line.colour
            if spectra:
                _draw_spectrum(axes, reading, line, is_density=view.name == "density")
            elif curve.source == "experiment":
                _draw_experiment(axes, line, alone)
            else:
                _draw_limit(axes, line, alone)
        if bounds is not None and not spectra:
            extra = bounds.draw(axes, reading, view, places) or extra
        if not spectra:
            extra = [
                *extra,
                *_known_levels(axes, reading, view),
                *_level_below(axes, reading, view, places),
            ]
    if not drawn:
        return extra
    handles = _legend(axes, reading, drawn, spectra, bool(extra))
    if spectra:
        _frame_spectra(axes, views, [line.curve for line in drawn], log)
    else:
        counted = reading.all_samples
        if counted is None:
            numbers = reading.data[views[0].x].values
        else:
            numbers = np.unique(counted.values)
        handles += _finish_curves(axes, [line.curve for line in drawn], numbers, log)
    return [*handles, *extra]


def _known_levels(axes: Axes, reading: Reading, view: View) -> list[Any]:
    """Draw the values that theory has of a variable across the axes, and return their
    legend entries.
    """
    known = reading.data.get(f"known_{view.name}")
    if known is None:
        return []
    values = np.unique(known.values[np.isfinite(known.values)])
    return [
        axes.axhline(value, label=f"theory: {value:.3g}", **LEVEL) for value in values
    ]


def _level_below(
    axes: Axes, reading: Reading, view: View, colours_at: Mapping[int, Any]
) -> list[Any]:
    """Draw what the limit declares below a variable (the edge of a bulk), and return
    its legend entry.

    Where it is the same for all curves it is one grey line across the axes.
    """
    variable = reading.variable(view.name)
    if variable is None or not variable.level or variable.level not in reading.data:
        return []
    levels = reading.layer(reading.data[variable.level])
    label = f"{name_of(variable.level)}, {reading.called(reading.main)}"
    known = levels.values[np.isfinite(levels.values)]
    if not known.size:
        return []
    if np.ptp(known) <= 1e-6 * np.max(np.abs(known)):
        return [axes.axhline(known.flat[0], label=label, **LEVEL)]
    sizes = [reading.data.sizes[dim] for dim in view.others]
    for place, colour in colours_at.items():
        point = dict(zip(view.others, map(int, np.unravel_index(place, sizes))))
        own = levels.isel(point, missing_dims="ignore")
        if own.ndim:
            axes.plot(
                reading.data[view.x].values, own.values, **{**LEVEL, "color": colour}
            )
        else:
            axes.axhline(float(own), **{**LEVEL, "color": colour})
    return [key(GREY, "", label, DOTTED, linewidth=LEVEL["linewidth"])]


def _finish_curves(
    axes: Axes, drawn: Sequence[DrawnCurve], x: Array, log: str | None
) -> list[Any]:
    """Set the scales, and cross what was not computed: on the point, or on the axis
    where there is no number.
    """
    from matplotlib.lines import Line2D

    if log is None:
        along = not drawn[0].named and is_geometric(x)
        log = "x" * along + "y" * spans_decades(
            np.concatenate([curve.y for curve in drawn])
        )
    log_axes(axes, log)
    crossed = False
    for curve in drawn:
        if (
            not curve.failed.any()
            or curve.named
            or (curve.failed.all() and len(curve.x) > MANY)
        ):
            continue
        known = np.isfinite(curve.y)
        axes.plot(
            curve.x[curve.failed & known],
            curve.y[curve.failed & known],
            zorder=5,
            **FAILED,
        )
        missing = curve.x[curve.failed & ~known]
        axes.plot(
            missing,
            0.02 + 0 * missing,
            transform=axes.get_xaxis_transform(),
            zorder=5,
            **FAILED,
        )
        crossed = True
    if crossed:
        return [Line2D([], [], label="not computed", **FAILED)]
    return []


def _draw_limit(axes: Axes, line: _Line, alone: bool) -> None:
    """Draw a limit: a line, with dots where they are few or have no neighbour; dashes
    at names. NaN leaves gaps.
    """
    curve = line.curve
    colour = line.colour
    if curve.named:
        edge = THIN if curve.thin else 1.8
        look: dict[str, Any] = {
            "linestyle": "none",
            "marker": "_",
            "markersize": 18,
            "markeredgewidth": edge,
        }
        axes.plot(_places(axes, curve), curve.y, color=colour, zorder=2, **look)
        return
    limit_line(
        axes,
        curve.x,
        curve.y,
        colour,
        linestyle=line.dashes,
        linewidth=THIN if curve.thin else None,
    )
    there = np.concatenate([[False], np.isfinite(curve.y), [False]])
    few = curve.joined or (len(curve.x) < 12 and alone)
    dots = there[1:-1] & (few | ~there[:-2] & ~there[2:])
    marker = "." if curve.joined else line.marker
    axes.plot(
        curve.x[dots],
        curve.y[dots],
        linestyle="none",
        color=colour,
        marker=marker,
        markersize=3,
    )
    _band(axes, curve, colour)


def _draw_experiment(axes: Axes, line: _Line, alone: bool) -> None:
    """Draw measured points with error bars; many of them are a dotted line with a
    band.
    """
    curve = line.curve
    colour = line.colour
    if len(curve.x) > MANY:
        limit_line(axes, curve.x, curve.y, colour, linestyle=DOTTED, linewidth=1.8)
        _band(axes, curve, colour)
        return
    if alone and not curve.named:
        limit_line(axes, curve.x, curve.y, colour, linewidth=0.8, alpha=0.5)
    places = _places(axes, curve)
    error_points(axes, places, curve.y, curve.error, colour, marker=line.marker)


def _band(axes: Axes, curve: DrawnCurve, colour: Any) -> None:
    if curve.error is not None:
        axes.fill_between(
            curve.x,
            curve.y - curve.error,
            curve.y + curve.error,
            color=colour,
            alpha=0.2,
            linewidth=0,
        )


def _places(axes: Axes, curve: DrawnCurve) -> Array:
    """Return where points stand: names at 0, 1, 2 ..., with ticks that say them."""
    if not curve.named:
        return curve.x
    names = [str(value) for value in curve.x]
    places = np.arange(len(curve.x))
    axes.set_xticks(places, names)
    if sum(map(len, names)) > _MOST_LETTERS:
        axes.set_xticks(places, names, rotation=30, ha="right")
    axes.set_xlim(-0.5, len(names) - 0.5)
    return places


def _legend(
    axes: Axes, reading: Reading, drawn: Sequence[_Line], spectra: bool, more: bool
) -> list[Any]:
    """Return the entries of a legend: each colour once, each engine once where there
    are several, or `more` entries.
    """
    from matplotlib.lines import Line2D

    sources = list(dict.fromkeys(line.curve.source for line in drawn))
    dots = {
        line.label
        for line in drawn
        if line.curve.source == "experiment" and np.isfinite(line.curve.y).any()
    }
    handles = list[Any]()
    named = dict[str, _Line]()
    for line in drawn:
        named.setdefault(line.label, line)
    named.pop("", None)
    if len(named) > MOST_ENTRIES:
        first, *_, last = named
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                label=f"{len(named)} curves:\n{first}\nto {last}",
            )
        )
        named.clear()
    for label, line in named.items():
        marker = line.marker if label in dots and not spectra else ""
        only_points = marker and all(
            one.curve.source == "experiment" for one in drawn if one.label == label
        )
        dashes_of = line.dashes
        if only_points:
            dashes_of = "none"
        handles.append(key(line.colour, marker, label, dashes_of))
    if len(sources) == 1 and not more:
        return handles
    for source in sources:
        called = reading.called(source)
        if source == "experiment":
            if spectra:
                handles.append(bars_key(source))
            elif paper_width() is None:
                handles.append(measured(axes, EXPERIMENT))
            else:
                handles.append(measured(axes, source))
        elif source == "limit" != reading.judged:
            handles.append(key(GREY, "", f"{called}, $d \\to \\infty$", linewidth=THIN))
        elif not spectra and any(line.curve.joined for line in drawn):
            handles.append(
                key(
                    GREY,
                    ".",
                    f"{called}, at the dots only",
                    markersize=4,
                    markerfacecolor=GREY,
                )
            )
        else:
            handles.append(key(GREY, "", called))
    return handles


# -- spectra ---------------------------------------------------------------------------


def _draw_spectrum(axes: Axes, reading: Reading, line: _Line, is_density: bool) -> None:
    curve = line.curve
    colour = line.colour
    if curve.source != "experiment":
        zero = np.concatenate([[True], curve.y == 0, [True]])
        # without the flat zero outside the bulk, but for its first and last point
        y = np.where(zero[1:-1] & zero[:-2] & zero[2:] & is_density, np.nan, curve.y)
        limit_line(
            axes,
            curve.x,
            y,
            colour,
            linestyle=line.dashes,
            linewidth=THIN if curve.thin else None,
        )
    elif is_density:
        bars(axes, *histogram(curve.x, curve.y), colour)
    else:
        axes.step(
            curve.x,
            curve.y,
            where="mid",
            color=colour,
            linewidth=0.9,
            alpha=0.8,
            zorder=2,
        )
    if is_density and not curve.thin:
        _outliers(axes, reading, curve, colour)


def _frame_spectra(
    axes: Axes, views: Sequence[View], drawn: Sequence[DrawnCurve], log: str | None
) -> None:
    log = "x" * is_geometric(drawn[0].x) if log is None else log
    for side in log:
        getattr(axes, f"set_{side}scale")("log")
    if any(view.name == "density" for view in views):
        # a density that is nearly nothing at an edge must not decide the frame
        bottom = 0.0
        if "y" in log:
            bottom = 1e-4 * max(float(np.nanmax(curve.y)) for curve in drawn)
        axes.set_ylim(bottom=bottom)
        if not log:
            axes.set_xlim(left=min(0.0, *(float(curve.x[0]) for curve in drawn)))


def histogram(x: Floats, density: Floats, bins: int = BINS) -> tuple[Floats, Floats]:
    """Join the cells around `x` into about `bins` bars; the mass of each is kept.

    >>> edges, heights = histogram(
    ...     np.array([0.5, 1.5, 2.5, 3.5]), np.array([1.0, 3.0, 0.0, 2.0]), bins=2
    ... )
    >>> edges, heights
    (array([0., 2., 4.]), array([2., 1.]))
    """
    cells = cell_edges(x)
    cells[0] = max(cells[0], 0.0) if x[0] > 0 else cells[0]
    mass = np.nan_to_num(density) * np.diff(cells)
    cumulated = np.concatenate([[0.0], np.cumsum(mass)])
    even = np.linspace(cells[0], cells[-1], bins + 1) - 1e-9 * (cells[-1] - cells[0])
    kept = np.unique(np.searchsorted(cells, even))
    return cells[kept], np.diff(cumulated[kept]) / np.diff(cells[kept])


def _at(reading: Reading, name: str, curve: DrawnCurve, source: str) -> Floats:
    """Return what a layer says of another variable at a curve; nothing where there is
    none.
    """
    if name not in reading.data:
        return np.zeros(0)
    at = reading.layer(reading.data[name], source).isel(
        curve.point, missing_dims="ignore"
    )
    return np.atleast_1d(at.values.astype(float))


def _outliers(axes: Axes, reading: Reading, curve: DrawnCurve, colour: Any) -> None:
    """Mark outliers near the bulk on the axis: a triangle for the limit, an open one
    for the experiment.
    """
    values = _at(reading, "outliers", curve, curve.source)
    reach = 2.5 * curve.x[-1]
    near = values[np.isfinite(values) & (values < reach)]
    far = values[values >= reach]
    face = "white" if curve.source == "experiment" else colour
    look = {
        "marker": "v",
        "markersize": 6,
        "color": colour,
        "markerfacecolor": face,
        "linestyle": "none",
    }
    if near.size:
        axes.plot(
            near,
            0.03 + 0 * near,
            transform=axes.get_xaxis_transform(),
            zorder=4,
            clip_on=False,
            **look,
        )
    if far.size and curve.source == reading.main:
        shown = ", ".join(
            value_label(float(f"{v:.3g}")) for v in far[:3] if np.isfinite(v)
        )
        unit = "outlier"
        if far.size > 1:
            unit = "outliers"
        text = f"{far.size} {unit} far to the right"
        if shown:
            text = f"{text} ({shown})"
        height = 0.06 * (curve.place + 1)
        axes.text(
            0.99,
            height,
            text,
            transform=axes.transAxes,
            ha="right",
            color=colour,
            fontsize=7,
        )


# -- tables ----------------------------------------------------------------------------


def table(axes: Axes, reading: Reading, names: Sequence[str]) -> None:
    """Write single numbers as a table: a row for each variable, a column for each
    engine.
    """
    axes.set_axis_off()
    scored = any(f"{name}_z" in reading.data for name in names)
    sources = []
    for source in reading.sources:
        if any(_is_asked(reading, name, source) for name in names):
            sources.append(source)
    sources = sources or reading.sources
    head = ["", *map(reading.called, sources)]
    if scored:
        head.append("z")
    rows = []
    for name in names:
        row = [name_of(name), *(_cell(reading, name, source) for source in sources)]
        if scored:
            row.append(_score(reading, name))
        rows.append(row)
    # two letters of room beside the longest entry of a column
    longest = [max(map(len, column)) + 2 for column in zip(head, *rows)]
    widths = [length / max(sum(longest), 40) for length in longest]
    look: dict[str, Any] = {"loc": "center", "cellLoc": "left", "edges": "horizontal"}
    drawn = axes.table(rows, colLabels=head, colWidths=widths, **look)
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(9)
    drawn.scale(1, 1.5)
    for place, cell in drawn.get_celld().items():
        cell.get_text().set_horizontalalignment("left")
        cell.set_edgecolor("0.8")
        if 0 in place:
            cell.set_text_props(color=GREY)


def _score(reading: Reading, name: str) -> str:
    """Return how many standard errors the engines are apart; an empty text where there
    is no one number.
    """
    z = reading.data.get(f"{name}_z")
    if z is None or z.ndim:
        return ""
    return f"{float(z):.2f}"


def _is_asked(reading: Reading, name: str, source: str) -> bool:
    """Tell whether an engine answers a variable at all."""
    variable = reading.variable(name)
    # of theories and of optima, too
    engine = "experiment" if source == "experiment" else "limit"
    return variable is None or engine in variable.engines


def _cell(reading: Reading, name: str, source: str) -> str:
    if not _is_asked(reading, name, source):
        return ""
    value = float(reading.layer(reading.data[name], source))
    if np.isnan(value):
        return "not computed"
    error = reading.data.get(f"{name}_stderr")
    spread = 0.0
    if error is not None:
        spread = float(reading.layer(error, source))
    if spread > 0:
        return rf"{value:.6g} $\pm$ {spread:.2g}"
    return f"{value:.6g}"
