"""Bulks whose inner equations are solved by Newton in (g, R): what the chain of batches
and the sign step share.

`g` is what a bulk keeps beside R (`Response.g`). A Newton step that makes the mismatch
grow is taken back and followed by a few steps of the plain map, which converges from
far away.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from giantstep.core.base.types import Array, Booleans, Floats
from giantstep.core.maths.solve import OpenPoints
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Response, Tangents
from giantstep.core.readout.features import packing
from giantstep.core.readout.finite_size import AlongMeans

PLAIN_STEPS = 6
"""Steps of the plain map after a Newton step that failed."""
NEAR = 1e-2
"""Mismatch from which one more Newton step is good enough for `near`."""
SOLVED = 1e-14
"""Relative mismatch that is rounding."""
STALLED = 1e-11
"""Relative mismatch from which one that no longer falls is rounding."""


class Inside(NamedTuple):
    """What the inner equations are asked for: Vh1 (B, k, k), D and beta_q (B, k)."""

    Vh1: Array
    D: Array
    block_width: Floats

    def take(self, index: Any) -> Inside:
        """Return the points in `index`."""
        return Inside(*(values[index] for values in self))


@dataclass
class Motion(Stacked):
    """How an inner solution moves along the packed directions of (Vh1, D): pairs q <=
    q', then D_q.

    One more direction, the last one, is Newton's step to where the inner equations are
    solved.
    """

    size: Floats  # relative mismatch of the inner equations (B,)
    plain_g: Array
    plain_R: Array  # where the plain map leads
    S: Array  # (B, k, k)
    dg: Array  # (B, K + 1, ...)
    dlog: Array  # (B, K + 1, k): of log R
    dR: Array  # (B, K + 1, k)
    dS: Array  # (B, K + 1, k, k)
    dH: Array | None = None  # (B, K + 1, ., .): of a matrix that the bulk needs later

    def newton(self, g: Array, R: Array) -> tuple[Array, Array]:
        """Return where Newton's step leads from (g, R); R is NaN where it is too long
        to be trusted.
        """
        near = np.max(np.abs(self.dlog[:, -1]), axis=1) < 1
        new_R = np.where(near[:, None], R + self.dR[:, -1], np.nan)
        return g + self.dg[:, -1], new_R

    def carry(self, response: Response) -> Response:
        """Return the response after Newton's step, with the motion, which `tangents`
        asks for next.
        """
        dS = self.dS[:, -1]
        moved = dataclasses.replace(
            response,
            R=response.R + self.dR[:, -1],
            # S is symmetric, its step only up to what the step leaves out
            S=response.S + 0.5 * (dS + np.swapaxes(dS, 1, 2)),
            g=response.g + self.dg[:, -1],
        )
        moved.motion = self
        return moved


class NewtonBulk(Stacked):
    """A bulk that says where its plain map and Newton's step lead, and how its solution
    moves.
    """

    packed_only: ClassVar[bool] = True
    max_steps: ClassVar[int]
    # plain steps before the first one of Newton, for a cold start
    cold_steps: ClassVar[int] = 0
    # mismatch from which one more Newton step ends the iteration
    nearly: ClassVar[float] = 0.0

    @abstractmethod
    def guess(self, inside: Inside) -> tuple[Array, Array]:
        """Return the (g, R) that a cold solve starts from."""

    @abstractmethod
    def motion(self, g: Array, R: Array, inside: Inside) -> Motion:
        """Evaluate the inner equations and linearise them; one factorisation serves all
        directions.
        """

    def solve(
        self,
        Vh1: Array,
        D: Array,
        block_width: Floats,
        start: Response,
        near: bool = False,
    ) -> Response:
        """Solve the inner equations by Newton; with `near` one step from the start,
        where it is close enough.
        """
        g = np.array(start.g, np.result_type(D, start.g))
        R = np.array(start.R)
        inside = Inside(Vh1, D, block_width)
        # a start without g is a cold one
        cold = np.isnan(g).reshape(len(g), -1).any(axis=1)
        if cold.any():
            g[cold], R[cold] = self.take(cold).guess(inside.take(cold))
        motion = self.motion(g, R, inside)
        ending = NEAR if near else self.nearly
        # a mismatch that is not a number is far, too
        far = np.flatnonzero(~(motion.size < ending))
        if far.size:
            part = self.take(far)
            part_inside = inside.take(far)
            g[far], R[far] = part._iterate(
                part_inside, g[far], R[far], cold[far], ending, motion.take(far)
            )
            # points that a warm start leads astray start once more, cold
            lost = far[~np.isfinite(R[far]).all(axis=1) & ~cold[far]]
            if lost.size:
                g[lost], R[lost] = self.take(lost)._solve_cold(
                    inside.take(lost), ending
                )
            motion.put(far, part.motion(g[far], R[far], part_inside))
        # the last step costs nothing: the motion along it is known
        return motion.carry(Response(R, motion.S, g, Vh1, D, block_width))

    def _solve_cold(self, inside: Inside, ending: float) -> tuple[Array, Array]:
        """Solve all points from a guess."""
        g, R = self.guess(inside)
        cold = np.ones(len(R), bool)
        return self._iterate(inside, g, R, cold, ending, self.motion(g, R, inside))

    def _iterate(
        self,
        inside: Inside,
        g: Array,
        R: Array,
        cold: Booleans,
        ending: float,
        motion: Motion,
    ) -> tuple[Array, Array]:
        """Solve from (g, R), where the `motion` is known, until one more Newton step is
        good enough.
        """
        g = np.array(g)
        R = np.array(R)
        # where a point goes when its Newton step fails
        safe_g = g.copy()
        safe_R = R.copy()
        last = np.full(len(R), np.inf)
        # steps of the plain map that are still to be taken
        patience = np.where(cold, self.cold_steps, 0)
        points = OpenPoints(len(R), self.max_steps)
        for active in points:
            size = motion.size
            next_g, next_R = motion.newton(g[active], R[active])
            # a mismatch that grew takes the step back; plain steps may make it grow
            worse = ~(size < 2 * last[active]) & (patience[active] == 0)
            stalled = (size < STALLED) & (size > 0.3 * last[active])
            done = (size < SOLVED) | stalled
            plain = (patience[active] > 0) | ~np.isfinite(next_R).all(axis=1)
            next_g[plain] = motion.plain_g[plain]
            next_R[plain] = motion.plain_R[plain]
            next_g[worse] = safe_g[active[worse]]
            next_R[worse] = safe_R[active[worse]]
            fine = active[~worse]
            safe_g[fine] = motion.plain_g[~worse]
            safe_R[fine] = motion.plain_R[~worse]
            left = np.maximum(patience[active] - 1, 0)
            patience[active] = np.where(worse, PLAIN_STEPS, left)
            last[active] = np.where(worse, np.inf, size)
            moving = active[~done]
            g[moving] = next_g[~done]
            R[moving] = next_R[~done]
            # after a Newton step from so near no other one is needed
            ends_here = (size <= ending) & ~plain & ~worse
            points.freeze(done | ends_here)
            active = points.active
            if active.size:
                motion = self.take(active).motion(
                    g[active], R[active], inside.take(active)
                )
        return g, R

    def motion_of(self, response: Response) -> Motion:
        """Return how the solution behind a response moves."""
        if response.motion is not None:
            return response.motion
        inside = Inside(response.Vh1, response.D, response.block_width)
        return self.motion(response.g, response.R, inside)

    def along_means(self, response: Response) -> AlongMeans:
        """Nothing is known of the means after such steps: those of independent rows
        stand.
        """
        raise NotImplementedError


@dataclass
class MotionTangents(Tangents):
    """How the inner solution moves with Vh1 and D."""

    response: Response
    motion: Motion

    @cached_property
    def matrix(self) -> Array:
        """-d(S, R)/d(Vh1, D) in packed coordinates (B, K, K)."""
        packed = packing(self.response.R.shape[1])
        # the last direction is Newton's own step
        dS = self.motion.dS[:, :-1]
        dR = self.motion.dR[:, :-1]
        dS_packed = dS[:, :, packed.rows, packed.columns]
        return -np.concatenate([dS_packed, dR], axis=2).swapaxes(1, 2)

    def apply(self, A: Array, e: Array) -> tuple[Array, Array]:
        """Return -d(S, R) along dVh1 = A, dD = e."""
        packed = packing(e.shape[1])
        return packed.unpack((self.matrix @ packed.pack(A, e)[:, :, None])[:, :, 0])


def packed_directions(k: int) -> Floats:
    """Return dVh1 along the packed directions (A, k, k); zero along those of D."""
    rows = packing(k).rows
    columns = packing(k).columns
    pair = np.arange(len(rows))
    directions = np.zeros((len(rows) + k, k, k))
    # a symmetric matrix moves in both of its entries
    directions[pair, rows, columns] = 1.0
    directions[pair, columns, rows] = 1.0
    return directions


def pair_operator(weights: Array, left: Array, right: Array) -> Array:
    """Return the matrix of X -> sum_n weights_n left_n X right_n on flattened X, (B,
    M^2, M^2).
    """
    count, nodes, size, _ = left.shape
    flat = left.reshape(count, nodes, -1) * weights[:, :, None]
    # X_cd goes to (a, b): sum_n left_ac right_db, first as [(a, c), (d, b)]
    products = np.swapaxes(flat, 1, 2) @ right.reshape(count, nodes, -1)
    products = products.reshape(count, size, size, size, size)
    return products.transpose(0, 1, 4, 2, 3).reshape(count, size * size, size * size)


def real_root(R: Array) -> tuple[Array, Array]:
    """Return |R|^1/2 (B, k) and the sign of R (B,), which all R of a point have in
    common; 1 for complex ones.
    """
    if np.iscomplexobj(R):
        return np.sqrt(R), np.ones(len(R))
    sign = np.sign(R[:, 0])
    return np.sqrt(sign[:, None] * R), sign
