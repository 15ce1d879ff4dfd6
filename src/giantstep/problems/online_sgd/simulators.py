"""Two experiments: the network itself, and the overlaps drawn exactly in law at a cost
that does not grow with d.

Both advance G = B x runs systems at once; systems of different points share their draws
(they differ in rates).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import DeviceArray
from giantstep.core.maths.gaussian import gram_factor, semidefinite_factor
from giantstep.problems.online_sgd.scenario import OnlineSGD
from giantstep.problems.online_sgd.states import Drive, State, rows, wishart_factor

BLOCK = 1 << 16
"""Normals drawn at a time; a constant of the code, part of what a seed means."""
ROWS = 2048
"""Samples of the direct simulation held at a time."""


class LawSimulator:
    """The overlaps (M, Q) of the network, drawn exactly in law.

    Given (M, Q) a batch enters through z (n_b, k), the fields lambda = z M^T + xi L^T,
    and the part of x outside the p + k known directions, whose Gram matrix is Wishart:
    with f_bj = g a_j F_bj/n_b and R R^T = f^T f,

        M' = M + f^T z, L' = L + f^T xi, Q' = M'M'^T + L'L'^T + R W R^T, W ~
        Wishart_p(d - p - k),

    W by Bartlett's factor. Algorithms that use a sample twice see |x|^2: then the outer
    parts of the samples are drawn, as a Bartlett factor of their Gram matrix. See
    gradient_dynamics section 3.
    """

    def __init__(
        self,
        scenario: OnlineSGD,
        drive: Drive,
        start: State,
        dim: int,
        batch: int,
        draws: Any,
    ) -> None:
        self.scenario = scenario
        self.draws = draws
        self.xp = draws.xp
        self.runs = len(start[0])
        self.dim = dim
        self.batch = batch
        xp = draws.xp
        self.p = scenario.width
        self.k = scenario.directions
        self.net = scenario.network
        self.algorithm = scenario.known_algorithm
        self.outer = dim - self.p - self.k
        scale = drive.pace[:, None] * drive.second_layer / batch
        self.scale = xp.asarray(scale)[:, None, None, :]
        self.inner = xp.asarray(drive.inner)[:, None, None, None]
        self.noise = xp.asarray(np.sqrt(drive.noise))[:, None, None]
        self.noisy = bool(np.any(drive.noise > 0))
        self.whitening = xp.asarray(scenario.whitening.T)
        R = rows(*map(xp.asarray, start))
        self._rows = xp.broadcast_to(R, (len(drive.pace), *R.shape))
        self._samples = self._draw()

    def overlaps(self) -> tuple[DeviceArray, DeviceArray]:
        """Return the present (M, Q), shapes (B, runs, p, k) and (B, runs, p, p)."""
        return self._rows[..., : self.k], self._rows @ self._rows.swapaxes(-1, -2)

    def advance(self, updates: int) -> None:
        """Make so many updates."""
        R = self._rows
        for sample in islice(self._samples, updates):
            R = self._step(R, *sample)
        self._rows = R

    def _draw(self) -> Iterator[tuple[Any, ...]]:
        """Yield (known coordinates, label, its noise, S = |x|^2/d, outer part) of every
        update, drawn in blocks.
        """
        k = self.k
        repeats = self.algorithm.repeats
        block = max(1, BLOCK // (self.runs * self.batch * (k + self.p + 1)))
        while True:
            check_time()
            xi = self.draws.normal(
                "samples", (block, self.runs, self.batch, k + self.p + 1)
            )
            known = xi[..., :-1]
            noise = xi[..., -1]
            outer = self._outer(block)
            label = self.scenario.target(xi[..., :k] @ self.whitening)
            lengths = (outer**2).sum(axis=-1)
            if repeats:
                norm = (((known**2).sum(axis=-1) + lengths) / self.dim)[..., None]
            else:
                norm = np.ones(block)
            if not repeats and self.batch == 1:
                outer = self.xp.sqrt(lengths)
            yield from zip(known, label[:, None], noise, norm, outer)

    def _outer(self, block: int) -> DeviceArray:
        """Return lower-triangular factors of the Gram matrices outside the known
        directions, or plain normals.
        """
        size = self.batch if self.algorithm.repeats else self.p
        wide = (block, self.runs)
        if size > self.outer:
            return self.draws.normal("outer", (*wide, size, self.outer))
        chi = self.draws.generator("chi")
        if size == 1:
            return self.xp.sqrt(chi.chisquare(self.outer, wide))[..., None, None]
        return wishart_factor(
            self.draws.normal("outer", (*wide, size, size)), chi, self.outer
        )

    def _step(
        self, R: Any, known: Any, label: Any, noise: Any, norm: Any, outer: Any
    ) -> DeviceArray:
        fields = known @ R.swapaxes(-1, -2)
        if self.noisy:
            label = label + self.noise * noise
        force = self.scale * self.algorithm.force(
            self.net, fields, label, self.inner, norm
        )
        across = force.swapaxes(-1, -2)
        if self.scenario.constraint == "spherical":
            R = R * (1 - (force * fields).sum(axis=-2))[..., None]
        R = R + across @ known
        if self.algorithm.repeats:
            rest = across @ outer
        else:
            rest = self._outside(force, across, outer)
        L = R[..., self.k :]
        R[..., self.k :] = semidefinite_factor(
            L @ L.swapaxes(-1, -2) + rest @ rest.swapaxes(-1, -2)
        )
        if self.scenario.constraint != "none":
            R /= self.xp.sqrt((R * R).sum(axis=-1, keepdims=True))
        return R

    def _outside(self, force: Any, across: Any, outer: Any) -> DeviceArray:
        """Return r with r r^T = R W R^T, for a Bartlett factor of W: its rows of the
        neurons that span f^T f.
        """
        if self.batch > 1:
            factor = gram_factor(force)
            return factor @ outer[..., : factor.shape[-1], :]
        if self.p == 1:
            return across * outer[..., None]
        # one sample: the first neuron that it moves spans f^T f
        first = (force[..., 0, :] != 0).argmax(axis=-1)
        outer = self.xp.broadcast_to(outer, (*first.shape, self.p))
        return (
            across
            * self.xp.take_along_axis(outer, first[..., None], axis=-1)[..., None]
        )


class DirectSimulator:
    """The network itself: fresh batches (n_b, d), gradients by matrix products, one
    system after the other.
    """

    def __init__(
        self,
        scenario: OnlineSGD,
        drive: Drive,
        start: State,
        dim: int,
        batch: int,
        draws: Any,
    ) -> None:
        self.scenario = scenario
        self.drive = drive
        self.draws = draws
        self.xp = draws.xp
        self.runs = len(start[0])
        self.dim = dim
        self.batch = batch
        self.net = scenario.network
        self.algorithm = scenario.known_algorithm
        xp = draws.xp
        k = scenario.directions
        frame = xp.linalg.qr(
            draws.normal("frame", (self.runs, dim, k + scenario.width))
        )[0].swapaxes(-1, -2)
        self.targets = frame[:, :k]
        self.W = xp.repeat(
            (rows(*map(xp.asarray, start)) @ frame)[None], len(drive.pace), axis=0
        )

    def overlaps(self) -> tuple[DeviceArray, DeviceArray]:
        """Return the present (M, Q), as `LawSimulator.overlaps` does."""
        return self.W @ self.targets.swapaxes(-1, -2), self.W @ self.W.swapaxes(-1, -2)

    def advance(self, updates: int) -> None:
        """Make so many updates."""
        for _ in range(updates):
            check_time()
            self.W = self._step(self.W, self.targets)

    def _step(self, W: Any, targets: Any) -> Any:
        xp = self.xp
        drive = self.drive
        new = W.copy()
        whitening = xp.asarray(self.scenario.whitening.T)
        for run in range(self.runs):
            gradient = xp.zeros_like(W[:, run])
            radial = xp.zeros(W[:, run].shape[:2])
            for part in split_rows(self.batch, 1, ROWS):
                count = part.stop - part.start
                X = self.draws.normal("inputs", (count, self.dim))
                clean = self.scenario.target(X @ targets[run].T @ whitening)
                if np.any(drive.noise > 0):
                    extra = self.draws.normal("noise", (count,))
                else:
                    extra = None
                if self.algorithm.repeats:
                    norm = (xp.einsum("bi,bi->b", X, X) / self.dim)[:, None]
                else:
                    norm = 1.0
                for point in range(len(drive.pace)):
                    fields = X @ W[point, run].T
                    if extra is None:
                        label = clean
                    else:
                        label = clean + float(drive.noise[point]) ** 0.5 * extra
                    force = self.algorithm.force(
                        self.net, fields, label, float(drive.inner[point]), norm
                    )
                    gradient[point] += force.T @ X
                    radial[point] += (force * fields).sum(axis=0)
            step = xp.asarray(drive.pace[:, None] * drive.second_layer / self.batch)[
                ..., None
            ]
            if self.scenario.constraint == "spherical":
                gradient = gradient - radial[..., None] * W[:, run]
            new[:, run] = W[:, run] + step * gradient
        if self.scenario.constraint != "none":
            new /= xp.linalg.norm(new, axis=-1, keepdims=True)
        return new


Simulator = LawSimulator | DirectSimulator
SIMULATORS: dict[str, type[Simulator]] = {
    "exact-law": LawSimulator,
    "direct": DirectSimulator,
}
