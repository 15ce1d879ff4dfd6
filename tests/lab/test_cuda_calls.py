"""What is asked of cuBLAS and cuSOLVER, carried out by NumPy on the addresses and sizes
that are passed to them.
"""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from giantstep.core.lab import algebra, cuda, ridge_path

LOWER = 11
NO = 22
TURN = 33


class Located(np.ndarray):
    """An array that tells its address as CuPy's do."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self):
        return self.view(np.ndarray)


def columns(address, rows, count):
    """Return the matrix in Fortran's order at an address."""
    pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_double))
    return np.ctypeslib.as_array(pointer, (count, rows)).T


def number(address):
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_double))[0]


def dsyrk(handle, fill, turn, n, k, alpha, a, lda, beta, c, ldc):
    assert (
        handle == "blas"
        and fill == LOWER
        and ldc >= n
        and lda >= (k if turn == TURN else n)
    )
    matrix = columns(a, lda, n)[:k].T if turn == TURN else columns(a, lda, k)[:n]
    total = columns(c, ldc, n)[:n]
    inside = np.tril_indices(n)
    total[inside] = (number(alpha) * matrix @ matrix.T + number(beta) * total)[inside]


def dpotrf(handle, fill, n, a, lda, work, length, info):
    assert handle == "solver" and fill == LOWER and length == 7
    matrix = columns(a, lda, n)[:n]
    inside = np.tril_indices(n)
    try:
        whole = np.tril(matrix) + np.tril(matrix, -1).T
        matrix[inside] = np.linalg.cholesky(whole)[inside]
    except np.linalg.LinAlgError:
        ctypes.cast(info, ctypes.POINTER(ctypes.c_int32))[0] = 3


@pytest.fixture
def gpu(monkeypatch):
    """CuPy with its libraries, as far as these modules use them."""

    class Namespace(ModuleType):
        RawKernel = None
        cuda = SimpleNamespace(
            device=SimpleNamespace(
                get_cublas_handle=lambda: "blas", get_cusolver_handle=lambda: "solver"
            )
        )

        def __getattr__(self, name):
            value = getattr(np, name)
            if isinstance(value, type) or not callable(value):
                return value
            return lambda *words, **options: _located(value(*words, **options))

    cublas = SimpleNamespace(
        CUBLAS_FILL_MODE_LOWER=LOWER, CUBLAS_OP_N=NO, CUBLAS_OP_T=TURN, dsyrk=dsyrk
    )
    cusolver = SimpleNamespace(
        dpotrf_bufferSize=lambda handle, fill, n, a, lda: 7, dpotrf=dpotrf
    )
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.cublas", cublas)
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.cusolver", cusolver)
    solve = SimpleNamespace(solve_triangular=_solve_triangular)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.linalg", solve)
    monkeypatch.setattr(cuda, "ENABLED", True)
    return Namespace("cupy")


def _located(value):
    return value.view(Located) if isinstance(value, np.ndarray) else value


def _solve_triangular(factor, right, lower, trans):
    import scipy.linalg

    return _located(
        scipy.linalg.solve_triangular(
            factor.get(), right.get(), lower=lower, trans=trans
        )
    )


def test_products_fill_the_lower_triangle(gpu):
    features = gpu.asarray(np.random.default_rng(1).standard_normal((50, 30)))
    total = gpu.zeros((30, 30), order="F")
    for rows in (features[:7], features[7:], features[::2][:0]):
        algebra.add_gram(total, rows, gpu)
    np.testing.assert_allclose(
        np.tril(total), np.tril(features.get().T @ features.get()), atol=1e-12
    )
    assert not np.triu(total, 1).any()
    outer = algebra.outer_gram(features[:, ::2], gpu)
    kept = features.get()[:, ::2]
    np.testing.assert_allclose(np.tril(outer), np.tril(kept @ kept.T), atol=1e-12)


def test_a_factor_leaves_its_matrix_and_may_not_exist(gpu):
    features = gpu.asarray(np.random.default_rng(2).standard_normal((50, 30)))
    kernel = algebra.outer_gram(features, gpu)
    before = kernel.copy()
    factor = algebra.cholesky(kernel[:20, :20], 2.0, gpu)
    whole = features.get()[:20] @ features.get()[:20].T + 2.0 * np.eye(20)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(whole), atol=1e-12)
    np.testing.assert_array_equal(kernel, before)
    assert (
        algebra.cholesky(kernel, 0.0, gpu) is None
        and algebra.cholesky(-kernel, 0.0, gpu) is None
    )


def test_a_learning_curve_is_that_of_the_cpu(gpu, monkeypatch):
    monkeypatch.setattr(algebra, "_PANEL", 16)
    rng = np.random.default_rng(3)
    features = rng.standard_normal((150, 40))
    labels = rng.standard_normal(150)
    sizes = np.array([5, 20, 40, 50, 90, 150, 90])
    penalties = np.array([1.0] * 6 + [0.5])
    monkeypatch.setattr(
        "giantstep.core.lab.ridge.to_numpy", lambda array: np.asarray(array)
    )
    fitted, train = ridge_path(
        [(gpu.asarray(features), gpu.asarray(labels))], 40, sizes, penalties, gpu
    )
    expected, also = ridge_path([(features, labels)], 40, sizes, penalties, np)
    np.testing.assert_allclose(fitted, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(train, also, rtol=1e-10)
