"""Three and more directions: at which n/d each is learnt, from tables along one axis
(bayes_multi_index section 4).

Overlaps and errors are sampled, inside the subspace that these thresholds allow: one
sample of everything, a scramble, makes state evolution a deterministic map, which is
iterated to its fixed point; means and standard errors are taken over independent
scrambles. What is learnt is never read off such an iteration: M stays in the subspace
of the directions whose thresholds say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
import scipy
from scipy.special import ndtri

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.gaussian import semidefinite_factor
from giantstep.core.maths.gaussian.grids import broken_rule, hermite_rule
from giantstep.core.maths.gaussian.joint import sobol_normals
from giantstep.core.maths.gaussian.quadrature import legendre_rule, normal_density
from giantstep.problems.bayes_limit.noisy import Y_BLOCK, likelihood_sums, y_step
from giantstep.problems.bayes_limit.pairs import Slab, line_rule
from giantstep.problems.bayes_limit.reading import TargetReading
from giantstep.problems.bayes_limit.stages import BranchSolution, Staged, moved_inside
from giantstep.problems.bayes_limit.tolerances import (
    LARGEST_OVERLAP,
    SAMPLED_SAME,
    SAMPLED_SETTLED,
    SEEN,
    TINY,
    TOLD,
    VISIBLE,
)

_MOST = 4_000_000_000
"""Likelihoods (z, y) that are summed up to a table at most, those of light points
counted.
"""
_LIGHT = 1e-16
"""Weight of points below which they are left out."""
_PIECE = 10
"""Nodes between two breaks along an axis on which the target is constant there: moments
up to degree 19 are exact.
"""
_SEED = 0.02
_KNOWLEDGE = 0.9
"""Overlaps at which state evolution starts without and with knowledge."""


@dataclass(eq=False)
class AxisChannel:
    """A channel of three and more directions, tabulated along coordinate axes."""

    reading: TargetReading
    noise: float
    flip: float
    _slabs: dict[int, Slab] = field(default_factory=dict)

    @cached_property
    def _breaks(self) -> list[Floats]:
        """Where the target is not smooth along each axis; planes across the axes are
        refused.
        """
        breaks: list[list[float]] = [[] for _ in range(self.reading.rank)]
        for plane in self.reading.inner.planes:
            axes = np.flatnonzero(np.abs(plane.normal) > 1e-12)
            if len(axes) > 1:
                raise InputError(
                    f"The target {self.reading.target.name} has three or more"
                    " directions and kinks or jumps across the axes; its thresholds"
                    " are known where all of them are at fixed values of one z."
                )
            breaks[int(axes[0])].append(-plane.offset / plane.normal[axes[0]])
        return [np.unique(np.array(points)) for points in breaks]

    def _step(self, axis: int) -> float:
        return float(
            np.clip(
                0.3 * np.sqrt(self.noise) / max(float(self.reading.slopes[axis]), 1e-9),
                0.02,
                0.15,
            )
        )

    def _axis_rule(self, axis: int) -> tuple[Array, Array]:
        """Return nodes and weights of N(0, 1) along an axis: few where the target is
        constant between its breaks.
        """
        if self.reading.slopes[axis] < 1e-9:
            if len(self._breaks[axis]):
                return broken_rule(self._breaks[axis].tolist(), _PIECE)
            return hermite_rule(_PIECE)
        z, weights = line_rule(self._breaks[axis], self._step(axis))
        return z, weights * normal_density(z)

    @cached_property
    def _outputs(self) -> tuple[Floats, Floats]:
        """Nodes y and weights dy, or the labels and ones."""
        if self.noise == 0:
            labels = np.asarray(self.reading.labels)
            return labels, np.ones(len(labels))
        dy = y_step(self.noise, self.reading.jump)
        y = self.reading.outputs(VISIBLE, 8 * float(np.sqrt(self.noise)), dy)
        return y, np.full(len(y), dy)

    def _summed(self, g: Floats, columns: Floats) -> Floats:
        """Return sum_n columns_n P(y|g_n) over values g (N,) of the target, (C, Y) for
        columns (N, C).
        """
        y, _ = self._outputs
        if self.noise == 0:
            own = np.abs(g[:, None] - y) < 1e-9
            return np.asarray(
                columns.T @ np.where(own, 1 - self.flip, self.flip / (len(y) - 1))
            )
        order = np.argsort(g)
        summed = np.zeros((columns.shape[1], len(y)))
        for part, seen in likelihood_sums(columns[order].T, g[order], y, self.noise):
            summed[:, seen] = part
        return summed

    def slab(self, direction: Floats) -> Slab | None:
        """Return the tables along a coordinate axis, the other axes averaged out; None
        along other directions.
        """
        axis = int(np.argmax(np.abs(direction)))
        if axis not in self._slabs and abs(direction[axis]) >= 1 - 1e-9:
            self._slabs[axis] = self._tabulate(axis)
        return self._slabs[axis] if abs(direction[axis]) >= 1 - 1e-9 else None

    def _tabulate(self, axis: int) -> Slab:
        r = self.reading.rank
        others = [a for a in range(r) if a != axis]
        rules = [self._axis_rule(a) for a in others]
        z, dz = line_rule(
            self._breaks[axis], self._step(axis) if self.noise > 0 else 0.06
        )
        y, measure = self._outputs
        D = len(others)
        places = math.prod(len(nodes) for nodes, _ in rules) * len(z)
        if self.noise == 0:
            seen = len(y)
        else:
            seen = min(
                len(y), Y_BLOCK + int(2 * SEEN * np.sqrt(self.noise) / measure[0])
            )
        if places * seen > _MOST:  # tables that would take minutes
            raise InputError(
                f"The thresholds of the target {self.reading.target.name} would take"
                f" too long ({places:.1e} points of its smooth directions): more noise,"
                " or fewer directions along which it is smooth."
            )
        points = np.stack(
            np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij"), axis=-1
        ).reshape(-1, D)
        weights = reduce(np.multiply.outer, [along for _, along in rules]).ravel()
        points = points[weights > _LIGHT]
        weights = weights[weights > _LIGHT]
        second = (points[:, :, None] * points[:, None, :] - np.eye(D)).reshape(
            len(points), D * D
        )
        columns = (
            np.concatenate([np.ones((len(points), 1)), points, second], axis=1)
            * weights[:, None]
        )
        tables = np.empty((len(z), columns.shape[1], len(y)))
        full = np.empty((len(points), r))
        full[:, others] = points
        for row, place in enumerate(z):
            likely = weights * normal_density(place) > _LIGHT * 0.1
            full[:, axis] = place
            tables[row] = self._summed(
                np.asarray(self.reading.inner(full[likely]), dtype=float),
                columns[likely],
            )
        moments = np.moveaxis(tables, 1, 2)
        second = moments[..., 1 + D :].reshape(len(z), len(y), D, D)
        return Slab(
            z,
            dz,
            np.eye(r)[others],
            moments[..., 0],
            moments[..., 1 : 1 + D],
            second,
            measure,
        )


class ManyDirections(Staged):
    """A problem of three and more directions: thresholds by tables, overlaps and errors
    by sampling.
    """

    channel: AxisChannel
    seconds = 6.0

    def __init__(self, reading: TargetReading, noise: float, flip: float) -> None:
        super().__init__(reading, AxisChannel(reading, noise, flip))
        self._channels: dict[int, list[SampledChannel]] = {}

    def channels(self, seed: int) -> list[SampledChannel]:
        """Return the channel on independent scrambles; the last ones are kept."""
        if seed not in self._channels:
            reading = self.reading
            noise = self.channel.noise
            flip = self.channel.flip
            scrambles = [
                draw(reading.rank, SCRAMBLES * seed + number, noise > 0)
                for number in range(SCRAMBLES)
            ]
            self._channels = {
                seed: [
                    SampledChannel(reading, noise, flip, points) for points in scrambles
                ]
            }
        return self._channels[seed]

    def solve(self, alpha: float, seed: int) -> BranchSolution:
        """Return both branches on every scramble, and the one of larger free entropy
        where the samples tell it.
        """
        r = self.reading.rank
        rows = self.learnt_rows(alpha)
        if any(math.isnan(stage.alpha) for stage in self.stages):
            return _unknown("it is not known which directions are learnt at this n/d")
        seeds = np.diag(_SEED * np.linspace(1.0, 0.8, len(rows)))
        branches = []
        settled = True
        for channel in self.channels(seed):
            low, done = channel.settle(rows.T @ seeds @ rows, alpha, rows)
            high, held = channel.settle(_KNOWLEDGE * np.eye(r), alpha, np.eye(r))
            branches.append((low, high))
            settled = settled and done and held
        M = np.array(branches)
        sizes = np.linalg.eigvalsh(rows @ M[:, 0] @ rows.T)
        if len(rows) and bool(
            np.any(sizes.mean(axis=0) < TOLD * sizes.std(axis=0) / math.sqrt(SCRAMBLES))
        ):
            return _unknown("too near to a threshold for sampled overlaps")
        if not settled:
            return _unknown("state evolution did not settle")
        gaps = np.trace(M[:, 1] - M[:, 0], axis1=1, axis2=2)
        same = (
            gaps.mean() < TOLD * gaps.std(ddof=1) / math.sqrt(SCRAMBLES) + SAMPLED_SAME
        )
        phi, moved = self._entropies(M[:, :1] if same else M, alpha, seed)
        both = np.zeros(2, dtype=int) if same else np.arange(2)
        phi = phi[:, both]
        moved = moved[:, both]
        (gain,), (doubt,) = _with_bias(
            phi[:, 1:] - phi[:, :1], moved[:, 1:] - moved[:, :1]
        )
        told = same or abs(gain) > TOLD * doubt
        better = int(gain > 0)
        best = M[:, better] if told else np.full_like(M[:, 0], np.nan)
        values, errors = _with_bias(phi, moved)
        if told:
            last = (values[better], errors[better])
        else:
            last = (math.nan, math.nan)
        return BranchSolution(
            np.stack([*M.swapaxes(0, 1), best], axis=1),
            *np.column_stack([(values, errors), last]),
        )

    @cached_property
    def entropy_at_zero(self) -> float:
        """Psi(0), from the tables along one axis."""
        slab = self.channel.slab(np.eye(self.reading.rank)[0])
        assert slab is not None
        return slab.entropy

    def _entropies(self, M: Floats, alpha: float, seed: int) -> tuple[Floats, Floats]:
        """Return phi (S, N) of matrices (S, N, r, r), bayes_multi_index (4), and how
        far it moves (S, N, parts).
        """
        # Psi is summed up on the way from 0 to M; it moves, on every part of the way,
        # with half of the nodes of every posterior mean: a bias that all scrambles
        # share
        scrambles = self.channels(seed)
        M = np.minimum(M, LARGEST_OVERLAP)
        fine, coarse = (
            np.array(
                [
                    [channel.slopes(x) for x in path]
                    for channel, path in zip(channels, M)
                ]
            )
            for channels in (scrambles, [channel.coarser() for channel in scrambles])
        )
        plain = (
            0.5 * np.trace(M, axis1=2, axis2=3)
            + 0.5 * np.linalg.slogdet(np.eye(M.shape[-1]) - M)[1]
        )
        return plain + alpha * (self.entropy_at_zero + fine.sum(axis=2)), alpha * (
            coarse - fine
        )


def _unknown(status: str) -> BranchSolution:
    return BranchSolution(np.empty(0), np.empty(0), status=status)


def _with_bias(runs: Floats, moved: Floats) -> tuple[Floats, Floats]:
    """Return means over scrambles (S, N) and their errors: the standard error, and a
    bias (S, N, parts) they share.
    """
    spread = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return runs.mean(axis=0), np.hypot(spread, np.abs(moved.mean(axis=0)).sum(axis=1))


# -- Three and more directions by quasi-random points ----------------------------------


SCRAMBLES = 6
"""Independent scrambles behind a standard error, bayes_multi_index section 5."""
_SIZES = {"labels": (8, 10), "noisy": (12, 6)}
"""Logarithms (base 2) of the numbers of (omega, z) and of the nodes z of a posterior
mean; labels are summed over.
"""
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
    """Two independent sets (N, n, r) of nodes z given omega: the square of one would be
    biased.
    """


def draw(rank: int, seed: int, noisy: bool) -> Scramble:
    """Return one scramble; every omega has its own shift of the nodes."""
    rng = np.random.default_rng([seed, rank, 19])
    many, few = _SIZES["noisy" if noisy else "labels"]
    points = sobol_normals(2 * rank + 1, many, rng)
    base = scipy.stats.qmc.Sobol(rank, rng=rng).random_base2(few)
    shifts = rng.random((2, len(points), 1, rank))
    inner = [
        np.asarray(ndtri(np.clip((base + shift) % 1.0, 1e-15, 1 - 1e-15)))
        for shift in shifts
    ]
    return Scramble(
        points[:, :rank],
        points[:, rank : 2 * rank],
        points[:, -1],
        (inner[0], inner[1]),
    )


@dataclass(frozen=True)
class SampledChannel:
    """A channel of r directions on one scramble."""

    reading: TargetReading
    noise: float
    flip: float
    points: Scramble

    def _posterior(
        self, M: Floats
    ) -> tuple[Floats, Floats, list[Floats], list[Floats]]:
        """Return omega, the square root of V, the nodes of both sets minus omega, and g
        at them.
        """
        sizes, vectors = np.linalg.eigh(np.eye(len(M)) - M)
        root = (vectors * np.sqrt(np.maximum(sizes, 1e-12))) @ vectors.T
        omega = self.points.omega @ semidefinite_factor(M).T
        away = [nodes @ root for nodes in self.points.inner]
        values = [
            np.asarray(self.reading.inner(omega[:, None] + shift), dtype=float)
            for shift in away
        ]
        return omega, root, away, values

    def _labels(self, g: Floats, away: Floats) -> tuple[Floats, Floats]:
        """Return P(label) (N, K) and E[z - omega; label] (N, K, r) over the nodes g
        (N, n) of every omega.
        """
        labels = np.asarray(self.reading.labels)
        (N, n), K = g.shape, len(labels)
        kind = np.searchsorted(0.5 * (labels[1:] + labels[:-1]), g)
        cell = (np.arange(N)[:, None] * K + kind).ravel()
        P = np.bincount(cell, minlength=N * K).reshape(N, K) / n
        columns = [
            np.bincount(cell, away[..., a].ravel(), N * K).reshape(N, K) / n
            for a in range(away.shape[2])
        ]
        S = np.stack(columns, axis=2)
        others = self.flip / (K - 1)
        return (
            others + (1 - self.flip - others) * P,
            others * S.sum(axis=1)[:, None] + (1 - self.flip - others) * S,
        )

    def information(self, M: Floats) -> Floats:
        """Return I(M), bayes_multi_index (2), from two independent posterior means of
        every sample.
        """
        omega, root, away, values = self._posterior(M)
        V_inverse = np.linalg.inv(root @ root)
        if self.noise > 0:
            z = omega + self.points.truth @ root
            y = (
                np.asarray(self.reading.inner(z), dtype=float)
                + np.sqrt(self.noise) * self.points.noise
            )
            likelihoods = [
                np.exp(-((y[:, None] - g) ** 2) / (2 * self.noise)) for g in values
            ]
            halves = _halves(values[0].shape[1] // 2)
            means = []
            for weights, shift in zip(
                likelihoods, away
            ):  # two halves of the nodes remove the bias of order 1/n
                sums = np.stack(
                    [
                        np.einsum("Nn,Nna->Na", weights[:, part], shift[:, part])
                        for part in halves
                    ]
                )
                sizes = np.stack([weights[:, part].sum(axis=1) for part in halves])[
                    ..., None
                ]
                whole = sums.sum(axis=0) / np.maximum(sizes.sum(axis=0), TINY)
                means.append(2 * whole - (sums / np.maximum(sizes, TINY)).mean(axis=0))
            product = means[0].T @ means[1] / len(omega)
        else:
            product = self._summed_over_labels(values, away)
        information = V_inverse @ product @ V_inverse
        return self._symmetric(0.5 * (information + information.T), M)

    def _summed_over_labels(self, values: list[Floats], away: list[Floats]) -> Floats:
        """Return E[S S^T/Z] from two sets; two halves of the nodes remove the bias of
        order 1/n of 1/Z.
        """
        half = values[0].shape[1] // 2
        tables = [
            [self._labels(g[:, part], shift[:, part]) for part in _halves(half)]
            for g, shift in zip(values, away)
        ]

        def ratio(
            first: tuple[Floats, Floats], second: tuple[Floats, Floats]
        ) -> Floats:
            Z = np.maximum(0.5 * (first[0] + second[0]), TINY)
            return np.asarray(
                np.einsum("Nka,Nkb,Nk->ab", first[1], second[1], 1 / Z, optimize=True)
                / len(Z)
            )

        whole = [tuple(0.5 * (a + b) for a, b in zip(*table)) for table in tables]
        halves = [ratio(tables[0][i], tables[1][i]) for i in range(2)]
        return np.asarray(2 * ratio(*whole) - 0.5 * (halves[0] + halves[1]))

    def _symmetric(self, information: Floats, M: Floats) -> Floats:
        """Return the mean over the reflections of the target that leave M as it is:
        what they forbid is zero.
        """
        signs = [
            np.ones(len(M)),
            *(np.array(signs) for signs in self.reading.reflections),
        ]
        turns = [np.outer(sign, sign) for sign in signs]
        kept = [turn * information for turn in turns if np.array_equal(turn * M, M)]
        return np.asarray(np.mean(kept, axis=0))

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best square error and the best fraction of wrong labels (NaN where
        there are none).
        """
        _, _, away, values = self._posterior(M)
        if self.noise > 0 or self.reading.labels is None:
            first, second = (g.mean(axis=1) for g in values)
            square = 0.5 * float(np.mean(values[0] ** 2) + np.mean(values[1] ** 2))
            return (
                self.noise + max(0.0, square - float(np.mean(first * second))),
                np.nan,
            )
        labels = np.asarray(self.reading.labels)
        first, second = (self._labels(g, shift)[0] for g, shift in zip(values, away))
        square = 0.5 * float(np.mean((first + second) @ labels**2))
        mse = square - float(np.mean((first @ labels) * (second @ labels)))
        chosen = [
            np.take_along_axis(b, a.argmax(axis=1)[:, None], 1)
            for a, b in ((first, second), (second, first))
        ]
        # the label that one set chooses is too bad on the other, that of both too good
        # on both: their mean errs least
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
        """Return the channel with half of the nodes of every posterior mean; it moves
        about as far as their bias.
        """
        half = self.points.inner[0].shape[1] // 2
        first, second = (nodes[:, :half] for nodes in self.points.inner)
        return SampledChannel(
            self.reading,
            self.noise,
            self.flip,
            self.points._replace(inner=(first, second)),
        )

    def slopes(self, M: Floats) -> Floats:
        """Return what parts of the way from 0 to M add to Psi: dPsi/dM = I/2,
        bayes_multi_index (2).
        """
        way, weights = legendre_rule(_WAY)
        return np.array(
            [
                0.5 * w * float(np.trace(self.information(s * M) @ M))
                for s, w in zip(way, weights)
            ]
        )

    def settle(self, M: Floats, alpha: float, rows: Floats) -> tuple[Floats, bool]:
        """Return the fixed point reached from M inside the span of the orthonormal
        `rows`, and whether it settled.
        """
        project = rows.T @ rows
        previous = np.zeros_like(M)
        for _ in range(_SWEEPS):
            check_time()
            new = project @ self.step(M, alpha) @ project
            change = new - M
            if np.abs(change).max() < SAMPLED_SETTLED:
                return new, True
            alternates = float((previous * change).sum()) < 0
            M = 0.5 * (new + M) if alternates else new
            previous = change
        return M, False


def _halves(half: int) -> tuple[slice, slice]:
    return slice(0, half), slice(half, 2 * half)
