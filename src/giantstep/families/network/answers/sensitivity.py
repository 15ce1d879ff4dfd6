"""The gradient of the fitted network after every step, and what perturbations of a given length do to its error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import InputError
from giantstep.families.network.answers.laws import FittedPoint, note_refused, put_point, solved_groups, test_law
from giantstep.families.network.answers.shift import shifted_error
from giantstep.families.network.answers.table import Table
from giantstep.families.network.fresh_inputs import FOR_MEANS
from giantstep.families.network.problem import Share
from giantstep.families.network.trajectory import Moment
from giantstep.readout.sensitivity import GradientLaw, attacked_classes, error_times_gradient
from giantstep.types import Floats


def answer_sensitivity(table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]) -> None:
    """Fill ``what="sensitivity"``: beyond_the_error (5.5)-(5.7), of first order in eps and no bound, (5.8)."""
    for fits in solved_groups(table, share, moment, settings):
        for point in fits.points():
            try:
                put_point(table, point.place, time, _measured(table, point, settings["eps"]))
            except InputError as error:
                note_refused(table, point.place, error)


def _measured(table: Table, point: FittedPoint, eps: Floats) -> dict[str, Any]:
    (law, noise), classes = test_law(table, point), table.network.readout.classes
    inputs, output = point.signs(law) if classes else point.residuals(law, noise, FOR_MEANS)
    gradient = GradientLaw(output)
    along, across = (float(inputs.weights @ values) for values in (gradient.along, gradient.across))
    if classes:
        attacked = attacked_classes(gradient, point.positive(inputs), inputs.weights, eps)
    else:
        test = float(point.fit.solution.test[point.number])
        if table.network.shift is not None:
            test = shifted_error(point, law, noise)
        cross = error_times_gradient(gradient, inputs.label, noise, inputs.weights) if np.any(eps > 0) else 0.0
        attacked = test + 2 * eps * cross + eps**2 * (along + across)
    return {
        "gradient_norm2": along + across,
        "gradient_learnt": along,
        "gradient_rest": across,
        "attacked_error": attacked,
    }
