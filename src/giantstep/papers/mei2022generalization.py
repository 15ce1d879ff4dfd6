"""Mei and Montanari, CPAM 2022: double descent of random features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep import OneStep, Vocabulary
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    engines,
    experiment_points,
    key,
    letters,
    level,
    limit_line,
    vertical,
)
from giantstep.tools.figures.style import (
    BLUE,
    GREEN,
    MARKERS,
    VERMILION,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_PER_SAMPLE = np.array(
    [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0]
)
RIDGES = (1e-4, 1e-2, 1e-1)
"""lambda of the paper; ours is n/d times as large."""
RATIO = 3.0
"""Samples per dimension."""
SCENARIO = OneStep(
    activation="relu", target="z", noise=0.2, width_per_dim=3.0, samples_per_dim=RATIO, ridge=RATIO * RIDGES[0],
    second_layer=Vocabulary([1]),
)  # fmt: skip


def double_descent(size: Size) -> Studies:
    """Return test and training error against the width for three ridges."""
    ridges = [RATIO * ridge for ridge in RIDGES]
    points = np.union1d(WIDTH_PER_SAMPLE[:: size(2, 1)], [1.0])
    fine = np.union1d(
        np.geomspace(points[0], points[-1], 160), np.linspace(0.9, 1.1, 41)
    )
    return {
        "errors": comparison(
            SCENARIO, {"width_per_dim": RATIO * points, "ridge": ridges}, meaning="errors against p/n for three ridges",
            judged=("test_error", "train_error"), dim=size(100, 300), trials=size(20, 60), seed=1908,
        ),
        "limit": limit(SCENARIO, {"width_per_dim": RATIO * fine, "ridge": ridges}),
    }  # fmt: skip


def _draw(results: Results) -> Figure:
    result = results["errors"]
    line = results["limit"]
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    keys = []
    for index, (ridge, colour) in enumerate(zip(RIDGES, (BLUE, VERMILION, GREEN))):
        for panel, name in zip(axes, ("test_error", "train_error")):
            limit_line(
                panel,
                line["width_per_dim"] / RATIO,
                line[name].isel(ridge=index),
                colour,
            )
            points = result.isel(ridge=index)
            experiment_points(
                panel,
                points["width_per_dim"] / RATIO,
                points,
                name,
                colour,
                MARKERS[index],
            )
        keys.append(
            key(colour, MARKERS[index], rf"$\lambda = 10^{{{round(np.log10(ridge))}}}$")
        )
    for panel, text in zip(axes, ("test error", "train error")):
        vertical(panel, 1.0)
        panel.set(yscale="log", xlabel="neurons per sample,  $p/n$", ylabel=text)
    null, floor = (float(line[name][0, 0]) for name in ("null_error", "affine_error"))
    level(axes[0], null, "null predictor", at=1.0)
    level(axes[0], floor, "best affine predictor (label noise)", at=1.0)
    level(axes[1], floor, "label noise", at=1.0)
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(min(low, 0.7 * floor), 2.0 * high)
    plain_log_ticks(axes[0].yaxis)
    axes[0].legend(
        handles=[*keys, *engines(axes[0], r"experiment $\pm$ 1 s.e.")],
        loc="upper right",
    )
    letters(
        axes, "test error: the peak at $n = p$ and the second descent", "training error"
    )
    return figure


def _checks(results: Results) -> Iterator[Check]:
    line = results["limit"]
    peak = int(np.argmax(line["test_error"].isel(ridge=0).values))
    yield Check(
        "peak of the test error at the smallest ridge, p/n",
        "the limit peaks where the network begins to interpolate, p = n",
        line["width_per_dim"].values[peak] / RATIO,
    )


RECIPES = (
    Recipe(
        "double-descent",
        "Double descent of random-features regression",
        "(a) test and (b) training error against p/n for three ridges, with baselines.",
        double_descent,
        _draw,
        _checks,
        notes=("The ridge of the paper is ours divided by n/d = 3.",),
        remark="The ridge of the paper is lambda/3: 1e-4, 1e-2, 1e-1.",
        seconds=10,
    ),
)
