"""Sets of points are shared by the points of a grid where they are small, else drawn one at a time."""

import numpy as np

import giantstep as gs
from giantstep.families.batch_reuse import limit

from .cases import C3


def test_keeping_points_changes_no_number(monkeypatch):
    grid = {"samples_per_dim": [1.0, 2.0], "steps": [2, 3]}
    kept = gs.predict(C3, grid, nodes=2**10)
    drawn = []
    once = limit.sobol_points
    monkeypatch.setattr(limit, "sobol_points", lambda *asked: drawn.append(asked) or once(*asked))
    gs.predict(C3, grid, nodes=2**10)
    assert len(drawn) == 8  # two layouts of four scrambles: points with the same number of steps share them
    monkeypatch.setattr(limit, "KEPT_BYTES", 0)
    np.testing.assert_array_equal(gs.predict(C3, grid, nodes=2**10).M, kept.M)
    drawn.clear()
    monkeypatch.setattr(limit, "KEPT_BYTES", 2**29)
    gs.predict(C3, {"samples_per_dim": [1.0, 2.0, 3.0]}, nodes=2**10)
    assert len(drawn) == 4
