"""Distances between a law and a sample of eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from giantstep.types import Floats


def kolmogorov_distance(eigenvalues: Floats, cdf: Callable[[Floats], Floats]) -> float:
    """Return the largest difference between the empirical distribution of `eigenvalues` and `cdf`."""
    ordered = np.sort(np.ravel(eigenvalues))
    law = cdf(ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.max(np.abs(law - steps[1:])), np.max(np.abs(law - steps[:-1]))))


def wasserstein_distance(eigenvalues: Floats, cdf: Callable[[Floats], Floats], grid: Floats) -> float:
    """Return the integral over `grid` of |empirical distribution - cdf| (Wasserstein-1 on that interval)."""
    ordered = np.sort(np.ravel(eigenvalues))
    empirical = np.searchsorted(ordered, grid, side="right") / len(ordered)
    return float(np.trapezoid(np.abs(empirical - cdf(grid)), grid))
