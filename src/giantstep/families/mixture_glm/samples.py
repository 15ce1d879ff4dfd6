"""The samples of one trial, drawn from a population or taken from a dataset: what is fitted and what is tested."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from giantstep.families.mixture_glm.fresh import Fresh
from giantstep.families.mixture_glm.labels import ClusterLabels, draw_labels, labels_of, loss_of
from giantstep.families.mixture_glm.population import Population
from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.lab import Draws, array_module, to_numpy
from giantstep.risk.fitting import ConvexFit, fit
from giantstep.types import DeviceArray, Floats, Indices


@dataclass
class TrialSamples:
    """Samples in a fixed order, of which the first n are fitted.

    Attributes
    ----------
    rows : (N, d) inputs over sqrt(d), on the device.
    labels, clusters : (N,) labels and clusters of the rows.
    """

    scenario: MixtureGLM
    rows: DeviceArray
    labels: DeviceArray
    clusters: Indices

    def fit(self, n: int, ridge: float) -> ConvexFit:
        """Fit the first n samples."""
        s = self.scenario
        return fit(
            self.rows[:n], self.labels[:n], s.loss, ridge=ridge, l1=s.l1, intercept=s.intercept,
            weights=self.loss_weights(n), threshold=s.huber_threshold,
        )  # fmt: skip

    def loss_weights(self, n: int) -> Floats | None:
        """Return the weights of the first n samples in the loss, or None where all are 1."""
        return self.scenario.omega[self.clusters[:n]] if self.scenario.loss_weights else None

    def predict(self, estimate: ConvexFit, start: int, stop: int | None) -> tuple[Floats, Floats]:
        """Return labels and predictions of the samples from start to stop."""
        rows = self.rows[start:stop]
        z = rows @ array_module(rows).asarray(estimate.weights) + estimate.intercept
        return to_numpy(self.labels[start:stop]), to_numpy(z)

    def test(self, n: int, estimate: ConvexFit) -> dict[str, Any]:
        """Return errors on samples other than the n that were fitted, over all clusters and in each."""
        raise NotImplementedError

    def margin_law(self, n: int, estimate: ConvexFit, x: Floats) -> Floats:
        """Return the law of the margin at x on samples other than the n that were fitted."""
        raise NotImplementedError

    def overlaps(self, n: int, estimate: ConvexFit) -> dict[str, Floats]:
        """Return q, m, h of the fitted weights in each cluster."""
        raise NotImplementedError


@dataclass
class MixtureSamples(TrialSamples):
    """Samples of a population; what they are tested on is exact, given the fitted weights.

    Attributes
    ----------
    laws : how the labels of fresh samples are made in each cluster.
    references : samples of the two single Gaussians of universality, by their names.
    """

    population: Population
    laws: list[ClusterLabels]
    references: dict[str, MixtureSamples] = field(default_factory=dict)

    @classmethod
    def draw(
        cls, scenario: MixtureGLM, population: Population, count: int, draws: Draws, *, clean: bool = False,
        stream: str = "",
    ) -> MixtureSamples:  # fmt: skip
        """Draw `count` samples of the mixture, or of one Gaussian in its place."""
        laws = labels_of(scenario)[: len(population.p)]
        inputs, clusters, fields = population.sample(count, draws, stream)
        labels = draw_labels(laws, fields, clusters, draws, stream)
        inputs /= np.sqrt(population.dim)
        return cls(scenario, inputs, labels, clusters, population, labels_of(scenario, clean=True) if clean else laws)

    def loss_weights(self, n: int) -> Floats | None:
        """Return the weights of the first n samples in the loss; one Gaussian has none."""
        return super().loss_weights(n) if len(self.population.p) == self.scenario.clusters else None

    def _fresh(self, estimate: ConvexFit) -> list[Fresh]:
        """Return the law of a fresh sample in each cluster."""
        population, overlaps = self.population, self.population.overlaps(estimate.weights)
        columns = (population.tau, population.rho, overlaps["h"] + estimate.intercept, overlaps["q"], overlaps["m"])
        return [Fresh(law, *map(float, numbers)) for law, *numbers in zip(self.laws, *columns)]

    def test(self, n: int, estimate: ConvexFit) -> dict[str, Any]:
        """Return exact errors on fresh samples, over all clusters and in each."""
        s, laws = self.scenario, self._fresh(estimate)
        values = {
            "test_error": np.array([law.error() for law in laws]),
            "test_mse": np.array([law.squared() for law in laws]),
            "test_loss": np.array([law.loss(s.loss, s.huber_threshold) for law in laws]),
        }
        p = s.p_test if len(laws) == s.clusters else np.ones(1)
        totals: dict[str, Any] = {name: float(p @ value) for name, value in values.items()}
        return {**totals, **{f"{name}_by_cluster": value for name, value in values.items()}}

    def margin_law(self, n: int, estimate: ConvexFit, x: Floats) -> Floats:
        """Return the law of the margin of fresh samples at x."""
        return np.asarray(self.scenario.p_test @ np.stack([law.margin_law(x) for law in self._fresh(estimate)]))

    def overlaps(self, n: int, estimate: ConvexFit) -> dict[str, Floats]:
        """Return q, m, h of the fitted weights in each cluster."""
        return self.population.overlaps(estimate.weights)


class DatasetSamples(TrialSamples):
    """The rows of a dataset in random order: the first n are fitted, the others are tested."""

    def __init__(self, scenario: MixtureGLM, draws: Draws) -> None:
        data = scenario.data
        assert data is not None
        order = np.argsort(to_numpy(draws.uniform("order", data.rows)), kind="stable")
        inputs, labels = np.asarray(data.inputs)[order], np.asarray(data.labels)[order]
        clusters = np.zeros(data.rows, dtype=np.intp)
        if scenario.labels == "cluster":  # the model has one Gaussian for each class
            clusters = np.argmax(scenario.signs[None, :] == labels[:, None], axis=1)
        super().__init__(scenario, inputs / np.sqrt(data.dim), labels, clusters)

    def fit(self, n: int, ridge: float) -> ConvexFit:
        """Fit the first n rows; one class alone is refused."""
        if self.scenario.binary and len(set(self.labels[:n])) == 1:
            return ConvexFit.missing(self.rows.shape[1], f"the {n} rows drawn for the fit are all of one class")
        return super().fit(n, ridge)

    def test(self, n: int, estimate: ConvexFit) -> dict[str, Any]:
        """Return errors on the rows that were not fitted, over all and in each class."""
        s, clusters = self.scenario, self.clusters[n:]
        y, z = self.predict(estimate, n, None)
        columns = {
            "test_error": 1.0 * (y * z < 0) if s.binary else (y - z) ** 2,
            "test_mse": (y - z) ** 2,
            "test_loss": loss_of(s.loss, s.huber_threshold)(y, z),
        }
        share = self._shares(n)
        values: dict[str, Any] = {name: float(share @ column) for name, column in columns.items()}
        return values | {f"{name}_by_cluster": mean_by(clusters, col, s.clusters) for name, col in columns.items()}

    def margin_law(self, n: int, estimate: ConvexFit, x: Floats) -> Floats:
        """Return the fraction of margins up to x among the rows that were not fitted."""
        y, z = self.predict(estimate, n, None)
        margins = y * z if self.scenario.binary else y - z
        order = np.argsort(margins)
        law = np.append(0.0, np.cumsum(self._shares(n)[order]))
        return np.asarray(law[np.searchsorted(margins[order], x, side="right")])

    def _shares(self, n: int) -> Floats:
        """Return the weight of each tested row: all count alike, or as `test_weights` weighs their class."""
        clusters = self.clusters[n:]
        if not self.scenario.test_weights:
            return np.full(len(clusters), 1 / len(clusters))
        sizes = np.bincount(clusters, minlength=self.scenario.clusters)
        with np.errstate(divide="ignore"):
            return np.asarray((self.scenario.p_test / sizes)[clusters])

    def overlaps(self, n: int, estimate: ConvexFit) -> dict[str, Floats]:
        """Return q, m, h by class: variance, covariance with the label and mean of predictions of the other rows."""
        y, z = self.predict(estimate, n, None)
        count = self.scenario.clusters
        q, m, h = np.full(count, np.nan), np.zeros(count), np.full(count, np.nan)
        for c in np.unique(self.clusters[n:]):
            chosen = self.clusters[n:] == c
            own, labels = z[chosen] - estimate.intercept, y[chosen]
            h[c], q[c] = own.mean(), own.var()
            m[c] = float(np.mean((labels - labels.mean()) * (own - h[c])))
        return {"q": q, "m": m, "h": h}


def mean_by(clusters: Indices, values: Floats, count: int) -> Floats:
    """Return the mean of the values in each cluster, NaN in one without any."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.bincount(clusters, values, count)[:count] / np.bincount(clusters, minlength=count)[:count]
