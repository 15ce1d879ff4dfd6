"""What every bulk owes the equations: a solution, its derivative, and a prior that
moves with it.
"""

import dataclasses

import numpy as np
import pytest
from problems import planted, ridge_fit, trapezoid

import giantstep as gs
from giantstep.core.maths.gaussian.target import as_target
from giantstep.core.readout import (
    Equations,
    FiniteSize,
    ridge_errors,
    solve_first_order,
)
from giantstep.core.readout.chain import ChainState
from giantstep.core.readout.chain_signal import ChainSignal
from giantstep.core.readout.features import packing
from giantstep.core.readout.newton_bulk import packed_directions
from giantstep.problems.network.finite_batches import Chain, StepFields


def isotropic() -> Equations:
    line, weights = trapezoid(0.15, 1)
    h = np.sin(line[0])
    h1 = np.cos(line[0]) / 2
    U = [[1.0], [-0.7], [2.0]]
    s = (1.0, 0.9, 1.2)
    return ridge_fit(
        planted(
            "relu", (0.5, 0.2, 0.3), U, s, (line, weights), h, h1, h**2 + h1**2 + 0.2
        ),
        1.5,
        1.2,
        0.03,
    )


def after_batches(activation: str, steps: int = 1, rows: str = "sphere") -> Equations:
    """Return the equations of two blocks after steps on batches of 2 d samples, along
    one learnt direction.
    """
    function = gs.Function(activation)
    target = as_target("sin(z)")
    pi = np.array([0.6, 0.4])
    chain = Chain.start(2, 1, rows == "gaussian")
    for number in range(steps):
        fields = StepFields(
            np.array([1.5, -0.8]), np.zeros(2), 1 / 2, 1 - 0.1 * number, 0.1, 0.0
        )
        chain = chain.advance(function, target, fields, {})
    # the features see the leading direction only: no self-test of the read-out asks
    # where it lies
    along = np.linalg.svd(chain.U)[2][0]
    across = np.eye(len(along))[0] - along[0] * along
    bulk = chain.bulk(np.stack([along, across / np.linalg.norm(across)], axis=1))
    line, weights = trapezoid(0.1, 1)
    s = np.sqrt(chain.norm)
    gamma = along[0]
    labels = gs.Function("sin").moments(gamma * line[0], np.sqrt(1 - gamma**2))
    power = (
        gs.Function("sin").second_moment(gamma * line[0], np.sqrt(1 - gamma**2)) + 0.1
    )
    U = (chain.U @ along)[:, None]
    plain = planted(
        activation, pi, U, s, (line, weights), labels.mean, labels.slope, power
    )
    curvature = function.moments((U @ line)[None], s[None, :, None]).curvature
    mu1 = plain.mu1 / s[None, :, None]
    features = dataclasses.replace(
        plain,
        mu1=mu1,
        T0=np.concatenate(
            [line * mu1, 0 * mu1, curvature / (2 * s[None, :, None])], axis=1
        ),
        omega=np.ones((1, 6)),
        Jp=np.concatenate([plain.Jp, np.zeros((1, 1, 2))], axis=2),
    )
    return dataclasses.replace(ridge_fit(features, 1.5, 1.2, 0.03), bulk=bulk)


CASES = {
    "isotropic": isotropic,
    "odd": lambda: after_batches("tanh"),
    "linear and even": lambda: after_batches("relu"),
    "two steps": lambda: after_batches("elu", 2),
    "three steps of Gaussian rows": lambda: after_batches("relu", 3, "gaussian"),
}


@pytest.fixture(params=CASES, scope="module")
def first(request):
    return solve_first_order(CASES[request.param]())


def directions(k: int):
    """Yield dVh1 and dD along the packed coordinates."""
    for direction in np.eye(k * (k + 1) // 2 + k):
        yield packing(k).unpack(direction[None])


def answer(first, Vh1, D):
    return first.equations.bulk.solve(
        Vh1, D, first.equations.block_width, first.response
    )


def test_tangents_are_derivatives_of_the_response(first):
    response = first.response
    k = first.response.R.shape[1]
    tangents = first.equations.bulk.tangents(response)
    for column, (dVh1, dD) in enumerate(directions(k)):
        step = 1e-6 * np.max(np.abs(response.Vh1 if dVh1.any() else response.D))
        up, down = (
            answer(first, response.Vh1 + h * dVh1, response.D + h * dD)
            for h in (step, -step)
        )
        numerical = -packing(k).pack(up.S - down.S, up.R - down.R)[0] / (2 * step)
        expected = tangents.matrix[0, :, column]
        np.testing.assert_allclose(
            numerical, expected, atol=1e-5 * np.max(np.abs(expected))
        )
        np.testing.assert_allclose(
            packing(k).pack(*tangents.apply(dVh1, dD))[0],
            expected,
            rtol=1e-10,
            atol=1e-14,
        )


def test_the_push_is_the_slope_of_the_penalty(first):
    """-d/d(Vh1, D) of x^T P0^-1 x + sum paid/R, P0^-1 = P^-1 - absorbed, by
    differences.
    """
    response = first.response
    bulk = first.equations.bulk
    omega = first.equations.features.omega
    k = response.R.shape[1]
    draws = np.random.default_rng(2)
    x, paid = draws.normal(size=omega.shape), draws.uniform(0.1, 1, (1, k))

    def penalty(Vh1, D):
        moved = answer(first, Vh1, D)
        P, absorbed = bulk.covariance(moved, omega)
        return float(
            x[0] @ (np.linalg.solve(P[0], x[0]) - absorbed[0] @ x[0])
            + np.sum(paid / moved.R)
        )

    P, _ = bulk.covariance(response, omega)
    push = packing(k).pack(
        *bulk.tangents(response).push(
            omega, x, np.linalg.solve(P, x[:, :, None])[:, :, 0], paid
        )
    )
    expected = []
    for dVh1, dD in directions(k):
        step = 1e-6 * np.max(np.abs(response.Vh1 if dVh1.any() else response.D))
        up, down = (
            penalty(response.Vh1 + h * dVh1, response.D + h * dD) for h in (step, -step)
        )
        expected.append((up - down) / (2 * step))
    expected = np.array(expected) / packing(k).multiplicity
    np.testing.assert_allclose(push[0], expected, atol=1e-5 * np.max(np.abs(expected)))


@pytest.mark.parametrize(
    ("activation", "steps"), [("tanh", 1), ("relu", 1), ("elu", 2), ("elu", 3)]
)
def test_the_gradient_of_the_signal_by_complex_steps(activation, steps):
    """To rounding, which differences of `penalty` cannot see; a wrong sign of a term
    gives an error of its size.
    """
    first = solve_first_order(after_batches(activation, steps))
    bulk = first.equations.bulk
    response = first.response
    motion = bulk.tangents(response).motion
    moves = [values[:, :-1] for values in (motion.dg, motion.dlog, motion.dH)]
    dual = np.random.default_rng(3).normal(size=(1, 6))
    found = bulk.signal(response).moved(dual, *moves)[0]
    for direction, dVh1 in enumerate(packed_directions(2)):
        inside = (
            response.g + 1e-20j * moves[0][:, direction],
            response.R * (1 + 1e-20j * moves[1][:, direction]),
        )
        state = ChainState.at(bulk, *inside, response.Vh1 + 1e-20j * dVh1)
        expected = (
            dual[0] @ ChainSignal.at(bulk, state).covariance()[0].imag @ dual[0] / 1e-20
        )
        assert found[direction] == pytest.approx(expected, rel=1e-10)


def test_a_response_forgets_its_signal_when_points_are_overwritten():
    first = solve_first_order(after_batches("relu"))
    batch = first.equations.bulk
    response = first.response
    other = first.response.take([0])
    before, _ = batch.covariance(response, first.equations.features.omega)
    other.R *= 1.1
    response.put([0], other)
    after, _ = batch.covariance(response, first.equations.features.omega)
    assert np.max(np.abs(after - before)) > 1e-3 * np.max(np.abs(before))


def test_the_loss_identity_holds(first):
    for inverse_dim in (0.0, 1 / 300):
        assert (
            ridge_errors(first, FiniteSize(np.array([inverse_dim]))).identity[0] < 1e-12
        )


def test_points_are_taken_one_by_one(first):
    """A bulk gives the same answer for a point alone, and for one that stands beside
    another.
    """
    pair = first.equations.take(np.zeros(2, dtype=int))
    pair.a[1] *= 3
    both = solve_first_order(pair)
    np.testing.assert_allclose(both.response.R[0], first.response.R[0], rtol=1e-13)
    alone = solve_first_order(pair.take(np.array([1])))
    np.testing.assert_allclose(both.V[1], alone.V[0], rtol=1e-13)


def test_no_errors_where_the_first_order_failed(first):
    pair = first.take(np.zeros(2, dtype=int))
    pair.residual[0] = np.inf
    found = ridge_errors(pair)
    alone = ridge_errors(first)
    assert np.isnan(found.test[0]) and found.test[1] == pytest.approx(
        alone.test[0], rel=1e-13
    )
