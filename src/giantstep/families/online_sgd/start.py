"""Where a run starts: overlaps and Gram matrix, the same for the limit and the experiment of a trial."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.lab import Draws
from giantstep.types import Floats


class Starts(NamedTuple):
    """Overlaps (n, p, k) with the whitened target directions and Gram matrices (n, p, p)."""

    M: Floats
    Q: Floats


def is_random(scenario: OnlineSGD) -> bool:
    """Tell whether trials start differently."""
    return scenario.initial_overlap in ("random", "gaussian") or scenario.initial_gram == "random"


def is_odd(scenario: OnlineSGD) -> bool:
    """Tell whether the target is odd, so that the sign of a start carries no meaning."""
    z = np.random.default_rng(1).standard_normal((64, scenario.directions))
    values, mirrored = scenario.target(z), scenario.target(-z)
    return bool(np.allclose(values, -mirrored, rtol=1e-9, atol=1e-12 * np.abs(values).max()))


def starts(scenario: OnlineSGD, dim: int, seed: int, trial: int, runs: int) -> Starts:
    """Return the starts of the runs of one trial.

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
        return Starts(M, np.broadcast_to(np.array(scenario.initial_gram), (runs, p, p)).copy())
    rest = np.sqrt(np.maximum(1 - (M**2).sum(axis=-1), 0.0))
    across = np.broadcast_to(np.eye(p), (runs, p, p))
    if scenario.initial_gram == "random":
        across = _random_correlations(generator, runs, p, dim - k)
    return Starts(M, M @ np.swapaxes(M, -1, -2) + rest[:, :, None] * across * rest[:, None, :])


def _random_correlations(generator: np.random.Generator, runs: int, p: int, freedom: int) -> Floats:
    """Return the Gram matrices of p independent unit vectors in so many dimensions, by Bartlett's factor."""
    factor = np.tril(generator.standard_normal((runs, p, p)), -1)
    for j in range(p):
        factor[:, j, j] = np.sqrt(generator.chisquare(freedom - j, runs))
    factor /= np.linalg.norm(factor, axis=-1, keepdims=True)
    gram: Floats = factor @ np.swapaxes(factor, -1, -2)
    return gram
