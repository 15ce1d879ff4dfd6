"""The covariance of the signal's coordinates after a finite batch, and how it moves; see `batch_bulk`.

spiked_features (6.5)-(6.7) for every activation: finite_batch_general (17.6)-(17.8), with the antisymmetric pencil.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from giantstep.readout.pencil import Pencil, small_inverse
from giantstep.types import Array, Floats

if TYPE_CHECKING:
    from giantstep.readout.batch_bulk import BatchBulk


@dataclass
class BatchVectors:
    """The vectors e, g_1, g_2, g_3 of the batch, A = 4, and what the signal's coordinates are made of."""

    f: Floats  # at the nodes (B, A, J)
    n: Floats  # along the target (B, A)
    inner: Floats  # <a, b> (B, A, A)
    directions: Floats  # v = g_1/G and v_perp = (e - gamma v)/rho in the vectors (B, 2, A)
    own: Floats  # coefficients of the vectors in m_q, over R_q (B, A, k)
    carried: Floats  # those that one more power of A carries (B, A, k)

    @classmethod
    def of(cls, batch: BatchBulk) -> BatchVectors:
        """Return the vectors of every point."""
        rho = batch.nodes
        f = np.stack([np.zeros_like(rho), rho, rho**2, rho**3], axis=1)
        n = (f @ batch.weights[:, 1, :, None])[:, :, 0]
        n[:, 0] = 1.0
        products = (f * batch.weights[:, :1]) @ np.swapaxes(f, 1, 2)
        inner = n[:, :, None] * n[:, None, :] + products / batch.alpha0[:, None, None]
        gamma, G = batch.gamma, batch.strength
        rest = np.sqrt(1 - gamma**2)
        directions = np.zeros((len(n), 2, f.shape[1]))
        directions[:, 0, 1], directions[:, 1, 0], directions[:, 1, 1] = 1 / G, 1 / rest, -gamma / (rest * G)
        own, carried = (np.pad(part, ((0, 0), (1, 0), (0, 0))) for part in (batch.own, batch.carried))
        return cls(f, n, inner, directions, own, carried)


@dataclass
class BatchSignal:
    """The response of the bulk to the vectors of the batch, at an inner solution (gm, R, Vh1)."""

    batch: BatchBulk
    R: Array
    Vh1: Array
    pencil: Pencil
    vectors: BatchVectors

    @classmethod
    def at(cls, batch: BatchBulk, gm: Array, R: Array, Vh1: Array) -> BatchSignal:
        """Evaluate the matrices."""
        return cls(batch, R, Vh1, Pencil.at(batch, gm, R, Vh1), BatchVectors.of(batch))

    @property
    def roots(self) -> Array:
        """R_q^1/2 for both halves of the pencil (B, M)."""
        return np.tile(self.pencil.root, (1, self.batch.size // self.R.shape[1]))

    @cached_property
    def seen_y(self) -> Array:
        """P + E_b[s^2 A], y as the target direction sees it (B, M, M)."""
        k = self.R.shape[1]
        y = np.einsum("bj,bjmn->bmn", self.batch.weights[:, 2], self.pencil.A)
        y[:, range(k), range(k)] += 1.0
        return y

    @cached_property
    def at_nodes(self) -> Array:
        """(I + C z)^-1 C with C = y + l/alpha0 at every node, and with C = y last (B, J + 1, M, M)."""
        y, z = self.pencil.y[:, None], self.pencil.z[:, None]
        C = np.concatenate([y + self.batch.ladder / self.batch.alpha0[:, None, None, None], y], axis=1)
        response: Array = small_inverse(np.eye(self.batch.size) + C @ z) @ C
        return response

    @cached_property
    def weights(self) -> tuple[Floats, Floats]:
        """Weights of pairs and of single vectors at the nodes and, last, of e alone, (B, J + 1) each."""
        batch = self.batch
        last = np.zeros((len(batch.alpha0), 1))
        pairs = np.concatenate([batch.weights[:, 0] / batch.alpha0[:, None], last], axis=1)
        return pairs, np.concatenate([batch.weights[:, 1], last + 1], axis=1)

    @cached_property
    def f(self) -> Floats:
        """The vectors at the nodes and, last, e alone (B, A, J + 1)."""
        count, size, _ = self.vectors.f.shape
        return np.concatenate([self.vectors.f, np.broadcast_to(np.eye(size)[:, :1], (count, size, 1))], axis=2)

    @cached_property
    def target_gap(self) -> tuple[Array, Array]:
        """(I + y z) H and H E, H = (I + seen_y z)^-1 and E = seen_y - y (B, M, M): what singles out the target."""
        eye, y, z = np.eye(self.batch.size), self.pencil.y, self.pencil.z
        H = small_inverse(eye + self.seen_y @ z)
        return (eye + y @ z) @ H, H @ (self.seen_y - y)

    @cached_property
    def N1(self) -> Array:
        """The part of the response along the target, y - (I + y z) H E (B, M, M)."""
        y = self.pencil.y
        return y - (np.eye(self.batch.size) + y @ self.pencil.z) @ self.target_gap[1]

    def between_vectors(self) -> Array:
        """Return S_ab of (6.6) for all pairs of vectors (B, A, A, M, M), in the scale of section 6."""
        count, size = len(self.R), self.batch.size
        n, z = self.vectors.n, self.pencil.z[:, None, None]
        Sr = self.at_nodes.reshape(count, -1, size * size)
        of_pair, of_one = self.weights
        A = n.shape[1]
        tau = ((self.f * of_one[:, None]) @ Sr).reshape(count, A, size, size)
        pairs = (self.f * of_pair[:, None])[:, :, None] * self.f[:, None]
        both = (pairs.reshape(count, A * A, -1) @ Sr).reshape(count, A, A, size, size)
        na, nb = n[:, :, None, None, None], n[:, None, :, None, None]
        ta, tb, eye = tau[:, :, None], tau[:, None], np.eye(size)
        left, right = na * eye - ta @ z, nb * eye - z @ tb
        S = both + nb * ta + na * tb - ta @ z @ tb - left @ self.N1[:, None, None] @ right
        roots = self.roots[:, None, None]
        return S * (self.pencil.sign[:, None, None] * roots)[..., :, None] * roots[..., None, :]

    def covariance(self) -> Array:
        """Return P (B, 3k, 3k) in the order t, psi, y."""
        count, k = self.R.shape
        R, Vh1, directions, inner = self.R, self.Vh1, self.vectors.directions, self.vectors.inner
        T = self.between_vectors()
        S = T[..., :k, :k]
        m = R[:, None] * self.vectors.own
        along = np.einsum("bux,bxyqr->buyqr", directions, S)
        P = np.zeros((count, 3, k, 3, k), np.result_type(S, R))
        P[:, :2, :, :2] = np.einsum("buyqr,bvy->buqvr", along, directions)
        seen = (directions @ inner)[:, :, :, None, None] * np.eye(k) - along @ Vh1[:, None, None]
        P[:, :2, :, 2] = np.einsum("buxqr,bxr->buqr", seen, m)
        core = inner[:, :, :, None, None] * Vh1[:, None, None] - Vh1[:, None, None] @ S @ Vh1[:, None, None]
        spread = (R * self.batch.spread)[:, :, None] * np.eye(k)
        P[:, 2, :, 2] = spread - np.einsum("bxq,bxyqr,byr->bqr", m, core, m)
        if self.batch.doubled:  # the lower half of the pencil carries one more power of A, (17.6)-(17.8)
            l = self.vectors.carried
            across, below = T[..., :k, k:], T[..., k:, k:]
            P[:, :2, :, 2] += np.einsum("bux,bxyqr,byr->buqr", directions, across, l)
            X = np.einsum("bxqs,bxysr,byr->bqr", m[..., None] * Vh1[:, None], across, l, optimize=True)
            P[:, 2, :, 2] -= X + np.swapaxes(X, 1, 2) + np.einsum("bxq,bxyqr,byr->bqr", l, below, l)
        P[:, 2, :, :2] = np.einsum("buqr->bruq", P[:, :2, :, 2])
        P = P.reshape(count, 3 * k, 3 * k)
        return 0.5 * (P + np.swapaxes(P, 1, 2))
