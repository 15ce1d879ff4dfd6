"""Networks of dimension 1000 beside what beyond_the_error says of them, a setting for
each kind of question.

The bound is 1% of the size of a number and three standard errors of the trials. The 1%
is for terms of order 1/d that the theory does not have. A mean that is off by 3% shows
in every row, for its standard error is held below 1%.
"""

import numpy as np
import pytest

import giantstep as gs

from .beyond_settings import PARTS, REGRESSION, RIDGE_ON_CLASSES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::giantstep.core.base.errors.GiantstepWarning"),
]
DIM = 1000
UNSEEN = 0.01
SEEN = 0.01
"""Relative size of what the theory leaves out, and largest relative standard error."""
LONGER = REGRESSION["P6"].replace(shift=gs.Shift(scale=1.4))
GRADIENTS = ("gradient_norm2", "gradient_rest", "attacked_error")
SCORES = ("log_loss", "brier", "log_loss_recalibrated")
SETTINGS = {
    "variance P2": (REGRESSION["P2"], "variance", PARTS, 12),
    "variance T2": (REGRESSION["T2"], "variance", PARTS, 12),
    "shift P6": (LONGER, "shift", ("test_error", "disagreement"), 24),
    "sensitivity P3": (REGRESSION["P3"], "sensitivity", GRADIENTS, 24),
    "calibration R1": (RIDGE_ON_CLASSES, "calibration", SCORES, 12),
    "calibration P1": (
        REGRESSION["P1"],
        "calibration",
        ("coverage", "honest_width"),
        16,
    ),
}
"""Network, question, variables, trials; parts of the variance are held against the
whole error.
"""


@pytest.mark.parametrize("name", SETTINGS)
def test_networks_of_dimension_1000_agree(name):
    """Catches what d = 400 cannot: a term of order one that is small beside the
    corrections there.
    """
    network, what, variables, trials = SETTINGS[name]
    theory = gs.predict(network, what=what, dim=DIM, progress=False).isel(time=-1)
    real = gs.simulate(
        network, what=what, dim=DIM, trials=trials, seed=37, progress=False
    ).isel(time=-1)
    for variable in variables:
        size = theory.test_error if what == "variance" else np.abs(theory[variable])
        error = real[f"{variable}_stderr"]
        assert np.all(error < SEEN * size), variable
        assert np.all(
            np.abs(real[variable] - theory[variable]) < UNSEEN * size + 3 * error
        ), variable


def test_unlike_networks_of_dimension_1000_agree():
    """Half the samples and 3 lambda: the terms of order 1/d of `disagreement` are those
    of two fits that differ.
    """
    network = REGRESSION["P6"]
    other = network.replace({"samples_per_dim": 0.4, "readout.ridge": 0.15})
    found = gs.disagreement(network, other, "samples", dim=DIM, trials=16, seed=37)
    theory = found.sel(source="theory")
    real = found.sel(source="experiment")
    for variable in ("disagreement", "average_error", "test_error"):
        size = theory[variable]
        error = real[f"{variable}_stderr"]
        assert np.all(error < 0.02 * size), variable
        assert np.all(np.abs(real[variable] - size) < UNSEEN * size + 3 * error), (
            variable
        )
