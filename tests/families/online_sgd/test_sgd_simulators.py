"""The two experiments: held to each other in mean and variance, to the map, and to
gradient_dynamics section 3.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.lab import Draws
from giantstep.problems.online_sgd.dynamics import map_step
from giantstep.problems.online_sgd.integrators import integrator_for
from giantstep.problems.online_sgd.simulators import SIMULATORS
from giantstep.problems.online_sgd.states import Drive, drive_of, starts

M0 = [[0.3, 0.1], [-0.1, 0.2]]
THREE = [*M0, [0.2, -0.2]]
Q0 = [[1.0, 0.2], [0.2, 1.0]]


def bounded(**changes):
    """Return a network with bounded labels, so that variances are estimated well."""
    fields = {
        "target": "tanh(z1) + tanh(z1*z2)",
        "activation": "tanh",
        "second_layer": [1.5, -1.0],
        "initial_overlap": M0,
    }
    fields |= {
        "dim": 24,
        "batch_size": 5,
        "rate": 1.0,
        "steps": 4,
        "noise": 0.1,
        "inner_rate": 0.4,
    }
    return gs.OnlineSGD(**{**fields, **changes})


def final(scenario, simulator, runs, seed=3):
    """Return M and the lower triangle of Q at the end of independent runs, (runs,
    entries).
    """
    draws = Draws(seed, simulator, 0)
    points = {
        name: np.array([value])
        for name, (value, _) in scenario.numeric_fields().items()
    }
    drive = drive_of(scenario, points)
    start = starts(scenario, scenario.dim, 0, 0, runs)
    made = SIMULATORS[simulator](
        scenario, drive, start, scenario.dim, scenario.batch_size, draws
    )
    made.advance(scenario.steps)
    M, Q = made.overlaps()
    rows, columns = np.tril_indices(scenario.width)
    return np.concatenate([M.reshape(runs, -1), Q[0][:, rows, columns]], axis=1)


def scores(one, other):
    """Return normal scores of the differences of means and of variances (by the fourth
    moment).
    """
    keep = one.std(axis=0) > 1e-9
    one = one[:, keep]
    other = other[:, keep]
    mean = (one.mean(0) - other.mean(0)) / np.sqrt(
        one.var(0) / len(one) + other.var(0) / len(other)
    )

    def spread(sample):
        centred = (sample - sample.mean(0)) ** 2
        return centred.mean(0), centred.var(0) / len(sample)

    (first, error), (second, other_error) = spread(one), spread(other)
    return mean, (first - second) / np.sqrt(error + other_error)


CASES = [
    {"algorithm": "squared"},
    {"algorithm": "squared", "constraint": "projected"},
    {"algorithm": "correlation", "constraint": "spherical"},
    {"algorithm": "extragradient"},
    {"algorithm": "extragradient", "batch_size": 40},
    {"algorithm": "sam", "inner_rate": -0.4, "batch_size": 1},
    {"algorithm": "two-step", "batch_size": 1, "rate": 0.05},
    {"algorithm": "exponential"},
    {"algorithm": "squared", "batch_size": 1},
    {"algorithm": "squared", "batch_size": 1, "activation": "relu"},
    {
        "algorithm": "correlation",
        "batch_size": 2,
        "second_layer": [1.5, -1.0, 0.5],
        "initial_overlap": THREE,
    },
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: " ".join(map(str, case.values()))
)
def test_exact_law_equals_direct_in_mean_and_variance(case):
    """4000 and 1000 runs see 8% of a variance and 0.06 standard deviations of a mean; 7
    entries, all below 4.
    """
    scenario = bounded(**case)
    mean, variance = scores(
        final(scenario, "exact-law", 4000), final(scenario, "direct", 1000)
    )
    assert np.abs(mean).max() < 4 and np.abs(variance).max() < 4


def test_the_comparison_would_see_a_missing_outer_part():
    """Four dimensions of 24 less, a fifth of the Wishart term, are plainly visible in
    the norms.
    """
    scenario = bounded(algorithm="squared")
    mean, _ = scores(
        final(scenario, "exact-law", 4000),
        final(scenario.replace(dim=20), "direct", 1000),
    )
    assert np.abs(mean).max() > 6


def test_one_step_of_the_law_has_the_mean_of_the_exact_map_and_not_of_the_published_one():
    """160,000 runs: standard errors of 0.4%; the published map is off by terms of order
    (p + k)/d and 1/n_b.
    """
    scenario = bounded(steps=1, dim=12, batch_size=2, rate=2.0)
    measured = final(scenario, "exact-law", 160_000)
    error = measured.std(axis=0) / np.sqrt(len(measured))
    one = np.ones(1)
    for terms, low, high in (("map", 0, 4), ("published", 8, np.inf)):
        drive = Drive(
            one,
            12 * one,
            2 * one,
            0 * one,
            0.1 * one,
            np.array(scenario.second_layer),
            "none",
            terms,
        )
        M, Q = map_step(integrator_for(scenario), drive, *starts(scenario, 12, 0, 0, 1))
        expected = np.concatenate([M.ravel(), Q[0][np.tril_indices(2)]])
        assert (
            low <= np.abs((measured.mean(axis=0) - expected) / error).max() <= high
        ), terms


def test_thirty_steps_agree_with_the_map():
    """2000 runs at d = 200: every entry within 3.5 standard errors (7 entries), errors
    below 0.3% of Q11.
    """
    scenario = gs.OnlineSGD(
        target="erf(z1/sqrt(2)) + 0.5*z1*z2",
        activation="erf(z/sqrt(2))",
        second_layer=[1, -0.7],
        noise=0.1,
        dim=200,
        batch_size=20,
        rate=0.6,
        steps=30,
        initial_overlap=M0,
        initial_gram=Q0,
    )
    measured = gs.simulate(scenario, trials=20, runs=100, times=[30], seed=5)
    theory = {
        "M": [1.463583, 0.128530, -0.974155, 0.188537],
        "Q": [4.070242, -1.257818, -1.257818, 2.748874],
    }
    for name, values in theory.items():
        z = (measured[name].values.ravel() - values) / measured[
            f"{name}_stderr"
        ].values.ravel()
        assert np.abs(z).max() < 3.5, name
    assert float(measured.Q_stderr.max()) < 0.003 * 4.07 * 1.2


def test_a_million_dimensions():
    scenario = gs.OnlineSGD(
        target="h2(z1)",
        activation="h2",
        dim=10**6,
        batch_size=1000,
        rate=0.1e-3,
        steps=200,
        algorithm="correlation",
        constraint="projected",
        initial_overlap=[[0.2]],
    )
    both = gs.compare(scenario, trials=6, times=[100, 200])
    assert gs.agreement(both).passes(allow=0.005), str(gs.agreement(both))


@pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")
def test_limit_and_experiment_of_a_trial_start_alike():
    scenario = bounded(initial_overlap="random", initial_gram="random", steps=1)
    both = gs.compare(scenario, trials=3, seed=11, times=[0, 1], nodes=12)
    np.testing.assert_allclose(both.M_gap.sel(time=0), 0, atol=1e-12)
    np.testing.assert_allclose(both.Q_gap.sel(time=0), 0, atol=1e-12)
    direct = gs.simulate(scenario, trials=3, seed=11, times=[0, 1], simulator="direct")
    np.testing.assert_allclose(
        direct.M.sel(time=0), both.M.sel(source="experiment", time=0), atol=1e-12
    )
    other = gs.simulate(scenario, trials=3, seed=12, times=[0, 1])
    assert np.abs(other.M.sel(time=0) - direct.M.sel(time=0)).max() > 1e-3
    lengths = np.linalg.norm(
        gs.predict(scenario, seed=11, times=[0], nodes=12).M.values[0], axis=1
    )
    np.testing.assert_allclose(lengths, scenario.dim**-0.5)


def test_odd_targets_start_with_positive_overlaps():
    scenario = gs.OnlineSGD(
        target="h3(z1)", activation="h3", dim=100, rate=1e-5, initial_overlap="random"
    )
    assert np.all(gs.simulate(scenario, trials=4, keep_trials=True, times=[0]).M > 0)


def test_points_of_a_sweep_share_their_samples():
    scenario = bounded()
    alone = gs.simulate(scenario, trials=2)
    swept = gs.simulate(scenario, trials=2, rate=[0.5, 1.0])
    np.testing.assert_allclose(swept.M.sel(rate=1.0), alone.M, rtol=1e-10)


def test_third_hermite_recovers_when_the_map_says():
    """Median of 24 runs against the map at mu = 1, d = 128: 12% allowed, the spread of
    such medians.
    """
    d = 128
    scenario = gs.OnlineSGD(
        target="h3(z1)",
        activation="h3",
        dim=d,
        batch_size=d,
        rate=0.02 * d**-0.5,
        steps=3000,
        algorithm="correlation",
        constraint="projected",
        initial_overlap="random",
    )
    measured = gs.simulate(scenario, what="recovery", trials=1, runs=64)
    limit = gs.predict(scenario, what="recovery")
    assert float(measured.recovered) == 1
    assert float(measured.recovery_time) == pytest.approx(
        float(limit.recovery_time), rel=0.12
    )


def test_escape_time_agrees_with_its_constant():
    """H2/H2, m0 ~ N(0, 1/d), 8 trials of 60 runs: errors of 2%; without log 2 + gamma_E
    it would be off by 20%.
    """
    d = 1000
    scenario = gs.OnlineSGD(
        target="h2(z1)",
        activation="h2",
        dim=d,
        batch_size=10,
        rate=0.1 * 10 / d,
        steps=6000,
        algorithm="correlation",
        constraint="projected",
        initial_overlap="gaussian",
    )
    measured = gs.simulate(scenario, what="recovery", trials=8, runs=60)
    limit = gs.predict(scenario.replace(steps=6000), what="recovery")
    z = float((measured.escape_time - limit.escape_time) / measured.escape_time_stderr)
    assert abs(z) < 3
    assert float(measured.escape_time_stderr / measured.escape_time) < 0.03


def jumping(fields, label):
    """F = s'(l) sign(y) for tanh: it jumps where the label changes sign, on no plane a
    rule knows of.
    """
    return (1 - np.tanh(fields) ** 2) * np.sign(label)[..., None]


@pytest.mark.parametrize("algorithm", [jumping, "sign(z)"])
def test_forces_with_hidden_jumps_are_sampled(algorithm):
    """Product rules are off by 6% here, 8 standard errors of this experiment."""
    scenario = bounded(
        target="z1 + z1*z2",
        algorithm=algorithm,
        dim=100,
        batch_size=50,
        rate=0.05,
        steps=20,
        noise=0,
    )
    assert integrator_for(scenario).sampled
    report = gs.agreement(gs.compare(scenario, trials=30, times=[20], seed=1))
    assert report.passes(allow=0.01), str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "inner", "gamma0", "theory"),
    [
        ("extragradient", 0.1, 0.01, [-0.011845, -0.031314, -0.068852]),
        ("squared", 0.1, 0.01, [0, 0, 0]),
        ("two-step", 0.1, 0.05, [-0.052490, -0.154122, -0.291437]),
    ],
)
def test_repetition_at_512_dimensions(algorithm, inner, gamma0, theory):
    """20 trials of 30 runs: cosines to 0.0007 (extragradient), against the limit;
    O(1/d) terms are allowed 1%.
    """
    d = 512
    scenario = gs.OnlineSGD(
        dim=d,
        rate=gamma0 / d,
        steps=50 * d,
        algorithm=algorithm,
        inner_rate=inner,
        initial_overlap="zero",
    )
    measured = gs.simulate(scenario, trials=10, runs=60, times=[10 * d, 25 * d, 50 * d])
    gap = np.abs(measured.cosine.values.ravel() - theory) - 0.01 * np.abs(theory)
    assert np.all(gap < 3.5 * measured.cosine_stderr.values.ravel())


def test_plain_polynomial_runs_that_diverge_are_reported():
    scenario = gs.OnlineSGD(
        target="h3(z1)",
        activation="h3",
        dim=64,
        rate=0.5,
        steps=30,
        initial_overlap=[[0.5]],
    )
    with pytest.warns(gs.GiantstepWarning, match="not a number"):
        result = gs.simulate(scenario, trials=2)
    assert not result.converged
