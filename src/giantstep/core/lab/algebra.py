"""Dense linear algebra of experiments, the one module that tells the CPU from a GPU
(`giantstep.core.lab.cuda`).

On the CPU every large product goes through SciPy's BLAS, as the factorisations do:
NumPy's has its threads, and where calls alternate the two sets of threads wait for each
other (measured: twice the time). Symmetric matrices are read from their lower triangle;
only that is sure to be filled.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from giantstep.core.base.types import DeviceArray, Floats
from giantstep.core.lab import cuda
from giantstep.core.lab.devices import array_module, to_numpy

_GEMM, _GEMV, _SYMV, _SYRK = get_blas_funcs(
    ("gemm", "gemv", "symv", "syrk"), dtype=np.float64
)
_POTRF = get_lapack_funcs("potrf", dtype=np.float64)
_PANEL = 2048
"""Columns of a symmetric matrix that are multiplied at a time on a GPU."""
_EPS = float(np.finfo(np.float64).eps)


def multiply(
    left: DeviceArray,
    right: DeviceArray,
    xp: ModuleType,
    out: DeviceArray = None,
    add: bool = False,
) -> DeviceArray:
    """Return left @ right for matrices, written into or (`add`) added to a C-contiguous
    `out` where given.
    """
    if xp is np:
        if out is None:
            out = np.empty((len(left), right.shape[1]))
        assert out.flags.c_contiguous
        first, turn_first = _as_fortran(right)
        second, turn_second = _as_fortran(left)
        weight = 1.0 if add else 0.0
        _GEMM(1.0, first, second, weight, out.T, turn_first, turn_second, overwrite_c=1)
        return out
    if add:
        out += left @ right
        return out
    return xp.matmul(left, right, out=out)


def _as_fortran(matrix: DeviceArray) -> tuple[DeviceArray, int]:
    """Return a Fortran-ordered view whose transpose (1) or itself (0) is matrix.T."""
    return (matrix, 1) if matrix.flags.f_contiguous else (matrix.T, 0)


def column_sums(
    features: DeviceArray, labels: DeviceArray, xp: ModuleType
) -> DeviceArray:
    """Return F^T y."""
    if xp is np:
        return _GEMV(1.0, features.T, labels)
    return labels @ features


def add_gram(total: DeviceArray, features: DeviceArray, xp: ModuleType) -> None:
    """Add F^T F to a Fortran-ordered matrix in place."""
    if xp is np:
        _SYRK(1.0, features.T, 1.0, total, lower=1, overwrite_c=1)
    elif cuda.is_cuda(xp):
        cuda.add_gram(total, features, xp)
    else:
        total += features.T @ features


def outer_gram(features: DeviceArray, xp: ModuleType) -> DeviceArray:
    """Return F F^T."""
    if xp is np:
        return _SYRK(1.0, features.T, trans=1, lower=1)
    if cuda.is_cuda(xp):
        return cuda.outer_gram(features, xp)
    return features @ features.T


def smaller_gram(features: DeviceArray, xp: ModuleType) -> DeviceArray:
    """Return F^T F or F F^T, whichever is smaller; only its lower triangle is
    filled.
    """
    rows, columns = features.shape
    if columns >= rows:
        return outer_gram(features, xp)
    gram = xp.zeros((columns, columns), order="F")
    add_gram(gram, features, xp)
    return gram


def symmetric_product(
    matrix: DeviceArray, vector: DeviceArray, xp: ModuleType
) -> DeviceArray:
    """Return a symmetric matrix times a vector."""
    if xp is np:
        return _SYMV(1.0, matrix, vector, lower=1)
    if not cuda.is_cuda(xp):
        return matrix @ vector
    product = xp.zeros(len(vector))
    for start in range(0, len(vector), _PANEL):
        here = slice(start, start + _PANEL)
        below = slice(start + _PANEL, None)
        corner = xp.tril(matrix[here, here])
        panel = matrix[below, here]
        product[here] += (
            corner @ vector[here]
            + xp.tril(corner, -1).T @ vector[here]
            + panel.T @ vector[below]
        )
        product[below] += panel @ vector[here]
    return product


def eigenvalues(matrix: DeviceArray, xp: ModuleType) -> DeviceArray:
    """Return the eigenvalues of a symmetric matrix in increasing order."""
    if xp is np:
        return scipy.linalg.eigvalsh(matrix, lower=True, check_finite=False)
    return xp.linalg.eigvalsh(matrix)


def eigenvectors(
    matrix: DeviceArray, xp: ModuleType
) -> tuple[DeviceArray, DeviceArray]:
    """Return the eigenvalues of a symmetric matrix in increasing order and its
    eigenvectors as columns.
    """
    if xp is np:
        return scipy.linalg.eigh(matrix, lower=True, driver="evd", check_finite=False)
    return xp.linalg.eigh(matrix)


def leading_eigenvectors(
    matrix: DeviceArray, count: int, xp: ModuleType
) -> tuple[DeviceArray, DeviceArray]:
    """Return the `count` largest eigenvalues of a symmetric matrix, largest first, and
    the eigenvectors as columns.
    """
    if xp is np:
        largest = (len(matrix) - count, len(matrix) - 1)
        values, vectors = scipy.linalg.eigh(
            matrix, lower=True, subset_by_index=largest, check_finite=False
        )
    else:
        values, vectors = xp.linalg.eigh(matrix)
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def cholesky(matrix: DeviceArray, shift: float, xp: ModuleType) -> DeviceArray | None:
    """Return the lower Cholesky factor of matrix + shift, None where it is not of full
    rank to rounding.
    """
    size = len(matrix)
    diagonal = (xp.arange(size),) * 2
    # in Fortran's order
    shifted = np.array(matrix, order="F") if xp is np else matrix.T.copy().T
    shifted[diagonal] += shift
    sizes = shifted[diagonal]
    if xp is np:
        factor, failed = _POTRF(shifted, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
    elif cuda.is_cuda(xp):
        if not cuda.factor_in_place(shifted, xp):
            return None
        factor = shifted
    else:
        try:
            factor = xp.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            return None
    if bool(xp.all(factor[diagonal] ** 2 > 4 * size * _EPS * sizes)):
        return factor
    return None


def solve_triangular(
    factor: DeviceArray, right: DeviceArray, transposed: bool, xp: ModuleType
) -> DeviceArray:
    """Solve with a lower triangular factor or its transpose."""
    if xp is np:
        return scipy.linalg.solve_triangular(
            factor, right, trans=int(transposed), lower=True, check_finite=False
        )
    if xp.__name__ == "cupy":
        solve = importlib.import_module("cupyx.scipy.linalg").solve_triangular
        return solve(factor, right, lower=True, trans=int(transposed))
    return xp.linalg.solve(factor.T if transposed else factor, right)


# -- Leading singular vectors of a large matrix, on any device -------------------------


KRYLOV_BLOCKS = 15
"""Blocks of the Krylov space in which the leading singular vectors are found."""


def leading_vectors(
    X: DeviceArray, count: int, generator: Any
) -> tuple[DeviceArray, Floats]:
    """Return the leading left singular vectors (n, count) and singular values of a
    matrix, in a block Krylov space.

    Just above the edge of the bulk the vectors are those of largest variance there.
    Small matrices are decomposed.
    """
    xp = array_module(X)
    n, d = X.shape
    width = min(count + 2, n, d)
    if min(n, d) <= 4 * KRYLOV_BLOCKS * width:
        values, vectors = xp.linalg.eigh(X @ X.T if n <= d else X.T @ X)
        values = xp.sqrt(xp.maximum(values[::-1][:count], 1e-300))
        vectors = vectors[:, ::-1][:, :count]
        return vectors if n <= d else (X @ vectors) / values, to_numpy(values)
    block = xp.linalg.qr(
        multiply(X, generator.standard_normal((d, width), dtype=np.float64), xp)
    )[0]
    basis = block
    for _ in range(KRYLOV_BLOCKS - 1):
        block = multiply(X, multiply(X.T, xp.ascontiguousarray(block), xp), xp)
        for _ in range(2):
            block = block - basis @ (basis.T @ block)
        block = xp.linalg.qr(block)[0]
        basis = xp.concatenate([basis, block], axis=1)
    image = multiply(X.T, xp.ascontiguousarray(basis), xp)
    values, vectors = xp.linalg.eigh(image.T @ image)
    return basis @ vectors[:, ::-1][:, :count], to_numpy(
        xp.sqrt(xp.maximum(values[::-1][:count], 0.0))
    )
