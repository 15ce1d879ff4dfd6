"""The noise of a finite batch as isotropic noise of every row, an approximation: few_steps_readout section 6."""

from __future__ import annotations

import dataclasses

import numpy as np

from giantstep.families.network.layer import Channel, Layer, scale_of
from giantstep.families.network.problem import Problem
from giantstep.families.network.tolerances import RANK
from giantstep.types import Floats


def add_isotropic(problem: Problem, layer: Layer, e: Floats, shared: Floats, total: Floats) -> Layer:
    """Return the layer on isotropic inputs with the noise of a batch, (6.2)-(6.3).

    `shared` (M, k, k) is the covariance of the noise that all neurons share, `total` (M, k) the variance of each
    neuron's own and shared noise together.
    """
    R, C, s = layer.U.shape[2], len(layer.columns), np.abs(layer.B[..., 0])
    own = np.maximum(e**2 * (total - np.diagonal(shared, axis1=1, axis2=2)), 0.0)
    tau, scale = np.sqrt(own), np.sqrt(s**2 + own)
    values, vectors = np.linalg.eigh(shared)
    kept = np.any(values > RANK * values.max(axis=1, keepdims=True), axis=0)
    new = e[..., None] * np.sqrt(np.maximum(values[:, None, kept], 0.0)) * vectors[..., kept]
    n = new.shape[2]
    after = layer.extended((*("batch",) * n, *("own",) * (R + 1)), new)
    after.JU[:, :, R + np.arange(n), C + np.arange(n)] = scale[..., None]
    after.JU[:, :, np.arange(R), C + n + np.arange(R)] = tau[..., None]
    after.Js[:] *= (s / scale)[..., None]
    after.Js[..., -1] = np.sqrt((4 * s**2 * own + 2 * own**2) / (4 * scale**2))
    sign = np.sign(layer.B)
    return _widened(problem, after, scale[..., None] * sign, after.Js[:, :, None, :] * sign[..., None], tau)


def add_coloured(problem: Problem, layer: Layer, e: Floats, shared: Floats, total: Floats) -> Layer:
    """Return the layer after a first finite batch of inputs with a covariance: structured_inputs (7.1)-(7.2).

    The noise that all neurons share is a coordinate of every atom; what each neuron has for itself widens the bulk.
    """
    inputs, lam = problem.inputs, problem.inputs.eigenvalues
    R, K, C = layer.U.shape[2], len(lam), len(layer.columns)
    diagonal = np.diagonal(shared, axis1=1, axis2=2)
    along = e * np.sqrt(diagonal)  # at the first step all blocks have the same slope: the shared noise has rank one
    tau = np.sqrt(np.maximum(e**2 * (total - diagonal), 0.0))
    B = np.sqrt(layer.B**2 + tau[..., None] ** 2 * lam)
    scale = np.sqrt(inputs.average(lam * B**2))
    noise: list[Channel] = ["batch"] * K
    after = layer.extended((*noise, "own"), along[..., None] * lam * np.sqrt(inputs.masses))
    after.JU[:, :, R + np.arange(K), C + np.arange(K)] = np.sqrt(lam) * B
    after.Js[:] *= (scale_of(problem, layer) / scale)[..., None]
    third, fourth = inputs.average(lam**3 * layer.B**2), inputs.average(lam**4)
    after.Js[..., -1] = np.sqrt(4 * tau**2 * third + 2 * tau**4 * fourth) / (2 * scale)
    own = np.pad(tau[..., None] * inputs.coordinate_eigenvalues, ((0, 0), (0, 0), (0, K)))
    return _widened(problem, dataclasses.replace(after, own=own), B, 0 * after.JB, tau)  # no step follows


def _widened(problem: Problem, layer: Layer, B: Floats, JB: Floats, tau: Floats) -> Layer:
    """Return the layer with a wider bulk, and the means of what each neuron has for itself: finite_size_steps (2.7)."""
    root = np.sqrt(problem.inputs.eigenvalues)[:, None, None]
    means = root * tau[:, None, :, None] * np.eye(tau.shape[1])
    feedback = np.concatenate([layer.feedback, means], axis=3)
    return dataclasses.replace(layer, B=B, JB=JB, feedback=feedback, rows_known=False, all_terms=False)
