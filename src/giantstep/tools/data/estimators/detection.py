"""Whether clusters are more than noise: a test whose false-alarm rate holds for noise
of any law.

Noise here is columns that are independent of each other, each with rows in random
order: heavy tails, binary or counted columns, any units. Given its ranks, such a column
is a random permutation, whatever its law. Put in the place of every value the mean m_r
of the r-th smallest of n normal variables, r its rank (ties share the mean of theirs):
this is the conditional mean of a column of n normal variables given the ranks. The
likelihood ratio of clusters over unit normal noise is convex in the data, and its mean
over that noise is one, so by Jensen's inequality its mean over noise of any law is at
most one on these scores, and by Markov's

    P(log-evidence of the scores >= log(1/p)) <= p.

That is exact for given parameters; those learnt, and the Bethe form of the evidence,
are why the rate is also measured (``benchmarks/bench_clustering.py --noise``). Clusters
that make up most of a column leave less than unit noise in it, where the ratio is not
convex: for these a second look breaks ties at random, so that every column of noise is
a random permutation of the same normal scores. Ranks forget the variances of the
columns, which tell of weak clusters: where no test tells the columns from normal ones,
the bound is taken on the data themselves.
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import chdtrc, ndtri

from giantstep.core.base.types import Booleans, Floats
from giantstep.tools.data.estimators.matrices import Standardised

FALSE_ALARM = 0.01
"""Chance with which clusters are claimed in noise, at most."""
_FEWEST_ROWS = 20
_STRANGE = 1e-3
"""Rows from which on the test of normality is good, and its level."""


def normal_scores(matrix: Floats, rng: np.random.Generator | None = None) -> Floats:
    """Return the normal scores of the ranks in every column, by Blom's formula; a
    generator breaks ties at random.

    >>> normal_scores(np.array([[3.0, 1.0], [50.0, 0.0], [7.0, 1.0]])).round(3).tolist()
    [[-0.869, 0.435], [0.869, -0.869], [0.0, 0.435]]
    """
    n = len(matrix)
    levels = ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25))
    low, high = (
        stats.rankdata(matrix, method, axis=0).astype(np.intp) - 1
        for method in ("min", "max")
    )
    total = np.append(0.0, np.cumsum(levels))
    tied = low < high
    scores = np.where(
        tied, (total[high + 1] - total[low]) / (high + 1 - low), levels[low]
    )
    if rng is None:
        return scores
    for column in np.flatnonzero(tied.any(axis=0)):
        scores[np.lexsort(np.stack([rng.random(n), matrix[:, column]])), column] = (
            levels
        )
    return scores


def looks_normal(matrix: Floats) -> bool:
    """Tell whether columns, together and each, pass for normal in the test of
    D'Agostino and Pearson, at 0.1%.
    """
    n, d = matrix.shape
    if n < _FEWEST_ROWS or d == 0:
        return False
    with np.errstate(all="ignore"):
        squared, chance = stats.normaltest(matrix, axis=0)
    return bool(
        np.isfinite(squared).all()
        and min(chdtrc(2 * d, squared.sum()), d * chance.min()) > _STRANGE
    )


def score_columns(
    matrix: Floats, varies: Booleans, rng: np.random.Generator | None = None
) -> Standardised:
    """Return the scores of the columns that vary as data of unit noise, or of at most
    unit noise with ties broken.
    """
    scores = normal_scores(matrix[:, varies], rng)
    count = scores.shape[1]
    return Standardised(
        scores,
        np.zeros(count),
        np.ones(count),
        np.ones(count, bool),
        common=rng is None,
    )
