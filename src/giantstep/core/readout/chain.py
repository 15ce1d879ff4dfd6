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
`sign` then stands in H0 and L. `g` of a response holds the blocks C_t. Steps are
counted from 0 in the code: step t of the page is ``steps[t - 1]``.

The response along the special directions is that of `chain_signal`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.small_matrices import small_inverse, small_product
from giantstep.core.maths.solve import solve_each
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.chain_signal import ChainSignal
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
        # F functions have F (F + 1)/2 pairs, and F is the whole part of sqrt(2 pairs)
        functions = int(np.sqrt(2 * self.pairs.shape[1]))
        return functions - self.frame.shape[2]

    def padded(self, nodes: int) -> ChainStep:
        """Return the step with this many nodes; those that are added have no weight."""
        missing = nodes - self.weights.shape[1]
        if missing == 0:
            return self
        last_axis = (0, missing)
        tables = {
            name: np.pad(getattr(self, name), [(0, 0), (0, 0), last_axis])
            for name in ("slope", "noise", "pairs")
        }
        weights = np.pad(self.weights, [(0, 0), last_axis])
        return dataclasses.replace(self, weights=weights, **tables)


@dataclass(frozen=True)
class FieldLayout:
    """Where the fields of a chain stand among all K of them, block fastest: tau^0, ...,
    tau^T, then the conjugates h^1, ..., h^T.

    Steps are counted from 0, as in the code: step t leads from tau^t to tau^{t+1}, and
    its conjugate is h^{t+1}.
    """

    blocks: int
    steps: int

    @property
    def size(self) -> int:
        """K, the number of fields."""
        return self.blocks * (2 * self.steps + 1)

    def before(self, step: int) -> Integers:
        """Return where the rows before a step are (k,)."""
        return step * self.blocks + np.arange(self.blocks)

    def after(self, step: int) -> Integers:
        """Return where the rows after a step are (k,)."""
        return self.before(step + 1)

    def conjugate(self, step: int) -> Integers:
        """Return where the conjugate fields of a step are (k,)."""
        # T + 1 groups of tau stand before the first h
        return self.before(self.steps + 1 + step)

    def of_step(self, step: int) -> Integers:
        """Return where the fields that a step couples are (2k,): L acts on them."""
        return np.concatenate([self.before(step), self.conjugate(step)])

    @property
    def last(self) -> Integers:
        """Where tau^T is (k,), the rows that the fit sees."""
        return self.before(self.steps)


@dataclass(frozen=True)
class ChainBulk(NewtonBulk):
    """The bulk after some steps, for B points with k blocks, each with one of M
    parameter sets of one shape.

    The tables of the sets are kept once; those of the points at hand are looked up when
    they are asked for.
    """

    steps_of_sets: tuple[ChainStep, ...]
    norms_of_sets: Floats  # (M, T + 1, k): c_q after every step
    directions_of_sets: Floats  # (M, D, n): the directions along which P is wanted
    targets: int  # directions of the target, the first ones
    gaussian_rows: bool  # whether the rows were Gaussian at the start
    set_of_point: Integers  # (B,)

    max_steps: ClassVar[int] = 300
    cold_steps: ClassVar[int] = 6
    nearly: ClassVar[float] = 1e-9
    shared: ClassVar[tuple[str, ...]] = (
        "steps_of_sets",
        "norms_of_sets",
        "directions_of_sets",
        "targets",
        "gaussian_rows",
    )

    @cached_property
    def steps(self) -> tuple[ChainStep, ...]:
        """The steps of every point; tables that all points share are kept once."""
        count = len(self.set_of_point)
        one_set = count > 1 and np.ptp(self.set_of_point) == 0
        if not one_set:
            return tuple(step.take(self.set_of_point) for step in self.steps_of_sets)
        # a view of one table in place of copies: J nodes of 2k x 2k for each point
        first = self.set_of_point[:1]
        return tuple(step.take(first).for_all(count) for step in self.steps_of_sets)

    @cached_property
    def norms(self) -> Floats:
        """c_q of every point after every step (B, T + 1, k)."""
        return np.asarray(self.norms_of_sets[self.set_of_point])

    @property
    def directions(self) -> Floats:
        """The directions along which P is wanted, of every point (B, D, n)."""
        return np.asarray(self.directions_of_sets[self.set_of_point])

    @property
    def row_norm(self) -> Floats:
        """Squared norm of the bulk rows (B, k)."""
        return self.norms[:, -1]

    @property
    def blocks(self) -> int:
        """Number of blocks k."""
        return self.norms_of_sets.shape[2]

    @property
    def fields(self) -> FieldLayout:
        """Where the fields stand."""
        return FieldLayout(self.blocks, len(self.steps_of_sets))

    @property
    def nodes(self) -> int:
        """The largest number of nodes of a step."""
        return max(step.weights.shape[1] for step in self.steps_of_sets)

    @property
    def stack_key(self) -> object:
        """The shape, in which nodes do not count: they are padded; None where they are
        many.
        """
        if self.nodes > MANY_NODES:
            return None
        steps = tuple(
            (step.first, step.frame.shape[2], step.fresh) for step in self.steps_of_sets
        )
        return (
            steps,
            self.norms_of_sets.shape[1:],
            self.directions_of_sets.shape[1:],
            self.targets,
            self.gaussian_rows,
        )

    @classmethod
    def stack(cls, bulks: Sequence[ChainBulk], set_of_point: Integers) -> ChainBulk:
        """Return the bulk of points that have ``bulks[set_of_point[b]]``, each of one
        set.
        """
        if len(bulks) == 1:
            return dataclasses.replace(bulks[0], set_of_point=set_of_point)
        steps = []
        for links in zip(*(bulk.steps_of_sets for bulk in bulks)):
            # sets may have rules of different sizes, which one table has to hold
            nodes = max(link.weights.shape[1] for link in links)
            steps.append(ChainStep.join([link.padded(nodes) for link in links]))
        norms = np.concatenate([bulk.norms_of_sets for bulk in bulks])
        directions = np.concatenate([bulk.directions_of_sets for bulk in bulks])
        return dataclasses.replace(
            bulks[0],
            steps_of_sets=tuple(steps),
            norms_of_sets=norms,
            directions_of_sets=directions,
            set_of_point=set_of_point,
        )

    @property
    def chunk(self) -> int:
        """How many points to solve together."""
        values_of_point = self.nodes * 4 * self.blocks**2
        return int(np.clip(VALUES // values_of_point, 1, MOST_POINTS))

    def start(self, a: Array, block_width: Floats) -> Response:
        """Return a start without the blocks: `solve` guesses them, knowing Vh1."""
        size = 2 * block_width.shape[1]
        # NaN is how `solve` knows a cold start
        unknown = np.full((len(a), len(self.steps), size, size), np.nan)
        return Response.at_zero(a, block_width, unknown)

    def guess(self, inside: Inside) -> tuple[Array, Array]:
        """Return where a cold solve starts: rows of the norms they have, without
        response.
        """
        k = inside.D.shape[1]
        Vh1_of_block = np.einsum("bqq->bq", inside.Vh1)
        R = inside.block_width / (inside.D + Vh1_of_block * self.row_norm)
        blocks = np.zeros((len(R), len(self.steps), 2 * k, 2 * k), R.dtype)
        # C_{tau^t tau^t} = R c^t on the page: the scaled fields have no R
        q = range(k)
        blocks[:, :, q, q] = self.norms[:, :-1]
        return blocks, R

    def motion(self, g: Array, R: Array, inside: Inside) -> Motion:
        """Evaluate (4.3), (4.4) at the blocks and R, and linearise them (4.6)."""
        state = ChainState.at(self, g, R, inside.Vh1)
        image = state.image
        missed = image - g
        missed_R = R * inside.D + state.diagonal_CW - inside.block_width
        jacobian = ChainJacobian.at(state, R, inside.D)
        count, k = R.shape
        # the packed directions of (Vh1, D), then Newton's step, by one factorisation
        dVh1 = packed_directions(k)
        dW = np.zeros((count, len(dVh1) + 1, k, k), jacobian.matrix.dtype)
        dW[:, :-1] = state.scale[:, None] * dVh1
        dblocks, dlog = jacobian.solve(R, dW, missed, missed_R)
        # W = |R|^1/2 Vh1 |R|^1/2 moves with Vh1 at fixed R so far, and with log R
        dW = dW + np.einsum("baq,bqij->baij", dlog, jacobian.W_of_log)
        dH = jacobian.moved_H(dblocks, dW)
        S = state.response
        return Motion(
            size=_relative_size(missed, image, missed_R, inside.block_width),
            plain_g=g + missed,
            plain_R=inside.block_width / (inside.D + state.diagonal_CW / R),
            S=S,
            dg=dblocks,
            dlog=dlog,
            dR=dlog * R[:, None],
            dS=_moved_response(state, S, dlog, dH),
            dH=dH,
        )

    def tangents(self, response: Response) -> ChainTangents:
        """Return how the blocks, R and S move with Vh1 and D."""
        return ChainTangents(response, self.motion_of(response), self)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P of (5.4), which has counted the directions as the rest of the bulk:
        Vh1 each.
        """
        count, k = response.R.shape
        n = self.directions.shape[2]
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
            state = ChainState.at(self, response.g, response.R, response.Vh1)
            response.known = ChainSignal.at(self, state)
        return cast(ChainSignal, response.known)


def _relative_size(
    missed: Array, image: Array, missed_R: Array, block_width: Floats
) -> Floats:
    """Return by how much (4.3) or (4.4) is missed at most, relative (B,)."""
    of_blocks = np.max(np.abs(missed), axis=(1, 2, 3))
    of_blocks = of_blocks / np.max(np.abs(image), axis=(1, 2, 3))
    of_R = np.max(np.abs(missed_R) / block_width, axis=1)
    return np.maximum(of_blocks, of_R)


def _moved_response(state: ChainState, S: Array, dlog: Array, dH: Array) -> Array:
    """Return how S = |R|^1/2 C_TT |R|^1/2 moves (B, A, k, k): dC = -C dH C, and the
    scale with log R.
    """
    out = state.C[:, state.fields.last][:, None]
    dC = -out @ dH @ np.swapaxes(out, 2, 3)
    # each of the two roots brings half of the change of log R
    twice_log = dlog[:, :, :, None] + dlog[:, :, None, :]
    return state.scale[:, None] * dC + 0.5 * twice_log * S[:, None]


@dataclass
class ChainState:
    """The matrices of (4.1)-(4.3) at given blocks, R and Vh1; everything has a leading
    axis of points.
    """

    bulk: ChainBulk
    fields: FieldLayout
    root: Array  # (B, k): |R|^1/2
    sign: Array  # (B,)
    W: Array  # (B, k, k)
    links: list[Array]  # Lt of every step at its nodes (B, J, 2k, 2k)
    means: list[Array]  # E_t[Lt] (B, 2k, 2k)
    C: Array  # (B, K, K)
    H: Array

    @classmethod
    def at(cls, bulk: ChainBulk, blocks: Array, R: Array, Vh1: Array) -> ChainState:
        """Evaluate the matrices."""
        fields = bulk.fields
        root, sign = real_root(R)
        W = root[:, :, None] * Vh1 * root[:, None, :]
        H = _free_fields(fields, bulk.steps, sign, W, np.result_type(R, Vh1, blocks))
        links = []
        means = []
        for t, step in enumerate(bulk.steps):
            link = _link(step, blocks[:, t], sign)
            mean = _mean_link(step, link)
            coupled = fields.of_step(t)
            H[:, coupled[:, None], coupled] += mean
            links.append(link)
            means.append(mean)
        return cls(
            bulk=bulk,
            fields=fields,
            root=root,
            sign=sign,
            W=W,
            links=links,
            means=means,
            C=small_inverse(H),
            H=H,
        )

    def block(self, rows: Integers, columns: Integers) -> Array:
        """Return a block of C (B, rows, columns)."""
        return self.C[:, rows[:, None], columns]

    @property
    def image(self) -> Array:
        """The blocks C_t of C (B, T, 2k, 2k): where the plain map of (4.3) leads."""
        coupled = [self.fields.of_step(t) for t in range(self.fields.steps)]
        return np.stack([self.block(one, one) for one in coupled], axis=1)

    @property
    def scale(self) -> Array:
        """What turns a scaled matrix of tau^T into that of the page: |R_q|^1/2
        |R_q'|^1/2 (B, k, k).
        """
        return self.root[:, :, None] * self.root[:, None, :]

    @property
    def response(self) -> Array:
        """S = beta V1 (B, k, k)."""
        last = self.fields.last
        S = self.scale * self.block(last, last)
        # symmetric but for the rounding of an inverse
        return 0.5 * (S + np.swapaxes(S, 1, 2))

    @cached_property
    def diagonal_CW(self) -> Array:
        """(C_TT W)_qq of (4.4) (B, k)."""
        last = self.fields.last
        return np.einsum("bij,bji->bi", self.block(last, last), self.W)

    def answer_to_W(self, dW: Array) -> tuple[Array, Array]:
        """Return how the image of the blocks (B, A, T, 2k, 2k) and (C_TT W)_qq (B, A,
        k) move with dW (B, A, k, k), at fixed links.
        """
        last = self.fields.last
        blocks = []
        for t in range(self.fields.steps):
            coupled = self.fields.of_step(t)
            # dC = -C dW C, between the fields of the step and tau^T
            to_last = self.block(coupled, last)[:, None]
            from_last = self.block(last, coupled)[:, None]
            blocks.append(-to_last @ dW @ from_last)
        S = self.block(last, last)[:, None]
        moved = S @ dW - S @ dW @ S @ self.W[:, None]
        return np.stack(blocks, axis=2), np.einsum("baii->bai", moved)


def _free_fields(
    fields: FieldLayout,
    steps: Sequence[ChainStep],
    sign: Array,
    W: Array,
    dtype: np.dtype,
) -> Array:
    """Return H0 of (4.1), in the scaled fields (B, K, K)."""
    H = np.zeros((len(W), fields.size, fields.size), dtype)
    start = fields.before(0)
    # 1/R_q on the page, whose size the scaled tau^0 has taken
    H[:, start, start] = sign[:, None]
    last = fields.last
    H[:, last[:, None], last] += W
    for t, step in enumerate(steps):
        conjugate = fields.conjugate(t)
        after = fields.after(t)
        before = fields.before(t)
        H[:, conjugate, after] = -1.0
        H[:, after, conjugate] = -1.0
        # +1 on the page, where a step keeps all of the rows
        keep = step.keep[:, None]
        H[:, conjugate, before] = keep
        H[:, before, conjugate] = keep
    return H


def _link(step: ChainStep, block: Array, sign: Array) -> Array:
    """Return Lt = L (I + C L/alpha)^-1 at the nodes (B, J, 2k, 2k), (4.2) and (4.3)."""
    count, k, nodes = step.slope.shape
    slope = np.swapaxes(step.slope, 1, 2)
    noise = np.swapaxes(step.noise, 1, 2)
    inverse = step.inverse[:, None, None]
    L = np.zeros((count, nodes, 2 * k, 2 * k), block.dtype)
    tau = np.arange(k)
    h = k + tau
    L[:, :, tau, h] = slope
    L[:, :, h, tau] = slope
    # minus the variance of the noise that the step adds: h is the conjugate field
    of_noise = -sign[:, None, None] * inverse * noise
    L[:, :, h, h] = of_noise
    if not step.inverse.any():
        # on the population the links do not answer to C
        return L
    C = (block * inverse)[:, None]
    slope = slope[:, :, None]
    # I + C L/alpha by columns: those of tau have one entry of L, those of h two
    of_tau = C[..., k:] * slope
    of_h = C[..., :k] * slope + C[..., k:] * of_noise[:, :, None]
    mixing = np.concatenate([of_tau, of_h], axis=3)
    diagonal = np.arange(2 * k)
    mixing[:, :, diagonal, diagonal] += 1.0
    if k == 1:
        return small_product(L, small_inverse(mixing))
    # X mixing = L is mixing^T X^T = L^T, and L is symmetric
    return solve_each(mixing.swapaxes(2, 3), L).swapaxes(2, 3)


def _mean_link(step: ChainStep, link: Array) -> Array:
    """Return E_t[Lt] (B, 2k, 2k)."""
    count, nodes, size, _ = link.shape
    flat = link.reshape(count, nodes, -1)
    return (step.weights[:, None] @ flat)[:, 0].reshape(count, size, size)


@dataclass
class ChainJacobian:
    """(4.6): how the mismatch of (4.3), (4.4) moves with the unknowns (blocks, log R).

    Blocks move H by -sum_t E_t[Lt dC_t Lt]/alpha_t; log R moves W.
    """

    state: ChainState
    matrix: Array  # (B, T 4k^2 + k, same): blocks flattened, step after step, then R
    operators: list[Array]  # X -> E_t[Lt X Lt]/alpha_t of every step on flattened X
    W_of_log: Array  # change of W with log R_q (B, k, k, k)

    @classmethod
    def at(cls, state: ChainState, R: Array, D: Array) -> ChainJacobian:
        """Build the matrix."""
        count, k = R.shape
        operators = []
        for step, link in zip(state.bulk.steps, state.links):
            weights = step.weights * step.inverse[:, None]
            operators.append(pair_operator(weights, link, link))
        W_of_log = _W_of_log(state.W)
        square = 4 * k * k
        unknown = state.fields.steps * square
        size = unknown + k
        matrix = np.zeros((count, size, size), np.result_type(state.C, R))
        for s, operator in enumerate(operators):
            column = slice(s * square, (s + 1) * square)
            _fill_blocks(matrix[:, :unknown, column], state, s, operator)
            matrix[:, unknown:, column] = _diagonal_of_block(state, s, operator)
        diagonal = np.arange(unknown)
        # the mismatch is image - g: minus it has +1 at g itself
        matrix[:, diagonal, diagonal] += 1.0
        moved, moved_R = state.answer_to_W(W_of_log)
        matrix[:, :unknown, unknown:] = -moved.reshape(count, k, -1).swapaxes(1, 2)
        matrix[:, unknown:, unknown:] = moved_R.swapaxes(1, 2)
        q = np.arange(k)
        # R_q D_q moves by itself with log R_q
        matrix[:, unknown + q, unknown + q] += R * D
        return cls(state, matrix, operators, W_of_log)

    def solve(
        self, R: Array, dW: Array, missed: Array, missed_R: Array
    ) -> tuple[Array, Array]:
        """Return how the blocks (B, A, T, 2k, 2k) and log R (B, A, k) move along the
        directions A: dW (B, A, k, k) at fixed R.

        The last direction is Newton's step; those of D, which leave W alone, are the k
        before it.
        """
        count, directions, k, _ = dW.shape
        unknown = missed[0].size
        moved, moved_R = self.state.answer_to_W(dW)
        right = np.concatenate(
            [moved.reshape(count, directions, -1), -moved_R], axis=2
        ).swapaxes(1, 2)
        q = np.arange(k)
        of_D = directions - 1 - k + q
        # R_q D_q of (4.4) moves by R_q with D_q
        right[:, unknown + q, of_D] -= R
        right[:, :unknown, -1] = missed.reshape(count, -1)
        # the blocks are missed by image - g, and R the other way round
        right[:, unknown:, -1] = -missed_R
        change = solve_each(self.matrix, right).swapaxes(1, 2)
        shape = (count, directions, *missed.shape[1:])
        return change[:, :, :unknown].reshape(shape), change[:, :, unknown:]

    def moved_H(self, dblocks: Array, dW: Array) -> Array:
        """Return how H moves with the blocks (B, A, T, 2k, 2k) and W (B, A, k, k)."""
        count, directions, _, size, _ = dblocks.shape
        fields = self.state.fields
        dH = np.zeros((count, directions, fields.size, fields.size), dW.dtype)
        for t, operator in enumerate(self.operators):
            coupled = fields.of_step(t)
            flat = dblocks[:, :, t].reshape(count, directions, -1, 1)
            dmean = (operator[:, None] @ flat).reshape(count, directions, size, size)
            # a larger C shrinks the link: Lt = L (I + C L/alpha)^-1
            dH[:, :, coupled[:, None], coupled] -= dmean
        last = fields.last
        dH[:, :, last[:, None], last] += dW
        return dH


def _fill_blocks(part: Array, state: ChainState, s: int, operator: Array) -> None:
    """Put into `part` (B, T 4k^2, 4k^2) how minus the images of all blocks move with
    block s: dC = -C dH C and dH = -operator dC_s.
    """
    square = operator.shape[1]
    of_s = state.fields.of_step(s)
    for t in range(state.fields.steps):
        of_t = state.fields.of_step(t)
        part[:, t * square : (t + 1) * square] = -_sandwich(
            state.block(of_t, of_s), state.block(of_s, of_t), operator
        )


def _diagonal_of_block(state: ChainState, s: int, operator: Array) -> Array:
    """Return how (C_TT W)_qq moves with block s (B, k, 4k^2)."""
    last = state.fields.last
    of_s = state.fields.of_step(s)
    dC = _sandwich(state.block(last, of_s), state.block(of_s, last), operator)
    count, k = state.root.shape
    return np.einsum("bijx,bji->bix", dC.reshape(count, k, k, -1), state.W)


def _W_of_log(W: Array) -> Array:
    """Return how W moves with log R_q, rows and columns by one half each (B, k, k,
    k).
    """
    count, k, _ = W.shape
    of_log = np.zeros((count, k, k, k), W.dtype)
    for q in range(k):
        of_log[:, q, q] += 0.5 * W[:, q]
        of_log[:, q, :, q] += 0.5 * W[:, :, q]
    return of_log


def _sandwich(left: Array, right: Array, operator: Array) -> Array:
    """Return the matrix of X -> left Op(X) right on flattened X."""
    count = left.shape[0]
    rows = left.shape[1]
    columns = right.shape[2]
    turned = np.swapaxes(right, 1, 2)
    both = left[:, :, None, :, None] * turned[:, None, :, None, :]
    return np.asarray(both.reshape(count, rows * columns, -1) @ operator)


@dataclass
class ChainTangents(MotionTangents):
    """How the inner solution moves with Vh1 and D."""

    bulk: ChainBulk

    def push(
        self, omega: Floats, x: Floats, dual: Floats, penalty: Floats
    ) -> tuple[Array, Array]:
        """Return -dE of (6.4): E moves by dual^T dP dual + sum_directions x^T dVh1 x +
        sum penalty dR/R^2.
        """
        response = self.response
        motion = self.motion
        count, k = response.R.shape
        packed = packing(k)
        # the last k of x belong to y, along which Vh1 asks for nothing
        along = x[:, :-k].reshape(count, -1, k)
        assert motion.dH is not None
        # the last direction is Newton's step, which is no change of (Vh1, D)
        dE = self.bulk.signal(response).moved(
            dual=dual,
            blocks=motion.dg[:, :-1],
            log_R=motion.dlog[:, :-1],
            dH=motion.dH[:, :-1],
        )
        dE += np.einsum("aij,bni,bnj->ba", packed_directions(k), along, along)
        per_log = (penalty / response.R)[:, :, None]
        dE += (motion.dlog[:, :-1] @ per_log)[:, :, 0]
        return packed.unpack(-dE / packed.multiplicity)
