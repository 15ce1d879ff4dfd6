"""A plane parted into named regions: filled, their names written inside, the lines between them in the legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.labels import mathtext, short_symbol, value_label, x_label
from giantstep.figures.legends import outside
from giantstep.figures.maps import coded
from giantstep.figures.style import BLACK, BLUE, DASHED, DOTTED, GREEN, GREY, PURPLE, VERMILION
from giantstep.result import about_field
from giantstep.types import Array, Floats

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

    from giantstep.family import PhaseDiagram
    from giantstep.scenario import Scenario

FINE = 251
"""Columns of the map; lines are straight between the points where they were asked."""
NAME = (10, 5)
"""Columns and rows of a hundred around the middle of a region that must lie in it, so that its name has room there."""
SAME = 1e-9
"""Relative difference below which two lines are one at a point."""
LOOKS = ((BLACK, "-"), (BLUE, "-"), (VERMILION, "-"), (GREEN, "-"), (PURPLE, DASHED), (GREY, DOTTED))


def draw_plane(
    axes: Axes,
    scenario: Scenario,
    diagram: PhaseDiagram,
    lines: xarray.Dataset,
    up: Floats,
    own: tuple[float, float] | None,
) -> None:
    """Fill the regions of a plane, name them, and draw the lines between them and the scenario's own point.

    `lines` has the lines along one field, `up` are the heights of the map.
    """
    assert diagram.regions is not None
    (across,) = map(str, lines["converged"].dims)
    places, question = lines[across].values, scenario.questions[diagram.what]
    fine = np.linspace(places[0], places[-1], FINE)
    curves = {name: _between(fine, places, line) for name, line in _apart(lines, diagram).items()}
    names = diagram.regions(curves, up)
    solved = np.interp(fine, places, lines["converged"].values.astype(float)) == 1
    handles = fill_regions(axes, fine, up, np.where(solved, names, ""))
    handles = _draw_lines(axes, fine, curves, diagram, lines) + handles
    if own:
        (star,) = axes.plot(
            *own, "*", color=VERMILION, markersize=12, markeredgecolor="white", label="this scenario", zorder=6,
            clip_on=False,
        )  # fmt: skip
        handles.append(star)
    axes.set(xlim=(fine[0], fine[-1]), ylim=(up[0], up[-1]))
    axes.set_xlabel(x_label(lines[across], across, question.dimension(across)))
    axes.set_ylabel(x_label(_about(scenario, diagram.up), diagram.up, question.dimension(diagram.up), 40))
    axes.set_title(_fixed(scenario, diagram.beside), color=GREY)
    axes.legend(handles=handles, **outside([handle.get_label() for handle in handles]))


def _apart(lines: xarray.Dataset, diagram: PhaseDiagram) -> dict[str, Floats]:
    """Return the lines, NaN at points where an earlier one is the same: a line ends there and does not drop onto it."""
    kept: dict[str, Floats] = {}
    for name in diagram.lines:
        values = lines[name].values
        same = np.zeros(values.shape, dtype=bool)
        for earlier in kept:
            same |= np.isclose(values, lines[earlier].values, rtol=SAME, atol=0)
        kept[name] = np.where(same, np.nan, values)
    return kept


def _between(fine: Floats, across: Floats, values: Floats) -> Floats:
    """Return a line between its points; where a neighbour is infinite or unknown, what the nearest point says."""
    nearest = values[np.argmin(np.abs(fine[:, None] - across), axis=1)]
    straight = np.interp(fine, across, values)
    return np.where(np.isfinite(straight), straight, nearest)


def fill_regions(axes: Axes, x: Floats, y: Floats, names: Array, fills: Mapping[str, str] | None = None) -> list[Any]:
    """Fill regions of names (Y, X); write each name into the middle of its region, or return it for the legend.

    `fills` gives colours by name; the rest have those of the list, from below.
    """
    known = [str(name) for name in dict.fromkeys(names.ravel().tolist()) if name]
    codes, handles, look = coded(names, known, fills)
    frame = (float(x[0]), float(x[-1]), float(y[0]), float(y[-1]))
    axes.imshow(codes, extent=frame, origin="lower", aspect="auto", interpolation="nearest", zorder=0, **look)
    down, across = NAME[1] * len(y) // 100, NAME[0] * len(x) // 100
    written = []
    for code, name in enumerate(known):
        row, column = (int(places.mean()) for places in np.nonzero(codes.filled(-1) == code))
        around = codes.filled(-1)[max(row - down, 0) : row + down, max(column - across, 0) : column + across]
        if (around == code).all():
            axes.text(x[column], y[row], name, ha="center", va="center", zorder=5)
            written.append(handles[code])
    return [handle for handle in handles if handle not in written]


def _draw_lines(
    axes: Axes, x: Floats, curves: Mapping[str, Floats], diagram: PhaseDiagram, lines: xarray.Dataset
) -> list[Any]:
    """Draw the lines, and return those of which something is seen."""
    handles = []
    for (name, curve), (colour, style) in zip(curves.items(), LOOKS):
        if np.isfinite(curve).any():
            symbol = mathtext(str(lines[name].attrs.get("symbol", "")))
            text = f"{symbol}: {diagram.lines[name]}"
            visible = np.where(np.isfinite(curve), curve, np.nan)
            handles += axes.plot(x, visible, color=colour, linestyle=style, label=text, zorder=3)
    return handles


def _about(scenario: Scenario, name: str) -> xarray.DataArray:
    """Return a number of the scenario with what is said of it."""
    import xarray

    return xarray.DataArray(scenario.numeric_fields()[name][0], attrs=about_field(scenario, name))


def _fixed(scenario: Scenario, names: tuple[str, ...]) -> str:
    """Say which numbers are the same all over the plane."""
    fields = {name: _about(scenario, name) for name in names}
    said = [f"{short_symbol(field, name)} = {value_label(field.values.item())}" for name, field in fields.items()]
    return ",  ".join([scenario.title.partition(":")[0], *said])
