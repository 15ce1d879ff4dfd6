"""Drawing: the limit as lines, the experiment as markers with error bars, spectra, maps and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.labels import name_of, title, value_label, x_label, y_label
from giantstep.figures.layout import Curve, Reading, View
from giantstep.figures.style import GREY, MARKERS, VERMILION, colours, is_geometric, plain_log_ticks
from giantstep.types import Booleans, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MANY = 60
"""Points of an experiment beyond which a band says more than markers."""
DECADES = 2.5
"""Span of positive values beyond which their axis is logarithmic."""
BINS = 48
ROOM = 6
"""Legend entries beyond which the legend stands beside the axes, where it covers nothing."""

SOURCE_LABELS = {"limit": "limit", "experiment": r"experiment, mean $\pm$ 1 s.e."}


def draw(axes: Axes, reading: Reading, views: Sequence[View], log: str | None, *, titled: bool = True) -> None:
    """Draw variables into one axes: one, or several that share their horizontal axis."""
    first = views[0]
    if first.kind == "map":
        _map(axes, reading, first, log)
    elif first.kind == "spectrum":
        _spectrum(axes, reading, views, log)
    elif first.kind == "table":
        table(axes, reading, [view.name for view in views])
        return
    else:
        _curves(axes, reading, views, log)
    assert first.x is not None
    axes.set_xlabel(x_label(reading.along(first.x), first.x, reading.dimension(first.x)))
    if len(views) == 1:
        if first.kind != "map":
            axes.set_ylabel(y_label(first.array, first.name))
        if titled:
            axes.set_title(title(first.array), color=GREY)


# -- curves --------------------------------------------------------------------------------------------------


def _curves(axes: Axes, reading: Reading, views: Sequence[View], log: str | None) -> None:
    drawn: list[Curve] = []
    key = _Key(axes)
    for view, palette, offset in _palettes(reading, views):
        for curve in reading.curves(view):
            place = offset + curve.place
            label = ", ".join(filter(None, [name_of(view.name) if len(views) > 1 else "", curve.label]))
            draw_curve(axes, curve, palette[place], MARKERS[place % len(MARKERS)], alone=len(reading.sources) == 1)
            key.add(curve.source, label, palette[place])
            drawn.append(curve)
    _scales(axes, drawn, log)
    _mark_failed(axes, drawn, key)
    key.show(MARKERS)


def _palettes(reading: Reading, views: Sequence[View]) -> list[tuple[View, list[Any], int]]:
    """Return each view with the colours of the whole axes and its first place among them."""
    counts = [int(np.prod([reading.data.sizes[dim] for dim in view.others], dtype=int)) for view in views]
    palette = colours(sum(counts), ordered=len(views) == 1 and reading.is_ordered(views[0]))
    return [(view, palette, sum(counts[:place])) for place, view in enumerate(views)]


def draw_curve(axes: Axes, curve: Curve, colour: Any, marker: str, *, alone: bool = False) -> None:
    """Draw one curve: a line for the limit, markers with error bars for the experiment; NaN leaves gaps."""
    named = curve.named
    x = np.arange(len(curve.x)) if named else curve.x
    if named:
        axes.set_xticks(x, [str(value) for value in curve.x])
        axes.set_xlim(-0.5, len(x) - 0.5)
    if curve.source != "experiment":
        few = len(x) < 12 and alone
        lines: dict[str, Any] = {}
        if named:
            lines = {"linestyle": "none", "marker": "_", "markersize": 18, "markeredgewidth": 1.8}
        axes.plot(x, curve.y, color=colour, zorder=2, **lines)
        lonely = isolated(curve.y) if not named and not few else np.isfinite(curve.y) & few & (not named)
        axes.plot(x[lonely], curve.y[lonely], linestyle="none", marker=marker, markersize=3, color=colour, zorder=2)
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


def _scales(axes: Axes, drawn: Sequence[Curve], log: str | None) -> None:
    if not drawn:
        return
    if log is None:
        x = drawn[0].x
        along = not drawn[0].named and is_geometric(x)
        log = ("x" if along else "") + ("y" if _spans_decades(np.concatenate([c.y for c in drawn])) else "")
    if "x" in log:
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis)
    if "y" in log:
        axes.set_yscale("log")
        plain_log_ticks(axes.yaxis)


def _spans_decades(y: Floats) -> bool:
    y = y[np.isfinite(y)]
    return bool(y.size > 2 and np.all(y > 0) and np.log10(y.max() / y.min()) > DECADES)


def _mark_failed(axes: Axes, drawn: Sequence[Curve], key: _Key) -> None:
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

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.entries: dict[str, Any] = {}
        self.sources: list[str] = []
        self.extra: list[tuple[Any, str]] = []
        self.failed = False
        self.steps = False

    def add(self, source: str, label: str, colour: Any) -> None:
        if label:
            self.entries.setdefault(label, colour)
        if source not in self.sources:
            self.sources.append(source)

    def show(self, markers: Sequence[str]) -> None:
        from matplotlib.lines import Line2D

        handles: list[Any] = []
        only_points = self.sources == ["experiment"]
        for place, (label, colour) in enumerate(self.entries.items()):
            style: dict[str, Any] = {}
            if not self.steps and "experiment" in self.sources:
                style = {"marker": markers[place % len(markers)], "markerfacecolor": "white"}
                style["linestyle"] = "none" if only_points else "-"
            handles.append(Line2D([], [], color=colour, label=label, **style))
        if len(self.sources) > 1 or not handles:
            handles += [self._source(source) for source in self.sources if self.entries or len(self.sources) > 1]
        if self.failed:
            handles.append(
                Line2D([], [], linestyle="none", marker="x", color=VERMILION, markersize=5, label="not computed")
            )
        handles += [handle for handle, _ in self.extra]
        if not handles:
            return
        if len(handles) > ROOM:
            self.axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
        else:
            self.axes.legend(handles=handles, loc="best")

    def _source(self, source: str) -> Any:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        label = SOURCE_LABELS.get(source, source)
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
    key = _Key(axes)
    key.steps = True
    drawn: list[Curve] = []
    for view, palette, offset in _palettes(reading, views):
        is_density = view.name == "density"
        for curve in reading.curves(view):
            colour = palette[offset + curve.place]
            if curve.source != "experiment":
                axes.plot(curve.x, _without_zeros(curve.y) if is_density else curve.y, color=colour, zorder=3)
            elif is_density:
                edges, heights = histogram(curve.x, curve.y)
                axes.stairs(heights, edges, fill=True, color=colour, alpha=0.22, linewidth=0, zorder=1)
                axes.stairs(heights, edges, color=colour, alpha=0.7, linewidth=0.7, zorder=2)
            else:
                axes.step(curve.x, curve.y, where="mid", color=colour, linewidth=0.9, alpha=0.8, zorder=2)
            label = ", ".join(filter(None, [name_of(view.name) if len(views) > 1 else "", curve.label]))
            key.add(curve.source, label + _atom(reading, curve), colour)
            drawn.append(curve)
            if is_density:
                _outliers(axes, reading, curve, colour)
    _spectrum_limits(axes, drawn, log, any(view.name == "density" for view in views))
    key.show(MARKERS)


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


def _at(reading: Reading, name: str, curve: Curve) -> Floats | None:
    if name not in reading.data:
        return None
    array = reading.data[name]
    array = array.sel(source=curve.source) if "source" in array.dims else array
    return np.atleast_1d(
        np.asarray(array.isel({k: v for k, v in curve.point.items() if k in array.dims}).values, float)
    )


def _atom(reading: Reading, curve: Curve) -> str:
    source = "limit" if "limit" in reading.sources else curve.source
    mass = _at(reading, "atom", Curve(**{**curve.__dict__, "source": source}))
    if mass is None or mass.ndim != 1 or mass.size != 1 or not mass[0] > 1e-9:
        return ""
    return f"{', ' if curve.label else ''}mass {mass[0]:.3g} at $x = 0$"


def _outliers(axes: Axes, reading: Reading, curve: Curve, colour: Any) -> None:
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
    if far and curve.source == reading.sources[0]:
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


def _spectrum_limits(axes: Axes, drawn: Sequence[Curve], log: str | None, is_density: bool) -> None:
    log = ("x" if is_geometric(drawn[0].x) else "") if log is None and drawn else (log or "")
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if not drawn or not is_density or "y" in log:
        return
    axes.set_ylim(bottom=0)
    if "x" in log:
        return
    axes.set_xlim(left=0)
    top = max(float(np.nanmax(curve.y)) for curve in drawn)
    inner = max(float(np.nanmax(curve.y[curve.x > 0.06 * curve.x[-1]], initial=0)) for curve in drawn)
    if 0 < inner < top / 2.5:  # the density diverges at zero: let it leave the frame, the rest stays readable
        axes.set_ylim(0, 1.6 * inner)


# -- maps ----------------------------------------------------------------------------------------------------


def _map(axes: Axes, reading: Reading, view: View, log: str | None) -> None:
    from matplotlib.colors import LogNorm, Normalize

    assert view.x is not None and view.x_dim is not None
    source = reading.sources[0]
    array = view.array.sel(source=source) if "source" in view.array.dims else view.array
    y_name = reading.coordinate(view.others[0]) or view.others[0]
    values = array.transpose(view.others[0], view.x_dim).values.astype(float)
    x, y = reading.along(view.x), reading.along(y_name)
    finite = values[np.isfinite(values)]
    norm: Any = LogNorm if finite.size and _spans_decades(finite) else Normalize
    mesh = axes.pcolormesh(
        cell_edges(x.values), cell_edges(y.values), np.ma.masked_invalid(values), norm=norm(), rasterized=True
    )
    axes.set_facecolor("#d9d9d9")
    wanted = log if log is not None else "".join(a for a, c in (("x", x), ("y", y)) if is_geometric(c.values))
    for axis, set_scale in (("x", axes.set_xscale), ("y", axes.set_yscale)):
        if axis in wanted:
            set_scale("log")
    axes.set_ylabel(x_label(y, y_name, reading.dimension(y_name), 40))
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label(y_label(view.array, view.name))
    bar.outline.set_visible(False)
    failed = reading.data.get("converged")
    if failed is not None:
        bad = ~(failed.sel(source=source) if "source" in failed.dims else failed)
        rows, columns = np.nonzero(bad.transpose(view.others[0], view.x_dim).values)
        axes.plot(x.values[columns], y.values[rows], linestyle="none", marker="x", color=VERMILION, markersize=4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)


def cell_edges(centres: Floats) -> Floats:
    """Return the edges of cells around centres, halfway in log where the centres are geometric.

    >>> cell_edges(np.array([1.0, 2.0, 3.0]))
    array([0.5, 1.5, 2.5, 3.5])
    """
    centres = np.asarray(centres, dtype=float)
    forward: Callable[[Floats], Floats] = np.log if is_geometric(centres) else np.asarray
    c = forward(centres)
    if len(c) == 1:
        return centres[0] + np.array([-0.5, 0.5])
    middle = 0.5 * (c[1:] + c[:-1])
    edges = np.concatenate([[2 * c[0] - middle[0]], middle, [2 * c[-1] - middle[-1]]])
    return np.exp(edges) if forward is np.log else edges


# -- tables --------------------------------------------------------------------------------------------------


def table(axes: Axes, reading: Reading, names: Sequence[str]) -> None:
    """Write single numbers as a table: a row for each variable, a column for each engine."""
    axes.set_axis_off()
    scored = any(f"{name}_z" in reading.data for name in names)
    columns = [*reading.sources, *(["z"] if scored else [])]
    rows = [[name_of(name), *(_cell(reading, name, source) for source in reading.sources)] for name in names]
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


def _cell(reading: Reading, name: str, source: str) -> str:
    array = reading.data[name]
    value = float(array.sel(source=source) if "source" in array.dims else array)
    if np.isnan(value):
        return "not computed"
    error = reading.data.get(f"{name}_stderr")
    spread = np.nan if error is None else float(error.sel(source=source) if "source" in error.dims else error)
    return f"{value:.6g}" + (rf" $\pm$ {spread:.2g}" if spread > 0 else "")
