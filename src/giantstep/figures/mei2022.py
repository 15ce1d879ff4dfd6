"""Mei and Montanari, CPAM 2022: double descent of random features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.panels import engines, experiment_points, letter, level, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLUE, GREEN, GREY, MARKERS, VERMILION, new_figure, plain_log_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from giantstep.families.one_step.scenario import OneStep

SEED = 1908
WIDTH_PER_SAMPLE = np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0])
RIDGES = (1e-4, 1e-2, 1e-1)
"""lambda of the paper; ours is n/d times as large."""


def scenario() -> OneStep:
    """Return ReLU random features on a linear target with noise, three samples per dimension."""
    from giantstep import OneStep

    return OneStep(
        activation="relu",
        target="z",
        noise=0.2,
        width_per_dim=3.0,
        samples_per_dim=3.0,
        ridge=RIDGES[0] * 3.0,
    )


def double_descent(bench: Bench) -> Figure:
    """Draw test and training error against the width for several ridges."""
    from matplotlib.lines import Line2D

    base = scenario()
    ratio = base.samples_per_dim
    ridges = [ratio * ridge for ridge in RIDGES]
    points = np.union1d(WIDTH_PER_SAMPLE[:: bench.sized(2, 1)], [1.0])
    result = bench.compare(
        "errors",
        base,
        {"width_per_dim": ratio * points, "ridge": ridges},
        meaning="errors against p/n for three ridges",
        judged=("test_error", "train_error"),
        dim=bench.sized(100, 300),
        trials=bench.sized(20, 20),
        seed=SEED,
    )
    fine = np.union1d(np.geomspace(points[0], points[-1], 160), np.linspace(0.9, 1.1, 41))
    line = bench.predict("limit", base, {"width_per_dim": ratio * fine, "ridge": ridges})
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, name in zip(axes, ("test_error", "train_error")):
        for place, colour in enumerate((BLUE, VERMILION, GREEN)):
            limit_line(panel, fine, line[name].isel(ridge=place), colour)
            experiment_points(panel, points, result.isel(ridge=place), name, colour, MARKERS[place])
        panel.axvline(1.0, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=0)
        panel.set(yscale="log")
        panel.set_xlabel("neurons per sample,  $p/n$")
        panel.set_ylabel(name.replace("_", " "))
    _baselines(axes, line)
    keys: list[Any] = [
        Line2D(
            [],
            [],
            color=colour,
            marker=marker,
            markerfacecolor="white",
            label=rf"$\lambda = {_power(ridge)}$",
        )
        for colour, marker, ridge in zip((BLUE, VERMILION, GREEN), MARKERS, RIDGES)
    ]
    axes[0].legend(handles=[*keys, *engines(axes[0], r"experiment $\pm$ 1 s.e.")], loc="upper right")
    letter(axes[0], "a", "test error: the peak at $n = p$ and the second descent")
    letter(axes[1], "b", "training error")
    peak = line["test_error"].isel(ridge=0)
    bench.check(
        "peak of the test error at the smallest ridge, p/n",
        float(fine[int(np.argmax(peak.values))]),
        "the limit peaks where the network begins to interpolate, p = n",
    )
    bench.notes.append("The ridge of the paper is ours divided by n/d = 3.")
    return figure


def _baselines(axes: Any, line: Any) -> None:
    null, floor = float(line["null_error"][0, 0]), float(line["affine_error"][0, 0])
    level(axes[0], null, "null predictor", at=1.0)
    level(axes[0], floor, "best affine predictor (label noise)", at=1.0)
    level(axes[1], floor, "label noise", at=1.0)
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(min(low, 0.7 * floor), 2.0 * high)
    plain_log_ticks(axes[0].yaxis)


def _power(value: float) -> str:
    return f"10^{{{round(np.log10(value))}}}"


RECIPES = (
    Recipe(
        name="double-descent",
        title="Double descent of random-features regression",
        paper="mei2022generalization",
        description="(a) test and (b) training error against p/n for three ridges, with baselines.",
        parameters=(
            "ReLU, linear target of variance 1, noise 0.2, n/d = 3, ridge/(n/d) = 1e-4, 1e-2, 1e-1, d = 300. Seed 1908."
        ),
        seconds_quick=10,
        seconds_full=60,
        make=double_descent,
    ),
)
