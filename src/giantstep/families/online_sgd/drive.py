"""What moves a batch of points: the numbers of the update w_j <- w_j + g a_j mean_b F_j x."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.types import Floats, Integers, Points


@dataclass(frozen=True, eq=False)
class Drive:
    """What moves a batch of B points: the parameters of the update, shape (B,), and the constraint."""

    pace: Floats  # g = rate/p
    dim: Floats  # d
    batch: Floats  # n_b
    inner: Floats  # inner rate
    noise: Floats  # of the labels
    second_layer: Floats  # a, shape (p,)
    constraint: str = "none"  # ``"none"``, ``"projected"`` or ``"spherical"``
    # ``"map"`` keeps all of E[F_j F_l |x|^2], ``"asymptotic"`` its leading term d chi_jl, and ``"published"`` drops the
    # correction by 1/n_b to the squared drift as well
    terms: str = "map"
    blocks: Integers | None = None  # of each neuron, where those of a block stay equal: sampled moments are averaged

    def take(self, index: Any) -> Drive:
        """Return some of the points."""
        columns = {name: getattr(self, name)[index] for name in ("pace", "dim", "batch", "inner", "noise")}
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
