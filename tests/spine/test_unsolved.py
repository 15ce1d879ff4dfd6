"""A point of the limit that was not solved has no numbers: NaN, and the reason in
`status`.
"""

import warnings

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.families import SHIPPED, family_class

OF_THE_LAYER = {"learned"}
"""What is known without a fit."""


ASKED = [
    (family, what) for family in SHIPPED for what in family_class(family).questions
]
"""Every question of every family."""


@pytest.mark.parametrize(("family", "what"), ASKED)
def test_what_is_not_solved_is_nan(family, what):
    """No residual is below such a tolerance, so that every answer that has one
    fails.
    """
    scenario = family_class(family).example_for(what)
    question = scenario.questions[what]
    settings = {
        name: own.example
        for name, own in question.settings.items()
        if own.example is not None
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.GiantstepWarning)
        result = gs.predict(
            scenario, what=what, tolerance=1e-300, progress=False, **settings
        )
    if result.converged.all():
        return
    for variable in question.variables:
        if variable.name in result and result[variable.name].dtype.kind == "f":
            assert (
                variable.name in OF_THE_LAYER or np.isnan(result[variable.name]).all()
            ), variable.name


def test_only_the_time_that_was_not_solved_is_blank():
    """Composition c37 of the fourth numerical review: the hinge fit after the step was
    not solved, and had .352.
    """
    network = gs.Network(
        target="sign(z)",
        activation="tanh",
        flip=0.1,
        width_per_dim=1.0,
        samples_per_dim=1.5,
        readout=gs.Hinge(0.3),
        second_layer=gs.Vocabulary([1]),
        steps=[gs.MaximalStep(2.0, batch_per_dim=1.0)],
    )
    with pytest.warns(gs.GiantstepWarning, match="not solved"):
        limit = gs.predict(network)
    assert not limit.converged and "above the tolerance" in str(limit.status.values)
    assert float(limit.test_error[0]) == pytest.approx(0.371888, rel=1e-5)
    assert (
        np.isnan(limit.test_error[1])
        and np.isnan(limit.norm[1])
        and np.isnan(limit.V1[1]).all()
    )
    theory = gs.predict(network, dim=100)
    assert theory.converged and float(theory.test_error[1]) == pytest.approx(
        0.32976, rel=1e-4
    )
