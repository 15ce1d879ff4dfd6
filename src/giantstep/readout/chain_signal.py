"""The signal after several steps on finite batches: the covariance P of its coordinates along special directions.

finite_batches_several_steps section 5, in the scaled fields of `chain`. Every special direction a carries K numbers
om_a, every direction of batch noise K multipliers et_j too, and every block scalars y^t, yh^t for the fluctuation of
the row norms. All of them are one formal Gaussian with the exponent -X^T Gm X/2. A step enters it as

    E_t[v^T Lt v],  v = sum_a zeta_a om_a - C sum_j F_j et_j/sqrt(alpha_t)  on the fields of the step,

which is (5.1) and (5.2) in one square. P is a part of the inverse of Gm, which is indefinite by construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from giantstep.solve import solve_each
from giantstep.types import Array, Floats

if TYPE_CHECKING:
    from giantstep.readout.chain import ChainBulk, ChainState


@dataclass
class ChainSignal:
    """Gm at an inner solution, and what it says of the directions that are asked for."""

    bulk: ChainBulk
    state: ChainState
    products: list[Array]  # E_t[f_a f_b Lt] of the functions of every step (B, functions, functions, 2k, 2k)
    inverse: Array  # the columns of Gm^-1 for the coordinates that are asked for (B, rows, X)

    @classmethod
    def at(cls, bulk: ChainBulk, state: ChainState) -> ChainSignal:
        """Build Gm, (5.1)-(5.3), and solve."""
        products = [_products(step.pairs, link) for step, link in zip(bulk.steps, state.links)]
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
        """Return how dual^T P dual moves along directions A: -y^T dGm y, Gm y = dual, beside the scale of fields."""
        bulk, state = self.bulk, self.state
        count, k = state.root.shape
        scaled = self.roots * dual
        y = (self.inverse @ scaled[:, :, None])[:, :, 0]
        of_log = scaled * (self.scaled_covariance @ scaled[:, :, None])[:, :, 0]
        change = (log_R @ of_log.reshape(count, -1, k).sum(axis=1)[:, :, None])[:, :, 0]
        D, K = bulk.asked.shape[1], state.C.shape[1]
        om = y[:, : D * K].reshape(count, D, K)  # of every direction, et of those of batch noise
        et = y[:, D * K : (2 * D - bulk.targets) * K].reshape(count, -1, K)
        of_H = _square(om[:, : bulk.targets])
        of_C = -_square(et)
        for t, (step, link) in enumerate(zip(bulk.steps, state.links)):
            own, root = bulk.fields(t), np.sqrt(step.inverse)[:, None, None]
            along = np.swapaxes(step.frame, 1, 2) @ om[:, : step.first][:, :, own]
            of_H[:, own[:, None], own] -= _square(along)
            noise = et[:, step.first - bulk.targets : step.first - bulk.targets + step.fresh]
            carried = -root * (noise @ np.swapaxes(state.C[:, own], 1, 2))
            v = np.concatenate([along, carried], axis=1)  # for each of its functions (B, F, 2k)
            of_block = (link @ _at_nodes(step.pairs, v, link.shape) @ link).sum(axis=1) * root**2
            change += np.einsum("baij,bij->ba", blocks[:, :, t], of_block)  # minus the minus of dGm
            met = np.einsum("bfgij,bgj->bfi", self.products[t][:, along.shape[1] :], v)
            of_C[:, own] -= 2 * root * np.swapaxes(met, 1, 2) @ noise
        dC = -state.C[:, None] @ dH @ state.C[:, None]
        change -= np.einsum("baij,bij->ba", dH, of_H) + np.einsum("baij,bij->ba", dC, of_C)
        return np.asarray(change)


def _products(pairs: Floats, link: Array) -> Array:
    """Return E_t[f_a f_b Lt] of all functions (B, F, F, 2k, 2k)."""
    count, nodes, size, _ = link.shape
    packed = (pairs @ link.reshape(count, nodes, size * size)).reshape(count, -1, size, size)
    functions = int(np.sqrt(2 * pairs.shape[1]))
    rows, columns = np.triu_indices(functions)
    out = np.empty((count, functions, functions, size, size), packed.dtype)
    out[:, rows, columns] = out[:, columns, rows] = packed
    return out


def _at_nodes(pairs: Floats, v: Array, shape: tuple[int, ...]) -> Array:
    """Return at every node the weighted mean of v v^T, v = sum_a f_a v_a (B, J, 2k, 2k)."""
    rows, columns = np.triu_indices(v.shape[1])
    outer = v[:, rows, :, None] * v[:, columns, None, :]
    outer = outer + np.where(rows == columns, 0.0, 1.0)[:, None, None] * np.swapaxes(outer, 2, 3)
    return np.asarray((np.swapaxes(pairs, 1, 2) @ outer.reshape(*outer.shape[:2], -1)).reshape(shape))


def _square(rows: Array) -> Array:
    """Return sum_a rows_a rows_a^T (B, K, K)."""
    return np.asarray(np.swapaxes(rows, 1, 2) @ rows)


def _matrix(bulk: ChainBulk, state: ChainState, products: list[Array]) -> Array:
    """Return Gm (B, rows, rows): om of every direction, et of those of batch noise, y^1.., yh^1.., and y^0."""
    steps, (count, k) = len(bulk.steps), state.root.shape
    D, targets, K = bulk.asked.shape[1], bulk.targets, state.C.shape[1]
    base = (2 * D - targets) * K
    rows = base + 2 * steps * k + (k if bulk.gaussian_rows else 0)
    Gm = np.zeros((count, rows, rows), state.C.dtype)
    om = np.arange(D * K).reshape(D, K)
    et = np.pad(D * K + np.arange((D - targets) * K).reshape(-1, K), ((targets, 0), (0, 0)))  # by direction
    q = np.arange(k)
    sign = state.sign[:, None]
    for a in range(targets):
        Gm[:, om[a][:, None], om[a]] += state.H
    for t, step in enumerate(bulk.steps):
        own, seen, first = bulk.fields(t), step.frame.shape[2], step.first
        frame, product = step.frame, products[t]
        inside = np.einsum("bxa,baeij,bye->bxyij", frame, product[:, :seen, :seen], frame, optimize=True)
        inside -= (frame @ np.swapaxes(frame, 1, 2))[..., None, None] * state.means[t][:, None, None]
        size = first * len(own)
        old = om[:first][:, own].ravel()
        Gm[:, old[:, None], old] += inside.transpose(0, 1, 3, 2, 4).reshape(count, size, size)
        if step.fresh:
            new = et[first : first + step.fresh].ravel()
            root = np.sqrt(step.inverse)[:, None, None, None, None]
            C = state.C[:, own][:, None, None]
            both = root**2 * (np.swapaxes(C, 3, 4) @ product[:, seen:, seen:] @ C)
            Gm[:, new[:, None], new] += both.transpose(0, 1, 3, 2, 4).reshape(count, len(new), len(new))
            cross = -root * np.einsum("bfeij,bxe->bfxij", product[:, seen:, :seen], frame)
            cross = (np.swapaxes(C, 3, 4) @ cross).transpose(0, 1, 3, 2, 4).reshape(count, len(new), size)
            Gm[:, new[:, None], old] += cross
            Gm[:, old[:, None], new] += np.swapaxes(cross, 1, 2)
            for direction in range(first, first + step.fresh):
                Gm[:, et[direction][:, None], et[direction]] -= state.C
                Gm[:, et[direction], om[direction]] = Gm[:, om[direction], et[direction]] = -1.0
        y, yh = base + t * k + q, base + (steps + t) * k + q
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
    """Put the coordinates (B, k, D) between scalars (k,) and the fields (D, k) of their own block."""
    for block, scalar in enumerate(scalars):
        Gm[:, scalar, fields[:, block]] += coordinates[:, block]
        Gm[:, fields[:, block], scalar] += coordinates[:, block]


def _selection(bulk: ChainBulk, rows: int) -> Floats:
    """Return the coordinates that are asked for as columns (B, rows, X): directions of tau^T, then y^T."""
    count, D, n = bulk.directions.shape
    k, steps = bulk.norms.shape[2], len(bulk.steps)
    K = (2 * steps + 1) * k
    asked = np.zeros((count, rows, (n + 1) * k))
    for q in range(k):
        where = np.arange(D) * K + steps * k + q
        asked[:, where[:, None], np.arange(n) * k + q] = bulk.directions
        asked[:, (2 * D - bulk.targets) * K + (steps - 1) * k + q, n * k + q] = 1.0
    return asked
