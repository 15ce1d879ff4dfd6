"""The samples of one trial, drawn from a population or taken from a dataset: what is
fitted and what is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from giantstep.core.base.types import DeviceArray, Floats, Indices
from giantstep.core.lab import Draws, array_module, to_numpy
from giantstep.core.readout.losses.fitting import ConvexFit, fit
from giantstep.core.readout.losses.functions import huber
from giantstep.problems.mixture_glm.margins import fresh_errors, fresh_margins
from giantstep.problems.mixture_glm.population import Population, draw_vector
from giantstep.problems.mixture_glm.problem import MixtureProblem, State
from giantstep.problems.mixture_glm.scenario import MixtureGLM
from giantstep.problems.mixture_glm.tolerances import LEAST_STATE


@dataclass
class TrialSamples:
    """Samples in a fixed order, of which the first n are fitted."""

    scenario: MixtureGLM
    rows: DeviceArray  # (N, d) inputs over sqrt(d), on the device
    labels: DeviceArray  # (N,)
    clusters: Indices  # (N,)
    one_gaussian: bool = False  # in place of the mixture: there is nothing to weigh

    def fit(self, n: int, ridge: float) -> ConvexFit:
        """Fit the first n samples."""
        s = self.scenario
        if s.loss_weights and not self.one_gaussian:
            weights = s.omega[self.clusters[:n]]
        else:
            weights = None
        return fit(
            self.rows[:n],
            self.labels[:n],
            s.loss,
            ridge=ridge,
            l1=s.l1,
            intercept=s.intercept,
            weights=weights,
            threshold=s.huber_threshold,
        )

    def predict(
        self, estimate: ConvexFit, start: int, stop: int | None
    ) -> tuple[Floats, Floats]:
        """Return labels and predictions of the samples from start to stop."""
        rows = self.rows[start:stop]
        z = rows @ array_module(rows).asarray(estimate.weights) + estimate.intercept
        return to_numpy(self.labels[start:stop]), to_numpy(z)


class MixtureSamples(TrialSamples):
    """`count` samples of a population, the mixture or one Gaussian, in random streams
    whose names begin with `stream`.

    Tests are exact, given the fitted weights: on labels as they are, or `clean`,
    without noise and flips.
    """

    def __init__(
        self,
        scenario: MixtureGLM,
        population: Population,
        count: int,
        draws: Draws,
        *,
        clean: bool,
        stream: str = "",
    ) -> None:
        inputs, clusters, fields = population.sample(count, draws, stream)
        labels = draw_labels(scenario, fields, clusters, draws, stream)
        one_gaussian = len(population.p) != scenario.clusters
        super().__init__(
            scenario, inputs / np.sqrt(population.dim), labels, clusters, one_gaussian
        )
        self.population = population
        self.references: dict[str, MixtureSamples] = {}
        """Samples of the two single Gaussians of universality, by their names."""
        problem = MixtureProblem.of(scenario, scenario.point())
        mixture = replace(
            scenario.mixture,
            p=population.p,
            tau=population.tau,
            variance=population.rho,
            variance_per_norm=np.zeros(len(population.p)),
        )
        problem = problem.without_noise() if clean else problem
        if one_gaussian:
            self.problem = problem.on_one_gaussian(mixture)
        else:
            self.problem = replace(problem, mixture=mixture)

    def _state(self, estimate: ConvexFit) -> State:
        """Return what fresh samples see of the fitted weights; V is not one of
        these.
        """
        q, m, h = self.overlaps(0, estimate).values()
        q = np.maximum(q, LEAST_STATE)
        return State(
            np.ones((1, len(q))),
            q[None],
            m[None],
            h[None],
            np.array([estimate.intercept]),
        )

    def test(self, n: int, estimate: ConvexFit) -> dict[str, Any]:
        """Return exact errors on fresh samples, over all clusters and in each."""
        p = np.ones(1) if self.one_gaussian else self.scenario.p_test
        errors = fresh_errors(self.problem, self._state(estimate))
        values = {
            name: value[0]
            for name, value in zip(("test_error", "test_mse", "test_loss"), errors)
        }
        totals: dict[str, Any] = {
            name: float(p @ value) for name, value in values.items()
        }
        return {
            **totals,
            **{f"{name}_by_cluster": value for name, value in values.items()},
        }

    def margin_law(self, n: int, estimate: ConvexFit, x: Floats) -> Floats:
        """Return the law of the margin of fresh samples at x."""
        return fresh_margins(
            self.problem, self._state(estimate), self.scenario.p_test, x
        )[0]

    def overlaps(self, n: int, estimate: ConvexFit) -> dict[str, Floats]:
        """Return q, m, h of the fitted weights in each cluster."""
        return self.population.overlaps(estimate.weights)


class DatasetSamples(TrialSamples):
    """The rows of a dataset in random order: the first n are fitted, the others are
    tested.
    """

    def __init__(self, scenario: MixtureGLM, draws: Draws) -> None:
        data = scenario.data
        assert data is not None
        order = np.argsort(to_numpy(draws.uniform("order", data.rows)), kind="stable")
        inputs = np.asarray(data.inputs)[order]
        labels = np.asarray(data.labels)[order]
        clusters = np.zeros(data.rows, dtype=np.intp)
        if scenario.labels == "cluster":  # the model has one Gaussian for each class
            clusters = np.argmax(scenario.signs[None, :] == labels[:, None], axis=1)
        super().__init__(scenario, inputs / np.sqrt(data.dim), labels, clusters)

    def fit(self, n: int, ridge: float) -> ConvexFit:
        """Fit the first n rows; one class alone is refused."""
        if self.scenario.binary and len(set(self.labels[:n])) == 1:
            return ConvexFit.missing(
                self.rows.shape[1],
                f"the {n} rows drawn for the fit are all of one class",
            )
        return super().fit(n, ridge)

    def test(self, n: int, estimate: ConvexFit) -> dict[str, Any]:
        """Return errors on the rows that were not fitted, over all and in each
        class.
        """
        s = self.scenario
        clusters = self.clusters[n:]
        y, z = self.predict(estimate, n, None)
        columns = {
            "test_error": 1.0 * (y * z < 0) if s.binary else (y - z) ** 2,
            "test_mse": (y - z) ** 2,
            "test_loss": loss_of(s.loss, s.huber_threshold)(y, z),
        }
        share = self._shares(n)
        values: dict[str, Any] = {
            name: float(share @ column) for name, column in columns.items()
        }
        return values | {
            f"{name}_by_cluster": mean_by(clusters, col, s.clusters)
            for name, col in columns.items()
        }

    def margin_law(self, n: int, estimate: ConvexFit, x: Floats) -> Floats:
        """Return the fraction of margins up to x among the rows that were not
        fitted.
        """
        y, z = self.predict(estimate, n, None)
        margins = y * z if self.scenario.binary else y - z
        order = np.argsort(margins)
        law = np.append(0.0, np.cumsum(self._shares(n)[order]))
        return np.asarray(law[np.searchsorted(margins[order], x, side="right")])

    def _shares(self, n: int) -> Floats:
        """Return the weight of each tested row: all count alike, or as `test_weights`
        weighs their class.
        """
        clusters = self.clusters[n:]
        if not self.scenario.test_weights:
            return np.full(len(clusters), 1 / len(clusters))
        sizes = np.bincount(clusters, minlength=self.scenario.clusters)
        with np.errstate(divide="ignore"):
            return np.asarray((self.scenario.p_test / sizes)[clusters])

    def overlaps(self, n: int, estimate: ConvexFit) -> dict[str, Floats]:
        """Return q, m, h by class: variance, covariance with the label and mean of
        predictions of the other rows.
        """
        y, z = self.predict(estimate, n, None)
        clusters = self.clusters[n:]
        count = self.scenario.clusters
        own = z - estimate.intercept
        h = mean_by(clusters, own, count)
        away = own - h[clusters]
        off = y - mean_by(clusters, y, count)[clusters]
        # a class without rows has none
        m = np.nan_to_num(mean_by(clusters, off * away, count))
        return {"q": mean_by(clusters, away**2, count), "m": m, "h": h}


Samples = MixtureSamples | DatasetSamples
"""The samples of a trial, with tests, laws of margins and overlaps on other samples
than the n that were fitted.
"""


def draw_labels(
    scenario: MixtureGLM,
    fields: DeviceArray,
    clusters: Indices,
    draws: Draws,
    stream: str = "",
) -> DeviceArray:
    """Draw the label of each sample given its teacher field and cluster."""
    xp = draws.xp
    kind = scenario.labels
    count = len(clusters)
    if kind == "cluster":
        values = xp.asarray(scenario.signs[clusters])
    elif kind in ("logit", "random"):
        chance = 0.5 * (1 + xp.tanh(fields / 2)) if kind == "logit" else 0.5
        values = xp.where(
            xp.asarray(draw_vector(draws, f"{stream}coin", count, draws.uniform))
            < chance,
            1.0,
            -1.0,
        )
    else:
        function = scenario.label_function
        values = fields if function is None else xp.asarray(function(fields))
        if scenario.noise:
            noise = xp.asarray(
                draw_vector(draws, f"{stream}noise", count, draws.normal)
            )
            values = values + scenario.noise**0.5 * noise
        if function is None:
            values = xp.where(values >= 0, 1.0, -1.0)
    if scenario.flip:
        turned = (
            xp.asarray(draw_vector(draws, f"{stream}flips", count, draws.uniform))
            < scenario.flip
        )
        values = xp.where(turned, -values, values)
    return values


def loss_of(loss: str, threshold: float) -> Callable[[Any, Any], Any]:
    """Return l(y, z); the limits `interpolate` and `maxmargin` have the losses they are
    limits of.
    """
    if loss == "logistic":
        return lambda y, z: np.logaddexp(0.0, -y * z)
    if loss in ("hinge", "maxmargin"):
        return lambda y, z: np.maximum(1 - y * z, 0.0)
    return lambda y, z: huber(y - z, threshold if loss == "huber" else np.inf)


def mean_by(clusters: Indices, values: Floats, count: int) -> Floats:
    """Return the mean of the values in each cluster, NaN in one without any."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return (
            np.bincount(clusters, values, count)[:count]
            / np.bincount(clusters, minlength=count)[:count]
        )
