"""The experiment: gradient descent at finite dimension, with the data matrix in full or
drawn as it is asked for.

X (n x d) has iid N(0,1) entries. Known are X A^T = Y for orthonormal rows A (in R^d)
and X^T B^T = Z for orthonormal rows B (in R^n). A new direction u orthogonal to A has,
given all that, X u = (I - B^T B) g + B^T Z^T u with g ~ N(0, I_n); X^T is the mirror
image. A product costs O((n + d) x number of earlier ones), memory likewise: see
batch_reuse_dmft section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import DeviceArray, Floats, Points
from giantstep.core.lab import threads_for, to_numpy
from giantstep.problems.batch_reuse.limit import forward
from giantstep.problems.batch_reuse.population import own_rule, trajectory_variables
from giantstep.problems.batch_reuse.scenario import BatchReuse
from giantstep.problems.batch_reuse.tolerances import DIVERGED, NOTHING_NEW

Product = Callable[[DeviceArray], DeviceArray]
RULE_NODES = 2**14
"""Points of the population loss, scrambled anew in every trial, so that their error is
part of the spread.
"""


def trial(
    scenario: BatchReuse,
    points: Points,
    what: str,
    dim: int,
    draws: Any,
    settings: Mapping[str, Any],
) -> dict[str, Floats]:
    """Train one network and record order parameters and losses before every step and
    after the last.
    """
    # products with few vectors: a second thread only waits
    thin = settings["method"] == "matrix-free"
    with threads_for(0 if thin else np.inf, draws.device):
        training = Training(
            scenario, dim, draws, settings["method"], keep=what == "kernels"
        )
        if what == "kernels":
            values = training.kernels()
        else:
            values = training.variables()
        return {name: value[None] for name, value in values.items()}


def draw_samples(
    scenario: BatchReuse, n: int, dim: int, draws: Any, method: str
) -> tuple[Product, Product, Any]:
    """Return products of n samples with rows of weights, sums of x over samples, and
    the labels.
    """
    xp = draws.xp
    k = scenario.target.directions
    times: Product
    back: Product
    if method == "direct":
        X = draws.normal("inputs", (n, dim))
        times = lambda v: v @ X.T  # noqa: E731
        back = lambda f: f @ X  # noqa: E731
    else:
        matrix = GaussianMatrix(
            n, dim, lambda shape: draws.normal("products", shape), xp
        )
        times = matrix.times
        back = matrix.transposed_times
    # the direction of the target is no loss of generality
    labels = scenario.target(times(xp.eye(k, dim)).T)
    if scenario.noise:
        labels = labels + scenario.noise**0.5 * draws.normal("noise", n)
    return times, back, labels


class Training:
    """Gradient descent of one network, and what it recorded at every time, NaN after
    the run diverged.

    M, Q, a and the training loss are as in `limit.Trajectory`; weights (p, d) and
    gradients (p, n) are kept on demand.
    """

    def __init__(
        self, scenario: BatchReuse, dim: int, draws: Any, method: str, keep: bool
    ) -> None:
        T = scenario.steps
        p = scenario.neurons
        k = scenario.target.directions
        self.scenario = scenario
        self.dim = dim
        self.draws = draws
        self.keep = keep
        self.M = np.full((T + 1, p, k), np.nan)
        self.Q = np.full((T + 1, p, p), np.nan)
        self.a = np.full((T + 1, p), np.nan)
        self.train_loss = np.full(T + 1, np.nan)
        self.weights: list[DeviceArray] = []
        self.gradients: list[DeviceArray] = []
        self._train(method)

    def _train(self, method: str) -> None:
        """Train until the last step, or until a neuron is too long."""
        scenario = self.scenario
        draws = self.draws
        k = self.scenario.target.directions
        root = self.dim**0.5
        W = _start(*scenario.start, self.dim, draws)
        a = draws.xp.asarray(scenario.second_layer)
        velocity = draws.xp.zeros_like(W)
        for t in range(scenario.steps + 1):
            check_time()
            M = to_numpy(W[:, :k]) / root
            Q = to_numpy(W @ W.T) / self.dim
            if not np.isfinite(Q).all() or Q.diagonal().max() >= DIVERGED:
                break
            self.M[t], self.Q[t], self.a[t] = M, Q, to_numpy(a)
            if self.keep:
                self.weights.append(W)
            if scenario.data == "fresh" or t == 0:
                count = max(1, round(scenario.samples_per_dim * self.dim))
                times, back, labels = draw_samples(
                    scenario, count, self.dim, draws, method
                )
            losses, gradient, slopes = forward(
                scenario.activation, scenario.loss, a, times(W / root), labels
            )
            self.train_loss[t] = float(losses.mean())
            if t == scenario.steps:
                break
            mask = self._mask(t, len(labels))
            if mask is not None:
                gradient = gradient * mask
            velocity = (
                scenario.momentum * velocity
                + back(gradient) / root
                + scenario.decay * W
            )
            W = W - float(scenario.rates()[t]) * velocity
            if scenario.constraint == "spherical":
                W = W * (self.dim / (W**2).sum(axis=1))[:, None] ** 0.5
            if scenario.second_layer_rate:
                if mask is None:
                    mean = slopes.mean(axis=1)
                else:
                    mean = (slopes @ mask) / draws.xp.maximum(mask.sum(), 1.0)
                a = a - scenario.second_layer_rate * mean
            if self.keep:
                self.gradients.append(gradient)

    def _mask(self, t: int, samples: int) -> DeviceArray | None:
        """Return 1 for the samples that step t uses and 0 for the others, or None where
        it uses all.
        """
        batches = self.scenario.batches
        if batches == 1:
            return None
        if self.scenario.data == "cycle":  # samples are exchangeable
            return (self.draws.xp.arange(samples) % batches == t % batches).astype(
                np.float64
            )
        return (self.draws.uniform("masks", samples) * batches < 1).astype(np.float64)

    def kernels(self) -> dict[str, Floats]:
        """Return C and Cl, NaN for times after the run diverged."""
        T = self.scenario.steps
        p = self.scenario.neurons
        k = self.scenario.target.directions
        C = np.full((T + 1, T + 1, p, p), np.nan)
        Cl = np.full((T, T, p, p), np.nan)
        for array, rows in (
            (C, [W[:, k:] for W in self.weights]),
            (Cl, self.gradients),
        ):
            for t, s in np.ndindex(len(rows), len(rows)):
                array[t, s] = to_numpy(rows[t] @ rows[s].T) / self.dim
        if self.scenario.data == "fresh":  # other samples: no covariance
            Cl *= np.eye(T)[:, :, None, None]
        return {"C": C, "Cl": Cl}

    def variables(self) -> dict[str, Floats]:
        """Return the variables of a trajectory."""
        words = [
            self.draws.seed & 0xFFFFFFFF,
            self.draws.seed >> 32,
            self.draws.trial,
            7,
        ]
        rule = own_rule(
            self.scenario.target,
            RULE_NODES,
            int(np.random.SeedSequence(words).generate_state(1)[0]),
        )
        return trajectory_variables(
            self.scenario, rule, self.M, self.Q, self.a, self.train_loss
        )


def _start(overlap: Floats, gram: Floats, dim: int, draws: Any) -> DeviceArray:
    """Return first-layer weights (p, d) whose order parameters are exactly those
    given.
    """
    xp, (p, k) = draws.xp, overlap.shape
    if dim < p + k:
        raise np.linalg.LinAlgError(
            f"dim={dim} is too small for {p} neurons and {k} target directions"
        )
    rows = draws.normal("weights", (p, dim))
    rows[:, :k] = 0.0
    rows = xp.linalg.qr(rows.T)[0].T
    values, vectors = np.linalg.eigh(gram - overlap @ overlap.T)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    W = xp.asarray(root) @ rows * dim**0.5
    W[:, :k] = xp.asarray(overlap) * dim**0.5
    return W


def memory(
    scenario: BatchReuse,
    points: Points,
    what: str,
    dim: int,
    settings: Mapping[str, Any],
) -> int:
    """Return the bytes of the data, or of the products asked for, and of what is at
    work.
    """
    p = scenario.neurons
    k = scenario.target.directions
    T = scenario.steps
    n = max(1.0, scenario.samples_per_dim * dim)
    work = 8 * (6 * p * (n + dim) + 4 * n) + (
        8 * p * (T + 1) * (n + dim) if what == "kernels" else 0
    )
    if settings["method"] == "direct":
        return int(8 * n * dim + work)
    steps = 1 if scenario.data == "fresh" else T
    return int(8 * (n + dim) * (k + p * (2 * steps + 1)) + work)


# -- A Gaussian matrix that is never formed: only the products that were asked for are d


class GaussianMatrix:
    """An iid N(0,1) matrix known by its products with vectors; `normal` draws standard
    normals of a shape.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        normal: Callable[[tuple[int, int]], DeviceArray],
        xp: ModuleType,
    ) -> None:
        self._xp = xp
        self._normal = normal
        # orthonormal directions and products with them
        self._right = (
            xp.empty((0, columns)),
            xp.empty((0, rows)),
        )
        self._left = xp.empty((0, rows)), xp.empty((0, columns))

    def times(self, vectors: DeviceArray) -> DeviceArray:
        """Return X v for every row v of `vectors` (m, d), as rows (m, n)."""
        result, self._right = self._product(vectors, *self._right, *self._left)
        return result

    def transposed_times(self, vectors: DeviceArray) -> DeviceArray:
        """Return X^T f for every row f of `vectors` (m, n), as rows (m, d)."""
        result, self._left = self._product(vectors, *self._left, *self._right)
        return result

    def _product(
        self,
        vectors: DeviceArray,
        known: DeviceArray,
        products: DeviceArray,
        others: DeviceArray,
        theirs: DeviceArray,
    ) -> tuple[DeviceArray, tuple[DeviceArray, DeviceArray]]:
        """Split vectors into c known + b new, orthonormal rows; draw the products of
        the new ones.
        """
        xp = self._xp
        inside = vectors @ known.T
        size = float(xp.sqrt((vectors**2).sum(axis=1)).max())
        new, coefficients = _orthonormal(vectors - inside @ known, size, xp)
        new -= (
            new @ known.T
        ) @ known  # once more: the first time leaves rounding errors of the long part
        new, change = _orthonormal(new, 1.0, xp)
        drawn = self._normal((len(new), products.shape[1]))
        drawn += (new @ theirs.T - drawn @ others.T) @ others
        result = inside @ products + coefficients @ change @ drawn
        return result, (xp.concatenate([known, new]), xp.concatenate([products, drawn]))


def _orthonormal(
    rows: DeviceArray, size: float, xp: ModuleType
) -> tuple[DeviceArray, DeviceArray]:
    """Return orthonormal rows u and coefficients b with rows = b u; directions that are
    rounding are left out.

    One after the other: eigenvectors of the Gram matrix have signs that depend on the
    processor, and the products that are drawn belong to the directions.
    """
    basis = rows[:0]
    for row in rows:
        new = row - (row @ basis.T) @ basis
        length = float(xp.sqrt(new @ new))
        if length > NOTHING_NEW * size:
            basis = xp.concatenate([basis, new[None] / length])
    return basis, rows @ basis.T
