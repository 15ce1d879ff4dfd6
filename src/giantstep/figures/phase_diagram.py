"""Phase diagrams of one-pass training in exponents: batch size d^mu, rate d^-delta, time d^theta, with runs marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from giantstep.figures.panels import letter, limit_line
from giantstep.figures.style import BLACK, GREEN, GREY, ORANGE, VERMILION, new_figure
from giantstep.learnability.complexity import best_batch, largest_rate, shortest_time

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"squared": GREEN, "correlation": ORANGE}


def draw_phase_diagram(result: xarray.Dataset) -> Figure:
    """Draw the phase diagrams of a target, in time and in rate, with the runs of a result marked.

    The lines are exponents for d -> inf: they leave out constants and, for a target of order 2, a factor log d.
    """
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
    low = float(largest_rate(order, mu, True).min()) - 0.6
    axes[1].fill_between(mu, largest_rate(order, mu, True), low, color="#F2E3D5", zorder=0)
    axes[1].text(0.25, low + 0.25, "rate too large", fontsize=8)
    axes[1].axhline(0, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.3)))
    if order >= 2:
        axes[0].text(order - 0.5, 0.06, "polylog $d$", fontsize=8, ha="center")
        axes[0].text(order + 0.5, 0.06, "one giant step", fontsize=8, ha="center")
    axes[0].set(xlim=(0, order + 1), ylim=(-0.05, None), ylabel=r"time,  $\theta = \log_d T$")
    axes[1].set(xlim=(0, order + 1), ylim=(low, None), ylabel=r"rate,  $\delta = -\log_d \gamma$")
    _regimes(axes[2], max(1.2, runs["mu"].max() + 0.1), max(1.6, runs["delta"].max() + 0.2))
    for panel, name in zip(axes, ("theta_run", "delta", "delta")):
        panel.plot(runs["mu"], runs[name], "*", color=VERMILION, markersize=12, zorder=5, clip_on=False)
    axes[0].annotate(
        _run_label(result), (runs["mu"][0], runs["theta_run"][0]), xytext=(9, 10), textcoords="offset points",
        fontsize=8, color=VERMILION,
    )  # fmt: skip
    target = json.loads(result.attrs["scenario"])["target"]
    name = target if isinstance(target, str) and len(target) <= 20 else "the target"
    titles = (f"time to recover {name}, $l = {order:g}$", "largest useful rate", "overlaps of order one")
    for panel, mark, title in zip(axes, "abc", titles):
        panel.set_xlabel(r"batch size,  $\mu = \log_d n_b$")
        letter(panel, mark, title)
    for panel in axes[:2]:
        panel.legend(loc="upper right")
    return figure


def _run_label(result: xarray.Dataset) -> str:
    """Say which run is marked, in the numbers all marked runs share."""
    content = json.loads(result.attrs["scenario"])
    symbols = {"dim": "d", "batch_size": "n_b", "steps": "T"}
    known = [name for name in symbols if name in content and name not in result.dims]
    shared = [f"${symbols[name]} = {content[name]}$" for name in known]
    head = "this run" if result["mu"].size == 1 else f"these {result['mu'].size} runs"
    return f"{head}:\n" + ", ".join(shared) if shared else head


def _regimes(axes: Axes, right: float, top: float) -> None:
    """Draw where drift, noise or both move overlaps of order one."""
    mu = np.append(np.linspace(0, 1, 50), right)
    axes.fill_between(mu, np.maximum(1 - mu, 0), top, color="#CFE8D5")
    axes.fill_between(mu, (1 - mu) / 2, 1 - mu, where=mu <= 1, color="#F4C7AB")
    axes.fill_between(mu, 0, np.maximum((1 - mu) / 2, 0), color="#E6E6E6")
    axes.plot(mu, np.maximum(1 - mu, 0), color=BLACK, linewidth=1.5)
    axes.text(0.72, 0.95, "population flow,\n$T = 1/\\gamma$", ha="center", fontsize=8)
    axes.text(0.2, 0.6, "noise", ha="center", fontsize=8)
    axes.text(0.2, 0.2, "not defined", ha="center", fontsize=8)
    axes.annotate("drift and noise\n(Saad and Solla)", (0.5, 0.5), xytext=(0.72, 0.55), fontsize=8,
                  arrowprops={"arrowstyle": "-", "color": GREY})  # fmt: skip
    axes.set(xlim=(0, right), ylim=(0, top), ylabel=r"rate,  $\delta = -\log_d \gamma$")
