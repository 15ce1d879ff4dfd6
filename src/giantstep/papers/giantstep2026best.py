"""The best possible error, and what fast algorithms reach: figures of the page
bayes_multi_index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from giantstep import BayesLimit, FewSteps, MaximalStep, MixtureGLM, OneStep, Vocabulary
from giantstep.core.base.types import Floats
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    both_sides,
    engines,
    experiment_points,
    key,
    letters,
    limit_line,
    vertical,
)
from giantstep.tools.figures.style import (
    DASHED,
    DOTTED,
    GREY,
    MARKERS,
    PALETTE,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

SEED = 2027
SAMPLES = "samples per dimension,  $n/d$"

# -- phase retrieval with and without noise --------------------------------------------

RETRIEVAL = BayesLimit(target="abs(z)", samples_per_dim=1.0)
NOISES = (0.0, 0.1)


def phase_retrieval(size: Size) -> Studies:
    """Return the overlap of message passing and the best possible against the samples,
    with GAMP beside them.
    """
    few = {0.0: [1.7, 2.2], 0.1: [1.5, 2.0, 2.5]}
    networks = {
        f"gamp-{noise:g}": comparison(
            RETRIEVAL.replace(noise=noise), {"samples_per_dim": few[noise]}, judged=("q", "mse"), scale={"mse": 0.1},
            meaning=f"overlap of GAMP on |z|, noise {noise:g}", dim=size(400, 3000),
            trials=size(8, 30), seed=SEED, start="spectral",
        )
        for noise in NOISES
    }  # fmt: skip
    lines = {
        f"limit-{noise:g}": limit(
            RETRIEVAL.replace(noise=noise),
            {"samples_per_dim": np.linspace(0.3, 3, 109)},
        )
        for noise in NOISES
    }
    return {**networks, **lines, "thresholds": limit(RETRIEVAL, what="thresholds")}


def _retrieval_jumps(results: Results) -> Studies:
    """Return the limit without noise on both sides of its jumps, and the curve close to
    the second.
    """
    it, amp = (float(results["thresholds"][name]) for name in ("alpha_it", "alpha_amp"))
    return {
        "jumps": limit(
            RETRIEVAL,
            {"samples_per_dim": both_sides(np.linspace(it, amp, 41)[1:-1], [it, amp])},
        )
    }


def _draw_retrieval(results: Results) -> Figure:
    import xarray

    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    wanted = ["q", "mse"]
    sharp = xarray.concat(
        [results[name][wanted] for name in ("limit-0", "jumps")], "samples_per_dim"
    )
    lines = {0.0: sharp.sortby("samples_per_dim"), 0.1: results["limit-0.1"]}
    for panel, name, label in zip(axes, wanted, ("squared cosine $q$", "square error")):
        for number, noise in enumerate(NOISES):
            line = lines[noise]
            best, amp = (
                line[name].sel(branch=branch) for branch in ("bayes", "uninformed")
            )
            limit_line(panel, line["samples_per_dim"], amp, PALETTE[number])
            limit_line(
                panel, line["samples_per_dim"], best, PALETTE[number], linestyle=DASHED
            )
            dots = results[f"gamp-{noise:g}"].sel(branch="uninformed")
            experiment_points(
                panel,
                dots["samples_per_dim"],
                dots,
                name,
                PALETTE[number],
                MARKERS[number],
            )
        for threshold in ("alpha_weak", "alpha_it", "alpha_amp"):
            vertical(panel, float(results["thresholds"][threshold]))
        panel.set(xlabel=SAMPLES, ylabel=label, xlim=(0.3, 3))
    handles = [
        key(PALETTE[i], MARKERS[i], f"noise {noise:g}")
        for i, noise in enumerate(NOISES)
    ]
    at_dim = rf"GAMP, $d = {results.dim('gamp-0')}$, $\pm$ 1 s.e."
    others = [
        key(GREY, "", "best possible", DASHED),
        key(GREY, "", "thresholds without noise", DOTTED),
    ]
    axes[0].legend(
        handles=[*handles, *engines(axes[0], at_dim, line="message passing"), *others],
        loc="lower right",
    )
    letters(axes, "overlap with the target's direction", "error on fresh samples")
    return figure


def _retrieval_checks(results: Results) -> Iterator[Check]:
    found = results["thresholds"]
    yield Check(
        "alpha_amp of |z| without noise, distance from 1.128",
        "the published algorithmic threshold of phase retrieval",
        abs(float(found["alpha_amp"]) - 1.128), line=5e-4,
    )  # fmt: skip


# -- the best possible beside every method ---------------------------------------------

HALF_SPACE = BayesLimit(target="sign(z)", samples_per_dim=1.0)
MODULUS = BayesLimit(target="abs(z)", noise=0.1, samples_per_dim=1.0)
PRODUCT = BayesLimit(target="z1 + z1*z2", noise=0.25, samples_per_dim=1.0)
NETWORK = {
    "activation": "relu",
    "width_per_dim": 1.5,
    "samples_per_dim": 1.0,
    "second_layer": Vocabulary([1, -1]),
}
SPLIT = 0.5
"""Share of the samples that the first layer sees; the rest is for the read-out."""


def _split(samples: Floats, batches: int = 1) -> dict[str, xarray.DataArray]:
    """Return the samples of the read-out and of every batch, which vary together."""
    import xarray

    total = xarray.DataArray(samples, dims="total", coords={"total": samples})
    return {
        "samples_per_dim": (1 - SPLIT) * total,
        "batch_per_dim": SPLIT * total / batches,
    }


def best_possible(size: Size) -> Studies:
    """Return errors of many methods against all samples they see, for three targets,
    and the best possible.
    """
    samples = np.geomspace(0.5, 16, size(16, 31))
    fine = {"samples_per_dim": np.geomspace(0.5, 16, size(41, 81))}
    few = {"samples_per_dim": np.geomspace(0.5, 8, size(9, 13))}
    plain = {"samples_per_dim": samples}
    classes = OneStep(target="sign(z)", loss="logistic", ridge=0.05, **NETWORK)
    modulus = OneStep(target="abs(z)", noise=0.1, ridge=0.1, **NETWORK)
    product = FewSteps(
        target="z1 + z1*z2", noise=0.25, rate=2.0, steps=0, ridge=0.1, **NETWORK
    )
    step = {"step": MaximalStep(rate=1.5, batch_per_dim=1.0)}
    stepped = {
        name.replace("batch_per_dim", "step.batch_per_dim"): value
        for name, value in _split(samples).items()
    }
    return {
        "half-space-best": limit(HALF_SPACE, fine),
        "half-space-logistic": limit(
            MixtureGLM(labels="sign", loss="logistic", ridge=0.05, samples_per_dim=1.0),
            plain,
        ),
        "half-space-ridge": limit(
            MixtureGLM(labels="sign", loss="square", ridge=0.5, samples_per_dim=1.0),
            plain,
        ),
        "half-space-random-features": limit(classes, plain),
        "modulus-best": limit(MODULUS, fine),
        "modulus-random-features": limit(modulus, plain),
        "modulus-one-step": limit(modulus.replace(step), stepped),
        "product-best": limit(PRODUCT, few),
        "product-random-features": limit(product, plain),
        **{
            f"product-{steps}-steps": limit(
                product.replace(steps=steps), _split(samples, steps)
            )
            for steps in (1, 2)
        },
    }


_METHODS = {
    "half-space": (("logistic", "test_error", "logistic regression"), ("ridge", "test_error", "least squares"),
                   ("random-features", "test_misclassified", "random features")),
    "modulus": (("random-features", "test_error", "random features"), ("one-step", "test_error", "one giant step")),
    "product": (("random-features", "test_error", "random features"), ("1-steps", "test_error", "one giant step"),
                ("2-steps", "test_error", "two giant steps")),
}  # fmt: skip


def _draw_best(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=12.6, height=4.2)
    colours = {
        "logistic regression": 0,
        "least squares": 1,
        "random features": 2,
        "one giant step": 3,
        "two giant steps": 4,
    }
    for panel, (name, methods) in zip(axes, _METHODS.items()):
        best = results[f"{name}-best"]
        kind = "error" if name == "half-space" else "mse"
        for key_, variable, label in methods:
            line = results[f"{name}-{key_}"]
            if "total" in line.coords:
                total = line["total"]
            else:
                total = line["samples_per_dim"]
            if "time" in line[variable].dims:
                values = line[variable].isel(time=-1)
            else:
                values = line[variable]
            number = colours[label]
            limit_line(panel, total, values, PALETTE[number], label)
        panel.plot(
            best["samples_per_dim"],
            best[kind].sel(branch="uninformed"),
            color=GREY,
            label="message passing",
        )
        panel.plot(
            best["samples_per_dim"],
            best[kind].sel(branch="bayes"),
            color="black",
            linestyle=DASHED,
            label="best possible",
        )
        panel.set(
            xscale="log", xlabel="all samples per dimension,  $n/d$", ylim=(0, None)
        )
        panel.set_ylabel(
            "fraction of wrong labels" if kind == "error" else "square error"
        )
        plain_log_ticks(panel.xaxis)
        panel.legend(
            loc="upper right" if name == "half-space" else "lower left", fontsize=8
        )
    letters(
        axes,
        r"$y = {\rm sign}(z_1)$",
        r"$y = |z_1|$ + noise",
        r"$y = z_1 + z_1 z_2$ + noise",
    )
    return figure


def _best_checks(results: Results) -> Iterator[Check]:
    for name, methods in _METHODS.items():
        best = results[f"{name}-best"].sel(branch="bayes")
        kind = "error" if name == "half-space" else "mse"
        x = np.log(best["samples_per_dim"].values)
        floor = best[kind].values
        lowest = np.inf
        for key_, variable, _ in methods:
            line = results[f"{name}-{key_}"]
            total = (
                line["total"] if "total" in line.coords else line["samples_per_dim"]
            ).values
            values = (
                line[variable].isel(time=-1)
                if "time" in line[variable].dims
                else line[variable]
            ).values
            inside = total <= np.exp(x[-1]) * (1 + 1e-9)
            lowest = min(
                lowest,
                float(np.min((values / np.interp(np.log(total), x, floor))[inside])),
            )
        yield Check(
            f"{name}: best possible error over that of the best method",
            "nothing lies below",
            1 / lowest,
            line=1.0,
        )


# -- noise and the first-order line of phase retrieval ---------------------------------


def noisy_phase_retrieval(size: Size) -> Studies:
    """Return the thresholds of |z| against the noise, and curves of fixed points on
    both sides of the end.
    """
    noises = size(
        [0.0006, 0.001, 0.0014, 0.0018, 0.003],
        [0.0005, 0.0006, 0.0008, 0.001, 0.0012, 0.0014, 0.0016, 0.0018, 0.0019, 0.003],
    )
    overlaps = np.union1d(
        np.linspace(0.3, 0.9, size(61, 121)), 1 - np.geomspace(0.1, 0.002, 50)
    )
    return {
        "thresholds": limit(MODULUS, {"noise": noises}, "thresholds"),
        **{
            f"curve-{noise:g}": limit(
                MODULUS.replace(noise=noise), what="branches", overlap=overlaps
            )
            for noise in (0.0006, 0.0018, 0.01)
        },
    }


def _draw_noisy(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    for number, name in enumerate(name for name in results if name.startswith("curve")):
        line = results[name]
        limit_line(
            axes[0],
            line["alpha"],
            line["overlap"],
            PALETTE[number],
            f"noise {name.removeprefix('curve-')}",
        )
        unstable = line.where(line["stable"] == 0)
        limit_line(
            axes[0],
            unstable["alpha"],
            line["overlap"],
            "black",
            linestyle=DOTTED,
            linewidth=2,
        )
    axes[0].set(
        xlabel=SAMPLES, ylabel="overlap $q$ of the fixed points", xlim=(0.7, 1.6)
    )
    axes[0].legend(loc="lower right")
    table = results["thresholds"]
    jumps = table["transition"].values == "first-order"
    names = {
        "alpha_dyn": "better branch is born",
        "alpha_it": "best possible jumps",
        "alpha_amp": "AMP jumps",
    }
    for number, (name, label) in enumerate(names.items()):
        limit_line(
            axes[1],
            table["noise"][jumps],
            table[name][jumps],
            PALETTE[number],
            label,
            marker=MARKERS[number],
        )
    axes[1].axvline(0.00199, color=GREY, linestyle=DOTTED, linewidth=0.9)
    axes[1].set(
        xlabel="noise variance", ylabel=SAMPLES, xlim=(0, 0.0025), ylim=(1.095, 1.155)
    )
    axes[1].legend(loc="lower right")
    letters(
        axes,
        "fixed points; dotted: unstable",
        "thresholds; the jump ends at noise 0.002",
    )
    return figure


def _noisy_checks(results: Results) -> Iterator[Check]:
    table = results["thresholds"]
    jumps = table["transition"].values == "first-order"
    last = float(table["noise"].values[jumps].max())
    yield Check(
        "largest noise with a jump", "the line ends near 0.00199", last, line=0.002
    )
    width = float((table["alpha_amp"] - table["alpha_dyn"])[jumps][-1])
    yield Check("width of the jump at its last noise", "it closes", width, line=0.01)


# -- staircase and parities ------------------------------------------------------------

STAIRS = BayesLimit(target="z1 + h2(z2)", noise=0.25, samples_per_dim=1.0)


def amp_staircase(size: Size) -> Studies:
    """Return how message passing learns one direction through the other."""
    alphas = size([0.2, 0.4, 0.64, 0.7, 0.8, 1.0, 1.2, 1.4], np.linspace(0.1, 2.0, 25))
    return {
        "limit": limit(STAIRS, {"samples_per_dim": alphas}),
        "thresholds": limit(STAIRS, what="thresholds"),
        "gamp": comparison(
            STAIRS.replace(samples_per_dim=1.4),
            what="trajectory",
            overlap=[0.3, 0.3],
            steps=size(5, 12),
            judged=("M",),
            meaning="GAMP sweep by sweep on z1 + h2(z2)",
            dim=size(200, 2000),
            trials=size(10, 20),
            seed=SEED + 1,
        ),
    }


def _draw_staircase(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    line = results["limit"].sel(branch="uninformed")
    for number in range(2):
        overlap = line["M"].isel(direction=number, direction_2=number)
        limit_line(
            axes[0],
            line["samples_per_dim"],
            overlap,
            PALETTE[number],
            f"$z_{number + 1}$",
        )
        path = results["gamp"].isel(direction=number, direction_2=number)
        limit_line(
            axes[1], path["time"], path["M"].sel(source="limit"), PALETTE[number]
        )
        experiment_points(
            axes[1], path["time"], path, "M", PALETTE[number], MARKERS[number]
        )
    vertical(axes[0], float(results["thresholds"]["alpha_direction"][1]))
    axes[0].set(xlabel=SAMPLES, ylabel="squared cosine", ylim=(0, None))
    axes[0].legend(loc="upper left")
    axes[1].set(xlabel="sweeps of GAMP", ylabel="squared cosine", ylim=(0, 1))
    at_dim = rf"GAMP, $d = {results.dim('gamp')}$, $\pm$ 1 s.e."
    axes[1].legend(
        handles=engines(axes[1], at_dim, line="state evolution"), loc="lower right"
    )
    letters(
        axes,
        "the second direction waits for its threshold",
        "$n/d = 1.4$, sweep by sweep",
    )
    return figure


def parity_curves(size: Size) -> Studies:
    """Return the curves of fixed points of the product of two and of three signs."""
    overlaps = np.union1d(
        np.linspace(0.02, 0.9, size(45, 89)), 1 - np.geomspace(0.1, 0.008, 16)
    )
    return {
        f"signs-{k}": limit(BayesLimit(target=f"sign({'*'.join(f'z{j + 1}' for j in range(k))})", samples_per_dim=4.0),
                            what="branches", overlap=overlaps)
        for k in (2, 3)
    }  # fmt: skip


def _draw_parity(results: Results) -> Figure:
    figure, (axes,) = new_figure(1, 1, width=6.4, height=4.2)
    for number, k in enumerate((2, 3)):
        line = results[f"signs-{k}"]
        for flag, style in ((1, "-"), (0, DOTTED)):
            part = line["alpha"].where(line["stable"] == flag)
            label = f"{'stable' if flag else 'unstable'}, {k} signs"
            limit_line(
                axes, part, line["overlap"], PALETTE[number], label, linestyle=style
            )
    axes.set(
        xlabel=SAMPLES,
        ylabel="overlap $q$ of the fixed points",
        xlim=(0, 20),
        ylim=(0, 1),
    )
    handles, labels = axes.get_legend_handles_labels()
    shown = [
        (handle, label)
        for handle, label in zip(handles, labels)
        if label != "unstable, 2 signs"
    ]
    axes.legend(*zip(*shown), loc="center right")
    return figure


RECIPES = (
    Recipe(
        "phase-retrieval",
        "Phase retrieval: the best possible and what message passing reaches",
        "(a) overlap and (b) error against n/d for |z| with and without noise, GAMP as dots; dashed: best possible.",
        phase_retrieval,
        _draw_retrieval,
        _retrieval_checks,
        then=_retrieval_jumps,
        seconds=8,
    ),
    Recipe(
        "best-possible",
        "The best possible error beside many methods, for three targets",
        "Error against all samples seen: least squares, logistic regression, random features, one and two giant steps.",
        best_possible,
        _draw_best,
        _best_checks,
        seconds=60,
    ),
    Recipe(
        "noisy-phase-retrieval",
        "How noise ends the jump of phase retrieval",
        "(a) fixed points of |z| at three noises and (b) thresholds against the noise: the first-order line ends.",
        noisy_phase_retrieval,
        _draw_noisy,
        _noisy_checks,
        seconds=40,
    ),
    Recipe(
        "amp-staircase",
        "Message passing learns one direction through another",
        "(a) overlaps of z1 + h2(z2) against n/d, the threshold of z2 dotted, and (b) GAMP sweep by sweep.",
        amp_staircase,
        _draw_staircase,
        seconds=40,
    ),
    Recipe(
        "parity-curves",
        "Products of two and of three signs",
        "Fixed points against n/d: two signs are learnt continuously, three never by message passing.",
        parity_curves,
        _draw_parity,
        seconds=10,
    ),
)
