"""Two-time kernels: what the theory says the weights remember, measured on real
weights.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.batch_reuse import limit

from .cases import C1, C3
from .judging import agrees
from .test_reuse_references import redrawn

CASES = {
    "reused": {},
    "fresh": dict(data="fresh"),
    "everything": dict(data="cycle", batches=2, momentum=0.4, constraint="spherical"),
}


@pytest.mark.parametrize("case", CASES)
def test_two_times_of_the_experiment(case):
    """20 trials of d = 1000 see an error of 2% in C and 5% in Cl."""
    report = gs.agreement(
        gs.compare(
            C1,
            dim=1000,
            trials=20,
            what="kernels",
            nodes=2**13,
            steps=4,
            seed=2,
            **CASES[case],
        )
    )
    assert report.passes(), str(report)
    assert (
        report.rows[0].smallest_visible < 0.02
        and report.rows[1].smallest_visible < 0.06
    )


def test_redrawn_noise_fails_at_two_times(monkeypatch):
    monkeypatch.setattr(
        limit.Trajectory, "_advance", redrawn(limit.Trajectory._advance)
    )
    report = gs.agreement(
        gs.compare(
            C1, dim=1000, trials=20, what="kernels", nodes=2**13, steps=4, seed=2
        )
    )
    assert report.failures(allow=0.01) == ["C", "Cl"]


def test_the_reference_value():
    r = gs.predict(C1, what="kernels", scrambles=8, steps=3)
    assert (
        agrees(r, "Cl", np.s_[2, 2, 0], [0.34701, -0.17615], 2e-5)
        and float(r.Cl_stderr.max()) < 2e-3
    )


def test_kernels_fit_the_trajectory():
    settings = {"nodes": 2**10, "scrambles": 1}
    kernels = gs.predict(C3, what="kernels", **settings)
    trajectory = gs.predict(C3, **settings)
    same_time = np.einsum("ttij->tij", kernels.C.values)
    M = trajectory.M.values
    np.testing.assert_allclose(
        same_time + M @ M.transpose(0, 2, 1), trajectory.Q, atol=1e-12
    )
    # K(s+1, s) = eta
    np.testing.assert_allclose(np.diagonal(kernels.K.values[1:, :, 0, 0]), 0.3)
    # no memory of what has not happened
    assert not np.any(np.triu(kernels.K.values[:-1, :, 0, 0]))
    np.testing.assert_allclose(
        kernels.C.values[:, :, 0, 0], kernels.C.values[:, :, 0, 0].T, atol=1e-12
    )


def test_what_is_known_when_a_trajectory_diverges():
    s = gs.BatchReuse(
        target="h3(z)", activation="z**3/3", samples_per_dim=3.0, rate=0.3, steps=4
    )
    with pytest.warns(gs.GiantstepWarning, match="diverged at step"):
        r = gs.predict(s, what="kernels", nodes=2**10)
    step = int(str(r.status.values).rsplit(" ", 1)[1])
    assert bool(r.C[:step, :step].notnull().all()) and bool(r.C[step:].isnull().all())
