"""Beyond the mean error of a read-out after giant steps: figures of a theory that no
paper has (beyond_the_error).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep import Logistic, MaximalStep, Network, Ridge, Shift, Vocabulary, inf
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.beyond import average_keys, part_keys, stack_parts
from giantstep.tools.figures.panels import (
    engines,
    experiment_points,
    key,
    letters,
    limit_line,
)
from giantstep.tools.figures.style import (
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

SEED = 2037
AVERAGED = (2.0, inf)
"""Networks whose averages are drawn."""
STEPS = ("random features", "1 step", "2 steps")

# -- where the variance comes from -----------------------------------------------------

NEXT = Network(
    target="z1 + z1*z2", activation="relu", noise=0.1, second_layer=Vocabulary([1, -1]), steps=[MaximalStep(2.0)] * 2,
    width_per_dim=1.5, samples_per_dim=2.0, readout=Ridge(0.01),
)  # fmt: skip
"""Setting T2 of beyond_the_error section 8, with less ridge: its error peaks at
n = p.
"""


def variance_parts(size: Size) -> Studies:
    """Return the parts of the error against the samples after 0, 1 and 2 steps, with
    networks beside their sum.
    """
    return {
        "networks": comparison(
            NEXT, {"samples_per_dim": [0.75, 1.5, 3.0]}, "variance", judged=("test_error", "bias"),
            meaning="test error and bias after 0 to 2 steps against the samples of the fit",
            dim=size(100, 400), trials=size(6, 80), seed=SEED, members=[1.0, 2.0, inf],
        ),
        "limit": limit(
            NEXT, {"samples_per_dim": np.geomspace(0.4, 6, size(25, 61))}, "variance", members=[1.0, 2.0, inf]
        ),
    }  # fmt: skip


def _draw_parts(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=12.6, height=3.9)
    line = results["limit"]
    networks = results["networks"]
    samples = line["samples_per_dim"]
    for time, panel in enumerate(axes):
        at = line.isel(time=time)
        stack_parts(panel, samples, at, AVERAGED)
        experiment_points(
            panel,
            networks["samples_per_dim"],
            networks.isel(time=time),
            "test_error",
            "black",
            MARKERS[0],
        )
        top = float(at["test_error"].max())
        panel.set(
            xscale="log", xlabel="samples per dimension,  $n/d$", ylim=(0, 1.5 * top)
        )
        plain_log_ticks(panel.xaxis)
    axes[0].set_ylabel("test error and its parts")
    at_dim = rf"network, $d = {results.dim('networks')}$, $\pm$ 1 s.e."
    axes[0].legend(handles=part_keys(), loc="upper right", fontsize=7, ncol=2)
    axes[1].legend(
        handles=[*engines(axes[1], at_dim), *average_keys(AVERAGED)],
        loc="upper right",
        fontsize=7,
    )
    letters(axes, *STEPS)
    return figure


def _part_checks(results: Results) -> Iterator[Check]:
    at = results["limit"].isel(time=2)
    peak = at.sel(samples_per_dim=1.5, method="nearest")
    share = (peak["from_layer_samples"] + peak["from_layer_noise"]) / peak["test_error"]
    yield Check(
        "share of the test error at n = p that is no interaction of the layer",
        "the peak is the interaction of layer, samples and noise", 1 - float(share), line=0.5,
    )  # fmt: skip
    left = (
        peak["ensemble_error"].sel(shared="samples", members=inf) / peak["test_error"]
    )
    yield Check(
        "what an average on the same samples leaves of it",
        "an ensemble removes it",
        float(left),
        line=0.5,
    )


# -- calibration -----------------------------------------------------------------------

SURE = Network(
    target="sign(z1)", activation="relu", flip=0.1, second_layer=Vocabulary([1, -1]), width_per_dim=1.0,
    samples_per_dim=2.0, readout=Logistic(0.1),
)  # fmt: skip


def calibration_temperature(size: Size) -> Studies:
    """Return losses and the best temperature of a logistic fit against its ridge, and
    two reliability curves.
    """
    return {
        "networks": comparison(
            SURE, {"readout.ridge": [0.1, 1.0]}, "calibration", judged=("log_loss", "log_loss_recalibrated"),
            meaning="log loss of a logistic fit, as it is and at the best temperature", dim=size(80, 300),
            trials=size(5, 30), seed=SEED + 1, test_samples=size(4000, 20000),
        ),
        "limit": limit(
            SURE, {"readout.ridge": np.geomspace(0.03, 3, size(9, 25))}, "calibration",
            logit=(np.arange(-24, 25) / 4).tolist(),
        ),
    }  # fmt: skip


def _draw_calibration(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    line = results["limit"].isel(time=0)
    networks = results["networks"].isel(time=0)
    ridges = line["readout.ridge"]
    for number, (name, words) in enumerate(
        (
            ("log_loss", "as it is"),
            ("log_loss_recalibrated", "best temperature"),
            ("log_loss_floor", "any function"),
        )
    ):
        limit_line(
            axes[0],
            ridges,
            line[name],
            PALETTE[number],
            words,
            linestyle="-" if number < 2 else DASHED,
        )
        if number < 2:
            experiment_points(
                axes[0],
                networks["readout.ridge"],
                networks,
                name,
                PALETTE[number],
                MARKERS[number],
            )
    at_dim = rf"network, $d = {results.dim('networks')}$, $\pm$ 1 s.e."
    names = [
        key(PALETTE[i], "", words)
        for i, words in enumerate(
            ("as it is", "best temperature", "any function of it")
        )
    ]
    axes[0].set(xscale="log", xlabel=r"ridge $\lambda$", ylabel="log loss")
    axes[0].legend(handles=[*names, *engines(axes[0], at_dim)])
    logits = line["logit"]
    for number, at in enumerate((0, -1)):
        one = line.isel({"readout.ridge": at})
        said = rf"$\lambda = {float(one['readout.ridge']):.2g}$, $T = {float(one['temperature']):.2f}$"
        limit_line(axes[1], logits, one["reliability"], (BLUE, VERMILION)[number], said)
    axes[1].plot(
        logits,
        1 / (1 + np.exp(-logits)),
        color=GREY,
        linestyle=DASHED,
        label="what the logit says",
    )
    axes[1].set(xlabel="logit,  $f(x)$", ylabel="share of the label 1")
    axes[1].legend()
    letters(axes, "log loss against the ridge", "reliability")
    return figure


def _calibration_checks(results: Results) -> Iterator[Check]:
    line = results["limit"].isel(time=0)
    yield Check(
        "1/T of the smallest ridge",
        "a weak ridge makes the fit too sure",
        1 / float(line["temperature"][0]),
        line=0.7,
    )


# -- shift -----------------------------------------------------------------------------

SHIFTED = NEXT.replace(readout=Ridge(0.1), shift=Shift(scale=1.4))


def shift_line(size: Size) -> Studies:
    """Return disagreements and errors at inputs of another scale, for networks of many
    sizes.
    """
    return {
        "networks": comparison(
            SHIFTED.replace(steps=[MaximalStep(2.0)]), {"samples_per_dim": [0.75, 3.0]}, "shift",
            judged=("disagreement",), meaning="disagreement at inputs 1.4 times as long", dim=size(100, 400),
            trials=size(8, 64), seed=SEED + 2,
        ),
        "limit": limit(
            SHIFTED, {"samples_per_dim": np.geomspace(0.4, 8, size(13, 31)), "shift.scale": [1.0, 1.2, 1.4]}, "shift"
        ),
    }  # fmt: skip


def _draw_line(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    line = results["limit"]
    plain = line.sel({"shift.scale": 1.0})
    for number, scale in enumerate((1.2, 1.4)):
        moved = line.sel({"shift.scale": scale})
        for time in range(3):
            for panel, name in zip(axes, ("disagreement", "test_error")):
                first, second = (side[name].isel(time=time) for side in (plain, moved))
                if name == "disagreement":
                    first = first.sel(shared="samples")
                    second = second.sel(shared="samples")
                limit_line(
                    panel, first, second, PALETTE[time], linestyle=("-", DASHED)[number]
                )
    for panel, name in zip(axes, ("disagreement of two networks", "test error")):
        low, high = panel.get_xlim()
        panel.plot([low, high], [low, high], color=GREY, linewidth=0.8, linestyle=":")
        panel.set(xlabel=f"{name}, inputs of the fit", ylabel=f"{name}, longer inputs")
    steps = [key(PALETTE[t], "", name) for t, name in enumerate(STEPS)]
    scales = [
        key(GREY, "", "1.2 times as long"),
        key(GREY, "", "1.4 times as long", DASHED),
    ]
    axes[0].legend(handles=[*steps, *scales])
    letters(axes, "disagreement, same samples", "error")
    return figure


def _line_checks(results: Results) -> Iterator[Check]:
    line = results["limit"].isel(time=0).sel(shared="samples")["disagreement"]
    first = line.sel({"shift.scale": 1.0}).values
    second = line.sel({"shift.scale": 1.4}).values
    off = second - np.polyval(np.polyfit(first, second, 1), first)
    yield Check(
        "distance of random features from a line, over its extent",
        "disagreement is on a line", float(np.abs(off).max() / np.ptp(second)), line=0.05,
    )  # fmt: skip


# -- sensitivity -----------------------------------------------------------------------


def features_sensitivity(size: Size) -> Studies:
    """Return the error against the length of a perturbation after 0, 1 and 2 steps, and
    the gradient's two parts.
    """
    base = NEXT.replace(readout=Ridge(0.1))
    lengths = np.linspace(0, 1, 11)
    return {
        "networks": comparison(
            base, {}, "sensitivity", judged=("gradient_norm2",), meaning="squared gradient after 0 to 2 steps",
            dim=size(120, 500), trials=size(10, 60), seed=SEED + 3, eps=lengths, test_samples=size(1000, 4000),
        )
    }  # fmt: skip


def _draw_sensitivity(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    both = results["networks"]
    line = both.sel(source="limit")
    for time, name in enumerate(STEPS):
        colour = PALETTE[time]
        limit_line(
            axes[0], both["eps"], line["attacked_error"].isel(time=time), colour, name
        )
        experiment_points(
            axes[0],
            both["eps"],
            both.isel(time=time),
            "attacked_error",
            colour,
            MARKERS[time],
        )
    axes[0].set(
        xlabel=r"length of the perturbation,  $\epsilon$",
        ylabel="error, to first order",
        ylim=(0, None),
    )
    learnt, rest = (line[name].values for name in ("gradient_learnt", "gradient_rest"))
    axes[1].bar(range(3), learnt, color=BLUE, alpha=0.6, label="along the target")
    axes[1].bar(
        range(3), rest, bottom=learnt, color=VERMILION, alpha=0.6, label="across it"
    )
    axes[1].set(ylabel=r"$E|\nabla f|^2$", xticks=range(3), xticklabels=STEPS)
    at_dim = rf"network, $d = {results.dim('networks')}$, $\pm$ 1 s.e."
    steps = [key(PALETTE[t], MARKERS[t], name) for t, name in enumerate(STEPS)]
    axes[0].legend(handles=[*steps, *engines(axes[0], at_dim)])
    axes[1].legend()
    letters(axes, "perturbed inputs", "the gradient")
    return figure


def _sensitivity_checks(results: Results) -> Iterator[Check]:
    line = results["networks"].sel(source="limit")
    error = line["attacked_error"].isel(eps=0).values
    learnt = line["gradient_learnt"].values
    yield Check(
        "test error of two steps over one",
        "learnt features are more accurate",
        error[2] / error[1],
        line=1.0,
    )
    yield Check(
        "gradient of one step over two",
        "and more sensitive",
        learnt[1] / learnt[2],
        line=1.0,
    )


RECIPES = (
    Recipe(
        "variance-parts",
        "Where the variance of a read-out comes from",
        "Stacked: label noise, bias and the parts of the variance against n/d; lines: the error, averages of networks.",
        variance_parts,
        _draw_parts,
        _part_checks,
        seconds=60,
    ),
    Recipe(
        "calibration-temperature",
        "A weak ridge makes a classifier too sure",
        "(a) log loss as it is, at the best temperature, and the floor, against the ridge; (b) two reliability curves.",
        calibration_temperature,
        _draw_calibration,
        _calibration_checks,
        seconds=40,
    ),
    Recipe(
        "shift-line",
        "Disagreement at longer inputs is on a line",
        "(a) disagreement of two networks and (b) the error at inputs of another scale against those of the fit.",
        shift_line,
        _draw_line,
        _line_checks,
        seconds=40,
    ),
    Recipe(
        "features-sensitivity",
        "Learnt features are more accurate and more sensitive",
        "(a) error against the length of a perturbation after every step; (b) gradient along and across the target.",
        features_sensitivity,
        _draw_sensitivity,
        _sensitivity_checks,
        seconds=30,
    ),
)
