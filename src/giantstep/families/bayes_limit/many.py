"""Three and more directions: at which n/d each is learnt, from tables along one axis (bayes_multi_index section 4).

Overlaps and errors are sampled (`sampled`), inside the subspace that these thresholds allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np

from giantstep.errors import InputError
from giantstep.families.bayes_limit.noisy import Y_BLOCK, likelihood_sums, y_step
from giantstep.families.bayes_limit.pairs import Slab, line_rule
from giantstep.families.bayes_limit.problem import BranchSolution, Staged
from giantstep.families.bayes_limit.reading import TargetReading
from giantstep.families.bayes_limit.sampled import SCRAMBLES, SampledChannel, draw
from giantstep.families.bayes_limit.stages import UnknownStage
from giantstep.families.bayes_limit.tolerances import LARGEST_OVERLAP, SAMPLED_SAME, SEEN, TOLD, VISIBLE
from giantstep.gaussian.grids import broken_rule, hermite_rule
from giantstep.gaussian.quadrature import normal_density
from giantstep.types import Array, Floats

_MOST = 4_000_000_000
"""Likelihoods (z, y) that are summed up to a table at most, those of light points counted."""
_LIGHT = 1e-16
"""Weight of points below which they are left out."""
_PIECE = 10
"""Nodes between two breaks along an axis on which the target is constant there: moments up to degree 19 are exact."""
_SEED, _KNOWLEDGE = 0.02, 0.9
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
        """Where the target is not smooth along each axis; planes across the axes are refused."""
        breaks: list[list[float]] = [[] for _ in range(self.reading.rank)]
        for plane in self.reading.inner.planes:
            axes = np.flatnonzero(np.abs(plane.normal) > 1e-12)
            if len(axes) > 1:
                raise InputError(
                    f"The target {self.reading.target.name} has three or more directions and kinks or jumps across the "
                    "axes; its thresholds are known where all of them are at fixed values of one z."
                )
            breaks[int(axes[0])].append(-plane.offset / plane.normal[axes[0]])
        return [np.unique(np.array(points)) for points in breaks]

    def _step(self, axis: int) -> float:
        return float(np.clip(0.3 * np.sqrt(self.noise) / max(float(self.reading.slopes[axis]), 1e-9), 0.02, 0.15))

    def _axis_rule(self, axis: int) -> tuple[Array, Array]:
        """Return nodes and weights of N(0, 1) along an axis: few where the target is constant between its breaks."""
        if self.reading.slopes[axis] < 1e-9:
            return broken_rule(self._breaks[axis].tolist(), _PIECE) if len(self._breaks[axis]) else hermite_rule(_PIECE)
        z, weights = line_rule(self._breaks[axis], self._step(axis))
        return z, weights * normal_density(z)

    @property
    def _dy(self) -> float:
        return y_step(self.noise, self.reading.jump)

    @cached_property
    def _outputs(self) -> tuple[Floats, Floats]:
        """Nodes y and weights dy, or the labels and ones."""
        if self.noise == 0:
            labels = np.asarray(self.reading.labels)
            return labels, np.ones(len(labels))
        y = self.reading.outputs(VISIBLE, 8 * float(np.sqrt(self.noise)), self._dy)
        return y, np.full(len(y), self._dy)

    def _summed(self, g: Floats, columns: Floats) -> Floats:
        """Return sum_n columns_n P(y|g_n) over values g (N,) of the target, (C, Y) for columns (N, C)."""
        y, _ = self._outputs
        if self.noise == 0:
            own = np.abs(g[:, None] - y) < 1e-9
            return np.asarray(columns.T @ np.where(own, 1 - self.flip, self.flip / (len(y) - 1)))
        order, summed = np.argsort(g), np.zeros((columns.shape[1], len(y)))
        for part, seen in likelihood_sums(columns[order].T, g[order], y, self.noise):
            summed[:, seen] = part
        return summed

    def slab(self, direction: Floats) -> Slab:
        """Return the tables along a coordinate axis, the other axes averaged out."""
        axis = int(np.argmax(np.abs(direction)))
        if abs(direction[axis]) < 1 - 1e-9:
            raise UnknownStage
        if axis not in self._slabs:
            self._slabs[axis] = self._tabulate(axis)
        return self._slabs[axis]

    def _tabulate(self, axis: int) -> Slab:
        r = self.reading.rank
        others = [a for a in range(r) if a != axis]
        rules = [self._axis_rule(a) for a in others]
        z, dz = line_rule(self._breaks[axis], self._step(axis) if self.noise > 0 else 0.06)
        y, measure = self._outputs
        D = len(others)
        self._check_size(math.prod(len(nodes) for nodes, _ in rules), len(z), len(y))
        points = np.stack(np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij"), axis=-1).reshape(-1, D)
        weights = reduce(np.multiply.outer, [along for _, along in rules]).ravel()
        points, weights = points[weights > _LIGHT], weights[weights > _LIGHT]
        second = (points[:, :, None] * points[:, None, :] - np.eye(D)).reshape(len(points), D * D)
        columns = np.concatenate([np.ones((len(points), 1)), points, second], axis=1) * weights[:, None]
        tables = np.empty((len(z), columns.shape[1], len(y)))
        full = np.empty((len(points), r))
        full[:, others] = points
        for row, place in enumerate(z):
            likely = weights * normal_density(place) > _LIGHT * 0.1
            full[:, axis] = place
            tables[row] = self._summed(np.asarray(self.reading.inner(full[likely]), dtype=float), columns[likely])
        moments = np.moveaxis(tables, 1, 2)
        second = moments[..., 1 + D :].reshape(len(z), len(y), D, D)
        return Slab(z, dz, np.eye(r)[others], moments[..., 0], moments[..., 1 : 1 + D], second, measure)

    def _check_size(self, points: int, rows: int, outputs: int) -> None:
        """Refuse tables that would take minutes."""
        seen = outputs if self.noise == 0 else min(outputs, Y_BLOCK + int(2 * SEEN * np.sqrt(self.noise) / self._dy))
        if points * rows * seen > _MOST:
            raise InputError(
                f"The thresholds of the target {self.reading.target.name} would take too long ({points * rows:.1e} "
                "points of its smooth directions): more noise, or fewer directions along which it is smooth."
            )


class ManyDirections(Staged):
    """A problem of three and more directions: thresholds by tables, overlaps and errors by sampling."""

    channel: AxisChannel
    seconds = 6.0

    def __init__(self, reading: TargetReading, noise: float, flip: float) -> None:
        super().__init__(reading, AxisChannel(reading, noise, flip))
        self._channels: dict[int, list[SampledChannel]] = {}

    def channels(self, seed: int) -> list[SampledChannel]:
        """Return the channel on independent scrambles; the last ones are kept."""
        if seed not in self._channels:
            reading, noise, flip = self.reading, self.channel.noise, self.channel.flip
            scrambles = [draw(reading.rank, SCRAMBLES * seed + number, noise > 0) for number in range(SCRAMBLES)]
            self._channels = {seed: [SampledChannel(reading, noise, flip, points) for points in scrambles]}
        return self._channels[seed]

    def solve(self, alpha: float, seed: int) -> BranchSolution:
        """Return both branches on every scramble, and the better one where the samples tell which it is.

        What is learnt is decided by the thresholds alone; the better branch is that of the larger free entropy.
        """
        r, rows = self.reading.rank, self.learnt_rows(alpha)
        if any(math.isnan(stage.alpha) for stage in self.stages):
            return _unknown("it is not known which directions are learnt at this n/d")
        seeds = np.diag(_SEED * np.linspace(1.0, 0.8, len(rows)))
        branches, settled = [], True
        for channel in self.channels(seed):
            low, done = channel.settle(rows.T @ seeds @ rows, alpha, rows)
            high, held = channel.settle(_KNOWLEDGE * np.eye(r), alpha, np.eye(r))
            branches.append((low, high))
            settled = settled and done and held
        M = np.array(branches)
        sizes = np.linalg.eigvalsh(rows @ M[:, 0] @ rows.T)
        if len(rows) and bool(np.any(sizes.mean(axis=0) < TOLD * sizes.std(axis=0) / math.sqrt(SCRAMBLES))):
            return _unknown("too near to a threshold for sampled overlaps")
        if not settled:
            return _unknown("state evolution did not settle")
        gaps = np.trace(M[:, 1] - M[:, 0], axis1=1, axis2=2)
        same = gaps.mean() < TOLD * gaps.std(ddof=1) / math.sqrt(SCRAMBLES) + SAMPLED_SAME
        phi, moved = self._entropies(M[:, :1] if same else M, alpha, seed)
        both = np.zeros(2, dtype=int) if same else np.arange(2)
        phi, moved = phi[:, both], moved[:, both]
        (gain,), (doubt,) = _with_bias(phi[:, 1:] - phi[:, :1], moved[:, 1:] - moved[:, :1])
        told, better = same or abs(gain) > TOLD * doubt, int(gain > 0)
        best = M[:, better] if told else np.full_like(M[:, 0], np.nan)
        values, errors = _with_bias(phi, moved)
        last = (values[better], errors[better]) if told else (math.nan, math.nan)
        return BranchSolution(np.stack([*M.swapaxes(0, 1), best], axis=1), *np.column_stack([(values, errors), last]))

    @cached_property
    def entropy_at_zero(self) -> float:
        """Psi(0), from the tables along one axis."""
        return self.channel.slab(np.eye(self.reading.rank)[0]).entropy

    def _entropies(self, M: Floats, alpha: float, seed: int) -> tuple[Floats, Floats]:
        """Return phi of matrices (S, N, r, r) on their scrambles, bayes_multi_index (4), and how far it moves.

        Psi is summed up on the way from 0 to M; (S, N) and, part by part of the way, (S, N, parts). The second is the
        change with half of the nodes of every posterior mean: a bias that all scrambles share.
        """
        scrambles, M = self.channels(seed), np.minimum(M, LARGEST_OVERLAP)
        fine, coarse = (
            np.array([[channel.slopes(x) for x in path] for channel, path in zip(channels, M)])
            for channels in (scrambles, [channel.coarser() for channel in scrambles])
        )
        plain = 0.5 * np.trace(M, axis1=2, axis2=3) + 0.5 * np.linalg.slogdet(np.eye(M.shape[-1]) - M)[1]
        return plain + alpha * (self.entropy_at_zero + fine.sum(axis=2)), alpha * (coarse - fine)


def _unknown(status: str) -> BranchSolution:
    return BranchSolution(np.empty(0), np.empty(0), status=status)


def _with_bias(runs: Floats, moved: Floats) -> tuple[Floats, Floats]:
    """Return means over scrambles (S, N) and their errors: the standard error, and a bias (S, N, parts) they share."""
    spread = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return runs.mean(axis=0), np.hypot(spread, np.abs(moved.mean(axis=0)).sum(axis=1))
