"""A plane parted into named regions: filled, their names written inside, the lines between them in the legend."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.labels import mathtext, short_symbol, value_label, x_label
from giantstep.figures.legends import outside
from giantstep.figures.maps import REGIONS
from giantstep.figures.style import BLACK, BLUE, DASHED, DOTTED, GREEN, GREY, PURPLE, VERMILION
from giantstep.types import Array, Booleans, Floats, Integers

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

    from giantstep.family import PhaseDiagram
    from giantstep.scenario import Scenario

FINE = 251
"""Columns of the map; lines are straight between the points where they were asked."""
LETTER = (0.035, 0.011)
"""Half the height of a name and half the width of its letters, relative to the frame."""
SAME = 1e-9
"""Relative difference below which two lines are one at a point."""
Points = Sequence[tuple[float, float]]
LOOKS = ((BLACK, "-"), (BLUE, "-"), (VERMILION, "-"), (GREEN, "-"), (PURPLE, DASHED), (GREY, DOTTED))


@dataclass(frozen=True)
class PhasePlane:
    """A phase diagram in numbers: the lines at `across`, the heights of the map, and the scenario's own point."""

    diagram: PhaseDiagram
    lines: xarray.Dataset
    across: Floats
    up: Floats
    own: tuple[float, float] | None


def draw_plane(axes: Axes, scenario: Scenario, across: str, plane: PhasePlane) -> None:
    """Fill the regions of a plane, name them, and draw the lines between them and the scenario's own point."""
    diagram, lines = plane.diagram, plane.lines
    assert diagram.regions is not None
    fine = np.linspace(plane.across[0], plane.across[-1], FINE)
    curves = {name: _between(fine, plane.across, line) for name, line in _apart(lines, diagram).items()}
    names = diagram.regions(curves, plane.up)
    solved = np.interp(fine, plane.across, lines["converged"].values.astype(float)) == 1
    clear = [plane.own] if plane.own else []
    handles = fill_regions(axes, fine, plane.up, np.where(solved, names, ""), clear=clear)
    handles = _draw_lines(axes, fine, curves, plane) + handles
    if plane.own:
        (star,) = axes.plot(
            *plane.own, "*", color=VERMILION, markersize=12, markeredgecolor="white", label="this scenario", zorder=6,
            clip_on=False,
        )  # fmt: skip
        handles.append(star)
    axes.set(xlim=(fine[0], fine[-1]), ylim=(plane.up[0], plane.up[-1]))
    axes.set_xlabel(x_label(lines[across], across, scenario.questions[diagram.what].dimension(across)))
    axes.set_ylabel(_field_label(scenario, diagram.up))
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


def fill_regions(
    axes: Axes, x: Floats, y: Floats, names: Array, *, clear: Points = (), fills: Mapping[str, str] | None = None
) -> list[Any]:
    """Fill regions of names (Y, X); write each name inside, away from the points `clear`, or return it for the legend.

    `fills` gives colours by name; the rest have those of the list, from below.
    """
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    known = [str(name) for name in dict.fromkeys(names.ravel().tolist()) if name]
    codes: Integers = np.select([names == name for name in known], range(len(known)), -1)
    colours = [(fills or {}).get(name, REGIONS[place % len(REGIONS)]) for place, name in enumerate(known)]
    norm = BoundaryNorm(np.arange(len(known) + 1) - 0.5, max(len(known), 1))
    shown = np.ma.masked_less(codes, 0)
    frame = (float(x[0]), float(x[-1]), float(y[0]), float(y[-1]))
    axes.imshow(
        shown, cmap=ListedColormap(colours), norm=norm, extent=frame, origin="lower", aspect="auto",
        interpolation="nearest", zorder=0,
    )  # fmt: skip
    taken = codes.copy()
    for across, up in clear:
        taken[np.argmin(np.abs(y - up)), np.argmin(np.abs(x - across))] = -1
    handles = []
    for code, name in enumerate(known):
        middle = _middle(taken == code, name)
        if middle is None:
            handles.append(Patch(facecolor=colours[code], label=name.replace("\n", " ")))
        else:
            axes.text(x[middle[1]], y[middle[0]], name, ha="center", va="center", zorder=5)
    if np.any(codes < 0):
        handles.append(Patch(facecolor="white", edgecolor="0.6", label="not computed"))
    return handles


def _middle(inside: Booleans, name: str) -> tuple[int, int] | None:
    """Return the place nearest to the middle of a region around which a name has room; None without one."""
    from scipy.ndimage import binary_erosion  # type: ignore[attr-defined]

    written = [re.sub(r"[$\\]", "", line) for line in name.split("\n")]
    half = LETTER[0] * len(written), LETTER[1] * max(map(len, written))
    height, width = (2 * int(np.ceil(part * size)) + 1 for part, size in zip(half, inside.shape))
    room = np.argwhere(binary_erosion(binary_erosion(inside, np.ones((height, 1)) > 0), np.ones((1, width)) > 0))
    if not len(room):
        return None
    away = (room - np.argwhere(inside).mean(axis=0)) / inside.shape
    row, column = room[np.argmin((away**2).sum(axis=1))]
    return int(row), int(column)


def _draw_lines(axes: Axes, x: Floats, curves: Mapping[str, Floats], plane: PhasePlane) -> list[Any]:
    """Draw the lines, and return those of which something is seen."""
    handles = []
    for (name, curve), (colour, style) in zip(curves.items(), LOOKS):
        if np.isfinite(curve).any():
            symbol = mathtext(str(plane.lines[name].attrs.get("symbol", "")))
            text = f"{symbol}: {plane.diagram.lines[name]}"
            visible = np.where(np.isfinite(curve), curve, np.nan)
            handles += axes.plot(x, visible, color=colour, linestyle=style, label=text, zorder=3)
    return handles


def _field_label(scenario: Scenario, name: str) -> str:
    import xarray

    info = scenario.numeric_fields()[name][1]
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    about = xarray.DataArray(0.0, attrs={"long_name": info.description, "symbol": extra.get("symbol", "")})
    return x_label(about, name, scenario.questions[next(iter(scenario.questions))].dimension(name), 40)


def _fixed(scenario: Scenario, names: tuple[str, ...]) -> str:
    """Say which numbers are the same all over the plane."""
    import xarray

    said = []
    for name in names:
        value, info = scenario.numeric_fields()[name]
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        symbol = short_symbol(xarray.DataArray(0.0, attrs={"symbol": extra.get("symbol", "")}), name)
        said.append(f"{symbol} = {value_label(value)}")
    return ",  ".join([scenario.title.partition(":")[0], *said])
