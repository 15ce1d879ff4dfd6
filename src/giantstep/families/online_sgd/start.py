"""Where a run starts: overlaps and Gram matrix, the same for the limit and the experiment of a trial."""

from __future__ import annotations

from typing import Any

import numpy as np

from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.states import State
from giantstep.lab import Draws, array_module
from giantstep.types import DeviceArray


def is_random(scenario: OnlineSGD) -> bool:
    """Tell whether trials start differently."""
    return scenario.initial_overlap in ("random", "gaussian") or scenario.initial_gram == "random"


def is_odd(scenario: OnlineSGD) -> bool:
    """Tell whether the target is odd, so that the sign of a start carries no meaning."""
    z = np.random.default_rng(1).standard_normal((64, scenario.directions))
    values, mirrored = scenario.target(z), scenario.target(-z)
    return bool(np.allclose(values, -mirrored, rtol=1e-9, atol=1e-12 * np.abs(values).max()))


def starts(scenario: OnlineSGD, dim: int, seed: int, trial: int, runs: int) -> State:
    """Return the starts of the runs of one trial: overlaps with the whitened target directions, and Gram matrices.

    "random" puts a component of norm exactly d^-1/2 in a random direction of the target space into every row (one
    direction and an odd target: with a positive sign); "gaussian" draws the overlaps of rows uniform on the sphere,
    N(0, 1/d). Rows have unit norm unless `initial_gram` is a matrix.
    """
    p, k = scenario.width, scenario.directions
    generator = Draws(seed, f"start {dim} {p} {k}", trial).generator("start")
    if scenario.initial_overlap == "zero":
        M = np.zeros((runs, p, k))
    elif scenario.initial_overlap in ("random", "gaussian"):
        M = generator.standard_normal((runs, p, k))
        if scenario.initial_overlap == "gaussian":
            M /= np.sqrt(dim)
        else:
            M /= np.linalg.norm(M, axis=-1, keepdims=True) * np.sqrt(dim)
            if k == 1 and is_odd(scenario):
                M = np.abs(M)
    else:
        own = np.array(scenario.initial_overlap) @ np.linalg.inv(scenario.whitening).T
        M = np.broadcast_to(own, (runs, p, k)).copy()
    if not isinstance(scenario.initial_gram, str):
        return M, np.broadcast_to(np.array(scenario.initial_gram), (runs, p, p)).copy()
    rest = np.sqrt(np.maximum(1 - (M**2).sum(axis=-1), 0.0))
    across = np.broadcast_to(np.eye(p), (runs, p, p))
    if scenario.initial_gram == "random":  # Gram matrices of independent unit vectors in d - k dimensions
        factor = wishart_factor(generator.standard_normal((runs, p, p)), generator, dim - k)
        factor /= np.linalg.norm(factor, axis=-1, keepdims=True)
        across = factor @ np.swapaxes(factor, -1, -2)
    return M, M @ np.swapaxes(M, -1, -2) + rest[:, :, None] * across * rest[:, None, :]


def wishart_factor(normal: DeviceArray, generator: Any, freedom: int) -> DeviceArray:
    """Return lower-triangular factors of Wishart matrices with so many degrees of freedom, by Bartlett's rule.

    Below the diagonal stand standard normals (..., p, p), on it the chi variables of the generator.
    """
    xp = array_module(normal)
    factor = xp.tril(normal, -1)
    for j in range(normal.shape[-1]):
        factor[..., j, j] = xp.sqrt(generator.chisquare(freedom - j, normal.shape[:-2]))
    return factor
