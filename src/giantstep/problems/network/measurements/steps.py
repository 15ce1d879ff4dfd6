"""Where the neurons of every block are after a step, and how they spread there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.lab import to_numpy
from giantstep.problems.network.trained import Trained
from giantstep.problems.network.whitened import Whitened


def measure_steps(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Measure where the blocks are: means over their neurons, and d times the
    covariance inside them.
    """
    weights = to_numpy(trained.network.weights)
    blocks = [weights[block] for block in trained.blocks]
    values = {
        **_places(trained.inputs, blocks),
        **_spreads(trained.inputs, blocks, trained.dim),
    }
    # the rows do not depend on the fit: all points of the group have the same answer
    return {
        name: np.repeat(value[None], len(ridges), axis=0)
        for name, value in values.items()
    }


def _places(inputs: Whitened, blocks: Sequence[Floats]) -> dict[str, Floats]:
    """Return overlaps (k, r), lengths and cosines of the rows of every block."""
    U = np.stack([inputs.signal(rows, np).mean(axis=0) for rows in blocks])
    means = np.stack([inputs.along(rows, np).mean(axis=0) for rows in blocks])
    norm = np.array([np.mean(np.sum(rows**2, axis=1)) for rows in blocks])
    return {
        "U": U,
        # across the mean of the block: the mean of |w|^2 less the square of the mean
        "s": np.sqrt(norm - np.sum(means**2, axis=1)),
        "row_norm": norm,
        "cosine": U / np.sqrt(norm)[:, None],
    }


def _spreads(inputs: Whitened, blocks: Sequence[Floats], dim: int) -> dict[str, Floats]:
    """Return d times the covariance of the overlaps (k, r, r), and of the length across
    the target (k,), inside every block.
    """
    covariances = []
    variances = []
    for rows in blocks:
        overlaps = inputs.signal(rows, np)
        # of one overlap NumPy returns a number, not a matrix
        covariances.append(np.atleast_2d(np.cov(overlaps, rowvar=False)))
        # the length that the theory calls s: across all directions of the target
        across = np.delete(rows, inputs.axes, axis=1)
        variances.append(np.linalg.norm(across, axis=1).var(ddof=1))
    # overlaps of rows of unit length are of order 1/sqrt(d)
    return {
        "spread": dim * np.stack(covariances),
        "spread_s": dim * np.array(variances),
    }
