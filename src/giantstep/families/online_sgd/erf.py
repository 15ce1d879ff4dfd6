"""Moments of erf networks in closed form, gradient_dynamics section 2.2.

Of p students and further teachers, rows v_u of a Gaussian vector with covariance C (their scales absorbed, so that
s(x) = erf(x/sqrt 2)), a residual sum_u e_u s(v_u) and the force F_j = s'(v_j) times it. Two factors s'(v_j) s'(v_l)
tilt the Gaussian: with X the columns j, l of C and K = (1 + C_{jl,jl})^-1 the covariance becomes S = C - X K X^T, and

    E[F_j F_l] ~ (det K)^(1/2) sum_uw e_u e_w arctan2(S_uw, sqrt((1 + S_uu)(1 + S_ww) - S_uw^2)).

Its derivative under C -> (1 + t) C, which |x|^2 in an average amounts to, needs dS/dt = S - Y Y^T with Y = X K.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from giantstep.families.online_sgd.moments import Forces
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.gaussian import parse_expression
from giantstep.gaussian.expression import Call, Expression, Node, Number
from giantstep.learnability.algorithms import NAMED
from giantstep.types import Floats

Terms = list[tuple[float, Floats]]
"""(c_t, v_t) of a target sum_t c_t erf(<v_t, z>)."""


class Tilted(NamedTuple):
    """Moments of B covariances; pairs (j, l) of students are symmetric matrices (B, p, p)."""

    slopes: Floats  # (B, p, n), G with E[F_j x] = sum_u G_ju v_u, up to the factor 2/pi of s' s
    mean: Floats  # sum_uw e_u e_w arcsin, without its factor 2/pi
    change: Floats  # twice the derivative of `mean` under C -> (1 + t) C
    trace: Floats  # tr K; 2 - tr K is twice the derivative of log root under C -> (1 + t) C
    root: Floats  # square root of det(1 + C_{jl,jl})


def tilted_moments(C: Floats, p: int, residual: Floats) -> Tilted:
    """Return the moments of covariances C (B, n, n), students first, with the residual e (n,)."""
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
    return Tilted(slopes, mean, change, (first + second) / det, np.sqrt(det))


class ErfIntegrator:
    """Closed forms for an erf student of a target sum_t c_t erf(<v_t, z>), squared or correlation loss.

    With s(x) = erf(x/sqrt 2) a factor s'(l_j) tilts the Gaussian, so that all moments are arcsines of tilted
    covariances (Saad and Solla 1995), and E[F_j x] = sum_u G_ju w_u with G = E[dF_j/dv_u] needs no inverse.
    """

    sampled = False
    name = "closed form"

    def __init__(self, scenario: OnlineSGD, terms: Terms, factor: float, scale: float) -> None:
        p, k = scenario.width, scenario.directions
        self.p, self.k = p, k
        self.student = math.sqrt(2) * scale  # the student's field in units of the closed forms
        self.amplitude = factor * self.student
        self.teachers = math.sqrt(2) * np.array([v for _, v in terms]) @ scenario.whitening
        weights = np.array([c for c, _ in terms])
        output = -factor * np.array(scenario.second_layer) / p  # what the residual y - f has of each student
        seen = output if scenario.known_algorithm is NAMED["squared"] else np.zeros(p)
        self.residual = np.concatenate([seen, weights])
        self.full = np.concatenate([output, weights])
        self.padded = np.concatenate([self.teachers, np.zeros((len(terms), p))], axis=1)

    def _vectors(self, R: Floats) -> Floats:
        """Return the rows of students and teachers in the coordinates xi, scaled, (B, p + teachers, k + p)."""
        padded = np.broadcast_to(self.padded, (len(R), *self.padded.shape))
        return np.concatenate([self.student * R, padded], axis=1)

    def forces(self, R: Floats, inner: Floats, noise: Floats) -> Forces:
        """Return drift, chi and spread in closed form."""
        V = self._vectors(R)
        moments = tilted_moments(V @ V.transpose(0, 2, 1), self.p, self.residual)
        drift = (2 / np.pi * self.amplitude) * np.matmul(moments.slopes, V)
        base = (2 / np.pi * self.amplitude) ** 2 / moments.root
        mean = moments.mean + np.pi / 2 * noise[:, None, None]
        # E[F_j F_l |xi|^2] = r chi + 2 d chi[(1 + t) Omega]/dt at t = 0, in r = k + p dimensions
        spread = base * ((self.k + self.p - 2 + moments.trace) * mean + moments.change)
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
    activation = scenario.activation.expression
    form = parse_expression(activation).as_affine_of_known() if activation else None
    if form is None or form.function != "erf" or form.shift or form.constant or form.linear:
        return None
    if not scenario.known_algorithm.affine or scenario.constraint == "spherical" or scenario.target.expression is None:
        return None
    terms = _erf_terms(parse_expression(scenario.target.expression).tree, 1.0, scenario.directions)
    return ErfIntegrator(scenario, terms, form.factor, form.scale) if terms else None


def _erf_terms(node: Node, factor: float, k: int) -> Terms | None:
    """Return the terms of factor times the expression, None where it is no sum of erf(<v_t, z>)."""
    if not isinstance(node, Call):
        return [] if isinstance(node, Number) and node.value == 0 else None
    inner = node.arguments
    if node.name == "neg":
        return _erf_terms(inner[0], -factor, k)
    if node.name in ("+", "-"):
        left, right = _erf_terms(inner[0], factor, k), _erf_terms(inner[1], factor if node.name == "+" else -factor, k)
        return None if left is None or right is None else left + right
    if node.name == "*" and isinstance(inner[0], Number):
        return _erf_terms(inner[1], factor * inner[0].value, k)
    if node.name in ("*", "/") and isinstance(inner[1], Number):
        value = inner[1].value
        return _erf_terms(inner[0], factor * value if node.name == "*" else factor / value, k)
    vector = _linear_coefficients(Expression(inner[0]), k) if node.name == "erf" else None
    return None if vector is None else [(factor, vector)]


def _linear_coefficients(expression: Expression, k: int) -> Floats | None:
    """Return v where the expression is <v, z>, else None."""
    points = np.concatenate([np.eye(k), np.random.default_rng(0).standard_normal((8, k))])
    values = expression.evaluate(
        {name: points[:, 0 if name == "z" else int(name[1:]) - 1] for name in expression.variables}
    )
    vector: Floats = values[:k]
    return vector if np.allclose(points @ vector, values, rtol=0, atol=1e-12 * np.abs(values).max()) else None
