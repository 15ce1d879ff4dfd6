"""The bulk that several steps on finite batches leave behind: a chain of Gaussian
vectors, one link for each step.

finite_batches_several_steps section 4, whose equations are cited by number. A row of
block q is a linear function of independent noises, so that the read-out needs the
covariance of Gaussian vectors tau^0, ..., tau^T, the weighted sums of the rows after
every step. With conjugate fields h^1, ..., h^T this is one Gaussian measure with K = k
(2T + 1) fields for each coordinate. Step t couples the 2k fields (tau^{t-1}, h^t) by a
matrix L that depends on the sample.

Notation. All fields are scaled: tau_q = |R_q|^1/2 times that of the page, h_q =
|R_q|^-1/2. Then nothing depends on R but W = |R|^1/2 Vh1 |R|^1/2, and (4.3), (4.4)
read, with C_t the block of C for the fields of step t,

    H = H0(W) + sum_t E_t[Lt],  Lt = L (I + C_t L/alpha_t)^-1,  C = H^-1
    R_q D_q + (C_TT W)_qq = beta_q,   S = beta V1 = |R|^1/2 C_TT |R|^1/2

R has one sign on the real axis; outside the bulk of a spectrum it is negative, and
`sign` then stands in H0 and L. `g` of a response holds the blocks C_t.

finite_batches_several_steps section 5, in the scaled fields of `chain`. Every special
direction a carries K numbers om_a, every direction of batch noise K multipliers et_j
too, and every block scalars y^t, yh^t for the fluctuation of the row norms. All of them
are one formal Gaussian with the exponent -X^T Gm X/2. A step enters it as

    E_t[v^T Lt v], v = sum_a zeta_a om_a - C sum_j F_j et_j/sqrt(alpha_t) on the fields
    of the step,

which is (5.1) and (5.2) in one square. P is a part of the inverse of Gm, which is
indefinite by construction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.solve import solve_each
from giantstep.core.maths.stacked import Stacked, small_inverse, small_product
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.features import MANY_NODES, packing
from giantstep.core.readout.newton_bulk import (
    Inside,
    Motion,
    MotionTangents,
    NewtonBulk,
    packed_directions,
    pair_operator,
    real_root,
)

VALUES = 1_000_000
"""Entries of the matrices at the nodes (8 MB) of all points that are solved
together.
"""
MOST_POINTS = 48
"""Points that are solved together at most, so that those that need more steps do not
hold the others up.
"""


@dataclass(frozen=True)
class ChainStep(Stacked):
    """One step on a batch of alpha_t d samples, as averages over a sample of it at J
    nodes, for B points.

    The functions of a sample that are needed, in this order: zeta, its coordinates
    along `frame`, and F_1.., which span what the batch adds in new directions (2.2).
    `first` is the number of directions before the step.
    """

    inverse: Floats  # (B,): 1/alpha_t, 0 for the population
    keep: Floats  # (B,): what the step leaves of the rows
    slope: Floats  # (B, k, J): r2 of (3.1)
    noise: Floats  # (B, k, J): e_q^2 res^2 v_q
    weights: Floats  # (B, J)
    pairs: Floats  # (B, P, J): weights times products of two of the functions, a <= b
    # (B, first, Z): the directions of zeta, in the coordinates before the step
    frame: Floats
    gain: Floats  # (B, k), (3.2)
    spread: Floats  # (B, k): what (5.3) has at (yh, yh)
    carried: Floats  # (B, k, D): coordinates of s fl
    own: Floats  # (B, k, D): coordinates of s^3 fy
    bent: Floats  # (B, k, D): coordinates of e res D_3/2

    @property
    def first(self) -> int:
        """Number of directions before the step."""
        return self.frame.shape[1]

    @property
    def fresh(self) -> int:
        """Number of directions that the batch adds: functions of a sample beside
        zeta.
        """
        return int(np.sqrt(2 * self.pairs.shape[1])) - self.frame.shape[2]

    def padded(self, nodes: int) -> ChainStep:
        """Return the step with this many nodes; those that are added have no weight."""
        more = [(0, 0), (0, nodes - self.weights.shape[1])]
        if not more[1][1]:
            return self
        wide = {
            name: np.pad(getattr(self, name), [(0, 0), *more])
            for name in ("slope", "noise", "pairs")
        }
        return dataclasses.replace(self, weights=np.pad(self.weights, more), **wide)


@dataclass(frozen=True)
class ChainBulk(NewtonBulk):
    """The bulk after some steps, for B points with k blocks, each with one of M
    parameter sets of one shape.

    The tables of the sets are kept once; those of the points at hand are looked up when
    they are asked for.
    """

    of_sets: tuple[ChainStep, ...]
    norms_of_sets: Floats  # (M, T + 1, k): c_q after every step
    asked: Floats  # (M, D, n): the directions that are asked for
    targets: int  # directions of the target, the first ones
    gaussian_rows: bool  # whether the rows were Gaussian at the start
    owner: Integers  # (B,): which set a point has

    max_steps: ClassVar[int] = 300
    cold_steps: ClassVar[int] = 6
    nearly: ClassVar[float] = 1e-9
    shared: ClassVar[tuple[str, ...]] = (
        "of_sets",
        "norms_of_sets",
        "asked",
        "targets",
        "gaussian_rows",
    )

    @cached_property
    def steps(self) -> tuple[ChainStep, ...]:
        """The steps of every point; tables that all points share are kept once."""
        if len(self.owner) > 1 and np.ptp(self.owner) == 0:
            return tuple(
                step.take(self.owner[:1]).for_all(len(self.owner))
                for step in self.of_sets
            )
        return tuple(step.take(self.owner) for step in self.of_sets)

    @cached_property
    def norms(self) -> Floats:
        """c_q of every point after every step (B, T + 1, k)."""
        return np.asarray(self.norms_of_sets[self.owner])

    @property
    def directions(self) -> Floats:
        """The directions that are asked for, of every point (B, D, n)."""
        return np.asarray(self.asked[self.owner])

    @property
    def row_norm(self) -> Floats:
        """Squared norm of the bulk rows (B, k)."""
        return self.norms[:, -1]

    @property
    def nodes(self) -> int:
        """The largest number of nodes of a step."""
        return max(step.weights.shape[1] for step in self.of_sets)

    @property
    def kin(self) -> object:
        """The shape, in which nodes do not count: they are padded; None where they are
        many.
        """
        steps = tuple(
            (step.first, step.frame.shape[2], step.fresh) for step in self.of_sets
        )
        shape = (
            steps,
            self.norms_of_sets.shape[1:],
            self.asked.shape[1:],
            self.targets,
            self.gaussian_rows,
        )
        return None if self.nodes > MANY_NODES else shape

    @classmethod
    def stack(cls, bulks: Sequence[ChainBulk], owner: Integers) -> ChainBulk:
        """Return the bulk of points that have ``bulks[owner[b]]``, each of one set."""
        if len(bulks) == 1:
            return dataclasses.replace(bulks[0], owner=owner)
        steps = []
        for links in zip(*(bulk.of_sets for bulk in bulks)):
            nodes = max(link.weights.shape[1] for link in links)
            steps.append(ChainStep.join([link.padded(nodes) for link in links]))
        norms, asked = (
            np.concatenate([getattr(bulk, name) for bulk in bulks])
            for name in ("norms_of_sets", "asked")
        )
        return dataclasses.replace(
            bulks[0],
            of_sets=tuple(steps),
            norms_of_sets=norms,
            asked=asked,
            owner=owner,
        )

    @property
    def chunk(self) -> int:
        """How many points to solve together."""
        return int(
            np.clip(
                VALUES // (self.nodes * 4 * self.norms_of_sets.shape[2] ** 2),
                1,
                MOST_POINTS,
            )
        )

    def fields(self, step: int) -> Integers:
        """Return where the fields (tau^{t-1}, h^t) of a step are, counted from 0, among
        all K.
        """
        k = self.norms.shape[2]
        last = len(self.steps)
        return np.concatenate(
            [step * k + np.arange(k), (last + 1 + step) * k + np.arange(k)]
        )

    @property
    def ends(self) -> Integers:
        """Where tau^T is among the fields."""
        k = self.norms.shape[2]
        return len(self.steps) * k + np.arange(k)

    def start(self, a: Array, block_width: Floats) -> Response:
        """Return a start without the blocks: `solve` guesses them, knowing Vh1."""
        size = 2 * block_width.shape[1]
        return Response.at_zero(
            a, block_width, np.full((len(a), len(self.steps), size, size), np.nan)
        )

    def guess(self, inside: Inside) -> tuple[Array, Array]:
        """Return where a cold solve starts: rows of the norms they have, without
        response.
        """
        k = inside.D.shape[1]
        size = 2 * inside.D.shape[1]
        R = inside.block_width / (
            inside.D + np.einsum("bqq->bq", inside.Vh1) * self.row_norm
        )
        blocks = np.zeros((len(R), len(self.steps), size, size), R.dtype)
        blocks[:, :, range(k), range(k)] = self.norms[:, :-1]
        return blocks, R

    def motion(self, g: Array, R: Array, inside: Inside) -> Motion:
        """Evaluate (4.3), (4.4) at the blocks and R, and linearise them (4.6)."""
        state = ChainState.at(self, g, R, inside.Vh1)
        image = np.stack(
            [state.block(own, own) for own in map(self.fields, range(len(self.steps)))],
            axis=1,
        )
        missed = image - g
        missed_R = R * inside.D + state.paid - inside.block_width
        size = np.max(np.abs(missed), axis=(1, 2, 3)) / np.max(
            np.abs(image), axis=(1, 2, 3)
        )
        size = np.maximum(size, np.max(np.abs(missed_R) / inside.block_width, axis=1))
        matrix, operators, of_log = _linearised(self, state, R, inside.D)
        count, k = R.shape
        dVh1 = packed_directions(k)
        pairs = len(dVh1) - k
        directions = len(dVh1) + 1
        unknown = missed[0].size
        dW = np.zeros((count, directions, k, k), matrix.dtype)
        dW[:, :-1] = state.scale[:, None] * dVh1
        moved, moved_R = _from_W(self, state, dW)
        right = np.concatenate(
            [moved.reshape(count, directions, -1), -moved_R], axis=2
        ).swapaxes(1, 2)
        q = np.arange(k)
        right[:, unknown + q, pairs + q] -= R
        right[:, :unknown, -1], right[:, unknown:, -1] = (
            missed.reshape(count, -1),
            -missed_R,
        )
        change = solve_each(matrix, right).swapaxes(1, 2)
        shape = (count, directions, *missed.shape[1:])
        dblocks = change[:, :, :unknown].reshape(shape)
        dlog = change[:, :, unknown:]
        dW = dW + np.einsum("baq,bqij->baij", dlog, of_log)
        dH = np.zeros((count, directions, *state.H.shape[1:]), dW.dtype)
        for t, operator in enumerate(operators):
            own = self.fields(t)
            flat = dblocks[:, :, t].reshape(count, directions, -1, 1)
            dH[:, :, own[:, None], own] -= (operator[:, None] @ flat).reshape(
                count, directions, *missed.shape[2:]
            )
        ends = self.ends
        dH[:, :, ends[:, None], ends] += dW
        out = state.C[:, ends][:, None]
        dS = -out @ dH @ np.swapaxes(out, 2, 3)
        S = state.response
        dS = (
            state.scale[:, None] * dS
            + 0.5 * (dlog[:, :, :, None] + dlog[:, :, None, :]) * S[:, None]
        )
        plain_R = inside.block_width / (inside.D + state.paid / R)
        return Motion(
            size, g + missed, plain_R, S, dblocks, dlog, dlog * R[:, None], dS, dH
        )

    def tangents(self, response: Response) -> ChainTangents:
        """Return how the blocks, R and S move with Vh1 and D."""
        return ChainTangents(response, self.motion_of(response), self)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P of (5.4), which has counted the directions as the rest of the bulk:
        Vh1 each.
        """
        (count, k), n = response.R.shape, self.directions.shape[2]
        absorbed = np.zeros((count, (n + 1) * k, (n + 1) * k), response.Vh1.dtype)
        for direction in range(n):
            part = slice(direction * k, (direction + 1) * k)
            absorbed[:, part, part] = response.Vh1
        return self.signal(response).covariance(), absorbed

    def signal(self, response: Response) -> ChainSignal:
        """Return the response along the special directions, which the inner solution
        keeps.
        """
        if response.known is None:
            response.known = ChainSignal.at(
                self, ChainState.at(self, response.g, response.R, response.Vh1)
            )
        return cast(ChainSignal, response.known)


@dataclass
class ChainState:
    """The matrices of (4.1)-(4.3) at given blocks, R and Vh1; everything has a leading
    axis of points.
    """

    bulk: ChainBulk
    root: Array  # (B, k): |R|^1/2
    sign: Array  # (B,)
    W: Array  # (B, k, k)
    links: list[Array]  # Lt of every step at its nodes (B, J, 2k, 2k)
    means: list[Array]  # E_t[Lt] (B, 2k, 2k)
    H: Array  # (B, K, K)
    C: Array

    @classmethod
    def at(cls, bulk: ChainBulk, blocks: Array, R: Array, Vh1: Array) -> ChainState:
        """Evaluate the matrices."""
        k = R.shape[1]
        last = len(bulk.steps)
        root, sign = real_root(R)
        W = root[:, :, None] * Vh1 * root[:, None, :]
        size = k * (2 * last + 1)
        H = np.zeros((len(R), size, size), np.result_type(R, Vh1, blocks))
        q = np.arange(k)
        H[:, q, q] = sign[:, None]
        H[:, last * k : (last + 1) * k, last * k : (last + 1) * k] += W
        links = []
        means = []
        for t, step in enumerate(bulk.steps):
            before = t * k + q
            here = (t + 1) * k + q
            h = (last + 1 + t) * k + q
            H[:, h, here] = H[:, here, h] = -1.0
            H[:, h, before] = H[:, before, h] = step.keep[:, None]
            link = _link(step, blocks[:, t], sign)
            mean = (step.weights[:, None] @ link.reshape(*link.shape[:2], -1))[
                :, 0
            ].reshape(len(R), 2 * k, 2 * k)
            own = bulk.fields(t)
            H[:, own[:, None], own] += mean
            links.append(link)
            means.append(mean)
        return cls(bulk, root, sign, W, links, means, H, small_inverse(H))

    def block(self, rows: Integers, columns: Integers) -> Array:
        """Return a block of C (B, rows, columns)."""
        return self.C[:, rows[:, None], columns]

    @property
    def scale(self) -> Array:
        """What turns a scaled matrix of tau^T into that of the page: |R_q|^1/2
        |R_q'|^1/2 (B, k, k).
        """
        return self.root[:, :, None] * self.root[:, None, :]

    @property
    def response(self) -> Array:
        """S = beta V1 (B, k, k)."""
        S = self.scale * self.block(self.bulk.ends, self.bulk.ends)
        return 0.5 * (S + np.swapaxes(S, 1, 2))

    @cached_property
    def paid(self) -> Array:
        """(C_TT W)_qq (B, k)."""
        return np.einsum(
            "bij,bji->bi", self.block(self.bulk.ends, self.bulk.ends), self.W
        )


def _link(step: ChainStep, block: Array, sign: Array) -> Array:
    """Return Lt = L (I + C L/alpha)^-1 at the nodes (B, J, 2k, 2k), (4.2) and (4.3)."""
    (count, k, nodes), dtype = step.slope.shape, block.dtype
    slope = np.swapaxes(step.slope, 1, 2)
    noise = np.swapaxes(step.noise, 1, 2)
    L = np.zeros((count, nodes, 2 * k, 2 * k), dtype)
    q = np.arange(k)
    L[:, :, q, k + q] = L[:, :, k + q, q] = slope
    inverse = step.inverse[:, None, None]
    L[:, :, k + q, k + q] = own = -sign[:, None, None] * inverse * noise
    if not step.inverse.any():
        return L
    C = (block * inverse)[:, None]
    slope = slope[:, :, None]
    moved = np.concatenate(
        [C[..., k:] * slope, C[..., :k] * slope + C[..., k:] * own[:, :, None]], axis=3
    )
    moved[:, :, np.arange(2 * k), np.arange(2 * k)] += 1.0
    if k == 1:
        return small_product(L, small_inverse(moved))
    return solve_each(moved.swapaxes(2, 3), L).swapaxes(2, 3)


def _sandwich(left: Array, right: Array, operator: Array) -> Array:
    """Return the matrix of X -> left Op(X) right on flattened X."""
    count = left.shape[0]
    rows = left.shape[1]
    columns = right.shape[2]
    both = left[:, :, None, :, None] * np.swapaxes(right, 1, 2)[:, None, :, None, :]
    return np.asarray(both.reshape(count, rows * columns, -1) @ operator)


def _linearised(
    bulk: ChainBulk, state: ChainState, R: Array, D: Array
) -> tuple[Array, list[Array], Array]:
    """Return (4.6), the Jacobian of the mismatch in (blocks, log R): (B, T 4k^2 + k,
    same), and its parts.

    Blocks move H by -sum_t E_t[Lt dC_t Lt]/alpha_t, X -> E_t[Lt X Lt]/alpha_t of every
    step; log R moves W, the last.
    """
    (count, k), steps = R.shape, len(bulk.steps)
    square = 4 * k * k
    ends = bulk.ends
    weights = [step.weights * step.inverse[:, None] for step in bulk.steps]
    operators = [
        pair_operator(*of_step) for of_step in zip(weights, state.links, state.links)
    ]
    own = [bulk.fields(t) for t in range(steps)]
    matrix = np.zeros(
        (count, steps * square + k, steps * square + k), np.result_type(state.C, R)
    )
    for s, operator in enumerate(operators):
        column = slice(s * square, (s + 1) * square)
        for t in range(steps):
            matrix[:, t * square : (t + 1) * square, column] = -_sandwich(
                state.block(own[t], own[s]), state.block(own[s], own[t]), operator
            )
        response = _sandwich(
            state.block(ends, own[s]), state.block(own[s], ends), operator
        )
        response = response.reshape(count, k, k, square)
        matrix[:, steps * square :, column] = np.einsum(
            "bijx,bji->bix", response, state.W
        )
    diagonal = np.arange(steps * square)
    matrix[:, diagonal, diagonal] += 1.0
    of_log = np.zeros((count, k, k, k), state.W.dtype)
    for block in range(k):
        of_log[:, block, block] += 0.5 * state.W[:, block]
        of_log[:, block, :, block] += 0.5 * state.W[:, :, block]
    moved, moved_R = _from_W(bulk, state, of_log)
    matrix[:, : steps * square, steps * square :] = -moved.reshape(
        count, k, -1
    ).swapaxes(1, 2)
    matrix[:, steps * square :, steps * square :] = moved_R.swapaxes(1, 2)
    q = np.arange(k)
    matrix[:, steps * square + q, steps * square + q] += R * D
    return matrix, operators, of_log


def _from_W(bulk: ChainBulk, state: ChainState, dW: Array) -> tuple[Array, Array]:
    """Return how the image of the blocks (B, A, T, 2k, 2k) and (C_TT W)_qq (B, A, k)
    move with dW (B, A, k, k).
    """
    ends = bulk.ends
    blocks = [
        -state.block(own, ends)[:, None] @ dW @ state.block(ends, own)[:, None]
        for own in map(bulk.fields, range(len(bulk.steps)))
    ]
    S = state.block(ends, ends)[:, None]
    moved = S @ dW - S @ dW @ S @ state.W[:, None]
    return np.stack(blocks, axis=2), np.einsum("baii->bai", moved)


@dataclass
class ChainTangents(MotionTangents):
    """How the inner solution moves with Vh1 and D."""

    bulk: ChainBulk

    def push(
        self, omega: Floats, x: Floats, dual: Floats, paid: Floats
    ) -> tuple[Array, Array]:
        """Return -dE of (6.4): E moves by dual^T dP dual + sum_directions x^T dVh1 x +
        sum paid dR/R^2.
        """
        (count, k), packed, motion = (
            self.response.R.shape,
            packing(self.response.R.shape[1]),
            self.motion,
        )
        along = x[:, :-k].reshape(count, -1, k)
        assert motion.dH is not None
        dE = self.bulk.signal(self.response).moved(
            dual, motion.dg[:, :-1], motion.dlog[:, :-1], motion.dH[:, :-1]
        )
        dE += np.einsum("aij,bni,bnj->ba", packed_directions(k), along, along)
        dE += (motion.dlog[:, :-1] @ (paid / self.response.R)[:, :, None])[:, :, 0]
        return packed.unpack(-dE / packed.multiplicity)


# -- The signal after several steps on finite batches: the covariance P of its coordinat


@dataclass
class ChainSignal:
    """Gm at an inner solution, and what it says of the directions that are asked
    for.
    """

    bulk: ChainBulk
    state: ChainState
    products: list[
        Array
        # E_t[f_a f_b Lt] of the functions of every step (B, functions, functions, 2k,
        # 2k)
    ]
    # the columns of Gm^-1 for the coordinates that are asked for (B, rows, X)
    inverse: Array

    @classmethod
    def at(cls, bulk: ChainBulk, state: ChainState) -> ChainSignal:
        """Build Gm, (5.1)-(5.3), and solve."""
        products = [
            _products(step.pairs, link) for step, link in zip(bulk.steps, state.links)
        ]
        Gm = _matrix(bulk, state, products)
        asked = _selection(bulk, Gm.shape[1])
        scale = 1 / np.sqrt(np.max(np.abs(Gm), axis=2))
        scaled = Gm * scale[:, :, None] * scale[:, None, :]
        inverse = scale[:, :, None] * solve_each(scaled, scale[:, :, None] * asked)
        return cls(bulk, state, products, inverse)

    @cached_property
    def scaled_covariance(self) -> Array:
        """P of the scaled fields (B, X, X)."""
        asked = _selection(self.bulk, self.inverse.shape[1])
        P = np.swapaxes(asked, 1, 2) @ self.inverse
        return 0.5 * (P + np.swapaxes(P, 1, 2))

    @cached_property
    def roots(self) -> Array:
        """|R|^1/2 for every coordinate (B, X)."""
        return np.tile(self.state.root, (1, self.bulk.directions.shape[2] + 1))

    def covariance(self) -> Array:
        """Return P (B, X, X): directions, then y, block fastest (5.4)."""
        return self.roots[:, :, None] * self.scaled_covariance * self.roots[:, None, :]

    def moved(self, dual: Floats, blocks: Array, log_R: Array, dH: Array) -> Array:
        """Return how dual^T P dual moves along directions A: -y^T dGm y, Gm y = dual,
        beside the scale of fields.
        """
        bulk = self.bulk
        state = self.state
        count, k = state.root.shape
        scaled = self.roots * dual
        y = (self.inverse @ scaled[:, :, None])[:, :, 0]
        of_log = scaled * (self.scaled_covariance @ scaled[:, :, None])[:, :, 0]
        change = (log_R @ of_log.reshape(count, -1, k).sum(axis=1)[:, :, None])[:, :, 0]
        D = bulk.asked.shape[1]
        K = state.C.shape[1]
        # of every direction, et of those of batch noise
        om = y[:, : D * K].reshape(count, D, K)
        et = y[:, D * K : (2 * D - bulk.targets) * K].reshape(count, -1, K)
        of_H = _square(om[:, : bulk.targets])
        of_C = -_square(et)
        for t, (step, link) in enumerate(zip(bulk.steps, state.links)):
            own = bulk.fields(t)
            root = np.sqrt(step.inverse)[:, None, None]
            along = np.swapaxes(step.frame, 1, 2) @ om[:, : step.first][:, :, own]
            of_H[:, own[:, None], own] -= _square(along)
            noise = et[
                :, step.first - bulk.targets : step.first - bulk.targets + step.fresh
            ]
            carried = -root * (noise @ np.swapaxes(state.C[:, own], 1, 2))
            # for each of its functions (B, F, 2k)
            v = np.concatenate([along, carried], axis=1)
            of_block = (link @ _at_nodes(step.pairs, v, link.shape) @ link).sum(
                axis=1
            ) * root**2
            # minus the minus of dGm
            change += np.einsum("baij,bij->ba", blocks[:, :, t], of_block)
            met = np.einsum("bfgij,bgj->bfi", self.products[t][:, along.shape[1] :], v)
            of_C[:, own] -= 2 * root * np.swapaxes(met, 1, 2) @ noise
        dC = -state.C[:, None] @ dH @ state.C[:, None]
        change -= np.einsum("baij,bij->ba", dH, of_H) + np.einsum(
            "baij,bij->ba", dC, of_C
        )
        return np.asarray(change)


def _products(pairs: Floats, link: Array) -> Array:
    """Return E_t[f_a f_b Lt] of all functions (B, F, F, 2k, 2k)."""
    count, nodes, size, _ = link.shape
    packed = (pairs @ link.reshape(count, nodes, size * size)).reshape(
        count, -1, size, size
    )
    functions = int(np.sqrt(2 * pairs.shape[1]))
    rows, columns = np.triu_indices(functions)
    out = np.empty((count, functions, functions, size, size), packed.dtype)
    out[:, rows, columns] = out[:, columns, rows] = packed
    return out


def _at_nodes(pairs: Floats, v: Array, shape: tuple[int, ...]) -> Array:
    """Return at every node the weighted mean of v v^T, v = sum_a f_a v_a (B, J, 2k,
    2k).
    """
    rows, columns = np.triu_indices(v.shape[1])
    outer = v[:, rows, :, None] * v[:, columns, None, :]
    outer = outer + np.where(rows == columns, 0.0, 1.0)[:, None, None] * np.swapaxes(
        outer, 2, 3
    )
    return np.asarray(
        (np.swapaxes(pairs, 1, 2) @ outer.reshape(*outer.shape[:2], -1)).reshape(shape)
    )


def _square(rows: Array) -> Array:
    """Return sum_a rows_a rows_a^T (B, K, K)."""
    return np.asarray(np.swapaxes(rows, 1, 2) @ rows)


def _matrix(bulk: ChainBulk, state: ChainState, products: list[Array]) -> Array:
    """Return Gm (B, rows, rows): om of every direction, et of those of batch noise,
    y^1.., yh^1.., and y^0.
    """
    steps, (count, k) = len(bulk.steps), state.root.shape
    D = bulk.asked.shape[1]
    targets = bulk.targets
    K = state.C.shape[1]
    base = (2 * D - targets) * K
    rows = base + 2 * steps * k + (k if bulk.gaussian_rows else 0)
    Gm = np.zeros((count, rows, rows), state.C.dtype)
    om = np.arange(D * K).reshape(D, K)
    # by direction
    et = np.pad(
        D * K + np.arange((D - targets) * K).reshape(-1, K), ((targets, 0), (0, 0))
    )
    q = np.arange(k)
    sign = state.sign[:, None]
    for a in range(targets):
        Gm[:, om[a][:, None], om[a]] += state.H
    for t, step in enumerate(bulk.steps):
        own = bulk.fields(t)
        seen = step.frame.shape[2]
        first = step.first
        frame = step.frame
        product = products[t]
        inside = np.einsum(
            "bxa,baeij,bye->bxyij",
            frame,
            product[:, :seen, :seen],
            frame,
            optimize=True,
        )
        inside -= (frame @ np.swapaxes(frame, 1, 2))[..., None, None] * state.means[t][
            :, None, None
        ]
        size = first * len(own)
        old = om[:first][:, own].ravel()
        Gm[:, old[:, None], old] += inside.transpose(0, 1, 3, 2, 4).reshape(
            count, size, size
        )
        if step.fresh:
            new = et[first : first + step.fresh].ravel()
            root = np.sqrt(step.inverse)[:, None, None, None, None]
            C = state.C[:, own][:, None, None]
            both = root**2 * (np.swapaxes(C, 3, 4) @ product[:, seen:, seen:] @ C)
            Gm[:, new[:, None], new] += both.transpose(0, 1, 3, 2, 4).reshape(
                count, len(new), len(new)
            )
            cross = -root * np.einsum(
                "bfeij,bxe->bfxij", product[:, seen:, :seen], frame
            )
            cross = (
                (np.swapaxes(C, 3, 4) @ cross)
                .transpose(0, 1, 3, 2, 4)
                .reshape(count, len(new), size)
            )
            Gm[:, new[:, None], old] += cross
            Gm[:, old[:, None], new] += np.swapaxes(cross, 1, 2)
            for direction in range(first, first + step.fresh):
                Gm[:, et[direction][:, None], et[direction]] -= state.C
                Gm[:, et[direction], om[direction]] = Gm[
                    :, om[direction], et[direction]
                ] = -1.0
        y = base + t * k + q
        yh = base + (steps + t) * k + q
        before = base + (t - 1) * k + q if t else base + 2 * steps * k + q
        Gm[:, yh, y] = Gm[:, y, yh] = -1.0
        Gm[:, yh, yh] = -sign * step.spread
        _couple(Gm, yh, om[: step.carried.shape[2], own[:k]], step.carried)
        _couple(Gm, yh, om[: step.own.shape[2], own[k:]], -sign[:, :, None] * step.own)
        if t or bulk.gaussian_rows:
            Gm[:, yh, before] = Gm[:, before, yh] = step.gain
            _couple(Gm, before, om[: step.bent.shape[2], own[k:]], step.bent)
    if bulk.gaussian_rows:
        begin = base + 2 * steps * k + q
        Gm[:, begin, begin] = 0.5 * sign
    return Gm


def _couple(Gm: Array, scalars: Array, fields: Array, coordinates: Array) -> None:
    """Put the coordinates (B, k, D) between scalars (k,) and the fields (D, k) of their
    own block.
    """
    for block, scalar in enumerate(scalars):
        Gm[:, scalar, fields[:, block]] += coordinates[:, block]
        Gm[:, fields[:, block], scalar] += coordinates[:, block]


def _selection(bulk: ChainBulk, rows: int) -> Floats:
    """Return the coordinates that are asked for as columns (B, rows, X): directions of
    tau^T, then y^T.
    """
    count, D, n = bulk.directions.shape
    k = bulk.norms.shape[2]
    steps = len(bulk.steps)
    K = (2 * steps + 1) * k
    asked = np.zeros((count, rows, (n + 1) * k))
    for q in range(k):
        where = np.arange(D) * K + steps * k + q
        asked[:, where[:, None], np.arange(n) * k + q] = bulk.directions
        asked[:, (2 * D - bulk.targets) * K + (steps - 1) * k + q, n * k + q] = 1.0
    return asked
