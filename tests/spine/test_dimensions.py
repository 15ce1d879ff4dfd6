"""A dimension that a family declares is read by tables, files, plots and the
description.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import GiantstepError
from giantstep.core.result.columns import table
from giantstep.core.result.text import Result
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.describe import describe
from giantstep.core.scenario.dimensions import Dimension, declare, dimension_named
from giantstep.core.scenario.families import _LOADED
from giantstep.core.scenario.family import Question, Variable
from giantstep.core.scenario.fields import Number, field
from giantstep.core.scenario.model import Scenario
from giantstep.tools.figures.layout import view_of
from giantstep.tools.figures.reading import Reading


@pytest.fixture(scope="module")
def ladder():
    class Ladder(Scenario):
        """A run along a dimension of its own, over rungs."""

        family = "ladder"
        title = "A ladder"
        update_rule = "height = level * rung"
        questions = {
            "climb": Question(
                "how high",
                (Variable("height", ("rung", "block"), "h", "height at each rung"),),
                plot=("height",),
                dimensions=(Dimension("rung", "trajectory", "rungs climbed", "r"),),
            )
        }
        level: Number = field("l", "height of a rung", default=1.0, ge=0)

        def limit(self, points, what, settings):
            height = (
                points["level"][:, None, None] * np.arange(3.0)[:, None] * np.ones(2)
            )
            status = np.where(points["level"] > 5, "it falls", "")
            return Answer(
                {"height": height},
                status,
                np.zeros(len(status)),
                np.zeros(len(status), int),
            )

        def trial(self, points, what, dim, draws, settings):
            height = np.arange(3.0)[:, None] * np.ones(2)
            height[2] = np.nan
            return {"height": height[None]}

    yield Ladder
    del _LOADED["ladder"]


def test_long_dimensions_of_a_family_make_rows(ladder, capsys):
    result = gs.predict(ladder(), level=[1.0, 2.0])
    assert list(table(result))[:4] == ["level", "rung", "height[1]", "height[2]"]
    assert len(table(result)["rung"]) == 6
    print(Result.of(result).listed())
    assert "rung" in capsys.readouterr().out


def test_a_plot_runs_along_it(ladder):
    reading = Reading(gs.predict(ladder()))
    view = view_of(reading, "height")
    assert (view.x, view.others) == ("rung", ("block",))
    assert reading.dimension("rung").label == "rungs climbed"


def test_what_came_before_a_failure_stands(ladder):
    with pytest.warns(gs.GiantstepWarning, match="it falls"):
        assert np.isfinite(gs.predict(ladder(level=6.0)).height).all()
    with pytest.warns(
        gs.GiantstepWarning, match="height is not a number from step 2 on"
    ):
        gs.simulate(ladder(), dim=5, trials=1)


def test_the_page_is_told(ladder):
    told = describe("ladder")["questions"]["climb"]["dimensions"]
    assert told["rung"] == {
        "role": "trajectory",
        "label": "rungs climbed",
        "symbol": "r",
    }
    assert told["block"]["role"] == "entries"


def test_a_name_has_one_role():
    with pytest.raises(GiantstepError, match="`time` has another role"):
        declare([Dimension("time", "entries")])
    assert dimension_named("time").role == "trajectory"
    assert dimension_named("anything").role == "values"
