"""Figures of what a mean error does not say: stacked parts of the variance, reliability
diagrams.

Each returns None for an answer of another shape (no field or several, no classes),
which `plot` draws by its variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from giantstep.tools.figures.fine import fine_limit
from giantstep.tools.figures.labels import place_legend, x_label
from giantstep.tools.figures.layout import PANELS
from giantstep.tools.figures.panels import (
    engines,
    error_points,
    experiment_points,
    key,
    limit_line,
)
from giantstep.tools.figures.reading import Reading
from giantstep.tools.figures.style import (
    DASHED,
    GREY,
    MARKERS,
    PALETTE,
    colours,
    is_geometric,
    log_axes,
    panels_in_rows,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = {
    "bias": "bias",
    "from_layer": "layer",
    "from_samples": "samples",
    "from_noise": "label noise",
    "from_layer_samples": "layer and samples",
    "from_layer_noise": "layer and noise",
}
"""Parts of the error in the order in which they are stacked, and what they are
called.
"""
MOST_CURVES = 5
MOST_AVERAGES = 3
"""Averages that are drawn: those of the most members."""
_SHADE = 0.55
"""Opacity of areas, so that lines over them are seen."""


def stack_parts(
    axes: Axes, x: Any, at: xarray.Dataset, members: Sequence[float]
) -> None:
    """Stack the parts of one limit, under the lines of its error and of averages on the
    same samples.
    """
    parts = [at[name].values for name in PARTS]
    noise = np.asarray(at["test_error"].values - sum(parts))
    axes.stackplot(
        x,
        [noise, *parts],
        colors=["0.85", *PALETTE[: len(PARTS)]],
        alpha=_SHADE,
        linewidth=0,
    )
    limit_line(axes, x, at["test_error"], "black")
    for number, dashes in zip(members, _dashes(members)):
        mean = at["ensemble_error"].sel(shared="samples")
        mean = mean.sel(members=number) if "members" in mean.dims else mean
        limit_line(axes, x, mean, "black", linestyle=dashes, linewidth=1.0)


def part_keys() -> list[Any]:
    """Return what a legend says of the areas."""
    from matplotlib.patches import Patch

    names = {"label noise of the test": "0.85", **dict(zip(PARTS.values(), PALETTE))}
    return [
        Patch(color=colour, alpha=_SHADE, linewidth=0, label=name)
        for name, colour in names.items()
    ]


def average_keys(members: Sequence[float]) -> list[Any]:
    """Return what a legend says of the averages."""
    names = [r"$\infty$" if np.isinf(number) else f"{number:g}" for number in members]
    said = [f"mean of {name}, same samples" for name in names]
    return [
        key("black", "", name, dashes) for name, dashes in zip(said, _dashes(members))
    ]


def _dashes(members: Sequence[float]) -> list[Any]:
    """Return the lines of averages: dotted for that of infinitely many."""
    return [
        ":" if np.isinf(number) else (DASHED, "-.", "--")[place]
        for place, number in enumerate(members)
    ]


def draw_variance(result: xarray.Dataset, smooth: bool = True) -> Figure | None:
    """Draw the parts of the error against the field that varies, a panel for each
    number of steps.
    """
    reading = Reading(result)
    drawn = [*PARTS, "test_error", "ensemble_error"]
    if (
        not {*drawn, "members"} <= set(reading.data.variables)
        or "shared" not in reading.data.dims
    ):
        return None  # part of an answer
    across = _field(reading, "test_error", ("time",))
    if across is None or reading.data.sizes.get("time", 1) > PANELS:
        return None
    line = reading.layer(reading.data)
    data = reading.data
    if not all(np.isfinite(line[name].values).any() for name in PARTS):
        return None
    if smooth and reading.main != "experiment":
        fine = fine_limit(result, across, drawn, reading.main)
        line = line if fine is None else fine
    members = [
        number for number in np.atleast_1d(line["members"].values) if number > 1
    ][-MOST_AVERAGES:]
    figure, axes = _panel_of_each_time(result)
    for place, panel in enumerate(axes):
        at = line.isel(time=place, missing_dims="ignore")
        stack_parts(panel, at[across], at, members)
        if reading.is_compared:
            both = data.isel(time=place, missing_dims="ignore")
            experiment_points(
                panel, both[across], both, "test_error", "black", MARKERS[0]
            )
        panel.set_xlabel(
            x_label(data[across], across, reading.dimension(str(data[across].dims[0])))
        )
        log_axes(panel, "x" * is_geometric(data[across].values))
        panel.set_xlim(float(data[across].min()), float(data[across].max()))
        panel.set_ylim(0, 1.05 * float(np.nanmax(at["test_error"].values)))
    axes[0].set_ylabel("test error and its parts")
    lines = [key("black", "", reading.called(reading.main)), *average_keys(members)]
    if reading.is_compared:
        lines.append(key("black", MARKERS[0], reading.called("experiment"), "none"))
    place_legend(axes, [*part_keys(), *lines])
    return figure


def draw_reliability(result: xarray.Dataset) -> Figure | None:
    """Draw the share of the label 1 against the probability that is said, as it is and
    at the best temperature.
    """
    reading = Reading(result)
    if (
        not {"reliability", "temperature", "log_loss"} <= set(reading.data)
        or "logit" not in reading.data.dims
    ):
        return None  # part of an answer
    if not np.isfinite(reading.data["reliability"].values.astype(float)).any():
        return None
    fields = [
        str(dim)
        for dim in reading.data["log_loss"].dims
        if dim not in ("source", "time")
    ]
    if len(fields) > 1 or reading.data.sizes.get("time", 1) > PANELS:
        return None
    figure, axes = _panel_of_each_time(result)
    for place, panel in enumerate(axes):
        at = reading.data.isel(time=place, missing_dims="ignore")
        points = _chosen(at, fields)
        palette = colours(len(points), ordered=len(points) > 2)
        for number, point in enumerate(points):
            _draw_curve(
                panel,
                reading,
                at.isel(point),
                palette[number],
                MARKERS[number],
                reading.label(point),
            )
        panel.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        panel.set(
            xlabel="probability that is said", xlim=(0, 1), ylim=(0, 1), aspect="equal"
        )
    axes[0].set_ylabel("share of the label 1")
    handles = axes[0].get_legend_handles_labels()[0]
    handles += [
        key(GREY, "", "as it is"),
        key(GREY, "", "at the best temperature", DASHED),
    ]
    if reading.is_compared:
        handles += engines(
            axes[-1], reading.called("experiment"), line=reading.called(reading.main)
        )
    place_legend(axes, handles)
    return figure


def _draw_curve(
    axes: Axes,
    reading: Reading,
    at: xarray.Dataset,
    colour: str,
    marker: str,
    label: str,
) -> None:
    line = reading.layer(at)
    logit = line["logit"].values
    share = line["reliability"].values
    limit_line(axes, expit(logit), share, colour, label or None)
    temperature = float(line["temperature"])
    if temperature > 0:
        limit_line(
            axes,
            expit(logit / temperature),
            share,
            colour,
            linestyle=DASHED,
            linewidth=1.0,
        )
    if reading.is_compared:
        real = at.sel(source="experiment")
        share = real["reliability"]
        error = real["reliability_stderr"]
        error_points(axes, expit(logit), share, error, colour, marker, markersize=3.5)


def _chosen(at: xarray.Dataset, fields: Sequence[str]) -> list[dict[str, int]]:
    """Return the points whose curves are shown: few, spread evenly over the field."""
    if not fields:
        return [{}]
    count = at.sizes[fields[0]]
    places = np.unique(
        np.round(np.linspace(0, count - 1, min(count, MOST_CURVES))).astype(int)
    )
    return [{fields[0]: int(place)} for place in places]


def _panel_of_each_time(result: xarray.Dataset) -> tuple[Figure, list[Axes]]:
    """Return a figure with a panel for each number of steps; a preset of one step has
    no time.
    """
    if "time" in result.coords:
        times = np.atleast_1d(result["time"].values)
    else:
        times = np.zeros(1)
    figure, axes = panels_in_rows(len(times), 3.9)
    if len(times) > 1:
        for panel, time in zip(axes, times):
            unit = "steps"
            if time == 1:
                unit = "step"
            panel.set_title(f"{time:g} {unit} made")
    return figure, axes


def _field(reading: Reading, name: str, own: Sequence[str]) -> str | None:
    """Return the coordinate of the one field that varies; None where there is none, or
    several.
    """
    fields = [
        str(dim) for dim in reading.data[name].dims if dim not in ("source", *own)
    ]
    return reading.coordinate(fields[0]) if len(fields) == 1 else None
