"""Moments of one neuron whose activation has kinks: its field given z is integrated between them."""

from __future__ import annotations

import numpy as np

from giantstep.families.online_sgd.moments import ForceNodes, Summation
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.gaussian import Plane, gauss_legendre_panels, normal_density, parse_expression
from giantstep.gaussian.expression import roots as zeros_of
from giantstep.gaussian.grids import hermite_rule, product_grid
from giantstep.learnability.algorithms import force_breaks
from giantstep.types import Floats

EDGES = (-9.5, -6.0, -3.0, 0.0, 3.0, 6.0, 9.5)
PANEL_NODES = 14
"""Edges of the panels of a unit normal beside its kinks, and Gauss-Legendre nodes of each."""


class KinkIntegrator(Summation):
    """A product rule over z (and the label noise), and panels between kinks over the field given z."""

    name = "piecewise"

    def __init__(self, scenario: OnlineSGD, fine: bool = True) -> None:
        k, algorithm, target = scenario.directions, scenario.known_algorithm, scenario.target
        self.per_panel = PANEL_NODES if fine else PANEL_NODES - 4
        extra = int(scenario.noise > 0 and not algorithm.affine)
        planes = [*target.planes] if np.allclose(scenario.whitening, np.eye(k)) else []
        if k == 1 and (algorithm.repeats or algorithm.name == "exponential") and target.expression is not None:
            tree = parse_expression(target.expression)
            planes += [Plane((1.0,), -root) for name in tree.variables for root in zeros_of(tree.tree, name)]
        smooth, piece = ((72, 20) if k == 1 else (36, 16) if k == 2 else (20, 10)) if fine else (48, 14)
        if target.degree is not None and not extra and not algorithm.repeats:
            smooth = min(smooth, 24)
        planes = [plane.within(k + extra) for plane in planes]
        grid = product_grid(k + extra, planes, hermite_rule(smooth), piece)
        self.z, self.weights = grid.points[:, :k], grid.weights
        super().__init__(scenario, self.z, grid.points[:, k] if extra else None)

    def nodes(self, R: Floats, inner: Floats, label: Floats) -> ForceNodes:
        """Return nodes at one state R (1, 1, k + 1): at every z panels of the field's own coordinate t."""
        t, weights, fields = self._panels(R, label, inner)
        count = t.shape[-1]
        xi = np.concatenate([np.repeat(self.z, count, axis=0), t.reshape(-1, 1)], axis=1)
        norm = (xi**2).sum(axis=1)
        return ForceNodes(xi, weights.ravel(), norm, fields.reshape(1, -1, 1), np.repeat(label, count, axis=-1))

    def _panels(self, R: Floats, label: Floats, inner: Floats) -> tuple[Floats, Floats, Floats]:
        """Return nodes t, their weights and the fields m.z + s t, all (1, Nz, m)."""
        k = self.scenario.directions
        mean = (R[:, 0, :k] @ self.z.T)[..., None]
        scale = np.maximum(R[:, 0, k], 1e-150)[:, None, None]
        shape = (*np.broadcast_shapes(mean.shape[:2], label.shape), 1)
        broken = force_breaks(self.algorithm, self.net, label[..., None], inner[:, None, None])
        breaks = np.concatenate([np.broadcast_to(at, shape) for at in broken], axis=-1)
        edges = np.broadcast_to(np.array(EDGES), (*shape[:2], len(EDGES)))
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.clip((breaks - mean) / scale, EDGES[0], EDGES[-1])
        t, weights = gauss_legendre_panels(np.sort(np.concatenate([edges, moved], axis=-1), axis=-1), self.per_panel)
        return t, weights * normal_density(t) * self.weights[:, None], mean + scale * t

    def coarser(self) -> KinkIntegrator:
        """Return a rule of fewer nodes."""
        return KinkIntegrator(self.scenario, fine=False)
