"""The exact map of overlaps of a giant step, for blocks of exchangeable neurons at
finite or infinite width.

Neurons of a block t share a_t, M_t = <w_i, w*>, q_t = |w_i|^2, and R_tt' = <w_i, w_j>
for i != j. So lambda_i = u_t + sd_t e_i with u jointly Gaussian with z, cov u = R, and
e_i ~ N(0, 1) private to neuron i. Given (z, u) the neurons are independent, which makes
every average over a network of any width an average over the shared space (z, u) of
products of one-neuron averages: functions of u alone, tabulated and interpolated (relu:
closed forms). At infinite width it is gradient_dynamics (5.3a)-(5.3d); terms with 1/p
are exact.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement

import numpy as np
import scipy
from scipy.special import ndtr, ndtri

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import (
    Function,
    Target,
    gauss_legendre_panels,
    normal_density,
)
from giantstep.core.maths.gaussian.grids import (
    NodeGrid,
    even_rule,
    hermite_rule,
    product_grid,
)
from giantstep.core.maths.gaussian.resolution import HERMITE_STEP
from giantstep.core.maths.solve.roots import require_finite
from giantstep.problems.giant_steps.tolerances import (
    LEAST_SPREAD,
    MOST_CLIPPED,
    MOST_SINGLE,
    NO_VARIANCE,
    REPELLING,
)

_TABLE = 1500
_SPLINE = 7
"""Points of a table at most, of which there are twenty for each spread, and the degree
of the spline through it.
"""
_PANEL = 16
"""Gauss-Legendre nodes of a panel between kinks, two standard deviations wide or
less.
"""


Averages = namedtuple("Averages", "S V D De Se DD XD XDe XXD XDD XXDD")
"""Averages over e at given u: with S = E s and x = s - S.

``S``, ``V = E x^2``, ``D = E s'``, ``De = E s' e``, ``Se = E s e``, ``DD = E s'^2``,
``XD = E x s'``, ``XDe = E x s' e``, ``XXD = E x^2 s'``, ``XDD = E x s'^2``, ``XXDD = E
x^2 s'^2``.
"""


def private_averages(activation: Function, u: Floats, spread: float) -> Averages:
    """Return the averages at all u (N,) for one spread sd = sqrt(q - R)."""
    if spread < LEAST_SPREAD:
        s = activation(u)
        slope = activation.derivative(u)
        zero = np.zeros_like(u)
        return Averages(
            s, zero, slope, zero, zero, slope**2, zero, zero, zero, zero, zero
        )
    if activation.expression == "relu(z)":
        return _relu(u, spread)
    require_finite("a field of the neurons", u, spread)
    low = float(u.min())
    high = float(u.max())
    if high - low < 1e-12:
        single = _integrate(activation, np.array([0.5 * (low + high)]), spread)
        return Averages(*np.broadcast_to(single, (len(single), len(u))))
    count = int(np.clip(np.ceil((high - low) / (0.05 * spread)), 64, _TABLE))
    nodes = np.linspace(low, high, count)
    values = _integrate(activation, nodes, spread)
    require_finite("a moment of the activation", values)
    return Averages(
        *scipy.interpolate.make_interp_spline(nodes, values, k=_SPLINE, axis=1)(u)
    )


def _relu(u: Floats, sd: float) -> Averages:
    P = ndtr(u / sd)
    bell = normal_density(u / sd)
    S = u * P + sd * bell
    second = (u * u + sd * sd) * P + u * sd * bell
    Se = sd * P  # E relu(lambda) e = sd E 1(lambda > 0)
    XD = S - S * P
    XDe = Se - S * bell
    XXD = second - 2 * S * S + S * S * P
    return Averages(
        S, np.maximum(second - S**2, 0.0), P, bell, Se, P, XD, XDe, XXD, XD, XXD
    )


def _integrate(activation: Function, u: Floats, sd: float) -> Floats:
    """Return the eleven averages at the nodes, an array (11, len(u))."""
    if activation.kinks:
        moving = np.clip((np.array(activation.kinks) - u[:, None]) / sd, -9.0, 9.0)
        fixed = np.broadcast_to(np.linspace(-9.0, 9.0, 10), (len(u), 10))
        e, weights = gauss_legendre_panels(
            np.sort(np.concatenate([fixed, moving], axis=1), axis=1), _PANEL
        )
        weights = weights * normal_density(e)
    else:
        e, weights = (
            values[None, :] for values in even_rule(min(0.12, 0.25 / max(sd, 1.0)))
        )
    at = u[:, None] + sd * e
    s = activation(at)
    slope = activation.derivative(at)
    S = np.sum(s * weights, axis=1)
    x = s - S[:, None]
    products = (
        x * x,
        slope,
        slope * e,
        s * e,
        slope**2,
        x * slope,
        x * slope * e,
        x * x * slope,
        x * slope**2,
        x * x * slope**2,
    )
    return np.stack([S, *(np.sum(product * weights, axis=1) for product in products)])


SOBOL_POINTS = 1 << 15
"""Points, besides their opposites, of a shared space of more than four dimensions: 3e-4
of an overlap.
"""
_NODES = {1: 96, 2: 64, 3: 40, 4: 28}
_STEPS = {1: 0.12, 2: 0.16, 3: 0.25}
_PIECE = {1: 60, 2: 34, 3: 20, 4: 14}
"""By the dimensions of the shared space: Gauss-Hermite nodes of an axis, spacing of an
even rule in standard deviations for functions with poles near the axis, nodes of each
piece of an axis with breaks.
"""


class RepellingNeurons(Exception):
    """Neurons of a small block have negative overlaps: they must be followed one by one
    (`BlockNetwork.single`).
    """


@dataclass(frozen=True)
class BlockNetwork:
    """What stays fixed over the steps."""

    values: Floats  # (T,) second layer of every block
    fractions: Floats  # (T,)
    counts: Floats  # (T,) number of neurons, inf at infinite width
    target: Target
    activation: Function
    noise: float
    fineness: float = (
        1.0  # 1.0 for the rule that answers, less for the one that measures its error
    )
    # rules of shared spaces that were made, by dimensions
    grids: dict[int, NodeGrid] = field(default_factory=dict)

    def single(self) -> BlockNetwork:
        """Return the same finite network with every neuron a block of its own."""
        ones = np.ones(int(self.counts.sum()))
        values = np.repeat(self.values, self.counts.astype(int))
        return replace(self, values=values, fractions=ones / len(ones), counts=ones)


@dataclass(frozen=True)
class Overlaps:
    """State of the map: M (T, k), R (T, T), q (T,)."""

    M: Floats
    R: Floats
    q: Floats


@dataclass(frozen=True)
class StepAverages:
    """Averages of one step: psi (T, k) = E F z; squared norms; and what moves R
    and q.
    """

    psi: Floats
    squared: Floats
    phi: Floats
    phi_own: Floats
    pair: Floats


def start(network: BlockNetwork) -> Overlaps:
    """Return the overlaps of random weights of unit norm."""
    blocks = len(network.values)
    k = network.target.directions
    return Overlaps(np.zeros((blocks, k)), np.zeros((blocks, blocks)), np.ones(blocks))


@dataclass(frozen=True)
class Shared:
    """The shared space at nodes."""

    x: Floats  # (N, D) orthonormal coordinates, z first
    weights: Floats  # (N,)
    A: Floats  # (T, D), u = x A^T
    spread: Floats  # (T,), the private spreads sd
    averages: tuple[Averages, ...]  # one-neuron averages at the nodes, block by block
    labels: Floats  # (N,), h
    residual: Floats  # (N,), h - E[f|z, u]
    clipped: float  # negative overlap that was taken for zero


def shared_space(network: BlockNetwork, state: Overlaps) -> Shared:
    """Return a rule over (z, u) with the one-neuron averages at its nodes and the
    residual h - E[f|z, u].
    """
    R = _shared_covariance(network, state)
    sizes, vectors = np.linalg.eigh(R - state.M @ state.M.T)
    scale = max(1.0, float(np.max(state.q)))
    clipped = max(-float(sizes[0]) / scale, 0.0)
    if clipped > (REPELLING if network.counts.sum() <= MOST_SINGLE else MOST_CLIPPED):
        raise RepellingNeurons(
            f"neurons of one block repel each other (overlap {sizes[0]:.2g} beyond the"
            " target)"
        )
    kept = sizes > NO_VARIANCE * scale
    A = np.concatenate([state.M, vectors[:, kept] * np.sqrt(sizes[kept])], axis=1)
    dims = A.shape[1]
    if dims not in network.grids:
        network.grids[dims] = _grid(network.target, network.fineness, dims)
    grid = network.grids[dims]
    spread = np.sqrt(np.maximum(state.q - np.sum(A * A, axis=1), 0.0))
    fields = zip((grid.points @ A.T).T, spread.tolist())
    averages = tuple(private_averages(network.activation, u, sd) for u, sd in fields)
    output = sum(
        weight * block.S
        for weight, block in zip(network.fractions * network.values, averages)
    )
    labels = np.asarray(network.target(grid.points[:, : state.M.shape[1]]), dtype=float)
    return Shared(
        grid.points, grid.weights, A, spread, averages, labels, labels - output, clipped
    )


def _shared_covariance(network: BlockNetwork, state: Overlaps) -> Floats:
    """Return R, with the largest private part taken off the diagonal of blocks of one
    neuron (there is no second).
    """
    single = network.counts == 1
    R = state.R.copy()
    if not np.any(single):
        return R
    R[single, single] = state.q[single]
    rest = R - state.M @ state.M.T
    cross = rest[np.ix_(single, ~single)]
    conditional = (
        rest[np.ix_(single, single)]
        - cross @ np.linalg.pinv(rest[np.ix_(~single, ~single)]) @ cross.T
    )
    R[single, single] -= (1 - 1e-9) * max(
        float(np.linalg.eigvalsh(conditional)[0]), 0.0
    )
    return R


def _grid(target: Target, fineness: float, dims: int) -> NodeGrid:
    if dims <= 4:
        nodes = max(8, round(fineness * _NODES[dims]))
        within = [plane.within(dims) for plane in target.planes]
        # poles near the axis: Gauss rules are slow
        even = target.degree is None and not within and dims in _STEPS
        if even:
            smooth = even_rule(_STEPS[dims] / fineness)
        else:
            smooth = hermite_rule(nodes)
        narrow = [plane.within(dims) for plane in target.narrow_places(HERMITE_STEP)]
        return product_grid(
            dims, within, smooth, max(6, round(fineness * _PIECE[dims])), narrow
        )
    count = SOBOL_POINTS if fineness >= 1 else SOBOL_POINTS // 4
    half = ndtri(scipy.stats.qmc.Sobol(dims, seed=7).random(count))
    points = np.concatenate([half, -half])
    return NodeGrid(points, np.full(len(points), 1 / len(points)))


def gradient(
    network: BlockNetwork, state: Overlaps, inverse_alpha: float, space: Shared
) -> StepAverages:
    """Return the averages of a step on a batch of n = d/inverse_alpha samples (0: the
    population).
    """
    a = network.values
    counts = network.counts
    ip = 1 / counts.sum()  # 1/p, 0 at infinite width
    w = space.weights
    E = space.residual
    blocks = space.averages
    B = np.stack(
        [
            (w * (E * block.D - x * block.XD)) @ space.x
            for x, block in zip(ip * a, blocks)
        ]
    )
    b = np.array(
        [w @ (E * block.De - x * block.XDe) for x, block in zip(ip * a, blocks)]
    )
    beta = np.array(
        [[w @ (block.D * other.Se) for other in blocks] for block in blocks]
    )
    # E F_i e_j for a neuron i of block t and another one j of block s
    foreign = -ip * beta * a[None, :]
    variance = sum(
        ip * share * value**2 * block.V
        for share, value, block in zip(network.fractions, a, blocks)
    )
    phi = B @ space.A.T + foreign * space.spread[None, :]
    phi_own = np.einsum("ti,ti->t", B, space.A) + space.spread * b
    own = np.diag(foreign)
    others = np.zeros_like(foreign)
    if np.all(
        np.isfinite(counts)
    ):  # sum over neurons l other than i != j of E[F_i e_l] E[F_j e_l]
        others = (foreign * counts) @ foreign.T - (
            own[:, None] * foreign.T + foreign * own
        )
    noise = np.zeros(len(a))  # E[F_i^2] of a neuron of every block, over alpha
    for t, (x, block) in enumerate(zip(ip * a, blocks)):
        rest = E * E + network.noise + variance - x**2 * block.V
        noise[t] = inverse_alpha * (
            w @ (rest * block.DD - 2 * x * E * block.XDD + x**2 * block.XXDD)
        )
    squared = noise + np.sum(B * B, axis=1) + b**2 + np.diag(others) + own**2
    pair = B @ B.T + others + b[:, None] * foreign.T + foreign * b[None, :]
    if inverse_alpha > 0:
        for (t, (x, p)), (s, (y, o)) in combinations_with_replacement(
            enumerate(zip(ip * a, blocks)), 2
        ):  # E[F_i F_j]
            rest = E * E + network.noise + variance - x * x * p.V - y * y * o.V
            value = rest * p.D * o.D - 2 * E * (x * p.XD * o.D + y * p.D * o.XD)
            value += x * x * p.XXD * o.D + y * y * p.D * o.XXD + 2 * x * y * p.XD * o.XD
            pair[t, s] += inverse_alpha * (w @ value)
            pair[s, t] = pair[t, s]
    return StepAverages(B[:, : state.M.shape[1]], squared, phi, phi_own, pair)


def step(
    network: BlockNetwork, state: Overlaps, moves: StepAverages, rate: float
) -> Overlaps:
    """Return the overlaps after w_i += rate a_i G_i."""
    a = rate * network.values
    moved = a[:, None] * moves.phi
    return Overlaps(
        state.M + a[:, None] * moves.psi,
        state.R + moved + moved.T + np.outer(a, a) * moves.pair,
        state.q + 2 * a * moves.phi_own + a * a * moves.squared,
    )


def best_error(network: BlockNetwork, space: Shared) -> float:
    """Return the error with the best second layer: E y^2 - b^T K^+ b, K = E s_i s_j,
    b = E y s_i, noise included.
    """
    w = space.weights
    S = np.stack([block.S for block in space.averages])
    K = (S * w) @ S.T + np.diag(
        [float(w @ block.V) / n for block, n in zip(space.averages, network.counts)]
    )
    b = S @ (w * space.labels)
    error = w @ space.labels**2 - b @ np.linalg.lstsq(K, b, rcond=1e-13)[0]
    return max(float(error), 0.0) + network.noise
