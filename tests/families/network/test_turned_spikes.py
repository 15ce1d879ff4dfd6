"""Sums over the rows along a planted spike that is not the target, before it is planted
and after it has turned.
"""

import numpy as np
import pytest

import giantstep as gs


@pytest.fixture(scope="module")
def both():
    network = gs.Network(
        target="sin(z)",
        activation="tanh",
        second_layer=gs.Vocabulary([1, -1], [0.7, 0.3]),
        noise=0.05,
        width_per_dim=1.0,
        samples_per_dim=1.5,
        readout=gs.Ridge(0.1),
        steps=[gs.PlantedSpike(0.8, alignment=0.7), gs.MaximalStep(1.5)],
    )
    return gs.compare(network, dim=150, trials=20, progress=False)


def test_both_engines_sum_along_the_same_direction(both):
    """An experiment that looked along the spike before it was planted had a t of 0.26
    for 0.38.
    """
    rows = {row.variable: row for row in gs.agreement(both).rows}
    assert all(
        rows[name].largest_z < rows[name].chance_z
        for name in ("t", "psi", "Q1", "test_error", "Q2")
    )
    assert float(both.t.sel(source="limit", time=0)[0]) == pytest.approx(0.38, abs=0.01)


def test_sums_along_a_spike_that_has_turned_are_not_claimed(both):
    limit = both.sel(source="limit", time=2)
    assert (
        np.isnan(limit.t).all()
        and np.isnan(limit.psi).all()
        and np.isnan(limit.Q1).all()
    )
    assert np.isfinite(limit.Q2).all()
