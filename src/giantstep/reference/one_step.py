"""One giant step of the first layer on the population, then a ridge read-out.

Page: "Spiked random features" (spiked_features), sections 2, 5.2 and 5.4.

Problem. Labels y = g(<w*, x>) + sqrt(delta) noise. The rows of the first layer start on
the unit sphere, or as N(0, I/d). Block q holds a fraction pi_q of them and has the second
layer zeta_q. One gradient step of size eta, on a batch much larger than d, moves every row
along w*. Then the second layer is fitted to n = alpha d fresh samples.

Order of the argument.

1. `population_step`: the row of block q becomes s_q w0 + u_q w*. What is left of order
   1/sqrt(d) in it shifts all features of the block together: the channel T_q of (5.5).
2. `planted_spike`: or the rows are put there by hand, along v with <v, w*> = gamma.
3. `features`: what the features and the labels are given kappa = <v, x>.
4. The read-out is that of `ridge_readout`.

An example, from the table of section 16: tanh, sin, eta = 3.

>>> model = Model(activation=np.tanh, target=np.sin)
>>> rows = population_step(model, zeta=[1.0], pi=[1.0], eta=3.0)
>>> print(
...     round(read_out(features(model, rows), alpha=1.5, beta=1.0, ridge=0.1).test, 8)
... )
0.02233818
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.reference.gaussian import Array, Function, normal_rule, smoothed
from giantstep.reference.ridge_readout import Features, read_out

__all__ = ["Model", "Rows", "features", "planted_spike", "population_step", "read_out"]


@dataclass
class Model:
    """The functions of section 1 with the places of their kinks, and the label noise."""  # noqa: E501

    activation: Function
    target: Function
    activation_kinks: Sequence[float] = ()
    target_kinks: Sequence[float] = ()
    noise: float = 0.0


@dataclass
class Rows:
    """Where the rows are: w_i = s_q w0_i + u_q v, <v, w*> = gamma, and their channels.

    A channel is T_q = slope_q kappa mu1_q/s_q + curve_q nu_q, as in (5.5). The first is
    that of <w0_i, v>. Rows N(0, I/d) have a second, that of |w0_i|: section 5.4.
    """

    pi: Array
    u: Array
    s: Array
    gamma: float
    slope: Array  # (channels, k)
    curve: Array  # (channels, k)


def coefficients(function: Function, kinks: Sequence[float]) -> Array:
    """Return E He_j(z) f(z), j = 0, 1, 2, 3, 4 (section 5)."""
    return smoothed(function, kinks, A=np.zeros(1), s=1.0).D[:, 0]


def population_step(
    model: Model,
    zeta: Sequence[float],
    pi: Sequence[float],
    eta: float,
    loss: str = "square",
    gaussian_rows: bool = False,
) -> Rows:
    """Return the rows after one step on the population, section 5.2."""
    c0, c1, c2, c3, c4 = coefficients(model.activation, model.activation_kinks)
    g0, g1, g2, _, _ = coefficients(model.target, model.target_kinks)
    # The step sees y - f, and f starts as a constant (section 5).
    m = 0.0
    if loss == "square":
        m = c0 * np.dot(pi, zeta)
    M1 = g0 - m
    e = eta * np.array(zeta)
    s = 1 + e * M1 * c2
    # <w0_i, w*> is of order 1/sqrt(d). It changes how far row i moves along w* (c2 g2)
    # and by how much the step stretches it (g1 c3): (5.5).
    slope = [s + e * c2 * g2]
    curve = [e * g1 * c3]
    if gaussian_rows:
        # A longer row moves and stretches differently; Var |w0_i| = 1/(2 d).
        slope.append(np.sqrt(0.5) * e * g1 * c3)
        curve.append(np.sqrt(0.5) * (1 + e * M1 * (c2 + c4)))
    return Rows(
        pi=np.array(pi),
        u=e * c1 * g1,
        s=s,
        gamma=1.0,
        slope=np.array(slope),
        curve=np.array(curve),
    )


def planted_spike(
    pi: Sequence[float],
    u: Sequence[float],
    s: Sequence[float],
    gamma: float,
    gaussian_rows: bool = False,
) -> Rows:
    """Return rows planted by hand: their channel is kappa mu1_q (section 4.1)."""
    scale = np.array(s, dtype=float)
    slope = [scale]
    curve = [0 * scale]
    if gaussian_rows:
        # s nu with omega' = 1/2 (section 5.4), here with omega = 1.
        slope.append(0 * scale)
        curve.append(np.sqrt(0.5) * scale)
    return Rows(
        pi=np.array(pi),
        u=np.array(u, dtype=float),
        s=scale,
        gamma=gamma,
        slope=np.array(slope),
        curve=np.array(curve),
    )


def places_of_kinks(model: Model, rows: Rows) -> list[float]:
    """Return where the functions of kappa bend, or turn quickly."""
    spread = np.sqrt(1 - rows.gamma**2)
    places = [0.0]
    widths = [1.0]
    for u, s in zip(rows.u, rows.s):
        if u != 0:
            widths.append(abs(s / u))
    if rows.gamma != 0:
        places += [kink / rows.gamma for kink in model.target_kinks]
        if spread > 0 and len(model.target_kinks) > 0:
            widths.append(spread / abs(rows.gamma))
    # Panels that shrink towards each place, down to the smallest width there.
    edges = list(places)
    for place in places:
        size = 1.0
        while size > min(widths):
            size = size / 2
            edges += [place - size, place + size]
    return edges


def features(model: Model, rows: Rows) -> Features:
    """Return the features and labels given kappa, section 2."""
    kappa, weights = normal_rule(places_of_kinks(model, rows))
    mu0 = []
    mu1 = []
    mu2 = []
    T0 = []
    for q in range(len(rows.pi)):
        u = rows.u[q]
        s = rows.s[q]
        block = smoothed(model.activation, model.activation_kinks, u * kappa, s)
        mu0.append(block.mu0)
        mu1.append(block.mu1)
        mu2.append(block.mu2)
        channels = []
        for slope, curve in zip(rows.slope[:, q], rows.curve[:, q]):
            channels.append(slope * kappa * block.D[1] + curve * block.nu)
        # The last channel is <w0_i, v_perp>: it is below, in T1.
        channels.append(0 * kappa)
        T0.append(channels)
    # The label is g(gamma kappa + rho xi): the same integrals as a block's.
    gamma = rows.gamma
    rho = np.sqrt(1 - gamma**2)
    if rho > 0:
        label = smoothed(model.target, model.target_kinks, gamma * kappa, rho)
        h = label.mu0
        h1 = label.mu1
        hh = label.square + model.noise
    else:
        h = model.target(gamma * kappa)
        h1 = 0 * kappa
        hh = h**2 + model.noise
    # Along v_perp, of which no block has a mean, the channel is mu1_q xi.
    channels = np.shape(T0)[1]
    T1 = np.zeros((len(rows.pi), channels, 1, len(kappa)))
    T1[:, -1, 0] = mu1
    return Features(
        weights=weights,
        pi=rows.pi,
        mu0=np.array(mu0),
        mu1=np.array(mu1),
        mu2=np.array(mu2),
        h=h,
        hh=hh,
        h1=h1[None],
        T0=np.array(T0),
        T1=T1,
    )
