"""Two ridge read-outs of one target that differ: how their outputs overlap.

beyond_the_error (2.1)-(2.6) and, at a finite dimension, (2.12)-(2.14). Directions that
one network has learnt the other may not have, so that all averages are over the
coordinates z of the target. One pair of fits at a time; `pairs` has those of networks
alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.readout.first_order import FirstOrder
from giantstep.core.readout.output_law import OutputLaw


@dataclass(frozen=True, eq=False)
class FitAt:
    """One fit of the pair: its first-order solution (of one point) and the law of its
    output at N inputs.
    """

    first: FirstOrder
    law: OutputLaw

    @property
    def width(self) -> float:
        """Neurons per dimension."""
        return float(self.first.equations.width[0])

    @property
    def samples(self) -> float:
        """Samples per dimension."""
        return float(self.first.equations.ratio[0]) * self.width

    @cached_property
    def denominator(self) -> Floats:
        """The b + V at the inputs (N,), few_steps_readout (4.4)."""
        response = self.first.response
        V = self.law.quadratic(response.S[0], response.R[0]) / self.width
        return np.asarray(self.first.equations.b[0] + V)

    def answer(self, labels: Labels, dim: float) -> Floats:
        """Return H^-1 (F, F), how the fitted numbers answer to what drives them:
        (2.12).
        """
        functions = self.law.layer.functions
        response = self.first.response
        k = len(response.R[0])
        # the means first, whose prior has the variance d R, then channel after channel
        prior = np.tile(response.R[0], len(functions) // k)
        prior[:k] *= dim
        prior[k:] *= self.first.equations.features.omega[0]
        H = (functions * (labels.weights / self.denominator)) @ functions.T
        H += np.diag(self.width / (self.samples * prior))
        return np.asarray(np.linalg.inv(H), dtype=np.float64)

    @cached_property
    def lift(self) -> Floats:
        """S (k, k): how a fluctuation of the bulk answers to what drives it."""
        return self.first.response.S[0]

    @cached_property
    def kept(self) -> Floats:
        """I - S Vh1 (k, k)."""
        response = self.first.response
        return np.asarray(np.eye(len(response.S[0])) - response.S[0] @ response.Vh1[0])


@dataclass(frozen=True, eq=False)
class Labels:
    """What both fits are held against at N inputs of the weights w: E[y|z], and
    E[y^2|z] with the label noise.
    """

    weights: Floats  # (N,), they sum to one
    mean: Floats  # (N,): E[y|z]
    square: Floats  # (N,): E[y^2|z], with the label noise


def disagreement(
    a: FitAt,
    b: FitAt,
    labels: Labels,
    common: float,
    same_layer: bool,
    dim: float = np.inf,
) -> float:
    """Return E(f_a - f_b)^2 of two fits that have `common` training samples per
    dimension: (2.6), (2.13).
    """
    # the errors y - f_a and y - f_b differ by f_b - f_a
    error_a = _product(a, a, labels, common=a.samples, same_layer=True, dim=dim)
    error_b = _product(b, b, labels, common=b.samples, same_layer=True, dim=dim)
    product = _product(a, b, labels, common=common, same_layer=same_layer, dim=dim)
    return error_a + error_b - 2 * product


def _product(
    a: FitAt, b: FitAt, labels: Labels, common: float, same_layer: bool, dim: float
) -> float:
    """Return the mean product of the errors y - f of two networks at one fresh input: M
    of (2.9).
    """
    source = _mean_residual(a, b, labels)
    if same_layer:
        overlap = _same_layer(a, b, labels, source=source, common=common, dim=dim)
    else:
        overlap = _own_layers(a, b, labels, source=source, common=common)
    # RES_ab of (2.2), at every input
    residual = source + overlap
    product = float(labels.weights @ residual)
    # the fitted numbers do not vary in the limit
    if np.isinf(dim):
        return product
    return product + _spread(a, b, labels, residual=residual, common=common, dim=dim)


def _spread(
    a: FitAt, b: FitAt, labels: Labels, residual: Floats, common: float, dim: float
) -> float:
    """Return what the variation of the fitted numbers with the samples adds to E f_a
    f_b: (2.12)-(2.14).
    """
    weights = labels.weights * residual / (a.denominator * b.denominator)
    layer_a = a.law.layer
    layer_b = b.law.layer
    # the covariance of the numbers of a with those of b, and its form at the inputs
    driven = (layer_a.functions * weights) @ layer_b.functions.T
    covariance = common / (a.samples * b.samples) * a.answer(labels, dim) @ driven
    covariance = covariance @ b.answer(labels, dim)
    along_a = covariance.T @ layer_a.functions
    fitted = np.sum(along_a * (layer_b.functions * labels.weights))
    # the overlap Q1 has counted all coordinates like those of the bulk already: (2.14)
    of_bulk = a.lift @ (layer_a.mu1 * weights) @ layer_b.mu1.T @ b.lift
    counted = np.sum((of_bulk.T @ layer_a.mu1) * (layer_b.mu1 * labels.weights))
    counted = counted * common / (a.width * b.width)
    return float(fitted - layer_a.z.shape[1] * counted) / dim


def _mean_residual(a: FitAt, b: FitAt, labels: Labels) -> Floats:
    """Return E[(y - m_a)(y - m_b)|z] (N,): RES_ab of (2.2) without Q_ab."""
    # the labels are the same for both: only their second moment is needed
    one = a.law.mean
    other = b.law.mean
    return np.asarray(labels.square - (one + other) * labels.mean + one * other)


def _own_layers(
    a: FitAt, b: FitAt, labels: Labels, source: Floats, common: float
) -> Floats:
    """Return Q_ab at the inputs (N,) of networks with layers of their own: (2.5)."""
    functions = _products(a.law.layer.mu1, b.law.layer.mu1)
    # Q1_ab = S_a E[...] S_b, on matrices laid out row by row
    lift = np.asarray(np.kron(a.lift, b.lift) * common / (a.width * b.width))
    return _answered(
        functions,
        lift,
        pushed=np.zeros(len(functions)),
        source=source,
        weights=labels.weights / (a.denominator * b.denominator),
    )


def _same_layer(
    a: FitAt, b: FitAt, labels: Labels, source: Floats, common: float, dim: float
) -> Floats:
    """Return Q_ab at the inputs (N,) of networks with the same layer: (2.3), (2.4)."""
    layer = a.law.layer
    k = len(layer.mu1)
    functions = np.concatenate([_products(layer.mu1, b.law.layer.mu1), layer.mu2])
    # the linear map (A, e) -> (Q1, Q2), column by column
    columns = []
    for unit in np.eye(k * k + k):
        A = unit[: k * k].reshape(k, k)
        columns.append(_lifted(a, b, A=A, e=unit[k * k :]))
    lift = np.stack(columns, axis=1)
    # what the signals of both push: their channels, and at a finite size their means
    R = a.first.response.R[0] * b.first.response.R[0]
    omega = a.first.equations.features.omega[0].reshape(-1, k)
    channels = a.law.fitted.x * b.law.fitted.x / omega
    means = a.law.fitted.theta * b.law.fitted.theta / dim
    e = (channels.sum(axis=0) + means) / R
    return _answered(
        functions,
        lift * common / a.width**2,
        pushed=_lifted(a, b, A=np.zeros((k, k)), e=e),
        source=source,
        weights=labels.weights / (a.denominator * b.denominator),
    )


def _lifted(a: FitAt, b: FitAt, A: Floats, e: Floats) -> Floats:
    """Return beta (Q1_ab, Q2_ab), flat, that A and e cause: (2.4)."""
    one = a.first.response
    other = b.first.response
    R = one.R[0] * other.R[0]
    gain = R / one.block_width[0]
    # the rows that both share couple all blocks: Q2 first, Q1 follows from it
    coupling = gain[:, None] * one.g[0, 0] * other.g[0, 0]
    driven = gain * (e + np.einsum("iq,ij,jq->q", a.kept, A, b.kept))
    Q2 = np.linalg.solve(np.eye(len(R)) - coupling, driven)
    Q1 = a.lift @ (A + np.diag(Q2 / R)) @ b.lift
    return np.concatenate([Q1.ravel(), Q2])


def _products(first: Floats, second: Floats) -> Floats:
    """Return all products of two sets of functions (k_a k_b, N)."""
    return (first[:, None] * second[None]).reshape(-1, first.shape[1])


def _answered(
    functions: Floats, lift: Floats, pushed: Floats, source: Floats, weights: Floats
) -> Floats:
    """Return Q = functions . q where q = pushed + lift E[functions (source + Q)], with
    weights at the inputs.
    """
    weighted = functions * weights
    # Q is linear in q: one system for q
    matrix = np.eye(len(functions)) - lift @ (weighted @ functions.T)
    q = np.linalg.solve(matrix, pushed + lift @ (weighted @ source))
    return np.asarray(q @ functions)
