"""Figures of the variance and of calibration: what they stack, and when they give way
to plain panels.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.figures.beyond import PARTS, draw_reliability, draw_variance

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)
NET = gs.Network(
    target="sin(z)",
    noise=0.1,
    width_per_dim=1.5,
    samples_per_dim=2.0,
    readout=gs.Ridge(0.1),
    steps=[gs.MaximalStep(1.0)],
)
SURE = gs.Network(
    target="sign(z)",
    flip=0.1,
    width_per_dim=1.0,
    samples_per_dim=2.0,
    readout=gs.Logistic(0.1),
)


def asked(network, what, **more):
    return gs.predict(network, what=what, progress=False, **more)


def test_the_parts_are_stacked_up_to_the_error():
    """Catches a part that is left out: the upper edge of the areas is the line of the
    error.
    """
    result = asked(
        NET, "variance", samples_per_dim=[1.0, 2.0, 4.0], members=[1, 2, gs.inf]
    )
    figure = gs.plot(result)
    assert len(figure.axes) == 2
    for time, axes in enumerate(figure.axes):
        areas = axes.collections
        assert len(areas) == 1 + len(PARTS)
        top = max(path.vertices[:, 1].max() for path in areas[-1].get_paths())
        assert top == pytest.approx(
            float(result.test_error.isel(time=time).max()), rel=1e-12
        )
        assert len(axes.lines) == 3  # the error, averages of two and of infinitely many


def test_a_comparison_has_its_networks_beside_the_areas():
    both = gs.compare(
        NET,
        what="variance",
        samples_per_dim=[1.0, 2.0],
        dim=30,
        trials=2,
        members=[2],
        progress=False,
    )
    figure = gs.plot(both)
    for axes in figure.axes:
        (bars,) = axes.containers
        assert len(bars.lines[0].get_xdata()) == 2
        # the limit is asked again between them
        assert len(axes.lines[0].get_xdata()) > 2


def test_the_reliability_is_drawn_against_what_is_said():
    result = asked(SURE, "calibration", readout__ridge=[0.1, 1.0])
    (axes,) = gs.plot(result).axes
    said, share = axes.lines[0].get_data()
    np.testing.assert_allclose(said, 1 / (1 + np.exp(-result.logit.values)), rtol=1e-12)
    np.testing.assert_allclose(share, result.reliability[0, 0], rtol=1e-12)
    warm, _ = axes.lines[1].get_data()
    np.testing.assert_allclose(
        warm,
        1 / (1 + np.exp(-result.logit / float(result.temperature[0, 0]))),
        rtol=1e-12,
    )


def test_other_shapes_are_drawn_by_their_variables():
    """No field, two fields, classes, regression: what a figure of its own cannot
    show.
    """
    alone = asked(NET, "variance")
    assert draw_variance(alone, True) is None
    assert (
        draw_variance(
            asked(NET, "variance", samples_per_dim=[1.0, 2.0], noise=[0.1, 0.2]), True
        )
        is None
    )
    assert (
        draw_variance(
            asked(SURE, "variance", readout__ridge=[0.5, 1.0], members=[1]), True
        )
        is None
    )
    assert (
        draw_reliability(asked(NET, "calibration", samples_per_dim=[1.0, 2.0])) is None
    )
    assert len(gs.plot(alone).axes) == 3
    some = asked(NET, "variance", samples_per_dim=[1.0, 2.0])
    assert draw_variance(some[["bias"]], True) is None
    assert draw_variance(some.isel(shared=0), True) is None
    assert draw_variance(some.isel(time=0, members=1), True) is not None
