"""The gradient on the population as a motion of the layer, and the noise of a batch beside it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from giantstep.families.network.layer import BlockRows, Layer, SharedView, scale_of, views
from giantstep.families.network.problem import Problem
from giantstep.families.network.tolerances import RANK
from giantstep.gaussian import Function
from giantstep.gaussian.conditional import Residual
from giantstep.gaussian.functions import tabulated
from giantstep.readout.stacked import Stacked
from giantstep.types import Floats


@dataclass(frozen=True, eq=False)
class Gradient(Stacked):
    """The population gradient as the motion of a layer, and the noise of a batch of d samples beside it."""

    motion: BlockRows
    slopes: Floats  # (M, k, k): E[D_1q D_1c]
    bends: Floats  # (M, k): E[D_0 D_2]
    common: Floats  # (M, k, k): covariance of the noise that all neurons of two blocks share
    total: Floats  # (M, k): variance of all of the noise of a neuron


def follow_gradient(
    problem: Problem, layer: Layer, share: Floats, whitening: Floats, with_noise: bool = False
) -> Gradient:
    """Return the gradient of every set: structured_inputs (3.1)-(3.5), finite_size_steps (2.2), (6.1)."""
    parts, order = [], []
    for view in views(problem, layer):
        rows = view.rows
        parts.append(_gradient_of(problem, layer.take(rows), view, share[rows], whitening[rows], with_noise))
        order.append(rows)
    return Gradient.join(parts).take(np.argsort(np.concatenate(order)))


def _gradient_of(
    problem: Problem, layer: Layer, view: SharedView, share: Floats, whitening: Floats, with_noise: bool
) -> Gradient:
    zeta = problem.zeta[:, None]
    s = scale_of(problem, layer)
    A = layer.U @ view.basis.learnt @ view.given.nodes.T
    D = tabulated(problem.activation, Function.smoothed, A, s)
    said = (share[:, None] @ D[0])[:, 0]
    residual = Residual(view.given, view.basis, problem.kept[view.rows], said)
    inputs, power = problem.inputs, 1 - whitening[:, None]
    slope = np.where(inputs.eigenvalues > 0, np.maximum(inputs.eigenvalues, 1e-300) ** power, 0.0)  # lambda^(1-c)
    ones = np.ones((len(slope), layer.U.shape[2] - len(inputs.atoms)))  # what is planted, noise: on isotropic inputs
    pull = np.concatenate([slope[:, inputs.atoms], ones], axis=1)  # the same at the coordinates (M, R)
    growth, bent = residual.mean(D[2]), residual.linear(D[3])  # E[res D_2] (M, k), E[res D_3 zt] (M, k, R)
    bend = (bent[:, :, None, :] @ layer.JU)[:, :, 0] + (s * residual.mean(D[4]))[..., None] * layer.Js
    U = zeta * pull[:, None] * residual.linear(D[1])
    B = zeta * growth[..., None] * slope[:, None] * layer.B
    turned = residual.quadratic(D[2], layer.JU) + s[..., None, None] * bent[..., None] * layer.Js[:, :, None, :]
    JU = zeta[..., None] * pull[:, None, :, None] * turned
    grown = growth[..., None, None] * layer.JB + layer.B[..., None] * bend[:, :, None, :]
    JB = zeta[..., None] * slope[:, None, :, None] * grown
    weighted = D[1] * view.given.weights
    slopes = weighted @ np.swapaxes(D[1], 1, 2)
    grown_means = growth[:, None, :, None] * layer.feedback - (slopes * share[:, None])[:, None] @ layer.feedback
    F = zeta * slope[:, :, None, None] * grown_means
    bends = (D[0] * D[2]) @ view.given.weights
    shared, total = np.zeros_like(slopes), np.zeros(s.shape)
    if with_noise:
        derivative = Function(problem.activation.derivative, kinks=problem.activation.kinks)
        power = view.given.weights * residual.power(problem.numbers["noise"][view.rows])
        shared = (D[1] * power[:, None]) @ np.swapaxes(D[1], 1, 2)
        total = (derivative.second_moment(A, s[..., None]) @ power[:, :, None])[..., 0]
    return Gradient(BlockRows(U, B, JU, JB, F), slopes, bends, shared, total)


# -- the noise of a finite batch as a part of every row, an approximation ----------------------------------------------


def add_noise(problem: Problem, layer: Layer, e: Floats, shared: Floats, total: Floats) -> Layer:
    """Return the layer with the noise of a batch: few_steps_readout (6.2)-(6.3), structured_inputs (7.1)-(7.2).

    `shared` (M, k, k) is the covariance of the noise that all neurons share, a coordinate of every atom. `total` (M, k)
    is the variance with each neuron's own, which widens the bulk. With several atoms no step follows.
    """
    inputs, lam = problem.inputs, problem.inputs.eigenvalues
    R, C, s = layer.U.shape[2], len(layer.is_length), scale_of(problem, layer)
    common = np.diagonal(shared, axis1=1, axis2=2)
    own = np.maximum(e**2 * (total - common), 0.0)
    tau, B = np.sqrt(own), np.sqrt(layer.B**2 + own[..., None] * lam)
    scale = np.sqrt(inputs.average(lam * B**2))
    new = (e * np.sqrt(common))[..., None]  # one direction, as bulks of several atoms read it
    if problem.isotropic:
        values, vectors = np.linalg.eigh(shared)
        kept = np.any(values > RANK * values.max(axis=1, keepdims=True), axis=0)
        new = e[..., None] * np.sqrt(np.maximum(values[:, None, kept], 0.0)) * vectors[..., kept]
    moved = (new[..., None] * lam * np.sqrt(inputs.masses)).reshape(*e.shape, -1)
    n, each = moved.shape[2], R if problem.isotropic else 0
    after = layer.extended((False,) * (n + each + 1), moved)
    after.JU[:, :, R + np.arange(n), C + np.arange(n)] = np.tile(np.sqrt(lam) * B, new.shape[2])
    after.JU[:, :, np.arange(each), C + n + np.arange(each)] = tau[..., None]
    after.Js[:] *= (s / scale)[..., None]
    third, fourth = inputs.average(lam**3 * layer.B**2), inputs.average(lam**4)
    after.Js[..., -1] = np.sqrt(4 * own * third + 2 * own**2 * fourth) / (2 * scale)
    JB, of_entries = 0 * after.JB, after.own
    if problem.isotropic:
        sign = np.sign(layer.B)
        B, JB = sign * B, after.Js[:, :, None, :] * sign[..., None]
    else:
        of_entries = np.pad(tau[..., None] * inputs.coordinate_eigenvalues, ((0, 0), (0, 0), (0, n)))
    means = np.sqrt(lam)[:, None, None] * tau[:, None, :, None] * np.eye(tau.shape[1])  # finite_size_steps (2.7)
    return dataclasses.replace(
        after,
        B=B,
        JB=JB,
        own=of_entries,
        feedback=np.concatenate([layer.feedback, means], axis=3),
        rows_known=layer.rows_known & False,
        all_terms=False,
    )
