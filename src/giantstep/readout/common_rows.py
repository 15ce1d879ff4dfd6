"""Bulks whose rows have one law for all points: what they share, and the Newton iteration for R."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from giantstep.deadline import check_time
from giantstep.readout.bulk import Response
from giantstep.solve import solve_each
from giantstep.types import Array, Floats

MAX_STEPS = 40
NEAR = 1e-2
"""Relative size of the last Newton step where an error of the order of its square is good enough."""


class CommonRows:
    """Rows of the same law at all points, so that every selection of points has the same bulk."""

    edge_margin: ClassVar[float] = 1e-6

    @property
    def atoms(self) -> tuple[int, ...]:
        """Axes of `Response.g` between those of the points and of the blocks."""
        return ()

    def take(self, index: Any) -> Self:
        """Return itself."""
        return self

    def start(self, a: Array, block_width: Floats) -> Response:
        """Return the answer to Vh = 0."""
        k = block_width.shape[1]
        return Response.at_zero(a, block_width, np.zeros((len(a), *self.atoms, k, k)))


def solve_rows(
    R: Array, D: Array, block_width: Floats, resolvent: Callable[[Array], tuple[Array, Array]], near: bool = False
) -> Array:
    """Return the R (B, k) with R_q = beta_q/(D_q + g_qq), by Newton from `R`, each point on its own.

    `resolvent` gives g_qq (B, k) and the squares g_qr^2 (B, k, k) at R, means over the atoms where there are several;
    dg_qq/dR_r = -g_qr^2. `near` is enough: see `Bulk.solve`.
    """
    last_step = NEAR if near else 1e-14
    eye, busy = np.eye(D.shape[1]), np.ones(len(R), dtype=bool)
    for _ in range(MAX_STEPS):
        check_time()
        diagonal, squares = resolvent(R)
        f = block_width / (D + diagonal)
        matrix = eye - (f**2 / block_width)[:, :, None] * squares
        change = solve_each(matrix, (f - R)[:, :, None])[:, :, 0]
        proposal = R + change
        if not np.iscomplexobj(R):  # a step across zero is replaced by the plain map
            kept = (np.sign(proposal) == np.sign(R)).all(axis=1)[:, None]
            proposal = np.where(kept, proposal, f)
        R = np.where(busy[:, None], proposal, R)
        busy &= np.max(np.abs(change) / np.abs(R), axis=1) > last_step
        if not busy.any():
            break
    return R
