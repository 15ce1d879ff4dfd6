"""Arnaboldi et al. 2024: batch size and time of one-pass SGD."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep import OnlineSGD
from giantstep.papers.loss_change import errors_with_change
from giantstep.papers.recipe import (
    Recipe,
    Results,
    Size,
    Studies,
    comparison,
    experiment,
    limit,
    no_checks,
)
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    compared,
    engines,
    error_points,
    experiment_points,
    key,
    letters,
    level,
    limit_line,
)
from giantstep.tools.figures.phase_diagram import draw_phase_diagram
from giantstep.tools.figures.style import (
    BLUE,
    GREEN,
    MARKERS,
    ORANGE,
    PALETTE,
    VERMILION,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEED = 2406
ERF = "erf(z/sqrt(2))"


def hermite(
    mu: float, algorithm: str, gamma0: float, dim: int, steps: int, **fields: Any
) -> OnlineSGD:
    """Return H3 learnt by H3, projected, with n_b = d^mu and gamma = gamma0 n_b
    d^-3/2.
    """
    batch = round(dim**mu)
    base = {
        "target": "h3(z1)",
        "activation": "h3",
        "constraint": "projected",
        "initial_overlap": "random",
    }
    rate = gamma0 * batch * dim**-1.5
    return OnlineSGD(
        **{
            **base,
            "dim": dim,
            "batch_size": batch,
            "rate": rate,
            "steps": steps,
            "algorithm": algorithm,
            **fields,
        }
    )


def _some(steps: int) -> list[int]:
    return np.unique(np.round(np.linspace(0, steps, 61))).astype(int).tolist()


def _early(steps: int) -> list[int]:
    shares = np.concatenate([np.linspace(0, 0.4, 61), np.linspace(0.4, 1, 21)])
    return np.unique(np.round(shares * steps)).astype(int).tolist()


# -- phase diagrams --------------------------------------------------------------------

CORNERS = {"squared": (1.5, 0.5), "correlation": (2.0, 0.0)}
"""mu and theta of the batch that needs the shortest time, by loss."""


def phases(size: Size) -> Studies:
    """Return the exponents of a run with l = 3, and of the best batch of each loss at a
    large dimension.
    """
    run = hermite(1.0, "correlation", 0.02, 1024, 2814)
    dim = 10**7
    corners = {
        f"{name}-corner": limit(
            run.replace(algorithm=name, dim=dim, batch_size=round(dim**mu)),
            None,
            "phases",
        )
        for name, (mu, _) in CORNERS.items()
    }
    return {"run": limit(run, None, "phases"), **corners}


def _draw_phases(results: Results) -> Figure:
    return draw_phase_diagram(results["run"])


def _phases_checks(results: Results) -> Iterator[Check]:
    for name, (mu, theta) in CORNERS.items():
        gap = abs(float(results[f"{name}-corner"]["theta_best"]) - theta)
        yield Check(
            f"time exponent at the corner, {name} loss",
            f"at mu = {mu:g}: {theta:g}",
            gap,
            line=1e-3,
        )


# -- recovery times --------------------------------------------------------------------

RECOVERY = (
    (0.0, 0.02, (16, 24, 32), (24, 32, 64, 128)),
    (1.0, 0.02, (32, 64, 128), (64, 128, 256, 512, 1024)),
    (1.5, 0.005, (32, 64, 128), (64, 128, 256, 512)),
    (2.0, 0.02, (32, 64, 128), (32, 64, 128, 256)),
)
"""Exponent of the batch size, gamma0, and the dimensions, quick and in full."""
PUBLISHED = {5: 1, 8: 5, 11: 8, 14: 11, 17: 14, 20: 17, 23: 21, 26: 24, 29: 27, 32: 30}
"""Published updates until half the squared error is below 1.9, by log2 d (H2, n_b = 3d,
rate 0.1).
"""


def recovery(size: Size) -> Studies:
    """Return the time to reach a cosine of 1/2 over dimensions with their own batch and
    rate; the polylog table.
    """
    studies = {}
    for index, (mu, gamma0, quick, full) in enumerate(RECOVERY):
        dims = size(quick, full)
        steps = 40 * round(50 / gamma0 * dims[-1] ** (2 - mu)) // 40
        batch = [round(d**mu) for d in dims]
        grid = {
            "dim": xarray.DataArray(list(dims), dims="d"),
            "batch_size": xarray.DataArray(batch, dims="d"),
            "rate": xarray.DataArray(
                [gamma0 * n * d**-1.5 for n, d in zip(batch, dims)], dims="d"
            ),
        }
        studies[f"mu-{mu:g}"] = comparison(
            hermite(mu, "correlation", gamma0, dims[0], steps), grid, "recovery", meaning=f"recovery time, mu = {mu:g}",
            runs=size(24, 40), trials=size(2, 4), seed=SEED + index,
        )  # fmt: skip
    for power in PUBLISHED:
        d = 2**power
        scenario = OnlineSGD(
            target="h2(z1)", activation="h2", dim=d, batch_size=3 * d, rate=0.1, steps=40, algorithm="correlation",
            constraint="projected", initial_overlap=[[d**-0.5]],
        )  # fmt: skip
        studies[f"polylog-{power}"] = limit(scenario)
    return studies


def _recovery_times(result: xarray.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return measured times and those of the map."""
    measured, by_map = (
        result["recovery_time"].sel(source=source).values
        for source in ("experiment", "limit")
    )
    return measured, by_map


def _polylog_times(results: Results) -> dict[int, int]:
    halves = {
        power: results[f"polylog-{power}"]["mse"].values / 2 for power in PUBLISHED
    }
    return {power: int(np.flatnonzero(half < 1.9)[0]) for power, half in halves.items()}


def _draw_recovery(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.2)
    keys: list[Any] = []
    for (mu, *_), colour, marker in zip(RECOVERY, PALETTE, MARKERS):
        result = results[f"mu-{mu:g}"]
        dims = result["dim"].values
        compared(axes[0], dims, result, "recovery_time", colour, marker)
        slopes = [
            float(np.polyfit(np.log(dims), np.log(times), 1)[0])
            for times in _recovery_times(result)
        ]
        keys.append(
            key(
                colour,
                marker,
                rf"$\mu = {mu:g}$: slope {slopes[0]:.2f}, map {slopes[1]:.2f}",
            )
        )
    axes[0].set(
        xscale="log",
        yscale="log",
        xlabel="dimension $d$",
        ylabel="updates until the cosine is 1/2",
    )
    axes[0].set_ylim(top=60 * axes[0].get_ylim()[1])
    text = f"medians of {results.size(24, 40)} runs"
    axes[0].legend(
        handles=[*keys, *engines(axes[0], text, line="map")], loc="upper right", ncols=2
    )
    times = _polylog_times(results)
    axes[1].plot(list(times), list(times.values()), "-", color=BLUE, label="map")
    error_points(
        axes[1],
        list(PUBLISHED),
        list(PUBLISHED.values()),
        None,
        BLUE,
        label="published table",
    )
    axes[1].set(
        xlabel=r"$\log_2 d$",
        ylabel="updates until half the error is below 1.9",
        ylim=(0, 33),
    )
    axes[1].legend(loc="upper left")
    letters(
        axes,
        "$H_3$, correlation loss, $n_b = d^\\mu$",
        "$H_2$, $n_b = 3d$: time grows like $\\log d$",
    )
    return figure


def _recovery_checks(results: Results) -> Iterator[Check]:
    for mu, *_ in RECOVERY:
        measured, by_map = _recovery_times(results[f"mu-{mu:g}"])
        yield Check(
            f"median time over the map's, mu = {mu:g}",
            "largest |log ratio| over the dimensions; the median of so few noisy runs scatters by 10-20%",
            np.max(np.abs(np.log(measured / by_map))), line=0.3,
        )  # fmt: skip
    times = _polylog_times(results)
    wrong = sum(times[power] != PUBLISHED[power] for power in PUBLISHED)
    yield Check(
        "entries of the polylog table that differ",
        f"of {len(PUBLISHED)}",
        wrong,
        line=0.5,
    )


# -- trajectories ----------------------------------------------------------------------

LOSSES = ("correlation", "squared")
_MARKS = "Thick lines: the map; thin lines: single runs of the exact-in-law simulator. "
TRAJECTORY_NOTES = {
    "projected": _MARKS
    + "The authors' rate sits at the edge gamma0 = 0.0104 of the squared loss: at these d the mean map falls back, "
    "single runs escape by noise.",
    "spherical": _MARKS
    + "With the squared loss at the authors' rate, close to the edge gamma0 = 0.0104, the map lingers; single runs "
    "escape earlier by noise or are thrown back by it.",
    "none": _MARKS
    + "Without a constraint a cubic force can grow without bound: lines end where a run diverges.",
}


def _panels(size: Size) -> list[tuple[str, float, list[int]]]:
    """Return loss, exponent of the batch size and dimensions of every panel."""
    mus = size((1.0, 1.5, 1.75), (0.0, 1.0, 1.5, 1.75))
    dims = size((64, 128), (64, 128, 256, 512, 1024))
    return [
        (loss, mu, [d for d in dims if mu > 0 or d <= 128])
        for loss in LOSSES
        for mu in mus
    ]


def trajectories(size: Size, constraint: str = "projected") -> Studies:
    """Return runs with n_b = d^mu, for both losses: their mean beside the map, and
    single ones.
    """
    studies = {}
    for loss, mu, dims in _panels(size):
        for d in dims:
            steps = int(100 * d ** (2 - mu))
            scenario = hermite(mu, loss, 0.01, d, steps, constraint=constraint)
            times = _early(steps)
            studies[f"{loss}-{mu:g}-{d}"] = comparison(
                scenario, meaning=f"overlap with H3, {loss} loss", dim=d, trials=1, seed=SEED, runs=size(20, 5),
                times=times,
            )  # fmt: skip
            studies[f"{loss}-{mu:g}-{d}-runs"] = experiment(
                scenario, trials=size(3, 5), seed=SEED, times=times, keep_trials=True
            )
    return studies


def _draw_trajectories(results: Results) -> Figure:
    panels = _panels(results.size)
    columns = len(panels) // 2
    figure, axes = new_figure(2, columns, width=3.6 * columns + 1, height=6.4)
    largest = max(d for *_, dims in panels for d in dims)
    for axis, (loss, mu, dims) in zip(axes, panels):
        for d, colour in zip(dims, PALETTE):
            result = results[f"{loss}-{mu:g}-{d}"]
            runs = results[f"{loss}-{mu:g}-{d}-runs"]
            x = result["time"].values / int(100 * d ** (2 - mu))
            limit_line(
                axis,
                x,
                result["cosine"].sel(source="limit").values[:, 0, 0],
                colour,
                f"$d = {d}$",
            )
            axis.plot(
                x,
                runs["cosine"].values[:, :, 0, 0].T,
                color=colour,
                alpha=0.3,
                linewidth=0.8,
            )
        level(axis, largest**-0.5, f"${largest}^{{-1/2}}$", at=1.0)
        lowest = min(
            float(results[f"{loss}-{mu:g}-{d}-runs"]["cosine"].min()) for d in dims
        )
        axis.set(xlim=(0, 0.4), ylim=(min(lowest, 0.0) - 0.05, 1.05))
    letters(axes, *(f"{loss}, $\\mu = {mu:g}$" for loss, mu, _ in panels))
    for axis in axes[columns:]:
        axis.set_xlabel("updates over $100\\, d^{2 - \\mu}$")
    for axis in axes[::columns]:
        axis.set_ylabel("cosine $m/\\sqrt{q}$")
    every = axes[columns - 1].get_legend_handles_labels()
    axes[0].legend(
        *every, loc="center right", title="thick: map, thin: one run", title_fontsize=7
    )
    return figure


def _trajectories_checks(results: Results) -> Iterator[Check]:
    mu, dims = _panels(results.size)[-1][1:]
    last = (
        results[f"correlation-{mu:g}-{dims[-1]}"]["cosine"]
        .sel(source="experiment")
        .values[-1]
        .item()
    )
    name = "cosine at the end, correlation loss, largest batch"
    yield Check(name, "mean over runs", last, line=0.8, above=True)


# -- erf students ----------------------------------------------------------------------

WARM_DIM = 10_000
WARM = (
    ("noise", 20 * 0.015 * WARM_DIM**-0.125, 10, VERMILION),
    ("drift and noise", 20 * 0.4 * WARM_DIM**-0.5, 100, BLUE),
    ("population flow", 20 * 0.5 / WARM_DIM, 100, GREEN),
)
"""What moves two neurons, with the rate and the batch size of each regime."""
ALIKE = 3000
"""Updates after which runs with drift and noise begin to leave the state of two neurons
alike.
"""


def _erf_dims(size: Size) -> tuple[int, ...]:
    dims: tuple[int, ...] = size((50, 200, 1000), (50, 100, 200, 500, 1000))
    return dims


def erf_students(size: Size) -> Studies:
    """Return one erf neuron with n_b = d, and two neurons in the three regimes of a
    warm start.
    """
    studies = {}
    for d in _erf_dims(size):
        scenario = OnlineSGD(
            target="erf(z1/sqrt(2))", activation=ERF, noise=1.1e-5, dim=d, batch_size=d, rate=8 * d**-0.5, steps=12,
            constraint="projected", initial_overlap="random",
        )  # fmt: skip
        studies[f"erf-{d}"] = comparison(
            scenario,
            meaning="overlap of one erf neuron, n_b = d",
            judged=("M",),
            dim=d,
            trials=size(20, 40),
            seed=SEED,
        )
    steps = size(1000, 10_000)
    times = np.unique(np.round(np.geomspace(1, steps, 25))).astype(int).tolist()
    for index, (name, rate, batch, _) in enumerate(WARM):
        scenario = OnlineSGD(
            target="erf(z1/sqrt(2))/2 + erf(z2/sqrt(2))/2", activation=ERF, second_layer=[1, 1], noise=0.01,
            dim=WARM_DIM, batch_size=batch, rate=rate, steps=steps, constraint="projected", initial_overlap="zero",
            initial_gram=[[1, 0.00305318], [0.00305318, 1]],
        )  # fmt: skip
        studies[f"warm-{index}"] = comparison(
            scenario, meaning=f"error of two erf neurons, {name}", judged=("mse",), dim=WARM_DIM, trials=size(5, 10),
            seed=SEED + 1, times=times, until=ALIKE if name == "drift and noise" else math.inf,
        )  # fmt: skip
    return studies


def _draw_erf_students(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.0)
    for d, colour, marker in zip(_erf_dims(results.size), PALETTE, MARKERS):
        result = results[f"erf-{d}"].isel(neuron=0, direction=0)
        compared(axes[0], result["time"], result, "M", colour, marker, f"$d = {d}$")
    axes[0].set(xlabel="updates", ylabel="overlap $m$", ylim=(0, 1.02))
    handles, _ = axes[0].get_legend_handles_labels()
    axes[0].legend(
        handles=[
            *handles,
            *engines(axes[0], "mean of runs, $\\pm$ 1 s.e.", line="map"),
        ],
        loc="lower right",
    )
    for index, (name, _, _, colour) in enumerate(WARM):
        result = results[f"warm-{index}"]
        limit_line(
            axes[1], result["time"], result["mse"].sel(source="limit") / 2, colour, name
        )
        experiment_points(
            axes[1], result["time"], result, "mse", colour, MARKERS[index], scale=0.5
        )
    axes[1].set(
        xscale="log", yscale="log", xlabel="updates", ylabel="half the squared error"
    )
    axes[1].legend(loc="lower left")
    letters(
        axes,
        r"one neuron, $n_b = d$, $\gamma = 8\, d^{-1/2}$",
        "two neurons, $d = 10^4$: three regimes",
    )
    return figure


# -- width and a change of loss --------------------------------------------------------

WIDTHS = ((1.75, 0.032, 50, 256), (1.0, 0.005, 3000, 128))
"""Exponent of the batch size, gamma0, updates at d = 256, and the dimension of a quick
run.
"""
NEURONS = ((1, "one neuron"), (4, "four neurons"))
CHANGES = (
    (False, ORANGE, "correlation loss throughout"),
    (True, GREEN, "then squared loss"),
)


def width(size: Size) -> Studies:
    """Return four H3 neurons beside one."""
    studies = {}
    for mu, gamma0, updates, small in WIDTHS:
        d = size(small, 256)
        steps = updates * d // 256
        for p, name in NEURONS:
            scenario = hermite(
                mu, "correlation", gamma0, d, steps, second_layer=[1.0] * p, noise=1e-6
            )
            studies[f"width-{mu:g}-{p}"] = comparison(
                scenario.replace(rate=scenario.rate * p), meaning=f"best cosine of {name}", dim=d, trials=size(4, 10),
                seed=SEED + 2, times=_some(steps)[::2], runs=size(4, 10),
            )  # fmt: skip
    return studies


def _change(size: Size, changes: bool, seed: int | None = None) -> np.ndarray:
    """Return the errors of a run that goes on, or does not, with the squared loss below
    0.6 of its first error.
    """
    first = hermite(1.85, "correlation", 0.05, size(256, 1024), 100)
    then = first.replace(algorithm="squared", rate=0.1 * first.rate)
    return errors_with_change(first, then if changes else None, seed=seed)


def _draw_width(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=14.4, height=4.0)
    titles = []
    for axis, (mu, *_) in zip(axes, WIDTHS):
        for (p, name), colour, marker in zip(NEURONS, PALETTE, MARKERS):
            best = results[f"width-{mu:g}-{p}"].sel(direction=1)
            thick = 4.5 if p == 1 else 1.8  # the two maps coincide
            compared(
                axis, best["time"], best, "best", colour, marker, name, linewidth=thick
            )
        axis.set(xlabel="updates", ylabel="largest cosine", ylim=(0, 1.02))
        axis.legend(loc="lower right")
        titles.append(
            f"width: $d = {results.dim(f'width-{mu:g}-1')}$, $n_b = d^{{{mu:g}}}$"
        )
    _draw_change(axes[2], results.size)
    letters(
        axes,
        *titles,
        f"a change of loss: $d = {results.size(256, 1024)}$, $n_b = d^{{1.85}}$",
    )
    return figure


def _draw_change(axes: Axes, size: Size) -> None:
    for changes, colour, name in CHANGES:
        limit_line(axes, range(100), _change(size, changes), colour, name)
        runs = np.array([_change(size, changes, seed) for seed in range(size(3, 5))])
        axes.plot(runs.T, color=colour, alpha=0.35, linewidth=0.8)
    axes.set(
        xlabel="updates",
        ylabel="mean squared error",
        yscale="log",
        xlim=(0, 60),
        ylim=(1e-8, 30),
    )
    axes.legend(loc="center right")


def _width_checks(results: Results) -> Iterator[Check]:
    for mu, *_ in WIDTHS:
        for p, name in NEURONS:
            last = results[f"width-{mu:g}-{p}"]["best"].sel(direction=1).isel(time=-1)
            gap = abs(float(last.sel(source="experiment") - last.sel(source="limit")))
            line = 0.1 if mu > 1 else None
            yield Check(
                f"gap of the best cosine at the end, {name}, mu = {mu:g}",
                "experiment against map",
                gap,
                line,
            )
    for changes, _, name in CHANGES:
        errors = _change(results.size, changes)
        line = 0.1 if changes else None
        yield Check(
            f"final error, {name}",
            "over the error at the start (map)",
            errors[-1] / errors[0],
            line,
        )


# -- three directions ------------------------------------------------------------------


def _three_exponents(size: Size) -> tuple[float, ...]:
    mus: tuple[float, ...] = size((1.0, 1.5), (0.5, 1.0, 1.5))
    return mus


def three_directions(size: Size) -> Studies:
    """Return thirty tanh neurons on tanh(z1 z2 z3): the number of samples counts, not
    the batch size.
    """
    studies = {}
    d = size(64, 512)
    p = 30
    for mu in _three_exponents(size):
        batch = round(d**mu)
        steps = round(38 * d**2 / batch)
        scenario = OnlineSGD(
            target="tanh(z1*z2*z3)", activation="tanh", second_layer=np.resize([1.0, -1.0], p).tolist(), dim=d,
            batch_size=batch, rate=0.3 * batch * p * d**-1.5, steps=steps, constraint="projected",
            initial_overlap="random", algorithm="correlation",
        )  # fmt: skip
        times = np.unique(np.round(np.linspace(0, steps, 21))).astype(int).tolist()
        studies[f"tanh-{mu:g}"] = experiment(
            scenario, times=times, trials=2, runs=size(2, 4), seed=SEED + 6
        )
    return studies


def _draw_three_directions(results: Results) -> Figure:
    mus = _three_exponents(results.size)
    d = results.size(64, 512)
    figure, axes = new_figure(1, len(mus), width=4 * len(mus), height=3.8)
    for axis, mu in zip(axes, mus):
        result = results[f"tanh-{mu:g}"]
        best = result["best"].values
        bars = result["best_stderr"].values
        for r, (colour, marker) in enumerate(zip(PALETTE[:3], MARKERS)):
            axis.errorbar(
                result["time"] * round(d**mu) / d**2, best[:, r], bars[:, r], color=colour, marker=marker,
                markerfacecolor="white", linewidth=0.8, label=f"direction {r + 1}",
            )  # fmt: skip
        level(axis, 3**-0.5, "$1/\\sqrt{3}$", at=1.0)
        level(axis, d**-0.5, "$d^{-1/2}$", at=1.0, above=False)
        axis.set(xlabel="samples over $d^2$", ylim=(0, 0.75))
    letters(axes, *(f"$d = {d}$, $n_b = d^{{{mu:g}}}$" for mu in mus))
    axes[0].set_ylabel("largest cosine of 30 neurons")
    axes[0].legend(loc="upper left")
    return figure


def _three_checks(results: Results) -> Iterator[Check]:
    for mu in _three_exponents(results.size):
        largest = results[f"tanh-{mu:g}"]["best"].values[-1].max()
        yield Check(
            f"largest cosine at the end, mu = {mu:g}",
            "of 30 neurons",
            largest,
            line=0.5,
            above=True,
        )


def _trajectories(name: str, constraint: str, text: str = "") -> Recipe:
    """Return the recipe of the runs with one way of keeping the rows normalised."""
    return Recipe(
        name,
        f"Overlap with H3 along runs at growing batch size{text}",
        "One panel for each loss and batch size: map and single runs.",
        partial(trajectories, constraint=constraint),
        _draw_trajectories,
        no_checks if constraint == "none" else _trajectories_checks,
        notes=(TRAJECTORY_NOTES[constraint],),
        remark="gamma = 0.01 d^(mu - 3/2), T = 100 d^(2 - mu), mu up to 1.75.",
        seconds=40,
        quiet=constraint == "none",
    )


RECIPES = (
    Recipe(
        "sgd-phases",
        "Phase diagrams of one-pass SGD: batch size, rate, time",
        "Time (a) and largest rate (b) against the batch size for H3 with a run marked; regimes of large overlaps (c).",
        phases,
        _draw_phases,
        _phases_checks,
        remark="Information exponent l = 3; the run: gamma = 0.02 d^-1/2.",
        seconds=5,
    ),
    Recipe(
        "sgd-recovery",
        "Time to recover H3, measured and by the map; the polylog table",
        "Median time against d at four batch sizes (a); updates for H2 with n_b = 3d against log d (b).",
        recovery,
        _draw_recovery,
        _recovery_checks,
        remark="(a) gamma = gamma0 n_b d^-3/2, threshold 1/2.",
        seconds=60,
    ),
    _trajectories("sgd-trajectories", "projected"),
    _trajectories("sgd-trajectories-plain", "none", ", rows not normalised"),
    _trajectories(
        "sgd-trajectories-spherical", "spherical", ", gradients on the sphere"
    ),
    Recipe(
        "sgd-three-directions",
        "Thirty tanh neurons learn tanh(z1 z2 z3)",
        "Largest cosine with each direction against samples at three batch sizes; experiment only.",
        three_directions,
        _draw_three_directions,
        _three_checks,
        notes=(
            "Experiment only: thirty neurons start at a saddle, and the map's moments in 33 dimensions are sampled. "
            "With the published rate 0.01 n_b p d^-3/2 and 9.5 d^2 samples nothing moves in this normalisation (the "
            "time is about 870 d^2); a rate p times as large and 38 d^2 samples are shown.",
        ),
        remark="a = +-1, gamma = 0.01 n_b p^2 d^-3/2, 38 d^2 samples, mu = 1/2, 1, 3/2.",
        seconds=30,
    ),
    Recipe(
        "sgd-erf",
        "Erf students: one neuron with n_b = d; three regimes of a warm start",
        "Overlap against updates for d = 50..1000 (a); error of two neurons at d = 10^4 (b).",
        erf_students,
        _draw_erf_students,
        notes=(
            "Two neurons that begin alike stay alike in the map. That state is unstable: with drift and noise the runs "
            f"leave it by their noise after some thousand updates and are judged up to {ALIKE}.",
        ),
        remark="(a) gamma = 8 d^-1/2.",
        seconds=20,
    ),
    Recipe(
        "sgd-width",
        "Width, and a change from the correlation to the squared loss",
        "Largest cosine of one and of four H3 neurons (a, b); error with and without a change of loss (c).",
        width,
        _draw_width,
        _width_checks,
        notes=(
            "The correlation loss does not couple neurons: the maps of one and of four neurons coincide, and the "
            "largest of four noisy runs is ahead of it. At mu = 1 runs escape at scattered times, so that their mean "
            "is judged only where all have arrived (a); sgd-recovery compares medians.",
        ),
        remark="(a) n_b = d^1.75, gamma0 = 0.032, (b) n_b = d, gamma0 = 0.005; (c) n_b = d^1.85, gamma0 = 0.05.",
        seconds=75,
    ),
)
