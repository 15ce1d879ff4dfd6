"""At which samples per dimension message passing learns each direction:
bayes_multi_index section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.quadrature import normal_density
from giantstep.core.maths.gaussian.subspaces import complement, tidy
from giantstep.core.maths.solve.roots import brent_root
from giantstep.problems.bayes_limit.curve import Jump
from giantstep.problems.bayes_limit.pairs import Slab
from giantstep.problems.bayes_limit.reading import TargetReading
from giantstep.problems.bayes_limit.tolerances import ABSENT, LARGEST_OVERLAP

_PROBE = 0.3
"""Overlap of the known direction at which it is asked what else is seen at once."""
_NEGLIGIBLE = 1e-4
"""Eigenvalue of the growing matrix, relative to the largest, below which a direction
does not grow.
"""
_SAME_RATE = 1e-6
"""Relative difference of the rates of directions that are learnt at once."""
_SCAN = np.arange(-6.0, 4.3, 0.35)
"""Where the growth along a curve of fixed points is looked at, in logit m."""


class LearntStage(NamedTuple):
    """Directions (orthonormal rows) that are learnt above alpha: infinite for never,
    NaN where it is not known.
    """

    alpha: float
    rows: Floats


Slicing = Callable[[Floats], Slab | None]
"""Tables of a channel along a unit vector; None where it has none along this one."""


class BranchSolution(NamedTuple):
    """The branches of one point: uninformed, informed, bayes."""

    M: Floats
    """(S, 3, r, r), in the coordinates of the subspace: one run, or one for each
    scramble where overlaps are sampled; NaN where it is not known which branch is the
    best.
    """
    phi: Floats
    phi_error: Floats | None = None
    status: str = ""


def find_stages(slab_along: Slicing, rank: int) -> list[LearntStage]:
    """Return the directions in the order in which they are learnt."""
    along_axis = slab_along(np.eye(rank)[0])
    assert along_axis is not None
    first, growth = _moments_at_zero(along_axis)
    sizes, vectors = np.linalg.eigh(first)
    trivial = vectors[:, sizes > ABSENT].T
    if len(trivial):
        return _continue(slab_along, rank, [LearntStage(0.0, tidy(trivial))])
    rate, rows = _leading(growth)
    if rate <= ABSENT:
        return [LearntStage(math.inf, np.eye(rank))]
    return _continue(slab_along, rank, [LearntStage(1 / rate, rows)])


def _moments_at_zero(slab: Slab) -> tuple[Floats, Floats]:
    """Return E[m1 m1^T] and the matrix of dM -> E[G dM G], bayes_multi_index (12)."""
    density = slab.weights * normal_density(slab.z)
    P = np.maximum(density @ slab.law, 1e-290)
    along = (density * slab.z) @ slab.law
    own = (density * (slab.z**2 - 1)) @ slab.law
    others = np.tensordot(density, slab.first, axes=1)
    mixed = np.tensordot(density * slab.z, slab.first, axes=1)
    rest = np.tensordot(density, slab.second, axes=1)
    mean = np.concatenate([along[:, None], others], axis=1)
    r = mean.shape[1]
    G = np.empty((len(P), r, r))
    G[:, 0, 0] = own
    G[:, 0, 1:] = mixed
    G[:, 1:, 0] = mixed
    G[:, 1:, 1:] = rest
    direction = complement(slab.rest, r)
    basis = np.concatenate([direction, slab.rest])
    mean = mean @ basis
    G = np.einsum("ai,yab,bj->yij", basis, G, basis)
    weights = slab.measure / P
    first = np.einsum("y,ya,yb->ab", weights, mean, mean)
    return first, np.einsum("y,yab,ycd->acbd", weights, G, G).reshape(r * r, r * r)


def _leading(growth: Floats) -> tuple[float, Floats]:
    """Return the largest eigenvalue of a positive map on symmetric matrices, and the
    rows its eigenmatrix spans.
    """
    r = round(math.sqrt(len(growth)))
    rates, matrices = np.linalg.eigh(0.5 * (growth + growth.T))
    # what growth makes of the identity at last
    grown = matrices[:, rates >= rates[-1] - _SAME_RATE * abs(rates[-1])]
    sizes, vectors = np.linalg.eigh(
        (grown @ (grown.T @ np.eye(r).ravel())).reshape(r, r)
    )
    return rates[-1], tidy(vectors[:, sizes > _NEGLIGIBLE * sizes[-1]].T)


def _continue(
    slab_along: Slicing, rank: int, stages: list[LearntStage]
) -> list[LearntStage]:
    """Add later stages to the first one."""
    known = np.concatenate([stage.rows for stage in stages])
    if len(known) == rank:
        return stages
    slab = slab_along(known[0]) if len(known) == 1 else None
    if slab is None:
        return [*stages, LearntStage(math.nan, complement(known, rank))]
    sizes, vectors = np.linalg.eigh(slab.visible(_PROBE))
    at_once = vectors[:, sizes > ABSENT].T @ slab.rest
    if len(at_once):
        together = LearntStage(stages[0].alpha, np.concatenate([known, tidy(at_once)]))
        return _continue(slab_along, rank, [together])
    later = _second_stage(slab, stages[0].alpha)
    unknown = complement(np.concatenate([known, later.rows]), rank)
    if len(unknown):
        rest = [LearntStage(math.inf if math.isinf(later.alpha) else math.nan, unknown)]
    else:
        rest = []
    return [*stages, later, *rest]


def _second_stage(slab: Slab, first: float) -> LearntStage:
    """Return where alpha rho(M_U(alpha)) = 1 along the curve of fixed points of the
    known direction.
    """

    def excess(t: float) -> float:
        m = float(expit(t))
        information, growth = slab.information_and_growth(m)
        rate = float(np.linalg.eigvalsh(growth)[-1])
        # alpha(m) = e^t/I
        return t - math.log(information) + math.log(max(rate, 1e-300))

    below = np.array([excess(float(t)) for t in _SCAN]) < 0
    crossings = np.flatnonzero(below[:-1] & ~below[1:])
    if not len(crossings):
        return LearntStage(math.inf, slab.rest)
    low, high = _SCAN[crossings[0] :][:2].tolist()
    t = brent_root(excess, low, high, xtol=1e-12)
    information, growth = slab.information_and_growth(float(expit(t)))
    return LearntStage(
        max(first, math.exp(t) / information), _leading(growth)[1] @ slab.rest
    )


class Staged:
    """A problem whose directions are learnt in stages; first-order transitions are not
    looked for.
    """

    curve = None
    channel: Any

    def __init__(self, reading: TargetReading, channel: Any) -> None:
        self.reading = reading
        self.channel = channel

    @cached_property
    def stages(self) -> list[LearntStage]:
        """The directions in the order in which they are learnt."""
        return find_stages(self.channel.slab, self.reading.rank)

    def learnt_rows(self, alpha: float) -> Floats:
        """Return the directions that message passing learns at this alpha, as
        orthonormal rows.
        """
        return np.concatenate(
            [
                np.zeros((0, self.reading.rank)),
                *(s.rows for s in self.stages if s.alpha < alpha),
            ]
        )

    def first_learnt(self) -> tuple[Floats, Floats]:
        """Return where each direction is learnt, and the directions."""
        alphas = np.concatenate(
            [np.full(len(stage.rows), stage.alpha) for stage in self.stages]
        )
        return alphas, np.concatenate([stage.rows for stage in self.stages])

    def thresholds(self) -> tuple[dict[str, Any], str]:
        """Return where the first direction is learnt; jumps are not looked for."""
        table = {
            "alpha_weak": float(self.stages[0].alpha),
            "alpha_full": math.inf,
            "transition": "not looked for",
        }
        return table | dict.fromkeys(Jump._fields, math.nan), ""


def moved_inside(M: Floats) -> Floats:
    """Return the symmetric matrix with eigenvalues moved into [0, 1)."""
    M = 0.5 * (M + M.T)
    sizes, vectors = np.linalg.eigh(M)
    if sizes[0] >= 0 and sizes[-1] < LARGEST_OVERLAP:
        return M
    return np.asarray((vectors * np.clip(sizes, 0.0, LARGEST_OVERLAP)) @ vectors.T)
