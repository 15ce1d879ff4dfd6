"""Every step size: the stairs of growing steps, the way from random features to the maximal step, small steps."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.panels import engines, experiment_points, key, letter, level, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLUE, GREEN, GREY, ORANGE, SKY, VERMILION, new_figure
from giantstep.papers.report import FINITE_SIZE, Comparison

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.one_step.scenario import OneStep
    from giantstep.study import Study

SEED = 2310
CENTRED_RELU = "relu(z) - 1/sqrt(2*pi)"
TARGETS: dict[str, dict[str, Any]] = {
    "linear": {"target": "z", "noise": 1.0},
    "quadratic": {"target": "h1(z) + h2(z)/sqrt(2)", "noise": 0.0},
}
"""Settings 1 and 2 of the notes: to a linear fit they are the same, E y^2 = 2 with a linear part of 1."""
TARGET_NAMES = {"linear": r"$y = \kappa_* + \mathrm{noise}$", "quadratic": r"$y = \kappa_* + H_2(\kappa_*)/\sqrt{2}$"}
STAIRS = (-0.1, 0.0, 1 / 4, 1 / 3, 3 / 8, 2 / 5)
"""Exponents at which the windows of the plateaus 0, 1, ..., 4 begin and end."""
INSIDE = (0.1, 0.29, 0.35, 0.39)
"""An exponent inside each window from the first on; the plateau is the same all over its window."""
EXPONENTS = [0.0, 0.1, 0.2, 0.29, 0.36, 0.45]
FINE_EXPONENTS = np.linspace(STAIRS[0], 0.48, 117)
CURVE_DIM = 500
LARGE_SAMPLES = {10**6: ORANGE, 10**15: GREEN}
"""Sizes n at which the stairs begin to show, and where they do, with their colours."""


def scenario(name: str, step: Any) -> OneStep:
    """Return a network of the base point of the notes: n/d = 4, p/d = 2, lambda = 0.1 per sample."""
    from giantstep import OneStep

    return OneStep(
        activation=CENTRED_RELU,
        **TARGETS[name],
        width_per_dim=2.0,
        samples_per_dim=4.0,
        ridge=0.2,
        second_layer="gaussian",
        step=step,
    )


def small(name: str, rate: float = 1.0, *, update: str = "rank-one", initial_output: int = 0) -> OneStep:
    """Return the base point after a step eta = rate on n0 = n samples."""
    from giantstep import SmallStep

    return scenario(name, SmallStep(rate, batch_per_dim=4.0, update=update, initial_output=initial_output))


def growing(name: str, exponent: float = 0.3) -> OneStep:
    """Return the base point after a step eta = n0^exponent on n0 = n samples."""
    from giantstep import GrowingStep

    return scenario(name, GrowingStep(1.0, exponent, batch_per_dim=4.0, update="rank-one"))


def compared(
    bench: Bench, name: str, study: Study, *, meaning: str, judged: tuple[str, ...], **asked: Any
) -> xarray.Dataset:
    """Run a study that has settings of its own for the limit, keep it, and judge it as `Bench.compare` does."""
    from giantstep.agreement import agreement

    result = study.compare(device=bench.device, progress=bench.progress, **asked)
    bench.studies[name], bench.results[name] = study, result
    if judged:
        sides = [v for shown in judged for v in (shown, f"{shown}_stderr", f"{shown}_gap", f"{shown}_z")]
        settings = dict(study.experiment)
        found = agreement(result[[*sides, "converged"]])
        bench.comparisons.append(Comparison(name, meaning, found, FINITE_SIZE / settings["dim"], settings))
    return result


# -- the stairs ----------------------------------------------------------------------------------------------


def plateaus(bench: Bench, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return test and train error of the plateaus 0, 1, ..., 4."""
    untrained = bench.predict(f"{name}-untrained", small(name, 0.0), {})
    trained = bench.predict(f"{name}-plateaus", growing(name), {"step.exponent": list(INSIDE)})
    errors = [np.append(untrained[v].values, trained[v].values) for v in ("test_error", "train_error")]
    return errors[0], errors[1]


def curve(bench: Bench, name: str, exponents: np.ndarray, samples: int) -> xarray.Dataset:
    """Return the errors at a finite size; exponents below 0 and above 1/2 are steps like all others."""
    part = f"{name}-n{samples}" if samples < 10**5 else f"{name}-n1e{np.log10(samples):.0f}"
    return bench.predict(part, small(name), {"step.rate": float(samples) ** exponents}, dim=samples // 4)


def stairs(bench: Bench) -> Figure:
    """Draw test and train error against the exponent of the step for both targets."""
    figure, axes = new_figure(1, 2, width=10.4, height=4.5)
    dim, trials = bench.sized(125, CURVE_DIM), bench.sized(16, 20)
    drops = {}
    for place, name in enumerate(TARGETS):
        drops[name] = _stairs_panel(axes[place], bench, name, dim, trials)
        letter(axes[place], "ab"[place], TARGET_NAMES[name])
    handles = [
        key(BLUE, "o", f"test error, $n = {4 * CURVE_DIM}$"),
        key(VERMILION, "s", f"train error, $n = {4 * CURVE_DIM}$"),
        *(
            key(colour, "", rf"test error, $n = 10^{{{np.log10(n):.0f}}}$", (0, (4, 1.5)))
            for n, colour in LARGE_SAMPLES.items()
        ),
        key("black", "", r"plateaus, $n \to \infty$", (0, (1, 1.2))),
    ]
    if dim != CURVE_DIM:
        handles.insert(2, key(SKY, "", f"both, at $n = {4 * dim}$ of the dots"))
    handles += engines(axes[1], rf"network, $n = {4 * dim}$, mean $\pm$ 1 s.e.")[1:]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    bench.check(
        "second drop over the first, quadratic target",
        drops["quadratic"],
        "test error lost from exponent 0.2 to 0.45 over what is lost up to 0.2, by the experiment",
        line=1.0,
        above=True,
    )
    bench.check(
        "second drop over the first, linear target",
        drops["linear"],
        "the same for a target with nothing but a linear part: the curve stays flat",
        line=0.5,
    )
    bench.notes.append(
        "eta = n^alpha, eta_raw = eta sqrt(p), rank-one update on n0 = n samples of its own. The plateau of degree l "
        "holds for (l-1)/(2l) < alpha < l/(2l+2); ReLU has no degree 3, so that 2 and 3 are the same. The stairs are "
        "sharp only for astronomically large n: at n = 2000 the error slides from one plateau to the next, at "
        "n = 10^15 it still rounds their corners."
    )
    return figure


def _stairs_panel(axes: Axes, bench: Bench, name: str, dim: int, trials: int) -> float:
    fine = FINE_EXPONENTS
    test, train = plateaus(bench, name)
    for samples, colour in LARGE_SAMPLES.items():
        errors = curve(bench, name, fine, samples)["test_error"]
        limit_line(axes, fine, errors, colour, linestyle=(0, (4, 1.5)), linewidth=1.1)
    if dim != CURVE_DIM:
        for variable in ("test_error", "train_error"):
            limit_line(axes, fine, curve(bench, name, fine, 4 * dim)[variable], SKY, linewidth=1.1)
    drawn = curve(bench, name, fine, 4 * CURVE_DIM)
    result = bench.compare(
        name,
        growing(name),
        {"step.exponent": EXPONENTS},
        meaning=f"errors after a step n^alpha, {name} target",
        judged=("test_error", "train_error"),
        dim=dim,
        trials=trials,
        seed=SEED,
    )
    for variable, colour, marker in (("test_error", BLUE, "o"), ("train_error", VERMILION, "s")):
        limit_line(axes, fine, drawn[variable], colour)
        experiment_points(axes, EXPONENTS, result, variable, colour, marker)
    for values in (test, train):
        axes.stairs(values, STAIRS, baseline=None, color="black", linewidth=1.3, linestyle=(0, (1, 1.2)), zorder=2.5)
    for edge in STAIRS[1:]:
        axes.axvline(edge, color="0.9", linewidth=0.8, zorder=0)
    for degree, (start, stop) in enumerate(zip(STAIRS, STAIRS[1:])):
        text = rf"$\ell = {degree}$" if stop - start > 0.06 else f"${degree}$"
        axes.text((start + stop) / 2, 1.68, text, ha="center", va="center", fontsize=7.5, color=GREY)
    axes.set(xlim=(STAIRS[0], 0.48), ylim=(0.38, 1.74))
    axes.set_xlabel(r"size of the step,  $\alpha = \log\,\eta\,/\,\log\,n$")
    axes.set_ylabel("error")
    measured = result["test_error"].sel(source="experiment").values
    return float((measured[2] - measured[-1]) / (test[0] - measured[2]))


# -- from random features to the maximal step ----------------------------------------------------------------

RATES = [0.0, 0.5, 2.0, 5.0, 10.0, 20.0, 50.0, 150.0]
FINE_RATES = np.geomspace(0.2, 200.0, 61)
AXIS_ZERO = 0.12
"""Where a log axis shows the network without a step."""


def regimes(base: OneStep, rates: np.ndarray, dim: int) -> list[tuple[str, float, float]]:
    """Return the regimes that `gs.regime` names along growing rates, three spikes and more as one: (name, from, to)."""
    from giantstep import regime

    names = [regime(base.replace(step__rate=float(rate)), dim).name for rate in rates]
    many = [
        "growing step, 3 or more" if (found := re.search(r"(\d+) spike", text)) and int(found[1]) > 2 else text
        for text in names
    ]
    bands, start = [], float(rates[0])
    for name, group in groupby(zip(many, rates), key=lambda pair: pair[0]):
        stop = float(list(group)[-1][1])
        bands.append((name, start, stop))
        start = stop
    return bands


def crossover(bench: Bench) -> Figure:
    """Draw the test error of one network against the size of its step, from none to the maximal one."""
    figure, (axes,) = new_figure(1, 1, width=7.4, height=4.6)
    dim, trials = bench.sized(125, CURVE_DIM), bench.sized(16, 20)
    fine = FINE_RATES
    base = small("quadratic")
    drawn = bench.predict("rank-one-curve", base, {"step.rate": fine}, dim=dim)
    rough = bench.predict(
        "whole-curve", base.replace(step__update="exact"), {"step.rate": fine}, theory="isotropic", dim=dim
    )
    result, whole = _crossover_experiments(bench, base, dim, trials)
    limit_line(axes, fine, drawn["test_error"], BLUE)
    limit_line(axes, fine, rough["test_error"], VERMILION, linestyle=(0, (5, 2)))
    places = [AXIS_ZERO, *RATES[1:]]
    experiment_points(axes, places, result, "test_error", BLUE, "o")
    experiment_points(axes, places, whole, "test_error", VERMILION, "s")
    untrained = float(result["test_error"].sel(source="limit").values[0])
    axes.plot([AXIS_ZERO / 1.25, AXIS_ZERO * 1.25], [untrained] * 2, color=GREY, zorder=2)
    _mark_regimes(axes, regimes(base, np.geomspace(0.2, 200.0, 601), dim))
    axes.set_ylim(0.5, 1.78)
    rate_axis(axes, [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200])
    axes.set_ylabel("test error")
    handles = [
        key(BLUE, "o", "rank-one update: exact theory, network"),
        key(VERMILION, "s", "whole gradient: approximate theory, network", (0, (5, 2))),
        *engines(axes, rf"network, $d = {dim}$, mean $\pm$ 1 s.e.", line=f"theory at $d = {dim}$"),
    ]
    axes.legend(handles=handles, loc="lower left", frameon=False)
    return figure


def rate_axis(axes: Axes, ticks: list[float]) -> None:
    """Make the horizontal axis one of steps on a log scale, with a place for no step left of a break."""
    from matplotlib.ticker import NullLocator

    axes.set(xscale="log", xlim=(AXIS_ZERO / 1.4, ticks[-1]))
    axes.set_xticks([AXIS_ZERO, *ticks], ["0", *(f"{tick:g}" for tick in ticks)])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(r"size of the step,  $\eta = \eta_{\mathrm{raw}}/\sqrt{p}$")
    for colour, width in (("white", 5.0), ("#333333", 1.0)):
        places = [0.157] if colour == "white" else [0.152, 0.162]
        for place in places:
            axes.plot(
                [place],
                [0.0],
                transform=axes.get_xaxis_transform(),
                linestyle="none",
                marker=[(-0.5, -1.0), (0.5, 1.0)],
                markersize=8,
                color=colour,
                markeredgewidth=width,
                clip_on=False,
                zorder=5,
            )


def _mark_regimes(axes: Axes, bands: list[tuple[str, float, float]]) -> None:
    bands = [("random features", AXIS_ZERO / 1.4, bands[0][1] * 0.87), *bands]
    for place, (name, start, stop) in enumerate(bands):
        if place % 2 == 0:
            axes.axvspan(start, stop, color="0.955", linewidth=0, zorder=0)
        text = name.replace("growing step, ", "growing,\n").replace(" ", "\n", name.count("random"))
        axes.text(
            float(np.sqrt(start * stop)),
            0.985,
            text.replace("small step", "small\nstep").replace("maximal step", "maximal\nstep"),
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize=7.5,
            color=GREY,
            linespacing=1.25,
        )


def _crossover_experiments(bench: Bench, base: OneStep, dim: int, trials: int) -> tuple[xarray.Dataset, xarray.Dataset]:
    """Run both updates and say how good each theory is, the one of the maximal step at the last point among them."""
    from giantstep import MaximalStep
    from giantstep.study import Study, predict

    result = bench.compare(
        "rank-one",
        base,
        {"step.rate": RATES},
        meaning="errors after the rank-one update, from no step to the maximal one",
        judged=("test_error", "train_error"),
        dim=dim,
        trials=trials,
        seed=SEED + 1,
    )
    experiment = {"dim": dim, "trials": trials, "seed": SEED + 1}
    study = Study(
        base.replace(step__update="exact"),
        None,
        {"step.rate": RATES},
        limit={"theory": "isotropic"},
        experiment=experiment,
    )
    whole = compared(bench, "whole", study, meaning="errors after the whole gradient", judged=())
    theory, network = (whole["test_error"].sel(source=side).values for side in ("limit", "experiment"))
    bench.check(
        "largest relative gap of the approximate theory, whole gradient",
        float(np.max(np.abs(network / theory - 1))),
        "it takes what the rank-one part leaves out as isotropic: too high for growing steps, too low for maximal ones",
        line=0.12,
    )
    rate = RATES[-1] / np.sqrt(base.width_per_dim * dim)
    maximal = base.replace(step=MaximalStep(float(rate), batch_per_dim=4.0))
    other = float(predict(maximal, dim=dim, theory="isotropic")["test_error"])
    bench.check(
        f"relative gap to the same step written as MaximalStep({rate:.3g})",
        abs(other / theory[-1] - 1),
        f"at eta = {RATES[-1]:g} the two isotropic theories differ by terms of order 1/d only",
        line=0.04,
    )
    bench.notes.append(
        "One network throughout: eta = 0 is random features, eta of order 1 the small step, eta = n^alpha with "
        "0 < alpha < 1/2 the growing step, eta of order sqrt(p) the maximal step; the regimes are those that "
        "giantstep.regime names at this size, with all that have more than two spikes as one. The theory of the whole "
        "gradient is approximate at a finite size, that of the rank-one update is exact."
    )
    return result, whole


# -- small steps ---------------------------------------------------------------------------------------------

SMALL_RATES = [0.0, 0.5, 1.0, 2.0, 4.0, 8.0]


def small_step(bench: Bench) -> Figure:
    """Draw the test error against a step of order one, between random features and the best linear predictor."""
    from giantstep.study import Study

    figure, (axes,) = new_figure(1, 1, width=6.2, height=4.3)
    dim, trials = bench.sized(150, CURVE_DIM), bench.sized(16, 20)
    fine = np.geomspace(0.2, 20.0, 101)
    places = [AXIS_ZERO, *SMALL_RATES[1:]]
    handles: list[Any] = []
    for initial, colour, marker in ((0, BLUE, "o"), (1, VERMILION, "s")):
        base = small("linear", update="exact", initial_output=initial)
        drawn = bench.predict(f"output{initial}-limit", base, {"step.rate": fine})
        limit_line(axes, fine, drawn["test_error"], colour)
        experiment = {"dim": dim, "trials": trials, "seed": SEED + 2}
        study = Study(base, None, {"step.rate": SMALL_RATES}, limit={"finite_size": False}, experiment=experiment)
        meaning = f"errors after the whole gradient step, initial_output = {initial}"
        result = compared(bench, f"output{initial}", study, meaning=meaning, judged=("test_error", "train_error"))
        experiment_points(axes, places, result, "test_error", colour, marker)
        text = "starts at a constant" if initial == 0 else r"is $a\cdot\sigma(Wx)$ at the start"
        handles.append(key(colour, marker, f"output {text}"))
    untrained = float(bench.results["output0"]["test_error"].sel(source="limit").values[0])
    level(axes, untrained, "random features", at=1.0)
    level(axes, float(drawn["affine_error"].values[0]), "best linear predictor", at=1.0)
    plateau = bench.predict("plateau", growing("linear"), {"step.exponent": [INSIDE[0]]})
    level(axes, float(plateau["test_error"].values[0]), r"constant output, $\eta \to \infty$", at=0.02, above=False)
    axes.set_ylim(0.95, 1.65)
    rate_axis(axes, [0.2, 0.5, 1, 2, 5, 10, 20])
    axes.set_ylabel("test error")
    sides = engines(axes, rf"network, $d = {dim}$, mean $\pm$ 1 s.e.", line=r"closed form, $d \to \infty$")
    axes.legend(handles=[*handles, *sides], loc="center left", bbox_to_anchor=(0.0, 0.32))
    bench.notes.append(
        "The closed form is that of d -> inf at a fixed step. A network of finite d lies above it where the step is no "
        "longer small beside sqrt(p): terms of order eta^2/p, from what the rank-one part of the gradient leaves out."
    )
    lowest = float(drawn["test_error"].min())
    bench.check(
        "lowest test error over that of the largest step, initial_output = 1",
        lowest / float(drawn["test_error"].values[-1]),
        "with the output of the network in the residual the error is not monotone in the step",
        line=1.0,
    )
    floor = float(drawn["affine_error"].values[0])
    bench.check(
        "lowest test error over the best linear predictor",
        min(lowest, float(bench.results["output0-limit"]["test_error"].min())) / floor,
        "nothing that is not linear is learnt by a step of order one",
        line=1.0,
        above=True,
    )
    return figure


RECIPES = (
    Recipe(
        name="stairs",
        title="Test and train error against the exponent of the step: the stairs, and what is seen of them",
        paper="moniri2024theory",
        description=(
            "Errors against log eta/log n for (a) a linear target with noise and (b) a linear plus quadratic one: "
            "theory at n = 2000, 10^6 and 10^15, the plateaus of the limit, and the network. (a) stays flat after the "
            "first drop, (b) drops again where the quadratic spike is learnt."
        ),
        parameters=(
            "sigma = relu - 1/sqrt(2 pi), Gaussian second layer, n/d = n0/d = 4, p/d = 2, ridge 0.2 (0.1 per sample), "
            "rank-one update, d = 500. Seed 2310."
        ),
        seconds_quick=20,
        seconds_full=130,
        make=stairs,
    ),
    Recipe(
        name="crossover",
        title="One network from random features through small and growing steps to the maximal step",
        paper="moniri2024theory",
        description=(
            "Test error against the size of the step at one finite size, for the rank-one update (exact theory) and "
            "the whole gradient (approximate theory), with the names of the regimes."
        ),
        parameters=(
            "sigma = relu - 1/sqrt(2 pi), y = H1 + H2/sqrt 2, n/d = n0/d = 4, p/d = 2, ridge 0.2, eta = 0 ... 200, "
            "d = 500. Seed 2311."
        ),
        seconds_quick=15,
        seconds_full=180,
        make=crossover,
    ),
    Recipe(
        name="small-step",
        title="Test error after a step of order one: between random features and the best linear predictor",
        paper="ba2022high",
        description=(
            "Test error against eta after the whole gradient step, for a network that starts at a constant output and "
            "for one that starts at its own, where the error is not monotone."
        ),
        parameters=(
            "sigma = relu - 1/sqrt(2 pi), y = H1 + noise of variance 1, n/d = n0/d = 4, p/d = 2, ridge 0.2, d = 500. "
            "Seed 2312."
        ),
        seconds_quick=15,
        seconds_full=130,
        make=small_step,
    ),
)
