"""Cui et al., ICML 2024: the network after one gradient step, and what an isotropic map
of the step leaves out.
"""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep import MaximalStep, NoStep, OneStep, Vocabulary
from giantstep.core.result.layers import judged_side
from giantstep.core.result.verdicts import chance_line
from giantstep.papers.recipe import (
    FigureStudy,
    Recipe,
    Results,
    Size,
    Studies,
    comparison,
    limit,
)
from giantstep.papers.report import FINITE_SIZE, Check
from giantstep.tools.figures.panels import (
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
    DASHED,
    DOTTED,
    GREY,
    VERMILION,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NETWORKS = {
    "tanh-sin": OneStep(
        activation="tanh", target="sin(z)", width_per_dim=1.0, samples_per_dim=1.5, ridge=0.1,
        second_layer=Vocabulary([1]), step=MaximalStep(rate=3.0, batch_per_dim=2.0),
    ),
    "relu-tanh": OneStep(
        activation="relu", target="tanh(z)", width_per_dim=1.5, samples_per_dim=1.5, ridge=0.01,
        second_layer=Vocabulary([1, -1], [0.9, 0.1]), step=MaximalStep(rate=2.0, batch_per_dim=2.0),
    ),
    "relu-relu": OneStep(
        activation="relu", target="relu", noise=0.1, width_per_dim=1.3, samples_per_dim=2.0, ridge=0.05,
        second_layer=Vocabulary([1]), step=MaximalStep(rate=1.5, batch_per_dim=2.0),
    ),
}  # fmt: skip
"""The three networks of spiked_features section 16."""
TITLES = {
    "tanh-sin": r"tanh network, $g = \mathrm{sin}$, $\eta = 3$",
    "relu-tanh": r"ReLU network, $g = \mathrm{tanh}$, $\eta = 2$",
    "relu-relu": r"ReLU network, noisy ReLU target, $\eta = 1.5$",
}


def rejected(results: Results, name: str) -> FigureStudy:
    """Return the isotropic map at the points of a comparison, with its measured test
    errors laid over it.
    """
    asked = results.studies[name].study
    measured = results[name].sel(source="experiment", drop=True)
    side = measured[["test_error", "test_error_stderr", "converged", "status"]]
    other = limit(asked.scenario, asked.grid, theory="isotropic", dim=results.dim(name))
    study = replace(other.study, experiment=asked.experiment)
    return replace(other, study=study, verb="compare", stored=side)


# -- learning curves after a large and after a finite batch ----------------------------

SEED = 2402
SAMPLES = np.array([0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 2.5, 3.0])
CURVE_SAMPLES = np.array([0.2, 0.9, 1.6, 2.3, 3.0])
CURVE_BATCH = 20.0
"""The samples n/d and the batch n0/d of the paper's notebook."""


def curve_scenarios(batch: float) -> dict[str, OneStep]:
    """Return a tanh network on a sine and a ReLU network on a noisy ReLU after a step
    on a batch n0/d.
    """
    tanh = NETWORKS["tanh-sin"]
    relu = NETWORKS["relu-relu"].replace(target="relu(z)")
    return {
        "tanh": tanh.replace(step__batch_per_dim=batch),
        "relu": relu.replace(step__batch_per_dim=batch),
    }


def _curves(
    batch: float, samples: dict[str, np.ndarray], seed: int, dim: int, trials: int
) -> Studies:
    studies = {}
    for place, (name, base) in enumerate(curve_scenarios(batch).items()):
        points = samples[name]
        fine = {"samples_per_dim": np.linspace(points[0], points[-1], 81)}
        studies[name] = comparison(
            base, {"samples_per_dim": points}, meaning="the trained network beside its exact limit",
            judged=("test_error",), dim=dim, trials=trials, seed=seed + place,
        )  # fmt: skip
        studies[f"{name}-limit"] = limit(base, fine)
        studies[f"{name}-exact"] = limit(base, fine, dim=dim)
        studies[f"{name}-isotropic"] = limit(base, fine, theory="isotropic", dim=dim)
    return studies


def large_batch(size: Size) -> Studies:
    """Return both networks after a step on an infinite batch."""
    samples = {"tanh": SAMPLES, "relu": SAMPLES + 0.5}
    return _curves(np.inf, samples, SEED, size(300, 1000), size(40, 56))


def learning_curves(size: Size) -> Studies:
    """Return both networks after a step on a finite batch."""
    samples = {"tanh": CURVE_SAMPLES, "relu": CURVE_SAMPLES + 0.3}
    return _curves(CURVE_BATCH, samples, SEED + 2, size(200, 800), 100)


def _rejected_curves(results: Results) -> Studies:
    return {f"{name}-rejected": rejected(results, name) for name in ("tanh", "relu")}


def _draw_curves(results: Results, *titles: str) -> tuple[Figure, list[Axes]]:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, name in zip(axes, ("tanh", "relu")):
        at_dim = f"$d = {results.dim(name)}$"
        for side, colour, label, style in (
            ("exact", BLUE, f"exact theory, {at_dim}", {}),
            (
                "limit",
                BLUE,
                r"exact theory, $d \to \infty$",
                {"linestyle": DOTTED, "linewidth": 1.1},
            ),
            ("isotropic", VERMILION, f"isotropic map, {at_dim}", {"linestyle": DASHED}),
        ):
            line = results[f"{name}-{side}"]
            limit_line(
                panel,
                line["samples_per_dim"],
                line["test_error"],
                colour,
                label,
                **style,
            )
        points = results[name]["samples_per_dim"]
        text = rf"network, {at_dim}, mean $\pm$ 1 s.e."
        experiment_points(panel, points, results[name], "test_error", BLACK, "o", text)
        panel.set(
            xlabel="fresh samples per dimension,  $\\alpha = n/d$", ylabel="test error"
        )
        panel.legend(loc="upper right")
    letters(axes, *titles)
    return figure, axes


def _draw_large_batch(results: Results) -> Figure:
    figure, axes = _draw_curves(
        results, r"tanh network, $g = \sin$, $\eta = 3$", TITLES["relu-relu"]
    )
    level(
        axes[1],
        float(results["relu-exact"]["affine_error"][0]),
        "best affine predictor",
        at=1.0,
    )
    return figure


def _draw_learning_curves(results: Results) -> Figure:
    return _draw_curves(
        results,
        *(rf"{TITLES[name]}, $n_0 = 20\,d$" for name in ("tanh-sin", "relu-relu")),
    )[0]


def _curve_checks(results: Results) -> Iterator[Check]:
    """Say how far the isotropic theory is from the network, in standard errors, beside
    the exact one.
    """
    for name in ("tanh", "relu"):
        result = results[f"{name}-rejected"]
        z = np.abs(result["test_error_z"].values)
        samples = result["samples_per_dim"].values
        worst = int(np.argmax(z))
        off = abs(
            result["test_error_gap"].values / judged_side(result)["test_error"].values
        )[worst]
        yield Check(
            f"largest |z| of the isotropic theory, {name}",
            f"at n/d = {samples[worst]:g} it is off by {off:.1%}; the network rules it out beyond the line",
            z[worst], line=None if results.size.quick else round(chance_line(len(samples)), 2), above=True,
        )  # fmt: skip


# -- test error against the size of the batch, beside a stored experiment --------------

BATCHES = [0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
DIM = 4000
"""The stored experiment; the same study on a GPU gives its numbers again."""
TRIALS = {
    "tanh-sin": 128,
    "relu-tanh": 64,
    "relu-relu": 64,
    "elu-tanh": 64,
    "selu-tanh": 64,
}
STORED_SEED = 1


def real_network(network: str, dim: int = DIM) -> xarray.Dataset:
    """Return the stored experiment on a network of `TRIALS`, as `simulate` would, batch
    sizes increasing.

    `TRIALS` trials at d = 4000 (64 at 2000, 16 at 8000), made on an NVIDIA H200 by
    ``benchmarks/gpu_real_network.py``.
    """
    file = importlib.resources.files("giantstep.papers") / "data" / "real_network.csv"
    rows = [
        row
        for row in csv.DictReader(file.read_text().splitlines())
        if row.pop("network") == network
    ]
    columns = {
        name: np.array([float(row[name]) for row in rows if int(row["dim"]) == dim])
        for name in rows[0]
    }
    (trials,) = set(columns.pop("trials"))
    along = "step.batch_per_dim"
    _ = columns.pop("dim")
    coords = {along: columns.pop("batch_per_dim")}
    data: dict[str, Any] = {name: (along, values) for name, values in columns.items()}
    data["converged"] = along, np.ones(len(coords[along]), bool)
    data["status"] = along, np.full(len(coords[along]), "")
    return xarray.Dataset(data, coords, attrs={"trials": int(trials), "stored": True})


def finite_batch(size: Size) -> Studies:
    """Return the three networks against the size of the batch; on a GPU their
    experiment is made again.
    """
    return {
        key: study
        for name in NETWORKS
        for key, study in batch_studies(name, NETWORKS[name], size).items()
    }


def batch_studies(name: str, base: OneStep, size: Size) -> Studies:
    """Return one network against the size of the batch: stored experiment, exact and
    isotropic theory.
    """
    fine = {"step.batch_per_dim": np.geomspace(0.25, 120.0, size(41, 121))}
    return {
        name: comparison(
            base, {"step.batch_per_dim": BATCHES}, judged=("test_error", "train_error", "norm"),
            meaning=f"{name}: the trained network beside its exact limit, against the size of the batch",
            stored=real_network(name) if size.device == "cpu" else None, dim=DIM, trials=TRIALS[name], seed=STORED_SEED,
        ),
        f"{name}-exact": limit(base, fine, dim=DIM),
        f"{name}-isotropic": limit(base, fine, theory="isotropic", dim=DIM),
        f"{name}-large": limit(base, {"step.batch_per_dim": [np.inf]}, dim=DIM),
    }  # fmt: skip


def _rejected_networks(results: Results) -> Studies:
    return {f"{name}-rejected": rejected(results, name) for name in NETWORKS}


def _draw_finite_batch(results: Results) -> Figure:
    """Draw the three networks, and below each the difference to the exact limit."""
    return draw_batches(results, TITLES)


def draw_batches(results: Results, titles: dict[str, str]) -> Figure:
    """Draw networks side by side against the size of the batch, and below each the
    difference to the exact limit.
    """
    from matplotlib.ticker import FuncFormatter

    count = len(titles)
    figure, axes = new_figure(
        2, count, width=4.2 * count, height=5.4, height_ratios=(1.9, 1), sharex="col"
    )
    for name, upper, lower in zip(titles, axes, axes[count:]):
        draw_batch_panels(upper, lower, results, name)
        lower.set_xlabel(
            r"samples of the first batch per dimension,  $\alpha_0 = n_0/d$"
        )
        lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    letters(axes, *titles.values())
    axes[0].set_ylabel("test error")
    axes[count].set_ylabel("difference to the\nexact theory (%)")
    axes[0].legend(loc="upper right")
    figure.align_ylabels([axes[0], axes[count]])
    return figure


def draw_batch_panels(upper: Axes, lower: Axes, results: Results, name: str) -> None:
    """Draw one network against the size of the batch, and the difference to the exact
    limit below.
    """
    result = results[name]
    large = float(results[f"{name}-large"]["test_error"][0])
    x = results[f"{name}-exact"]["step.batch_per_dim"].values
    exact, isotropic = (
        results[f"{name}-{side}"]["test_error"].values
        for side in ("exact", "isotropic")
    )
    where = " (H200)" if result.attrs.get("stored") else ""
    limit_line(upper, x, exact, BLUE, "exact theory")
    limit_line(upper, x, isotropic, VERMILION, "isotropic map", linestyle=DASHED)
    upper.axhline(
        large,
        color=GREY,
        linewidth=1.2,
        linestyle=DOTTED,
        zorder=1,
        label="large batch",
    )
    text = f"network, $d = {DIM}${where}, $\\pm$ 1 s.e."
    experiment_points(upper, BATCHES, result, "test_error", BLACK, "o", text)
    upper.set(xscale="log", yscale="log", xlim=(x[0], x[-1]))
    plain_log_ticks(upper.yaxis)
    upper.tick_params(labelbottom=False)
    lower.axhline(0.0, color=BLUE, zorder=2)
    limit_line(lower, x, 100 * (isotropic / exact - 1), VERMILION, linestyle=DASHED)
    at_points = judged_side(result)["test_error"].values
    errors = result["test_error_stderr"].sel(source="experiment").values
    error_points(
        lower,
        BATCHES,
        100 * result["test_error_gap"] / at_points,
        100 * errors / at_points,
        BLACK,
    )
    low, high = lower.get_ylim()
    lower.set_ylim(min(low, -3.0), max(high, 3.0))


def _finite_batch_checks(results: Results) -> Iterator[Check]:
    from scipy import special

    scores = [results[name]["test_error_z"].values for name in NETWORKS]
    others = [
        np.abs(results[f"{name}-rejected"]["test_error_z"].values) for name in NETWORKS
    ]
    exact = np.concatenate(scores)
    isotropic = np.concatenate(others)
    points = len(exact)
    square = float(np.sum(exact**2))
    line = chance_line(points)
    yield Check(
        "largest |z| of the exact theory", f"so many points ({points}) pass the line by chance once in 1,000",
        np.max(np.abs(exact)), line=round(line, 2),
    )  # fmt: skip
    yield Check(
        "chance of a larger sum of z^2, exact theory",
        f"sum of z^2 {square:.1f} over {points} points, which is what noise alone would give",
        special.chdtrc(points, square), line=0.001, above=True,
    )  # fmt: skip
    shift = np.array([np.sum(z) / np.sqrt(len(z)) for z in scores])
    worst = int(np.argmax(np.abs(shift)))
    yield Check(
        "largest |sum of z|/sqrt(points) of a network, exact theory",
        f"a common shift of all points of one network, {list(NETWORKS)[worst]}: {shift[worst]:+.2f}; terms of order "
        f"1/d that the theory leaves out (up to {FINITE_SIZE / DIM:.2%}) add to it",
        np.abs(shift[worst]), line=round(chance_line(len(shift)), 2),
    )  # fmt: skip
    yield Check(
        "largest |z| of the isotropic map",
        f"{int(np.sum(isotropic > line))} of {points} points are beyond {line:.2f}: the network rules it out",
        np.max(isotropic), line=5.0, above=True,
    )  # fmt: skip
    for name, z in zip(NETWORKS, others):
        where = f"at n0/d = {BATCHES[int(np.argmax(z))]:g}"
        yield Check(
            f"largest |z| of the isotropic map, {name}",
            where,
            np.max(z),
            line=5.0,
            above=True,
        )


def _finite_batch_notes(results: Results) -> list[str]:
    if results.size.device == "cpu":
        where = "stored experiment, NVIDIA H200"
    else:
        where = "experiment of this run"
    return [
        f"Dots: {where}, d = {DIM}, 64 to 128 trials, mean and standard error. "
        "Exact theory and isotropic map are drawn and judged with their finite-size correction at that d; dotted: the "
        "exact limit of a large batch."
    ]


# -- test error against the step size --------------------------------------------------

STEP_SEED = 2026
RATES = np.array([0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 20.0])
STEP_BATCH = 2.0
STEP_NETWORKS = ("relu-tanh", "tanh-sin")
STEP_CASES = (
    ("large", np.inf, "a large batch", BLUE, "o", "large batch"),
    ("batch-2", STEP_BATCH, "n0/d = 2", VERMILION, "s", r"$n_0 = 2\,d$"),
)
"""Name, n0/d, words for the report, colour, marker and words of the legend."""


def step_size(size: Size) -> Studies:
    """Return two networks against the size of the step, on a large and on a small
    batch.
    """
    studies = {}
    dim = size(150, 400)
    fine = {"step.rate": np.geomspace(RATES[0] / 1.6, RATES[-1] * 1.5, 121)}
    for name in STEP_NETWORKS:
        studies[f"{name}-untrained"] = limit(NETWORKS[name].replace(step=NoStep()))
        for case, batch, *_ in STEP_CASES:
            base = NETWORKS[name].replace(step__batch_per_dim=batch)
            studies[f"{name}-{case}"] = comparison(
                base, {"step.rate": RATES[:: size(2, 1)]}, judged=("test_error",),
                meaning=f"test error against the step size, {name}, n0/d = {batch:g}",
                dim=dim, trials=size(20, 32 if case == "large" else 52), seed=STEP_SEED,
            )  # fmt: skip
            studies[f"{name}-{case}-line"] = limit(base, fine, dim=dim)
    return studies


def _best(line: xarray.Dataset) -> tuple[float, float]:
    """Return the step size of the smallest test error, and that error."""
    errors = line["test_error"].values
    return float(line["step.rate"].values[np.argmin(errors)]), float(np.min(errors))


def _draw_step_size(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.8, height=4.0)
    for panel, name in zip(axes, STEP_NETWORKS):
        best = []
        for case, _, _, colour, marker, _ in STEP_CASES:
            result = results[f"{name}-{case}"]
            line = results[f"{name}-{case}-line"]
            limit_line(panel, line["step.rate"], line["test_error"], colour)
            experiment_points(
                panel, result["step.rate"], result, "test_error", colour, marker
            )
            best.append((*_best(line), colour))
        fine = line["step.rate"].values
        panel.set(xscale="log", yscale="log", xlim=(fine[0], fine[-1]))
        untrained = float(results[f"{name}-untrained"]["test_error"])
        level(panel, untrained, "random features", at=0.98, above=name == "tanh-sin")
        plain_log_ticks(panel.xaxis)
        plain_log_ticks(panel.yaxis)
        bottom = 0.6 * min(error for _, error, _ in best)
        panel.set(xlabel=r"step size,  $\eta$", ylabel="test error")
        panel.set_ylim(bottom=bottom)
        for rate, error, colour in best:
            panel.plot(
                [rate] * 2,
                [bottom, error],
                color=colour,
                linewidth=0.9,
                linestyle=DOTTED,
                zorder=1,
            )
            panel.plot(
                rate,
                bottom,
                marker="^",
                markersize=7,
                color=colour,
                clip_on=False,
                zorder=4,
            )
    arrow = key(GREY, "^", "best step size", "")
    arrow.set(markerfacecolor=GREY, markersize=6)
    entries = [key(colour, marker, label) for *_, colour, marker, label in STEP_CASES]
    at_dim = f"$d = {results.dim('tanh-sin-large')}$"
    sides = engines(
        axes[1], rf"experiment, {at_dim}, $\pm$ 1 s.e.", line=f"theory, {at_dim}"
    )
    axes[1].legend(handles=[*entries, *sides, arrow], loc="lower left")
    letters(axes, *(TITLES[name].rsplit(",", 1)[0] for name in STEP_NETWORKS))
    return figure


def _step_size_checks(results: Results) -> Iterator[Check]:
    for name in STEP_NETWORKS:
        untrained = float(results[f"{name}-untrained"]["test_error"])
        for case, _, words, *_ in STEP_CASES:
            rate, error = _best(results[f"{name}-{case}-line"])
            meaning = (
                f"test error {error:.4f} there, {untrained:.4f} for random features"
            )
            yield Check(f"best step size, {name}, {words}", meaning, rate)


RECIPES = (
    Recipe(
        "large-batch",
        "The network after one population-gradient step: exact limit and isotropic map",
        "Test error against n/d for (a) tanh on a sine and (b) ReLU on a noisy ReLU: the exact limit, the published "
        "isotropic map of the step, and the real network, which tells them apart.",
        large_batch,
        _draw_large_batch,
        _curve_checks,
        then=_rejected_curves,
        notes=(
            "The theories are drawn with their finite-size correction at the d of the network; "
            "the dotted line is the limit itself.",
        ),
        seconds=15,
    ),
    Recipe(
        "learning-curves",
        "Learning curves after a step on a batch of 20 d samples",
        "Test error against n/d for (a) the tanh network of the paper's notebook and (b) a ReLU network: exact limit, "
        "published isotropic map, and the real network.",
        learning_curves,
        _draw_learning_curves,
        _curve_checks,
        then=_rejected_curves,
        seconds=25,
    ),
    Recipe(
        "finite-batch",
        "The network after a step on a finite batch: who is right?",
        "Test error against n0/d for three networks: the exact limit, the published isotropic map, the limit of a "
        "large batch, and the real network at d = 4000 (stored, made on an H200; rerun with --device cuda); below, the "
        "difference to the exact limit in percent.",
        finite_batch,
        _draw_finite_batch,
        _finite_batch_checks,
        then=_rejected_networks,
        notes=_finite_batch_notes,
        seconds=4,
    ),
    Recipe(
        "step-size",
        "How large should the step be? Test error against its size",
        "Test error against eta for a step on a large batch and on a small one, with the best step size marked and "
        "random features as the baseline, for (a) ReLU on tanh and (b) tanh on a sine.",
        step_size,
        _draw_step_size,
        _step_size_checks,
        notes=(
            "At rate 8 a step on a large batch nearly cancels the rows of the larger block of the ReLU network. The "
            "mean of the block is longer than its rows are beside it there (finite_size_steps section 13).",
        ),
        seconds=20,
    ),
)
