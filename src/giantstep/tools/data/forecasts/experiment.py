"""The experiment beside a forecast: real ridge fits on some of the rows, tested on the
others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from giantstep.core.base.types import Floats, Integers
from giantstep.core.lab.algebra import (
    cholesky,
    eigenvectors,
    smaller_gram,
    solve_triangular,
)
from giantstep.core.lab.seeds import Draws
from giantstep.tools.data.forecasts.settings import PreparedRows, Settings

MOST_TRAINED = 0.75
"""Share of the rows up to which the experiment trains; the others test."""
MORE_TRIALS = 4
"""How many times the trials asked for are made where the probes are not precise."""
PRECISE = 0.02
"""Standard error of a probe, relative to its mean, above which more trials are made."""
MOST_WORK = 2e10
FEW_TRIALS = 3
"""N p min(N, p) above which a fit takes seconds: then there are so many, at N/4 and N/2
rows only.
"""
COLUMNS = ("mse", "error", "train_mse")
_EPS = float(np.finfo(np.float64).eps)


@dataclass
class FitTrials:
    """Numbers of the trials at one sample size: (trials, ridges) arrays by variable."""

    samples: int
    values: dict[str, list[Floats]] = field(
        default_factory=lambda: {name: [] for name in COLUMNS}
    )

    @property
    def count(self) -> int:
        """Number of trials done."""
        return len(self.values["mse"])

    def mean(self, name: str) -> Floats:
        """Return the mean over trials, for each ridge."""
        return np.mean(self.values[name], axis=0)

    def stderr(self, name: str) -> Floats:
        """Return the standard error of the mean; NaN for one trial."""
        if self.count < 2:
            return np.full(len(self.values[name][0]), np.nan)
        return np.std(self.values[name], axis=0, ddof=1) / np.sqrt(self.count)


def run_experiment(prepared: PreparedRows) -> tuple[dict[int, FitTrials], list[int]]:
    """Fit real rows at the sizes asked for (dear ones at none), and N/4 and N/2: trials
    by size, and these two.
    """
    settings = prepared.settings
    if not settings.trials:
        return {}, []
    count, columns = prepared.features.shape
    dear = float(count) * columns * min(count, columns) > MOST_WORK
    probe_sizes = [max(count // 4, 3), count // 2]
    if dear:
        sizes = []
    else:
        sizes = [int(size) for size in settings.samples if size <= MOST_TRAINED * count]
    wanted = min(settings.trials, FEW_TRIALS) if dear else settings.trials
    by_size = {size: FitTrials(size) for size in sorted({*sizes, *probe_sizes})}
    for size, trials in by_size.items():
        more = MORE_TRIALS if size in probe_sizes and not dear else 1
        while trials.count < more * wanted:
            if trials.count >= wanted and np.all(
                trials.stderr("mse") <= PRECISE * trials.mean("mse")
            ):
                break
            for _ in range(wanted):
                train, test = _split(count, size, trials.count, settings)
                for name, values in _fit(prepared, train, test).items():
                    trials.values[name].append(values)
    return by_size, probe_sizes


def _split(
    count: int, samples: int, trial: int, settings: Settings
) -> tuple[Integers, Integers]:
    """Return random rows to train on and those to test on; the rows of a group are
    never in both.
    """
    generator: Any = Draws(settings.seed, "forecast", trial).generator(
        f"subset {samples}"
    )
    if settings.groups is None:
        order = generator.permutation(count)
        return order[:samples], order[samples:]
    # without the smallest of four groups or more, three quarters of the rows are left
    # to train on
    while True:
        place = generator.permutation(int(settings.groups.max()) + 1)[settings.groups]
        order = np.argsort(place, kind="stable")
        test = np.flatnonzero(place > place[order[samples - 1]])
        if len(test):
            return order[:samples], test


def _fit(prepared: PreparedRows, train: Integers, test: Integers) -> dict[str, Floats]:
    """Return test error, misclassified share and training error (ridges,) of fits to
    some rows.
    """
    features = prepared.features[train]
    outputs = prepared.labels.values[train]
    ridges = prepared.settings.ridges
    mean = features.mean(axis=0)
    intercept = outputs.mean(axis=0)
    features -= mean
    outputs = outputs - intercept
    solutions = solve_ridges(features, outputs, ridges)
    left = np.tensordot(features, solutions, axes=1) - outputs[:, None]
    # (rows, ridges, R)
    fitted = np.tensordot(prepared.features[test] - mean, solutions, axes=1) + intercept
    wrong = np.full(len(ridges), np.nan)
    classes = prepared.labels.classes
    if classes is not None:
        if outputs.shape[1] == 1:
            guessed = (fitted[..., 0] > 0).astype(np.int64)
        else:
            guessed = np.argmax(fitted, axis=2)
        wrong = np.mean(guessed != classes[test][:, None], axis=0)
    return {
        "mse": np.mean(
            np.sum((fitted - prepared.labels.values[test][:, None]) ** 2, axis=2),
            axis=0,
        ),
        "error": wrong,
        "train_mse": np.mean(np.sum(left**2, axis=2), axis=0),
    }


def solve_ridges(features: Floats, outputs: Floats, ridges: Floats) -> Floats:
    """Return the coefficients (p, ridges, R) of ridge fits to centred rows: the
    shortest where there are several.
    """
    gram = smaller_gram(features, np)
    tall = len(features) > features.shape[1]
    right = features.T @ outputs if tall else outputs
    solutions = np.stack(
        [_solve(gram, float(ridge), right) for ridge in ridges], axis=1
    )
    if tall:
        return solutions
    return np.tensordot(features.T, solutions, axes=1)


def _solve(gram: Floats, ridge: float, right: Floats) -> Floats:
    """Solve (gram + ridge) x = right; directions in which the matrix vanishes are left
    out.
    """
    factor = cholesky(gram, ridge, np)
    if factor is not None:
        return np.asarray(
            solve_triangular(
                factor, solve_triangular(factor, right, False, np), True, np
            )
        )
    values, vectors = eigenvectors(gram, np)
    kept = values > 4 * len(values) * _EPS * values[-1]
    vectors = vectors[:, kept]
    return np.asarray(vectors @ ((vectors.T @ right) / (values[kept] + ridge)[:, None]))
