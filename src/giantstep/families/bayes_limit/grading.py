"""Panels whose width follows how fast a function varies."""

from __future__ import annotations

import numpy as np

from giantstep.gaussian.quadrature import gauss_legendre_panels
from giantstep.types import Floats

MOST_PANELS = 200_000


def limit_growth(x: Floats, width: Floats, slope: float) -> Floats:
    """Return the largest function below `width` at increasing x whose slope is at most `slope` both ways."""
    rising = np.minimum.accumulate(width - slope * x) + slope * x
    return np.asarray(np.minimum.accumulate((rising + slope * x)[::-1])[::-1] - slope * x)


def graded_panels(x: Floats, width: Floats, stops: Floats, nodes: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights between the `stops`, on panels about as wide as `width` says at x."""
    grown = np.concatenate([[0.0], np.cumsum(0.5 * (1 / width[1:] + 1 / width[:-1]) * np.diff(x))])
    at = np.interp(stops, x, grown)
    if not at[-1] - at[0] < MOST_PANELS:
        raise MemoryError("the noise is too small for the slope of the target")
    edges = [
        np.interp(np.linspace(low, high, max(1, int(np.ceil(high - low))) + 1), grown, x)
        for low, high in zip(at, at[1:])
    ]
    for piece, low, high in zip(edges, stops, stops[1:]):
        piece[0], piece[-1] = low, high
    return gauss_legendre_panels(np.unique(np.concatenate(edges)), nodes)
