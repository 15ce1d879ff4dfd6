"""What is measured on trajectories of the overlaps, by the limit and by the experiment."""

from __future__ import annotations

import numpy as np

from giantstep.blocks import split_rows
from giantstep.families.online_sgd.moments import Integrator
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.states import rows
from giantstep.types import Floats


def observe(scenario: OnlineSGD, integrator: Integrator, M: Floats, Q: Floats) -> dict[str, Floats]:
    """Return what is measured on states M (n, times, p, k) in whitened coordinates and Q (n, times, p, p)."""
    parts = [_observe_some(scenario, integrator, M[part], Q[part]) for part in split_rows(len(M), Q[0].size)]
    return (
        parts[0] if len(parts) == 1 else {name: np.concatenate([values[name] for values in parts]) for name in parts[0]}
    )


def _observe_some(scenario: OnlineSGD, integrator: Integrator, M: Floats, Q: Floats) -> dict[str, Floats]:
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
