"""From the gradient step to the spiked model: which u, s, gamma and channels stand for the trained first layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from giantstep.errors import bad_field
from giantstep.families.one_step.finite_batch import batch_statistics
from giantstep.families.one_step.first_order import PACKED_BLOCKS
from giantstep.families.one_step.model import NODES_PER_PANEL, SpikedModel, Tables, tabulate
from giantstep.families.one_step.scenario import MaximalStep, NoStep, OneStep, PlantedSpike, Vocabulary
from giantstep.gaussian import expectation

Array = NDArray[np.float64]
Points = Mapping[str, Array]
Models = list[tuple[str, NDArray[np.int64]]]
"""Which theory answers which points."""

GAUSSIAN_NODES = 80
FEEDBACK = "feedback"
"""The entry of the points that lengthens the spike by `feedback`."""


def second_layer_law(scenario: OneStep) -> tuple[Array, Array]:
    """Return the values zeta_q and probabilities pi_q; a Gaussian law becomes the Gauss-Hermite nodes that matter."""
    if isinstance(scenario.second_layer, Vocabulary):
        return np.array(scenario.second_layer.values), np.array(scenario.second_layer.probabilities)
    nodes, weights = np.polynomial.hermite_e.hermegauss(GAUSSIAN_NODES)
    weights = weights / weights.sum()
    keep = weights > 1e-8
    return nodes[keep], weights[keep] / weights[keep].sum()


def choose_theory(scenario: OneStep, points: Points, wanted: str | None) -> tuple[Models, list[str]]:
    """Return which theory answers which points, and the sentences to say about the choice."""
    everything = np.arange(len(points["ridge"]))
    if not isinstance(scenario.step, MaximalStep):
        return [(wanted or "exact", everything)], []
    reason = _outside_exact_batch(scenario)
    finite = np.isfinite(points["step.batch_per_dim"]) & (points["step.rate"] != 0)
    if wanted == "exact" and finite.any() and reason:
        raise bad_field("theory", wanted, f'"isotropic" where step.batch_per_dim is finite, because {reason}')
    if wanted == "isotropic":
        return [(wanted, everything)], []
    warnings = []
    if finite.any() and reason:
        warnings.append(
            f"The isotropic approximation answers where step.batch_per_dim is finite, because {reason}; it is "
            'off by up to 10% against the network (theory="isotropic" chooses it in silence, '
            "step.batch_per_dim=inf is exact)."
        )
    parts = [("isotropic" if reason else "exact", np.flatnonzero(finite)), ("exact", np.flatnonzero(~finite))]
    return [(theory, index) for theory, index in parts if index.size], warnings


def _outside_exact_batch(scenario: OneStep) -> str:
    """Say why the exact theory of a finite batch does not cover this network; empty where it does."""
    if scenario.activation.parity not in ("odd", "even", "linear+even"):
        return f"the exact one needs an odd or a linear plus even activation, and {scenario.activation.name} is neither"
    if scenario.second_layer == "gaussian":
        return "the exact one is not verified for a Gaussian second layer"
    if scenario.blocks > PACKED_BLOCKS:
        return f"the exact one is built for at most {PACKED_BLOCKS} blocks"
    return ""


def at_finite_size(points: Points) -> dict[str, Array]:
    """Return the points with the ratios that n = round(alpha d) and p = round(beta d) really have at a finite dim."""
    changed = dict(points)
    dim = points["dim"]
    finite = np.isfinite(dim)
    for name in ("samples_per_dim", "width_per_dim"):
        whole = np.maximum(1.0, np.rint(points[name] * np.where(finite, dim, 1.0)))
        changed[name] = np.where(finite, whole / np.where(finite, dim, 1.0), points[name])
    return changed


def grouped_tables(
    scenario: OneStep, points: Points, models: Models, order: int = NODES_PER_PANEL
) -> Iterator[tuple[NDArray[np.int64], SpikedModel, Tables]]:
    """Yield (points, their models, their tables), tabulating each distinct parameter set once."""
    for theory, index in models:
        model = spiked_model(scenario, {name: values[index] for name, values in points.items()}, theory)
        distinct, which = model.distinct()
        for rows, tables in tabulate(scenario.activation, scenario.target, distinct, order):
            place = np.full(len(distinct), -1)
            place[rows] = np.arange(len(rows))
            member = place[which]
            inside = np.flatnonzero(member >= 0)
            yield index[inside], model.take(inside), tables.take(member[inside])


def spiked_model(scenario: OneStep, points: Points, theory: str) -> SpikedModel:
    """Return the spiked model of every point (M = B parameter sets)."""
    zeta, pi = second_layer_law(scenario)
    noise = points["noise"]
    count, k = len(noise), len(pi)
    step = scenario.step
    ones, zeros = np.ones((count, k)), np.zeros((count, k))
    if isinstance(step, NoStep):
        return SpikedModel(pi, zeros, ones, np.ones(count), noise, ones, zeros)
    if isinstance(step, PlantedSpike):
        strength = (
            points["step.strength"][:, None] * zeta if "step.strength" in points else np.array(step.strength) * ones
        )
        bulk = points["step.bulk"][:, None] * ones if "step.bulk" in points else np.array(step.bulk) * ones
        return SpikedModel(pi, strength, bulk, points["step.alignment"], noise, ones, zeros)
    return _after_gradient(scenario, points, zeta, pi, theory)


def bulk_row_scale(model: SpikedModel, points: Points) -> Array:
    """Return s_q where rows w0_i of the model stand for bulk rows s_q w0_i (a finite batch made isotropic), else 1."""
    finite = np.isfinite(points.get("step.batch_per_dim", np.array([np.inf])))[:, None]
    return np.where(finite & (model.batch is None), model.s, 1.0)


def feedback(scenario: OneStep, points: Points) -> Array:
    """Return what the initial output f0 adds to |E (y - f0) x|^2 at a finite dimension, of order 1/p (large batch).

    f0 is m + c1 <w, x> with w = sum_j zeta_j w0_j/p, so the spike gets a part along w, which is correlated with
    every row: in law it is an independent part of squared length [c1^2 E zeta^2 - 2/rate]/p (it may be negative). For a
    finite batch the correlation with the anisotropic bulk is not known, and nothing is added.
    """
    zeta, pi = second_layer_law(scenario)
    c1 = scenario.activation.hermite(1)[1]
    rate, width = points["step.rate"], points["width_per_dim"] * points["dim"]
    known = np.isfinite(points["dim"]) & np.isinf(points["step.batch_per_dim"]) & (rate != 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known, (np.sum(pi * zeta**2) * c1**2 - 2 / rate) / width, 0.0)


def _after_gradient(scenario: OneStep, points: Points, zeta: Array, pi: Array, theory: str) -> SpikedModel:
    """Return the model of a maximal step: section 5.2 (exact, large batch) or 5.1 (isotropic, any batch)."""
    assert isinstance(scenario.step, MaximalStep)
    activation, target = scenario.activation, scenario.target
    normalised = np.sqrt([1.0, 1.0, 2.0, 6.0])
    c0, c1, c2, c3 = activation.hermite(3) * normalised  # c_j = E He_j sigma
    g0, g1, g2 = target.hermite(2) * normalised[:3]
    noise, batch_per_dim = points["noise"], points["step.batch_per_dim"]
    m = c0 * np.sum(pi * zeta)  # the output at the start
    M1 = g0 - m
    M2 = target.second_moment(np.zeros(1), np.ones(1))[0] + noise - 2 * g0 * m + m**2
    e = points["step.rate"][:, None] * zeta
    s = 1 + e * M1 * c2
    ones = np.ones_like(e)
    extra = points.get(FEEDBACK, np.zeros(len(noise)))
    finite = bool(np.all(np.isfinite(batch_per_dim) & (points["step.rate"] != 0)))
    linear = activation.polynomial is not None and len(activation.polynomial) <= 2  # an isotropic bulk, exactly
    if theory == "exact" and finite and not linear:
        batch = batch_statistics(activation, target, m, e, batch_per_dim, noise)
        u, norm = e * c1 * batch.strength[:, None], np.sqrt(batch.row_norm)
        return SpikedModel(pi, u, norm, batch.gamma, noise, ones, 0 * ones, batch)
    if theory == "exact" and not finite:
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = 1 + e * c2 * g2 / s  # (5.5)
        G = np.sqrt(g1**2 + extra)
        gamma = np.where(extra > 0, abs(g1) / np.where(extra > 0, G, 1.0), 1.0)
        u = e * c1 * (np.copysign(1.0, g1) * G)[:, None]
        return SpikedModel(pi, u, s, gamma, noise, slope, e * g1 * c3)
    variance = expectation(lambda z: activation.derivative(z) ** 2, kinks=activation.kinks)[0] - c1**2
    G = np.sqrt(g1**2 + M2 / batch_per_dim)
    gamma = np.divide(g1, G, out=np.ones_like(G), where=G > 0)
    spread = e**2 * (M2 / batch_per_dim)[:, None] * variance
    # without spread s keeps its sign: the published map at an infinite batch
    s = np.where(spread > 0, np.sqrt(s**2 + spread), s)
    return SpikedModel(pi, e * c1 * G[:, None], s, gamma, noise, ones, 0 * ones)
