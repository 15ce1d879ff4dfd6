"""The covariance of the signal's coordinates after a sign step: sign_step (5.8)-(5.10);
see `sign_bulk`.

A probe is a sum over neurons of a_j times a statistic of their rows: t and psi, along
the learnt direction and the rest of the target, and y, the squared length. What is
common to all coordinates (the batch's own vectors, the lengths of xi, the sphere) are
7k global variables, eliminated last. As in `sign_bulk`, R is scaled out: P = R^1/2 p
R^1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
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

    cell: Integers  # (U,): its cell
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
        kinds = 1
        if np.any(cells.unseen > 0):
            kinds = 2
        # functions of a first, so that the first C stand for the cells themselves
        cell = np.tile(np.arange(C), kinds)
        functions = (np.arange(len(cell)) < C).astype(float)
        both_kinds = np.concatenate([cells.target, np.sqrt(cells.unseen)], axis=1)
        target = both_kinds[:, : len(cell)]
        length = np.sqrt(np.sum(cells.mass * cells.mean**2, axis=1, keepdims=True))
        learnt = functions * cells.mean[:, cell] / length
        rest = 1 - bulk.gamma**2
        # psi is nothing where the learnt direction is the target: no 0/0
        scale = 1 / np.sqrt(np.maximum(rest, ALL_LEARNT))
        scale = np.where(rest > ALL_LEARNT, scale, 0.0)[:, None]
        across = scale * (target - bulk.gamma[:, None] * learnt)
        return cls(
            cell=cell,
            mass=cells.mass[:, cell],
            target=target,
            learnt=learnt,
            across=across,
            functions=functions,
        )

    def on_cells(self, values: Floats) -> Floats:
        """Return what depends on the cell alone at the unit vectors (B, 1, 1, U)."""
        return values[:, self.cell][:, None, None]

    def on_functions(self, values: Floats) -> Floats:
        """Return a function of a at the unit vectors (B, 1, 1, U)."""
        return np.asarray((self.functions * values[:, self.cell])[:, None, None])


class RowStatistics(NamedTuple):
    """Probes as sums over neurons of a statistic of their rows: pa.w0 + e pb.xi + e
    pc.rest + nu (noise) + lam.(dC12, dC22), sign_step section 5.

    The functions pa, pb, pc have the axes (B, A, k, U) of points, probes, blocks and
    unit vectors.
    """

    pa: Floats
    pb: Floats
    pc: Floats
    nu: Floats  # (B, A, k, 1)
    nu_with_rest: Floats  # e nu cN: the covariance of the noise with the rest of S
    lam_12: Floats  # (B, A, k)
    lam_22: Floats
    radial: Floats  # (B, A, k): covariance with x^2 - 1


class GlobalLayout:
    """Where the 7k global variables of (5.8) stand: pi_w, pi_g, lam_12, lam_22, rad."""

    def __init__(self, k: int) -> None:
        self.size = 7 * k
        # a pi has both fields (t, s) of a block, the others one number
        self.pi_w = slice(0, 2 * k)
        self.pi_g = slice(2 * k, 4 * k)
        self.lam = slice(4 * k, 6 * k)
        self.lam_22 = slice(5 * k, 6 * k)
        self.rad = slice(6 * k, 7 * k)

    def symmetric(
        self, parts: Sequence[tuple[slice, slice, Array]], dtype: np.dtype
    ) -> Array:
        """Return the symmetric matrix (B, 7k, 7k) of blocks (rows, columns, values) on
        and above the diagonal; others are 0.
        """
        count = len(parts[0][2])
        matrix = np.zeros((count, self.size, self.size), dtype)
        for rows, columns, values in parts:
            matrix[:, rows, columns] = values
            if rows != columns:
                matrix[:, columns, rows] = np.swapaxes(values, 1, 2)
        return matrix


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
        blocks, (5.9)-(5.10).
        """
        pencil = self.pencil
        rows = self._row_statistics(probes)
        yp = np.concatenate([rows.pb, rows.pa], axis=2)  # (B, A, 2k, U)
        yt_yp = pencil.yt[:, None] @ yp
        Jv = self._sources(rows, yt_yp)
        h = pencil.h[:, self.units.cell]  # (B, U, 2k, 2k)
        h_Jv = np.einsum("bumn,banu->bamu", h, Jv, optimize=True)
        direct = self._within_cells(rows, yp, yt_yp, Jv, h_Jv)
        # the globals are common to all coordinates: eliminated after the cells
        outside = self._on_globals(rows, yp, h_Jv)
        system = np.eye(outside.shape[2]) + self.coupling @ self.passed
        through = solve_each(system, self.coupling @ np.swapaxes(outside, 1, 2))
        p = direct + outside @ through
        # symmetric but for rounding
        return np.asarray(0.5 * (p + np.swapaxes(p, 1, 2)))

    def _row_statistics(self, probes: Array) -> RowStatistics:
        """Return what the probes are as statistics of the rows."""
        units = self.units
        bulk = self.pencil.bulk
        cells = bulk.cells
        k = self.pencil.blocks
        e = bulk.strength[:, None, :, None]
        of_probe = probes.reshape(len(probes), -1, 3, k)[..., None]  # (B, A, 3, k, 1)
        t = of_probe[:, :, 0]
        psi = of_probe[:, :, 1]
        y = of_probe[:, :, 2]
        pa = t * units.learnt[:, None, None] + psi * units.across[:, None, None]
        # y is minus twice the row along U_q = e m, and its length beside
        mean_in_length = bulk.mean_in_length[:, None, :, None]
        pc = pa + y * mean_in_length * units.on_functions(cells.mean)
        pb = units.on_cells(cells.slope) * pc + y * units.on_functions(cells.own)
        nu = y * bulk.noise_in_length[:, None, :, None]
        common = y * bulk.common_in_length[:, None]
        # (5.6): m moves with the squared length of xi, dC22
        by_scale = units.on_cells(cells.mass) * units.on_functions(cells.by_scale)
        return RowStatistics(
            pa=pa,
            pb=pb,
            pc=pc,
            nu=nu,
            nu_with_rest=e * nu * units.on_functions(cells.noise_rest),
            lam_12=common[..., 0],
            lam_22=common[..., 1] + (e * pc * by_scale).sum(axis=-1),
            radial=self._radial(pc, nu),
        )

    def _radial(self, pc: Floats, nu: Floats) -> Floats:
        """Return e <l2, pc> + nu E(l3 + 2 l1) of (5.9) (B, A, k): the covariance with
        x^2 - 1.
        """
        cells = self.pencil.bulk.cells
        e = self.pencil.bulk.strength[:, None, :, None]
        second = self.units.on_cells(cells.mass) * self.units.on_functions(cells.second)
        of_rest = (e * pc * second).sum(axis=-1)
        of_noise = np.sum(cells.mass * cells.radial, axis=1)[:, None, None]
        return of_rest + nu[..., 0] * of_noise

    def _sources(self, rows: RowStatistics, yt_yp: Array) -> Array:
        """Return Jv of (5.9) (B, A, 2k, U), what the probes leave on the fields (t, s)
        of a cell.
        """
        cells = self.pencil.bulk.cells
        k = self.pencil.blocks
        e = self.pencil.bulk.strength[:, None, :, None]
        slope = self.units.on_cells(cells.slope)
        rest = self.units.on_cells(cells.rest)
        # p_c^T = [l, 1; 0, 1]: s takes part in both
        of_s = yt_yp[:, :, k:]
        own = rows.pa + e**2 * rest * rows.pc + rows.nu_with_rest
        of_t = own + slope * yt_yp[:, :, :k] + of_s
        return np.concatenate([of_t, of_s], axis=2)

    def _within_cells(
        self, rows: RowStatistics, yp: Array, yt_yp: Array, Jv: Array, h_Jv: Array
    ) -> Array:
        """Return the sum over cells in (5.10) (B, A, A): the response at fixed
        globals.
        """
        cells = self.pencil.bulk.cells
        e = self.pencil.bulk.strength[:, None, :, None]
        mass = self.units.on_cells(cells.mass)
        rest = self.units.on_cells(cells.rest)

        def product(left: Array, right: Array) -> Array:
            count = len(left)
            weighted = (left * mass).reshape(count, left.shape[1], -1)
            flat = right.reshape(count, right.shape[1], -1)
            return np.asarray(weighted @ np.swapaxes(flat, 1, 2))

        # initial rows, the rest of S, the batch, and what the fit answers to
        direct = product(rows.pa, rows.pa)
        direct = direct + product(e**2 * rest * rows.pc, rows.pc)
        direct = direct + product(yp, yt_yp)
        direct = direct - product(Jv, h_Jv)
        # e cN (nu_A pc_B + nu_B pc_A)
        nu_with_rest = np.broadcast_to(rows.nu_with_rest, rows.pc.shape)
        crossed = product(nu_with_rest, rows.pc)
        direct += crossed + np.swapaxes(crossed, 1, 2)
        # the noise is no function of the coordinate: one sum over all cells
        noise = np.sum(cells.mass * cells.noise, axis=1)[:, None, None]
        nu = rows.nu[..., 0]
        direct += noise * (nu @ np.swapaxes(nu, 1, 2))
        return direct

    def _on_globals(self, rows: RowStatistics, yp: Array, h_Jv: Array) -> Array:
        """Return pi0 of (5.9) (B, A, 7k), what the probes leave on the globals."""
        units = self.units
        cells = self.pencil.bulk.cells
        k = self.pencil.blocks
        mass = units.on_cells(cells.mass)
        e = self.pencil.bulk.strength[:, None, :, None]
        of_t = h_Jv[:, :, :k]
        of_s = h_Jv[:, :, k:]
        # minus Pi h Jv: through p_c for pi_w and pi_g, on t alone for lam_22 and rad
        p_h_Jv = np.concatenate(
            [units.on_cells(cells.slope) * of_t, of_t + of_s], axis=2
        )
        # one sum for what the probe has itself and what the fields answer
        left = mass * (yp - p_h_Jv)
        of_target = (left * units.target[:, None, None]).sum(axis=-1)
        of_pull = (left * units.on_functions(cells.pull)).sum(axis=-1)
        on_t = mass * e * of_t
        by_scale = (on_t * units.on_functions(cells.by_scale)).sum(axis=-1)
        lam_22 = rows.lam_22 - by_scale
        second = (on_t * units.on_functions(cells.second)).sum(axis=-1)
        radial = rows.radial - second
        return np.concatenate([of_target, of_pull, rows.lam_12, lam_22, radial], axis=2)


Part = tuple[slice, slice, Array]
"""A block of a matrix of the globals: its rows, its columns, its values."""


def _coupling(pencil: SignPencil) -> Array:
    """Return Xi of (5.8) (B, 7k, 7k)."""
    bulk = pencil.bulk
    k = pencil.blocks
    rho = bulk.nodes
    # averages of F(rho), s F(rho), s^2 F(rho): labels with different s share rho
    w0, w1, w2 = np.moveaxis(bulk.weights, 1, 0)
    ss, sr, rr = _averages([w2, w1 * rho, w0 * rho**2], pencil.lh)
    M2 = bulk.power[:, None, None]
    inner = pencil.gm * bulk.per_sample[:, None, None]  # G'
    # X = G' (I - E_b[rho^2 lh] G'/M2)^-1: samples that are free across the residuals
    eye = np.eye(2 * k)
    X = inner @ solve_each(eye - rr / M2 @ inner, eye)
    # the sphere takes one half of every x^2 - 1
    rad = np.broadcast_to(-0.5 * eye[:k, :k], (len(rho), k, k))
    at = GlobalLayout(k)
    parts = [
        *_between_pi(at, pencil, X=X, ss=ss, sr=sr, rr=rr),
        *_with_lengths(at, pencil, inner=inner, X=X, sr=sr, rr=rr),
        (at.rad, at.rad, rad),
    ]
    return at.symmetric(parts, np.result_type(pencil.lh, pencil.gm))


def _between_pi(
    at: GlobalLayout, pencil: SignPencil, X: Array, ss: Array, sr: Array, rr: Array
) -> list[Part]:
    """Return the pi-pi blocks of (5.8): E_b[l_a l_b lh] + E_b[l_a rho lh] X E_b[l_b rho
    lh]/M2, minus yt in (w, w).

    l_w = s - g rho and l_g = rho/M2 with g = g1/M2 are what a sample has along the
    target and along the gradient.
    """
    M2 = pencil.bulk.power[:, None, None]
    g = pencil.bulk.linear[:, None, None] / M2
    of_w = sr - g * rr
    of_g = rr / M2
    right_w = X @ of_w / M2
    right_g = X @ of_g / M2
    # the cells have counted the target as the rest of the inputs: - yt
    ww = ss - 2 * g * sr + g**2 * rr + of_w @ right_w - pencil.yt
    wg = (sr - g * rr) / M2 + of_w @ right_g
    gg = rr / M2**2 + of_g @ right_g
    return [(at.pi_w, at.pi_w, ww), (at.pi_w, at.pi_g, wg), (at.pi_g, at.pi_g, gg)]


def _with_lengths(
    at: GlobalLayout, pencil: SignPencil, inner: Array, X: Array, sr: Array, rr: Array
) -> list[Part]:
    """Return the pi-lam and lam-lam blocks of (5.8): what dC12 and dC22, the
    fluctuations of the rows' lengths, have in common with the fields.
    """
    bulk = pencil.bulk
    rho = bulk.nodes
    w0 = bulk.weights[:, 0]
    w1 = bulk.weights[:, 1]
    M2 = bulk.power[:, None, None]
    g = bulk.linear[:, None, None] / M2
    F = _length_sources(bulk)
    pushed = inner[:, None] @ F
    # (I + L G')^-1 F = F - lh G' F
    IF = F - pencil.lh @ pushed
    s_IF, r_IF = _averages([w1, w0 * rho], IF)
    # E_b[l_a rho lh] X E_b[rho IF]/M2 for a = w, g
    w_lam = s_IF - g * r_IF + (sr - g * rr) @ X @ r_IF / M2
    g_lam = r_IF / M2 + rr / M2 @ X @ r_IF / M2
    lam = _with_blocks(_common_lengths(bulk), pencil.blocks)
    lam = lam - np.einsum("bj,bjma,bjmc->bac", w0, pushed, IF, optimize=True)
    lam = lam + np.swapaxes(r_IF, 1, 2) @ X @ r_IF / M2
    return [(at.pi_w, at.lam, w_lam), (at.pi_g, at.lam, g_lam), (at.lam, at.lam, lam)]


def _averages(weights: Sequence[Floats], matrices: Array) -> list[Array]:
    """Return sums over nodes or cells of matrices (B, N, ., .), for each of the weights
    (B, N).
    """
    # one product of matrices for all weights, which reads the matrices once
    count, nodes, *shape = matrices.shape
    together = np.stack(weights, axis=1) @ matrices.reshape(count, nodes, -1)
    return [together[:, i].reshape(count, *shape) for i in range(len(weights))]


def _length_sources(bulk: SignBulk) -> Array:
    """Return the sources F of dC12 and dC22 in (5.8), one column for each of them and
    each block (B, J, 2k, 2k).
    """
    count, nodes = bulk.nodes.shape
    k = bulk.strength.shape[1]
    F = np.zeros((count, nodes, 2 * k, 2 * k))
    q = np.arange(k)
    for j in range(2):
        column = j * k + q
        # e fy on t (the covariance with xi), fl on s (the covariance with w0)
        F[:, :, q, column] = bulk.received[:, j, :, None] * bulk.strength[:, None]
        F[:, :, k + q, column] = bulk.carried[:, j, :, None]
    return F


def _common_lengths(bulk: SignBulk) -> Floats:
    """Return the covariance of dC12, dC22 without what follows X^T fl (B, 2, 2): the
    fields carry that.
    """
    w0 = bulk.weights[:, 0]
    w1 = bulk.weights[:, 1]
    fl = bulk.carried
    s_fl = (fl @ w1[:, :, None])[:, :, 0]
    along_target = s_fl[:, :, None] * s_fl[:, None]
    products = (fl * w0[:, None]) @ np.swapaxes(fl, 1, 2)
    return bulk.common - along_target - products * bulk.per_sample[:, None, None]


def _with_blocks(pairs: Array, k: int) -> Array:
    """Return pairs (B, 2, 2) for every block, (B, 2k, 2k), diagonal in the blocks."""
    blocks = np.einsum("bij,qr->biqjr", pairs, np.eye(k))
    return blocks.reshape(len(pairs), 2 * k, 2 * k)


def _passed(pencil: SignPencil) -> Array:
    """Return Hp = sum_c mu_c Pi h Pi^T of (5.10) (B, 7k, 7k).

    Pi = (w p, (a/c1) p, 0, e kap on t, e l2 on t): nothing passes through lam_12.
    """
    at = GlobalLayout(pencil.blocks)
    parts = [
        *_passed_by_pi(at, pencil),
        *_passed_between(at, pencil),
        *_passed_by_t(at, pencil),
    ]
    return at.symmetric(parts, pencil.h.dtype)


def _passed_by_pi(at: GlobalLayout, pencil: SignPencil) -> list[Part]:
    """Return sums of (p h p^T) with w and a/c1 on both sides."""
    cells = pencil.bulk.cells
    w = cells.target
    pull = cells.pull
    # the second kind of unit vectors has part in (w, w) alone: functions of a vanish
    weights = [w**2 + cells.unseen, w * pull, pull**2]
    ww, wg, gg = _averages([one * cells.mass for one in weights], pencil.image)
    return [(at.pi_w, at.pi_w, ww), (at.pi_w, at.pi_g, wg), (at.pi_g, at.pi_g, gg)]


def _passed_between(at: GlobalLayout, pencil: SignPencil) -> list[Part]:
    """Return sums of (p h) on t with w or a/c1 to the left, e kap or e l2 to the
    right.
    """
    cells = pencil.bulk.cells
    w = cells.target
    pull = cells.pull
    kap = cells.by_scale
    l2 = cells.second
    weights = [w * kap, w * l2, pull * kap, pull * l2]
    on_t = pencil.ph[..., : pencil.blocks]
    wk, wr, gk, gr = _averages([one * cells.mass for one in weights], on_t)
    e = pencil.bulk.strength[:, None, :]
    return [
        (at.pi_w, at.lam_22, e * wk),
        (at.pi_w, at.rad, e * wr),
        (at.pi_g, at.lam_22, e * gk),
        (at.pi_g, at.rad, e * gr),
    ]


def _passed_by_t(at: GlobalLayout, pencil: SignPencil) -> list[Part]:
    """Return sums of h on t with e kap and e l2 on both sides."""
    cells = pencil.bulk.cells
    k = pencil.blocks
    kap = cells.by_scale
    l2 = cells.second
    weights = [kap**2, kap * l2, l2**2]
    on_t = pencil.h[:, :, :k, :k]
    kk, kr, rr = _averages([one * cells.mass for one in weights], on_t)
    e = pencil.bulk.strength
    both = e[:, :, None] * e[:, None, :]
    return [
        (at.lam_22, at.lam_22, both * kk),
        (at.lam_22, at.rad, both * kr),
        (at.rad, at.rad, both * rr),
    ]
