"""A Gaussian matrix that is never formed: only the products that were asked for are drawn, exactly in law.

X (n x d) has iid N(0,1) entries. Known are X A^T = Y for orthonormal rows A (in R^d) and X^T B^T = Z for orthonormal
rows B (in R^n). A new direction u orthogonal to A has, given all that, X u = (I - B^T B) g + B^T Z^T u with
g ~ N(0, I_n); X^T is the mirror image. A product costs O((n + d) x number of earlier ones), memory likewise: see
batch_reuse_dmft section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from giantstep.families.batch_reuse.tolerances import NOTHING_NEW
from giantstep.types import DeviceArray


class GaussianMatrix:
    """An iid N(0,1) matrix known by its products with vectors; `normal` draws standard normals of a shape."""

    def __init__(
        self, rows: int, columns: int, normal: Callable[[tuple[int, int]], DeviceArray], xp: ModuleType
    ) -> None:
        self._xp, self._normal = xp, normal
        self._right = _Side(xp.empty((0, columns)), xp.empty((0, rows)))
        self._left = _Side(xp.empty((0, rows)), xp.empty((0, columns)))

    def times(self, vectors: DeviceArray) -> DeviceArray:
        """Return X v for every row v of `vectors` (m, d), as rows (m, n)."""
        return self._product(vectors, self._right, self._left)

    def transposed_times(self, vectors: DeviceArray) -> DeviceArray:
        """Return X^T f for every row f of `vectors` (m, n), as rows (m, d)."""
        return self._product(vectors, self._left, self._right)

    def _product(self, vectors: DeviceArray, side: _Side, other: _Side) -> DeviceArray:
        """Split vectors into the known directions and new ones, draw the products of the new ones."""
        xp = self._xp
        inside, new, coefficients = _split(vectors, side.directions, xp)
        result = inside @ side.products
        if len(new):
            drawn = self._normal((len(new), side.products.shape[1]))
            drawn += (new @ other.products.T - drawn @ other.directions.T) @ other.directions
            side.directions = xp.concatenate([side.directions, new])
            side.products = xp.concatenate([side.products, drawn])
            result += coefficients @ drawn
        return result


@dataclass
class _Side:
    """Orthonormal directions and the products of the matrix with them, in rows."""

    directions: DeviceArray
    products: DeviceArray


def _split(vectors: DeviceArray, known: DeviceArray, xp: ModuleType) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
    """Return (c, u, b) with vectors = c known + b u, the rows of u orthonormal and orthogonal to `known`."""
    sizes = xp.sqrt((vectors**2).sum(axis=1))
    inside = vectors @ known.T
    basis, coefficients = _orthonormal(vectors - inside @ known, float(sizes.max()), xp)
    if len(basis):
        basis -= (basis @ known.T) @ known  # once more: the first time leaves rounding errors of the long part
        basis, change = _orthonormal(basis, 1.0, xp)
        coefficients = coefficients @ change
    return inside, basis, coefficients


def _orthonormal(rows: DeviceArray, size: float, xp: ModuleType) -> tuple[DeviceArray, DeviceArray]:
    """Return orthonormal rows u and coefficients b with rows = b u; directions that are rounding are left out.

    One after the other: eigenvectors of the Gram matrix have signs that depend on the processor, and the products that
    are drawn belong to the directions.
    """
    basis = rows[:0]
    for row in rows:
        new = row - (row @ basis.T) @ basis
        length = float(xp.sqrt(new @ new))
        if length > NOTHING_NEW * size:
            basis = xp.concatenate([basis, new[None] / length])
    return basis, rows @ basis.T
