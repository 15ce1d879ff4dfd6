"""Functions by the name that the engine knows them by, with the places of their kinks."""

from __future__ import annotations

import numpy as np
from scipy import special

import giantstep as gs

FUNCTIONS = {
    "relu": (lambda z: np.maximum(z, 0), [0.0]),
    "relu(z + 0.5)": (lambda z: np.maximum(z + 0.5, 0), [-0.5]),
    "tanh": (np.tanh, []),
    "tanh(z + 0.7)": (lambda z: np.tanh(z + 0.7), []),
    "erf": (special.erf, []),
    "gelu": (lambda z: z * special.ndtr(z), []),
    "softplus": (lambda z: np.logaddexp(0, z), []),
    "sin(z)": (np.sin, []),
    "sign(z)": (np.sign, [0.0]),
    "relu(z)": (lambda z: np.maximum(z, 0), [0.0]),
    "tanh(2*z)": (lambda z: np.tanh(2 * z), []),
    "h2(z)": (lambda z: z**2 - 1, []),
    "z + 0.5*h2(z)": (lambda z: z + 0.5 * (z**2 - 1), []),
}


def agree(errors, result, rel):
    """Hold a reference's errors against one point of an answer of the engine."""
    found = [
        float(result[name])
        for name in ("test_error", "train_error", "norm", "objective")
    ]
    expected = [errors.test, errors.train, errors.norm, errors.objective]
    np.testing.assert_allclose(found, expected, rtol=rel)
    # (4.10) holds at the solution only.
    assert errors.identity < 1e-11


def network(activation, target, steps, alpha, beta, readout, **fields):
    """Return the engine's description of the network."""
    return gs.Network(
        activation=activation,
        target=target,
        steps=steps,
        samples_per_dim=alpha,
        width_per_dim=beta,
        readout=readout,
        **fields,
    )
