"""Gaussian moments of the force F that drive the overlaps, batched over states.

A state is R = [M | L], shape (B, p, k + p): M the overlaps with the whitened target directions, L L^T = Q - M M^T. With
xi ~ N(0, I_{k+p}) the local fields are lambda = R xi and the label is h(C zeta), zeta its first k entries. Needed are

    drift_j = E[F_j xi],  chi_jl = E[F_j F_l],  spread_jl = E[F_j F_l n_jl],  mse = E(h - f)^2,

where n_jl = |xi|^2, and on the sphere |xi|^2 - lambda_j^2 - lambda_l^2 + lambda_j lambda_l Q_jl.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from giantstep.families.online_sgd.algorithms import CLIP, NAMED
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.tilted import TiltedMoments
from giantstep.gaussian import JointRule, Plane, gauss_legendre_panels, joint_rule, normal_density, parse_expression
from giantstep.gaussian.expression import Call, Expression, Node, Number
from giantstep.gaussian.expression import roots as zeros_of
from giantstep.gaussian.grids import hermite_rule, product_grid
from giantstep.types import Floats

CHUNK = 1 << 20
"""Values of F held at a time."""
EDGES = (-9.5, -6.0, -3.0, 0.0, 3.0, 6.0, 9.5)
PANEL_NODES = 14
COARSE = 1e-2
"""Relative difference to a coarser rule above which a rule does not see its integrand (the error is far smaller)."""
SCRAMBLES = 4
"""Independent sets of Sobol points, whose spread is the standard error of a limit computed by sampling."""


class Forces(NamedTuple):
    """Moments of F at a batch of states."""

    drift: Floats
    chi: Floats
    spread: Floats


class Engine(Protocol):
    """What the dynamics needs."""

    name: str
    sampled: bool

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread at the states R (B, p, k + p)."""

    def mse(self, R: Floats) -> Floats:
        """Return E(h - f)^2 at the states R."""

    def error(self, R: Floats, inner: Floats, noise: Floats) -> float:
        """Return the measured relative error of the moments at the states R."""


class NodeEngine:
    """Moments by summation over nodes of xi: product rules, polynomials exactly, Sobol points."""

    def __init__(self, scenario: OnlineSGD, rule: JointRule) -> None:
        self.scenario, self.rule = scenario, rule
        self.name, self.sampled = rule.kind, rule.kind == "sobol"
        self.net, self.algorithm = scenario.network, scenario.known_algorithm
        self.own = scenario.directions + scenario.width
        self.clean = np.asarray(
            scenario.target(rule.nodes[:, : scenario.directions] @ scenario.whitening.T), dtype=float
        )
        self.xi = np.ascontiguousarray(rule.nodes[:, : self.own])
        self.label_noise = rule.nodes[:, self.own] if rule.nodes.shape[1] > self.own else None
        self.norm = (self.xi**2).sum(axis=1)

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread at the states R (B, p, k + p)."""
        room = max(1, CHUNK // (self.rule.size * self.scenario.width))
        parts = [self._some(R[i : i + room], inner[i : i + room], noise[i : i + room]) for i in range(0, len(R), room)]
        return parts[0] if len(parts) == 1 else Forces(*(np.concatenate(part) for part in zip(*parts)))

    def label_spread(self, R: Floats, inner: Floats, noise: Floats) -> Floats:
        """Return E[F_j F_l |zeta|^2], |zeta|^2 the part of |xi|^2 in the target space."""
        return self._some(R, inner, noise, (self.xi[:, : self.scenario.directions] ** 2).sum(axis=1)).spread

    def _some(self, R: Floats, inner: Floats, noise: Floats, norm: Floats | None = None) -> Forces:
        label = self.clean[None, :]
        if self.label_noise is not None:
            label = label + np.sqrt(noise)[:, None] * self.label_noise
        fields = np.matmul(self.xi, np.swapaxes(R, -1, -2))
        weights = self.rule.weights[None, :, None]
        norm = self.norm if norm is None else norm
        return force_moments(self.scenario, fields, label, self.xi, norm, weights, R, inner, noise)

    def mse(self, R: Floats) -> Floats:
        """Return E(h - f)^2."""
        found = np.empty(len(R))
        room = max(1, CHUNK // (self.rule.size * self.scenario.width))
        for i in range(0, len(R), room):
            fields = np.matmul(self.xi, np.swapaxes(R[i : i + room], -1, -2))
            found[i : i + room] = ((self.clean - self.net.output(fields)) ** 2) @ self.rule.weights
        return found

    def error(self, R: Floats, inner: Floats, noise: Floats) -> float:
        """Compare with the coarser rule (zero for polynomials, which are exact)."""
        if self.rule.coarser is None:
            return 0.0
        other = NodeEngine(self.scenario, self.rule.coarser())
        return _difference(self.forces(R, inner, noise), other.forces(R, inner, noise))


class KinkEngine:
    """Moments for one neuron whose activation has kinks: the field given z is integrated between them."""

    sampled = False
    name = "piecewise"

    def __init__(self, scenario: OnlineSGD, fine: bool = True) -> None:
        self.scenario, self.fine = scenario, fine
        self.net, k = scenario.network, scenario.directions
        self.algorithm = scenario.known_algorithm
        self.per_panel = PANEL_NODES if fine else PANEL_NODES - 4
        extra = int(scenario.noise > 0 and not self.algorithm.affine)
        planes = [*scenario.target.planes] if np.allclose(scenario.whitening, np.eye(k)) else []
        self.clipped = self.algorithm is NAMED["exponential"]
        if k == 1 and (self.algorithm.repeats or self.clipped) and scenario.target.expression is not None:
            tree = parse_expression(scenario.target.expression)
            planes += [Plane((1.0,), -root) for name in tree.variables for root in zeros_of(tree.tree, name)]
        padded = [Plane((*plane.normal, *(0.0,) * extra), plane.offset) for plane in planes]
        smooth, piece = ((72, 20) if k == 1 else (36, 16) if k == 2 else (20, 10)) if fine else (48, 14)
        if scenario.target.degree is not None and not extra and not self.algorithm.repeats:
            smooth = min(smooth, 24)
        grid = product_grid(k + extra, padded, hermite_rule(smooth), piece)
        self.z, self.weights = grid.points[:, :k], grid.weights
        self.label_noise = grid.points[:, k] if extra else None
        self.clean = np.asarray(scenario.target(self.z @ scenario.whitening.T), dtype=float)
        self.kinks = np.array(scenario.activation.kinks)
        around = 1e-7
        self.sides = np.stack([self.net.slopes(self.kinks - around), self.net.slopes(self.kinks + around)])

    def _nodes(self, R: Floats, label: Floats, inner: Floats) -> tuple[Floats, Floats, Floats]:
        """Return nodes t of the field's own coordinate, their weights (B, Nz, m), and the fields."""
        k, a = self.scenario.directions, self.net.second_layer[0]
        mean = (R[:, 0, :k] @ self.z.T)[..., None]
        scale = np.maximum(R[:, 0, k], 1e-150)[:, None, None]
        shape = (*np.broadcast_shapes(mean.shape[:2], label.shape), 1)
        breaks = [np.broadcast_to(kink, shape) for kink in self.kinks]
        if self.algorithm.repeats:
            rho = inner[:, None, None]
            for kink, slopes in zip(self.kinks, self.sides.T):
                for slope in slopes:  # on a straight piece the moved field is l + rho a s'(y - a s(l))
                    height = float(self.net.activation(np.array([kink]))[0])
                    pull = label[..., None] - a * (height - slope * kink)
                    place = (kink - rho * a * slope * pull) / (1 - rho * a * a * slope * slope)
                    breaks.append(np.broadcast_to(place, shape))
        if self.clipped:
            for kink, slopes in zip(self.kinks, self.sides.T):
                height = float(self.net.activation(np.array([kink]))[0])
                for slope in slopes[slopes != 0]:  # where -y f = 2
                    with np.errstate(divide="ignore"):
                        place = kink + (-CLIP / (a * label[..., None]) - height) / slope
                    breaks.append(np.broadcast_to(place, shape))
        edges = np.broadcast_to(np.array(EDGES), (*shape[:2], len(EDGES)))
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.clip((np.concatenate(breaks, axis=-1) - mean) / scale, EDGES[0], EDGES[-1])
        nodes, weights = gauss_legendre_panels(
            np.sort(np.concatenate([edges, moved], axis=-1), axis=-1), self.per_panel
        )
        weights = weights * normal_density(nodes) * self.weights[:, None]
        return nodes, weights, mean + scale * nodes

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread at the states R (B, 1, k + 1)."""
        parts = [self._one(R[i : i + 1], inner[i : i + 1], noise[i : i + 1]) for i in range(len(R))]
        return parts[0] if len(parts) == 1 else Forces(*(np.concatenate(part) for part in zip(*parts)))

    def label_spread(self, R: Floats, inner: Floats, noise: Floats) -> Floats:
        """Return E[F^2 |zeta|^2]."""
        return self._one(R, inner, noise, only_labels=True).spread

    def _one(self, R: Floats, inner: Floats, noise: Floats, only_labels: bool = False) -> Forces:
        label = self.clean[None, :]
        if self.label_noise is not None:
            label = label + np.sqrt(noise)[:, None] * self.label_noise
        nodes, weights, fields = self._nodes(R, label, inner)
        k, count = self.scenario.directions, nodes.shape[-1]
        xi = np.concatenate([np.repeat(self.z, count, axis=0), nodes.reshape(-1, 1)], axis=1)
        flat = np.repeat(label, count, axis=-1)
        norm = (xi[:, : k + (not only_labels)] ** 2).sum(axis=1)
        shares = weights.reshape(1, -1, 1)
        return force_moments(self.scenario, fields.reshape(1, -1, 1), flat, xi, norm, shares, R, inner, noise)

    def mse(self, R: Floats) -> Floats:
        """Return E(h - f)^2."""
        found = np.empty(len(R))
        label = self.clean[None, :]
        still = np.zeros(1)
        for i in range(len(R)):
            _, weights, fields = self._nodes(R[i : i + 1], label, still)
            output = self.net.output(fields[..., None])
            found[i] = (weights * (label[..., None] - output) ** 2).sum()
        return found

    def error(self, R: Floats, inner: Floats, noise: Floats) -> float:
        """Compare with a rule of fewer nodes."""
        other = KinkEngine(self.scenario, fine=False)
        return _difference(self.forces(R, inner, noise), other.forces(R, inner, noise))


def force_moments(
    scenario: OnlineSGD,
    fields: Floats,
    label: Floats,
    xi: Floats,
    norm: Floats,
    weights: Floats,
    R: Floats,
    inner: Floats,
    noise: Floats,
) -> Forces:
    """Sum over nodes: fields (B, N, p), label (B or 1, N), xi (N, k + p), weights (1, N, 1)."""
    net, algorithm = scenario.network, scenario.known_algorithm
    with np.errstate(over="ignore", invalid="ignore"):
        force = algorithm.force(net, fields, label, inner[:, None, None], 1.0)
        weighted = np.swapaxes(weights * force, -1, -2)
        drift = np.matmul(weighted, xi)
        chi, spread = _pair(weighted, force, norm, fields, R, scenario.constraint)
        if algorithm.affine and np.any(noise > 0):
            slopes = net.slopes(fields)
            steep = np.swapaxes(weights * slopes, -1, -2)
            more, wider = _pair(steep, slopes, norm, fields, R, scenario.constraint)
            chi, spread = chi + noise[:, None, None] * more, spread + noise[:, None, None] * wider
    return Forces(drift, chi, spread)


def _pair(weighted: Floats, force: Floats, norm: Floats, fields: Floats, R: Floats, constraint: str) -> Any:
    chi = np.matmul(weighted, force)
    spread = np.matmul(weighted * norm, force)
    if constraint == "spherical":
        squares = np.matmul(weighted * np.swapaxes(fields**2, -1, -2), force)
        cross = np.matmul(weighted * np.swapaxes(fields, -1, -2), force * fields)
        spread = spread - squares - np.swapaxes(squares, -1, -2) + cross * np.matmul(R, np.swapaxes(R, -1, -2))
    return chi, spread


def _difference(one: Forces, other: Forces) -> float:
    worst = 0.0
    for mine, theirs in zip(one, other):
        size = np.max(np.abs(mine), axis=(1, 2))
        gap = np.max(np.abs(mine - theirs), axis=(1, 2)) / np.maximum(size, 1e-300)
        worst = max(worst, float(np.nanmax(gap)) if np.any(np.isfinite(gap)) else math.inf)
    return worst


class ErfEngine:
    """Closed forms for an erf student of a target sum_t c_t erf(<v_t, z>), squared or correlation loss.

    With s(x) = erf(x/sqrt 2) a factor s'(l_j) tilts the Gaussian, so that all moments are arcsines of tilted
    covariances (Saad and Solla 1995), and E[F_j x] = sum_u G_ju w_u with G = E[dF_j/dv_u] needs no inverse.
    """

    sampled = False
    name = "closed form"

    def __init__(self, scenario: OnlineSGD, terms: list[tuple[float, Floats]], factor: float, scale: float) -> None:
        p, k = scenario.width, scenario.directions
        a = np.array(scenario.second_layer)
        self.p, self.k = p, k
        self.student = math.sqrt(2) * scale
        """The student's field in units of the closed forms."""
        self.amplitude = factor * self.student
        self.teachers = math.sqrt(2) * np.array([v for _, v in terms]) @ scenario.whitening
        weights = np.array([c for c, _ in terms])
        self.output = -factor * a / p
        """What the residual y - f has of each student."""
        seen = self.output if scenario.known_algorithm is NAMED["squared"] else np.zeros(p)
        self.residual = np.concatenate([seen, weights])
        self.full = np.concatenate([self.output, weights])
        self.padded = np.concatenate([self.teachers, np.zeros((len(terms), p))], axis=1)

    def _vectors(self, R: Floats) -> Floats:
        """Return the rows of students and teachers in the coordinates xi, scaled, (B, p + teachers, k + p)."""
        padded = np.broadcast_to(self.padded, (len(R), *self.padded.shape))
        return np.concatenate([self.student * R, padded], axis=1)

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread in closed form."""
        V = self._vectors(R)
        found = TiltedMoments(len(R), self.p, self.residual)
        np.matmul(V, V.transpose(0, 2, 1), found.C)
        found.update()
        drift = (2 / np.pi * self.amplitude) * np.matmul(found.slopes, V)
        base = (2 / np.pi * self.amplitude) ** 2 / found.root
        mean = found.mean + np.pi / 2 * noise[:, None]
        # E[F_j F_l |xi|^2] = r chi + 2 d chi[(1 + t) Omega]/dt at t = 0, in r = k + p dimensions
        spread = base * ((self.k + self.p - 2 + found.trace) * mean + found.change)
        return Forces(drift, (base * mean)[:, found.unpack], spread[:, found.unpack])

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


@lru_cache(maxsize=8)
def engine_for(
    scenario: OnlineSGD, kind: str = "auto", nodes: int | None = None, points: int = 8192, scramble: int = 0
) -> Engine:
    """Choose: closed forms, exact polynomials, pieces between kinks, product rules, Sobol points.

    A force that is not affine in the label may jump where no rule knows of: rules that fail their own test at a typical
    state give way to Sobol points.

    Parameters
    ----------
    kind : ``"auto"``, ``"tensor"`` or ``"sobol"``.
    nodes, points, scramble : of a product rule, of the Sobol points.
    """
    activation, algorithm = scenario.activation, scenario.known_algorithm
    if kind == "auto":
        terms = _erf_terms(scenario)
        form = parse_expression(activation.expression).as_affine_of_known() if activation.expression else None
        plain = form is not None and form.function == "erf" and not (form.shift or form.constant or form.linear)
        if plain and form is not None and terms and algorithm.affine and scenario.constraint != "spherical":
            return ErfEngine(scenario, terms, form.factor, form.scale)
    engine = _rule_engine(scenario, kind, nodes, points, scramble)
    if kind != "auto" or algorithm.affine or engine.sampled:
        return engine
    p, k = scenario.width, scenario.directions
    typical = np.concatenate([np.full((1, p, k), 0.3 / math.sqrt(k)), math.sqrt(0.91) * np.eye(p)[None]], axis=-1)
    fields = {name: np.array([value]) for name, (value, _) in scenario.numeric_fields().items()}
    if engine.error(typical, scenario.inner_rates(fields), fields["noise"]) <= COARSE:
        return engine
    return _rule_engine(scenario, "sobol", nodes, points, scramble)


def _rule_engine(scenario: OnlineSGD, kind: str, nodes: int | None, points: int, scramble: int) -> Engine:
    """Return pieces between kinks for one neuron, or nodes: polynomials exactly, product rules, Sobol points."""
    activation, target, algorithm = scenario.activation, scenario.target, scenario.known_algorithm
    if kind == "auto" and scenario.width == 1 and activation.kinks:
        return KinkEngine(scenario)
    own = scenario.directions + scenario.width
    dims = own + int(scenario.noise > 0 and not algorithm.affine)
    degree = None
    if activation.polynomial is not None and target.degree is not None and dims == own:
        one = algorithm.degree(max(len(activation.polynomial) - 1, 1), target.degree)
        degree = None if one is None else 2 * one + 2
    straight = np.allclose(scenario.whitening, np.eye(scenario.directions))
    planes = target.planes if straight else [_turned(plane, scenario.whitening) for plane in target.planes]
    hidden = activation.kinks or (target.expression is not None and not target.all_planes)
    return NodeEngine(
        scenario,
        joint_rule(
            dims,
            degree=degree,
            planes=None if hidden else planes,
            kind=kind,
            nodes=nodes,
            points=points,
            seed=scramble,
        ),
    )


def _turned(plane: Plane, whitening: Floats) -> Plane:
    """Return a plane of z in the whitened coordinates zeta, z = C zeta."""
    normal = whitening.T @ np.array(plane.normal)
    length = float(np.linalg.norm(normal))
    return Plane(tuple((normal / length).tolist()), plane.offset / length)


def _erf_terms(scenario: OnlineSGD) -> list[tuple[float, Floats]]:
    """Return (c_t, v_t) where the target is sum_t c_t erf(<v_t, z>), else nothing."""
    if scenario.target.expression is None:
        return []
    found: list[tuple[float, Floats]] = []
    tree = parse_expression(scenario.target.expression).tree
    return found if _collect(tree, 1.0, scenario.directions, found) else []


def _collect(node: Node, factor: float, k: int, found: list[tuple[float, Floats]]) -> bool:
    if not isinstance(node, Call):
        return isinstance(node, Number) and node.value == 0
    inner = node.arguments
    if node.name == "neg":
        return _collect(inner[0], -factor, k, found)
    if node.name in ("+", "-"):
        sign = factor if node.name == "+" else -factor
        return _collect(inner[0], factor, k, found) and _collect(inner[1], sign, k, found)
    if node.name == "*" and isinstance(inner[0], Number):
        return _collect(inner[1], factor * inner[0].value, k, found)
    if node.name in ("*", "/") and isinstance(inner[1], Number):
        value = inner[1].value
        return _collect(inner[0], factor * value if node.name == "*" else factor / value, k, found)
    vector = _linear(Expression(inner[0]), k) if node.name == "erf" else None
    if vector is None:
        return False
    found.append((factor, vector))
    return True


def _linear(expression: Expression, k: int) -> Floats | None:
    """Return v where the expression is <v, z>, else None."""
    points = np.concatenate([np.eye(k), np.random.default_rng(0).standard_normal((8, k))])
    values = expression.evaluate(
        {name: points[:, 0 if name == "z" else int(name[1:]) - 1] for name in expression.variables}
    )
    vector: Floats = values[:k]
    return vector if np.allclose(points @ vector, values, rtol=0, atol=1e-12 * np.abs(values).max()) else None
