"""help(gs.OneStep): the fields with meaning, bounds and default."""

import inspect
import pydoc
import re

import pytest

import giantstep as gs
from giantstep.core.scenario.describe import describe, describe_text
from giantstep.core.scenario.families import SHIPPED, family_class


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_help_shows_every_field(family):
    model = family_class(family)
    text = " ".join(
        pydoc.render_doc(model, renderer=pydoc.plaintext).replace("|", " ").split()
    )
    for name, info in model.model_fields.items():
        assert name in text
        assert " ".join(info.description.replace("|", " ").split()) in text


def test_help_says_bounds_defaults_and_what_is_required():
    text = inspect.getdoc(gs.OneStep)
    assert "a number above 0; required" in text
    assert "a number at least 0 and below 0.5; default 0.0" in text
    assert text.index("Fields, each") < text.index(">>> import giantstep")
    rest = "loss='square', precondition=0.0, weight_decay=0.0, momentum=0.0"
    assert (
        str(inspect.signature(gs.MaximalStep)) == f"(rate, batch_per_dim=inf, {rest})"
    )
    assert str(inspect.signature(gs.SubspaceClustering)).startswith("(*, ")


@pytest.mark.parametrize(
    "model", [gs.MaximalStep, gs.OneStep, gs.Vocabulary, gs.InputRows, gs.MixtureGLM]
)
def test_help_has_no_names_of_pydantic(model):
    text = pydoc.render_doc(model, renderer=pydoc.plaintext)
    listed = re.findall(
        r"^ \|  (\w+)", text.partition("Method resolution order")[2], flags=re.M
    )
    assert listed and not [name for name in listed if name.startswith("__")]
    assert "__pydantic" not in text and "model_fields" not in text
    own = {
        name
        for name, value in vars(model).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert own <= set(listed)  # its own methods are all there


def test_a_scenario_lists_its_fields_and_methods():
    names = dir(gs.OneStep.example())
    assert {"ridge", "step", "replace", "questions"} <= set(names)
    assert not [
        name
        for name in names
        if name.startswith("model_") or name in ("copy", "json", "dict", "schema")
    ]


@pytest.mark.parametrize(
    ("model", "field", "words"),
    [
        (
            gs.OneStep,
            "activation",
            "a name, an expression in z, or in Python a callable (gs.Function)",
        ),
        (
            gs.OneStep,
            "target",
            "a name, an expression in z, or in Python a callable (gs.Function)",
        ),
        (
            gs.Network,
            "target",
            "a name, an expression in z1..zk, or in Python a callable (gs.Target)",
        ),
        (
            gs.OnlineSGD,
            "target",
            "a name, an expression in z1..zk, or in Python a callable (gs.Target)",
        ),
    ],
)
def test_help_and_descriptions_say_that_a_function_may_be_a_callable(
    model, field, words
):
    text = " ".join(
        pydoc.render_doc(model, renderer=pydoc.plaintext).replace("|", " ").split()
    )
    assert words in text and words in " ".join(describe_text(model.family).split())
    (about,) = [
        known for known in describe(model.family)["fields"] if known["name"] == field
    ]
    assert words in about["allowed"]
    # and it may
    assert (
        getattr(model.example().replace({field: CALLED[words]}), field).expression
        is None
    )


CALLED = {
    "a name, an expression in z, or in Python a callable (gs.Function)": gs.Function(
        lambda z: z * abs(z)
    ),
    "a name, an expression in z1..zk, or in Python a callable (gs.Target)": gs.Target(
        lambda z: z[..., 0] ** 3
    ),
}


def test_another_kind_of_a_part_keeps_what_both_have():
    s = gs.OneStep.example().replace(step=gs.MaximalStep(3.0, 5.0))
    small = s.replace(step__kind="small", step__update="rank-one")
    assert small.step == gs.SmallStep(3.0, 5.0, "rank-one")
    assert s.replace(step__kind="none").step == gs.NoStep()
    with pytest.raises(gs.InputError, match="did you mean `small`"):
        s.replace(step__kind="smal")
