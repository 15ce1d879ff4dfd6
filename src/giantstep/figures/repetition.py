"""Arnaboldi et al. 2024 (2405.15459), the other targets: multi-index, large batches, staircases; a table of cases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.figures.online_sgd import repeated
from giantstep.figures.panels import engines, key, letter, level, limit_line
from giantstep.figures.recipes import Bench, Recipe
from giantstep.figures.style import GREY, PALETTE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from giantstep.families.online_sgd.scenario import OnlineSGD

SEED = 2405
POINTS = 10
"""Times of the experiment in each panel."""
SMALL = 0.1
"""The linear theory is judged up to this cosine."""
STYLES = {"extragradient": ("-", "o"), "squared": ((0, (5, 2)), "s")}
NAMES = {"extragradient": "samples used twice", "squared": "one pass"}
STAIRS = "5*sign(z1*z2*z3)"


@dataclass(frozen=True)
class Case:
    """A target, its network and its run.

    Attributes
    ----------
    target, title : the expression, and its name in the figure.
    width, layer : number of relu neurons; second layer ``"ones"``, ``"signs"`` (half +1, half -1) or ``"gaussian"``.
    gamma0 : rate per dimension, gamma = gamma0 n_b p/d.
    quick, full : dimension and length of the run, in d (or d log d) samples.
    quick_rate : gamma0 of the quick run where it is larger, for a run that is shorter in proportion.
    logarithmic : the length is in units of d log d.
    batch : 0 for single samples, else n_b/d.
    start : ``"zero"``, or ``"first"``: every neuron starts as the first target direction.
    theory : ``"ode"``, ``"map"``, ``"linear"`` (an even target: the size of the cosine), or nothing: the overlaps leave
        their start by noise, and there is an experiment only.
    """

    target: str
    title: str
    width: int
    layer: str
    gamma0: float
    quick: tuple[int, float]
    full: tuple[int, float]
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
        gamma0 = self.quick_rate if quick and self.quick_rate is not None else self.gamma0
        layers = {
            "ones": np.ones(self.width),
            "signs": np.resize([1.0, -1.0], self.width),
            "gaussian": np.random.default_rng(SEED).standard_normal(self.width),
        }
        found = repeated(
            self.target, algorithm, gamma0 * batch, d, max(1, round(samples / batch)), batch_size=batch,
            second_layer=layers[self.layer].tolist(),
        )  # fmt: skip
        if self.start == "first":
            first = np.zeros((self.width, found.directions))
            first[:, 0] = 1.0
            found = found.replace(initial_overlap=first)
        return found


def draw(bench: Bench, name: str, cases: tuple[Case, ...]) -> Figure:
    """Draw cosines with each direction against samples, one panel for each case."""
    columns = min(3, len(cases))
    rows = -(-len(cases) // columns)
    figure, axes = new_figure(rows, columns, width=3.9 * columns + 0.4, height=3.7 * rows)
    for unused in axes[len(cases) :]:
        unused.remove()
    for place, (panel, case) in enumerate(zip(axes, cases)):
        d = (case.quick if bench.quick else case.full)[0]
        for algorithm in case.algorithms:
            _curves(panel, bench, f"{name}-{place}-{algorithm}", case, algorithm)
        level(panel, d**-0.5, "$d^{-1/2}$", at=1.0)
        shown = {None: "largest cosine of any neuron", "linear": "root mean square cosine"}
        panel.set(xlabel="samples over dimension", ylim=(0, None))
        panel.set_ylabel(shown.get(case.theory, "cosine, mean over neurons"))
        letter(panel, "abcdef"[place], f"{case.title}, $d = {d}$" + ("" if case.theory else " (no theory)"))
    most = max(case.scenario(case.algorithms[0], True).directions for case in cases)
    used = {algorithm for case in cases for algorithm in case.algorithms}
    handles = [key(PALETTE[r], "", f"direction {r + 1}") for r in range(most)]
    handles += [key(GREY, STYLES[a][1], NAMES[a], STYLES[a][0]) for a in STYLES if a in used]
    if any(case.theory for case in cases):
        handles += engines(axes[0], "experiment")
    axes[0].legend(handles=handles, loc="best", fontsize=7)
    return figure


def _curves(axes: Axes, bench: Bench, name: str, case: Case, algorithm: str) -> None:
    from giantstep.study import simulate

    scenario = case.scenario(algorithm, bench.quick)
    kept = np.unique(np.round(np.linspace(0, scenario.steps, POINTS + 1)[1:])).astype(int)
    trials, runs = bench.sized((2, 64 if case.theory == "linear" else 16), (10, 4))
    measured = simulate(scenario, times=kept.tolist(), trials=trials, runs=runs, seed=SEED, device=bench.device)
    bench.results[name] = measured
    x = kept * scenario.batch_size / scenario.dim
    linestyle, marker = STYLES[algorithm]
    theory = _theory(bench, name, case, scenario, kept)
    found, line = _pair(measured, case, theory)
    for r in range(found.shape[1]):
        bars = measured["best_stderr"].values[:, r] if line is None else None
        axes.errorbar(x, found[:, r], bars, linestyle=linestyle if line is None else "none", linewidth=0.8,
                      marker=marker, color=PALETTE[r], markerfacecolor="white", markeredgewidth=1.2)  # fmt: skip
        if line is not None:
            limit_line(axes, x, line[:, r], PALETTE[r], linestyle=linestyle)
    if line is None:
        for r in range(found.shape[1]):
            text = f"largest cosine at the end, {case.target}, {case.start} start, {algorithm}, direction {r + 1}"
            bench.check(text, found[-1, r], "mean over runs of the largest of all neurons")
        return
    if case.theory == "linear":
        small = line < SMALL
        ratio = float(np.abs(np.log(found / line))[small].max())
        text = f"|log ratio| of the cosine's size, {case.target}, {algorithm}"
        bench.check(text, ratio, "against the linear theory; labels of heavy tails", line=0.3)
        return
    gap = float(np.abs(found - line).max())
    most = 0.01 + 3 / math.sqrt(scenario.dim * trials * runs)
    bench.check(f"largest gap of the cosine, {case.target}, {algorithm}", gap, f"theory: {case.theory}", line=most)


def _pair(measured: Any, case: Case, theory: Any) -> tuple[Any, Any]:
    """Return what is drawn of experiment and theory, (times, directions).

    With a theory of every neuron: the mean over neurons of the cosine with the sign the theory gives it. Without one:
    the largest cosine of any neuron in each run, which noise lifts to several d^-1/2.
    """
    if theory is None:
        return measured["best"].values, None
    if case.theory == "linear":
        return measured["rms"].values, theory
    return (measured["cosine"].values * np.sign(theory)).mean(axis=1), np.abs(theory).mean(axis=1)


def _theory(bench: Bench, name: str, case: Case, scenario: OnlineSGD, kept: Any) -> Any:
    """Return the limit at the times of the experiment: cosines (times, neurons, directions), their size, or None."""
    if case.theory is None:
        return None
    if case.theory == "linear":
        from giantstep.families.online_sgd.escape import linear_theory

        return linear_theory(scenario, kept * scenario.batch_size / scenario.dim)[1][:, None]
    limit = bench.predict(
        f"{name}-limit", scenario, {}, theory=case.theory,
        settings={"times": kept.tolist(), "points": bench.sized(4096, 16384)},
    )  # fmt: skip
    return limit["cosine"].values


TARGETS = (
    Case("z1 + z1*h3(z2)", "$z_1 + z_1 H_3(z_2)$", 8, "signs", 0.1, (64, 16), (2048, 100), logarithmic=False,
         theory="ode"),
    Case("sign(z1*z2)", "sign$(z_1 z_2)$", 8, "gaussian", 0.01, (32, 20), (2048, 200), quick_rate=0.1),
    Case("z1*z2*z3", "$z_1 z_2 z_3$", 8, "gaussian", 0.1, (24, 100), (2048, 500)),
)  # fmt: skip
BATCHES = (
    Case("h4(z1)", "$H_4$, $n_b = 2d$", 1, "ones", 0.01, (128, 30), (2048, 500), batch=2, theory="linear"),
    Case("z1 + h3(z2)", "$z_1 + H_3(z_2)$, $n_b = 2d$", 8, "gaussian", 0.01, (64, 8), (1024, 100), batch=2,
         theory="map"),
    Case("z1*z2*z3", "$z_1 z_2 z_3$, $n_b = 2d$", 8, "gaussian", 0.1, (32, 150), (1024, 500), batch=2),
)  # fmt: skip
STAIRCASES = (
    Case(f"h2(z1) + {STAIRS}", "$H_2(z_1)$ + stairs", 4, "gaussian", 0.01, (24, 400), (1024, 4000),
         algorithms=("extragradient",)),
    Case(STAIRS, "stairs alone", 4, "gaussian", 0.01, (24, 400), (1024, 4000), algorithms=("extragradient",)),
    Case(f"h4(z1) + {STAIRS}", "$H_4(z_1)$ + stairs", 4, "gaussian", 0.01, (24, 400), (1024, 5000),
         algorithms=("extragradient",)),
    Case(f"h2(z1) + {STAIRS}", "$H_2$, from $w^*_1$", 4, "gaussian", 0.01, (24, 150), (1024, 500), start="first",
         algorithms=("extragradient",)),
    Case(f"h4(z1) + {STAIRS}", "$H_4$, from $w^*_1$", 4, "gaussian", 0.01, (24, 150), (1024, 500), start="first"),
)  # fmt: skip


RECIPES = (
    Recipe(
        "repetition-targets", "Multi-index targets with repetition and without", "arnaboldi2024repetita",
        "Eight relu neurons on z1 + z1 H3(z2) (with the ODE), sign(z1 z2) and z1 z2 z3, which leave M = 0 by noise: "
        "experiment only.",
        "p = 8, a = +-1 (a) or Gaussian (b, c), gamma0 = 0.1, 0.01, 0.1, rho0 = 0.1, n_b = 1, start without overlap",
        60, 20000, lambda bench: draw(bench, "targets", TARGETS),
    ),
    Recipe(
        "repetition-batches", "Repetition inside batches of 2d samples", "arnaboldi2024repetita",
        "H4 (root mean square cosine and its linear theory), z1 + H3(z2) (with the map), z1 z2 z3 (experiment only); "
        "repeated passes over one batch, also published, are left to the batch-reuse family.",
        "p = 1 (a) or 8, a = 1 or Gaussian, gamma0 = 0.01, 0.01, 0.1, rho0 = 0.1, n_b = 2d, start without overlap",
        60, 7200, lambda bench: draw(bench, "batches", BATCHES),
    ),
    Recipe(
        "repetition-staircase", "A staircase of statistical queries: stairs learnt once the first direction is",
        "arnaboldi2024repetita",
        "Stairs 5 sign(z1 z2 z3) with H2(z1), alone, and with H4(z1), from M = 0 and from w_j = w*_1; experiment only. "
        "Quick runs from M = 0 reach the first direction only.",
        "p = 4, a Gaussian, gamma0 = 0.01, rho0 = 0.1, n_b = 1, 4000-5000 d log d samples (from w*_1: 500)",
        90, 40000, lambda bench: draw(bench, "staircase", STAIRCASES),
    ),
)  # fmt: skip
