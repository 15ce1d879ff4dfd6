"""Where several giant steps on finite batches leave the first layer.

Page: "Several giant steps, each on a finite fresh batch" (finite_batches_several_steps),
sections 1 to 3. With one step it is "The network after a finite batch".

Problem. As in `several_steps`, but step t sees only n_t = alpha_t d fresh samples. Their
noise is common to all rows: it moves the mean of every block into new directions. It also
makes the rest of a row longer, and its norm uncertain.

Order of the argument, for each step.

1. `sample`: what a sample of the batch is in the directions that matter so far.
2. `finite_batch_neuron` has what the sample does to a single row.
3. `orthonormal`: the new directions (2.2) that the batch adds.
4. `step`: the means (2.3), the norms (2.4), and what the read-out must know of the step.

`finite_batch_readout` then fits the second layer. An example: one step by hand has
U = e c_1 (g_1, sqrt(M_2/alpha_1)), and here c_1 = 1/2, g_1 = M_2 = 1.

>>> network = Network(
...     activation=lambda z: np.maximum(z, 0),
...     slope=lambda z: 1.0 * (z > 0),
...     kinks=[0.0],
...     target=lambda z: z[0],
...     zeta=[1, -1],
...     pi=[0.5, 0.5],
... )
>>> layer = step(network, start(network), rate=1.0, alpha=4.0)
>>> print(layer.U[0, 0].round(9), np.linalg.norm(layer.U[0, 1:]).round(9))
0.5 0.25
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from giantstep.reference.finite_batch_neuron import norms, slopes
from giantstep.reference.gaussian import (
    Array,
    Function,
    Rule,
    even_rule,
    normal_rule,
    product_rule,
)


@dataclass
class Network:
    """Section 1. `target` takes z of shape (r, N); `kinks` are those of the activation."""  # noqa: E501

    activation: Function
    slope: Function
    target: Function
    zeta: Sequence[float]
    pi: Sequence[float]
    kinks: Sequence[float] = ()
    target_kinks: Sequence[float] = ()
    directions: int = 1
    noise: float = 0.0
    loss: str = "square"
    mesh: float = 0.25


@dataclass
class Step:
    """What section 4 needs of a step: functions at its nodes, and coordinate vectors."""  # noqa: E501

    inverse: float  # 1/alpha_t
    weights: Array  # (N,)
    zeta: Array  # (m, N)
    rel: Array  # (D, m), the directions of zeta
    F: Array  # (J, N), (2.2)
    r2: Array  # (k, N), (3.1)
    noise: Array  # (k, N), e^2 res^2 v
    gain: Array  # (k,), (3.2)
    variance: Array  # (k,), vsp - c^2 E fl^2/alpha of (5.3)
    fl: Array  # (k, D + J), coordinates of s fl
    fy: Array  # (k, D + J), of s^3 fy
    bend: Array  # (k, D + J), of e res D_3/2


@dataclass
class Layer:
    """Means U_q in D directions, the first of them W*, and squared norms c_q of the rest."""  # noqa: E501

    U: Array  # (k, D)
    c: Array  # (k,)
    steps: list[Step] = field(default_factory=list)


def start(network: Network) -> Layer:
    """Return rows drawn from the unit sphere."""
    k = len(network.zeta)
    return Layer(U=np.zeros((k, network.directions)), c=np.ones(k))


def relevant(network: Network, layer: Layer) -> Array:
    """Return rel: an orthonormal basis of span{W*, M_1..M_k}, W* first."""
    r = network.directions
    beyond = layer.U[:, r:]
    _, sizes, right = np.linalg.svd(beyond)
    count = np.sum(sizes > 1e-10)
    rel = np.zeros((layer.U.shape[1], r + count))
    rel[:r, :r] = np.eye(r)
    rel[r:, r:] = right[:count].T
    return rel


def rule(network: Network, dimensions: int) -> Rule:
    """Return a rule for zeta: z on the first axes, batch noise on the others."""
    along_target = even_rule(network.mesh)
    if len(network.target_kinks) > 0:
        along_target = normal_rule(network.target_kinks, width=1.0)
    axes = [along_target] * network.directions
    while len(axes) < dimensions:
        axes.append(even_rule(0.3))
    zeta, weights = product_rule(axes)
    kept = weights > 1e-17
    return zeta[:, kept], weights[kept]


def sample(network: Network, rel: Array) -> tuple[Array, Array, Array]:
    """Return zeta, its weights and the labels: the expectation E_t over one sample."""
    zeta, weights = rule(network, rel.shape[1])
    clean = network.target(zeta[: network.directions])
    if network.noise == 0:
        return zeta, weights, clean
    eps, chance = np.polynomial.hermite_e.hermegauss(12)
    labels = clean + np.sqrt(network.noise) * eps[:, None]
    both = np.outer(chance / chance.sum(), weights)
    return np.tile(zeta, len(eps)), both.ravel(), labels.ravel()


def orthonormal(functions: Array, weights: Array) -> Array:
    """Return F of (2.2): functions of a sample, orthonormal, that span these."""
    rows = functions * np.sqrt(weights)
    size = np.linalg.norm(rows, axis=1)
    kept = size > 1e-9 * size.max()
    rows = rows[kept] / size[kept, None]
    _, sizes, right = np.linalg.svd(rows, full_matrices=False)
    return right[sizes > 1e-7] / np.sqrt(weights)


def step(network: Network, layer: Layer, rate: float, alpha: float) -> Layer:
    """Return the layer after a step of size `rate` on alpha d fresh samples."""
    k, old = layer.U.shape
    inverse = 1 / alpha
    rel = relevant(network, layer)
    zeta, weights, label = sample(network, rel)
    at = []
    for U, c in zip(layer.U, layer.c):
        A = (U @ rel) @ zeta
        at.append(
            slopes(network.activation, network.slope, network.kinks, A, np.sqrt(c))
        )
    res = label
    if network.loss == "square":
        for pi, value, block in zip(network.pi, network.zeta, at):
            res = res - pi * value * block.D[0]
    e = rate * np.array(network.zeta)
    of_norms = []
    for q in range(k):
        of_norms.append(norms(at[q], res, weights, e[q], layer.c[q], inverse))
    # Every vector X^T f/n of (2.1) lies along old directions and those of F.
    F = np.zeros((0, len(weights)))
    if inverse > 0:
        functions = []
        for block, norm in zip(at, of_norms):
            functions += [res * block.D[1], norm.fl, norm.fy, res * block.D[3]]
        F = orthonormal(np.array(functions), weights)

    def coordinates(function: Array) -> Array:
        along_old = rel @ (zeta @ (weights * function))
        return np.concatenate([along_old, np.sqrt(inverse) * F @ (weights * function)])

    U = np.hstack([layer.U, np.zeros((k, len(F)))])
    c = np.zeros(k)
    s = np.sqrt(layer.c)
    fl = np.zeros_like(U)
    fy = np.zeros_like(U)
    bend = np.zeros_like(U)
    for q in range(k):
        D = at[q].D
        norm = of_norms[q]
        U[q] += e[q] * coordinates(res * D[1])  # (2.3)
        rest = layer.c[q] * D[2] ** 2 + at[q].v  # E sigma'^2 - D_1^2
        c[q] = layer.c[q] * (1 + weights @ norm.r2) ** 2  # (2.4)
        c[q] += e[q] ** 2 * inverse * (weights @ (res**2 * rest))
        fl[q] = s[q] * coordinates(norm.fl)
        fy[q] = s[q] ** 3 * coordinates(norm.fy)
        bend[q] = e[q] / 2 * coordinates(res * D[3])
    made = Step(
        inverse=inverse,
        weights=weights,
        zeta=zeta,
        rel=rel,
        F=F,
        r2=np.array([norm.r2 for norm in of_norms]),
        noise=np.array([(e[q] * res) ** 2 * at[q].v for q in range(k)]),
        gain=np.array([norm.gain for norm in of_norms]),
        variance=np.array([norm.variance for norm in of_norms]),
        fl=fl,
        fy=fy,
        bend=bend,
    )
    return Layer(U=U, c=c, steps=[*layer.steps, made])
