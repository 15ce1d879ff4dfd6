"""Figures of our own: the network after steps on finite batches, for every activation,
for classes, one or several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep import FewSteps, MaximalStep, OneStep, Vocabulary, optimize
from giantstep.core.result.verdicts import chance_line
from giantstep.papers.cui2024asymptotics import (
    DIM,
    NETWORKS,
    TITLES,
    batch_studies,
    draw_batches,
    rejected,
)
from giantstep.papers.giantstep2026design import path
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    engines,
    experiment_points,
    key,
    letters,
    limit_line,
)
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DASHED,
    GREY,
    MARKERS,
    PALETTE,
    VERMILION,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# -- every activation ------------------------------------------------------------------

ONES = Vocabulary([1])
"""The second layer at the start: all its values are equal."""
SHAPE = {
    "width_per_dim": 1.3,
    "samples_per_dim": 1.5,
    "ridge": 0.05,
    "noise": 0.05,
    "second_layer": ONES,
}
NEW_NETWORKS = {
    "elu-tanh": OneStep(
        activation="elu",
        target="tanh(2*z)",
        step=MaximalStep(1.5, batch_per_dim=2.0),
        **SHAPE,
    ),
    "selu-tanh": OneStep(
        activation="selu",
        target="tanh(z)",
        step=MaximalStep(2.0, batch_per_dim=2.0),
        **SHAPE,
    ),
}
"""Neither odd nor linear + even: their bulk needs finite_batch_general."""
SHOWN = {**NEW_NETWORKS, **{name: NETWORKS[name] for name in ("relu-tanh", "tanh-sin")}}
SHOWN_TITLES = {
    "elu-tanh": r"ELU network, $g = \tanh 2z$, $\eta = 1.5$",
    "selu-tanh": r"SELU network, $g = {\rm tanh}$, $\eta = 2$",
    **{name: TITLES[name] for name in ("relu-tanh", "tanh-sin")},
}


def every_activation(size: Size) -> Studies:
    """Return four networks against the size of the batch; on a GPU their experiment is
    made again.
    """
    return {
        key: study
        for name, base in SHOWN.items()
        for key, study in batch_studies(name, base, size).items()
    }


def _rejected_networks(results: Results) -> Studies:
    return {f"{name}-rejected": rejected(results, name) for name in NEW_NETWORKS}


def _draw_every_activation(results: Results) -> Figure:
    return draw_batches(results, SHOWN_TITLES)


def _activation_checks(results: Results) -> Iterator[Check]:
    for name in NEW_NETWORKS:
        exact = np.abs(results[name]["test_error_z"].values)
        other = np.abs(results[f"{name}-rejected"]["test_error_z"].values)
        yield Check(
            f"largest |z| of the exact theory, {name}", f"over {len(exact)} batch sizes", np.max(exact),
            line=round(chance_line(len(exact)), 2),
        )  # fmt: skip
        yield Check(
            f"largest |z| of the isotropic map, {name}", "the network rules it out", np.max(other),
            line=round(chance_line(len(other)), 2), above=True,
        )  # fmt: skip


# -- classes ---------------------------------------------------------------------------

CLASS_BATCHES = np.array([0.5, 1.0, 2.0, 5.0, 15.0, 50.0])
CLASSIFIERS = {
    "shifted-tanh": OneStep(
        activation="tanh(1.5*z + 1)", target="sign(z)", loss="logistic", width_per_dim=1.2, samples_per_dim=1.5,
        ridge=0.1, second_layer=ONES, step=MaximalStep(rate=2.0, batch_per_dim=2.0),
    ),
    "selu": OneStep(
        activation="selu", target="sign(z)", loss="logistic", width_per_dim=1.2, samples_per_dim=1.5,
        ridge=0.1, second_layer=ONES, step=MaximalStep(rate=1.5, batch_per_dim=2.0),
    ),
}  # fmt: skip
CLASS_TITLES = (r"$\tanh(1.5z + 1)$ network, $\eta = 2$", r"SELU network, $\eta = 1.5$")


def logistic_batch(size: Size) -> Studies:
    """Return two classifiers against the size of the batch."""
    studies = {}
    fine = {"step.batch_per_dim": np.geomspace(0.4, 60.0, size(25, 41))}
    dim = size(200, 600)
    for position, (name, base) in enumerate(CLASSIFIERS.items()):
        studies[name] = comparison(
            base, {"step.batch_per_dim": CLASS_BATCHES[:: size(2, 1)]}, judged=("test_error", "norm"),
            meaning=f"{name}: misclassified fraction of the logistic fit against the size of the batch",
            dim=dim, trials=size(24, 60), seed=1707 + position,
        )  # fmt: skip
        studies[f"{name}-exact"] = limit(base, fine, dim=dim)
        studies[f"{name}-isotropic"] = limit(base, fine, theory="isotropic", dim=dim)
    return studies


def _draw_logistic_batch(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, name in zip(axes, CLASSIFIERS):
        for side, colour, label, style in (
            ("exact", BLUE, "exact theory", {}),
            ("isotropic", VERMILION, "isotropic map", {"linestyle": DASHED}),
        ):
            line = results[f"{name}-{side}"]
            limit_line(
                panel,
                line["step.batch_per_dim"],
                line["test_error"],
                colour,
                label,
                **style,
            )
        points = results[name]["step.batch_per_dim"]
        text = rf"network, $d = {results.dim(name)}$, $\pm$ 1 s.e."
        experiment_points(panel, points, results[name], "test_error", BLACK, "o", text)
        panel.set(
            xscale="log",
            xlabel=r"samples of the first batch per dimension,  $\alpha_0 = n_0/d$",
        )
        panel.set_xticks(
            [0.5, 1, 2, 5, 10, 20, 50],
            labels=["0.5", "1", "2", "5", "10", "20", "50"],
            minor=False,
        )
        panel.minorticks_off()
    axes[0].set_ylabel("misclassified fraction")
    axes[0].legend(loc="upper right")
    letters(axes, *CLASS_TITLES)
    return figure


# -- split the batch -------------------------------------------------------------------

SPLIT = {
    "tanh": FewSteps(
        activation="tanh", target="tanh(2*z)", rate=1.5, batch_per_dim=2.0, **SHAPE
    ),
    "relu": FewSteps(
        activation="relu", target="relu(z)", rate=1.5, batch_per_dim=2.0, **SHAPE
    ),
}
"""Two networks of finite_batches_several_steps section 10."""
SPLIT_TITLES = (r"tanh network, $g = \tanh 2z$", r"ReLU network, $g = {\rm ReLU}$")
PARTS = {1: "one step", 2: "two steps", 4: "four steps"}
"""Into how many steps the samples are split, and what they are called."""
DOUBLINGS = 3
"""The samples of all steps go from one per dimension to eight."""
RATES = (0.2, 15.0)
"""Where the best rate of one step is looked for: it is 0.8 at one sample per dimension
and 6 at eight.
"""


def split_the_batch(size: Size) -> Studies:
    """Return two steps of a fixed rate against their batches; the figure needs the best
    rate of one step.
    """
    batches = {"batch_per_dim": np.geomspace(0.5, 4.0, 7)}
    return {
        f"{name}-fixed": limit(base.replace(steps=2), batches)
        for name, base in SPLIT.items()
    }


def _points_per_doubling(size: Size) -> int:
    return int(size(2, 4))


def _at_best_rates(results: Results) -> Studies:
    """Return the networks with their samples in 1, 2, 4 equal steps, whose rates sum to
    the best rate of one step.
    """
    size = results.size
    studies = {}
    totals = np.geomspace(
        1.0, 2.0**DOUBLINGS, DOUBLINGS * _points_per_doubling(size) + 1
    )
    shown = slice(None, None, len(totals) // 2)
    for place, (name, base) in enumerate(SPLIT.items()):
        best = optimize(
            base.replace(steps=1),
            over={"rate": RATES},
            batch_per_dim=totals,
            minimise="test_error[time=1]",
            starts=4,
        )["rate"].values
        for number, steps in enumerate(PARTS):
            scenario = base.replace(steps=steps)
            studies[f"{name}-{steps}"] = limit(
                scenario, path(batch_per_dim=totals / steps, rate=best / steps)
            )
            studies[f"{name}-{steps}-networks"] = comparison(
                scenario, path(batch_per_dim=totals[shown] / steps, rate=best[shown] / steps), judged=("test_error",),
                meaning=f"{name}, {PARTS[steps]}: test error against the samples of all steps",
                dim=size(100, 400), trials=size(32, 60), seed=3500 + 10 * place + number,
            )  # fmt: skip
    return studies


def _draw_split(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, name in zip(axes, SPLIT):
        untrained = float(results[f"{name}-fixed"]["test_error"].isel(time=0)[0])
        panel.axhline(untrained, color=GREY, linestyle=DASHED, linewidth=0.9)
        for number, steps in enumerate(PARTS):
            line, dots = (
                results[f"{name}-{steps}{side}"].isel(time=-1)
                for side in ("", "-networks")
            )
            limit_line(
                panel,
                steps * line["batch_per_dim"],
                line["test_error"],
                PALETTE[number],
            )
            where = steps * dots["batch_per_dim"]
            experiment_points(
                panel, where, dots, "test_error", PALETTE[number], MARKERS[number]
            )
        panel.set(xscale="log", xlabel=r"samples of all steps per dimension,  $A$")
        plain_log_ticks(panel.xaxis)
    axes[0].set_ylabel("test error")
    parts = [
        key(PALETTE[n], MARKERS[n], words) for n, words in enumerate(PARTS.values())
    ]
    axes[0].legend(handles=parts, loc="lower left")
    at_dim = rf"network, $d = {results.dim('tanh-1-networks')}$, $\pm$ 1 s.e."
    others = engines(axes[1], at_dim, line=r"limit, $d \to \infty$")
    axes[1].legend(
        handles=[*others, key(GREY, "", "no step", DASHED)], loc="lower left"
    )
    letters(axes, *SPLIT_TITLES)
    return figure


def _split_checks(results: Results) -> Iterator[Check]:
    doubled = _points_per_doubling(results.size)
    for name in SPLIT:
        one, two, four = (
            results[f"{name}-{steps}"]["test_error"].isel(time=-1).values
            for steps in PARTS
        )
        yield Check(
            f"two steps over one, {name}",
            "splitting helps at every size",
            (two / one).max(),
            line=1.0,
        )
        yield Check(
            f"four steps over two, {name}", "and again", (four / two).max(), line=1.0
        )
        yield Check(
            f"two steps over one, twice the samples, {name}", "a second batch of the same size buys at least 14%",
            (two[doubled:] / one[:-doubled]).max(), line=0.86,
        )  # fmt: skip


RECIPES = (
    Recipe(
        "finite-batch-activations",
        "A step on a finite batch: every activation",
        "Test error against n0/d for ELU and SELU beside ReLU and tanh: the exact limit, the isotropic map, the limit "
        f"of a large batch, and the real network at d = {DIM} (stored, made on an H200; rerun with --device cuda); "
        "below, the difference to the exact limit in percent.",
        every_activation,
        _draw_every_activation,
        _activation_checks,
        then=_rejected_networks,
        seconds=8,
    ),
    Recipe(
        "finite-batch-logistic",
        "A step on a finite batch, then a logistic fit",
        "Misclassified fraction against n0/d for (a) a shifted tanh and (b) SELU: the exact limit, the isotropic map, "
        "and networks.",
        logistic_batch,
        _draw_logistic_batch,
        seconds=60,
    ),
    Recipe(
        "split-the-batch",
        "Several smaller steps beat one on the same samples",
        "Test error against the samples of all steps, split into one, two and four equal steps whose rates sum to the "
        "best rate of one step: (a) tanh, (b) ReLU; networks at three sizes.",
        split_the_batch,
        _draw_split,
        _split_checks,
        then=_at_best_rates,
        remark="d = 400: networks of one core, without a GPU.",
        seconds=70,
    ),
)
