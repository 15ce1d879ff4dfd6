"""The experiment: gradient descent at finite dimension, with the data matrix in full or drawn as it is asked for.

X (n x d) has iid N(0,1) entries. Known are X A^T = Y for orthonormal rows A (in R^d) and X^T B^T = Z for orthonormal
rows B (in R^n). A new direction u orthogonal to A has, given all that, X u = (I - B^T B) g + B^T Z^T u with
g ~ N(0, I_n); X^T is the mirror image. A product costs O((n + d) x number of earlier ones), memory likewise: see
batch_reuse_dmft section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from giantstep.deadline import check_time
from giantstep.families.batch_reuse.population import own_rule, trajectory_variables
from giantstep.families.batch_reuse.recursion import Forward, forward
from giantstep.families.batch_reuse.scenario import BatchReuse
from giantstep.families.batch_reuse.tolerances import DIVERGED, NOTHING_NEW
from giantstep.lab import threads_for, to_numpy
from giantstep.types import DeviceArray, Floats, Points

RULE_NODES = 2**14
"""Points of the population loss, scrambled anew in every trial, so that their error is part of the spread."""


def trial(
    scenario: BatchReuse, points: Points, what: str, dim: int, draws: Any, settings: Mapping[str, Any]
) -> dict[str, Floats]:
    """Train one network and record order parameters and losses before every step and after the last."""
    thin = settings["method"] == "matrix-free"  # products with few vectors: a second thread only waits
    with threads_for(0 if thin else np.inf, draws.device):
        training = Training(scenario, dim, draws, settings["method"], keep=what == "kernels")
        training.run()
        values = training.kernels() if what == "kernels" else training.variables()
        return {name: value[None] for name, value in values.items()}


class BatchSamples:
    """n samples: projections of x on vectors, and sums of x over samples."""

    def __init__(self, scenario: BatchReuse, n: int, dim: int, draws: Any, method: str) -> None:
        xp, k = draws.xp, scenario.target.directions
        self.times: Callable[[DeviceArray], DeviceArray]
        self.transposed_times: Callable[[DeviceArray], DeviceArray]
        if method == "direct":
            X = draws.normal("inputs", (n, dim))
            self.times, self.transposed_times = (lambda v: v @ X.T), (lambda f: f @ X)
        else:
            matrix = GaussianMatrix(n, dim, lambda shape: draws.normal("products", shape), xp)
            self.times, self.transposed_times = matrix.times, matrix.transposed_times
        teacher = xp.zeros((k, dim))
        teacher[xp.arange(k), xp.arange(k)] = 1.0  # the direction of the target is no loss of generality
        labels = scenario.target(self.times(teacher).T)
        self.labels = labels + scenario.noise**0.5 * draws.normal("noise", n) if scenario.noise else labels
        if scenario.data == "cycle":
            self.groups = xp.arange(n) % scenario.batches  # samples are exchangeable


class Training:
    """Gradient descent of one network, and what it recorded at every time, NaN after the run diverged.

    M, Q, a and the training loss are as in `recursion.Trajectory`; weights (p, d) and gradients (p, n) are kept on
    demand.
    """

    def __init__(self, scenario: BatchReuse, dim: int, draws: Any, method: str, keep: bool) -> None:
        T, p, k = scenario.steps, scenario.neurons, scenario.target.directions
        self.scenario, self.dim, self.draws, self.method, self.keep = scenario, dim, draws, method, keep
        self.M, self.Q = np.full((T + 1, p, k), np.nan), np.full((T + 1, p, p), np.nan)
        self.a, self.train_loss = np.full((T + 1, p), np.nan), np.full(T + 1, np.nan)
        self.weights: list[DeviceArray] = []
        self.gradients: list[DeviceArray] = []
        self._W = _start(*scenario.start, dim, draws)
        self._velocity = draws.xp.zeros_like(self._W)
        self._second_layer = draws.xp.asarray(scenario.second_layer)

    def run(self) -> None:
        """Train until the last step, or until a neuron is too long."""
        scenario, k, root = self.scenario, self.scenario.target.directions, self.dim**0.5
        for t in range(scenario.steps + 1):
            check_time()
            W, a = self._W, self._second_layer
            M, Q = to_numpy(W[:, :k]) / root, to_numpy(W @ W.T) / self.dim
            if not np.isfinite(Q).all() or Q.diagonal().max() >= DIVERGED:
                break
            self.M[t], self.Q[t], self.a[t] = M, Q, to_numpy(a)
            if self.keep:
                self.weights.append(W)
            if scenario.data == "fresh" or t == 0:
                count = max(1, round(scenario.samples_per_dim * self.dim))
                samples = BatchSamples(scenario, count, self.dim, self.draws, self.method)
            h = samples.times(W / root)
            network = forward(scenario.activation, scenario.loss, a, h, samples.labels)
            self.train_loss[t] = float(network.loss.mean())
            if t < scenario.steps:
                self._step(t, samples, network)

    def _step(self, t: int, samples: BatchSamples, network: Forward) -> None:
        """Move weights, velocity and second layer by step t, where the network was evaluated at all samples."""
        scenario, gradient, mask = self.scenario, network.gradient, self._mask(t, samples)
        if mask is not None:
            gradient = gradient * mask
        pull = samples.transposed_times(gradient) / self.dim**0.5
        self._velocity = scenario.momentum * self._velocity + pull + scenario.decay * self._W
        self._W = self._W - float(scenario.rates()[t]) * self._velocity
        if scenario.constraint == "spherical":
            self._W = self._W * (self.dim / (self._W**2).sum(axis=1))[:, None] ** 0.5
        if scenario.second_layer_rate:
            slopes = network.second_layer_gradient
            mean = slopes.mean(axis=1) if mask is None else (slopes @ mask) / self.draws.xp.maximum(mask.sum(), 1.0)
            self._second_layer = self._second_layer - scenario.second_layer_rate * mean
        if self.keep:
            self.gradients.append(gradient)

    def _mask(self, t: int, samples: BatchSamples) -> DeviceArray | None:
        """Return 1 for the samples that step t uses and 0 for the others, or None where it uses all."""
        batches = self.scenario.batches
        if batches == 1:
            return None
        if self.scenario.data == "cycle":
            return (samples.groups == t % batches).astype(np.float64)
        return (self.draws.uniform("masks", len(samples.labels)) * batches < 1).astype(np.float64)

    def kernels(self) -> dict[str, Floats]:
        """Return C and Cl, NaN for times after the run diverged."""
        T, p, k = self.scenario.steps, self.scenario.neurons, self.scenario.target.directions
        C, Cl = np.full((T + 1, T + 1, p, p), np.nan), np.full((T, T, p, p), np.nan)
        for t, later in enumerate(self.weights):
            for s, earlier in enumerate(self.weights):
                C[t, s] = to_numpy(later[:, k:] @ earlier[:, k:].T) / self.dim
        fresh = self.scenario.data == "fresh"  # other samples: no covariance
        for t, later in enumerate(self.gradients):
            for s, earlier in enumerate(self.gradients):
                Cl[t, s] = 0.0 if fresh and s != t else to_numpy(later @ earlier.T) / self.dim
        return {"C": C, "Cl": Cl}

    def variables(self) -> dict[str, Floats]:
        """Return the variables of a trajectory."""
        words = [self.draws.seed & 0xFFFFFFFF, self.draws.seed >> 32, self.draws.trial, 7]
        rule = own_rule(self.scenario.target, RULE_NODES, int(np.random.SeedSequence(words).generate_state(1)[0]))
        return trajectory_variables(self.scenario, rule, self.M, self.Q, self.a, self.train_loss)


def _start(overlap: Floats, gram: Floats, dim: int, draws: Any) -> DeviceArray:
    """Return first-layer weights (p, d) whose order parameters are exactly those given."""
    xp, (p, k) = draws.xp, overlap.shape
    if dim < p + k:
        raise np.linalg.LinAlgError(f"dim={dim} is too small for {p} neurons and {k} target directions")
    rows = draws.normal("weights", (p, dim))
    rows[:, :k] = 0.0
    rows = xp.linalg.qr(rows.T)[0].T
    values, vectors = np.linalg.eigh(gram - overlap @ overlap.T)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    W = xp.asarray(root) @ rows * dim**0.5
    W[:, :k] = xp.asarray(overlap) * dim**0.5
    return W


def memory(scenario: BatchReuse, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes of the data, or of the products asked for, and of what is at work."""
    p, k, T = scenario.neurons, scenario.target.directions, scenario.steps
    n = max(1.0, scenario.samples_per_dim * dim)
    work = 8 * (6 * p * (n + dim) + 4 * n) + (8 * p * (T + 1) * (n + dim) if what == "kernels" else 0)
    if settings["method"] == "direct":
        return int(8 * n * dim + work)
    steps = 1 if scenario.data == "fresh" else T
    return int(8 * (n + dim) * (k + p * (2 * steps + 1)) + work)


# -- A Gaussian matrix that is never formed: only the products that were asked for are drawn --------------


class GaussianMatrix:
    """An iid N(0,1) matrix known by its products with vectors; `normal` draws standard normals of a shape."""

    def __init__(
        self, rows: int, columns: int, normal: Callable[[tuple[int, int]], DeviceArray], xp: ModuleType
    ) -> None:
        self._xp, self._normal = xp, normal
        self._right = _Side(xp.empty((0, columns)), xp.empty((0, rows)))
        self._left = _Side(xp.empty((0, rows)), xp.empty((0, columns)))

    def times(self, vectors: DeviceArray) -> DeviceArray:
        """Return X v for every row v of `vectors` (m, d), as rows (m, n)."""
        return self._product(vectors, self._right, self._left)

    def transposed_times(self, vectors: DeviceArray) -> DeviceArray:
        """Return X^T f for every row f of `vectors` (m, n), as rows (m, d)."""
        return self._product(vectors, self._left, self._right)

    def _product(self, vectors: DeviceArray, side: _Side, other: _Side) -> DeviceArray:
        """Split vectors into c known + b new, orthonormal rows; draw the products of the new ones."""
        xp, known = self._xp, side.directions
        inside = vectors @ known.T
        result, size = inside @ side.products, float(xp.sqrt((vectors**2).sum(axis=1)).max())
        new, coefficients = _orthonormal(vectors - inside @ known, size, xp)
        if len(new):
            new -= (new @ known.T) @ known  # once more: the first time leaves rounding errors of the long part
            new, change = _orthonormal(new, 1.0, xp)
            coefficients = coefficients @ change
        if len(new):
            drawn = self._normal((len(new), side.products.shape[1]))
            drawn += (new @ other.products.T - drawn @ other.directions.T) @ other.directions
            side.directions = xp.concatenate([side.directions, new])
            side.products = xp.concatenate([side.products, drawn])
            result += coefficients @ drawn
        return result


@dataclass
class _Side:
    """Orthonormal directions and the products of the matrix with them, in rows."""

    directions: DeviceArray
    products: DeviceArray


def _orthonormal(rows: DeviceArray, size: float, xp: ModuleType) -> tuple[DeviceArray, DeviceArray]:
    """Return orthonormal rows u and coefficients b with rows = b u; directions that are rounding are left out.

    One after the other: eigenvectors of the Gram matrix have signs that depend on the processor, and the products that
    are drawn belong to the directions.
    """
    basis = rows[:0]
    for row in rows:
        new = row - (row @ basis.T) @ basis
        length = float(xp.sqrt(new @ new))
        if length > NOTHING_NEW * size:
            basis = xp.concatenate([basis, new[None] / length])
    return basis, rows @ basis.T
