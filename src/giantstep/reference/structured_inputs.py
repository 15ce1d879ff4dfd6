"""Giant steps on inputs with a covariance: where they leave the first layer.

Page: "Structured inputs" (structured_inputs), sections 1 to 3, for one target direction.

Problem. As in `several_steps`, but x ~ N(0, Sigma). Sigma has a few eigenvalues: lambda_j
on a fraction m_j of the coordinates. A part share_j of the variance of z = <w*, x> lies in
block j of the inputs. A step moves rows along Sigma w*, not w*, and stretches what is left
of them by a function of Sigma.

Order of the argument.

1. Whitened coordinates: zt has one coordinate for each block of inputs that w* touches,
   z = V zt. A row is a mean U_q there, and B_q(Sigma) w0 beside it.
2. `start` and `step`: U, B and the norm s, with their spread inside a block, (3.1)-(3.7).

`structured_readout` then fits the second layer. An example: one step moves the mean by
e c_1 g_1 L V, (3.8), and here c_1 = 1/2, g_1 = 1 and L = (2, 2/3).

>>> inputs = Inputs(eigenvalues=[3, 1], fractions=[0.25, 0.75], shares=[0.5, 0.5])
>>> network = Network(
...     activation=lambda z: np.maximum(z, 0),
...     target=lambda z: z,
...     kinks=[0.0],
...     zeta=[1, -1],
...     pi=[0.5, 0.5],
... )
>>> layer = step(network, inputs, start(network, inputs), rate=1.0)
>>> print((layer.U[0] / np.sqrt(0.5)).round(9))
[1.         0.33333333]
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.reference.gaussian import (
    Array,
    Function,
    Smoothed,
    even_rule,
    normal_rule,
    product_rule,
    smoothed,
)


@dataclass
class Network:
    """Section 1. `target` takes z of shape (N,); `kinks` are those of the activation."""  # noqa: E501

    activation: Function
    target: Function
    zeta: Sequence[float]
    pi: Sequence[float]
    kinks: Sequence[float] = ()
    target_kinks: Sequence[float] = ()
    noise: float = 0.0
    loss: str = "square"
    precondition: float = 0.0  # F = lambda^-precondition
    gaussian_rows: bool = False
    mesh: float = 0.15


class Inputs:
    """Section 1: blocks of inputs, and the whitened target V."""

    def __init__(
        self,
        eigenvalues: Sequence[float],
        fractions: Sequence[float],
        shares: Sequence[float],
    ) -> None:
        self.m = np.array(fractions) / np.sum(fractions)
        self.lambda_ = np.array(eigenvalues) / (self.m @ np.array(eigenvalues))
        share = np.array(shares) / np.sum(shares)
        # One coordinate of zt for each block in which w* has a part.
        self.L = self.lambda_[share > 0]
        self.V = np.sqrt(share[share > 0])


@dataclass
class Layer:
    """The rows of k blocks, and their spread: linear in C channel variables.

    The first channels are the coordinates of w0_i, the others are Theta^(0..t), the
    fluctuations of the row's norm after each step. `history` holds B after each step.
    """

    U: Array  # (k, R)
    B: Array  # (k, K)
    s: Array  # (k,)
    JU: Array  # (k, R, C)
    JB: Array  # (k, K, C)
    Js: Array  # (k, C)
    history: list[Array]


def start(network: Network, inputs: Inputs) -> Layer:
    """Return the rows before the first step, (3.6)."""
    k = len(network.zeta)
    R = len(inputs.V)
    K = len(inputs.m)
    JU = np.zeros((k, R, R + 1))
    JU[:, :, :R] = np.diag(np.sqrt(inputs.L))
    Js = np.zeros((k, R + 1))
    Js[:, R] = 1 / 2
    return Layer(
        U=np.zeros((k, R)),
        B=np.ones((k, K)),
        s=np.ones(k),
        JU=JU,
        JB=np.zeros((k, K, R + 1)),
        Js=Js,
        history=[np.ones((k, K))],
    )


def bases(inputs: Inputs, layer: Layer) -> tuple[Array, Array]:
    """Return orthonormal bases of span{V, U_q}, V first, and of what is beyond it."""
    R = len(inputs.V)
    beyond = layer.U - np.outer(layer.U @ inputs.V, inputs.V)
    _, sizes, right = np.linalg.svd(beyond)
    count = np.sum(sizes > 1e-10)
    learnt = np.column_stack([inputs.V, *right[:count]])
    left, _, _ = np.linalg.svd(learnt)
    return learnt, left[:, learnt.shape[1] : R]


def sample(network: Network, dimensions: int) -> tuple[Array, Array]:
    """Return a rule for kappa; z is its first coordinate."""
    axes = [even_rule(network.mesh)] * dimensions
    if len(network.target_kinks) > 0:
        axes[0] = normal_rule(network.target_kinks, width=0.75)
    return product_rule(axes)


def blocks(
    network: Network, layer: Layer, basis: Array, kappa: Array
) -> list[Smoothed]:
    """Return section 2 for each block, at A = U_q.zt."""
    found = []
    for U, s in zip(layer.U, layer.s):
        A = (U @ basis) @ kappa
        found.append(smoothed(network.activation, network.kinks, A, s))
    return found


def step(network: Network, inputs: Inputs, layer: Layer, rate: float) -> Layer:
    """Return the layer after one step of size `rate` on the population."""
    basis, rest = bases(inputs, layer)
    kappa, weights = sample(network, basis.shape[1])
    smooth = blocks(network, layer, basis, kappa)
    res = network.target(kappa[0])
    if network.loss == "square":
        for pi, zeta, block in zip(network.pi, network.zeta, smooth):
            res = res - pi * zeta * block.D[0]  # (3.1)
    mean = weights * res
    Lt = inputs.L ** (1 - network.precondition)
    lt = inputs.lambda_ ** (1 - network.precondition)
    after = []
    for q, zeta in enumerate(network.zeta):
        e = rate * zeta
        s = layer.s[q]
        D = smooth[q].D
        JU = layer.JU[q]
        JB = layer.JB[q]
        Js = layer.Js[q]
        h = mean @ D[2]
        along = basis @ (kappa @ (mean * D[3]))
        curved = basis @ (kappa * mean * D[2]) @ kappa.T @ basis.T + h * rest @ rest.T
        dh = along @ JU + s * (mean @ D[4]) * Js  # (3.3)
        U = layer.U[q] + e * Lt * (basis @ (kappa @ (mean * D[1])))  # (3.2)
        B = layer.B[q] * (1 + e * h * lt)
        moved = curved @ JU + s * np.outer(along, Js)
        JU = JU + e * Lt[:, None] * moved  # (3.4)
        JB = JB * (1 + e * h * lt)[:, None] + e * np.outer(lt * layer.B[q], dh)
        norm = np.sqrt(inputs.m @ (inputs.lambda_ * B**2))
        Js = (inputs.m * inputs.lambda_ * B) @ JB / norm  # (3.5)
        # The norm has a new fluctuation of its own, Theta^(t+1).
        new = np.zeros((len(U), 1))
        after.append(
            Layer(
                U=U,
                B=B,
                s=norm,
                JU=np.hstack([JU, new]),
                JB=np.hstack([JB, np.zeros((len(B), 1))]),
                Js=np.append(Js, 1 / (2 * norm)),
                history=[],
            )
        )
    B = np.array([row.B for row in after])
    return Layer(
        U=np.array([row.U for row in after]),
        B=B,
        s=np.array([row.s for row in after]),
        JU=np.array([row.JU for row in after]),
        JB=np.array([row.JB for row in after]),
        Js=np.array([row.Js for row in after]),
        history=[*layer.history, B],
    )
