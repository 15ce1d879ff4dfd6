"""Inputs of the experiment in whitened coordinates: zt = Sigma^-1/2 x, rows Sigma^1/2 w, and where the target lies.

In these coordinates the inputs of a network are N(0, I) whatever Sigma is; the covariance enters through the rows at
the start and through the factor Sigma F(Sigma) of a step only (structured_inputs, sections 1 and 11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.families.few_steps.scenario import FewSteps, InputRows
from giantstep.types import DeviceArray, Floats, Indices


@dataclass(frozen=True)
class Whitened:
    """The eigenbasis of the inputs at a finite dimension, with w* on the first axes of every eigenspace.

    Isotropic inputs have no `root` and no `pull`, and the target directions are the first axes.
    """

    axes: Indices  # (R,), the axis of each coordinate of the target
    frame: Floats | None = None  # V (r, R)
    root: Floats | None = None  # sqrt(lambda) (d,)
    pull: Floats | None = None  # lambda F(lambda) (d,)
    rows: Floats | None = None  # whitened rows of a table (N, d), in place of N(0, I)

    @classmethod
    def of_scenario(cls, scenario: FewSteps, whitening: float, dim: int) -> Whitened:
        """Return the inputs of a scenario at a dimension."""
        if scenario.inputs is None:
            return cls(np.arange(scenario.target.directions))
        law = scenario.input_law(dim)
        if isinstance(scenario.inputs, InputRows):
            return cls._of_rows(scenario.inputs, law.eigenvalues, whitening)
        spectrum, counts = law.spectrum(whitening), law.counts(dim)
        first = np.append(0, np.cumsum(counts))[spectrum.atoms]
        place = np.array([np.sum(spectrum.atoms[:c] == atom) for c, atom in enumerate(spectrum.atoms)], dtype=np.intp)
        pull = np.repeat(spectrum.eigenvalues * spectrum.factor, counts)
        return cls(first + place, spectrum.frame, np.repeat(np.sqrt(spectrum.eigenvalues), counts), pull)

    @classmethod
    def _of_rows(cls, inputs: InputRows, eigenvalues: Floats, whitening: float) -> Whitened:
        """Return the rows of a table, whose target has signs that matter: every axis is one of its coordinates."""
        axes = np.arange(len(eigenvalues))
        pull = eigenvalues ** (1 - whitening)
        return cls(axes, inputs.whitened_target(), np.sqrt(eigenvalues), pull, inputs.table().whitened())

    @property
    def coordinates(self) -> int:
        """R, the coordinates of the target's invariant space."""
        return len(self.axes)

    def along(self, rows: DeviceArray, xp: Any) -> DeviceArray:
        """Return the coordinates of rows or inputs (m, d) in the target's invariant space (m, R)."""
        return rows[:, : self.coordinates] if self.frame is None else rows[:, xp.asarray(self.axes)]

    def signal(self, rows: DeviceArray, xp: Any) -> DeviceArray:
        """Return (z_1..z_r) of whitened inputs, or the overlaps of whitened rows with the targets (m, r)."""
        along = self.along(rows, xp)
        return along if self.frame is None else along @ xp.asarray(self.frame.T)

    def add_along(self, rows: DeviceArray, overlaps: DeviceArray, xp: Any) -> None:
        """Add vectors sum_a overlaps_a V_a to rows (m, d)."""
        if self.frame is None:
            rows[:, : self.coordinates] += overlaps
        else:
            rows[:, xp.asarray(self.axes)] += overlaps @ xp.asarray(self.frame)
