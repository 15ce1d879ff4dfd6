"""Gaussian moments of the force F that drive the overlaps, batched over states.

A state is R = [M | L], shape (B, p, k + p): M the overlaps with the whitened target directions, L L^T = Q - M M^T. With
xi ~ N(0, I_{k+p}) the local fields are lambda = R xi and the label is h(C zeta), zeta its first k entries. Needed are

    drift_j = E[F_j xi],  chi_jl = E[F_j F_l],  spread_jl = E[F_j F_l n_jl],  mse = E(h - f)^2,

where n_jl = |xi|^2, and on the sphere |xi|^2 - lambda_j^2 - lambda_l^2 + lambda_j lambda_l Q_jl, gradient_dynamics
section 2.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from giantstep.blocks import split_rows
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.gaussian import JointRule, Plane, gauss_legendre_panels, normal_density, parse_expression
from giantstep.gaussian.expression import roots as zeros_of
from giantstep.gaussian.grids import hermite_rule, product_grid
from giantstep.learnability.algorithms import force_breaks
from giantstep.types import Floats

CHUNK = 1 << 20
"""Values of F held at a time."""


EDGES = (-9.5, -6.0, -3.0, 0.0, 3.0, 6.0, 9.5)
PANEL_NODES = 14
"""Edges of the panels of a unit normal beside its kinks, and Gauss-Legendre nodes of each."""


class Forces(NamedTuple):
    """Moments of F at a batch of states."""

    drift: Floats
    chi: Floats
    spread: Floats


class ForceNodes(NamedTuple):
    """Nodes of xi, what is to be averaged at each, and their weights."""

    xi: Floats  # (N, k + p)
    weights: Floats  # (N,)
    norm: Floats  # (N,), |xi|^2 or a part of it
    fields: Floats  # (B, N, p)
    label: Floats  # (B or 1, N)


class Summation:
    """Moments by summation over nodes of xi, which may depend on the state, and of noise where F is not affine."""

    name = "sum"
    sampled = False

    def __init__(self, scenario: OnlineSGD, z: Floats, label_noise: Floats | None) -> None:
        self.scenario, self.net, self.algorithm = scenario, scenario.network, scenario.known_algorithm
        self.clean = np.asarray(scenario.target(z @ scenario.whitening.T), dtype=float)
        self.label_noise = label_noise
        self.chunk = 1  # states that are held at a time

    def nodes(self, R: Floats, inner: Floats, label: Floats) -> ForceNodes:
        """Return the nodes at the states R."""
        raise NotImplementedError

    def coarser(self) -> Summation | None:
        """Return a rule whose difference measures the error; None where this one is exact."""
        raise NotImplementedError

    def labels(self, noise: Floats) -> Floats:
        """Return the labels at the nodes, (B or 1, N)."""
        label = self.clean[None, :]
        return label if self.label_noise is None else label + np.sqrt(noise)[:, None] * self.label_noise

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread at the states R (B, p, k + p)."""
        parts = []
        for rows in split_rows(len(R), 1, self.chunk):
            nodes = self.nodes(R[rows], inner[rows], self.labels(noise[rows]))
            parts.append(force_moments(self.scenario, nodes, R[rows], inner[rows], noise[rows]))
        return parts[0] if len(parts) == 1 else Forces(*map(np.concatenate, zip(*parts)))

    def mse(self, R: Floats) -> Floats:
        """Return E(h - f)^2 at the states R."""
        mse, still = np.empty(len(R)), np.zeros(len(R))
        for rows in split_rows(len(R), 1, self.chunk):
            nodes = self.nodes(R[rows], still[rows], self.clean[None, :])
            mse[rows] = ((nodes.label - self.net.output(nodes.fields)) ** 2) @ nodes.weights
        return mse

    def label_spread(self, R: Floats, inner: Floats, noise: Floats) -> Floats:
        """Return E[F_j F_l |zeta|^2], |zeta|^2 the part of |xi|^2 in the target space."""
        nodes = self.nodes(R, inner, self.labels(noise))
        zeta = nodes.xi[:, : self.scenario.directions]
        return force_moments(self.scenario, nodes._replace(norm=(zeta**2).sum(axis=1)), R, inner, noise).spread

    def distance(self, *state: Floats) -> float:
        """Return how far the coarser rule is away, relative to the moments (zero where this one is exact)."""
        other, gaps = self.coarser(), [0.0]
        for moment, rough in zip(self.forces(*state), other.forces(*state)) if other is not None else ():
            size = np.maximum(np.max(np.abs(moment), axis=(1, 2)), 1e-300)
            gap = np.max(np.abs(moment - rough), axis=(1, 2)) / size
            gaps.append(float(np.nanmax(gap)) if np.any(np.isfinite(gap)) else math.inf)
        return max(gaps)

    def error(self, *state: Floats) -> float:
        """Estimate the error as distance^2/(distance of the coarser rule); Sobol points have that of two scrambles."""
        other, distance = self.coarser(), self.distance(*state)
        before = 0.0 if other is None or self.sampled else other.distance(*state)
        return distance * min(1.0, distance / before) if before > 0 else distance


class NodeIntegrator(Summation):
    """Fixed nodes: product rules, polynomials exactly, Sobol points."""

    def __init__(self, scenario: OnlineSGD, rule: JointRule) -> None:
        own = scenario.directions + scenario.width
        noise = rule.nodes[:, own] if rule.nodes.shape[1] > own else None
        super().__init__(scenario, rule.nodes[:, : scenario.directions], noise)
        self.rule, self.name, self.sampled = rule, rule.kind, rule.kind == "sobol"
        self.xi = np.ascontiguousarray(rule.nodes[:, :own])
        self.norm = (self.xi**2).sum(axis=1)
        self.chunk = max(1, CHUNK // (len(self.xi) * scenario.width))

    def nodes(self, R: Floats, inner: Floats, label: Floats) -> ForceNodes:
        """Return the nodes of the rule with the fields of the states R."""
        fields = np.matmul(self.xi, np.swapaxes(R, -1, -2))
        return ForceNodes(self.xi, self.rule.weights, self.norm, fields, label)

    def coarser(self) -> NodeIntegrator | None:
        """Return the coarser rule; None for polynomials, which are exact."""
        return None if self.rule.coarser is None else NodeIntegrator(self.scenario, self.rule.coarser())


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
        """Return nodes at one state R (1, 1, k + 1): at every z panels of the own coordinate t of m.z + s t."""
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
        weights = weights * normal_density(t) * self.weights[:, None]
        fields, count = mean + scale * t, t.shape[-1]
        xi = np.concatenate([np.repeat(self.z, count, axis=0), t.reshape(-1, 1)], axis=1)
        norm = (xi**2).sum(axis=1)
        return ForceNodes(xi, weights.ravel(), norm, fields.reshape(1, -1, 1), np.repeat(label, count, axis=-1))

    def coarser(self) -> KinkIntegrator:
        """Return a rule of fewer nodes."""
        return KinkIntegrator(self.scenario, fine=False)


def force_moments(scenario: OnlineSGD, nodes: ForceNodes, R: Floats, inner: Floats, noise: Floats) -> Forces:
    """Sum over nodes; label noise adds D E[s'_j s'_l ...] to chi and spread where F is affine in the label."""
    net, algorithm, weights = scenario.network, scenario.known_algorithm, nodes.weights[None, :, None]
    on_sphere = scenario.constraint == "spherical"
    with np.errstate(over="ignore", invalid="ignore"):
        force = algorithm.force(net, nodes.fields, nodes.label, inner[:, None, None], 1.0)
        weighted = np.swapaxes(weights * force, -1, -2)
        drift = np.matmul(weighted, nodes.xi)
        chi, spread = _pair_moments(weighted, force, nodes, R, on_sphere)
        if algorithm.affine and np.any(noise > 0):
            slopes = net.slopes(nodes.fields)
            more, wider = _pair_moments(np.swapaxes(weights * slopes, -1, -2), slopes, nodes, R, on_sphere)
            chi, spread = chi + noise[:, None, None] * more, spread + noise[:, None, None] * wider
    return Forces(drift, chi, spread)


def _pair_moments(
    weighted: Floats, force: Floats, nodes: ForceNodes, R: Floats, on_sphere: bool
) -> tuple[Floats, Floats]:
    """Return E[F_j F_l] and E[F_j F_l n_jl]."""
    chi, spread = np.matmul(weighted, force), np.matmul(weighted * nodes.norm, force)
    if on_sphere:
        fields = nodes.fields
        squares = np.matmul(weighted * np.swapaxes(fields**2, -1, -2), force)
        cross = np.matmul(weighted * np.swapaxes(fields, -1, -2), force * fields)
        spread = spread - squares - np.swapaxes(squares, -1, -2) + cross * np.matmul(R, np.swapaxes(R, -1, -2))
    return chi, spread
