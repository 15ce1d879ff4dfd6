"""Limits at an infinite dimension are what they were when two families answered: every
question, 224 scenarios.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.model import from_content

from .characterised import CHANGED, cases, differences, stored

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)
CLOSE = 1e-9
QUICK = list(cases())[::4]
SLOW = [
    pytest.param(name, marks=pytest.mark.slow) for name in cases() if name not in QUICK
]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_the_numbers_are_what_they_were(name):
    case = cases()[name]
    found = gs.predict(
        from_content(dict(case.content)), what=case.what, **case.settings
    )
    _, allowed = CHANGED.get(name, ("", {}))
    gaps = differences(case, found)
    assert {
        variable: gap
        for variable, gap in gaps.items()
        if gap > allowed.get(variable, CLOSE)
    } == {}


def test_the_scenarios_cover_what_there_is():
    """All are stored, and every kind of step, loss, inputs and question is among
    them.
    """
    assert stored().keys() == cases().keys() and len(cases()) > 200
    assert CHANGED.keys() <= cases().keys()
    content = [case.content for case in cases().values()]
    younger = {"variance", "sensitivity", "calibration"}  # than the stored numbers
    assert {case.what for case in cases().values()} == set(
        gs.OneStep.questions
    ) - younger
    assert {scenario["step"]["kind"] for scenario in content if "step" in scenario} == {
        "none",
        "planted",
        "maximal",
        "small",
        "growing",
    }
    assert {scenario.get("loss") for scenario in content} >= {"logistic", "hinge"}
    assert {(scenario.get("inputs") or {}).get("kind") for scenario in content} >= {
        "blocks",
        "power-law",
    }


def test_a_small_change_would_be_seen():
    """A part in 1e8 of a test error, a NaN, another status."""
    case = cases()["one-step 4, errors"]
    found = gs.predict(from_content(dict(case.content)))
    assert max(differences(case, found).values()) < CLOSE
    for wrong in (found.test_error * (1 + 1e-8), found.test_error * np.nan):
        assert differences(case, found.assign(test_error=wrong))["test_error"] > CLOSE
    assert differences(
        case, found.assign(status=found.status.astype(object) + "no")
    ).get("status")
