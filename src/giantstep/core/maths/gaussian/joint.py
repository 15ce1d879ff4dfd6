"""Expectations under a zero-mean jointly Gaussian vector of covariance C."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.grids import hermite_rule, product_grid
from giantstep.core.maths.gaussian.planes import Plane
from giantstep.core.maths.gaussian.primitives import namespace_of

NULL = 1e-12
"""Directions whose variance is below this share of the diagonal count as absent."""


LEAST_WEIGHT = 1e-16
"""Nodes of a smooth tensor rule with less weight than this are left out."""


NODES = {1: 96, 2: 64, 3: 36, 4: 26}
"""Gauss-Hermite nodes per dimension for smooth functions, by the number of
dimensions.
"""


TENSOR_DIMENSIONS = max(NODES)


SOBOL_POINTS = 1 << 13
"""Points of a Sobol rule, opposites included, if nothing else is asked for."""


def semidefinite_factor(C: Any) -> Any:
    """Return lower-triangular L (..., n, n) with L L^T = C for positive semi-definite
    C; absent directions are zero.
    """
    xp = namespace_of(C)
    C = xp.asarray(C, dtype=float)
    n = C.shape[-1]
    L = xp.zeros_like(C)
    for j in range(n):
        row = L[..., j, :j]
        pivot = C[..., j, j] - (row * row).sum(axis=-1)
        present = pivot > NULL * xp.maximum(C[..., j, j], 1e-300)
        root = xp.sqrt(xp.where(present, pivot, 1.0))
        below = C[..., j + 1 :, j] - (L[..., j + 1 :, :j] * row[..., None, :]).sum(
            axis=-1
        )
        L[..., j, j] = xp.where(present, root, 0.0)
        L[..., j + 1 :, j] = xp.where(present[..., None], below / root[..., None], 0.0)
    return L


def gram_factor(F: Any) -> Any:
    """Return lower-triangular L with L L^T = F^T F for F (..., m, n): its first
    min(m, n) columns, or all of them.
    """
    if F.shape[-2] < F.shape[-1] and namespace_of(F) is np:
        U = np.linalg.qr(F, mode="r")
        diagonal = np.diagonal(U, axis1=-2, axis2=-1)
        if np.all(diagonal**2 > NULL * (F**2).sum(axis=-2)[..., : F.shape[-2]]):
            return (U * np.sign(diagonal)[..., None]).swapaxes(-1, -2)
    return semidefinite_factor(F.swapaxes(-1, -2) @ F)


@dataclass(frozen=True, eq=False)
class JointRule:
    """Nodes and weights for independent standard normals."""

    nodes: Floats  # (N, n)
    weights: Floats  # (N,), of sum one
    kind: str  # ``"polynomial"`` (exact), ``"tensor"`` or ``"sobol"``
    # makes the rule with fewer nodes (or other Sobol points) whose difference measures
    # the error
    coarser: Callable[[], JointRule] | None = field(default=None, repr=False)


def sobol_normals(dimensions: int, power: int, seed: Any) -> Floats:
    """Return 2^power scrambled Sobol points as standard normals; a whole `seed` and a
    generator of it differ.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    return np.asarray(
        ndtri(
            np.clip(
                qmc.Sobol(dimensions, seed=seed).random_base2(power), 1e-16, 1 - 1e-16
            )
        )
    )


def even_points(dimensions: int, power: int, seed: Any) -> tuple[Floats, Floats]:
    """Return Sobol points and their opposites, of unit covariance together, and
    weights.
    """
    half = sobol_normals(dimensions, power, seed)
    nodes = np.concatenate([half, -half])
    spread = np.linalg.cholesky(nodes.T @ nodes / len(nodes))
    return np.linalg.solve(spread, nodes.T).T.copy(), np.full(
        len(nodes), 1 / len(nodes)
    )


def joint_rule(
    dimensions: int,
    *,
    degree: int | None = None,
    planes: Sequence[Plane] | None = (),
    narrow: Sequence[Plane] = (),
    kind: str = "auto",
    nodes: int | None = None,
    points: int = SOBOL_POINTS,
    seed: int = 0,
) -> JointRule:
    """Choose a rule: exact for polynomials of a degree, products up to four dimensions,
    Sobol beyond or if kinks hide.

    `planes` are where the integrand is not smooth (in the first coordinates, or in
    all), None where they are not fixed; `narrow` are breaks beside the places where it
    varies fast.
    """
    if kind != "sobol" and degree is not None:
        if kind == "tensor" or (degree // 2 + 1) ** dimensions <= 4 * SOBOL_POINTS:
            return JointRule(
                *product_grid(dimensions, (), hermite_rule(degree // 2 + 1), 1),
                "polynomial",
            )
    if kind == "tensor" or (
        kind != "sobol" and dimensions <= TENSOR_DIMENSIONS and planes is not None
    ):
        count = nodes or NODES.get(dimensions, 16)
        planes = planes or ()
        padded = [plane.within(dimensions) for plane in planes]
        beside = [plane.within(dimensions) for plane in narrow]
        grid = product_grid(
            dimensions, padded, hermite_rule(count), max(6, (3 * count) // 5), beside
        )
        heavy = grid.weights > LEAST_WEIGHT
        fewer = max(4, (3 * count) // 4)
        coarser = partial(
            joint_rule,
            dimensions,
            planes=planes,
            narrow=narrow,
            kind="tensor",
            nodes=fewer,
        )
        return JointRule(
            grid.points[heavy],
            grid.weights[heavy] / grid.weights[heavy].sum(),
            "tensor",
            coarser,
        )
    power = max(2, math.ceil(math.log2(points / 2)))
    rng = np.random.default_rng([seed, dimensions])
    # another scramble
    other = partial(
        joint_rule, dimensions, kind="sobol", points=points, seed=seed + 1000
    )
    return JointRule(*even_points(dimensions, power, rng), "sobol", other)
