"""What the two engines of a family return, held to what the family declares: a slip is
one sentence, said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.base.errors import GiantstepError
from giantstep.core.base.types import Array, Points
from giantstep.core.lab.threads import one_blas_thread
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.family import Engine
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.own_classes import refuse_limit


def answer_of(
    scenario: Scenario, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Return the limit of a scenario at B points."""
    refuse_limit(scenario)
    with one_blas_thread():
        answer = scenario.limit(points, what, settings)
        count = len(points["dim"])
    who = f"The limit of {scenario.family}"
    if not isinstance(answer, Answer):
        raise GiantstepError(
            f"{who} must return an Answer (Answer.closed({{...}})), not a"
            f" {type(answer).__name__}."
        )
    for name in ("status", "residual", "iterations"):
        shape = np.shape(getattr(answer, name))
        if shape != (count,):
            raise GiantstepError(
                f"{who} must answer `{name}` with the shape {(count,)}, not {shape}."
            )
    for name, sizes in {**answer.jumps, **answer.neglected}.items():
        if np.shape(sizes) != (count,):
            raise GiantstepError(
                f"{who} must say {name!r} with the shape {(count,)}, not"
                f" {np.shape(sizes)}."
            )
    _check_values(answer.values, scenario, what, "limit", count)
    return answer


def measured_by(
    scenario: Scenario,
    points: Points,
    what: str,
    dim: int,
    draws: Any,
    settings: Mapping[str, Any],
) -> dict[str, Array]:
    """Return one trial at B points; those that are equal are measured once."""
    numbers = np.stack(list(points.values()), axis=1)
    _, first, place = np.unique(numbers, axis=0, return_index=True, return_inverse=True)
    kept = np.sort(first)
    different = {name: column[kept] for name, column in points.items()}
    values = scenario.trial(different, what, dim, draws, settings)
    _check_values(values, scenario, what, "experiment", len(kept))
    order = np.searchsorted(kept, first[place.reshape(-1)])
    return {name: np.asarray(array)[order] for name, array in values.items()}


def _check_values(
    values: Any, scenario: Scenario, what: str, engine: Engine, count: int
) -> None:
    """Refuse variables that are not declared, and arrays of another shape than (B, own
    dimensions...).
    """
    who = f"The {engine} of {scenario.family}"
    if not isinstance(values, Mapping):
        raise GiantstepError(
            f"{who} must return a dict of variables, but returned a"
            f" {type(values).__name__}."
        )
    declared = {
        variable.name: variable for variable in scenario.questions[what].variables
    }
    for name, value in values.items():
        # a sampled limit has standard errors, too
        variable = declared.get(str(name).removesuffix("_stderr"))
        if variable is None or engine not in variable.engines:
            raise GiantstepError(
                f"{who} answered `{name}`, which it does not declare for what={what!r}."
            )
        dims = ("points", *variable.dims)
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.empty((), dtype=object)  # lists of different lengths
        if (
            array.ndim != len(dims)
            or len(array) != count
            or array.dtype.kind not in "biufUO"
        ):
            wanted = (
                f"numbers of the shape ({', '.join(dims)}), {count} of `points` here"
            )
            answered = f"but answered with {array.dtype} {array.shape}"
            raise GiantstepError(
                f"{who} must answer `{name}` with {wanted}, {answered}."
            )
