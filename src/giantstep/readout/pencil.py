"""The matrices of a bulk after a finite batch, spiked_features (6.2), and their linearisation; see `batch_bulk`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from giantstep.solve import solve_each
from giantstep.types import Array, Floats

if TYPE_CHECKING:
    from giantstep.readout.batch_bulk import BatchBulk


def small_inverse(matrices: Array) -> Array:
    """Invert stacks of small matrices; sizes 1 and 2 in closed form, for speed."""
    size = matrices.shape[-1]
    if size == 1:
        return 1 / matrices
    if size == 2:
        (a, b), (c, d) = np.moveaxis(matrices, (-2, -1), (0, 1))
        out = np.empty_like(matrices)
        determinant = a * d - b * c
        out[..., 0, 0], out[..., 0, 1] = d / determinant, -b / determinant
        out[..., 1, 0], out[..., 1, 1] = -c / determinant, a / determinant
        return out
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        flat = matrices.reshape(-1, size, size)
        return solve_each(flat, np.broadcast_to(np.eye(size), flat.shape)).reshape(matrices.shape)


def small_product(left: Array, right: Array) -> Array:
    """Multiply stacks of small matrices; size 2 in closed form, for speed."""
    if left.shape[-1] != 2:
        product: Array = left @ right
        return product
    first = left[..., :, 0, None] * right[..., None, 0, :]
    first += left[..., :, 1, None] * right[..., None, 1, :]
    return first


@dataclass
class Pencil:
    """The matrices of (6.2) at given gm, R, Vh1; everything has a leading batch axis."""

    gm: Array
    root: Array  # (B, k)
    sign: Array  # (B, 1)
    z: Array
    A: Array  # l (I + gm l/alpha0)^-1 at the nodes (B, J, M, M)
    y: Array
    N: Array  # (I + z y)^-1
    image: Array  # N z

    @classmethod
    def at(cls, batch: BatchBulk, gm: Array, R: Array, Vh1: Array) -> Pencil:
        """Evaluate the matrices."""
        k, size = batch.linear.shape[1], batch.size
        if np.iscomplexobj(R) and np.any(np.abs(R.imag) > 1e-8 * np.abs(R)):
            root, sign = np.sqrt(R), np.ones((len(R), 1))
        else:  # all R have one sign outside the bulk: keep the roots real (or their complex-step neighbours)
            sign = np.sign(R.real[:, :1])
            root = np.sqrt(sign * R)
        z = np.zeros((len(R), size, size), np.result_type(R, Vh1))
        z[:, :k, :k] = sign[:, :, None] * root[:, :, None] * Vh1 * root[:, None, :]
        eye = np.eye(size)
        z[:, range(k, size), range(k, size)] = 1.0
        response = small_product((gm / batch.alpha0[:, None, None])[:, None], batch.ladder)
        A = small_product(batch.ladder, small_inverse(eye + response))
        y = np.einsum("bj,bjmn->bmn", batch.weights[:, 0], A)
        y[:, range(k), range(k)] += 1.0
        N = small_inverse(eye + z @ y)
        return cls(gm, root, sign, z, A, y, N, N @ z)

    @property
    def scale(self) -> Array:
        """What turns the upper left block of a lower-case matrix into that of section 6: R_q^1/2 R_q'^1/2 (B, k, k)."""
        return self.sign[:, :, None] * self.root[:, :, None] * self.root[:, None, :]

    def mismatch(self, R: Array, D: Array, block_width: Floats) -> tuple[Array, Array, Floats]:
        """Return by how much (6.2) and (6.3) are missed, N z - gm and R_q D_q + 1 - N_qq - beta_q, and the size."""
        q = np.arange(R.shape[1])
        of_g, of_R = self.image - self.gm, R * D + 1 - self.N[:, q, q] - block_width
        relative = np.max(np.abs(of_g), axis=(1, 2)) / np.max(np.abs(self.image), axis=(1, 2))
        return of_g, of_R, np.maximum(relative, np.max(np.abs(of_R) / block_width, axis=1))

    def response(self, k: int) -> Array:
        """Return S = beta V1 (B, k, k)."""
        S = (self.y @ self.N)[:, :k, :k]
        S = self.sign[:, :, None] * self.root[:, :, None] * S * self.root[:, None, :]
        return 0.5 * (S + np.swapaxes(S, 1, 2))


def _pair_operator(batch: BatchBulk, pencil: Pencil) -> Array:
    """Return the matrix of X -> E_b[A X A]/alpha0 on flattened X, (B, M^2, M^2)."""
    count, nodes, size, _ = pencil.A.shape
    flat = pencil.A.reshape(count, nodes, size * size)
    weighted = flat * (batch.weights[:, 0] / batch.alpha0[:, None])[:, :, None]
    products = np.swapaxes(weighted, 1, 2) @ flat  # [(a, c), (d, b)] = E A_ac A_db
    products = products.reshape(count, size, size, size, size)
    return products.transpose(0, 1, 4, 2, 3).reshape(count, size * size, size * size)


def _sandwich(left: Array, operator: Array, right: Array) -> Array:
    """Return the matrix of X -> left Op(X) right on flattened X."""
    count, size = left.shape[0], left.shape[1]
    both = left[:, :, None, :, None] * np.swapaxes(right, 1, 2)[:, None, :, None, :]
    sandwich: Array = both.reshape(count, size * size, size * size) @ operator
    return sandwich


def linearise(batch: BatchBulk, pencil: Pencil, R: Array, D: Array) -> tuple[Array, Array]:
    """Return the Jacobian of gm - N z = 0 and R_q D_q + 1 - N_qq - beta_q = 0 in (gm, log R), and that of y in gm."""
    count, k = R.shape
    size = batch.size
    square = size * size
    pair = _pair_operator(batch, pencil)
    dtype = np.result_type(pencil.A, R)
    matrix = np.zeros((count, square + k, square + k), dtype)
    matrix[:, :square, :square] = np.eye(square) - _sandwich(pencil.image, pair, pencil.image)
    response = _sandwich(pencil.image, pair, pencil.N).reshape(count, size, size, square)  # dN from dgm
    q = np.arange(k)
    matrix[:, square + q, :square] = -response[:, q, q]
    complement = np.eye(size) - pencil.y @ pencil.image
    for block in range(k):
        dz = scale_direction(pencil, block, k)
        matrix[:, :square, square + block] = -(pencil.N @ dz @ complement).reshape(count, square)
        dN = -pencil.N @ dz @ pencil.y @ pencil.N
        matrix[:, square + q, square + block] = -dN[:, q, q]
        matrix[:, square + block, square + block] += R[:, block] * D[:, block]
    return matrix, -pair


def scale_direction(pencil: Pencil, block: int, k: int) -> Array:
    """Return dz for d log R_block = 1: rows and columns of W each scale by one half."""
    dz = np.zeros_like(pencil.z)
    dz[:, block, :k] += 0.5 * pencil.z[:, block, :k]
    dz[:, :k, block] += 0.5 * pencil.z[:, :k, block]
    return dz
