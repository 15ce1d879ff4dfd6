"""The gradient on the population as a motion of the layer, and the noise of a batch beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.families.network.layer import BlockRows, Layer, SharedView, scale_of, views
from giantstep.families.network.problem import Problem
from giantstep.gaussian import Function
from giantstep.gaussian.residual import Residual
from giantstep.gaussian.tables import tabulated
from giantstep.types import Floats


@dataclass(frozen=True)
class Gradient:
    """The population gradient as the motion of a layer, and the noise of a batch of d samples beside it."""

    motion: BlockRows
    slopes: Floats  # (M, k, k): E[D_1q D_1c]
    bends: Floats  # (M, k): E[D_0 D_2]
    shared: Floats  # (M, k, k): covariance of the noise that all neurons of two blocks share
    total: Floats  # (M, k): variance of all of the noise of a neuron


def follow_gradient(
    problem: Problem, layer: Layer, square_loss: bool, whitening: Floats, with_noise: bool = False
) -> Gradient:
    """Return the gradient of every set: structured_inputs (3.1)-(3.5), averages at the old U and s; F: (2.2), (6.1)."""
    parts, order = [], []
    for view in views(problem, layer):
        parts.append(_gradient_of(problem, layer.take(view.rows), view, square_loss, whitening[view.rows], with_noise))
        order.append(view.rows)
    back = np.argsort(np.concatenate(order))
    U, B, JU, JB, F, *others = (np.concatenate(column)[back] for column in zip(*parts))
    return Gradient(BlockRows(U, B, JU, JB, F), *others)


def _gradient_of(
    problem: Problem, layer: Layer, view: SharedView, square_loss: bool, whitening: Floats, with_noise: bool
) -> tuple[Floats, ...]:
    zeta = problem.zeta[:, None]
    s = scale_of(problem, layer)
    A = layer.U @ view.basis.learnt @ view.given.nodes.T
    D = tabulated(problem.activation, Function.smoothed, A, s)
    share = problem.pi[view.rows] * problem.zeta if square_loss else np.zeros(s.shape)
    said = (share[:, None] @ D[0])[:, 0]
    residual = Residual(view.given, view.basis, problem.kept[view.rows], said)
    slope, pull = _slopes(problem, layer, whitening)
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
    return U, B, JU, JB, F, slopes, bends, shared, total


def _slopes(problem: Problem, layer: Layer, whitening: Floats) -> tuple[Floats, Floats]:
    """Return lambda F(lambda) = lambda^(1-c) at the atoms (M, K) and at the coordinates (M, R)."""
    inputs, extra = problem.inputs, layer.U.shape[2] - len(problem.inputs.atoms)
    power = 1 - whitening[:, None]
    slope = np.where(inputs.eigenvalues > 0, np.maximum(inputs.eigenvalues, 1e-300) ** power, 0.0)
    ones = np.ones((len(slope), extra))  # planted directions and the noise of batches, on isotropic inputs
    return slope, np.concatenate([slope[:, inputs.atoms], ones], axis=1)
