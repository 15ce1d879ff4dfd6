"""States of the overlaps: M (..., p, k) with the whitened target directions and Q (...,
p, p), and what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from giantstep.core.base.types import DeviceArray, Floats, Integers, Points
from giantstep.core.lab import Draws, array_module
from giantstep.core.maths.gaussian import semidefinite_factor
from giantstep.problems.online_sgd.integrators import Integrator
from giantstep.problems.online_sgd.scenario import OnlineSGD
from giantstep.problems.online_sgd.tolerances import DIVERGED

State = tuple[Floats, Floats]
"""(M, Q) of a batch of points."""
DIVERGED_REASON = f"diverged: a squared norm passed {DIVERGED:.0e}"


def rows(M: DeviceArray, Q: DeviceArray) -> DeviceArray:
    """Return R = [M | L] with L L^T = Q - M M^T: the rows of the first layer in
    orthonormal coordinates.
    """
    return array_module(M).concatenate(
        [M, semidefinite_factor(Q - M @ M.swapaxes(-1, -2))], axis=-1
    )


def best_cosine(M: DeviceArray, Q: DeviceArray, frame: DeviceArray) -> DeviceArray:
    """Return the largest |cosine| of any neuron with any direction; columns of `frame`
    are the unit directions.
    """
    xp = array_module(Q)
    norm = xp.sqrt(xp.maximum(xp.diagonal(Q, axis1=-2, axis2=-1), 1e-300))
    return (xp.abs(M @ frame) / norm[..., None]).max(axis=(-2, -1))


def has_diverged(Q: DeviceArray) -> DeviceArray:
    """Tell which states are beyond hope."""
    return ~(array_module(Q).diagonal(Q, axis1=-2, axis2=-1).max(axis=-1) <= DIVERGED)


def block_averages(M: Floats, Q: Floats, blocks: Integers) -> tuple[Floats, Floats]:
    """Average (M, Q) over permutations of neurons within their blocks."""
    same = np.equal.outer(blocks, blocks)
    diagonal = np.arange(len(blocks))
    count = same.sum(axis=0)
    mean = same / count
    # no neuron is a pair with itself
    pairs = np.where(same, count / np.maximum(count - 1, 1), 1.0)
    full = pairs * (mean @ (Q * (1 - np.eye(len(blocks)))) @ mean)
    full[:, diagonal, diagonal] = np.diagonal(Q, axis1=1, axis2=2) @ mean
    return mean @ M, full


def equal_neurons(second_layer: Floats, M: Floats, Q: Floats) -> Integers | None:
    """Return the block of each neuron (equal second layer) where all of a block start
    alike, else None.
    """
    blocks = np.unique(second_layer, return_inverse=True)[1].astype(np.int64)
    if len(np.unique(blocks)) == len(blocks):
        return None
    averages = block_averages(M, Q, blocks)
    alike = all(
        np.allclose(start, average, atol=1e-12)
        for start, average in zip((M, Q), averages)
    )
    return blocks if alike else None


def observe(
    scenario: OnlineSGD, integrator: Integrator, M: Floats, Q: Floats
) -> dict[str, Floats]:
    """Return what is measured on states M (n, times, p, k) in whitened coordinates and
    Q (n, times, p, p).
    """
    flat_M = M.reshape(-1, *M.shape[2:])
    flat_Q = Q.reshape(-1, *Q.shape[2:])
    good = np.isfinite(flat_Q).all(axis=(1, 2))
    mse = np.full(len(flat_Q), np.nan)
    if good.any():
        mse[good] = integrator.mse(rows(flat_M[good], flat_Q[good]))
    norm = np.sqrt(np.diagonal(Q, axis1=-2, axis2=-1))
    cosine = M @ scenario.frame / norm[..., None]
    return {
        "M": M @ scenario.whitening.T,
        "Q": Q,
        "mse": mse.reshape(M.shape[:2]),
        "cosine": cosine,
        "best": np.abs(cosine).max(axis=-2),
        "rms": cosine[..., 0, :],
    }


def average(name: str, values: Floats, axis: int) -> Floats:
    """Average an observable over runs or starts; `rms` is the root of the mean
    square.
    """
    if name == "rms":
        return np.sqrt((values**2).mean(axis=axis))
    return values.mean(axis=axis)


# -- Where a run starts: overlaps and Gram matrix --------------------------------------


def is_odd(scenario: OnlineSGD) -> bool:
    """Tell whether the target is odd, so that the sign of a start carries no
    meaning.
    """
    z = np.random.default_rng(1).standard_normal((64, scenario.directions))
    values = scenario.target(z)
    mirrored = scenario.target(-z)
    return bool(
        np.allclose(values, -mirrored, rtol=1e-9, atol=1e-12 * np.abs(values).max())
    )


def starts(scenario: OnlineSGD, dim: int, seed: int, trial: int, runs: int) -> State:
    """Return the starts of the runs of one trial: overlaps with the whitened target
    directions, and Gram matrices.

    "random" puts a component of norm exactly d^-1/2 in a random direction of the target
    space into every row (one direction and an odd target: with a positive sign);
    "gaussian" draws the overlaps of rows uniform on the sphere, N(0, 1/d). Rows have
    unit norm unless `initial_gram` is a matrix.
    """
    p = scenario.width
    k = scenario.directions
    generator = Draws(seed, f"start {dim} {p} {k}", trial).generator("start")
    if scenario.initial_overlap == "zero":
        M = np.zeros((runs, p, k))
    elif scenario.initial_overlap in ("random", "gaussian"):
        M = generator.standard_normal((runs, p, k))
        if scenario.initial_overlap == "gaussian":
            M /= np.sqrt(dim)
        else:
            M /= np.linalg.norm(M, axis=-1, keepdims=True) * np.sqrt(dim)
            if k == 1 and is_odd(scenario):
                M = np.abs(M)
    else:
        own = np.array(scenario.initial_overlap) @ np.linalg.inv(scenario.whitening).T
        M = np.broadcast_to(own, (runs, p, k)).copy()
    if not isinstance(scenario.initial_gram, str):
        return M, np.broadcast_to(np.array(scenario.initial_gram), (runs, p, p)).copy()
    rest = np.sqrt(np.maximum(1 - (M**2).sum(axis=-1), 0.0))
    across = np.broadcast_to(np.eye(p), (runs, p, p))
    if (
        scenario.initial_gram == "random"
    ):  # Gram matrices of independent unit vectors in d - k dimensions
        factor = wishart_factor(
            generator.standard_normal((runs, p, p)), generator, dim - k
        )
        factor /= np.linalg.norm(factor, axis=-1, keepdims=True)
        across = factor @ np.swapaxes(factor, -1, -2)
    return M, M @ np.swapaxes(M, -1, -2) + rest[:, :, None] * across * rest[:, None, :]


def wishart_factor(normal: DeviceArray, generator: Any, freedom: int) -> DeviceArray:
    """Return lower-triangular factors of Wishart matrices by Bartlett's rule, from
    standard normals (..., p, p).
    """
    xp = array_module(normal)
    factor = xp.tril(normal, -1)
    for j in range(normal.shape[-1]):
        factor[..., j, j] = xp.sqrt(generator.chisquare(freedom - j, normal.shape[:-2]))
    return factor


# -- What moves a batch of points: the numbers of the update w_j <- w_j + g a_j mean_b F


@dataclass(frozen=True, eq=False)
class Drive:
    """What moves a batch of B points: the parameters of the update, shape (B,), and the
    constraint.
    """

    pace: Floats  # g = rate/p
    dim: Floats  # d
    batch: Floats  # n_b
    inner: Floats  # inner rate
    noise: Floats  # of the labels
    second_layer: Floats  # a, shape (p,)
    constraint: str = "none"  # ``"none"``, ``"projected"`` or ``"spherical"``
    # ``"map"`` keeps all of E[F_j F_l |x|^2], ``"asymptotic"`` its leading term d
    # chi_jl, and ``"published"`` drops the correction by 1/n_b to the squared drift as
    # well
    terms: str = "map"
    blocks: Integers | None = (
        # of each neuron, where those of a block stay equal: sampled moments are
        # averaged
        None
    )

    def take(self, index: Any) -> Drive:
        """Return some of the points."""
        columns = {
            name: getattr(self, name)[index]
            for name in ("pace", "dim", "batch", "inner", "noise")
        }
        return replace(self, **columns)


def drive_of(scenario: OnlineSGD, points: Points, theory: str | None = None) -> Drive:
    """Return the parameters of the update at every point."""
    return Drive(
        points["rate"] / scenario.width,
        np.asarray(points["dim"], dtype=float),
        np.asarray(points["batch_size"], dtype=float),
        scenario.inner_rates(points),
        np.asarray(points["noise"], dtype=float),
        np.array(scenario.second_layer),
        scenario.constraint,
        theory if theory in ("asymptotic", "published") else "map",
    )
