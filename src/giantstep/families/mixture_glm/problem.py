"""One batch of points as the solvers see it: the mixture, the label law, the loss, and numbers per point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from giantstep.families.mixture_glm.models import Mixture, describe
from giantstep.gaussian import Function, as_function
from giantstep.risk import (
    BinaryLabels,
    GivenLabels,
    Hinge,
    Huber,
    Logistic,
    LogitLabels,
    Loss,
    MaxMargin,
    Rows,
    SignLabels,
    Square,
    panel_nodes,
    summed,
)
from giantstep.types import Floats, Indices

if TYPE_CHECKING:
    from giantstep.families.mixture_glm.scenario import MixtureGLM


_REAL = {"linear": "z", "phase": "abs(z)", "square": "z**2"}


@dataclass(frozen=True)
class Moments:
    """What the square loss sees of the labels, per point and cluster: E y, E[y (nu - tau)]/rho and E y^2, (B, K)."""

    y0: Floats
    y1: Floats
    y2: Floats


@dataclass(frozen=True)
class State:
    """Order parameters V, q, m, h of each cluster (B, K) and the intercept b (B,)."""

    V: Floats
    q: Floats
    m: Floats
    h: Floats
    b: Floats

    def take(self, places: Indices) -> State:
        """Return the state of some points."""
        return State(*(part[places] for part in (self.V, self.q, self.m, self.h, self.b)))


@dataclass(frozen=True)
class Problem:
    """A batch of B points.

    Attributes
    ----------
    mixture : clusters, covariances, teacher and means.
    labels : name of the label law, or the function of real labels.
    signs : (K,) labels of the clusters where ``labels == "cluster"``.
    loss : name of the loss.
    intercept : whether b is fitted.
    omega : (K,) weights of the clusters in the loss.
    alpha, ridge, l1, noise, flip, huber, teacher_norm : (B,) numbers of the points.
    """

    mixture: Mixture
    labels: str | Function
    signs: Floats
    loss: str
    intercept: bool
    omega: Floats
    alpha: Floats
    ridge: Floats
    l1: Floats
    noise: Floats
    flip: Floats
    huber: Floats
    teacher_norm: Floats

    @classmethod
    def of(cls, scenario: MixtureGLM, points: Mapping[str, Floats]) -> Problem:
        """Return the batch of a scenario; interpolate and maxmargin are rescaled to ridge 1."""
        B = len(points["samples_per_dim"])
        rescaled = scenario.loss in ("interpolate", "maxmargin")
        labels = scenario.labels
        if isinstance(labels, str) and labels in _REAL:
            labels = as_function(_REAL[labels])
        return cls(
            describe(scenario),
            labels,
            scenario.signs,
            scenario.loss,
            scenario.intercept,
            scenario.omega,
            points["samples_per_dim"],
            np.ones(B) if rescaled else points["ridge"],
            points["l1"],
            points["noise"],
            points["flip"],
            points["huber_threshold"],
            points["teacher_norm"] if scenario.uses_teacher else np.zeros(B),  # a teacher nobody asks costs nothing
        )

    def take(self, places: Indices) -> Problem:
        """Return some of the points."""
        names = ("alpha", "ridge", "l1", "noise", "flip", "huber", "teacher_norm")
        return replace(self, **{name: getattr(self, name)[places] for name in names})

    def of_one_gaussian(self, mixture: Mixture) -> Problem:
        """Return the same problem on one Gaussian."""
        return replace(self, mixture=mixture, omega=np.ones(1), signs=np.ones(0))

    @property
    def size(self) -> int:
        """Number of points B."""
        return len(self.alpha)

    @property
    def clusters(self) -> int:
        """Number of clusters K."""
        return len(self.mixture.p)

    @property
    def binary(self) -> bool:
        """Whether labels are 1 and -1."""
        return isinstance(self.labels, str)

    @property
    def rho(self) -> Floats:
        """Variances of the teacher field, (B, K)."""
        return self.mixture.rho(self.teacher_norm)

    @property
    def samples(self) -> Floats:
        """Samples of each cluster per dimension, alpha p_c, (B, K)."""
        return self.alpha[:, None] * self.mixture.p

    @property
    def has_means(self) -> bool:
        """Whether a cluster may have a mean, so that h does not vanish by itself."""
        data = self.mixture.data
        ridge = np.ones(1)
        response = data.response(ridge, np.ones((1, self.clusters)), ridge)
        K = self.clusters
        return bool(np.any(response.R[:, K:, K:]))

    def strength(self, V: Floats) -> Floats:
        """Return the strength omega_c V_c of the proximal map of each cluster."""
        return self.omega * V

    def loss_of_rows(self, copies: int) -> Loss:
        """Return the loss for rows of (points, clusters, copies), flattened."""
        simple: dict[str, type[Loss]] = {
            "square": Square,
            "interpolate": Square,
            "logistic": Logistic,
            "hinge": Hinge,
            "maxmargin": MaxMargin,
        }
        if self.loss == "huber":
            return Huber(np.repeat(self.huber, self.clusters * copies))
        return simple[self.loss]()

    def label_law(self) -> BinaryLabels:
        """Return the law of labels 1 and -1."""
        laws: dict[str, BinaryLabels] = {"sign": SignLabels(), "logit": LogitLabels()}
        assert isinstance(self.labels, str)
        return laws.get(self.labels, GivenLabels())

    def rows(self, state: State) -> Rows:
        """Return the margins of all points, clusters and labels (1, then -1), flattened."""
        y = np.array([1.0, -1.0])
        shape = (self.size, self.clusters, 2)
        root = np.sqrt(state.q)
        mean = (state.h + state.b[:, None])[..., None] * y
        if self.labels in ("sign", "logit"):
            tau = np.broadcast_to(self.mixture.tau[:, None] * y, shape)
            slope = state.m / root
            variance = np.maximum(self.rho - slope**2, 0.0)
            if self.labels == "sign":
                variance = variance + self.noise[:, None]
        else:
            chance = (
                0.5 + 0.5 * self.signs[:, None] * y if self.labels == "cluster" else np.full((self.clusters, 2), 0.5)
            )
            tau = np.broadcast_to(chance, shape)
            slope, variance = np.zeros_like(root), np.zeros_like(root)
        return Rows(
            mean.ravel(),
            np.repeat(root, 2),
            tau.ravel(),
            np.repeat(slope, 2),
            np.repeat(variance, 2),
            np.repeat(self.flip, 2 * self.clusters),
        )

    def teacher_nodes(self) -> tuple[Floats, Floats, Floats, Indices]:
        """Return teacher fields nu, labels f(nu), weights and rows of a rule over N(tau_c, rho_c), real labels only."""
        assert isinstance(self.labels, Function)
        rho = self.rho.ravel()
        tau = np.tile(self.mixture.tau, self.size)
        kinks = np.array(sorted({*self.labels.kinks, *self.labels.jumps}))
        scale = np.sqrt(rho)
        fine = np.linspace(-9.0, 9.0, 25)  # halves the panels: the inner integrals may vary over less than 1
        edges = np.concatenate(
            [(kinks - tau[:, None]) / scale[:, None], np.broadcast_to(fine, (len(rho), fine.size))], axis=1
        )
        nodes = panel_nodes(edges)
        nu = tau[nodes.row] + scale[nodes.row] * nodes.xi
        return nu, np.asarray(self.labels(nu), dtype=float), nodes.weights, nodes.row

    def moments(self) -> Moments:
        """Return the moments of the labels."""
        B, K, tau, rho = self.size, self.clusters, self.mixture.tau, self.rho
        kept = (1 - 2 * self.flip)[:, None]
        one = np.ones((B, K))
        if self.labels == "cluster":
            return Moments(kept * self.signs, 0 * one, one)
        if self.labels == "random":
            return Moments(0 * one, 0 * one, one)
        if self.labels in ("sign", "logit"):
            variance = rho + self.noise[:, None] if self.labels == "sign" else rho
            chance, slope = self.label_law().positive(one * tau, variance, self.flip[:, None] * one)
            return Moments(2 * chance - 1, 2 * slope, one)
        assert isinstance(self.labels, Function)
        if self.labels.expression == "z":
            return Moments(one * tau, one, tau**2 + rho + self.noise[:, None])
        nu, y, weights, row = self.teacher_nodes()
        centred = nu - np.tile(tau, B)[row]
        sums = [summed(row, weights * f, B * K).reshape(B, K) for f in (y, y * centred, y**2)]
        return Moments(sums[0], sums[1] / rho, sums[2] + self.noise[:, None])

    def start(self) -> State:
        """Return the ordinary start of the iteration."""
        B, K = self.size, self.clusters
        trace = np.broadcast_to(self.mixture.trace, (B, K))
        least = np.maximum(np.maximum(self.ridge, self.l1), 1e-2)[:, None]
        return State(trace / least, 0.1 * trace, np.full((B, K), 1e-3), np.zeros((B, K)), np.zeros(B))


def is_linear(labels: str | Function) -> bool:
    """Tell whether the labels are the teacher field itself (plus noise)."""
    return isinstance(labels, Function) and labels.expression == "z"


def clean(problem: Problem) -> Problem:
    """Return the problem with labels without noise and flips, for a test on them."""
    zero = np.zeros(problem.size)
    return replace(problem, noise=zero, flip=zero)
