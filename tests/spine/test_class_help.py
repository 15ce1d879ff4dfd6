"""help(gs.OneStep): the fields with meaning, bounds and default, and nothing of pydantic."""

import copy
import functools
import inspect
import pickle
import pydoc

import pytest
from pydantic import BaseModel

import giantstep as gs
from giantstep.families import SHIPPED, family_class


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_help_shows_every_field_and_no_internals(family):
    model = family_class(family)
    text = " ".join(pydoc.render_doc(model, renderer=pydoc.plaintext).replace("|", " ").split())
    for name, info in model.model_fields.items():
        assert name in text
        assert " ".join(info.description.replace("|", " ").split()) in text
    for internal in (
        "pydantic",
        "BaseModel",
        "model_dump",
        "model_validate",
        "__pydantic",
        "BeforeValidator",
        "parse_obj",
        "PlainSerializer",
    ):
        assert internal not in text


def test_bases_that_are_not_listed_still_count():
    s, base = gs.OneStep.example(), BaseModel
    assert base not in gs.OneStep.__mro__ and gs.Scenario in gs.OneStep.__mro__ and gs.OneStep.__mro__[-1] is object
    assert base in gs.OneStep.mro() and isinstance(s, base) and issubclass(gs.MaximalStep, base)
    name = functools.singledispatch(lambda value: "other")
    name.register(base)(lambda value: "model")
    assert name(s) == "model" and name(3) == "other"
    assert pickle.loads(pickle.dumps(s)) == copy.deepcopy(s) == s

    class Larger(gs.Vocabulary):
        more: float = 2.0

    assert Larger([1.0, -1.0]).more == 2.0 and Larger.__mro__[:2] == (Larger, gs.Vocabulary)


def test_help_says_bounds_defaults_and_what_is_required():
    text = inspect.getdoc(gs.OneStep)
    assert "a number above 0; required" in text
    assert "a number at least 0 and below 0.5; default 0.0" in text
    assert text.index("Fields, each") < text.index(">>> import giantstep")
    rest = "loss='square', precondition=0.0, weight_decay=0.0, momentum=0.0"
    assert str(inspect.signature(gs.MaximalStep)) == f"(rate, batch_per_dim=inf, {rest})"
    assert str(inspect.signature(gs.SubspaceClustering)).startswith("(*, ")


def test_a_scenario_lists_its_fields_and_methods():
    names = dir(gs.OneStep.example())
    assert {"ridge", "step", "replace", "questions"} <= set(names)
    assert not [name for name in names if name.startswith("model_") or name in ("copy", "json", "dict", "schema")]


def test_another_kind_of_a_part_keeps_what_both_have():
    s = gs.OneStep.example().replace(step=gs.MaximalStep(3.0, 5.0))
    small = s.replace(step__kind="small", step__update="rank-one")
    assert small.step == gs.SmallStep(3.0, 5.0, "rank-one")
    assert s.replace(step__kind="none").step == gs.NoStep()
    with pytest.raises(gs.InputError, match="did you mean `small`"):
        s.replace(step__kind="smal")
