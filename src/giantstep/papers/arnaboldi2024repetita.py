"""Arnaboldi et al. 2024: what one-pass SGD learns when it uses every sample twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import OnlineSGD
from giantstep.papers.linear_theory import linear_theory
from giantstep.papers.recipe import (
    Recipe,
    Results,
    Size,
    Studies,
    comparison,
    experiment,
    limit,
)
from giantstep.papers.report import Check
from giantstep.tools.figures.panels import (
    compared,
    engines,
    key,
    letters,
    level,
    limit_line,
)
from giantstep.tools.figures.style import (
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    MARKERS,
    ORANGE,
    PALETTE,
    PURPLE,
    VERMILION,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEED = 2406
SAMPLES = "samples over dimension, $T/d$"


def repeated(
    target: str, algorithm: str, gamma0: float, dim: int, steps: int, **fields: Any
) -> OnlineSGD:
    """Return a relu student that sees samples one at a time, gamma = gamma0 p/d."""
    p = len(fields.get("second_layer", [1.0]))
    inner = -0.1 if algorithm == "sam" else 0.1
    base = {
        "target": target,
        "dim": dim,
        "rate": gamma0 * p / dim,
        "steps": steps,
        "algorithm": algorithm,
    }
    return OnlineSGD(
        **{**base, "inner_rate": inner, "initial_overlap": "zero", **fields}
    )


# -- single-index targets --------------------------------------------------------------

TITLES = {"relu": "relu", "h2": "$H_2$", "h3": "$H_3$", "h4": "$H_4$"}
EVEN = ("h2", "h4")
LARGEST = 0.5
"""Root mean square cosine up to which the linear theory is drawn."""
TWICE = (("extragradient", VERMILION, "o"), ("squared", BLUE, "s"))


def _lengths(size: Size) -> dict[str, float]:
    """Return the samples over the dimension of every target."""
    log = math.log(size(256, 2048))
    return {"relu": 200, "h2": size(40, 100) * log, "h3": 50, "h4": size(30, 500) * log}


def _fine(size: Size, target: str) -> np.ndarray:
    return np.linspace(0, _lengths(size)[target], 60)[1:]


def _single(size: Size, target: str, algorithm: str) -> OnlineSGD:
    d = size(256, 2048)
    return repeated(
        f"{target}(z1)", algorithm, 0.01, d, round(_lengths(size)[target] * d)
    )


def single_index(size: Size) -> Studies:
    """Return a relu neuron on four targets with and without repetition of samples."""
    studies = {}
    d = size(256, 2048)
    for target in TITLES:
        for algorithm, *_ in TWICE:
            scenario = _single(size, target, algorithm)
            kept = (
                np.unique(np.round(np.linspace(0, scenario.steps, 13)[1:]))
                .astype(int)
                .tolist()
            )
            studies[f"{target}-{algorithm}"] = experiment(
                scenario, times=kept, trials=size(1, 2), runs=size(120, 40), seed=SEED
            )
            if target not in EVEN:
                times = np.round(_fine(size, target) * d).tolist()
                studies[f"{target}-{algorithm}-limit"] = limit(
                    scenario, theory="ode", times=times
                )
    return studies


def _single_curve(
    results: Results, target: str, algorithm: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return measured and limiting size of the cosine; the linear theory of an even
    target up to `LARGEST`.
    """
    name = f"{target}-{algorithm}"
    if target in EVEN:
        curve = linear_theory(
            _single(results.size, target, algorithm), _fine(results.size, target)
        )[1]
        return results[name]["rms"].values[:, 0], np.where(
            curve < LARGEST, curve, np.nan
        )
    measured, curve = (
        np.abs(results[part]["cosine"].values[:, 0, 0])
        for part in (name, f"{name}-limit")
    )
    return measured, curve


def _draw_single_index(results: Results) -> Figure:
    figure, axes = new_figure(1, 4, width=14.4, height=3.8)
    d = results.size(256, 2048)
    for axis, target in zip(axes, TITLES):
        for algorithm, colour, marker in TWICE:
            measured, curve = _single_curve(results, target, algorithm)
            limit_line(axis, _fine(results.size, target), curve, colour)
            x = results[f"{target}-{algorithm}"]["time"] / d
            axis.plot(
                x,
                measured,
                marker,
                color=colour,
                markerfacecolor="white",
                markeredgewidth=1.2,
            )
        level(axis, d**-0.5, "$d^{-1/2}$", at=1.0)
        axis.set(xlabel=SAMPLES, ylim=(-0.02, None))
    letters(axes, *TITLES.values())
    axes[0].set_ylabel("cosine (even targets: root mean square)")
    handles = [key(VERMILION, "o", "samples used twice"), key(BLUE, "s", "one pass")]
    axes[0].legend(
        handles=[*handles, *engines(axes[0], f"$d = {d}$")], loc="upper left"
    )
    return figure


def _ratio_line(runs: int) -> float:
    """Return what |log| of a root mean square over its theory may be: a tenth, and 3.5
    standard errors of `runs`.
    """
    return 0.1 + 3.5 / math.sqrt(2 * runs)


def _single_index_checks(results: Results) -> Iterator[Check]:
    d = results.size(256, 2048)
    runs = results.size(120, 80)
    for target in TITLES:
        for algorithm, *_ in TWICE:
            name = f"{target}-{algorithm}"
            fine = _fine(results.size, target)
            measured, curve = _single_curve(results, target, algorithm)
            x = results[name]["time"].values / d
            if target not in EVEN:
                gap = np.abs(measured - np.interp(x, fine, curve)).max()
                most = 0.02 + 3 / math.sqrt(d * runs)
                yield Check(
                    f"largest gap of the cosine, {name}",
                    "experiment against the ODE",
                    gap,
                    line=most,
                )
                continue
            nearest = curve[np.searchsorted(fine, x - 1e-9).clip(max=len(fine) - 1)]
            good = np.nan_to_num(nearest, nan=1.0) < 0.15
            if good.any():
                ratio = np.abs(
                    np.log(
                        measured[good] / np.interp(x[good], fine, np.nan_to_num(curve))
                    )
                ).max()
                yield Check(
                    f"|log ratio| of the cosine's size, {name}",
                    "against the linear theory",
                    ratio,
                    line=_ratio_line(runs),
                )


# -- algorithms ------------------------------------------------------------------------

ALGORITHMS = (
    ("extragradient", 0.01, VERMILION),
    ("sam", 0.01, PURPLE),
    ("two-step", 0.05, GREEN),
    ("exponential", 0.01, ORANGE),
    ("squared", 0.01, BLUE),
)


def algorithms(size: Size) -> Studies:
    """Return H3 and a relu neuron under algorithms that use a sample twice, other
    losses, and large batches.
    """
    studies = {}
    d = size(256, 4096)
    large = size(128, 2048)
    times = [round(tau * d) for tau in (5, 10, 15, 20, 25, 30, 40, 50)]
    for algorithm, gamma0, _ in ALGORITHMS:
        studies[algorithm] = comparison(
            repeated("h3(z1)", algorithm, gamma0, d, 50 * d), meaning=f"cosine of a relu neuron with H3, {algorithm}",
            judged=("cosine",), scale={"cosine": 1.0}, dim=d, trials=size(8, 16), seed=SEED + 3,
            theory="ode", times=times, runs=size(40, 10),
        )  # fmt: skip
    for algorithm, *_ in TWICE:
        studies[f"large-{algorithm}"] = comparison(
            repeated("h3(z1)", algorithm, 0.05, large, 25, batch_size=2 * large, rate=0.1),
            meaning=f"n_b = 2d, {algorithm}", judged=("cosine",), scale={"cosine": 1.0},
            dim=large, trials=size(4, 20), seed=SEED + 5, runs=size(20, 1),
        )  # fmt: skip
    return studies


def _draw_algorithms(results: Results) -> Figure:
    """Draw the cosines, with single samples and with batches of n_b = 2d, where the
    limit is a map of large steps.
    """
    figure, axes = new_figure(1, 2, width=10.4, height=4.2)
    d = results.dim("squared")
    large = results.dim("large-squared")
    for (algorithm, _, colour), marker in zip(ALGORITHMS, MARKERS):
        result = results[algorithm].isel(neuron=0, direction=0)
        compared(
            axes[0], result["time"] / d, result, "cosine", colour, marker, algorithm
        )
    level(axes[0], -(d**-0.5), "$-d^{-1/2}$", at=1.0, above=False)
    for algorithm, colour, marker in TWICE:
        result = results[f"large-{algorithm}"].isel(neuron=0, direction=0)
        compared(axes[1], result["time"], result, "cosine", colour, marker, algorithm)
    for axis, text in zip(axes, (SAMPLES, "updates")):
        axis.set(xlabel=text, ylabel="cosine with the direction of $H_3$")
        axis.legend(loc="lower left")
    letters(
        axes,
        f"relu neuron, $d = {d}$: only repetition learns $H_3$",
        f"large batches: $d = {large}$, $n_b = 2d$",
    )
    return figure


# -- two directions --------------------------------------------------------------------

PAIRS = (("z1 + h3(z2)", "$z_1 + H_3(z_2)$"), ("z1 + z1*z2", "$z_1 + z_1 z_2$"))
SIGNS = [1.0, -1.0] * 4


def multi_index(size: Size) -> Studies:
    """Return eight relu neurons on two directions, with and without repetition of
    samples.
    """
    studies = {}
    d = size(128, 819)
    tau = size(34, 100)
    times = [round(share * tau * d) for share in (0.2, 0.4, 0.6, 0.8, 1.0)]
    for index, (target, _) in enumerate(PAIRS):
        for algorithm, *_ in TWICE:
            studies[f"{index}-{algorithm}"] = comparison(
                repeated(target, algorithm, 0.01, d, tau * d, second_layer=SIGNS),
                meaning=f"cosines of eight neurons, {target}", dim=d, trials=size(4, 10), seed=SEED + 4, theory="ode",
                times=times, runs=size(25, 40), points=size(2048, 16384),
            )  # fmt: skip
    return studies


def _mean_cosines(
    results: Results, index: int, algorithm: str, direction: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over neurons, by the limit and measured, of a cosine with the
    sign of a_j where that matters.

    z1 z2 is seen through a_j m_j1, which has no sign.
    """
    sign = np.array(1.0) if direction and index else np.array(SIGNS)
    cosines = results[f"{index}-{algorithm}"]["cosine"]
    by_ode, measured = (
        (cosines.sel(source=source).values[:, :, direction] * sign).mean(axis=1)
        for source in ("limit", "experiment")
    )
    return by_ode, measured


def _draw_multi_index(results: Results) -> Figure:
    figure, axes = new_figure(1, 2, width=10.4, height=4.0)
    for index, axis in enumerate(axes):
        for algorithm, style, marker in (
            ("extragradient", "-", "o"),
            ("squared", DASHED, "s"),
        ):
            x = results[f"{index}-{algorithm}"]["time"].values / results.dim(
                f"{index}-{algorithm}"
            )
            for direction, colour in enumerate((BLUE, VERMILION)):
                by_ode, measured = _mean_cosines(results, index, algorithm, direction)
                axis.plot(x, np.abs(by_ode), color=colour, linestyle=style)
                axis.plot(
                    x,
                    np.abs(measured),
                    marker,
                    color=colour,
                    markerfacecolor="white",
                    markeredgewidth=1.2,
                )
        axis.set(xlabel=SAMPLES, ylabel="cosine, mean over neurons")
    letters(axes, *(title for _, title in PAIRS))
    handles = [
        key(BLUE, "", "direction 1"),
        key(VERMILION, "", "direction 2"),
        key(GREY, "o", "samples used twice"),
        key(GREY, "s", "one pass", DASHED),
        *engines(axes[0], "experiment"),
    ]
    axes[0].legend(handles=handles, loc="upper left")
    return figure


def _multi_index_checks(results: Results) -> Iterator[Check]:
    for index, (target, _) in enumerate(PAIRS):
        for algorithm, *_ in TWICE:
            for direction in range(2):
                by_ode, measured = _mean_cosines(results, index, algorithm, direction)
                yield Check(
                    f"gap of the mean cosine, {target}, {algorithm}, direction {direction + 1}",
                    "averaged over neurons, with the sign of a_j where that matters",
                    np.abs(by_ode - measured).max(), line=0.008,
                )  # fmt: skip


# -- a table of targets, batches and staircases ----------------------------------------

TABLE_SEED = 2405
POINTS = 10
"""Times of the experiment in each panel."""
SMALL = 0.1
"""The linear theory is judged up to this cosine."""
STYLES = {"extragradient": ("-", "o"), "squared": (DASHED, "s")}
NAMES = {"extragradient": "samples used twice", "squared": "one pass"}
STAIRS = "5*sign(z1*z2*z3)"


@dataclass(frozen=True)
class Case:
    """A target, its network and its run.

    Attributes
    ----------
    target, title : the expression, and its name in the figure.
    width, layer : number of relu neurons; second layer ``"ones"``, ``"signs"`` (half
        +1, half -1) or ``"gaussian"``.
    gamma0 : rate per dimension, gamma = gamma0 n_b p/d.
    quick, full : dimension and length of the run, in d (or d log d) samples.
    published : the dimension of the authors where a night does not hold it.
    quick_rate : gamma0 of the quick run where it is larger, for a run that is shorter
        in proportion.
    logarithmic : the length is in units of d log d.
    batch : 0 for single samples, else n_b/d.
    start : ``"zero"``, or ``"first"``: every neuron starts as the first target
        direction.
    theory : ``"ode"``, ``"map"``, ``"linear"`` (an even target: the size of the
        cosine), or nothing: the overlaps leave their start by noise, and there is an
        experiment only.
    """

    target: str
    title: str
    width: int
    layer: str
    gamma0: float
    quick: tuple[int, float]
    full: tuple[int, float]
    published: int | None = None
    quick_rate: float | None = None
    logarithmic: bool = True
    batch: int = 0
    start: str = "zero"
    theory: str | None = None
    algorithms: tuple[str, ...] = ("extragradient", "squared")

    def scenario(self, algorithm: str, quick: bool) -> OnlineSGD:
        """Return the run of one algorithm."""
        d, length = self.quick if quick else self.full
        samples = length * d * (math.log(d) if self.logarithmic else 1.0)
        batch = self.batch * d if self.batch else 1
        if quick and self.quick_rate is not None:
            gamma0 = self.quick_rate
        else:
            gamma0 = self.gamma0
        layers = {
            "ones": np.ones(self.width),
            "signs": np.resize([1.0, -1.0], self.width),
            "gaussian": np.random.default_rng(TABLE_SEED).standard_normal(self.width),
        }
        run = repeated(
            self.target, algorithm, gamma0 * batch, d, max(1, round(samples / batch)), batch_size=batch,
            second_layer=layers[self.layer].tolist(),
        )  # fmt: skip
        if self.start == "first":
            first = np.zeros((self.width, run.directions))
            first[:, 0] = 1.0
            run = run.replace(initial_overlap=first)
        return run


TARGETS = (
    Case("z1 + z1*h3(z2)", "$z_1 + z_1 H_3(z_2)$", 8, "signs", 0.1, (64, 16), (2048, 100), logarithmic=False,
         theory="ode"),
    Case("sign(z1*z2)", "sign$(z_1 z_2)$", 8, "gaussian", 0.01, (32, 20), (512, 200), quick_rate=0.1,
         published=2048),
    Case("z1*z2*z3", "$z_1 z_2 z_3$", 8, "gaussian", 0.1, (24, 100), (512, 500), published=2048),
)  # fmt: skip
BATCHES = (
    Case("h4(z1)", "$H_4$, $n_b = 2d$", 1, "ones", 0.01, (128, 30), (2048, 500), batch=2, theory="linear"),
    Case("z1 + h3(z2)", "$z_1 + H_3(z_2)$, $n_b = 2d$", 8, "gaussian", 0.01, (64, 8), (1024, 100), batch=2,
         theory="map"),
    Case("z1*z2*z3", "$z_1 z_2 z_3$, $n_b = 2d$", 8, "gaussian", 0.1, (32, 150), (1024, 500), batch=2),
)  # fmt: skip
STAIRCASES = (
    Case(f"h2(z1) + {STAIRS}", "$H_2(z_1)$ + stairs", 4, "gaussian", 0.01, (24, 400), (128, 4000),
         published=1024, algorithms=("extragradient",)),
    Case(STAIRS, "stairs alone", 4, "gaussian", 0.01, (24, 400), (128, 4000), published=1024,
         algorithms=("extragradient",)),
    Case(f"h4(z1) + {STAIRS}", "$H_4(z_1)$ + stairs", 4, "gaussian", 0.01, (24, 400), (128, 5000),
         published=1024, algorithms=("extragradient",)),
    Case(f"h2(z1) + {STAIRS}", "$H_2$, from $w^*_1$", 4, "gaussian", 0.01, (24, 150), (128, 500), start="first",
         published=1024, algorithms=("extragradient",)),
    Case(f"h4(z1) + {STAIRS}", "$H_4$, from $w^*_1$", 4, "gaussian", 0.01, (24, 150), (128, 500), start="first",
         published=1024),
)  # fmt: skip
TABLES = {"targets": TARGETS, "batches": BATCHES, "staircase": STAIRCASES}


def _runs(table: str) -> Iterator[tuple[str, Case, str]]:
    """Yield the name of the study, the case and the algorithm of every run."""
    for index, case in enumerate(TABLES[table]):
        for algorithm in case.algorithms:
            yield f"{table}-{index}-{algorithm}", case, algorithm


def _repeats(size: Size, case: Case) -> tuple[int, int]:
    """Return trials, and runs of each; runs of single samples take hardly longer side
    by side.
    """
    repeats: tuple[int, int] = size(
        (2, 64 if case.theory == "linear" else 16), (10, 4) if case.batch else (2, 20)
    )
    return repeats


def cases(size: Size, table: str) -> Studies:
    """Return the runs of a table of cases, with their limit where there is one."""
    studies = {}
    for name, case, algorithm in _runs(table):
        scenario, (trials, runs) = (
            case.scenario(algorithm, size.quick),
            _repeats(size, case),
        )
        times = (
            np.unique(np.round(np.linspace(0, scenario.steps, POINTS + 1)[1:]))
            .astype(int)
            .tolist()
        )
        studies[name] = experiment(
            scenario, times=times, trials=trials, runs=runs, seed=TABLE_SEED
        )
        if case.theory in ("ode", "map"):
            # along a direction that one pass leaves alone, the error of 16384 points
            # grows to 0.02
            points = size(4096, 16384 if case.batch else 65536)
            studies[f"{name}-limit"] = limit(
                scenario, theory=case.theory, times=times, points=points
            )
    return studies


def _curves(
    results: Results, name: str, case: Case, algorithm: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return what is drawn of experiment and limit, (times, directions).

    With a theory of every neuron: the mean over neurons of the cosine with the sign the
    theory gives it. Without one: the largest cosine of any neuron in each run, which
    noise lifts to several d^-1/2.
    """
    measured = results[name]
    if case.theory is None:
        return measured["best"].values, None
    if case.theory == "linear":
        scenario = case.scenario(algorithm, results.size.quick)
        tau = measured["time"].values * scenario.batch_size / scenario.dim
        line = linear_theory(scenario, tau)[1][:, None]
        return measured["rms"].values, np.where(line < LARGEST, line, np.nan)
    cosine = results[f"{name}-limit"]["cosine"].values
    return (measured["cosine"].values * np.sign(cosine)).mean(axis=1), np.abs(
        cosine
    ).mean(axis=1)


def _draw_cases(results: Results, table: str) -> Figure:
    """Draw cosines with each direction against samples, one panel for each case."""
    columns = min(3, len(TABLES[table]))
    rows = -(-len(TABLES[table]) // columns)
    figure, axes = new_figure(
        rows, columns, width=3.9 * columns + 0.4, height=3.7 * rows
    )
    panels = dict(zip(TABLES[table], axes))
    for unused in axes[len(panels) :]:
        unused.remove()
    for name, case, algorithm in _runs(table):
        _draw_run(panels[case], results, name, case, algorithm)
    titles = []
    for case, axis in panels.items():
        d = results.size(case.quick, case.full)[0]
        level(axis, d**-0.5, "")
        shown = {
            None: "largest cosine of any neuron",
            "linear": "root mean square cosine",
        }
        axis.set(xlabel="samples over dimension", ylim=(-0.02, None))
        axis.set_ylabel(shown.get(case.theory, "cosine, mean over neurons"))
        titles.append(
            f"{case.title}, $d = {d}$" + ("" if case.theory else " (no theory)")
        )
    letters(axes, *titles)
    most = max(case.scenario(case.algorithms[0], True).directions for case in panels)
    used = {algorithm for case in panels for algorithm in case.algorithms}
    handles = [key(PALETTE[r], "", f"direction {r + 1}") for r in range(most)]
    handles += [
        key(GREY, STYLES[a][1], NAMES[a], STYLES[a][0]) for a in STYLES if a in used
    ]
    handles += [key(GREY, "", "$d^{-1/2}$", DOTTED)]
    if any(case.theory for case in panels):
        handles += engines(axes[0], "experiment")
    axes[0].legend(handles=handles, loc="best", fontsize=7)
    return figure


def _draw_run(
    axes: Axes, results: Results, name: str, case: Case, algorithm: str
) -> None:
    scenario = case.scenario(algorithm, results.size.quick)
    x = results[name]["time"].values * scenario.batch_size / scenario.dim
    linestyle, marker = STYLES[algorithm]
    measured, line = _curves(results, name, case, algorithm)
    for r, colour in zip(range(measured.shape[1]), PALETTE):
        if line is None:
            bars = results[name]["best_stderr"].values[:, r]
        else:
            bars = None
        axes.errorbar(x, measured[:, r], bars, linestyle=linestyle if line is None else "none", linewidth=0.8,
                      marker=marker, color=colour, markerfacecolor="white", markeredgewidth=1.2)  # fmt: skip
        if line is not None:
            limit_line(axes, x, line[:, r], colour, linestyle=linestyle)


def _cases_checks(results: Results, table: str) -> Iterator[Check]:
    for name, case, algorithm in _runs(table):
        measured, line = _curves(results, name, case, algorithm)
        if line is None:
            for r, last in enumerate(measured[-1]):
                text = f"largest cosine at the end, {case.target}, {case.start} start, {algorithm}, direction {r + 1}"
                yield Check(text, "mean over runs of the largest of all neurons", last)
        elif case.theory == "linear":
            ratio = np.abs(np.log(measured / line))[line < SMALL].max()
            text = f"|log ratio| of the cosine's size, {case.target}, {algorithm}"
            most = _ratio_line(math.prod(_repeats(results.size, case)))
            yield Check(
                text,
                "against the linear theory; labels of heavy tails",
                ratio,
                line=most,
            )
        else:
            dim, (trials, runs) = (
                results.size(case.quick, case.full)[0],
                _repeats(results.size, case),
            )
            most = 0.01 + 3 / math.sqrt(dim * trials * runs)
            gap = np.abs(measured - line).max()
            text = f"largest gap of the cosine, {case.target}, {algorithm}"
            yield Check(text, f"theory: {case.theory}", gap, line=most)


def _table(
    name: str, title: str, description: str, remark: str, seconds: float
) -> Recipe:
    """Return the recipe of a table of cases."""
    table = name.removeprefix("repetition-")
    smaller = dict.fromkeys(
        (case.full[0], case.published) for case in TABLES[table] if case.published
    )
    remark += "".join(
        f" Full size: d = {d} where the paper has {theirs}, which takes days."
        for d, theirs in smaller
    )
    return Recipe(
        name, title, description, partial(cases, table=table), partial(_draw_cases, table=table),
        partial(_cases_checks, table=table), remark=remark, seconds=seconds,
    )  # fmt: skip


RECIPES = (
    Recipe(
        "repetition-single",
        "What a relu neuron learns when samples are used twice",
        "Cosine against samples for relu, H2, H3, H4: extragradient and plain SGD.",
        single_index,
        _draw_single_index,
        _single_index_checks,
        notes=(
            "(a), (c): the ODE; (b), (d): the linear theory of an even target, whose overlap grows out of its own "
            "noise, drawn up to a root mean square cosine of 0.5.",
        ),
        remark="gamma0 = 0.01, rho0 = 0.1.",
        seconds=90,
    ),
    Recipe(
        "repetition-algorithms",
        "H3 is learnt by every algorithm that repeats a sample",
        "Cosine of a relu neuron with H3: extragradient, SAM, two steps, exponential loss, SGD (a); n_b = 2d (b).",
        algorithms,
        _draw_algorithms,
        remark="gamma0 = 0.01 (two steps, (b): 0.05), rho0 = 0.1 (SAM: -0.1), 50 d samples.",
        seconds=60,
    ),
    Recipe(
        "repetition-multi",
        "Eight relu neurons, two directions, with repetition and without",
        "Mean cosine with each direction for z1 + H3(z2) and z1 + z1 z2.",
        multi_index,
        _draw_multi_index,
        _multi_index_checks,
        remark="a = +-1, gamma0 = 0.01, rho0 = 0.1.",
        seconds=90,
    ),
    _table(
        "repetition-targets",
        "Multi-index targets with repetition and without",
        "Eight relu neurons on z1 + z1 H3(z2) (with the ODE), sign(z1 z2) and z1 z2 z3, which leave M = 0 by noise: "
        "experiment only.",
        "a = +-1 (a) or Gaussian (b, c), gamma0 = 0.1, 0.01, 0.1, rho0 = 0.1.",
        60,
    ),
    _table(
        "repetition-batches",
        "Repetition inside batches of 2d samples",
        "H4 (root mean square cosine and its linear theory), z1 + H3(z2) (with the map), z1 z2 z3 (experiment only); "
        "repeated passes over one batch, also published, are left to the batch-reuse family.",
        "p = 1 (a) or 8, a = 1 or Gaussian, gamma0 = 0.01, 0.01, 0.1, rho0 = 0.1, n_b = 2d.",
        60,
    ),
    _table(
        "repetition-staircase",
        "A staircase of statistical queries: stairs learnt once the first direction is",
        "Stairs 5 sign(z1 z2 z3) with H2(z1), alone, and with H4(z1), from M = 0 and from w_j = w*_1; experiment only. "
        "Quick runs from M = 0 reach the first direction only.",
        "a Gaussian, gamma0 = 0.01, rho0 = 0.1, 4000-5000 d log d samples (from w*_1: 500).",
        90,
    ),
)
