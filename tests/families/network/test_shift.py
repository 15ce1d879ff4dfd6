"""Test inputs of another law: the reference values and identities of beyond_the_error
section 4, and networks.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import InputError

from .beyond_settings import CLASSES, P1, REGRESSION, RIDGE_ON_CLASSES, TABLE_C, shifts

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)


def asked(network, **more):
    return gs.predict(network, what="shift", progress=False, **more).isel(time=-1)


@pytest.mark.parametrize("name", TABLE_C)
def test_errors_under_shift_are_those_printed(name):
    """Catches a function of the test law that is taken at the law of the fit: every
    shift moves another one.
    """
    network = REGRESSION[name]
    wanted = TABLE_C[name][2:]
    results = [
        asked(network.replace(shift=shift))
        for shift in shifts(network.target.directions).values()
    ]
    np.testing.assert_allclose(
        [float(result.test_error) for result in results], wanted[:5], atol=6e-7, rtol=0
    )
    assert float(results[0].disagreement.sel(shared="samples")) == pytest.approx(
        wanted[5], abs=6e-7
    )


@pytest.mark.parametrize("network", [REGRESSION["T2"], REGRESSION["P6"], CLASSES["L1"]])
@pytest.mark.parametrize("dim", [None, 300])
def test_the_law_of_the_fit_is_no_shift(network, dim):
    """tau = 1, z' = z: the error and the disagreement are those of the other
    questions.
    """
    none = gs.predict(network, what="shift", dim=dim, progress=False)
    errors = gs.predict(network, dim=dim, progress=False).test_error
    np.testing.assert_allclose(none.test_error, errors, rtol=1e-6)
    apart = gs.predict(
        network, what="variance", dim=dim, members=[1], progress=False
    ).disagreement
    np.testing.assert_allclose(none.disagreement, apart, rtol=1e-6)
    same = gs.predict(
        network.replace(shift=gs.Shift()), what="shift", dim=dim, progress=False
    )
    np.testing.assert_allclose(same.test_error, none.test_error, rtol=1e-9)


def test_classes_under_a_shift_of_the_mean_are_those_printed():
    found = [
        float(asked(CLASSES[n].replace(shift=gs.Shift(mean=[0.8, -0.5]))).test_error)
        for n in ("L1", "L2")
    ]
    np.testing.assert_allclose(found, [0.182416, 0.311084], atol=2e-6)


def test_hinge_fits_have_errors_but_no_disagreement():
    """Section 4 needs the law of the output alone; (4.5) needs the overlap of two fits,
    which is not derived.
    """
    hinge = CLASSES["L2"].replace(readout=gs.Hinge(0.1))
    plain = asked(hinge)
    assert float(plain.test_error) == pytest.approx(
        float(gs.predict(hinge, progress=False).test_error[-1]), rel=1e-6
    )
    assert np.isnan(plain.disagreement).all() and not str(plain.status.values)
    moved = hinge.replace(shift=gs.Shift(mean=[0.8, -0.5], bulk=1.5))
    theory = asked(moved, dim=200)
    networks = gs.simulate(
        moved, what="shift", dim=200, trials=10, seed=3, progress=False
    ).isel(time=-1)
    error = float(networks.test_error_stderr)
    assert (
        abs(float(networks.test_error - theory.test_error))
        < 0.01 * float(theory.test_error) + 3 * error
    )
    assert error < 0.02 * float(theory.test_error)
    assert abs(float(theory.test_error / plain.test_error) - 1) > 0.05


def test_ridge_on_classes_has_the_wrong_signs_printed():
    """R1 of section 8, at the inputs of the fit and at those of another mean."""
    found = [
        asked(RIDGE_ON_CLASSES),
        asked(RIDGE_ON_CLASSES.replace(shift=gs.Shift(mean=[0.8, -0.5]))),
    ]
    np.testing.assert_allclose(
        [float(r.test_misclassified) for r in found], [0.17466320, 0.175265], atol=6e-7
    )


def test_fields_of_a_shift_make_grids():
    result = asked(
        P1.replace(shift=gs.Shift(noise=0.3)),
        shift__scale=[1.0, 1.4],
        shift__noise=[0.1, 0.3],
    )
    assert dict(result.test_error.sizes) == {"shift.scale": 2, "shift.noise": 2}
    np.testing.assert_allclose(result.test_error[:, 0], [0.163493, 0.278327], atol=6e-7)
    np.testing.assert_allclose(
        result.test_error[:, 1] - result.test_error[:, 0], 0.2, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        ({"scale": 0.0}, "Field `scale` must be a number above 0"),
        ({"bulk": -1.0}, "Field `bulk` must be a number above 0"),
        ({"mean": [1.0, 2.0]}, "Field `shift.mean` must be a number or a list of 1"),
        (
            {"covariance": [[1.0, 0.5]]},
            "Field `shift.covariance` must be a symmetric 1 x 1 matrix",
        ),
        ({"covariance": [[-1.0]]}, "without negative eigenvalues"),
    ],
)
def test_what_is_refused(shift, message):
    with pytest.raises(InputError, match=message):
        P1.replace(shift=gs.Shift(**shift))


def test_a_singular_covariance_needs_a_smooth_target():
    singular = gs.Shift(covariance=[[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(InputError, match="invertible where the target has kinks"):
        CLASSES["L1"].replace(shift=singular)
    assert np.isfinite(
        float(asked(REGRESSION["P4"].replace(shift=singular)).test_error)
    )


def test_networks_at_d_400():
    """Catches a shift that acts on the wrong directions of real inputs."""
    network = REGRESSION["P5"].replace(
        shift=gs.Shift(scale=1.3, mean=[0.5, 0.0], angle=0.4)
    )
    theory = asked(network, dim=400)
    networks = gs.simulate(
        network, what="shift", dim=400, trials=6, seed=2, progress=False
    ).isel(time=-1)
    for name, visible in (("test_error", 0.02), ("disagreement", 0.04)):
        gap = networks[name] - theory[name]
        error = networks[f"{name}_stderr"]
        assert np.all(np.abs(gap) < 0.02 * theory[name] + 3 * error), name
        assert np.all(error < visible * theory[name]), name


@pytest.mark.parametrize("what", ["errors", "along", "variance"])
def test_a_question_that_does_not_know_a_shift_refuses_it(what):
    """Catches a shift that is ignored: both engines would answer at the inputs of the
    fit.
    """
    network = P1.replace(shift=gs.Shift(scale=1.4))
    for asked_of in (
        gs.predict,
        lambda *a, **k: gs.simulate(*a, dim=20, trials=1, **k),
    ):
        with pytest.raises(
            InputError, match=f'Field `shift` must be left out where what="{what}"'
        ):
            asked_of(network, what=what, progress=False)
    with pytest.raises(
        InputError, match="Field `shift` must be .*left out where two networks differ"
    ):
        gs.disagreement(network, network)


@pytest.mark.parametrize("name", ["L1", "L2", "R1"])
@pytest.mark.parametrize("what", ["calibration", "sensitivity"])
def test_no_shift_is_no_shift_of_other_questions(name, what):
    """tau = 1, z' = z in calibration and sensitivity, at a finite dimension."""
    network = RIDGE_ON_CLASSES if name == "R1" else CLASSES[name]
    plain, same = (
        gs.predict(one, what=what, dim=300, progress=False)
        for one in (network, network.replace(shift=gs.Shift()))
    )
    for variable in plain.data_vars:
        if plain[variable].dtype.kind == "f":
            np.testing.assert_allclose(
                same[variable], plain[variable], rtol=1e-9, atol=1e-12
            )


def test_an_unperturbed_error_under_shift_is_that_of_the_shift():
    """eps = 0 in what="sensitivity": (5.6) begins at (4.4)."""
    network = REGRESSION["T2"].replace(shift=gs.Shift(scale=1.4, angle=0.3, noise=0.2))
    perturbed = gs.predict(
        network, what="sensitivity", dim=300, eps=[0.0], progress=False
    ).attacked_error
    np.testing.assert_allclose(
        perturbed.isel(eps=0),
        gs.predict(network, what="shift", dim=300).test_error,
        rtol=1e-12,
    )


@pytest.mark.parametrize("what", ["calibration", "sensitivity"])
def test_networks_under_shift_agree(what):
    """Catches an experiment that leaves its test inputs where they were: the shift
    moves every number by over 10%.
    """
    network = P1.replace(shift=gs.Shift(scale=1.4, mean=0.5, noise=0.2))
    theory = gs.predict(network, what=what, dim=300, progress=False).isel(time=-1)
    real = gs.simulate(
        network, what=what, dim=300, trials=8, seed=5, test_samples=4000, progress=False
    ).isel(time=-1)
    still = gs.predict(
        network.replace(shift=None), what=what, dim=300, progress=False
    ).isel(time=-1)
    if what == "calibration":
        names = ("coverage", "honest_width")
    else:
        names = ("gradient_rest", "attacked_error")
    for name in names:
        gap = np.abs(real[name] - theory[name])
        error = real[f"{name}_stderr"]
        assert np.all(gap < 0.02 * theory[name] + 3 * error), name
        assert np.all(error < 0.02 * theory[name]), name
        assert np.all(np.abs(theory[name] - still[name]) > 0.1 * theory[name]), name
