"""What is asked of a read-out beyond its mean error: which networks the theory covers, and what it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import bad_field, field_error
from giantstep.families.network.questions import SHARED
from giantstep.families.network.refinements import finite_batches
from giantstep.families.network.scenario import Network
from giantstep.types import Floats, Points

QUESTIONS = ("variance", "sensitivity", "shift", "calibration")
"""Answered by beyond_the_error."""
AT_THE_FIT = ("errors", "along", "variance")
"""Questions about test inputs of the law of the fit: a `shift` is refused, lest it be ignored."""
MEMBERS = (1.0, 2.0, 4.0, np.inf)
"""Networks that are averaged where none are named."""
STRENGTHS = (0.0, 0.1, 0.25, 0.5)
"""Lengths of a perturbation of the input where none are named."""

LOGITS = tuple(np.arange(-12, 13) / 2)
"""Logits of the reliability where none are named."""


def lacking(network: Network, points: Points, what: str) -> tuple[str, str] | None:
    """Return the field and the theory that a question is missing; None where there is one."""
    if what not in QUESTIONS:
        return None
    said = f'a theory of what="{what}"'
    if network.inputs is not None:
        return "inputs", f"{said} for inputs with a covariance"
    if any(step.shares_sample for step in network.steps):
        return "steps", f"{said} after small or growing steps"
    if any(step.sees_coordinates for step in network.steps):
        return "steps", f"{said} after a sign step"
    if finite_batches(points).any():
        return "steps", f"{said} after a step on a finite batch, which two networks may share"
    if what == "variance" and network.readout.kind == "hinge":
        return "readout.kind", "the overlap of two hinge fits: beyond_the_error (2.11) is derived for the logistic loss"
    if what == "sensitivity" and network.activation.jumps:
        return "activation", "the gradient of a network whose activation jumps"
    return None


def refuse_shift(network: Network, what: str) -> None:
    """Refuse test inputs of another law where a question does not know them."""
    if network.shift is not None and what in AT_THE_FIT:
        raise field_error(
            "shift",
            f'Field `{{field}}` must be left out where what="{what}", which is about inputs of the fit: '
            'what="shift", "calibration" and "sensitivity" take it.',
        )


def prepared(what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with what both engines share checked and filled in."""
    chosen = dict(settings)
    if what in ("variance", "shift"):
        chosen["shared"] = SHARED
    if what == "variance":
        chosen["members"] = _numbers("members", settings.get("members"), MEMBERS, "whole numbers from 1 on, or inf", 1)
        whole = np.isinf(chosen["members"]) | (chosen["members"] % 1 == 0)
        if not whole.all():
            raise bad_field("members", float(chosen["members"][~whole][0]), "whole numbers from 1 on, or inf")
    if what == "sensitivity":
        chosen["eps"] = _numbers("eps", settings.get("eps"), STRENGTHS, "finite numbers from 0 on", 0)
        if np.isinf(chosen["eps"]).any():
            raise bad_field("eps", np.inf, "finite numbers from 0 on")
    if what == "calibration":
        chosen["logit"] = _numbers(
            "logit", settings.get("logit"), LOGITS, "finite numbers in increasing order", -np.inf
        )
        if not np.isfinite(chosen["logit"]).all() or np.any(np.diff(chosen["logit"]) <= 0):
            raise bad_field("logit", chosen["logit"].tolist(), "finite numbers in increasing order")
    return chosen


def _numbers(name: str, given: Any, default: tuple[float, ...], allowed: str, least: float) -> Floats:
    """Return a setting as an array of distinct numbers, the default where it is left out."""
    if given is None:
        return np.array(default)
    numbers = np.atleast_1d(given)
    if np.iscomplexobj(numbers) or numbers.ndim != 1 or not np.all(numbers >= least):
        raise bad_field(name, given if np.ndim(given) == 0 else numbers.tolist(), allowed)
    if len(np.unique(numbers)) < len(numbers):
        raise bad_field(name, numbers.tolist(), "a list without repetitions")
    return numbers.astype(float)
