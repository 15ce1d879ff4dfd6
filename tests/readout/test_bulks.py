"""What every bulk owes the equations: a solution, its derivative, and a prior that moves with it."""

import dataclasses

import numpy as np
import pytest
from problems import planted, ridge_fit, trapezoid

import giantstep as gs
from giantstep.readout import BatchBulk, Equations, FiniteSize, IsotropicBulk, ridge_errors, solve_first_order
from giantstep.readout.batch_bulk import packed_directions
from giantstep.readout.batch_gradient import covariance_gradient
from giantstep.readout.batch_signal import BatchSignal
from giantstep.readout.batch_statistics import batch_statistics
from giantstep.readout.features import packing


def isotropic() -> Equations:
    line, weights = trapezoid(0.15, 1)
    h, h1 = np.sin(line[0]), np.cos(line[0]) / 2
    U, s = [[1.0], [-0.7], [2.0]], (1.0, 0.9, 1.2)
    return ridge_fit(planted("relu", (0.5, 0.2, 0.3), U, s, (line, weights), h, h1, h**2 + h1**2 + 0.2), 1.5, 1.2, 0.03)


def after_batch(activation: str) -> Equations:
    """Return the equations of two blocks after a step on a batch of 2 d samples, as spiked_features section 6."""
    function, target, pi = gs.Function(activation), gs.Function("sin"), np.array([0.6, 0.4])
    e, c1 = np.array([[1.5, -0.8]]), function.hermite(1)[1]
    bulk = batch_statistics(function, target, 0.0, e, np.array([2.0]), np.array([0.1]))
    line, weights = trapezoid(0.1, 1)
    s, gamma = np.sqrt(bulk.row_norm), bulk.gamma[0]
    labels = target.moments(gamma * line[0], np.sqrt(1 - gamma**2))
    power = target.second_moment(gamma * line[0], np.sqrt(1 - gamma**2)) + 0.1
    U = (e * c1 * bulk.strength)[0][:, None]
    plain = planted(activation, pi, U, s[0], (line, weights), labels.mean, labels.slope, power)
    curvature = function.moments((U @ line)[None], s[:, :, None]).curvature
    mu1 = plain.mu1 / s[:, :, None]
    features = dataclasses.replace(
        plain,
        mu1=mu1,
        T0=np.concatenate([line * mu1, 0 * mu1, curvature / (2 * s[:, :, None])], axis=1),
        omega=np.ones((1, 6)),
        Jp=np.concatenate([plain.Jp, np.zeros((1, 1, 2))], axis=2),
    )
    return dataclasses.replace(ridge_fit(features, 1.5, 1.2, 0.03), bulk=bulk)


CASES = {
    "isotropic": isotropic,
    "odd": lambda: after_batch("tanh"),
    "linear and even": lambda: after_batch("relu"),
}


@pytest.fixture(params=CASES, scope="module")
def first(request):
    return solve_first_order(CASES[request.param]())


def directions(k: int):
    """Yield dVh1 and dD along the packed coordinates."""
    for direction in np.eye(k * (k + 1) // 2 + k):
        yield packing(k).unpack(direction[None])


def answer(first, Vh1, D):
    return first.equations.bulk.solve(Vh1, D, first.equations.block_width, first.response)


def test_tangents_are_derivatives_of_the_response(first):
    response, k = first.response, first.response.R.shape[1]
    tangents = first.equations.bulk.tangents(response)
    for column, (dVh1, dD) in enumerate(directions(k)):
        step = 1e-6 * np.max(np.abs(response.Vh1 if dVh1.any() else response.D))
        up, down = (answer(first, response.Vh1 + h * dVh1, response.D + h * dD) for h in (step, -step))
        numerical = -packing(k).pack(up.S - down.S, up.R - down.R)[0] / (2 * step)
        expected = tangents.matrix[0, :, column]
        np.testing.assert_allclose(numerical, expected, atol=1e-5 * np.max(np.abs(expected)))
        np.testing.assert_allclose(packing(k).pack(*tangents.apply(dVh1, dD))[0], expected, rtol=1e-10, atol=1e-14)


def test_the_push_is_the_slope_of_the_penalty(first):
    """-d/d(Vh1, D) of x^T P0^-1 x + sum paid/R, P0^-1 = P^-1 - absorbed, by differences."""
    response, bulk, omega = first.response, first.equations.bulk, first.equations.features.omega
    k = response.R.shape[1]
    draws = np.random.default_rng(2)
    x, paid = draws.normal(size=omega.shape), draws.uniform(0.1, 1, (1, k))

    def penalty(Vh1, D):
        moved = answer(first, Vh1, D)
        P, absorbed = bulk.covariance(moved, omega)
        return float(x[0] @ (np.linalg.solve(P[0], x[0]) - absorbed[0] @ x[0]) + np.sum(paid / moved.R))

    P, _ = bulk.covariance(response, omega)
    push = packing(k).pack(*bulk.tangents(response).push(omega, x, np.linalg.solve(P, x[:, :, None])[:, :, 0], paid))
    expected = []
    for dVh1, dD in directions(k):
        step = 1e-6 * np.max(np.abs(response.Vh1 if dVh1.any() else response.D))
        up, down = (penalty(response.Vh1 + h * dVh1, response.D + h * dD) for h in (step, -step))
        expected.append((up - down) / (2 * step))
    expected = np.array(expected) / packing(k).multiplicity
    np.testing.assert_allclose(push[0], expected, atol=1e-5 * np.max(np.abs(expected)))


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu"])
def test_the_gradient_of_the_signal_by_complex_steps(activation):
    """To rounding, which differences of `penalty` cannot see; a wrong sign of the lower half gives an error of 1."""
    first = solve_first_order(after_batch(activation))
    batch, response = first.equations.bulk, first.response
    inside = (response.g, response.R, response.Vh1)
    motion = batch.tangents(response).motion
    dual = np.random.default_rng(3).normal(size=(1, 6))
    gradient = covariance_gradient(BatchSignal.at(batch, *inside), dual)
    for direction, dVh1 in enumerate(packed_directions(2)):
        moves = (motion.dgm[:, direction], motion.dR[:, direction], dVh1[None])
        moved = BatchSignal.at(batch, *(value + 1e-20j * move for value, move in zip(inside, moves))).covariance()
        expected = dual[0] @ moved[0].imag @ dual[0] / 1e-20
        assert sum(np.sum(slope * move) for slope, move in zip(gradient, moves)) == pytest.approx(expected, rel=1e-11)


def test_a_response_forgets_its_signal_when_points_are_overwritten():
    first = solve_first_order(after_batch("relu"))
    batch, response, other = first.equations.bulk, first.response, first.response.take([0])
    before, _ = batch.covariance(response, first.equations.features.omega)
    other.R *= 1.1
    response.put([0], other)
    after, _ = batch.covariance(response, first.equations.features.omega)
    assert np.max(np.abs(after - before)) > 1e-3 * np.max(np.abs(before))


def test_the_loss_identity_holds(first):
    for inverse_dim in (0.0, 1 / 300):
        assert ridge_errors(first, FiniteSize(np.array([inverse_dim]))).identity[0] < 1e-12


def test_points_are_taken_one_by_one(first):
    """A bulk gives the same answer for a point alone, and for one that stands beside another."""
    pair = first.equations.take(np.zeros(2, dtype=int))
    pair.a[1] *= 3
    both = solve_first_order(pair)
    np.testing.assert_allclose(both.response.R[0], first.response.R[0], rtol=1e-13)
    alone = solve_first_order(pair.take(np.array([1])))
    np.testing.assert_allclose(both.V[1], alone.V[0], rtol=1e-13)


def test_no_errors_where_the_first_order_failed(first):
    pair = first.take(np.zeros(2, dtype=int))
    pair.residual[0] = np.inf
    found, alone = ridge_errors(pair), ridge_errors(first)
    assert np.isnan(found.test[0]) and found.test[1] == pytest.approx(alone.test[0], rel=1e-13)


def test_bulks_say_what_tells_them_apart():
    assert IsotropicBulk().columns(3).shape == (3, 0)
    bulk = after_batch("tanh").bulk
    assert isinstance(bulk, BatchBulk) and bulk.columns(1).shape == (1, 5)
