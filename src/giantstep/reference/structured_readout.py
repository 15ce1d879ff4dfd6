"""The ridge read-out after giant steps on inputs with a covariance.

Page: "Structured inputs" (structured_inputs), section 4. The layer is that of
`structured_inputs`.

Problem. As in `ridge_readout`. But the rest of a row is B_q(Sigma) w0, and the samples see
it through Sigma: the read-out's response differs between the eigenspaces of Sigma.

Order of the argument.

1. `features`: what the features are given kappa, the input in span{V, U_q}, (4.1). The
   spread of the rows has a part along directions beyond it, which carry no signal.
2. `Response`: (4.2) to (4.4) and (4.8), with lambda B_q B_q' in each block of inputs.
3. All else is `ridge_readout`: a direction beyond the span is one with h_1 = 0, and what
   it adds to (4.5) and (4.6) is there.

An example, setting C of section 12.

>>> from giantstep.reference.structured_inputs import start, step
>>> inputs = Inputs(eigenvalues=[2.5, 0.5], fractions=[0.25, 0.75], shares=[0.5, 0.5])
>>> network = Network(
...     activation=np.tanh, target=np.sin, zeta=[1.0], pi=[1.0], noise=0.02
... )
>>> layer = step(network, inputs, start(network, inputs), rate=3.0)
>>> print(
...     round(read_out(network, inputs, layer, alpha=1.5, beta=1.0, ridge=0.1).test, 8)
... )
0.15983567
"""  # noqa: E501

from __future__ import annotations

import numpy as np

from giantstep.reference.gaussian import Array
from giantstep.reference.ridge_readout import Errors, Features, FirstOrder, errors
from giantstep.reference.structured_inputs import (
    Inputs,
    Layer,
    Network,
    bases,
    blocks,
    sample,
)


def channel_root(network: Network, inputs: Inputs, layer: Layer, q: int) -> Array:
    """Return a root of the covariance of the channel variables: 1, and (3.7)."""
    R = len(inputs.V)
    squares = np.array([inputs.lambda_ * B[q] ** 2 for B in layer.history])
    covariance = 2 * (squares * inputs.m) @ squares.T
    if not network.gaussian_rows:
        # On the sphere |w0| is fixed.
        total = squares @ inputs.m
        covariance = covariance - 2 * np.outer(total, total)
    values, vectors = np.linalg.eigh(covariance)
    root = np.eye(R + len(values))
    root[R:, R:] = vectors * np.sqrt(np.maximum(values, 0))
    return root


def features(network: Network, inputs: Inputs, layer: Layer) -> Features:
    """Return (4.1); mu1 is D_1, without the norm of the rows."""
    basis, rest = bases(inputs, layer)
    kappa, weights = sample(network, basis.shape[1])
    smooth = blocks(network, layer, basis, kappa)
    T0 = []
    T1 = []
    for q, block in enumerate(smooth):
        root = channel_root(network, inputs, layer, q)
        JU = layer.JU[q] @ root
        Js = layer.Js[q] @ root
        along = (basis.T @ JU).T @ kappa
        T0.append(along * block.D[1] + np.outer(Js, block.nu))
        T1.append((rest.T @ JU).T[:, :, None] * block.D[1])
    h = network.target(kappa[0])
    return Features(
        weights=weights,
        pi=np.array(network.pi),
        mu0=np.array([block.mu0 for block in smooth]),
        mu1=np.array([block.D[1] for block in smooth]),
        mu2=np.array([block.mu2 for block in smooth]),
        h=h,
        hh=h**2 + network.noise,
        h1=np.zeros((rest.shape[1], len(weights))),
        T0=np.array(T0),
        T1=np.array(T1),
    )


class Response:
    """The read-out's response in every block of inputs: PB_j = lambda_j B_j B_j^T."""

    def __init__(self, inputs: Inputs, layer: Layer) -> None:
        self.m = inputs.m
        rows = layer.B.T
        self.PB = inputs.lambda_[:, None, None] * rows[:, :, None] * rows[:, None, :]

    def first_order(
        self, features: Features, alpha: float, beta: float, ridge: float
    ) -> FirstOrder:
        """Iterate (4.2) to (4.4) until they change nothing."""
        rho = alpha / beta
        beta_q = beta * features.pi
        mu1 = features.mu1
        mu2 = features.mu2
        eye = np.eye(len(beta_q))
        R = beta_q / ridge
        V = np.zeros(len(features.weights))
        for _ in range(100_000):
            node = rho * features.weights / (1 + V)
            Vh1 = (mu1 * node) @ mu1.T  # (4.2)
            H = self.PB * Vh1
            G = np.linalg.solve(eye + H * R, H)  # (4.3)
            own = np.einsum("j,jqq->q", self.m, G)
            R = beta_q / (ridge + mu2 @ node + own)
            S = np.linalg.solve(eye + R[:, None] * H, np.diag(R) + 0 * H)
            V1 = np.tensordot(self.m, self.PB * S, axes=1) / beta  # (4.4)
            change = np.sum(mu1 * (V1 @ mu1), axis=0) + R @ mu2 / beta - V
            V = V + change
            if np.max(np.abs(change)) < 1e-14 * np.max(V):
                return FirstOrder(V=V, Vh1=Vh1, R=R, G=G, S=S)
        raise RuntimeError("no fixed point of (4.2) to (4.4)")

    def spread(
        self, first: FirstOrder, A: Array, eh: Array, beta_q: Array
    ) -> tuple[Array, Array]:
        """Return Q1 and Q2 of (4.8)."""
        R = first.R
        S = first.S
        beta = beta_q.sum()
        Theta = np.eye(len(R)) - S @ (self.PB * first.Vh1)
        dH = self.PB * A
        squares = np.tensordot(self.m, first.G**2, axes=1)
        transfer = np.eye(len(R)) - (R**2 / beta_q)[:, None] * squares
        pull = np.einsum("j,jaq,jab,jbq->q", self.m, Theta, dH, Theta)
        delta = np.linalg.solve(transfer, R**2 / beta_q * (eh + pull))
        Q1 = self.PB * (S @ dH @ S + (S * (delta / R**2)) @ S)
        return np.tensordot(self.m, Q1, axes=1) / beta, delta / beta


def read_out(
    network: Network,
    inputs: Inputs,
    layer: Layer,
    alpha: float,
    beta: float,
    ridge: float,
) -> Errors:
    """Return the errors (4.9) of a ridge fit on alpha d samples with beta d neurons."""
    at = features(network, inputs, layer)
    response = Response(inputs, layer)
    first = response.first_order(at, alpha, beta, ridge)
    return errors(at, first, alpha, beta, ridge, spread=response.spread)
