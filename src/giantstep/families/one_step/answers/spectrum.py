"""The spectrum of a one-step network: which laws the read-out is asked for, and the tables they fill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from giantstep.families.one_step.answers.gather import Gatherer
from giantstep.families.one_step.features import group_points, panel_nodes
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.steps.base import Models
from giantstep.family import Answer
from giantstep.readout import Equations, Spectrum
from giantstep.readout.answers import UNBOUNDED, describe_resolvent, describe_spectrum, grows_linearly
from giantstep.types import Floats, Points

SPECTRUM_NODES = 40
"""Nodes on a panel of kappa. Where the features are small each node is a bulk of its own: they must overlap."""


def _bounded_residuals(scenario: OneStep) -> bool:
    """Tell whether the labels are bounded, so that the bulk after a finite batch has an upper edge."""
    z = np.concatenate([-np.geomspace(1, 1e4, 200), np.geomspace(1, 1e4, 200)])
    values = np.abs(scenario.target(z))
    return scenario.noise == 0 and bool(np.max(values) <= 1.5 * np.max(values[np.abs(z) < 5]))


def list_spectra(scenario: OneStep, points: Points, models: Models) -> Iterator[tuple[int, Spectrum, Floats]]:
    """Yield every point, its spectrum, and what turns rows w0_i into bulk rows in V1 (`Group.row_scale`)."""
    for group in group_points(scenario, points, models, panel_nodes(scenario, SPECTRUM_NODES)):
        model, ones = group.model, np.ones(len(group.index))
        equations = Equations(group.features, group.ratio, group.points["width_per_dim"], ones, ones, model.bulk)
        bounded = np.all(model.u == 0, axis=1) | grows_linearly(scenario.activation)
        bounded &= model.isotropic or _bounded_residuals(scenario)
        for row, point in enumerate(group.index):
            spectrum = Spectrum(equations.take(np.array([row])), bool(bounded[row]))
            yield int(point), spectrum, group.row_scale[row]


def unit_of(spectrum: Spectrum, settings: Mapping[str, Any]) -> float:
    """Return the unit of the eigenvalues, for those of Phi^T Phi/n or Phi^T Phi/p."""
    return spectrum.ratio if settings.get("normalisation") == "n" else 1.0


def answer_spectrum(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="spectrum"``: density, distribution, edges, gaps, atom and outliers at every point."""
    gatherer = Gatherer(len(points["ridge"]))
    for point, spectrum, _ in list_spectra(scenario, points, models):
        dim = float(points["dim"][point])
        gatherer.put_point(point, *describe_spectrum(spectrum, settings["x"], dim, unit_of(spectrum, settings)))
    answer = gatherer.answer()
    if np.isinf(answer.values["upper_edge"]).any():
        answer.warnings.append(UNBOUNDED)
    answer.coords["x"] = settings["x"]
    return answer


def answer_resolvent(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="resolvent"``: the deterministic equivalent of the resolvent at complex z."""
    gatherer = Gatherer(len(points["ridge"]))
    for point, spectrum, row_scale in list_spectra(scenario, points, models):
        row = describe_resolvent(spectrum, settings["z"])
        V1, V2 = row_scale[:, None] * row.V1 * row_scale, row.V2
        if scenario.second_layer == "gaussian":
            V1, V2 = V1.sum(axis=(1, 2), keepdims=True), V2.sum(axis=1, keepdims=True)
        traces = (("m", V2.sum(axis=1)), ("V2", V2), ("V1", V1))
        values = {f"{name}_real": trace.real for name, trace in traces}
        values |= {f"{name}_imag": trace.imag for name, trace in traces}
        gatherer.put_point(point, values, row.status, row.residual, row.iterations)
    answer = gatherer.answer()
    answer.coords["z"] = settings["z"]
    return answer
