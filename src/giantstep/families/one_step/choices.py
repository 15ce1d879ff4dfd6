"""What limit and experiment of a question choose alike: where a density, an error or a spike is wanted, and outliers.

The number of outliers belongs here because both sides leave them out of the bulk: a finite spectrum does not say by
itself which of its largest eigenvalues those are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step.answers.spectrum import list_spectra, unit_of
from giantstep.families.one_step.answers.spikes import DEGREES, HIGHEST_DEGREE
from giantstep.families.one_step.features import at_finite_size
from giantstep.families.one_step.model import BOUND
from giantstep.families.one_step.scenario import OneStep
from giantstep.readout import find_outliers
from giantstep.readout.answers import check_x, check_z, choose_x, list_numbers
from giantstep.types import Floats, Integers, Points

_COUNTED: dict[Any, Integers] = {}


def make_choices(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a question, checked, with what was left open filled in."""
    if what == "spectrum":
        x = settings.get("x")
        return {**settings, "x": _cells(scenario, points, settings) if x is None else check_x(x)}
    if what == "resolvent":
        return {**settings, "z": check_z(settings.get("z"))}
    if what == "along":
        return {**settings, "kappa": check_kappa(settings.get("kappa"))}
    if what == "spikes":
        return {**settings, "degree": check_degrees(settings.get("degree"))}
    return dict(settings)


def _cells(scenario: OneStep, points: Points, settings: Mapping[str, Any]) -> Floats:
    """Return cells that reach beyond the largest upper edge of the grid."""
    models, _ = scenario.step.choose_theory(scenario, points, settings.get("theory"))
    spectra = (spectrum for _, spectrum, _ in list_spectra(scenario, at_finite_size(points), models))
    return choose_x((spectrum, unit_of(spectrum, settings)) for spectrum in spectra)


def check_kappa(kappa: Any) -> Floats:
    """Return the checked positions along kappa; between -3 and 3 if left open."""
    if kappa is None:
        return np.arange(-12, 13) / 4
    positions = np.asarray(kappa, dtype=float)
    if (
        positions.ndim != 1
        or len(positions) < 2
        or np.any(np.diff(positions) <= 0)
        or np.max(np.abs(positions)) > BOUND
    ):
        raise bad_field("kappa", kappa, f"an increasing list of at least two numbers between -{BOUND:g} and {BOUND:g}")
    return positions


def check_degrees(degree: Any) -> Integers:
    """Return the degrees asked for, or 0 to 4."""
    if degree is None:
        return DEGREES
    values = list_numbers(degree, float)
    whole = bool(values.size) and bool(np.all(values == np.rint(values)))
    if not whole or values.min() < 0 or values.max() > HIGHEST_DEGREE or np.any(np.diff(values) <= 0):
        raise bad_field("degree", degree, f"an increasing list of whole numbers from 0 to {HIGHEST_DEGREE}")
    return values.astype(np.int64)


def count_outliers(scenario: OneStep, points: Points, dim: int) -> Integers:
    """Return how many eigenvalues stand above the bulk at each point of a dimension, as the limit says.

    The last answers are kept, because every trial of an experiment asks the same.
    """
    points = {**points, "dim": np.full(len(points["ridge"]), float(dim))}
    key = (scenario.digest(), *((name, values.tobytes()) for name, values in points.items()))
    if key not in _COUNTED:
        if len(_COUNTED) >= 64:
            _COUNTED.clear()
        _COUNTED[key] = _outliers_of_limit(scenario, points)
    return _COUNTED[key]


@np.errstate(all="ignore")
def _outliers_of_limit(scenario: OneStep, points: Points) -> Integers:
    models, _ = scenario.step.choose_theory(scenario, points, None)
    counts = np.zeros(len(points["dim"]), dtype=np.int64)
    for point, spectrum, _ in list_spectra(scenario, at_finite_size(points), models):
        counts[point] = len(find_outliers(spectrum, spectrum.upper_edge(), points["dim"][point]))
    return counts
