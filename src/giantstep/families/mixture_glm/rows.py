"""An experiment on a dataset: fit random rows of it, test on the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.families.mixture_glm.overlaps import loss_of
from giantstep.families.mixture_glm.parts import Dataset
from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.risk.fitting import Fit, fit
from giantstep.types import Floats, Indices


def check_rows(data: Dataset, dim: int, count: int, what: str) -> None:
    """Refuse an experiment that the rows of a dataset cannot give."""
    if what == "universality":
        raise InputError('what="universality" has no experiment on a dataset: it compares Gaussian mixtures.')
    if dim != data.dim:
        raise bad_field("dim", dim, f"{data.dim}, the number of columns of the dataset (or left out)")
    if count >= data.rows:
        raise InputError(
            f"Field `samples_per_dim` must leave rows to test on, but asks for n = {count} rows of {data.rows} "
            f"(samples_per_dim is at most {(data.rows - 1) / data.dim:.4g} here)."
        )


class DataTrial:
    """The rows of a dataset in random order: the first n are fitted, the others are tested."""

    def __init__(self, scenario: MixtureGLM, draws: Any) -> None:
        assert scenario.data is not None
        self.scenario = scenario
        inputs = np.asarray(scenario.data.inputs)
        order = np.argsort(np.asarray(_host(draws.uniform("order", len(inputs)))), kind="stable")
        self.rows = inputs[order] / np.sqrt(inputs.shape[1])
        self.labels = np.asarray(scenario.data.labels)[order]
        self.clusters = self._classes(self.labels)
        self._count = 0

    def _classes(self, labels: Floats) -> Indices:
        """Return the cluster of each row: its class, where the model has one Gaussian for each class."""
        if self.scenario.labels != "cluster":
            return np.zeros(len(labels), dtype=np.intp)
        return np.argmax(self.scenario.signs[None, :] == labels[:, None], axis=1)

    def fitted(self, n: int, ridge: float) -> Fit:
        """Fit the first n rows; one class alone is refused."""
        s = self.scenario
        self._count = n
        if s.binary and len(set(self.labels[:n])) == 1:
            nothing = np.full(self.rows.shape[1], np.nan)
            return Fit(nothing, np.nan, np.inf, f"the {n} rows drawn for the fit are all of one class")
        weights = s.omega[self.clusters[:n]] if s.loss_weights else None
        return fit(
            self.rows[:n], self.labels[:n], s.loss, ridge=ridge, l1=s.l1, intercept=s.intercept,
            weights=weights, threshold=s.huber_threshold,
        )  # fmt: skip

    def predictions(self, n: int, found: Fit) -> tuple[Floats, Floats]:
        """Return labels and predictions of the fitted rows."""
        return self.labels[:n], self.rows[:n] @ found.weights + found.intercept

    def _held_out(self, found: Fit) -> tuple[Floats, Floats, Indices]:
        n = self._count
        return self.labels[n:], self.rows[n:] @ found.weights + found.intercept, self.clusters[n:]

    def tested(self, found: Fit) -> dict[str, Any]:
        """Return errors on the rows that were not fitted, over all and in each class."""
        s = self.scenario
        y, z, clusters = self._held_out(found)
        columns = {
            "test_error": 1.0 * (y * z < 0) if s.binary else (y - z) ** 2,
            "test_mse": (y - z) ** 2,
            "test_loss": loss_of(s.loss, s.huber_threshold)(y, z),
        }
        sizes = np.bincount(clusters, minlength=s.clusters).astype(float)
        share = self._shares(clusters)
        values: dict[str, Any] = {name: float(share @ column) for name, column in columns.items()}
        with np.errstate(invalid="ignore", divide="ignore"):
            for name, column in columns.items():
                values[f"{name}_by_cluster"] = np.bincount(clusters, column, s.clusters) / sizes
        return values

    def margin_law(self, found: Fit, x: Floats) -> Floats:
        """Return the fraction of margins up to x among the rows that were not fitted."""
        y, z, clusters = self._held_out(found)
        margins = y * z if self.scenario.binary else y - z
        order = np.argsort(margins)
        law = np.append(0.0, np.cumsum(self._shares(clusters)[order]))
        return np.asarray(law[np.searchsorted(margins[order], x, side="right")])

    def _shares(self, clusters: Indices) -> Floats:
        """Return the weight of each tested row: all count alike, or as `test_weights` weighs their class."""
        if not self.scenario.test_weights:
            return np.full(len(clusters), 1 / len(clusters))
        sizes = np.bincount(clusters, minlength=self.scenario.clusters)
        with np.errstate(divide="ignore"):
            return np.asarray((self.scenario.p_test / sizes)[clusters])

    def overlaps(self, found: Fit) -> dict[str, Floats]:
        """Return q, m, h by class: variance, covariance with the label and mean of predictions of the other rows."""
        y, z, clusters = self._held_out(found)
        count = self.scenario.clusters
        q, m, h = np.full(count, np.nan), np.zeros(count), np.full(count, np.nan)
        for c in range(count):
            own = z[clusters == c] - found.intercept
            if len(own):
                h[c], q[c] = own.mean(), own.var()
                m[c] = float(np.mean((y[clusters == c] - y[clusters == c].mean()) * (own - h[c])))
        return {"q": q, "m": m, "h": h}


def _host(array: Any) -> Floats:
    from giantstep.lab import to_numpy

    return to_numpy(array)
