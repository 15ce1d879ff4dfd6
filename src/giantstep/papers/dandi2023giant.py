"""Dandi, Krzakala, Loureiro, Pesce and Stephan: how two-layer networks learn, one
(giant) step at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import GiantSteps, Vocabulary
from giantstep.papers.recipe import (
    FigureStudy,
    Recipe,
    Results,
    Size,
    Studies,
    comparison,
    experiment,
    limit,
)
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    compared,
    engines,
    error_points,
    experiment_points,
    key,
    letters,
    level,
    limit_line,
)
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DOTTED,
    GREY,
    MARKERS,
    VERMILION,
    colours,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEED = 2305
EX1 = "(4*z1 + z1**2 + z2)/2"
EX2 = "(z1 + z1**2 + z2 - z2**2)/2"
PAIR = "(h4(z1)/24 + h2(z1)/2 + z1 + h4(z2)/24 + h2(z2)/2 + z2)/2"
SHOWN = {"ex1": r"$(4z_1 + z_1^2 + z_2)/2$", "ex2": r"$(z_1 + z_1^2 + z_2 - z_2^2)/2$"}
COSINES = r"$\cos(G_i, w^*_1)$", r"$\cos(G_i, w^*_2)$"


def network(target: str, **fields: Any) -> GiantSteps:
    """Return a ReLU network with second layer +-1."""
    known = {
        "activation": "relu",
        "second_layer": Vocabulary([1, -1]),
        "rate": 2.0,
        "batch_per_dim": 1.0,
    }
    return GiantSteps(target=target, **{**known, **fields})


def _neurons(scenario: GiantSteps, dim: int) -> FigureStudy:
    """Return every neuron of one network, measured only."""
    return experiment(scenario, None, "neurons", dim=dim, trials=1, seed=SEED)


def _cloud(axes: Axes, cosines: np.ndarray, half: int, words: str) -> None:
    """Draw the cosines of neurons with both directions, those of the first half with
    a_j = 1.
    """
    for sign, colour, chosen in (
        ("1", BLUE, cosines[:half]),
        ("-1", VERMILION, cosines[half:]),
    ):
        axes.plot(
            *chosen.T,
            "o",
            color=colour,
            markersize=3,
            alpha=0.6,
            label=words.format(sign),
        )


# -- gradient orientations -------------------------------------------------------------


def orientation(size: Size) -> Studies:
    """Return two targets: mean cosines of the steps, and the neurons of one network."""
    dim = size(400, 4096)
    width = size(100, 1024)
    steps = size(3, 6)
    studies = {}
    for name, target, trials in (("ex1", EX1, 24), ("ex2", EX2, 72)):
        scenario = network(target, width=width, steps=steps)
        studies[name] = comparison(
            scenario, meaning=f"mean cosines of {target}", judged=("gradient_cosine", "norm"),
            dim=dim, trials=size(12, trials), seed=SEED,
        )  # fmt: skip
        studies[f"{name}-neurons"] = _neurons(scenario, dim)
    return studies


def _draw_orientation(results: Results) -> Figure:
    """Draw the cosines of 40 neurons' steps with both directions, step after step."""
    steps = results.size(3, 6)
    width = results.size(100, 1024)
    figure, axes = new_figure(2, steps, width=2.35 * steps + 0.6, height=5.0)
    chosen = np.r_[np.arange(20), width // 2 + np.arange(20)]
    titles = []
    for row, name in enumerate(SHOWN):
        neurons = results[f"{name}-neurons"]["gradient_cosine"].values
        law = results[name]["gradient_cosine"].sel(source="limit").values
        reach = 1.2 * float(np.max(np.abs(neurons[:steps])))
        for step, panel in enumerate(axes[row * steps : (row + 1) * steps]):
            _cloud(panel, neurons[step][chosen], 20, "neurons, $a_j = {}$")
            panel.plot(
                *law[step].T,
                "x",
                color=BLACK,
                markersize=9,
                markeredgewidth=1.8,
                label="limit",
                zorder=4,
            )
            panel.axhline(0, color=GREY, linewidth=0.6, zorder=0)
            panel.axvline(0, color=GREY, linewidth=0.6, zorder=0)
            panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            panel.set(
                xlabel=COSINES[0] if row else "", ylabel="" if step else COSINES[1]
            )
            titles.append(f"step {step + 1}" if step else f"{SHOWN[name]}, step 1")
    letters(axes, *titles)
    axes[0].legend(loc="upper left", fontsize=7)
    return figure


# -- the staircase ---------------------------------------------------------------------

CLIMBS = {
    "relu-sum": ("z1 + z1*z2", "relu", r"relu, $h = z_1 + z_1 z_2$"),
    "relu-product": ("z1*z2", "relu", r"relu, $h = z_1 z_2$"),
    "tanh-sum": ("z1 + z1*z2", "tanh", r"tanh, $h = z_1 + z_1 z_2$"),
}


def staircase(size: Size) -> Studies:
    """Return z1 + z1 z2, which is climbed step by step, beside z1 z2, which is not."""
    return {
        name: comparison(
            network(target, activation=activation, rate=1.0, batch_per_dim=8.0, width=40, steps=5),
            meaning=f"cosines of {target} with {activation}", judged=() if name == "relu-product" else ("cosine",),
            dim=size(300, 1500), trials=size(30, 20), seed=SEED,
        )
        for name, (target, activation, _) in CLIMBS.items()
    }  # fmt: skip


def _draw_staircase(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=11.4, height=3.6)
    for panel, name in zip(axes, CLIMBS):
        for direction, colour in ((0, BLUE), (1, VERMILION)):
            first = results[name].isel(block=0, direction=direction)
            compared(panel, first["time"], first, "cosine", colour, MARKERS[direction])
        panel.set(xlabel="steps", ylim=(-0.25, 1.0), xticks=range(6))
    letters(axes, *(title for *_, title in CLIMBS.values()))
    axes[0].set_ylabel("cosine of a neuron with $a_j = 1$")
    handles = [
        key(colour, marker, f"with $w^*_{i}$")
        for i, colour, marker in zip((1, 2), (BLUE, VERMILION), MARKERS)
    ]
    text = rf"network, $d = {results.dim('relu-sum')}$, $\pm$ 1 s.e."
    axes[1].legend(handles=[*handles, *engines(axes[0], text)], loc="upper left")
    return figure


def _staircase_checks(results: Results) -> Iterator[Check]:
    largest = np.max(
        np.abs(results["relu-product"]["cosine"].sel(source="experiment").values)
    )
    yield Check(
        "largest mean cosine with z1 z2",
        "nothing is learned from n = 8 d",
        largest,
        line=0.1,
    )


# -- specialisation --------------------------------------------------------------------

ANGLES = {
    "angles-1": (EX2, 1.0, 16.0, VERMILION, SHOWN["ex2"] + r", $n = 16\,d$"),
    "angles-2": ("z1*z2", 2.0, 2.0, BLUE, r"$z_1 z_2$, $n = 2\,d^2$"),
}
ALPHAS = [0.25, 0.5, 1.0, 2.0, 4.0]


def specialisation(size: Size) -> Studies:
    """Return the alignment of the first gradients at n of order d^2, and the neurons of
    two wider networks.
    """
    dim = size(100, 256)
    base = network("z1*z2", batch_exponent=2.0, width=40)
    fine = {"batch_per_dim": np.geomspace(0.2, 5.0, 60)}
    studies = {
        "order-2": comparison(
            base, {"batch_per_dim": ALPHAS}, "specialisation", labels="raw", judged=("alignment",),
            meaning="alignment of the first gradients with the target space, n = alpha d^2",
            dim=dim, trials=size(10, 120), seed=SEED,
        ),
        "order-2-line": limit(base, fine, "specialisation", labels="raw", dim=dim),
    }  # fmt: skip
    for name, (target, exponent, alpha, *_) in ANGLES.items():
        wide = network(
            target, batch_exponent=exponent, batch_per_dim=alpha, width=200, steps=1
        )
        studies[name] = _neurons(wide, dim)
    return studies


def _draw_specialisation(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=8.2, height=3.7)
    line = results["order-2-line"]
    dim = results.dim("order-2")
    limit_line(axes[0], line["batch_per_dim"], line["alignment"], BLUE, "limit")
    text = rf"network, $d = {dim}$"
    experiment_points(
        axes[0], ALPHAS, results["order-2"], "alignment", BLUE, label=text
    )
    axes[0].set(
        xscale="log",
        xlabel="samples,  $n/d^2$",
        ylabel=r"mean of $\cos^2(G_i, V^*)$",
        ylim=(0, 0.8),
    )
    plain_log_ticks(axes[0].xaxis)
    for name, (*_, colour, words) in ANGLES.items():
        signed = (
            results[name]["gradient_cosine"].values[0]
            * np.repeat([1.0, -1.0], 100)[:, None]
        )
        angles = np.degrees(np.arctan2(signed[:, 1], signed[:, 0]))
        axes[1].hist(
            angles,
            bins=np.linspace(-180, 180, 37).tolist(),
            color=colour,
            alpha=0.6,
            label=words,
        )
    axes[1].set(
        xlabel="angle of the gradient in the target plane (degrees)",
        ylabel="neurons",
        xlim=(-180, 180),
    )
    axes[1].set_xticks([-180, -90, 0, 90, 180])
    for panel in axes:
        panel.legend(loc="upper left")
    letters(
        axes,
        "$h = z_1 z_2$, one step",
        "one direction at $n \\sim d$, all at $n \\sim d^2$",
    )
    return figure


def _specialisation_checks(results: Results) -> Iterator[Check]:
    spread = results["order-2"]["specialised"].sel(source="experiment").values[-1]
    name = "directions the gradients spread over at n = 4 d^2"
    yield Check(name, "1 would be one direction", spread, line=1.5, above=True)


# -- error against the batch -----------------------------------------------------------

KERNEL_BOUND = 0.2708333
"""Error of the best linear kernel on `PAIR`, d to infinity."""
STAIRWAY = {
    "pair": (PAIR, KERNEL_BOUND, r"$\frac{1}{2}\sum_r (H_4/24 + H_2/2 + H_1)(z_r)$"),
    "ex2": (EX2, 1.0, SHOWN["ex2"]),
}


def stairway(size: Size) -> Studies:
    """Return the errors of two targets against the batch after several steps, and the
    neurons of one network.
    """
    dim = size(80, 256)
    width = size(120, 512)
    steps = size(4, 6)
    exponents = np.linspace(1.0, size(1.7, 1.9), size(4, 7))
    studies = {
        name: comparison(
            network(target, width=width, steps=steps, batch_per_dim=2.0, rate=1.0), {"batch_exponent": exponents},
            "errors", meaning=f"errors of {target}", fit_per_dim=0.0, ridge=1.0,
            dim=dim, trials=size(3, 5), seed=SEED,
        )
        for name, (target, *_) in STAIRWAY.items()
    }  # fmt: skip
    wide = network(EX2, width=width, steps=2, batch_per_dim=20.0, rate=1.0)
    return {**studies, "ex2-neurons": _neurons(wide, dim)}


def _draw_stairway(results: Results) -> Figure:
    figure, axes = new_figure(1, 4, width=14.6, height=3.7)
    dim = results.dim("pair")
    width = results.size(120, 512)
    steps = results.size(4, 6)
    for panel, (name, (_, bound, _)) in zip(axes, STAIRWAY.items()):
        x = np.log(2.0 * dim ** results[name]["batch_exponent"].values) / np.log(dim)
        for time, colour in enumerate(colours(steps + 1, ordered=True)):
            if time == 0:
                label = "random features"
            else:
                label = f"{time} step{'s' if time > 1 else ''}"
            result = results[name].isel(time=time)
            experiment_points(
                panel,
                x,
                result,
                "test_error",
                colour,
                MARKERS[time % len(MARKERS)],
                label,
            )
            panel.plot(
                x,
                result["test_error"].sel(source="experiment"),
                color=colour,
                linewidth=0.9,
            )
        level(panel, bound, "")
        panel.set(xlabel=r"$\log n/\log d$", ylabel="test error")
    handles, _ = axes[0].get_legend_handles_labels()
    kernel = key(GREY, "", "linear kernel, $d \\to \\infty$", DOTTED)
    axes[0].legend(handles=[*handles, kernel], loc="upper right", fontsize=7)
    for time, panel in enumerate(axes[2:]):
        _cloud(
            panel,
            results["ex2-neurons"]["gradient_cosine"].values[time],
            width // 2,
            "$a_j = {}$",
        )
        panel.set(
            xlabel=COSINES[0],
            ylabel=COSINES[1],
            xlim=(-1, 1),
            ylim=(-1, 1),
            aspect="equal",
        )
        panel.set(xticks=[-1, -0.5, 0, 0.5, 1], yticks=[-1, -0.5, 0, 0.5, 1])
    axes[2].legend(loc="upper left")
    steps_shown = [f"step {time}, $n = 20\\,d$" for time in (1, 2)]
    letters(axes, *(title for *_, title in STAIRWAY.values()), *steps_shown)
    return figure


def _stairway_checks(results: Results) -> Iterator[Check]:
    steps = results.size(4, 6)
    for name, (_, bound, _) in STAIRWAY.items():
        value = float(results[name]["kernel_bound"].sel(source="limit").values[0])
        yield Check(
            f"distance of the kernel bound of {name} from its known value",
            "7 digits",
            abs(value - bound),
            line=1e-6,
        )
        last = (
            results[name]["test_error"]
            .sel(source="experiment")
            .isel(batch_exponent=-1)
            .values
        )
        yield Check(
            f"error of {name} after {steps} steps over that of random features at the largest n",
            "steps learn features that random ones cannot have", last[-1] / last[0], line=0.8,
        )  # fmt: skip


# -- one step --------------------------------------------------------------------------

PUBLISHED = {3326: (0.3360, 0.0063), 29532: (0.2068, 0.0059), 262144: (0.0774, 0.0021)}
"""The authors' one-step errors and their spread over 10 seeds, by n, at d = 512."""


def _samples(dim: int) -> list[int]:
    return [round(dim**power) for power in (1.3, 1.65, 2.0)]


def _gaussian_values(count: int) -> Vocabulary:
    """Return a second layer of equally probable values of variance one: the means of
    slices of a Gaussian.
    """
    law = NormalDist()
    densities = [
        0.0,
        *(law.pdf(law.inv_cdf(index / count)) for index in range(1, count)),
        0.0,
    ]
    means = -np.diff(densities)
    return Vocabulary(np.round(means / np.sqrt(np.mean(means**2)), 6).tolist())


def one_step(size: Size) -> Studies:
    """Return the error after one large step at three sizes of the batch; the second
    layer is close to Gaussian.
    """
    dim = size(128, 512)
    width = size(256, 1024)
    values = _gaussian_values(32)
    studies = {}
    for n in _samples(dim):
        base = network(
            PAIR,
            width=width,
            second_layer=values,
            steps=1,
            batch_per_dim=n / dim,
            rate=10 * (n / width) ** 0.5,
        )
        studies[f"n{n}"] = experiment(
            base, None, "fit", dim=dim, trials=size(4, 10), seed=SEED
        )
    return studies


def _draw_one_step(results: Results) -> Figure:
    """Draw the error after one large step against n, beside random features and the
    authors' numbers.
    """
    figure, (axes,) = new_figure(1, 1, width=5.0, height=3.8)
    dim = results.size(128, 512)
    fits = list(results.values())
    x = np.log(_samples(dim)) / np.log(dim)
    errors, spreads, start = (
        [float(fit[name]) for fit in fits]
        for name in ("test_error", "test_error_stderr", "initial_error")
    )
    axes.errorbar(
        x,
        errors,
        spreads,
        color=BLUE,
        marker="o",
        markerfacecolor="white",
        label=f"one step, $d = {dim}$",
    )
    axes.plot(
        x,
        start,
        color=VERMILION,
        marker="s",
        markerfacecolor="white",
        label="random features",
    )
    means, widths = np.array(list(PUBLISHED.values())).T
    where = np.log(list(PUBLISHED)) / np.log(512)
    error_points(
        axes,
        where,
        means,
        widths,
        GREY,
        "D",
        "authors, $d = 512$",
        markerfacecolor=GREY,
    )
    level(axes, KERNEL_BOUND, "linear kernel, $d \\to \\infty$", at=0.02, above=False)
    axes.set(xlabel=r"$\log n/\log d$", ylabel="test error", ylim=(0, None))
    axes.legend(loc="lower left")
    return figure


def _one_step_checks(results: Results) -> Iterator[Check]:
    *_, last = results.values()
    yield Check(
        "error of one step at n = d^2",
        "far below the bound of kernels",
        float(last["test_error"]),
        line=0.2,
    )
    if results.size.quick:
        return
    for (n, (mean, spread)), fit in zip(PUBLISHED.items(), results.values()):
        joint = (float(fit["test_error_stderr"]) ** 2 + spread**2 / 10) ** 0.5
        z = abs(float(fit["test_error"]) - mean) / joint
        yield Check(
            f"z against the authors' error at n = {n}", "10 seeds each", z, line=3.0
        )


RECIPES = (
    Recipe(
        "giant-orientation",
        "Orientation of the gradients, step after step",
        "Cosines of 40 neurons' steps with both directions: (top) ex1, (bottom) ex2, with the limit.",
        orientation,
        _draw_orientation,
        remark="The authors' parameters.",
        seconds=15,
    ),
    Recipe(
        "giant-staircase",
        "z1 + z1 z2 is climbed step by step, z1 z2 is not",
        "Cosines against steps: (a) z1 + z1 z2, (b) z1 z2, (c) z1 + z1 z2 with tanh, whose c_2 is zero.",
        staircase,
        _draw_staircase,
        _staircase_checks,
        seconds=20,
    ),
    Recipe(
        "giant-specialisation",
        "One direction from n of order d, many from n of order d^2",
        "(a) alignment of the first gradients of z1 z2 at n = alpha d^2, (b) their angles.",
        specialisation,
        _draw_specialisation,
        _specialisation_checks,
        notes=(
            "The theory at d takes the noise of a gradient as equal in all directions. For z1 z2 it is three times as "
            "large in the target space, E[h^2 z1^2] = 3 E[h^2]. Networks of d = 32, 64, 128 (1500, 600, 150 trials) "
            "lie above the limit by 3.4, 3.8, 3.7(3) over d at n = d^2/4, the theory by 1.75/d. For sign(z1 z2), whose "
            "noise is equal in all directions, both lie 1.9/d above it at d = 64.",
        ),
        seconds=20,
    ),
    Recipe(
        "giant-stairway",
        "Stairway: error against the batch for several steps",
        "(a), (b) error of two targets after 0 to 6 steps, (c), (d) orientation of the first two steps.",
        stairway,
        _draw_stairway,
        _stairway_checks,
        remark="Ridge 1; the authors' d and p are not known.",
        seconds=40,
        quiet=True,
    ),
    Recipe(
        "giant-one-step",
        "Error after one large step, against random features",
        "Error against log n/log d; constant and linear part fitted and subtracted.",
        one_step,
        _draw_one_step,
        _one_step_checks,
        notes=(
            "The second layer has 32 values, the means of equal slices of a Gaussian. With the two values +-1 in their "
            "place the error at n = d^2 is 0.127 (10 networks), far above the authors': a step as long for all neurons "
            "leaves them alike.",
            "The authors' notebook fits on the samples of the step and takes the constant and the linear part of the "
            "test labels as averages of the test set. Ours fits on fresh samples, and takes these parts as averages of "
            "them. Their numbers need both of their choices.",
        ),
        remark="Ridge 1, eta = 10 sqrt(n p), n = d^1.3, d^1.65, d^2 (the authors').",
        seconds=20,
    ),
)
