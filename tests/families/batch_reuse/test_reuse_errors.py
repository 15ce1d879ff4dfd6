"""The standard errors of the sampled limit are honest: repeated runs scatter as they
say.
"""

import numpy as np
import pytest
from scipy import stats

import giantstep as gs
from giantstep.core.result.verdicts import normal_score
from giantstep.problems.batch_reuse import limit
from giantstep.problems.batch_reuse.limit import labels_of, layout_of
from giantstep.problems.batch_reuse.points import WeightedPoints, sobol_points

from .cases import C1, C2, C3

REPEATS = 24


@pytest.mark.parametrize("scenario", [C1, C2, C3], ids=["C1", "C2", "C3"])
def test_reported_errors_are_those_of_repeated_runs(scenario):
    """Mean of stderr^2 over the variance between runs is F-distributed; all entries of
    a variable are judged alone.

    24 runs of 4 scrambles see an error that is reported 1.9 times too small.
    """
    runs = [gs.predict(scenario, nodes=2**10, seed=seed) for seed in range(REPEATS)]
    for name in ("M", "Q", "train_loss"):
        values = np.stack([r[name].values for r in runs])[:, 1:]
        reported = np.stack([r[f"{name}_stderr"].values for r in runs])[:, 1:]
        ratio = values.var(axis=0, ddof=1) / (reported**2).mean(axis=0)
        line = stats.f.ppf(1 - 1e-3 / ratio.size, REPEATS - 1, 3 * REPEATS)
        assert ratio.max() < line, (name, ratio.max(), line)
        assert ratio.mean() > 0.3  # nor are they far too large


def test_repeated_runs_scatter_around_the_exact_value():
    """No bias: the mean of many small runs of C2 is its seven-digit value on a grid."""
    runs = np.array(
        [
            float(gs.predict(C2, nodes=2**12, steps=2, seed=seed).M[2, 0, 0])
            for seed in range(REPEATS)
        ]
    )
    t = (runs.mean() + 0.0356048) / (runs.std(ddof=1) / REPEATS**0.5)
    assert abs(t) < 4 and runs.std() < 3e-4


def plain_points(layout, nodes, seed):
    """Return plain Monte Carlo points with equal weights."""
    normal = np.random.default_rng(seed).standard_normal((layout.gaussian, nodes))
    return WeightedPoints(
        normal[: layout.directions],
        None,
        normal[layout.directions :],
        np.full(nodes, 1 / nodes),
    )


def test_the_points_beat_plain_monte_carlo():
    """He3: at 2^12 points the scatter of M2 is at least 20 times that of plain Monte
    Carlo (measured: about 80).
    """
    scenario = C2.replace(steps=2)
    layout = layout_of(scenario)
    spread = {}
    for name, make in (
        ("plain", lambda seed: plain_points(layout, 2**12, seed)),
        ("sobol", lambda seed: sobol_points(layout, 2**12, 0, seed)),
    ):
        runs = [
            limit.Trajectory(scenario, points, labels_of(scenario, points))
            for points in map(make, range(40))
        ]
        spread[name] = np.std([float(run.M[2, 0, 0]) for run in runs])
    assert spread["plain"] > 20 * spread["sobol"]


def test_points_have_exact_first_and_second_moments():
    points = sobol_points(layout_of(C3), 2**8, 0, 0)
    columns = np.concatenate([points.target, points.noise[None], points.normals])
    np.testing.assert_allclose(columns @ points.weights, 0, atol=1e-14)
    np.testing.assert_allclose(
        (columns * points.weights) @ columns.T, np.eye(len(columns)), atol=1e-13
    )
    assert (
        points.weights.sum() == pytest.approx(1, abs=1e-14) and points.weights.min() > 0
    )


@pytest.mark.parametrize(("data", "share"), [("cycle", 1 / 3), ("replacement", 1 / 3)])
def test_masks_use_the_right_share(data, share):
    s = C3.replace(data=data, batches=3, steps=5)
    mask = sobol_points(layout_of(s), 2**12, 0, 0).mask
    assert mask.shape == (5, 2**12)
    np.testing.assert_allclose(mask.mean(axis=1), share, atol=2e-3)
    if data == "cycle":
        np.testing.assert_array_equal(mask[:3].sum(axis=0), 1)
        np.testing.assert_array_equal(mask[0], mask[3])
    else:
        np.testing.assert_allclose((mask[0] * mask[1]).mean(), share**2, atol=5e-3)


def test_scores_use_the_joint_error_and_the_freedom_of_both_sides():
    """Student's t over the root of both squared errors, with the degrees of freedom of
    Welch and Satterthwaite.
    """
    r = gs.compare(C3, dim=4000, trials=12, nodes=2**6, scrambles=3)
    low, high = (
        r.M_stderr.sel(source=source).values[2, 0, 0] ** 2
        for source in ("limit", "experiment")
    )
    assert 0.05 < low / high < 20  # both sides matter
    freedom = (low + high) ** 2 / (low**2 / 2 + high**2 / 11)
    t = float(r.M_gap[2, 0, 0]) / (low + high) ** 0.5
    assert float(r.M_z[2, 0, 0]) == pytest.approx(
        float(normal_score(t, freedom)), rel=1e-6
    )


def test_the_seed_of_the_limit():
    a, b, c = (gs.predict(C3, nodes=2**8, seed=seed).M.values for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c)[1:].min() > 0
    # a limit without sampling has no seed
    linear = gs.OneStep(width_per_dim=1.0, samples_per_dim=2.0, ridge=0.1)
    assert float(gs.predict(linear, seed=3).test_error) == float(
        gs.predict(linear).test_error
    )
