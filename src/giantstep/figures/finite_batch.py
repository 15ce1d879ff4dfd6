"""The step on a finite batch: the exact limit, the published isotropic map, and the network that tells them apart."""

from __future__ import annotations

import csv
import importlib.resources
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.networks import BATCHES, NETWORKS, SEED, TRIALS
from giantstep.figures.panels import engines, experiment_points, key, letter, level, limit_line
from giantstep.figures.recipes import FINITE_SIZE, Bench, Recipe, lay_over
from giantstep.figures.style import BLACK, BLUE, GREY, VERMILION, new_figure, plain_log_ticks
from giantstep.figures.views import histogram

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIM = 4000
"""The stored experiment; the same study on a GPU gives its numbers again."""
LIVE_SEED = 2026
DASHED, DOTTED = (0, (5, 2)), (0, (1, 1.2))
TITLES = {
    "tanh-sin": r"tanh network, $g = \mathrm{sin}$, $\eta = 3$",
    "relu-tanh": r"ReLU network, $g = \mathrm{tanh}$, $\eta = 2$",
    "relu-relu": r"ReLU network, noisy ReLU target, $\eta = 1.5$",
}
RATES = np.array([0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 20.0])
STEP_BATCH = 2.0
SPECTRUM_BATCH = 0.5


# -- the stored experiment -----------------------------------------------------------------------------------


def real_network(network: str, dim: int = DIM) -> dict[str, np.ndarray]:
    """Return the stored experiment on one of `NETWORKS`: column -> values, batch sizes increasing.

    `TRIALS` trials at d = 4000 (64 at 2000, 16 at 8000), made on an NVIDIA H200 by ``benchmarks/gpu_real_network.py``.
    """
    file = importlib.resources.files("giantstep.figures") / "data" / "real_network.csv"
    rows = [row for row in csv.DictReader(file.read_text().splitlines()) if row.pop("network") == network]
    chosen = [{name: float(value) for name, value in row.items()} for row in rows if int(row["dim"]) == dim]
    return {name: np.array([row[name] for row in chosen]) for name in chosen[0]}


def _measured(stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values for name, values in stored.items() if name not in ("dim", "batch_per_dim", "trials")}


def scores(network: str, theory: str, dim: int = DIM) -> np.ndarray:
    """Return the z-scores of the stored test errors against a theory, its finite-size correction included."""
    from giantstep.study import predict

    stored, scenario = real_network(network, dim), NETWORKS[network]
    limit = predict(scenario, {"step.batch_per_dim": stored["batch_per_dim"]}, theory=theory, dim=dim)
    experiment = {"dim": dim, "trials": int(stored["trials"][0]), "seed": SEED}
    return np.asarray(lay_over(limit, scenario, _measured(stored), experiment)["test_error_z"].values)


# -- test error against the size of the batch ----------------------------------------------------------------


def finite_batch(bench: Bench) -> Figure:
    """Draw the three networks, and below each the difference to the exact limit."""
    from matplotlib.ticker import FuncFormatter

    figure, axes = new_figure(2, 3, width=12.6, height=5.4, heights=(1.9, 1), sharex="col")
    tally: dict[str, list[np.ndarray]] = {"exact": [], "isotropic": []}
    for place, name in enumerate(NETWORKS):
        upper, lower = axes[place], axes[3 + place]
        found = _batch_panels(upper, lower, bench, name)
        for theory, z in found.items():
            tally[theory].append(z)
        letter(upper, "abc"[place], TITLES[name])
        upper.tick_params(labelbottom=False)
        lower.set_xlabel(r"samples of the first batch per dimension,  $\alpha_0 = n_0/d$")
        lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0].set_ylabel("test error")
    axes[3].set_ylabel("difference to the\nexact theory (%)")
    axes[0].legend(loc="upper right")
    figure.align_ylabels([axes[0], axes[3]])
    _verdict(bench, tally)
    where = "stored experiment, NVIDIA H200" if bench.device == "cpu" else "experiment of this run"
    bench.notes.append(
        f"Dots: {where}, d = {DIM}, {min(TRIALS.values())} to {max(TRIALS.values())} trials, mean and standard error. "
        "Exact theory and isotropic map are drawn and judged with their finite-size correction at that d; dotted: the "
        "exact limit of a large batch."
    )
    return figure


def _batch_panels(upper: Axes, lower: Axes, bench: Bench, name: str) -> dict[str, np.ndarray]:
    scenario = NETWORKS[name]
    asked: dict[str, Any] = {
        "meaning": f"{name}: the trained network beside its exact limit, against the size of the batch",
        "judged": ("test_error", "train_error", "norm"),
        "dim": DIM,
        "trials": TRIALS[name],
        "seed": SEED,
    }
    grid = {"step.batch_per_dim": BATCHES}
    if bench.device == "cpu":
        result = bench.lay_over(name, scenario, grid, _measured(real_network(name)), **asked)
        label = f"network, $d = {DIM}$ (H200), $\\pm$ 1 s.e."
    else:
        result = bench.compare(name, scenario, grid, **asked)
        label = f"network, $d = {DIM}$, $\\pm$ 1 s.e."
    fine = {"step.batch_per_dim": np.geomspace(0.25, 120.0, bench.sized(41, 121))}
    x = fine["step.batch_per_dim"]
    exact = bench.predict(f"{name}-exact", scenario, fine, dim=DIM)["test_error"].values
    isotropic = bench.predict(f"{name}-isotropic", scenario, fine, theory="isotropic", dim=DIM)["test_error"].values
    large = bench.predict(f"{name}-large", scenario, {"step.batch_per_dim": [np.inf]}, dim=DIM)["test_error"].values
    limit_line(upper, x, exact, BLUE, "exact theory")
    limit_line(upper, x, isotropic, VERMILION, "isotropic map", linestyle=DASHED)
    upper.axhline(float(large[0]), color=GREY, linewidth=1.2, linestyle=DOTTED, zorder=1, label="large batch")
    experiment_points(upper, BATCHES, result, "test_error", BLACK, "o", label)
    upper.set(xscale="log", yscale="log", xlim=(x[0], x[-1]))
    plain_log_ticks(upper.yaxis)
    lower.axhline(0.0, color=BLUE, zorder=2)
    limit_line(lower, x, 100 * (isotropic / exact - 1), VERMILION, linestyle=DASHED)
    _relative_points(lower, result)
    low, high = lower.get_ylim()
    lower.set_ylim(min(low, -3.0), max(high, 3.0))
    return {"exact": result["test_error_z"].values, "isotropic": _isotropic_z(bench, name, result)}


def _relative_points(axes: Axes, result: xarray.Dataset) -> None:
    limit = result["test_error"].sel(source="limit").values
    bars = result["test_error_stderr"].sel(source="experiment").values
    gap = result["test_error_gap"].values
    axes.errorbar(
        BATCHES,
        100 * gap / limit,
        100 * bars / limit,
        linestyle="none",
        marker="o",
        color=BLACK,
        markerfacecolor="white",
        markeredgewidth=1.2,
        elinewidth=1.2,
        zorder=3,
    )


def _isotropic_z(bench: Bench, name: str, result: xarray.Dataset) -> np.ndarray:
    """Return the scores of the measured test errors against the isotropic map, and keep them with the figure."""
    scenario = NETWORKS[name]
    part = f"{name}-rejected"
    limit = bench.predict(part, scenario, {"step.batch_per_dim": BATCHES}, theory="isotropic", dim=DIM)
    measured = result.sel(source="experiment")
    sides = {v: measured[v].values for v in ("test_error", "test_error_stderr")}
    laid = lay_over(limit, scenario, sides, {"dim": DIM, "trials": TRIALS[name], "seed": SEED})
    bench.results[part] = laid
    return np.asarray(laid["test_error_z"].values)


def _verdict(bench: Bench, tally: dict[str, list[np.ndarray]]) -> None:
    from scipy import special

    from giantstep.agreement import chance_line

    exact, isotropic = (np.concatenate(tally[theory]) for theory in ("exact", "isotropic"))
    points = len(exact)
    line = chance_line(points)
    square = float(np.sum(exact**2))
    bench.check(
        "largest |z| of the exact theory",
        float(np.max(np.abs(exact))),
        f"so many points ({points}) pass the line by chance once in 1,000",
        line=round(line, 2),
    )
    bench.check(
        "chance of a larger sum of z^2, exact theory",
        float(special.chdtrc(points, square)),
        f"sum of z^2 {square:.1f} over {points} points, which is what noise alone would give",
        line=0.001,
        above=True,
    )
    shift = np.array([np.sum(z) / np.sqrt(len(z)) for z in tally["exact"]])
    worst = int(np.argmax(np.abs(shift)))
    bench.check(
        "largest |sum of z|/sqrt(points) of a network, exact theory",
        float(np.abs(shift[worst])),
        f"a common shift of all points of one network, {list(NETWORKS)[worst]}: {shift[worst]:+.2f}; terms of order "
        f"1/d that the theory leaves out (up to {FINITE_SIZE / DIM:.2%}) add to it",
        line=round(chance_line(len(shift)), 2),
    )
    bench.check(
        "largest |z| of the isotropic map",
        float(np.max(np.abs(isotropic))),
        f"{int(np.sum(np.abs(isotropic) > line))} of {points} points are beyond {line:.2f}: the network rules it out",
        line=5.0,
        above=True,
    )
    for name, z in zip(NETWORKS, tally["isotropic"]):
        bench.check(
            f"largest |z| of the isotropic map, {name}",
            float(np.max(np.abs(z))),
            f"at n0/d = {BATCHES[int(np.argmax(np.abs(z)))]:g}",
            line=5.0,
            above=True,
        )


# -- test error against the step size ------------------------------------------------------------------------


def step_size(bench: Bench) -> Figure:
    """Draw the test error against the step size, for a large and a small batch."""
    figure, axes = new_figure(1, 2, width=9.8, height=4.0)
    dim = bench.sized(150, 400)
    for place, name in enumerate(("relu-tanh", "tanh-sin")):
        _rate_panel(axes[place], bench, name, dim)
        title = TITLES[name].rsplit(",", 1)[0]
        letter(axes[place], "ab"[place], title)
    return figure


def _rate_panel(axes: Axes, bench: Bench, name: str, dim: int) -> None:
    from giantstep import NoStep

    fine = np.geomspace(RATES[0] / 1.6, RATES[-1] * 1.5, bench.sized(61, 121))
    untrained = float(bench.predict(f"{name}-untrained", NETWORKS[name].replace(step=NoStep()), {})["test_error"])
    batches = ((np.inf, BLUE, "o", r"large batch"), (STEP_BATCH, VERMILION, "s", rf"$n_0 = {STEP_BATCH:g}\,d$"))
    best: list[tuple[float, float, str]] = []
    for batch, colour, marker, _ in batches:
        scenario = NETWORKS[name].replace(step__batch_per_dim=batch)
        part = f"{name}-{'large' if np.isinf(batch) else f'batch-{batch:g}'}"
        rates = RATES[::2] if bench.quick else RATES
        result = bench.compare(
            part,
            scenario,
            {"step.rate": rates},
            meaning=f"test error against the step size, {name}, n0/d = {batch:g}",
            judged=("test_error",),
            dim=dim,
            trials=bench.sized(20, 32),
            seed=LIVE_SEED,
        )
        line = bench.predict(f"{part}-line", scenario, {"step.rate": fine}, dim=dim)["test_error"].values
        limit_line(axes, fine, line, colour)
        experiment_points(axes, rates, result, "test_error", colour, marker)
        place = int(np.argmin(line))
        best.append((float(fine[place]), float(line[place]), colour))
        batch_text = "a large batch" if np.isinf(batch) else f"n0/d = {batch:g}"
        bench.check(
            f"best step size, {name}, {batch_text}",
            float(fine[place]),
            f"test error {line[place]:.4f} there, {untrained:.4f} for random features",
        )
    axes.set(xscale="log", yscale="log", xlim=(fine[0], fine[-1]))
    level(axes, untrained, "random features", at=0.98, above=name == "tanh-sin")
    plain_log_ticks(axes.xaxis)
    plain_log_ticks(axes.yaxis)
    axes.set_xlabel(r"step size,  $\eta$")
    axes.set_ylabel("test error")
    bottom = 0.6 * min(error for _, error, _ in best)
    axes.set_ylim(bottom=bottom)
    for rate, error, colour in best:
        axes.plot([rate] * 2, [bottom, error], color=colour, linewidth=0.9, linestyle=DOTTED, zorder=1)
        axes.plot(rate, bottom, marker="^", markersize=7, color=colour, clip_on=False, zorder=4)
    if name != "tanh-sin":  # one legend, where there is room
        return
    arrow = key(GREY, "^", "best step size", "")
    arrow.set(markerfacecolor=GREY, markersize=6)
    entries = [key(colour, marker, label) for _, colour, marker, label in batches]
    sides = engines(axes, rf"experiment, $d = {dim}$, $\pm$ 1 s.e.", line=f"theory, $d = {dim}$")
    axes.legend(handles=[*entries, *sides, arrow], loc="lower left")


# -- the spectrum after a finite batch -----------------------------------------------------------------------


def spectrum_points() -> np.ndarray:
    """Return where the law is taken: even cells, and finer ones towards zero, where the density diverges."""
    cells = (np.arange(110) + 0.5) * 0.08
    return np.concatenate([np.geomspace(1e-3, cells[0], 12)[:-1], cells])


def spectrum_scenario() -> Any:
    """Return the ReLU network after a step on a small batch."""
    return NETWORKS["relu-tanh"].replace(step__batch_per_dim=SPECTRUM_BATCH)


def bulk_cdf(result: xarray.Dataset) -> np.ndarray:
    """Return the measured distribution function of the bulk; its top is below one as long as the spikes count."""
    measured = result["cdf"].sel(source="experiment").values
    return np.asarray(measured / measured[-1])


def distances(result: xarray.Dataset, isotropic: xarray.Dataset) -> tuple[float, float]:
    """Return the Kolmogorov distances of the measured spectrum to the exact and to the isotropic law."""
    measured = bulk_cdf(result)
    laws = result["cdf"].sel(source="limit").values, isotropic["cdf"].values
    exact, other = (float(np.max(np.abs(measured - law))) for law in laws)
    return exact, other


def finite_batch_spectrum(bench: Bench) -> Figure:
    """Draw the spectrum of the trained features, and the distance of both laws to it."""
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    scenario, x = spectrum_scenario(), spectrum_points()
    dim = bench.sized(300, 1000)
    result = bench.compare(
        "spectrum",
        scenario,
        {},
        what="spectrum",
        settings={"x": x},
        meaning="distribution of the eigenvalues of Phi^T Phi/p, spikes left out",
        judged=("cdf",),
        dim=dim,
        trials=bench.sized(16, 16),
        seed=LIVE_SEED,
    )
    isotropic = bench.predict(
        "spectrum-isotropic", scenario, {}, what="spectrum", theory="isotropic", dim=dim, settings={"x": x}
    )
    _density_panel(axes[0], result, isotropic, dim)
    _distance_panel(axes[1], result, isotropic)
    letter(axes[0], "a", r"ReLU network, $g = \mathrm{tanh}$, $\eta = 2$, $n_0 = d/2$")
    letter(axes[1], "b", "distance of the distribution functions")
    bench.notes.append(
        "The table counts the two spikes among the p eigenvalues, which lowers the measured distribution function by "
        "2/p at the top; panel b and the distances leave them out."
    )
    near, far = distances(result, isotropic)
    bench.check("Kolmogorov distance to the exact law", near, "of the mean measured distribution", line=0.01)
    bench.check(
        "Kolmogorov distance to the isotropic law, over that to the exact one",
        far / near,
        f"the isotropic law is {far:.4f} away",
        line=2.0,
        above=True,
    )
    return figure


def _density_panel(axes: Axes, result: xarray.Dataset, isotropic: xarray.Dataset, dim: int) -> None:
    from matplotlib.patches import Patch

    x = result["x"].values
    edges, heights = histogram(x, result["density"].sel(source="experiment").values, 60)
    axes.stairs(np.maximum(heights, 1e-9), edges, fill=True, color="0.87", linewidth=0, zorder=1)
    axes.stairs(np.maximum(heights, 1e-9), edges, color=GREY, linewidth=0.7, zorder=1)
    exact = result.sel(source="limit")
    for law, colour, style, name in ((exact, BLUE, "-", "exact law"), (isotropic, VERMILION, DASHED, "isotropic law")):
        density, edge = law["density"].values, float(law["upper_edge"])
        inside = density > 0
        curve = np.append(x[inside], edge), np.append(density[inside], 1e-9)
        limit_line(axes, *curve, colour, f"{name}, edge {edge:.3f}", linestyle=style)
    axes.set(yscale="log", ylim=(1e-3, 20), xlim=(-0.1, x[-1]))
    axes.set_xlabel(r"eigenvalue of $\Phi^\top\Phi/p$,  $x$")
    axes.set_ylabel("density")
    lines, labels = axes.get_legend_handles_labels()
    bars = Patch(facecolor="0.87", edgecolor=GREY, linewidth=0.7)
    axes.legend([*lines, bars], [*labels, f"network, $d = {dim}$"], loc="upper right")


def _distance_panel(axes: Axes, result: xarray.Dataset, isotropic: xarray.Dataset) -> None:
    x, exact = result["x"].values, result["cdf"].sel(source="limit").values
    error = result["cdf_stderr"].sel(source="experiment").values
    gap = bulk_cdf(result) - exact
    axes.axhline(0.0, color=BLUE, zorder=2, label="exact law")
    limit_line(axes, x, isotropic["cdf"].values - exact, VERMILION, "isotropic law", linestyle=DASHED)
    axes.fill_between(x, gap - 3 * error, gap + 3 * error, color="0.8", linewidth=0, zorder=1)
    axes.plot(x, gap, color=BLACK, linewidth=1.0, zorder=3, label=r"network, $\pm$ 3 s.e. (grey)")
    axes.set(xlim=(-0.1, x[-1]))
    axes.set_xlabel(r"eigenvalue of $\Phi^\top\Phi/p$,  $x$")
    axes.set_ylabel("distribution function minus exact law")
    axes.legend(loc="best")


RECIPES = (
    Recipe(
        name="finite-batch",
        title="The network after a step on a finite batch: who is right?",
        paper="cui2024asymptotics",
        description=(
            "Test error against n0/d for three networks: the exact limit, the published isotropic map, the limit of a "
            "large batch, and the real network at d = 4000 (stored, made on an H200; rerun with --device cuda); "
            "below, the difference to the exact limit in percent."
        ),
        parameters=(
            "(a) tanh, g = sin, eta = 3, p/d = 1, n/d = 1.5, ridge 0.1; (b) ReLU, g = tanh, second layer 1 (90%) or "
            "-1, eta = 2, p/d = n/d = 1.5, ridge 0.01; (c) ReLU, g = ReLU, noise 0.1, eta = 1.5, p/d = 1.3, n/d = 2, "
            "ridge 0.05."
        ),
        seconds_quick=4,
        seconds_full=6,
        make=finite_batch,
    ),
    Recipe(
        name="step-size",
        title="How large should the step be? Test error against its size",
        paper="cui2024asymptotics",
        description=(
            "Test error against eta for a step on a large batch and on a small one, with the best step size marked and "
            "random features as the baseline, for (a) ReLU on tanh and (b) tanh on a sine."
        ),
        parameters=(
            "(a) second layer 1 (90%) or -1, p/d = n/d = 1.5, ridge 0.01; (b) p/d = 1, n/d = 1.5, ridge 0.1; n0/d = "
            "inf and 2, d = 400. Seed 2026."
        ),
        seconds_quick=20,
        seconds_full=240,
        make=step_size,
    ),
    Recipe(
        name="finite-batch-spectrum",
        title="Spectrum of the features after a step on a finite batch",
        paper="dandi2025random",
        description=(
            "(a) density of the eigenvalues of the feature covariance: network, exact law, isotropic law; (b) their "
            "distribution functions, the exact one subtracted."
        ),
        parameters=(
            "ReLU, g = tanh, second layer 1 (90%) or -1, eta = 2, n0/d = 0.5, p/d = n/d = 1.5, d = 1000. Seed 2026."
        ),
        seconds_quick=12,
        seconds_full=25,
        make=finite_batch_spectrum,
    ),
)
