"""Inputs of the experiment in whitened coordinates: zt = Sigma^-1/2 x, rows Sigma^1/2
w, and where the target lies.

In these coordinates the inputs of a network are N(0, I) whatever Sigma is; the
covariance enters through the rows at the start and through the factor Sigma F(Sigma) of
a step only (structured_inputs, sections 1 and 11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import DeviceArray, Floats, Indices, Integers
from giantstep.core.lab import Draws


@dataclass(frozen=True)
class Whitened:
    """The eigenbasis of the inputs at a finite dimension, with w* on the first axes of
    every eigenspace.
    """

    axes: Indices  # (R,), the axis of each coordinate of the target
    frame: Floats | None = None  # V (r, R)
    root: Floats | None = None  # sqrt(lambda) (d,)
    rows: Floats | None = None  # whitened rows of a table (N, d), in place of N(0, I)

    @classmethod
    def isotropic(cls, directions: int, alignment: float = 1.0) -> Whitened:
        """Return isotropic inputs; the first axis has this alignment with the first
        target direction.
        """
        if alignment == 1:
            return cls(np.arange(directions))
        # w* = gamma e_1 + sqrt(1 - gamma^2) e_R: the spike is e_1
        frame = np.eye(directions, directions + 1)
        frame[0, 0] = alignment
        frame[0, -1] = np.sqrt(max(1 - alignment**2, 0.0))
        return cls(np.arange(directions + 1), frame)

    @classmethod
    def of_spectrum(
        cls, eigenvalues: Floats, counts: Integers, atoms: Indices, frame: Floats
    ) -> Whitened:
        """Return inputs of these eigenvalues with their multiplicities; coordinate c of
        the target lies in atoms[c].
        """
        # several coordinates in one eigenspace take its first axes one after the other
        earlier = [np.sum(atoms[:c] == atom) for c, atom in enumerate(atoms)]
        first_of_atom = np.append(0, np.cumsum(counts))
        axes = first_of_atom[atoms] + np.array(earlier, dtype=np.intp)
        return cls(axes, frame, root=np.repeat(np.sqrt(eigenvalues), counts))

    def pull(self, whitening: float) -> Floats:
        """Return what multiplies a step: lambda F(lambda) = lambda^(1-c), (d,)."""
        assert self.root is not None
        eigenvalues = self.root**2
        # where lambda is 0 there are no inputs, and the step does nothing
        powers = np.maximum(eigenvalues, 1e-300) ** (1 - whitening)
        return np.where(eigenvalues > 0, powers, 0.0)

    def along(self, rows: DeviceArray, xp: Any) -> DeviceArray:
        """Return the coordinates of rows or inputs (m, d) in the target's invariant
        space (m, R).
        """
        if self.frame is None:
            return rows[:, : len(self.axes)]
        return rows[:, xp.asarray(self.axes)]

    def signal(self, rows: DeviceArray, xp: Any) -> DeviceArray:
        """Return (z_1..z_r) of whitened inputs, or the overlaps of whitened rows with
        the targets (m, r).
        """
        along = self.along(rows, xp)
        if self.frame is None:
            return along
        return along @ xp.asarray(self.frame.T)

    def target_axes(self, dim: int, xp: Any) -> DeviceArray:
        """Return w* and an axis across it (d, 2) where a spike is the first axis; None
        where w* is the first.
        """
        if self.frame is None or self.root is not None or len(self.frame) > 1:
            return None
        gamma, across = self.frame[0]
        axes = np.zeros((dim, 2))
        # columns: w*, and what is orthogonal to it in the plane of w* and the spike
        axes[:2] = [[gamma, across], [across, -gamma]]
        return xp.asarray(axes)

    def add_along(self, rows: DeviceArray, overlaps: DeviceArray, xp: Any) -> None:
        """Add vectors sum_a overlaps_a V_a to rows (m, d)."""
        if self.frame is None:
            rows[:, xp.asarray(self.axes)] += overlaps
        else:
            rows[:, xp.asarray(self.axes)] += overlaps @ xp.asarray(self.frame)

    def spike(self, alignment: float, dim: int) -> Floats:
        """Return a unit vector (d,) of this alignment with the first target direction,
        an axis where it can be.
        """
        if self.root is None or self.frame is None:
            # the frame has this alignment already
            return np.eye(1, dim)[0]
        v = np.zeros((1, dim))
        self.add_along(v, alignment * np.eye(1, len(self.frame)), np)
        # the rest lies along the first axis on which there is no target
        across = np.delete(np.arange(dim), self.axes)[:1]
        v[0, across] = np.sqrt(max(1 - alignment**2, 0.0))
        return v[0]


def spike_axes(spike: DeviceArray, xp: Any) -> DeviceArray:
    """Return v along a spike, and along what w* = e_1 has across it, or the second axis
    (d, 2).
    """
    v = spike / xp.linalg.norm(spike)
    # e_1 - <e_1, v> v
    across = -v[0] * v
    across[0] += 1.0
    length = xp.linalg.norm(across)
    if float(length) < 1e-12:
        return xp.eye(len(v), 2)
    return xp.stack([v, across / length], axis=1)


LEAST_TEST = 100
"""Rows that are kept for the test at least."""


class RowDraws(Draws):
    """The draws of a trial whose inputs are rows of a table: own ones for each stream,
    the rest for ``test``.
    """

    def __init__(self, draws: Draws, rows: Floats, sizes: Mapping[str, int]) -> None:
        super().__init__(draws.seed, draws.key, draws.trial, draws.device)
        used = sum(sizes.values())
        if used + LEAST_TEST > len(rows):
            shares = f"{used} for the steps and the fit, {LEAST_TEST} for the test"
            needed = f"a table of at least {used + LEAST_TEST} rows: {shares}"
            raise bad_field("inputs", f"{len(rows)} rows", needed)
        starts = np.cumsum([0, *sizes.values()])
        self.rows = rows
        self.starts = dict(zip((*sizes, "test"), starts.tolist()))
        self.left = len(rows) - used
        # on the host: the order is the same on every device
        host = np.random.default_rng([self.seed, self.trial, *self.key.encode()])
        self.order = host.permutation(len(rows))

    def chunks(
        self, stream: str, rows: int, columns: int
    ) -> Iterator[tuple[int, int, DeviceArray]]:
        """Yield (start, stop, whitened rows) of a stream of inputs; other streams are
        standard normals.
        """
        if stream not in self.starts:
            yield from super().chunks(stream, rows, columns)
            return
        first = self.starts[stream]
        for start in range(0, rows, self.chunk):
            stop = min(start + self.chunk, rows)
            numbers = self.order[first + start : first + stop]
            yield start, stop, self.xp.asarray(self.rows[numbers])
