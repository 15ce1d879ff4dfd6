"""Bad input of batch reuse: one sentence each, and what is still returned where a
trajectory diverges.
"""

import warnings

import numpy as np
import pytest

import giantstep as gs

from .cases import C1, C2, C3

BAD = [
    (dict(samples_per_dim=0), "samples_per_dim"),
    (dict(rate=0.0), "rate.*above 0"),
    (dict(rate=[0.1, 0.2]), "rate.*list of 6"),
    (dict(rate=[0.1] * 5 + [-0.1]), "rate.*above 0"),
    (dict(rate=float("inf")), "rate"),
    (dict(decay=-0.1), "decay"),
    (dict(noise=-1), "noise"),
    (dict(steps=0), "steps"),
    (dict(second_layer=[]), "second_layer"),
    (dict(second_layer=[float("nan")]), "second_layer"),
    (dict(activation="sign"), "activation.*derivative.*jumps at 0"),
    (dict(target="z1 + z7"), "target"),
    (dict(initial_overlap=[[0.1, 0.2]]), "initial_overlap.*1 rows and 1 columns"),
    (dict(initial_gram=[[1.0, 0.0], [0.0, 1.0]]), "initial_gram.*1 rows and 1 columns"),
    (dict(initial_overlap=[[1.2]]), "positive semi-definite.*-0.44"),
    (dict(initial_gram=[[-1.0]]), "initial_gram.*positive"),
    (dict(batches=3), "batches.*cycle"),
    (dict(momentum=1.0), "momentum"),
    (dict(data="again"), "data.*reused"),
    (dict(loss="hinge"), "loss.*square"),
]


@pytest.mark.parametrize(
    ("change", "message"), BAD, ids=[str(change) for change, _ in BAD]
)
def test_fields(change, message):
    with pytest.raises(gs.InputError, match=message):
        C2.replace(**change)


def test_an_asymmetric_gram_matrix_is_refused():
    with pytest.raises(gs.InputError, match="initial_gram.*symmetric"):
        C1.replace(initial_gram=[[1.0, 0.5], [0.1, 1.0]])


def test_a_schedule_cannot_have_other_lengths_over_a_grid():
    with pytest.raises(gs.InputError, match="`steps` must be 6, .* but is steps=5"):
        gs.predict(C2.replace(rate=[0.1] * 6), steps=[5, 6])


def test_a_matrix_is_one_start_and_names_are_several():
    r = gs.predict(
        C1, initial_gram=[[1.0, 0.5], [0.5, 1.0]], rate=[0.1, 0.2], steps=1, nodes=2**8
    )
    assert r.M.dims == ("rate", "time", "neuron", "direction")
    np.testing.assert_allclose(
        r.Q.isel(time=0).values, [[[1.0, 0.5], [0.5, 1.0]]] * 2, atol=1e-15
    )
    assert (
        gs.predict(C1, initial_gram=["identity", "paired"], steps=1, nodes=2**8).sizes[
            "initial_gram"
        ]
        == 2
    )
    with pytest.raises(gs.InputError, match="initial_gram.*rows of equal length"):
        gs.predict(C1, initial_gram=[[1.0, 0.5], [0.5]])


def test_memory_counts_the_kernels_of_many_steps():
    with pytest.raises(gs.InputError, match=r"GiB of memory .*steps=20000"):
        gs.predict(C2, steps=20000, nodes=2**17)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(nodes=1000), "nodes.*power of two"),
        (dict(nodes=0), "nodes"),
        (dict(nodes=4), "nodes.*at least 16 for 8 columns"),
        (dict(scrambles=0), "scrambles"),
        (dict(seed=-1), "seed"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(gs.InputError, match=message):
        gs.predict(C2, **settings)


def test_memory_is_refused_beforehand_with_the_number():
    with pytest.raises(
        gs.InputError,
        match=r"needs [\d.e+]+ GiB of memory for nodes=67108864.*GiB are free",
    ):
        gs.predict(C1, nodes=2**26)
    with pytest.raises(gs.InputError, match=r"needs [\d.e+]+ GiB"):
        gs.simulate(C1, dim=10**6, method="direct")
    with pytest.raises(gs.InputError, match=r"needs [\d.e+]+ GiB"):
        gs.simulate(C1, dim=10**9)


CUBIC = gs.BatchReuse(
    target="h3(z)", activation="z**3/3", samples_per_dim=3.0, rate=0.3, steps=5
)


def test_a_trajectory_that_diverges_names_the_step_and_keeps_what_came_before():
    with pytest.warns(gs.GiantstepWarning, match="diverged at step"):
        r = gs.predict(CUBIC, rate=[0.3, 0.001], nodes=2**10)
    assert r.converged.values.tolist() == [False, True]
    step = int(str(r.status.values[0]).rsplit(" ", 1)[1])
    failed = r.isel(rate=0)
    assert (
        1 <= step <= 5
        and str(failed.status.values) == f"the trajectory diverged at step {step}"
    )
    for name in ("M", "Q", "population_loss"):
        assert bool(failed[name][:step].notnull().all()) and bool(
            failed[name][step:].isnull().all()
        )
    assert bool(r.M.isel(rate=1).notnull().all())
    with pytest.raises(gs.ConvergenceError, match="diverged at step"):
        gs.predict(CUBIC, nodes=2**10, strict=True)


def test_an_experiment_that_diverges_names_the_step():
    with pytest.warns(gs.GiantstepWarning, match=r"not a number from step \d on"):
        r = gs.simulate(CUBIC, dim=100, trials=2)
    assert (
        not bool(r.converged)
        and bool(r.M[0].notnull().all())
        and bool(r.M[-1].isnull().all())
    )


def test_heavy_tails_are_said():
    with pytest.warns(gs.GiantstepWarning, match="heavy tails"):
        gs.predict(C3, target="exp(z**2/4.2)", nodes=2**10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.GiantstepWarning)
        gs.predict(C2, nodes=2**10)


def test_an_even_activation_is_said():
    with pytest.warns(
        gs.GiantstepWarning,
        match="even and the overlaps start at zero: nothing can be learned",
    ):
        gs.predict(C3, activation="exp(-z**2)", nodes=2**10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.GiantstepWarning)
        gs.predict(
            C3.replace(activation="exp(-z**2)", initial_overlap=[[0.3]]), nodes=2**10
        )
