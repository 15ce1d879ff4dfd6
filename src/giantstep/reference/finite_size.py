"""What a finite dimension adds to a few giant steps and to their ridge read-out.

Page: "Finite width and dimension: what the giant steps do to themselves"
(finite_size_steps), sections 2 and 3. Steps and read-out of the limit are those of
`several_steps` and `ridge_readout`; their equations are in few_steps_readout.

Problem. The same network as in `several_steps`, now with d inputs, n = alpha d samples
and p = beta d neurons. The mean m_q of the rows of block q has the length 1/sqrt(p_q),
which the limit neglects. The fit pays for it, and steps on the square loss change it.

Order of the argument.

1. `start` and `step`: F follows the means of the blocks through the steps, (2.2). The
   neurons act on themselves, (2.5), and a row is as long as (2.6) says.
2. `gram_of_means`: the products of the means in units of the rows, (2.4).
3. `price_of_theta` and `signal`: what a fitted mean costs, (3.1) and (3.6).
4. `fluctuations`: the variance that the means bring, (3.2) to (3.5).
5. `read_out`: and the number of the fitted parameters, (3.7).

This is level "all" of section 1, for rows on the sphere and the ridge fit after steps
on the population. The file leaves out Gaussian rows, finite batches, inputs with a
covariance, rows that a step nearly cancels (section 13), rows that escape one by one
(section 14), steep features (section 15), and directions of the target that the steps
have not learnt.

An example, A1 of section 11 (.05052866), on a grid too coarse for its last digits.

>>> network = Network(
...     activation=np.tanh,
...     target=lambda z: np.sin(z[0]),
...     directions=1,
...     zeta=[1],
...     pi=[1.0],
...     noise=0.02,
... )
>>> size = Size(network, alpha=1.5, beta=1.0, dim=200)
>>> layer = step(size, start(size), rate=3.0)
>>> print(round(read_out(size, layer, ridge=0.1).test, 6))
0.050529
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from giantstep.reference.gaussian import Array, smoothed
from giantstep.reference.ridge_readout import (
    Errors,
    Features,
    FirstOrder,
    Signal,
    design,
    first_order,
)
from giantstep.reference.ridge_readout import fluctuations as fluctuations_of_fit
from giantstep.reference.ridge_readout import spread as spread_of_rows
from giantstep.reference.several_steps import Layer, Network, blocks, rule
from giantstep.reference.several_steps import features as features_of_rows
from giantstep.reference.several_steps import start as start_of_limit
from giantstep.reference.several_steps import step as step_of_limit

__all__ = ["FiniteLayer", "Network", "Size", "read_out", "start", "step"]


class Size:
    """A network with whole numbers of neurons and samples, section 1."""

    def __init__(self, network: Network, alpha: float, beta: float, dim: float) -> None:
        if network.gaussian_rows:
            raise ValueError("rows on the sphere only")
        samples = round(alpha * dim)
        self.neurons = round(beta * dim)
        self.dim = dim
        self.alpha = samples / dim
        self.beta = self.neurons / dim
        # Rounded sums, so that the blocks have all neurons.
        edges = np.rint(np.cumsum([0.0, *network.pi]) * self.neurons)
        self.p_q = np.diff(edges)
        self.network = dataclasses.replace(network, pi=self.p_q / self.neurons)


@dataclass
class FiniteLayer:
    """Where the rows are, and where the means of the blocks are."""

    rows: Layer  # U, s and J of few_steps_readout (2.1); s is the whole length, (2.6)
    beside: Array  # sb (k,), the length beside the mean of the block
    F: Array  # (k, k), the mean of block q is sum_c F_qc (mean of c at the start)


def start(size: Size) -> FiniteLayer:
    """Return the rows before the first step, (2.1)."""
    rows = start_of_limit(size.network)
    return FiniteLayer(rows=rows, beside=np.ones_like(rows.s), F=np.eye(len(rows.s)))


def action_on_itself(size: Size, rows: Layer, rate: float) -> Array:
    """Return f_q of (2.5): by which part a neuron shortens its own row."""
    network = size.network
    z, weights = rule(network)
    shortening = []
    for q, block in enumerate(blocks(network, rows, z)):
        tau = np.sqrt(np.sum(rows.U[q] ** 2) + rows.s[q] ** 2)
        # E[t sigma sigma'](tau t)/tau is half the second derivative of E sigma^2.
        square = smoothed(
            lambda x: network.activation(x) ** 2, network.kinks, np.zeros(1), tau
        )
        O_q = square.D[2][0] / 2
        # What the mean of the block has done already is subtracted.
        by_mean = weights @ (block.D[1] ** 2 + block.D[0] * block.D[2])
        shortening.append(rate * network.zeta[q] ** 2 / size.neurons * (O_q - by_mean))
    return np.array(shortening)


def turning_of_means(size: Size, rows: Layer, rate: float) -> Array:
    """Return diag(e) Bm diag(pi zeta) of (2.2): the output of the means, fed back."""
    network = size.network
    z, weights = rule(network)
    slopes = [block.D[1] for block in blocks(network, rows, z)]
    D1 = np.array(slopes)
    Bm = (D1 * weights) @ D1.T
    zeta = np.array(network.zeta)
    return rate * zeta[:, None] * Bm * (network.pi * zeta)


def step(size: Size, layer: FiniteLayer, rate: float) -> FiniteLayer:
    """Return the layer after one step of size `rate` on the population, section 2."""
    old = layer.rows
    new = step_of_limit(size.network, old, rate)
    growth = new.s / old.s
    beside = layer.beside * growth
    F = growth[:, None] * layer.F
    U = new.U
    # The correlation loss does not see the output: nothing is fed back.
    if size.network.loss == "square":
        f = action_on_itself(size, old, rate)
        U = U - f[:, None] * old.U
        beside = beside - f * old.s
        F = F - turning_of_means(size, old, rate) @ layer.F  # (2.2)
    of_means = np.diag(F @ np.diag(1 / size.p_q) @ F.T)
    squared = beside**2 * (1 - 1 / size.p_q) + of_means
    s = np.sign(beside) * np.sqrt(squared)  # (2.6)
    return FiniteLayer(rows=Layer(U=U, s=s, J=new.J), beside=beside, F=F)


def gram_of_means(size: Size, layer: FiniteLayer) -> Array:
    """Return Gamh, the products of the means of rows of unit length, (2.4)."""
    means = layer.F / layer.rows.s[:, None]
    return means @ np.diag(1 / size.p_q) @ means.T


def stretches(size: Size, layer: FiniteLayer) -> Array:
    """Return s_q nu_q at the nodes: how a longer input moves the mean of a feature."""
    z, _ = rule(size.network)
    moved = []
    for block in blocks(size.network, layer.rows, z):
        moved.append(block.s * block.nu)
    return np.array(moved)


def price_of_theta(
    size: Size, features: Features, first: FirstOrder, Gamh: Array, stretch: Array
) -> Array:
    """Return P (k, k): theta pays theta^T P theta, (3.1) and (3.6)."""
    node = size.alpha / size.beta * features.weights / (1 + first.V)
    # R_q = beta_q/(Lambda_q + G_qq), few_steps_readout (4.4), solved for Lambda_q.
    Lambda = size.beta * features.pi / first.R - np.diag(first.G)
    P = np.diag(Lambda / size.p_q) + Gamh * first.G
    # All means move together with the length of the input.
    return P + (stretch * node) @ stretch.T / (2 * size.dim)


def penalties(features: Features, first: FirstOrder, P: Array) -> Array:
    """Return the penalty of (theta, t) as one matrix: P, and 1/R_q for each channel."""
    k, channels, _ = features.T0.shape
    whole = np.diag(np.concatenate([np.zeros(k), np.repeat(1 / first.R, channels)]))
    whole[:k, :k] = P
    return whole


def signal(size: Size, features: Features, first: FirstOrder, P: Array) -> Signal:
    """Return the least squares of few_steps_readout (4.5), with P for the means."""
    k, channels, _ = features.T0.shape
    columns = design(features)[0]
    node = size.alpha / size.beta * features.weights / (1 + first.V)
    # root^T root is the penalty; rounding can make its eigenvalues negative.
    values, vectors = np.linalg.eigh(penalties(features, first, P))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    matrix = np.concatenate([(columns * np.sqrt(node)).T, root])
    aim = np.concatenate([features.h * np.sqrt(node), np.zeros(len(root))])
    solution = np.linalg.lstsq(matrix, aim, rcond=1e-15)[0]
    return Signal(
        theta=solution[:k],
        t=solution[k:].reshape(k, channels),
        c0=solution @ columns,
        c1=features.h1,
    )


def fluctuations(
    size: Size, features: Features, first: FirstOrder, fit: Signal, Gamh: Array
) -> tuple[Array, Array, Array, Array]:
    """Return RES, Q1 without the part of the means, Q1 of the means, and Q2."""
    TT = np.outer(fit.theta, fit.theta) * Gamh  # (3.2)
    Theta = np.eye(len(TT)) - first.S @ first.Vh1
    of_means = Theta @ TT @ Theta.T  # (3.3)
    drive = size.beta * np.diag(first.G @ TT @ first.G)  # (3.4)

    def spread(
        first: FirstOrder, A: Array, eh: Array, beta_q: Array
    ) -> tuple[Array, Array]:
        """Return few_steps_readout (4.8), and what does not answer to it: (3.5)."""
        Q1, Q2 = spread_of_rows(first, A, eh + drive, beta_q)
        return Q1 + of_means, Q2 + fit.theta**2 / size.p_q

    RES, Q1, Q2 = fluctuations_of_fit(
        features, first, fit, size.alpha, size.beta, spread=spread
    )
    return RES, Q1 - of_means, of_means, Q2


def count_parameters(
    size: Size,
    features: Features,
    first: FirstOrder,
    P: Array,
    RES: Array,
    Q1: Array,
    Q2: Array,
) -> tuple[Array, Array]:
    """Return dRES and dV of (3.7): k + kC parameters are estimated from n samples."""
    k, channels, _ = features.T0.shape
    rho = size.alpha / size.beta
    B = design(features)[0]
    node = rho * features.weights / (1 + first.V)
    H = (B * node) @ B.T + penalties(features, first, P)
    squared = rho * features.weights * RES / (1 + first.V) ** 2
    noise_of_rows = np.repeat(size.beta * Q2 / first.R**2, channels)
    Sigma = (B * squared) @ B.T + np.diag(np.concatenate([np.zeros(k), noise_of_rows]))
    inverse = np.linalg.inv(H)
    C = inverse @ Sigma @ inverse / size.neurons
    # The directions of the target are among the d directions of the rows already.
    twice = size.network.directions / size.dim
    mu1 = features.mu1
    dRES = np.sum(B * (C @ B), axis=0) - twice * np.sum(mu1 * (Q1 @ mu1), axis=0)
    V1 = first.S / size.beta
    dV = np.sum(B * (inverse @ B), axis=0) / size.neurons
    dV = dV - twice * np.sum(mu1 * (V1 @ mu1), axis=0)
    return dRES, dV


def read_out(size: Size, layer: FiniteLayer, ridge: float) -> Errors:
    """Return the errors of a ridge fit; `identity` is that of RES before (3.7)."""
    directions = size.network.directions
    if np.linalg.matrix_rank(layer.rows.U, tol=1e-9) < directions:
        raise ValueError("a direction of the target has not been learnt")
    features = features_of_rows(size.network, layer.rows)
    first = first_order(features, size.alpha, size.beta, ridge)
    Gamh = gram_of_means(size, layer)
    stretch = stretches(size, layer)
    P = price_of_theta(size, features, first, Gamh, stretch)
    fit = signal(size, features, first, P)
    # The stretch of an input is an error that no fit removes: it acts as a noise of
    # the label, (3.6).
    jitter = (fit.theta @ stretch) ** 2 / (2 * size.dim)
    noisy = dataclasses.replace(features, hh=features.hh + jitter)
    RES, Q1, of_means, Q2 = fluctuations(size, noisy, first, fit, Gamh)
    dRES, dV = count_parameters(size, features, first, P, RES, Q1, Q2)
    weights = features.weights
    test = float(weights @ (RES + dRES))
    train = float(weights @ ((RES + dRES) / (1 + first.V + dV) ** 2))
    norm = float(Q2.sum())
    penalty = ridge * size.beta / size.alpha * norm
    # few_steps_readout (4.10), which holds before the parameters are counted.
    objective = float(weights @ (RES / (1 + first.V) ** 2)) + penalty
    again = float(weights @ ((features.hh - fit.c0 * features.h) / (1 + first.V)))
    return Errors(
        test=test,
        train=train,
        norm=norm,
        objective=train + penalty,
        identity=abs(objective - again) / abs(again),
        residual=RES + dRES,
        Q1=Q1 + of_means,
        Q2=Q2,
    )
