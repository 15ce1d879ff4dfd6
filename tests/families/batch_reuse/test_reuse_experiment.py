"""Both engines of batch reuse beside each other, option by option, and the two
experiments beside each other.
"""

import numpy as np
import pytest
from scipy import stats

import giantstep as gs

from .cases import C2, C3

BASE = gs.BatchReuse(
    target="tanh(z1) + z1*z2/2",
    activation="relu",
    second_layer=[0.8, -0.6],
    samples_per_dim=2.0,
    rate=0.25,
    steps=4,
    noise=0.1,
)
OPTIONS = {
    "plain": {},
    "decay": dict(decay=0.3),
    "correlation": dict(loss="correlation", rate=0.1),
    "fresh": dict(data="fresh"),
    "fresh momentum": dict(data="fresh", momentum=0.5),
    "cycle": dict(data="cycle", batches=2),
    "replacement": dict(data="replacement", batches=3),
    "momentum": dict(momentum=0.6, decay=0.2),
    "spherical": dict(constraint="spherical"),
    "spherical momentum": dict(constraint="spherical", momentum=0.5),
    "second layer": dict(second_layer_rate=0.3),
    "second layer, cycle": dict(second_layer_rate=0.3, data="cycle", batches=2),
    "second layer, correlation": dict(
        second_layer_rate=0.1, loss="correlation", rate=0.1
    ),
    "overlap": dict(initial_overlap=[[0.5, 0.1], [-0.2, 0.3]]),
    "gram": dict(
        initial_gram=[[1.2, 0.5], [0.5, 0.8]], initial_overlap=[[0.3, 0], [0, 0.2]]
    ),
    "paired": dict(initial_gram="paired", second_layer=[0.7, -0.7]),
    "schedule": dict(rate=[0.4, 0.3, 0.2, 0.1]),
    "tanh": dict(activation="tanh", decay=0.2, constraint="spherical"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_limit_and_experiment_agree(option):
    """No finite-size term is allowed for: at d = 1000 it is below what 16 trials see
    (8% in M, 1.5% in Q).
    """
    r = gs.compare(
        BASE.replace(**OPTIONS[option]), dim=1000, trials=16, nodes=2**13, seed=3
    )
    report = gs.agreement(r)
    assert report.passes(), str(report)
    visible = {row.variable: row.smallest_visible for row in report.rows}
    assert visible["M"] < 0.12 and visible["Q"] < 0.03
    assert bool(r.converged.all())


def test_a_wrong_weight_decay_would_be_noticed():
    limit = gs.predict(BASE, decay=0.15, nodes=2**13)
    measured = gs.simulate(BASE, dim=1000, trials=16, seed=3, decay=0.3)
    z = (measured.Q - limit.Q) / np.hypot(measured.Q_stderr, limit.Q_stderr)
    assert float(abs(z[1:]).max()) > 6


def test_direct_and_matrix_free_have_the_same_mean_and_spread():
    """120 trials each of d = 60: means within their errors, variances within a factor
    of 1.9 (F-test).
    """
    s = BASE.replace(steps=3, data="cycle", batches=2, momentum=0.3)
    runs = {
        method: gs.simulate(
            s, dim=60, trials=120, seed=seed, keep_trials=True, method=method
        )
        for seed, method in enumerate(("direct", "matrix-free"))
    }
    for name in ("M", "Q", "train_loss", "population_loss"):
        a, b = (r[name].values[:, 1:].reshape(120, -1) for r in runs.values())
        t = (a.mean(axis=0) - b.mean(axis=0)) / np.sqrt(
            (a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / 120
        )
        assert np.abs(t).max() < 4, name
        ratio = a.var(axis=0, ddof=1) / b.var(axis=0, ddof=1)
        line = stats.f.ppf(1 - 5e-4 / ratio.size, 119, 119)
        assert 1 / line < ratio.min() and ratio.max() < line, name


def test_more_products_than_dimensions_are_fine():
    """The matrix-free data has d = 12 columns and answers far more than 12 questions
    about them.
    """
    r = gs.simulate(C3, dim=12, trials=3, steps=30, rate=0.1)
    assert bool(r.converged) and np.isfinite(r.M.values).all()


def test_the_experiment_starts_where_it_should():
    s = BASE.replace(**OPTIONS["gram"])
    for method in ("direct", "matrix-free"):
        r = gs.simulate(s, dim=50, trials=2, method=method)
        np.testing.assert_allclose(r.M[0], [[0.3, 0], [0, 0.2]], atol=1e-12)
        np.testing.assert_allclose(r.Q[0], [[1.2, 0.5], [0.5, 0.8]], atol=1e-12)


def test_trials_and_points_change_no_number():
    few = gs.simulate(BASE, dim=50, trials=2, keep_trials=True)
    many = gs.simulate(BASE, dim=50, trials=3, keep_trials=True, noise=[0.0, 0.1])
    np.testing.assert_array_equal(few.M, many.M.sel(noise=0.1).isel(trial=slice(2)))


def test_grids_files_and_padding():
    r = gs.compare(
        C2,
        {"samples_per_dim": [1.0, 2.0], "steps": [1, 3]},
        dim=200,
        trials=2,
        nodes=2**10,
    )
    assert r.M.dims == (
        "source",
        "samples_per_dim",
        "steps",
        "time",
        "neuron",
        "direction",
    )
    assert bool(r.converged.all()) and r.sizes["time"] == 4
    assert bool(r.M.isel(steps=0, time=slice(2, None)).isnull().all()) and bool(
        r.M.isel(steps=1).notnull().all()
    )
    alone = gs.predict(C2, steps=1, nodes=2**10)
    np.testing.assert_array_equal(
        alone.M, r.M.sel(source="limit", samples_per_dim=2.0, steps=1)[:2]
    )
    assert float(r.M_z.isel(steps=1).notnull().sum()) > 0
    study = gs.Study(
        BASE.replace(**OPTIONS["gram"], rate=[0.4, 0.3, 0.2, 0.1]),
        limit={"nodes": 2**10, "seed": 4},
    )
    again = gs.Study.from_toml(study.to_toml())
    assert again == study
    np.testing.assert_array_equal(again.predict().M, study.predict().M)


@pytest.mark.slow
def test_c1_at_high_dimension_sees_one_percent():
    from .cases import C1

    report = gs.agreement(gs.compare(C1, dim=20000, trials=60, nodes=2**17, seed=1))
    assert report.passes(), str(report)
    visible = {row.variable: row.smallest_visible for row in report.rows}
    assert (
        visible["M"] < 0.01 and visible["Q"] < 0.003 and visible["train_loss"] < 0.003
    )


@pytest.mark.slow
def test_a_million_dimensions():
    from .cases import C1

    measured = gs.simulate(C1, dim=10**6, trials=1, steps=3)
    limit = gs.predict(C1, steps=3)
    np.testing.assert_allclose(measured.M, limit.M, atol=0.005)
    np.testing.assert_allclose(measured.Q, limit.Q, atol=0.005)


@pytest.mark.gpu
def test_the_gpu_agrees_with_the_limit():
    for method in ("matrix-free", "direct"):
        r = gs.compare(
            BASE, dim=1000, trials=8, device="cuda", nodes=2**13, method=method
        )
        assert gs.agreement(r).passes()
