"""Phase diagrams of one-pass training in exponents: batch size d^mu, rate d^-delta, time d^theta, with runs marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.errors import InputError
from giantstep.figures.labels import mathtext
from giantstep.figures.panels import letter, limit_line
from giantstep.figures.regions import fill_regions
from giantstep.figures.style import BLACK, GREEN, GREY, ORANGE, VERMILION, new_figure
from giantstep.learnability.complexity import best_batch, largest_rate, phase_names, shortest_time
from giantstep.result import grid_of
from giantstep.types import Floats

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"squared": GREEN, "correlation": ORANGE}
SHORT = {
    "rate too large: noise dominates": "too large:\nnoise",
    "rate too large: a step overshoots": "too large: a\nstep overshoots",
    "weak recovery in d^theta": "recovery in\n$d^\\theta$ steps",
    "polylogarithmic": "polylog $d$\nsteps",
    "one giant step": "one giant\nstep",
}
"""Names of phases as they fit into a picture."""
GOOD, BAD, POOR = "#C5E6CF", "#E3E3E3", "#F4C7AB"
FILLS = {"recovered": GOOD, SHORT["weak recovery in d^theta"]: GOOD, "population flow,\n$T = 1/\\gamma$": GOOD}
FILLS |= {SHORT["rate too large: a step overshoots"]: POOR, "noise": POOR, SHORT["one giant step"]: "#C4DFF2"}


def draw_phase_diagram(result: xarray.Dataset) -> Figure:
    """Draw the phase diagrams of a target, in time and in rate, with the runs of a result marked.

    Regions are those of the algorithm of the result, lines those of both losses. They are exponents for d -> inf: they
    leave out constants and, for a target of order 2, a factor log d.
    """
    points = [scenario.content() for scenario in grid_of(result).scenarios()]
    content = points[0]
    for name in ("target", "algorithm"):
        if any(point[name] != content[name] for point in points):
            raise InputError(f"A phase diagram is that of one `{name}`; choose one along it (result.sel).")
    order = float(np.ravel(result["order"].values)[0])
    runs = {name: np.ravel(result[name].values) for name in ("mu", "delta", "theta_run")}
    mu = np.unique(np.append(np.linspace(0.0, order + 1, 161), [order / 2, order - 1, order - 1e-9, order]))
    figure, axes = new_figure(1, 3, width=13.2, height=4.0)
    for name, thick in (("squared", 4.5), ("correlation", 2.0)):  # they coincide up to mu = l/2
        correlation = name == "correlation"
        time, rate = shortest_time(order, mu, correlation), largest_rate(order, mu, correlation)
        limit_line(axes[0], mu, time, COLOURS[name], f"{name} loss", linewidth=thick)
        limit_line(axes[1], mu, rate, COLOURS[name], f"{name} loss", linewidth=thick)
        corner = best_batch(order, correlation)
        axes[0].plot(corner, shortest_time(order, np.array(corner), correlation), "o", color=COLOURS[name], zorder=4)
    own = content["algorithm"] == "correlation"
    left_over = _times(axes[0], order, own, runs), _rates(axes[1], order, own, runs), _regimes(axes[2], runs)
    for panel, regions in zip(axes, left_over):
        lines = [line for line in panel.lines if not str(line.get_label()).startswith("_")]
        panel.legend(handles=[*lines, *regions], loc="upper right")
    for panel, name in zip(axes, ("theta_run", "delta", "delta")):
        panel.plot(runs["mu"], runs[name], "*", color=VERMILION, markersize=12, zorder=6, clip_on=False)
    axes[0].annotate(
        _run_label(points), (runs["mu"][0], runs["theta_run"][0]), xytext=(9, 10), textcoords="offset points",
        fontsize=8, color=VERMILION,
    )  # fmt: skip
    target = content["target"]
    name = mathtext(target.replace("**", "^")) if isinstance(target, str) and len(target) <= 20 else "the target"
    titles = (rf"time to recover {name}, $\ell = {order:g}$", "largest useful rate", "overlaps of order one")
    for panel, mark, title in zip(axes, "abc", titles):
        panel.set_xlabel(r"batch size,  $\mu = \log_d n_b$")
        letter(panel, mark, title)
    return figure


def _times(axes: Axes, order: float, correlation: bool, runs: Mapping[str, Floats]) -> list[Any]:
    """Fill where the target is recovered in time, and where it is not; return names that have no room there."""
    top = 1.25 * max(1.0, order - 1, float(runs["theta_run"].max()))
    mu, theta = np.linspace(0.0, order + 1, 241), np.linspace(0.0, top, 201)
    enough = theta[:, None] >= shortest_time(order, mu, correlation)
    left_over = fill_regions(axes, mu, theta, np.where(enough, "recovered", "too few steps"), FILLS)
    if order >= 2:
        axes.text(order - 0.5, 0.06, "polylog $d$", fontsize=8, ha="center")
        axes.text(order + 0.5, 0.06, "one giant step", fontsize=8, ha="center")
    axes.set(xlim=(0, order + 1), ylim=(0, top), ylabel=r"time,  $\theta = \log_d T$")
    return left_over


def _rates(axes: Axes, order: float, correlation: bool, runs: Mapping[str, Floats]) -> list[Any]:
    """Fill where a rate is too large, and how long a smaller one takes."""
    top = max(1.0, order / 2, float(runs["delta"].max())) + 0.5
    mu = np.linspace(0.0, order + 1, 241)
    delta = np.linspace(float(largest_rate(order, mu, True).min()) - 0.6, top, 201)
    names = phase_names(order, mu, delta[:, None], correlation)
    words = np.select([names == long for long in SHORT], list(SHORT.values()), names)
    left_over = fill_regions(axes, mu, delta, words, FILLS)
    axes.axhline(0, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.3)))
    axes.set(xlim=(0, order + 1), ylim=(delta[0], top), ylabel=r"rate,  $\delta = -\log_d \gamma$")
    return left_over


def _run_label(points: Sequence[Mapping[str, Any]]) -> str:
    """Say which run is marked, in the numbers all marked runs share."""
    symbols = {"dim": "d", "batch_size": "n_b", "steps": "T"}
    known = [name for name in symbols if name in points[0] and len({point[name] for point in points}) == 1]
    shared = [f"${symbols[name]} = {points[0][name]}$" for name in known]
    head = "this run" if len(points) == 1 else f"these {len(points)} runs"
    return f"{head}:\n" + ", ".join(shared) if shared else head


def _regimes(axes: Axes, runs: Mapping[str, Floats]) -> list[Any]:
    """Draw where drift, noise or both move overlaps of order one."""
    right, top = max(1.2, float(runs["mu"].max()) + 0.1), max(1.6, float(runs["delta"].max()) + 0.2)
    mu, delta = np.linspace(0.0, right, 201), np.linspace(0.0, top, 201)
    height = delta[:, None]
    names = np.select(
        [height > 1 - mu, height > (1 - mu) / 2], ["population flow,\n$T = 1/\\gamma$", "noise"], "undefined"
    )
    left_over = fill_regions(axes, mu, delta, names, FILLS)
    axes.plot([0, 1, right], [1, 0, 0], color=BLACK, linewidth=1.5, label="drift and noise (Saad and Solla)")
    axes.set(xlim=(0, right), ylim=(0, top), ylabel=r"rate,  $\delta = -\log_d \gamma$")
    return left_over
