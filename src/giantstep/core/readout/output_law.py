"""The law of the output of a fitted network at inputs whose coordinates z along the
target are given.

beyond_the_error (1.1), (1.2) and, for inputs of another law than those of the fit,
(4.1)-(4.3): the output is Gaussian with mean m(z) and variance Q(z). Neither asks which
directions were learnt. One point at a time: k blocks of neurons, R coordinates of the
input that any row or the target depends on, N inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.gaussian.functions import Values, tabulated


@dataclass(frozen=True, eq=False)
class Blocks:
    """The first layer: rows s_q b_i + U_q, which spread by (JU_q, Js_q) eps_i/sqrt(d)
    inside block q.
    """

    activation: Function
    U: Floats  # (k, R): what the rows of a block have along the coordinates
    s: Floats  # (k,): length of the bulk rows
    unit: Floats  # (k,): the same with the sign that the bulk rows have in the fit
    JU: Floats  # (k, R, C): how a channel moves the rows along the coordinates
    Js: Floats  # (k, C): and how it changes their length


@dataclass(frozen=True, eq=False)
class Fitted:
    """The second layer: its means theta (k,), its channels x (C, k), and its
    fluctuations.
    """

    theta: Floats  # (k,)
    x: Floats  # (C, k)
    Q1: Floats  # (k, k): what neurons share through the bulk of the inputs
    Q2: Floats  # (k,): what each neuron has for itself
    covariance: Floats | None = None
    """Of (theta, x) from sample to sample (k + C k, k + C k), of order 1/d; None: not
    counted. (2.12).
    """
    counted_twice: Floats | None = None
    """What Q1 has of the R coordinates (k, k), which the covariance counts, too:
    (2.14).
    """


@dataclass(frozen=True, eq=False)
class LayerAt:
    """The first layer at inputs z (N, R) whose other coordinates have the standard
    deviation `bulk`, for all fits.
    """

    blocks: Blocks
    z: Floats  # (N, R)
    # other than 1 where the inputs are not those of the fit
    bulk: float = 1.0

    @cached_property
    def A(self) -> Floats:
        """U_q . z (k, N)."""
        return self.blocks.U @ self.z.T

    def _at(self, activation: Function, values: Values) -> Floats:
        # a pre-activation is U.z + s tau times a standard normal
        scale = self.blocks.s * self.bulk
        return tabulated(activation, values, self.A[None], scale[None])[:, 0]

    @cached_property
    def D(self) -> Floats:
        """D_0 to D_4 of the blocks (5, k, N)."""
        return self._at(self.blocks.activation, Function.smoothed)

    @cached_property
    def mu1(self) -> Floats:
        """(4.2) (k, N)."""
        return self.bulk * self.blocks.unit[:, None] * self.D[1]

    @cached_property
    def mu2(self) -> Floats:
        """(4.2) (k, N)."""
        (noise,) = self._at(self.blocks.activation, _noise)
        # what is left after cancellation may be negative by rounding
        return np.maximum(noise, 0.0)

    @property
    def stretch(self) -> Floats:
        """s_q tau^2, which multiplies D_2 in (4.1) (k, 1)."""
        return (self.blocks.s * self.bulk**2)[:, None]

    @cached_property
    def functions(self) -> Floats:
        """B of (4.1), the means first, then channel after channel (k + C k, N)."""
        blocks = self.blocks
        D = self.D
        # a step along a channel moves the rows along z and makes them longer
        along = np.einsum("qrc,nr->cqn", blocks.JU, self.z) * D[1]
        longer = blocks.Js.T[:, :, None] * self.stretch * D[2]
        channels = along + longer
        return np.concatenate([D[0], channels.reshape(-1, len(self.z))])

    @cached_property
    def function_gradients(self) -> Floats:
        """dB/dz (k + C k, N, R)."""
        blocks = self.blocks
        D = self.D
        # z stands in U.z, where every D_n has the slope D_{n+1}, and as a factor JU.z
        bent = np.einsum("qrc,nr->cqn", blocks.JU, self.z) * D[2]
        bent = bent + blocks.Js.T[:, :, None] * self.stretch * D[3]
        along_rows = bent[..., None] * blocks.U[:, None]
        along_channel = D[1][..., None] * np.moveaxis(blocks.JU, 2, 0)[:, :, None]
        channels = along_rows + along_channel
        means = D[1][..., None] * blocks.U[:, None]
        return np.concatenate([means, channels.reshape(-1, *means.shape[1:])])

    @cached_property
    def e1(self) -> Floats:
        """s_q tau D_2 (k, N): section 5."""
        return self.bulk * self.blocks.unit[:, None] * self.D[2]

    @cached_property
    def slope_noise(self) -> Floats:
        """E sigma'^2 - D_1^2 (k, N)."""
        (power,) = self._at(_slope_of(self.blocks.activation), _second_moment)
        return np.maximum(power - self.D[1] ** 2, 0.0)

    @cached_property
    def value_slope(self) -> Floats:
        """x_q = E sigma sigma' - D_0 D_1 - mu1 e1 (k, N)."""
        (product,) = self._at(_product_of(self.blocks.activation), _mean)
        # what is left beside the means and the parts that are linear in the bulk
        return product - self.D[0] * self.D[1] - self.mu1 * self.e1


@dataclass(frozen=True, eq=False)
class OutputLaw:
    """The law of the output of a fit at the inputs of a layer."""

    layer: LayerAt
    fitted: Fitted

    @cached_property
    def along(self) -> tuple[Floats, Floats]:
        """What the channels make of the rows: (J t)_q along the coordinates (k, R), and
        on s (k,).
        """
        x = self.fitted.x
        blocks = self.layer.blocks
        moved = np.einsum("qrc,cq->qr", blocks.JU, x)
        stretched = np.einsum("qc,cq->q", blocks.Js, x)
        return moved, stretched

    @cached_property
    def mean(self) -> Floats:
        """m(z) (N,), (4.1)."""
        moved, stretched = self.along
        layer = self.layer
        along = (moved @ layer.z.T) * layer.D[1]
        longer = stretched[:, None] * layer.stretch * layer.D[2]
        return self.fitted.theta @ layer.D[0] + np.sum(along + longer, axis=0)

    @cached_property
    def gradient(self) -> Floats:
        """dm/dz (N, R), (5.1)."""
        moved, stretched = self.along
        layer = self.layer
        D = layer.D
        # D_n has the slope D_{n+1} along U, and J t . z has J t
        bent = (
            self.fitted.theta[:, None] * D[1]
            + (moved @ layer.z.T) * D[2]
            + stretched[:, None] * layer.stretch * D[3]
        )
        return bent.T @ layer.blocks.U + D[1].T @ moved

    def quadratic(self, Q1: Floats, Q2: Floats) -> Floats:
        """Return mu1^T Q1 mu1 + mu2 . Q2 (N,)."""
        mu1 = self.layer.mu1
        return np.sum(mu1 * (Q1 @ mu1), axis=0) + Q2 @ self.layer.mu2

    @cached_property
    def variance(self) -> Floats:
        """Q(z) (N,), (4.3)."""
        return self.quadratic(self.fitted.Q1, self.fitted.Q2)

    @cached_property
    def spread(self) -> Floats:
        """What the variation of the fitted means adds to the variance at a finite
        dimension (N,): (2.13), (2.14).
        """
        fitted = self.fitted
        mu1 = self.layer.mu1
        # in the limit nothing is counted
        if fitted.covariance is None or fitted.counted_twice is None:
            return np.zeros(len(self.layer.z))
        functions = self.layer.functions
        of_means = np.sum(functions * (fitted.covariance @ functions), axis=0)
        # Q1 has counted the coordinates like all other directions
        counted = np.sum(mu1 * (fitted.counted_twice @ mu1), axis=0)
        return np.asarray(of_means - counted)


def _slope_of(activation: Function) -> Function:
    return Function(
        activation.derivative,
        kinks=activation.kinks,
        name=f"slope of {activation.name}",
    )


def _noise(activation: Function, A: Floats, s: Floats) -> Floats:
    return activation.moments(A, s).noise[None]


def _mean(activation: Function, A: Floats, s: Floats) -> Floats:
    return activation.moments(A, s).mean[None]


def _second_moment(activation: Function, A: Floats, s: Floats) -> Floats:
    return activation.second_moment(A, s)[None]


def _product_of(activation: Function) -> Function:
    def product(z: Floats) -> Floats:
        return np.asarray(activation(z) * activation.derivative(z))

    return Function(
        product, kinks=activation.kinks, name=f"{activation.name} times its slope"
    )
