"""The map of the steps: where the classes of neurons are, and how a class spreads.

few_steps_readout (3.1)-(3.5) and, for inputs with a covariance, structured_inputs (3.1)-(3.7), of which isotropic
inputs are one atom. After t steps neuron i of class q has the row Sigma^1/2 w_i = Sigma^1/2 B_i(Sigma) b_i + U_i in
whitened coordinates, with (U_i, B_i, s_i) = (U_q, B_q, s_q) + (JU_q, JB_q, Js_q) eps_i/sqrt(d) and s^2 = int lambda
B^2 dmu. This O(1/sqrt d) spread shifts every feature by a term of the size of the bulk, so that the read-out needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from giantstep.errors import InputError
from giantstep.gaussian import Function
from giantstep.gaussian.conditional import ConditionalTarget, condition
from giantstep.gaussian.target import Target
from giantstep.inputs.law import InputSpectrum
from giantstep.solve.finite import require_finite
from giantstep.types import Floats

LEARNT = 1e-9
"""Singular values of U below this, relative to max(1, the largest), count as not learnt."""
DIVERGED = 1e8
CANCELLED = 1e-6
MOST_LEARNT = 6
"""Learnt directions: product rules over three, sampled points beyond."""
FEW_AXES = 12
"""Coordinates up to which learnt directions are chosen near the axes."""
SPLIT_NODES = {1: 7, 2: 5}
"""Sub-classes of each class, for one class and for more."""
TOO_MANY = f"more than {MOST_LEARNT} learnt directions"
DIVERGES = "the weights grow without bound (|w|^2 above 1e8)"
CANCELS = "the step cancels the initial weights of a class (s = 0)"
_TABLE_STEP = 0.02
MANY_POINTS = 2
"""Points in units of those of a table, from which the table is used."""
TABLE_PIECE = 32
"""Steps of which tables are multiples, at both ends."""
Values = Callable[[Function, Floats, Floats], Floats]
"""Functions of the activation (F, N) at points A and scales s (N,)."""


@dataclass(frozen=True)
class Network:
    """What the steps need to know: activation, target, inputs, second layer, batch and loss."""

    activation: Function
    target: Target
    zeta: Floats
    pi: Floats
    inputs: InputSpectrum
    noise: float = 0.0
    batch_per_dim: float = np.inf
    correlation_loss: bool = False
    gaussian_rows: bool = False
    fineness: float = 1.0
    quadratic_dim: float = np.inf
    """Dimension at which every atom has a fluctuation of its own in place of the Theta: structured_inputs (8.1)."""


@dataclass(frozen=True, eq=False)
class Classes:
    """k classes of neurons after some steps, in R whitened coordinates, with K atoms.

    The columns of the spread are the fluctuations Theta of w0^T Sigma B^2 w0 at every time so far, whose covariance is
    structured_inputs (3.7), then the variables eps_c of the coordinates, independent standard normals. Directions of
    batch noise are further coordinates on which the target does not depend: columns of zeros of `frame`.
    """

    U: Floats  # (k, R)
    B: Floats  # (k, K)
    JU: Floats  # (k, R, C)
    JB: Floats  # (k, K, C)
    Js: Floats  # (k, C)
    frame: Floats  # (r, R)
    past: tuple[Floats, ...] = field(default=())  # B at the times of the Theta columns
    own: Floats | None = None  # (k, R): noise of a finite batch on inputs with a covariance, one variable for each c

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(self.U)


def scale_of(network: Network, classes: Classes) -> Floats:
    """Return s_q = (int lambda B_q^2 dmu)^(1/2)."""
    return np.sqrt(network.inputs.average(network.inputs.eigenvalues * classes.B**2))


def start(network: Network) -> Classes:
    """Return the classes before the first step, structured_inputs (3.6)."""
    inputs, k = network.inputs, len(network.pi)
    R, K = inputs.frame.shape[1], len(inputs.eigenvalues)
    JU = np.zeros((k, R, 1 + R))
    JU[:, :, 1:] = np.diag(np.sqrt(inputs.coordinate_eigenvalues))
    Js = np.zeros((k, 1 + R))
    Js[:, 0] = 0.5
    B = np.ones((k, K))
    return Classes(np.zeros((k, R)), B, JU, np.zeros((k, K, R + 1)), Js, inputs.frame, (B,))


def split_classes(network: Network, dim: float) -> tuple[Network, Classes]:
    """Return the network with sub-classes along the leading channel, and its start: structured_inputs (8.2).

    What is linear in the channel n = L^1/2 V^T of one target direction at an infinite dimension is followed at the
    nodes of a Gauss-Hermite rule at a finite one: n.eps = x_l, so that U starts at L^1/2 n x_l/sqrt(d).
    """
    from giantstep.gaussian.grids import hermite_rule

    nodes, weights = hermite_rule(SPLIT_NODES[min(len(network.pi), 2)])
    finer = replace(
        network,
        zeta=np.repeat(network.zeta, len(nodes)),
        pi=(network.pi[:, None] * weights / weights.sum()).reshape(-1),
    )
    classes, root = start(finer), np.sqrt(network.inputs.coordinate_eigenvalues)
    n = root * network.inputs.frame[0]
    n /= np.linalg.norm(n)
    U = np.tile(nodes, len(network.pi))[:, None] * (root * n) / np.sqrt(dim)
    JU = classes.JU.copy()
    JU[:, :, 1:] -= np.outer(root * n, n)
    return finer, replace(classes, U=U, JU=JU)


def plant(network: Network, shifts: Floats, bulk: Floats) -> Classes:
    """Return classes whose rows are s_q w0_i + U_q (isotropic inputs): few_steps_readout (3.5)."""
    classes = start(network)
    scale = np.asarray(bulk, dtype=float)
    B = scale[:, None] * classes.B
    Js = classes.Js / scale[:, None]  # ds = Theta/(2 s), Theta that of s_q w0
    return replace(
        classes, U=np.asarray(shifts, dtype=float), B=B, JU=scale[:, None, None] * classes.JU, Js=Js, past=(B,)
    )


def without_mean(network: Network, rows: Floats) -> Floats:
    """Return rows (..., K) of what the quadratic fluctuations of the atoms do; on the sphere their sum is fixed."""
    length = np.sqrt(network.inputs.masses)
    return rows if network.gaussian_rows else rows - (rows @ length)[..., None] * length


def theta_root(network: Network, classes: Classes) -> Floats:
    """Return square roots (k, t, rank) of d Cov(Theta^(t), Theta^(t')) of every class, structured_inputs (3.7)."""
    inputs = network.inputs
    weighted = np.stack([inputs.eigenvalues * B**2 for B in classes.past], axis=1)  # (k, t, K)
    if np.isfinite(network.quadratic_dim):
        return without_mean(network, weighted * np.sqrt(2 * inputs.masses))
    cov = 2 * np.einsum("qtj,quj,j->qtu", weighted, weighted, inputs.masses)
    if not network.gaussian_rows:
        mean = inputs.average(weighted)
        cov = cov - 2 * mean[:, :, None] * mean[:, None, :]
    values, vectors = np.linalg.eigh(cov)
    size = np.max(np.abs(weighted)) ** 2
    kept = np.max(values, axis=0) > 1e-13 * size
    return vectors[:, :, kept] * np.sqrt(np.maximum(values[:, None, kept], 0.0))


def independent_spread(network: Network, classes: Classes) -> tuple[Floats, Floats]:
    """Return JU (k, R, C) and Js (k, C) over independent standard normal channel variables."""
    times = len(classes.past)
    root = theta_root(network, classes)
    parts = []
    for J in (classes.JU, classes.Js[:, None, :]):
        parts.append(np.concatenate([J[:, :, :times] @ root, J[:, :, times:]], axis=2))
    return parts[0], parts[1][:, 0]


class Directions(NamedTuple):
    """Orthonormal directions of R^R: learnt (R, m), and the rest of what the targets see (R, L)."""

    learnt: Floats
    rest: Floats

    def along_leading(self, shifts: Floats) -> Directions:
        """Turn the learnt directions so that the first is the leading one of `shifts` (k, R), its largest entry > 0."""
        if not self.learnt.shape[1]:
            return self
        rows = np.linalg.svd(shifts @ self.learnt)[2]
        learnt = self.learnt @ rows.T
        signs = np.sign(learnt[np.argmax(np.abs(learnt), axis=0), np.arange(learnt.shape[1])])
        return Directions(learnt * signs, self.rest)

    def silent(self) -> Floats:
        """Return the directions that are neither learnt nor seen by a target, as columns, near the axes."""
        R, both = len(self.learnt), np.concatenate(self, axis=1)
        projector = np.eye(R) - both @ both.T
        return _orthonormal([projector @ axis for axis in np.eye(R)], R - both.shape[1], R)


@lru_cache(maxsize=64)
def split_directions(classes: Classes, target: Target) -> Directions:
    """Return a basis of the span of the rows of U and of what is left, near the axes where there is a choice.

    Where a plane on which the target is not smooth lies in the learnt space, the first axis is its normal.
    """
    U, frame = classes.U, classes.frame
    R = U.shape[1]
    _, values, rows = np.linalg.svd(U, full_matrices=False)
    span = rows[values > LEARNT * max(1.0, float(values.max(initial=0.0)))]
    normals = [np.array(plane.normal) @ frame for plane in target.planes]
    inside = [n for n in normals if np.linalg.norm(n - span.T @ (span @ n)) < 1e-9] if len(span) else []
    axes = [span.T @ (span @ axis) for axis in np.eye(R)] if R <= FEW_AXES else []
    learnt = _orthonormal([*inside, *axes, *span], len(span), R)
    left = frame - frame @ learnt @ learnt.T  # what is left of the targets
    seen = int(np.sum(np.linalg.svd(left, compute_uv=False) > 1e-9))
    return Directions(learnt, _orthonormal(list(left), seen, R))


def _orthonormal(vectors: Sequence[Floats], count: int, R: int) -> Floats:
    """Return `count` independent vectors orthonormalised, as columns (R, count): earlier ones first, if long enough."""
    basis = np.zeros((0, R))
    for cut in (0.5, 1e-3, 1e-8, 1e-12):
        for vector in vectors:
            if len(basis) == count:
                break
            for _ in range(2):
                vector = vector - basis.T @ (basis @ vector)
            length = np.linalg.norm(vector)
            if length > cut:
                basis = np.concatenate([basis, vector[None] / length])
    return basis.T


def conditional_target(network: Network, classes: Classes, basis: Directions) -> ConditionalTarget:
    """Return the target given kappa on a rule that resolves the features of these classes."""
    steepness = float(np.max(np.linalg.norm(classes.U, axis=1) / scale_of(network, classes)))
    learnt, rest = classes.frame @ basis.learnt, classes.frame @ basis.rest
    rest[np.abs(rest) < 1e-12] = 0.0
    return condition(network.target, learnt, rest, 1 / max(steepness, 1e-3), network.fineness)


def tabulated(activation: Function, values: Values, A: Floats, s: float, points: float = 0.0) -> Floats:
    """Return functions (F, N) of the activation at the points A of one class, which are smooth on the scale s.

    Many points are interpolated by a quintic spline through a table, where the activation has no closed form. Tables
    begin and end at multiples of many steps, so that rules of other fineness find the same one: the finest of them
    has so many `points`.
    """
    step = _TABLE_STEP * min(1.0, abs(s))
    low, high = float(A.min()) - 5 * step, float(A.max()) + 6 * step
    if activation.closed or max(len(A), points) * step < MANY_POINTS * (high - low):
        return values(activation, A, np.full(len(A), s))
    require_finite("a shift of the neurons", A)
    ends = TABLE_PIECE * math.floor(low / (TABLE_PIECE * step)), TABLE_PIECE * math.ceil(high / (TABLE_PIECE * step))
    return np.asarray(_table(activation, values, s, step, ends)(A))


@lru_cache(maxsize=512)
def _table(activation: Function, values: Values, s: float, step: float, ends: tuple[int, int]) -> Any:
    """Return the spline through a table at the multiples of a step between `ends`."""
    from scipy.interpolate import make_interp_spline

    table: Floats = step * np.arange(ends[0], ends[1] + 1, dtype=np.float64)
    tabled = values(activation, table, np.full(len(table), s))
    require_finite("a function of the activation", tabled)
    return make_interp_spline(table, tabled, k=5, axis=1)


def step(network: Network, classes: Classes, rate: float) -> Classes:
    """Return the classes after one step: structured_inputs (3.1)-(3.5), all averages at the old U and s."""
    s = scale_of(network, classes)
    basis = split_directions(classes, network.target)
    given = conditional_target(network, classes, basis)
    A = given.nodes @ basis.learnt.T @ classes.U.T
    D = [tabulated(network.activation, Function.smoothed, A[:, q], float(s[q])) for q in range(classes.count)]
    output = np.zeros(len(given.weights))
    if not network.correlation_loss:
        output = sum(p * z * d[0] for p, z, d in zip(network.pi, network.zeta, D))
    residual = _Residual(given, output, np.concatenate([basis.learnt, basis.rest], axis=1))
    moved = [_move(network, classes, q, rate * network.zeta[q], residual, D[q], s[q]) for q in range(classes.count)]
    U, B, JU, JB, Js = (np.stack(column) for column in zip(*moved))
    after = replace(classes, U=U, B=B, JU=JU, JB=JB, Js=Js, past=(*classes.past, B))
    if np.isfinite(network.batch_per_dim):
        after = _with_batch_noise(network, after, rate * network.zeta, residual, A, D, s)
    return after


def _move(
    network: Network, classes: Classes, q: int, e: float, residual: _Residual, D: Floats, s: float
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return U, B and the spread of one class after the step of strength e."""
    inputs, lam = network.inputs, network.inputs.eigenvalues
    slope = lam * inputs.factor
    tail = classes.U.shape[1] - len(inputs.atoms)
    pull = np.append(slope[inputs.atoms], np.ones(tail))  # Lt = L F(L); 1 on the batch noise of isotropic inputs
    linear = residual.linear(D[3])
    U = classes.U[q] + e * pull * residual.linear(D[1])
    growth = 1 + e * residual.mean(D[2]) * slope
    B = classes.B[q] * growth
    JU, JB, Js = classes.JU[q], classes.JB[q], classes.Js[q]
    bend = linear @ JU + s * residual.mean(D[4]) * Js
    moved_U = JU + e * pull[:, None] * (residual.quadratic(D[2], JU) + s * np.outer(linear, Js))
    moved_B = JB * growth[:, None] + e * (slope * classes.B[q])[:, None] * bend
    new_s = np.sqrt(inputs.average(lam * B**2))
    moved_s = inputs.average((lam * B)[None, :] * moved_B.T) / new_s
    times = len(classes.past)  # a column for the Theta of the new B
    moved_s = np.insert(moved_s, times, 0.5 / new_s)
    return U, B, np.insert(moved_U, times, 0.0, axis=1), np.insert(moved_B, times, 0.0, axis=1), moved_s


class _Residual:
    """E[res f], E[res f zt] and E[res f zt zt^T] for functions f of kappa, in whitened coordinates."""

    def __init__(self, given: ConditionalTarget, output: Floats, turn: Floats) -> None:
        self.given, self.output, self.turn = given, output, turn
        self.res = given.h - output

    def mean(self, f: Floats) -> float:
        return float(self.given.weights @ (self.res * f))

    def linear(self, f: Floats) -> Floats:
        weighted = self.given.weights * f
        return self.turn @ np.concatenate([(weighted * self.res) @ self.given.nodes, weighted @ self.given.h1])

    def quadratic(self, f: Floats, columns: Floats) -> Floats:
        """Return E[res f zt zt^T] columns: E[res f] times them beside the directions that res depends on."""
        given, weighted = self.given, self.given.weights * f
        m, L = given.nodes.shape[1], given.h1.shape[1]
        matrix = np.empty((m + L, m + L))
        matrix[:m, :m] = (given.nodes * (weighted * self.res)[:, None]).T @ given.nodes
        matrix[:m, m:] = (given.nodes * weighted[:, None]).T @ given.h1
        matrix[m:, :m] = matrix[:m, m:].T
        matrix[m:, m:] = np.einsum("n,nij->ij", weighted, given.h2) - (weighted @ self.output) * np.eye(L)
        inside = self.turn.T @ columns
        return self.mean(f) * (columns - self.turn @ inside) + self.turn @ (matrix @ inside)

    def power(self, noise: float) -> Floats:
        """Return E[(y - f)^2 | kappa]."""
        return self.given.square - 2 * self.given.h * self.output + self.output**2 + noise


def _with_batch_noise(
    network: Network, classes: Classes, e: Floats, residual: _Residual, A: Floats, D: list[Floats], s: Floats
) -> Classes:
    """Add the noise of a finite batch: what all neurons share, chi, and what each has for itself, (6.1)."""
    derivative = Function(network.activation.derivative, kinks=network.activation.kinks)
    steepest = np.stack([derivative.second_moment(A[:, q], s[q]) for q in range(classes.count)])
    weighted = residual.given.weights * residual.power(network.noise) / network.batch_per_dim
    slopes = np.stack([d[1] for d in D])
    chi, total = (slopes * weighted) @ slopes.T, steepest @ weighted
    if len(network.inputs.masses) > 1:
        return add_coloured_noise(network, classes, e, chi, total)
    return add_batch_noise(classes, e, chi, total)


def add_coloured_noise(network: Network, classes: Classes, e: Floats, chi: Floats, total: Floats) -> Classes:
    """Return classes after the first step on a finite batch of inputs with a covariance: structured_inputs (7.1)-(7.2).

    The noise that all neurons share is a coordinate of every atom; what each neuron has for itself widens the bulk.
    """
    inputs, lam = network.inputs, network.inputs.eigenvalues
    k, R, C = classes.JU.shape
    K = len(lam)
    shared = e * np.sqrt(np.diag(chi))  # at the first step all classes have the same slope: chi has rank one
    tau = np.sqrt(np.maximum(e**2 * (total - np.diag(chi)), 0.0))[:, None]
    old, s = classes.B, scale_of(network, classes)
    B = np.sqrt(old**2 + tau**2 * lam)
    scale = np.sqrt(inputs.average(lam * B**2))
    JU, Js = np.zeros((k, R + K, C + K + 1)), np.zeros((k, C + K + 1))
    JU[:, :R, :C] = classes.JU
    JU[:, R + np.arange(K), C + np.arange(K)] = np.sqrt(lam) * B
    Js[:, :C] = classes.Js * (s / scale)[:, None]
    third, fourth = inputs.average(lam**3 * old**2), inputs.average(lam**4)
    Js[:, -1] = np.sqrt(4 * tau[:, 0] ** 2 * third + 2 * tau[:, 0] ** 4 * fourth) / (2 * scale)
    own = np.pad(tau * inputs.coordinate_eigenvalues, ((0, 0), (0, K)))
    U = np.concatenate([classes.U, shared[:, None] * lam * np.sqrt(inputs.masses)], axis=1)
    frame = np.pad(classes.frame, ((0, 0), (0, K)))
    JB = np.zeros((k, K, C + K + 1))  # no step follows
    return replace(classes, U=U, B=B, JU=JU, JB=JB, Js=Js, frame=frame, own=own)


def add_batch_noise(classes: Classes, e: Floats, chi: Floats, total: Floats) -> Classes:
    """Return classes on isotropic inputs with the noise of a finite batch as an isotropic one, (6.2)-(6.3).

    chi (k, k) is the covariance of the noise that all neurons share, `total` (k,) the variance of each neuron's own.
    """
    k, R = classes.U.shape
    s = np.abs(classes.B[:, 0])
    tau = np.sqrt(np.maximum(e**2 * (total - np.diag(chi)), 0.0))
    values, vectors = np.linalg.eigh(chi)
    kept = values > 1e-13 * values.max()
    new = e[:, None] * np.sqrt(values[kept]) * vectors[:, kept]
    n, C = new.shape[1], classes.JU.shape[2]
    scale = np.sqrt(s**2 + tau**2)
    JU = np.zeros((k, R + n, C + n + R + 1))
    Js = np.zeros((k, C + n + R + 1))
    JU[:, :R, :C] = classes.JU
    Js[:, :C] = classes.Js * (s / scale)[:, None]
    JU[:, R + np.arange(n), C + np.arange(n)] = scale[:, None]
    JU[:, np.arange(R), C + n + np.arange(R)] = tau[:, None]
    Js[:, -1] = np.sqrt((4 * s**2 * tau**2 + 2 * tau**4) / (4 * scale**2))
    JB = Js[:, None, :] * np.sign(classes.B)[:, :, None]
    B = scale[:, None] * np.sign(classes.B)
    frame = np.pad(classes.frame, ((0, 0), (0, n)))
    return replace(classes, U=np.concatenate([classes.U, new], axis=1), B=B, JU=JU, JB=JB, Js=Js, frame=frame)


def follow(network: Network, rates: Sequence[float], first: Classes | None = None) -> tuple[list[Classes], str]:
    """Return the classes at times 0..T, and why the list ends early where it does."""
    path = [start(network) if first is None else first]
    for rate in rates:
        try:
            classes = step(network, path[-1], float(rate))
        except InputError as error:  # more nodes than there is memory for
            return path, reason_of(error)
        reason = trouble(network, classes)
        if reason:
            return path, reason
        path.append(classes)
    return path, ""


def reason_of(error: InputError) -> str:
    """Return why a point is not answered: what was refused on its way."""
    text = str(error).rstrip(".")
    fewer = "; smaller rates, fewer `atoms` of the inputs or a preconditioner need fewer, gs.simulate none"
    return text[:1].lower() + text[1:] + (fewer if "nodes" in text else "")


def trouble(network: Network, classes: Classes) -> str:
    """Return why these classes cannot be used further, or nothing."""
    s = scale_of(network, classes)
    norm = np.sum(classes.U**2, axis=1) + s**2
    if not np.all(norm < DIVERGED):
        return DIVERGES
    if np.min(s) < CANCELLED:
        return CANCELS
    return TOO_MANY if split_directions(classes, network.target).learnt.shape[1] > MOST_LEARNT else ""
