"""Ba et al., NeurIPS 2022: one small step, what it does to the test error and to the
first layer itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import OneStep, SmallStep
from giantstep.papers.moniri2024theory import (
    AXIS_ZERO,
    CENTRED_RELU,
    INSIDE,
    TARGETS,
    growing,
    rate_axis,
    small,
)
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
from giantstep.tools.figures.style import BLUE, VERMILION, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = ((0, BLUE, "o"), (1, VERMILION, "s"))
"""initial_output (a constant, or the network's own), colour, marker."""

# -- test error after a small step -----------------------------------------------------

SMALL_RATES = [0.0, 0.5, 1.0, 2.0, 4.0, 8.0]


def small_step(size: Size) -> Studies:
    """Return the errors against a step of order one, with both starts."""
    studies = {"plateau": limit(growing("linear"), {"step.exponent": [INSIDE[0]]})}
    for initial, *_ in STARTS:
        base = small("linear", update="exact", initial_output=initial)
        studies[f"output{initial}-limit"] = limit(
            base, {"step.rate": np.geomspace(0.2, 20.0, 101)}
        )
        studies[f"output{initial}"] = comparison(
            base, {"step.rate": SMALL_RATES}, finite_size=False, judged=("test_error", "train_error"),
            meaning=f"errors after the whole gradient step, initial_output = {initial}",
            dim=size(150, 500), trials=size(16, 26), seed=2312,
        )  # fmt: skip
    return studies


def _draw_small_step(results: Results) -> Figure:
    """Draw the test error between random features and the best linear predictor."""
    figure, (axes,) = new_figure(1, 1, width=6.2, height=4.3)
    handles: list[Any] = []
    for initial, colour, marker in STARTS:
        line = results[f"output{initial}-limit"]
        limit_line(axes, line["step.rate"], line["test_error"], colour)
        rates = [AXIS_ZERO, *SMALL_RATES[1:]]
        experiment_points(
            axes, rates, results[f"output{initial}"], "test_error", colour, marker
        )
        if initial == 0:
            text = "starts at a constant"
        else:
            text = r"is $a\cdot\sigma(Wx)$ at the start"
        handles.append(key(colour, marker, f"output {text}"))
    untrained = float(results["output0"]["test_error"].sel(source="limit")[0])
    plateau = float(results["plateau"]["test_error"][0])
    level(axes, untrained, "random features", at=1.0)
    level(axes, float(line["affine_error"][0]), "best linear predictor", at=1.0)
    level(axes, plateau, r"constant output, $\eta \to \infty$", at=0.02, above=False)
    axes.set_ylim(0.95, 1.65)
    rate_axis(axes, [0.2, 0.5, 1, 2, 5, 10, 20])
    axes.set_ylabel("test error")
    text = rf"network, $d = {results.dim('output0')}$, mean $\pm$ 1 s.e."
    handles += engines(axes, text, line=r"closed form, $d \to \infty$")
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(0.0, 0.32))
    return figure


def _small_step_checks(results: Results) -> Iterator[Check]:
    plain, own = (
        results[f"output{initial}-limit"]["test_error"].values for initial in (0, 1)
    )
    yield Check(
        "lowest test error over that of the largest step, initial_output = 1",
        "with the output of the network in the residual the error is not monotone in the step",
        own.min() / own[-1], line=1.0,
    )  # fmt: skip
    floor = float(results["output1-limit"]["affine_error"][0])
    yield Check(
        "lowest test error over the best linear predictor",
        "a step of order one learns the linear part of the target only",
        min(own.min(), plain.min()) / floor, line=1.0, above=True,
    )  # fmt: skip


# -- the spike of the first layer ------------------------------------------------------

WEIGHT_RATES = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0]
WEIGHT_PANELS = {
    "top_singular_value": r"top singular value of $W_1$,  $s_1$",
    "left_alignment": r"left vector and second layer,  $(u\cdot a)^2/|a|^2$",
    "right_alignment": r"right vector and target,  $(v\cdot w_*)^2$",
}


def weights_scenario(initial_output: int) -> OneStep:
    """Return the network of step_size_regimes section 12: Gaussian rows, p/d = 1.5,
    n0/d = 2, the whole gradient.
    """
    return OneStep(
        activation=CENTRED_RELU, **TARGETS["linear"], width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1,
        second_layer="gaussian", rows="gaussian",
        step=SmallStep(1.0, batch_per_dim=2.0, update="exact", initial_output=initial_output),
    )  # fmt: skip


def weights_spike(size: Size) -> Studies:
    """Return the spike of the updated first layer against the step, with both
    starts.
    """
    studies = {}
    for initial, *_ in STARTS:
        base = weights_scenario(initial)
        studies[f"output{initial}-limit"] = limit(
            base, {"step.rate": np.linspace(0.0, 5.0, 401)}, "weights"
        )
        studies[f"output{initial}"] = comparison(
            base, {"step.rate": WEIGHT_RATES}, "weights", finite_size=False,
            dim=size(300, 1000), trials=size(16, 10), seed=2322,
        )  # fmt: skip
    return studies


def _draw_weights_spike(results: Results) -> Figure:
    """Draw the spike and where its vectors point."""
    figure, axes = new_figure(1, 3, width=11.4, height=3.8)
    handles = []
    for initial, colour, marker in STARTS:
        line = results[f"output{initial}-limit"]
        result = results[f"output{initial}"]
        rates = line["step.rate"].values
        onset = rates[
            np.argmax(line["spike_strength"].values > line["threshold"].values)
        ]
        for panel, variable in zip(axes, WEIGHT_PANELS):
            limit_line(panel, rates, np.nan_to_num(line[variable].values), colour)
            experiment_points(panel, WEIGHT_RATES, result, variable, colour, marker)
            panel.set(
                xlabel=r"size of the step,  $\eta = \eta_{\mathrm{raw}}/\sqrt{p}$",
                ylim=(-0.03, 1.0),
            )
            vertical(panel, onset, colour)
        if initial == 0:
            text = "constant output"
        else:
            text = r"output $a\cdot\sigma(Wx)$"
        handles.append(key(colour, marker, f"{text} at the start"))
    axes[0].autoscale(axis="y")
    level(
        axes[0],
        float(line["bulk_upper"][0]),
        r"edge of the bulk, $1 + \sqrt{p/d}$",
        at=1.0,
        above=False,
    )
    axes[0].set_ylim(1.95, None)
    axes[0].legend(handles=handles, loc="upper left")
    sides = engines(
        axes[1],
        rf"network, $d = {results.dim('output0')}$ (s.e.)",
        line=r"limit, $d \to \infty$",
    )
    axes[1].legend(handles=sides, loc="upper left")
    letters(axes, *WEIGHT_PANELS.values())
    return figure


def _weights_checks(results: Results) -> Iterator[Check]:
    dim = results.dim("output0")
    for initial, *_ in STARTS:
        result = results[f"output{initial}"]
        for variable in WEIGHT_PANELS:
            law, measured = (
                np.nan_to_num(result[variable].sel(source=side))
                for side in ("limit", "experiment")
            )
            value = variable == "top_singular_value"
            gaps = np.abs(measured - law) / (law if value else 1.0)
            worst = int(np.argmax(gaps))
            error = float(result[f"{variable}_stderr"].sel(source="experiment")[worst])
            yield Check(
                f"largest {'relative ' if value else ''}gap of {variable}, initial_output = {initial}",
                f"at eta = {WEIGHT_RATES[worst]:g}: limit {law[worst]:.4f}, network {measured[worst]:.4f} +- "
                f"{error:.2g}; the line grants the rounded transition d^(-1/3) at d = {dim}",
                gaps[worst], line=round((0.4 if value else 0.8) * dim ** (-1 / 3), 3),
            )  # fmt: skip


RECIPES = (
    Recipe(
        "small-step",
        "Test error after a step of order one: between random features and the best linear predictor",
        "Test error against eta after the whole gradient step, for a network that starts at a constant output and for "
        "one that starts at its own, where the error is not monotone.",
        small_step,
        _draw_small_step,
        _small_step_checks,
        notes=(
            "The closed form is that of d -> inf at a fixed step. A network of finite d lies above it where the step "
            "is no longer small beside sqrt(p): terms of order eta^2/p, from what the rank-one part of the gradient "
            "leaves out.",
        ),
        seconds=15,
    ),
    Recipe(
        "weights-spike",
        "The spike of the first layer after a small step",
        "Against the step: (a) top singular value of the first layer, (b) its left vector along the second layer, (c) "
        "its right vector along the target, with the transition; initial output constant, or of the network.",
        weights_spike,
        _draw_weights_spike,
        _weights_checks,
        notes=(
            "Whole gradient, Gaussian rows. Dotted verticals: the step from which the spike leaves the bulk (Baik, Ben "
            "Arous, Peche); before it the alignments are 0 in the limit, and of order 1/d in a network.",
        ),
        seconds=10,
    ),
)
