"""First-order equations of the ridge problem: the function V(kappa), real for the risk, complex for the spectrum.

With mu1_q, mu2_q the conditional functions of the blocks, beta_q = pi_q p/d and r = n/p, V solves

    Vh1_qq' = r E[mu1_q mu1_q'/(b+V)],  Vh2_q = r E[mu2_q/(b+V)],  D_q = a + Vh2_q                      (3.1)
    g = (I + Vh1 diag R)^-1 Vh1,  R_q = beta_q/(D_q + g_qq)                                             (3.2), (3.3)
    S = (I + diag(R) Vh1)^-1 diag R,  V = [mu1^T S mu1 + mu2 . R]/beta                                  (3.4)

Only the product a b matters: a b = lambda (ridge). (a, b) = (lambda, 1) are the equations of the notes, (1, lambda)
their "kernel normalisation", in which V, R and S are lambda times larger; it stays finite for n < p as lambda -> 0. For
the spectrum (a, b) = (-z, 1).

The unknown is V at the nodes of kappa. It lies in the span of the K = k(k+1)/2 + k functions m = (mu1_q mu1_q', mu2_q)
with q <= q', so for few blocks it is packed into K coordinates; for many blocks, where K exceeds the number of nodes,
Newton's equation is solved at the nodes themselves with the symmetric kernel of (3.5).

After a step on a finite batch the rows of the bulk are anisotropic: (3.2)-(3.4) are replaced by (6.2)-(6.4), see
`batch_bulk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from giantstep.readout import batch_bulk
from giantstep.readout.batch_bulk import Batch
from giantstep.readout.features import Tables
from giantstep.solve import solve_each, solve_fixed_point
from giantstep.types import Array, Floats, Integers

PACKED_BLOCKS = 8
CHUNK = 64
KERNEL_CHUNK = 8
BATCH_CHUNK = 16
PROBE_STEPS = 15


@dataclass
class Equations:
    """The first-order equations of B points with k blocks: functions of kappa, sizes and the pair (a, b)."""

    tables: Tables
    pi: Floats
    ratio: Floats  # r = n/p, (B,)
    width: Floats  # beta = p/d, (B,)
    a: Array  # (B,)
    b: Floats  # (B,)
    batch: Batch | None = None
    """The finite batch whose anisotropy the bulk carries; None for an isotropic bulk."""

    @cached_property
    def ladder(self) -> Floats:
        """The matrices l of the batch at its nodes (B, J, M, M)."""
        assert self.batch is not None
        return self.batch.ladder()

    @cached_property
    def rows(self) -> Integers:
        """Row indices of the packed upper triangle."""
        return np.triu_indices(len(self.pi))[0]

    @cached_property
    def columns(self) -> Integers:
        """Column indices of the packed upper triangle."""
        return np.triu_indices(len(self.pi))[1]

    @cached_property
    def multiplicity(self) -> Floats:
        """Multiplicity c of each packed coordinate: 2 for q < q', else 1."""
        return np.concatenate([np.where(self.rows == self.columns, 1.0, 2.0), np.ones(len(self.pi))])

    @cached_property
    def features(self) -> Floats:
        """The packed functions m (B or 1, K, N)."""
        mu1 = self.tables.mu1
        return np.concatenate([mu1[:, self.rows] * mu1[:, self.columns], self.tables.mu2], axis=1)

    @cached_property
    def block_width(self) -> Floats:
        """beta_q = pi_q beta, (B, k)."""
        return self.width[:, None] * self.pi

    def take(self, index: Integers) -> Equations:
        """Return the equations of the points in `index`."""
        part = Equations(
            self.tables.take(index),
            self.pi,
            self.ratio[index],
            self.width[index],
            self.a[index],
            self.b[index],
            None if self.batch is None else self.batch.take(index),
        )
        if "ladder" in self.__dict__:
            part.__dict__["ladder"] = self.ladder[index]
        if "features" in self.__dict__:
            part.__dict__["features"] = self.features if len(self.features) == 1 else self.features[index]
        return part

    def unpack(self, packed: Array) -> tuple[Array, Array]:
        """Return the symmetric (B, k, k) matrix and the (B, k) vector behind packed coordinates."""
        k = len(self.pi)
        matrix = np.empty((len(packed), k, k), packed.dtype)
        pairs = packed[:, : len(self.rows)]
        matrix[:, self.rows, self.columns] = pairs
        matrix[:, self.columns, self.rows] = pairs
        return matrix, packed[:, len(self.rows) :]

    def pack(self, matrix: Array, vector: Array) -> Array:
        """Return the packed coordinates (B, K) of a symmetric matrix and a vector."""
        return np.concatenate([matrix[:, self.rows, self.columns], vector], axis=1)


@dataclass
class Response:
    """Solution of (3.2)-(3.4), or of (6.2)-(6.4), at given Vh1 (B, k, k) and D (B, k).

    `g` belongs to an isotropic bulk and `gm` to a finite batch; the other one has no entries.
    """

    R: Array
    g: Array
    S: Array
    Vh1: Array
    D: Array
    gm: Array

    def take(self, index: Any) -> Response:
        """Return the points in `index`."""
        return Response(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def put(self, index: Any, part: Response) -> None:
        """Overwrite the points in `index`."""
        for name in self.__dataclass_fields__:
            getattr(self, name)[index] = getattr(part, name)

    @classmethod
    def join(cls, parts: Sequence[Response]) -> Response:
        """Concatenate chunks of points."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    def transfer(self, block_width: Floats) -> Array:
        """Return the matrix I - diag(R^2/beta_q) (g o g) whose inverse carries a change of D to a change of R."""
        return np.eye(self.R.shape[1]) - (self.R**2 / block_width)[:, :, None] * self.g**2


def respond(equations: Equations, V: Array, R: Array, gm: Array | None = None, max_steps: int = 300) -> Response:
    """Return the response of the bulk to V: the hats of (3.1), then (3.2)-(3.4) or (6.2)-(6.4), warm-started."""
    Vh1, D = hats(equations, V)
    if equations.batch is None:
        return isotropic_response(Vh1, D, equations.block_width, R)
    k, size = len(equations.pi), equations.batch.size
    if gm is None:
        R = equations.block_width / (D + np.einsum("bqq->bq", Vh1) * equations.batch.row_norm)
        gm = np.zeros((len(R), size, size), R.dtype)
        gm[:, range(k, size), range(k, size)] = 0.5
        gm[:, :k, :k] = 0.5 * np.sqrt(np.abs(R))[:, :, None] * Vh1 * np.sqrt(np.abs(R))[:, None, :]
    gm, R = batch_bulk.solve_bulk(equations.batch, equations.ladder, Vh1, D, equations.block_width, gm, R, max_steps)
    bulk = batch_bulk.Bulk.at(equations.batch, equations.ladder, gm, R, Vh1)
    S = batch_bulk.bulk_response(bulk, k)
    return Response(R, np.empty((len(R), 0, 0)), S, Vh1, D, gm)


def isotropic_response(Vh1: Array, D: Array, block_width: Floats, start: Array, max_steps: int = 40) -> Response:
    """Solve R_q = beta_q/(D_q + g_qq) by Newton, warm-started; each point stops on its own."""
    k = D.shape[1]
    eye = np.eye(k)
    R = np.array(start)
    busy = np.ones(len(R), dtype=bool)
    for _ in range(max_steps):
        g = solve_each(eye + Vh1 * R[:, None, :], Vh1)
        f = block_width / (D + np.einsum("bqq->bq", g))
        matrix = eye - (f**2 / block_width)[:, :, None] * g**2
        change = solve_each(matrix, (f - R)[:, :, None])[:, :, 0]
        proposal = R + change
        if not np.iscomplexobj(R):  # a step across zero is replaced by the plain map
            sign = np.sign(R)
            proposal = np.where((np.sign(proposal) == sign).all(axis=1)[:, None], proposal, f)
        R = np.where(busy[:, None], proposal, R)
        busy &= np.max(np.abs(change) / np.abs(R), axis=1) > 1e-14
        if not busy.any():
            break
    mixing = eye + Vh1 * R[:, None, :]
    g = solve_each(mixing, Vh1)
    # S = (I + diag(R) Vh1)^-1 diag R is the transpose of diag(R) (I + Vh1 diag R)^-1
    S = R[:, :, None] * solve_each(mixing, np.broadcast_to(eye, mixing.shape))
    S = 0.5 * (S + np.swapaxes(S, 1, 2))
    return Response(R, 0.5 * (g + np.swapaxes(g, 1, 2)), S, Vh1, D, np.empty((len(R), 0, 0)))


@dataclass
class FirstOrder:
    """First-order solution of B points: V at the nodes (B, N), the response, residual, iterations."""

    equations: Equations
    V: Array
    response: Response
    residual: Floats
    iterations: Integers

    @property
    def denominator(self) -> Array:
        """B + V at the nodes."""
        return self.equations.b[:, None] + self.V

    @property
    def node_weights(self) -> Array:
        """R w/(b + V): the weights of the effective least-squares problem (B, N)."""
        return self.equations.ratio[:, None] * self.equations.tables.weights / self.denominator

    @property
    def squared_weights(self) -> Array:
        """R w/(b + V)^2 (B, N)."""
        return self.node_weights / self.denominator

    def take(self, index: Integers) -> FirstOrder:
        """Return the solution of the points in `index`."""
        return FirstOrder(
            self.equations.take(index),
            self.V[index],
            self.response.take(index),
            self.residual[index],
            self.iterations[index],
        )


def hats(equations: Equations, V: Array) -> tuple[Array, Array]:
    """Return Vh1 (B, k, k) and D = a + Vh2 (B, k) of (3.1)."""
    tables = equations.tables
    weights = equations.ratio[:, None] * tables.weights / (equations.b[:, None] + V)
    Vh1 = (tables.mu1 * weights[:, None, :]) @ np.swapaxes(tables.mu1, 1, 2)
    Vh2 = (tables.mu2 @ weights[:, :, None])[:, :, 0]
    return 0.5 * (Vh1 + np.swapaxes(Vh1, 1, 2)), equations.a[:, None] + Vh2


def variance_function(equations: Equations, response: Response) -> Array:
    """Return V(kappa) = [mu1^T S mu1 + mu2 . R]/beta at the nodes (B, N), equation (3.4)."""
    mu1, mu2 = equations.tables.mu1, equations.tables.mu2
    V = np.einsum("bqn,bqn->bn", mu1, response.S @ mu1) + (response.R[:, None, :] @ mu2)[:, 0, :]
    return V / equations.width[:, None]


def response_matrix(equations: Equations, response: Response) -> Array:
    """Return -d(V1, V2)/d(Vh1, D) in packed coordinates (B, K, K), equation (4.5)."""
    if equations.batch is not None:
        return batch_tangents(equations, response).matrix
    S, R = response.S, response.R
    beta, block_width = equations.width, equations.block_width
    rows, columns = equations.rows, equations.columns
    k, pairs = len(equations.pi), len(equations.rows)
    count = pairs + k
    Th = np.eye(k) - S @ response.Vh1
    multiplicity = equations.multiplicity[:pairs]
    drive = np.zeros((len(R), k, count), S.dtype)
    drive[:, :, :pairs] = np.swapaxes(Th[:, rows] * Th[:, columns], 1, 2) * multiplicity
    drive[:, np.arange(k), pairs + np.arange(k)] = 1.0
    delta = solve_each(response.transfer(block_width), (R**2 / block_width)[:, :, None] * drive)
    out = np.empty((len(R), count, count), S.dtype)
    products = S[:, rows] * S[:, columns]  # S_il S_jl for the packed pair (i, j)
    out[:, :pairs] = products @ (delta / (R**2)[:, :, None])
    out[:, pairs:] = delta
    direct = S[:, rows][:, :, rows] * S[:, columns][:, :, columns]
    crossed = S[:, rows][:, :, columns] * S[:, columns][:, :, rows]
    out[:, :pairs, :pairs] += np.where(rows == columns, direct, direct + crossed)
    return out / beta[:, None, None]


def batch_tangents(equations: Equations, response: Response) -> batch_bulk.Tangents:
    """Return how (gm, R) of a finite batch move with Vh1 and D."""
    assert equations.batch is not None
    bulk = batch_bulk.Bulk.at(equations.batch, equations.ladder, response.gm, response.R, response.Vh1)
    return batch_bulk.tangents(
        equations.batch, bulk, response.R, response.D, equations.rows, equations.columns, equations.width
    )


def packed_coupling(equations: Equations, squared_weights: Array) -> Array:
    """Return K_ab = r E[m_a m_b c_b/(b+V)^2] in packed coordinates (B, K, K)."""
    m = equations.features
    return ((m * squared_weights[:, None, :]) @ np.swapaxes(m, 1, 2)) * equations.multiplicity


def kernel(equations: Equations, response: Response) -> tuple[Array, Array, Array]:
    """Return Ker (B, N, N), E (B, k, N) and Mi (B, k, k) of (3.5)."""
    S, R = response.S, response.R
    mu1, mu2 = equations.tables.mu1, equations.tables.mu2
    smooth = S @ mu1
    E = mu2 + smooth**2 / (R**2)[:, :, None]
    diagonal = np.eye(R.shape[1]) * (equations.block_width / R**2)[:, :, None]
    Mi = solve_each(diagonal - response.g**2, np.broadcast_to(np.eye(R.shape[1]), diagonal.shape))
    pairs = np.swapaxes(mu1, 1, 2) @ smooth
    return (pairs**2 + np.swapaxes(E, 1, 2) @ (Mi @ E)) / equations.width[:, None, None], E, Mi


def solve_first_order(
    equations: Equations, start: FirstOrder | None = None, *, packed: bool | None = None, probe: bool = False
) -> FirstOrder:
    """Solve for V at every point, in chunks that stay in cache; real or complex by the dtype of `equations.a`.

    `start`, the solution of as many points, warm-starts; without it Newton starts from above (Vh = 0), where it needs
    no damping. `packed` chooses the coordinates; by default they are packed for at most 8 blocks.
    `probe` gives up early, for points that may have no solution.
    """
    if packed is None:
        packed = len(equations.pi) <= PACKED_BLOCKS
    count = len(equations.ratio)
    size = (CHUNK if equations.batch is None else BATCH_CHUNK) if packed else KERNEL_CHUNK
    parts = []
    for first in range(0, count, size):
        index = np.arange(first, min(first + size, count))
        warm = None if start is None else start.take(index)
        parts.append(_solve_chunk(equations.take(index), warm, packed, probe))
    V, responses, residual, iterations = zip(*parts)
    return FirstOrder(
        equations, np.concatenate(V), Response.join(responses), np.concatenate(residual), np.concatenate(iterations)
    )


def starting_response(equations: Equations) -> tuple[Array, Array]:
    """Return (V, R) of the map at Vh = 0, above the solution: R_q = beta_q/a, S = diag R."""
    a = equations.a
    safe = np.where(a == 0, 1e-8, a)
    R = equations.block_width / safe[:, None]
    tables = equations.tables
    V = (R[:, None, :] @ (tables.mu1**2 + tables.mu2))[:, 0, :] / equations.width[:, None]
    return V, R


def _solve_chunk(
    equations: Equations, start: FirstOrder | None, packed: bool, probe: bool
) -> tuple[Array, Response, Floats, Integers]:
    if start is None:
        V, R = starting_response(equations)
        gm = None if equations.batch is None else respond(equations, V, R).gm
    else:
        V, R, gm = start.V, start.response.R, start.response.gm
    real = not np.iscomplexobj(equations.a)
    if packed:
        _ = equations.features
    # the last R and gm of every point, from which its next inner solve starts
    last_R = np.array(R, dtype=equations.a.dtype)
    last_gm = np.empty((len(R), 0, 0)) if gm is None else np.array(gm, dtype=equations.a.dtype)

    def answer(part: Equations, V: Array, active: Any) -> Response:
        response = respond(part, V, last_R[active], last_gm[active], PROBE_STEPS if probe else 300)
        lost = np.flatnonzero(~np.isfinite(response.R).all(axis=1))
        if part.batch is not None and lost.size and not probe:  # once more, from a cold start
            response.put(lost, respond(part.take(lost), V[lost], response.R[lost]))
        return response

    def step(V: Array, active: Integers) -> tuple[Array, Array, Array]:
        part = equations if len(active) == len(equations.ratio) else equations.take(active)
        response = answer(part, V, active)
        plain = variance_function(part, response)
        denominator = part.b[:, None] + V
        weights = part.tables.weights
        residual = np.sqrt(np.sum(weights * np.abs((plain - V) / denominator) ** 2, axis=1))
        shift = np.max(np.abs(response.R / last_R[active] - 1), axis=1)
        kept = np.isfinite(response.R).all(axis=1)
        last_R[active[kept]], last_gm[active[kept]] = response.R[kept], response.gm[kept]
        squared = part.ratio[:, None] * weights / denominator**2
        newton = V + _newton_increment(part, response, squared, plain - V, packed)
        if real:
            sign = np.sign(np.real(part.b[:, None] + plain))
            newton[~(np.sign(part.b[:, None] + newton) == sign).all(axis=1)] = np.nan
        return plain, newton, np.maximum(residual, np.where(residual < 1e-12, shift, 0.0))

    found = solve_fixed_point(step, V, max_steps=PROBE_STEPS if probe else 60)
    return found.x, answer(equations, found.x, slice(None)), found.residual, found.iterations


def _newton_increment(equations: Equations, response: Response, squared: Array, mismatch: Array, packed: bool) -> Array:
    """Return dV of (I - Ker W2) dV = V_new - V, in packed coordinates or at the nodes."""
    if packed:
        # dV = mismatch + c m . y with y the packed change that the mismatch causes: y = L K-type response
        L = response_matrix(equations, response)
        K = packed_coupling(equations, squared)
        m = equations.features
        source = m @ (squared * mismatch)[:, :, None]
        y = solve_each(np.eye(L.shape[1]) - L @ K, L @ source)[:, :, 0]
        increment: Array = mismatch + ((y * equations.multiplicity)[:, None, :] @ m)[:, 0, :]
        return increment
    Ker, _, _ = kernel(equations, response)
    matrix = np.eye(Ker.shape[1]) - Ker * squared[:, None, :]
    return solve_each(matrix, mismatch[:, :, None])[:, :, 0]
