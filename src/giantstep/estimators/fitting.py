"""Clusters of a real data matrix by message passing: several starts, learnt parameters, the best evidence.

`AMPClustering` and `place` both stand on `fit_clusters`; it needs NumPy and SciPy only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.cluster.vq import kmeans2

from giantstep.errors import InputError
from giantstep.estimators.detection import looks_normal, scored
from giantstep.estimators.matrices import Standardised, standardised
from giantstep.families.subspace_clustering.amp import (
    AMPRun,
    amp,
    assign,
    cluster_directions,
    cluster_weights,
    leading_vectors,
    spectral_snr,
)
from giantstep.types import Booleans, Floats

EVIDENCE = 5.0
"""Log-evidence over normal noise below which columns are also given noise levels of their own."""
STARTS = ("auto", "spectral", "thresholding", "random", "kmeans")
_SPECTRAL_SPARSITY, _THRESHOLDING_SPARSITIES = 0.2, (0.05, 0.02)
_STRONG = 0.1
"""Share of a column's variance above which the clusters are taken out of its noise level."""
_ROUNDS = 8
"""Times the noise levels of such columns are estimated anew, at most."""
_UNEQUAL = 0.1
"""Relative difference of a cluster's size from the mean size from which on sizes are learnt."""
_SKEWED = 2.5
"""Skewness of the scores, in its standard errors under equal clusters, from which on very unequal ones are tried."""
_CLEAR = 1e-6
"""Chance below which no second look is taken."""
_PATIENCE, _HOPELESS = 200, 1e-2
"""Sweeps after which a run that still changes by more than this (relative, squared) is given up."""


@dataclass(frozen=True)
class Clusters:
    """Clusters found in a data matrix, in its own units.

    Attributes
    ----------
    data : means and noise levels, and the columns that vary.
    run : what message passing ended with, in units of the noise; None where nothing but zero was found.
    evidence : log-evidence of the clusters over noise in which every column may have a variance of its own.
    n_clusters : clusters asked for or chosen.
    evidence_by_clusters : the evidence for every number of clusters that was tried.
    p_value : bound on the chance that noise looks as clustered (see `detection`).
    start : the start that won.
    iterations : sweeps of the winning run, those of estimating the noise anew included.
    """

    data: Standardised
    run: AMPRun | None
    evidence: float
    n_clusters: int
    evidence_by_clusters: dict[int, float]
    start: str
    iterations: int
    p_value: float = 1.0

    def probabilities(self, rows: Floats) -> Floats:
        """Return the (m, k) probabilities of the clusters of fresh rows, in the units of the data."""
        assert self.run is not None
        probabilities: Floats = assign(self.run, self.data.apply(rows))
        return probabilities

    def means(self) -> Floats:
        """Return the (k, d) means of the clusters in the units of the data."""
        means = np.tile(self.data.mean, (self.n_clusters, 1))
        if self.run is not None:
            varies = self.data.varies
            means[:, varies] += self.data.noise[varies] * np.asarray(self.run.means).T
        return means

    def activity(self) -> Floats:
        """Return the (d,) probabilities that features are active."""
        activity = np.zeros(len(self.data.mean))
        if self.run is not None:
            activity[self.data.varies] = self.run.support
        return activity


@dataclass(frozen=True)
class Options:
    """How to look: what is known (None: learnt), where to start, when to stop."""

    sparsity: float | None = None
    snr: float | None = None
    start: str = "auto"
    noise_level: Any = "auto"
    learn_weights: bool = True
    max_iter: int = 2000
    tol: float = 1e-9

    @property
    def learn(self) -> bool | Literal["sparsity", "snr"]:
        """Which of the two parameters are learnt."""
        if self.sparsity is None:
            return True if self.snr is None else "sparsity"
        return "snr" if self.snr is None else False


def fit_clusters(matrix: Floats, numbers: Sequence[int], options: Options, rng: np.random.Generator) -> Clusters:
    """Find clusters in a finite (n, d) matrix; of several `numbers` of clusters the one with the largest evidence.

    The numbers are tried in order; the search ends after two in a row without a larger evidence.
    """
    data = standardised(matrix, options.noise_level)
    own: Standardised | None = None
    best: Clusters | None = None
    tried: dict[int, float] = {}
    worse = 0
    for number in numbers:
        found = _best(data, number, options, rng)
        if data.common and options.noise_level == "auto" and (found.evidence <= EVIDENCE or _mostly_strong(found)):
            own = standardised(matrix, "feature") if own is None else own
            found = max(found, _best(own, number, options, rng), key=_evidence_of)
        tried[number] = found.evidence
        worse = worse + 1 if best is not None and found.evidence <= best.evidence else 0
        if best is None or found.evidence > best.evidence:
            best = found
        if worse == 2:
            break
    assert best is not None
    kept = replace(best.data, matrix=np.empty((0, best.data.matrix.shape[1])))  # a fit need not hold the data
    chance = min(1.0, len(tried) * _chance(matrix, best, options, rng))
    return replace(best, data=kept, evidence_by_clusters=tried, p_value=chance)


def _chance(matrix: Floats, found: Clusters, options: Options, rng: np.random.Generator) -> float:
    """Return a bound on the chance that noise looks as clustered (see `detection`).

    Where the noise level is said to be common or known, the noise is taken to be normal.
    """
    if found.run is None or found.evidence <= 0:
        return 1.0
    told = not isinstance(options.noise_level, str) or options.noise_level == "common"
    if told or looks_normal(matrix[:, found.data.varies]):
        return math.exp(-found.evidence)
    least = 1.0
    for generator, level in ((None, "common"), (rng, "feature")):
        data = scored(matrix, found.data.varies, generator)
        evidence = _evidence_from(found, data, replace(Options(), noise_level=level, max_iter=options.max_iter), rng)
        least = min(least, 2 * math.exp(-max(evidence, 0.0)))
        if least < _CLEAR:
            break
    return least


def _evidence_from(found: Clusters, data: Standardised, options: Options, rng: np.random.Generator) -> float:
    """Return the evidence for clusters in other data of the same shape, started from those found."""
    run, number = found.run, found.n_clusters
    assert run is not None
    weights = None if np.ptp(run.weights) == 0 else np.asarray(run.weights)
    price = 0.0 if weights is None else _price(number, len(data.matrix))
    begin = data
    if not data.common:  # with the noise levels that these clusters leave over in their features
        sizes = run.posteriors.sum(axis=0)
        means = (run.posteriors.T @ data.matrix) / np.maximum(sizes, 1e-300)[:, None]
        share = np.where(run.support > 0.5, sizes @ means**2 / len(data.matrix), 0.0)
        begin, _ = _narrowed(data, share)
    fit = _settled(data, number, options, _Stage(begin, weights, run.assignments, run.sparsity, run.snr), "found", rng)
    return 0.0 if fit is None else fit.evidence - price


def _price(number: int, samples: int) -> float:
    """Return the log-evidence that learnt sizes of the clusters cost."""
    return 0.5 * (number - 1) * math.log(samples)


def _best(data: Standardised, number: int, options: Options, rng: np.random.Generator) -> Clusters:
    """Run from every start and return the run with the largest evidence."""
    nothing = Clusters(data, None, 0.0, number, {}, "none", options.max_iter)
    if data.matrix.shape[1] < number - 1:
        return nothing
    fits = []
    for start in _starts(data, number, options, rng):
        given: str | Floats = start.name if start.assignments is None else start.assignments
        stage = _Stage(start.data, None, given, start.sparsity, start.snr)
        fits.append(_settled(data, number, options, stage, start.name, rng))
    best = max((fit for fit in fits if fit is not None), key=_evidence_of, default=nothing)
    return _with_weights(data, best, options, rng) if options.learn_weights else best


def _evidence_of(clusters: Clusters) -> float:
    return clusters.evidence


def _mostly_strong(clusters: Clusters) -> bool:
    """Tell whether clusters make up much of so many columns that the common level of the noise is too high."""
    if clusters.run is None:
        return False
    matrix = clusters.data.matrix
    return bool(np.mean(_share(clusters.run) > _STRONG * np.mean(matrix**2, axis=0)) > 0.25)


def _share(run: AMPRun) -> Floats:
    """Return the variance that the clusters make up in every column, in units of the noise."""
    overlaps = run.assignments.T @ run.assignments / len(run.assignments)
    share: Floats = np.einsum("jp,pq,jq->j", run.features, overlaps, run.features)
    return share


@dataclass(frozen=True)
class _Start:
    name: str
    sparsity: float
    snr: float
    data: Standardised
    assignments: Floats | None = None
    """Assignments to start from; None: those that the name stands for."""


def _starts(data: Standardised, number: int, options: Options, rng: np.random.Generator) -> Iterator[_Start]:
    """Yield the starts that were asked for; ``"auto"`` is those which could win on these data."""
    n, d = data.matrix.shape
    left, values = leading_vectors(data.matrix, number - 1, rng)
    snr = spectral_snr(values, number, n, d) if options.snr is None else options.snr
    useful = ("spectral", "thresholding") if data.common else ("spectral", "kmeans")  # equal variances hold no news
    for name in useful if options.start == "auto" else (options.start,):
        if name == "kmeans":
            hard = _kmeans(data, left * values, number, options, rng)
            if hard is not None and (options.start != "auto" or hard.data is not data):
                yield hard
            continue
        guesses = _THRESHOLDING_SPARSITIES if name == "thresholding" else (_SPECTRAL_SPARSITY,)
        for sparsity in guesses if options.sparsity is None else (options.sparsity,):
            yield _Start(name, sparsity, snr, data)


def _kmeans(
    data: Standardised, scores: Floats, number: int, options: Options, rng: np.random.Generator
) -> _Start | None:
    """Return a start from k-means on the leading components, with noise levels from what they leave over.

    It is for clusters that are plain to see in few dimensions, where the variance of a column is mostly not noise.
    """
    best, loss = None, math.inf
    for _ in range(5):
        centres, labels = kmeans2(scores, number, minit="++", rng=rng, missing="warn")
        distance = float(((scores - centres[labels]) ** 2).sum())
        if len(np.unique(labels)) == number and distance < loss:
            best, loss = labels, distance
    if best is None:
        return None
    n, d = data.matrix.shape
    weights = cluster_weights(number, None)
    counts = np.bincount(best, minlength=number)
    sums = np.zeros((number, d))
    np.add.at(sums, best, data.matrix)
    means = sums / counts[:, None]
    share = (counts @ means**2) / n
    tau = max(float((means**2).mean()), 1e-6)
    U = cluster_directions(number, weights)[best]
    narrowed, factor = _narrowed(data, share)
    sparsity = 0.5 if options.sparsity is None else options.sparsity
    snr = tau * sparsity * d / float(np.mean(factor**2)) if options.snr is None else options.snr
    return _Start("kmeans", sparsity, snr, narrowed, U)


def _with_weights(data: Standardised, fit: Clusters, options: Options, rng: np.random.Generator) -> Clusters:
    """Learn the sizes of the clusters, from those seen so far and, for two clusters, from very unequal ones."""
    run, number, best = fit.run, fit.n_clusters, fit
    if run is None:
        return fit
    guesses = [_sizes(run)] if np.abs(_sizes(run) * number - 1).max() > _UNEQUAL else []
    if number == 2:
        scores = (fit.data.matrix @ run.features) @ run.directions[0]
        skewness = float(np.mean((scores - scores.mean()) ** 3) / max(scores.std(), 1e-300) ** 3)
        if abs(skewness) > _SKEWED * math.sqrt(6 / len(scores)):  # the smaller cluster is on the side of the long tail
            guesses.append(np.array([0.2, 0.8] if skewness > 0 else [0.8, 0.2]))
    price = _price(number, len(data.matrix))
    for weights in guesses:
        stage = _Stage(fit.data, weights, _moved(run, weights), run.sparsity, run.snr)
        unequal = _settled(data, number, options, stage, fit.start, rng)
        if unequal is not None and unequal.run is not None and unequal.evidence - price > best.evidence:
            sweeps = fit.iterations + unequal.iterations
            best = replace(unequal, evidence=unequal.evidence - price, iterations=sweeps)
    return best


@dataclass(frozen=True)
class _Stage:
    """Where a run stands: data in units of the present noise levels, weights (None: equal), start and parameters."""

    data: Standardised
    weights: Floats | None
    start: str | Floats
    sparsity: float
    snr: float


def _settled(
    data: Standardised, number: int, options: Options, stage: _Stage, name: str, rng: np.random.Generator
) -> Clusters | None:
    """Run until noise levels (where clusters make up much of a column) and unequal weights stand still too."""
    sweeps = 0
    for rounds_left in reversed(range(_ROUNDS if stage.weights is None else 2 * _ROUNDS)):
        now = stage.data
        run = _passed(now.matrix, number, options, stage, rng)
        if run is None or run.outcome == "diverged":
            return None
        sweeps += run.iterations
        if run.outcome == "trivial":
            return Clusters(data, None, 0.0, number, {}, name, sweeps)
        narrowed = now
        if not data.common:
            narrowed, _ = _narrowed(data, (now.noise / data.noise)[data.varies] ** 2 * _share(run))
        change = (narrowed.noise / now.noise)[data.varies]
        weights, still = None, True
        if stage.weights is not None:
            weights = _sizes(run)
            still = bool(np.abs(weights - stage.weights).max() < 0.005)
        if (still and np.abs(change - 1).max() < 0.01) or not rounds_left:
            return Clusters(now, run, _evidence(data, now, run, options), number, {}, name, sweeps)
        snr = run.snr / float(np.mean(change**2)) if options.snr is None else options.snr
        begin = run.assignments if weights is None else _moved(run, weights)
        stage = _Stage(narrowed, weights, begin, run.sparsity, snr)
    return None


def _sizes(run: AMPRun) -> Floats:
    """Return the shares of the clusters, none of them empty."""
    n, k = run.posteriors.shape
    sizes: Floats = (run.posteriors.sum(axis=0) + 1) / (n + k)
    return sizes / sizes.sum()


def _moved(run: AMPRun, weights: Floats) -> Floats:
    """Return the assignments of a run in the coordinates that belong to other weights."""
    assignments: Floats = run.posteriors @ cluster_directions(len(weights), weights)
    return assignments


def _passed(matrix: Floats, number: int, options: Options, stage: _Stage, rng: np.random.Generator) -> AMPRun | None:
    """Run message passing; what still swings widely after some hundred sweeps will not settle and is left there."""
    run, sweeps = None, 0
    start, sparsity, snr = stage.start, stage.sparsity, stage.snr
    try:
        with np.errstate(all="ignore"):
            while sweeps < options.max_iter:
                run = amp(
                    matrix, clusters=number, sparsity=sparsity, snr=snr, weights=stage.weights, start=start,
                    learn=options.learn, max_iterations=min(_PATIENCE, options.max_iter - sweeps),
                    tolerance=options.tol, generator=rng,
                )  # fmt: skip
                sweeps += run.iterations
                start, sparsity, snr = run.assignments, run.sparsity, run.snr
                if run.outcome != "not converged" or run.change > _HOPELESS:
                    break
    except (np.linalg.LinAlgError, InputError):  # the parameters it learnt are out of all bounds
        return None
    return None if run is None else replace(run, iterations=sweeps)


def _narrowed(data: Standardised, share: Floats) -> tuple[Standardised, Floats]:
    """Take the variance that clusters make up, in units of the noise, out of the noise levels where it is much."""
    variance = np.maximum(np.einsum("ij,ij->j", data.matrix, data.matrix) / len(data.matrix), 1e-300)
    taken = share * np.clip(share / (_STRONG * variance) - 1, 0, 1)  # all of it where it is twice that much
    factor = np.ones(len(variance))
    if not taken.any():
        return data, factor
    factor[taken > 0] = np.sqrt(np.maximum(variance - taken, 1e-3 * variance)[taken > 0])
    noise = data.noise.copy()
    noise[data.varies] *= factor
    return Standardised(data.matrix / factor, data.mean, noise, data.varies, data.common), factor


def _evidence(data: Standardised, now: Standardised, run: AMPRun, options: Options) -> float:
    """Return the log-evidence over noise whose active columns may have variances of their own.

    A column that is merely noisier than the others, or whose noise level was lowered for the clusters' sake, is no
    evidence for clusters: what its variance alone explains is taken away, unless the noise level is said to be common
    or known.
    """
    if not isinstance(options.noise_level, str) or options.noise_level == "common":
        return float(run.log_evidence)
    n, d = now.matrix.shape
    variance = np.einsum("ij,ij->j", now.matrix, now.matrix) / n
    before = np.einsum("ij,ij->j", data.matrix, data.matrix) / n
    level = 1.0 if data.common else before - np.log(np.maximum(before, 1e-300))
    explained = 0.5 * n * (variance - np.log(np.maximum(variance, 1e-300)) - level)
    price = 0.5 * math.log(n) + math.log(d) if data.common else 0.0  # of a level of its own, for one of d columns
    lowered = (now.noise != data.noise)[data.varies]
    counted: Booleans = (run.support > 0.5) | lowered
    return float(run.log_evidence - np.maximum(explained - price, 0.0)[counted].sum())
