"""Several giant steps, then a read-out: figures of a theory that no paper has
(few_steps_readout).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep import FewSteps, Vocabulary
from giantstep.core.result.layers import judged_side
from giantstep.papers.recipe import (
    Recipe,
    Results,
    Size,
    Studies,
    comparison,
    limit,
    theory_at,
)
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    bars,
    bars_key,
    engines,
    error_points,
    experiment_points,
    key,
    letters,
    limit_line,
    sides,
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
from giantstep.tools.figures.views import histogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 2026
STEPS = ("random features", "1 step", "2 steps", "3 steps")
SAMPLES = "samples per dimension,  $n/d$"

# -- the staircase in the error --------------------------------------------------------

STAIRS = FewSteps(
    target="z1 + z1*z2 + z2*z3", activation="relu", noise=0.1, second_layer=Vocabulary([1, -1, 0.4], [0.35, 0.35, 0.3]),
    rate=2.0, steps=3, width_per_dim=2.0, samples_per_dim=4.0, ridge=0.1,
)  # fmt: skip
"""Setting C of few_steps_readout section 14."""


def error_staircase(size: Size) -> Studies:
    """Return the test error against the samples after 0 to 3 steps, with networks
    beside it.
    """
    return {
        "networks": comparison(
            STAIRS, {"samples_per_dim": [0.5, 1.0, 2.0, 4.0, 8.0]}, judged=("test_error",),
            meaning="test error after 0 to 3 steps against the samples of the fit",
            dim=size(150, 800), trials=size(12, 40), seed=SEED,
        ),
        "limit": limit(STAIRS, {"samples_per_dim": np.geomspace(0.3, 16, size(25, 41))}),
    }  # fmt: skip


def _draw_staircase(results: Results) -> Figure:
    figure, (axes,) = new_figure(1, 1, width=6.4, height=4.2)
    line = results["limit"]
    networks = results["networks"]
    for time, name in enumerate(STEPS):
        colour = PALETTE[time]
        at = line.isel(time=time)
        limit_line(axes, line["samples_per_dim"], at["test_error"], colour, name)
        experiment_points(
            axes,
            networks["samples_per_dim"],
            networks.isel(time=time),
            "test_error",
            colour,
            MARKERS[time],
        )
        axes.axhline(
            float(at["all_data_error"][0]),
            color=colour,
            linestyle=DASHED,
            linewidth=0.9,
            zorder=1,
        )
    axes.set(xscale="log", xlabel=SAMPLES, ylabel="test error", ylim=(0.9, 4.6))
    plain_log_ticks(axes.xaxis)
    steps = [key(PALETTE[t], MARKERS[t], name) for t, name in enumerate(STEPS)]
    at_dim = rf"network, $d = {results.dim('networks')}$, $\pm$ 1 s.e."
    floor = key(GREY, "", "all data, same width", DASHED)
    axes.legend(
        handles=[*steps, *engines(axes, at_dim), floor], loc="upper right", ncol=2
    )
    return figure


def _staircase_checks(results: Results) -> Iterator[Check]:
    errors = (
        results["limit"]["test_error"].sel(samples_per_dim=4.0, method="nearest").values
    )
    for time in range(1, 4):
        yield Check(
            f"test error after step {time} over the one before",
            "every step finds one more direction and brings the error down",
            errors[time] / errors[time - 1], line=0.95,
        )  # fmt: skip


# -- what the next step buys -----------------------------------------------------------

NEXT = FewSteps(
    target="z1 + z1*z2", activation="relu", noise=0.1, second_layer=Vocabulary([1, -1]), rate=2.0, steps=3,
    width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1,
)  # fmt: skip
"""Setting A of few_steps_readout section 14."""


def next_step(size: Size) -> Studies:
    """Return the test error after every step, against the samples and against the
    width.
    """
    sizes = {"judged": ("test_error",), "dim": size(150, 800), "trials": size(16, 60)}
    return {
        "samples": comparison(
            NEXT,
            {"samples_per_dim": [0.5, 1.5, 5.0]},
            meaning="what a step buys against n/d",
            seed=SEED + 1,
            **sizes,
        ),
        "width": comparison(
            NEXT,
            {"width_per_dim": [0.5, 1.5, 4.0]},
            meaning="what a step buys against p/d",
            seed=SEED + 2,
            **sizes,
        ),
        "samples-limit": limit(
            NEXT, {"samples_per_dim": np.geomspace(0.3, 10, size(31, 81))}
        ),
        "width-limit": limit(
            NEXT, {"width_per_dim": np.geomspace(0.3, 8, size(31, 81))}
        ),
    }


def _draw_next_step(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, side, field, label in (
        (axes[0], "samples", "samples_per_dim", SAMPLES),
        (axes[1], "width", "width_per_dim", "neurons per dimension,  $p/d$"),
    ):
        line = results[f"{side}-limit"]
        networks = results[side]
        for time in range(1, 4):
            before = line["test_error"].isel(time=time - 1)
            after = line["test_error"].isel(time=time)
            limit_line(
                panel, line[field], 1 - after / before, PALETTE[time], f"step {time}"
            )
            measured = networks.sel(source="experiment")
            means = measured["test_error"]
            errors = measured["test_error_stderr"]
            ratio = means.isel(time=time) / means.isel(time=time - 1)
            spread = ratio * np.hypot(
                errors.isel(time=time) / means.isel(time=time),
                errors.isel(time=time - 1) / means.isel(time=time - 1),
            )
            error_points(
                panel, networks[field], 1 - ratio, spread, PALETTE[time], MARKERS[time]
            )
        panel.set(
            xscale="log",
            xlabel=label,
            ylabel="share of the test error that the step takes away",
            ylim=(-0.12, 0.98),
        )
        panel.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
        plain_log_ticks(panel.xaxis)
    handles = [key(PALETTE[t], MARKERS[t], f"step {t}") for t in range(1, 4)]
    at_dim = rf"network, $d = {results.dim('samples')}$, $\pm$ 1 s.e."
    axes[0].legend(handles=[*handles, *engines(axes[0], at_dim)], loc="upper right")
    letters(axes, "against the samples of the fit", "against the width")
    return figure


# -- vocabulary against steps ----------------------------------------------------------

LAWS = {k: Vocabulary(np.linspace(-1, 1, k).tolist()) for k in (2, 4, 6, 8)}
"""Values of the second layer, spread evenly over [-1, 1] (even numbers: no neuron
stands still).
"""


def vocabulary_or_steps(size: Size) -> Studies:
    """Return the error after up to three steps for second layers of more and more
    values.
    """
    base = NEXT.replace(samples_per_dim=6.0, width_per_dim=2.0)
    return {
        f"values-{k}": comparison(
            base.replace(second_layer=law), {}, judged=("test_error",), dim=size(150, 600), trials=size(16, 60),
            meaning=f"test error after 0 to 3 steps with a vocabulary of {k}", seed=SEED + 10 + k,
        )
        for k, law in LAWS.items()
    }  # fmt: skip


def _draw_vocabulary(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    compared = {k: results[f"values-{k}"] for k in LAWS}
    for time in range(1, 4):
        colour = PALETTE[time]
        marker = MARKERS[time]
        lines = {k: judged_side(side).isel(time=time) for k, side in compared.items()}
        dots = {
            k: side.sel(source="experiment").isel(time=time)
            for k, side in compared.items()
        }
        limit_line(
            axes[0],
            list(LAWS),
            [float(line["test_error"]) for line in lines.values()],
            colour,
            linewidth=1.0,
        )
        means, errors = (
            [float(dot[name]) for dot in dots.values()]
            for name in ("test_error", "test_error_stderr")
        )
        error_points(axes[0], list(LAWS), means, errors, colour, marker)
        limit_line(
            axes[1],
            list(LAWS),
            [float(line["floor"]) for line in lines.values()],
            colour,
            marker=marker,
        )
    axes[0].set(ylabel="test error")
    axes[1].set(ylabel="least error of the features at any width", ylim=(0, None))
    for panel in axes:
        panel.set(xlabel="values of the second layer,  $k$", xticks=list(LAWS))
    handles = [key(PALETTE[t], MARKERS[t], STEPS[t]) for t in range(1, 4)]
    at_dim = rf"network, $d = {results.dim('values-2')}$, $\pm$ 1 s.e."
    axes[0].legend(
        handles=[
            *handles,
            *engines(axes[0], at_dim, line=theory_at(results, "values-2")),
        ]
    )
    letters(axes, "$n/d = 6$, $p/d = 2$", "all data, all widths")
    return figure


# -- spectra after every step ----------------------------------------------------------


def step_spectra(size: Size) -> Studies:
    """Return the bulk and the spikes of the feature covariance after 0 to 2 steps."""
    return {
        "spectrum": comparison(
            NEXT.replace(steps=2), {}, "spectrum", judged=("cdf",), dim=size(200, 800), trials=size(6, 10),
            meaning="distribution of the eigenvalues of Phi^T Phi/p after every step, spikes left out", seed=SEED + 3,
            x=(np.arange(60) + 0.5) * 0.07,
        )
    }  # fmt: skip


def _draw_spectra(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=12.6, height=3.7)
    result = results["spectrum"]
    x = result["x"].values
    for time, panel in enumerate(axes):
        law, seen = (side.isel(time=time) for side in sides(result))
        edges, heights = histogram(x, seen["density"].values, 40)
        bars(panel, edges, heights)
        density = law["density"].values
        limit_line(panel, x[density > 0], density[density > 0], BLUE)
        spikes = [
            f"{z:.0f} ({m:.0f})"
            for z, m in zip(law["outliers"].values, seen["outliers"].values)
            if z == z
        ]
        if spikes:
            text = f"spikes (measured):\n{', '.join(spikes)}"
        else:
            text = "no spikes"
        panel.annotate(
            text,
            (0.97, 0.6),
            xycoords="axes fraction",
            ha="right",
            va="top",
            fontsize=8,
            color=VERMILION,
        )
        panel.set(
            xlabel=r"eigenvalue of $\Phi^\top\Phi/p$", yscale="log", ylim=(3e-3, 30)
        )
    axes[0].set_ylabel("density of the bulk")
    network = bars_key(rf"network, $d = {results.dim('spectrum')}$")
    axes[0].legend(handles=[key(BLUE, "", theory_at(results, "spectrum")), network])
    letters(axes, *STEPS[:3])
    return figure


# -- the loss of the steps -------------------------------------------------------------


def step_losses(size: Size) -> Studies:
    """Return the error after every step on the square and on the correlation loss."""
    studies = {}
    for loss in ("square", "correlation"):
        base = NEXT.replace(loss_of_steps=loss, steps=4)
        studies[loss] = comparison(
            base, {"rate": [1.0, 2.0]}, judged=("test_error",), dim=size(150, 600), trials=size(16, 60),
            meaning=f"test error after 0 to 4 steps on the {loss} loss", seed=SEED + 4,
        )  # fmt: skip
    return studies


def _draw_losses(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, rate in zip(axes, (1.0, 2.0)):
        for number, loss in enumerate(("square", "correlation")):
            side = results[loss].sel(rate=rate)
            limit_line(
                panel,
                side["time"],
                judged_side(side)["test_error"],
                PALETTE[number],
                linewidth=1.0,
            )
            experiment_points(
                panel,
                side["time"],
                side,
                "test_error",
                PALETTE[number],
                MARKERS[number],
            )
        panel.set(
            xlabel="steps made", ylabel="test error", xticks=range(5), yscale="log"
        )
    handles = [
        key(PALETTE[i], MARKERS[i], f"{loss} loss")
        for i, loss in enumerate(("square", "correlation"))
    ]
    at_dim = rf"network, $d = {results.dim('square')}$, $\pm$ 1 s.e."
    axes[0].legend(
        handles=[
            *handles,
            *engines(axes[0], at_dim, line=theory_at(results, "square")),
        ],
        loc="upper right",
    )
    letters(axes, r"rate $\eta = 1$", r"rate $\eta = 2$")
    return figure


RECIPES = (
    Recipe(
        "error-staircase",
        "The staircase in the error: what every giant step brings a ridge read-out",
        "Test error against the samples of the fit after 0, 1, 2 and 3 steps, networks as dots; dashed: all data.",
        error_staircase,
        _draw_staircase,
        _staircase_checks,
        seconds=14,
    ),
    Recipe(
        "next-step",
        "What the next giant step buys",
        "Share of the test error that the first, second and third step take away, (a) against n/d, (b) against p/d.",
        next_step,
        _draw_next_step,
        seconds=32,
    ),
    Recipe(
        "vocabulary-or-steps",
        "A richer second layer or another step?",
        "(a) test error and (b) least error at any width against the number of values of the second layer.",
        vocabulary_or_steps,
        _draw_vocabulary,
        seconds=24,
    ),
    Recipe(
        "step-spectra",
        "Spectra of the features after every giant step",
        "Bulk of the feature covariance after 0, 1 and 2 steps over the histogram of networks; spikes as numbers.",
        step_spectra,
        _draw_spectra,
        seconds=28,
    ),
    Recipe(
        "step-losses",
        "Steps on the square and on the correlation loss",
        "Test error after every step for two rates: the correlation loss does not see what the network knows already.",
        step_losses,
        _draw_losses,
        seconds=21,
    ),
)
