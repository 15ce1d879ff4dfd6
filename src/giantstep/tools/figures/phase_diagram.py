"""Phase diagrams of one-pass training in exponents: batch size d^mu, rate d^-delta,
time d^theta, with runs marked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Array, Booleans, Floats
from giantstep.core.result.provenance import grid_of
from giantstep.core.result.table import about_field
from giantstep.problems.learnability.batch_exponents import (
    best_batch,
    largest_rate,
    phase_names,
    shortest_time,
)
from giantstep.tools.figures.labels import (
    mathtext,
    outside,
    short_symbol,
    value_label,
    x_label,
)
from giantstep.tools.figures.maps import coded
from giantstep.tools.figures.panels import letters, limit_line, note
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    new_figure,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.core.scenario.family import PhaseDiagram
    from giantstep.core.scenario.model import Scenario

STAR: dict[str, Any] = {
    "color": VERMILION,
    "markersize": 12,
    "zorder": 6,
    "clip_on": False,
}
"""How a run is marked."""
COLOURS = {"squared": GREEN, "correlation": ORANGE}
SHORT = {
    "rate too large: noise dominates": "too large:\nnoise",
    "rate too large: a step overshoots": "too large: a\nstep overshoots",
    "weak recovery in d^theta": "recovery in\n$d^\\theta$ steps",
    "polylogarithmic": "polylog $d$\nsteps",
    "one giant step": "one giant\nstep",
}
"""Names of phases as they fit into a picture."""
GOOD = "#C5E6CF"
BAD = "#E3E3E3"
POOR = "#F4C7AB"
FILLS = {
    "recovered": GOOD,
    SHORT["weak recovery in d^theta"]: GOOD,
    "population flow,\n$T = 1/\\gamma$": GOOD,
}
FILLS |= {
    SHORT["rate too large: a step overshoots"]: POOR,
    "noise": POOR,
    SHORT["one giant step"]: "#C4DFF2",
}


def draw_phase_diagram(result: xarray.Dataset) -> Figure:
    """Draw the phase diagrams of a target, in time and in rate, with the runs of a
    result marked.

    Regions are those of the algorithm of the result, lines those of both losses. They
    are exponents for d -> inf: they leave out constants and, for a target of order 2, a
    factor log d.
    """
    points = [scenario.content() for scenario in grid_of(result).scenarios()]
    content = points[0]
    for name in ("target", "algorithm"):
        if any(point[name] != content[name] for point in points):
            raise InputError(
                f"A phase diagram is that of one `{name}`; choose one along it"
                " (result.sel)."
            )
    order = float(np.ravel(result["order"].values)[0])
    runs = {
        name: np.ravel(result[name].values) for name in ("mu", "delta", "theta_run")
    }
    mu = np.unique(
        np.append(
            np.linspace(0.0, order + 1, 161),
            [order / 2, order - 1, order - 1e-9, order],
        )
    )
    figure, axes = new_figure(1, 3, width=13.2, height=4.5)
    for name, thick in (
        ("squared", 4.5),
        ("correlation", 2.0),
    ):  # they coincide up to mu = l/2
        correlation = name == "correlation"
        time = shortest_time(order, mu, correlation)
        rate = largest_rate(order, mu, correlation)
        limit_line(axes[0], mu, time, COLOURS[name], f"{name} loss", linewidth=thick)
        limit_line(axes[1], mu, rate, COLOURS[name], f"{name} loss", linewidth=thick)
        corner = best_batch(order, correlation)
        axes[0].plot(
            corner,
            shortest_time(order, np.array(corner), correlation),
            "o",
            color=COLOURS[name],
            zorder=4,
        )
    if order >= 2:
        axes[0].text(order - 0.5, 0.06, "polylog $d$", fontsize=8, ha="center")
        axes[0].text(order + 0.5, 0.06, "one giant step", fontsize=8, ha="center")
    axes[1].axhline(0, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.3)))
    maps = _maps(order, content["algorithm"] == "correlation", runs)
    axes[2].plot(
        [0, 1, maps[2][0][-1]],
        [1, 0, 0],
        color=BLACK,
        linewidth=1.5,
        label="drift and noise (Saad and Solla)",
    )
    slowness = r"rate,  $\delta = -\log_d \gamma$"
    heights = (
        ("theta_run", r"time,  $\theta = \log_d T$"),
        ("delta", slowness),
        ("delta", slowness),
    )
    for panel, regions, (run, label) in zip(axes, maps, heights):
        panel.plot(runs["mu"], runs[run], "*", **STAR)
        drawn = [np.asarray(line.get_xydata(), dtype=float) for line in panel.lines]
        left_over = fill_regions(panel, *regions, FILLS, drawn)
        lines = [
            line for line in panel.lines if not str(line.get_label()).startswith("_")
        ]
        # below the axes: a run may lie anywhere inside
        panel.legend(
            handles=[*lines, *left_over],
            loc="upper center",
            bbox_to_anchor=(0.5, -0.16),
            ncols=2,
        )
        panel.set(xlabel=r"batch size,  $\mu = \log_d n_b$", ylabel=label)
    first = runs["mu"][0], runs["theta_run"][0]
    note(
        axes[0],
        _run_label(points),
        first,
        (9, 10),
        VERMILION,
        fontsize=8,
        ha="left",
        va="baseline",
    )
    target = content["target"]
    if isinstance(target, str) and len(target) <= 20:
        name = mathtext(target.replace("**", "^"))
    else:
        name = "the target"
    titles = (
        rf"time to recover {name}, $\ell = {order:g}$",
        "largest useful rate",
        "overlaps of order one",
    )
    letters(axes, *titles)
    return figure


def _maps(
    order: float, correlation: bool, runs: Mapping[str, Floats]
) -> list[tuple[Floats, Floats, Array]]:
    """Return mu, heights and named regions: recovery in a time, how long a rate takes,
    where drift or noise move.
    """
    mu = np.linspace(0.0, order + 1, 241)
    theta = float(runs["theta_run"].max())
    delta = float(runs["delta"].max())
    times = np.linspace(0.0, 1.25 * max(1.0, order - 1, theta), 201)
    enough = times[:, None] >= shortest_time(order, mu, correlation)
    least = float(largest_rate(order, mu, True).min()) - 0.6
    rates = np.linspace(least, max(1.0, order / 2, delta) + 0.5, 201)
    long = phase_names(order, mu, rates[:, None], correlation)
    phases = np.select([long == name for name in SHORT], list(SHORT.values()), long)
    near = np.linspace(0.0, max(1.2, float(runs["mu"].max()) + 0.1), 201)
    heights = np.linspace(0.0, max(1.6, delta + 0.2), 201)
    words = ["population flow,\n$T = 1/\\gamma$", "noise"]
    up = heights[:, None]
    regimes = np.select([up > 1 - near, up > (1 - near) / 2], words, "undefined")
    recovered = np.where(enough, "recovered", "too few steps")
    return [(mu, times, recovered), (mu, rates, phases), (near, heights, regimes)]


def _run_label(points: Sequence[Mapping[str, Any]]) -> str:
    """Say which run is marked, in the numbers all marked runs share."""
    symbols = {"dim": "d", "batch_size": "n_b", "steps": "T"}
    known = [
        name
        for name in symbols
        if name in points[0] and len({point[name] for point in points}) == 1
    ]
    shared = [f"${symbols[name]} = {points[0][name]}$" for name in known]
    head = "this run" if len(points) == 1 else f"these {len(points)} runs"
    return f"{head}:\n" + ", ".join(shared) if shared else head


# -- A plane parted into named regions: filled -----------------------------------------


FINE = 251
"""Columns of the map; lines are straight between the points where they were asked."""
NAME = (10, 5)
"""Columns and rows of a hundred around the middle of a region that must lie in it, so
that its name has room there.
"""
LETTER = 1.1
LINE = 3.0
EVERY = 7
"""Hundredths of the map to each side of the middle of a name, for each letter and each
line of it; of the places in a region every so many are tried.
"""
SAME = 1e-9
"""Relative difference below which two lines are one at a point."""
LOOKS = (
    (BLACK, "-"),
    (BLUE, "-"),
    (VERMILION, "-"),
    (GREEN, "-"),
    (PURPLE, DASHED),
    (GREY, DOTTED),
)


def draw_plane(
    axes: Axes,
    scenario: Scenario,
    diagram: PhaseDiagram,
    lines: xarray.Dataset,
    up: Floats,
    own: tuple[float, float] | None,
) -> None:
    """Fill the regions of a plane by the lines along one field and the heights `up`;
    draw these and an own point.
    """
    assert diagram.regions is not None
    (across,) = map(str, lines["converged"].dims)
    places = lines[across].values
    question = scenario.questions[diagram.what]
    fine = np.linspace(places[0], places[-1], FINE)
    curves = {
        name: _between(fine, places, line)
        for name, line in _apart(lines, diagram).items()
    }
    solved = np.interp(fine, places, lines["converged"].values.astype(float)) == 1
    drawn = [
        np.column_stack([fine, curve])[np.isfinite(curve)] for curve in curves.values()
    ]
    if own:
        drawn.append(np.array([own], dtype=float))
    regions = fill_regions(
        axes, fine, up, np.where(solved, diagram.regions(curves, up), ""), drawn=drawn
    )
    handles: list[Any] = []
    for (name, curve), (colour, kind) in zip(curves.items(), LOOKS):
        if np.isfinite(curve).any():
            text = (
                f"{mathtext(str(lines[name].attrs.get('symbol', '')))}:"
                f" {diagram.lines[name]}"
            )
            visible = np.where(np.isfinite(curve), curve, np.nan)
            handles += axes.plot(
                fine, visible, color=colour, linestyle=kind, label=text, zorder=3
            )
    handles += regions
    if own:
        look = {**STAR, "markeredgecolor": "white", "label": "this scenario"}
        handles += axes.plot(*own, "*", **look)
    axes.set_xlabel(x_label(lines[across], across, question.dimension(across)))
    axes.set_ylabel(
        x_label(
            _about(scenario, diagram.up), diagram.up, question.dimension(diagram.up), 40
        )
    )
    # numbers that are the same all over the plane
    fixed = {name: _about(scenario, name) for name in diagram.beside}
    said = [
        f"{short_symbol(field, name)} = {value_label(field.values.item())}"
        for name, field in fixed.items()
    ]
    axes.set_title(",  ".join([scenario.title.partition(":")[0], *said]), color=GREY)
    axes.legend(handles=handles, **outside([handle.get_label() for handle in handles]))


def _apart(lines: xarray.Dataset, diagram: PhaseDiagram) -> dict[str, Floats]:
    """Return the lines, NaN at points where an earlier one is the same: a line ends
    there and does not drop onto it.
    """
    kept: dict[str, Floats] = {}
    for name in diagram.lines:
        values = lines[name].values
        same = [
            np.isclose(values, lines[earlier].values, rtol=SAME, atol=0)
            for earlier in kept
        ]
        kept[name] = np.where(np.any(same, axis=0), np.nan, values)
    return kept


def _between(fine: Floats, across: Floats, values: Floats) -> Floats:
    """Return a line between its points; where a neighbour is infinite or unknown, what
    the nearest point says.
    """
    nearest = values[np.argmin(np.abs(fine[:, None] - across), axis=1)]
    straight = np.interp(fine, across, values)
    return np.where(np.isfinite(straight), straight, nearest)


def fill_regions(
    axes: Axes,
    x: Floats,
    y: Floats,
    names: Array,
    fills: Mapping[str, str] | None = None,
    drawn: Sequence[Floats] = (),
) -> list[Any]:
    """Fill regions of names (Y, X), by `fills` or the list; write names into them, or
    return them for the legend.

    A name stands off the lines (points, 2) that are `drawn`, where its region has room
    for that.
    """
    known = [str(name) for name in dict.fromkeys(names.ravel().tolist()) if name]
    codes, handles, look = coded(names, known, fills)
    frame = (float(x[0]), float(x[-1]), float(y[0]), float(y[-1]))
    axes.imshow(
        codes,
        extent=frame,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        zorder=0,
        **look,
    )
    axes.set(xlim=frame[:2], ylim=frame[2:])
    written = []
    crossed = _cells_of(drawn, x, y)
    for code, name in enumerate(known):
        inside = codes.filled(-1) == code
        place = _place_of_name(inside, crossed, name)
        if place is not None:
            row, column = place
            axes.text(x[column], y[row], name, ha="center", va="center", zorder=5)
            written.append(handles[code])
    return [handle for handle in handles if handle not in written]


def _cells_of(drawn: Sequence[Floats], x: Floats, y: Floats) -> Booleans:
    """Return the cells of a map (Y, X) that lines or points pass through."""
    cells = np.zeros((len(y), len(x)), dtype=bool)
    steps = np.linspace(0.0, 1.0, 2 * max(cells.shape))
    for line in drawn:
        starts = line
        ends = np.vstack([line[1:], line[-1:]])
        points = (starts[:, None] + steps[:, None] * (ends - starts)[:, None]).reshape(
            -1, 2
        )
        columns = np.round((points[:, 0] - x[0]) / (x[-1] - x[0]) * (len(x) - 1))
        rows = np.round((points[:, 1] - y[0]) / (y[-1] - y[0]) * (len(y) - 1))
        seen = (columns >= 0) & (columns < len(x)) & (rows >= 0) & (rows < len(y))
        cells[rows[seen].astype(int), columns[seen].astype(int)] = True
    return cells


def _place_of_name(
    inside: Booleans, crossed: Booleans, name: str
) -> tuple[int, int] | None:
    """Return row and column of a name in its region: the middle, or the place next to
    it that no line crosses.

    None where even the middle has no room: such a name goes to the legend.
    """
    rows, columns = np.nonzero(inside)
    middle = int(rows.mean()), int(columns.mean())
    if not _has_room(inside, middle, *NAME):
        return None
    words = name.splitlines()
    across = max(NAME[0], LETTER * max(map(len, words)))
    down = max(NAME[1], LINE * len(words))
    free = inside & ~crossed
    distance = np.hypot(
        (rows - middle[0]) / inside.shape[0], (columns - middle[1]) / inside.shape[1]
    )
    for place in np.argsort(distance)[::EVERY]:
        candidate = int(rows[place]), int(columns[place])
        if _has_room(free, candidate, across, down):
            return candidate
    return middle


def _has_room(
    free: Booleans, place: tuple[int, int], across: float, down: float
) -> bool:
    """Tell whether all is free around a place, by so many hundredths of the map to each
    side; its frame cuts.
    """
    row, column = place
    rows = int(down * free.shape[0] / 100)
    columns = int(across * free.shape[1] / 100)
    around = free[
        max(row - rows, 0) : row + rows, max(column - columns, 0) : column + columns
    ]
    return bool(around.all())


def _about(scenario: Scenario, name: str) -> xarray.DataArray:
    """Return a number of the scenario with what is said of it."""
    import xarray

    return xarray.DataArray(
        scenario.numeric_fields()[name][0], attrs=about_field(scenario, name)
    )
