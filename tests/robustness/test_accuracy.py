"""Numbers that were wrong without a word, and that two roads now give alike."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.polynomial import Polynomial

import giantstep as gs
from giantstep.problems.giant_steps import overlap_map
from giantstep.problems.online_sgd import dynamics


def test_thresholds_of_tiny_sparsity_follow_their_trend() -> None:
    """lam_IT/sqrt(rho log 1/rho) is smooth in 1/log(1/rho), down to where it is said to
    end.
    """
    s = gs.SubspaceClustering(clusters=2, sparsity=0.1, snr=1.0, samples_per_dim=1.0)
    rho = np.array([1e-10, 1e-12, 1e-14, 1e-16, 1e-19, 1e-20])
    with pytest.warns(gs.GiantstepWarning, match="beyond"):
        result = gs.predict(s, what="thresholds", sparsity=[*rho, 1e-24])
    assert (
        result.transition.values[:-1] == "first-order"
    ).all() and not result.converged.values[-1]
    for name in ("ratio_it", "ratio_dyn"):
        scaled = result[name].values[:-1] / np.sqrt(rho * np.log(1 / rho))
        trend = Polynomial.fit(1 / np.log(1 / rho[:4]), scaled[:4], 3)
        assert np.allclose(scaled[4:], trend(1 / np.log(1 / rho[4:])), rtol=1e-4)


def test_the_ode_has_nine_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    s = gs.OnlineSGD(
        target="h3(z1)",
        activation="h3",
        dim=1000,
        batch_size=1000,
        rate=0.002,
        steps=400,
        algorithm="correlation",
        constraint="projected",
        initial_overlap=[[0.1]],
    )
    found = gs.predict(s, theory="ode", times=[100, 200, 300, 400]).M.values
    monkeypatch.setattr(dynamics, "_EXACT", ("DOP853", 1e-13))
    assert np.allclose(
        gs.predict(s, theory="ode", times=[100, 200, 300, 400]).M.values,
        found,
        rtol=0,
        atol=1e-9,
    )


def test_an_ode_that_fails_at_once_is_flagged() -> None:
    s = gs.OnlineSGD(
        target="h3(z1)",
        activation="h3",
        dim=1000,
        batch_size=100,
        rate=0.01,
        steps=3000,
        initial_overlap=[[0.3]],
    )
    with pytest.warns(gs.GiantstepWarning, match="diverged"):
        assert not gs.predict(s, theory="ode", times=[100, 3000]).converged


def test_steep_targets_of_giant_steps_have_their_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rule twice as fine changes nothing; Gauss-Hermite nodes, which converge slowly
    here, were 3e-5 off.
    """
    s = gs.GiantSteps(
        target="tanh(2*z)", activation="tanh(2*z)", rate=1.0, batch_per_dim=2.0, steps=1
    )
    result = gs.predict(s)
    assert float(result.residual) < 1e-8
    monkeypatch.setattr(
        overlap_map,
        "_STEPS",
        {dims: 0.5 * step for dims, step in overlap_map._STEPS.items()},
    )
    finer = gs.predict(s)
    assert np.allclose(finer.gradient_cosine, result.gradient_cosine, rtol=0, atol=1e-9)
