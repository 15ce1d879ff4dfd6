"""GAMP beside state evolution, sweep by sweep."""

import tracemalloc

import numpy as np
import pytest

import giantstep as gs

LINE = 4.2
"""|z| that some hundred numbers pass by chance once in 300."""


def trajectory(dim, trials, overlap, steps=8, **fields):
    s = gs.BayesLimit(**fields)
    return gs.compare(
        s,
        what="trajectory",
        dim=dim,
        trials=trials,
        overlap=overlap,
        steps=steps,
        seed=5,
    )


def test_state_evolution_has_the_printed_sweeps():
    r = gs.predict(
        gs.BayesLimit(target="sign(z)", samples_per_dim=2.0),
        what="trajectory",
        overlap=0.05,
        steps=5,
    )
    np.testing.assert_allclose(
        r.q, [0.05, 0.568079, 0.675903, 0.709225, 0.721081, 0.725527], atol=5e-7
    )
    r = gs.predict(
        gs.BayesLimit(target="abs(z)", noise=0.1, samples_per_dim=1.5),
        what="trajectory",
        overlap=0.2,
        steps=5,
    )
    np.testing.assert_allclose(
        r.q, [0.2, 0.284173, 0.362103, 0.427728, 0.480303, 0.521421], atol=5e-7
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"target": "sign(z)", "flip": 0.1, "samples_per_dim": 4.0},
        {"target": "tanh(z)", "noise": 0.1, "samples_per_dim": 1.0},
        {"target": "relu(z)", "samples_per_dim": 1.5},
        {
            "target": "sign(z + 0.5) + sign(z - 0.8)",
            "flip": 0.06,
            "samples_per_dim": 2.5,
        },
    ],
    ids=["labels", "noisy", "exact with an atom", "three labels"],
)
def test_gamp_follows_state_evolution(fields):
    both = trajectory(300, 24, 0.05, **fields)
    assert np.abs(both.q_z[1:]).max() < LINE and np.abs(both.mse_z[1:]).max() < LINE
    gap = both.error.sel(source="experiment") - both.error.sel(source="limit")
    score = (gap / both.error_stderr.sel(source="experiment")).values[1:]
    assert np.isnan(score).all() == ("flip" not in fields)
    assert np.nanmax(np.abs(score), initial=0.0) < LINE


def test_a_random_start_finds_phase_retrieval():
    s = gs.BayesLimit(target="abs(z)", noise=0.1, samples_per_dim=2.5)
    both = gs.compare(s, dim=300, trials=5, seed=3)
    assert both.q.sel(source="limit", branch="uninformed") > 0.8
    assert abs(float(both.q_z.sel(branch="uninformed"))) < LINE
    assert np.isnan(both.q.sel(source="experiment", branch="informed"))


def test_a_spectral_start_reaches_the_same_fixed_point():
    s = gs.BayesLimit(target="abs(z)", noise=0.1, samples_per_dim=2.5)
    both = gs.compare(s, dim=300, trials=5, seed=4, start="spectral")
    assert abs(float(both.q_z.sel(branch="uninformed"))) < LINE


def test_a_spectral_start_makes_no_matrix_of_the_dimension():
    s = gs.BayesLimit(target="abs(z)", samples_per_dim=0.2)
    dim = 2000
    tracemalloc.start()
    gs.simulate(s, dim=dim, trials=1, start="spectral", max_sweeps=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * dim**2


def test_gamp_follows_state_evolution_for_a_product_without_noise():
    both = trajectory(150, 6, 0.3, steps=4, target="3*z1*z2", samples_per_dim=1.5)
    assert np.abs(both.q_z[1:]).max() < LINE and np.abs(both.mse_z[1:]).max() < LINE
    s = gs.BayesLimit(target="z1*z2", samples_per_dim=1.2)
    r = gs.simulate(s, dim=100, trials=1, start="seed", overlap=0.5, max_sweeps=9)
    assert 0.2 < float(r.q.sel(branch="informed")) < 0.6


def test_exact_targets_are_recovered_from_a_seed():
    s = gs.BayesLimit(target="abs(z)", samples_per_dim=1.4)
    r = gs.simulate(s, dim=200, trials=3, start="seed", overlap=0.9)
    np.testing.assert_allclose(r.q.sel(branch="informed"), 1, atol=1e-5)
    np.testing.assert_allclose(r.mse.sel(branch="informed"), 0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overlap", "fields"),
    [
        (0.05, {"target": "sign(z)", "samples_per_dim": 2.0}),
        (0.05, {"target": "tanh(z)", "noise": 0.1, "samples_per_dim": 1.0}),
        (0.05, {"target": "relu(z)", "samples_per_dim": 1.5}),
        (
            0.05,
            {
                "target": "1.5*relu(z) + 0.5*relu(-z)",
                "noise": 0.05,
                "samples_per_dim": 1.0,
            },
        ),
    ],
)
def test_gamp_follows_state_evolution_closely(overlap, fields):
    both = trajectory(1000, 60, overlap, steps=12, **fields)
    assert np.nanmax(np.abs(both.q_z.values[1:])) < LINE
