"""Cui et al., ICML 2024: the network after one gradient step, and what an isotropic map leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from giantstep.figures.panels import experiment_points, letter, level, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLACK, BLUE, VERMILION, new_figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.one_step.scenario import OneStep

SEED = 2402
SAMPLES = np.array([0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 2.5, 3.0])


def tanh_scenario() -> OneStep:
    """Return a tanh network on a sine after a population-gradient step of rate 3."""
    from giantstep import MaximalStep, OneStep

    return OneStep(
        activation="tanh",
        target="sin(z)",
        width_per_dim=1.0,
        samples_per_dim=1.5,
        ridge=0.1,
        step=MaximalStep(rate=3.0),
    )


def relu_scenario() -> OneStep:
    """Return a ReLU network on a noisy ReLU after a population-gradient step of rate 1.5."""
    from giantstep import MaximalStep, OneStep

    return OneStep(
        activation="relu",
        target="relu(z)",
        noise=0.1,
        width_per_dim=1.3,
        samples_per_dim=2.0,
        ridge=0.05,
        step=MaximalStep(rate=1.5),
    )


def _panel(
    axes: Axes, bench: Bench, name: str, base: OneStep, samples: np.ndarray, seed: int, *, dim: int, trials: int
) -> None:
    at_dim = f"$d = {dim}$"
    result = bench.compare(
        name,
        base,
        {"samples_per_dim": samples},
        meaning="the trained network beside its exact limit",
        judged=("test_error", "train_error"),
        dim=dim,
        trials=trials,
        seed=seed,
    )
    fine = np.linspace(samples[0], samples[-1], 81)
    grid = {"samples_per_dim": fine}
    bare = bench.predict(f"{name}-limit", base, grid)
    exact = bench.predict(f"{name}-exact", base, grid, dim=dim)
    isotropic = bench.predict(f"{name}-isotropic", base, grid, theory="isotropic", dim=dim)
    limit_line(axes, fine, exact["test_error"], BLUE, f"exact theory, {at_dim}")
    limit_line(
        axes,
        fine,
        bare["test_error"],
        BLUE,
        r"exact theory, $d \to \infty$",
        linestyle=(0, (1, 1.2)),
        linewidth=1.1,
    )
    limit_line(axes, fine, isotropic["test_error"], VERMILION, f"isotropic map, {at_dim}", linestyle=(0, (5, 2)))
    experiment_points(axes, samples, result, "test_error", BLACK, "o", rf"network, {at_dim}, mean $\pm$ 1 s.e.")
    axes.set_xlabel("fresh samples per dimension,  $\\alpha = n/d$")
    axes.set_ylabel("test error")
    _judge_isotropic(bench, name, base, result, dim)


def _judge_isotropic(bench: Bench, name: str, base: OneStep, result: xarray.Dataset, dim: int) -> None:
    """Say how far the isotropic theory is from the network, in standard errors, beside the exact one."""
    from giantstep.agreement import chance_line, normal_score
    from giantstep.study import predict

    samples = result["samples_per_dim"].values
    other = predict(base, samples_per_dim=samples, theory="isotropic", dim=dim)["test_error"].values
    measured = result.sel(source="experiment")
    gap = measured["test_error"].values - other
    z = normal_score(gap / measured["test_error_stderr"].values, float(result.attrs["trials"]) - 1)
    worst = int(np.argmax(np.abs(z)))
    bench.check(
        f"largest |z| of the isotropic theory, {name}",
        abs(float(z[worst])),
        f"at n/d = {samples[worst]:g} it is off by {abs(gap[worst]) / other[worst]:.1%}; "
        "the network rules it out beyond the line",
        line=None if bench.quick else round(chance_line(len(samples)), 2),
        above=True,
    )


def large_batch(bench: Bench) -> Figure:
    """Draw two networks after one population-gradient step, with both theories."""
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    sizes = {"dim": bench.sized(300, 1000), "trials": bench.sized(40, 24)}
    _panel(axes[0], bench, "tanh", tanh_scenario(), SAMPLES, SEED, **sizes)
    _panel(axes[1], bench, "relu", relu_scenario(), SAMPLES + 0.5, SEED + 1, **sizes)
    affine = bench.results["relu-exact"]["affine_error"]
    level(axes[1], float(affine[0]), "best affine predictor", at=1.0)
    for panel in axes:
        panel.legend(loc="upper right")
    letter(axes[0], "a", r"tanh network, $g = \sin$, $\eta = 3$")
    letter(axes[1], "b", r"ReLU network, noisy ReLU target, $\eta = 1.5$")
    bench.notes.append(
        "The theories are drawn with their finite-size correction at the d of the network; "
        "the dotted line is the limit itself."
    )
    return figure


# -- learning curves after a finite batch --------------------------------------------------------------------

CURVE_SAMPLES = np.array([0.2, 0.9, 1.6, 2.3, 3.0])
CURVE_BATCH = 20.0
"""The samples n/d and the batch n0/d of the paper's notebook."""


def curve_scenarios() -> dict[str, OneStep]:
    """Return the networks of the learning curves: the one of the paper's notebook, and a ReLU network."""
    return {
        "tanh": tanh_scenario().replace(step__batch_per_dim=CURVE_BATCH),
        "relu": relu_scenario().replace(step__batch_per_dim=CURVE_BATCH),
    }


def learning_curves(bench: Bench) -> Figure:
    """Draw two learning curves after a step on a finite batch, with both theories."""
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    sizes = {"dim": bench.sized(200, 800), "trials": bench.sized(60, 80)}
    for place, (name, base) in enumerate(curve_scenarios().items()):
        samples = CURVE_SAMPLES + (0.3 if name == "relu" else 0.0)
        _panel(axes[place], bench, name, base, samples, SEED + 2 + place, **sizes)
        axes[place].legend(loc="upper right")
    letter(axes[0], "a", r"tanh network, $g = \mathrm{sin}$, $\eta = 3$, $n_0 = 20\,d$")
    letter(axes[1], "b", r"ReLU network, noisy ReLU target, $\eta = 1.5$, $n_0 = 20\,d$")
    return figure


RECIPES = (
    Recipe(
        name="large-batch",
        title="The network after one population-gradient step: exact limit and isotropic map",
        paper="cui2024asymptotics",
        description=(
            "Test error against n/d for (a) tanh on a sine and (b) ReLU on a noisy ReLU: the exact limit, "
            "the published isotropic map of the step, and the real network, which tells them apart."
        ),
        parameters=(
            "(a) eta = 3, p/d = 1, ridge 0.1; (b) eta = 1.5, p/d = 1.3, ridge 0.05, noise 0.1; n0/d = inf, "
            "d = 1000. Seeds 2402 and 2403."
        ),
        seconds_quick=15,
        seconds_full=60,
        make=large_batch,
    ),
    Recipe(
        name="learning-curves",
        title="Learning curves after a step on a batch of 20 d samples",
        paper="cui2024asymptotics",
        description=(
            "Test error against n/d for (a) the tanh network of the paper's notebook and (b) a ReLU network: exact "
            "limit, published isotropic map, and the real network."
        ),
        parameters=(
            "(a) g = sin, eta = 3, p/d = 1, ridge 0.1; (b) noisy ReLU target, eta = 1.5, p/d = 1.3, ridge 0.05, "
            "noise 0.1; n0/d = 20, d = 800. Seeds 2404 and 2405."
        ),
        seconds_quick=25,
        seconds_full=400,
        make=learning_curves,
    ),
)
