"""The experiment: one trial answers all points that differ only in the shared
fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from giantstep.core.base.types import Floats, Points
from giantstep.core.lab import to_numpy
from giantstep.problems._skeleton.scenario import Skeleton


def trial(
    scenario: Skeleton,
    points: Points,
    what: str,
    dim: int,
    draws: Any,
    settings: Mapping[str, Any],
) -> dict[str, Floats]:
    """Draw data once, diagonalise its Gram matrix once, and fit at every ridge."""
    xp = draws.xp
    ridge = draws.xp.asarray(points["ridge"])
    noise = points["noise"][0]
    samples = max(1, round(points["samples_per_dim"][0] * dim))
    X = draws.normal("inputs", (samples, dim))
    target = draws.normal("target", dim)
    target /= xp.linalg.norm(target)
    labels = X @ target + noise**0.5 * draws.normal("noise", samples)
    values, vectors = xp.linalg.eigh(X.T @ X / dim)
    # (B, d), in the basis of the eigenvectors
    fitted = (vectors.T @ (X.T @ labels) / dim) / (values + ridge[:, None])
    rotated = vectors.T @ target
    error = noise + ((fitted - rotated) ** 2).sum(axis=1)
    return {"test_error": to_numpy(error), "overlap": to_numpy(fitted @ rotated)}


def memory(
    scenario: Skeleton, points: Points, what: str, dim: int, settings: Mapping[str, Any]
) -> int:
    """Return the bytes of the data and of three d-by-d matrices."""
    return int(8 * dim * (points["samples_per_dim"].max() * dim + 3 * dim))
