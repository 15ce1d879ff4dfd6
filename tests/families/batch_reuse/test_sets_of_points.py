"""Sets of points are shared by all points of a grid that need the same columns."""

import numpy as np

import giantstep as gs
from giantstep.problems.batch_reuse import limit

from .cases import C3


def test_sharing_points_changes_no_number(monkeypatch):
    drawn = []
    once = limit.sobol_points
    monkeypatch.setattr(
        limit, "sobol_points", lambda *asked: drawn.append(asked) or once(*asked)
    )
    shared = gs.predict(
        C3, {"samples_per_dim": [1.0, 2.0], "steps": [2, 3]}, nodes=2**10
    )
    # two layouts of four scrambles: points with the same number of steps share them
    assert len(drawn) == 8
    for alpha in (1.0, 2.0):
        for steps in (2, 3):
            alone = gs.predict(C3, nodes=2**10, samples_per_dim=alpha, steps=steps)
            np.testing.assert_array_equal(
                shared.M.sel(samples_per_dim=alpha, steps=steps)[: steps + 1], alone.M
            )
    drawn.clear()
    gs.predict(C3, {"samples_per_dim": [1.0, 2.0, 3.0]}, nodes=2**10)
    assert len(drawn) == 4
