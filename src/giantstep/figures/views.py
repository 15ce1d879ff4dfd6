"""Drawing: the limit as lines, the experiment as markers with error bars, spectra, maps and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.labels import name_of, title, value_label, x_label, y_label
from giantstep.figures.layout import DrawnCurve, Reading, View
from giantstep.figures.legends import outside
from giantstep.figures.maps import draw_map, draw_names
from giantstep.figures.style import (
    DOTTED,
    GREY,
    MARKERS,
    VERMILION,
    colours,
    dashes,
    is_geometric,
    paper_width,
    plain_log_ticks,
    spans_decades,
    whole_ticks,
)
from giantstep.types import Booleans, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from giantstep.bounds.drawing import BoundDrawer


MANY = 60
"""Points of an experiment beyond which a band says more than markers."""
LINE, STEP, THIN = 1.5, 2.0, 0.6
"""Width of a line, how much wider it is for each line that hides it, and the width of a bare limit beside a theory."""
_THINNER = 0.75
"""Width of a line of a paper over that on a screen."""
MOST_ENTRIES = 16
"""Curves that a legend names; of more it says how many there are."""
BINS = 48
ROOM = 6
"""Legend entries beyond which the legend stands beside the axes, where it covers nothing."""

EXPERIMENT = r"experiment, mean $\pm$ 1 s.e."


def draw(
    axes: Axes,
    reading: Reading,
    views: Sequence[View],
    log: str | None,
    *,
    titled: bool = True,
    bounds: BoundDrawer | None = None,
) -> None:
    """Draw variables into one axes: one, or several that share their horizontal axis; `bounds` under their curves."""
    first = views[0]
    if first.kind == "map":
        draw_map(axes, reading, first, log)
    elif first.kind == "names":
        draw_names(axes, reading, first, log)
    elif first.kind == "spectrum":
        _spectrum(axes, reading, views, log)
    elif first.kind == "table":
        table(axes, reading, [view.name for view in views])
        return
    else:
        _curves(axes, reading, views, log, bounds)
    assert first.x is not None
    axes.set_xlabel(x_label(reading.along(first.x), first.x, reading.dimension(first.x), _letters_along(axes)))
    whole_ticks(axes, reading.along(first.x).values, is_time=reading.dimension(first.x).role == "trajectory")
    if len(views) == 1:
        if first.kind not in ("map", "names"):
            axes.set_ylabel(y_label(first.array, first.name, classes=reading.classes()))
        if titled and paper_width() is None:  # the caption of a paper says it
            axes.set_title(title(first.array, classes=reading.classes()), color=GREY)


def _letters_along(axes: Axes) -> int:
    """Return how many letters a line of a label holds."""
    inches = axes.get_window_extent().width / axes.figure.dpi
    return 46 if paper_width() is None else max(int(15 * inches), 16)


# -- curves --------------------------------------------------------------------------------------------------


def _curves(axes: Axes, reading: Reading, views: Sequence[View], log: str | None, bounds: BoundDrawer | None) -> None:
    drawn: list[DrawnCurve] = []
    key = _Key(axes, reading)
    for view, palette, offset in _palettes(reading, views):
        curves = list(reading.curves(view))
        for curve, width in zip(curves, _widths(curves)):
            place = offset + curve.place
            label = ", ".join(filter(None, [name_of(view.name) if len(views) > 1 else "", curve.label]))
            alone = len(reading.sources) == 1
            marker = MARKERS[place % len(MARKERS)]
            line = dashes(place) if bounds is None else "-"  # bounds have dashes of their own
            width *= 1.0 if paper_width() is None else _THINNER
            draw_curve(axes, curve, palette[place], marker, alone=alone, width=width, line=line)
            key.add(curve.source, label, palette[place], marker, line, measured=bool(np.isfinite(curve.y).any()))
            key.joined |= curve.joined
            drawn.append(curve)
        if bounds is not None:
            places = {curve.place: palette[offset + curve.place] for curve in curves}
            key.extra = bounds.draw(axes, reading, view, places) or key.extra
        key.extra = [*key.extra, *_known_levels(axes, reading, view.name)]
    assert views[0].x is not None
    _scales(axes, drawn, log, reading.along(views[0].x).values)
    _mark_failed(axes, drawn, key)
    key.show()


def _known_levels(axes: Axes, reading: Reading, name: str) -> list[Any]:
    """Draw the values of a variable that theory has (`known_slope`), and return them for the legend."""
    known = reading.data.get(f"known_{name}")
    values = np.zeros(0) if known is None else np.unique(known.values[np.isfinite(known.values)])
    look: dict[str, Any] = {"color": GREY, "linestyle": DOTTED, "linewidth": 1.0}
    return [axes.axhline(value, label=f"theory: {value:.3g}", zorder=1, **look) for value in values]


def _widths(curves: Sequence[DrawnCurve]) -> list[float]:
    """Return widths of lines such that each of several limits that coincide shows beside the thinner ones over it."""
    finite = np.concatenate([curve.y[np.isfinite(curve.y)] for curve in curves] or [np.zeros(0)])
    near = 0.003 * np.ptp(finite) if finite.size else 0.0
    lines = [curve for curve in curves if curve.source != "experiment" and not curve.thin]
    limits = [curve for curve in lines if np.isfinite(curve.y).any()]
    if len(limits) > ROOM:
        return [THIN if curve.thin else LINE for curve in curves]

    def coincide(first: DrawnCurve, second: DrawnCurve) -> bool:
        return len(first.y) == len(second.y) and bool(np.mean(np.abs(first.y - second.y) <= near) > 0.4)

    over = {id(c): sum(coincide(c, other) for other in limits[place + 1 :]) for place, c in enumerate(limits)}
    return [THIN if curve.thin else LINE + STEP * min(over.get(id(curve), 0), 3) for curve in curves]


def _palettes(reading: Reading, views: Sequence[View]) -> list[tuple[View, list[Any], int]]:
    """Return each view with the colours of the whole axes and its first place among them."""
    counts = [int(np.prod([reading.data.sizes[dim] for dim in view.others], dtype=int)) for view in views]
    palette = colours(sum(counts), ordered=len(views) == 1 and reading.is_ordered(views[0]))
    return [(view, palette, sum(counts[:place])) for place, view in enumerate(views)]


def draw_curve(
    axes: Axes,
    curve: DrawnCurve,
    colour: Any,
    marker: str,
    *,
    alone: bool = False,
    width: float = LINE,
    line: Any = "-",
) -> None:
    """Draw one curve: a line for the limit, markers with error bars for the experiment; NaN leaves gaps."""
    named = curve.named
    x = np.arange(len(curve.x)) if named else curve.x
    if named:
        crowded = sum(len(str(value)) for value in curve.x) > 40
        axes.set_xticks(
            x, [str(value) for value in curve.x], rotation=30 if crowded else 0, ha="right" if crowded else "center"
        )
        axes.set_xlim(-0.5, len(x) - 0.5)
    if curve.source != "experiment":
        few = curve.joined or (len(x) < 12 and alone)
        lines: dict[str, Any] = {
            "linewidth": max(width - 0.7, 0.53 * width) if curve.joined and not curve.thin else width
        }
        lines["linestyle"] = line
        if named:
            edge = THIN if curve.thin else 1.8
            lines = {"linestyle": "none", "marker": "_", "markersize": 18, "markeredgewidth": edge}
        axes.plot(x, curve.y, color=colour, zorder=2, **lines)
        lonely = isolated(curve.y) if not named and not few else np.isfinite(curve.y) & few & (not named)
        look: dict[str, Any] = {
            "marker": "." if curve.joined else marker,
            "markersize": 3,
            "zorder": 4 if curve.joined else 2,
        }
        axes.plot(x[lonely], curve.y[lonely], linestyle="none", color=colour, **look)
        if curve.error is not None:
            axes.fill_between(x, curve.y - curve.error, curve.y + curve.error, color=colour, alpha=0.2, linewidth=0)
        return
    if len(x) > MANY:
        axes.plot(x, curve.y, color=colour, linestyle=(0, (1, 1)), linewidth=1.8, zorder=3)
        if curve.error is not None:
            axes.fill_between(x, curve.y - curve.error, curve.y + curve.error, color=colour, alpha=0.25, linewidth=0)
        return
    if alone and not named:
        axes.plot(x, curve.y, color=colour, linewidth=0.8, alpha=0.5, zorder=2)
    axes.errorbar(
        x,
        curve.y,
        curve.error,
        linestyle="none",
        marker=marker,
        color=colour,
        markerfacecolor="white",
        markeredgewidth=1.2,
        elinewidth=1.2,
        zorder=3,
    )


def isolated(y: Floats) -> Booleans:
    """Tell which points have no neighbour, so that no line would show them.

    >>> isolated(np.array([1.0, np.nan, 2.0, np.nan, 3.0, 4.0]))
    array([ True, False,  True, False, False, False])
    """
    there = np.concatenate([[False], np.isfinite(y), [False]])
    return there[1:-1] & ~there[:-2] & ~there[2:]


def _scales(axes: Axes, drawn: Sequence[DrawnCurve], log: str | None, x: Floats) -> None:
    if not drawn:
        return
    if log is None:
        along = not drawn[0].named and is_geometric(x)
        log = ("x" if along else "") + ("y" if spans_decades(np.concatenate([c.y for c in drawn])) else "")
    if "x" in log:
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis)
    if "y" in log:
        axes.set_yscale("log")
        plain_log_ticks(axes.yaxis)


def _mark_failed(axes: Axes, drawn: Sequence[DrawnCurve], key: _Key) -> None:
    """Mark points that were not computed: a cross on the point, or on the axis where there is no number."""
    style: dict[str, Any] = {"linestyle": "none", "marker": "x", "markersize": 5, "color": VERMILION, "zorder": 5}
    for curve in drawn:
        if not curve.failed.any() or curve.named:
            continue
        if curve.failed.all() and len(curve.x) > MANY:
            continue
        known = curve.failed & np.isfinite(curve.y)
        missing = curve.failed & ~np.isfinite(curve.y)
        axes.plot(curve.x[known], curve.y[known], **style)
        axes.plot(curve.x[missing], np.full(missing.sum(), 0.02), transform=axes.get_xaxis_transform(), **style)
        key.failed = True


class _Key:
    """The legend: each colour once, each engine once."""

    def __init__(self, axes: Axes, reading: Reading) -> None:
        self.axes, self.reading = axes, reading
        self.entries: dict[str, tuple[Any, str, Any]] = {}
        self.sources: list[str] = []
        self.extra: list[Any] = []
        self.failed = False
        self.steps = False
        self.joined = False
        self.measured: set[str] = set()

    def add(
        self, source: str, label: str, colour: Any, marker: str = "", line: Any = "-", *, measured: bool = True
    ) -> None:
        if label:
            self.entries.setdefault(label, (colour, marker, line))
        if source == "experiment" and measured:
            self.measured.add(label)
        if source not in self.sources:
            self.sources.append(source)

    def show(self) -> None:
        from matplotlib.lines import Line2D

        handles: list[Any] = []
        only_points = self.sources == ["experiment"]
        crowd = len(self.entries) > MOST_ENTRIES
        if crowd:
            first, *_, last = self.entries
            handles.append(Line2D([], [], linestyle="none", label=f"{len(self.entries)} curves:\n{first}\nto {last}"))
        for label, (colour, marker, line) in () if crowd else self.entries.items():
            style: dict[str, Any] = {"linestyle": line}
            if not self.steps and label in self.measured:
                style = {"marker": marker, "markerfacecolor": "white"}
                style["linestyle"] = "none" if only_points else line
            handles.append(Line2D([], [], color=colour, label=label, **style))
        if len(self.sources) > 1 or self.extra:
            handles += [self._source(source) for source in self.sources]
        if self.failed:
            handles.append(
                Line2D([], [], linestyle="none", marker="x", color=VERMILION, markersize=5, label="not computed")
            )
        handles += self.extra
        if not handles:
            return
        if len(handles) > ROOM or paper_width() is not None:
            self.axes.legend(handles=handles, **outside([str(handle.get_label()) for handle in handles]))
        else:
            self.axes.legend(handles=handles, loc="best")

    def _source(self, source: str) -> Any:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        said = EXPERIMENT if paper_width() is None else "experiment"
        label = said if source == "experiment" else self.reading.called(source)
        if source == "limit" != self.reading.judged:
            return Line2D([], [], color=GREY, linewidth=THIN, label=f"{label}, $d \\to \\infty$")
        if source != "experiment" and self.joined:
            return Line2D(
                [], [], color=GREY, linewidth=0.8, marker=".", markersize=4, label=f"{label}, at the dots only"
            )
        if source != "experiment":
            return Line2D([], [], color=GREY, label=label)
        if self.steps:
            return Patch(facecolor="0.85", edgecolor=GREY, linewidth=0.8, label="experiment")
        bars = self.axes.errorbar(
            [], [], [], linestyle="none", marker="o", color=GREY, markerfacecolor="white", markeredgewidth=1.2
        )
        bars.set_label(label)
        return bars


# -- spectra -------------------------------------------------------------------------------------------------


def _spectrum(axes: Axes, reading: Reading, views: Sequence[View], log: str | None) -> None:
    key = _Key(axes, reading)
    key.steps = True
    drawn: list[DrawnCurve] = []
    for view, palette, offset in _palettes(reading, views):
        is_density = view.name == "density"
        for curve in reading.curves(view):
            colour = palette[offset + curve.place]
            if curve.source != "experiment":
                width = THIN if curve.thin else LINE
                y = _without_zeros(curve.y) if is_density else curve.y
                line = dashes(offset + curve.place)
                axes.plot(curve.x, y, color=colour, zorder=3, linewidth=width, linestyle=line)
            elif is_density:
                edges, heights = histogram(curve.x, curve.y)
                axes.stairs(heights, edges, fill=True, color=colour, alpha=0.22, linewidth=0, zorder=1)
                axes.stairs(heights, edges, color=colour, alpha=0.7, linewidth=0.7, zorder=2)
            else:
                axes.step(curve.x, curve.y, where="mid", color=colour, linewidth=0.9, alpha=0.8, zorder=2)
            label = ", ".join(filter(None, [name_of(view.name) if len(views) > 1 else "", curve.label]))
            key.add(curve.source, label + _atom(reading, curve), colour, line=dashes(offset + curve.place))
            drawn.append(curve)
            if is_density and not curve.thin:
                _outliers(axes, reading, curve, colour)
    _spectrum_limits(axes, drawn, log, any(view.name == "density" for view in views))
    key.show()


def _without_zeros(y: Floats) -> Floats:
    """Leave out the flat zero outside the bulk, but for its first and last point."""
    zero = np.concatenate([[True], y == 0, [True]])
    return np.where(zero[1:-1] & zero[:-2] & zero[2:], np.nan, y)


def histogram(x: Floats, density: Floats, bins: int = BINS) -> tuple[Floats, Floats]:
    """Join the cells around `x` into about `bins` bars; the mass of each is kept.

    >>> edges, heights = histogram(np.array([0.5, 1.5, 2.5, 3.5]), np.array([1.0, 3.0, 0.0, 2.0]), bins=2)
    >>> edges, heights
    (array([0., 2., 4.]), array([2., 1.]))
    """
    middle = 0.5 * (x[1:] + x[:-1])
    cells = np.concatenate([[2 * x[0] - middle[0]], middle, [2 * x[-1] - middle[-1]]])
    cells[0] = max(cells[0], 0.0) if x[0] > 0 else cells[0]
    mass = np.nan_to_num(density) * np.diff(cells)
    width = (cells[-1] - cells[0]) / bins * (1 - 1e-9)
    edges, last = [cells[0]], cells[0]
    for cell in cells[1:]:
        if cell - last >= width:
            edges.append(cell)
            last = cell
    if edges[-1] < cells[-1]:
        edges.append(cells[-1])
    cumulated = np.concatenate([[0.0], np.cumsum(mass)])
    joined = np.interp(edges, cells, cumulated)
    return np.array(edges), np.diff(joined) / np.diff(edges)


def _at(reading: Reading, name: str, curve: DrawnCurve) -> Floats | None:
    if name not in reading.data:
        return None
    array = reading.data[name]
    array = array.sel(source=curve.source) if "source" in array.dims else array
    return np.atleast_1d(
        np.asarray(array.isel({k: v for k, v in curve.point.items() if k in array.dims}).values, float)
    )


def _atom(reading: Reading, curve: DrawnCurve) -> str:
    source = reading.main
    mass = _at(reading, "atom", DrawnCurve(**{**curve.__dict__, "source": source}))
    if mass is None or mass.ndim != 1 or mass.size != 1 or not mass[0] > 1e-9:
        return ""
    return f"{', ' if curve.label else ''}mass {mass[0]:.3g} at $x = 0$"


def _outliers(axes: Axes, reading: Reading, curve: DrawnCurve, colour: Any) -> None:
    """Mark outliers near the bulk on the axis: a triangle for the limit, an open one for the experiment."""
    values = _at(reading, "outliers", curve)
    if values is None:
        return
    reach = 2.5 * curve.x[-1]
    near = values[np.isfinite(values) & (values < reach)]
    far = int(np.sum(values >= reach))
    face = "white" if curve.source == "experiment" else colour
    for value in near:
        axes.plot(
            value,
            0.03,
            marker="v",
            markersize=6,
            color=colour,
            markerfacecolor=face,
            linestyle="none",
            transform=axes.get_xaxis_transform(),
            zorder=4,
            clip_on=False,
        )
    if far and curve.source == reading.main:
        shown = [value_label(float(f"{v:.3g}")) for v in values[values >= reach][:3] if np.isfinite(v)]
        text = f"{far} outlier{'s' if far > 1 else ''} far to the right" + (f" ({', '.join(shown)})" if shown else "")
        axes.annotate(
            text,
            (1.0, 0.03 + 0.06 * curve.place),
            xycoords="axes fraction",
            ha="right",
            color=colour,
            fontsize=7,
            xytext=(-2, 6),
            textcoords="offset points",
        )


def _spectrum_limits(axes: Axes, drawn: Sequence[DrawnCurve], log: str | None, is_density: bool) -> None:
    log = ("x" if is_geometric(drawn[0].x) else "") if log is None and drawn else (log or "")
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if not drawn or not is_density:
        return
    if "y" in log:  # a density that is nearly nothing at an edge must not decide the frame
        axes.set_ylim(bottom=1e-4 * max(float(np.nanmax(curve.y)) for curve in drawn))
        return
    axes.set_ylim(bottom=0)
    if "x" in log:
        return
    axes.set_xlim(left=min(0.0, *(float(curve.x[0]) for curve in drawn)))


# -- tables --------------------------------------------------------------------------------------------------


def table(axes: Axes, reading: Reading, names: Sequence[str]) -> None:
    """Write single numbers as a table: a row for each variable, a column for each engine."""
    axes.set_axis_off()
    scored = any(f"{name}_z" in reading.data for name in names)
    sources = [s for s in reading.sources if any(_is_asked(reading, name, s) for name in names)] or reading.sources
    columns = [*map(reading.called, sources), *(["z"] if scored else [])]
    rows = [[name_of(name), *(_cell(reading, name, source) for source in sources)] for name in names]
    if scored:
        for row, name in zip(rows, names):
            z = reading.data.get(f"{name}_z")
            row.append("" if z is None or z.ndim else f"{float(z):.2f}")
    longest = [max(len(row[column]) for row in [["", *columns], *rows]) + 2 for column in range(len(columns) + 1)]
    widths = [length / max(sum(longest), 40) for length in longest]
    drawn = axes.table(
        rows, colLabels=["", *columns], loc="center", cellLoc="left", edges="horizontal", colWidths=widths
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(9)
    drawn.scale(1, 1.5)
    for place, cell in drawn.get_celld().items():
        cell.get_text().set_horizontalalignment("left")
        cell.set_edgecolor("0.8")
        if 0 in place:
            cell.set_text_props(color=GREY)


def _is_asked(reading: Reading, name: str, source: str) -> bool:
    """Tell whether an engine answers a variable at all."""
    question = reading.question()
    variable = None if question is None else next((v for v in question.variables if v.name == name), None)
    engine = "experiment" if source == "experiment" else "limit"  # of theories and of optima, too
    return variable is None or engine in variable.engines


def _cell(reading: Reading, name: str, source: str) -> str:
    if not _is_asked(reading, name, source):
        return ""
    array = reading.data[name]
    value = float(array.sel(source=source) if "source" in array.dims else array)
    if np.isnan(value):
        return "not computed"
    error = reading.data.get(f"{name}_stderr")
    spread = np.nan if error is None else float(error.sel(source=source) if "source" in error.dims else error)
    return f"{value:.6g}" + (rf" $\pm$ {spread:.2g}" if spread > 0 else "")
