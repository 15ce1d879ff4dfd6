"""Dandi et al., ICML 2024: what gradient descent learns when it sees the same batch
again, beside a single pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep import BatchReuse
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
from giantstep.papers.report import Check
from giantstep.problems.learnability.reuse import learned_rounds
from giantstep.tools.figures.panels import (
    compared,
    engines,
    experiment_points,
    key,
    letters,
    limit_line,
    note,
)
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DASHED,
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

SEED = 2402
HALF = 2**-0.5
ERF = "erf(z/sqrt(2))"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE)
USES = (("reused", BLUE, "-", "o"), ("fresh", VERMILION, DASHED, "s"))
STEPS = "gradient steps"
JUDGED = ("M", "Q", "train_loss")
SCALE = {"M": 0.1}
"""Overlaps that stay at zero are half of what these figures show: 5% of this, 0.005, is
what is looked for there.
"""


def scenario(**fields: Any) -> BatchReuse:
    """Return a ReLU network on three samples per dimension with rate 0.1, changed by
    `fields`.
    """
    return BatchReuse(
        **{
            "activation": "relu",
            "samples_per_dim": 3.0,
            "rate": 0.1,
            "steps": 6,
            **fields,
        }
    )


def _run(
    base: BatchReuse, meaning: str, grid: Any = None, **settings: Any
) -> FigureStudy:
    """Return a trajectory whose overlaps, lengths and training loss are judged."""
    return comparison(
        base, grid, meaning=meaning, judged=JUDGED, scale=SCALE, **settings
    )


def _overlap(
    axes: Axes,
    result: xarray.Dataset,
    colour: Any,
    style: Any,
    marker: str,
    direction: int = 0,
) -> None:
    """Draw an overlap of the first neuron in time."""
    first = result.isel(neuron=0, direction=direction)
    compared(axes, first["time"], first, "M", colour, marker, linestyle=style)


def _zero_line(axes: Axes) -> None:
    axes.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)


def _say_scores(axes: Axes, results: Sequence[xarray.Dataset], name: str = "M") -> None:
    """Write the largest |z| of a panel under it, beside the one that so many numbers
    pass once in 1,000.
    """
    scores = np.concatenate(
        [np.abs(result[f"{name}_z"].values).ravel() for result in results]
    )
    scores = scores[np.isfinite(scores) & (scores > 0)]
    line = chance_line(len(scores))
    text = f"{len(scores)} z-scores of {name}: largest {scores.max():.1f}, by chance below {line:.1f}"
    note(
        axes,
        text,
        (1.0, 0.0),
        (0, -32),
        GREY,
        xycoords="axes fraction",
        ha="right",
        va="top",
        fontsize=7,
    )


def _legend(axes: Axes, handles: Sequence[Any], dim: int, **place: Any) -> None:
    text = rf"experiment, $d = {dim}$, $\pm$ 1 s.e."
    axes.legend(handles=[*handles, *engines(axes, text)[1:]], **place)


def _use_keys() -> list[Any]:
    return [key(BLUE, "o", "same batch"), key(VERMILION, "s", "fresh batches", DASHED)]


# -- single-index targets --------------------------------------------------------------

SINGLE = {
    "tanh": ("tanh(z)", r"$\tanh z$"),
    "h3": ("h3(z)", r"$He_3$"),
    "h4": ("h4(z)", r"$He_4$"),
}
MANY = {"h4-reused": 2800, "h4-fresh": 900}
"""Trials in full size where labels scatter so much that 400 would not do."""


def single_index(size: Size) -> Studies:
    """Return tanh, He3 and He4 targets, each with a reused batch and in a single
    pass.
    """
    studies = {}
    for name, (target, _) in SINGLE.items():
        for data, *_ in USES:
            own = f"{name}-{data}"
            studies[own] = _run(
                scenario(target=target, data=data), f"{target}, {data} data",
                dim=size(1000, 10_000), trials=size(100, MANY.get(own, 400)), seed=SEED,
            )  # fmt: skip
    return studies


def _draw_single_index(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=12.6, height=3.8)
    for panel, name in zip(axes, SINGLE):
        for data, *look in USES:
            _overlap(panel, results[f"{name}-{data}"], *look)
        _zero_line(panel)
        _say_scores(panel, [results[f"{name}-{data}"] for data, *_ in USES])
        panel.set_xlabel(STEPS)
    letters(axes, *(f"target {shown}" for _, shown in SINGLE.values()))
    axes[0].set_ylabel("overlap with the target,  $M$")
    axes[2].set_ylim(-0.05, 0.05)
    _legend(axes[0], _use_keys(), results.dim("tanh-reused"), loc="upper left")
    return figure


# -- multi-index targets ---------------------------------------------------------------

ALONG = 0.767832
ACROSS = 0.640651
"""Coordinates of E[y h*]/|E[y h*]| for tanh(z1 + He3(z2)), up to signs."""
TURNED = f"tanh({ALONG}*z1 + {ACROSS}*z2 + h3({ALONG}*z2 - {ACROSS}*z1))"
"""The same target, its first coordinate along E[y h*]."""
TWO_TANH = "tanh((z1 + z2)/sqrt(2)) + tanh((z1 - z2)/sqrt(2))"
WIDE = [sign * 8**-0.5 for sign in (1, -1) * 4]
MULTI: dict[str, tuple[dict[str, Any], str]] = {
    "staircase": (
        {"target": "z1 + z1*z2", "second_layer": WIDE},
        r"$z_1 + z_1 z_2$, $p = 8$, $\eta = 0.1$",
    ),
    "tanh-he3": (
        {"target": TURNED, "second_layer": [HALF, -HALF], "rate": 0.2, "steps": 7},
        r"$\tanh(z_1 + He_3(z_2))$, $p = 2$, $\eta = 0.2$",
    ),
    "two-tanh": (
        {"target": TWO_TANH, "second_layer": [HALF, -HALF]},
        r"$\tanh z_1 + \tanh z_2$, $p = 2$, $\eta = 0.1$",
    ),
}


def multi_index(size: Size) -> Studies:
    """Return three targets of two directions, each with a reused batch and in a single
    pass.
    """
    sizes = {"dim": size(2000, 10_000), "trials": size(60, 400), "seed": SEED + 1}
    studies = {}
    for name, (fields, _) in MULTI.items():
        for data, *_ in USES:
            base = scenario(**fields, data=data)
            studies[f"{name}-{data}"] = _run(
                base, f"{base.target.name}, {data} data", **sizes
            )
    return studies


def _draw_multi_index(results: Results) -> Figure:
    """Draw overlaps along E[y h*] and orthogonal to it."""
    figure, axes = new_figure(2, 3, width=12.6, height=6.6)
    for name, upper, lower in zip(MULTI, axes, axes[3:]):
        for direction, panel in enumerate((upper, lower)):
            for data, colour, style, marker in USES:
                _overlap(
                    panel, results[f"{name}-{data}"], colour, style, marker, direction
                )
            _zero_line(panel)
        lower.set_xlabel(STEPS)
        _say_scores(lower, [results[f"{name}-{data}"] for data, *_ in USES])
    letters(axes, *(title for _, title in MULTI.values()))
    axes[5].set_ylim(-0.02, 0.02)
    axes[0].set_ylabel(r"first neuron along $E[y\,h^*]$")
    axes[3].set_ylabel("first neuron orthogonal to it")
    _legend(axes[0], _use_keys(), results.dim("staircase-reused"), loc="upper left")
    return figure


# -- a hard target, whole and in mini-batches ------------------------------------------

HARD = [0.5, -0.5, 0.5, -0.5]


def hard_scenario(**fields: Any) -> BatchReuse:
    """Return z1 z2 z3 + He3(z4): odd, but three of its four directions are hidden by
    symmetry.
    """
    known = {
        "target": "z1*z2*z3 + h3(z4)",
        "second_layer": HARD,
        "samples_per_dim": 5.0,
        "rate": 0.2,
        "steps": 7,
    }
    return scenario(**{**known, **fields})


def hard_target(size: Size) -> Studies:
    """Return the hard target on one reused batch."""
    sizes = {"dim": size(1000, 5000), "trials": size(60, 1700), "seed": SEED + 2}
    return {
        "hard": _run(hard_scenario(), "z1 z2 z3 + He3(z4), one reused batch", **sizes)
    }


def _draw_hard_target(results: Results) -> Figure:
    """Draw the one direction that is learned, the three that are not, and the losses
    meanwhile.
    """
    figure, axes = new_figure(1, 2, width=9.4, height=3.9)
    result = results["hard"]
    colours = (VERMILION, GREEN, PURPLE, BLUE)
    for direction, colour in enumerate(colours):
        _overlap(axes[0], result, colour, "-", MARKERS[direction], direction)
    _zero_line(axes[0])
    _say_scores(axes[0], [result])
    axes[0].set(xlabel=STEPS, ylabel="overlap of the first neuron")
    handles = [
        key(colour, MARKERS[i], f"$z_{i + 1}$") for i, colour in enumerate(colours)
    ]
    _legend(
        axes[0],
        handles,
        results.dim("hard"),
        loc="center right",
        bbox_to_anchor=(1.0, 0.62),
    )
    for name, colour, marker in (
        ("train_loss", BLUE, "o"),
        ("population_loss", VERMILION, "s"),
    ):
        compared(axes[1], result["time"], result, name, colour, marker)
    axes[1].set(xlabel=STEPS, ylabel="loss per sample")
    axes[1].legend(
        handles=[
            key(BLUE, "o", "training samples"),
            key(VERMILION, "s", "fresh samples"),
        ],
        loc="best",
    )
    letters(
        axes, "only $z_4$ is learned", "learning a direction is not predicting better"
    )
    return figure


MINI = {
    "cycle": r"in turn, $5$ groups of $n/5$",
    "replacement": r"each with probability $1/5$",
}


def mini_batches(size: Size) -> Studies:
    """Return the hard target with a fifth of the samples at a time."""
    sizes = {
        "dim": size(1000, 4000),
        "trials": size(100, 400),
        "seed": SEED + 3,
        "nodes": size(2**16, 2**18),
    }
    return {
        data: _run(
            hard_scenario(data=data, batches=5, steps=9),
            f"z1 z2 z3 + He3(z4), {data}",
            **sizes,
        )
        for data in MINI
    }


def _draw_mini_batches(results: Results) -> Figure:
    """Draw the overlap with the one direction that is learned: hidden progress waits
    for the second epoch.
    """
    figure, axes = new_figure(1, 2, width=9.4, height=3.9)
    signs = np.sign(HARD)
    for panel, data in zip(axes, MINI):
        result = results[data]
        for neuron, colour in enumerate(COLOURS):
            own = result.isel(neuron=neuron, direction=3)
            time = result["time"] + 0.09 * (neuron - 1.5)
            experiment_points(
                panel, time, own, "M", colour, MARKERS[neuron], scale=signs[neuron]
            )
        # equal by symmetry
        mean = (result["M"].sel(source="limit", direction=4) * signs).mean("neuron")
        limit_line(panel, result["time"], mean, BLACK)
        _zero_line(panel)
        _say_scores(panel, [result])
        panel.set(xlabel=STEPS, ylim=(-0.042, 0.012))
    letters(axes, *MINI.values())
    axes[0].axvspan(0, 5, color="0.94", zorder=-1)
    axes[0].text(
        2.5, 0.009, "first epoch: a single pass", ha="center", fontsize=8, color=GREY
    )
    axes[0].set_ylabel(r"overlap with $z_4$,  ${\rm sign}(a_j)\, M_{j4}$")
    neurons = [
        key(colour, MARKERS[i], f"neuron {i + 1}") for i, colour in enumerate(COLOURS)
    ]
    handles = [key(BLACK, "", "limit, mean over neurons"), *neurons]
    _legend(axes[1], handles, results.dim("cycle"), loc="lower left")
    return figure


# -- phases ----------------------------------------------------------------------------

CUTS = tuple(zip((0.2, 0.4, 0.8), (BLUE, VERMILION, GREEN), MARKERS))
CUT_SAMPLES = [0.5, 1.0, 2.0, 3.0, 4.0]
ANGLES = np.linspace(0.0, 0.5, 9)
"""Of the targets between He2, which no batch of order d teaches, and He3, in units of
pi.
"""
ANGLE_TARGETS = [
    f"cos({angle}*pi)*h2(z)/sqrt(2) + sin({angle}*pi)*h3(z)/sqrt(6)" for angle in ANGLES
]
FAMILIES = {
    "erf": (ERF, "erf (odd)", BLUE, "o", 1.0),
    "relu": ("relu", "ReLU", VERMILION, "s", 0.95),
}
"""Name -> activation, its words, colour, marker, and the height at which the verdicts
stand.
"""
AFTER_TWO = {"time": 2, "neuron": 0, "direction": 0}


def _he3(**fields: Any) -> BatchReuse:
    return scenario(target="h3(z)/sqrt(6)", activation=ERF, steps=2, **fields)


def phases(size: Size) -> Studies:
    """Return |M| after two steps over samples and rate, cuts through it, and a family
    of targets.
    """
    count = size(16, 40)
    grid = {
        "samples_per_dim": np.linspace(0.25, 4.0, count),
        "rate": np.linspace(0.05, 1.5, count),
    }
    studies = {"map": limit(_he3(), grid, nodes=size(2**10, 2**12), scrambles=2)}
    sizes = {"dim": size(2000, 20_000), "trials": size(100, 300)}
    for rate, *_ in CUTS:
        fine = np.linspace(0.25, 4.0, 31)
        meaning = f"He3 with erf after two steps, rate {rate:g}"
        studies[f"cut-{rate:g}-limit"] = limit(
            _he3(rate=rate), {"samples_per_dim": fine}, nodes=2**13
        )
        points = {"samples_per_dim": CUT_SAMPLES}
        studies[f"cut-{rate:g}"] = _run(
            _he3(rate=rate), meaning, points, seed=SEED + 4, **sizes
        )
    for name, (activation, shown, *_) in FAMILIES.items():
        base = scenario(
            activation=activation,
            rate=0.3,
            samples_per_dim=2.0,
            steps=2,
            target="h2(z)",
        )
        meaning = f"cos(th) He2 + sin(th) He3 with {shown}, two steps"
        studies[f"family-{name}"] = _run(
            base, meaning, {"target": ANGLE_TARGETS}, seed=SEED + 5, **sizes
        )
    return studies


def _draw_phases(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=13.4, height=4.0)
    _map_panel(axes[0], results["map"])
    _cut_panel(axes[1], results)
    _family_panel(axes[2], results)
    verdicts = r"$\cos\theta\, He_2 + \sin\theta\, He_3$  (● learned, ○ not: verdict)"
    letters(axes, "$He_3$ with erf: reused batch", "cuts through it", verdicts)
    return figure


def _map_panel(axes: Axes, result: xarray.Dataset) -> None:
    rates = result["rate"].values
    samples = result["samples_per_dim"].values
    values = np.abs(result["M"].isel(AFTER_TWO).values)
    mesh = axes.pcolormesh(rates, samples, values, shading="nearest", rasterized=True)
    lines = axes.contour(
        rates,
        samples,
        values,
        levels=(0.02, 0.05, 0.1, 0.2),
        colors="white",
        linewidths=0.8,
    )
    axes.clabel(lines, fontsize=7, fmt="%g")
    axes.figure.colorbar(mesh, ax=axes, pad=0.02, label=r"$|M|$ after two steps")
    axes.set(xlabel=r"rate,  $\eta$", ylabel=r"samples per dimension,  $\alpha$")


def _cut_panel(axes: Axes, results: Results) -> None:
    handles: list[Any] = []
    for rate, colour, marker in CUTS:
        line = results[f"cut-{rate:g}-limit"]
        result = results[f"cut-{rate:g}"].isel(AFTER_TWO)
        limit_line(axes, line["samples_per_dim"], -line["M"].isel(AFTER_TWO), colour)
        experiment_points(axes, CUT_SAMPLES, result, "M", colour, marker, scale=-1.0)
        handles.append(key(colour, marker, rf"$\eta = {rate:g}$"))
    _zero_line(axes)
    axes.plot([0.25, 4.0], [0.0, 0.0], color=GREY, linestyle=DASHED, zorder=1)
    _say_scores(axes, [results[f"cut-{rate:g}"] for rate, *_ in CUTS])
    handles.append(key(GREY, "", "single pass: zero", DASHED))
    _legend(axes, handles, results.dim("cut-0.2"), loc="upper left")
    axes.set(xlabel=r"samples per dimension,  $\alpha$", ylabel=r"$-M$ after two steps")


def _verdicts(activation: str) -> list[bool]:
    """Tell which of the targets the calculator says are learned."""
    return [
        bool(learned_rounds(target, activation).dimensions) for target in ANGLE_TARGETS
    ]


def _family_panel(axes: Axes, results: Results) -> None:
    for name, (activation, shown, colour, marker, height) in FAMILIES.items():
        result = results[f"family-{name}"].isel(AFTER_TWO)
        limit_line(axes, ANGLES, result["M"].sel(source="limit"), colour)
        experiment_points(axes, ANGLES, result, "M", colour, marker, shown)
        for angle, learned in zip(ANGLES, _verdicts(activation)):
            place = {"xycoords": axes.get_xaxis_transform(), "fontsize": 8, "va": "top"}
            note(
                axes, "●" if learned else "○", (angle, height), (0, 0), colour, **place
            )
    _zero_line(axes)
    _say_scores(axes, [results[f"family-{name}"] for name in FAMILIES])
    axes.legend(loc="center", bbox_to_anchor=(0.5, 0.42))
    axes.set(xlabel=r"$\theta/\pi$", ylabel=r"$M$ after two steps")
    axes.margins(y=0.15)


def _phase_checks(results: Results) -> Iterator[Check]:
    for name, (activation, *_) in FAMILIES.items():
        seen = (
            np.abs(
                results[f"family-{name}"]["M"]
                .isel(AFTER_TWO)
                .sel(source="limit")
                .values
            )
            > 1e-4
        )
        wrong = np.sum(seen != np.array(_verdicts(activation)))
        meaning = "targets on which the verdict (learned or not) and the limit differ"
        yield Check(f"verdicts-{name}", meaning, wrong, line=0.5)


# -- losses ----------------------------------------------------------------------------

ODD = {"relu": ("relu", "ReLU", BLUE, "o"), "erf": (ERF, "erf (odd)", VERMILION, "s")}


def losses(size: Size) -> Studies:
    """Return losses and lengths in time with a reused batch and fresh ones, and the
    staircase with two activations.
    """
    sizes = {"dim": size(1000, 10_000), "trials": size(40, 300), "seed": SEED + 6}
    pair = {"second_layer": [HALF, -HALF], "rate": 0.2}
    base = scenario(target="tanh(z1 + h3(z2))", steps=12, **pair)
    studies = {
        "losses": _run(base, "tanh(z1 + He3(z2)), one reused batch", **sizes),
        "losses-fresh": _run(
            base.replace(data="fresh"), "the same with fresh batches", **sizes
        ),
    }
    for name, (activation, shown, *_) in ODD.items():
        stairs = scenario(target="z1 + z1*z2", activation=activation, **pair)
        studies[f"staircase-{name}"] = _run(stairs, f"z1 + z1 z2 with {shown}", **sizes)
    return studies


def _draw_losses(results: Results) -> Figure:
    figure, axes = new_figure(1, 3, width=12.8, height=3.8)
    reused = results["losses"]
    fresh = results["losses-fresh"]
    handles: list[Any] = []
    for result, name, colour, marker, style, text in (
        (reused, "train_loss", BLUE, "o", "-", "same batch: training"),
        (reused, "population_loss", VERMILION, "s", "-", "same batch: fresh samples"),
        (fresh, "population_loss", GREEN, "^", DASHED, "fresh batches"),
    ):
        compared(axes[0], result["time"], result, name, colour, marker, linestyle=style)
        handles.append(key(colour, marker, text, style))
    _say_scores(axes[0], [reused, fresh], "train_loss")
    _legend(axes[0], handles, results.dim("losses"))
    for second, colour, marker in ((0, BLUE, "o"), (1, VERMILION, "s")):
        entry = reused.isel(neuron=0, neuron_2=second)
        limit_line(axes[1], entry["time"], entry["Q"].sel(source="limit"), colour)
        experiment_points(
            axes[1], entry["time"], entry, "Q", colour, marker, f"$Q_{{1{second + 1}}}$"
        )
    _say_scores(axes[1], [reused], "Q")
    axes[1].legend(loc="center right")
    for name, (_, _, colour, marker) in ODD.items():
        _overlap(
            axes[2], results[f"staircase-{name}"], colour, "-", marker, direction=1
        )
    _zero_line(axes[2])
    _say_scores(axes[2], [results[f"staircase-{name}"] for name in ODD])
    axes[2].legend(
        handles=[key(colour, marker, text) for _, text, colour, marker in ODD.values()],
        loc="upper left",
    )
    for panel, text in zip(
        axes, ("loss per sample", "$Q = W W^T/d$", "overlap with $z_2$")
    ):
        panel.set(xlabel=STEPS, ylabel=text)
    stairs = r"$z_1 + z_1 z_2$: odd activations never see $z_2$"
    letters(axes, r"$\tanh(z_1 + He_3(z_2))$, ReLU", "lengths of the neurons", stairs)
    return figure


RECIPES = (
    Recipe(
        "reuse-single-index",
        "Single-index targets: the same batch against fresh ones",
        "Overlap in time for (a) tanh, (b) He3, (c) He4; He3 is learned from a reused batch only, He4 never.",
        single_index,
        _draw_single_index,
        remark="The caption's parameters; the plotted values of the paper are of others.",
        seconds=10,
    ),
    Recipe(
        "reuse-multi-index",
        "Two directions: along E[y h*] and orthogonal to it",
        "(a) z1 + z1 z2, (b) tanh(z1 + He3(z2)), (c) tanh z1 + tanh z2, reused and fresh batches.",
        multi_index,
        _draw_multi_index,
        seconds=25,
    ),
    Recipe(
        "reuse-hard-target",
        "A target whose symmetry hides three of four directions",
        "(a) overlaps, (b) training and population loss of z1 z2 z3 + He3(z4).",
        hard_target,
        _draw_hard_target,
        seconds=10,
    ),
    Recipe(
        "reuse-mini-batches",
        "Mini-batches: hidden progress begins with the second epoch",
        "z1 z2 z3 + He3(z4) with a fifth of the samples at a time, (a) in turn, (b) with replacement.",
        mini_batches,
        _draw_mini_batches,
        seconds=25,
    ),
    Recipe(
        "reuse-phases",
        "What two steps on one batch learn",
        "(a) |M| over samples and rate, (b) cuts with experiments, (c) targets from He2 to He3 with the verdict.",
        phases,
        _draw_phases,
        _phase_checks,
        seconds=25,
    ),
    Recipe(
        "reuse-losses",
        "Losses, lengths, and an odd activation",
        "(a) training and population loss, (b) weight Gram matrix, (c) z1 + z1 z2 with ReLU and with erf.",
        losses,
        _draw_losses,
        seconds=12,
    ),
)
