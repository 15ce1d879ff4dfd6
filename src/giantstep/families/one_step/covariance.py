"""Inputs with a covariance: the network after one step is a `FewSteps` of one step, whose last time is the answer.

structured_inputs is the theory of any number of steps, and the family of several steps holds it; it is asked by its
name. What the step of a network says of isotropic inputs is answered there too (`what="steps"`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.families import family_class
from giantstep.family import Answer
from giantstep.types import Array, Points

if TYPE_CHECKING:
    from giantstep.families.one_step.scenario import OneStep
    from giantstep.lab import Draws
    from giantstep.scenario import Scenario

_SHARED = (
    "activation",
    "target",
    "noise",
    "second_layer",
    "rows",
    "width_per_dim",
    "samples_per_dim",
    "ridge",
)
_RENAMED = {"batch_per_dim": "step.batch_per_dim", "rate": "step.rate"}
"""Fields of `FewSteps` that belong to the step here."""
_OWN_THEORIES = ("split", "quadratic")


def answers(scenario: OneStep, what: str) -> bool:
    """Tell whether the theory of inputs with a covariance answers."""
    return scenario.inputs is not None or what == "steps"


def of_isotropic_inputs(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without a theory of inputs with a covariance, or refuse one."""
    theory = settings.get("theory")
    if theory in _OWN_THEORIES:
        raise bad_field("theory", theory, '"exact" or "isotropic" where inputs are isotropic')
    return {**settings, "theory": None} if theory == "auto" else dict(settings)


def as_few_steps(scenario: OneStep, inputs: Any, precondition: float | str = 0.0) -> Scenario:
    """Return the same network on other inputs, as a `FewSteps` of one step (of none without a step)."""
    where = 'for what="steps"' if inputs is None else "where inputs have a covariance"
    if scenario.loss != "square":
        raise bad_field("loss", scenario.loss, f'"square" {where}')
    if scenario.step.kind not in ("none", "maximal"):
        raise bad_field("step.kind", scenario.step.kind, f'"none" or "maximal" {where}')
    if scenario.second_layer == "gaussian":
        raise bad_field("second_layer", "gaussian", f"a Vocabulary {where}")
    if scenario.fit_sample != "fresh":
        raise bad_field("fit_sample", scenario.fit_sample, f'"fresh" {where}')
    if scenario.ridge == 0:
        raise bad_field("ridge", 0.0, f"above 0 {where}")
    step: dict[str, Any] = {"steps": 0}
    if scenario.step.kind == "maximal":
        step = {"steps": 1, "rate": scenario.step.rate, "batch_per_dim": scenario.step.batch_per_dim}
    shared = {name: getattr(scenario, name) for name in _SHARED}
    with _fields_named_as_here():
        return family_class("few-steps")(**shared, **step, inputs=inputs, precondition=precondition)


def check_covariance_points(scenario: OneStep, points: Points) -> None:
    """Refuse points that no theory of inputs with a covariance covers."""
    if np.any(points["ridge"] == 0):
        raise bad_field("ridge", 0.0, "above 0 where inputs have a covariance")
    with _fields_named_as_here():
        _network(scenario).check_points(_translate(scenario, points))


def limit(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer `what` after the step at every point."""
    network = _network(scenario)
    with _fields_named_as_here():
        answer = network.limit(_translate(scenario, points), what, _with_time(scenario, settings))
    answer.values = _after_the_step(scenario, what, answer.values)
    answer.coords = {name: values for name, values in answer.coords.items() if name != "time"}
    if what == "errors":
        affine = np.sum(scenario.target.hermite(1) ** 2)
        answer.values["affine_error"] = answer.values["null_error"] - affine
    return answer


def prepare(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with what both engines share filled in."""
    _check_question(scenario, what, settings)
    with _fields_named_as_here():
        asked = {**settings, "first": _steps(scenario)}
        chosen = _network(scenario).prepare(_translate(scenario, points), what, asked)
    return {name: value for name, value in chosen.items() if name != "time"}


def trial(
    scenario: OneStep, points: Points, what: str, dim: int, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Run one trial: a real network after its step."""
    with _fields_named_as_here():
        values = _network(scenario).trial(
            _translate(scenario, points), what, dim, draws, _with_time(scenario, settings)
        )
    return _after_the_step(scenario, what, values)


def memory(scenario: OneStep, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes one trial needs at its peak."""
    return _network(scenario).memory(_translate(scenario, points), what, dim, settings)


def _network(scenario: OneStep) -> Scenario:
    return as_few_steps(scenario, scenario.inputs, scenario.precondition)


def _check_question(scenario: OneStep, what: str, settings: Mapping[str, Any]) -> None:
    """Refuse questions and settings that inputs with a covariance do not have."""
    where = "where inputs have a covariance"
    if what in ("weights", "spikes"):
        raise bad_field("inputs", scenario.inputs, f'left out for what="{what}", after a SmallStep or a GrowingStep')
    if what == "along" and scenario.step.kind == "none":
        raise bad_field("step.kind", "none", f'"maximal" for what="along" {where} (nothing is learnt without a step)')
    if settings.get("normalisation", "p") != "p":
        raise bad_field("normalisation", settings["normalisation"], f'"p" {where} (divide x by n/p for the other)')


def _steps(scenario: OneStep) -> int:
    return int(scenario.step.kind == "maximal")


def _with_time(scenario: OneStep, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for the last time only."""
    return {**settings, "time": np.array([_steps(scenario)])}


def _translate(scenario: OneStep, points: Points) -> dict[str, Array]:
    """Return the points in the fields of `FewSteps`."""
    count = len(points["ridge"])
    blank = {"rate": np.ones(count), "batch_per_dim": np.full(count, np.inf)}
    own = {name: points[here] for name, here in _RENAMED.items() if here in points}
    kept = {name: values for name, values in points.items() if name != "flip" and not name.startswith("step.")}
    return {**kept, **blank, **own, "steps": np.full(count, float(_steps(scenario)))}


def _after_the_step(scenario: OneStep, what: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the variables that are declared here, at the last time and for the one direction there is."""
    theirs = {variable.name: variable.dims for variable in family_class("few-steps").questions[what].variables}
    here = {variable.name for variable in scenario.questions[what].variables}
    chosen = {"time": -1, "direction": 0, "direction_2": 0}
    return {
        name: array[(slice(None), *(chosen.get(dim, slice(None)) for dim in theirs[name]))]
        for name, array in values.items()
        if name in here
    }


@contextmanager
def _fields_named_as_here() -> Iterator[None]:
    """Let errors name the fields of the step as they are called here."""
    try:
        yield
    except InputError as error:
        if error.field not in _RENAMED:
            raise
        raise bad_field(_RENAMED[error.field], error.value, error.allowed) from None
