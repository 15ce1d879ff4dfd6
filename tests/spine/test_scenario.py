import json
import math
import pickle

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.model import from_content

from .toy import Noise, Toy


def sentence(function, *args, **fields):
    with pytest.raises(gs.InputError) as caught:
        function(*args, **fields)
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"level": -0.1},
            "Field `level` must be a number at least 0, but is level=-0.1.",
        ),
        ({"level": "one"}, "Field `level` must be a number, but is level='one'."),
        ({"level": True}, "Field `level` must be a number, but is level=True."),
        (
            {"level": math.nan},
            "Field `level` must be a number, not NaN, but is level=nan.",
        ),
        (
            {"level": math.inf},
            "Field `level` must be a number at least 0, finite, but is level=inf.",
        ),
        (
            {"level": [1, 2]},
            (
                "Field `level` must be a number (several go to the verb,"
                " gs.predict(scenario, level=[...]), or into [grid] of a file), but is"
                " level=[1, 2]."
            ),
        ),
        (
            {"far": 0},
            "Field `far` must be a number above 0 (inf is allowed), but is far=0.0.",
        ),
        (
            {"count": 10},
            (
                "Field `count` must be a whole number at least 1 and at most 9, but is"
                " count=10."
            ),
        ),
        ({"count": 2.5}, "Field `count` must be a whole number, but is count=2.5."),
        (
            {"shares": 1.0},
            "Field `shares` must be a list of numbers, but is shares=1.0.",
        ),
        (
            {"noise": {"size": -1}},
            "Field `noise.size` must be a number at least 0, but is noise.size=-1.0.",
        ),
        (
            {"noise": {"sise": 1}},
            (
                "There is no field `noise.sise` in Noise (did you mean `size`?); it has"
                " size."
            ),
        ),
        (
            {"levle": 1},
            (
                "There is no field `levle` in Toy (did you mean `level`?); it has"
                " level, offset, count, far, shares, shape, noise."
            ),
        ),
    ],
)
def test_the_door_says_field_value_and_what_is_allowed(fields, expected):
    assert sentence(Toy, **fields) == expected


def test_bounds_hold_at_both_ends():
    assert Toy(level=0, count=9, far=math.inf).far == math.inf
    assert Toy(count=1).count == 1


def test_input_errors_are_value_errors():
    with pytest.raises(ValueError):
        Toy(level=-1)
    with pytest.raises(gs.GiantstepError):
        Toy(level=-1)


def test_scenarios_are_frozen():
    with pytest.raises(Exception, match="frozen"):
        Toy().level = 2.0


def test_replace_is_checked_and_reaches_inside():
    toy = Toy().replace(level=3, noise__size=0.5)
    assert (toy.level, toy.noise.size) == (3.0, 0.5)
    assert Toy().replace({"noise.size": 2}).noise == Noise(2.0)
    assert Toy().replace(noise=Noise(3), noise__size=4).noise.size == 4
    assert (
        sentence(Toy().replace, noise__size=-1)
        == "Field `noise.size` must be a number at least 0, but is noise.size=-1.0."
    )
    assert "did you mean `size`" in sentence(Toy().replace, noise__sizes=1)
    assert "There is no field" in sentence(Toy().replace, level__size=1)


def test_a_part_replaced_by_another_kind_can_be_set_inside():
    one_step = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    changed = one_step.replace(step=gs.MaximalStep(1.0), step__rate=2.0)
    assert changed.step.rate == 2.0


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"step": {"kind": "maximal", "rate": "x"}},
            "Field `step.rate` must be a number, but is step.rate='x'.",
        ),
        ({"step": {"kind": "maximal", "rat": 1}}, "did you mean `rate`"),
        (
            {"step": {"kind": "large"}},
            "Field `step.kind` must be one of 'none', 'planted', ",
        ),
        (
            {"step": {"kind": "maximal"}},
            (
                "Field `step.rate` is missing: step size divided by the width: eta_raw"
                " = rate * p."
            ),
        ),
        ({"second_layer": {"values": [1, "a"]}}, "second_layer.values"),
        (
            {"second_layer": {"values": [1, -1], "probabilities": [0.5, 0.6]}},
            "numbers that sum to one",
        ),
        ({"second_layer": [1, -1]}, "a plain list would be a finite network"),
        ({"activation": "rleu(z)"}, "Field `activation`"),
        (
            {"step": {"kind": "planted", "alignment": 1.5}},
            (
                "Field `step.alignment` must be a number at least -1 and at most 1, but"
                " is step.alignment=1.5."
            ),
        ),
    ],
)
def test_nested_mistakes_are_named_by_their_dotted_field(fields, expected):
    message = sentence(
        gs.OneStep,
        **{"width_per_dim": 1.5, "samples_per_dim": 2.0, "ridge": 0.1, **fields},
    )
    assert expected in message
    assert message.endswith(".") and "\n" not in message and "pydantic" not in message


def test_missing_fields_are_explained():
    assert (
        sentence(gs.OneStep)
        == "Field `width_per_dim` is missing: hidden neurons per dimension."
    )


def test_content_round_trips_through_json():
    toy = Toy(far=math.inf, noise=Noise(0.25), shares=[1, 2], shape="tanh(2*z)")
    content = json.loads(json.dumps(toy.content(), allow_nan=False))
    assert content["family"] == "toy" and content["far"] == "inf"
    assert from_content(content) == toy


def test_unknown_families_get_the_nearest_name():
    assert "(did you mean `toy`?)" in sentence(from_content, {"family": "toyy"})
    assert sentence(from_content, {}).startswith("Field `family` is missing")


def test_digests_know_the_content_and_nothing_else():
    toy = Toy(level=2)
    assert toy.digest() == Toy(level=2.0).digest() == Toy(level=np.float64(2)).digest()
    assert toy.digest() != Toy(level=3).digest()
    assert toy.digest(without=["level"]) == Toy(level=3).digest(without=["level"])
    assert toy.digest(without=["noise.size"]) == toy.replace(noise__size=7).digest(
        without=["noise.size"]
    )
    assert toy.digest(without=["no.such"]) == toy.digest()


def test_callables_are_known_by_their_values_and_refused_in_files():
    first = Toy(shape=lambda z: z)
    second = Toy(shape=lambda z: z + 1)
    assert first.digest() != second.digest()
    assert "Python callable" in sentence(from_content, first.content())


def test_what_a_scenario_worked_out_is_no_part_of_its_equality():
    rows = np.random.default_rng(0).standard_normal((20, 4))
    for make in (
        lambda: gs.BayesLimit(target="z1*z2", noise=0.1, samples_per_dim=2.0),
        lambda: gs.InputRows(rows),
    ):
        one = make()
        other = make()
        getattr(one, "reading", None), getattr(one, "_table", None)
        assert (
            one == other
            and hash(one) == hash(other)
            and pickle.loads(pickle.dumps(one)) == other
        )
