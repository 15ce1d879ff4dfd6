"""Two experiments: the network itself, and the overlaps drawn exactly in law at a cost that does not grow with d.

Both advance G = B x runs systems at once; systems of different points share their draws (they differ in rates).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from giantstep.families.online_sgd.drive import Drive
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.start import wishart_factor
from giantstep.families.online_sgd.states import normalise, rows
from giantstep.gaussian import semidefinite_factor
from giantstep.types import Floats

BLOCK = 1 << 16
"""Normals drawn at a time; a constant of the code, part of what a seed means."""
ROWS = 2048
"""Samples of the direct simulation held at a time."""


class LawSimulator:
    """The overlaps (M, Q) of the network, drawn exactly in law.

    Given (M, Q) a batch enters through z (n_b, k), the fields lambda = z M^T + xi L^T, and the part of x outside the
    p + k known directions, whose Gram matrix is Wishart: with f_bj = g a_j F_bj/n_b and R R^T = f^T f,

        M' = M + f^T z,  L' = L + f^T xi,  Q' = M'M'^T + L'L'^T + R W R^T,  W ~ Wishart_p(d - p - k),

    W by Bartlett's factor. Algorithms that use a sample twice see |x|^2: then the outer parts of the samples are drawn,
    as a Bartlett factor of their Gram matrix. See gradient_dynamics section 3.
    """

    def __init__(self, scenario: OnlineSGD, drive: Drive, dim: int, batch: int, runs: int, draws: Any) -> None:
        self.scenario, self.draws, self.xp = scenario, draws, draws.xp
        self.runs, self.dim, self.batch = runs, dim, batch
        xp, self.points = draws.xp, len(drive.pace)
        self.p, self.k = scenario.width, scenario.directions
        self.net, self.algorithm = scenario.network, scenario.known_algorithm
        self.outer = dim - self.p - self.k
        scale = drive.pace[:, None] * drive.second_layer / batch
        self.scale = xp.asarray(scale)[:, None, None, :]
        self.inner = xp.asarray(drive.inner)[:, None, None, None]
        self.noise = xp.asarray(np.sqrt(drive.noise))[:, None, None]
        self.noisy = bool(np.any(drive.noise > 0))
        self.whitening = xp.asarray(scenario.whitening.T)

    def run(self, M: Floats, Q: Floats) -> Iterator[tuple[Any, Any]]:
        """Yield (M, Q), shapes (B, runs, p, k) and (B, runs, p, p), after 0, 1, 2, ... updates.

        Parameters
        ----------
        M, Q : starts of the runs, (runs, ...).
        """
        xp = self.xp
        wide = (self.points, self.runs)
        M = xp.broadcast_to(xp.asarray(M), (*wide, self.p, self.k))
        Q = xp.broadcast_to(xp.asarray(Q), (*wide, self.p, self.p))
        samples = self._samples()
        while True:
            yield M, Q
            M, Q = self._step(M, Q, *next(samples))

    def _samples(self) -> Iterator[tuple[Any, Any]]:
        """Yield (xi, outer part) of one update after the other, drawn in blocks."""
        count = self.runs * self.batch * (self.k + self.p + 1)
        block = max(1, BLOCK // count)
        while True:
            xi = self.draws.normal("samples", (block, self.runs, self.batch, self.k + self.p + 1))
            outer = self._outer(block)
            for t in range(block):
                yield xi[t], outer[t]

    def _outer(self, block: int) -> Any:
        """Return lower-triangular factors of the Gram matrices outside the known directions, or plain normals."""
        size, wide = self.batch if self.algorithm.repeats else self.p, (block, self.runs)
        if size > self.outer:
            return self.draws.normal("outer", (*wide, size, self.outer))
        chi = self.draws.generator("chi")
        if size == 1:
            return self.xp.sqrt(chi.chisquare(self.outer, wide))[..., None, None]
        return wishart_factor(self.draws.normal("outer", (*wide, size, size)), chi, self.outer)

    def _step(self, M: Any, Q: Any, xi: Any, outer: Any) -> tuple[Any, Any]:
        k, R = self.k, rows(M, Q)
        known = xi[..., : k + self.p]
        fields = known @ R.swapaxes(-1, -2)
        label = self.scenario.target(xi[..., :k] @ self.whitening)[None]
        if self.noisy:
            label = label + self.noise * xi[..., -1]
        norm: Any = 1.0
        if self.algorithm.repeats:
            length = (known**2).sum(axis=-1) + (outer**2).sum(axis=-1)
            norm = (length / self.dim)[..., None]
        force = self.scale * self.algorithm.force(self.net, fields, label, self.inner, norm)
        across = force.swapaxes(-1, -2)
        if self.scenario.constraint == "spherical":
            R = R * (1 - (force * fields).sum(axis=-2))[..., None]
        R = R + across @ known
        rest = across @ outer if self.algorithm.repeats else semidefinite_factor(across @ force) @ outer
        Q = R @ R.swapaxes(-1, -2) + rest @ rest.swapaxes(-1, -2)
        M = R[..., :k]
        return (M, Q) if self.scenario.constraint == "none" else normalise(M, Q)


class DirectSimulator:
    """The network itself: fresh batches (n_b, d), gradients by matrix products, one system after the other."""

    def __init__(self, scenario: OnlineSGD, drive: Drive, dim: int, batch: int, runs: int, draws: Any) -> None:
        self.scenario, self.drive, self.draws, self.xp = scenario, drive, draws, draws.xp
        self.runs, self.dim, self.batch = runs, dim, batch
        self.net, self.algorithm = scenario.network, scenario.known_algorithm

    def run(self, M: Floats, Q: Floats) -> Iterator[tuple[Any, Any]]:
        """Yield (M, Q) after 0, 1, 2, ... updates, as `LawSimulator.run` does."""
        xp, p, k = self.xp, self.scenario.width, self.scenario.directions
        frame = xp.linalg.qr(self.draws.normal("frame", (self.runs, self.dim, k + p)))[0].swapaxes(-1, -2)
        targets, others = frame[:, :k], frame[:, k:]
        start = xp.asarray(M) @ targets + semidefinite_factor(xp.asarray(Q - M @ M.transpose(0, 2, 1))) @ others
        W = xp.repeat(start[None], len(self.drive.pace), axis=0)
        while True:
            yield W @ targets.swapaxes(-1, -2), W @ W.swapaxes(-1, -2)
            W = self._step(W, targets)

    def _step(self, W: Any, targets: Any) -> Any:
        xp, drive = self.xp, self.drive
        new = W.copy()
        whitening = xp.asarray(self.scenario.whitening.T)
        for run in range(self.runs):
            gradient = xp.zeros_like(W[:, run])
            radial = xp.zeros(W[:, run].shape[:2])
            for start in range(0, self.batch, ROWS):
                count = min(ROWS, self.batch - start)
                X = self.draws.normal("inputs", (count, self.dim))
                clean = self.scenario.target(X @ targets[run].T @ whitening)
                extra = self.draws.normal("noise", (count,)) if np.any(drive.noise > 0) else None
                norm = (xp.einsum("bi,bi->b", X, X) / self.dim)[:, None] if self.algorithm.repeats else 1.0
                for point in range(len(drive.pace)):
                    fields = X @ W[point, run].T
                    label = clean if extra is None else clean + float(drive.noise[point]) ** 0.5 * extra
                    force = self.algorithm.force(self.net, fields, label, float(drive.inner[point]), norm)
                    gradient[point] += force.T @ X
                    radial[point] += (force * fields).sum(axis=0)
            step = xp.asarray(drive.pace[:, None] * drive.second_layer / self.batch)[..., None]
            if self.scenario.constraint == "spherical":
                gradient = gradient - radial[..., None] * W[:, run]
            new[:, run] = W[:, run] + step * gradient
        if self.scenario.constraint != "none":
            new /= xp.linalg.norm(new, axis=-1, keepdims=True)
        return new


SIMULATORS: dict[str, type[LawSimulator] | type[DirectSimulator]] = {
    "exact-law": LawSimulator,
    "direct": DirectSimulator,
}
