"""Spikes that a step leaves: in the features, one for each degree it reaches, and in the first layer itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.panels import engines, experiment_points, key, letter, level, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.stairs import CENTRED_RELU, TARGETS, compared
from giantstep.figures.style import BLUE, GREEN, GREY, VERMILION, new_figure, plain_log_ticks

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.one_step.scenario import OneStep

SEED = 2320
UNIT_RELU = "(relu(z) - 1/sqrt(2*pi))/sqrt(1/2 - 1/(2*pi))"
EXPONENTS = [0.2, 0.3]
SINGULAR_VALUES = np.geomspace(0.05, 2.6, 71)
"""Ends of the bars of the bulk."""
DEGREE_COLOURS = {1.0: VERMILION, 2.0: GREEN}


# -- spikes of the features ----------------------------------------------------------------------------------


def features_scenario(step: Any = None) -> OneStep:
    """Return a ReLU network of unit variance on the linear plus quadratic target; a step n^0.3 if none is given."""
    from giantstep import GrowingStep, OneStep

    return OneStep(
        activation=UNIT_RELU,
        **TARGETS["quadratic"],
        width_per_dim=1.5,
        samples_per_dim=3.0,
        ridge=0.1,
        second_layer="gaussian",
        step=step or GrowingStep(1.0, 0.3, batch_per_dim=3.0, update="rank-one"),
    )


def bulk_scenario() -> OneStep:
    """Return the same network without a step: its bulk is that of all steps here."""
    from giantstep import NoStep, Vocabulary

    return features_scenario(NoStep()).replace(second_layer=Vocabulary([1.0]))


def feature_spikes(bench: Bench) -> Figure:
    """Draw the singular values of the features without a step and after two growing ones."""
    figure, axes = new_figure(1, 3, width=11.4, height=3.7)
    dim, trials = bench.sized(240, 1000), bench.sized(10, 8)
    fine = np.geomspace(0.05, 2.6, 241)
    law = bench.predict(
        "bulk-limit", bulk_scenario(), {}, what="spectrum", settings={"normalisation": "n", "x": fine**2}
    )
    spikes = bench.compare(
        "spikes",
        features_scenario(),
        {"step.exponent": EXPONENTS},
        what="spikes",
        meaning="largest singular values of F/sqrt(n)",
        judged=(),
        dim=dim,
        trials=trials,
        seed=SEED,
    )
    bulks = {0.0: _measured_bulk(bench, "bulk-0", bulk_scenario(), dim, trials)}
    for exponent in EXPONENTS:
        trained = features_scenario().replace(step__exponent=exponent)
        bulks[exponent] = _measured_bulk(bench, f"bulk-{exponent:g}", trained, dim, trials)
    top = 1.5 * float(np.max(2 * fine**2 * law["density"].values))
    for place, (exponent, measured) in enumerate(bulks.items()):
        bars = _bulk_panel(axes[place], law, fine, measured, dim, top)
        _judge_bulk(bench, exponent, law, fine, measured)
        if exponent:
            here = spikes.sel({"step.exponent": exponent})
            _mark_spikes(axes[place], here, top)
            _judge_spikes(bench, exponent, here)
    axes[0].legend(handles=[key(BLUE, "", r"bulk, $d \to \infty$"), bars], loc="upper left")
    marks = [key(GREY, "", f"spike, theory at $d = {dim}$"), key(GREY, "o", r"spike, network, mean $\pm$ 1 s.e.", "")]
    axes[1].legend(handles=marks, loc="upper left")
    axes[0].set_ylabel(r"density per unit of $\log s$,  $s\,\rho(s)$")
    letter(axes[0], "a", r"$\eta = 0$: no spike")
    letter(axes[1], "b", r"$\eta = n^{0.2}$: one spike")
    letter(axes[2], "c", r"$\eta = n^{0.3}$: two spikes")
    bench.notes.append(
        "F are the n x p features of the fit. The line is the bulk of random features, which none of these steps "
        "moves in the limit; spikes are predicted at the size of the network and named by the degree of the learnt "
        "feature kappa = <x, beta>/|beta| that their left vector has. Next to each: predicted, and measured in "
        "brackets. A quadratic target gives heavy-tailed |beta|^2: spikes of one network scatter by several per cent."
    )
    return figure


def _measured_bulk(bench: Bench, name: str, scenario: OneStep, dim: int, trials: int) -> xarray.Dataset:
    """Measure the bulk and leave the limit out: with a Gaussian second layer it takes long, and is that of no step."""
    from giantstep.study import Study

    settings = {"normalisation": "n", "x": SINGULAR_VALUES**2}
    experiment = {"dim": dim, "trials": trials, "seed": SEED + 1}
    study = Study(scenario, "spectrum", {}, settings, experiment=experiment)
    bench.studies[name] = study
    bench.results[name] = study.simulate(device=bench.device, progress=bench.progress)
    return bench.results[name]


def _bulk_panel(
    axes: Axes, law: xarray.Dataset, fine: np.ndarray, measured: xarray.Dataset, dim: int, top: float
) -> Any:
    """Draw the bulk and return the legend entry of its histogram."""
    from matplotlib.patches import Patch

    # areas are masses on a log axis
    heights = np.diff(measured["cdf"].values) / np.diff(np.log(SINGULAR_VALUES))
    axes.stairs(heights, SINGULAR_VALUES, fill=True, color="0.87", linewidth=0, zorder=1)
    axes.stairs(heights, SINGULAR_VALUES, color=GREY, linewidth=0.7, zorder=1)
    density = 2 * fine**2 * law["density"].values
    ends = np.sqrt([float(law["lower_edge"]), float(law["upper_edge"])])
    inside = (fine > ends[0]) & (fine < ends[1])
    x, y = (np.concatenate([[a], b[inside], [c]]) for a, b, c in ((ends[0], fine, ends[1]), (0.0, density, 0.0)))
    limit_line(axes, x, y, BLUE)
    axes.set(xscale="log", xlim=(0.1, 18.0), ylim=(0, top))
    plain_log_ticks(axes.xaxis)
    axes.set_xlabel(r"singular value of $F/\sqrt{n}$,  $s$")
    return Patch(facecolor="0.87", edgecolor=GREY, linewidth=0.7, label=f"bulk, network, $d = {dim}$")


def _mark_spikes(axes: Axes, spikes: xarray.Dataset, top: float) -> None:
    limit, measured = (spikes.sel(source=side) for side in ("limit", "experiment"))
    found, errors = measured["singular_values"].values, measured["singular_values_stderr"].values
    for place, predicted in enumerate(limit["singular_values"].values):
        if not np.isfinite(predicted):
            break
        degree = float(limit["spike_degree"].values[place])
        colour, height = DEGREE_COLOURS[degree], top * (0.4 if degree == 1 else 0.55)
        axes.plot([predicted] * 2, [0, height], color=colour, linewidth=1.4, zorder=2)
        axes.errorbar(
            [found[place]],
            [height],
            xerr=[errors[place]],
            linestyle="none",
            marker="o",
            color=colour,
            markerfacecolor="white",
            markeredgewidth=1.2,
            zorder=3,
        )
        axes.annotate(
            f"degree {degree:.0f}\n{predicted:.2f}\n({found[place]:.2f} ± {errors[place]:.2f})",
            (predicted, height),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=colour,
        )


def _judge_bulk(bench: Bench, exponent: float, law: xarray.Dataset, fine: np.ndarray, measured: xarray.Dataset) -> None:
    expected = np.interp(SINGULAR_VALUES, fine, law["cdf"].values)
    name = f"n^{exponent:g}" if exponent else "0"
    bench.check(
        f"largest distance of the distributions of the bulk, eta = {name}",
        float(np.max(np.abs(measured["cdf"].values - expected))),
        "measured bulk against random features in the limit; the steps move it at a finite size",
        line=0.03,
    )


def _judge_spikes(bench: Bench, exponent: float, spikes: xarray.Dataset) -> None:
    limit, measured = (spikes.sel(source=side) for side in ("limit", "experiment"))
    values, found = limit["singular_values"].values, measured["singular_values"].values
    errors = measured["singular_values_stderr"].values
    for place in range(int(np.sum(np.isfinite(values)))):
        z = abs(found[place] - values[place]) / errors[place]
        bench.check(
            f"relative gap of spike {place + 1}, eta = n^{exponent:g}",
            abs(found[place] / values[place] - 1),
            f"predicted {values[place]:.6g}, measured {found[place]:.4g} +- {errors[place]:.2g}, |z| = {z:.1f}",
            line=bench.sized(0.12, 0.06),
        )
        degree = int(limit["spike_degree"].values[place])
        ours, theirs = (float(side["alignment"].sel(degree=degree).values[place]) for side in (limit, measured))
        bench.check(
            f"gap of its alignment with degree {degree}, eta = n^{exponent:g}",
            abs(ours - theirs),
            f"predicted {ours:.4f}, measured {theirs:.4f}",
            line=bench.sized(0.08, 0.04),
        )
    if np.isfinite(values).sum() < len(values):
        first = int(np.sum(np.isfinite(values)))
        bench.check(
            f"next singular value over the edge of the bulk, eta = n^{exponent:g}",
            float(found[first] / limit["bulk_edge"].values),
            "no further spike: it sticks to the bulk",
            line=1.06,
        )


# -- the spike of the first layer ----------------------------------------------------------------------------

WEIGHT_RATES = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0]
WEIGHT_PANELS = {
    "top_singular_value": r"top singular value of $W_1$,  $s_1$",
    "left_alignment": r"left vector and second layer,  $(u\cdot a)^2/|a|^2$",
    "right_alignment": r"right vector and target,  $(v\cdot w_*)^2$",
}


def weights_scenario(initial_output: int) -> OneStep:
    """Return the network of section 12.7 of the notes: Gaussian rows, p/d = 1.5, n0/d = 2, the whole gradient."""
    from giantstep import OneStep, SmallStep

    return OneStep(
        activation=CENTRED_RELU,
        **TARGETS["linear"],
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        second_layer="gaussian",
        rows="gaussian",
        step=SmallStep(1.0, batch_per_dim=2.0, update="exact", initial_output=initial_output),
    )


def weights_spike(bench: Bench) -> Figure:
    """Draw the spike of the updated first layer and where its vectors point, against the step."""
    from giantstep.study import Study

    figure, axes = new_figure(1, 3, width=11.4, height=3.8)
    dim, trials = bench.sized(300, 1000), bench.sized(16, 10)
    fine = np.linspace(0.0, 5.0, 401)
    handles = []
    for initial, colour, marker in ((0, BLUE, "o"), (1, VERMILION, "s")):
        base = weights_scenario(initial)
        drawn = bench.predict(f"output{initial}-limit", base, {"step.rate": fine}, what="weights")
        experiment = {"dim": dim, "trials": trials, "seed": SEED + 2}
        study = Study(base, "weights", {"step.rate": WEIGHT_RATES}, limit={"finite_size": False}, experiment=experiment)
        result = compared(bench, f"output{initial}", study, meaning="", judged=())
        for panel, variable in zip(axes, WEIGHT_PANELS):
            limit_line(panel, fine, np.nan_to_num(drawn[variable].values), colour)
            experiment_points(panel, WEIGHT_RATES, result, variable, colour, marker)
            _judge_weights(bench, variable, initial, result, dim)
        onset = fine[np.argmax(drawn["spike_strength"].values > drawn["threshold"].values)]
        for panel in axes:
            panel.axvline(onset, color=colour, linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=0)
        text = "constant output" if initial == 0 else r"output $a\cdot\sigma(Wx)$"
        handles.append(key(colour, marker, f"{text} at the start"))
    level(axes[0], float(drawn["bulk_upper"].values[0]), r"edge of the bulk, $1 + \sqrt{p/d}$", at=1.0, above=False)
    axes[0].set_ylim(1.95, None)
    for place, (panel, text) in enumerate(zip(axes, WEIGHT_PANELS.values())):
        panel.set_xlabel(r"size of the step,  $\eta = \eta_{\mathrm{raw}}/\sqrt{p}$")
        letter(panel, "abc"[place], text)
        if place:
            panel.set_ylim(-0.03, 1.0)
    axes[0].legend(handles=handles, loc="upper left")
    sides = engines(axes[1], rf"network, $d = {dim}$ (s.e.)", line=r"limit, $d \to \infty$")
    axes[1].legend(handles=sides, loc="upper left")
    bench.notes.append(
        "Whole gradient, Gaussian rows. Dotted verticals: the step from which the spike leaves the bulk (Baik, Ben "
        "Arous, Peche); before it the alignments are 0 in the limit, and of order 1/d in a network."
    )
    return figure


def _judge_weights(bench: Bench, variable: str, initial: int, result: xarray.Dataset, dim: int) -> None:
    limit, measured = (np.nan_to_num(result[variable].sel(source=side).values) for side in ("limit", "experiment"))
    value = variable == "top_singular_value"
    gaps = np.abs(measured - limit) / (limit if value else 1.0)
    worst = int(np.argmax(gaps))
    error = float(result[f"{variable}_stderr"].sel(source="experiment").values[worst])
    bench.check(
        f"largest {'relative ' if value else ''}gap of {variable}, initial_output = {initial}",
        float(gaps[worst]),
        f"at eta = {WEIGHT_RATES[worst]:g}: limit {limit[worst]:.4f}, network {measured[worst]:.4f} +- {error:.2g}; "
        f"the line grants the rounded transition d^(-1/3) at d = {dim}",
        line=round((0.4 if value else 0.8) * dim ** (-1 / 3), 3),
    )


RECIPES = (
    Recipe(
        name="feature-spikes",
        title="Singular values of the features with no, one and two spikes",
        paper="moniri2024theory",
        description=(
            "Histograms of the singular values of F/sqrt(n) for (a) no step, (b) eta = n^0.2 and (c) eta = n^0.3, with "
            "the bulk of the limit and the predicted spikes, named by their degree in the learnt feature."
        ),
        parameters=(
            "sigma = relu, centred, of unit variance, y = H1 + H2/sqrt 2, n/d = n0/d = 3, p/d = 1.5, rank-one update, "
            "d = 1000. Seeds 2320 and 2321."
        ),
        seconds_quick=6,
        seconds_full=45,
        make=feature_spikes,
    ),
    Recipe(
        name="weights-spike",
        title="The spike of the first layer after a small step",
        paper="ba2022high",
        description=(
            "Against the step: (a) top singular value of the first layer, (b) its left vector along the second layer, "
            "(c) its right vector along the target, with the transition; initial output constant, or of the network."
        ),
        parameters=(
            "sigma = relu - 1/sqrt(2 pi), y = H1 + noise of variance 1, Gaussian rows, p/d = 1.5, n0/d = 2, whole "
            "gradient, d = 1000. Seed 2322."
        ),
        seconds_quick=10,
        seconds_full=75,
        make=weights_spike,
    ),
)
