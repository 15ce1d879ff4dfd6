"""Loureiro et al., NeurIPS 2021: lasso and ridge on clusters with sparse means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep import Blocks, MixtureGLM
from giantstep.papers.pesce2023gaussian import ALPHA, SEED, measured
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    engines,
    experiment_points,
    key,
    letters,
    limit_line,
)
from giantstep.tools.figures.style import BLUE, GREEN, MARKERS, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HALVES = Blocks(
    [0.5, 0.5], [[0.1, 1.0], [0.1, 1.0]], means=[[[1, -1], [-1, 1]], [[0, 0], [0, 0]]]
)
PENALTIES = {
    "lasso": ({"l1": 0.1}, BLUE, MARKERS[0], r"lasso, $\lambda_1 = 0.1$"),
    "ridge": ({"ridge": 0.1}, VERMILION, MARKERS[1], r"ridge, $\lambda = 0.1$"),
    "elastic": (
        {"ridge": 0.1, "l1": 0.05},
        GREEN,
        MARKERS[2],
        r"both, $\lambda = 0.1$, $\lambda_1 = 0.05$",
    ),
}
LASSO = {"test_error": 0.0432273, "train_loss": 0.0469515}
"""The lasso at alpha = 1.96, mixture_glm section 10."""


def sparse_means(size: Size) -> Studies:
    """Return lasso and ridge where only half of the coordinates, the quiet ones, tell
    the clusters apart.
    """
    studies = {}
    points = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
    fine = np.linspace(0.12, 2.0, 60)
    for name, (fields, *_) in PENALTIES.items():
        scenario = MixtureGLM(
            weights=[0.5, 0.5], covariances=HALVES, labels="cluster", loss="square", intercept=True,
            samples_per_dim=1.0, **fields,
        )  # fmt: skip
        studies[name] = comparison(
            scenario, {"samples_per_dim": points}, meaning=f"sparse means, {name}",
            judged=("test_error", *(("nonzero",) if "l1" in fields else ())),
            dim=size(200, 800), trials=size(12, 64), seed=SEED + 5,
        )  # fmt: skip
        studies[f"{name}-line"] = limit(scenario, {"samples_per_dim": fine})
        if name == "lasso":
            studies["lasso-checked"] = limit(scenario, {"samples_per_dim": 1.96})
    return studies


def _draw(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    keys = []
    for name, (_, colour, marker, text) in PENALTIES.items():
        result = results[name]
        line = results[f"{name}-line"]
        for panel, variable in zip(axes, ("test_error", "nonzero")):
            experiment_points(
                panel, result["samples_per_dim"], result, variable, colour, marker
            )
            limit_line(panel, line["samples_per_dim"], line[variable], colour)
        keys.append(key(colour, marker, text))
    axes[0].legend(
        handles=[*keys, *engines(axes[0], measured(results.dim("lasso")))],
        loc="upper right",
    )
    for panel, label in zip(
        axes, ("misclassified fresh samples", "fraction of non-zero weights")
    ):
        panel.set(xlabel=ALPHA, ylabel=label, xlim=(0.0, 2.05))
    axes[0].set_yscale("log")
    letters(
        axes,
        "two clusters, means on half of the coordinates",
        "weights the penalty keeps",
    )
    return figure


def _checks(results: Results) -> Iterator[Check]:
    gap = max(
        abs(float(results["lasso-checked"][name]) - value)
        for name, value in LASSO.items()
    )
    yield Check(
        "distance of the lasso at alpha = 1.96 from mixture_glm section 10",
        "two values",
        gap,
        line=1e-6,
    )


RECIPES = (
    Recipe(
        "sparse-means",
        "Lasso and ridge on clusters with sparse means",
        "(a) test error, (b) fraction of non-zero weights.",
        sparse_means,
        _draw,
        _checks,
        remark="+-mu with N(0,1)/sqrt(d) entries on half of the coordinates, sigma = .1 there and 1 elsewhere.",
        seconds=15,
    ),
)
