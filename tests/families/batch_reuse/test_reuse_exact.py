"""Cases with an exact answer, and invariances of the theory: T1 to T9 of
batch_reuse_dmft section 8.
"""

from fractions import Fraction
from itertools import zip_longest
from math import comb

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.batch_reuse import limit
from giantstep.problems.batch_reuse.limit import forward, labels_of, layout_of
from giantstep.problems.batch_reuse.points import WeightedPoints, sobol_points

from .cases import C1, C2, C3, ERF, HE2, HE3
from .closed_forms import hermite_product
from .judging import LINE, agrees, scores

AFTER = np.s_[1:, 0, 0]


def wishart_moments(alpha, order):
    """E x^m, m = 0..order, of the eigenvalues x of X^T X/d with n/d = alpha: Narayana's
    polynomials, as fractions.
    """
    count = [
        sum(
            Fraction(comb(m, r) * comb(m, r - 1), m) * alpha**r for r in range(1, m + 1)
        )
        for m in range(1, order + 1)
    ]
    return [Fraction(1), *count]


def linear_network(alpha, eta, decay, noise, steps):
    """Overlap and squared length of one linear neuron on a linear target, exactly:
    polynomials of the eigenvalue.
    """
    alpha, eta, decay, noise = (
        Fraction(str(value)) for value in (alpha, eta, decay, noise)
    )
    moments = wishart_moments(alpha, 2 * steps + 2)
    rho = [1 - eta * decay, -eta]
    x = [Fraction(0), eta]
    power = [Fraction(1)]
    total = [Fraction(0)]
    M = []
    Q = []
    for _ in range(steps):
        total = plus(total, power)
        power = times(power, rho)
        learned = times(x, total)
        spread = times([Fraction(0), noise * eta**2], times(total, total))
        M.append(mean(learned, moments))
        Q.append(
            mean(
                plus(plus(times(power, power), times(learned, learned)), spread),
                moments,
            )
        )
    return np.array(M, dtype=float), np.array(Q, dtype=float)


def plus(p, q):
    return [a + b for a, b in zip_longest(p, q, fillvalue=Fraction(0))]


def times(p, q):
    product = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            product[i + j] += a * b
    return product


def mean(p, moments):
    return sum(a * m for a, m in zip(p, moments))


@pytest.mark.parametrize(
    ("alpha", "eta", "decay", "noise", "last_M", "last_Q"),
    [
        (2.0, 0.2, 0.1, 0.0, 0.77183059, 0.71953434),
        (0.5, 0.3, 0.0, 0.4, 0.36775364, 0.99905288),
    ],
)
@pytest.mark.parametrize("nodes", [2**5, 2**10])
def test_a_linear_network_is_exact_at_any_number_of_points(
    alpha, eta, decay, noise, last_M, last_Q, nodes
):
    s = gs.BatchReuse(
        target="z",
        activation="linear",
        samples_per_dim=alpha,
        rate=eta,
        decay=decay,
        noise=noise,
        steps=6,
    )
    r = gs.predict(s, nodes=nodes, scrambles=2)
    M, Q = linear_network(alpha, eta, decay, noise, 6)
    np.testing.assert_allclose(r.M.values[AFTER], M, rtol=0, atol=4e-15)
    np.testing.assert_allclose(r.Q.values[AFTER], Q, rtol=0, atol=4e-15)
    np.testing.assert_allclose([M[-1], Q[-1]], [last_M, last_Q], rtol=0, atol=6e-9)


def test_a_linear_network_stays_right_for_forty_steps():
    # with the cut of the first steps throughout, rounding errors grow until Q is wrong
    # by 0.6
    s = gs.BatchReuse(
        target="z",
        activation="linear",
        samples_per_dim=2,
        rate=0.2,
        decay=0.1,
        steps=40,
    )
    r = gs.predict(s, nodes=2**10, scrambles=2)
    M, Q = linear_network(2.0, 0.2, 0.1, 0.0, 40)
    np.testing.assert_allclose(r.M.values[AFTER], M, rtol=0, atol=5e-4)
    np.testing.assert_allclose(r.Q.values[AFTER], Q, rtol=0, atol=5e-4)


def on_a_grid(scenario, per_axis):
    """Return the trajectory on a tensor grid of h* and the noise of every step but the
    last, which moves no overlap.
    """
    k = scenario.target.directions
    p = scenario.neurons
    columns, weights = hermite_product(
        k + p * (1 if scenario.data == "fresh" else scenario.steps), per_axis
    )
    if scenario.data != "fresh":
        normals = np.concatenate([columns[k:], np.zeros((p, len(weights)))])
    else:
        normals = columns[k:]
    points = WeightedPoints(columns[:k], None, normals, weights / weights.sum())
    return limit.Trajectory(scenario, points, labels_of(scenario, points))


TWO_STEPS = [
    (ERF, HE3, "square", 2, 0.3, 100, (0, -0.0356048), (0.8684289, 0.7754143)),
    (ERF, HE3, "correlation", 2, 0.3, 100, (0, -0.0361199), (1.0661595, 1.1542041)),
    (ERF, HE2, "square", 2, 0.3, 100, (0, 0), (0.8684289, 0.7998368)),
    (
        "tanh",
        "tanh(z)",
        "square",
        3,
        0.2,
        120,
        (0.2201275, 0.3919758),
        (0.8731765, 0.8013172),
    ),
    ("tanh", HE3, "square", 2, 0.3, 120, (0, -0.0468562), (0.8908426, 0.7996982)),
    ("softplus", HE3, "square", 2, 0.3, 100, (0, -0.0013012), (0.6731153, 0.6480138)),
]


@pytest.mark.parametrize(
    ("activation", "target", "loss", "alpha", "eta", "per_axis", "M", "Q"), TWO_STEPS
)
def test_two_steps_on_a_grid_to_seven_digits(
    activation, target, loss, alpha, eta, per_axis, M, Q
):
    s = gs.BatchReuse(
        target=target,
        activation=activation,
        loss=loss,
        samples_per_dim=alpha,
        rate=eta,
        steps=2,
    )
    r = on_a_grid(s, per_axis)
    np.testing.assert_allclose(r.M[AFTER], M, rtol=0, atol=6e-8)
    np.testing.assert_allclose(r.Q[AFTER], Q, rtol=0, atol=6e-8)


def test_polynomials_are_exact_on_a_small_grid():
    s = gs.BatchReuse(
        target=HE3,
        activation="z**3/3",
        second_layer=[0.7],
        loss="correlation",
        samples_per_dim=1.5,
        rate=0.2,
        steps=2,
    )
    assert on_a_grid(s, 8).M[2].item() == pytest.approx(0.2722166941, abs=1e-10)
    s = gs.BatchReuse(
        target="z1 + z1*z2",
        activation="z + h2(z)/2",
        second_layer=[0.6],
        loss="correlation",
        samples_per_dim=1.5,
        rate=0.2,
        steps=2,
    )
    reused, single = (
        on_a_grid(s.replace(data=data), 8).M[:, 0] for data in ("reused", "fresh")
    )
    np.testing.assert_allclose(reused, [[0, 0], [0.18, 0], [0.36, 0.0756]], atol=1e-13)
    np.testing.assert_allclose(single, [[0, 0], [0.18, 0], [0.36, 0.0324]], atol=1e-13)


def test_an_even_target_or_an_even_activation_teaches_nothing():
    even_target = gs.predict(C2, target=HE2)
    assert (
        agrees(even_target, "M", np.s_[1:], 0.0, 1e-12)
        and float(abs(even_target.M).max()) < 1e-4
    )
    with pytest.warns(gs.GiantstepWarning, match="even"):
        even_activation = gs.predict(C2, activation="exp(-z**2)")
    assert agrees(even_activation, "M", np.s_[1:], 0.0, 1e-12)
    assert (
        float(abs(even_activation.M).max()) < 1e-3
        and float(even_activation.Q[-1, 0, 0]) != 1
    )


def test_an_odd_activation_never_sees_the_second_direction_of_the_staircase():
    s = gs.BatchReuse(target="z1 + z1*z2", samples_per_dim=3, rate=0.2, steps=4)
    odd = gs.predict(s, activation=ERF)
    generic = gs.predict(s, activation="relu")
    assert agrees(odd, "M", np.s_[1:, 0, 1], 0.0, 1e-12)
    assert float(abs(odd.M[:, 0, 1]).max()) < 1e-3 < 0.05 < float(generic.M[4, 0, 1])


def test_a_cycle_of_as_many_batches_as_steps_is_a_single_pass():
    s = C3.replace(samples_per_dim=4.0, steps=4)
    cycle = gs.predict(s, data="cycle", batches=4)
    single = gs.predict(s, data="fresh", samples_per_dim=1.0)
    for name in ("M", "Q", "cosine"):
        error = np.sqrt(
            cycle[f"{name}_stderr"].values ** 2 + single[f"{name}_stderr"].values ** 2
        )
        assert agrees(
            cycle,
            name,
            np.s_[1:],
            single[name].values[1:],
            single[f"{name}_stderr"].values[1:],
        )
        assert error.max() < 5e-3


def test_rotating_the_target_rotates_the_overlaps():
    # g(O z), O = [[1, 1], [-1, 1]]/sqrt 2
    turned = C1.replace(target="tanh((z1 + z2)/sqrt(2) + h3((z2 - z1)/sqrt(2)))")
    rotation = np.array([[1, 1], [-1, 1]]) / 2**0.5
    a = gs.predict(C1, steps=4)
    b = gs.predict(turned, steps=4, seed=1)
    expected = a.M.values @ rotation
    error = np.sqrt(a.M_stderr.values**2).max()
    assert agrees(b, "M", np.s_[1:], expected[1:], error) and error < 4e-4
    assert agrees(b, "Q", np.s_[1:], a.Q.values[1:], a.Q_stderr.values[1:])


def moved_response(self, t, weighted):
    """Return Gam(t, 0..t) = alpha E[dF^t/d om^s] by moving the noise om^s of every
    point a little, up and down.
    """
    p = self.p
    points = self.points

    def gradient(s, j, shift):
        found = []
        for r in range(t + 1):
            h = self._preactivations(r) + (
                shift * np.eye(p)[j][:, None] if r == s else 0.0
            )
            for q, changed in enumerate(
                found
            ):  # the memory of gradients that are no longer those of the run
                h -= self.K[self._at(r), self._at(q)] @ (changed - self.F[self._at(q)])
            _, F, _ = forward(
                self.scenario.activation, self.scenario.loss, self.a[r], h, self.labels
            )
            found.append(F if points.mask is None else F * points.mask[r])
        return found[t]

    row = np.empty((p, (t + 1) * p))
    for s in range(t + 1):
        for j in range(p):
            change = (gradient(s, j, 1e-4) - gradient(s, j, -1e-4)) / 2e-4
            row[:, s * p + j] = self.scenario.samples_per_dim * change @ points.weights
    return row


@pytest.mark.parametrize(
    "scenario",
    [
        C3.replace(steps=4),
        C3.replace(steps=4, data="cycle", batches=2, loss="correlation", rate=0.15),
        gs.BatchReuse(
            target="z1 + tanh(z2)*z1",
            activation="tanh",
            second_layer=[0.8, -0.5],
            samples_per_dim=2,
            rate=0.3,
            steps=4,
        ),
    ],
    ids=["noise and decay", "mini-batches", "two neurons"],
)
def test_the_response_is_what_moving_the_noise_says(scenario, monkeypatch):
    stein = gs.predict(scenario, nodes=2**14)
    monkeypatch.setattr(limit.Trajectory, "_response", moved_response)
    moved = gs.predict(scenario, nodes=2**14, seed=1)
    for name in ("M", "Q", "train_loss"):
        assert agrees(
            stein,
            name,
            np.s_[1:],
            moved[name].values[1:],
            moved[f"{name}_stderr"].values[1:],
        ), name
    assert float(stein.M_stderr.max()) < 1e-3


@pytest.mark.parametrize("scenario", [C1, C2, C3], ids=["C1", "C2", "C3"])
def test_training_and_population_loss_are_equal_at_the_start(scenario):
    r = gs.predict(scenario, steps=1)
    error = float(np.hypot(r.train_loss_stderr[0], r.population_loss_stderr[0]))
    assert (
        scores(r, "generalisation", np.s_[0], 0.0, 1e-9).max() < LINE and error < 1e-4
    )


def test_the_correlation_loss_decouples_neurons():
    s = C1.replace(loss="correlation", rate=0.1, second_layer=[0.7, -0.4, 0.2], steps=4)
    together = gs.predict(s, nodes=2**15)
    for j, a in enumerate(s.second_layer):
        alone = gs.predict(s, second_layer=[a], nodes=2**15, seed=2)
        assert agrees(
            together,
            "M",
            np.s_[1:, j],
            alone.M.values[1:, 0],
            alone.M_stderr.values[1:, 0],
        )
        own = alone.Q_stderr.values[1:, 0, 0]
        assert agrees(together, "Q", np.s_[1:, j, j], alone.Q.values[1:, 0, 0], own)


def test_equal_neurons_stay_equal():
    """A singular Gram matrix: two copies of a neuron with opposite second layers, so
    that f = 0 at the start.
    """
    s = C1.replace(initial_gram="paired", second_layer=[0.7, 0.7], steps=4)
    r = gs.predict(s, nodes=2**14)
    np.testing.assert_allclose(r.M.values[:, 0], r.M.values[:, 1], atol=1e-10)
    np.testing.assert_allclose(r.Q.values[:, 0, 0], r.Q.values[:, 0, 1], atol=1e-10)
    # two equal neurons are one with twice the output, at half the gradient each
    assert float(r.M[4, 0, 0]) > 0.05


def test_momentum_zero_and_one_batch_change_nothing():
    base = gs.predict(C3, nodes=2**12)
    for same in (
        dict(data="cycle", batches=1),
        dict(data="replacement", batches=1),
        dict(rate=[0.3] * 6),
    ):
        np.testing.assert_array_equal(
            gs.predict(C3.replace(**same), nodes=2**12).M, base.M
        )


def test_the_sphere_keeps_its_radius():
    r = gs.predict(C1, constraint="spherical", nodes=2**12)
    np.testing.assert_allclose(
        np.diagonal(r.Q.values, axis1=1, axis2=2), 1.0, atol=1e-12
    )


def test_one_run_is_a_function_of_its_points_only():
    layout = layout_of(C3)
    points = sobol_points(layout, 2**10, 3, 1)
    again = sobol_points(layout, 2**10, 3, 1)
    np.testing.assert_array_equal(points.normals, again.normals)
    first, second = (limit.Trajectory(C3, p, labels_of(C3, p)) for p in (points, again))
    np.testing.assert_array_equal(first.M, second.M)
