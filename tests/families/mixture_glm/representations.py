"""The same problem written in blocks, with dense matrices and with a spike that plays
no part.
"""

from __future__ import annotations

import numpy as np

import giantstep as gs


def as_blocks(scenario):
    """Return isotropic covariances as three blocks, and blocks as more, equal ones."""
    parts = scenario.covariances
    if isinstance(parts, gs.Isotropic):
        return scenario.replace(
            covariances=gs.Blocks(
                [0.2, 0.5, 0.3], [[value] * 3 for value in parts.values]
            )
        )
    split = [w for weight in parts.weights for w in (0.4 * weight, 0.6 * weight)]
    teacher = [t for t in parts.teacher for _ in range(2)]
    values = np.repeat(np.asarray(parts.values), 2, axis=1)
    return scenario.replace(covariances=gs.Blocks(split, values, teacher=teacher))


def as_dense(scenario):
    """Return the covariances as matrices of 12 dimensions, rotated where teacher and
    means have no direction.
    """
    parts = scenario.covariances
    dim = 12
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(dim, dim)))[0]
    if isinstance(parts, gs.Isotropic):
        return scenario.replace(
            covariances=gs.Dense([value * np.eye(dim) for value in parts.values])
        )
    counts = np.round(dim * np.array(parts.weights)).astype(int)
    values = np.repeat(np.asarray(parts.values), counts, axis=1)
    matrices = [rotation @ np.diag(row) @ rotation.T for row in values]
    if parts.teacher:
        teacher = rotation @ np.sqrt(np.repeat(parts.teacher, counts))
        return scenario.replace(covariances=gs.Dense(matrices, teacher=teacher))
    return scenario.replace(covariances=gs.Dense(matrices))


def with_spike(scenario):
    """Return one isotropic cluster with a spike orthogonal to teacher and mean, which
    changes nothing.
    """
    (value,) = scenario.covariances.values
    return scenario.replace(
        covariances=gs.Spiked([2.5], weights=[0.5, 0.5], values=[value, value])
    )
