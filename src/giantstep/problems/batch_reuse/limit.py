"""The limit: the causal recursion on several independent sets of points, averaged, with
its standard errors.

With F^t the gradient of one sample's loss in its pre-activations, batch_reuse_dmft
(2.1)-(2.9) with momentum beta are

    h^t = M^t h* + om^t - sum_{s<t} K(t,s) F^s ,   om a Gaussian process of covariance C(t,s),
    Gam(t,s) = alpha E[dF^t/d om^s] ,   Cl(t,s) = alpha E[F^t F^sT] ,
    X^{t+1} = X^t - eta_t V_X^{t+1}   for X = M, P, K(.,s) ,
    V_M = beta V_M + decay M + alpha E[F h*^T] ,  V_P = beta V_P + decay P + sum_r Gam(t,r) P^r ,
    V_K(.,s) = beta V_K(.,s) + decay K(t,s) + sum_{r>s} Gam(t,r) K(r,s) - [t = s] I ,
    C(t,s) = P^t (Q^0 - M^0 M^0T) P^sT + sum_{r,q} K(t,r) Cl(r,q) K(s,q)^T ,   Q^t = C(t,t) + M^t M^tT .

Everything with index t needs the process up to t only: no fixed point is iterated.
Fresh samples at every step are the same recursion without memory: h^t = M^t h* + om^t,
Gam(t,s) = Cl(t,s) = 0 for s < t.

The matrices of all times are kept as block matrices; block (t, s) is `[t*p:(t+1)*p,
s*p:(s+1)*p]`.

The network is f(h) = sum_j a_j sigma(h_j); arrays have the samples along the last axis,
NumPy or (`forward`) CuPy.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import DeviceArray, Floats, Points
from giantstep.core.lab import available_memory
from giantstep.core.maths.gaussian import Function
from giantstep.core.scenario.answer import Answer, pad_stack
from giantstep.core.scenario.checks import every_time
from giantstep.core.scenario.grid import scenario_at
from giantstep.problems.batch_reuse.points import (
    MOST_COLUMNS,
    Layout,
    WeightedPoints,
    sobol_points,
)
from giantstep.problems.batch_reuse.population import target_rule, trajectory_variables
from giantstep.problems.batch_reuse.scenario import BatchReuse, Loss
from giantstep.problems.batch_reuse.tolerances import (
    CUT_EARLY,
    CUT_LATE,
    DIVERGED,
    HEAVY_TAILS,
    LATE,
    PSEUDO_INVERSE,
)

FEWEST_PER_COLUMN = 2
"""Points for each of their columns at least: fewer cannot have the moments of
independent normals.
"""
Run = tuple[dict[str, Floats], float, int]
"""One run of the recursion: its variables, the mean square of its labels, the step at
which it diverged (or 0).
"""


def prepare(
    scenario: BatchReuse, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Check the number of points, and say which times both engines answer."""
    nodes = settings["nodes"]
    if nodes & (nodes - 1):
        raise bad_field("nodes", nodes, "a power of two (2**16, say)")
    times = every_time(points["steps"].max())
    return {
        **settings,
        "time": times,
        "time_2": times,
        "step": times[:-1],
        "step_2": times[:-1],
    }


def limit(
    scenario: BatchReuse, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Answer every point; points of one shape of the problem share their sets of Sobol
    points.
    """
    size = len(points["steps"])
    scenarios: list[Any] = [
        scenario_at(scenario, points, index) for index in range(size)
    ]
    for each in scenarios:
        _check_size(each, settings)
    answer = Answer.blank(size)
    answer.residual[:] = 0.0
    solved = []
    for index, runs in enumerate(_all_runs(scenarios, what, settings)):
        values, powers, diverged = zip(*runs)
        if any(diverged):
            answer.status[index] = (
                f"the trajectory diverged at step {min(filter(None, diverged))}"
            )
        else:
            answer.status[index] = ""
        remarks = _remarks(scenarios[index], powers)
        answer.warnings += [
            remark for remark in remarks if remark not in answer.warnings
        ]
        answer.iterations[index] = scenarios[index].steps
        means: dict[str, Any] = {}  # over the scrambles, with their standard errors
        for name in values[0]:
            stack = np.stack([run[name] for run in values])
            alone = len(runs) == 1
            if alone:
                spread = np.full_like(stack[0], np.nan)
            else:
                spread = stack.std(axis=0, ddof=1) / np.sqrt(len(runs))
            means |= {name: stack.mean(axis=0), f"{name}_stderr": spread}
        solved.append(means)
    answer.values = {
        name: pad_stack([values[name] for values in solved]) for name in solved[0]
    }
    dims = {
        dim for variable in scenario.questions[what].variables for dim in variable.dims
    }
    answer.coords = {
        dim: settings[dim]
        for dim in ("time", "time_2", "step", "step_2")
        if dim in dims
    }
    replicates = settings["scrambles"]
    answer.attrs = {
        "nodes": settings["nodes"],
        "replicates": replicates,
        "points_seed": settings["seed"],
    }
    return answer


def layout_of(scenario: BatchReuse) -> Layout:
    """Return the columns one sample of this scenario needs."""
    k = scenario.target.directions
    p = scenario.neurons
    T = scenario.steps
    B = scenario.batches
    normals = p * (1 if scenario.data == "fresh" else T + 1)
    noisy = scenario.noise > 0
    if scenario.data in ("cycle", "replacement") and B > 1:
        return Layout(k, noisy, normals, scenario.data, B, T)
    return Layout(k, noisy, normals)


def labels_of(scenario: BatchReuse, points: WeightedPoints) -> Floats:
    """Return the labels of weighted points, noise included."""
    labels: Floats = np.asarray(scenario.target(points.target.T), dtype=np.float64)
    if points.noise is None:
        return labels
    return labels + np.sqrt(scenario.noise) * points.noise


def _check_size(scenario: BatchReuse, settings: Mapping[str, Any]) -> None:
    columns = layout_of(scenario).columns
    nodes = settings["nodes"]
    if columns > MOST_COLUMNS:
        raise InputError(
            f"The limit needs {columns} columns of points, but the sequence has"
            f" {MOST_COLUMNS}."
        )
    if nodes < FEWEST_PER_COLUMN * columns:
        raise bad_field(
            "nodes",
            nodes,
            f"at least {FEWEST_PER_COLUMN * columns} for {columns} columns",
        )
    # memory for points, gradients of all steps, kernels, and what is at work
    p, T = (
        scenario.neurons,
        scenario.steps,
    )
    gradients = p if scenario.data == "fresh" else p * T
    kernels = 4 * (p * (T + 1)) ** 2
    bytes_needed = 8 * (nodes * (2 * columns + gradients + 8 * p) + kernels)
    available = available_memory()
    if bytes_needed > available:
        raise InputError(
            f"The limit needs {bytes_needed / 2**30:.3g} GiB of memory for"
            f" nodes={nodes} and steps={scenario.steps}, but {available / 2**30:.3g}"
            " GiB are free; take fewer nodes or steps."
        )


def _all_runs(
    scenarios: Sequence[BatchReuse], what: str, settings: Mapping[str, Any]
) -> list[list[Run]]:
    """Return the runs of every scenario, one for each set of points; those of one
    layout share the sets.
    """
    layouts = [layout_of(scenario) for scenario in scenarios]
    runs: list[list[Run]] = [[] for _ in scenarios]
    for layout in dict.fromkeys(layouts):
        for scramble in range(settings["scrambles"]):
            check_time()
            points = sobol_points(layout, settings["nodes"], settings["seed"], scramble)
            for scenario, own, found in zip(scenarios, layouts, runs):
                if own != layout:
                    continue
                labels = labels_of(scenario, points)
                made = Trajectory(scenario, points, labels)
                if what == "kernels":
                    values = kernels(made)
                else:
                    rule = target_rule(scenario.target, points.target, points.weights)
                    values = trajectory_variables(
                        scenario, rule, made.M, made.Q, made.a, made.train_loss
                    )
                found.append((values, float(points.weights @ labels**2), made.diverged))
    return runs


def kernels(trajectory: Trajectory) -> dict[str, Floats]:
    """Return C, Cl and K with an axis for each time and neuron, NaN from the step on
    that diverged.
    """
    p = trajectory.a.shape[1]
    last = trajectory.diverged or len(trajectory.M)
    arrays = {}
    for name, blocks in (
        ("C", trajectory.C),
        ("Cl", trajectory.Cl),
        ("K", trajectory.K[:, : -p or None]),
    ):
        rows, columns = (size // p for size in blocks.shape)
        array = blocks.reshape(rows, p, columns, p).transpose(0, 2, 1, 3).copy()
        array[last:], array[:, last:] = np.nan, np.nan
        arrays[name] = array
    return arrays


def _remarks(scenario: BatchReuse, powers: Sequence[float]) -> list[str]:
    remarks = []
    if scenario.activation.parity == "even" and not np.any(scenario.start[0]):
        remarks.append(
            f"The activation {scenario.activation.name} is even and the overlaps start"
            " at zero: nothing can be learned."
        )
    if len(powers) > 1 and np.std(powers, ddof=1) > HEAVY_TAILS * np.mean(powers):
        remarks.append(
            "The mean square of the labels differs by"
            f" {np.std(powers, ddof=1) / np.mean(powers):.1%} between sets of points:"
            " the target has heavy tails, and its standard errors may be too small."
        )
    return remarks


# -- The causal recursion: kernels and order parameters step by step on weighted points


class Trajectory:
    """Everything known up to the step that a recursion has reached: weighted points,
    labels (N,) y with their noise.

    M (T+1, p, k), Q (T+1, p, p), a (T+1, p) and train_loss (T+1,) are NaN from step
    `diverged` (0: none) on.
    """

    def __init__(
        self, scenario: BatchReuse, points: WeightedPoints, labels: Floats
    ) -> None:
        self.scenario = scenario
        self.points = points
        self.labels = labels
        self.fresh = scenario.data == "fresh"
        self.rates = scenario.rates()
        p = scenario.neurons
        k = points.target.shape[0]
        T = scenario.steps
        self.p = p
        self.T = T
        self.M = np.full((T + 1, p, k), np.nan)
        self.a = np.full((T + 1, p), np.nan)
        self.Q = np.full((T + 1, p, p), np.nan)
        self.train_loss = np.full(T + 1, np.nan)
        M, Q = scenario.start
        self.M[0], self.Q[0], self.a[0] = M, Q, scenario.second_layer
        self.start = Q - M @ M.T
        self.P = np.zeros(((T + 1) * p, p))
        self.K = np.zeros(((T + 1) * p, (T + 1) * p))
        self.C = np.zeros_like(self.K)
        self.L = np.zeros_like(self.K)
        self.inverse: list[Floats] = []  # pseudo-inverses of the diagonal blocks of L
        self.Cl = np.zeros((T * p, T * p))
        self.P[:p], self.C[:p, :p] = np.eye(p), self.start
        self.speed_M = np.zeros((p, k))
        self.speed_P = np.zeros((p, p))
        self.speed_K = np.zeros((p, (T + 1) * p))
        self.F = np.empty((0 if self.fresh else T * p, len(labels)))
        self.diverged = 0  # the step that made it so, from 1
        with np.errstate(all="ignore"):
            for t in range(T + 1):
                check_time()
                self._factorise(t)
                self.diverged = self._step(t)
                if self.diverged:
                    break

    def _at(self, t: int) -> slice:
        return slice(t * self.p, (t + 1) * self.p)

    def _upto(self, t: int) -> slice:
        return slice(0, t * self.p)

    # -- one step ----------------------------------------------------------------------

    def _step(self, t: int) -> int:
        """Find the loss at time t and make step t, if it is one; return its number from
        1 where it diverged.
        """
        scenario = self.scenario
        points = self.points
        h = self._preactivations(t)
        weights = points.weights
        losses, gradient, slopes = forward(
            scenario.activation, scenario.loss, self.a[t], h, self.labels
        )
        loss = float(losses @ weights)
        if t < self.T and not np.isfinite(loss):
            self.M[t:], self.Q[t:], self.a[t:] = np.nan, np.nan, np.nan
            return t
        self.train_loss[t] = loss
        if t == self.T:
            return 0
        if points.mask is not None:
            gradient = gradient * points.mask[t]
            weights = weights * points.mask[t]
        weighted = scenario.samples_per_dim * gradient * points.weights
        if self.fresh:
            self.Cl[self._at(t), self._at(t)] = weighted @ gradient.T
        else:
            self.F[self._at(t)] = gradient
            row = weighted @ self.F[self._upto(t + 1)].T
            (
                self.Cl[self._at(t), self._upto(t + 1)],
                self.Cl[self._upto(t + 1), self._at(t)],
            ) = (
                row,
                row.T,
            )
        if scenario.second_layer_rate:
            slope = (slopes @ weights) / weights.sum()
        else:
            slope = 0.0
        self.a[t + 1] = self.a[t] - scenario.second_layer_rate * slope
        self._advance(t, weighted @ points.target.T, self._response(t, weighted))
        lengths = np.diagonal(self.Q[t + 1])
        if not (
            np.isfinite(self.Q[t + 1]).all()
            and np.isfinite(self.a[t + 1]).all()
            and lengths.max() < DIVERGED
        ):
            self.M[t + 1], self.Q[t + 1], self.a[t + 1] = np.nan, np.nan, np.nan
            return t + 1
        return 0

    def _preactivations(self, t: int) -> Floats:
        h = self.M[t] @ self.points.target
        normals = self.points.normals
        if self.fresh:
            return h + self.L[self._at(t), self._at(t)] @ normals
        h += self.L[self._at(t), self._upto(t + 1)] @ normals[self._upto(t + 1)]
        if t:
            h -= self.K[self._at(t), self._upto(t)] @ self.F[self._upto(t)]
        return h

    def _advance(self, t: int, pull: Floats, response: Floats) -> None:
        """Take M, P, K and C to t + 1; `response` is the row Gam(t, 0..t)."""
        scenario = self.scenario
        p = self.p
        eta = self.rates[t]
        decay = scenario.decay
        beta = scenario.momentum
        self.speed_M = beta * self.speed_M + decay * self.M[t] + pull
        self.speed_P = (
            beta * self.speed_P
            + decay * self.P[self._at(t)]
            + response @ self.P[self._upto(t + 1)]
        )
        self.speed_K = (
            beta * self.speed_K
            + decay * self.K[self._at(t)]
            + response @ self.K[self._upto(t + 1)]
        )
        self.speed_K[:, self._at(t)] -= np.eye(p)
        M = self.M[t] - eta * self.speed_M
        P = self.P[self._at(t)] - eta * self.speed_P
        K = self.K[self._at(t)] - eta * self.speed_K
        known = self._upto(t + 1)
        Cl = self.Cl[known, known]
        if scenario.constraint == "spherical":
            noise = P @ self.start @ P.T + K[:, known] @ Cl @ K[:, known].T
            scale = 1 / np.sqrt(np.diagonal(noise + M @ M.T))[:, None]
            M = scale * M
            P = scale * P
            K = scale * K
        self.M[t + 1] = M
        self.P[self._at(t + 1)] = P
        self.K[self._at(t + 1)] = K
        row = (
            P @ self.start @ self.P[self._upto(t + 2)].T
            + K[:, known] @ Cl @ self.K[self._upto(t + 2), known].T
        )
        row[:, self._at(t + 1)] = 0.5 * (
            row[:, self._at(t + 1)] + row[:, self._at(t + 1)].T
        )
        (
            self.C[self._at(t + 1), self._upto(t + 2)],
            self.C[self._upto(t + 2), self._at(t + 1)],
        ) = (
            row,
            row.T,
        )
        self.Q[t + 1] = row[:, self._at(t + 1)] + M @ M.T

    # -- the Gaussian process ----------------------------------------------------------

    def _factorise(self, t: int) -> None:
        """Add the block row t of the Cholesky factor: om^t = sum_{s<=t} L(t,s) xi^s
        with the xi of all steps kept.
        """
        row = self.L[self._at(t)]
        for s in range(0 if self.fresh else t):
            check_time()
            before = self._upto(s)
            rest = (
                self.C[self._at(t), self._at(s)]
                - row[:, before] @ self.L[self._at(s), before].T
            )
            row[:, self._at(s)] = rest @ self.inverse[s].T
        known = row[:, self._upto(t)]
        late = t > LATE and not self.fresh
        root, inverse = _root(
            self.C[self._at(t), self._at(t)] - known @ known.T,
            CUT_LATE if late else CUT_EARLY,
        )
        row[:, self._at(t)] = root
        self.inverse.append(inverse)

    def _response(self, t: int, weighted: Floats) -> Floats:
        """Return Gam(t, 0..t) by Stein's lemma: alpha E[F^t xi^sT] = sum_{r>=s}
        Gam(t,r) L(r,s), without dF.
        """
        row = np.zeros((self.p, (t + 1) * self.p))
        normals = self.points.normals
        if self.fresh:
            row[:, self._at(t)] = weighted @ normals.T @ self.inverse[t]
            return row
        moments = weighted @ normals[self._upto(t + 1)].T
        for s in range(t, -1, -1):
            check_time()
            later = slice((s + 1) * self.p, (t + 1) * self.p)
            rest = moments[:, self._at(s)] - row[:, later] @ self.L[later, self._at(s)]
            row[:, self._at(s)] = rest @ self.inverse[s]
        return row


def _root(matrix: Floats, cut: float) -> tuple[Floats, Floats]:
    """Return the symmetric root of a positive semi-definite matrix and its
    pseudo-inverse.
    """
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan), np.full_like(matrix, np.nan)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    kept = values > cut * max(1.0, float(values[-1]))
    roots = np.sqrt(np.where(kept, values, 0.0))
    inside = roots > PSEUDO_INVERSE * max(float(roots.max()), 1e-300)
    inverse = np.where(inside, 1 / np.where(inside, roots, 1.0), 0.0)
    return (vectors * roots) @ vectors.T, (vectors * inverse) @ vectors.T


# -- The two-layer network of finite width at samples ----------------------------------


Forward = tuple[DeviceArray, DeviceArray, DeviceArray]
"""Of every sample the loss (f - y)^2/2 or -y f (N,), F_j = d loss/d h_j and d loss/d
a_j (p, N).
"""


def forward(
    activation: Function, loss: Loss, a: DeviceArray, h: DeviceArray, y: DeviceArray
) -> Forward:
    """Evaluate the network with second layer `a` (p,) at pre-activations h (p, N) and
    labels y (N,).
    """
    hidden = activation(h)
    output = a @ hidden
    error = output - y if loss == "square" else -y
    values = 0.5 * error**2 if loss == "square" else error * output
    return values, error * (a[:, None] * activation.derivative(h)), error * hidden
