"""The experiment: draw a mixture (or rows of a dataset), solve the convex problem to optimality, measure.

Samples are drawn once for all sizes and ridges of a trial; smaller sizes are its first rows. Test quantities of
Gaussian mixtures are exact averages over fresh samples given the fitted weights; those of a dataset are means over the
rows that were not used for the fit. A fit that is not optimal gives no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.errors import InputError
from giantstep.families.mixture_glm.overlaps import Fresh, Labels, loss_of
from giantstep.families.mixture_glm.population import Population, draw_labels, labels_of, populate
from giantstep.families.mixture_glm.rows import DataTrial, check_rows
from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.lab import to_numpy
from giantstep.risk.fitting import Fit, check_solvers, fit
from giantstep.types import Array, Floats, Indices, Points

ON_MARGIN = 1e-6
"""Training margins this close to 1 are on the margin."""
_NAMES = ("test_error", "test_mse", "test_loss", "train_loss", "train_error")


def trial(
    scenario: MixtureGLM, points: Points, what: str, dim: int, draws: Any, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Draw samples once and fit them at every size and ridge; a fit that is not optimal is NaN."""
    samples = [sample_count(alpha, dim) for alpha in points["samples_per_dim"]]
    if scenario.data is not None:
        source: Any = DataTrial(scenario, draws)
    else:
        source = Drawn.of(scenario, populate(scenario, dim, draws), max(samples), draws, settings)
        if what == "universality":
            source.add_references(draws)
    rows, problems = [], []
    for n, ridge in zip(samples, points["ridge"]):
        with np.errstate(invalid="ignore"):  # weights that do not exist are NaN
            row, problem = _ANSWERS[what](source, n, float(ridge), settings)
        rows.append(row)
        problems.append(problem)
    if all(problems):
        raise np.linalg.LinAlgError(problems[0])
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def memory(scenario: MixtureGLM, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes of the samples, of what the fit makes of them, and of the covariances."""
    check_solvers(scenario.loss, bool(scenario.l1))
    if what == "universality" and scenario.labels == "cluster":
        raise InputError('One Gaussian has no clusters to take labels from: universality is not for labels="cluster".')
    if scenario.loss == "hinge" and scenario.l1 and bool((points["ridge"] > 0).any()):
        raise InputError(
            f"Field `ridge` must be 0 in an experiment with the hinge loss and l1={scenario.l1!r}, a linear programme; "
            f"it is ridge={float(points['ridge'].max())!r}."
        )
    samples = [sample_count(alpha, dim) for alpha in points["samples_per_dim"]]
    if scenario.data is not None:
        check_rows(scenario.data, dim, max(samples), what)
    n = max(samples)
    needs_dual = scenario.loss == "hinge" and scenario.intercept
    covariances = len(scenario.weights) * dim**2 if scenario.covariances.kind == "dense" else 0
    return int(8 * (4 * n * dim + 3 * min(n, dim) ** 2 + (2 * n**2 if needs_dual else 0) + 3 * covariances))


def sample_count(alpha: float, dim: int) -> int:
    """Return n = alpha d, rounded, at least 1."""
    return max(1, round(float(alpha) * dim))


@dataclass
class Drawn:
    """Samples of a population with their labels, for all sizes of a trial."""

    scenario: MixtureGLM
    population: Population
    rows: Any
    """(n, d) inputs over sqrt(d), on the device."""
    labels: Any
    clusters: Indices
    laws: list[Labels]
    references: dict[str, Drawn]

    @classmethod
    def of(cls, scenario: MixtureGLM, population: Population, count: int, draws: Any, settings: Any) -> Drawn:
        """Draw `count` samples."""
        return cls._sampled(scenario, population, labels_of(scenario), count, draws, settings, "")

    @classmethod
    def _sampled(
        cls, scenario: MixtureGLM, population: Population, laws: list[Labels], count: int, draws: Any, settings: Any,
        stream: str,
    ) -> Drawn:  # fmt: skip
        inputs, clusters, fields = population.sample(count, draws, stream)
        labels = draw_labels(laws, fields, clusters, draws, stream)
        inputs /= np.sqrt(population.dim)
        clean = settings.get("test_labels") == "clean"
        tested = labels_of(scenario, clean=True) if clean else laws
        return cls(scenario, population, inputs, labels, clusters, tested, {})

    def add_references(self, draws: Any) -> None:
        """Draw as many samples of the two single Gaussians, with the same teacher."""
        for name, one in (("matched", self.population.matched()), ("within", self.population.within())):
            self.references[name] = self._sampled(
                self.scenario, one, self.laws[:1], len(self.clusters), draws, {}, f"{name} "
            )

    def fitted(self, n: int, ridge: float) -> Fit:
        """Fit the first n samples."""
        s = self.scenario
        weights = s.omega[self.clusters[:n]] if s.loss_weights and len(self.population.p) == s.clusters else None
        return fit(
            self.rows[:n], self.labels[:n], s.loss, ridge=ridge, l1=s.l1, intercept=s.intercept,
            weights=weights, threshold=s.huber_threshold,
        )  # fmt: skip

    def predictions(self, n: int, found: Fit) -> tuple[Floats, Floats]:
        """Return labels and predictions of the first n samples."""
        rows = self.rows[:n]
        from giantstep.lab import array_module

        z = rows @ array_module(rows).asarray(found.weights) + found.intercept
        return to_numpy(self.labels[:n]), to_numpy(z)

    def fresh(self, found: Fit) -> list[Fresh]:
        """Return the law of a fresh sample in each cluster."""
        one, population = self.population.overlaps(found.weights), self.population
        return [
            Fresh(law, float(population.tau[c]), float(population.rho[c]), float(one["h"][c]) + found.intercept,
                  float(one["q"][c]), float(one["m"][c]))
            for c, law in enumerate(self.laws)
        ]  # fmt: skip

    def tested(self, found: Fit) -> dict[str, Any]:
        """Return exact errors on fresh samples, over all clusters and in each."""
        s = self.scenario
        laws = self.fresh(found)
        values = {
            "test_error": np.array([law.error() for law in laws]),
            "test_mse": np.array([law.squared() for law in laws]),
            "test_loss": np.array([law.loss(s.loss, s.huber_threshold) for law in laws]),
        }
        p = s.p_test if len(laws) == s.clusters else np.ones(1)
        totals: dict[str, Any] = {name: float(p @ value) for name, value in values.items()}
        return {**totals, **{f"{name}_by_cluster": value for name, value in values.items()}}

    def margin_law(self, found: Fit, x: Floats) -> Floats:
        """Return the law of the margin of fresh samples at x."""
        s = self.scenario
        return np.asarray(s.p_test @ np.stack([law.margin_law(x) for law in self.fresh(found)]))

    def overlaps(self, found: Fit) -> dict[str, Floats]:
        """Return q, m, h of the fitted weights."""
        return self.population.overlaps(found.weights)


def _errors(source: Any, n: int, ridge: float, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    s: MixtureGLM = source.scenario
    found: Fit = source.fitted(n, ridge)
    values: dict[str, Any] = {**_trained(source, n, found), **source.tested(found), **source.overlaps(found)}
    w = found.weights
    total = n * float(values["weighted_loss"]) + 0.5 * ridge * float(w @ w) + s.l1 * float(np.abs(w).sum())
    if s.loss in ("interpolate", "maxmargin"):
        total = 0.5 * float(w @ w)
    del values["weighted_loss"]
    values |= {
        "objective": total / n,
        "b": found.intercept,
        "norm": float(w @ w) / len(w),
        "nonzero": float(np.mean(w != 0)) if s.l1 else 1.0,
        "gcv": _cross_validated(source, n, ridge, float(values["train_loss"])),
        "suboptimality": found.gap,
    }
    return _only_solved(values, found)


def _trained(source: Any, n: int, found: Fit) -> dict[str, Any]:
    """Return losses and errors of the training samples, over all and in each cluster."""
    s: MixtureGLM = source.scenario
    y, z = source.predictions(n, found)
    losses = loss_of(s.loss, s.huber_threshold)(y, z)
    errors = 1.0 * (y * z < 0) if s.binary else (y - z) ** 2
    if s.loss == "interpolate":
        losses = np.zeros_like(losses)
    clusters, count = source.clusters[:n], s.clusters
    weights = s.omega[clusters] if s.loss_weights and len(clusters) else np.ones(n)
    sizes = np.bincount(clusters, minlength=count).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "train_loss": float(losses.mean()),
            "train_error": float(errors.mean()),
            "weighted_loss": float((weights * losses).mean()),
            "train_loss_by_cluster": np.bincount(clusters, losses, count)[:count] / sizes[:count],
            "train_error_by_cluster": np.bincount(clusters, errors, count)[:count] / sizes[:count],
        }


def _cross_validated(source: Any, n: int, ridge: float, train_loss: float) -> float:
    """Return 2 train/(1 - tr H/n)^2 for the square loss, H the matrix that maps labels to predictions."""
    s: MixtureGLM = source.scenario
    if s.loss != "square" or s.l1:
        return np.nan
    rows = to_numpy(source.rows[:n])
    weights = s.omega[source.clusters[:n]] if s.loss_weights else np.ones(n)
    if s.intercept:
        rows = rows - weights @ rows / weights.sum()
    rows = rows * np.sqrt(weights)[:, None]
    gram = rows @ rows.T if n < rows.shape[1] else rows.T @ rows
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    trace = float((values / (values + ridge)).sum() if ridge else np.sum(values > 1e-10 * values.max())) + s.intercept
    return 2 * train_loss / (1 - trace / n) ** 2 if trace < n else np.nan


def _universality(source: Any, n: int, ridge: float, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return each observable of the mixture minus that of the two Gaussians, fitted on samples of their own."""

    def observed(one: Drawn) -> tuple[dict[str, float], Fit]:
        found = one.fitted(n, ridge)
        values = {**_trained(one, n, found), **one.tested(found)}
        return {name: values[name] for name in _NAMES}, found

    mixture, found = observed(source)
    gaps = {}
    for name, one in source.references.items():
        values, other = observed(one)
        found = found if not found.solved or other.solved else other
        gaps[name] = {key: mixture[key] - values[key] for key in _NAMES}
    return _only_solved({key: np.array([gap[key] for gap in gaps.values()]) for key in _NAMES}, found)


def _thresholds(source: Any, n: int, ridge: float, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the largest margin of this draw (0 where there is none) and whether its classes are separable."""
    s: MixtureGLM = source.scenario
    found = fit(source.rows[:n], source.labels[:n], "maxmargin", ridge=0.0, intercept=s.intercept)
    if "not separable" in found.problem:
        return {"kappa": 0.0, "separable": 0.0}, ""
    norm = float(found.weights @ found.weights) / len(found.weights)
    return _only_solved({"kappa": norm**-0.5, "separable": 1.0}, found)


def _margins(source: Any, n: int, ridge: float, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the laws of training and fresh margins (residuals of real labels) at the prepared x."""
    s: MixtureGLM = source.scenario
    found: Fit = source.fitted(n, ridge)
    x = np.asarray(settings["x"], dtype=np.float64)
    y, z = source.predictions(n, found)
    margins = np.sort(y * z if s.binary else y - z)
    corner = s.loss in ("hinge", "maxmargin")
    near = 1 + ON_MARGIN
    values = {
        "test_cdf": source.margin_law(found, x),
        "train_cdf": np.searchsorted(margins, x + (ON_MARGIN if corner else 0.0), side="right") / n,
        "on_margin": float(np.mean(np.abs(margins - 1) < ON_MARGIN)) if corner else 0.0,
        "support_vectors": float(np.mean(margins < near)) if corner else 1.0,
    }
    return _only_solved(values, found)


def _only_solved(values: dict[str, Any], found: Fit) -> tuple[dict[str, Any], str]:
    """Blank what a fit that is not optimal gave, and say why."""
    if found.solved:
        return values, ""
    problem = found.problem or f"the fit is not optimal (relative gap {found.gap:.1g})"
    return {name: np.full_like(np.asarray(value, dtype=np.float64), np.nan) for name, value in values.items()}, problem


_ANSWERS = {"errors": _errors, "universality": _universality, "thresholds": _thresholds, "margins": _margins}
