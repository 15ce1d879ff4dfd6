"""The limit: all points at once, as arrays of shape (B,)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.base.types import Points
from giantstep.core.scenario import Answer
from giantstep.problems._skeleton.scenario import Skeleton


def limit(
    scenario: Skeleton, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Answer with the Stieltjes transform m of the Marchenko-Pastur law at -ridge.

    With G = X^T X/d: m = tr(G + ridge)^-1/d solves ridge m^2 + (ridge + alpha - 1) m -
    1 = 0, the bias is ridge^2 tr(G + ridge)^-2/d and the variance noise (m - ridge
    tr(G + ridge)^-2/d).
    """
    alpha, ridge, noise = (
        points[name] for name in ("samples_per_dim", "ridge", "noise")
    )
    b = ridge + alpha - 1
    root = np.sqrt(b**2 + 4 * ridge)
    # neither form subtracts equal numbers
    m = np.where(b > 0, 2 / (b + root), (root - b) / (2 * ridge))
    squared = (m**2 + m) / (2 * ridge * m + b)  # tr(G + ridge)^-2/d = -dm/dridge
    error = noise + ridge**2 * squared + noise * (m - ridge * squared)
    residual = np.abs(ridge * m**2 + b * m - 1)
    return Answer.closed(
        {"test_error": error, "overlap": 1 - ridge * m}, residual=residual
    )
