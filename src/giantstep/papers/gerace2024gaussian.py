"""Gerace et al. 2024: random labels, and when clusters look like one Gaussian."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep import Blocks, MixtureGLM
from giantstep.papers.pesce2023gaussian import (
    ALPHA,
    SEED,
    draw_beside_one_gaussian,
    measured,
)
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import engines, key, letters
from giantstep.tools.figures.style import (
    BLUE,
    DASHED,
    GREY,
    MARKERS,
    VERMILION,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THIRDS = Blocks([1 / 3, 1 / 3, 1 / 3], [[0.01, 0.98, 0.01], [0.495, 0.01, 0.495]])
CASES = (
    ("square", 0.1, BLUE, MARKERS[0], r"$\lambda = 0.1$"),
    ("square", 1e-4, VERMILION, MARKERS[1], r"$\lambda = 10^{-4}$"),
    ("hinge", 0.1, BLUE, MARKERS[0], r"$\lambda = 0.1$"),
    ("hinge", 0.02, VERMILION, MARKERS[1], r"$\lambda = 0.02$"),
)


def random_labels(size: Size) -> Studies:
    """Return the training loss of random labels where two clusters live in different
    blocks of coordinates.
    """
    studies = {}
    points = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    fine = {"samples_per_dim": np.union1d(np.linspace(0.1, 4.0, size(40, 60)), [1.0])}
    for loss, ridge, *_ in CASES:
        scenario = MixtureGLM(
            weights=[0.5, 0.5],
            covariances=THIRDS,
            labels="random",
            loss=loss,
            ridge=ridge,
            samples_per_dim=2.0,
        )
        name = f"{loss}-{ridge:g}"
        studies[name] = comparison(
            scenario, {"samples_per_dim": points}, meaning=f"random labels, {loss}, lambda = {ridge:g}",
            judged=("train_loss",) if ridge > 1e-3 else (), dim=size(150, 600), trials=size(12, 20), seed=SEED + 4,
        )  # fmt: skip
        studies[f"{name}-line"] = limit(scenario, fine)
        studies[f"{name}-gaps"] = limit(scenario, fine, "universality")
    return studies


def _draw(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    panels = dict(zip(("square", "hinge"), axes))
    for loss, ridge, colour, marker, text in CASES:
        name = f"{loss}-{ridge:g}"
        look = (colour, marker)
        draw_beside_one_gaussian(
            panels[loss], results, name, "samples_per_dim", "train_loss", look, text
        )
    for loss, panel in panels.items():
        handles, _ = panel.get_legend_handles_labels()
        sides = engines(panel, measured(results.dim("square-0.1")))
        gaussian = key(GREY, "", "limit of one Gaussian", DASHED)
        panel.legend(handles=[*handles, *sides, gaussian], loc="upper left")
        panel.set(xlabel=ALPHA, ylabel=f"training loss ({loss})", xlim=(0.0, 4.1))
    letters(
        axes,
        "random labels, clusters in different blocks: square loss",
        "hinge loss: one Gaussian is not enough",
    )
    return figure


def _checks(results: Results) -> Iterator[Check]:
    line, gaps = (results[f"square-0.0001-{part}"] for part in ("line", "gaps"))
    relative = np.abs(gaps["train_loss"].values / line["train_loss"].values[:, None])
    yield Check(
        "relative gap to one Gaussian, square loss, small ridge, alpha > 1.2",
        "it vanishes with the ridge: strong universality",
        relative[line["samples_per_dim"].values > 1.2].max(), line=0.02,
    )  # fmt: skip


RECIPES = (
    Recipe(
        "random-label-blocks",
        "Random labels where clusters live in different coordinates",
        "Training loss of (a) the square and (b) the hinge loss; dashed: one Gaussian.",
        random_labels,
        _draw,
        _checks,
        remark="Three blocks, sigma_1 = (.01, .98, .01), sigma_2 = (.495, .01, .495).",
        seconds=25,
    ),
)
