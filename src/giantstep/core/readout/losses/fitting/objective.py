"""The penalised loss of one experiment, and what a solver gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from giantstep.core.base.types import DeviceArray, Floats

OPTIMAL = 1e-7
"""Largest relative gap between a fit and the optimum which still counts as solved."""


@dataclass(frozen=True)
class ConvexFit:
    """A fitted linear model."""

    weights: Floats  # w, with the prediction <w, a> + b for a row a
    intercept: float  # b
    # how far its objective is above the least, at most; relative to it, or to
    # `_PERFECT` of that without w
    gap: float
    problem: str = ""  # why there is no such estimator, or nothing
    inseparable: bool = False  # whether that is because no weights separate the classes

    @classmethod
    def missing(cls, dim: int, problem: str, *, inseparable: bool = False) -> ConvexFit:
        """Return what stands for an estimator in R^dim that does not exist, or was not
        found.
        """
        return cls(np.full(dim, np.nan), np.nan, np.inf, problem, inseparable)

    @property
    def solved(self) -> bool:
        """Whether it is the optimum, to `OPTIMAL`."""
        return not self.problem and self.gap <= OPTIMAL


@dataclass(frozen=True)
class Objective:
    """sum_i v_i l(y_i, <w, x_i> + b) + ridge/2 |w|^2 + l1 |w|_1, with b = 0 unless
    there is an `intercept`.

    `rows` are x (n, d), `labels` y (n,) and `scale` v (n,), on one device.
    """

    rows: DeviceArray
    labels: DeviceArray
    scale: DeviceArray
    ridge: float
    l1: float
    intercept: bool

    @cached_property
    def signed(self) -> DeviceArray:
        """The rows y_i x_i, whose products with w are margins."""
        return self.rows * self.labels[:, None]
