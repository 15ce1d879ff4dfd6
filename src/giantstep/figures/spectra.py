"""What a spike does to the spectrum of the features: edges of the bulk, and eigenvalues outside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.panels import engines, experiment_points, key, letter, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLUE, GREEN, GREY, MARKERS, VERMILION, new_figure, plain_log_ticks
from giantstep.figures.views import histogram

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.one_step.scenario import OneStep

SEED = 2410
ACTIVATIONS = {"relu": "ReLU", "erf": "erf", "tanh": "tanh"}
STRENGTHS = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0]
FEW_STRENGTHS = [0.0, 1.0, 2.0, 4.0]


# -- the edge against the strength of the spike --------------------------------------------------------------


def edge_scenario(activation: str) -> OneStep:
    """Return features with a planted spike, n/p = 0.8 and p/d = 2."""
    from giantstep import OneStep, PlantedSpike

    return OneStep(
        activation=activation,
        target="sin(z)",
        width_per_dim=2.0,
        samples_per_dim=1.6,
        ridge=0.01,
        step=PlantedSpike(strength=1.0),
    )


def spectral_edge(bench: Bench) -> Figure:
    """Draw the upper edge of the bulk against the strength of the spike."""
    figure, (axes,) = new_figure(1, 1, width=5.6, height=4.1)
    strengths = bench.sized(FEW_STRENGTHS, STRENGTHS)
    dim, trials = bench.sized(150, 500), bench.sized(6, 8)
    handles: list[Any] = []
    for place, (activation, name) in enumerate(ACTIVATIONS.items()):
        colour, marker = (BLUE, GREEN, VERMILION)[place], MARKERS[place]
        result = bench.compare(
            activation,
            edge_scenario(activation),
            {"step.strength": strengths},
            what="spectrum",
            settings={"x": [1.0]},
            meaning="largest eigenvalue of the bulk",
            judged=(),
            dim=dim,
            trials=trials,
            seed=SEED,
        )
        edge = result["upper_edge"].sel(source="limit").values
        limit_line(axes, *_through(strengths, edge), colour)
        experiment_points(axes, strengths, result, "upper_edge", colour, marker)
        handles.append(key(colour, marker, name))
        _judge_edge(bench, name, result, dim)
    axes.set_xlabel("strength of the spike,  $u$")
    axes.set_ylabel(r"upper edge of the bulk of $\Phi^\top\Phi/p$")
    axes.set_ylim(0.6, 5.4)
    sides = engines(axes, rf"largest eigenvalue of the bulk, $d = {dim}$", line=r"edge, $d \to \infty$")
    axes.legend(handles=[*handles, *sides], loc="upper left", ncols=2, columnspacing=1.2)
    bench.notes.append(
        "The largest eigenvalue of the bulk tends to the edge slowly, in powers of d^(-2/3); error bars are one "
        "standard error of its mean. The edge is computed at the strengths of the dots and interpolated between them."
    )
    return figure


def _through(x: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth curve through computed points from zero on; the edge is even in u."""
    from scipy.interpolate import Akima1DInterpolator

    fine = np.linspace(x[0], x[-1], 121)
    both = np.concatenate([-np.asarray(x)[:0:-1], x]), np.concatenate([y[:0:-1], y])
    return fine, np.asarray(Akima1DInterpolator(*both)(fine))


def _judge_edge(bench: Bench, name: str, result: xarray.Dataset, dim: int) -> None:
    edge, largest = (result["upper_edge"].sel(source=side).values for side in ("limit", "experiment"))
    bench.check(
        f"largest relative distance to the edge, {name}",
        float(np.max(np.abs(largest / edge - 1))),
        f"of the mean largest eigenvalue of the bulk; the line is 5 d^(-2/3) at d = {dim}",
        line=round(5 * dim ** (-2 / 3), 3),
    )
    grows = name == "ReLU"
    bench.check(
        f"edge at the largest u over the edge at u = 0, {name}",
        float(edge[-1] / edge[0]),
        "the edge grows with u for an unbounded activation" if grows else "it shrinks where the activation saturates",
        line=1.0,
        above=grows,
    )


# -- eigenvalues outside the bulk ----------------------------------------------------------------------------


def vocabulary_outliers_scenario() -> OneStep:
    """Return ReLU features with a vocabulary of four: four directions of means, three of them seen."""
    from giantstep import OneStep, PlantedSpike, Vocabulary

    return OneStep(
        activation="relu",
        target="tanh(z)",
        width_per_dim=1.5,
        samples_per_dim=3.0,
        ridge=0.01,
        second_layer=Vocabulary(values=[1.0, -0.5, 1.5, -2.0], probabilities=[0.7, 0.1, 0.1, 0.1]),
        step=PlantedSpike(strength=1.0, alignment=0.5),
    )


def bounded_outlier_scenario() -> OneStep:
    """Return features with an eigenvalue outside the bulk that does not grow with the dimension."""
    from giantstep import OneStep, PlantedSpike

    return OneStep(
        activation="tanh(2*(z - 2))",
        target="sin(z)",
        width_per_dim=6.0,
        samples_per_dim=60.0,
        ridge=0.01,
        step=PlantedSpike(strength=0.7),
    )


def outliers(bench: Bench) -> Figure:
    """Draw two spectra with their predicted and measured outliers."""
    figure, axes = new_figure(1, 2, width=10.6, height=4.0)
    large = bench.sized(500, 1500)
    panels = (
        ("vocabulary", vocabulary_outliers_scenario(), large, np.geomspace(0.015, 6.0, 130), 4.0 * large),
        ("bounded", bounded_outlier_scenario(), bench.sized(100, 240), np.geomspace(0.15, 13.0, 160), 22.0),
    )
    for panel, (name, scenario, dim, x, reach) in zip(axes, panels):
        result = bench.compare(
            name,
            scenario,
            {},
            what="spectrum",
            settings={"x": x},
            meaning="distribution of the eigenvalues of Phi^T Phi/p",
            judged=("cdf",),
            dim=dim,
            trials=bench.sized(8, 8),
            seed=SEED,
        )
        _outlier_panel(panel, result, dim, reach)
        _judge_outliers(bench, name, result)
    bench.notes.append(
        "Next to each outlier: predicted, and measured in brackets. The lower part of the bulk in b is reached slowly, "
        "with a gap of its distribution function of 5.3% at d = 100 and 2.3% at d = 240: terms of order 1/d."
    )
    letter(axes[0], "a", "ReLU, vocabulary of 4: spikes of order $d$")
    letter(axes[1], "b", r"$\sigma(x) = \mathrm{tanh}(2(x - 2))$: an outlier of order 1")
    return figure


def _outlier_panel(axes: Axes, result: xarray.Dataset, dim: int, reach: float) -> None:
    from matplotlib.patches import Patch

    x = result["x"].values
    limit, measured = (result.sel(source=side) for side in ("limit", "experiment"))
    # on a log axis areas are masses where the density is per unit of log x
    edges, heights = histogram(np.log(x), measured["density"].values * x, 48)
    axes.stairs(heights, np.exp(edges), fill=True, color="0.87", linewidth=0, zorder=1)
    axes.stairs(heights, np.exp(edges), color=GREY, linewidth=0.7, zorder=1)
    density = limit["density"].values * x
    density = np.where(density > 1e-6, density, 0.0)
    ends = float(limit["lower_edge"]), float(limit["upper_edge"])
    inside = (x > ends[0]) & (x < ends[1])
    curve = np.concatenate([[ends[0]], x[inside], [ends[1]]]), np.concatenate([[0.0], density[inside], [0.0]])
    limit_line(axes, *curve, BLUE)
    top = 1.12 * float(np.max(density))
    _mark_outliers(axes, limit, measured, top, reach)
    axes.set(xscale="log", ylim=(0, top), xlim=(0.8 * ends[0], reach))
    plain_log_ticks(axes.xaxis)
    axes.set_xlabel(r"eigenvalue of $\Phi^\top\Phi/p$,  $x$")
    axes.set_ylabel(r"density per unit of $\log x$,  $x\,\rho(x)$")
    handles: list[Any] = [
        key(BLUE, "", "bulk, theory"),
        Patch(facecolor="0.87", edgecolor=GREY, linewidth=0.7, label=f"bulk, experiment, $d = {dim}$"),
        key(VERMILION, "", "outlier, theory"),
        key(GREY, "o", "outlier, experiment (s.e.)", ""),
    ]
    axes.legend(handles=handles, loc="upper right")


def _mark_outliers(axes: Axes, limit: xarray.Dataset, measured: xarray.Dataset, top: float, reach: float) -> None:
    """Draw a stem at each predicted outlier with the measured one on it; say where those out of sight are."""
    found, errors = measured["outliers"].values, measured["outliers_stderr"].values
    edge = float(limit["upper_edge"])
    for place, predicted in enumerate(limit["outliers"].values):
        if np.isnan(predicted):
            break
        text = f"{predicted:{'.0f' if predicted > 1000 else '.4g'}}\n({_with_error(found[place], errors[place])})"
        if predicted > reach:
            axes.annotate(
                f"spike at {text}",
                (1.0, 0.6),
                xytext=(-34, 0),
                xycoords="axes fraction",
                textcoords="offset points",
                arrowprops={"arrowstyle": "->", "color": VERMILION},
                ha="right",
                va="center",
                fontsize=7.5,
                color=VERMILION,
            )
            continue
        height = top * (0.45 if place % 2 else 0.28)
        axes.plot([predicted] * 2, [0, height], color=VERMILION, linewidth=1.3, zorder=2)
        axes.errorbar(
            [found[place]],
            [height],
            xerr=[errors[place]],
            linestyle="none",
            marker="o",
            color=GREY,
            markerfacecolor="white",
            markeredgewidth=1.2,
            zorder=3,
        )
        close = predicted < 4 * edge
        axes.annotate(
            text,
            (predicted, height),
            xytext=(8 if close else 0, 0 if close else 6),
            textcoords="offset points",
            ha="left" if close else "center",
            va="center" if close else "bottom",
            fontsize=7.5,
            color=VERMILION,
        )


def _with_error(value: float, error: float) -> str:
    """Return a number with its standard error in the last digits: 19.79(7)."""
    digits = max(0, -int(np.floor(np.log10(error)))) if error > 0 else 3
    return f"{value:.{digits}f}({error * 10**digits:.0f})"


def _judge_outliers(bench: Bench, name: str, result: xarray.Dataset) -> None:
    limit, measured = (result["outliers"].sel(source=side).values for side in ("limit", "experiment"))
    errors = result["outliers_stderr"].sel(source="experiment").values
    for place in range(int(np.sum(np.isfinite(limit)))):
        gap = abs(measured[place] / limit[place] - 1)
        z = abs(measured[place] - limit[place]) / errors[place]
        bench.check(
            f"relative gap of outlier {place + 1}, {name}",
            gap,
            f"predicted {limit[place]:.6g}, measured {_with_error(measured[place], errors[place])}, |z| = {z:.1f}",
            line=0.04,
        )


RECIPES = (
    Recipe(
        name="spectral-edge",
        title="Upper edge of the bulk against the strength of the spike",
        paper="dandi2025random",
        description="The edge grows with u for ReLU and shrinks for erf and tanh, which saturate; largest eigenvalues.",
        parameters="n/p = 0.8, p/d = 2, u = 0 ... 4 planted, d = 500. Seed 2410.",
        seconds_quick=30,
        seconds_full=110,
        make=spectral_edge,
    ),
    Recipe(
        name="outliers",
        title="Spectra with their outliers",
        paper="dandi2025random",
        description=(
            "(a) a vocabulary of four makes spikes of order d, one of them barely above the bulk; (b) an activation "
            "with a strong mean makes an outlier of order 1 beside the spike."
        ),
        parameters=(
            "(a) ReLU, u = zeta = 1, -0.5, 1.5, -2 with weights 0.7, 0.1, 0.1, 0.1, n/d = 3, p/d = 1.5, d = 1500; (b) "
            "tanh(2(x - 2)), u = 0.7, n/d = 60, p/d = 6, d = 240. Seed 2410."
        ),
        seconds_quick=15,
        seconds_full=30,
        make=outliers,
    ),
)
