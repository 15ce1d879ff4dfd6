"""Moniri et al., ICML 2024: growing steps, the stairs of the errors, spikes of the
features, one for each degree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep import (
    GrowingStep,
    MaximalStep,
    NoStep,
    OneStep,
    SmallStep,
    Vocabulary,
    regime,
)
from giantstep.papers.recipe import (
    FigureStudy,
    Recipe,
    Results,
    Size,
    Studies,
    comparison,
    experiment,
    limit,
    theory_at,
)
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    bars,
    bars_key,
    engines,
    experiment_points,
    key,
    letters,
    limit_line,
    note,
    sides,
    stem,
)
from giantstep.tools.figures.style import (
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEED = 2310
CENTRED_RELU = "relu(z) - 1/sqrt(2*pi)"
TARGETS: dict[str, dict[str, Any]] = {
    "linear": {"target": "z", "noise": 1.0},
    "quadratic": {"target": "h1(z) + h2(z)/sqrt(2)", "noise": 0.0},
}
"""Settings 1 and 2 of step_size_regimes: to a linear fit they are the same, E y^2 = 2
with a linear part of 1.
"""
TARGET_NAMES = {
    "linear": r"$y = \kappa_* + \mathrm{noise}$",
    "quadratic": r"$y = \kappa_* + H_2(\kappa_*)/\sqrt{2}$",
}
STAIRS = (-0.1, 0.0, 1 / 4, 1 / 3, 3 / 8, 2 / 5)
"""Exponents at which the windows of the plateaus 0, 1, ..., 4 begin and end."""
INSIDE = (0.1, 0.29, 0.35, 0.39)
"""An exponent inside each window from the first on; the plateau is the same all over
its window.
"""
EXPONENTS = [0.0, 0.1, 0.2, 0.29, 0.36, 0.45]
FINE_EXPONENTS = np.linspace(STAIRS[0], 0.48, 117)
CURVE_DIM = 500
QUICK_DIM = 125
LARGE_SAMPLES = {10**6: ORANGE, 10**15: GREEN}
"""Sizes n at which the stairs begin to show, and where they do, with their colours."""


def scenario(name: str, step: Any) -> OneStep:
    """Return a network of the base point of step_size_regimes: n/d = 4, p/d = 2,
    lambda = 0.1 per sample.
    """
    return OneStep(
        activation=CENTRED_RELU, **TARGETS[name], width_per_dim=2.0, samples_per_dim=4.0, ridge=0.2,
        second_layer="gaussian", step=step,
    )  # fmt: skip


def small(
    name: str, rate: float = 1.0, *, update: str = "rank-one", initial_output: int = 0
) -> OneStep:
    """Return the base point after a step eta = rate on n0 = n samples."""
    return scenario(
        name,
        SmallStep(
            rate, batch_per_dim=4.0, update=update, initial_output=initial_output
        ),
    )


def growing(name: str, exponent: float = 0.3) -> OneStep:
    """Return the base point after a step eta = n0^exponent on n0 = n samples."""
    return scenario(
        name, GrowingStep(1.0, exponent, batch_per_dim=4.0, update="rank-one")
    )


# -- the stairs ------------------------------------------------------------------------


def stairs(size: Size) -> Studies:
    """Return the errors against the exponent of the step at several sizes, for both
    targets.
    """
    studies = {}
    dim = size(QUICK_DIM, CURVE_DIM)
    for name in TARGETS:
        studies[f"{name}-untrained"] = limit(small(name, 0.0))
        studies[f"{name}-plateaus"] = limit(
            growing(name), {"step.exponent": list(INSIDE)}
        )
        for samples in dict.fromkeys([*LARGE_SAMPLES, 4 * dim, 4 * CURVE_DIM]):
            studies[f"{name}-n{_samples_name(samples)}"] = curve(
                name, FINE_EXPONENTS, samples
            )
        studies[name] = comparison(
            growing(name), {"step.exponent": EXPONENTS}, meaning=f"errors after a step n^alpha, {name} target",
            judged=("test_error", "train_error"), dim=dim, seed=SEED,
            trials=size(16, 72 if name == "quadratic" else 32),
        )  # fmt: skip
    return studies


def curve(name: str, exponents: np.ndarray, samples: int) -> FigureStudy:
    """Return the errors at a finite size; exponents below 0 and above 1/2 are steps
    like all others.
    """
    return limit(
        small(name), {"step.rate": float(samples) ** exponents}, dim=samples // 4
    )


def _samples_name(samples: int) -> str:
    if samples < 10**5:
        return str(samples)
    return f"1e{np.log10(samples):.0f}"


def plateaus(results: Results, name: str, variable: str) -> np.ndarray:
    """Return an error on the plateaus 0, 1, ..., 4."""
    return np.append(
        results[f"{name}-untrained"][variable].values,
        results[f"{name}-plateaus"][variable].values,
    )


def _draw_stairs(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.5)
    dim = results.size(QUICK_DIM, CURVE_DIM)
    for panel, name in zip(axes, TARGETS):
        _stairs_panel(panel, results, name, 4 * dim)
    letters(axes, *TARGET_NAMES.values())
    dashes = (0, (4, 1.5))
    handles = [
        key(BLUE, "o", f"test error, $n = {4 * CURVE_DIM}$"),
        key(VERMILION, "s", f"train error, $n = {4 * CURVE_DIM}$"),
        *(
            key(c, "", rf"test error, $n = 10^{{{np.log10(n):.0f}}}$", dashes)
            for n, c in LARGE_SAMPLES.items()
        ),
        key("black", "", r"plateaus, $n \to \infty$", DOTTED),
    ]
    if dim != CURVE_DIM:
        handles.insert(2, key(SKY, "", f"both, at $n = {4 * dim}$ of the dots"))
    handles += engines(axes[1], rf"network, $n = {4 * dim}$, mean $\pm$ 1 s.e.")[1:]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _stairs_panel(axes: Axes, results: Results, name: str, samples: int) -> None:
    fine = FINE_EXPONENTS
    dashes = (0, (4, 1.5))
    for count, colour in LARGE_SAMPLES.items():
        errors = results[f"{name}-n{_samples_name(count)}"]["test_error"]
        limit_line(axes, fine, errors, colour, linestyle=dashes, linewidth=1.1)
    for variable, colour, marker in (
        ("test_error", BLUE, "o"),
        ("train_error", VERMILION, "s"),
    ):
        if samples != 4 * CURVE_DIM:
            limit_line(
                axes, fine, results[f"{name}-n{samples}"][variable], SKY, linewidth=1.1
            )
        limit_line(axes, fine, results[f"{name}-n{4 * CURVE_DIM}"][variable], colour)
        experiment_points(axes, EXPONENTS, results[name], variable, colour, marker)
        levels = plateaus(results, name, variable)
        axes.stairs(
            levels,
            STAIRS,
            baseline=None,
            color="black",
            linewidth=1.3,
            linestyle=DOTTED,
            zorder=2.5,
        )
    for edge in STAIRS[1:]:
        axes.axvline(edge, color="0.9", linewidth=0.8, zorder=0)
    for degree, (start, stop) in enumerate(zip(STAIRS, STAIRS[1:])):
        text = rf"$\ell = {degree}$" if stop - start > 0.06 else f"${degree}$"
        axes.text(
            (start + stop) / 2,
            1.68,
            text,
            ha="center",
            va="center",
            fontsize=7.5,
            color=GREY,
        )
    axes.set(xlim=(STAIRS[0], 0.48), ylim=(0.38, 1.74))
    axes.set(
        xlabel=r"size of the step,  $\alpha = \log\,\eta\,/\,\log\,n$", ylabel="error"
    )


def _stairs_checks(results: Results) -> Iterator[Check]:
    drops = {}
    for name in TARGETS:
        measured = results[name]["test_error"].sel(source="experiment").values
        first = plateaus(results, name, "test_error")[0]
        drops[name] = (measured[2] - measured[-1]) / (first - measured[2])
    yield Check(
        "second drop over the first, quadratic target",
        "test error lost from exponent 0.2 to 0.45 over what is lost up to 0.2, by the experiment",
        drops["quadratic"], line=1.0, above=True,
    )  # fmt: skip
    yield Check(
        "second drop over the first, linear target",
        "the same for a target with nothing but a linear part: the curve stays flat",
        drops["linear"], line=0.5,
    )  # fmt: skip


# -- from random features to the maximal step ------------------------------------------

RATES = [0.0, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0, 150.0]
FINE_RATES = np.geomspace(0.2, 200.0, 61)
AXIS_ZERO = 0.12
"""Where a log axis shows the network without a step."""


def crossover(size: Size) -> Studies:
    """Return one network from no step to the maximal one, by the rank-one update and by
    the whole gradient.
    """
    base = small("quadratic")
    whole = small("quadratic", update="exact")
    dim = size(QUICK_DIM, CURVE_DIM)
    run = {"dim": dim, "trials": size(16, 20), "seed": SEED + 1}
    maximal = MaximalStep(_maximal_rate(dim), batch_per_dim=4.0)
    return {
        "rank-one-curve": limit(base, {"step.rate": FINE_RATES}, dim=dim),
        "whole-curve": limit(whole, {"step.rate": FINE_RATES}, theory="isotropic", dim=dim),
        "rank-one": comparison(
            base, {"step.rate": RATES}, judged=("test_error",),
            meaning="test error after the rank-one update, from no step to the maximal one", **run,
        ),
        "whole": comparison(
            whole, {"step.rate": RATES}, theory="isotropic", meaning="errors after the whole gradient", **run
        ),
        "maximal": limit(base.replace(step=maximal), theory="isotropic", dim=dim),
    }  # fmt: skip


def _maximal_rate(dim: int) -> float:
    """Return the largest rate as that of a maximal step, eta = eta_raw/p."""
    return float(RATES[-1] / np.sqrt(2.0 * dim))


def regimes(
    base: OneStep, rates: np.ndarray, dim: int
) -> list[tuple[str, float, float]]:
    """Return the regimes that `gs.regime` names along growing rates, three spikes and
    more as one: (name, from, to).
    """
    names = [regime(base.replace(step__rate=float(rate)), dim).name for rate in rates]
    many = [
        "growing step, 3 or more"
        if (count := re.search(r"(\d+) spike", text)) and int(count[1]) > 2
        else text
        for text in names
    ]
    bands = []
    start = float(rates[0])
    for name, group in groupby(zip(many, rates), key=lambda pair: pair[0]):
        stop = float(list(group)[-1][1])
        bands.append((name, start, stop))
        start = stop
    return bands


def _draw_crossover(results: Results) -> Figure:
    """Draw the test error of one network against the size of its step, from none to the
    maximal one.
    """
    figure, (axes,) = new_figure(1, 1, width=7.4, height=4.6)
    dim = results.dim("whole")
    rates = [AXIS_ZERO, *RATES[1:]]
    for name, colour, marker, style in (
        ("rank-one", BLUE, "o", "-"),
        ("whole", VERMILION, "s", DASHED),
    ):
        limit_line(
            axes,
            FINE_RATES,
            results[f"{name}-curve"]["test_error"],
            colour,
            linestyle=style,
        )
        experiment_points(axes, rates, results[name], "test_error", colour, marker)
    untrained = float(sides(results["rank-one"])[0]["test_error"][0])
    axes.plot(
        [AXIS_ZERO / 1.25, AXIS_ZERO * 1.25], [untrained] * 2, color=GREY, zorder=2
    )
    _mark_regimes(axes, regimes(small("quadratic"), np.geomspace(0.2, 200.0, 601), dim))
    axes.set_ylim(0.5, 1.78)
    rate_axis(axes, [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200])
    axes.set_ylabel("test error")
    handles = [
        key(BLUE, "o", "rank-one update: exact theory, network"),
        key(VERMILION, "s", "whole gradient: approximate theory, network", DASHED),
        *engines(
            axes,
            rf"network, $d = {dim}$, mean $\pm$ 1 s.e.",
            line=theory_at(results, "rank-one"),
        ),
    ]
    axes.legend(handles=handles, loc="lower left", frameon=False)
    return figure


def rate_axis(axes: Axes, ticks: Sequence[float]) -> None:
    """Make the horizontal axis one of steps on a log scale, with a place for no step
    left of a break.
    """
    from matplotlib.ticker import NullLocator

    axes.set(xscale="log", xlim=(AXIS_ZERO / 1.4, ticks[-1]))
    axes.set_xticks([AXIS_ZERO, *ticks], ["0", *(f"{tick:g}" for tick in ticks)])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(r"size of the step,  $\eta = \eta_{\mathrm{raw}}/\sqrt{p}$")
    slash: Any = [(-0.5, -1.0), (0.5, 1.0)]
    look: dict[str, Any] = {
        "linestyle": "none",
        "marker": slash,
        "markersize": 8,
        "clip_on": False,
        "zorder": 5,
    }
    for x, colour, width in (
        (0.157, "white", 5.0),
        (0.152, "#333333", 1.0),
        (0.162, "#333333", 1.0),
    ):
        axes.plot(
            [x],
            [0.0],
            color=colour,
            markeredgewidth=width,
            transform=axes.get_xaxis_transform(),
            **look,
        )


def _mark_regimes(axes: Axes, bands: list[tuple[str, float, float]]) -> None:
    bands = [("random features", AXIS_ZERO / 1.4, bands[0][1] * 0.87), *bands]
    words = {
        "growing step, ": "growing,\n",
        "random ": "random\n",
        "small ": "small\n",
        "maximal ": "maximal\n",
    }
    for index, (name, start, stop) in enumerate(bands):
        if index % 2 == 0:
            axes.axvspan(start, stop, color="0.955", linewidth=0, zorder=0)
        for long, broken in words.items():
            name = name.replace(long, broken)
        middle = float(np.sqrt(start * stop))
        transform = axes.get_xaxis_transform()
        look: dict[str, Any] = {
            "ha": "center",
            "va": "top",
            "fontsize": 7.5,
            "color": GREY,
            "linespacing": 1.25,
        }
        axes.text(middle, 0.985, name, transform=transform, **look)


def _crossover_checks(results: Results) -> Iterator[Check]:
    theory, network = (side["test_error"].values for side in sides(results["whole"]))
    yield Check(
        "largest relative gap of the approximate theory, whole gradient",
        "it takes what the rank-one part leaves out as isotropic: too high for growing steps, too low for maximal ones",
        np.max(np.abs(network / theory - 1)), line=0.12,
    )  # fmt: skip
    other = float(results["maximal"]["test_error"])
    yield Check(
        f"relative gap to the same step written as MaximalStep({_maximal_rate(results.dim('whole')):.3g})",
        f"at eta = {RATES[-1]:g} the two isotropic theories differ by terms of order 1/d only",
        abs(other / theory[-1] - 1), line=0.04,
    )  # fmt: skip


# -- spikes of the features ------------------------------------------------------------

SPIKES_SEED = 2320
UNIT_RELU = "(relu(z) - 1/sqrt(2*pi))/sqrt(1/2 - 1/(2*pi))"
SPIKE_EXPONENTS = [0.2, 0.3]
SINGULAR_VALUES = np.geomspace(0.05, 2.6, 71)
"""Ends of the bars of the bulk."""
FINE_VALUES = np.geomspace(0.05, 2.6, 241)
DEGREE_COLOURS = {1: VERMILION, 2: GREEN}


def features_scenario(step: Any = None) -> OneStep:
    """Return a ReLU network of unit variance on the linear plus quadratic target; a
    step n^0.3 if none is given.
    """
    return OneStep(
        activation=UNIT_RELU, **TARGETS["quadratic"], width_per_dim=1.5, samples_per_dim=3.0, ridge=0.1,
        second_layer="gaussian", step=step or GrowingStep(1.0, 0.3, batch_per_dim=3.0, update="rank-one"),
    )  # fmt: skip


def bulk_scenario() -> OneStep:
    """Return the same network without a step: its bulk is that of all steps here."""
    return features_scenario(NoStep()).replace(second_layer=Vocabulary([1.0]))


def feature_spikes(size: Size) -> Studies:
    """Return the singular values of the features without a step and after two growing
    ones.

    The bulk of a trained network is measured only: with a Gaussian second layer its
    limit takes long, and it is that of no step.
    """
    run = {"dim": size(240, 1000), "trials": size(10, 8)}
    # spikes of one network scatter by 4 to 9 per cent
    many = {
        **run,
        "trials": size(10, 24),
    }
    trained = {
        e: features_scenario().replace(step__exponent=e) for e in SPIKE_EXPONENTS
    }
    bulks = {
        f"bulk-{exponent:g}": network
        for exponent, network in {0.0: bulk_scenario(), **trained}.items()
    }
    asked = {
        "normalisation": "n",
        "x": SINGULAR_VALUES**2,
        "seed": SPIKES_SEED + 1,
        **run,
    }
    return {
        "bulk-limit": limit(bulk_scenario(), None, "spectrum", normalisation="n", x=FINE_VALUES**2),
        "spikes": comparison(
            features_scenario(), {"step.exponent": SPIKE_EXPONENTS}, "spikes",
            meaning="largest singular values of F/sqrt(n)", seed=SPIKES_SEED, **many,
        ),
        **{name: experiment(network, None, "spectrum", **asked) for name, network in bulks.items()},
    }  # fmt: skip


def _draw_feature_spikes(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=11.4, height=3.7)
    dim = results.dim("spikes")
    law = results["bulk-limit"]
    # areas are masses on a log axis
    density = 2 * FINE_VALUES**2 * law["density"].values
    low, high = np.sqrt([float(law["lower_edge"]), float(law["upper_edge"])])
    inside = (FINE_VALUES > low) & (FINE_VALUES < high)
    top = 1.5 * float(np.max(density))
    for panel, exponent in zip(axes, (0.0, *SPIKE_EXPONENTS)):
        heights = np.diff(results[f"bulk-{exponent:g}"]["cdf"].values) / np.diff(
            np.log(SINGULAR_VALUES)
        )
        bars(panel, SINGULAR_VALUES, heights)
        limit_line(
            panel, [low, *FINE_VALUES[inside], high], [0.0, *density[inside], 0.0], BLUE
        )
        panel.set(
            xscale="log",
            xlim=(0.1, 18.0),
            ylim=(0, top),
            xlabel=r"singular value of $F/\sqrt{n}$,  $s$",
        )
        plain_log_ticks(panel.xaxis)
        if exponent:
            _mark_spikes(panel, results["spikes"].sel({"step.exponent": exponent}), top)
    handles = [
        key(BLUE, "", r"bulk, $d \to \infty$"),
        bars_key(f"bulk, network, $d = {dim}$"),
    ]
    axes[0].legend(handles=handles, loc="upper left")
    marks = [
        key(GREY, "", f"spike, theory at $d = {dim}$"),
        key(GREY, "o", r"spike, network, mean $\pm$ 1 s.e.", ""),
    ]
    axes[1].legend(handles=marks, loc="upper left")
    axes[0].set_ylabel(r"density per unit of $\log s$,  $s\,\rho(s)$")
    letters(
        axes,
        r"$\eta = 0$: no spike",
        r"$\eta = n^{0.2}$: one spike",
        r"$\eta = n^{0.3}$: two spikes",
    )
    return figure


def _spikes(result: xarray.Dataset) -> Iterator[tuple[int, float, float, float]]:
    """Yield degree, predicted value, measured value and its error of each spike."""
    law, measured = sides(result)
    measured_values = (measured[f"singular_values{end}"] for end in ("", "_stderr"))
    columns = law["spike_degree"], law["singular_values"], *measured_values
    for degree, predicted, value, error in zip(
        *(column.values.tolist() for column in columns)
    ):
        if np.isfinite(predicted):
            yield int(degree), predicted, value, error


def _mark_spikes(axes: Axes, result: xarray.Dataset, top: float) -> None:
    for degree, predicted, value, error in _spikes(result):
        colour = DEGREE_COLOURS[degree]
        height = top * (0.4 if degree == 1 else 0.55)
        stem(axes, predicted, height, (value, error), colour)
        text = f"degree {degree:.0f}\n{predicted:.2f}\n({value:.2f} ± {error:.2f})"
        note(axes, text, (predicted, height), (0, 7), colour, va="bottom")


def _feature_spikes_checks(results: Results) -> Iterator[Check]:
    for exponent in (0.0, *SPIKE_EXPONENTS):
        eta = f"n^{exponent:g}" if exponent else "0"
        expected = np.interp(
            SINGULAR_VALUES, FINE_VALUES, results["bulk-limit"]["cdf"].values
        )
        yield Check(
            f"largest distance of the distributions of the bulk, eta = {eta}",
            "measured bulk against random features in the limit; the steps move it at a finite size",
            np.max(np.abs(results[f"bulk-{exponent:g}"]["cdf"].values - expected)), line=0.03,
        )  # fmt: skip
        if exponent:
            yield from _spike_checks(
                results["spikes"].sel({"step.exponent": exponent}), eta, results.size
            )


def _spike_checks(result: xarray.Dataset, eta: str, size: Size) -> Iterator[Check]:
    law, measured = sides(result)
    spikes = list(_spikes(result))
    for index, (degree, predicted, value, error) in enumerate(spikes):
        z = abs(value - predicted) / error
        yield Check(
            f"relative gap of spike {index + 1}, eta = {eta}",
            f"predicted {predicted:.6g}, measured {value:.4g} +- {error:.2g}, |z| = {z:.1f}",
            abs(value / predicted - 1), line=size(0.12, 0.06),
        )  # fmt: skip
        ours, theirs = (
            float(side["alignment"].sel(degree=degree).values[index])
            for side in (law, measured)
        )
        yield Check(
            f"gap of its alignment with degree {degree}, eta = {eta}", f"predicted {ours:.4f}, measured {theirs:.4f}",
            abs(ours - theirs), line=size(0.08, 0.04),
        )  # fmt: skip
    if len(spikes) < len(measured["singular_values"]):
        yield Check(
            f"next singular value over the edge of the bulk, eta = {eta}", "no further spike: it sticks to the bulk",
            measured["singular_values"].values[len(spikes)] / law["bulk_edge"].values, line=1.06,
        )  # fmt: skip


RECIPES = (
    Recipe(
        "stairs",
        "Test and train error against the exponent of the step: the stairs, and what is seen of them",
        "Errors against log eta/log n for (a) a linear target with noise and (b) a linear plus quadratic one: theory "
        "at n = 2000, 10^6 and 10^15, the plateaus of the limit, and the network. (a) stays flat after the first drop, "
        "(b) drops again where the quadratic spike is learnt.",
        stairs,
        _draw_stairs,
        _stairs_checks,
        notes=(
            "eta = n^alpha, eta_raw = eta sqrt(p), rank-one update on n0 = n samples of its own. The plateau of degree "
            "l holds for (l-1)/(2l) < alpha < l/(2l+2); ReLU has no degree 3, so that 2 and 3 are the same. The stairs "
            "are sharp only for astronomically large n: at n = 2000 the error slides from one plateau to the next, at "
            "n = 10^15 it still rounds their corners.",
        ),
        seconds=20,
    ),
    Recipe(
        "crossover",
        "One network from random features through small and growing steps to the maximal step",
        "Test error against the size of the step at one finite size, for the rank-one update (exact theory) and the "
        "whole gradient (approximate theory), with the names of the regimes.",
        crossover,
        _draw_crossover,
        _crossover_checks,
        notes=(
            "One network throughout: eta = 0 is random features, eta of order 1 the small step, eta = n^alpha with "
            "0 < alpha < 1/2 the growing step, eta of order sqrt(p) the maximal step; the regimes are those that "
            "giantstep.regime names at this size, with all that have more than two spikes as one. The theory of the "
            "whole gradient is approximate at a finite size, that of the rank-one update is exact.",
        ),
        seconds=15,
    ),
    Recipe(
        "feature-spikes",
        "Singular values of the features with no, one and two spikes",
        "Histograms of the singular values of F/sqrt(n) for (a) no step, (b) eta = n^0.2 and (c) eta = n^0.3, with the "
        "bulk of the limit and the predicted spikes, named by their degree in the learnt feature.",
        feature_spikes,
        _draw_feature_spikes,
        _feature_spikes_checks,
        notes=(
            "F are the n x p features of the fit. The line is the bulk of random features, which none of these steps "
            "moves in the limit; spikes are predicted at the size of the network and named by the degree of the learnt "
            "feature kappa = <x, beta>/|beta| that their left vector has. Next to each: predicted, and measured in "
            "brackets. A quadratic target gives heavy-tailed |beta|^2: the spikes of one network of d = 1000 scatter "
            "by 6 (degree 1) and 9 per cent (degree 2), at d = 250 by 8 and 11, and their means over networks are "
            "those of the theory. The first eight networks of this seed happen to lie 6 and 9 per cent low, which is "
            "why there are 24; 6 per cent is about three standard errors of the second spike then.",
        ),
        seconds=6,
    ),
)
