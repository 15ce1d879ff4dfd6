"""Dandi et al., ICML 2024: what gradient descent learns when it sees the same batch again, beside a single pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.panels import engines, experiment_points, key, letter, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import BLACK, BLUE, GREEN, GREY, MARKERS, PURPLE, VERMILION, new_figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.batch_reuse.scenario import BatchReuse

SEED = 2402
DASHED = (0, (5, 2))
HALF = 2**-0.5
ALONG, ACROSS = 0.767832, 0.640651
"""Coordinates of E[y h*]/|E[y h*]| for tanh(z1 + He3(z2)), up to signs."""
TURNED = f"tanh({ALONG}*z1 + {ACROSS}*z2 + h3({ALONG}*z2 - {ACROSS}*z1))"
"""The same target, its first coordinate along E[y h*]."""
USES = (("reused", "-", "o"), ("fresh", DASHED, "s"))
STEPS = "gradient steps"


def scenario(**fields: Any) -> BatchReuse:
    """Return a ReLU network on three samples per dimension with rate 0.1, changed by `fields`."""
    from giantstep import BatchReuse

    return BatchReuse(**{"activation": "relu", "samples_per_dim": 3.0, "rate": 0.1, "steps": 6, **fields})


def compared(bench: Bench, name: str, base: BatchReuse, meaning: str, sizes: dict[str, Any], **settings: Any) -> Any:
    """Run one trajectory by both engines and judge overlaps, lengths and training loss."""
    return bench.compare(
        name, base, {}, meaning=meaning, judged=("M", "Q", "train_loss"), settings=settings, **sizes
    )  # fmt: skip


def overlap(
    axes: Axes,
    result: xarray.Dataset,
    colour: Any,
    linestyle: Any,
    marker: str,
    neuron: int = 0,
    direction: int = 0,
) -> None:
    """Draw one overlap in time: the limit as a line, the experiment as markers."""
    one = result.isel(neuron=neuron, direction=direction)
    limit_line(axes, one["time"], one["M"].sel(source="limit"), colour, linestyle=linestyle)
    experiment_points(axes, one["time"], one, "M", colour, marker)


def say_scores(axes: Axes, results: Sequence[xarray.Dataset], name: str = "M") -> None:
    """Write the largest |z| of a panel under it, beside the one that so many numbers pass once in 1,000."""
    from giantstep.agreement import chance_line

    scores = np.concatenate([np.abs(result[f"{name}_z"].values).ravel() for result in results])
    scores = scores[np.isfinite(scores) & (scores > 0)]
    text = (
        f"{len(scores)} z-scores of {name}: largest {scores.max():.1f}, by chance below {chance_line(len(scores)):.1f}"
    )
    axes.annotate(
        text, (1.0, 0.0), xycoords="axes fraction", xytext=(0, -32), textcoords="offset points", ha="right", va="top",
        fontsize=7, color=GREY,
    )  # fmt: skip


def zero_line(axes: Axes) -> None:
    """Mark overlap zero."""
    axes.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)


# -- single-index targets ------------------------------------------------------------------------------------


def single_index(bench: Bench) -> Figure:
    """Draw the overlap with tanh, He3 and He4 targets: reused batch against single pass."""
    figure, axes = new_figure(1, 3, width=12.6, height=3.8)
    targets = (("tanh(z)", r"$\tanh z$"), ("h3(z)", r"$He_3$"), ("h4(z)", r"$He_4$"))
    sizes = {"dim": bench.sized(1000, 10_000), "trials": bench.sized(100, 400), "seed": SEED}
    for place, (target, shown) in enumerate(targets):
        results = []
        for data, linestyle, marker in USES:
            part = f"{target[:-3]}-{data}"
            result = compared(bench, part, scenario(target=target, data=data), f"{target}, {data} data", sizes)
            overlap(axes[place], result, BLUE if data == "reused" else VERMILION, linestyle, marker)
            results.append(result)
        zero_line(axes[place])
        say_scores(axes[place], results)
        axes[place].set_xlabel(STEPS)
        letter(axes[place], "abc"[place], f"target {shown}")
    axes[0].set_ylabel("overlap with the target,  $M$")
    axes[2].set_ylim(-0.05, 0.05)
    handles = [key(BLUE, "o", "same batch"), key(VERMILION, "s", "fresh batches", DASHED)]
    axes[0].legend(
        handles=[*handles, *engines(axes[0], rf"experiment, $d = {sizes['dim']}$, $\pm$ 1 s.e.")[1:]], loc="upper left"
    )
    return figure


# -- multi-index targets -------------------------------------------------------------------------------------


def multi_index(bench: Bench) -> Figure:
    """Draw overlaps along E[y h*] and orthogonal to it for three targets of two directions."""
    figure, axes = new_figure(2, 3, width=12.6, height=6.6)
    wide = [sign * 8**-0.5 for sign in (1, -1) * 4]
    panels = (
        ("staircase", scenario(target="z1 + z1*z2", second_layer=wide), r"$z_1 + z_1 z_2$, $p = 8$, $\eta = 0.1$"),
        (
            "tanh-he3",
            scenario(target=TURNED, second_layer=[HALF, -HALF], rate=0.2, steps=7),
            r"$\tanh(z_1 + He_3(z_2))$, $p = 2$, $\eta = 0.2$",
        ),
        (
            "two-tanh",
            scenario(target="tanh((z1 + z2)/sqrt(2)) + tanh((z1 - z2)/sqrt(2))", second_layer=[HALF, -HALF]),
            r"$\tanh z_1 + \tanh z_2$, $p = 2$, $\eta = 0.1$",
        ),
    )
    sizes = {"dim": bench.sized(2000, 10_000), "trials": bench.sized(60, 400), "seed": SEED + 1}
    for place, (part, base, title) in enumerate(panels):
        results = []
        for (data, linestyle, marker), colour in zip(USES, (BLUE, VERMILION)):
            result = compared(
                bench, f"{part}-{data}", base.replace(data=data), f"{base.target.name}, {data} data", sizes
            )
            for direction in (0, 1):
                overlap(axes[place + 3 * direction], result, colour, linestyle, marker, direction=direction)
            results.append(result)
        for row in (place, place + 3):
            zero_line(axes[row])
        axes[place + 3].set_xlabel(STEPS)
        say_scores(axes[place + 3], results)
        letter(axes[place], "abc"[place], title)
    axes[5].set_ylim(-0.02, 0.02)
    axes[0].set_ylabel(r"first neuron along $E[y\,h^*]$")
    axes[3].set_ylabel("first neuron orthogonal to it")
    names = [key(BLUE, "o", "same batch"), key(VERMILION, "s", "fresh batches", DASHED)]
    text = rf"experiment, $d = {sizes['dim']}$, $\pm$ 1 s.e."
    axes[0].legend(handles=[*names, *engines(axes[0], text)[1:]], loc="upper left")
    return figure


# -- a hard target -------------------------------------------------------------------------------------------


def hard_scenario(**fields: Any) -> BatchReuse:
    """Return z1 z2 z3 + He3(z4): odd, but three of its four directions are hidden by symmetry."""
    known = {"target": "z1*z2*z3 + h3(z4)", "second_layer": [0.5, -0.5, 0.5, -0.5], "samples_per_dim": 5.0}
    return scenario(**{**known, "rate": 0.2, "steps": 7, **fields})


def hard_target(bench: Bench) -> Figure:
    """Draw the one direction that is learned, the three that are not, and the losses meanwhile."""
    figure, axes = new_figure(1, 2, width=9.4, height=3.9)
    sizes = {"dim": bench.sized(1000, 5000), "trials": bench.sized(60, 300), "seed": SEED + 2}
    result = compared(bench, "hard", hard_scenario(), "z1 z2 z3 + He3(z4), one reused batch", sizes)
    colours = (VERMILION, GREEN, PURPLE, BLUE)
    for direction in (0, 1, 2, 3):
        overlap(axes[0], result, colours[direction], "-", MARKERS[direction], direction=direction)
    zero_line(axes[0])
    say_scores(axes[0], [result])
    axes[0].set(xlabel=STEPS, ylabel="overlap of the first neuron")
    handles = [key(colours[i], MARKERS[i], f"$z_{i + 1}$") for i in range(4)]
    axes[0].legend(
        handles=[*handles, *engines(axes[0], rf"experiment, $d = {sizes['dim']}$, $\pm$ 1 s.e.")[1:]],
        loc="center right", bbox_to_anchor=(1.0, 0.62),
    )  # fmt: skip
    letter(axes[0], "a", "only $z_4$ is learned")
    for name, colour, marker in (("train_loss", BLUE, "o"), ("population_loss", VERMILION, "s")):
        limit_line(axes[1], result["time"], result[name].sel(source="limit"), colour)
        experiment_points(axes[1], result["time"], result, name, colour, marker)
    axes[1].set(xlabel=STEPS, ylabel="loss per sample")
    axes[1].legend(handles=[key(BLUE, "o", "training samples"), key(VERMILION, "s", "fresh samples")], loc="best")
    letter(axes[1], "b", "learning a direction is not predicting better")
    return figure


# -- mini-batches --------------------------------------------------------------------------------------------


def mini_batches(bench: Bench) -> Figure:
    """Draw the hard target with a fifth of the samples at a time: hidden progress waits for the second epoch."""
    figure, axes = new_figure(1, 2, width=9.4, height=3.9)
    sizes = {"dim": bench.sized(1000, 4000), "trials": bench.sized(100, 400), "seed": SEED + 3}
    nodes = bench.sized(2**16, 2**18)
    uses = (("cycle", r"in turn, $5$ groups of $n/5$"), ("replacement", r"each with probability $1/5$"))
    signs = np.sign(hard_scenario().second_layer)
    for place, (data, title) in enumerate(uses):
        base = hard_scenario(data=data, batches=5, steps=9)
        result = compared(bench, data, base, f"z1 z2 z3 + He3(z4), {data}", sizes, nodes=nodes)
        for neuron, colour in zip(range(4), (BLUE, VERMILION, GREEN, PURPLE)):
            one = result.isel(neuron=neuron, direction=3)
            shown = one.assign(M=signs[neuron] * one["M"])
            experiment_points(axes[place], one["time"] + 0.09 * (neuron - 1.5), shown, "M", colour, MARKERS[neuron])
        mean = (result["M"].sel(source="limit", direction=4) * signs).mean("neuron")  # equal by symmetry
        limit_line(axes[place], result["time"], mean, BLACK)
        zero_line(axes[place])
        say_scores(axes[place], [result])
        axes[place].set(xlabel=STEPS, ylim=(-0.042, 0.012))
        letter(axes[place], "ab"[place], title)
    axes[0].axvspan(0, 5, color="0.94", zorder=-1)
    axes[0].text(2.5, 0.009, "first epoch: a single pass", ha="center", fontsize=8, color=GREY)
    axes[0].set_ylabel(r"overlap with $z_4$,  ${\rm sign}(a_j)\, M_{j4}$")
    handles = [key(c, MARKERS[i], f"neuron {i + 1}") for i, c in enumerate((BLUE, VERMILION, GREEN, PURPLE))]
    axes[1].legend(
        handles=[
            key(BLACK, "", "limit, mean over neurons"), *handles,
            *engines(axes[1], rf"experiment, $d = {sizes['dim']}$, $\pm$ 1 s.e.")[1:],
        ],
        loc="lower left",
    )  # fmt: skip
    return figure


# -- phases --------------------------------------------------------------------------------------------------


def phases(bench: Bench) -> Figure:
    """Draw |M| after two steps over samples and rate, cuts through it with experiments, and a family of targets."""
    figure, axes = new_figure(1, 3, width=13.4, height=4.0)
    _map(axes[0], bench)
    _cuts(axes[1], bench)
    _family(axes[2], bench)
    return figure


def _he3(**fields: Any) -> BatchReuse:
    return scenario(target="h3(z)/sqrt(6)", activation="erf(z/sqrt(2))", steps=2, **fields)


def _map(axes: Axes, bench: Bench) -> None:
    count = bench.sized(16, 40)
    grid = {"samples_per_dim": np.linspace(0.25, 4.0, count), "rate": np.linspace(0.05, 1.5, count)}
    result = bench.predict("map", _he3(), grid, settings={"nodes": bench.sized(2**10, 2**12), "scrambles": 2})
    values = np.abs(result["M"].isel(time=2, neuron=0, direction=0).values)
    mesh = axes.pcolormesh(grid["rate"], grid["samples_per_dim"], values, shading="nearest", rasterized=True)
    drawn = axes.contour(
        grid["rate"], grid["samples_per_dim"], values, levels=(0.02, 0.05, 0.1, 0.2), colors="white", linewidths=0.8
    )
    axes.clabel(drawn, fontsize=7, fmt="%g")
    axes.figure.colorbar(mesh, ax=axes, pad=0.02, label=r"$|M|$ after two steps")
    axes.set(xlabel=r"rate,  $\eta$", ylabel=r"samples per dimension,  $\alpha$")
    letter(axes, "a", "$He_3$ with erf: reused batch")


def _cuts(axes: Axes, bench: Bench) -> None:
    sizes = {"dim": bench.sized(2000, 20_000), "trials": bench.sized(100, 300), "seed": SEED + 4}
    samples, fine = [0.5, 1.0, 2.0, 3.0, 4.0], np.linspace(0.25, 4.0, 31)
    results = []
    for rate, colour, marker in zip((0.2, 0.4, 0.8), (BLUE, VERMILION, GREEN), MARKERS):
        line = bench.predict(
            f"cut-{rate:g}-limit", _he3(rate=rate), {"samples_per_dim": fine}, settings={"nodes": 2**13}
        )
        result = bench.compare(
            f"cut-{rate:g}", _he3(rate=rate), {"samples_per_dim": samples},
            meaning=f"He3 with erf after two steps, rate {rate:g}", judged=("M", "Q", "train_loss"), **sizes,
        )  # fmt: skip
        place = {"time": 2, "neuron": 0, "direction": 0}
        limit_line(axes, fine, -line["M"].isel(place), colour)
        one = result.isel(place)
        experiment_points(axes, samples, one.assign(M=-one["M"]), "M", colour, marker)
        results.append(result)
    zero_line(axes)
    axes.plot(fine, 0 * fine, color=GREY, linestyle=DASHED, zorder=1)
    say_scores(axes, results)
    keys: list[Any] = [
        key(c, m, rf"$\eta = {r:g}$") for r, c, m in zip((0.2, 0.4, 0.8), (BLUE, VERMILION, GREEN), MARKERS)
    ]
    keys.append(key(GREY, "", "single pass: zero", DASHED))
    axes.legend(
        handles=[*keys, *engines(axes, rf"experiment, $d = {sizes['dim']}$, $\pm$ 1 s.e.")[1:]], loc="upper left"
    )
    axes.set(xlabel=r"samples per dimension,  $\alpha$", ylabel=r"$-M$ after two steps")
    letter(axes, "b", "cuts through it")


def _family(axes: Axes, bench: Bench) -> None:
    """Draw targets between He2, which no batch of order d teaches, and He3, beside the verdict of the calculator."""
    from giantstep.learnability.reuse import learned_rounds

    angles = np.linspace(0.0, 0.5, 9)  # in units of pi
    targets = [f"cos({angle}*pi)*h2(z)/sqrt(2) + sin({angle}*pi)*h3(z)/sqrt(6)" for angle in angles]
    sizes = {"dim": bench.sized(2000, 20_000), "trials": bench.sized(100, 300), "seed": SEED + 5}
    results = []
    for activation, shown, colour, marker in (
        ("erf(z/sqrt(2))", "erf (odd)", BLUE, "o"),
        ("relu", "ReLU", VERMILION, "s"),
    ):
        base = scenario(activation=activation, rate=0.3, samples_per_dim=2.0, steps=2, target="h2(z)")
        result = bench.compare(
            f"family-{shown[:4].lower().strip()}", base, {"target": targets},
            meaning=f"cos(th) He2 + sin(th) He3 with {shown}, two steps", judged=("M", "Q", "train_loss"), **sizes,
        )  # fmt: skip
        one = result.isel(time=2, neuron=0, direction=0)
        limit_line(axes, angles, one["M"].sel(source="limit"), colour)
        experiment_points(axes, angles, one, "M", colour, marker, shown)
        learned = [bool(learned_rounds(target, activation).dimensions) for target in targets]
        found = np.abs(one["M"].sel(source="limit").values) > 1e-4
        bench.check(
            f"verdicts-{shown[:4].lower().strip()}", float(np.sum(found != np.array(learned))),
            "targets on which the verdict (learned or not) and the limit differ", line=0.5,
        )  # fmt: skip
        for angle, verdict in zip(angles, learned):
            axes.annotate(
                "●" if verdict else "○", (angle, 1.0 if colour == BLUE else 0.95), color=colour, fontsize=8,
                xycoords=axes.get_xaxis_transform(), ha="center", va="top",
            )  # fmt: skip
        results.append(result)
    zero_line(axes)
    say_scores(axes, results)
    axes.legend(loc="center", bbox_to_anchor=(0.5, 0.42))
    axes.set(xlabel=r"$\theta/\pi$", ylabel=r"$M$ after two steps")
    axes.margins(y=0.15)
    letter(axes, "c", r"$\cos\theta\, He_2 + \sin\theta\, He_3$  (● learned, ○ not: verdict)")


# -- losses --------------------------------------------------------------------------------------------------


def losses(bench: Bench) -> Figure:
    """Draw losses and lengths in time, and what an odd activation does to the staircase."""
    figure, axes = new_figure(1, 3, width=12.8, height=3.8)
    sizes = {"dim": bench.sized(1000, 10_000), "trials": bench.sized(40, 300), "seed": SEED + 6}
    base = scenario(target="tanh(z1 + h3(z2))", second_layer=[HALF, -HALF], rate=0.2, steps=12)
    result = compared(bench, "losses", base, "tanh(z1 + He3(z2)), one reused batch", sizes)
    single = compared(bench, "losses-fresh", base.replace(data="fresh"), "the same with fresh batches", sizes)
    for data, name, colour, marker, linestyle in (
        (result, "train_loss", BLUE, "o", "-"),
        (result, "population_loss", VERMILION, "s", "-"),
        (single, "population_loss", GREEN, "^", DASHED),
    ):
        limit_line(axes[0], data["time"], data[name].sel(source="limit"), colour, linestyle=linestyle)
        experiment_points(axes[0], data["time"], data, name, colour, marker)
    say_scores(axes[0], [result, single], "train_loss")
    axes[0].legend(
        handles=[
            key(BLUE, "o", "same batch: training"), key(VERMILION, "s", "same batch: fresh samples"),
            key(GREEN, "^", "fresh batches", DASHED),
            *engines(axes[0], rf"experiment, $d = {sizes['dim']}$, $\pm$ 1 s.e.")[1:],
        ]
    )  # fmt: skip
    axes[0].set(xlabel=STEPS, ylabel="loss per sample")
    letter(axes[0], "a", r"$\tanh(z_1 + He_3(z_2))$, ReLU")
    for (i, j), colour, marker in (((0, 0), BLUE, "o"), ((0, 1), VERMILION, "s")):
        one = result.isel(neuron=i, neuron_2=j)
        limit_line(axes[1], one["time"], one["Q"].sel(source="limit"), colour)
        experiment_points(axes[1], one["time"], one, "Q", colour, marker, f"$Q_{{{i + 1}{j + 1}}}$")
    say_scores(axes[1], [result], "Q")
    axes[1].legend(loc="center right")
    axes[1].set(xlabel=STEPS, ylabel=r"$W W^\top\!/d$")
    letter(axes[1], "b", "lengths of the neurons")
    stairs = []
    for activation, shown, colour, marker in (
        ("relu", "ReLU", BLUE, "o"),
        ("erf(z/sqrt(2))", "erf (odd)", VERMILION, "s"),
    ):
        staircase = scenario(target="z1 + z1*z2", activation=activation, second_layer=[HALF, -HALF], rate=0.2)
        one = compared(bench, f"staircase-{shown[:4].lower().strip()}", staircase, f"z1 + z1 z2 with {shown}", sizes)
        overlap(axes[2], one, colour, "-", marker, direction=1)
        stairs.append(one)
    zero_line(axes[2])
    say_scores(axes[2], stairs)
    axes[2].legend(handles=[key(BLUE, "o", "ReLU"), key(VERMILION, "s", "erf (odd)")], loc="upper left")
    axes[2].set(xlabel=STEPS, ylabel="overlap with $z_2$")
    letter(axes[2], "c", r"$z_1 + z_1 z_2$: odd activations never see $z_2$")
    return figure


def _recipe(name: str, title: str, description: str, parameters: str, times: tuple[float, float], make: Any) -> Recipe:
    return Recipe(name, title, "dandi2024benefits", description, parameters, *times, make)


RECIPES = (
    _recipe(
        "reuse-single-index",
        "Single-index targets: the same batch against fresh ones",
        "Overlap in time for (a) tanh, (b) He3, (c) He4; He3 is learned from a reused batch only, He4 never.",
        "ReLU, p = 1, alpha = 3, eta = 0.1 (the caption's; the plotted values of the paper are of other parameters).",
        (10, 90),
        single_index,
    ),
    _recipe(
        "reuse-multi-index",
        "Two directions: along E[y h*] and orthogonal to it",
        "(a) z1 + z1 z2, (b) tanh(z1 + He3(z2)), (c) tanh z1 + tanh z2, reused and fresh batches.",
        "ReLU, p = 8, 2, 2, alpha = 3, eta = 0.1, 0.2, 0.1.",
        (25, 300),
        multi_index,
    ),
    _recipe(
        "reuse-hard-target",
        "A target whose symmetry hides three of four directions",
        "(a) overlaps, (b) training and population loss of z1 z2 z3 + He3(z4).",
        "ReLU, p = 4, alpha = 5, eta = 0.2.",
        (10, 90),
        hard_target,
    ),
    _recipe(
        "reuse-mini-batches",
        "Mini-batches: hidden progress begins with the second epoch",
        "z1 z2 z3 + He3(z4) with a fifth of the samples at a time, (a) in turn, (b) with replacement.",
        "ReLU, p = 4, alpha = 5 in all, eta = 0.2.",
        (25, 300),
        mini_batches,
    ),
    _recipe(
        "reuse-phases",
        "What two steps on one batch learn",
        "(a) |M| over samples and rate, (b) cuts with experiments, (c) targets from He2 to He3 with the verdict.",
        "(a, b) He3/sqrt(6) with erf, (c) alpha = 2, eta = 0.3.",
        (25, 200),
        phases,
    ),
    _recipe(
        "reuse-losses",
        "Losses, lengths, and an odd activation",
        "(a) training and population loss, (b) weight Gram matrix, (c) z1 + z1 z2 with ReLU and with erf.",
        "p = 2, alpha = 3, eta = 0.2.",
        (12, 200),
        losses,
    ),
)
