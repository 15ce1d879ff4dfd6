"""What is compared with what: the networks of the agreement tests and of `make verify`.

A check asks two things: no gap beyond chance that also exceeds the stated finite-size
term, and a standard error small enough to see the error it is there for. A ladder of
dimensions asks more: the gap must shrink as 1/d, and what is left at 1/d -> 0 must
vanish within its standard error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import giantstep as gs
from giantstep.core.result.agreement import agreement
from giantstep.core.result.layers import judged_side
from giantstep.core.result.report import AgreementRow
from giantstep.core.result.verdicts import normal_score


@dataclass(frozen=True)
class Check:
    """A comparison: `finite_size` is the allowed relative gap times d; `wrong` names a
    theory that fails.
    """

    name: str
    scenario: gs.OneStep
    finite_size: float
    grid: dict[str, Any] = field(default_factory=dict)
    wrong: str = ""


PLANTED = Check(
    "planted spike, relu/tanh, two blocks",
    gs.OneStep(
        activation="relu",
        target="tanh",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.01,
        second_layer=gs.Vocabulary([1, -1], [0.6, 0.4]),
        step=gs.PlantedSpike(strength=1.0, alignment=0.5),
    ),
    finite_size=5,
    grid={"samples_per_dim": [0.75, 3.0]},
)
UNTRAINED = Check(
    "no step, tanh/sin",
    gs.OneStep(
        activation="tanh",
        target="sin",
        noise=0.1,
        width_per_dim=1.0,
        samples_per_dim=1.5,
        ridge=0.1,
        second_layer=gs.Vocabulary([1]),
    ),
    finite_size=5,
)
LARGE_BATCH = Check(
    "maximal step, infinite batch, tanh/sin",
    gs.OneStep(
        activation="tanh",
        target="sin",
        width_per_dim=1.0,
        samples_per_dim=1.5,
        ridge=0.1,
        second_layer=gs.Vocabulary([1]),
        step=gs.MaximalStep(rate=3.0),
    ),
    finite_size=5,
    wrong="isotropic",
)
SMALL_BATCH = Check(
    "maximal step, n0 = d/2, tanh/sin",
    LARGE_BATCH.scenario.replace(step=gs.MaximalStep(rate=3.0, batch_per_dim=0.5)),
    finite_size=5,
    wrong="isotropic",
)
RELU_BATCH = Check(
    "maximal step, n0 = 10 d, relu/relu",
    gs.OneStep(
        activation="relu",
        target="relu",
        noise=0.1,
        width_per_dim=1.3,
        samples_per_dim=2.0,
        ridge=0.05,
        second_layer=gs.Vocabulary([1]),
        step=gs.MaximalStep(rate=1.5, batch_per_dim=10.0),
    ),
    finite_size=5,
    wrong="isotropic",
)
CHECKS = (PLANTED, UNTRAINED, LARGE_BATCH)
LADDERS = (*CHECKS, SMALL_BATCH, RELU_BATCH)
TRIALS = {
    "quick": {250: 80, 500: 40},
    "cpu": {250: 800, 500: 400, 1000: 120, 2000: 24},
    "cuda": {500: 1500, 1000: 1000, 2000: 600, 4000: 200},
}
"""Trials at each dimension of a ladder."""


def wrong_scores(check: Check, experiment: Any, dim: int) -> tuple[float, float]:
    """Return (largest |z|, its relative gap) of the test error of the wrong theory
    against an experiment.
    """
    wrong = gs.predict(
        check.scenario, check.grid, dim=dim, theory=check.wrong, progress=False
    )["test_error"]
    gap = (experiment["test_error"] - wrong).values
    score = np.abs(
        normal_score(
            gap / experiment["test_error_stderr"].values, experiment.attrs["trials"] - 1
        )
    )
    return float(np.max(score)), float(np.max(np.abs(gap) / wrong.values))


@dataclass(frozen=True)
class Rung:
    """One dimension of a ladder: the row of the test error, the relative gap with its
    standard error.
    """

    dim: int
    trials: int
    row: AgreementRow
    gap: float
    error: float
    wrong_z: float
    wrong_gap: float


@dataclass(frozen=True)
class Ladder:
    """The rungs, and the relative gap left at 1/d -> 0 with its standard error (gap =
    left + slope/d).
    """

    check: Check
    rungs: tuple[Rung, ...]
    left: float
    left_error: float
    slope: float


def climb(
    check: Check,
    trials: dict[int, int],
    device: str = "cpu",
    variable: str = "test_error",
) -> Ladder:
    """Compare at growing dimensions; the gap is the mean over the grid."""
    rungs = []
    for dim, count in trials.items():
        result = gs.compare(
            check.scenario,
            check.grid,
            dim=dim,
            trials=count,
            seed=dim,
            device=device,
            progress=False,
        )
        row = {row.variable: row for row in agreement(result).rows}[variable]
        limit = judged_side(result[variable]).values.ravel()
        gap = result[variable + "_gap"].values.ravel() / limit
        error = (
            result[variable + "_stderr"].sel(source="experiment").values.ravel() / limit
        )
        wrong = (np.nan, np.nan)
        if check.wrong:
            experiment = result.sel(source="experiment")
            wrong = wrong_scores(check, experiment, dim)
        # grid points share their draws, so the error of the mean is taken as the
        # largest of theirs
        rungs.append(
            Rung(dim, count, row, float(gap.mean()), float(np.max(error)), *wrong)
        )
    design = np.array([[1, 1 / rung.dim] for rung in rungs]) / np.array(
        [[rung.error] for rung in rungs]
    )
    target = np.array([rung.gap / rung.error for rung in rungs])
    covariance = np.linalg.inv(design.T @ design)
    left, slope = covariance @ (design.T @ target)
    return Ladder(
        check, tuple(rungs), float(left), float(np.sqrt(covariance[0, 0])), float(slope)
    )


@dataclass(frozen=True)
class SpectrumCheck:
    """A histogram of eigenvalues against the law, and against the law of the untrained
    network.
    """

    name: str
    scenario: gs.OneStep
    dim: int
    trials: int


SPECTRA = (
    SpectrumCheck(
        "relu, one block, u = 1, n/p = 0.8, p = 2048",
        gs.OneStep(
            activation="relu",
            target="sin",
            width_per_dim=2.0,
            samples_per_dim=1.6,
            ridge=0.1,
            second_layer=gs.Vocabulary([1]),
            step=gs.PlantedSpike(strength=1.0),
        ),
        dim=1024,
        trials=2,
    ),
    SpectrumCheck(
        "relu, four blocks, n/p = 2, p = 2048",
        gs.OneStep(
            activation="relu",
            target="sin",
            width_per_dim=1.5,
            samples_per_dim=3.0,
            ridge=0.1,
            second_layer=gs.Vocabulary([1, -0.5, 1.5, -2], [0.7, 0.1, 0.1, 0.1]),
            step=gs.PlantedSpike(strength=1.0),
        ),
        dim=1365,
        trials=2,
    ),
)


def kolmogorov(check: SpectrumCheck, device: str = "cpu") -> tuple[float, float, float]:
    """Return the largest |difference| of the distributions: trained law, untrained law,
    and density in L1.
    """
    result = gs.compare(
        check.scenario,
        what="spectrum",
        dim=check.dim,
        trials=check.trials,
        device=device,
        progress=False,
    )
    x = result["x"].values
    law, seen = (
        result["cdf"].sel(source=source).values for source in ("limit", "experiment")
    )
    untrained = gs.predict(
        check.scenario.replace(step=gs.NoStep()), what="spectrum", x=x, progress=False
    )
    bulk = result["density"]
    area = np.sum(
        np.abs(bulk.sel(source="limit") - bulk.sel(source="experiment")).values[1:]
    ) * (x[1] - x[0])
    return (
        float(np.max(np.abs(law - seen))),
        float(np.max(np.abs(untrained["cdf"].values - seen))),
        float(area),
    )
