"""The read-out of features with kappa in R^2, from descriptions written by hand."""

import dataclasses

import numpy as np
import pytest
from problems import planted, ridge_fit, setting_e, setting_f, trapezoid

from giantstep.core.readout import (
    FiniteSize,
    Spectrum,
    find_outliers,
    ridge_errors,
    solve_first_order,
)


@pytest.mark.parametrize(
    ("setting", "values", "at_400"),
    [
        (setting_e, (2.16455174, 0.80018263, 4.31350825), 2.169559),
        (setting_f, (0.48087138, 0.01952426, 1.06104099), 0.486382),
    ],
    ids=["E", "F"],
)
def test_settings_of_the_page(setting, values, at_400):
    """Planted settings of few_steps_readout section 14: test, train, norm2, and the
    test error at d = 400.
    """
    equations = setting()
    first = solve_first_order(equations)
    assert first.residual[0] < 1e-12
    limit, finite = (
        ridge_errors(first, FiniteSize(np.array([inverse])))
        for inverse in (0.0, 1 / 400)
    )
    np.testing.assert_allclose(
        [limit.test[0], limit.train[0], limit.norm[0]], values, atol=5.1e-9
    )
    assert finite.test[0] == pytest.approx(at_400, abs=5.1e-7)
    assert limit.identity[0] < 1e-12 and finite.identity[0] < 1e-12
    assert np.isnan(limit.misclassified[0])  # nobody said what the classes are


def test_spectrum_in_the_plane():
    """Edge and spikes of setting E, few_steps_readout section 7."""
    spectrum = Spectrum(setting_e())
    edge = spectrum.upper_edge()
    assert edge == pytest.approx(2.1918743, abs=5.1e-8)
    np.testing.assert_allclose(
        find_outliers(spectrum, edge, FiniteSize(np.array([1 / 600]))),
        [240.6, 146.1],
        atol=0.051,
    )


def test_an_unlearnt_direction_may_be_integrated_over_as_if_it_were_learnt():
    """tanh(.6 z1 + .8 z2) with rows along z1 only: m = 1 and L = 1, or m = 2."""
    gamma = 0.6
    rho = 0.8
    step = 0.15
    (line, weights), (plane, both) = trapezoid(step, 1), trapezoid(step, 2)
    z1, z2 = plane
    target = np.tanh(gamma * z1 + rho * z2)
    inner = np.tanh(gamma * line[0][:, None] + rho * line[0])
    h = inner @ weights
    h1 = inner @ (weights * line[0])
    hh = inner**2 @ weights
    U = np.array([1.0, -0.7])
    s = (1.0, 0.9)
    pi = (0.6, 0.4)
    short = planted("relu", pi, U[:, None], s, (line, weights), h, h1, hh)
    long = planted(
        "relu", pi, U[:, None] * [1, 0], s, (plane, both), target, [], target**2
    )
    for dim in (np.inf, 300.0):
        answers = []
        for features in (short, long):
            first = solve_first_order(ridge_fit(features, [0.5, 2], 1.3, 0.01))
            answers.append(ridge_errors(first, FiniteSize(np.full(2, 1 / dim))))
        for name in ("test", "train", "norm", "theta", "x", "Q1", "Q2"):
            np.testing.assert_allclose(
                *(getattr(found, name) for found in answers), rtol=1e-9, err_msg=name
            )


def test_channels_turn_with_the_directions():
    """Coefficients of channels that mix a learnt and an unlearnt direction: a rotation
    of eps changes no error.
    """
    equations = setting_e()
    features = equations.features
    k = 3
    C = features.channels
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(C, C)))
    T0 = np.einsum("cd,mdkn->mckn", turn, features.T0.reshape(1, C, k, -1)).reshape(
        features.T0.shape
    )
    Jp = np.einsum("cd,mldk->mlck", turn, features.Jp.reshape(1, -1, C, k)).reshape(
        features.Jp.shape
    )
    turned = dataclasses.replace(
        equations, features=dataclasses.replace(features, T0=T0, Jp=Jp)
    )
    plain, found = (ridge_errors(solve_first_order(e)) for e in (equations, turned))
    for name in ("test", "train", "norm", "tau", "Q1"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(plain, name), rtol=1e-10, atol=1e-12
        )


def test_the_kernel_at_the_nodes_gives_the_same():
    """Few nodes, so that the kernel form can be formed; it needs no packed
    coordinates.
    """
    rule = trapezoid(0.6, 2)
    (z1, z2), _ = rule
    h = z1 + z1 * z2
    h1 = np.tanh(z1)
    features = planted(
        "tanh",
        (0.5, 0.5),
        [(1, 0.3), (-0.5, 1)],
        (1, 0.8),
        rule,
        h,
        h1,
        h**2 + h1**2 + 0.1,
    )
    equations = ridge_fit(features, 2, 1.5, 0.05)
    packed, kernel = (
        ridge_errors(
            solve_first_order(equations, packed=form),
            FiniteSize(np.full(1, 0.01)),
            packed=form,
        )
        for form in (True, False)
    )
    for name in ("test", "train", "x", "tau", "Q1", "Q2"):
        np.testing.assert_allclose(
            getattr(kernel, name), getattr(packed, name), rtol=1e-10, atol=1e-13
        )


def test_rows_without_a_shift_are_solved_at_one_node():
    """A shift of 1e-7 moves nothing but the last digits, yet makes V a function of
    kappa.
    """
    rule = trapezoid(0.4, 1)
    (z,), _ = rule
    h = z + z**2
    first, shifted = (
        solve_first_order(
            ridge_fit(
                planted(
                    "tanh", (0.5, 0.5), [(u,), (-u,)], (1, 0.8), rule, h, [], h**2 + 0.1
                ),
                [0.5, 2],
                1.5,
                0.05,
            )
        )
        for u in (0.0, 1e-7)
    )
    assert first.equations.features.even and not shifted.equations.features.even
    assert first.V.shape == shifted.V.shape
    np.testing.assert_allclose(first.V, shifted.V, rtol=1e-12)
    np.testing.assert_allclose(first.response.S, shifted.response.S, rtol=1e-12)
