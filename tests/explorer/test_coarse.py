"""A coarse answer is cheap to ask for and close to the fine one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.faces.page.tasks import limit

LOOSENED = [
    (family, what)
    for family in sorted(SHIPPED)
    for what, question in family_class(family).questions.items()
    if question.coarse_tolerance is not None
]


def answer(family: str, what: str, *, coarse: bool, **limits: Any) -> dict[str, Any]:
    tables = {
        "scenario": family_class(family).example_for(what).content(),
        "what": what,
        "limit": limits,
    }
    told: list[str] = []
    limit(lambda kind, text: told.append(text), tables, None, coarse=coarse)
    return dict(json.loads(told[0]))


@pytest.mark.parametrize(("family", "what"), LOOSENED)
def test_a_loose_answer_is_close_to_the_exact_one(family: str, what: str) -> None:
    loose = answer(family, what, coarse=True)
    exact = answer(family, what, coarse=False)
    assert loose["simplified"] and not exact["simplified"]
    assert loose["result"]["converged"] == exact["result"]["converged"]
    differs = False
    for name in family_class(family).questions[what].plot:
        drawn, right = (
            np.array(told["result"][name], dtype=float) for told in (loose, exact)
        )
        np.testing.assert_allclose(drawn, right, rtol=2e-3, atol=1e-3, err_msg=name)
        differs |= bool((drawn != right).any())
    assert differs or what == "overlaps"  # there only the search for jumps is coarser


def test_a_tolerance_that_is_asked_for_is_kept() -> None:
    family, what = LOOSENED[0]
    told = answer(family, what, coarse=True, tolerance=1e-9)
    assert told["simplified"] is False
