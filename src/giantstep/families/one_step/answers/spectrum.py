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
from giantstep.gaussian import Function
from giantstep.readout import OUTLIER_ROOM, Equations, Law, Spectrum, bulk_law, find_outliers, is_physical
from giantstep.types import Floats, Points

MASS_TOLERANCE = 0.02
"""How far the mass of a law may be from one; a density that diverges at 0 leaves a little below the finest panel."""
SPECTRUM_NODES = 40
"""Nodes on a panel of kappa. Where the features are small each node is a bulk of its own: they must overlap."""


def bounded_slope(activation: Function) -> bool:
    """Tell whether the activation grows at most linearly, so that the bulk has an upper edge for every spike."""
    far, near = np.array([1e4, -1e4]), np.array([1e2, -1e2])
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = [np.max(np.abs(activation(z + 1) - activation(z))) for z in (far, near)]
    return bool(np.isfinite(slopes[0]) and slopes[0] <= 1.5 * max(slopes[1], 1.0))


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
        bounded = np.all(model.u == 0, axis=1) | bounded_slope(scenario.activation)
        bounded &= model.isotropic or _bounded_residuals(scenario)
        for row, point in enumerate(group.index):
            spectrum = Spectrum(equations.take(np.array([row])), bool(bounded[row]))
            yield int(point), spectrum, group.row_scale[row]


def answer_spectrum(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="spectrum"``: density, distribution, edges, atom and outliers at every point."""
    x, gatherer = settings["x"], Gatherer(len(points["ridge"]))
    for point, spectrum, _ in list_spectra(scenario, points, models):
        scale = spectrum.ratio if settings.get("normalisation") == "n" else 1.0
        law = bulk_law(spectrum)
        density, first = spectrum.density(scale * x)
        outside = (scale * x > law.upper) | (scale * x < law.lower)
        outliers = find_outliers(spectrum, law.upper, float(points["dim"][point]))
        values = {
            "density": scale * np.where(outside, 0.0, density),
            "cdf": law.cdf(scale * x),
            "lower_edge": law.lower / scale,
            "upper_edge": law.upper / scale,
            "atom": law.atom,
            "mean_eigenvalue": spectrum.mean / scale,
            "outliers": np.append(outliers / scale, np.full(OUTLIER_ROOM - len(outliers), np.nan)),
        }
        residual = max(law.residual, float(np.max(first.residual)))
        iterations = max(law.iterations, int(np.max(first.iterations)))
        gatherer.put_point(point, values, _status(law, density), residual, iterations)
        if np.isinf(law.upper) and not gatherer.warnings:
            gatherer.warnings.append(
                "The bulk has no upper edge: the activation's slope or the batch's residuals are unbounded."
            )
    answer = gatherer.answer()
    answer.coords["x"] = x
    return answer


def _status(law: Law, density: Floats) -> str:
    """Say why a law is not to be trusted; nothing where it is."""
    mass = law.panels.integral(law.on_panels)
    if np.isnan(law.upper) or np.isnan(law.lower):
        return "an edge of the bulk was not found"
    if abs(mass + law.atom - 1) > MASS_TOLERANCE:
        return f"the density has mass {mass:.3f} beside an atom of {law.atom:.3f}"
    if np.isnan(density).any():
        return f"the density was not solved at {np.isnan(density).sum()} of {len(density)} values of x"
    return ""


def answer_resolvent(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="resolvent"``: the deterministic equivalent of the resolvent at complex z."""
    z, gatherer = settings["z"], Gatherer(len(points["ridge"]))
    below = z.imag < 0
    upper = np.where(below, z.conj(), z)  # m(conj z) = conj m(z)
    upper = upper + 1j * np.where(upper.imag == 0, 1e-14 * np.abs(upper), 0.0)
    for point, spectrum, row_scale in list_spectra(scenario, points, models):
        first = spectrum.solve(upper)
        V1 = row_scale[:, None] * first.response.S * row_scale / spectrum.width
        V2 = first.response.R / spectrum.width
        if scenario.second_layer == "gaussian":
            V1, V2 = V1.sum(axis=(1, 2), keepdims=True), V2.sum(axis=1, keepdims=True)
        values = {}
        for name, array in (("m", V2.sum(axis=1)), ("V2", V2), ("V1", V1)):
            flipped = below.reshape((-1,) + (1,) * (array.ndim - 1))
            values[f"{name}_real"], values[f"{name}_imag"] = array.real, np.where(flipped, -array.imag, array.imag)
        lost = int(np.sum(~is_physical(first)))
        status = f"not solved at {lost} of {len(z)} values of z" if lost else ""
        gatherer.put_point(point, values, status, float(np.max(first.residual)), int(np.max(first.iterations)))
    answer = gatherer.answer()
    answer.coords["z"] = z
    return answer
