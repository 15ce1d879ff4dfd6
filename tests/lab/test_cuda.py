"""Symmetric matrices on a GPU: the lower triangles of the CPU, learning curves to
1e-10, one worker and two.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.lab import algebra, cuda, ridge_path

pytestmark = pytest.mark.gpu


@pytest.fixture
def cupy(monkeypatch):
    monkeypatch.setattr(cuda, "ENABLED", True)
    monkeypatch.setenv("GIANTSTEP_CUDA_LIBRARIES", "1")  # for worker processes
    return pytest.importorskip("cupy")


def test_triangles_are_those_of_the_cpu(cupy, monkeypatch):
    rng = np.random.default_rng(1)
    features = rng.standard_normal((700, 300))
    vector = rng.standard_normal(300)
    there = cupy.asarray(features)
    total = cupy.zeros((300, 300), order="F")
    for rows in (there[:123], there[123:], there[:0]):
        algebra.add_gram(total, rows, cupy)
    gram = features.T @ features
    assert np.abs(np.tril(total.get() - gram)).max() < 1e-12 * gram.max()
    assert (
        np.abs(
            np.tril(algebra.outer_gram(there, cupy).get() - features @ features.T)
        ).max()
        < 1e-12 * gram.max()
    )
    monkeypatch.setattr(algebra, "_PANEL", 64)
    product = algebra.symmetric_product(total, cupy.asarray(vector), cupy).get()
    assert np.allclose(product, gram @ vector, rtol=1e-12)
    for part in (total, total[:200, :200]):
        size = len(part)
        factor = algebra.cholesky(part, 3.0, cupy)
        half = algebra.solve_triangular(
            factor, cupy.asarray(vector[:size]), False, cupy
        )
        solution = algebra.solve_triangular(factor, half, True, cupy).get()
        expected = np.linalg.solve(
            gram[:size, :size] + 3.0 * np.eye(size), vector[:size]
        )
        assert np.allclose(solution, expected, rtol=1e-10, atol=0)
    # it is not overwritten
    assert np.abs(np.tril(total.get() - gram)).max() < 1e-12 * gram.max()


def test_a_singular_matrix_has_no_factor(cupy):
    kernel = algebra.outer_gram(cupy.ones((20, 30)), cupy)
    assert algebra.cholesky(kernel, 0.0, cupy) is None
    assert algebra.cholesky(-kernel, 0.0, cupy) is None


def test_a_learning_curve_is_that_of_the_cpu(cupy):
    rng = np.random.default_rng(2)
    features = rng.standard_normal((1500, 400))
    labels = rng.standard_normal(1500)
    sizes = np.array([50, 200, 400, 500, 900, 1500, 50, 900])
    penalties = np.array([1.0] * 6 + [0.0, 0.0])
    found, train = ridge_path(
        [(cupy.asarray(features), cupy.asarray(labels))], 400, sizes, penalties, cupy
    )
    expected, also = ridge_path([(features, labels)], 400, sizes, penalties, np)
    assert np.abs(found.get() - expected).max() < 1e-10 * np.abs(expected).max()
    assert np.abs(train - also).max() < 1e-10


@pytest.mark.slow
def test_workers_on_a_gpu_give_the_numbers_of_one(cupy):
    scenario = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    settings = {
        "dim": 200,
        "trials": 4,
        "samples_per_dim": [0.5, 2.0],
        "device": "cuda",
    }
    one = gs.sweep(scenario, engine="local", **settings)
    two = gs.sweep(scenario, engine="processes", workers=2, **settings)
    assert np.allclose(one["test_error"], two["test_error"], rtol=1e-10, atol=0)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_classifier_on_a_gpu_has_the_errors_of_the_cpu(cupy, loss):
    """Flipped labels, too; the logistic fit runs on the GPU, the hinge loss on the CPU
    with features of the GPU.
    """
    scenario = gs.OneStep(
        target="sign(z)",
        width_per_dim=1.0,
        samples_per_dim=2.0,
        ridge=0.1,
        loss=loss,
        flip=0.1,
    )
    cpu, gpu = (
        gs.simulate(scenario, dim=60, trials=24, device=device)
        for device in ("cpu", "cuda")
    )
    for name in (
        "test_error",
        "train_error",
        "objective",
        "norm",
    ):  # two machines have draws of their own
        stderr = np.hypot(cpu[f"{name}_stderr"], gpu[f"{name}_stderr"])
        assert abs(float((gpu[name] - cpu[name]) / stderr)) < 4.5, name
