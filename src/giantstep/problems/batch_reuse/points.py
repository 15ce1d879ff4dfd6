"""Weighted points of the effective process: one sample's target projections, label
noise, noise of each step, mask.

The rules are those of batch_reuse_dmft section 3. All arrays have the points along the
last axis. The columns are (h*, zeta, xi^0, xi^1, ..., mask), in this order: the first
dimensions of a Sobol sequence are its best ones, and the first steps decide the later
ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy
from scipy import special

from giantstep.core.base.chunks import BLOCK, split_rows
from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats

MaskKind = Literal["none", "cycle", "replacement"]

WIDENED = 1.5
"""Standard deviation with which up to `FEW_DIRECTIONS` target directions are drawn
(weights undo it).
"""
FEW_DIRECTIONS = 4
SLIGHTLY_WIDENED = 1.25
"""Above so many directions the weights of `WIDENED` would leave few points with weight;
they are drawn with this.
"""
MOST_COLUMNS = 21201
"""Dimensions of the Sobol sequence."""
_MOST_KEPT = 1 << 19
"""Numbers of a set of points that is kept (4 MB)."""
_SMALLEST = 2.0**-53
"""Distance from 0 and 1 that uniform numbers keep, half a unit in the last place:
normals stay finite.
"""


@dataclass(frozen=True)
class Layout:
    """How many columns of each kind there are."""

    directions: int  # target directions k
    noisy: bool  # whether the labels have noise
    normals: int  # columns of xi, p for every step
    # a step uses all samples, one of `batches` groups in turn, or each with 1/`batches`
    mask: MaskKind = "none"
    batches: int = 1
    steps: int = 0

    @property
    def gaussian(self) -> int:
        """Number of Gaussian columns."""
        return self.directions + self.noisy + self.normals

    @property
    def columns(self) -> int:
        """Number of all columns, those uniform numbers with them that say which samples
        a step uses.
        """
        return (
            self.gaussian
            + {"none": 0, "cycle": 1, "replacement": self.steps}[self.mask]
        )


@dataclass(frozen=True)
class WeightedPoints:
    """Weighted points: E f is sum w f."""

    target: Floats  # (k, N) projections h* on the target directions
    noise: Floats | None  # (N,) label noise zeta, or None
    normals: Floats  # (columns, N) independent normals xi
    weights: Floats  # (N,), of sum one
    mask: Floats | None = (
        None  # (steps, N) of 0 and 1, or None where every step uses all samples
    )


def sobol_points(
    layout: Layout, nodes: int, seed: int, scramble: int
) -> WeightedPoints:
    """Return scrambled Sobol points, target directions widened, all first and second
    moments matched.

    h* is drawn wider than it is, with weights: polynomial targets have heavy-tailed
    integrands. The points, a power of two of them, depend on seed and scramble and on
    nothing else.
    """
    if nodes * layout.columns <= _MOST_KEPT:
        return _kept_points(layout, nodes, seed, scramble)
    return _kept_points.__wrapped__(layout, nodes, seed, scramble)


@lru_cache(
    maxsize=16
)  # of `_MOST_KEPT` numbers at most; a slider asks for the same ones again and again
def _kept_points(
    layout: Layout, nodes: int, seed: int, scramble: int
) -> WeightedPoints:
    generator = np.random.default_rng(
        np.random.SeedSequence([seed & 0xFFFFFFFF, seed >> 32, scramble])
    )
    engine = scipy.stats.qmc.Sobol(
        layout.columns, scramble=True, rng=generator, bits=32
    )
    uniform = np.empty((layout.columns, nodes))
    # Sobol points come in powers of two
    size = 1 << max(0, (BLOCK // layout.columns).bit_length() - 1)
    for part in split_rows(nodes, 1, size):
        uniform[:, part] = engine.random(part.stop - part.start).T
    for row in uniform:
        check_time()
        np.clip(row, _SMALLEST, 1 - _SMALLEST, out=row)
    normal = uniform[: layout.gaussian]
    k = layout.directions
    mask = _mask(layout, uniform[layout.gaussian :])
    for row in normal:
        check_time()
        special.ndtri(row, out=row)
    scale = WIDENED if k <= FEW_DIRECTIONS else SLIGHTLY_WIDENED
    logs = -0.5 * (scale**2 - 1) * (normal[:k] ** 2).sum(axis=0)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    normal[:k] *= scale
    _match_moments(normal, weights)
    for array in (one for one in (normal, weights, mask) if one is not None):
        array.setflags(write=False)  # they are shared by all who ask for the same ones
    noise = normal[k] if layout.noisy else None
    return WeightedPoints(normal[:k], noise, normal[k + layout.noisy :], weights, mask)


_PRODUCT = 1 << 22
"""Numbers that are multiplied at a time, 256 times each or oftener: the deadline is
looked at between.
"""


def _match_moments(normal: Floats, weights: Floats) -> None:
    """Give the columns the weighted mean 0 and the weighted covariance I exactly, in
    place.

    They are multiplied by the inverse of the Cholesky factor of their covariance.
    """
    normal -= (normal @ weights)[:, None]
    covariance = np.zeros((len(normal), len(normal)))
    work = max(len(normal), len(normal) ** 2 // 256)
    for part in split_rows(len(weights), work, _PRODUCT):
        covariance += (normal[:, part] * weights[part]) @ normal[:, part].T
    factor = np.linalg.cholesky(covariance)
    for part in split_rows(len(weights), work, _PRODUCT):
        normal[:, part] = scipy.linalg.solve_triangular(
            factor, normal[:, part], lower=True
        )


def _mask(layout: Layout, uniform: Floats) -> Floats | None:
    if layout.mask == "none":
        return None
    if layout.mask == "cycle":
        group = np.floor(layout.batches * uniform[0]).astype(np.int64)
        return (group == (np.arange(layout.steps) % layout.batches)[:, None]).astype(
            np.float64
        )
    return (uniform * layout.batches < 1).astype(np.float64)
