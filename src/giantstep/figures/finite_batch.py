"""The step on a finite batch: the exact limit, the published isotropic map, and the network that tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.panels import letter, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLACK, BLUE, DASHED, GREY, VERMILION, new_figure
from giantstep.figures.views import histogram
from giantstep.papers.cui2024asymptotics import NETWORKS

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIVE_SEED = 2026
SPECTRUM_BATCH = 0.5


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
