"""Trade-offs: the best step size, split of a budget, shape of a network and ridge, with
networks at the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep import MaximalStep, OneStep, Vocabulary, optimize
from giantstep.core.base.types import Floats
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    engines,
    error_points,
    experiment_points,
    key,
    letters,
    limit_line,
)
from giantstep.tools.figures.style import (
    BLACK,
    COLORMAP,
    DASHED,
    MARKERS,
    PALETTE,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEED = 2026
SAMPLES = "samples of the fit per dimension,  $n/d$"
WIDTH = "neurons per dimension,  $p/d$"
BATCH = "samples of the step per dimension,  $n_0/d$"

STEP = OneStep(
    activation="relu", target="z + h2(z)", noise=0.1, width_per_dim=1.5, samples_per_dim=2.0, ridge=1.0,
    second_layer=Vocabulary([1, -1]), step=MaximalStep(rate=3.0, batch_per_dim=4.0),
)  # fmt: skip
"""A target that one giant step helps with: its direction is learnt from n0 samples, its
parabola needs the fit.
"""

FEATURES = OneStep(
    activation="relu", target="z + 0.5*h2(z)", noise=0.2, width_per_dim=2.0, samples_per_dim=2.0, ridge=1.0,
    second_layer=Vocabulary([1]),
)  # fmt: skip
"""Random features, for the trade-offs of the read-out alone."""


def along(best: xarray.Dataset, dim: str, *names: str) -> dict[str, Any]:
    """Return a grid along one dimension on which other fields follow an optimum."""
    line = best[dim].values
    followed = {
        name: xarray.DataArray(best[name].values, dims=dim, coords={dim: line})
        for name in names
    }
    return {dim: line.tolist(), **followed}


def path(**fields: Sequence[float] | Floats) -> dict[str, Any]:
    """Return a grid on which fields vary together, point by point."""
    return {
        name: xarray.DataArray(list(values), dims="point")
        for name, values in fields.items()
    }


def _network_key(results: Results, name: str, axes: Axes) -> list[Any]:
    return engines(
        axes,
        rf"network, $d = {results.dim(name)}$, $\pm$ 1 s.e.",
        line=r"limit, $d \to \infty$",
    )


# -- the best step size ----------------------------------------------------------------

RATE = {"step.rate": (0.05, 30.0)}
SHOWN_SAMPLES = (0.5, 2.0, 8.0)


def best_step_size(size: Size) -> Studies:
    """Return the test error against the rate of the step, for a few numbers of
    samples.
    """
    rates = np.geomspace(0.1, 30.0, 41)
    return {
        "rates": limit(
            STEP, {"samples_per_dim": list(SHOWN_SAMPLES), "step.rate": rates}
        )
    }


def _at_best_rate(results: Results) -> Studies:
    size = results.size
    best = optimize(
        STEP,
        over=RATE,
        samples_per_dim=np.geomspace(0.25, 16.0, size(17, 25)),
        starts=9,
    )
    chosen = optimize(STEP, over=RATE, samples_per_dim=list(SHOWN_SAMPLES), starts=9)
    return {
        "best": limit(STEP, along(best, "samples_per_dim", "step.rate")),
        "networks": comparison(
            STEP, along(chosen, "samples_per_dim", "step.rate"), judged=("test_error",),
            meaning="test error at the best rate", dim=size(150, 600), trials=size(12, 40), seed=SEED,
        ),
    }  # fmt: skip


def _draw_step_size(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    rates = results["rates"]
    best = results["best"]
    networks = results["networks"]
    for number, samples in enumerate(SHOWN_SAMPLES):
        colour = PALETTE[number]
        marker = MARKERS[number]
        limit_line(
            axes[0],
            rates["step.rate"],
            rates["test_error"].sel(samples_per_dim=samples),
            colour,
        )
        at = networks.sel(samples_per_dim=[samples])
        experiment_points(axes[0], at["step.rate"], at, "test_error", colour, marker)
        axes[1].plot(samples, float(at["step.rate"][0]), marker, color=colour, zorder=3)
    axes[0].set(
        xscale="log",
        yscale="log",
        xlabel=r"rate of the step,  $\eta$",
        ylabel="test error",
    )
    limit_line(axes[1], best["samples_per_dim"], best["step.rate"], BLACK)
    axes[1].set(
        xscale="log", xlabel=SAMPLES, ylabel=r"best rate,  $\eta_*$", ylim=(0, 4)
    )
    for panel in axes:
        plain_log_ticks(panel.xaxis)
    plain_log_ticks(axes[0].yaxis)
    handles = [
        key(PALETTE[i], MARKERS[i], rf"$n/d = {value:g}$")
        for i, value in enumerate(SHOWN_SAMPLES)
    ]
    axes[0].legend(
        handles=[*handles, *_network_key(results, "networks", axes[0])],
        ncol=2,
        loc="upper left",
    )
    letters(
        axes, "error against the rate, networks at the optimum", "where the optimum is"
    )
    return figure


# -- the split of a budget of samples --------------------------------------------------

TOTALS = (6.0, 12.0, 24.0)
"""Samples per dimension to be split between step and fit."""


def sample_budget(size: Size) -> Studies:
    """Return the test error after a step on n0 samples, for a few sizes of the fit."""
    batches = np.geomspace(0.25, 8.0, size(7, 21))
    return {
        "batches": limit(
            STEP, {"samples_per_dim": [1.0, 2.0, 4.0], "step.batch_per_dim": batches}
        )
    }


def best_split(total: float) -> xarray.Dataset:
    """Return the best split of `total` samples per dimension between step and fit."""
    return optimize(
        STEP, over={"step.batch_per_dim": (0.05 * total, 0.95 * total, "linear")}, starts=9,
        budget=f"step.batch_per_dim + samples_per_dim = {total}",
    )  # fmt: skip


def _splits(results: Results) -> Studies:
    size = results.size
    shares = np.linspace(0.08, 0.92, size(31, 41))
    studies: dict[str, Any] = {}
    for total in TOTALS:
        split = float(best_split(total)["step.batch_per_dim"])
        batches = total * shares
        studies[f"line-{total:g}"] = limit(
            STEP,
            path(samples_per_dim=total - batches, **{"step.batch_per_dim": batches}),
        )
        three = np.array([0.15 * total, split, 0.9 * total])
        studies[f"networks-{total:g}"] = comparison(
            STEP, path(samples_per_dim=total - three, **{"step.batch_per_dim": three}), judged=("test_error",),
            meaning=f"test error with {total:g} d samples: most for the fit, the best split, most for the step",
            dim=size(150, 500), trials=size(16, 60), seed=SEED + 1,
        )  # fmt: skip
    totals = np.geomspace(4.0, 32.0, size(7, 13))
    best = [float(best_split(total)["step.batch_per_dim"]) for total in totals]
    studies["best"] = limit(
        STEP, path(samples_per_dim=totals - best, **{"step.batch_per_dim": best})
    )
    return studies


def _draw_budget(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for number, total in enumerate(TOTALS):
        colour = PALETTE[number]
        marker = MARKERS[number]
        line = results[f"line-{total:g}"]
        networks = results[f"networks-{total:g}"]
        limit_line(
            axes[0], line["step.batch_per_dim"] / total, line["test_error"], colour
        )
        experiment_points(
            axes[0],
            networks["step.batch_per_dim"] / total,
            networks,
            "test_error",
            colour,
            marker,
        )
        axes[1].plot(
            total,
            float(networks["step.batch_per_dim"][1]) / total,
            marker,
            color=colour,
            zorder=3,
        )
    best = results["best"]
    totals = best["step.batch_per_dim"] + best["samples_per_dim"]
    limit_line(axes[1], totals, best["step.batch_per_dim"] / totals, BLACK)
    axes[0].set(
        xlabel="share of the samples that the step gets",
        ylabel="test error",
        xlim=(0, 1),
    )
    axes[1].set(
        xscale="log",
        xlabel="all samples per dimension",
        ylabel="best share for the step",
        ylim=(0, 1),
    )
    plain_log_ticks(axes[1].xaxis)
    handles = [
        key(PALETTE[i], MARKERS[i], rf"$(n_0 + n)/d = {total:g}$")
        for i, total in enumerate(TOTALS)
    ]
    axes[0].legend(
        handles=[*handles, *_network_key(results, "networks-6", axes[0])],
        loc="upper right",
    )
    letters(axes, "networks at the best split and near both ends", "the best split")
    return figure


def _budget_checks(results: Results) -> Iterator[Check]:
    for total in TOTALS:
        measured = results[f"networks-{total:g}"].sel(source="experiment")
        errors = measured["test_error"].values
        spread = measured["test_error_stderr"].values
        for end, word in ((0, "step"), (2, "fit")):
            z = (errors[end] - errors[1]) / np.hypot(spread[end], spread[1])
            yield Check(
                f"{total:g} d samples: standard errors by which little for the {word} is worse",
                "networks at the best split are better than near the ends; the line is for full sizes", z,
                line=None if results.size.quick else 3.0, above=True,
            )  # fmt: skip


# -- width against samples at equal cost -----------------------------------------------

COSTS = (1.0, 4.0, 16.0)
"""n p/d^2: the multiplications that the features of all samples cost, over d^3."""


def width_or_samples(size: Size) -> Studies:
    """Return the test error against the width, for a few numbers of samples."""
    widths = np.geomspace(0.25, 16.0, size(15, 41))
    return {
        "widths": limit(
            FEATURES, {"samples_per_dim": [1.0, 2.0, 4.0], "width_per_dim": widths}
        )
    }


def best_shape(cost: float, **fields: Any) -> xarray.Dataset:
    """Return the best width, samples and ridge at a cost n p/d^2."""
    side = np.sqrt(cost)
    spans = {
        "ridge": (1e-4, 1e2),
        "width_per_dim": (side / 12, side * 12),
        "samples_per_dim": (side / 12, side * 12),
    }
    return optimize(
        FEATURES, over=spans, budget=f"width_per_dim*samples_per_dim = {cost}", **fields
    )


def _shapes(results: Results) -> Studies:
    size = results.size
    studies: dict[str, Any] = {}
    for cost in COSTS:
        widths = np.sqrt(cost) * np.geomspace(1 / 8, 8, 33)
        pairs = path(samples_per_dim=cost / widths, width_per_dim=widths)
        tuned = optimize(FEATURES, pairs, over={"ridge": (1e-4, 1e2)}, starts=9)
        studies[f"line-{cost:g}"] = limit(
            FEATURES, {**pairs, **path(ridge=tuned["ridge"].values)}
        )
        best = best_shape(cost)
        point = {
            name: [float(best[name])]
            for name in ("samples_per_dim", "width_per_dim", "ridge")
        }
        studies[f"networks-{cost:g}"] = comparison(
            FEATURES, path(**point), judged=("test_error",), meaning=f"error at the best shape, n p = {cost:g} d^2",
            dim=size(120, 400), trials=size(16, 40), seed=SEED + 2,
        )  # fmt: skip
    costs = np.geomspace(0.5, 64.0, size(13, 15))
    shapes = [best_shape(cost) for cost in costs]
    columns = {
        name: [float(best[name]) for best in shapes]
        for name in ("samples_per_dim", "width_per_dim", "ridge")
    }
    studies["best"] = limit(FEATURES, path(**columns))
    return studies


def _draw_shapes(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for number, cost in enumerate(COSTS):
        colour = PALETTE[number]
        marker = MARKERS[number]
        line = results[f"line-{cost:g}"]
        networks = results[f"networks-{cost:g}"]
        limit_line(
            axes[0],
            line["width_per_dim"] / line["samples_per_dim"],
            line["test_error"],
            colour,
        )
        ratio = networks["width_per_dim"] / networks["samples_per_dim"]
        experiment_points(axes[0], ratio, networks, "test_error", colour, marker)
    best = results["best"]
    costs = best["width_per_dim"] * best["samples_per_dim"]
    limit_line(axes[1], costs, best["width_per_dim"], PALETTE[3])
    limit_line(axes[1], costs, best["samples_per_dim"], PALETTE[4])
    axes[0].set(
        xscale="log",
        xlabel="neurons per sample,  $p/n$",
        ylabel="test error at the best ridge",
        ylim=(1.0, 1.9),
    )
    axes[1].set(
        xscale="log", yscale="log", xlabel="cost,  $n p/d^2$", ylabel="per dimension"
    )
    plain_log_ticks(axes[1].xaxis)
    plain_log_ticks(axes[1].yaxis)
    handles = [
        key(PALETTE[i], MARKERS[i], f"$n p/d^2 = {value:g}$")
        for i, value in enumerate(COSTS)
    ]
    axes[0].legend(
        handles=[*handles, *_network_key(results, "networks-1", axes[0])],
        ncol=2,
        loc="upper center",
    )
    axes[1].legend(
        handles=[
            key(PALETTE[3], "", "best width, $p/d$"),
            key(PALETTE[4], "", "best samples, $n/d$"),
        ]
    )
    letters(axes, "at equal cost, networks at the optimum", "the best shape")
    return figure


# -- the ridge path --------------------------------------------------------------------

PATH_SAMPLES = (1.0, 2.0, 4.0)
RIDGE = {"ridge": (1e-4, 1e3)}


def ridge_path(size: Size) -> Studies:
    """Return the test error along the ridge, with networks on the same path."""
    ridges = np.geomspace(1e-3, 1e2, 61)
    few = np.geomspace(1e-3, 1e2, 11)
    samples = list(PATH_SAMPLES)
    return {
        "networks": comparison(
            FEATURES, {"samples_per_dim": samples, "ridge": few}, judged=("test_error",),
            meaning="test error along the ridge", dim=size(150, 600), trials=size(12, 40), seed=SEED + 3,
        ),
        "paths": limit(FEATURES, {"samples_per_dim": samples, "ridge": ridges}),
    }  # fmt: skip


def _best_ridges(results: Results) -> Studies:
    best = optimize(
        FEATURES,
        over=RIDGE,
        samples_per_dim=np.geomspace(0.5, 12.0, results.size(13, 33)),
        starts=13,
    )
    return {"best": limit(FEATURES, along(best, "samples_per_dim", "ridge"))}


def _draw_path(results: Results) -> Figure:
    figure, (axes,) = new_figure(1, 1, width=6.4, height=4.2)
    paths = results["paths"]
    networks = results["networks"]
    best = results["best"]
    for number, samples in enumerate(PATH_SAMPLES):
        colour = PALETTE[number]
        limit_line(
            axes,
            paths["ridge"],
            paths["test_error"].sel(samples_per_dim=samples),
            colour,
        )
        experiment_points(
            axes,
            networks["ridge"],
            networks.sel(samples_per_dim=samples),
            "test_error",
            colour,
            MARKERS[number],
        )
    limit_line(axes, best["ridge"], best["test_error"], BLACK, linestyle=DASHED)
    highest = float(paths["test_error"].max())
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=r"ridge,  $\lambda$",
        ylabel="test error",
        ylim=(None, 1.1 * highest),
    )
    plain_log_ticks(axes.yaxis)
    handles = [
        key(PALETTE[i], MARKERS[i], f"$n/d = {value:g}$")
        for i, value in enumerate(PATH_SAMPLES)
    ]
    optimum = key(BLACK, "", "best ridge, every $n/d$", DASHED)
    axes.legend(
        handles=[*handles, *_network_key(results, "networks", axes), optimum],
        loc="upper right",
    )
    return figure


# -- a map with the optimum on it ------------------------------------------------------


def map_with_optimum(size: Size) -> Studies:
    """Return the test error over samples and ridge."""
    count = size(25, 61)
    grid = {
        "samples_per_dim": np.geomspace(0.25, 16.0, count),
        "ridge": np.geomspace(1e-3, 1e2, count),
    }
    along_ridge = np.union1d(
        np.geomspace(0.25, 16.0, 97),
        FEATURES.width_per_dim * np.linspace(0.8, 1.25, 37),
    )
    return {
        "map": limit(FEATURES, grid),
        "small-ridge": limit(
            FEATURES.replace(ridge=1e-3), {"samples_per_dim": along_ridge}
        ),
    }


def _on_the_map(results: Results) -> Studies:
    size = results.size
    best = optimize(
        FEATURES,
        over=RIDGE,
        samples_per_dim=np.geomspace(0.25, 16.0, size(13, 33)),
        starts=13,
    )
    few = optimize(
        FEATURES, over=RIDGE, samples_per_dim=np.geomspace(0.5, 8.0, 5), starts=13
    )
    return {
        "best": limit(FEATURES, along(best, "samples_per_dim", "ridge")),
        "networks": comparison(
            FEATURES, along(few, "samples_per_dim", "ridge"), judged=("test_error",),
            meaning="test error at the best ridge", dim=size(150, 500), trials=size(30, 60), seed=SEED + 4,
        ),
    }  # fmt: skip


def _draw_map(results: Results) -> Figure:
    from matplotlib.colors import LogNorm

    figure, axes = new_figure(1, 2, width=10.2, height=3.9)
    errors = results["map"]["test_error"]
    best = results["best"]
    networks = results["networks"]
    scale = LogNorm(float(errors.min()), float(np.quantile(errors, 0.98)))
    drawn = axes[0].pcolormesh(
        errors["samples_per_dim"],
        errors["ridge"],
        errors.T,
        norm=scale,
        cmap=COLORMAP,
        shading="gouraud",
    )
    axes[0].plot(best["samples_per_dim"], best["ridge"], color="white", linewidth=1.8)
    measured = networks["test_error"].sel(source="experiment")
    axes[0].scatter(
        networks["samples_per_dim"], networks["ridge"], c=measured, norm=scale, cmap=COLORMAP, s=70,
        edgecolors="white", linewidths=1.4, zorder=4,
    )  # fmt: skip
    axes[0].axvline(
        FEATURES.width_per_dim, color="white", linewidth=0.8, linestyle=(0, (1, 1.5))
    )
    colours = figure.colorbar(drawn, ax=axes[0], label="test error", extend="max")
    axes[0].set(xscale="log", yscale="log", xlabel=SAMPLES, ylabel=r"ridge,  $\lambda$")
    fixed = results["small-ridge"]["test_error"]
    highest = 1.6 * float(fixed.max())
    limit_line(axes[1], fixed["samples_per_dim"], fixed, PALETTE[1], linestyle=DASHED)
    limit_line(axes[1], best["samples_per_dim"], best["test_error"], PALETTE[0])
    spread = networks["test_error_stderr"].sel(source="experiment")
    error_points(axes[1], networks["samples_per_dim"], measured, spread, PALETTE[0])
    axes[1].set(
        xscale="log",
        yscale="log",
        xlabel=SAMPLES,
        ylabel="test error",
        ylim=(0.9, highest),
    )
    for axis in (axes[0].xaxis, axes[1].xaxis, axes[1].yaxis, colours.ax.yaxis):
        plain_log_ticks(axis)
    handles = [
        key(PALETTE[0], MARKERS[0], "best ridge"),
        key(PALETTE[1], "", r"$\lambda = 10^{-3}$", DASHED),
    ]
    axes[1].legend(
        handles=[*handles, *_network_key(results, "networks", axes[1])],
        loc="upper left",
    )
    letters(axes, "the best ridge on the map; dots: networks", "along that line")
    return figure


def _map_checks(results: Results) -> Iterator[Check]:
    curve = results["best"]["test_error"].values
    yield Check(
        "largest rise of the error with more samples, at the best ridge",
        "with the best ridge more samples never hurt: no peak is left",
        np.max(np.diff(curve)), line=1e-9,
    )  # fmt: skip


RECIPES = (
    Recipe(
        "best-step-size",
        "The best step size against the samples of the fit",
        "(a) test error against the rate of the step, networks at the optimum; (b) the best rate against n/d.",
        best_step_size,
        _draw_step_size,
        then=_at_best_rate,
        seconds=19,
    ),
    Recipe(
        "sample-budget",
        "A budget of samples, split between the step and the fit",
        "(a) test error against the share of the step, networks at the best split and near both ends; "
        "(b) the best share.",
        sample_budget,
        _draw_budget,
        _budget_checks,
        then=_splits,
        seconds=43,
    ),
    Recipe(
        "width-or-samples",
        "Neurons or samples at equal cost",
        "(a) test error at the best ridge along n p = const, networks at the optimum; (b) the best width and samples.",
        width_or_samples,
        _draw_shapes,
        then=_shapes,
        seconds=20,
    ),
    Recipe(
        "ridge-path",
        "Ridge paths and the optimum on them",
        "Test error along the ridge for three n/d, with networks; dashed: the best ridge for every n/d.",
        ridge_path,
        _draw_path,
        then=_best_ridges,
        seconds=7,
    ),
    Recipe(
        "map-with-optimum",
        "A map of the test error with the best ridge drawn on it",
        "(a) test error over n/d and ridge, the best ridge as a line, networks as dots in the colours of the map; "
        "(b) the error along that line: no peak is left.",
        map_with_optimum,
        _draw_map,
        _map_checks,
        then=_on_the_map,
        seconds=11,
    ),
)
