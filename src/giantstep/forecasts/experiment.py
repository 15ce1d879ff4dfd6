"""The experiment beside a forecast: real ridge fits on some of the rows, tested on the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from giantstep.forecasts.fitting import solve_gram, solve_rows
from giantstep.forecasts.preparation import PARTS, PreparedRows
from giantstep.forecasts.rows import RowMoments, Sums
from giantstep.forecasts.settings import Settings
from giantstep.lab.devices import to_numpy
from giantstep.lab.seeds import Draws
from giantstep.types import DeviceArray, Floats, Integers

MOST_TRAINED = 0.75
"""Share of the rows up to which the experiment trains; the others test."""
MORE_TRIALS = 4
"""How many times the trials asked for are made where the probes are not precise."""
PRECISE = 0.02
"""Standard error of a probe, relative to its mean, above which more trials are made."""
COLUMNS = ("mse", "error", "train_mse")


@dataclass
class FitTrials:
    """Numbers of the trials at one sample size: (trials, ridges) arrays by variable."""

    samples: int
    values: dict[str, list[Floats]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    @property
    def count(self) -> int:
        """Number of trials done."""
        return len(self.values["mse"])

    def add(self, **numbers: Floats) -> None:
        """Add a trial."""
        for name, value in numbers.items():
            self.values[name].append(value)

    def mean(self, name: str) -> Floats:
        """Return the mean over trials, for each ridge."""
        return np.mean(self.values[name], axis=0)

    def stderr(self, name: str) -> Floats:
        """Return the standard error of the mean; NaN for one trial."""
        if self.count < 2:
            return np.full(len(self.values[name][0]), np.nan)
        return np.std(self.values[name], axis=0, ddof=1) / np.sqrt(self.count)


@dataclass(frozen=True)
class SubsetFits:
    """Fits on random rows of a data set in memory."""

    prepared: PreparedRows
    ridges: Floats
    seed: int
    groups: Integers | None = None

    def run(self, trials: FitTrials, count: int) -> None:
        """Go on until `count` trials are done."""
        for trial in range(trials.count, count):
            train, test = self._split(trials.samples, trial)
            trials.add(**self._fit(train, test))

    def _split(self, samples: int, trial: int) -> tuple[Integers, Integers]:
        """Return the rows to train on and those to test on; the rows of a group are never in both."""
        generator: Any = Draws(self.seed, "forecast", trial).generator(f"subset {samples}")
        if self.groups is None:
            order = generator.permutation(len(self.prepared.labels.values))
            return order[:samples], order[samples:]
        while True:  # without the smallest of four groups or more, three quarters of the rows are left to train on
            place = generator.permutation(int(self.groups.max()) + 1)[self.groups]
            order = np.argsort(place, kind="stable")
            test = np.flatnonzero(place > place[order[samples - 1]])
            if len(test):
                return order[:samples], test

    def _fit(self, train: Integers, test: Integers) -> dict[str, Floats]:
        xp, take, labels = self.prepared.xp, self.prepared.take, self.prepared.labels
        assert take is not None
        features, outputs = take(train), xp.asarray(labels.values[train])
        mean, intercept = xp.mean(features, axis=0), xp.mean(outputs, axis=0)
        features, outputs = features - mean, outputs - intercept
        solutions, train_square = solve_rows(features, outputs, self.ridges, xp)
        fitted = (take(test) - mean) @ solutions.reshape(len(solutions), -1)
        fitted = fitted.reshape(len(test), len(self.ridges), -1) + intercept
        square = xp.sum((fitted - xp.asarray(labels.values[test])[:, None]) ** 2, axis=2)
        return {
            "mse": to_numpy(xp.mean(square, axis=0)),
            "error": misclassified(to_numpy(fitted), labels.classes, test),
            "train_mse": train_square / len(train),
        }


def misclassified(fitted: Floats, classes: Integers | None, rows: Integers) -> Floats:
    """Return the share of misclassified rows for decision values (rows, ridges, R); NaN for regression."""
    if classes is None or not len(rows):
        return np.full(fitted.shape[1], np.nan)
    guessed = (fitted[:, :, 0] > 0).astype(np.int64) if fitted.shape[2] == 1 else np.argmax(fitted, axis=2)
    return np.mean(guessed != classes[rows][:, None], axis=0)


@dataclass(frozen=True)
class PartFits:
    """Fits on quarters and halves of the rows, from the sums of four parts: no row is read again.

    Squared errors on the other rows follow from their sums; the misclassified are counted among the rows kept.
    """

    prepared: PreparedRows
    ridges: Floats

    def run(self, trials: FitTrials) -> None:
        """Do all trials at a quarter (4) or a half (6) of the rows."""
        size = 1 if trials.samples == self.sizes()[0] else 2
        for inside in combinations(range(PARTS), size):
            trials.add(**self._fit(inside))

    def sizes(self) -> tuple[int, int]:
        """Return the mean numbers of rows of a part and of two."""
        each = sum(part.count for part in self.prepared.parts) / PARTS
        return int(each), int(2 * each)

    def _fit(self, inside: tuple[int, ...]) -> dict[str, Floats]:
        prepared, xp = self.prepared, self.prepared.xp
        train = self._sum([part for number, part in enumerate(prepared.parts) if number in inside]).moments(xp)
        rest = self._sum([part for number, part in enumerate(prepared.parts) if number not in inside])
        solutions, train_square = solve_gram(
            train.gram, train.cross, float(np.trace(train.label_square)), self.ridges, xp
        )
        return {
            "mse": _test_error(solutions, train, rest, xp),
            "error": self._misclassified(solutions, train, inside),
            "train_mse": train_square / train.rows,
        }

    @staticmethod
    def _sum(parts: list[Sums]) -> Sums:
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def _misclassified(self, solutions: DeviceArray, train: RowMoments, inside: tuple[int, ...]) -> Floats:
        prepared = self.prepared
        own = prepared.part[prepared.sample.index]
        test = np.flatnonzero(~np.isin(own, inside))
        fitted = (prepared.kept[prepared.xp.asarray(test)] - train.feature_mean) @ solutions.reshape(len(solutions), -1)
        fitted = to_numpy(fitted).reshape(len(test), len(self.ridges), -1)
        fitted = fitted + train.label_mean + prepared.label_shift
        return misclassified(fitted, prepared.labels.classes, prepared.sample.index[test])


def _test_error(solutions: DeviceArray, train: RowMoments, rest: Sums, xp: Any) -> Floats:
    """Return mean |y - b - W phi|^2 over rows of which only the sums are known, for each ridge."""
    test = rest.moments(xp)
    gram = _whole(test.gram, xp)
    errors = []
    for number in range(solutions.shape[1]):
        solution = solutions[:, number]
        offset = to_numpy(test.label_mean - train.label_mean) - to_numpy(
            (test.feature_mean - train.feature_mean) @ solution
        )
        square = float(np.trace(test.label_square)) - 2 * float(xp.sum(solution * test.cross))
        square += float(xp.sum(solution * (gram @ solution)))
        errors.append(square / test.rows + float(np.sum(offset**2)))
    return np.array(errors)


def _whole(lower: DeviceArray, xp: Any) -> DeviceArray:
    """Return a symmetric matrix of which the lower triangle is filled."""
    return xp.tril(lower) + xp.tril(lower, -1).T


@dataclass(frozen=True)
class RealFits:
    """Trials by sample size, and those at N/2 and N/4, which judge the forecast."""

    by_size: dict[int, FitTrials]
    probes: list[FitTrials]


def run_experiment(prepared: PreparedRows, settings: Settings) -> RealFits:
    """Fit real rows: at the sizes asked for and at N/4 and N/2, or at those two only where rows are many."""
    if not settings.trials:
        return RealFits({}, [])
    if prepared.take is None:
        parts = PartFits(prepared, settings.ridges)
        probes = [FitTrials(size) for size in parts.sizes()]
        for trials in probes:
            parts.run(trials)
        return RealFits({trials.samples: trials for trials in probes}, probes)
    count = prepared.decomposition.rows
    subsets = SubsetFits(prepared, settings.ridges, settings.seed, settings.groups)
    probe_sizes = [max(count // 4, 3), count // 2]
    sizes = [int(size) for size in settings.samples if size <= MOST_TRAINED * count]
    by_size = {size: FitTrials(size) for size in sorted({*sizes, *probe_sizes})}
    for size, trials in by_size.items():
        subsets.run(trials, settings.trials)
        while size in probe_sizes and trials.count < MORE_TRIALS * settings.trials and not is_precise(trials):
            subsets.run(trials, trials.count + settings.trials)
    return RealFits(by_size, [by_size[size] for size in probe_sizes])


def is_precise(trials: FitTrials) -> bool:
    """Tell whether the standard errors of all ridges are at most 2 % of the means."""
    return bool(np.all(trials.stderr("mse") <= PRECISE * trials.mean("mse")))
