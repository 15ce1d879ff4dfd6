"""Adam's first step, the sign of the gradient: figures of a theory that no paper has
(sign_step).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import (
    Coordinates,
    MaximalStep,
    Network,
    Ridge,
    SignStep,
    Vocabulary,
    inf,
    optimize,
)
from giantstep.core.base.types import Floats
from giantstep.papers.giantstep2026design import along
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    engines,
    experiment_points,
    key,
    letters,
    limit_line,
)
from giantstep.tools.figures.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    MARKERS,
    PALETTE,
    VERMILION,
    new_figure,
    plain_log_ticks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 3600
BATCH = r"samples of the first batch per dimension,  $\alpha_0 = n_0/d$"

# -- plain and sign --------------------------------------------------------------------

SHAPE = {
    "width_per_dim": 1.0,
    "samples_per_dim": 2.0,
    "readout": Ridge(0.1),
    "noise": 0.05,
}
NETWORKS = {
    "tanh": Network(
        activation="tanh", target="sin(z)", second_layer=Vocabulary([1]), **SHAPE
    ),
    "relu": Network(
        activation="relu",
        target="0.5 + z + 0.4*(z**2 - 1)",
        second_layer=Vocabulary([1, -1]),
        **SHAPE,
    ),
}
"""The two networks of sign_step section 10."""
TITLES = (
    r"tanh network, $g = \sin z$",
    r"ReLU network, $g = \frac{1}{2} + z + \frac{2}{5}(z^2 - 1)$",
)
LAWS = {
    "plain": ("plain gradient, any coordinates", "gaussian"),
    "equal": ("sign, coordinates of equal size", "equal"),
    "gaussian": ("sign, Gaussian coordinates", "gaussian"),
    "sparse": ("sign, 10% of the coordinates", Coordinates(nonzero=0.1)),
}
SHOWN_BATCHES = (0.5, 2.0, 10.0)
"""Where networks are trained, per dimension."""
RATES = {"plain": (0.05, 20.0), "sign": (0.05, 10.0)}


def _network(name: str, law: str) -> Network:
    step: MaximalStep | SignStep
    if law == "plain":
        step = MaximalStep(1.0, batch_per_dim=2.0)
    else:
        step = SignStep(1.0, 2.0)
    return NETWORKS[name].replace(steps=[step], coordinates=LAWS[law][1])


def adam_first_step(size: Size) -> Studies:
    """Return both networks at the rate one, with their errors before the step; the
    others need their best rates.
    """
    batches = {"steps.0.batch_per_dim": _batches(size)}
    return {
        f"{name}-one": limit(_network(name, "equal"), batches, dim=_dim(size))
        for name in NETWORKS
    }


def _dim(size: Size) -> int:
    """Return the dimension of lines and networks: small rates make large what a
    dimension does.
    """
    return int(size(400, 1000))


def _batches(size: Size) -> Floats:
    """Return batches up to which chi of (6.2) stays below 0.03."""
    return np.geomspace(0.5, size(10.0, 25.0), size(7, 15))


def _at_best_rates(results: Results) -> Studies:
    size = results.size
    studies = {}
    dim = _dim(size)
    batches = _batches(size)
    fields = ("steps.0.batch_per_dim", "steps.0.rate")
    for place, name in enumerate(NETWORKS):
        for number, law in enumerate(LAWS):
            scenario = _network(name, law)
            over = {"steps.0.rate": RATES["plain" if law == "plain" else "sign"]}
            search: dict[str, Any] = {"over": over, "dim": dim, "starts": 6}
            lines = optimize(scenario, steps__0__batch_per_dim=batches, **search)
            dots = optimize(
                scenario, steps__0__batch_per_dim=list(SHOWN_BATCHES), **search
            )
            studies[f"{name}-{law}"] = limit(scenario, along(lines, *fields), dim=dim)
            studies[f"{name}-{law}-networks"] = comparison(
                scenario, along(dots, *fields), judged=("test_error",),
                meaning=f"{name}, {LAWS[law][0]}: test error at the best rate against the size of the batch",
                dim=dim, trials=size(8, 60), seed=SEED + 10 * place + number,
            )  # fmt: skip
    return studies


def _draw_adam(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=4.0)
    for panel, name in zip(axes, NETWORKS):
        panel.axhline(
            float(results[f"{name}-one"]["test_error"].isel(time=0)[0]),
            color=GREY,
            linestyle=DASHED,
            linewidth=0.9,
        )
        for number, law in enumerate(LAWS):
            colour = (BLACK, BLUE, VERMILION, GREEN)[number]
            line = results[f"{name}-{law}"].isel(time=1)
            dots = results[f"{name}-{law}-networks"].isel(time=1)
            limit_line(panel, line["steps.0.batch_per_dim"], line["test_error"], colour)
            experiment_points(
                panel,
                dots["steps.0.batch_per_dim"],
                dots,
                "test_error",
                colour,
                MARKERS[number],
            )
        panel.set(xscale="log", yscale="log", xlabel=BATCH)
        plain_log_ticks(panel.xaxis)
        plain_log_ticks(panel.yaxis)
    axes[0].set_ylabel("test error at the best rate")
    dim = results.dim("tanh-equal-networks")
    keys = [
        key((BLACK, BLUE, VERMILION, GREEN)[n], MARKERS[n], LAWS[law][0])
        for n, law in enumerate(LAWS)
    ]
    axes[1].legend(handles=keys, loc="lower left")
    others = engines(
        axes[0], rf"network, $d = {dim}$, $\pm$ 1 s.e.", line=rf"limit, $d = {dim}$"
    )
    axes[0].legend(
        handles=[*others, key(GREY, "", "no step", DASHED)], loc="lower left"
    )
    letters(axes, *TITLES)
    return figure


def _adam_checks(results: Results) -> Iterator[Check]:
    for name in NETWORKS:
        errors = {
            law: results[f"{name}-{law}-networks"]["test_error"]
            .sel(source="limit")
            .isel(time=1)
            .values
            for law in LAWS
        }
        yield Check(
            f"sign over plain at n0/d = 10, {name}, equal coordinates", "the sign decodes the target",
            errors["equal"][-1] / errors["plain"][-1], line=0.75,
        )  # fmt: skip
        yield Check(
            f"sign over plain, {name}, Gaussian coordinates", "always worse, at its smallest",
            (errors["gaussian"] / errors["plain"]).min(), line=1.0, above=True,
        )  # fmt: skip
        untrained = float(results[f"{name}-one"]["test_error"].isel(time=0)[0])
        yield Check(
            f"sign over no step at n0/d = 10, {name}, sparse coordinates", "nearly nothing is learnt",
            errors["sparse"][-1] / untrained, line=0.85, above=True,
        )  # fmt: skip


# -- dither ----------------------------------------------------------------------------

DITHERED = Network(
    activation="tanh", target="sin(z)", second_layer=Vocabulary([1]), width_per_dim=1.0, samples_per_dim=1.5,
    readout=Ridge(0.1), noise=0.02, steps=[SignStep(1.2, 20.0)],
)  # fmt: skip
"""Setting L4 of sign_step section 11."""


def sign_dither(size: Size) -> Studies:
    """Return a network against the size of its batch, and where its rows point."""
    batches = {"steps.0.batch_per_dim": np.geomspace(1.0, 2000.0, size(40, 80))}
    return {
        "limit": limit(DITHERED, batches),
        "population": limit(DITHERED.replace(steps__0__batch_per_dim=inf)),
        "alignment": limit(DITHERED, batches, "steps"),
        "networks": comparison(
            DITHERED, {"steps.0.batch_per_dim": [1.0, 2.0, 4.0, 8.0]}, judged=("test_error",),
            meaning="test error against the size of the batch",
            dim=size(400, 800), trials=size(16, 40), seed=SEED + 50,
        ),
    }  # fmt: skip


def _draw_dither(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=9.6, height=3.9)
    line = results["limit"].isel(time=1)
    rows = results["alignment"].isel(time=1)
    dots = results["networks"].isel(time=1)
    last = float(results["population"]["test_error"][1])
    x = line["steps.0.batch_per_dim"]
    limit_line(axes[0], x, line["test_error"], BLUE)
    experiment_points(
        axes[0], dots["steps.0.batch_per_dim"], dots, "test_error", BLUE, "o"
    )
    axes[0].axhline(last, color=GREY, linestyle=DASHED, linewidth=0.9)
    best = int(np.argmin(line["test_error"].values))
    axes[0].plot(
        float(x[best]),
        float(line["test_error"][best]),
        "*",
        color=VERMILION,
        markersize=11,
        zorder=4,
    )
    axes[0].set(xscale="log", xlabel=BATCH, ylabel="test error")
    axes[0].legend(
        handles=[
            *engines(
                axes[0], rf"network, $d = {results.dim('networks')}$, $\pm$ 1 s.e."
            ),
            key(GREY, "", "population gradient", DASHED),
            key(VERMILION, "*", rf"the best batch, $n_0/d = {float(x[best]):.0f}$", ""),
        ]
    )
    limit_line(axes[1], x, rows["gamma"].isel(direction=0), PALETTE[0])
    axes[1].axhline(np.sqrt(2 / np.pi), color=GREY, linestyle=DASHED, linewidth=0.9)
    axes[1].set(
        xscale="log", xlabel=BATCH, ylabel=r"alignment with the target,  $\gamma$"
    )
    axes[1].legend(
        handles=[key(GREY, "", r"population gradient, $\sqrt{2/\pi}$", DASHED)],
        loc="lower right",
    )
    for panel in axes:
        plain_log_ticks(panel.xaxis)
    letters(
        axes,
        "beyond the star larger batches are worse",
        "the noise of the batch is a dither",
    )
    return figure


def _dither_checks(results: Results) -> Iterator[Check]:
    line = results["limit"].isel(time=1)["test_error"]
    yield Check(
        "least test error over that of the population gradient", "a batch of finite size is better",
        float(line.min()) / float(results["population"]["test_error"][1]), line=0.98,
    )  # fmt: skip
    best = float(line["steps.0.batch_per_dim"][int(np.argmin(line.values))])
    yield Check(
        "the best n0/d",
        "sign_step section 10: near 80 of 2, 10, 40, 80, 400",
        abs(best / 80 - 1),
        line=0.5,
    )


RECIPES = (
    Recipe(
        "adam-first-step",
        "What does Adam's first step learn?",
        "Test error at the best rate against the size of the batch, for the plain gradient and for its sign with three "
        "laws of the target's coordinates: (a) tanh, (b) ReLU; networks at three sizes of the batch.",
        adam_first_step,
        _draw_adam,
        _adam_checks,
        then=_at_best_rates,
        remark="Rates are the best ones of the limit at the dimension of the networks, d = 1000; 60 trials.",
        seconds=90,
    ),
    Recipe(
        "sign-dither",
        "The sign of the gradient wants noise",
        "(a) test error of a tanh network after a sign step against the size of the batch, with its minimum; (b) the "
        "alignment of its rows with the target.",
        sign_dither,
        _draw_dither,
        _dither_checks,
        remark="d = 800: networks of one core, without a GPU.",
        seconds=25,
    ),
)
