"""Pesce, Loureiro, Krzakala and Zdeborova, NeurIPS 2022: phases of subspace clustering,
and AMP beside its theory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep import SubspaceClustering
from giantstep.core.base.types import Floats
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.problems.subspace_clustering.curve import snr_at_overlap
from giantstep.tools.figures.panels import (
    both_sides,
    compared,
    engines,
    experiment_points,
    key,
    letters,
    limit_line,
    vertical,
)
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    MARKERS,
    PURPLE,
    VERMILION,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEED = 2205
RATIO = r"signal to noise,  $\lambda\,\sqrt{\alpha}/k$"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE)


def scenario(
    clusters: int = 2, sparsity: float = 0.05, ratio: float = 1.0
) -> SubspaceClustering:
    """Return two samples per dimension, with the snr in units of the algorithmic
    threshold.
    """
    snr = ratio * clusters / np.sqrt(2.0)
    return SubspaceClustering(
        clusters=clusters, sparsity=sparsity, snr=float(snr), samples_per_dim=2.0
    )


# -- the phase diagram -----------------------------------------------------------------

FILLS = {
    "impossible": "#E6E6E6",
    "hard": "#F4C7AB",
    "suboptimal": "#F0E442",
    "optimal": "#CFE8D5",
}
LOOPS = (0.09, 0.11, 0.13, 0.15)
END = 0.2088104
"""Where the first-order line ends in rho, by an independent root finder for both
derivatives of lam(m).
"""


def phases(size: Size) -> Studies:
    """Return the end of the first-order line, thresholds, and the phases of a grid of
    points.
    """
    base = scenario()
    unit = scenario().threshold
    count = size(16, 50)
    rho = np.linspace(0.008, 0.35, count)
    ratio = np.linspace(0.0317, 1.4983, count)
    return {
        "end": limit(base, None, "critical"),
        "loops": limit(base, {"sparsity": list(LOOPS)}, "thresholds"),
        "phases": limit(base, {"sparsity": rho, "snr": ratio * unit}),
        "phases-thresholds": limit(base, {"sparsity": rho}, "thresholds"),
    }


def _edge(results: Results) -> tuple[float, float]:
    """Return rho and the snr over its threshold where the first-order line ends."""
    return float(results["end"]["sparsity_c"]), float(results["end"]["ratio_c"])


def _thresholds(results: Results) -> Studies:
    """Return the thresholds on a grid that is finer up to the end of the first-order
    line.
    """
    size = results.size
    ends = (
        np.geomspace(0.002, 0.35, size(24, 120)),
        np.linspace(0.14, _edge(results)[0], size(10, 24)),
    )
    return {
        "thresholds": limit(
            scenario(), {"sparsity": np.unique(np.concatenate(ends))}, "thresholds"
        )
    }


def _draw_phases(results: Results) -> Figure:
    """Draw the phases, what happens where the first-order line ends, and the curves
    lam(m) behind them.
    """
    figure, axes = new_figure(1, 3, width=13.2, height=4.0)
    for panel in axes[:2]:
        _regions(panel, results["thresholds"], _edge(results))
    axes[0].set(xlim=(0.0, 0.35), ylim=(0.0, 1.5))
    axes[1].set(xlim=(0.12, 0.24), ylim=(0.9, 1.04))
    for text, position in (
        ("impossible", (0.19, 0.45)),
        ("hard", (0.055, 0.87)),
        ("optimal", (0.19, 1.25)),
    ):
        axes[0].text(*position, text, ha="center", va="center")
    axes[1].text(0.225, 0.95, "impossible", ha="center", va="center")
    axes[1].text(0.135, 0.975, "hard", ha="center", va="center")
    axes[1].text(0.162, 1.0045, "suboptimal", ha="center", va="center", fontsize=8)
    axes[1].text(0.15, 1.03, "optimal", ha="center", va="center")
    axes[0].legend(loc="lower right")
    _loops(axes[2], results)
    letters(
        axes, r"what can be found, $k = 2$, $\alpha = 2$", "where the first-order line ends",
        r"fixed points: $\lambda$ against the overlap",
    )  # fmt: skip
    return figure


def _regions(axes: Axes, lines: xarray.Dataset, edge: tuple[float, float]) -> None:
    rho = lines["sparsity"].values
    dyn, it, jump, top = (
        lines[f"ratio_{name}"].values for name in ("dyn", "it", "jump", "algB")
    )
    dyn, jump, top = (
        np.where(rho == edge[0], edge[1], line) for line in (dyn, jump, top)
    )
    first = (lines["transition"].values == "first-order") | (rho == edge[0])
    axes.fill_between(rho, 1.0, 2.0, color=FILLS["optimal"], linewidth=0)
    axes.fill_between(rho, 0.0, it, color=FILLS["impossible"], linewidth=0)
    axes.fill_between(rho, it, 1.0, color=FILLS["hard"], linewidth=0)
    axes.fill_between(
        rho,
        np.maximum(jump, 1.0),
        top,
        color=FILLS["suboptimal"],
        linewidth=0,
        where=first,
    )
    axes.axhline(
        1.0,
        color=BLACK,
        linewidth=1.0,
        label=r"$\lambda_{\rm alg}$: AMP finds something",
    )
    axes.plot(
        rho[first],
        top[first],
        color=VERMILION,
        label=r"$\lambda_{\rm alg}^{\rm Bayes}$: AMP is optimal",
    )
    axes.plot(
        rho[first],
        jump[first],
        color=BLUE,
        label=r"$\lambda_{\rm jump}$: optimal overlap jumps",
    )
    axes.plot(
        rho[first],
        dyn[first],
        color=PURPLE,
        linestyle=DASHED,
        label=r"$\lambda_{\rm dyn}$: informed branch appears",
    )
    axes.plot(*edge, marker="o", color=BLACK, markersize=4, linestyle="none")
    axes.set(xlabel=r"fraction of active features,  $\rho$", ylabel=RATIO)


def _loops(axes: Axes, results: Results) -> None:
    """Draw lam(m)/lam_alg along the curve of fixed points; its extrema are the
    spinodals.
    """
    m = np.geomspace(1e-3, 0.2, results.size(60, 200))
    for rho, colour in zip(LOOPS, COLOURS):
        limit_line(
            axes,
            m,
            snr_at_overlap(2, 2.0, rho, m) / scenario().threshold,
            colour,
            rf"$\rho = {rho:g}$",
        )
        turning = results["loops"].sel(sparsity=rho)
        axes.plot(
            float(turning["m_jump"]),
            float(turning["ratio_jump"]),
            "o",
            color=colour,
            markerfacecolor="white",
        )
        axes.plot(
            float(turning["m_dyn"]),
            float(turning["ratio_dyn"]),
            "s",
            color=colour,
            markerfacecolor="white",
        )
    axes.axhline(1.0, color=GREY, linewidth=0.9, linestyle=DOTTED, zorder=0)
    axes.set(
        xlim=(0.0, 0.2),
        ylim=(0.755, 1.03),
        xlabel="overlap of the assignments,  $m_u$",
        ylabel=RATIO,
    )
    handles, _ = axes.get_legend_handles_labels()
    marks = [
        key(GREY, "o", "optimal overlap jumps", linestyle="none"),
        key(GREY, "s", "informed branch appears", linestyle="none"),
    ]
    axes.legend(handles=[*handles, *marks], loc="lower right", ncols=2)


def _phases_checks(results: Results) -> Iterator[Check]:
    """Check that the phases of a grid of points, by free entropy, lie between the
    thresholds, found otherwise.
    """
    points = results["phases"]
    limits = results["phases-thresholds"]
    ratio = points["snr"].values / scenario().threshold
    it, jump, top = (
        limits[f"ratio_{name}"].values[:, None] for name in ("it", "jump", "algB")
    )
    expected = np.where(
        ratio < it, "impossible", np.where(ratio < 1, "hard", "optimal")
    )
    expected = np.where(
        (ratio > np.maximum(jump, 1)) & (ratio < top), "suboptimal", expected
    )
    wrong = int(np.sum(points["phase"].values != expected))
    yield Check(
        "points of the grid in another phase than their thresholds say",
        f"of {expected.size}",
        wrong,
        line=0.5,
    )
    yield Check(
        f"distance of the end of the line from rho = {END}",
        "the value of an independent root finder for both derivatives of lam(m)",
        abs(_edge(results)[0] - END), line=1e-6,
    )  # fmt: skip


# -- overlaps against the snr ----------------------------------------------------------

SPARSE = {
    "random": ([0.2, 0.5, 0.8, 1.25, 1.4, 1.55], "uninformed", VERMILION, "o"),
    "informed": ([0.35, 0.85, 1.0, 1.15, 1.32, 1.48, 1.62], "informed", PURPLE, "s"),
}
"""Starts of AMP: snr over the threshold, the branch they reach, and their look."""
DENSE = {
    "dense-near": [0.1, 0.4, 0.7, 0.9, 1.0, 1.1],
    "dense": [1.3, 1.55, 1.8, 2.05, 2.3, 2.5],
}
OVERLAPS = (
    ("m_u", BLUE, MARKERS[0], "assignments, $m_u$"),
    ("m_v", VERMILION, MARKERS[1], "cluster means, $m_v$"),
)


def overlaps(size: Size) -> Studies:
    """Return the error of the assignments from two starts, and the overlaps where half
    of the features are active.
    """
    sparse = scenario()
    dense = scenario(sparsity=0.5)
    unit = scenario().threshold
    fine = np.unique(np.append(np.linspace(0.1, 2.5, size(80, 500)), 1.0))
    studies = {"sparse-thresholds": limit(sparse, None, "thresholds")}
    for start, (ratios, *_) in SPARSE.items():
        studies[f"sparse-{start}"] = comparison(
            sparse, {"snr": np.array(ratios) * unit}, start=start, judged=("mse_u",),
            meaning=f"error of the assignments, AMP from the {start} start",
            dim=size(1000, 4000), trials=size(6, 16), seed=SEED,
        )  # fmt: skip
    studies["dense-limit"] = limit(dense, {"snr": fine * unit})
    for name, ratios in DENSE.items():
        studies[name] = comparison(
            dense, {"snr": np.array(ratios) * unit}, meaning="overlaps where half of the features are active",
            judged=("m_u", "m_v", "accuracy") if name == "dense" else (), dim=1000, trials=size(5, 40), seed=SEED + 1,
            scale={"m_u": 1.0, "m_v": 1.0} if name == "dense" else None,
        )  # fmt: skip
    return studies


def _branches(results: Results) -> Studies:
    """Return the error of every branch on a grid with both sides of its jumps."""
    limits = results["sparse-thresholds"]
    size = results.size
    jump = float(limits["ratio_jump"])
    dyn = float(limits["ratio_dyn"])
    fine = both_sides(np.linspace(0.1, 1.7, size(81, 321)), [dyn, jump])
    return {"sparse-limit": limit(scenario(), {"snr": fine * scenario().threshold})}


def _draw_overlaps(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.0)
    _draw_error(axes[0], results)
    _draw_dense(axes[1], results)
    letters(
        axes,
        r"a gap: $\rho = 0.05$, $k = 2$, $\alpha = 2$",
        r"no gap: $\rho = 0.5$, $k = 2$, $\alpha = 2$",
    )
    return figure


def _without_jumps(values: Floats, most: float) -> Floats:
    """Return a curve with a gap where it jumps by more than `most`: a jump is not a
    line.
    """
    values = values.copy()
    values[1:][np.abs(np.diff(values)) > most] = np.nan
    return values


def _draw_error(axes: Axes, results: Results) -> None:
    line = results["sparse-limit"]
    limits = results["sparse-thresholds"]
    unit = scenario().threshold
    thin = {"linewidth": 1.5, "alpha": 1.0}
    for branch, colour, look in (
        ("informed", PURPLE, {"linestyle": DASHED, **thin}),
        ("uninformed", VERMILION, thin),
        ("bayes", BLUE, {"linewidth": 3.6, "alpha": 0.45}),
    ):
        values = _without_jumps(line["mse_u"].sel(branch=branch).values, 0.03)
        limit_line(axes, line["snr"] / unit, values, colour, branch, **look)
    for start, (ratios, branch, colour, marker) in SPARSE.items():
        experiment_points(
            axes,
            ratios,
            results[f"sparse-{start}"].sel(branch=branch),
            "mse_u",
            colour,
            marker,
        )
    jump = float(limits["ratio_jump"])
    dyn = float(limits["ratio_dyn"])
    for value, text in (
        (dyn, r"$\lambda_{\rm dyn}$"),
        (jump, r"  $\lambda_{\rm IT}$"),
        (1.0, r"$\lambda_{\rm alg}$"),
    ):
        vertical(axes, value)
        side = "right" if value == dyn else "left"
        axes.text(value, 0.207, f" {text} ", color=GREY, ha=side, fontsize=8)
    axes.set(
        xlim=(0.1, 1.7),
        ylim=(0.2, 0.52),
        xlabel=RATIO,
        ylabel="squared error of the assignments",
    )
    handles, _ = axes.get_legend_handles_labels()
    text = rf"AMP, $d = {results.dim('sparse-random')}$, $\pm$ 1 s.e."
    axes.legend(handles=[*handles[:3], *engines(axes, text)[1:]], loc="upper right")


def _draw_dense(axes: Axes, results: Results) -> None:
    line = results["dense-limit"].sel(branch="uninformed")
    for variable, colour, marker, _ in OVERLAPS:
        for name, ratios in DENSE.items():
            experiment_points(
                axes,
                ratios,
                results[name].sel(branch="uninformed"),
                variable,
                colour,
                marker,
            )
        limit_line(axes, line["snr"] / scenario().threshold, line[variable], colour)
    vertical(axes, 1.0)
    keys: list[Any] = [
        key(colour, marker, text) for _, colour, marker, text in OVERLAPS
    ]
    sides = engines(axes, r"AMP, $d = 1000$, $\pm$ 1 s.e.", line="state evolution")
    axes.legend(handles=[*keys, *sides], loc="lower right")
    axes.set(
        xlim=(0.1, 2.55),
        ylim=(-0.02, 0.85),
        xlabel=RATIO,
        ylabel="overlap with the truth",
    )


# -- sweep by sweep --------------------------------------------------------------------

PHASES = {
    "easy": (scenario(3, 0.1, 1.3), (0.1, 0.3, 0.8), 10),
    "hard": (scenario(2, 0.05, 0.8), (0.01, 0.15, 0.6), 12),
}
"""Scenario, overlaps of the starts, and sweeps."""
LATE = (0.15, 0.6)
"""Starts in the hard phase whose sweeps scatter most."""


def trajectory(size: Size) -> Studies:
    """Return AMP sweep by sweep from three starts, in the easy and in the hard
    phase.
    """
    return {
        f"{phase}-{overlap:g}": comparison(
            base, None, "trajectory", overlap=overlap, steps=steps, judged=("m_u",), scale={"m_u": 0.2},
            meaning=f"{phase} phase, sweep by sweep from an overlap of {overlap:g}",
            dim=size(1000, 4000), trials=size(8, 104 if overlap in LATE else 24), seed=SEED + 2,
        )
        for phase, (base, starts, steps) in PHASES.items()
        for overlap in starts
    }  # fmt: skip


def _draw_trajectory(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for panel, (phase, (_, starts, _)) in zip(axes, PHASES.items()):
        for overlap, colour, marker in zip(starts, COLOURS, MARKERS):
            result = results[f"{phase}-{overlap:g}"]
            compared(
                panel,
                result["time"],
                result,
                "m_u",
                colour,
                marker,
                f"start at {overlap:g}",
            )
        panel.set(xlabel="sweeps", ylabel="overlap of the assignments,  $m_u$")
        panel.set_ylim(bottom=-0.02)
    handles, _ = axes[0].get_legend_handles_labels()
    text = rf"AMP, $d = {results.dim('easy-0.1')}$, $\pm$ 1 s.e."
    axes[0].legend(
        handles=[*handles, *engines(axes[0], text, line="state evolution")],
        loc="lower right",
    )
    axes[1].legend()
    letters(
        axes, r"easy phase: $k = 3$, $\rho = 0.1$, $\lambda = 1.3\,\lambda_{\rm alg}$",
        r"hard phase: $k = 2$, $\rho = 0.05$, $\lambda = 0.8\,\lambda_{\rm alg}$",
    )  # fmt: skip
    return figure


# -- algorithms compared, few active features ------------------------------------------

LOOKS = {
    "amp": ("AMP, spectral start", BLUE, "o"),
    "amp-thresholding": ("AMP, thresholding start", BLACK, "s"),
    "pca": ("PCA", VERMILION, "^"),
    "sparse-pca": ("sparse PCA (told s)", GREEN, "D"),
    "thresholding": ("thresholding (told s)", PURPLE, "v"),
    "kmeans": ("k-means", GREY, "x"),
}
RIVAL_RATIOS = np.array([0.5, 0.8, 1.2, 1.5, 1.9])
ACTIVE = np.array([3, 5, 10, 20, 40, 100])
FINE_ACTIVE = np.geomspace(3, 100, 121)
HARD = ("amp", "amp-thresholding", "pca", "thresholding")
"""Algorithms shown in the hard phase."""


def rivals(size: Size) -> Studies:
    """Return the accuracy of message passing and of its rivals where few features are
    active.
    """
    sizes: dict[str, Any] = {
        "dim": size(500, 1000),
        "trials": size(3, 10),
        "seed": SEED + 3,
    }
    base = scenario(sparsity=10 / sizes["dim"])
    studies = {
        "rivals-limit": limit(
            base,
            {"snr": np.linspace(0.3, 2.0, size(60, 160)) * base.threshold},
            "rivals",
        ),
        "rivals-snr": comparison(
            base,
            {"snr": RIVAL_RATIOS * base.threshold},
            "rivals",
            meaning="accuracy with 10 active features",
            **sizes,
        ),
    }
    for ratio in (0.5, 0.8):
        studies[f"rivals-active-{ratio:g}"] = comparison(
            scenario(ratio=ratio), {"sparsity": ACTIVE / sizes["dim"]}, "rivals", algorithms=", ".join(HARD),
            meaning=f"accuracy at {ratio:g} of the threshold against the number of active features", **sizes,
        )  # fmt: skip
        studies[f"rivals-best-{ratio:g}"] = limit(
            scenario(ratio=ratio),
            {"sparsity": FINE_ACTIVE / sizes["dim"]},
            "rivals",
            algorithms=", ".join(HARD),
        )
    return studies


def _draw_rivals(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    _against_snr(axes[0], results)
    _against_active(axes[1], results)
    letters(
        axes, rf"10 active of $d = {results.dim('rivals-snr')}$, $k = 2$, $\alpha = 2$",
        r"hard phase: open 0.5, filled 0.8 of $\lambda_{\rm alg}$",
    )  # fmt: skip
    return figure


def _against_snr(axes: Axes, results: Results) -> None:
    lines = results["rivals-limit"]
    for name, colour, style in (
        ("amp", BLUE, "-"),
        ("pca", VERMILION, "-"),
        ("bayes", BLACK, DASHED),
    ):
        values = _without_jumps(lines["accuracy"].sel(algorithm=name).values, 0.05)
        limit_line(
            axes, lines["snr"] / scenario().threshold, values, colour, linestyle=style
        )
    _accuracies(axes, RIVAL_RATIOS, results["rivals-snr"], tuple(LOOKS))
    vertical(axes, 1.0)
    axes.set(xlim=(0.3, 2.0), ylim=(0.48, 1.05), xlabel=RATIO, ylabel="accuracy")
    handles: list[Any] = [
        key(colour, marker, text, linestyle="none")
        for text, colour, marker in LOOKS.values()
    ]
    axes.legend(
        handles=[*handles, key(GREY, "", "limit (black: Bayes)")],
        loc="upper left",
        fontsize=7.5,
        ncols=2,
    )


def _against_active(axes: Axes, results: Results) -> None:
    """Draw the accuracy in the hard phase against the number of active features."""
    for ratio, style, shift in ((0.5, DOTTED, 1 / 1.05), (0.8, DASHED, 1.05)):
        result = results[f"rivals-active-{ratio:g}"]
        best = (
            results[f"rivals-best-{ratio:g}"]["accuracy"].sel(algorithm="bayes").values
        )
        label = rf"Bayes, {ratio:g} $\lambda_{{\rm alg}}$"
        limit_line(
            axes, FINE_ACTIVE, _without_jumps(best, 0.05), BLACK, label, linestyle=style
        )
        _accuracies(axes, ACTIVE * shift, result, HARD, filled=ratio == 0.8)
    axes.set(
        xscale="log",
        ylim=(0.48, 0.85),
        xlabel="active features, $s$",
        ylabel="accuracy",
    )
    axes.set_xticks(ACTIVE, [str(value) for value in ACTIVE])
    axes.minorticks_off()
    handles: list[Any] = [
        key(LOOKS[name][1], LOOKS[name][2], LOOKS[name][0], linestyle="none")
        for name in HARD
    ]
    axes.legend(
        handles=[*handles, *axes.get_legend_handles_labels()[0]],
        loc="upper right",
        fontsize=7.5,
    )


def _accuracies(
    axes: Axes,
    x: np.ndarray,
    result: xarray.Dataset,
    names: tuple[str, ...],
    filled: bool = False,
) -> None:
    for name in names:
        own, (_, colour, marker) = result.sel(algorithm=name), LOOKS[name]
        experiment_points(axes, x, own, "accuracy", colour, marker)
        if filled:
            axes.plot(
                x,
                own["accuracy"].sel(source="experiment"),
                marker,
                color=colour,
                markersize=4,
                zorder=4,
            )


def _rivals_checks(results: Results) -> Iterator[Check]:
    measured = (
        results["rivals-snr"]["accuracy"]
        .sel(source="experiment")
        .isel(snr=RIVAL_RATIOS > 1.1)
    )
    best = measured.sel(algorithm=["pca", "sparse-pca", "thresholding", "kmeans"]).max(
        "algorithm"
    )
    lead = (best - measured.sel(algorithm="amp-thresholding")).max()
    name = "lead of the best rival over AMP above the threshold"
    yield Check(name, "in accuracy, largest of 3", float(lead), line=0.02)


RECIPES = (
    Recipe(
        "subspace-phases",
        "Phase diagram of subspace clustering",
        "(a) impossible, hard and optimal regions, (b) the end of the first-order line, (c) lam(m_u).",
        phases,
        _draw_phases,
        _phases_checks,
        then=_thresholds,
        remark="(c) rho = 0.09, 0.11, 0.13, 0.15.",
        seconds=12,
    ),
    Recipe(
        "subspace-overlaps",
        "AMP beside state evolution against the signal-to-noise ratio",
        "(a) error with its branches at rho = 0.05, (b) overlaps at rho = 0.5.",
        overlaps,
        _draw_overlaps,
        then=_branches,
        notes=(
            "In (a) circles start at random, squares at an overlap of 0.6 with the truth. In (b) points up to 1.1 are "
            "drawn, not judged: near the threshold AMP needs d of many thousands.",
        ),
        remark="(a) d = 4000, (b) d = 1000 (the paper's).",
        seconds=20,
    ),
    Recipe(
        "subspace-trajectory",
        "AMP sweep by sweep beside state evolution",
        "Overlap after each sweep from three starts in (a) the easy and (b) the hard phase.",
        trajectory,
        _draw_trajectory,
        remark="(a) 1.3 lam_alg, (b) 0.8 lam_alg.",
        seconds=20,
    ),
    Recipe(
        "subspace-rivals",
        "Message passing and its rivals where few features are active",
        "Accuracy of AMP, PCA, sparse PCA, thresholding, k-means (a) against the snr, (b) against s.",
        rivals,
        _draw_rivals,
        _rivals_checks,
        notes=(
            "Thresholding and sparse PCA are told the number of active features, AMP all parameters. The paper's axes "
            "of this comparison are not known to us: sizes and ratios are those of subspace_clustering section 13.",
        ),
        remark="(a) s = 10, (b) s = 3 ... 100 at 0.5 and 0.8 lam_alg.",
        seconds=60,
    ),
)
