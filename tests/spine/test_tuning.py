"""The best ridge of any scenario that has one."""

import numpy as np
import pytest

import giantstep as gs

LINEAR = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)


def test_best_ridge_of_a_gaussian_teacher_is_noise_over_signal():
    best = gs.best_ridge(LINEAR.replace(teacher_norm=2.0), "test_mse")
    assert best.ridge == pytest.approx(0.15, rel=1e-4)
    assert best.value == pytest.approx(
        float(gs.predict(LINEAR, teacher_norm=2.0, ridge=0.15).test_mse), rel=1e-10
    )


def test_no_ridge_nearby_is_better():
    s = gs.MixtureGLM.example()
    best = gs.best_ridge(s, "test_error")
    nearby = gs.predict(s, ridge=best.ridge * np.array([0.5, 0.9, 1.1, 2.0])).test_error
    assert np.all(nearby > best.value)


def test_training_loss_wants_the_smallest_ridge():
    assert gs.best_ridge(
        LINEAR, "train_loss", low=0.01, high=10.0
    ).ridge == pytest.approx(0.01)


def test_another_family_has_one_too():
    s = gs.OneStep.example().replace(noise=0.5)
    best = gs.best_ridge(s)
    assert best.value <= float(gs.predict(s).test_error)


@pytest.mark.parametrize(
    ("variable", "range_", "match"),
    [
        ("q", {}, "`variable` must be one of"),
        ("test_mse", {"low": 0}, "`low`"),
        ("test_mse", {"high": 1e-9}, "`high`"),
    ],
)
def test_bad_questions_are_refused(variable, range_, match):
    with pytest.raises(gs.InputError, match=match):
        gs.best_ridge(LINEAR, variable, **range_)


def test_a_family_without_a_ridge_is_refused():
    with pytest.raises(gs.InputError, match="no field `ridge`"):
        gs.best_ridge(gs.SubspaceClustering.example())


def test_what_is_no_scenario_or_no_number_is_refused():
    with pytest.raises(
        gs.InputError, match="first argument must be a scenario, not a str"
    ):
        gs.best_ridge("x")
    s = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    with pytest.raises(gs.InputError, match="`variable` must be one of test_error"):
        gs.best_ridge(s, "status")
