"""Three and more directions by quasi-random points, with standard errors: bayes_multi_index section 5.

One sample of everything, a scramble, makes state evolution a deterministic map, which is iterated to its fixed point;
means and standard errors are taken over independent scrambles. What is learnt is never read off such an iteration:
M stays in the subspace of the directions whose thresholds say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from scipy.special import ndtri

from giantstep.deadline import check_time
from giantstep.families.bayes_limit.reading import TargetReading
from giantstep.families.bayes_limit.tolerances import LARGEST_OVERLAP, SAMPLED_SETTLED, TINY
from giantstep.gaussian import semidefinite_factor
from giantstep.gaussian.quadrature import legendre_rule
from giantstep.types import Array, Floats

SCRAMBLES = 6
"""Independent scrambles behind a standard error, bayes_multi_index section 5."""
_SIZES = {"labels": (8, 10), "noisy": (12, 6)}
"""Logarithms (base 2) of the numbers of (omega, z) and of the nodes z of a posterior mean; labels are summed over."""
_SWEEPS = 150
"""Sweeps to a fixed point at most."""
_WAY = 6
"""Nodes on the way to an overlap matrix along which Psi is integrated."""


class Scramble(NamedTuple):
    """One scramble: standard normal points, the same for every M."""

    omega: Floats  # (N, r)
    truth: Floats  # (N, r), of z given omega
    noise: Floats  # (N,), of y given z
    inner: tuple[Floats, Floats]
    """Two independent sets (N, n, r) of nodes z given omega: the square of one would be biased."""


def draw(rank: int, seed: int, noisy: bool) -> Scramble:
    """Return one scramble; every omega has its own shift of the nodes."""
    rng = np.random.default_rng([seed, rank, 19])
    many, few = _SIZES["noisy" if noisy else "labels"]
    outer = scipy.stats.qmc.Sobol(2 * rank + 1, rng=rng).random_base2(many)
    base = scipy.stats.qmc.Sobol(rank, rng=rng).random_base2(few)
    shifts = rng.random((2, len(outer), 1, rank))
    inner = [_normal((base + shift) % 1.0) for shift in shifts]
    points = _normal(outer)
    return Scramble(points[:, :rank], points[:, rank : 2 * rank], points[:, -1], (inner[0], inner[1]))


def _normal(uniform: Array) -> Floats:
    return np.asarray(ndtri(np.clip(uniform, 1e-15, 1 - 1e-15)))


@dataclass(frozen=True)
class SampledChannel:
    """A channel of r directions on one scramble."""

    reading: TargetReading
    noise: float
    flip: float
    points: Scramble

    def _posterior(self, M: Floats) -> tuple[Floats, Floats, list[Floats], list[Floats]]:
        """Return omega, the square root of V, the nodes of both sets minus omega, and g at them."""
        root = _symmetric_root(np.eye(len(M)) - M)
        omega = self.points.omega @ semidefinite_factor(M).T
        away = [nodes @ root for nodes in self.points.inner]
        values = [np.asarray(self.reading.inner(omega[:, None] + shift), dtype=float) for shift in away]
        return omega, root, away, values

    def _labels(self, g: Floats, away: Floats) -> tuple[Floats, Floats]:
        """Return P(label) (N, K) and E[z - omega; label] (N, K, r) over the nodes g (N, n) of every omega."""
        labels = np.asarray(self.reading.labels)
        (N, n), K = g.shape, len(labels)
        kind = np.searchsorted(0.5 * (labels[1:] + labels[:-1]), g)
        cell = (np.arange(N)[:, None] * K + kind).ravel()
        P = np.bincount(cell, minlength=N * K).reshape(N, K) / n
        columns = [np.bincount(cell, away[..., a].ravel(), N * K).reshape(N, K) / n for a in range(away.shape[2])]
        S, others = np.stack(columns, axis=2), self.flip / (K - 1)
        return others + (1 - self.flip - others) * P, others * S.sum(axis=1)[:, None] + (1 - self.flip - others) * S

    def information(self, M: Floats) -> Floats:
        """Return I(M), bayes_multi_index (2), from two independent posterior means of every sample."""
        omega, root, away, values = self._posterior(M)
        V_inverse = np.linalg.inv(root @ root)
        if self.noise > 0:
            z = omega + self.points.truth @ root
            y = np.asarray(self.reading.inner(z), dtype=float) + np.sqrt(self.noise) * self.points.noise
            likelihoods = [np.exp(-((y[:, None] - g) ** 2) / (2 * self.noise)) for g in values]
            means = [_weighted(likelihood, shift) for likelihood, shift in zip(likelihoods, away)]
            product = means[0].T @ means[1] / len(omega)
        else:
            product = self._summed_over_labels(values, away)
        information = V_inverse @ product @ V_inverse
        return self._symmetric(0.5 * (information + information.T), M)

    def _summed_over_labels(self, values: list[Floats], away: list[Floats]) -> Floats:
        """Return E[S S^T/Z] from two sets; two halves of the nodes remove the bias of order 1/n of 1/Z."""
        half = values[0].shape[1] // 2
        tables = [
            [self._labels(g[:, part], shift[:, part]) for part in _halves(half)] for g, shift in zip(values, away)
        ]

        def ratio(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> Floats:
            Z = np.maximum(0.5 * (first[0] + second[0]), TINY)
            summed = np.einsum("Nka,Nkb,Nk->ab", first[1], second[1], 1 / Z, optimize=True)
            return np.asarray(summed / len(Z))

        whole = [tuple(0.5 * (a + b) for a, b in zip(*table)) for table in tables]
        halves = [ratio(tables[0][i], tables[1][i]) for i in range(2)]
        return np.asarray(2 * ratio(*whole) - 0.5 * (halves[0] + halves[1]))

    def _symmetric(self, information: Floats, M: Floats) -> Floats:
        """Return the mean over the reflections of the target that leave M as it is: what they forbid is zero."""
        signs = [np.ones(len(M)), *(np.array(signs) for signs in self.reading.reflections)]
        turns = [np.outer(sign, sign) for sign in signs]
        kept = [turn * information for turn in turns if np.array_equal(turn * M, M)]
        return np.asarray(np.mean(kept, axis=0))

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best square error and the best fraction of wrong labels (NaN where there are none)."""
        _, _, away, values = self._posterior(M)
        if self.noise > 0 or self.reading.labels is None:
            first, second = (g.mean(axis=1) for g in values)
            square = 0.5 * float(np.mean(values[0] ** 2) + np.mean(values[1] ** 2))
            return self.noise + max(0.0, square - float(np.mean(first * second))), np.nan
        labels = np.asarray(self.reading.labels)
        first, second = (self._labels(g, shift)[0] for g, shift in zip(values, away))
        square = 0.5 * float(np.mean((first + second) @ labels**2))
        mse = square - float(np.mean((first @ labels) * (second @ labels)))
        chosen = [np.take_along_axis(b, a.argmax(axis=1)[:, None], 1) for a, b in ((first, second), (second, first))]
        # the label that one set chooses is too bad on the other, that of both too good on both: their mean errs least
        apart = 0.5 * float(np.mean(chosen[0]) + np.mean(chosen[1]))
        pooled = 0.5 * float(np.mean(np.max(first + second, axis=1)))
        return mse, 1 - 0.5 * (apart + pooled)

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution, bayes_multi_index (3)."""
        r = len(M)
        sizes, vectors = np.linalg.eigh(self.information(moved_inside(M)))
        precision = (vectors * np.maximum(alpha * sizes, 0.0)) @ vectors.T
        return np.eye(r) - np.linalg.inv(np.eye(r) + precision)

    def coarser(self) -> SampledChannel:
        """Return the channel with half of the nodes of every posterior mean; it moves about as far as their bias."""
        half = self.points.inner[0].shape[1] // 2
        first, second = (nodes[:, :half] for nodes in self.points.inner)
        return SampledChannel(self.reading, self.noise, self.flip, self.points._replace(inner=(first, second)))

    def slopes(self, M: Floats) -> Floats:
        """Return what parts of the way from 0 to M add to Psi: dPsi/dM = I/2, bayes_multi_index (2)."""
        way, weights = legendre_rule(_WAY)
        return np.array([0.5 * w * float(np.trace(self.information(s * M) @ M)) for s, w in zip(way, weights)])

    def settle(self, M: Floats, alpha: float, rows: Floats) -> tuple[Floats, bool]:
        """Return the fixed point reached from M inside the span of the orthonormal `rows`, and whether it settled."""
        project, previous = rows.T @ rows, np.zeros_like(M)
        for _ in range(_SWEEPS):
            check_time()
            new = project @ self.step(M, alpha) @ project
            change = new - M
            if np.abs(change).max() < SAMPLED_SETTLED:
                return new, True
            alternates = float((previous * change).sum()) < 0
            M, previous = (0.5 * (new + M) if alternates else new), change
        return M, False


def _weighted(weights: Floats, away: Floats) -> Floats:
    """Return the weighted means of z - omega (N, r), a ratio whose bias of order 1/n two halves of the nodes remove."""
    half = weights.shape[1] // 2
    sums = np.stack([np.einsum("Nn,Nna->Na", weights[:, part], away[:, part]) for part in _halves(half)])
    sizes = np.stack([weights[:, part].sum(axis=1) for part in _halves(half)])[..., None]
    whole = sums.sum(axis=0) / np.maximum(sizes.sum(axis=0), TINY)
    return np.asarray(2 * whole - (sums / np.maximum(sizes, TINY)).mean(axis=0))


def _halves(half: int) -> tuple[slice, slice]:
    return slice(0, half), slice(half, 2 * half)


def moved_inside(M: Floats) -> Floats:
    """Return the symmetric matrix with eigenvalues moved into [0, 1)."""
    M = 0.5 * (M + M.T)
    sizes, vectors = np.linalg.eigh(M)
    if sizes[0] >= 0 and sizes[-1] < LARGEST_OVERLAP:
        return M
    return np.asarray((vectors * np.clip(sizes, 0.0, LARGEST_OVERLAP)) @ vectors.T)


def _symmetric_root(V: Floats) -> Floats:
    sizes, vectors = np.linalg.eigh(V)
    return np.asarray((vectors * np.sqrt(np.maximum(sizes, 1e-12))) @ vectors.T)
