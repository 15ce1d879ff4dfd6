"""The signal after several steps on finite batches: the covariance P of its
coordinates, finite_batches_several_steps section 5; see `chain`.

Every special direction a carries K numbers om_a, one for each of the scaled fields of
`chain`. Every direction of batch noise j carries K multipliers et_j too, and every
block scalars y^t, yh^t for the fluctuation of the row norms. All of them are one formal
Gaussian with the exponent -X^T Gm X/2. A step enters it as

    E_t[v^T Lt v], v = sum_a zeta_a om_a - C sum_j F_j et_j/sqrt(alpha_t) on the fields
    of the step,

which is (5.1) and (5.2) in one square. P is a part of the inverse of Gm, which is
indefinite by construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.solve import solve_each

if TYPE_CHECKING:
    from giantstep.core.readout.chain import (
        ChainBulk,
        ChainState,
        ChainStep,
        FieldLayout,
    )


@dataclass(frozen=True)
class SignalLayout:
    """Where the variables of Gm stand: om of every direction, et of those of batch
    noise, then the scalars y^1.., yh^1.., and y^0 of Gaussian rows.
    """

    fields: FieldLayout
    directions: int  # D: the target's, then those of batch noise
    targets: int
    gaussian_rows: bool

    @classmethod
    def of(cls, bulk: ChainBulk) -> SignalLayout:
        """Return the layout of a bulk."""
        directions = bulk.directions_of_sets.shape[1]
        return cls(bulk.fields, directions, bulk.targets, bulk.gaussian_rows)

    @property
    def om(self) -> Integers:
        """Where the numbers of every direction are (D, K)."""
        K = self.fields.size
        return np.arange(self.directions * K).reshape(self.directions, K)

    @property
    def et(self) -> Integers:
        """Where the multipliers of the directions of batch noise are (D - r, K)."""
        K = self.fields.size
        noise = self.directions - self.targets
        return self.directions * K + np.arange(noise * K).reshape(noise, K)

    def noise_of(self, step: ChainStep) -> slice:
        """Return which of the directions of batch noise a step has added."""
        # they are counted from the target's on, and `first` from 0
        begin = step.first - self.targets
        return slice(begin, begin + step.fresh)

    @property
    def scalars(self) -> int:
        """Where the first scalar is."""
        noise = self.directions - self.targets
        return (self.directions + noise) * self.fields.size

    def length_after(self, step: int) -> Integers:
        """Return where y after a step is (k,); steps are counted from 0."""
        k = self.fields.blocks
        return self.scalars + step * k + np.arange(k)

    def length_before(self, step: int) -> Integers:
        """Return where y before a step is (k,): y^0 before the first one."""
        if step == 0:
            # y^0 stands behind all y and yh
            return self.length_after(2 * self.fields.steps)
        return self.length_after(step - 1)

    def multiplier(self, step: int) -> Integers:
        """Return where yh of a step is (k,)."""
        return self.length_after(self.fields.steps + step)

    @property
    def size(self) -> int:
        """Number of rows of Gm."""
        k = self.fields.blocks
        size = self.scalars + 2 * self.fields.steps * k
        # on the sphere y^0 = 0, so that it is no variable
        return size + k if self.gaussian_rows else size


@dataclass
class ChainSignal:
    """Gm at an inner solution, and what it says of the directions along which P is
    wanted.
    """

    bulk: ChainBulk
    state: ChainState
    # E_t[f_a f_b Lt] of the functions of every step (B, F, F, 2k, 2k)
    products: list[Array]
    # the columns of Gm^-1 for the coordinates of P (B, rows, X)
    inverse: Array

    @classmethod
    def at(cls, bulk: ChainBulk, state: ChainState) -> ChainSignal:
        """Build Gm, (5.1)-(5.3), and solve."""
        products = [
            _products(step.pairs, link) for step, link in zip(bulk.steps, state.links)
        ]
        Gm = _matrix(bulk, state, products)
        coordinates = _selection(bulk)
        # rows of Gm differ by many orders of magnitude (alpha_t, R): scale both sides
        scale = 1 / np.sqrt(np.max(np.abs(Gm), axis=2))
        scaled = Gm * scale[:, :, None] * scale[:, None, :]
        solved = solve_each(scaled, scale[:, :, None] * coordinates)
        return cls(bulk, state, products, scale[:, :, None] * solved)

    @cached_property
    def scaled_covariance(self) -> Array:
        """P of the scaled fields (B, X, X)."""
        P = np.swapaxes(_selection(self.bulk), 1, 2) @ self.inverse
        return 0.5 * (P + np.swapaxes(P, 1, 2))

    @cached_property
    def roots(self) -> Array:
        """|R|^1/2 for every coordinate (B, X)."""
        # every direction and y have k coordinates each, block fastest
        return np.tile(self.state.root, (1, self.bulk.directions.shape[2] + 1))

    def covariance(self) -> Array:
        """Return P (B, X, X): directions, then y, block fastest (5.4)."""
        return self.roots[:, :, None] * self.scaled_covariance * self.roots[:, None, :]

    def moved(self, dual: Floats, blocks: Array, log_R: Array, dH: Array) -> Array:
        """Return how dual^T P dual moves along directions A (B, A), which move the
        blocks (B, A, T, 2k, 2k), log R (B, A, k) and H (B, A, K, K).

        It is -y^T dGm y with Gm y = dual, beside what the scale of the fields does.
        """
        state = self.state
        scaled = self.roots * dual
        y = (self.inverse @ scaled[:, :, None])[:, :, 0]
        change = self._moved_by_scale(scaled, log_R)
        of_blocks, of_H, of_C = self._squares(y)
        for t, of_block in enumerate(of_blocks):
            # Lt falls with C_t, and dGm counts with a minus: plus
            change += np.einsum("baij,bij->ba", blocks[:, :, t], of_block)
        dC = -state.C[:, None] @ dH @ state.C[:, None]
        by_H = np.einsum("baij,bij->ba", dH, of_H)
        by_C = np.einsum("baij,bij->ba", dC, of_C)
        change -= by_H + by_C
        return np.asarray(change)

    def _moved_by_scale(self, scaled: Array, log_R: Array) -> Array:
        """Return how dual^T P dual moves with the scale |R|^1/2 of the fields alone (B,
        A).
        """
        count, k = self.state.root.shape
        # one half from either side of P
        of_log = scaled * (self.scaled_covariance @ scaled[:, :, None])[:, :, 0]
        of_block = of_log.reshape(count, -1, k).sum(axis=1)
        return (log_R @ of_block[:, :, None])[:, :, 0]

    def _squares(self, y: Array) -> tuple[list[Array], Array, Array]:
        """Return what y^T Gm y is linear in: the matrices that stand beside the links
        of every step (through C_t), beside H and beside C.
        """
        state = self.state
        layout = SignalLayout.of(self.bulk)
        count = len(y)
        K = layout.fields.size
        # om of all directions first, et of those of batch noise behind them
        noise_start = layout.directions * K
        om = y[:, :noise_start].reshape(count, layout.directions, K)
        et = y[:, noise_start : layout.scalars].reshape(count, -1, K)
        # (5.1): + H for the target's directions; (5.2): - C for those of batch noise
        of_H = _square(om[:, : layout.targets])
        of_C = -_square(et)
        of_blocks = []
        for t, (step, link) in enumerate(zip(self.bulk.steps, state.links)):
            coupled = layout.fields.of_step(t)
            root = np.sqrt(step.inverse)[:, None, None]
            frame = np.swapaxes(step.frame, 1, 2)
            of_zeta = frame @ om[:, : step.first][:, :, coupled]
            # - I E_t[Lt] of (5.1), and E_t[Lt] moves as H does on these fields
            of_H[:, coupled[:, None], coupled] -= _square(of_zeta)
            noise = et[:, layout.noise_of(step)]
            of_noise = -root * (noise @ np.swapaxes(state.C[:, coupled], 1, 2))
            # v for each of the functions of the step (B, F, 2k)
            v = np.concatenate([of_zeta, of_noise], axis=1)
            inside = link @ _at_nodes(step.pairs, v, link.shape) @ link
            of_blocks.append(inside.sum(axis=1) * root**2)
            # v holds C itself: twice, as the square is of second order in it
            functions = of_zeta.shape[1]
            met = np.einsum("bfgij,bgj->bfi", self.products[t][:, functions:], v)
            of_C[:, coupled] -= 2 * root * np.swapaxes(met, 1, 2) @ noise
        return of_blocks, of_H, of_C


def _products(pairs: Floats, link: Array) -> Array:
    """Return E_t[f_a f_b Lt] of all functions (B, F, F, 2k, 2k)."""
    count, nodes, size, _ = link.shape
    sums = pairs @ link.reshape(count, nodes, size * size)
    # packed: pairs a <= b, which stand for (b, a) too
    packed = sums.reshape(count, -1, size, size)
    functions = int(np.sqrt(2 * pairs.shape[1]))
    rows, columns = np.triu_indices(functions)
    out = np.empty((count, functions, functions, size, size), packed.dtype)
    out[:, rows, columns] = packed
    out[:, columns, rows] = packed
    return out


def _at_nodes(pairs: Floats, v: Array, shape: tuple[int, ...]) -> Array:
    """Return at every node the weighted mean of v v^T, v = sum_a f_a v_a (B, J, 2k,
    2k).
    """
    rows, columns = np.triu_indices(v.shape[1])
    outer = v[:, rows, :, None] * v[:, columns, None, :]
    # a pair a < b stands for (b, a) too, a pair a = a for itself alone
    off_diagonal = np.where(rows == columns, 0.0, 1.0)[:, None, None]
    outer = outer + off_diagonal * np.swapaxes(outer, 2, 3)
    flat = outer.reshape(*outer.shape[:2], -1)
    return np.asarray((np.swapaxes(pairs, 1, 2) @ flat).reshape(shape))


def _square(rows: Array) -> Array:
    """Return sum_a rows_a rows_a^T (B, K, K)."""
    return np.asarray(np.swapaxes(rows, 1, 2) @ rows)


# -- Gm --------------------------------------------------------------------------------


def _matrix(bulk: ChainBulk, state: ChainState, products: list[Array]) -> Array:
    """Return Gm (B, rows, rows), (5.1)-(5.3)."""
    layout = SignalLayout.of(bulk)
    Gm = np.zeros((len(state.root), layout.size, layout.size), state.C.dtype)
    # those of batch noise enter through the steps alone
    for om in layout.om[: layout.targets]:
        Gm[:, om[:, None], om] += state.H
    for t, step in enumerate(bulk.steps):
        # coordinates of the directions before the step, on the fields of the step
        old = layout.om[: step.first][:, layout.fields.of_step(t)].ravel()
        _add_old_directions(Gm, old, step, products[t], state.means[t])
        if step.fresh:
            coupled = layout.fields.of_step(t)
            _add_batch_noise(
                Gm,
                layout,
                old,
                step=step,
                products=products[t],
                C=state.C[:, coupled],
            )
            _tie_batch_noise(Gm, layout, step, state.C)
        _add_lengths(Gm, layout, t, step, state.sign[:, None])
    if bulk.gaussian_rows:
        # (y^0, y^0) = 1/(2 R_q)
        start = layout.length_before(0)
        Gm[:, start, start] = 0.5 * state.sign[:, None]
    return Gm


def _add_old_directions(
    Gm: Array, old: Integers, step: ChainStep, products: Array, mean: Array
) -> None:
    """Add (5.1) of a step: frame (E_t[zeta zeta^T Lt] - I E_t[Lt]) frame^T between the
    directions before it.
    """
    frame = step.frame
    zeta = slice(0, frame.shape[2])
    inside = np.einsum(
        "bxa,baeij,bye->bxyij", frame, products[:, zeta, zeta], frame, optimize=True
    )
    # H has E_t[Lt] for every direction: what zeta does not see must stay
    projector = (frame @ np.swapaxes(frame, 1, 2))[..., None, None]
    inside -= projector * mean[:, None, None]
    Gm[:, old[:, None], old] += _flat_blocks(inside)


def _add_batch_noise(
    Gm: Array,
    layout: SignalLayout,
    old: Integers,
    step: ChainStep,
    products: Array,
    C: Array,
) -> None:
    """Add the averages of (5.2) over a step's batch; C has the rows of its fields (B,
    2k, K).
    """
    count = len(Gm)
    frame = step.frame
    # zeta comes first among the functions, then the F_j
    functions = frame.shape[2]
    new = layout.et[layout.noise_of(step)].ravel()
    root = np.sqrt(step.inverse)[:, None, None, None, None]
    C = C[:, None, None]
    CT = np.swapaxes(C, 3, 4)
    both = root**2 * (CT @ products[:, functions:, functions:] @ C)
    Gm[:, new[:, None], new] += _flat_blocks(both)
    cross = -root * np.einsum(
        "bfeij,bxe->bfxij", products[:, functions:, :functions], frame
    )
    cross = (CT @ cross).transpose(0, 1, 3, 2, 4).reshape(count, len(new), len(old))
    Gm[:, new[:, None], old] += cross
    Gm[:, old[:, None], new] += np.swapaxes(cross, 1, 2)


def _tie_batch_noise(
    Gm: Array, layout: SignalLayout, step: ChainStep, C: Array
) -> None:
    """Put what every new direction has for itself, (5.2): (et, et) = -C, (et, om) =
    -I.
    """
    noise = layout.noise_of(step)
    new_directions = layout.om[layout.targets :][noise]
    for et, om in zip(layout.et[noise], new_directions):
        Gm[:, et[:, None], et] -= C
        Gm[:, et, om] = -1.0
        Gm[:, om, et] = -1.0


def _add_lengths(
    Gm: Array, layout: SignalLayout, t: int, step: ChainStep, sign: Array
) -> None:
    """Put the fluctuation of the row norms in step t, (5.3)."""
    y = layout.length_after(t)
    yh = layout.multiplier(t)
    tau = layout.om[:, layout.fields.before(t)]
    h = layout.om[:, layout.fields.conjugate(t)]
    Gm[:, yh, y] = -1.0
    Gm[:, y, yh] = -1.0
    # R_q of the page is its sign in the scaled fields
    Gm[:, yh, yh] = -sign * step.spread
    # (3.6): the lengths follow the fields, tau by s fl and h by s^3 fy
    _couple(Gm, yh, tau, step.carried)
    _couple(Gm, yh, h, -sign[:, :, None] * step.own)
    if t == 0 and not layout.gaussian_rows:
        # rows on the sphere start without a fluctuation: no y^0 to answer to
        return
    before = layout.length_before(t)
    Gm[:, yh, before] = step.gain
    Gm[:, before, yh] = step.gain
    # a longer row bends the step by e res D_3/2
    _couple(Gm, before, h, step.bent)


def _couple(Gm: Array, scalars: Integers, fields: Integers, coordinates: Array) -> None:
    """Add the coordinates (B, k, D) between scalars (k,) and the fields (D, k) of their
    own block; there may be more fields, of directions that a later step adds.
    """
    known = fields[: coordinates.shape[2]]
    for block, scalar in enumerate(scalars):
        Gm[:, scalar, known[:, block]] += coordinates[:, block]
        Gm[:, known[:, block], scalar] += coordinates[:, block]


def _flat_blocks(matrices: Array) -> Array:
    """Return matrices (B, x, y, i, j) as one matrix of each point (B, x i, y j)."""
    count, x, y, i, j = matrices.shape
    return matrices.transpose(0, 1, 3, 2, 4).reshape(count, x * i, y * j)


def _selection(bulk: ChainBulk) -> Floats:
    """Return the coordinates of P as columns (B, rows, X): directions of tau^T, then
    y^T.
    """
    layout = SignalLayout.of(bulk)
    count, _, n = bulk.directions.shape
    k = layout.fields.blocks
    # a unit vector in the directions given, on the field tau^T of one block
    columns = np.zeros((count, layout.size, (n + 1) * k))
    length = layout.length_after(layout.fields.steps - 1)
    for q in range(k):
        tau = layout.om[:, layout.fields.last[q]]
        columns[:, tau[:, None], np.arange(n) * k + q] = bulk.directions
        columns[:, length[q], n * k + q] = 1.0
    return columns
