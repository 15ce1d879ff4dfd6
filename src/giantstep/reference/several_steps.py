"""Several giant steps on a target of several directions, then a ridge read-out.

Page: "A few giant steps on a multi-index target" (few_steps_readout), sections 2, 3, 4.1.

Problem. Labels y = g(z_1..z_r) + sqrt(delta) noise, z = W* x. All rows of the first layer
take giant steps on batches much larger than d. Row i of block q is then
s_q b_i + W*^T U_q, but for a spread of order 1/sqrt(d) inside the block: J_q times numbers
eps_i ~ N(0, I/d), (2.1). The second layer is fitted to n = alpha d fresh samples.

Order of the argument.

1. `start`: the rows as they are drawn, (3.4) and (3.5).
2. `step`: one giant step moves U, s by the gradient of a potential, and the spread J by
   its second derivatives, (3.2) and (3.3).
3. `features`: what the features are given z. Here all r directions count as learnt ones:
   kappa = z. The page splits off the unlearnt ones, which is faster and the same.
4. The read-out is that of `ridge_readout`.

An example, setting A2 of section 14, on a grid too coarse for its last digits.

>>> relu = lambda z: np.maximum(z, 0)
>>> network = Network(
...     activation=relu,
...     kinks=[0.0],
...     target=lambda z: z[0] + z[0] * z[1],
...     directions=2,
...     zeta=[1, -1],
...     pi=[0.5, 0.5],
...     noise=0.1,
...     mesh=0.4,
... )
>>> layer = start(network)
>>> for rate in (2.0, 2.0):
...     layer = step(network, layer, rate)
>>> print(
...     round(
...         read_out(features(network, layer), alpha=2.0, beta=1.5, ridge=0.1).test, 3
...     )
... )
0.691
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.reference.gaussian import (
    Array,
    Function,
    Rule,
    Smoothed,
    even_rule,
    normal_rule,
    product_rule,
    smoothed,
)
from giantstep.reference.ridge_readout import Features, read_out

__all__ = ["Layer", "Network", "features", "read_out", "start", "step"]


@dataclass
class Network:
    """Section 1. `target` takes z of shape (r, N); `kinks` are those of the activation."""  # noqa: E501

    activation: Function
    target: Function
    directions: int
    zeta: Sequence[float]
    pi: Sequence[float]
    kinks: Sequence[float] = ()
    noise: float = 0.0
    loss: str = "square"
    gaussian_rows: bool = False
    target_kinks: Sequence[float] = ()  # on every axis
    mesh: float = 0.2


@dataclass
class Layer:
    """Where the rows of each block are, (2.1)."""

    U: Array  # (k, r)
    s: Array  # (k,)
    J: Array  # (k, r + 1, C)


def start(network: Network) -> Layer:
    """Return the rows before the first step."""
    k = len(network.zeta)
    r = network.directions
    J = np.eye(r + 1, r)  # (3.4)
    if network.gaussian_rows:
        # One more number for each row, its norm: (3.5).
        J = np.eye(r + 1)
        J[r, r] = np.sqrt(0.5)
    return Layer(U=np.zeros((k, r)), s=np.ones(k), J=np.tile(J, (k, 1, 1)))


def rule(network: Network) -> Rule:
    """Return a rule for z ~ N(0, I_r)."""
    if len(network.target_kinks) > 0:
        axis = normal_rule(network.target_kinks, width=0.75)
    else:
        axis = even_rule(network.mesh)
    return product_rule([axis] * network.directions)


def blocks(network: Network, layer: Layer, z: Array) -> list[Smoothed]:
    """Return (2.2) for each block, at A = U_q.z."""
    smooth = []
    for U, s in zip(layer.U, layer.s):
        smooth.append(smoothed(network.activation, network.kinks, U @ z, s))
    return smooth


def step(network: Network, layer: Layer, rate: float) -> Layer:
    """Return the layer after one step of size `rate` on the population."""
    z, weights = rule(network)
    r = network.directions
    smooth = blocks(network, layer, z)
    residual = network.target(z)
    if network.loss == "square":
        # What the network says already, (3.1); the label noise does not enter.
        for pi, zeta, block in zip(network.pi, network.zeta, smooth):
            residual = residual - pi * zeta * block.D[0]
    after_U = []
    after_s = []
    after_J = []
    for q, zeta in enumerate(network.zeta):
        e = rate * zeta
        s = layer.s[q]
        D = smooth[q].D
        mean = weights * residual
        after_U.append(layer.U[q] + e * z @ (mean * D[1]))  # (3.2)
        after_s.append(s * (1 + e * mean @ D[2]))
        # The second derivatives of the potential at the old place, (3.3).
        mixed = s * z @ (mean * D[3])
        hessian = np.zeros((r + 1, r + 1))
        hessian[:r, :r] = (z * mean * D[2]) @ z.T
        hessian[:r, r] = mixed
        hessian[r, :r] = mixed
        hessian[r, r] = mean @ (D[2] + s**2 * D[4])
        K = np.eye(r + 1) + e * hessian
        after_J.append(K @ layer.J[q])
    return Layer(U=np.array(after_U), s=np.array(after_s), J=np.array(after_J))


def features(network: Network, layer: Layer) -> Features:
    """Return the features given kappa = z: section 4.1 without unlearnt directions."""
    z, weights = rule(network)
    r = network.directions
    smooth = blocks(network, layer, z)
    T0 = []
    for J, block in zip(layer.J, smooth):
        # (4.2): the columns of J are the channels.
        T0.append((J[:r].T @ z) * block.D[1] + np.outer(J[r], block.nu))
    h = network.target(z)
    nodes = len(weights)
    return Features(
        weights=weights,
        pi=np.array(network.pi),
        mu0=np.array([block.mu0 for block in smooth]),
        mu1=np.array([block.mu1 for block in smooth]),
        mu2=np.array([block.mu2 for block in smooth]),
        h=h,
        hh=h**2 + network.noise,
        h1=np.zeros((0, nodes)),
        T0=np.array(T0),
        T1=np.zeros((*np.shape(T0)[:2], 0, nodes)),
    )
