"""Limit against experiment: each check states the error it would catch; a known wrong formula must be caught.

A check asks two things: no gap beyond chance that also exceeds the stated finite-size term, and a standard
error small enough to see the error it is there for. `make verify` adds a ladder of dimensions: the gap must
shrink as 1/d, and what is left at 1/d -> 0 must vanish within its standard error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import giantstep as gs
from giantstep.agreement import Row, agreement, normal_score

ERRORS = ("test_error", "train_error", "objective", "norm")


@dataclass(frozen=True)
class Check:
    """A comparison: `finite_size` is the allowed relative gap times d; `wrong` names a theory that fails."""

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
    gs.OneStep(activation="tanh", target="sin", noise=0.1, width_per_dim=1.0, samples_per_dim=1.5, ridge=0.1),
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
        step=gs.MaximalStep(rate=3.0),
    ),
    finite_size=5,
    wrong="isotropic",
)
CHECKS = (PLANTED, UNTRAINED, LARGE_BATCH)


def wrong_scores(check: Check, experiment: Any, dim: int) -> tuple[float, float]:
    """Return (largest |z|, its relative gap) of the test error of the wrong theory against an experiment."""
    wrong = gs.predict(check.scenario, check.grid, dim=dim, theory=check.wrong, progress=False)["test_error"]
    gap = (experiment["test_error"] - wrong).values
    score = np.abs(normal_score(gap / experiment["test_error_stderr"].values, experiment.attrs["trials"] - 1))
    return float(np.max(score)), float(np.max(np.abs(gap) / wrong.values))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_agreement(check: Check) -> None:
    """80 trials at d = 250 see a test error that is wrong by about 3% (measured: 2.6% to 3.1%)."""
    dim = 250
    result = gs.compare(check.scenario, check.grid, dim=dim, trials=80, progress=False)
    rows = {row.variable: row for row in agreement(result).rows}
    assert rows["test_error"].smallest_visible < 0.035
    for name in ERRORS:
        assert rows[name].passes(allow=check.finite_size / dim), rows[name]
    if check.wrong:
        score, gap = wrong_scores(check, result.sel(source="experiment"), dim)
        assert score > 5
        assert gap > check.finite_size / dim


def test_isotropic_map_is_five_percent_off() -> None:
    """It lacks the c3 term of (5.5); for tanh/sin at rate 3 that matters at any dimension."""
    exact, isotropic = (
        float(gs.predict(LARGE_BATCH.scenario, theory=theory, progress=False)["test_error"])
        for theory in ("exact", "isotropic")
    )
    assert isotropic / exact - 1 > 0.05


# --- make verify ----------------------------------------------------------------------------------------

LADDER = {250: 400, 500: 240, 1000: 100, 2000: 30}
"""Trials at each dimension."""


@dataclass(frozen=True)
class Rung:
    """One dimension of a ladder: the row of the test error, the relative gap with its standard error."""

    dim: int
    trials: int
    row: Row
    gap: float
    error: float
    wrong_z: float
    wrong_gap: float


@dataclass(frozen=True)
class Ladder:
    """The rungs, and the relative gap left at 1/d -> 0 with its standard error (gap = left + slope/d)."""

    check: Check
    rungs: tuple[Rung, ...]
    left: float
    left_error: float
    slope: float


def climb(check: Check, trials: dict[int, int], variable: str = "test_error") -> Ladder:
    """Compare at growing dimensions; the gap is the mean over the grid."""
    rungs = []
    for dim, count in trials.items():
        result = gs.compare(check.scenario, check.grid, dim=dim, trials=count, seed=dim, progress=False)
        row = {row.variable: row for row in agreement(result).rows}[variable]
        limit = result[variable].sel(source="limit").values.ravel()
        gap = result[variable + "_gap"].values.ravel() / limit
        error = result[variable + "_stderr"].sel(source="experiment").values.ravel() / limit
        wrong = (np.nan, np.nan)
        if check.wrong:
            experiment = result.sel(source="experiment")
            wrong = wrong_scores(check, experiment, dim)
        # grid points share their draws, so the error of the mean is taken as the largest of theirs
        rungs.append(Rung(dim, count, row, float(gap.mean()), float(np.max(error)), *wrong))
    design = np.array([[1, 1 / rung.dim] for rung in rungs]) / np.array([[rung.error] for rung in rungs])
    target = np.array([rung.gap / rung.error for rung in rungs])
    covariance = np.linalg.inv(design.T @ design)
    left, slope = covariance @ (design.T @ target)
    return Ladder(check, tuple(rungs), float(left), float(np.sqrt(covariance[0, 0])), float(slope))


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_gap_shrinks_with_the_dimension(check: Check) -> None:
    """Sees an error of 0.9% to 1.7% in the limit itself: 3.3 standard errors of the extrapolated gap."""
    ladder = climb(check, LADDER)
    assert 3.3 * ladder.left_error < 0.02
    assert abs(ladder.left) < 3.3 * ladder.left_error
    for rung in ladder.rungs:
        assert rung.row.passes(allow=check.finite_size / rung.dim), rung
        assert abs(rung.gap) < check.finite_size / rung.dim + 3.5 * rung.error
    if check.wrong:
        assert all(rung.wrong_z > 5 for rung in ladder.rungs[:3])
        assert ladder.rungs[-1].wrong_gap > 0.03  # it does not shrink


@dataclass(frozen=True)
class SpectrumCheck:
    """A histogram of eigenvalues against the law, and against the law of the untrained network."""

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


def kolmogorov(check: SpectrumCheck) -> tuple[float, float, float]:
    """Return the largest |difference| of the distributions: trained law, untrained law, and density in L1."""
    result = gs.compare(check.scenario, what="spectrum", dim=check.dim, trials=check.trials, progress=False)
    x = result["x"].values
    law, seen = (result["cdf"].sel(source=source).values for source in ("limit", "experiment"))
    untrained = gs.predict(check.scenario.replace(step=gs.NoStep()), what="spectrum", x=x, progress=False)
    bulk = result["density"]
    area = np.sum(np.abs(bulk.sel(source="limit") - bulk.sel(source="experiment")).values[1:]) * (x[1] - x[0])
    return (
        float(np.max(np.abs(law - seen))),
        float(np.max(np.abs(untrained["cdf"].values - seen))),
        float(area),
    )


@pytest.mark.slow
@pytest.mark.parametrize("check", SPECTRA, ids=lambda check: check.name)
def test_spectrum_of_a_large_network(check: SpectrumCheck) -> None:
    """The distribution is within 0.01 of the law; that of the untrained network is several times as far."""
    distance, untrained, area = kolmogorov(check)
    assert distance < 0.01
    assert untrained > max(0.03, 5 * distance)
    assert area < 0.1
