"""Dandi, Krzakala, Loureiro, Pesce and Stephan: how two-layer networks learn, one (giant) step at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.panels import engines, experiment_points, letter, level, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLACK, BLUE, GREY, VERMILION, colours, new_figure, plain_log_ticks

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.giant_steps.scenario import GiantSteps

SEED = 2305
PAPER = "dandi2023giant"
EX1 = "(4*z1 + z1**2 + z2)/2"
EX2 = "(z1 + z1**2 + z2 - z2**2)/2"
PAIR = "(h4(z1)/24 + h2(z1)/2 + z1 + h4(z2)/24 + h2(z2)/2 + z2)/2"
FIRST, SECOND = r"$(4z_1 + z_1^2 + z_2)/2$", r"$(z_1 + z_1^2 + z_2 - z_2^2)/2$"
PUBLISHED = {3326: (0.3360, 0.0063), 29532: (0.2068, 0.0059), 262144: (0.0774, 0.0021)}
"""The authors' one-step errors and their spread over 10 seeds, by n, at d = 512."""


def network(target: str, **fields: Any) -> GiantSteps:
    """Return a ReLU network with second layer +-1."""
    from giantstep import GiantSteps, Vocabulary

    known = {"activation": "relu", "second_layer": Vocabulary([1, -1]), "rate": 2.0, "batch_per_dim": 1.0}
    return GiantSteps(target=target, **{**known, **fields})


# -- gradient orientations -----------------------------------------------------------------------------------


def orientation(bench: Bench) -> Figure:
    """Draw the cosines of every neuron's step with both directions, step after step, for two targets."""
    dim, width, steps = bench.sized(400, 4096), bench.sized(100, 1024), bench.sized(3, 6)
    figure, axes = new_figure(2, steps, width=2.35 * steps + 0.6, height=5.0)
    for row, (name, target) in enumerate((("ex1", EX1), ("ex2", EX2))):
        scenario = network(target, width=width, steps=steps)
        compared = bench.compare(
            name,
            scenario,
            {},
            meaning=f"mean cosines of {target}",
            judged=("gradient_cosine", "norm"),
            dim=dim,
            trials=bench.sized(12, 5),
            seed=SEED,
        )
        shown = _measured(bench, f"{name}-neurons", scenario, "neurons", dim, 1)
        size = 1.2 * float(np.max(np.abs(shown["gradient_cosine"].values[:steps])))
        for step, panel in enumerate(axes[row * steps : (row + 1) * steps]):
            _scatter(panel, shown.isel(time=step), compared.sel(source="limit").isel(time=step), width)
            panel.set(xlim=(-size, size), ylim=(-size, size), aspect="equal")
            text = f"{(FIRST, SECOND)[row]}, step 1" if step == 0 else f"step {step + 1}"
            letter(panel, "abcdefghijkl"[row * steps + step], text)
            panel.set_xlabel(r"$\cos(G_i, w^*_1)$" if row else "")
            panel.set_ylabel(r"$\cos(G_i, w^*_2)$" if step == 0 else "")
    axes[0].legend(loc="upper left", fontsize=7)
    return figure


def _measured(bench: Bench, name: str, scenario: GiantSteps, what: str, dim: int, trials: int) -> xarray.Dataset:
    """Run an experiment that has no limit beside it, and keep it."""
    from giantstep import simulate

    result = simulate(scenario, what=what, dim=dim, trials=trials, seed=SEED, device=bench.device, progress=False)
    bench.results[name] = result
    return result


def _scatter(axes: Axes, neurons: xarray.Dataset, limit: xarray.Dataset, width: int) -> None:
    half = width // 2
    chosen = np.r_[np.arange(20), half + np.arange(20)]
    cosines = neurons["gradient_cosine"].values[chosen]
    for sign, colour, places in (("+1", BLUE, slice(0, 20)), ("-1", VERMILION, slice(20, 40))):
        axes.plot(*cosines[places].T, "o", color=colour, markersize=3, alpha=0.6, label=f"neurons, $a_j = {sign}$")
    points = limit["gradient_cosine"].values
    axes.plot(*points.T, "x", color=BLACK, markersize=9, markeredgewidth=1.8, label="limit", zorder=4)
    axes.axhline(0, color=GREY, linewidth=0.6, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.6, zorder=0)


# -- the staircase -------------------------------------------------------------------------------------------


def staircase(bench: Bench) -> Figure:
    """Draw the cosines of z1 + z1 z2, which is climbed step by step, beside z1 z2, which is not."""
    dim, trials = bench.sized(300, 1500), bench.sized(30, 20)
    figure, axes = new_figure(1, 3, width=11.4, height=3.6)
    cases = (
        ("z1 + z1*z2", "relu", "z_1 + z_1 z_2"),
        ("z1*z2", "relu", "z_1 z_2"),
        ("z1 + z1*z2", "tanh", "z_1 + z_1 z_2"),
    )
    for panel, (target, activation, text), name in zip(axes, cases, "abc"):
        steps = 5
        scenario = network(target, activation=activation, rate=1.0, batch_per_dim=8.0, width=40, steps=steps)
        result = bench.compare(
            f"{activation}-{'product' if name == 'b' else 'sum'}",
            scenario,
            {},
            meaning=f"cosines of {target} with {activation}",
            judged=("cosine",) if name != "b" else (),
            dim=dim,
            trials=trials,
            seed=SEED,
        )
        first = result.isel(block=0)
        for direction, colour in ((0, BLUE), (1, VERMILION)):
            one = first.isel(direction=direction)
            limit_line(panel, one["time"], one["cosine"].sel(source="limit"), colour, rf"$w^*_{direction + 1}$")
            experiment_points(panel, one["time"], one, "cosine", colour)
        panel.set(xlabel="steps", ylim=(-0.25, 1.0), xticks=range(steps + 1))
        letter(panel, name, rf"{activation}, $h = {text}$")
        if name == "b":
            largest = float(np.max(np.abs(result["cosine"].sel(source="experiment").values)))
            bench.check("largest mean cosine with z1 z2", largest, "nothing is learned from n = 8 d", line=0.1)
    axes[0].set_ylabel("cosine of a neuron with $a_j = 1$")
    handles, _ = axes[0].get_legend_handles_labels()
    axes[1].legend(handles=[*handles, *engines(axes[0], rf"network, $d = {dim}$")], loc="upper left")
    return figure


# -- specialisation ------------------------------------------------------------------------------------------


def specialisation(bench: Bench) -> Figure:
    """Draw how the gradients of a target without linear part align at n of order d^2, and their angles."""
    dim = bench.sized(100, 256)
    scenario = network("z1*z2", batch_exponent=2.0, width=40)
    alphas = [0.25, 0.5, 1.0, 2.0, 4.0]
    result = bench.compare(
        "order-2",
        scenario,
        {"batch_per_dim": alphas},
        meaning="alignment of the first gradients with the target space, n = alpha d^2",
        judged=("alignment",),
        what="specialisation",
        settings={"labels": "raw"},
        dim=dim,
        trials=bench.sized(10, 20),
        seed=SEED,
    )
    fine = bench.predict(
        "order-2-line",
        scenario,
        {"batch_per_dim": np.geomspace(0.2, 5.0, 60)},
        what="specialisation",
        settings={"labels": "raw"},
        dim=dim,
    )
    figure, axes = new_figure(1, 2, width=8.2, height=3.7)
    limit_line(axes[0], fine["batch_per_dim"], fine["alignment"], BLUE, "limit")
    experiment_points(axes[0], alphas, result, "alignment", BLUE, label=rf"network, $d = {dim}$")
    axes[0].set(xscale="log", xlabel=r"$n/d^2$", ylabel=r"$E\cos^2(G_i, V^*)$", ylim=(0, 0.8))
    plain_log_ticks(axes[0].xaxis)
    axes[0].legend(loc="upper left")
    letter(axes[0], "a", "$h = z_1 z_2$, one step")
    for target, exponent, alpha, colour, text in (
        (EX2, 1.0, 16.0, VERMILION, r"$(z_1 + z_1^2 + z_2 - z_2^2)/2$, $n = 16\,d$"),
        ("z1*z2", 2.0, 2.0, BLUE, r"$z_1 z_2$, $n = 2\,d^2$"),
    ):
        wide = network(target, batch_exponent=exponent, batch_per_dim=alpha, width=200, steps=1)
        cosines = _measured(bench, f"angles-{exponent:g}", wide, "neurons", dim, 1)["gradient_cosine"].values[0]
        signed = cosines * np.repeat([1.0, -1.0], 100)[:, None]
        angles = np.degrees(np.arctan2(signed[:, 1], signed[:, 0]))
        axes[1].hist(angles, bins=np.linspace(-180, 180, 37).tolist(), color=colour, alpha=0.6, label=text)
    axes[1].set(xlabel="angle of the gradient in the target plane (degrees)", ylabel="neurons", xlim=(-180, 180))
    axes[1].set_xticks([-180, -90, 0, 90, 180])
    axes[1].legend(loc="upper left")
    letter(axes[1], "b", "one direction at $n \\sim d$, all at $n \\sim d^2$")
    spread = float(result["specialised"].sel(source="experiment").values[-1])
    bench.check(
        "directions the gradients spread over at n = 4 d^2", spread, "1 would be one direction", line=1.5, above=True
    )
    return figure


# -- error against the batch ---------------------------------------------------------------------------------


def stairway(bench: Bench) -> Figure:
    """Draw the error after 0 to T steps against log n/log d for two targets, and the orientation of the steps."""
    dim, width, steps = bench.sized(80, 256), bench.sized(120, 512), bench.sized(4, 6)
    exponents = np.linspace(1.0, bench.sized(1.7, 1.9), bench.sized(4, 7))
    figure, axes = new_figure(1, 4, width=14.6, height=3.7)
    for panel, name, target, bound, text in (
        (axes[0], "pair", PAIR, 0.2708333, r"$\frac{1}{2}\sum_r (H_4/24 + H_2/2 + H_1)(z_r)$"),
        (axes[1], "ex2", EX2, 1.0, r"$(z_1 + z_1^2 + z_2 - z_2^2)/2$"),
    ):
        scenario = network(target, width=width, steps=steps, batch_per_dim=2.0, rate=1.0)
        result = bench.compare(
            name,
            scenario,
            {"batch_exponent": exponents},
            meaning=f"errors of {target}",
            judged=(),
            what="errors",
            settings={"fit_per_dim": 0.0, "ridge": 1.0},
            dim=dim,
            trials=bench.sized(3, 5),
            seed=SEED,
        )
        for time, colour in zip(range(steps + 1), colours(steps + 1, ordered=True)):
            label = "random features" if time == 0 else f"{time} step{'s' if time > 1 else ''}"
            measured = result.isel(time=time)
            x = np.log(2.0 * dim**exponents) / np.log(dim)
            experiment_points(panel, x, measured, "test_error", colour, label=label)
            panel.plot(x, measured["test_error"].sel(source="experiment"), color=colour, linewidth=0.9)
        level(panel, bound, "linear kernel, $d \\to \\infty$", at=0.6, above=False)
        panel.set(xlabel=r"$\log n/\log d$", ylabel="test error")
        letter(panel, "a" if name == "pair" else "b", text)
        found = float(result["kernel_bound"].sel(source="limit").values[0])
        bench.check(f"distance of the kernel bound of {name} from the notes", abs(found - bound), "7 digits", line=1e-6)
        last = result["test_error"].sel(source="experiment").isel(batch_exponent=-1).values
        bench.check(
            f"error of {name} after {steps} steps over that of random features at the largest n",
            last[-1] / last[0],
            "steps learn features that random ones cannot have",
            line=0.8,
        )
    axes[0].legend(loc="upper right", fontsize=7)
    shown = _measured(
        bench, "ex2-neurons", network(EX2, width=width, steps=2, batch_per_dim=20.0, rate=1.0), "neurons", dim, 1
    )
    for panel, time, name in ((axes[2], 0, "c"), (axes[3], 1, "d")):
        cosines = shown["gradient_cosine"].values[time]
        panel.plot(*cosines[: width // 2].T, "o", color=BLUE, markersize=3, alpha=0.6, label="$a_j = 1$")
        panel.plot(*cosines[width // 2 :].T, "o", color=VERMILION, markersize=3, alpha=0.6, label="$a_j = -1$")
        panel.set(
            xlabel=r"$\cos(G_i, w^*_1)$", ylabel=r"$\cos(G_i, w^*_2)$", xlim=(-1, 1), ylim=(-1, 1), aspect="equal"
        )
        letter(panel, name, f"step {time + 1}, $n = 20\\,d$")
    axes[2].legend(loc="upper left")
    return figure


def one_step(bench: Bench) -> Figure:
    """Draw the error after one large step against n, beside random features and the authors' numbers."""
    dim, width = bench.sized(128, 512), bench.sized(256, 1024)
    sizes = [round(dim**power) for power in (1.3, 1.65, 2.0)]
    figure, axes = new_figure(1, 1, width=5.0, height=3.8)
    errors, spreads, start = [], [], []
    for n in sizes:
        scenario = network(PAIR, width=width, steps=1, batch_per_dim=n / dim, rate=10 * (n / width) ** 0.5)
        result = _measured(bench, f"n{n}", scenario, "fit", dim, bench.sized(4, 10))
        errors.append(float(result["test_error"]))
        spreads.append(float(result["test_error_stderr"]))
        start.append(float(result["initial_error"]))
    x = np.log(sizes) / np.log(dim)
    axes[0].errorbar(
        x, errors, spreads, color=BLUE, marker="o", markerfacecolor="white", label=f"one step, $d = {dim}$"
    )
    axes[0].plot(x, start, color=VERMILION, marker="s", markerfacecolor="white", label="random features")
    published = np.array(list(PUBLISHED.values()))
    axes[0].errorbar(
        np.log(list(PUBLISHED)) / np.log(512),
        *published.T,
        color=GREY,
        marker="D",
        linestyle="none",
        label="authors, $d = 512$",
    )
    level(axes[0], 0.2708333, "linear kernel, $d \\to \\infty$", at=0.3, above=False)
    axes[0].set(xlabel=r"$\log n/\log d$", ylabel="test error", ylim=(0, None))
    axes[0].legend(loc="lower left")
    bench.check("error of one step at n = d^2", errors[-1], "far below the bound of kernels", line=0.2)
    if not bench.quick:
        for n, error, spread in zip(sizes, errors, spreads):
            mean, published_spread = PUBLISHED[n]
            joint = (spread**2 + published_spread**2 / 10) ** 0.5
            bench.check(
                f"z against the authors' error at n = {n}", abs(error - mean) / joint, "10 seeds each", line=3.0
            )
    return figure


RECIPES = (
    Recipe(
        name="giant-orientation",
        title="Orientation of the gradients, step after step",
        paper=PAPER,
        description="Cosines of 40 neurons' steps with both directions: (top) ex1, (bottom) ex2, with the limit.",
        parameters="ReLU, a = +-1, g = 2, n = d = 4096, p = 1024, T = 1..6 (the authors'). Seed 2305.",
        seconds_quick=15,
        seconds_full=900,
        make=orientation,
    ),
    Recipe(
        name="giant-staircase",
        title="z1 + z1 z2 is climbed step by step, z1 z2 is not",
        paper=PAPER,
        description="Cosines against steps: (a) z1 + z1 z2, (b) z1 z2, (c) z1 + z1 z2 with tanh, whose c_2 is zero.",
        parameters="a = +-1, g = 1, n = 8 d, p = 40, d = 1500. Seed 2305.",
        seconds_quick=20,
        seconds_full=300,
        make=staircase,
    ),
    Recipe(
        name="giant-specialisation",
        title="One direction from n of order d, many from n of order d^2",
        paper=PAPER,
        description="(a) alignment of the first gradients of z1 z2 at n = alpha d^2, (b) their angles.",
        parameters="ReLU, p = 40 (b: 200), d = 256. Seed 2305.",
        seconds_quick=20,
        seconds_full=600,
        make=specialisation,
    ),
    Recipe(
        name="giant-stairway",
        title="Stairway: error against the batch for several steps",
        paper=PAPER,
        description="(a), (b) error of two targets after 0 to 6 steps, (c), (d) orientation of the first two steps.",
        parameters="ReLU, g = 1, n = 2 d^l, ridge 1, p = 512, d = 256 (the authors' d and p are not known). Seed 2305.",
        seconds_quick=40,
        seconds_full=1800,
        make=stairway,
    ),
    Recipe(
        name="giant-one-step",
        title="Error after one large step, against random features",
        paper=PAPER,
        description="Error against log n/log d; constant and linear part fitted and subtracted.",
        parameters="d = 512, p = 1024, ridge 1, eta = 10 sqrt(n p), n = d^1.3, d^1.65, d^2 (the authors'). Seed 2305.",
        seconds_quick=20,
        seconds_full=1500,
        make=one_step,
    ),
)
