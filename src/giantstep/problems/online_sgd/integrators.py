"""Gaussian moments of the force F that drive the overlaps, batched over states, and
which integrator takes them.

A state is R = [M | L], shape (B, p, k + p): M the overlaps with the whitened target
directions, L L^T = Q - M M^T. With xi ~ N(0, I_{k+p}) the local fields are lambda = R
xi and the label is h(C zeta), zeta its first k entries. Needed are

    drift_j = E[F_j xi], chi_jl = E[F_j F_l], spread_jl = E[F_j F_l n_jl], mse = E(h -
    f)^2,

where n_jl = |xi|^2, and on the sphere |xi|^2 - lambda_j^2 - lambda_l^2 + lambda_j
lambda_l Q_jl, gradient_dynamics section 2.1.

Erf networks have closed forms. Of p students and further teachers, rows v_u of a
Gaussian vector with covariance C (their scales absorbed, so that s(x) = erf(x/sqrt 2)),
a residual sum_u e_u s(v_u) and the force F_j = s'(v_j) times it. Two factors s'(v_j)
s'(v_l) tilt the Gaussian: with X the columns j, l of C and K = (1 + C_{jl,jl})^-1 the
covariance becomes S = C - X K X^T, and

    E[F_j F_l] ~ (det K)^(1/2) sum_uw e_u e_w arctan2(S_uw, sqrt((1 + S_uu)(1 + S_ww) -
    S_uw^2)).

Its derivative under C -> (1 + t) C, which |x|^2 in an average amounts to, needs dS/dt =
S - Y Y^T with Y = X K.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import (
    JointRule,
    Plane,
    gauss_legendre_panels,
    joint_rule,
    normal_density,
    parse_expression,
)
from giantstep.core.maths.gaussian.expression import affine, affine_of_calls
from giantstep.core.maths.gaussian.expression import roots as zeros_of
from giantstep.core.maths.gaussian.grids import hermite_rule, product_grid
from giantstep.core.maths.gaussian.planes import turned_planes
from giantstep.core.maths.gaussian.resolution import HERMITE_STEP
from giantstep.problems.learnability.algorithms import NAMED, force_breaks
from giantstep.problems.online_sgd.scenario import OnlineSGD
from giantstep.problems.online_sgd.tolerances import COARSE

CHUNK = 1 << 20
"""Values of F held at a time."""
EDGES = (-9.5, -6.0, -3.0, 0.0, 3.0, 6.0, 9.5)
PANEL_NODES = 14
"""Edges of the panels of a unit normal beside its kinks, and Gauss-Legendre nodes of
each.
"""


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
    """Moments by summation over nodes of xi, which may depend on the state, and of
    noise where F is not affine.
    """

    name = "sum"
    sampled = False

    def __init__(
        self, scenario: OnlineSGD, z: Floats, label_noise: Floats | None
    ) -> None:
        self.scenario = scenario
        self.net = scenario.network
        self.algorithm = scenario.known_algorithm
        self.clean = np.asarray(scenario.target(z @ scenario.whitening.T), dtype=float)
        self.label_noise = label_noise
        self.chunk = 1  # states that are held at a time

    def nodes(self, R: Floats, inner: Floats, label: Floats) -> ForceNodes:
        """Return the nodes at the states R."""
        raise NotImplementedError

    def coarser(self) -> Summation | None:
        """Return a rule whose difference measures the error; None where this one is
        exact.
        """
        raise NotImplementedError

    def labels(self, noise: Floats) -> Floats:
        """Return the labels at the nodes, (B or 1, N)."""
        label = self.clean[None, :]
        if self.label_noise is None:
            return label
        return label + np.sqrt(noise)[:, None] * self.label_noise

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread at the states R (B, p, k + p)."""
        parts = []
        for rows in split_rows(len(R), 1, self.chunk):
            nodes = self.nodes(R[rows], inner[rows], self.labels(noise[rows]))
            parts.append(
                force_moments(self.scenario, nodes, R[rows], inner[rows], noise[rows])
            )
        if len(parts) == 1:
            return parts[0]
        return Forces(*map(np.concatenate, zip(*parts)))

    def mse(self, R: Floats) -> Floats:
        """Return E(h - f)^2 at the states R."""
        mse = np.empty(len(R))
        still = np.zeros(len(R))
        for rows in split_rows(len(R), 1, self.chunk):
            nodes = self.nodes(R[rows], still[rows], self.clean[None, :])
            mse[rows] = (
                (nodes.label - self.net.output(nodes.fields)) ** 2
            ) @ nodes.weights
        return mse

    def distance(self, *state: Floats) -> float:
        """Return how far the coarser rule is away, relative to the moments (zero where
        this one is exact).
        """
        other = self.coarser()
        gaps = [0.0]
        for moment, rough in (
            zip(self.forces(*state), other.forces(*state)) if other is not None else ()
        ):
            size = np.maximum(np.max(np.abs(moment), axis=(1, 2)), 1e-300)
            gap = np.max(np.abs(moment - rough), axis=(1, 2)) / size
            gaps.append(float(np.nanmax(gap)) if np.any(np.isfinite(gap)) else math.inf)
        return max(gaps)

    def error(self, *state: Floats) -> float:
        """Estimate the error as distance^2/(distance of the coarser rule); Sobol points
        have that of two scrambles.
        """
        other = self.coarser()
        distance = self.distance(*state)
        if other is None or self.sampled:
            before = 0.0
        else:
            before = other.distance(*state)
        if before > 0:
            return distance * min(1.0, distance / before)
        return distance


class NodeIntegrator(Summation):
    """Fixed nodes: product rules, polynomials exactly, Sobol points."""

    def __init__(self, scenario: OnlineSGD, rule: JointRule) -> None:
        own = scenario.directions + scenario.width
        noise = rule.nodes[:, own] if rule.nodes.shape[1] > own else None
        super().__init__(scenario, rule.nodes[:, : scenario.directions], noise)
        self.rule = rule
        self.name = rule.kind
        self.sampled = rule.kind == "sobol"
        self.xi = np.ascontiguousarray(rule.nodes[:, :own])
        self.norm = (self.xi**2).sum(axis=1)
        self.chunk = max(1, CHUNK // (len(self.xi) * scenario.width))

    def nodes(self, R: Floats, inner: Floats, label: Floats) -> ForceNodes:
        """Return the nodes of the rule with the fields of the states R."""
        fields = np.matmul(self.xi, np.swapaxes(R, -1, -2))
        return ForceNodes(self.xi, self.rule.weights, self.norm, fields, label)

    def coarser(self) -> NodeIntegrator | None:
        """Return the coarser rule; None for polynomials, which are exact."""
        if self.rule.coarser is None:
            return None
        return NodeIntegrator(self.scenario, self.rule.coarser())


def narrow_places(scenario: OnlineSGD) -> list[Plane]:
    """Return the breaks beside the narrow places of the target, in the coordinates of a
    rule.
    """
    return turned_planes(
        scenario.target.narrow_places(HERMITE_STEP), scenario.whitening
    )


class KinkIntegrator(Summation):
    """A product rule over z (and the label noise), and panels between kinks over the
    field given z.
    """

    name = "piecewise"

    def __init__(self, scenario: OnlineSGD, fine: bool = True) -> None:
        k = scenario.directions
        algorithm = scenario.known_algorithm
        target = scenario.target
        self.per_panel = PANEL_NODES if fine else PANEL_NODES - 4
        extra = int(scenario.noise > 0 and not algorithm.affine)
        if np.allclose(scenario.whitening, np.eye(k)):
            planes = [*target.planes]
        else:
            planes = []
        if (
            k == 1
            and (algorithm.repeats or algorithm.name == "exponential")
            and target.expression is not None
        ):
            tree = parse_expression(target.expression)
            planes += [
                Plane((1.0,), -root)
                for name in tree.variables
                for root in zeros_of(tree.tree, name)
            ]
        if fine:
            if k == 1:
                smooth = 72
                piece = 20
            elif k == 2:
                smooth = 36
                piece = 16
            else:
                smooth = 20
                piece = 10
        else:
            smooth = 48
            piece = 14
        if target.degree is not None and not extra and not algorithm.repeats:
            smooth = min(smooth, 24)
        planes = [plane.within(k + extra) for plane in planes]
        narrow = [plane.within(k + extra) for plane in narrow_places(scenario)]
        grid = product_grid(k + extra, planes, hermite_rule(smooth), piece, narrow)
        self.z = grid.points[:, :k]
        self.weights = grid.weights
        super().__init__(scenario, self.z, grid.points[:, k] if extra else None)

    def nodes(self, R: Floats, inner: Floats, label: Floats) -> ForceNodes:
        """Return nodes at one state R (1, 1, k + 1): at every z panels of the own
        coordinate t of m.z + s t.
        """
        k = self.scenario.directions
        mean = (R[:, 0, :k] @ self.z.T)[..., None]
        scale = np.maximum(R[:, 0, k], 1e-150)[:, None, None]
        shape = (*np.broadcast_shapes(mean.shape[:2], label.shape), 1)
        broken = force_breaks(
            self.algorithm, self.net, label[..., None], inner[:, None, None]
        )
        breaks = np.concatenate([np.broadcast_to(at, shape) for at in broken], axis=-1)
        edges = np.broadcast_to(np.array(EDGES), (*shape[:2], len(EDGES)))
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.clip((breaks - mean) / scale, EDGES[0], EDGES[-1])
        t, weights = gauss_legendre_panels(
            np.sort(np.concatenate([edges, moved], axis=-1), axis=-1), self.per_panel
        )
        weights = weights * normal_density(t) * self.weights[:, None]
        fields = mean + scale * t
        count = t.shape[-1]
        xi = np.concatenate(
            [np.repeat(self.z, count, axis=0), t.reshape(-1, 1)], axis=1
        )
        norm = (xi**2).sum(axis=1)
        return ForceNodes(
            xi,
            weights.ravel(),
            norm,
            fields.reshape(1, -1, 1),
            np.repeat(label, count, axis=-1),
        )

    def coarser(self) -> KinkIntegrator:
        """Return a rule of fewer nodes."""
        return KinkIntegrator(self.scenario, fine=False)


def force_moments(
    scenario: OnlineSGD, nodes: ForceNodes, R: Floats, inner: Floats, noise: Floats
) -> Forces:
    """Sum over nodes; label noise adds D E[s'_j s'_l ...] to chi and spread where F is
    affine in the label.
    """
    net = scenario.network
    algorithm = scenario.known_algorithm
    weights = nodes.weights[None, :, None]
    on_sphere = scenario.constraint == "spherical"
    with np.errstate(over="ignore", invalid="ignore"):
        force = algorithm.force(
            net, nodes.fields, nodes.label, inner[:, None, None], 1.0
        )
        weighted = np.swapaxes(weights * force, -1, -2)
        drift = np.matmul(weighted, nodes.xi)
        chi, spread = _pair_moments(weighted, force, nodes, R, on_sphere)
        if algorithm.affine and np.any(noise > 0):
            slopes = net.slopes(nodes.fields)
            more, wider = _pair_moments(
                np.swapaxes(weights * slopes, -1, -2), slopes, nodes, R, on_sphere
            )
            chi = chi + noise[:, None, None] * more
            spread = spread + noise[:, None, None] * wider
    return Forces(drift, chi, spread)


def _pair_moments(
    weighted: Floats, force: Floats, nodes: ForceNodes, R: Floats, on_sphere: bool
) -> tuple[Floats, Floats]:
    """Return E[F_j F_l] and E[F_j F_l n_jl]."""
    chi = np.matmul(weighted, force)
    spread = np.matmul(weighted * nodes.norm, force)
    if on_sphere:
        fields = nodes.fields
        squares = np.matmul(weighted * np.swapaxes(fields**2, -1, -2), force)
        cross = np.matmul(weighted * np.swapaxes(fields, -1, -2), force * fields)
        spread = (
            spread
            - squares
            - np.swapaxes(squares, -1, -2)
            + cross * np.matmul(R, np.swapaxes(R, -1, -2))
        )
    return chi, spread


def tilted_moments(
    C: Floats, p: int, residual: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return moments of covariances C (B, n, n), p students first, with the residual e
    (n,).

    They are G (B, p, n) with E[F_j x] = sum_u G_ju v_u, up to the factor 2/pi of s' s,
    and, for all pairs (j, l) of students (B, p, p), sum_uw e_u e_w arcsin without its
    2/pi, twice its derivative under C -> (1 + t) C, tr K, where 2 - tr K is twice that
    of log root, and root, the square root of det(1 + C_{jl,jl}).
    """
    n = C.shape[1]
    students = C[:, :p]
    ones = 1 + C.diagonal(axis1=1, axis2=2)
    first = ones[:, :p, None]
    second = ones[:, None, :p]
    across = students[..., :p]
    det = first * second - across * across
    # the columns j and l of C, for all pairs (j, l)
    left, right = (
        students[:, :, None],
        students[:, None],
    )
    X = np.empty((*det.shape, n, 2))
    X[..., 0] = left
    X[..., 1] = right
    K = np.empty((*det.shape, 2, 2))
    K[..., 0, 0] = second
    K[..., 1, 1] = first
    K[..., 0, 1] = K[..., 1, 0] = -across
    Y = X @ (K / det[..., None, None])
    S = C[:, None, None] - Y @ X.swapaxes(-1, -2)
    D = S - Y @ Y.swapaxes(-1, -2)
    wide = 1 + S.diagonal(axis1=-2, axis2=-1)
    spread = np.sqrt(wide[..., None] * wide[..., None, :] - S * S)
    shrink = D.diagonal(axis1=-2, axis2=-1) / wide
    mean = np.arctan2(S, spread) @ residual @ residual
    change = ((D - S * shrink[..., None]) / spread) @ residual @ (2 * residual)
    slopes = residual / np.sqrt(first * ones[:, None] - students**2)
    slopes.reshape(len(C), -1)[:, :: n + 1] -= (slopes * students).sum(axis=-1) / ones[
        :, :p
    ]
    return slopes, mean, change, (first + second) / det, np.sqrt(det)


class ErfIntegrator:
    """Closed forms for an erf student of a target sum_t c_t erf(<v_t, z>) with `terms`
    (c_t, v_t).
    """

    sampled = False
    name = "closed form"

    def __init__(
        self,
        scenario: OnlineSGD,
        terms: list[tuple[float, Floats]],
        factor: float,
        scale: float,
    ) -> None:
        p = scenario.width
        k = scenario.directions
        self.p = p
        self.k = k
        self.is_single = p == k == len(terms) == 1
        # the student's field in units of the closed forms
        self.student = math.sqrt(2) * scale
        self.amplitude = factor * self.student
        self.teachers = (
            math.sqrt(2) * np.array([v for _, v in terms]) @ scenario.whitening
        )
        weights = np.array([c for c, _ in terms])
        # what the residual y - f has of each student
        output = -factor * np.array(scenario.second_layer) / p
        if scenario.known_algorithm is NAMED["squared"]:
            seen = output
        else:
            seen = np.zeros(p)
        self.residual = np.concatenate([seen, weights])
        self.full = np.concatenate([output, weights])

    def _vectors(self, R: Floats) -> Floats:
        """Return the rows of students and teachers in the coordinates xi, scaled, (B,
        p + teachers, k + p).
        """
        V = np.zeros((len(R), len(self.residual), R.shape[-1]))
        V[:, : self.p], V[:, self.p :, : self.k] = self.student * R, self.teachers
        return V

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread in closed form."""
        V = self._vectors(R)
        slopes, mean, change, trace, root = tilted_moments(
            V @ V.transpose(0, 2, 1), self.p, self.residual
        )
        drift = (2 / np.pi * self.amplitude) * np.matmul(slopes, V)
        base = (2 / np.pi * self.amplitude) ** 2 / root
        mean = mean + np.pi / 2 * noise[:, None, None]
        # E[F_j F_l |xi|^2] = r chi + 2 d chi[(1 + t) Omega]/dt at t = 0, in r = k + p
        # dimensions
        spread = base * ((self.k + self.p - 2 + trace) * mean + change)
        return Forces(drift, base * mean, spread)

    def mse(self, R: Floats) -> Floats:
        """Return e^T I2 e."""
        V = self._vectors(R)
        C = np.matmul(V, V.transpose(0, 2, 1))
        root = np.sqrt(1 + np.diagonal(C, axis1=1, axis2=2))
        ratio = C / (root[:, :, None] * root[:, None, :])
        return np.asarray(2 / np.pi * (np.arcsin(ratio) @ self.full) @ self.full)

    def error(self, R: Floats, inner: Floats, noise: Floats) -> float:
        """Return zero."""
        return 0.0


def erf_integrator(scenario: OnlineSGD) -> ErfIntegrator | None:
    """Return the closed forms where student, target, algorithm and constraint have
    them.
    """
    activation = scenario.activation.expression
    target = scenario.target.expression
    if activation:
        own = parse_expression(activation).as_affine_of_known()
    else:
        own = None
    if own is None or own.function != "erf" or own.shift or own.constant or own.linear:
        return None
    if (
        not scenario.known_algorithm.affine
        or scenario.constraint == "spherical"
        or target is None
    ):
        return None
    names: tuple[str, ...]
    if re.search(r"\bz\b", target):
        names = ("z",)
    else:
        names = tuple(f"z{r}" for r in range(1, scenario.directions + 1))
    outer = affine_of_calls(parse_expression(target).tree, names)
    if outer is None or outer[0].any() or outer[1] or not outer[2]:
        return None
    inner = [
        affine(call.arguments[0], names) if call.name == "erf" else None
        for _, call in outer[2]
    ]
    terms = [
        (factor, form[0])
        for (factor, _), form in zip(outer[2], inner)
        if form is not None and not form[1]
    ]
    if len(terms) == len(inner):
        return ErfIntegrator(scenario, terms, own.factor, own.scale)
    return None


Integrator = ErfIntegrator | Summation
"""What takes the moments: `forces`, `mse`, `error`, `name` and `sampled`."""
SCRAMBLES = 4
"""Independent sets of Sobol points, whose spread is the standard error of a limit
computed by sampling.
"""


def integrator_for(
    scenario: OnlineSGD,
    kind: str = "auto",
    nodes: int | None = None,
    points: int = 8192,
    scramble: int = 0,
) -> Integrator:
    """Choose closed forms, exact polynomials, pieces between kinks, product rules
    ("tensor") or points ("sobol").
    """
    closed = erf_integrator(scenario) if kind == "auto" else None
    if closed is not None:
        return closed
    integrator = _rule_integrator(scenario, kind, nodes, points, scramble)
    if kind != "auto" or scenario.known_algorithm.affine or integrator.sampled:
        return integrator
    p = scenario.width
    k = scenario.directions
    typical = np.concatenate(
        [np.full((1, p, k), 0.3 / math.sqrt(k)), math.sqrt(0.91) * np.eye(p)[None]],
        axis=-1,
    )
    fields = scenario.point()
    if (
        integrator.distance(typical, scenario.inner_rates(fields), fields["noise"])
        <= COARSE
    ):
        return integrator
    return _rule_integrator(scenario, "sobol", nodes, points, scramble)


def _rule_integrator(
    scenario: OnlineSGD, kind: str, nodes: int | None, points: int, scramble: int
) -> KinkIntegrator | NodeIntegrator:
    """Return pieces between kinks for one neuron, or nodes: polynomials exactly,
    product rules, Sobol points.
    """
    activation = scenario.activation
    target = scenario.target
    algorithm = scenario.known_algorithm
    if kind == "auto" and scenario.width == 1 and activation.kinks:
        return KinkIntegrator(scenario)
    own = scenario.directions + scenario.width
    dims = own + int(scenario.noise > 0 and not algorithm.affine)
    degree = None
    if activation.polynomial is not None and target.degree is not None and dims == own:
        of_force = algorithm.degree(
            max(len(activation.polynomial) - 1, 1), target.degree
        )
        degree = None if of_force is None else 2 * of_force + 2
    hidden = activation.kinks or (
        target.expression is not None and not target.all_planes
    )
    if hidden:
        planes = None
    else:
        planes = turned_planes(target.planes, scenario.whitening)
    rule = joint_rule(
        dims,
        degree=degree,
        planes=planes,
        narrow=narrow_places(scenario),
        kind=kind,
        nodes=nodes,
        points=points,
        seed=scramble,
    )
    return NodeIntegrator(scenario, rule)
