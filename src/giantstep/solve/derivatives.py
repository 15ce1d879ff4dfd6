"""Derivatives of a batch of functions by extrapolated differences, with the error they show themselves (Ridders)."""

from __future__ import annotations

import numpy as np

from giantstep.types import Floats

WIDTHS = 0.1 * 0.5 ** np.arange(6)
"""Steps of the differences, the first largest."""


def extrapolate(differences: Floats, order: int) -> tuple[Floats, Floats]:
    """Return derivative and its error from difference quotients (S, L) at steps halved L - 1 times, the largest first.

    Neville's scheme takes out the powers h^order, h^(2 order), ... of the step one by one (`order` is 2 for central
    differences, 1 for one-sided ones); each entry is judged by how far it is from the two it was made of, and the entry
    judged best is taken. NaN differences are left out.
    """
    size, levels = differences.shape
    best, error = np.full(size, np.nan), np.full(size, np.inf)
    column = differences
    for power in range(1, levels):
        factor = 2.0 ** (order * power)
        finer = column[:, 1:] + (column[:, 1:] - column[:, :-1]) / (factor - 1)
        distance = np.maximum(np.abs(finer - column[:, 1:]), np.abs(finer - column[:, :-1]))
        distance = np.where(np.isnan(distance), np.inf, distance)
        place = np.argmin(distance, axis=1)
        everywhere = np.arange(size)
        better = distance[everywhere, place] < error
        best = np.where(better, finer[everywhere, place], best)
        error = np.where(better, distance[everywhere, place], error)
        column = finer
    return best, np.where(np.isinf(error), np.nan, error)
