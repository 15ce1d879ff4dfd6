"""Gradients of a two-layer network: on a batch against finite differences, on the
population against huge batches.
"""

import math

import numpy as np
import pytest

from giantstep.core.lab import Draws, chunk_rows
from giantstep.core.maths.gaussian import Function, as_target
from giantstep.problems.network.population_gradient import (
    hermite_tensor,
    population_gradient,
)
from giantstep.problems.network.weights import RealNetwork, batch_gradient
from giantstep.problems.network.whitened import Whitened

CHUNK = chunk_rows("cpu")


def rows_of(stream, rows, columns):
    """The rows of a stream as the experiment draws them: chunk by chunk."""
    return np.concatenate(
        [x.copy() for _, _, x in Draws(0, "test", 0).chunks(stream, rows, columns)]
    )


def sphere(p, d, seed=0):
    weights = np.random.default_rng(seed).standard_normal((p, d))
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


def expanded(target):
    """The Hermite expansion of a target along the first axis."""
    return hermite_tensor(as_target(Function(target))), Whitened.isotropic(1)


def network_of(activation, target, noise, weights):
    return RealNetwork(
        Function(activation),
        weights,
        lambda inputs: inputs[:, 0],
        Function(target),
        noise,
    )


@pytest.mark.parametrize("rows", [7, CHUNK + 300])
def test_batch_gradient_is_the_gradient_of_the_loss(rows):
    p = 5
    d = 4
    W = sphere(p, d)
    zeta = np.array([1.0, -1.0, 0.5, 2.0, 1.0])
    X = rows_of("batch", rows, d)
    y = np.sin(X[:, 0]) + math.sqrt(0.2) * rows_of("batch_noise", rows, 1)[:, 0]

    def loss(weights):
        f = np.tanh(X @ weights.T) @ (zeta / math.sqrt(p)) / math.sqrt(p)
        return np.sum((y - f) ** 2) / (2 * rows)

    slope = np.empty((p, d))
    for index in np.ndindex(p, d):
        move = np.zeros((p, d))
        move[index] = 1e-5
        slope[index] = (loss(W + move) - loss(W - move)) / 2e-5
    found, _ = batch_gradient(
        network_of("tanh", "sin(z)", 0.2, W), zeta, rows, Draws(0, "test", 0)
    )
    np.testing.assert_allclose(zeta[:, None] * found, -p * slope, atol=1e-8)


@pytest.mark.parametrize(
    ("activation", "target"),
    [
        ("tanh", "sin"),
        ("relu", "tanh"),
        ("relu", "relu"),
        ("erf", "sign"),
        ("h2", "h2(z) + z"),
        ("gelu", "abs"),
    ],
)
def test_population_gradient_is_the_mean_over_huge_batches(activation, target):
    p = 24
    d = 20
    repeats = 16
    W = sphere(p, d)
    zeta = np.where(np.arange(p) % 3, 1.0, -1.5)
    exact = population_gradient(Function(activation), expanded(target), W, zeta, np)
    network = network_of(activation, target, 0.0, W)
    batches = [
        batch_gradient(network, zeta, 8 * CHUNK, Draws(0, "test", trial))[0]
        for trial in range(repeats)
    ]
    error = np.std(batches, axis=0, ddof=1) / math.sqrt(repeats)
    scores = (np.mean(batches, axis=0) - exact) / error
    # Student's t with 15 degrees of freedom: variance 15/13; 480 correlated entries.
    assert abs(np.mean(scores**2) - 15 / 13) < 0.45
    assert np.abs(scores).max() < 5.5
    assert np.mean(error) < 0.01 * np.abs(exact).max()


def test_the_batch_gradient_approaches_the_population_gradient():
    W = sphere(30, 25)
    zeta = np.ones(30)
    exact = population_gradient(Function("relu"), expanded("tanh"), W, zeta, np)
    network = network_of("relu", "tanh", 0.1, W)
    gaps = [
        np.linalg.norm(batch_gradient(network, zeta, rows, Draws(0, "t", 0))[0] - exact)
        for rows in (10**2, 10**3, 10**4, 10**5)
    ]
    ratios = np.array(gaps[:-1]) / gaps[1:]
    assert (np.abs(ratios / math.sqrt(10) - 1) < 0.4).all()


def test_the_series_of_the_population_gradient_has_ended():
    W = sphere(60, 40)
    zeta = np.ones(60)
    overlaps = W @ W.T
    for name in ("relu", "tanh"):
        f = Function(name)
        found = population_gradient(f, expanded("0"), W, zeta, np)
        if name == "relu":
            angle = np.arccos(np.clip(overlaps, -1, 1))
            slopes = (np.pi - angle) / (2 * np.pi)
            exact = (
                -(slopes @ W + (np.sin(angle) / (2 * np.pi)).sum(1)[:, None] * W) / 60
            )
            np.testing.assert_allclose(found, exact, atol=1e-12)
        assert np.isfinite(found).all()
