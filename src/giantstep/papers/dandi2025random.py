"""Dandi et al., AISTATS 2025: spectrum and generalisation of learned features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep import NoStep, OneStep, PlantedSpike, Vocabulary
from giantstep.core.result.layers import judged_side
from giantstep.papers.cui2024asymptotics import NETWORKS
from giantstep.papers.recipe import (
    FigureStudy,
    Recipe,
    Results,
    Size,
    Studies,
    comparison,
    limit,
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
    level,
    limit_line,
    note,
    sides,
    stem,
)
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    MARKERS,
    VERMILION,
    new_figure,
    plain_log_ticks,
)
from giantstep.tools.figures.views import histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EIGENVALUE = r"eigenvalue of $\Phi^\top\Phi/p$,  $x$"


def cells_towards_zero(first: float, fine: int, width: float, count: int) -> np.ndarray:
    """Return where a law is taken: even cells, and finer ones towards zero, where the
    density diverges.
    """
    cells = (np.arange(count) + 0.5) * width
    return np.concatenate([np.geomspace(first, cells[0], fine)[:-1], cells])


# -- spectrum and test error -----------------------------------------------------------

SEED = 2025
RATE = 3.3
VOCABULARIES = {
    1: Vocabulary([1.0]),
    2: Vocabulary([1.0, -1.0], [0.9, 0.1]),
    4: Vocabulary([1.0, -0.5, 1.5, -2.0], [0.7, 0.1, 0.1, 0.1]),
}
SAMPLES_PER_WIDTH = np.linspace(0.3, 2.5, 15)
"""n/p of the second panel."""
SPECTRUM_POINTS = cells_towards_zero(1e-4, 10, 3.6 / 240, 240)
HALF_ALIGNED = PlantedSpike(strength=1.0, bulk=1.0, alignment=0.5)


def bulk_scenario() -> OneStep:
    """Return the network of the spectra: u = eta c1 g1 planted, as the paper's first
    figure has it.
    """
    base = OneStep(
        activation="relu", target="sin(z)", width_per_dim=2.0, samples_per_dim=1.6, ridge=0.01,
        second_layer=VOCABULARIES[1],
    )  # fmt: skip
    c1 = base.activation.hermite(1)[1]
    g1 = base.target.hermite(1)[1]
    return base.replace(step=PlantedSpike(strength=float(RATE * c1 * g1)))


def vocabulary_scenario(k: int) -> OneStep:
    """Return the network of the second panel with a vocabulary of k values."""
    return OneStep(
        activation="relu", target="tanh(z)", width_per_dim=1.5, samples_per_dim=1.5, ridge=0.01,
        second_layer=VOCABULARIES[k], step=HALF_ALIGNED,
    )  # fmt: skip


def relu_scenario() -> OneStep:
    """Return the network of the third panel."""
    return OneStep(
        activation="relu", target="relu(z)", width_per_dim=4.0, samples_per_dim=4.0, ridge=0.1,
        second_layer=VOCABULARIES[1], step=HALF_ALIGNED,
    )  # fmt: skip


def learned_features(size: Size) -> Studies:
    """Return the studies of the paper's three figures."""
    base = bulk_scenario()
    strengths = [0.0, base.numeric_fields()["step.strength"][0]]
    studies = {
        "bulk": comparison(
            base, {"step.strength": strengths}, "spectrum", x=SPECTRUM_POINTS, judged=("cdf",),
            meaning="distribution of the eigenvalues of Phi^T Phi/p, spike left out",
            dim=size(256, 1024), trials=size(24, 10), seed=SEED,
        )
    }  # fmt: skip
    for k in VOCABULARIES:
        base = vocabulary_scenario(k)
        ratios = SAMPLES_PER_WIDTH[:: size(2, 1)]
        fine = np.linspace(SAMPLES_PER_WIDTH[0], SAMPLES_PER_WIDTH[-1], 111)
        studies[f"vocabulary-{k}"] = comparison(
            base, {"samples_per_dim": 1.5 * ratios}, meaning=f"test error against n/p with a vocabulary of {k}",
            judged=("test_error",), dim=size(256, 1365), trials=size(72, 24), seed=SEED + k,
        )  # fmt: skip
        studies[f"vocabulary-{k}-limit"] = limit(base, {"samples_per_dim": 1.5 * fine})
    base = relu_scenario()
    fine = np.linspace(0.3, 2.4, 71)
    studies["relu"] = comparison(
        base, {"samples_per_dim": 4.0 * np.linspace(0.3, 2.4, 7)}, meaning="test error against n/p, ReLU target",
        judged=("test_error",), dim=256, trials=size(24, 40), seed=SEED,
    )  # fmt: skip
    studies["relu-limit"] = limit(base, {"samples_per_dim": 4.0 * fine})
    studies["relu-untrained"] = limit(
        base.replace(step=NoStep()), {"samples_per_dim": 4.0 * fine}
    )
    return studies


def _draw_learned_features(results: Results) -> Figure:
    """Draw the three figures of the paper as three panels."""
    figure, axes = new_figure(1, 3, width=13.2, height=3.9)
    _bulk_panel(axes[0], results["bulk"])
    handles: list[Any] = []
    for k, colour, marker in zip(VOCABULARIES, (BLUE, VERMILION, GREEN), MARKERS):
        _error_curve(axes[1], results, f"vocabulary-{k}", 1.5, colour, marker)
        handles.append(key(colour, marker, f"$k = {k}$"))
    axes[1].legend(
        handles=[*handles, *engines(axes[1], r"experiment $\pm$ 1 s.e.")],
        loc="upper right",
    )
    _relu_panel(axes[2], results)
    titles = (
        "spectrum of the features, ReLU, $g = {\\rm sin}$",
        "vocabularies, ReLU, $g = {\\rm tanh}$",
    )
    letters(axes, *titles, "ReLU network, ReLU target")
    return figure


def _error_curve(
    axes: Axes, results: Results, name: str, width: float, colour: str, marker: str
) -> None:
    line = results[f"{name}-limit"]
    result = results[name]
    limit_line(axes, line["samples_per_dim"] / width, line["test_error"], colour)
    experiment_points(
        axes, result["samples_per_dim"] / width, result, "test_error", colour, marker
    )
    axes.set(xlabel="samples per neuron,  $n/p$", ylabel="test error")


def _bulk_panel(axes: Axes, result: xarray.Dataset) -> None:
    x = result["x"].values
    strength = float(result["step.strength"][1])
    names = "before training, $u = 0$", f"after training, $u = {strength:.4f}$"
    theory, measured = sides(result)
    laws, bulks = (
        (side["density"] / (1 - side["atom"])).values for side in (theory, measured)
    )
    for index, (name, colour) in enumerate(zip(names, (BLUE, VERMILION))):
        edges, heights = histogram(x, bulks[index], 60)
        bars(axes, edges, np.maximum(heights, 1e-9), colour)
        law = laws[index]
        edge = float(theory["upper_edge"][index])
        limit_line(
            axes,
            np.append(x[law > 0], edge),
            np.append(law[law > 0], 1e-9),
            colour,
            name,
        )
        axes.axvline(edge, color=colour, linewidth=0.9, linestyle=DOTTED, zorder=1)
        place = {
            "xycoords": axes.get_xaxis_transform(),
            "rotation": 90,
            "ha": "left",
            "va": "top",
        }
        note(axes, f"edge {edge:.3f}", (edge, 0.77), (4, 0), colour, **place)
    axes.set(yscale="log", ylim=(2.5e-3, 6), xlim=(-0.06, 3.6))
    axes.set(xlabel=EIGENVALUE, ylabel="density of the nonzero eigenvalues")
    axes.legend(
        handles=[*axes.get_legend_handles_labels()[0], bars_key("experiment")],
        loc="upper right",
    )


def _relu_panel(axes: Axes, results: Results) -> None:
    line = results["relu-limit"]
    untrained = results["relu-untrained"]
    x = untrained["samples_per_dim"] / 4.0
    limit_line(axes, x, untrained["test_error"], GREY, linestyle=DASHED, linewidth=1.2)
    _error_curve(axes, results, "relu", 4.0, BLUE, "o")
    affine = float(line["affine_error"][0])
    linear = (
        float(line["null_error"][0]) - float(relu_scenario().target.hermite(1)[1]) ** 2
    )
    level(axes, affine, "best affine predictor", at=0.02, above=False)
    level(axes, linear, "best linear predictor", above=True)
    axes.set_ylim(min(0.06, 0.7 * affine), 1.1 * linear)
    handles = [
        key(BLUE, "o", "spiked features, $u = 1$"),
        key(GREY, "", "random features (limit)", DASHED),
    ]
    axes.legend(handles=handles, loc="center right", bbox_to_anchor=(1.0, 0.32))


def kolmogorov(result: xarray.Dataset, law: int, spectrum: int) -> float:
    """Return the largest distance between a measured distribution and a law (0:
    untrained, 1: trained).
    """
    # of the nonzero eigenvalues
    cdf = (result["cdf"] - result["atom"]) / (1 - result["atom"])
    measured = cdf.sel(source="experiment").isel({"step.strength": spectrum})
    return float(
        np.max(
            np.abs(
                measured.values - judged_side(cdf).isel({"step.strength": law}).values
            )
        )
    )


def _learned_features_checks(results: Results) -> Iterator[Check]:
    for index, name in enumerate(("untrained", "trained")):
        yield Check(
            f"Kolmogorov distance, {name} network to its law",
            "largest distance of the distribution functions of the nonzero eigenvalues",
            kolmogorov(results["bulk"], index, index), line=results.size(0.02, 0.01),
        )  # fmt: skip
    yield Check(
        "Kolmogorov distance, trained network to the untrained law",
        "the learned features are not those of random weights",
        kolmogorov(results["bulk"], 0, 1), line=0.05, above=True,
    )  # fmt: skip


def _learned_features_notes(results: Results) -> list[str]:
    law = sides(results["bulk"])[0]
    before, after = law["outliers"].values[:, 0]
    return [
        f"Panel a leaves out the one eigenvalue that grows with p (predicted at {before:.0f} before and {after:.0f} "
        f"after training for p = {2 * results.dim('bulk')}) and the {float(law['atom'][0]):.0%} of eigenvalues that "
        "are zero because n < p."
    ]


# -- the size of the vocabulary --------------------------------------------------------

SIZES = range(1, 9)
FEWEST = 10
"""Neurons that take a value, at least, where an experiment stands beside the limit.

With few of them the rounded count is not the weight: ReLU, k = 5, d = 200, 3 neurons
instead of 3.4: limit 0.00791, limit with the rounded weights 0.00813, experiment
0.00831(8).
"""


def gaussian_vocabulary(k: int) -> Vocabulary:
    """Return the k values and weights that stand for a Gaussian: nodes of the
    Gauss-Hermite rule.

    >>> gaussian_vocabulary(3).probabilities
    (0.1666..., 0.6666..., 0.1666...)
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(k)
    return Vocabulary(
        values=nodes.tolist(), probabilities=(weights / weights.sum()).tolist()
    )


def size_scenarios() -> dict[str, OneStep]:
    """Return the two networks whose second layer is varied, with a Gaussian one."""
    relu = OneStep(
        activation="relu", target="relu(z)", width_per_dim=1.5, samples_per_dim=1.5, ridge=0.05,
        second_layer="gaussian", step=PlantedSpike(strength=1.0),
    )  # fmt: skip
    tanh = relu.replace(
        activation="tanh", target="sin(z)", noise=0.05, width_per_dim=1.2,
        step=PlantedSpike(strength=1.5, alignment=0.9),
    )  # fmt: skip
    return {"relu": relu, "tanh": tanh}


def vocabulary_size(size: Size) -> Studies:
    """Return both networks with 1 to 8 values in the second layer, and with a Gaussian
    one.
    """
    sizes = {"dim": size(200, 800), "seed": SEED + 10}

    def study(scenario: OneStep, law: str, trials: int = 24) -> FigureStudy:
        meaning = f"test error with a second layer of {law}"
        return comparison(
            scenario,
            meaning=meaning,
            judged=("test_error",),
            trials=size(40, trials),
            **sizes,
        )

    studies = {}
    for name, scenario in size_scenarios().items():
        for k in SIZES:
            law = gaussian_vocabulary(k)
            finite = scenario.replace(second_layer=law)
            many = (
                scenario.width_per_dim * sizes["dim"] * min(law.probabilities) >= FEWEST
            )
            values = f"{k} value{'s' if k > 1 else ''}"
            if many:
                studies[f"{name}-{k}"] = study(finite, values)
            else:
                studies[f"{name}-{k}"] = limit(finite, dim=sizes["dim"])
        studies[f"{name}-gaussian"] = study(
            scenario, "Gaussian values", 56 if name == "relu" else 24
        )
    return studies


def _limit_of(result: xarray.Dataset) -> float:
    return float(
        (sides(result)[0] if "source" in result.dims else result)["test_error"]
    )


def _measured(result: xarray.Dataset) -> tuple[float, float]:
    measured = result.sel(source="experiment")
    return float(measured["test_error"]), float(measured["test_error_stderr"])


def _draw_vocabulary_size(results: Results) -> Figure:
    """Draw the test error against the number of values in the second layer."""
    from matplotlib.patches import Patch
    from matplotlib.ticker import FixedLocator, NullLocator

    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, name in zip(axes, size_scenarios()):
        found = {k: results[f"{name}-{k}"] for k in SIZES}
        gaussian = results[f"{name}-gaussian"]
        mean, error = _measured(gaussian)
        panel.axhspan(
            mean - error,
            mean + error,
            color=VERMILION,
            alpha=0.18,
            linewidth=0,
            zorder=0,
        )
        panel.axhline(_limit_of(gaussian), color=VERMILION, linestyle=DASHED, zorder=1)
        limits = [_limit_of(result) for result in found.values()]
        panel.plot(
            SIZES,
            limits,
            color=BLUE,
            marker="D",
            markersize=3.5,
            linewidth=1.0,
            zorder=2,
        )
        dots = np.array(
            [
                (k, *_measured(result))
                for k, result in found.items()
                if "source" in result.dims
            ]
        )
        k, means, errors = dots.T
        error_points(
            panel, k, means, errors, BLACK, markerfacecolor="none", markersize=6.5
        )
        panel.set(
            xlim=(0.6, SIZES[-1] + 0.4),
            xlabel="values of the second layer,  $k$",
            ylabel="test error",
        )
        panel.set_yscale("log")
        note(panel, "random\nfeatures", (1.0, limits[0]), (9, 0), GREY, ha="left")
    at_dim = f"theory, $d = {results.dim('relu-gaussian')}$"
    handles = [
        key(BLUE, "D", f"$k$ values, {at_dim}"),
        key(BLACK, "o", r"$k$ values, experiment $\pm$ 1 s.e.", ""),
        key(VERMILION, "", f"Gaussian, {at_dim}", DASHED),
        Patch(
            color=VERMILION,
            alpha=0.18,
            linewidth=0,
            label=r"Gaussian, experiment $\pm$ 1 s.e.",
        ),
    ]
    handles[0].set(markerfacecolor=BLUE, markersize=3.5)
    axes[0].legend(handles=handles, loc="upper right")
    axes[1].set_ylim(0.138, 0.36)
    axes[1].yaxis.set_major_locator(FixedLocator([0.14, 0.16, 0.2, 0.25, 0.3, 0.35]))
    axes[1].yaxis.set_major_formatter("{x:g}")
    axes[1].yaxis.set_minor_locator(NullLocator())
    letters(
        axes,
        r"ReLU network, ReLU target, $u = \zeta$",
        r"tanh network, $g = \mathrm{sin}$, $u = 1.5\,\zeta$",
    )
    return figure


def _vocabulary_size_checks(results: Results) -> Iterator[Check]:
    for name in size_scenarios():
        gaussian = _limit_of(results[f"{name}-gaussian"])
        two, most = (
            abs(_limit_of(results[f"{name}-{k}"]) / gaussian - 1)
            for k in (2, SIZES[-1])
        )
        yield Check(
            f"test error at k = {SIZES[-1]} over that of a Gaussian second layer, minus 1, {name}",
            f"limits at d = {results.dim('relu-gaussian')}; at k = 2 it is {two:.3g}", most, line=0.05,
        )  # fmt: skip


# -- the edge against the strength of the spike ----------------------------------------

SPECTRA_SEED = 2410
ACTIVATIONS = {"relu": "ReLU", "erf": "erf", "tanh": "tanh"}
STRENGTHS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0]
FEW_STRENGTHS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]


def edge_scenario(activation: str) -> OneStep:
    """Return features with a planted spike, n/p = 0.8 and p/d = 2."""
    return OneStep(
        activation=activation, target="sin(z)", width_per_dim=2.0, samples_per_dim=1.6, ridge=0.01,
        second_layer=VOCABULARIES[1], step=PlantedSpike(strength=1.0),
    )  # fmt: skip


def spectral_edge(size: Size) -> Studies:
    """Return the spectrum of three activations against the strength of the spike."""
    return {
        activation: comparison(
            edge_scenario(activation), {"step.strength": size(FEW_STRENGTHS, STRENGTHS)}, "spectrum", x=[1.0],
            meaning="largest eigenvalue of the bulk", dim=size(150, 500), trials=size(6, 8), seed=SPECTRA_SEED,
        )
        for activation in ACTIVATIONS
    }  # fmt: skip


def _draw_spectral_edge(results: Results) -> Figure:
    figure, (axes,) = new_figure(1, 1, width=5.6, height=4.1)
    handles: list[Any] = []
    for (activation, name), colour, marker in zip(
        ACTIVATIONS.items(), (BLUE, GREEN, VERMILION), MARKERS
    ):
        result = results[activation]
        strengths = result["step.strength"].values
        limit_line(
            axes,
            *_through(strengths, result["upper_edge"].sel(source="limit").values),
            colour,
        )
        experiment_points(axes, strengths, result, "upper_edge", colour, marker)
        handles.append(key(colour, marker, name))
    axes.set(
        xlabel="strength of the spike,  $u$",
        ylabel=r"upper edge of the bulk of $\Phi^\top\Phi/p$",
    )
    axes.set_ylim(0.6, 5.4)
    text = rf"largest eigenvalue of the bulk, $d = {results.dim('relu')}$"
    handles += engines(axes, text, line=r"edge, $d \to \infty$")
    axes.legend(handles=handles, loc="upper left", ncols=2, columnspacing=1.2)
    return figure


def _through(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth curve through computed points from zero on; the edge is even
    in u.
    """
    from scipy.interpolate import Akima1DInterpolator

    x = x[np.isfinite(y)]
    y = y[np.isfinite(y)]
    fine = np.linspace(x[0], x[-1], 121)
    both = np.concatenate([-x[:0:-1], x]), np.concatenate([y[:0:-1], y])
    return fine, np.asarray(Akima1DInterpolator(*both)(fine))


def _spectral_edge_checks(results: Results) -> Iterator[Check]:
    for activation, name in ACTIVATIONS.items():
        dim = results.dim(activation)
        edge, largest = (
            side["upper_edge"].values for side in sides(results[activation])
        )
        yield Check(
            f"largest relative distance to the edge, {name}",
            f"of the mean largest eigenvalue of the bulk; the line is 5 d^(-2/3) at d = {dim}",
            np.max(np.abs(largest / edge - 1)), line=round(5 * dim ** (-2 / 3), 3),
        )  # fmt: skip
        grows = name == "ReLU"
        if grows:
            why = "the edge grows with u for an unbounded activation"
        else:
            why = "it shrinks where the activation saturates"
        ratio = edge[-1] / edge[0]
        yield Check(
            f"edge at the largest u over the edge at u = 0, {name}",
            why,
            ratio,
            line=1.0,
            above=grows,
        )


# -- eigenvalues outside the bulk ------------------------------------------------------


def vocabulary_outliers_scenario() -> OneStep:
    """Return ReLU features with a vocabulary of four: four directions of means, three
    of them seen.
    """
    return vocabulary_scenario(4).replace(samples_per_dim=3.0)


def bounded_outlier_scenario() -> OneStep:
    """Return features with an eigenvalue outside the bulk that does not grow with the
    dimension.
    """
    return OneStep(
        activation="tanh(2*(z - 2))", target="sin(z)", width_per_dim=6.0, samples_per_dim=60.0, ridge=0.01,
        second_layer=VOCABULARIES[1], step=PlantedSpike(strength=0.7),
    )  # fmt: skip


def outliers(size: Size) -> Studies:
    """Return two spectra with outliers."""

    def study(scenario: OneStep, x: np.ndarray, dim: int) -> FigureStudy:
        meaning = "distribution of the eigenvalues of Phi^T Phi/p"
        sizes: dict[str, Any] = {"dim": dim, "trials": 8, "seed": SPECTRA_SEED}
        return comparison(
            scenario, None, "spectrum", x=x, meaning=meaning, judged=("cdf",), **sizes
        )

    return {
        "vocabulary": study(
            vocabulary_outliers_scenario(),
            np.geomspace(0.015, 6.0, 130),
            size(500, 1500),
        ),
        "bounded": study(
            bounded_outlier_scenario(), np.geomspace(0.15, 13.0, 160), size(100, 240)
        ),
    }


def _draw_outliers(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.6, height=4.0)
    for panel, name in zip(axes, results):
        dim = results.dim(name)
        _outlier_panel(
            panel, results[name], dim, 4.0 * dim if name == "vocabulary" else 22.0
        )
    text = r"$\sigma(x) = \mathrm{tanh}(2(x - 2))$: an outlier of order 1"
    letters(axes, "ReLU, vocabulary of 4: spikes of order $d$", text)
    return figure


def _outlier_panel(axes: Axes, result: xarray.Dataset, dim: int, reach: float) -> None:
    x, (law, measured) = result["x"].values, sides(result)
    # on a log axis areas are masses where the density is per unit of log x
    edges, heights = histogram(np.log(x), measured["density"].values * x, 48)
    bars(axes, np.exp(edges), heights)
    density = law["density"].values * x
    low = float(law["lower_edge"])
    high = float(law["upper_edge"])
    inside = (x > low) & (x < high)
    inner = np.where(density > 1e-6, density, 0.0)[inside]
    limit_line(axes, [low, *x[inside], high], [0.0, *inner, 0.0], BLUE)
    top = 1.12 * float(np.max(density))
    _mark_outliers(axes, law, measured, top, reach)
    axes.set(xscale="log", ylim=(0, top), xlim=(0.8 * low, reach))
    plain_log_ticks(axes.xaxis)
    axes.set(xlabel=EIGENVALUE, ylabel=r"density per unit of $\log x$,  $x\,\rho(x)$")
    handles: list[Any] = [
        key(BLUE, "", "bulk, theory"),
        bars_key(f"bulk, experiment, $d = {dim}$"),
        key(VERMILION, "", "outlier, theory"),
        key(GREY, "o", "outlier, experiment (s.e.)", ""),
    ]
    axes.legend(handles=handles, loc="upper right")


def _mark_outliers(
    axes: Axes, law: xarray.Dataset, measured: xarray.Dataset, top: float, reach: float
) -> None:
    """Draw a stem at each predicted outlier with the measured one on it; say where
    those out of sight are.
    """
    values = measured["outliers"].values
    errors = measured["outliers_stderr"].values
    for index, predicted in enumerate(law["outliers"].values):
        if np.isnan(predicted):
            break
        text = f"{predicted:{'.0f' if predicted > 1000 else '.4g'}}\n({with_error(values[index], errors[index])})"
        if predicted > reach:
            arrow = {
                "arrowprops": {"arrowstyle": "->", "color": VERMILION},
                "xycoords": "axes fraction",
            }
            note(
                axes,
                f"spike at {text}",
                (1.0, 0.6),
                (-34, 0),
                VERMILION,
                ha="right",
                **arrow,
            )
            continue
        height = top * (0.45 if index % 2 else 0.28)
        stem(axes, predicted, height, (values[index], errors[index]), VERMILION, GREY)
        close = predicted < 4 * float(law["upper_edge"])
        if close:
            shift = (8, 0)
            place = ("left", "center")
        else:
            shift = (0, 6)
            place = ("center", "bottom")
        note(
            axes, text, (predicted, height), shift, VERMILION, ha=place[0], va=place[1]
        )


def with_error(value: float, error: float) -> str:
    """Return a number with its standard error in the last digits.

    >>> with_error(19.786, 0.071), with_error(831.2, 21.3)
    ('19.79(7)', '831(21)')
    """
    digits = max(0, -int(np.floor(np.log10(error)))) if error > 0 else 3
    return f"{value:.{digits}f}({error * 10**digits:.0f})"


def _outlier_checks(results: Results) -> Iterator[Check]:
    for name, result in results.items():
        law, measured = sides(result)
        errors = measured["outliers_stderr"].values
        pairs = zip(law["outliers"].values, measured["outliers"].values, errors)
        for index, (predicted, value, error) in enumerate(pairs):
            if np.isfinite(predicted):
                z = abs(value - predicted) / error
                meaning = f"predicted {predicted:.6g}, measured {with_error(value, error)}, |z| = {z:.1f}"
                gap = abs(value / predicted - 1)
                yield Check(
                    f"relative gap of outlier {index + 1}, {name}",
                    meaning,
                    gap,
                    line=0.04,
                )


# -- the spectrum after a finite batch -------------------------------------------------

BATCH_POINTS = cells_towards_zero(1e-3, 12, 0.08, 110)


def finite_batch_spectrum(size: Size) -> Studies:
    """Return the spectrum of the ReLU network after a step on a small batch, exact and
    isotropic.
    """
    base = NETWORKS["relu-tanh"].replace(step__batch_per_dim=0.5)
    dim = size(300, 1000)
    return {
        "spectrum": comparison(
            base, None, "spectrum", x=BATCH_POINTS, dim=dim, trials=16, seed=2026, judged=("cdf",),
            meaning="distribution of the eigenvalues of Phi^T Phi/p, spikes left out",
        ),
        "spectrum-isotropic": limit(base, None, "spectrum", x=BATCH_POINTS, theory="isotropic", dim=dim),
    }  # fmt: skip


def _draw_finite_batch_spectrum(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    result = results["spectrum"]
    isotropic = results["spectrum-isotropic"]
    exact, measured = sides(result)
    x = result["x"].values
    edges, heights = histogram(x, measured["density"].values, 60)
    bars(axes[0], edges, np.maximum(heights, 1e-9))
    for law, colour, style, name in (
        (exact, BLUE, "-", "exact law"),
        (isotropic, VERMILION, DASHED, "isotropic law"),
    ):
        density = law["density"].values
        edge = float(law["upper_edge"])
        curve = np.append(x[density > 0], edge), np.append(density[density > 0], 1e-9)
        limit_line(axes[0], *curve, colour, f"{name}, edge {edge:.3f}", linestyle=style)
    axes[0].set(yscale="log", ylim=(1e-3, 20), ylabel="density")
    handles = [
        *axes[0].get_legend_handles_labels()[0],
        bars_key(f"network, $d = {results.dim('spectrum')}$"),
    ]
    axes[0].legend(handles=handles, loc="upper right")
    gap = (measured["cdf"] - exact["cdf"]).values
    error = measured["cdf_stderr"].values
    axes[1].axhline(0.0, color=BLUE, zorder=2, label="exact law")
    limit_line(
        axes[1],
        x,
        (isotropic["cdf"] - exact["cdf"]).values,
        VERMILION,
        "isotropic law",
        linestyle=DASHED,
    )
    axes[1].fill_between(
        x, gap - 3 * error, gap + 3 * error, color="0.8", linewidth=0, zorder=1
    )
    axes[1].plot(
        x,
        gap,
        color=BLACK,
        linewidth=1.0,
        zorder=3,
        label=r"network, $\pm$ 3 s.e. (grey)",
    )
    axes[1].set_ylabel("distribution function minus exact law")
    axes[1].legend(loc="best")
    for panel in axes:
        panel.set(xlim=(-0.1, x[-1]), xlabel=EIGENVALUE)
    title = r"ReLU network, $g = \mathrm{tanh}$, $\eta = 2$, $n_0 = d/2$"
    letters(axes, title, "distance of the distribution functions")
    return figure


def _finite_batch_spectrum_checks(results: Results) -> Iterator[Check]:
    exact, experiment = sides(results["spectrum"])
    laws = exact, results["spectrum-isotropic"]
    measured = experiment["cdf"].values
    near, far = (float(np.max(np.abs(measured - law["cdf"].values))) for law in laws)
    yield Check(
        "Kolmogorov distance to the exact law",
        "of the mean measured distribution",
        near,
        line=0.01,
    )
    yield Check(
        "Kolmogorov distance to the isotropic law, over that to the exact one",
        f"the isotropic law is {far:.4f} away", far / near, line=2.0, above=True,
    )  # fmt: skip


RECIPES = (
    Recipe(
        "learned-features",
        "Spectrum and test error of features after one large gradient step",
        "(a) bulk of the feature covariance before and after training, theory over the histogram; (b) test error "
        "against n/p for second layers with 1, 2 and 4 values; (c) ReLU on a ReLU target.",
        learned_features,
        _draw_learned_features,
        _learned_features_checks,
        notes=_learned_features_notes,
        remark="(a) u = eta c1 g1 with eta = 3.3.",
        seconds=45,
    ),
    Recipe(
        "vocabulary-size",
        "How many values does a second layer need? From a vocabulary to a Gaussian",
        "Test error against the number k of values of the second layer, placed like a Gauss-Hermite rule, beside a "
        "Gaussian second layer: (a) ReLU on ReLU, (b) tanh on a sine.",
        vocabulary_size,
        _draw_vocabulary_size,
        _vocabulary_size_checks,
        notes=(
            "The k values and their weights are the Gauss-Hermite rule of k nodes; k = 1 is the single value 0, which "
            "leaves random features. Odd k keep neurons without a spike.",
        ),
        seconds=25,
    ),
    Recipe(
        "finite-batch-spectrum",
        "Spectrum of the features after a step on a finite batch",
        "(a) density of the eigenvalues of the feature covariance: network, exact law, isotropic law; (b) their "
        "distribution functions, the exact one subtracted.",
        finite_batch_spectrum,
        _draw_finite_batch_spectrum,
        _finite_batch_spectrum_checks,
        notes=(
            "The two spikes are among the p eigenvalues and left out of the bulk: both distribution functions end at "
            "1 - 2/p.",
        ),
        seconds=12,
    ),
    Recipe(
        "spectral-edge",
        "Upper edge of the bulk against the strength of the spike",
        "The edge grows with u for ReLU and shrinks for erf and tanh, which saturate; largest eigenvalues.",
        spectral_edge,
        _draw_spectral_edge,
        _spectral_edge_checks,
        notes=(
            "The largest eigenvalue of the bulk tends to the edge slowly, in powers of d^(-2/3); error bars are one "
            "standard error of its mean. The edge is computed at the strengths of the dots and interpolated between "
            "them. Strong spikes leave many inputs with features that hardly vary: at u = 4 about a tenth of the "
            "eigenvalues are below a ten millionth of the edge.",
        ),
        seconds=30,
    ),
    Recipe(
        "outliers",
        "Spectra with their outliers",
        "(a) a vocabulary of four makes spikes of order d, one of them barely above the bulk; (b) an activation with a "
        "strong mean makes an outlier of order 1 beside the spike.",
        outliers,
        _draw_outliers,
        _outlier_checks,
        notes=(
            "Next to each outlier: predicted, and measured in brackets. The lower part of the bulk in b is reached "
            "slowly, with a gap of its distribution function of 5.3% at d = 100 and 2.3% at d = 240: terms of order "
            "1/d.",
        ),
        seconds=15,
    ),
)
