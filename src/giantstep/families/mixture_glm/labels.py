"""The labels of an experiment: how they are drawn, how likely they are given a Gaussian teacher field, their losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.gaussian import Function
from giantstep.lab import Draws, to_numpy
from giantstep.risk import huber
from giantstep.types import DeviceArray, Floats, Indices

_HERMITE, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(101)


@dataclass(frozen=True)
class ClusterLabels:
    """How labels are made of the teacher field in one cluster.

    Attributes
    ----------
    kind : sign, logit, cluster, random, or ``real`` for y = function(nu) + sqrt(noise) N(0, 1).
    function : f0 of real labels.
    noise, flip : variance of the noise; probability that a class is flipped.
    sign : label of the cluster for ``cluster``.
    """

    kind: str
    function: Function | None = None
    noise: float = 0.0
    flip: float = 0.0
    sign: float = 1.0

    @property
    def binary(self) -> bool:
        """Whether labels are 1 and -1."""
        return self.kind != "real"

    def probability(self, mean: Floats, variance: float) -> Floats:
        """Return P(y = 1) where the teacher field is N(mean, variance)."""
        if self.kind == "sign":
            spread = np.sqrt(variance + self.noise)
            up = ndtr(mean / spread) if spread > 0 else 0.5 * (1 + np.sign(mean))
        elif self.kind == "logit":
            fields = mean[..., None] + np.sqrt(variance) * _HERMITE
            up = expit(fields) @ _HERMITE_WEIGHTS / _HERMITE_WEIGHTS.sum()
        else:
            up = np.full(mean.shape, 0.5 * (1 + self.sign) if self.kind == "cluster" else 0.5)
        return (1 - 2 * self.flip) * up + self.flip


def labels_of(scenario: MixtureGLM, *, clean: bool = False) -> list[ClusterLabels]:
    """Return how the labels of each cluster are made; clean ones without noise and flips."""
    noise, flip = (0.0, 0.0) if clean else (scenario.noise, scenario.flip)
    if scenario.labels == "cluster":
        return [ClusterLabels("cluster", flip=flip, sign=float(sign)) for sign in scenario.signs]
    kind = str(scenario.labels) if scenario.binary else "real"
    return [ClusterLabels(kind, scenario.label_function, noise, flip)] * scenario.clusters


def draw_labels(
    labels: list[ClusterLabels], fields: DeviceArray, clusters: Indices, draws: Draws, stream: str = ""
) -> DeviceArray:
    """Draw the label of each sample given its teacher field and cluster."""
    xp, law, count = draws.xp, labels[0], len(clusters)
    if law.kind == "cluster":
        values = xp.asarray(np.array([of_cluster.sign for of_cluster in labels])[clusters])
    elif law.kind in ("logit", "random"):
        chance = 0.5 * (1 + xp.tanh(fields / 2)) if law.kind == "logit" else 0.5
        values = xp.where(xp.asarray(draw_vector(draws, f"{stream}coin", count, draws.uniform)) < chance, 1.0, -1.0)
    else:
        values = fields if law.function is None else xp.asarray(law.function(fields))
        if law.noise:
            values = values + law.noise**0.5 * xp.asarray(draw_vector(draws, f"{stream}noise", count, draws.normal))
        if law.kind == "sign":
            values = xp.where(values >= 0, 1.0, -1.0)
    if law.flip:
        turned = xp.asarray(draw_vector(draws, f"{stream}flips", count, draws.uniform)) < law.flip
        values = xp.where(turned, -values, values)
    return values


def draw_vector(draws: Draws, stream: str, count: int, draw: Callable[[str, int], DeviceArray]) -> Floats:
    """Draw numbers a chunk at a time, so that the first ones do not depend on how many are wanted."""
    pieces = [to_numpy(draw(stream, draws.chunk)) for _ in range(-(-count // draws.chunk))]
    return np.concatenate(pieces)[:count]


def loss_of(loss: str, threshold: float) -> Callable[[Any, Any], Any]:
    """Return l(y, z); the limits `interpolate` and `maxmargin` have the losses they are limits of."""
    if loss in ("square", "interpolate"):
        return lambda y, z: 0.5 * (y - z) ** 2
    if loss == "logistic":
        return lambda y, z: np.logaddexp(0.0, -y * z)
    if loss in ("hinge", "maxmargin"):
        return lambda y, z: np.maximum(1 - y * z, 0.0)
    return lambda y, z: huber(y - z, threshold)
