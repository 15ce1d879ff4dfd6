"""The fitted network at test inputs of another law, after every step: beyond_the_error section 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import InputError
from giantstep.families.network.answers.laws import Fits, FittedPoint, note_refused, put_point, solved_groups, test_law
from giantstep.families.network.answers.table import Table
from giantstep.families.network.answers.variance import half_disagreements, overlaps_of_classes
from giantstep.families.network.fresh_inputs import FreshInputs
from giantstep.families.network.problem import Share
from giantstep.families.network.shift import FreshLaw
from giantstep.families.network.trajectory import Moment
from giantstep.gaussian.target import Target
from giantstep.readout.calibration import wrong_signs
from giantstep.readout.output_law import OutputLaw
from giantstep.readout.pairs import Overlap, ridge_parts
from giantstep.types import Floats


def answer_shift(table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]) -> None:
    """Fill ``what="shift"``: (4.4) and (4.5)."""
    for fits in solved_groups(table, share, moment, settings):
        overlaps = _overlaps(fits)
        for point in fits.points():
            law, noise = test_law(table, point)
            try:
                missed = _missed(point, table.network.class_direction, law)
                if table.network.readout.classes:
                    test = (1 - 2 * point.flip) * missed + point.flip
                else:
                    test = shifted_error(point, law, noise)
                values = {"test_error": test, "test_misclassified": missed, "disagreement": np.full(3, np.nan)}
                if overlaps is not None:
                    values["disagreement"] = _shifted_disagreements(point, law, overlaps)
                put_point(table, point.place, time, values)
            except InputError as error:
                note_refused(table, point.place, error)


def _overlaps(fits: Fits) -> tuple[Overlap, Overlap, Overlap] | None:
    """Return the overlap of a fit with itself, and of fits that share the layer or the samples; None: not derived."""
    if fits.fit.first is not None:
        parts = ridge_parts(fits.fit.first, fits.group.asked.points["noise"], fits.group.asked.size)
        return parts.everything, parts.layer, parts.samples
    if fits.moment.problem.network.readout.kind == "hinge":
        return None
    classes = overlaps_of_classes(fits)
    return classes.own, classes.layer, classes.samples


def _shifted_disagreements(point: FittedPoint, law: FreshLaw, overlaps: tuple[Overlap, Overlap, Overlap]) -> Floats:
    """Return (4.5) (3,); at a finite dimension with terms of order 1/d that no law of inputs moves."""
    number = point.number
    pairs = [(part.Q1[number], part.Q2[number]) for part in overlaps[1:]]
    gaps = _disagreements(*point.plain(law), pairs)
    if point.finite:
        gaps += 2 * half_disagreements(*overlaps)[number] - _disagreements(*point.plain(point.own_law), pairs)
    return gaps


def shifted_error(point: FittedPoint, law: FreshLaw, noise: float) -> float:
    """Return E'(y - f)^2 at inputs of a law, (4.4); terms of order 1/d beyond the spread are those at the fit."""
    moved = _mean_square(*point.plain(law)) + noise
    if not point.finite:
        return moved
    return (
        moved + float(point.fit.solution.test[point.number]) - _mean_square(*point.plain(point.own_law)) - point.noise
    )


def _mean_square(inputs: FreshInputs, output: OutputLaw) -> float:
    mean = output.mean
    return float(inputs.weights @ (inputs.square - 2 * inputs.label * mean + mean**2 + output.variance + output.spread))


def _disagreements(inputs: FreshInputs, output: OutputLaw, pairs: list[tuple[Floats, Floats]]) -> Floats:
    """Return (4.5) of networks that share the layer, the samples, nothing (3,)."""
    own = float(inputs.weights @ output.variance)
    moved = float(inputs.weights @ output.spread)
    (layer, samples) = (own - float(inputs.weights @ output.quadratic(Q1, Q2)) for Q1, Q2 in pairs)
    return 2 * np.array([layer + moved, samples, own + moved])


def _missed(point: FittedPoint, normal: Floats | None, law: FreshLaw) -> float:
    """Return how often the output has another sign than the direction of the classes; NaN without one."""
    if normal is None:
        return np.nan
    terms = " + ".join(f"{float(part)!r}*z{axis + 1}" for axis, part in enumerate(normal))
    sign = Target(f"sign({terms})", directions=len(normal))
    inputs, output = point.signs(law, sign)
    return wrong_signs(output.mean, output.variance, 0.5 * (1 + inputs.label), inputs.weights)
