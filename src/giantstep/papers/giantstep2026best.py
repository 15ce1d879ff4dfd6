"""The best possible error, and what fast algorithms reach: figures of the page bayes_multi_index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep import BayesLimit
from giantstep.figures.panels import engines, experiment_points, key, letters, limit_line, vertical
from giantstep.figures.style import DASHED, GREY, MARKERS, PALETTE, new_figure
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 2027
SAMPLES = "samples per dimension,  $n/d$"

# -- phase retrieval with and without noise --------------------------------------------------------------------

RETRIEVAL = BayesLimit(target="abs(z)", samples_per_dim=1.0)
NOISES = (0.0, 0.1)


def phase_retrieval(size: Size) -> Studies:
    """Return the overlap of message passing and the best possible against the samples, with GAMP beside them."""
    few = {0.0: [1.7, 2.2], 0.1: [1.5, 2.0, 2.5]}
    networks = {
        f"gamp-{noise:g}": comparison(
            RETRIEVAL.replace(noise=noise), {"samples_per_dim": few[noise]}, judged=("q", "mse"),
            meaning=f"overlap of GAMP on |z|, noise {noise:g}", dim=size(400, 3000),
            trials=size(8, 30), seed=SEED, start="spectral",
        )
        for noise in NOISES
    }  # fmt: skip
    lines = {
        f"limit-{noise:g}": limit(
            RETRIEVAL.replace(noise=noise), {"samples_per_dim": np.linspace(0.3, 3, size(55, 109))}
        )
        for noise in NOISES
    }
    return {**networks, **lines, "thresholds": limit(RETRIEVAL, what="thresholds")}


def _draw_retrieval(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, name, label in zip(axes, ("q", "mse"), ("squared cosine $q$", "square error")):
        for number, noise in enumerate(NOISES):
            line = results[f"limit-{noise:g}"]
            best, amp = (line[name].sel(branch=branch) for branch in ("bayes", "uninformed"))
            limit_line(panel, line["samples_per_dim"], amp, PALETTE[number])
            limit_line(panel, line["samples_per_dim"], best, PALETTE[number], linestyle=DASHED)
            dots = results[f"gamp-{noise:g}"].sel(branch="uninformed")
            experiment_points(panel, dots["samples_per_dim"], dots, name, PALETTE[number], MARKERS[number])
        for threshold in ("alpha_weak", "alpha_it", "alpha_amp"):
            vertical(panel, float(results["thresholds"][threshold]))
        panel.set(xlabel=SAMPLES, ylabel=label, xlim=(0.3, 3))
    handles = [key(PALETTE[i], MARKERS[i], f"noise {noise:g}") for i, noise in enumerate(NOISES)]
    at_dim = rf"GAMP, $d = {results.dim('gamp-0')}$, $\pm$ 1 s.e."
    best = key(GREY, "", "best possible", DASHED)
    axes[0].legend(handles=[*handles, *engines(axes[0], at_dim, line="message passing"), best], loc="lower right")
    letters(axes, "overlap with the target's direction", "error on fresh samples")
    return figure


def _retrieval_checks(results: Results) -> Iterator[Check]:
    found = results["thresholds"]
    yield Check(
        "alpha_amp of |z| without noise, distance from 1.128",
        "the published algorithmic threshold of phase retrieval",
        abs(float(found["alpha_amp"]) - 1.128), line=5e-4,
    )  # fmt: skip


RECIPES = (
    Recipe(
        "phase-retrieval",
        "Phase retrieval: the best possible and what message passing reaches",
        "(a) overlap and (b) error against n/d for |z| with and without noise, GAMP as dots; dashed: best possible.",
        phase_retrieval,
        _draw_retrieval,
        _retrieval_checks,
        seconds=(8, None),
    ),
)
