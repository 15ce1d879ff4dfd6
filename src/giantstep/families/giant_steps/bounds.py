"""Lower bounds on the error of any fit on d^kappa samples once a subspace of the target is learned."""

from __future__ import annotations

import numpy as np

from giantstep.gaussian import Plane, Target
from giantstep.gaussian.grids import even_rule, hermite_rule, product_grid
from giantstep.gaussian.hermite import hermite_products, multi_indices
from giantstep.gaussian.subspaces import complement, tidy
from giantstep.gaussian.target import turned_planes
from giantstep.types import Floats

_OUTER = {1: 1 / 8, 2: 1 / 4}
"""Spacing over the learned directions, by their number, in standard deviations."""
_INNER = {1: 64, 2: 40, 3: 24, 4: 16, 5: 12, 6: 10}
_PIECE = {1: 32, 2: 20, 3: 14, 4: 10, 5: 8, 6: 6}
"""Nodes of an axis over the other directions, by their number, without breaks and on each piece between them."""


def lower_bound(target: Target, learned: Floats, kappa: int) -> float:
    """Return E h^2 - sum_{k <= kappa} E|E[h He_k(z_perp)|z_U]|^2/k!, without the label noise.

    h minus its projection on polynomials of degree at most kappa in z_perp with coefficients that are any function of
    z_U, gradient_dynamics section 5.4; the orthonormal rows `learned` span U.
    """
    k = target.directions
    known = tidy(learned) if len(learned) else np.zeros((0, k))
    rest = complement(known, k)
    if not len(rest):
        return 0.0
    frame = np.concatenate([known, rest])
    planes = turned_planes(target.planes, frame.T)
    u = len(known)
    inside = [Plane(p.normal[:u], p.offset) for p in planes if not np.any(np.abs(p.normal[u:]) > 1e-9)]
    outer = product_grid(u, inside, even_rule(_OUTER[u]) if u in _OUTER else hermite_rule(16), 24)
    indices = [index for order in range(kappa + 1) for index in multi_indices(len(rest), order)]
    second = projected = 0.0
    for point, weight in zip(outer.points, outer.weights):
        moved = [Plane(plane.normal, plane.offset + float(np.dot(plane.normal[:u], point))) for plane in planes]
        breaks = turned_planes(moved, np.eye(k)[:, u:])
        inner = product_grid(len(rest), breaks, hermite_rule(_INNER[len(rest)]), _PIECE[len(rest)])
        y = target(np.concatenate([np.tile(point, (len(inner.points), 1)), inner.points], axis=1) @ frame)
        second += weight * float(inner.weights @ (y * y))
        projected += weight * float(np.sum((hermite_products(inner.points, indices) @ (inner.weights * y)) ** 2))
    return max(second - projected, 0.0)


def kernel_bound(target: Target, kappa: int) -> float:
    """Return the bound where nothing is learned: that of kernels and random features."""
    return lower_bound(target, np.zeros((0, target.directions)), kappa)
