"""Classes of a user that derive from ours: the experiment is theirs, everything else
they declare or do not have.
"""

import json
import sqlite3
from typing import ClassVar

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.families import family_class
from giantstep.core.scenario.fields import Number, field
from giantstep.core.scenario.model import from_content
from giantstep.core.scenario.own_classes import parent_of, source_digest

from .toy import Shift, Toy

SIZES = {
    "target": "tanh(z)",
    "noise": 0.05,
    "width_per_dim": 1.5,
    "samples_per_dim": 2.0,
}
PART = 0.1


class Damped(gs.MaximalStep):
    """A step of which a part is made."""

    def train(self, trained, number, point):
        new = super().train(trained, number, point)
        before = trained.network.weights
        return trained.with_weights(before + PART * (new.network.weights - before))


class Known(gs.MaximalStep):
    """A step that says that the theory of the maximal step is its own."""

    advance = gs.MaximalStep.advance


class Scaled(gs.MaximalStep):
    """A step with a field of its own."""

    scale: Number = field("s", "part of the step that is made", default=1.0)

    def train(self, trained, number, point):
        new = super().train(trained, number, point)
        before = trained.network.weights
        scale = float(point[f"steps.{number}.scale"][0])
        return trained.with_weights(before + scale * (new.network.weights - before))


class Halved(gs.Ridge):
    """A read-out that takes half the penalty."""

    def fit(self, trained, ridges, draws, noise):
        return super().fit(trained, ridges / 2, draws, noise)


class Spoilt(gs.OneStep):
    """A scenario that measures something else."""

    def trial(self, points, what, dim, draws, settings):
        values = super().trial(points, what, dim, draws, settings)
        return {**values, "test_error": values["test_error"] + 1}


def network(step, **more):
    return gs.Network(steps=[step], **{**SIZES, **more})


DAMPED = network(Damped(3.0, batch_per_dim=2.0))
PLAIN = network(gs.MaximalStep(3.0, batch_per_dim=2.0))


def test_a_step_of_ones_own_has_no_limit_of_its_parent():
    sentence = (
        "`steps.0` has no limit here: no theory of Damped is known, which derives from"
        " MaximalStep"
    )
    with pytest.raises(gs.InputError, match=sentence):
        gs.predict(DAMPED, dim=100)
    with pytest.raises(gs.InputError, match=sentence):
        gs.compare(DAMPED, dim=40, trials=2)
    with pytest.raises(gs.InputError, match=sentence):
        gs.sweep(DAMPED, dim=40, source="limit")
    with pytest.raises(gs.InputError, match=sentence):
        gs.optimize(DAMPED, over={"steps.0.rate": (0.1, 3.0)}, dim=100)
    with pytest.raises(gs.InputError, match=sentence):
        gs.disagreement(DAMPED, PLAIN)
    with pytest.raises(gs.InputError, match=sentence):
        gs.regime(DAMPED, 100)


def test_other_parts_and_scenarios_have_none_either():
    with pytest.raises(
        gs.InputError, match="`readout` has no limit here: no theory of Halved is known"
    ):
        gs.predict(PLAIN.replace(readout=Halved(0.1)))
    layer = type("Values", (gs.Vocabulary,), {})
    with pytest.raises(
        gs.InputError,
        match="`second_layer` has no limit here: no theory of Values is known",
    ):
        gs.predict(PLAIN.replace(second_layer=layer([1.0, -1.0])))
    spoilt = Spoilt(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    with pytest.raises(
        gs.InputError,
        match="The scenario has no limit here: no theory of Spoilt is known",
    ):
        gs.predict(spoilt)
    inside = gs.OneStep(
        width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, step=Damped(3.0)
    )
    with pytest.raises(
        gs.InputError, match="`step` has no limit here: no theory of Damped"
    ):
        gs.predict(inside)
    with pytest.raises(gs.InputError, match="Spoilt has no best possible error"):
        gs.best_possible(spoilt)


def test_a_class_that_says_so_has_the_limit_of_its_parent():
    known = network(Known(3.0, batch_per_dim=2.0))
    assert np.array_equal(
        gs.predict(known, dim=100).test_error, gs.predict(PLAIN, dim=100).test_error
    )
    both = type("Both", (gs.SmallStep,), {"advance": gs.SmallStep.advance})
    with pytest.raises(
        gs.InputError, match="has no `advance` and `closed_form` of its own"
    ):
        gs.predict(network(both(1.0, batch_per_dim=2.0), second_layer="gaussian"))

    class Named(gs.OneStep):
        family: ClassVar[str] = "named-one-step"

    named = Named(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    plain = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    assert float(gs.predict(named).test_error) == float(gs.predict(plain).test_error)
    assert from_content(named.content()) == named

    class Moved(gs.Network):
        family: ClassVar[str] = "moved-network"

    moved = Moved(steps=PLAIN.steps, **SIZES)
    assert np.array_equal(gs.predict(moved).test_error, gs.predict(PLAIN).test_error)


def test_the_experiment_is_its_own_and_so_is_its_name_in_a_store(tmp_path):
    store = tmp_path / "s.db"
    how = {"dim": 40, "trials": 3, "progress": False}
    parent = gs.sweep(PLAIN, store=store, **how)
    first = gs.sweep(DAMPED, store=store, **how)
    assert not np.allclose(first.test_error[1], parent.test_error[1])
    assert np.array_equal(first.test_error, gs.simulate(DAMPED, **how).test_error)
    with sqlite3.connect(store) as connection:
        (count,) = connection.execute("SELECT count(*) FROM results").fetchone()
    assert count == 6
    assert json.loads(first.attrs["classes"]) == {
        "steps.0": {
            "name": "Damped",
            "parent": "MaximalStep",
            "source": source_digest(Damped),
        }
    }
    assert "classes" not in parent.attrs
    both = gs.simulate({"plain": PLAIN, "damped": DAMPED}, **how)
    assert both.attrs["classes"] == first.attrs["classes"]


def test_another_body_or_constant_is_another_class(monkeypatch):
    def made(factor):
        class Step(gs.MaximalStep):
            def train(self, trained, number, point):
                return trained.with_weights(factor * trained.network.weights)

        return Step

    assert source_digest(made(2.0)) == source_digest(made(2.0))
    assert source_digest(made(2.0)) != source_digest(made(3.0))
    middle = made(2.0)
    assert source_digest(type("Last", (middle,), {})) != source_digest(
        type("Last", (made(3.0),), {})
    )
    before = source_digest(Damped)
    monkeypatch.setitem(globals(), "PART", 0.2)
    assert source_digest(Damped) != before
    monkeypatch.setitem(globals(), "PART", 0.1)
    assert source_digest(Damped) == before


def test_a_move_inside_our_package_changes_no_digest(monkeypatch):
    class Rated(gs.MaximalStep):
        def train(self, trained, number, point, small=gs.SmallStep):
            return trained.with_weights(self.rate * trained.network.weights)

    before = source_digest(Rated)
    monkeypatch.setattr(gs.SmallStep, "__module__", "gistep.elsewhere")
    assert source_digest(Rated) != before
    monkeypatch.setattr(gs.SmallStep, "__module__", "giantstep.elsewhere")
    assert source_digest(Rated) == before


def test_fields_change_without_losing_the_class():
    assert type(DAMPED.replace(steps__0__rate=2.0).steps[0]) is Damped
    assert (
        type(DAMPED.replace(steps__rate=2.0, steps__0__loss="correlation").steps[0])
        is Damped
    )
    other = DAMPED.replace(steps__0__kind="sign")
    assert type(other.steps[0]) is gs.SignStep
    scaled = network(Scaled(3.0, batch_per_dim=2.0, scale=0.5))
    assert scaled.replace(steps__0__scale=2.0).steps[0].scale == 2.0
    grid = gs.simulate(
        scaled, dim=40, trials=2, steps__0__scale=[0.0, 1.0], paired=True
    )
    whole = gs.simulate(PLAIN, dim=40, trials=2, paired=True)
    assert np.allclose(grid.test_error[1], whole.test_error)
    assert not np.allclose(grid.test_error[0, 1], whole.test_error[1])


def test_no_file_form(tmp_path):
    sentence = (
        "`steps.0` is a Damped, a Python class derived from MaximalStep, and cannot be"
        " written to"
    )
    study = gs.Study(DAMPED)
    with pytest.raises(gs.InputError, match=f"{sentence} a file"):
        study.to_toml()
    with pytest.raises(gs.InputError, match=f"{sentence} a file"):
        study.write(tmp_path / "study.toml")
    with pytest.raises(gs.InputError, match=f"{sentence} a script"):
        gs.script(DAMPED)
    with pytest.raises(gs.InputError, match=f"{sentence} JSON"):
        DAMPED.model_dump_json()
    with pytest.raises(
        gs.InputError,
        match="The scenario is a Spoilt, a Python class derived from OneStep",
    ):
        gs.Study(Spoilt(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)).to_toml()
    with pytest.raises(
        gs.InputError,
        match="`steps.0` was a Damped, a Python class .* it lives in Python only",
    ):
        from_content(DAMPED.content())


def test_a_subclass_does_not_take_the_place_of_its_family():
    assert family_class("one-step") is gs.OneStep
    made = type("Wide", (gs.Network,), {"__module__": __name__})
    assert family_class("network") is gs.Network
    wide = made(steps=[gs.MaximalStep(3.0)], **SIZES)
    assert np.isfinite(gs.simulate(wide, dim=40, trials=2).test_error).all()


def test_families_and_parts_stand_for_themselves():
    assert [
        parent_of(cls)
        for cls in (Toy, Shift, gs.OneStep, gs.FewSteps, gs.SmallStep, gs.Vocabulary)
    ] == [None] * 6
    assert parent_of(Damped) is gs.MaximalStep
    assert parent_of(type("Again", (Damped,), {})) is Damped


def test_a_family_without_a_limit_runs_its_experiment():
    class Counting(gs.Scenario):
        family: ClassVar[str] = "counting"
        questions: ClassVar = Toy.questions

    with pytest.raises(
        gs.InputError, match="Counting has no limit: there is no method `limit` in it"
    ):
        gs.predict(Counting())
