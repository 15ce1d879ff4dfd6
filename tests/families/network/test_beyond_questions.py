"""What holds for all questions of beyond_the_error: identities of section 7, and what
section 12 refuses.
"""

import re

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import InputError

from .beyond_settings import CLASSES, P1, P5, REGRESSION, RIDGE_ON_CLASSES, planted
from .test_calibration import fitted_point

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)
QUESTIONS = ("variance", "calibration", "shift", "sensitivity")
LONGER = gs.Shift(scale=1.3)


def same_answers(first, second, what, rtol=1e-7, **settings):
    """Hold all numbers of two networks against each other; some are there."""
    if what == "shift":
        first = first.replace(shift=LONGER)
        second = second.replace(shift=LONGER)
    one, other = (
        gs.predict(net, what=what, progress=False, **settings).isel(time=-1)
        for net in (first, second)
    )
    compared = 0
    for name in one.data_vars:
        if one[name].dtype.kind == "f" and name not in (
            "residual",
            "test_misclassified",
        ):
            np.testing.assert_allclose(
                one[name], other[name], rtol=rtol, atol=1e-9, err_msg=str(name)
            )
            compared += int(np.isfinite(one[name]).sum())
    assert compared >= 2


@pytest.mark.parametrize("what", QUESTIONS)
@pytest.mark.parametrize("readout", [gs.Ridge(0.05), gs.Logistic(0.05)])
def test_a_duplicated_block_changes_nothing(what, readout):
    """Catches sums over blocks that depend on how they are cut."""
    regression = readout.kind == "ridge"
    if regression:
        target = "tanh(0.8*z1 + 0.6*z2)"
        more = {"noise": 0.05}
    else:
        target = "sign(0.8*z1 + 0.6*z2)"
        more = {}
    whole = planted(
        "relu", target, [0.7, 0.3], [[1, 0], [-1, 0]], [1, 1], 1.5, 1.2, readout, **more
    )
    parted = whole.replace(
        second_layer=gs.Vocabulary([1.0, 1.5, 2.0], [0.3, 0.4, 0.3]),
        steps=[gs.PlantedShifts([[1, 0], [1, 0], [-1, 0]], [1, 1, 1])],
    )
    same_answers(whole, parted, what)


@pytest.mark.parametrize("what", QUESTIONS)
def test_an_idle_direction_changes_nothing(what):
    """Catches a direction of which neither label nor features know that counts all the
    same.
    """
    idle = P1.replace(
        target=gs.Target("sin(z1)", directions=2),
        steps=[gs.PlantedShifts([[1.1, 0.0]], [1.05])],
    )
    same_answers(P1, idle, what)


@pytest.mark.parametrize("directions", [2, 3])
def test_idle_directions_are_not_counted_at_a_finite_dimension(directions):
    """(2.14): the bulk counts them already; F of (2.13) would grow by a fifth with each
    of them.
    """
    idle = P5.replace(target=gs.Target("tanh(z1)", directions=directions))
    same_answers(P5.replace(target="tanh(z1)"), idle, "variance", rtol=1e-9, dim=300)


@pytest.mark.parametrize("name", [*REGRESSION, *CLASSES, "R1"])
def test_the_variance_of_an_output_is_below_its_gradient(name):
    """Poincare: Var f <= E|grad f|^2; a linear activation has both equal
    (test_sensitivity).
    """
    network = {**REGRESSION, **CLASSES, "R1": RIDGE_ON_CLASSES}[name]
    point = fitted_point(network)
    inputs, output = point.plain(point.own_law)
    mean = inputs.weights @ output.mean
    variance = inputs.weights @ ((output.mean - mean) ** 2 + output.variance)
    gradient = gs.predict(
        network, what="sensitivity", eps=[0.0], progress=False
    ).gradient_norm2[-1]
    assert 0.02 * gradient < variance < gradient


@pytest.mark.parametrize("network", [P5, *CLASSES.values(), RIDGE_ON_CLASSES])
def test_who_shares_something_disagrees_less(network):
    """I <= iii and ii <= iii, at the inputs of the fit and at longer ones."""
    for what, net in (("variance", network), ("shift", network.replace(shift=LONGER))):
        apart = gs.predict(net, what=what, progress=False).disagreement
        assert np.all(
            apart.sel(shared=["layer", "samples"]) <= apart.sel(shared="nothing")
        )


@pytest.mark.parametrize("what", QUESTIONS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"steps": [gs.MaximalStep(1.0, batch_per_dim=2.0)]},
            "after a step on a finite batch, which two networks may",
        ),
        ({"steps": [gs.SmallStep(1.0)]}, "after small or growing steps"),
        ({"steps": [gs.SignStep(1.0)]}, "after a sign step"),
        (
            {
                "steps": [],
                "inputs": gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5]),
            },
            "for inputs with a covariance",
        ),
    ],
)
def test_what_the_limit_refuses(what, change, message):
    """One sentence says what is missing, and that an experiment answers."""
    with pytest.raises(
        InputError, match=f'a theory of what="{what}" {message}.*`gs.simulate` trains'
    ) as refused:
        gs.predict(P1.replace(**change), what=what, progress=False)
    assert "\n" not in str(refused.value)


def test_classes_have_no_parts_of_the_variance():
    """Own noise with binary labels is not derived: the parts are absent, and say
    why.
    """
    result = gs.predict(CLASSES["L2"], what="variance", members=[1], progress=False)
    declared = {
        variable.name: variable
        for variable in gs.Network.questions["variance"].variables
    }
    for name in (
        "bias",
        "from_layer",
        "from_samples",
        "from_noise",
        "from_layer_samples",
        "from_layer_noise",
    ):
        assert name not in result
        assert "label noises of their own" in declared[name].absent


@pytest.mark.parametrize("what", QUESTIONS)
@pytest.mark.parametrize("target", ["z1", "z1 + z2"])
def test_a_perfect_fit_is_flagged_with_its_reason(what, target):
    """Catches a rule for the sign of an output without any variance, and a width of
    nothing: both once crashed.

    Which digits are lost first, those of the fixed point or those of the errors,
    depends on the processor.
    """
    layer = gs.Vocabulary([1, -1])
    sizes = {"width_per_dim": 1.5, "samples_per_dim": 3.0, "readout": gs.Ridge(1e-9)}
    network = gs.Network(
        target=target,
        activation="z",
        second_layer=layer,
        steps=[gs.MaximalStep(1.0)],
        **sizes,
    )
    result = gs.predict(network, what=what, progress=False)
    assert not bool(result.converged)
    assert re.search("digits lost|above the tolerance", str(result.status.values))
