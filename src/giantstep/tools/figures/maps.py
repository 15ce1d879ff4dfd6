"""Maps over two fields: numbers as colours with contours and the best point, names as
coloured regions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.lab.feature_spectra import cell_edges as even_edges
from giantstep.core.result.columns import flattened
from giantstep.tools.figures.labels import outside, x_label, y_label
from giantstep.tools.figures.layout import View
from giantstep.tools.figures.reading import Reading
from giantstep.tools.figures.style import (
    VERMILION,
    is_geometric,
    log_axes,
    spans_decades,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = 7
REGIONS = ("#E3E3E3", "#F4C7AB", "#C5E6CF", "#F5EBA0", "#C4DFF2", "#E3CCE3", "#BDBDBD")
"""Fills of named regions, told apart by colour-blind readers and pale enough to draw
over.
"""
_SMALL_IS_GOOD = re.compile(r"error|mse|loss|misclassified|objective")
_LARGE_IS_GOOD = re.compile(r"accuracy|cosine|overlap|^m_|^q$|^tpr$")


def draw_map(axes: Axes, reading: Reading, view: View, log: str | None) -> None:
    """Draw one engine's numbers over two fields: colours, contours, the best point, and
    what was not computed.
    """
    from matplotlib.colors import LogNorm, Normalize

    values, x, y = _table(reading, view)
    finite = values[np.isfinite(values)]
    norm: Any
    if finite.size and spans_decades(finite):
        norm = LogNorm
    else:
        norm = Normalize
    shown = np.ma.masked_invalid(values)
    mesh = axes.pcolormesh(
        cell_edges(x.values), cell_edges(y.values), shown, norm=norm(), rasterized=True
    )
    axes.set_facecolor("#d9d9d9")
    _contours(axes, x.values, y.values, shown, norm is LogNorm)
    best = _mark_best(axes, x.values, y.values, values, view.name)
    _finish(axes, reading, x, y, log)
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label(y_label(view.array, view.name, classes=reading.classes()) + best)
    bar.outline.set_visible(False)
    converged = reading.data.get("converged")
    if converged is not None and not reading.layer(converged).all():
        failed = flattened(
            reading.data, (view.others[0], view.x_dim), ~reading.layer(converged)
        )
        rows, columns = np.nonzero(failed.reshape(values.shape))
        axes.plot(
            x.values[columns],
            y.values[rows],
            linestyle="none",
            marker="x",
            color=VERMILION,
            markersize=4,
        )


def draw_names(axes: Axes, reading: Reading, view: View, log: str | None) -> None:
    """Draw a variable of names: a map of coloured regions over two fields, or a strip
    for each curve over one.
    """
    if view.others and reading.coordinate(view.others[0]) is not None:
        values, x, y = _table(reading, view)
        rows = cell_edges(y.values)
        _finish(axes, reading, x, y, log)
    else:
        array = reading.layer(view.array).transpose(*view.others, view.x_dim)
        x = reading.data[view.x]
        values = array.values.reshape(-1, len(x))
        rows = np.arange(len(values) + 1, dtype=np.float64) - 0.5
        labels = [
            reading.label(dict(zip(view.others, index)))
            for index in np.ndindex(array.shape[:-1])
        ]
        axes.set_yticks(range(len(values)), labels)
        is_log = is_geometric(x.values)
        if log is not None:
            is_log = "x" in log
        if is_log:
            axes.set_xscale("log")
    meaning = str(view.array.attrs.get("long_name", ""))
    known = filter(None, dict.fromkeys(values.ravel().tolist()))
    # in the order in which the variable's meaning lists them, others after those
    names = sorted(
        map(str, known), key=lambda name: (name not in meaning, meaning.find(name))
    )
    codes, handles, look = coded(values, names)
    axes.pcolormesh(cell_edges(x.values), rows, codes, rasterized=True, **look)
    axes.legend(
        handles=handles, **outside([str(handle.get_label()) for handle in handles])
    )


def coded(
    values: Array, names: Sequence[str], fills: Mapping[str, str] | None = None
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return names as places in a list, masked where there is none, their legend, and
    how they are painted.
    """
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    codes: Integers = np.select(
        [values == name for name in names], range(len(names)), -1
    )
    colours = [
        (fills or {}).get(name, REGIONS[place % len(REGIONS)])
        for place, name in enumerate(names)
    ]
    norm = BoundaryNorm(np.arange(len(names) + 1) - 0.5, max(len(names), 1))
    handles = [
        Patch(facecolor=fill, label=name.replace("\n", " "))
        for fill, name in zip(colours, names)
    ]
    if np.any(codes < 0):
        handles.append(Patch(facecolor="white", edgecolor="0.6", label="not computed"))
    return (
        np.ma.masked_less(codes, 0),
        handles,
        {"cmap": ListedColormap(colours), "norm": norm},
    )


def _table(reading: Reading, view: View) -> tuple[Array, Any, Any]:
    """Return the values as rows and columns, and the coordinates along the columns and
    the rows.
    """
    values = reading.layer(view.array).transpose(view.others[0], view.x_dim).values
    rows = reading.coordinate(view.others[0]) or view.others[0]
    if values.dtype.kind in "UO":
        numbers = values
    else:
        numbers = values.astype(float)
    return numbers, reading.data[view.x], reading.data[rows].rename(rows)


def _contours(axes: Axes, x: Floats, y: Floats, values: Any, logarithmic: bool) -> None:
    """Draw lines of equal value, where there is room for any."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    filled = values.compressed()
    if (
        min(values.shape) < 4
        or filled.size < 0.5 * values.size
        or not filled.size
        or np.ptp(filled) <= 0
    ):
        return
    if logarithmic:
        locator: Any = LogLocator(numticks=LEVELS)
    else:
        locator = MaxNLocator(LEVELS)
    levels = [
        level
        for level in locator.tick_values(filled.min(), filled.max())
        if filled.min() < level < filled.max()
    ]
    if levels:
        lines = axes.contour(
            x, y, values, levels=levels, colors="white", linewidths=0.7, alpha=0.9
        )
        axes.clabel(lines, fontsize=6.5, fmt=lambda value: f"{value:g}")


def _mark_best(axes: Axes, x: Floats, y: Floats, values: Floats, name: str) -> str:
    """Mark the smallest error, or the largest overlap, that the map holds, and return
    what to say of it.
    """
    small = _SMALL_IS_GOOD.search(name)
    large = _LARGE_IS_GOOD.search(name)
    finite = np.isfinite(values)
    if not (small or large) or not finite.any() or np.ptp(values[finite]) <= 0:
        return ""
    if small:
        sign = 1.0
        word = "smallest"
    else:
        sign = -1.0
        word = "largest"
    signed = np.where(finite, sign * values, np.inf)
    row, column = np.unravel_index(int(np.argmin(signed)), values.shape)
    look: dict[str, Any] = {
        "markersize": 11,
        "color": VERMILION,
        "markeredgecolor": "white",
    }
    axes.plot(x[column], y[row], "*", zorder=6, clip_on=False, **look)
    return f"\n(star: {word}, {values[row, column]:.3g})"


def _finish(axes: Axes, reading: Reading, x: Any, y: Any, log: str | None) -> None:
    """Set scales, the label of the vertical axis, and a closed frame."""
    if log is not None:
        wanted = log
    else:
        wanted = "".join(a for a, c in (("x", x), ("y", y)) if is_geometric(c.values))
    log_axes(axes, wanted)
    axes.set_ylabel(x_label(y, str(y.name), reading.dimension(str(y.name)), 40))
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)


def cell_edges(centres: Sequence[float] | Floats) -> Floats:
    """Return the edges of cells around centres, halfway in log where the centres are
    geometric.

    >>> cell_edges(np.array([1.0, 2.0, 3.0]))
    array([0.5, 1.5, 2.5, 3.5])
    """
    numbers = np.asarray(centres, dtype=float)
    forward: Callable[[Floats], Floats]
    if is_geometric(numbers):
        forward = np.log
    else:
        forward = np.asarray
    if len(numbers) > 1:
        found = even_edges(forward(numbers))
    else:
        found = numbers[0] + np.array([-0.5, 0.5])
    if forward is np.log:
        return np.exp(found)
    return found
