"""Adam's first step, the sign of the gradient: the layer after it, and a ridge read-out.

Page: "The sign step" (sign_step), sections 1 to 4.

Problem. Labels y = g(<w*, x>) + sqrt(delta) noise. Every weight moves by rate/sqrt(d)
along the sign of its gradient, on a batch of alpha0 d samples or on the population. The
sign is taken coordinate by coordinate, so the law of w~_i = sqrt(d) w*_i matters: here a
mixture of normal laws and atoms, and g is smooth. Then a second layer is fitted to alpha d fresh samples.

Order of the argument.

1. `gradient`: an entry of the gradient is a part a_i that all rows share, and a normal
   part of variance tau^2 that each row has for itself, (2.1) and (2.2).
2. `cells`: coordinates with one value of a are a cell; the law of a, section 2.
3. `step`: the mean of the sign given a is what is learnt, (2.3) and (2.4).
4. `spread_of_rows`: how far rows of one block lie apart, (3.1) to (3.6).
5. `read_out`: the ridge fit of `structured_readout`, a cell in place of a block of
   inputs, section 4.

Points 4 and 5 are for a step on the population with B != 0, rows on the sphere. The file
leaves out the read-out after a finite batch, section 5, and rows N(0, I/d), (3.7).

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
>>> print(round(read_out(network, layer, alpha=1.5, beta=1.5, ridge=0.1).test, 8))
0.32856582
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
from giantstep.reference.ridge_readout import Errors, Features, errors
from giantstep.reference.structured_inputs import Inputs
from giantstep.reference.structured_inputs import Layer as Rows
from giantstep.reference.structured_readout import Response

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


def channel_variables(sign: Signs) -> Array:
    """Return x, S - m, xS - l1, x^2 - 1 of each cell as combinations of normal numbers.

    Shape (4, R, 4 R): a root of (3.1), and cells are independent.
    """
    count = len(sign.m)
    root = np.zeros((4, count, 4 * count))
    for c in range(count):
        m = sign.m[c]
        l1 = sign.l1[c]
        l2 = sign.l2[c]
        l3 = sign.l3[c]
        covariance = np.array(
            [
                [1, l1, m + l2, 0],
                [l1, 1 - m**2, -m * l1, l2],
                [m + l2, -m * l1, 1 - l1**2, l3 + 2 * l1],
                [0, l2, l3 + 2 * l1, 2],
            ]
        )
        values, vectors = np.linalg.eigh(covariance)
        # Rounding can make a value negative where S is certain.
        columns = vectors * np.sqrt(np.maximum(values, 0))
        root[:, c, 4 * c : 4 * c + 4] = columns
    return root


def spread_of_rows(layer: Layer, q: int) -> tuple[Array, Array]:
    """Return JU and Js of block q: how its rows differ, (3.2) to (3.6)."""
    entry = layer.gradient
    where = layer.cells
    sign = signs(entry, where.a)
    x, S, xS, xx = channel_variables(sign)
    mu = where.mu
    root_mu = np.sqrt(mu)
    B = entry.B
    tau = entry.tau
    e = layer.e[q]
    N = root_mu @ xx / 2  # (3.2)
    rho = (root_mu * where.wm) @ x
    Gx = (root_mu * where.a / entry.c1) @ x
    # On the sphere a row that is long in one place is short in another: - B N.
    dB = entry.c3 * Gx - B * N  # (3.3)
    da = entry.c2 * entry.g2 * rho
    dtau = B * dB / tau
    shift = np.outer(where.wm, da) - np.outer(sign.al, dtau)
    dU = x + e * (S + (root_mu * sign.l)[:, None] * shift)  # (3.4)
    by_a = mu @ (B * sign.al * sign.f * where.wm / tau**2)
    by_tau = mu @ (B * (sign.al**2 - 1) * sign.f / tau**2)
    dom = root_mu @ xS + (mu @ sign.l) * dB  # (3.5)
    dom = dom - by_a * da + by_tau * dtau - (mu @ sign.l1) * N
    U = e * root_mu * sign.m
    ds = (e * dom - U @ dU) / layer.s[q]  # (3.6)
    # Only J J^T matters: as many columns as rows are enough.
    J = np.vstack([dU, ds])
    values, vectors = np.linalg.eigh(J @ J.T)
    J = vectors * np.sqrt(np.maximum(values, 0))
    return J[:-1], J[-1]


def directions(layer: Layer) -> Array:
    """Return an orthonormal basis: v, what w* has beside v, and all else."""
    where = layer.cells
    sign = signs(layer.gradient, where.a)
    root_mu = np.sqrt(where.mu)
    v = root_mu * sign.m
    target = root_mu * where.wm
    # Gram and Schmidt in this order: v, then w*, then whatever is left.
    columns = np.column_stack([v, target, np.eye(len(v))])
    basis, triangle = np.linalg.qr(columns)
    # The first two point along v and along w*, not against them.
    turn = np.where(np.diag(triangle) < 0, -1, 1)
    return basis * turn


def features(network: Network, layer: Layer) -> Features:
    """Return what features and label are given kappa = <v, x>."""
    kappa, weights = even_rule(0.2)
    basis = directions(layer)
    v = basis[:, 0]
    rest = basis[:, 1:]
    mu0 = []
    mu1 = []
    mu2 = []
    T0 = []
    T1 = []
    for q in range(len(layer.u)):
        A = layer.u[q] * kappa
        block = smoothed(network.activation, network.kinks, A, layer.s[q])
        JU, Js = spread_of_rows(layer, q)
        mu0.append(block.mu0)
        mu1.append(block.D[1])
        mu2.append(block.mu2)
        T0.append(np.outer(v @ JU, kappa * block.D[1]) + np.outer(Js, block.nu))
        T1.append((rest.T @ JU).T[:, :, None] * block.D[1])
    # The label is g(gamma kappa + rho xi).
    gamma = layer.gamma
    h1 = np.zeros((rest.shape[1], len(kappa)))
    if 1 - gamma**2 > ZERO:
        rho = np.sqrt(1 - gamma**2)
        label = smoothed(network.target, (), gamma * kappa, rho)
        h = label.mu0
        h1[0] = label.mu1
        square = label.square
    else:
        h = network.target(kappa)
        square = h**2
    return Features(
        weights=weights,
        pi=np.array(network.pi),
        mu0=np.array(mu0),
        mu1=np.array(mu1),
        mu2=np.array(mu2),
        h=h,
        hh=square + network.noise,
        h1=h1,
        T0=np.array(T0),
        T1=np.array(T1),
    )


def read_out(
    network: Network, layer: Layer, alpha: float, beta: float, ridge: float
) -> Errors:
    """Return the errors of a ridge fit after a step on the population, section 4."""
    entry = layer.gradient
    if entry.B == 0 or entry.noise > 0:
        raise ValueError("the read-out is for a step on the population with B != 0")
    at = features(network, layer)
    mu = layer.cells.mu.tolist()
    one = [1.0] * len(mu)
    # A cell plays the part of an eigenspace: all lambda are 1, the profiles differ.
    inputs = Inputs(eigenvalues=one, fractions=mu, shares=mu)
    rows = Rows(
        U=layer.u[:, None],
        B=layer.profile,
        s=layer.s,
        JU=np.zeros(0),
        JB=np.zeros(0),
        Js=np.zeros(0),
        history=[],
    )
    response = Response(inputs, rows)
    first = response.first_order(at, alpha, beta, ridge)
    return errors(at, first, alpha, beta, ridge, spread=response.spread)
