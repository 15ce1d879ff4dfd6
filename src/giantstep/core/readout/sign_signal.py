"""The covariance of the signal's coordinates after a sign step: sign_step (5.8)-(5.10);
see `sign_bulk`.

A probe is a sum over neurons of a_j times a statistic of their rows: t and psi, along
the learnt direction and the rest of the target, and y, the squared length. What is
common to all coordinates (the batch's own vectors, the lengths of xi, the sphere) are
7k global variables, eliminated last. As in `sign_bulk`, R is scaled out: P = R^1/2 p
R^1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.solve import solve_each

if TYPE_CHECKING:
    from giantstep.core.readout.sign_bulk import SignBulk, SignPencil

ALL_LEARNT = 1e-12
"""1 - gamma^2 from which nothing of the target is left outside the learnt direction."""


@dataclass
class Units:
    """Unit vectors of the cells (B, U): those of functions of a and, where a does not
    see all of the target, one more.

    Functions of a vanish on the second kind; what depends on the cell alone does not.
    """

    cell: Array  # (U,): its cell
    mass: Floats
    target: Floats
    learnt: Floats  # m/|m|
    across: Floats  # what is left of the target, normalised
    functions: Floats  # (B, U): 1 on the first kind, 0 on the second

    @classmethod
    def of(cls, bulk: SignBulk) -> Units:
        """Return the unit vectors of a bulk."""
        cells = bulk.cells
        C = cells.mass.shape[1]
        twice = bool(np.any(cells.unseen > 0))
        cell = np.tile(np.arange(C), 2 if twice else 1)
        functions = (np.arange(len(cell)) < C).astype(float)
        target = np.concatenate([cells.target, np.sqrt(cells.unseen)], axis=1)[
            :, : len(cell)
        ]
        length = np.sqrt(np.sum(cells.mass * cells.mean**2, axis=1, keepdims=True))
        learnt = functions * cells.mean[:, cell] / length
        rest = 1 - bulk.gamma**2
        left = np.where(
            rest > ALL_LEARNT, 1 / np.sqrt(np.maximum(rest, ALL_LEARNT)), 0.0
        )[:, None]
        across = left * (target - bulk.gamma[:, None] * learnt)
        return cls(cell, cells.mass[:, cell], target, learnt, across, functions)


@dataclass
class SignSignal:
    """The response of the bulk to probes, at an inner solution."""

    pencil: SignPencil
    units: Units
    coupling: Array
    """Xi of (5.8) (B, 7k, 7k), in the order pi_w, pi_g, lam_12, lam_22, rad."""
    passed: Array
    """Hp of (5.10)."""

    @classmethod
    def at(cls, pencil: SignPencil) -> SignSignal:
        """Evaluate what all probes share."""
        return cls(pencil, Units.of(pencil.bulk), _coupling(pencil), _passed(pencil))

    def form(self, probes: Array) -> Array:
        """Return p_AB for probes (B, A, 3k), combinations of t, psi, y of the
        blocks.
        """
        pencil = self.pencil
        units = self.units
        bulk = self.pencil.bulk
        cells = bulk.cells
        count = len(probes)
        k = pencil.blocks
        x = probes.reshape(count, -1, 3, k)[..., None]  # (B, A, 3, k, 1)
        e = bulk.strength[:, None, :, None]

        def on_units(values: Floats) -> Array:
            return np.asarray((units.functions * values[:, units.cell])[:, None, None])

        mass, slope, rest = (
            values[:, units.cell][:, None, None]
            for values in (cells.mass, cells.slope, cells.rest)
        )
        # (B, A, k, U)
        pa = (
            x[:, :, 0] * units.learnt[:, None, None]
            + x[:, :, 1] * units.across[:, None, None]
        )
        pc = pa + x[:, :, 2] * bulk.mean_in_length[:, None, :, None] * on_units(
            cells.mean
        )
        pb = slope * pc + x[:, :, 2] * on_units(cells.own)
        nu = x[:, :, 2] * bulk.noise_in_length[:, None, :, None]  # (B, A, k, 1)
        with_rest = e * nu * on_units(cells.noise_rest)
        # (B, A, k, 2)
        lam = (x[:, :, 2] * bulk.common_in_length[:, None]).astype(pencil.h.dtype)
        lam[..., 1] += (e * pc * (mass * on_units(cells.by_scale))).sum(axis=-1)
        radial = (e * pc * (mass * on_units(cells.second))).sum(axis=-1)
        radial = (
            radial
            + nu[..., 0] * np.sum(cells.mass * cells.radial, axis=1)[:, None, None]
        )

        yp = np.concatenate([pb, pa], axis=2)  # (B, A, 2k, U)
        seen = pencil.yt[:, None] @ yp
        jv = seen[:, :, k:]
        jv = np.concatenate(
            [pa + e**2 * rest * pc + with_rest + slope * seen[:, :, :k] + jv, jv],
            axis=2,
        )
        h = pencil.h[:, units.cell]  # (B, U, 2k, 2k)
        answer = np.einsum("bumn,banu->bamu", h, jv, optimize=True)

        def product(left: Array, right: Array) -> Array:
            weighted = (left * mass).reshape(count, left.shape[1], -1)
            return np.asarray(
                weighted @ np.swapaxes(right.reshape(count, right.shape[1], -1), 1, 2)
            )

        direct = (
            product(pa, pa)
            + product(e**2 * rest * pc, pc)
            + product(yp, seen)
            - product(jv, answer)
        )
        crossed = product(np.broadcast_to(with_rest, pc.shape), pc)
        direct += crossed + np.swapaxes(crossed, 1, 2)
        noise = np.sum(cells.mass * cells.noise, axis=1)[:, None, None]
        direct += noise * (nu[..., 0] @ np.swapaxes(nu[..., 0], 1, 2))

        # p h jv
        forward = np.concatenate(
            [slope * answer[:, :, :k], answer[:, :, :k] + answer[:, :, k:]], axis=2
        )
        left = mass * (yp - forward)
        of_target = (left * units.target[:, None, None]).sum(axis=-1)
        of_pull = (left * on_units(cells.pull)).sum(axis=-1)
        top = mass * e * answer[:, :, :k]
        lam[..., 1] -= (top * on_units(cells.by_scale)).sum(axis=-1)
        radial = radial - (top * on_units(cells.second)).sum(axis=-1)
        # pi0 (B, A, 7k)
        outside = np.concatenate(
            [of_target, of_pull, lam[..., 0], lam[..., 1], radial], axis=2
        )
        system = np.eye(7 * k) + self.coupling @ self.passed
        through = solve_each(system, self.coupling @ np.swapaxes(outside, 1, 2))
        p = direct + outside @ through
        return np.asarray(0.5 * (p + np.swapaxes(p, 1, 2)))


def _coupling(pencil: SignPencil) -> Array:
    """Return Xi of (5.8) (B, 7k, 7k)."""
    bulk = pencil.bulk
    k = pencil.blocks
    lh = pencil.lh
    (w0, w1, w2), rho = np.moveaxis(bulk.weights, 1, 0), bulk.nodes
    count, nodes = rho.shape
    M2 = bulk.power[:, None, None]
    g1 = bulk.linear[:, None, None]
    g = g1 / M2
    inner = pencil.gm * bulk.per_sample[:, None, None]  # G'
    both = np.stack([w2, w1 * rho, w0 * rho**2], axis=1)
    ss, sr, rr = np.moveaxis(
        (both @ lh.reshape(count, nodes, -1)).reshape(count, 3, 2 * k, 2 * k), 1, 0
    )
    X = inner @ solve_each(np.eye(2 * k) - rr / M2 @ inner, np.eye(2 * k))
    of_w, of_g = sr - g * rr, rr / M2  # E_b[l_a rho lh]
    right_w = X @ of_w / M2
    right_g = X @ of_g / M2
    pairs = {
        "ww": ss - 2 * g * sr + g**2 * rr + of_w @ right_w - pencil.yt,
        "wg": (sr - g * rr) / M2 + of_w @ right_g,
        "gg": rr / M2**2 + of_g @ right_g,
    }
    # the sources F of dC12 and dC22, one column for each of them and each block
    q = np.arange(k)
    F = np.zeros((count, nodes, 2 * k, 2 * k))
    for j in range(2):
        F[:, :, q, j * k + q] = bulk.received[:, j, :, None] * bulk.strength[:, None]
        F[:, :, k + q, j * k + q] = bulk.carried[:, j, :, None]
    pushed = inner[:, None] @ F
    IF = F - lh @ pushed
    flat = IF.reshape(count, nodes, -1)
    single = np.stack([w1, w0 * rho], axis=1)
    s_IF, r_IF = np.moveaxis((single @ flat).reshape(count, 2, 2 * k, 2 * k), 1, 0)
    w_lam = s_IF - g * r_IF + of_w @ X @ r_IF / M2
    g_lam = r_IF / M2 + of_g @ X @ r_IF / M2
    fl = bulk.carried
    s_fl = (fl @ w1[:, :, None])[:, :, 0]
    products = (fl * w0[:, None]) @ np.swapaxes(fl, 1, 2)
    plain = (
        bulk.common
        - s_fl[:, :, None] * s_fl[:, None]
        - products * bulk.per_sample[:, None, None]
    )
    lam = _with_blocks(plain, k) - np.einsum(
        "bj,bjma,bjmc->bac", w0, pushed, IF, optimize=True
    )
    lam = lam + np.swapaxes(r_IF, 1, 2) @ X @ r_IF / M2
    xi = np.zeros((count, 7 * k, 7 * k), np.result_type(lh, pencil.gm))
    a = 2 * k
    b = 4 * k
    c = 6 * k
    d = 7 * k
    xi[:, :a, :a], xi[:, :a, a:b], xi[:, a:b, a:b] = (
        pairs["ww"],
        pairs["wg"],
        pairs["gg"],
    )
    xi[:, a:b, :a] = np.swapaxes(pairs["wg"], 1, 2)
    xi[:, :a, b:c] = w_lam
    xi[:, a:b, b:c] = g_lam
    xi[:, b:c, b:c] = lam
    xi[:, b:c, :a], xi[:, b:c, a:b] = np.swapaxes(w_lam, 1, 2), np.swapaxes(g_lam, 1, 2)
    xi[:, range(c, d), range(c, d)] = -0.5
    return xi


def _with_blocks(pairs: Array, k: int) -> Array:
    """Return pairs (B, 2, 2) for every block, (B, 2k, 2k), diagonal in the blocks."""
    return np.einsum("bij,qr->biqjr", pairs, np.eye(k)).reshape(
        len(pairs), 2 * k, 2 * k
    )


def _passed(pencil: SignPencil) -> Array:
    """Return Hp = sum_c mu_c Pi h Pi^T (B, 7k, 7k)."""
    bulk = pencil.bulk
    cells = pencil.bulk.cells
    k = pencil.blocks
    count = len(cells.mass)
    w = cells.target
    pull = cells.pull
    kap = cells.by_scale
    l2 = cells.second
    mass = cells.mass

    def sums(weights: list[Floats], matrices: Array) -> list[Array]:
        flat = matrices.reshape(count, matrices.shape[1], -1)
        out = (np.stack(weights, axis=1) * mass[:, None]) @ flat
        return [
            out[:, i].reshape(count, *matrices.shape[2:]) for i in range(len(weights))
        ]

    ww, wg, gg = sums([w**2 + cells.unseen, w * pull, pull**2], pencil.image)
    wk, wr, gk, gr = sums([w * kap, w * l2, pull * kap, pull * l2], pencil.ph[..., :k])
    kk, kr, rr = sums([kap**2, kap * l2, l2**2], pencil.h[:, :, :k, :k])
    e = bulk.strength
    row = e[:, None, :]
    both = e[:, :, None] * e[:, None, :]
    w_ = slice(0, 2 * k)
    g_ = slice(2 * k, 4 * k)
    k_ = slice(5 * k, 6 * k)
    r_ = slice(6 * k, 7 * k)
    Hp = np.zeros((count, 7 * k, 7 * k), pencil.h.dtype)
    Hp[:, w_, w_], Hp[:, g_, g_], Hp[:, k_, k_], Hp[:, r_, r_] = (
        ww,
        gg,
        both * kk,
        both * rr,
    )
    pairs = (
        (w_, g_, wg),
        (w_, k_, row * wk),
        (w_, r_, row * wr),
        (g_, k_, row * gk),
        (g_, r_, row * gr),
    )
    for one, two, part in (*pairs, (k_, r_, both * kr)):
        Hp[:, one, two], Hp[:, two, one] = part, np.swapaxes(part, 1, 2)
    return Hp
