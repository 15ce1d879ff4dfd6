"""Adam's first step, the sign of the gradient: where it leaves the first layer.

Page: "The sign step" (sign_step), sections 1 and 2.

Problem. Labels y = g(<w*, x>) + sqrt(delta) noise. Every weight moves by rate/sqrt(d)
along the sign of its gradient, on a batch of alpha0 d samples or on the population. The
sign is taken coordinate by coordinate, so the law of w~_i = sqrt(d) w*_i matters: here a
mixture of normal laws and atoms, and g is smooth.

Order of the argument.

1. `gradient`: an entry of the gradient is a part a_i that all rows share, and a normal
   part of variance tau^2 that each row has for itself, (2.1) and (2.2).
2. `cells`: coordinates with one value of a are a cell; the law of a, section 2.
3. `step`: the mean of the sign given a is what is learnt, (2.3) and (2.4).

`sign_readout` then fits the second layer after a step on the population. The file leaves
out rows N(0, I/d), (3.7).

An example, from section 11: relu, three Hermite terms, w~ of size one everywhere.

>>> network = Network(
...     activation=lambda z: np.maximum(z, 0),
...     slope=lambda z: np.heaviside(z, 0.5),
...     kinks=[0.0],
...     target=lambda z: 0.5 + z + 0.4 * (z**2 - 1),
...     zeta=[1, -1],
...     pi=[0.5, 0.5],
...     noise=0.1,
...     law=[(1.0, 1.0, 0.0)],
... )
>>> layer = step(network, rate=1.0)
>>> print(layer.u.round(6), round(layer.gamma, 6))
[ 0.987811 -0.987811] 1.0
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from giantstep.reference.gaussian import (
    REACH,
    Array,
    Function,
    Rule,
    even_rule,
    normal_rule,
    smoothed,
)

ZERO = 1e-12
"""What is smaller is zero but for rounding."""


@dataclass
class Network:
    """Section 1. `slope` is the derivative of the activation."""

    activation: Function
    slope: Function
    target: Function
    zeta: Sequence[float]
    pi: Sequence[float]
    kinks: Sequence[float] = ()
    noise: float = 0.0
    # Components (weight, mean, variance) of w~; its second moment is 1.
    law: Sequence[tuple[float, float, float]] = ((1.0, 0.0, 1.0),)
    # The step of the rule for a. That of the page is 0.3.
    mesh: float = 0.2


@dataclass
class Gradient:
    """What section 2 needs of the network and the batch."""

    A1: float  # a_i = A1 w~_i + noise of the batch
    noise: float  # the variance of that noise
    B: float  # Cov(x_ji, xi_ji)
    tau: float  # the standard deviation of xi
    c1: float
    c2: float
    c3: float
    g2: float


@dataclass
class Cells:
    """Coordinates by their value of a: the mass of each cell, a, and E[w~ | a]."""

    mu: Array
    a: Array
    wm: Array


@dataclass
class Layer:
    """Where the rows are, (2.4); `profile` is s_q(a) in each cell."""

    u: Array  # (k,)
    s: Array  # (k,)
    row_norm: Array  # (k,), |w|^2
    profile: Array  # (k, cells)
    gamma: float
    e: Array  # (k,)
    cells: Cells
    gradient: Gradient


def gradient(network: Network, alpha0: float = np.inf) -> Gradient:
    """Return (2.1) and (2.2)."""
    at_zero = np.zeros(1)
    sigma = smoothed(network.activation, network.kinks, A=at_zero, s=1.0)
    g = smoothed(network.target, (), A=at_zero, s=1.0)
    slope = smoothed(network.slope, network.kinks, A=at_zero, s=1.0)
    c0, c1, c2, c3, _ = sigma.D[:, 0]
    g0, g1, g2, _, _ = g.D[:, 0]
    # The step sees y - f, and f starts as a constant.
    m0 = c0 * np.dot(network.pi, network.zeta)
    M1 = g0 - m0
    M2 = g.square[0] + network.noise - 2 * m0 * g0 + m0**2
    B = c2 * M1
    if abs(B) < ZERO:
        B = 0.0
    variance = slope.square[0] - c1**2
    return Gradient(
        A1=c1 * g1,
        noise=c1**2 * M2 / alpha0,
        B=B,
        tau=np.sqrt(B**2 + M2 * variance / alpha0),
        c1=c1,
        c2=c2,
        c3=c3,
        g2=g2,
    )


def rule_across(zero: float, width: float, mesh: float) -> Rule:
    """Return a rule for t ~ N(0, 1), for a sign that turns at `zero` over `width`."""
    if width > 0.02:
        # Few nodes: the read-out has a matrix for each of them.
        narrow = 8 / 3 * width
        return even_rule(mesh * min(1.0, narrow), reach=8.2)
    # Panels that shrink towards the turn, down to its width.
    edges = [zero]
    size = 1.0
    while width > 0 and size > width / 2:
        edges += [zero - size, zero + size]
        size = size / 2
    inside = [edge for edge in edges if abs(edge) < REACH]
    return normal_rule(inside)


def cells(network: Network, entry: Gradient) -> Cells:
    """Return the law of (a, w~), section 2."""
    mu = []
    a = []
    wm = []
    for weight, mean, variance in network.law:
        middle = entry.A1 * mean
        sd = np.sqrt(entry.A1**2 * variance + entry.noise)
        if sd == 0:
            # An atom, on the population: all its coordinates are one cell.
            t = np.zeros(1)
            density = np.ones(1)
            along = 0.0
        else:
            zero = -middle / sd
            width = entry.tau / sd
            t, density = rule_across(zero, width, network.mesh)
            # The regression of w~ on a.
            along = entry.A1 * variance / sd
        mu.append(weight * density)
        a.append(middle + sd * t)
        wm.append(mean + along * t)
    return Cells(mu=np.concatenate(mu), a=np.concatenate(a), wm=np.concatenate(wm))


@dataclass
class Signs:
    """(2.3): the sign S given a, and its overlaps with the row's own weight x."""

    al: Array
    f: Array
    m: Array
    l: Array
    l1: Array
    l2: Array
    l3: Array


def signs(entry: Gradient, a: Array) -> Signs:
    """Return (2.3)."""
    if entry.tau == 0:
        # No row has a part of its own: all signs are that of a.
        zero = 0 * a
        return Signs(al=zero, f=zero, m=np.sign(a), l=zero, l1=zero, l2=zero, l3=zero)
    al = a / entry.tau
    f = 2 * np.exp(-(al**2) / 2) / np.sqrt(2 * np.pi)
    ratio = entry.B / entry.tau
    return Signs(
        al=al,
        f=f,
        m=2 * ndtr(al) - 1,
        l=f / entry.tau,
        l1=ratio * f,
        l2=-(ratio**2) * al * f,
        l3=ratio**3 * (al**2 - 1) * f,
    )


def step(network: Network, rate: float, alpha0: float = np.inf) -> Layer:
    """Return the layer after one step, (2.4)."""
    entry = gradient(network, alpha0)
    where = cells(network, entry)
    if entry.tau == 0 and np.any(where.a == 0):
        raise ValueError("coordinates with w~ = 0 need a finite batch where B = 0")
    sign = signs(entry, where.a)
    length = np.sqrt(where.mu @ sign.m**2)
    e = rate * np.sign(network.zeta)
    # E l1 is B E l: what the step adds along the row's own start.
    profile = 1 + 2 * np.outer(e, sign.l1) + rate**2 * (1 - sign.m**2)
    return Layer(
        u=e * length,
        s=np.sqrt(profile @ where.mu),
        row_norm=1 + rate**2 + 2 * e * (where.mu @ sign.l1),
        profile=np.sqrt(profile),
        gamma=(where.mu * where.wm) @ sign.m / length,
        e=e,
        cells=where,
        gradient=entry,
    )
