"""One batch of points as the solvers see it: the mixture, the label law, the loss, and
numbers per point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from giantstep.core.base.types import Floats, Indices, Points
from giantstep.core.maths.gaussian import Function
from giantstep.core.readout.losses.channel import MarginLaws, RowNodes, panel_nodes
from giantstep.core.readout.losses.functions import (
    LOSSES,
    HuberLoss,
    Loss,
    MaxMarginLoss,
)
from giantstep.core.readout.losses.labels import BinaryLabels, LogitLabels, SignLabels
from giantstep.problems.mixture_glm.mixture import GaussianMixture

if TYPE_CHECKING:
    from giantstep.problems.mixture_glm.scenario import MixtureGLM

_LAWS: dict[str, BinaryLabels] = {"sign": SignLabels(), "logit": LogitLabels()}
_SQUARE = HuberLoss(np.inf)
_LOSSES: dict[str, Loss] = {
    **LOSSES,
    "square": _SQUARE,
    "interpolate": _SQUARE,
    "maxmargin": MaxMarginLoss(),
}
NUMBERS = ("alpha", "ridge", "l1", "noise", "flip", "huber", "teacher_norm")
"""Fields of a `MixtureProblem` that are one number for each point."""


class State(NamedTuple):
    """Order parameters V, q, m, h of each cluster (B, K) and the intercept b (B,),
    mixture_glm section 1.
    """

    V: Floats
    q: Floats
    m: Floats
    h: Floats
    b: Floats

    @property
    def mean(self) -> Floats:
        """Mean H = h + b of the prediction in each cluster."""
        return self.h + self.b[:, None]


class OutputMoments(NamedTuple):
    """What the square loss sees of the labels, per point and cluster: E y, E[y (nu -
    tau)]/rho and E y^2, (B, K).
    """

    y0: Floats
    y1: Floats
    y2: Floats

    def squared_error(self, state: State) -> Floats:
        """Return E(y - omega)^2 of fresh samples, mse_c of mixture_glm section 3."""
        mean = state.mean
        return self.y2 - 2 * mean * self.y0 - 2 * state.m * self.y1 + state.q + mean**2


@dataclass(frozen=True)
class MixtureProblem:
    """A batch of B points."""

    mixture: GaussianMixture  # clusters, covariances, teacher and means
    labels: str | Function  # name of the label law, or the function of real labels
    signs: Floats  # (K,) labels of the clusters, 0 unless ``labels == "cluster"``
    loss: str  # name of the loss
    intercept: bool  # whether b is fitted
    omega: Floats  # (K,) weights of the clusters in the loss
    alpha: Floats  # (B,), as the other numbers of the points below
    ridge: Floats
    l1: Floats
    noise: Floats
    flip: Floats
    huber: Floats
    teacher_norm: Floats

    @classmethod
    def of(cls, scenario: MixtureGLM, points: Points) -> MixtureProblem:
        """Return the batch of a scenario; interpolate and maxmargin are rescaled to
        ridge 1.
        """
        ones = np.ones(len(points["samples_per_dim"]))
        return cls(
            scenario.mixture,
            scenario.label_function or scenario.labels,
            (
                scenario.signs
                if scenario.labels == "cluster"
                else np.zeros(scenario.clusters)
            ),
            scenario.loss,
            scenario.intercept,
            scenario.omega,
            points["samples_per_dim"],
            ones if scenario.loss in ("interpolate", "maxmargin") else points["ridge"],
            points["l1"],
            points["noise"],
            points["flip"],
            points["huber_threshold"],
            (
                points["teacher_norm"] if scenario.uses_teacher else 0 * ones
            ),  # a teacher nobody asks costs nothing
        )

    def take(self, index: Indices) -> MixtureProblem:
        """Return some of the points."""
        return replace(self, **{name: getattr(self, name)[index] for name in NUMBERS})

    def kinds(self) -> list[Indices]:
        """Return the points in groups of one label noise, flip and teacher norm: these
        decide what is separable.
        """
        keys = np.stack([self.noise, self.flip, self.teacher_norm], axis=1)
        kind = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        return [
            np.flatnonzero(kind == number) for number in range(kind.max(initial=-1) + 1)
        ]

    def on_one_gaussian(self, mixture: GaussianMixture) -> MixtureProblem:
        """Return the same problem on one Gaussian."""
        return replace(self, mixture=mixture, omega=np.ones(1), signs=np.zeros(1))

    def without_noise(self) -> MixtureProblem:
        """Return the problem with labels without noise and flips, for a test on
        them.
        """
        return replace(self, noise=0 * self.noise, flip=0 * self.flip)

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
    def margin_loss(self) -> Loss:
        """The loss as a function of the margin, for rows of (points, clusters),
        flattened.
        """
        if self.loss == "huber":
            return HuberLoss(np.repeat(self.huber, self.clusters))
        return _LOSSES[self.loss]

    @property
    def label_law(self) -> BinaryLabels:
        """The law of labels 1 and -1."""
        return _LAWS.get(str(self.labels), BinaryLabels())

    def margin_laws(self, state: State) -> MarginLaws:
        """Return the margins of label 1 in all clusters of all points, flattened."""
        root = np.sqrt(state.q)
        slope = state.m / root
        variance = np.maximum(self.rho - slope**2, 0.0) + (
            self.noise[:, None] if self.labels == "sign" else 0.0
        )
        return self.label_rows(state.mean, root, slope, variance)

    def label_rows(
        self, mean: Floats, scale: Floats, slope: Floats, variance: Floats
    ) -> MarginLaws:
        """Return rows for label 1 of predictions mean + scale xi with teacher fields
        tau + slope xi; arrays (B, K).

        `variance` is left of the teacher field; labels that see none have their mean in
        place of its own.
        """
        field = self.mixture.tau
        if self.labels not in _LAWS:
            field = self.signs
            slope = 0 * slope
            variance = 0 * variance
        columns = (mean, scale, field, slope, variance, self.flip[:, None])
        return MarginLaws(
            *(np.broadcast_to(column, mean.shape).ravel() for column in columns)
        )

    def teacher_nodes(self) -> tuple[RowNodes, Floats]:
        """Return a rule over nu - tau in rows (point, cluster), and the labels f(nu) at
        its nodes.
        """
        assert isinstance(self.labels, Function)
        tau = np.tile(self.mixture.tau, self.size)
        scale = np.sqrt(self.rho.ravel())
        kinks = np.array(sorted({*self.labels.kinks, *self.labels.jumps}))
        # halves the panels: the inner integrals may vary over less than 1
        fine = np.linspace(-9.0, 9.0, 25)
        edges = np.concatenate(
            [
                (kinks - tau[:, None]) / scale[:, None],
                np.broadcast_to(fine, (len(tau), fine.size)),
            ],
            axis=1,
        )
        nodes = panel_nodes(edges)
        nodes = nodes._replace(xi=scale[nodes.row] * nodes.xi)
        return nodes, np.asarray(self.labels(tau[nodes.row] + nodes.xi), dtype=float)

    def moments(self) -> OutputMoments:
        """Return the moments of the labels, mixture_glm section 3."""
        tau = self.mixture.tau
        rho = self.rho
        kept = (1 - 2 * self.flip)[:, None]
        ones = np.ones((self.size, self.clusters))
        if self.labels in ("cluster", "random"):
            return OutputMoments(kept * self.signs, 0 * ones, ones)
        if self.labels in _LAWS:
            variance = rho + self.noise[:, None] if self.labels == "sign" else rho
            chance, slope = self.label_law.positive(
                ones * tau, variance, self.flip[:, None] * ones
            )
            return OutputMoments(2 * chance - 1, 2 * slope, ones)
        assert isinstance(self.labels, Function)
        if self.labels.expression == "z":
            return OutputMoments(ones * tau, ones, tau**2 + rho + self.noise[:, None])
        nodes, y = self.teacher_nodes()
        y0, y1, y2 = (
            moment.reshape(ones.shape) for moment in nodes.sums(y, y * nodes.xi, y**2)
        )
        return OutputMoments(y0, y1 / rho, y2 + self.noise[:, None])

    def start(self) -> State:
        """Return the ordinary start of the iteration, mixture_glm section 4."""
        shape = self.size, self.clusters
        trace = np.broadcast_to(self.mixture.trace, shape)
        least = np.maximum(np.maximum(self.ridge, self.l1), 1e-2)[:, None]
        return State(
            trace / least,
            0.1 * trace,
            np.full(shape, 1e-3),
            np.zeros(shape),
            np.zeros(self.size),
        )
