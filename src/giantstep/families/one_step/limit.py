"""The limit of the one-step family: from the question to the features after the step, their read-out, the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from giantstep.families.one_step import covariance
from giantstep.families.one_step.features import at_finite_size
from giantstep.families.one_step.scenario import OneStep
from giantstep.family import Answer
from giantstep.readout.finite_size import FINITE_MEANS
from giantstep.types import Points


@np.errstate(all="ignore")  # a point that fails is flagged by its status
def limit(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer `what` at every point; ``points["dim"]`` is inf for the bare limit."""
    if covariance.answers(scenario, what):
        return covariance.limit(scenario, points, what, settings)
    answer = _isotropic_limit(scenario, points, what, covariance.of_isotropic_inputs(settings))
    if np.isfinite(points["dim"]).any():
        answer.attrs["finite_size"] = FINITE_MEANS
    if what == "errors":
        answer.values |= dict.fromkeys(("effective_rank", "effective_rank_4"), np.ones(len(answer.status)))
    return answer


def _isotropic_limit(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    step, points = scenario.step, at_finite_size(points)
    step.check_question(scenario, what)
    step.check_dimension(points, what)
    closed_form = step.closed_form(scenario, what)
    if closed_form is not None:
        return closed_form(scenario, points, settings)
    models, warnings = step.choose_theory(scenario, points, settings.get("theory"))
    answer = _answers(what)(scenario, points, models, settings)
    answer.warnings = warnings + step.warnings(scenario, points) + answer.warnings
    answer.approximations = step.approximations(points, models)
    answer.attrs["theory"] = " and ".join(dict.fromkeys(theory for theory, _ in models))
    return answer


def _answers(what: str) -> Callable[..., Answer]:
    """Return what answers a question; only its modules are loaded."""
    if what in ("errors", "along"):
        from giantstep.families.one_step.answers.errors import answer_along, answer_errors

        return answer_errors if what == "errors" else answer_along
    from giantstep.families.one_step.answers.spectrum import answer_resolvent, answer_spectrum

    return answer_spectrum if what == "spectrum" else answer_resolvent


@np.errstate(all="ignore")
def prepare(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with what both engines share: ``x`` of a spectrum, ``degree`` of spikes, ``kappa`` along."""
    if covariance.answers(scenario, what):
        return covariance.prepare(scenario, points, what, settings)
    settings = covariance.of_isotropic_inputs(settings)
    scenario.step.check_question(scenario, what)
    if what == "errors":  # nothing is left open
        return dict(settings)
    from giantstep.families.one_step.choices import make_choices

    return make_choices(scenario, points, what, settings)
