"""Channel integrals beside plain numerical integration, and the rules that would not
do.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from giantstep.core.maths.gaussian import trapezoid_rule
from giantstep.core.readout.losses import channel
from giantstep.core.readout.losses.channel import (
    ChannelMoments,
    MarginLaws,
    both_labels,
    both_moments,
    moments_at,
    panel_nodes,
)
from giantstep.core.readout.losses.functions import (
    HingeLoss,
    LogisticLoss,
    MaxMarginLoss,
)
from giantstep.core.readout.losses.labels import (
    BinaryLabels,
    LogitLabels,
    SignLabels,
    logistic_normal,
)


def one_row(mean=0.4, scale=1.3, tau=0.2, slope=0.6, variance=0.5, flip=0.1):
    return MarginLaws(
        *(np.array([value]) for value in (mean, scale, tau, slope, variance, flip))
    )


def channel_moments(rows, labels, loss, V, nodes_per_panel=channel.NODES):
    """Return the moments of label 1."""
    moments = np.full((4, len(V)), np.nan)
    for label, row, margins in both_labels(rows, labels, loss, V, nodes_per_panel):
        if label == 1:
            moments[:, row] = moments_at(margins, loss.at(row), V[row])
    return ChannelMoments(*moments)


def brute(rows, law, loss, V, kinks):
    """Integrate by scipy.quad between the kinks."""
    mean, scale, tau, slope, variance, flip = (
        float(getattr(rows, name)[0])
        for name in ("mean", "scale", "tau", "slope", "variance", "flip")
    )

    def parts(xi):
        Z, dZ = law.positive(
            np.array([tau + slope * xi]), np.array([variance]), np.array([flip])
        )
        pull = loss.pull(np.array([mean + scale * xi]), np.array([V]))
        return (
            Z[0] * pull.g[0],
            Z[0] * pull.g[0] ** 2,
            Z[0] * pull.slope[0],
            dZ[0] * pull.g[0],
        )

    edges = sorted(
        {
            -10.0,
            10.0,
            *(float(k) for k in (np.asarray(kinks) - mean) / scale if abs(k) < 10),
        }
    )
    totals = []
    for i in range(4):
        pieces = [
            quad(
                lambda xi, i=i: parts(xi)[i] * norm.pdf(xi),
                a,
                b,
                epsabs=1e-13,
                limit=200,
            )[0]
            for a, b in zip(edges[:-1], edges[1:])
        ]
        totals.append(sum(pieces))
    return totals


@pytest.mark.parametrize(
    ("loss", "V", "kinks"),
    [
        (HingeLoss(), 0.8, [0.2, 1.0]),
        (HingeLoss(), 5.0, [-4.0, 1.0]),
        (MaxMarginLoss(), 0.3, [1.0]),
        (LogisticLoss(), 0.8, [0.0]),
        (LogisticLoss(), 300.0, [-300.0, 0.0]),
    ],
)
@pytest.mark.parametrize("law", [SignLabels(), LogitLabels()])
def test_moments_agree_with_plain_integration(loss, V, kinks, law):
    rows = one_row()
    found = channel_moments(rows, law, loss, np.array([V]))
    expected = brute(rows, law, loss, V, kinks)
    got = [found.g[0], found.g2[0], found.slope[0], found.along_teacher[0]]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [0.1, 30.0, 1000.0])
@pytest.mark.parametrize("V", [1e-3, 1.0, 1e5])
def test_logistic_integrals_do_not_depend_on_the_number_of_nodes(scale, V):
    rows = one_row(scale=scale, slope=0.7, variance=1e-3)
    coarse = channel_moments(rows, SignLabels(), LogisticLoss(), np.array([V]))
    fine = channel_moments(
        rows, SignLabels(), LogisticLoss(), np.array([V]), nodes_per_panel=60
    )
    for name in ("g", "g2", "slope", "along_teacher"):
        np.testing.assert_allclose(
            getattr(coarse, name), getattr(fine, name), rtol=1e-8
        )


@pytest.mark.parametrize("law", [SignLabels(), LogitLabels(), BinaryLabels()])
@pytest.mark.parametrize(
    ("scale", "variance"), [(0.05, 0.5), (1.0, 0.3), (2.0, 0.0), (3.0, 0.05)]
)
def test_the_trapezoidal_rule_is_as_exact_as_panels(law, scale, variance, monkeypatch):
    """Rows that the trapezoidal rule resolves, and the same rows on panels: a step 1.5
    times longer is off by 1e-10.
    """
    slope = 0.0 if variance == 0 else 0.7
    tau = np.linspace(0.1, 0.9, 5)  # a mean of the labels, or of the teacher field
    rows = MarginLaws(
        *(
            np.broadcast_to(value, 5)
            for value in (tau - 1, scale, tau, slope, variance, 0.1)
        )
    )
    V = np.geomspace(1e-3, 1e3, 5)
    step = np.minimum(
        LogisticLoss().resolving_step(rows.scale),
        law.resolving_step(rows.slope, rows.variance),
    )
    assert (step > channel.LEAST_STEP).all()
    smooth = channel_moments(rows, law, LogisticLoss(), V)
    monkeypatch.setattr(channel, "LEAST_STEP", np.inf)
    panels = channel_moments(rows, law, LogisticLoss(), V, nodes_per_panel=24)
    for name in ("g", "g2", "slope", "along_teacher"):
        np.testing.assert_allclose(
            getattr(smooth, name), getattr(panels, name), rtol=1e-11, atol=1e-13
        )


def test_gauss_hermite_would_not_do_for_the_hinge():
    rows = one_row(slope=0.0)
    V = 0.8
    exact = channel_moments(rows, BinaryLabels(), HingeLoss(), np.array([V])).slope[0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    plain = (weights / weights.sum()) @ HingeLoss().pull(
        0.4 + 1.3 * nodes, np.full(100, V)
    ).slope
    chance = 0.6 * 0.8 + 0.1
    closed = -(norm.cdf((1 - 0.4) / 1.3) - norm.cdf((1 - V - 0.4) / 1.3)) / V * chance
    assert exact == pytest.approx(closed, rel=1e-13)
    assert abs(plain * chance / closed - 1) > 1e-3


def test_derivative_along_the_teacher_is_a_derivative():
    shift = 1e-6
    up, down = (
        channel_moments(
            one_row(tau=0.2 + sign * shift), SignLabels(), HingeLoss(), np.array([0.8])
        ).g[0]
        for sign in (1, -1)
    )
    here = channel_moments(
        one_row(), SignLabels(), HingeLoss(), np.array([0.8])
    ).along_teacher[0]
    assert here == pytest.approx((up - down) / (2 * shift), rel=1e-7)


def test_a_row_does_not_depend_on_its_neighbours():
    alone = channel_moments(one_row(), LogitLabels(), LogisticLoss(), np.array([2.0]))
    names = ("mean", "scale", "tau", "slope", "variance", "flip")
    rows = [
        one_row(),
        one_row(mean=-3.0, scale=40.0, variance=9.0),
        one_row(scale=0.01),
    ]
    many = MarginLaws(
        *(np.concatenate([getattr(row, name) for row in rows]) for name in names)
    )
    together = channel_moments(
        many, LogitLabels(), LogisticLoss(), np.array([2.0, 1e4, 0.1])
    )
    assert together.g[0] == pytest.approx(alone.g[0], rel=1e-14)
    assert together.g2[0] == pytest.approx(alone.g2[0], rel=1e-14)


@pytest.mark.parametrize("variance", [1e-8, 0.3, 0.999, 1.0, 3.999, 4.0, 9.0, 400.0])
def test_logistic_normal_integral(variance):
    mean = np.linspace(-12, 12, 41)
    nodes, weights = trapezoid_rule(0.002, 10.0)
    g = expit(mean[:, None] + np.sqrt(variance) * nodes)
    value, slope = logistic_normal(mean, np.full(41, variance))
    np.testing.assert_allclose(value, g @ weights, atol=1e-13)
    np.testing.assert_allclose(slope, (g * (1 - g)) @ weights, atol=1e-13)


def test_plain_hermite_is_wrong_at_variance_nine():
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    plain = (weights / weights.sum()) @ expit(0.5 + 3 * nodes)
    exact = logistic_normal(np.array([0.5]), np.array([9.0]))[0][0]
    assert 1e-8 < abs(plain - exact) < 1e-5


def test_edges_outside_or_missing_are_left_out():
    nodes = panel_nodes(np.array([[np.inf, -np.inf, np.nan], [0.1, 0.1, 30.0]]))
    (mass,) = nodes.sums(np.ones(len(nodes.xi)))
    np.testing.assert_allclose(mass, 1.0, atol=1e-14)
    # one panel more where an edge is inside
    assert len(np.unique(np.bincount(nodes.row))) == 2


@pytest.mark.parametrize(
    "loss", [LogisticLoss(), HingeLoss()], ids=["smooth rows", "rough rows"]
)
def test_both_labels_are_those_of_two_calls(loss):
    """300 rows, more than a block; the second label sees margin and teacher with the
    other sign.
    """
    draws = np.random.default_rng(5)
    columns = (
        draws.normal(size=300),
        draws.uniform(0.5, 2, 300),
        draws.normal(size=300),
        draws.normal(size=300) / 2,
    )
    rows = MarginLaws(*columns, draws.uniform(0.5, 1, 300), np.full(300, 0.1))
    V = draws.uniform(0.3, 3, 300)
    labels = SignLabels()
    pieces = {1: np.full(300, np.nan), -1: np.full(300, np.nan)}
    for label, row, margins in both_labels(rows, labels, loss, V):
        pieces[label][row] = moments_at(margins, loss, V[row]).g
    np.testing.assert_allclose(
        both_moments(rows, labels, loss, V).g, pieces[1] - pieces[-1], rtol=1e-12
    )
    for label, laws in ((1, rows), (-1, rows.mirrored())):
        np.testing.assert_allclose(
            pieces[label], channel_moments(laws, labels, loss, V).g, rtol=1e-12
        )
