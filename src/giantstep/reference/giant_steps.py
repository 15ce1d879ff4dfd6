"""Giant steps of a wide network in plain loops: sections 5.2 and 5.3 of gradient_dynamics.

Every step has a fresh batch of n = alpha0 d samples. Neurons with equal second-layer
weight a_t form a type t and stay alike. The order of the argument is that of the page:

1. A type is known by M_t (overlaps with the targets), R_tt' (of two different neurons)
   and q_t (its squared norm). The start is M = 0, R = 0, q = 1 (`start`).
2. A preactivation is a part u_t that all neurons of the type share, and a private part:
   lambda = u_t + sd_t e. Averages over e come first (`relu_averages`, or
   `smooth_averages` for other activations).
3. What is left is an average over (z, u), at most k plus the number of types
   dimensions (`gradient`, `step`).

Separately, `orientation` is the first gradient alone, at n = alpha0 d^l.

>>> problem = Problem(
...     target=lambda z: (z[0] + z[0] ** 2 + z[1] - z[1] ** 2) / 2,
...     private=relu_averages,
...     values=[1, -1],
...     fractions=[0.5, 0.5],
...     rate=2.0,
...     batch_per_dim=1.0,
... )
>>> state = start(problem, directions=2)
>>> for _ in range(2):
...     state, cosine = step(problem, state)
>>> np.round(cosine, 5)
array([[ 0.23182,  0.03278],
       [-0.03278, -0.23182]])
"""  # noqa: E501

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import eval_hermitenorm, factorial, ndtr

from giantstep.reference.averages import hermite_points, normal_density


@dataclass
class Problem:
    """The letters of the page are in the comments."""

    target: Callable  # h(z), z of shape (k, points)
    private: Callable  # averages over e, given u and sd
    values: list  # a_t
    fractions: list  # pi_t
    rate: float  # g
    batch_per_dim: float  # alpha0, may be infinite
    noise: float = 0.0  # D
    nodes: int = 24  # Gauss-Hermite nodes for each dimension


@dataclass
class State:
    """The overlaps of the types."""

    M: np.ndarray  # (types, k)
    R: np.ndarray  # (types, types)
    q: np.ndarray  # (types,)


def start(problem, directions):
    """Return random rows of unit length."""
    types = len(problem.values)
    return State(
        np.zeros((types, directions)), np.zeros((types, types)), np.ones(types)
    )


# -- averages over the private part e ---------------------------------------------


def relu_averages(u, sd):
    """Return E_e of s, s', s'^2 and s' e for relu."""
    above = ndtr(u / sd)
    density = normal_density(u / sd)
    return u * above + sd * density, above, above, density


def smooth_averages(activation, slope, count=90):
    """Return the same for a smooth activation, as a function of u and sd."""
    e, weights = hermite_points(1, count)
    e = e[:, 0]

    def private(u, sd):
        lam = u[:, None] + sd * e
        tilt = slope(lam)
        return (
            activation(lam) @ weights,
            tilt @ weights,
            tilt**2 @ weights,
            tilt @ (e * weights),
        )

    return private


# -- section 5.3: one step --------------------------------------------------------


def gradient(problem, state):
    """Return psi, phi, b, gg, chi and chi^d of (5.3a) and (5.3b)."""
    types, k = state.M.shape
    # cov(z) = 1, cov(u_t, z) = M_t, cov(u) = R; sd_t^2 is what a neuron has alone.
    shared = np.block([[np.eye(k), state.M.T], [state.M, state.R]])
    values, vectors = np.linalg.eigh(shared)
    kept = values > 1e-12
    root = vectors[:, kept] * np.sqrt(values[kept])
    points, weights = hermite_points(int(kept.sum()), problem.nodes)
    zu = root @ points.T
    sd = np.sqrt(state.q - np.diag(state.R))
    output = np.zeros(len(weights))
    D = np.zeros((types, len(weights)))
    slope_squares = np.zeros_like(D)
    slope_e = np.zeros_like(D)
    for t in range(types):
        mean, D[t], slope_squares[t], slope_e[t] = problem.private(zu[k + t], sd[t])
        output += problem.fractions[t] * problem.values[t] * mean
    E = problem.target(zu[:k]) - output
    # B is in orthonormal coordinates x~ (`points`), and psi and phi in those of (z, u).
    B = (D * weights * E) @ points
    gg = B @ B.T
    fields = B @ root.T
    b = slope_e @ (weights * E)
    power = weights * (E**2 + problem.noise)
    chi = (D * power) @ D.T
    return fields[:, :k], fields[:, k:], b, gg, chi, slope_squares @ power


def step(problem, state):
    """Return the state after a step and the cosines of its gradients, (5.3c), (5.3d)."""  # noqa: E501
    psi, phi, b, gg, chi, chi_d = gradient(problem, state)
    a = np.array(problem.values, dtype=float)
    alpha0 = problem.batch_per_dim
    ga = problem.rate * a
    sd = np.sqrt(state.q - np.diag(state.R))
    M = state.M + ga[:, None] * psi
    R = state.R + ga[:, None] * phi + (ga[:, None] * phi).T
    R = R + np.outer(ga, ga) * (chi / alpha0 + gg)
    length = chi_d / alpha0 + np.diag(gg) + b**2
    q = state.q + 2 * ga * (np.diag(phi) + sd * b) + ga**2 * length
    cosine = np.sign(a)[:, None] * psi / np.sqrt(length)[:, None]
    return State(M, R, q), cosine


# -- section 5.2: the first gradient at n = alpha0 d^l ----------------------------


def hermite_tensor(target, order, directions, count=20):
    """Return C_l = E[h H_l(z)], an array with `order` axes."""
    points, weights = hermite_points(directions, count)
    h = weights * target(points.T)
    tensor = np.zeros((directions,) * order)
    for index in itertools.product(range(directions), repeat=order):
        product = np.ones(len(points))
        for r in range(directions):
            product = product * eval_hermitenorm(index.count(r), points[:, r])
        tensor[index] = h @ product
    return tensor


def orientation(
    target, slope, order, directions, alpha0, noise=0.0, cleaned=False, count=40
):
    """Return E cos^2 of the first gradients with the target space, (5.2b)."""
    u, mass = hermite_points(1, 200)
    u = u[:, 0]
    c = [mass @ (slope(u) * eval_hermitenorm(j, u)) for j in range(order)]
    points, weights = hermite_points(directions, count)
    y_square = weights @ target(points.T) ** 2 + noise
    slope_square = mass @ slope(u) ** 2
    if cleaned:
        # A fit of the lower parts takes them, and their noise, out of y and s'.
        for j in range(order):
            y_square -= (hermite_tensor(target, j, directions) ** 2).sum() / factorial(
                j
            )
        for j in range(order - 1):
            slope_square -= c[j] ** 2 / factorial(j)
    C = hermite_tensor(target, order, directions)
    total = 0.0
    for omega, weight in zip(points, weights, strict=True):
        found = C
        for _ in range(order - 1):
            found = found @ omega
        A = (c[order - 1] / factorial(order - 1)) ** 2 * (found @ found)
        total += weight * A / (A + y_square * slope_square / alpha0)
    return total
