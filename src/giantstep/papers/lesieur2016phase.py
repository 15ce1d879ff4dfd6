"""Lesieur et al. 2016: hard phases of many clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep.papers.pesce2022subspace import RATIO, scenario
from giantstep.papers.recipe import Recipe, Results, Size, Studies, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import key, letters, limit_line, vertical
from giantstep.tools.figures.style import (
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    PURPLE,
    VERMILION,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHAS = {0.25: BLUE, 1.0: VERMILION, 4.0: GREEN}
CLUSTERS = {2: BLUE, 3: VERMILION, 4: GREEN, 5: PURPLE}
DOTS = {"marker": "o", "markersize": 3}
"""Where the thresholds were computed: numbers of clusters are whole, the lines between
them guide the eye.
"""


def many_clusters(size: Size) -> Studies:
    """Return the thresholds of dense means with many clusters, and where the
    first-order line ends.
    """
    clusters = np.unique(np.concatenate([np.arange(2, 13), [14, 16, 20, 25, 30, 40]]))[
        :: size(2, 1)
    ]
    alphas = np.geomspace(0.1, 10.0, size(5, 13))
    studies = {
        f"gap-{alpha:g}": limit(
            scenario(sparsity=1.0).replace(samples_per_dim=alpha),
            {"clusters": clusters},
            "thresholds",
        )
        for alpha in ALPHAS
    }
    for k in CLUSTERS:
        own = alphas[k < 4 + 2 * np.sqrt(alphas) - 1e-6]
        studies[f"ends-{k}"] = limit(
            scenario(clusters=k), {"samples_per_dim": own}, "critical"
        )
    return studies


def _draw(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for alpha, colour in ALPHAS.items():
        lines = results[f"gap-{alpha:g}"]
        limit_line(
            axes[0],
            lines["clusters"],
            lines["ratio_it"],
            colour,
            rf"$\alpha = {alpha:g}$",
            **DOTS,
        )
        limit_line(
            axes[0], lines["clusters"], lines["ratio_dyn"], colour, linestyle=DASHED
        )
        vertical(axes[0], 4 + 2 * np.sqrt(alpha), colour)
    axes[0].set(xlabel="clusters,  $k$", ylabel=RATIO)
    handles, _ = axes[0].get_legend_handles_labels()
    marks = [
        key(GREY, "", r"$\lambda_{\rm IT}$: possible"),
        key(GREY, "", r"$\lambda_{\rm dyn}$", linestyle=DASHED),
    ]
    marks.append(key(GREY, "", r"$k = 4 + 2\sqrt{\alpha}$", linestyle=DOTTED))
    axes[0].legend(handles=[*handles, *marks], loc="upper right")
    for k, colour in CLUSTERS.items():
        ends = results[f"ends-{k}"]
        limit_line(
            axes[1],
            ends["samples_per_dim"],
            ends["sparsity_c"],
            colour,
            f"$k = {k}$",
            **DOTS,
        )
    axes[1].set(xscale="log", ylim=(0.0, 0.45))
    axes[1].set(
        xlabel=r"samples per dimension,  $\alpha$",
        ylabel=r"end of the first-order line,  $\rho_c$",
    )
    axes[1].legend(loc="lower right", ncols=2)
    letters(axes, r"all features active, $\rho = 1$", "a hard phase below the line")
    return figure


def _checks(results: Results) -> Iterator[Check]:
    for alpha in ALPHAS:
        lines = results[f"gap-{alpha:g}"]
        first = lines["transition"].values == "first-order"
        wrong = int(
            np.sum(first != (lines["clusters"].values > 4 + 2 * np.sqrt(alpha) + 1e-9))
        )
        name = f"numbers of clusters on the wrong side of 4 + 2 sqrt(alpha), alpha = {alpha:g}"
        yield Check(name, "", wrong, line=0.5)


RECIPES = (
    Recipe(
        "subspace-many-clusters",
        "Hard phases of many clusters",
        "(a) thresholds of dense means against k, (b) the end of the first-order line against alpha.",
        many_clusters,
        _draw,
        _checks,
        seconds=20,
    ),
)
