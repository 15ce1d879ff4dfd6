"""Up to how many samples two classes are separable, and how wide the margin is: one convex minimisation.

For inputs of covariance I (clusters whitened), x_par the coordinates of x along teacher and means, Z ~ N(0,1):

    1/alpha(kappa) = min_t E[(kappa sqrt(1 + |t|^2) + Z - y t.x_par)_+^2]

At kappa = 0 this is alpha_c, and holds for clusters whose covariances are proportional to one another, since scaling a
sample does not change its side: cluster c then enters with its own scale.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from giantstep.families.mixture_glm.models import BlockModel, Mixture, described
from giantstep.families.mixture_glm.parts import Blocks, Dense, Isotropic, Spiked
from giantstep.families.mixture_glm.problem import Problem, State
from giantstep.gaussian import normal_density
from giantstep.risk import BinaryLabels, GivenLabels, LogitLabels, SignLabels, panel_nodes
from giantstep.types import Floats, Indices

if TYPE_CHECKING:
    from giantstep.families.mixture_glm.scenario import MixtureGLM


_KAPPAS = np.concatenate([[0.0], np.geomspace(1e-3, 12.0, 32)])


@dataclass(frozen=True)
class Geometry:
    """Whitened clusters: where their samples lie along the teacher and along the means, and which label they have.

    Attributes
    ----------
    p : (K,) probabilities.
    along, across : (K,), (K, r) mean of each cluster along the teacher and in the other directions.
    tau, explained, rest : (K,) teacher field tau + sqrt(explained) xi, xi the coordinate along the teacher, and the
        variance of what is left (label noise inside a sign included).
    shift : (K,) factor of the intercept.
    labels, signs, flip : the law of the labels.
    intercept : whether the threshold may be shifted.
    """

    p: Floats
    along: Floats
    across: Floats
    tau: Floats
    explained: Floats
    rest: Floats
    shift: Floats
    labels: str
    signs: Floats
    flip: float
    intercept: bool

    @property
    def certain(self) -> bool:
        """Whether the label is a sign of the teacher field without noise, separable at any number of samples."""
        return self.labels == "sign" and self.flip == 0 and bool(np.all(self.rest <= 1e-12 * self.explained))

    def rule(self) -> tuple[Floats, Floats, Floats, Indices]:
        """Return places xi along the teacher, label y, weights and cluster of a rule over (c, xi, y)."""
        K = len(self.p)
        slope = np.sqrt(self.explained)
        laws: dict[str, BinaryLabels] = {"sign": SignLabels(), "logit": LogitLabels()}
        law = laws.get(self.labels, GivenLabels())
        with np.errstate(divide="ignore", invalid="ignore"):
            width = law.width(self.rest) / slope
            centre = -self.tau / slope
            steps = centre[:, None] + np.array([-6.0, -2.0, 0.0, 2.0, 6.0]) * width[:, None]
        nodes = panel_nodes(np.where(np.isfinite(steps), steps, np.inf))
        c = nodes.row
        parts = []
        for y in (1.0, -1.0):
            if self.labels in laws:
                mean = y * (self.tau[c] + slope[c] * nodes.xi)
            else:
                chance = 0.5 + 0.5 * y * self.signs if self.labels == "cluster" else np.full(K, 0.5)
                mean = chance[c]
            chances = law.positive(mean, self.rest[c], np.full(len(c), self.flip))[0]
            parts.append((nodes.xi, np.full(len(c), y), self.p[c] * nodes.weights * chances, c))
        xi, label, weights, cluster = (np.concatenate(part) for part in zip(*parts))
        kept = weights > 0
        return xi[kept], label[kept], weights[kept], cluster[kept]

    def directions(self, rule: tuple[Floats, Floats, Floats, Indices]) -> Floats:
        """Return y (xi + along, across, shift) at the nodes: the derivative of y t.x_par (and of the intercept)."""
        xi, y, _, c = rule
        columns = [(xi + self.along[c])[:, None], self.across[c]]
        if self.intercept:
            columns.append(self.shift[c][:, None])
        return y[:, None] * np.concatenate(columns, axis=1)


@dataclass(frozen=True)
class Margin:
    """The minimum at one kappa: 1/alpha, the minimiser t (teacher, means, intercept), and the pulled fraction."""

    value: float
    t: Floats
    pulled: float


def minimal_energy(
    geometry: Geometry,
    kappa: float,
    rule: tuple[Floats, Floats, Floats, Indices],
    start: Floats | None = None,
) -> Margin:
    """Minimise E[(kappa sqrt(1 + |t|^2) + Z - y t.x_par)_+^2] over t, which is convex."""
    weights, D = rule[2], geometry.directions(rule)
    across = slice(1, 1 + geometry.across.shape[1])
    inner = 1 + geometry.across.shape[1]  # the intercept has no length

    def energy(t: Floats) -> tuple[float, Floats]:
        length = math.sqrt(1 + t[:inner] @ t[:inner])
        variance = 1 + t[across] @ t[across]
        scale = math.sqrt(variance)
        a = (kappa * length - D @ t) / scale
        P, f = ndtr(a), normal_density(a)
        value = weights @ (variance * ((1 + a**2) * P + a * f))
        push = weights * (2 * scale * (a * P + f))
        gradient = -(push @ D)
        gradient[:inner] += push.sum() * kappa * t[:inner] / length
        gradient[across] += 2 * (weights @ P) * t[across]
        return float(value), gradient

    begin = np.zeros(D.shape[1]) if start is None else start
    found = minimize(energy, begin, jac=True, method="BFGS", options={"gtol": 1e-11, "maxiter": 400})
    t = np.asarray(found.x)
    length, scale = math.sqrt(1 + t[:inner] @ t[:inner]), math.sqrt(1 + t[across] @ t[across])
    pulled = float(weights @ ndtr((kappa * length - D @ t) / scale))
    return Margin(float(found.fun), t, pulled)


def whitened(problem: Problem) -> Geometry | None:
    """Return the geometry of the first point of a batch, or None where the covariances are not proportional."""
    mixture, K = problem.mixture, problem.clusters
    scales = proportional_scales(mixture)
    if scales is None or not problem.binary:
        return None
    norm = problem.teacher_norm[:1]
    with np.errstate(all="ignore"):
        R = mixture.data.response(np.zeros(1), np.eye(K)[:1], norm).R[0]
    if not np.isfinite(R).all():
        return None
    root = np.sqrt(np.tile(scales[0] / scales, 2))
    R = R * root[:, None] * root
    explained = np.maximum(np.diagonal(R)[:K], 0.0)
    rho = mixture.rho(norm)[0]
    along = R[0, K:] / math.sqrt(explained[0]) if explained[0] > 0 else np.zeros(K)
    rest = np.maximum(rho - explained, 0.0)
    return _geometry(problem, along, R[K:, K:], explained, rest, np.sqrt(scales[0] / scales))


def proxy(problem: Problem) -> Geometry:
    """Return the geometry with every covariance replaced by a multiple of the identity, for the first point."""
    mixture, K = problem.mixture, problem.clusters
    mean_trace = float(mixture.p @ mixture.trace)
    one = np.ones(1)
    far = mixture.data.response(1e8 * one, np.zeros((1, K)), problem.teacher_norm[:1]).R[0, K:, K:] * 1e8
    rho = np.full(K, float(mixture.p @ mixture.rho(problem.teacher_norm[:1])[0]))
    along = mixture.tau / np.sqrt(rho) if rho[0] > 0 else np.zeros(K)
    return _geometry(problem, along, far / mean_trace, rho, np.zeros(K), np.full(K, 1 / math.sqrt(mean_trace)))


def _geometry(
    problem: Problem, along: Floats, gram: Floats, explained: Floats, rest: Floats, shift: Floats
) -> Geometry:
    values, vectors = np.linalg.eigh(gram - np.outer(along, along))
    kept = values > 1e-12 * max(1.0, float(np.abs(gram).max(initial=0.0)))
    if problem.labels == "sign":
        rest = rest + float(problem.noise[0])
    assert isinstance(problem.labels, str)
    return Geometry(
        problem.mixture.p,
        along,
        vectors[:, kept] * np.sqrt(values[kept]),
        problem.mixture.tau,
        explained,
        rest,
        shift,
        problem.labels,
        problem.signs,
        float(problem.flip[0]),
        problem.intercept,
    )


def proportional_scales(mixture: Mixture) -> Floats | None:
    """Return tr Sigma_c/d where all covariances are multiples of one that is not singular, else None."""
    data, trace = mixture.data, mixture.trace
    if np.any(trace <= 0):
        return None
    if isinstance(data, BlockModel):
        shapes = data.variances / trace[:, None]
        good = bool(np.all(shapes > 0))
    else:
        shapes = (data.matrices / trace[:, None, None]).reshape(len(trace), -1)
        good = bool(np.linalg.eigvalsh(data.matrices[0])[0] > 1e-12 * trace[0])
    same = np.abs(shapes - shapes[0]).max() <= 1e-10 * np.abs(shapes).max()
    return trace if good and same else None


def critical(geometry: Geometry) -> float:
    """Return alpha_c."""
    if geometry.certain:
        return math.inf
    energy = minimal_energy(geometry, 0.0, geometry.rule()).value
    return 1 / energy if energy > 1e-9 else math.inf


def closed_threshold(scenario: MixtureGLM, noise: float, flip: float, teacher_norm: float) -> float | None:
    """Return alpha_c of one point where the covariances are proportional to one another, else None."""
    return _closed_threshold(
        scenario.covariances,
        scenario.weights,
        tuple(map(tuple, scenario.gram)),
        tuple(scenario.tau),
        str(scenario.labels),
        tuple(scenario.signs),
        scenario.intercept,
        (noise, flip, teacher_norm),
    )


@functools.lru_cache(maxsize=4096)
def _closed_threshold(
    covariances: Isotropic | Blocks | Dense | Spiked,
    weights: tuple[float, ...],
    gram: tuple[tuple[float, ...], ...],
    tau: tuple[float, ...],
    labels: str,
    signs: tuple[float, ...],
    intercept: bool,
    numbers: tuple[float, float, float],
) -> float | None:
    noise, flip, norm = (np.array([value]) for value in numbers)
    mixture = described(covariances, weights, gram, tau)
    one = np.ones(1)
    problem = Problem(
        mixture,
        labels,
        np.array(signs),
        "maxmargin",
        intercept,
        np.ones(len(weights)),
        one,
        one,
        one,
        noise,
        flip,
        one,
        norm,
    )
    geometry = whitened(problem)
    return None if geometry is None else critical(geometry)


class MarginStart:
    """Starts of the max-margin iteration from the minimisation for an isotropic stand-in of the mixture."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.geometry = proxy(problem)
        rule = self.geometry.rule()
        margins: list[Margin] = []
        for kappa in _KAPPAS[::-1]:  # from wide margins, where t is small
            margins.append(minimal_energy(self.geometry, kappa, rule, margins[-1].t if margins else None))
        self.inverse_alpha = np.array([margin.value for margin in margins])[::-1]
        self.t = np.stack([margin.t for margin in margins])[::-1]
        self.pulled = np.array([margin.pulled for margin in margins])[::-1]

    def state(self, alpha: Floats) -> State:
        """Return the start at the sample sizes of a batch."""
        mixture, K = self.problem.mixture, self.problem.clusters
        wanted = 1 / alpha
        kappa = np.maximum(np.interp(wanted, self.inverse_alpha, _KAPPAS), 1e-3)[:, None]
        t = np.stack([np.interp(wanted, self.inverse_alpha, column) for column in self.t.T], axis=1)
        pulled = np.interp(wanted, self.inverse_alpha, self.pulled)
        inner = 1 + self.geometry.across.shape[1]
        length = np.sqrt(1 + (t[:, :inner] ** 2).sum(axis=1))[:, None]
        mean_trace = float(mixture.p @ mixture.trace)
        q = mixture.trace / (mean_trace * kappa**2)
        root = np.sqrt(q)
        rho = mixture.rho(self.problem.teacher_norm[:1])
        m = root * np.sqrt(rho) * t[:, :1] / length
        places = np.concatenate([self.geometry.along[:, None], self.geometry.across], axis=1)  # (K, r)
        h = root * np.sqrt(mean_trace / mixture.trace) * (t[:, :inner] @ places.T) / length
        V = mixture.trace * np.maximum(1 - alpha * pulled, 1e-3)[:, None]
        b = np.zeros(len(alpha))
        if self.problem.intercept:
            b = t[:, -1] / (length * kappa)[:, 0] / math.sqrt(mean_trace)
        return State(np.broadcast_to(V, (len(alpha), K)), np.broadcast_to(q, (len(alpha), K)), m, h, b)
