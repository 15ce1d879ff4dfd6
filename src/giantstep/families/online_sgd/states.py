"""States of the overlaps: M (..., p, k) with the whitened target directions and Q (..., p, p), and what is measured."""

from __future__ import annotations

import numpy as np

from giantstep.families.online_sgd.integrators import Integrator
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.tolerances import DIVERGED
from giantstep.gaussian import semidefinite_factor
from giantstep.lab import array_module
from giantstep.types import DeviceArray, Floats, Integers

State = tuple[Floats, Floats]
"""(M, Q) of a batch of points."""
DIVERGED_REASON = f"diverged: a squared norm passed {DIVERGED:.0e}"


def rows(M: DeviceArray, Q: DeviceArray) -> DeviceArray:
    """Return R = [M | L] with L L^T = Q - M M^T: the rows of the first layer in orthonormal coordinates."""
    factor = semidefinite_factor(Q - M @ M.swapaxes(-1, -2))
    return array_module(M).concatenate([M, factor], axis=-1)


def normalise(M: DeviceArray, Q: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
    """Divide the rows by their lengths."""
    xp = array_module(Q)
    length = xp.sqrt(xp.diagonal(Q, axis1=-2, axis2=-1))
    return M / length[..., None], Q / (length[..., :, None] * length[..., None, :])


def best_cosine(M: DeviceArray, Q: DeviceArray, frame: DeviceArray) -> DeviceArray:
    """Return the largest |cosine| of any neuron with any direction; columns of `frame` are the unit directions."""
    xp = array_module(Q)
    norm = xp.sqrt(xp.maximum(xp.diagonal(Q, axis1=-2, axis2=-1), 1e-300))
    return (xp.abs(M @ frame) / norm[..., None]).max(axis=(-2, -1))


def has_diverged(Q: DeviceArray) -> DeviceArray:
    """Tell which states are beyond hope."""
    return ~(array_module(Q).diagonal(Q, axis1=-2, axis2=-1).max(axis=-1) <= DIVERGED)


def block_averages(M: Floats, Q: Floats, blocks: Integers) -> tuple[Floats, Floats]:
    """Average (M, Q) over permutations of neurons within their blocks."""
    member = np.equal.outer(blocks, np.unique(blocks)).astype(float)
    count = member.sum(axis=0)
    across = Q * (1 - np.eye(len(blocks)))
    pairs = np.outer(count, count) - np.diag(count)
    full = member @ (member.T @ across @ member / np.maximum(pairs, 1)) @ member.T
    own = np.diagonal(Q, axis1=1, axis2=2) @ member / count
    diagonal = np.arange(len(blocks))
    full[:, diagonal, diagonal] = own @ member.T
    return member @ (member.T @ M / count[:, None]), full


def equal_neurons(second_layer: Floats, M: Floats, Q: Floats) -> Integers | None:
    """Return the block of each neuron (equal second layer) where all of a block start alike, else None."""
    blocks = np.unique(second_layer, return_inverse=True)[1].astype(np.int64)
    if len(np.unique(blocks)) == len(blocks):
        return None
    averages = block_averages(M, Q, blocks)
    alike = all(np.allclose(start, average, atol=1e-12) for start, average in zip((M, Q), averages))
    return blocks if alike else None


def observe(scenario: OnlineSGD, integrator: Integrator, M: Floats, Q: Floats) -> dict[str, Floats]:
    """Return what is measured on states M (n, times, p, k) in whitened coordinates and Q (n, times, p, p)."""
    flat_M, flat_Q = M.reshape(-1, *M.shape[2:]), Q.reshape(-1, *Q.shape[2:])
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
    """Average an observable over runs or starts; `rms` is the root of the mean square."""
    return np.sqrt((values**2).mean(axis=axis)) if name == "rms" else values.mean(axis=axis)
