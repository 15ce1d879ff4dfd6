"""The ridge read-out after Adam's first step on the population.

Page: "The sign step" (sign_step), sections 3 and 4. The layer is that of `sign_step`.

Problem. As in `sign_step`; then a second layer is fitted to alpha d fresh samples. The
file is for a step on the population with B != 0, and rows on the sphere. It leaves out
the read-out after a finite batch, section 5.

Order of the argument.

1. `spread_of_rows`: how far rows of one block lie apart, (3.1) to (3.6).
2. `features`: what the features are given kappa, the input along what is learnt.
3. `read_out`: that of `structured_readout`, a cell in place of a block of inputs.

An example, from section 11: relu, three Hermite terms, w~ of size one everywhere.

>>> from giantstep.reference.sign_step import step
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
"""

from __future__ import annotations

import numpy as np

from giantstep.reference.gaussian import Array, even_rule, smoothed
from giantstep.reference.ridge_readout import Errors, Features, errors
from giantstep.reference.sign_step import ZERO, Layer, Network, Signs, signs
from giantstep.reference.structured_inputs import Inputs
from giantstep.reference.structured_inputs import Layer as Rows
from giantstep.reference.structured_readout import Response


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
