"""Pesce, Loureiro, Krzakala and Zdeborova, NeurIPS 2022: phases of subspace clustering, and AMP beside its theory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.panels import engines, experiment_points, key, letter, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, PURPLE, VERMILION, new_figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.subspace_clustering.scenario import SubspaceClustering

SEED = 2205
DASHED, DOTTED = (0, (5, 2)), (0, (1, 1.3))
FILLS = {"impossible": "#E6E6E6", "hard": "#F4C7AB", "suboptimal": "#F0E442", "optimal": "#CFE8D5"}
LOOPS = (0.09, 0.11, 0.13, 0.15)
RATIO = r"signal to noise,  $\lambda\,\sqrt{\alpha}/k$"


def scenario(clusters: int = 2, sparsity: float = 0.05, ratio: float = 1.0) -> SubspaceClustering:
    """Return two samples per dimension, with the snr in units of the algorithmic threshold."""
    from giantstep import SubspaceClustering

    snr = ratio * clusters / np.sqrt(2.0)
    return SubspaceClustering(clusters=clusters, sparsity=sparsity, snr=float(snr), samples_per_dim=2.0)


# -- the phase diagram ---------------------------------------------------------------------------------------


def phase_diagram(bench: Bench) -> Figure:
    """Draw the phases, what happens where the first-order line ends, and the curves lam(m) behind them."""
    base, unit = scenario(), scenario().threshold
    end = bench.predict("end", base, {}, what="critical")
    edge = [float(end[name]) for name in ("sparsity_c", "ratio_c")]
    rho = np.unique(
        np.concatenate(
            [np.geomspace(0.002, 0.35, bench.sized(24, 120)), np.linspace(0.14, edge[0], bench.sized(10, 24))]
        )
    )
    lines = bench.predict("thresholds", base, {"sparsity": rho}, what="thresholds")
    figure, axes = new_figure(1, 3, width=13.2, height=4.0)
    for panel in axes[:2]:
        _regions(panel, rho, lines, edge)
    axes[0].set(xlim=(0.0, 0.35), ylim=(0.0, 1.5))
    axes[1].set(xlim=(0.12, 0.24), ylim=(0.9, 1.04))
    for text, place in (("impossible", (0.19, 0.45)), ("hard", (0.055, 0.87)), ("optimal", (0.19, 1.25))):
        axes[0].text(*place, text, ha="center", va="center")
    axes[1].text(0.225, 0.95, "impossible", ha="center", va="center")
    axes[1].text(0.135, 0.975, "hard", ha="center", va="center")
    axes[1].text(0.162, 1.0045, "suboptimal", ha="center", va="center", fontsize=8)
    axes[1].text(0.15, 1.03, "optimal", ha="center", va="center")
    axes[0].legend(loc="lower right")
    letter(axes[0], "a", r"what can be found, $k = 2$, $\alpha = 2$")
    letter(axes[1], "b", "where the first-order line ends")
    _loops(axes[2], bench)
    letter(axes[2], "c", r"fixed points: $\lambda$ against the overlap")
    _count_phases(bench, base, unit)
    bench.check(
        "distance of the end of the line from rho = 0.2088104",
        abs(edge[0] - 0.2088104),
        "the value of an independent root finder for both derivatives of lam(m)",
        line=1e-6,
    )
    return figure


def _regions(axes: Axes, rho: np.ndarray, lines: xarray.Dataset, edge: list[float]) -> None:
    dyn, it, jump, top = (lines[f"ratio_{name}"].values for name in ("dyn", "it", "jump", "algB"))
    dyn, jump, top = (np.where(rho == edge[0], edge[1], line) for line in (dyn, jump, top))
    first = (lines["transition"].values == "first-order") | (rho == edge[0])
    axes.fill_between(rho, 1.0, 2.0, color=FILLS["optimal"], linewidth=0)
    axes.fill_between(rho, 0.0, it, color=FILLS["impossible"], linewidth=0)
    axes.fill_between(rho, it, 1.0, color=FILLS["hard"], linewidth=0)
    axes.fill_between(rho, np.maximum(jump, 1.0), top, color=FILLS["suboptimal"], linewidth=0, where=first)
    axes.axhline(1.0, color=BLACK, linewidth=1.0, label=r"$\lambda_{\rm alg}$: AMP finds something")
    axes.plot(rho[first], top[first], color=VERMILION, label=r"$\lambda_{\rm alg}^{\rm Bayes}$: AMP is optimal")
    axes.plot(rho[first], jump[first], color=BLUE, label=r"$\lambda_{\rm jump}$: optimal overlap jumps")
    axes.plot(
        rho[first], dyn[first], color=PURPLE, linestyle=DASHED, label=r"$\lambda_{\rm dyn}$: informed branch appears"
    )
    axes.plot(*edge, marker="o", color=BLACK, markersize=4, linestyle="none")
    axes.set_xlabel(r"fraction of active features,  $\rho$")
    axes.set_ylabel(RATIO)


def _loops(axes: Axes, bench: Bench) -> None:
    """Draw lam(m)/lam_alg along the curve of fixed points; its extrema are the spinodals."""
    from giantstep.families.subspace_clustering.channels import assignment_channel
    from giantstep.families.subspace_clustering.curve import Problems

    channel = assignment_channel(2)
    m = np.geomspace(1e-3, 0.2, bench.sized(60, 200))
    a = np.array([channel.snr(value) for value in m])
    for rho, colour in zip(LOOPS, (BLUE, VERMILION, GREEN, PURPLE)):
        problem = Problems(channel, np.full(len(m), 2.0), np.full(len(m), rho))
        limit_line(axes, m, problem.snr_of(a) / problem.threshold, colour, rf"$\rho = {rho:g}$")
    limits = bench.predict("loops", scenario(), {"sparsity": list(LOOPS)}, what="thresholds")
    for place, colour in enumerate((BLUE, VERMILION, GREEN, PURPLE)):
        one = limits.isel(sparsity=place)
        axes.plot(float(one["m_jump"]), float(one["ratio_jump"]), "o", color=colour, markerfacecolor="white")
        axes.plot(float(one["m_dyn"]), float(one["ratio_dyn"]), "s", color=colour, markerfacecolor="white")
    axes.axhline(1.0, color=GREY, linewidth=0.9, linestyle=DOTTED, zorder=0)
    axes.set(xlim=(0.0, 0.2), ylim=(0.755, 1.03))
    axes.set_xlabel("overlap of the assignments,  $m_u$")
    axes.set_ylabel(RATIO)
    handles, _ = axes.get_legend_handles_labels()
    marks = [
        key(GREY, "o", "optimal overlap jumps", linestyle="none"),
        key(GREY, "s", "informed branch appears", linestyle="none"),
    ]
    axes.legend(handles=[*handles, *marks], loc="lower right", ncols=2)


def _count_phases(bench: Bench, base: SubspaceClustering, unit: float) -> None:
    """Check that the phases of a grid of points, by free entropy, lie between the thresholds, found otherwise."""
    size = bench.sized(16, 50)
    rho, ratio = np.linspace(0.008, 0.35, size), np.linspace(0.0317, 1.4983, size)
    points = bench.predict("phases", base, {"sparsity": rho, "snr": ratio * unit})
    limits = bench.predict("phases-thresholds", base, {"sparsity": rho}, what="thresholds")
    it, top = (limits[f"ratio_{name}"].values[:, None] for name in ("it", "algB"))
    expected = np.where(ratio < it, "impossible", np.where(ratio < 1, "hard", "optimal"))
    jump = limits["ratio_jump"].values[:, None]
    expected = np.where((ratio > np.maximum(jump, 1)) & (ratio < top), "suboptimal", expected)
    wrong = int(np.sum(points["phase"].values != expected))
    bench.check("points of the grid in another phase than their thresholds say", wrong, f"of {size**2}", line=0.5)


# -- overlaps against the snr --------------------------------------------------------------------------------


def overlaps(bench: Bench) -> Figure:
    """Draw the error of the assignments with its branches, and the overlaps beside AMP."""
    figure, axes = new_figure(1, 2, width=10.4, height=4.0)
    _error_panel(axes[0], bench)
    _overlap_panel(axes[1], bench)
    bench.notes.append(
        "In (a) circles start at random, squares at an overlap of 0.6 with the truth. In (b) points up to 1.1 are "
        "drawn, not judged: near the threshold AMP needs d of many thousands."
    )
    return figure


def _error_panel(axes: Axes, bench: Bench) -> None:
    base, unit = scenario(), scenario().threshold
    ratio = np.linspace(0.1, 1.7, bench.sized(81, 321))
    limits = bench.predict("sparse-thresholds", base, {}, what="thresholds")
    jump, dyn = float(limits["ratio_jump"]), float(limits["ratio_dyn"])
    fine = np.unique(
        np.concatenate([ratio, [dyn * (1 - 1e-6), dyn * (1 + 1e-6), jump * (1 - 1e-6), jump * (1 + 1e-6)]])
    )
    line = bench.predict("sparse-limit", base, {"snr": fine * unit})
    for branch, colour, style in (("informed", PURPLE, DASHED), ("uninformed", VERMILION, "-"), ("bayes", BLUE, "-")):
        values = line["mse_u"].sel(branch=branch).values.copy()
        values[1:][np.abs(np.diff(values)) > 0.03] = np.nan  # a jump is not a line
        width = 3.6 if branch == "bayes" else 1.5
        axes.plot(
            fine, values, color=colour, linestyle=style, linewidth=width, alpha=0.45 if width > 2 else 1, label=branch
        )
    sizes = {"dim": bench.sized(1000, 4000), "trials": bench.sized(6, 16), "seed": SEED}
    for start, branch, grid in (
        ("random", "uninformed", [0.2, 0.5, 0.8, 1.25, 1.4, 1.55]),
        ("informed", "informed", [0.35, 0.85, 1.0, 1.15, 1.32, 1.48, 1.62]),
    ):
        result = bench.compare(
            f"sparse-{start}", base, {"snr": np.array(grid) * unit}, settings={"start": start},
            meaning=f"error of the assignments, AMP from the {start} start", judged=("mse_u",), **sizes,
        )  # fmt: skip
        colour, marker = (VERMILION, "o") if start == "random" else (PURPLE, "s")
        experiment_points(axes, grid, result.sel(branch=branch), "mse_u", colour, marker)
    for value, text in ((dyn, r"$\lambda_{\rm dyn}$"), (jump, r"  $\lambda_{\rm IT}$"), (1.0, r"$\lambda_{\rm alg}$")):
        axes.axvline(value, color=GREY, linewidth=0.9, linestyle=DOTTED, zorder=0)
        side = "right" if value == dyn else "left"
        axes.text(value, 0.207, f" {text} ", color=GREY, ha=side, fontsize=8)
    axes.set(xlim=(0.1, 1.7), ylim=(0.2, 0.52))
    axes.set_xlabel(RATIO)
    axes.set_ylabel("squared error of the assignments")
    handles, _ = axes.get_legend_handles_labels()
    axes.legend(
        handles=[*handles[:3], *engines(axes, rf"AMP, $d = {sizes['dim']}$, $\pm$ 1 s.e.")[1:]], loc="upper right"
    )
    letter(axes, "a", r"a gap: $\rho = 0.05$, $k = 2$, $\alpha = 2$")


def _overlap_panel(axes: Axes, bench: Bench) -> None:
    base = scenario(sparsity=0.5)
    unit = base.threshold
    fine = np.unique(np.append(np.linspace(0.1, 2.5, bench.sized(80, 500)), 1.0))
    line = bench.predict("dense-limit", base, {"snr": fine * unit}).sel(branch="uninformed")
    sizes = {"dim": 1000, "trials": bench.sized(5, 10), "seed": SEED + 1}
    shown = (("m_u", BLUE), ("m_v", VERMILION))
    for part, grid, judged in (
        ("dense-near", [0.1, 0.4, 0.7, 0.9, 1.0, 1.1], ()),
        ("dense", [1.3, 1.55, 1.8, 2.05, 2.3, 2.5], ("m_u", "m_v", "accuracy")),
    ):
        result = bench.compare(
            part, base, {"snr": np.array(grid) * unit}, meaning="overlaps where half of the features are active",
            judged=judged, **sizes,
        )  # fmt: skip
        for place, (name, colour) in enumerate(shown):
            experiment_points(axes, grid, result.sel(branch="uninformed"), name, colour, MARKERS[place])
    for name, colour in shown:
        limit_line(axes, fine, line[name], colour)
    axes.axvline(1.0, color=GREY, linewidth=0.9, linestyle=DOTTED, zorder=0)
    names = ("assignments, $m_u$", "cluster means, $m_v$")
    keys: list[Any] = [key(colour, MARKERS[i], names[i]) for i, (_, colour) in enumerate(shown)]
    axes.legend(
        handles=[*keys, *engines(axes, r"AMP, $d = 1000$, $\pm$ 1 s.e.", line="state evolution")], loc="lower right"
    )
    axes.set(xlim=(0.1, 2.55), ylim=(-0.02, 0.85))
    axes.set_xlabel(RATIO)
    axes.set_ylabel("overlap with the truth")
    letter(axes, "b", r"no gap: $\rho = 0.5$, $k = 2$, $\alpha = 2$")


# -- sweep by sweep ------------------------------------------------------------------------------------------


def trajectory(bench: Bench) -> Figure:
    """Draw AMP sweep by sweep beside state evolution, in the easy and in the hard phase."""
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    easy, hard = scenario(3, 0.1, 1.3), scenario(2, 0.05, 0.8)
    sizes = {"dim": bench.sized(1000, 4000), "trials": bench.sized(8, 20), "seed": SEED + 2}
    for panel, base, starts, steps in ((axes[0], easy, (0.1, 0.3, 0.8), 10), (axes[1], hard, (0.01, 0.15, 0.6), 12)):
        part = "easy" if base is easy else "hard"
        for overlap, colour, marker in zip(starts, (BLUE, VERMILION, GREEN), MARKERS):
            result = bench.compare(
                f"{part}-{overlap:g}", base, {}, what="trajectory", settings={"overlap": overlap, "steps": steps},
                meaning=f"{part} phase, sweep by sweep from an overlap of {overlap:g}", judged=("m_u",), **sizes,
            )  # fmt: skip
            limit_line(panel, result["time"], result["m_u"].sel(source="limit"), colour, f"start at {overlap:g}")
            experiment_points(panel, result["time"], result, "m_u", colour, marker)
        panel.set_xlabel("sweeps")
        panel.set_ylabel("overlap of the assignments,  $m_u$")
        panel.set_ylim(bottom=-0.02)
    handles, _ = axes[0].get_legend_handles_labels()
    text = rf"AMP, $d = {sizes['dim']}$, $\pm$ 1 s.e."
    axes[0].legend(handles=[*handles[:3], *engines(axes[0], text, line="state evolution")], loc="lower right")
    axes[1].legend(handles=[h for h in axes[1].get_legend_handles_labels()[0] if "start" in str(h.get_label())])
    letter(axes[0], "a", r"easy phase: $k = 3$, $\rho = 0.1$, $\lambda = 1.3\,\lambda_{\rm alg}$")
    letter(axes[1], "b", r"hard phase: $k = 2$, $\rho = 0.05$, $\lambda = 0.8\,\lambda_{\rm alg}$")
    return figure


# -- algorithms compared, few active features ----------------------------------------------------------------

LOOKS = {
    "amp": ("AMP, spectral start", BLUE, "o"),
    "amp-thresholding": ("AMP, thresholding start", BLACK, "s"),
    "pca": ("PCA", VERMILION, "^"),
    "sparse-pca": ("sparse PCA (told s)", GREEN, "D"),
    "thresholding": ("thresholding (told s)", PURPLE, "v"),
    "kmeans": ("k-means", GREY, "x"),
}


def rivals(bench: Bench) -> Figure:
    """Draw the accuracy of message passing and of its rivals where few features are active."""
    figure, axes = new_figure(1, 2, width=10.4, height=4.1)
    dim, trials = bench.sized(500, 1000), bench.sized(3, 10)
    sizes: dict[str, Any] = {"dim": dim, "trials": trials, "seed": SEED + 3}
    _against_snr(axes[0], bench, sizes)
    _against_active(axes[1], bench, sizes)
    bench.notes.append(
        "Thresholding and sparse PCA are told the number of active features, AMP all parameters. The paper's axes of "
        "this comparison are not known to us: sizes and ratios are those of the notes."
    )
    return figure


def _against_snr(axes: Axes, bench: Bench, sizes: dict[str, Any]) -> None:
    base = scenario(sparsity=10 / sizes["dim"])
    fine = np.linspace(0.3, 2.0, bench.sized(60, 160))
    lines = bench.predict("rivals-limit", base, {"snr": fine * base.threshold}, what="rivals")["accuracy"]
    for name, colour, style in (("amp", BLUE, "-"), ("pca", VERMILION, "-"), ("bayes", BLACK, DASHED)):
        values = lines.sel(algorithm=name).values.copy()
        values[1:][np.abs(np.diff(values)) > 0.05] = np.nan  # a jump is not a line
        limit_line(axes, fine, values, colour, linestyle=style)
    grid = np.array([0.5, 0.8, 1.2, 1.5, 1.9])
    result = bench.compare(
        "rivals-snr", base, {"snr": grid * base.threshold}, what="rivals", meaning="accuracy with 10 active features",
        judged=(), **sizes,
    )  # fmt: skip
    _drawn(axes, grid, result, tuple(LOOKS))
    measured = result["accuracy"].sel(source="experiment").values[grid > 1.1]
    names = list(result["algorithm"].values)
    best = np.max([measured[:, names.index(name)] for name in ("pca", "sparse-pca", "thresholding", "kmeans")], axis=0)
    lead = float(np.max(best - measured[:, names.index("amp-thresholding")]))
    bench.check("lead of the best rival over AMP above the threshold", lead, "in accuracy, largest of 3", line=0.02)
    axes.axvline(1.0, color=GREY, linewidth=0.9, linestyle=DOTTED, zorder=0)
    axes.set(xlim=(0.3, 2.0), ylim=(0.48, 1.05))
    axes.set_xlabel(RATIO)
    axes.set_ylabel("accuracy")
    handles: list[Any] = [key(colour, marker, text, linestyle="none") for text, colour, marker in LOOKS.values()]
    axes.legend(handles=[*handles, key(GREY, "", "limit (black: Bayes)")], loc="upper left", fontsize=7.5, ncols=2)
    letter(axes, "a", rf"10 active of $d = {sizes['dim']}$, $k = 2$, $\alpha = 2$")


def _against_active(axes: Axes, bench: Bench, sizes: dict[str, Any]) -> None:
    """Draw the accuracy in the hard phase against the number of active features."""
    active = np.array([3, 5, 10, 20, 40, 100])
    shown = ("amp", "amp-thresholding", "pca", "thresholding")
    for ratio, filled in ((0.5, False), (0.8, True)):
        base = scenario(ratio=ratio)
        grid = {"sparsity": active / sizes["dim"]}
        result = bench.compare(
            f"rivals-active-{ratio:g}", base, grid, what="rivals", settings={"algorithms": ", ".join(shown)},
            meaning=f"accuracy at {ratio:g} of the threshold against the number of active features", judged=(), **sizes,
        )  # fmt: skip
        best = result["accuracy"].sel(source="limit", algorithm="bayes").values
        axes.plot(
            active,
            best,
            color=BLACK,
            linestyle=DASHED if filled else DOTTED,
            label=rf"Bayes, {ratio:g} $\lambda_{{\rm alg}}$",
        )
        _drawn(axes, active * (1.05 if filled else 1 / 1.05), result, shown, filled)
    axes.set(xscale="log", ylim=(0.48, 0.85))
    axes.set_xticks(active, [str(value) for value in active])
    axes.minorticks_off()
    axes.set_xlabel("active features, $s$")
    axes.set_ylabel("accuracy")
    handles: list[Any] = [key(LOOKS[name][1], LOOKS[name][2], LOOKS[name][0], linestyle="none") for name in shown]
    axes.legend(handles=[*handles, *axes.get_legend_handles_labels()[0]], loc="upper right", fontsize=7.5)
    letter(axes, "b", r"hard phase: open 0.5, filled 0.8 of $\lambda_{\rm alg}$")


def _drawn(axes: Axes, x: np.ndarray, result: xarray.Dataset, names: tuple[str, ...], filled: bool = False) -> None:
    for name in names:
        one = result.sel(algorithm=name)
        _, colour, marker = LOOKS[name]
        experiment_points(axes, x, one, "accuracy", colour, marker)
        if filled:
            axes.plot(x, one["accuracy"].sel(source="experiment"), marker, color=colour, markersize=4, zorder=4)


# -- many clusters -------------------------------------------------------------------------------------------


def many_clusters(bench: Bench) -> Figure:
    """Draw the gap of dense means with many clusters, and where the first-order line ends."""
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    clusters = np.unique(np.concatenate([np.arange(2, 13), [14, 16, 20, 25, 30, 40]]))[:: bench.sized(2, 1)]
    for alpha, colour in ((0.25, BLUE), (1.0, VERMILION), (4.0, GREEN)):
        lines = bench.predict(
            f"gap-{alpha:g}", scenario(sparsity=1.0).replace(samples_per_dim=alpha), {"clusters": clusters},
            what="thresholds",
        )  # fmt: skip
        limit_line(axes[0], clusters, lines["ratio_it"], colour, rf"$\alpha = {alpha:g}$")
        axes[0].plot(clusters, lines["ratio_dyn"], color=colour, linestyle=DASHED)
        axes[0].axvline(4 + 2 * np.sqrt(alpha), color=colour, linewidth=0.9, linestyle=DOTTED, zorder=0)
        first = lines["transition"].values == "first-order"
        wrong = int(np.sum(first != (clusters > 4 + 2 * np.sqrt(alpha) + 1e-9)))
        bench.check(
            f"numbers of clusters on the wrong side of 4 + 2 sqrt(alpha), alpha = {alpha:g}", wrong, "", line=0.5
        )
    axes[0].set_xlabel("clusters,  $k$")
    axes[0].set_ylabel(RATIO)
    handles, _ = axes[0].get_legend_handles_labels()
    marks = [key(GREY, "", r"$\lambda_{\rm IT}$: possible"), key(GREY, "", r"$\lambda_{\rm dyn}$", linestyle=DASHED)]
    marks.append(key(GREY, "", r"$k = 4 + 2\sqrt{\alpha}$", linestyle=DOTTED))
    axes[0].legend(handles=[*handles, *marks], loc="lower left")
    letter(axes[0], "a", r"all features active, $\rho = 1$")
    alphas = np.geomspace(0.1, 10.0, bench.sized(5, 13))
    for k, colour in ((2, BLUE), (3, VERMILION), (4, GREEN), (5, PURPLE)):
        own = alphas[k < 4 + 2 * np.sqrt(alphas) - 1e-6]
        ends = bench.predict(f"ends-{k}", scenario(clusters=k), {"samples_per_dim": own}, what="critical")
        limit_line(axes[1], own, ends["sparsity_c"], colour, f"$k = {k}$")
    axes[1].set(xscale="log", ylim=(0.0, 0.45))
    axes[1].set_xlabel(r"samples per dimension,  $\alpha$")
    axes[1].set_ylabel(r"end of the first-order line,  $\rho_c$")
    axes[1].legend(loc="lower right", ncols=2)
    letter(axes[1], "b", r"a hard phase below the line")
    return figure


RECIPES = (
    Recipe(
        name="subspace-phases",
        title="Phase diagram of subspace clustering",
        paper="pesce2022subspace",
        description="(a) impossible, hard and optimal regions, (b) the end of the first-order line, (c) lam(m_u).",
        parameters="k = 2, alpha = 2; (c) rho = 0.09, 0.11, 0.13, 0.15.",
        seconds_quick=12,
        seconds_full=25,
        make=phase_diagram,
    ),
    Recipe(
        name="subspace-overlaps",
        title="AMP beside state evolution against the signal-to-noise ratio",
        paper="pesce2022subspace",
        description="(a) error with its branches at rho = 0.05, (b) overlaps at rho = 0.5.",
        parameters="k = 2, alpha = 2, (a) d = 4000, (b) d = 1000 (the paper's). Seed 2205.",
        seconds_quick=20,
        seconds_full=400,
        make=overlaps,
    ),
    Recipe(
        name="subspace-trajectory",
        title="AMP sweep by sweep beside state evolution",
        paper="pesce2022subspace",
        description="Overlap after each sweep from three starts in (a) the easy and (b) the hard phase.",
        parameters="(a) k = 3, rho = 0.1, 1.3 lam_alg, (b) k = 2, rho = 0.05, 0.8 lam_alg; alpha = 2, d = 4000.",
        seconds_quick=20,
        seconds_full=500,
        make=trajectory,
    ),
    Recipe(
        name="subspace-rivals",
        title="Message passing and its rivals where few features are active",
        paper="pesce2022subspace",
        description="Accuracy of AMP, PCA, sparse PCA, thresholding, k-means (a) against the snr, (b) against s.",
        parameters="k = 2, (n, d) = (2000, 1000), (a) s = 10, (b) s = 3 ... 100 at 0.5 and 0.8 lam_alg. Seed 2208.",
        seconds_quick=60,
        seconds_full=900,
        make=rivals,
    ),
    Recipe(
        name="subspace-many-clusters",
        title="Hard phases of many clusters",
        paper="lesieur2016phase",
        description="(a) thresholds of dense means against k, (b) the end of the first-order line against alpha.",
        parameters="(a) rho = 1, alpha = 0.25, 1, 4, (b) k = 2 ... 5.",
        seconds_quick=20,
        seconds_full=60,
        make=many_clusters,
    ),
)
