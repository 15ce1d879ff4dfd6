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
    M, k, R = layer.U.shape
    s = np.abs(layer.B[..., 0])
    own = np.maximum(e**2 * (total - np.diagonal(shared, axis1=1, axis2=2)), 0.0)
    tau = np.sqrt(own)
    values, vectors = np.linalg.eigh(shared)
    kept = np.any(values > RANK * values.max(axis=1, keepdims=True), axis=0)
    new = e[..., None] * np.sqrt(np.maximum(values[:, None, kept], 0.0)) * vectors[..., kept]
    n, C = new.shape[2], len(layer.spread.columns)
    scale = np.sqrt(s**2 + own)
    spread = layer.spread.extended((*("batch",) * n, *("own",) * (R + 1)), n)
    spread.JU[:, :, R + np.arange(n), C + np.arange(n)] = scale[..., None]
    spread.JU[:, :, np.arange(R), C + n + np.arange(R)] = tau[..., None]
    Js = spread.Js * (s / scale)[..., None]
    Js[..., -1] = np.sqrt((4 * s**2 * own + 2 * own**2) / (4 * scale**2))
    sign = np.sign(layer.B)
    spread = dataclasses.replace(spread, Js=Js, JB=Js[:, :, None, :] * sign[..., None])
    frame = np.pad(layer.frame, ((0, 0), (0, 0), (0, n)))
    U = np.concatenate([layer.U, new], axis=2)
    means = tau[:, None, :, None] * np.eye(k)  # of what each neuron has for itself: finite_size_steps (2.7)
    return dataclasses.replace(
        layer,
        U=U,
        B=scale[..., None] * sign,
        spread=spread,
        frame=frame,
        feedback=np.concatenate([layer.feedback, means], axis=3),
        rows_known=False,
        all_terms=False,
    )


def add_coloured(problem: Problem, layer: Layer, e: Floats, shared: Floats, total: Floats) -> Layer:
    """Return the layer after a first finite batch of inputs with a covariance: structured_inputs (7.1)-(7.2).

    The noise that all neurons share is a coordinate of every atom; what each neuron has for itself widens the bulk.
    """
    inputs, lam = problem.inputs, problem.inputs.eigenvalues
    k, R = layer.U.shape[1:]
    K, C = len(lam), len(layer.spread.columns)
    diagonal = np.diagonal(shared, axis1=1, axis2=2)
    along = e * np.sqrt(diagonal)  # at the first step all blocks have the same slope: the shared noise has rank one
    tau = np.sqrt(np.maximum(e**2 * (total - diagonal), 0.0))[..., None]
    old, s = layer.B, scale_of(problem, layer)
    B = np.sqrt(old**2 + tau**2 * lam)
    scale = np.sqrt(inputs.average(lam * B**2))
    noise: list[Channel] = ["batch"] * K
    spread = layer.spread.extended((*noise, "own"), K)
    spread.JU[:, :, R + np.arange(K), C + np.arange(K)] = np.sqrt(lam) * B
    Js = spread.Js * (s / scale)[..., None]
    third, fourth = inputs.average(lam**3 * old**2), inputs.average(lam**4)
    Js[..., -1] = np.sqrt(4 * tau[..., 0] ** 2 * third + 2 * tau[..., 0] ** 4 * fourth) / (2 * scale)
    own = np.pad(tau * inputs.coordinate_eigenvalues, ((0, 0), (0, 0), (0, K)))
    U = np.concatenate([layer.U, along[..., None] * lam * np.sqrt(inputs.masses)], axis=2)
    frame = np.pad(layer.frame, ((0, 0), (0, 0), (0, K)))
    spread = dataclasses.replace(spread, Js=Js, JB=np.zeros_like(spread.JB))  # no step follows
    means = np.sqrt(lam)[:, None, None] * tau[:, None] * np.eye(k)
    return dataclasses.replace(
        layer,
        U=U,
        B=B,
        spread=spread,
        frame=frame,
        own=own,
        feedback=np.concatenate([layer.feedback, means], axis=3),
        rows_known=False,
        all_terms=False,
    )
