"""From the gradient step to the spiked model: which u, s, gamma and channels stand for the trained first layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step.batch import batch_statistics
from giantstep.families.one_step.model import NODES_PER_PANEL, SpikedModel, tabulate
from giantstep.families.one_step.scenario import (
    GrowingStep,
    MaximalStep,
    NoStep,
    OneStep,
    PlantedSpike,
    SmallStep,
    Vocabulary,
)
from giantstep.gaussian import expectation
from giantstep.readout import PACKED_BLOCKS, Features
from giantstep.types import Floats, Integers, Points

Models = list[tuple[str, Integers]]
"""Which theory answers which points."""

GAUSSIAN_NODES = 80
FEEDBACK = "feedback"
"""The entry of the points that lengthens the spike by `feedback`."""


def second_layer_law(scenario: OneStep) -> tuple[Floats, Floats]:
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
    if isinstance(scenario.step, SmallStep | GrowingStep):
        return _small_step_theory(scenario, points, wanted, everything)
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


def _small_step_theory(
    scenario: OneStep, points: Points, wanted: str | None, everything: Integers
) -> tuple[Models, list[str]]:
    """Choose for a small or growing step: exact for the rank-one update, and for every update without dim."""
    assert isinstance(scenario.step, SmallStep | GrowingStep)
    finite = np.isfinite(points["dim"]) & np.isfinite(points["step.batch_per_dim"])
    approximate = scenario.step.update == "exact" and bool(finite.any())
    if wanted is not None and (wanted == "isotropic" or not approximate):
        return [(wanted, everything)], []
    if wanted == "exact":
        raise bad_field("theory", wanted, '"isotropic" at a finite dim where step.update="exact" ("rank-one" is exact)')
    if not approximate:
        return [("exact", everything)], []
    warning = (
        'The whole gradient (step.update="exact") is described at a finite dim by an isotropic remainder, an '
        'approximation that overshoots; step.update="rank-one" is the experiment that the theory describes exactly.'
    )
    return [("isotropic", everything)], [warning]


def _outside_exact_batch(scenario: OneStep) -> str:
    """Say why the exact theory of a finite batch does not cover this network; empty where it does."""
    if scenario.activation.parity not in ("odd", "even", "linear+even"):
        return f"the exact one needs an odd or a linear plus even activation, and {scenario.activation.name} is neither"
    if scenario.second_layer == "gaussian":
        return "the exact one is not verified for a Gaussian second layer"
    if scenario.rows == "gaussian":
        return 'the exact one is not verified for rows="gaussian"'
    if scenario.blocks > PACKED_BLOCKS:
        return f"the exact one is built for at most {PACKED_BLOCKS} blocks"
    if scenario.loss != "square":
        return "the exact one is built for the square loss"
    return ""


def at_finite_size(points: Points) -> dict[str, Floats]:
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
) -> Iterator[tuple[Integers, SpikedModel, Features]]:
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
    """Return the spiked model of every point (M = B parameter sets), with the rows of the first layer as they start."""
    model = _spiked_model(scenario, points, theory)
    return dataclasses.replace(model, gaussian_rows=scenario.rows == "gaussian")


def _spiked_model(scenario: OneStep, points: Points, theory: str) -> SpikedModel:
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
    if isinstance(step, SmallStep | GrowingStep):
        return _after_small_step(scenario, points, zeta, pi, theory)
    return _after_gradient(scenario, points, zeta, pi, theory)


def step_size(scenario: OneStep, points: Points) -> Floats:
    """Return eta of a small or growing step: rate, or rate * n0^exponent."""
    if isinstance(scenario.step, GrowingStep):
        return points["step.rate"] * (points["step.batch_per_dim"] * points["dim"]) ** points["step.exponent"]
    return points["step.rate"]


def residual_power(scenario: OneStep, points: Points) -> Floats:
    """Return E r^2 of the residuals r of a small or growing step."""
    zeta, pi = second_layer_law(scenario)
    power = scenario.target.second_moment(np.zeros(1), np.ones(1))[0] + points["noise"]
    c0 = scenario.activation.hermite(0)[0]
    m = c0 * np.sum(pi * zeta)
    constant = power - 2 * scenario.target.hermite(0)[0] * m + m**2
    variance = scenario.activation.second_moment(np.zeros(1), np.ones(1))[0]
    return np.where(points["step.initial_output"] == 1, power + variance, constant)


def spike_power(scenario: OneStep, points: Points, eta: Floats) -> Floats:
    """Return eta^2 b^2, b the length of beta = X0^T r/n0 as the equations see it (section 2 of the notes on steps).

    With initial_output = 1, beta is correlated with W0; in law it is an independent one of a shifted length, which may
    be shorter than its aligned part, or even negative: b^2 = c_*1^2 + E r^2 d/n0 + c1^2 - 2/eta.
    """
    c1, g1 = scenario.activation.hermite(1)[1], scenario.target.hermite(1)[1]
    f0 = points["step.initial_output"]
    plain = g1**2 + residual_power(scenario, points) / points["step.batch_per_dim"]
    return eta**2 * (plain + f0 * c1**2) - 2 * f0 * eta


def spike_length(scenario: OneStep, points: Points, eta: Floats) -> Floats:
    """Return b^2 itself, for eta different from 0."""
    return spike_power(scenario, points, eta) / eta**2


def _after_small_step(scenario: OneStep, points: Points, zeta: Floats, pi: Floats, theory: str) -> SpikedModel:
    """Return the model of a small or growing step at a finite dimension (section 9 of the notes on step sizes)."""
    assert isinstance(scenario.step, SmallStep | GrowingStep)
    activation = scenario.activation
    c1, g1 = activation.hermite(1)[1], scenario.target.hermite(1)[1]
    eta = step_size(scenario, points)
    per_root_width = zeta / np.sqrt(points["width_per_dim"] * points["dim"])[:, None]
    e = eta[:, None] * per_root_width
    ones = np.ones_like(e)
    # eta b, at least its aligned part: shorter spikes are flagged by the limit
    length = np.sqrt(np.maximum(spike_power(scenario, points, eta), (eta * g1) ** 2))
    gamma = np.where(length > 0, np.clip(eta * g1 / np.where(length > 0, length, 1.0), -1, 1), 1.0)
    s = ones
    if theory == "isotropic":  # what the rank-one part leaves out, as an isotropic remainder
        variance = expectation(lambda z: activation.derivative(z) ** 2, kinks=activation.kinks)[0] - c1**2
        s = np.sqrt(1 + e**2 * (residual_power(scenario, points) / points["step.batch_per_dim"])[:, None] * variance)
    u = c1 * length[:, None] * per_root_width
    return SpikedModel(pi, u, s, gamma, points["noise"], ones, 0 * ones, stretched=True)


def bulk_row_scale(model: SpikedModel, points: Points) -> Floats:
    """Return s_q where rows w0_i of the model stand for bulk rows s_q w0_i (a finite batch made isotropic), else 1."""
    finite = np.isfinite(points.get("step.batch_per_dim", np.array([np.inf])))[:, None]
    return np.where(finite & model.isotropic, model.s, 1.0)


def feedback(scenario: OneStep, points: Points) -> Floats:
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


def _after_gradient(scenario: OneStep, points: Points, zeta: Floats, pi: Floats, theory: str) -> SpikedModel:
    """Return the model of a maximal step: section 5.2 (exact, large batch) or 5.1 (isotropic, any batch)."""
    assert isinstance(scenario.step, MaximalStep)
    activation, target = scenario.activation, scenario.target
    normalised = np.sqrt([1.0, 1.0, 2.0, 6.0])
    c0, c1, c2, c3 = activation.hermite(3) * normalised  # c_j = E He_j sigma
    g0, g1, g2 = target.hermite(2) * normalised[:3]
    g1 = g1 * (1 - 2 * points["flip"])  # turned classes: y is a smaller sign and noise, its g0 and g2 are zero
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
        gamma = np.where(extra > 0, np.abs(g1) / np.where(extra > 0, G, 1.0), 1.0)
        u = e * c1 * (np.copysign(1.0, g1) * G)[:, None]
        return SpikedModel(pi, u, s, gamma, noise, slope, e * g1[:, None] * c3)
    variance = expectation(lambda z: activation.derivative(z) ** 2, kinks=activation.kinks)[0] - c1**2
    G = np.sqrt(g1**2 + M2 / batch_per_dim)
    gamma = np.divide(g1, G, out=np.ones_like(G), where=G > 0)
    spread = e**2 * (M2 / batch_per_dim)[:, None] * variance
    # without spread s keeps its sign: the published map at an infinite batch
    s = np.where(spread > 0, np.sqrt(s**2 + spread), s)
    return SpikedModel(pi, e * c1 * G[:, None], s, gamma, noise, ones, 0 * ones)
