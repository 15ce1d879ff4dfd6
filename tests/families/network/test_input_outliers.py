"""Eigenvalues above the bulk of features on inputs with a covariance, beside
networks.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.layers import judged_side

from .structured_settings import SETTINGS


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("A", 2), ("C", 1), ("E", 2)])
def test_outliers_are_those_of_networks(name, count):
    """Two outliers that lie close together repel each other at a finite dimension:
    their sum is compared.

    The network is told how many there are; that the next eigenvalue ends the bulk shows
    that the number is right.
    """
    both = gs.compare(
        SETTINGS[name][0], what="spectrum", dim=600, trials=6, seed=5
    ).isel(time=-1)
    limit = judged_side(both.outliers).values
    seen = both.outliers.sel(source="experiment").values
    assert np.isfinite(limit).sum() == count == np.isfinite(seen).sum()
    error = np.sqrt(
        np.nansum(both.outliers_stderr.sel(source="experiment").values ** 2)
    )
    total = float(np.nansum(limit))
    assert abs(float(np.nansum(seen)) - total) < 4.5 * error + 0.01 * total
    assert error < 0.03 * total
    edges = both.upper_edge
    assert float(edges.sel(source="experiment")) == pytest.approx(
        float(judged_side(edges)), rel=0.08
    )
