"""Clusters of a real data matrix by message passing: several starts, learnt parameters,
the best evidence.

`AMPClustering` and `place` both stand on `fit_clusters`; it needs NumPy and SciPy only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Booleans, Floats
from giantstep.core.lab.algebra import leading_vectors
from giantstep.problems.subspace_clustering.amp import AMPRun, amp, spectral_snr
from giantstep.problems.subspace_clustering.mixture import ClusterMixture
from giantstep.tools.data.estimators.detection import looks_normal, score_columns
from giantstep.tools.data.estimators.matrices import Standardised, standardise

EVIDENCE = 5.0
"""Log-evidence over normal noise below which columns are also given noise levels of
their own.
"""
_SPECTRAL_SPARSITY = 0.2
_THRESHOLDING_SPARSITIES = (0.05, 0.02)
"""Fractions of active features from which they are learnt, by start: the columns of
largest variance are few.
"""
_STRONG = 0.1
"""Share of a column's variance above which the clusters are taken out of its noise
level.
"""
_ROUNDS = 8
"""Times the noise levels of such columns are estimated anew, at most."""
_UNEQUAL = 0.1
"""Relative difference of a cluster's size from the mean size from which on sizes are
learnt.
"""
_SKEWED = 2.5
"""Skewness of the scores, in its standard errors under equal clusters, from which on
very unequal ones are tried.
"""
_CLEAR = 1e-6
"""Chance below which no second look is taken."""
_TOLERANCE = 1e-9
"""Relative squared change of the assignments at which a run has converged."""
_PATIENCE = 200
_HOPELESS = 1e-2
"""Sweeps after which a run that still changes by more than this (relative, squared) is
given up.
"""


@dataclass(frozen=True)
class Clusters:
    """Clusters found in a data matrix, in its own units."""

    data: Standardised  # means and noise levels, and the columns that vary
    run: (
        AMPRun | None
        # what message passing ended with, in units of the noise; None where nothing but
        # zero was found
    )
    # log-evidence of the clusters over noise in which every column may have a variance
    # of its own
    evidence: float
    n_clusters: int  # asked for or chosen
    start: str  # the start that won
    iterations: (
        int  # sweeps of the winning run, those of estimating the noise anew included
    )
    # for every number that was tried
    evidence_by_clusters: dict[int, float] = field(default_factory=dict)
    p_value: float = (
        1.0  # bound on the chance that noise looks as clustered (see `detection`)
    )


@dataclass(frozen=True)
class Options:
    """How to look: what is known (None: learnt), when to stop."""

    sparsity: float | None = None
    snr: float | None = None
    noise_level: Any = "auto"
    max_iter: int = 2000

    @property
    def learn(self) -> tuple[str, ...]:
        """Which of the two parameters are learnt."""
        return tuple(
            name for name in ("sparsity", "snr") if getattr(self, name) is None
        )

    @property
    def normal_noise(self) -> bool:
        """Whether the noise is said to be normal: its level is known, or common to all
        columns.
        """
        return not isinstance(self.noise_level, str) or self.noise_level == "common"


def numbers_to_try(most: int, samples: int, features: int) -> list[int]:
    """Return the numbers of clusters, from 2 to `most`, that so many samples and
    features allow.
    """
    return list(range(2, max(2, min(most, samples - 1, features + 1)) + 1))


def fit_clusters(
    matrix: Floats, numbers: Sequence[int], options: Options, rng: np.random.Generator
) -> Clusters:
    """Find clusters in a finite matrix; of several `numbers` the one with the largest
    evidence, till two bring none.
    """
    data = standardise(matrix, options.noise_level)
    own: Standardised | None = None
    best: Clusters | None = None
    tried: dict[int, float] = {}
    for number in numbers:
        fit = _Search(data, number, options, rng).best()
        if (
            data.common
            and options.noise_level == "auto"
            and (fit.evidence <= EVIDENCE or _mostly_strong(fit))
        ):
            own = standardise(matrix, "feature") if own is None else own
            fit = max(
                fit,
                _Search(own, number, options, rng).best(),
                key=attrgetter("evidence"),
            )
        tried[number] = fit.evidence
        if best is None or fit.evidence > best.evidence:
            best = fit
        if number - best.n_clusters >= 2:
            break
    assert best is not None
    # a fit need not hold the data
    kept = replace(best.data, matrix=np.empty((0, best.data.matrix.shape[1])))
    chance = min(1.0, len(tried) * _false_alarm(matrix, best, options, rng))
    return replace(best, data=kept, evidence_by_clusters=tried, p_value=chance)


def _false_alarm(
    matrix: Floats, fit: Clusters, options: Options, rng: np.random.Generator
) -> float:
    """Return a bound on the chance that noise looks as clustered (see `detection`)."""
    if fit.run is None or fit.evidence <= 0:
        return 1.0
    if options.normal_noise or looks_normal(matrix[:, fit.data.varies]):
        return math.exp(-fit.evidence)
    chance = 1.0
    for generator, level in ((None, "common"), (rng, "feature")):
        data = score_columns(matrix, fit.data.varies, generator)
        search = _Search(
            data,
            fit.n_clusters,
            Options(noise_level=level, max_iter=options.max_iter),
            rng,
        )
        chance = min(chance, 2 * math.exp(-max(search.evidence_from(fit.run), 0.0)))
        if chance < _CLEAR:
            break
    return chance


def _mostly_strong(clusters: Clusters) -> bool:
    """Tell whether clusters make up much of so many columns that the common level of
    the noise is too high.
    """
    if clusters.run is None:
        return False
    matrix = clusters.data.matrix
    return bool(
        np.mean(_share(clusters.run) > _STRONG * np.mean(matrix**2, axis=0)) > 0.25
    )


class _Stage(NamedTuple):
    """Where a run starts: data in units of the present noise levels, assignments or
    their name, and parameters.
    """

    name: str
    data: Standardised
    start: str | Floats
    sparsity: float
    snr: float
    weights: Floats | None = (
        None  # sizes of the clusters that are learnt; None: equal ones, not learnt
    )


@dataclass(frozen=True)
class _Search:
    """The search for `number` clusters in data of zero mean and unit noise."""

    data: Standardised
    number: int
    options: Options
    rng: np.random.Generator

    @property
    def price(self) -> float:
        """The log-evidence that learnt sizes of the clusters cost."""
        return 0.5 * (self.number - 1) * math.log(len(self.data.matrix))

    def best(self) -> Clusters:
        """Run from every start and return the run with the largest evidence."""
        nothing = Clusters(
            self.data, None, 0.0, self.number, "none", self.options.max_iter
        )
        if self.data.matrix.shape[1] < self.number - 1:
            return nothing
        fits = [self.settle(stage) for stage in self.starts()]
        best = max(
            (fit for fit in fits if fit is not None),
            key=attrgetter("evidence"),
            default=nothing,
        )
        return self.learn_sizes(best)

    def starts(self) -> Iterator[_Stage]:
        """Yield the starts that could win on these data."""
        options = self.options
        data = self.data
        left, values = leading_vectors(data.matrix, self.number - 1, self.rng)
        if options.snr is None:
            snr = spectral_snr(values, self.number, *data.matrix.shape)
        else:
            snr = options.snr
        guesses: dict[str, tuple[float, ...]] = {"spectral": (_SPECTRAL_SPARSITY,)}
        # else all variances are equal, and say nothing about which columns are active
        if data.common:
            guesses["thresholding"] = _THRESHOLDING_SPARSITIES
        for name, sparsities in guesses.items():
            for sparsity in (
                sparsities if options.sparsity is None else (options.sparsity,)
            ):
                yield _Stage(name, data, name, sparsity, snr)
        stage = None if data.common else self.kmeans_start(left * values)
        if stage is not None and stage.data is not data:
            yield stage

    def kmeans_start(self, scores: Floats) -> _Stage | None:
        """Return a start from k-means on the leading components, with noise levels from
        what they leave over.

        It is for clusters that are plain to see in few dimensions, where the variance
        of a column is mostly not noise.
        """
        number, (n, d) = self.number, self.data.matrix.shape
        runs = [
            kmeans2(scores, number, minit="++", rng=self.rng, missing="warn")
            for _ in range(5)
        ]
        whole = [run for run in runs if len(np.unique(run[1])) == number]
        if not whole:
            return None
        _, best = min(
            whole, key=lambda run: float(((scores - run[0][run[1]]) ** 2).sum())
        )
        counts = np.bincount(best, minlength=number)
        sums = np.zeros((number, d))
        np.add.at(sums, best, self.data.matrix)
        means = sums / counts[:, None]
        data = _lower_noise(self.data, (counts @ means**2) / n)
        if self.options.sparsity is None:
            sparsity = 0.5
        else:
            sparsity = self.options.sparsity
        tau = max(float((means**2).mean()), 1e-6)
        factor = (data.noise / self.data.noise)[data.varies]
        if self.options.snr is None:
            snr = tau * sparsity * d / float(np.mean(factor**2))
        else:
            snr = self.options.snr
        return _Stage(
            "kmeans",
            data,
            ClusterMixture(number, sparsity, snr).directions[best],
            sparsity,
            snr,
        )

    def learn_sizes(self, fit: Clusters) -> Clusters:
        """Learn the sizes of the clusters, from those seen so far and, for two
        clusters, from very unequal ones.
        """
        run = fit.run
        best = fit
        if run is None:
            return fit
        if np.abs(_sizes(run) * self.number - 1).max() > _UNEQUAL:
            guesses = [_sizes(run)]
        else:
            guesses = []
        if self.number == 2:
            scores = (fit.data.matrix @ run.features) @ run.mixture.directions[0]
            skewness = float(
                np.mean((scores - scores.mean()) ** 3) / max(scores.std(), 1e-300) ** 3
            )
            if abs(skewness) > _SKEWED * math.sqrt(
                6 / len(scores)
            ):  # the smaller cluster is on the long tail's side
                guesses.append(np.array([0.2, 0.8] if skewness > 0 else [0.8, 0.2]))
        for weights in guesses:
            unequal = self.settle(
                _continue(fit.start, fit.data, run, run.mixture.snr, weights)
            )
            if (
                unequal is not None
                and unequal.run is not None
                and unequal.evidence - self.price > best.evidence
            ):
                sweeps = fit.iterations + unequal.iterations
                best = replace(
                    unequal, evidence=unequal.evidence - self.price, iterations=sweeps
                )
        return best

    def evidence_from(self, run: AMPRun) -> float:
        """Return the evidence for clusters that were found in other data of the same
        shape, started from those.
        """
        equal = np.ptp(run.mixture.weights) == 0
        begin = self.data
        if (
            not begin.common
        ):  # with the noise levels that these clusters leave over in their features
            sizes = run.posteriors.sum(axis=0)
            means = (run.posteriors.T @ begin.matrix) / np.maximum(sizes, 1e-300)[
                :, None
            ]
            share = np.where(
                run.support > 0.5, sizes @ means**2 / len(begin.matrix), 0.0
            )
            begin = _lower_noise(begin, share)
        mixture = run.mixture
        weights = None if equal else np.asarray(run.mixture.weights)
        fit = self.settle(
            _Stage(
                "given", begin, run.assignments, mixture.sparsity, mixture.snr, weights
            )
        )
        if fit is None:
            return 0.0
        return fit.evidence - (0.0 if equal else self.price)

    def settle(self, stage: _Stage) -> Clusters | None:
        """Run until noise levels (where clusters make up much of a column) and unequal
        weights stand still too.
        """
        data = self.data
        sweeps = 0
        for rounds_left in reversed(
            range(_ROUNDS if stage.weights is None else 2 * _ROUNDS)
        ):
            now = stage.data
            run = self.run(stage)
            if run is None or run.outcome == "diverged":
                return None
            sweeps += run.iterations
            if run.outcome == "trivial":
                return Clusters(data, None, 0.0, self.number, stage.name, sweeps)
            share = (now.noise / data.noise)[data.varies] ** 2 * _share(run)
            lowered = now if data.common else _lower_noise(data, share)
            change = (lowered.noise / now.noise)[data.varies]
            weights = None if stage.weights is None else _sizes(run)
            still = stage.weights is None or bool(
                np.abs(_sizes(run) - stage.weights).max() < 0.005
            )
            if (still and np.abs(change - 1).max() < 0.01) or not rounds_left:
                return Clusters(
                    now, run, self.evidence(now, run), self.number, stage.name, sweeps
                )
            if self.options.snr is None:
                snr = run.mixture.snr / float(np.mean(change**2))
            else:
                snr = self.options.snr
            stage = _continue(stage.name, lowered, run, snr, weights)
        return None

    def run(self, stage: _Stage) -> AMPRun | None:
        """Run message passing; what still swings widely after some hundred sweeps will
        not settle and is left there.
        """
        run = None
        sweeps = 0
        start = stage.start
        options = self.options
        sparsity = stage.sparsity
        snr = stage.snr
        try:
            with np.errstate(all="ignore"):
                while sweeps < options.max_iter:
                    mixture = ClusterMixture(
                        self.number,
                        sparsity,
                        snr,
                        () if stage.weights is None else stage.weights,
                    )
                    run = amp(
                        stage.data.matrix,
                        mixture,
                        start,
                        max_iterations=min(_PATIENCE, options.max_iter - sweeps),
                        tolerance=_TOLERANCE,
                        learn=options.learn,
                        generator=self.rng,
                    )
                    sweeps += run.iterations
                    start = run.assignments
                    sparsity = run.mixture.sparsity
                    snr = run.mixture.snr
                    if run.outcome != "not converged" or run.change > _HOPELESS:
                        break
        except (
            np.linalg.LinAlgError,
            InputError,
        ):  # the parameters it learnt are out of all bounds
            return None
        return None if run is None else replace(run, iterations=sweeps)

    def evidence(self, now: Standardised, run: AMPRun) -> float:
        """Return the log-evidence over noise whose active columns may have variances of
        their own.

        What a variance alone explains, of a noisier column or of one whose noise was
        lowered for the clusters' sake, is taken away, unless the noise level is said to
        be common or known.
        """
        if self.options.normal_noise:
            return float(run.log_evidence)
        data, (n, d) = self.data, now.matrix.shape
        variance = np.einsum("ij,ij->j", now.matrix, now.matrix) / n
        before = np.einsum("ij,ij->j", data.matrix, data.matrix) / n
        if data.common:
            level = 1.0
        else:
            level = before - np.log(np.maximum(before, 1e-300))
        explained = 0.5 * n * (variance - np.log(np.maximum(variance, 1e-300)) - level)
        # of a level of its own, for one of d columns
        price = 0.5 * math.log(n) + math.log(d) if data.common else 0.0
        lowered = (now.noise != data.noise)[data.varies]
        counted: Booleans = (run.support > 0.5) | lowered
        return float(
            run.log_evidence - np.maximum(explained - price, 0.0)[counted].sum()
        )


def _continue(
    name: str, data: Standardised, run: AMPRun, snr: float, weights: Floats | None
) -> _Stage:
    """Return the stage after a run: its assignments, in the coordinates of the weights
    where those are learnt.
    """
    mixture = run.mixture
    start = run.assignments
    if weights is not None:
        start = run.posteriors @ replace(mixture, weights=weights).directions
    return _Stage(name, data, start, mixture.sparsity, snr, weights)


def _sizes(run: AMPRun) -> Floats:
    """Return the shares of the clusters, none of them empty."""
    n, k = run.posteriors.shape
    sizes: Floats = (run.posteriors.sum(axis=0) + 1) / (n + k)
    return sizes / sizes.sum()


def _share(run: AMPRun) -> Floats:
    """Return the variance that the clusters make up in every column, in units of the
    noise.
    """
    overlaps = run.assignments.T @ run.assignments / len(run.assignments)
    return np.einsum("jp,pq,jq->j", run.features, overlaps, run.features)


def _lower_noise(data: Standardised, share: Floats) -> Standardised:
    """Take the variance that clusters make up, in units of the noise, out of the noise
    levels where it is much.
    """
    variance = np.maximum(
        np.einsum("ij,ij->j", data.matrix, data.matrix) / len(data.matrix), 1e-300
    )
    # all of it where it is twice that much
    taken = share * np.clip(share / (_STRONG * variance) - 1, 0, 1)
    if not taken.any():
        return data
    factor = np.where(
        taken > 0, np.sqrt(np.maximum(variance - taken, 1e-3 * variance)), 1.0
    )
    noise = data.noise.copy()
    noise[data.varies] *= factor
    return replace(data, matrix=data.matrix / factor, noise=noise)
