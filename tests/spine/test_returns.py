"""A slip in the engines of an own family is one sentence that names the variable, and
no error is hidden as NaN.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import NotFiniteError
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.core.scenario.family import Question, Variable
from giantstep.core.scenario.fields import Number, field
from giantstep.core.scenario.model import Scenario


class Own(Scenario):
    family = "own-returns"
    title = "a family whose engines return what a test says"
    update_rule = "none"
    questions = {
        "value": Question(
            "a value",
            (
                Variable("value", (), "v", "a value"),
                Variable("entries", ("block",), "w", "several values"),
            ),
        )
    }
    size: Number = field("s", "size", default=1.0)

    def limit(self, points, what, settings):
        return ENGINES["limit"](points["size"])

    def trial(self, points, what, dim, draws, settings):
        return ENGINES["trial"](points["size"])


def right(size):
    return {"value": size, "entries": np.stack([size, size], axis=1)}


ENGINES = {"limit": lambda size: Answer.closed(right(size)), "trial": right}


def returning(monkeypatch, **engines):
    for name, engine in engines.items():
        monkeypatch.setitem(ENGINES, name, engine)


def test_a_right_family_is_answered():
    both = gs.compare(Own(), dim=10, trials=2, size=[1.0, 2.0])
    np.testing.assert_array_equal(both.value, [[1, 2], [1, 2]])
    np.testing.assert_array_equal(both.entries[0], [[1, 1], [2, 2]])


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (right, "The limit of own-returns must return an Answer .*, not a dict."),
        (lambda size: None, "must return an Answer .*, not a NoneType."),
        (
            lambda size: Answer.closed({"value": 0.5}),
            "Answer.closed takes arrays .* but `value` is one number.",
        ),
        (
            lambda size: Answer.closed({}),
            "Answer.closed takes arrays .* but there is none.",
        ),
        (
            lambda size: Answer.closed({"value": size[:1]}),
            r"must answer `status` with the shape \(2,\), not \(1,\).",
        ),
        (
            lambda size: Answer.closed({"value": size[:, None]}),
            r"`value` with numbers of the shape \(points\), 2 of",
        ),
        (
            lambda size: Answer.closed({"entries": size}),
            r"`entries` with numbers of the shape \(points, block\), 2 of",
        ),
        (
            lambda size: Answer.closed({"value": 1j * size}),
            "but answered with complex128",
        ),
        (
            lambda size: Answer.closed({"velue": size}),
            "answered `velue`, which it does not declare",
        ),
    ],
)
def test_a_wrong_return_of_a_limit_is_one_sentence(monkeypatch, limit, said):
    returning(monkeypatch, limit=limit)
    with pytest.raises(gs.GiantstepError, match=said):
        gs.predict(Own(), size=[1.0, 2.0])


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        (
            lambda size: 0.5,
            (
                "The experiment of own-returns must return a dict of variables, but"
                " returned a float."
            ),
        ),
        (
            lambda size: {"value": 0.5},
            r"`value` with numbers of the shape \(points\), 1 of `points` here",
        ),
        (
            lambda size: {"value": np.ones((1, 3))},
            r"but answered with float64 \(1, 3\).",
        ),
        (lambda size: {"value": np.ones(3)}, r"but answered with float64 \(3,\)."),
        (
            lambda size: {"entries": [[1.0], [1.0, 2.0]]},
            "`entries` with numbers of the shape",
        ),
        (lambda size: {"velue": size}, "answered `velue`, which it does not declare"),
    ],
)
@pytest.mark.parametrize("verb", ["simulate", "sweep"])
def test_a_wrong_return_of_a_trial_is_one_sentence(
    monkeypatch, tmp_path, verb, trial, said
):
    returning(monkeypatch, trial=trial)
    if verb == "simulate":
        with pytest.raises(gs.GiantstepError, match=said):
            gs.simulate(Own(), dim=10, trials=2)
    else:
        with pytest.warns(gs.GiantstepWarning, match=said):
            gs.sweep(Own(), dim=10, trials=2, store=tmp_path / "own.db", engine="local")


@pytest.mark.parametrize(
    "error", [ZeroDivisionError, OverflowError, TypeError, ValueError, KeyError]
)
def test_a_mistake_in_own_code_ends_the_call(monkeypatch, error):
    """As NaN with a reason it would look like a point that cannot be solved."""

    def mistaken(size):
        raise error("somewhere in own code")

    returning(monkeypatch, limit=mistaken, trial=mistaken)
    for ask in (gs.predict, lambda s: gs.simulate(s, dim=10, trials=2)):
        with pytest.raises(error, match="somewhere in own code") as raised:
            ask(Own())
        assert raised.traceback[-1].name == "mistaken"


def test_numbers_that_an_own_family_gives_up_flag_their_point(monkeypatch):
    def given_up(size):
        if np.any(size > 1):
            raise NotFiniteError("the fields grew too large")
        return Answer.closed(right(size))

    returning(monkeypatch, limit=given_up)
    with pytest.warns(gs.GiantstepWarning, match="the fields grew too large"):
        result = gs.predict(Own(), size=[1.0, 2.0])
    np.testing.assert_array_equal(result.value, [1, np.nan])


@pytest.mark.parametrize("name", SHIPPED)
def test_a_value_given_twice_is_measured_once_for_both(name):
    """A draw answers points that differ in shared fields; families whose draw answers
    one point saw two here.
    """
    scenario = family_class(name).example()
    field = next(iter(scenario.numeric_fields()))
    value = scenario.numeric_fields()[field][0]
    result = gs.simulate(
        scenario, {field: [value, value]}, dim=scenario.own_dim() or 30, trials=1
    )
    first = result[str(next(iter(result.data_vars)))]
    np.testing.assert_array_equal(first.isel({field: 0}), first.isel({field: 1}))


def test_lengths_that_differ_are_named(monkeypatch):
    """Two variables of one dimension, and coordinates, are as long as each other;
    xarray has other words for it.
    """
    later = Variable("later", ("block",), "l", "more values")
    question = Question(
        "values", (Variable("entries", ("block",), "w", "several values"), later)
    )
    monkeypatch.setattr(Own, "questions", {"value": question})
    entries = np.ones((1, 2))
    returning(
        monkeypatch,
        limit=lambda size: Answer.closed(
            {"entries": entries, "later": np.ones((1, 3))}
        ),
    )
    with pytest.raises(
        gs.GiantstepError,
        match="`later` has 3 entries of `block`, but another variable has 2",
    ):
        gs.predict(Own())
    answer = Answer.closed({"entries": entries, "later": entries})
    answer.coords["block"] = np.arange(3)
    returning(monkeypatch, limit=lambda size: answer)
    with pytest.raises(gs.GiantstepError, match="2 entries of `block`, not 3"):
        gs.predict(Own())
