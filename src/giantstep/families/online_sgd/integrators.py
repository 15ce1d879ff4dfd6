"""Which integrator takes the Gaussian moments of a scenario, and the closed forms of erf networks.

Of p students and further teachers, rows v_u of a Gaussian vector with covariance C (their scales absorbed, so that
s(x) = erf(x/sqrt 2)), a residual sum_u e_u s(v_u) and the force F_j = s'(v_j) times it. Two factors s'(v_j) s'(v_l)
tilt the Gaussian: with X the columns j, l of C and K = (1 + C_{jl,jl})^-1 the covariance becomes S = C - X K X^T, and

    E[F_j F_l] ~ (det K)^(1/2) sum_uw e_u e_w arctan2(S_uw, sqrt((1 + S_uu)(1 + S_ww) - S_uw^2)).

Its derivative under C -> (1 + t) C, which |x|^2 in an average amounts to, needs dS/dt = S - Y Y^T with Y = X K.
"""

from __future__ import annotations

import math
import re

import numpy as np

from giantstep.families.online_sgd.moments import Forces, KinkIntegrator, NodeIntegrator, Summation
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.tolerances import COARSE
from giantstep.gaussian import joint_rule, parse_expression
from giantstep.gaussian.expression import affine, affine_of_calls
from giantstep.gaussian.target import turned_planes
from giantstep.learnability.algorithms import NAMED
from giantstep.types import Floats

Terms = list[tuple[float, Floats]]
"""(c_t, v_t) of a target sum_t c_t erf(<v_t, z>)."""


def tilted_moments(C: Floats, p: int, residual: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return moments of covariances C (B, n, n), p students first, with the residual e (n,).

    They are G (B, p, n) with E[F_j x] = sum_u G_ju v_u, up to the factor 2/pi of s' s, and, for all pairs (j, l) of
    students (B, p, p), sum_uw e_u e_w arcsin without its 2/pi, twice its derivative under C -> (1 + t) C, tr K, where
    2 - tr K is twice that of log root, and root, the square root of det(1 + C_{jl,jl}).
    """
    n = C.shape[1]
    students = C[:, :p]
    ones = 1 + C.diagonal(axis1=1, axis2=2)
    first, second, across = ones[:, :p, None], ones[:, None, :p], students[..., :p]
    det = first * second - across * across
    left, right = students[:, :, None], students[:, None]  # the columns j and l of C, for all pairs (j, l)
    X = np.empty((*det.shape, n, 2))
    X[..., 0], X[..., 1] = left, right
    K = np.empty((*det.shape, 2, 2))
    K[..., 0, 0], K[..., 1, 1] = second, first
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
    slopes.reshape(len(C), -1)[:, :: n + 1] -= (slopes * students).sum(axis=-1) / ones[:, :p]
    return slopes, mean, change, (first + second) / det, np.sqrt(det)


class ErfIntegrator:
    """Closed forms for an erf student of a target sum_t c_t erf(<v_t, z>), squared or correlation loss."""

    sampled = False
    name = "closed form"

    def __init__(self, scenario: OnlineSGD, terms: Terms, factor: float, scale: float) -> None:
        p, k = scenario.width, scenario.directions
        self.p, self.k = p, k
        self.is_single = p == k == len(terms) == 1
        self.student = math.sqrt(2) * scale  # the student's field in units of the closed forms
        self.amplitude = factor * self.student
        self.teachers = math.sqrt(2) * np.array([v for _, v in terms]) @ scenario.whitening
        weights = np.array([c for c, _ in terms])
        output = -factor * np.array(scenario.second_layer) / p  # what the residual y - f has of each student
        seen = output if scenario.known_algorithm is NAMED["squared"] else np.zeros(p)
        self.residual = np.concatenate([seen, weights])
        self.full = np.concatenate([output, weights])

    def _vectors(self, R: Floats) -> Floats:
        """Return the rows of students and teachers in the coordinates xi, scaled, (B, p + teachers, k + p)."""
        V = np.zeros((len(R), len(self.residual), R.shape[-1]))
        V[:, : self.p], V[:, self.p :, : self.k] = self.student * R, self.teachers
        return V

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread in closed form."""
        V = self._vectors(R)
        slopes, mean, change, trace, root = tilted_moments(V @ V.transpose(0, 2, 1), self.p, self.residual)
        drift = (2 / np.pi * self.amplitude) * np.matmul(slopes, V)
        base = (2 / np.pi * self.amplitude) ** 2 / root
        mean = mean + np.pi / 2 * noise[:, None, None]
        # E[F_j F_l |xi|^2] = r chi + 2 d chi[(1 + t) Omega]/dt at t = 0, in r = k + p dimensions
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
    """Return the closed forms where student, target, algorithm and constraint have them."""
    activation, target = scenario.activation.expression, scenario.target.expression
    own = parse_expression(activation).as_affine_of_known() if activation else None
    if own is None or own.function != "erf" or own.shift or own.constant or own.linear:
        return None
    if not scenario.known_algorithm.affine or scenario.constraint == "spherical" or target is None:
        return None
    names = ("z",) if re.search(r"\bz\b", target) else tuple(f"z{r}" for r in range(1, scenario.directions + 1))
    outer = affine_of_calls(parse_expression(target).tree, names)
    if outer is None or outer[0].any() or outer[1] or not outer[2]:
        return None
    inner = [affine(call.arguments[0], names) if call.name == "erf" else None for _, call in outer[2]]
    terms = [(factor, form[0]) for (factor, _), form in zip(outer[2], inner) if form is not None and not form[1]]
    return ErfIntegrator(scenario, terms, own.factor, own.scale) if len(terms) == len(inner) else None


Integrator = ErfIntegrator | Summation
"""What takes the moments: `forces`, `mse`, `error`, `name` and `sampled`."""
SCRAMBLES = 4
"""Independent sets of Sobol points, whose spread is the standard error of a limit computed by sampling."""


def integrator_for(
    scenario: OnlineSGD, kind: str = "auto", nodes: int | None = None, points: int = 8192, scramble: int = 0
) -> Integrator:
    """Choose closed forms, exact polynomials, pieces between kinks, product rules ("tensor") or points ("sobol")."""
    closed = erf_integrator(scenario) if kind == "auto" else None
    if closed is not None:
        return closed
    integrator = _rule_integrator(scenario, kind, nodes, points, scramble)
    if kind != "auto" or scenario.known_algorithm.affine or integrator.sampled:
        return integrator
    p, k = scenario.width, scenario.directions
    typical = np.concatenate([np.full((1, p, k), 0.3 / math.sqrt(k)), math.sqrt(0.91) * np.eye(p)[None]], axis=-1)
    fields = scenario.point()
    if integrator.distance(typical, scenario.inner_rates(fields), fields["noise"]) <= COARSE:
        return integrator
    return _rule_integrator(scenario, "sobol", nodes, points, scramble)


def _rule_integrator(
    scenario: OnlineSGD, kind: str, nodes: int | None, points: int, scramble: int
) -> KinkIntegrator | NodeIntegrator:
    """Return pieces between kinks for one neuron, or nodes: polynomials exactly, product rules, Sobol points."""
    activation, target, algorithm = scenario.activation, scenario.target, scenario.known_algorithm
    if kind == "auto" and scenario.width == 1 and activation.kinks:
        return KinkIntegrator(scenario)
    own = scenario.directions + scenario.width
    dims = own + int(scenario.noise > 0 and not algorithm.affine)
    degree = None
    if activation.polynomial is not None and target.degree is not None and dims == own:
        of_force = algorithm.degree(max(len(activation.polynomial) - 1, 1), target.degree)
        degree = None if of_force is None else 2 * of_force + 2
    hidden = activation.kinks or (target.expression is not None and not target.all_planes)
    planes = None if hidden else turned_planes(target.planes, scenario.whitening)
    rule = joint_rule(dims, degree=degree, planes=planes, kind=kind, nodes=nodes, points=points, seed=scramble)
    return NodeIntegrator(scenario, rule)
