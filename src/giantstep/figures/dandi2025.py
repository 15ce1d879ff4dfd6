"""Dandi et al., AISTATS 2025: spectrum and generalisation of learned features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep.figures.panels import engines, experiment_points, key, letter, level, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, VERMILION, new_figure
from giantstep.figures.views import histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.one_step.scenario import OneStep

SEED = 2025
RATE = 3.3
VOCABULARIES = {
    1: ([1.0], [1.0]),
    2: ([1.0, -1.0], [0.9, 0.1]),
    4: ([1.0, -0.5, 1.5, -2.0], [0.7, 0.1, 0.1, 0.1]),
}
SAMPLES_PER_WIDTH = np.linspace(0.3, 2.5, 15)
"""n/p of the second panel."""


# -- what is studied -----------------------------------------------------------------------------------------


def bulk_scenario() -> OneStep:
    """Return the network of the spectra: u = eta c1 g1 planted, as the paper's first figure has it."""
    from giantstep import NoStep, OneStep, PlantedSpike

    scenario = OneStep(
        activation="relu", target="sin(z)", width_per_dim=2.0, samples_per_dim=1.6, ridge=0.01, step=NoStep()
    )
    c1, g1 = scenario.activation.hermite(1)[1], scenario.target.hermite(1)[1]
    return scenario.replace(step=PlantedSpike(strength=float(RATE * c1 * g1)))


def spectrum_points(top: float) -> np.ndarray:
    """Return where the law is taken: even cells, and finer ones towards zero, where the density diverges."""
    cells = (np.arange(240) + 0.5) * (top / 240)
    return np.concatenate([np.geomspace(1e-4, cells[0], 10)[:-1], cells])


def vocabulary_scenario(k: int) -> OneStep:
    """Return the network of the second panel with a vocabulary of k values."""
    from giantstep import OneStep, PlantedSpike, Vocabulary

    values, probabilities = VOCABULARIES[k]
    return OneStep(
        activation="relu",
        target="tanh(z)",
        width_per_dim=1.5,
        samples_per_dim=1.5,
        ridge=0.01,
        second_layer=Vocabulary(values=values, probabilities=probabilities),
        step=PlantedSpike(strength=1.0, bulk=1.0, alignment=0.5),
    )


def relu_scenario() -> OneStep:
    """Return the network of the third panel."""
    from giantstep import OneStep, PlantedSpike

    return OneStep(
        activation="relu",
        target="relu(z)",
        width_per_dim=4.0,
        samples_per_dim=4.0,
        ridge=0.1,
        step=PlantedSpike(strength=1.0, bulk=1.0, alignment=0.5),
    )


# -- panels --------------------------------------------------------------------------------------------------


def nonzero_cdf(result: xarray.Dataset) -> xarray.DataArray:
    """Return the distribution function of the nonzero eigenvalues."""
    return (result["cdf"] - result["atom"]) / (1 - result["atom"])


def kolmogorov(result: xarray.Dataset, law: int, spectrum: int) -> float:
    """Return the largest distance between a measured distribution and a law (0: untrained, 1: trained)."""
    cdf = nonzero_cdf(result)
    along = "step.strength"
    measured = cdf.sel(source="experiment").isel({along: spectrum})
    return float(np.max(np.abs(measured.values - cdf.sel(source="limit").isel({along: law}).values)))


def _bulk_panel(axes: Axes, bench: Bench) -> None:
    scenario = bulk_scenario()
    strength = scenario.numeric_fields()["step.strength"][0]
    p = bench.sized(512, 2048)
    result = bench.compare(
        "bulk",
        scenario,
        {"step.strength": [0.0, strength]},
        what="spectrum",
        settings={"x": spectrum_points(3.6)},
        meaning="distribution of the eigenvalues of Phi^T Phi/p, spike left out",
        judged=("cdf",),
        dim=p // 2,
        trials=bench.sized(24, 10),
        seed=SEED,
    )
    names, tints = ("before training, $u = 0$", f"after training, $u = {strength:.4f}$"), (BLUE, VERMILION)
    x = result["x"].values
    scale = 1 - result["atom"].values
    for place, (name, colour) in enumerate(zip(names, tints)):
        density = result["density"].isel({"step.strength": place}).values / scale[:, place, None]
        edges, heights = histogram(x, density[1], 60)
        axes.stairs(np.maximum(heights, 1e-9), edges, fill=True, color=colour, alpha=0.2, linewidth=0, zorder=1)
        axes.stairs(np.maximum(heights, 1e-9), edges, color=colour, alpha=0.75, linewidth=0.7, zorder=1)
        inside = density[0] > 0
        edge = float(result["upper_edge"].sel(source="limit")[place])
        limit_line(axes, np.append(x[inside], edge), np.append(density[0][inside], 1e-9), colour, name)
        axes.axvline(edge, color=colour, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=1)
        axes.annotate(
            f"edge {edge:.3f}",
            (edge, 0.77),
            xycoords=axes.get_xaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            rotation=90,
            ha="left",
            va="top",
            fontsize=7.5,
            color=colour,
        )
    axes.set(yscale="log", ylim=(2.5e-3, 6), xlim=(-0.06, 3.6))
    axes.set_xlabel(r"eigenvalue of $\Phi^\top\Phi/p$,  $x$")
    axes.set_ylabel("density of the nonzero eigenvalues")
    _bulk_legend(axes)
    for place, name in enumerate(("untrained", "trained")):
        bench.check(
            f"Kolmogorov distance, {name} network to its law",
            kolmogorov(result, place, place),
            "largest distance of the distribution functions of the nonzero eigenvalues",
            line=bench.sized(0.02, 0.01),
        )
    bench.check(
        "Kolmogorov distance, trained network to the untrained law",
        kolmogorov(result, 0, 1),
        "the learned features are not those of random weights",
        line=0.05,
        above=True,
    )
    spikes = result["outliers"].sel(source="limit").values[:, 0]
    bench.notes.append(
        "Panel a leaves out the one eigenvalue that grows with p (predicted at "
        f"{spikes[0]:.0f} before and {spikes[1]:.0f} after training for p = {p}) "
        f"and the {1 - scale[0, 0]:.0%} of eigenvalues that are zero because n < p."
    )


def _bulk_legend(axes: Axes) -> None:
    from matplotlib.patches import Patch

    lines, labels = axes.get_legend_handles_labels()
    histograms = Patch(facecolor="0.87", edgecolor=GREY, linewidth=0.7)
    axes.legend([*lines, histograms], [*labels, "experiment"], loc="upper right")


def _vocabulary_panel(axes: Axes, bench: Bench) -> None:
    dim = bench.sized(341, 1365)
    fine = np.linspace(SAMPLES_PER_WIDTH[0], SAMPLES_PER_WIDTH[-1], 111)
    handles: list[Any] = []
    for k, colour, marker in zip(VOCABULARIES, (BLUE, VERMILION, GREEN), MARKERS):
        scenario = vocabulary_scenario(k)
        width = scenario.width_per_dim
        ratios = SAMPLES_PER_WIDTH[:: bench.sized(2, 1)]
        result = bench.compare(
            f"vocabulary-{k}",
            scenario,
            {"samples_per_dim": width * ratios},
            meaning=f"errors against n/p with a vocabulary of {k}",
            judged=("test_error", "train_error"),
            dim=dim,
            trials=bench.sized(24, 12),
            seed=SEED + k,
        )
        line = bench.predict(f"vocabulary-{k}-limit", scenario, {"samples_per_dim": width * fine})
        limit_line(axes, fine, line["test_error"], colour)
        experiment_points(axes, ratios, result, "test_error", colour, marker)
        handles.append(key(colour, marker, f"$k = {k}$"))
    axes.set_xlabel("samples per neuron,  $n/p$")
    axes.set_ylabel("test error")
    axes.legend(handles=[*handles, *engines(axes, r"experiment $\pm$ 1 s.e.")], loc="upper right")


def _relu_panel(axes: Axes, bench: Bench) -> None:
    from giantstep import NoStep

    scenario = relu_scenario()
    width, ratios = scenario.width_per_dim, np.linspace(0.3, 2.4, 7)
    fine = np.linspace(ratios[0], ratios[-1], 71)
    result = bench.compare(
        "relu",
        scenario,
        {"samples_per_dim": width * ratios},
        meaning="errors against n/p, ReLU target",
        judged=("test_error", "train_error"),
        dim=256,
        trials=bench.sized(24, 40),
        seed=SEED,
    )
    line = bench.predict("relu-limit", scenario, {"samples_per_dim": width * fine})
    untrained = bench.predict("relu-untrained", scenario.replace(step=NoStep()), {"samples_per_dim": width * fine})
    limit_line(axes, fine, untrained["test_error"], GREY, linestyle=(0, (5, 2)), linewidth=1.2)
    limit_line(axes, fine, line["test_error"], BLUE)
    experiment_points(axes, ratios, result, "test_error", BLUE)
    affine = float(line["affine_error"][0])
    linear = float(line["null_error"][0]) - float(scenario.target.hermite(1)[1]) ** 2
    level(axes, affine, "best affine predictor", at=0.02, above=False)
    level(axes, linear, "best linear predictor", above=True)
    axes.set_ylim(min(0.06, 0.7 * affine), 1.1 * linear)
    axes.set_xlabel("samples per neuron,  $n/p$")
    axes.set_ylabel("test error")
    handles = [
        key(BLUE, "o", "spiked features, $u = 1$"),
        key(GREY, "", "random features (limit)", (0, (5, 2))),
    ]
    axes.legend(handles=handles, loc="center right", bbox_to_anchor=(1.0, 0.32))


def learned_features(bench: Bench) -> Figure:
    """Draw the three figures of the paper as three panels."""
    figure, axes = new_figure(1, 3, width=13.2, height=3.9)
    _bulk_panel(axes[0], bench)
    _vocabulary_panel(axes[1], bench)
    _relu_panel(axes[2], bench)
    letter(axes[0], "a", "spectrum of the features, ReLU, $g = \\sin$")
    letter(axes[1], "b", "vocabularies, ReLU, $g = \\tanh$")
    letter(axes[2], "c", "ReLU network, ReLU target")
    return figure


# -- the size of the vocabulary ------------------------------------------------------------------------------

SIZES = range(1, 9)
FEWEST = 10
"""Neurons that take a value, at least, where an experiment stands beside the limit.

With few of them the rounded count is not the weight: ReLU, k = 5, d = 200, 3 neurons instead of 3.4: limit 0.00791,
limit with the rounded weights 0.00813, experiment 0.00831(8).
"""


def gaussian_vocabulary(k: int) -> Any:
    """Return the k values and weights that stand for a Gaussian: nodes of the Gauss-Hermite rule.

    >>> gaussian_vocabulary(3).probabilities
    (0.1666..., 0.6666..., 0.1666...)
    """
    from giantstep import Vocabulary

    nodes, weights = np.polynomial.hermite_e.hermegauss(k)
    return Vocabulary(values=nodes.tolist(), probabilities=(weights / weights.sum()).tolist())


def size_scenarios() -> dict[str, OneStep]:
    """Return the two networks whose second layer is varied, with a Gaussian one."""
    from giantstep import OneStep, PlantedSpike

    relu = OneStep(
        activation="relu",
        target="relu(z)",
        width_per_dim=1.5,
        samples_per_dim=1.5,
        ridge=0.05,
        second_layer="gaussian",
        step=PlantedSpike(strength=1.0),
    )
    tanh = OneStep(
        activation="tanh",
        target="sin(z)",
        noise=0.05,
        width_per_dim=1.2,
        samples_per_dim=1.5,
        ridge=0.05,
        second_layer="gaussian",
        step=PlantedSpike(strength=1.5, alignment=0.9),
    )
    return {"relu": relu, "tanh": tanh}


def _size_panel(axes: Axes, bench: Bench, name: str, scenario: OneStep, dim: int, trials: int) -> float:
    """Draw one network; return the limit at k = 1."""
    limits, dots = [], []
    for k in SIZES:
        law = gaussian_vocabulary(k)
        vocabulary = scenario.replace(second_layer=law)
        if scenario.width_per_dim * dim * min(law.probabilities) >= FEWEST:
            plural = "s" if k > 1 else ""
            limit, *dot = _size_point(bench, f"{name}-{k}", vocabulary, f"{k} value{plural}", dim, trials)
            dots.append((k, *dot))
        else:
            limit = float(bench.predict(f"{name}-{k}", vocabulary, {}, dim=dim)["test_error"])
        limits.append(limit)
    gaussian, mean, error = _size_point(bench, f"{name}-gaussian", scenario, "Gaussian values", dim, trials)
    axes.axhspan(mean - error, mean + error, color=VERMILION, alpha=0.18, linewidth=0, zorder=0)
    axes.axhline(gaussian, color=VERMILION, linestyle=(0, (5, 2)), zorder=1)
    axes.plot(SIZES, limits, color=BLUE, marker="D", markersize=3.5, linewidth=1.0, zorder=2)
    k_measured, means, errors = np.array(dots).T
    bars: dict[str, Any] = {"markeredgewidth": 1.2, "elinewidth": 1.2, "markersize": 6.5, "zorder": 3}
    axes.errorbar(k_measured, means, errors, linestyle="none", marker="o", color=BLACK, markerfacecolor="none", **bars)
    axes.set(xlim=(0.6, SIZES[-1] + 0.4), xlabel="values of the second layer,  $k$", ylabel="test error", yscale="log")
    bench.check(
        f"test error at k = {SIZES[-1]} over that of a Gaussian second layer, minus 1, {name}",
        abs(limits[-1] / gaussian - 1),
        f"limits at d = {dim}; at k = 2 it is {abs(limits[1] / gaussian - 1):.3g}",
        line=0.05,
    )
    return limits[0]


def _size_point(
    bench: Bench, name: str, scenario: OneStep, law: str, dim: int, trials: int
) -> tuple[float, float, float]:
    """Return the limit, the mean and its standard error with one law of the second layer."""
    result = bench.compare(
        name,
        scenario,
        {},
        meaning=f"test error with a second layer of {law}",
        judged=("test_error",),
        dim=dim,
        trials=trials,
        seed=SEED + 10,
    )
    limit, mean = result["test_error"].sel(source=["limit", "experiment"]).values.tolist()
    return limit, mean, float(result["test_error_stderr"].sel(source="experiment"))


def vocabulary_size(bench: Bench) -> Figure:
    """Draw the test error against the number of values in the second layer."""
    from matplotlib.patches import Patch
    from matplotlib.ticker import FixedLocator, NullLocator

    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    dim, trials = bench.sized(200, 800), bench.sized(40, 24)
    for panel, (name, scenario) in zip(axes, size_scenarios().items()):
        untrained = _size_panel(panel, bench, name, scenario, dim, trials)
        panel.annotate(
            "random\nfeatures",
            (1.0, untrained),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=GREY,
        )
    handles = [
        key(BLUE, "D", f"$k$ values, theory, $d = {dim}$"),
        key(BLACK, "o", r"$k$ values, experiment $\pm$ 1 s.e.", ""),
        key(VERMILION, "", f"Gaussian, theory, $d = {dim}$", (0, (5, 2))),
        Patch(color=VERMILION, alpha=0.18, linewidth=0, label=r"Gaussian, experiment $\pm$ 1 s.e."),
    ]
    handles[0].set(markerfacecolor=BLUE, markersize=3.5)
    axes[0].legend(handles=handles, loc="upper right")
    axes[1].set_ylim(0.138, 0.36)
    axes[1].yaxis.set_major_locator(FixedLocator([0.14, 0.16, 0.2, 0.25, 0.3, 0.35]))
    axes[1].yaxis.set_major_formatter("{x:g}")
    axes[1].yaxis.set_minor_locator(NullLocator())
    letter(axes[0], "a", r"ReLU network, ReLU target, $u = \zeta$")
    letter(axes[1], "b", r"tanh network, $g = \mathrm{sin}$, $u = 1.5\,\zeta$")
    bench.notes.append(
        "The k values and their weights are the Gauss-Hermite rule of k nodes; k = 1 is the single value 0, which "
        "leaves random features. Odd k keep neurons without a spike."
    )
    return figure


RECIPES = (
    Recipe(
        name="learned-features",
        title="Spectrum and test error of features after one large gradient step",
        paper="dandi2025random",
        description=(
            "(a) bulk of the feature covariance before and after training, theory over the histogram; (b) "
            "test error against n/p for second layers with 1, 2 and 4 values; (c) ReLU on a ReLU target."
        ),
        parameters=(
            "(a) ReLU, g = sin, n/p = 0.8, p/d = 2, eta = 3.3 (u = eta c1 g1 = 1.0008), p = 2048; (b) "
            "ReLU, g = tanh, ridge 0.01, alignment 0.5, p/d = 1.5, p = 2048, k = 1, 2, 4; (c) u = 1, "
            "alignment 0.5, ridge 0.1, p/d = 4, p = 1024. Seeds from 2025."
        ),
        seconds_quick=45,
        seconds_full=360,
        make=learned_features,
    ),
    Recipe(
        name="vocabulary-size",
        title="How many values does a second layer need? From a vocabulary to a Gaussian",
        paper="dandi2025random",
        description=(
            "Test error against the number k of values of the second layer, placed like a Gauss-Hermite rule, beside a "
            "Gaussian second layer: (a) ReLU on ReLU, (b) tanh on a sine."
        ),
        parameters=(
            "(a) u = zeta, p/d = n/d = 1.5, ridge 0.05, alignment 1; (b) u = 1.5 zeta, p/d = 1.2, n/d = 1.5, ridge "
            "0.05, noise 0.05, alignment 0.9; d = 800. Seed 2035."
        ),
        seconds_quick=25,
        seconds_full=300,
        make=vocabulary_size,
    ),
)
