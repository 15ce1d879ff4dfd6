"""The experiment: draw a mixture (or rows of a dataset), solve the convex problem to
optimality, measure.

Samples are drawn once for all sizes and ridges of a trial; smaller sizes are its first
rows. Test quantities of Gaussian mixtures are exact averages over fresh samples given
the fitted weights; those of a dataset are means over the rows that were not used for
the fit. A fit that is not optimal gives no numbers. See mixture_glm section 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Array, Floats, Points
from giantstep.core.lab import Draws, to_numpy
from giantstep.core.readout.losses.fitting import ConvexFit, fit
from giantstep.problems.mixture_glm.margins import Observables
from giantstep.problems.mixture_glm.population import populate
from giantstep.problems.mixture_glm.samples import (
    DatasetSamples,
    MixtureSamples,
    Samples,
    loss_of,
    mean_by,
)
from giantstep.problems.mixture_glm.scenario import ASK_INSTEAD, MixtureGLM
from giantstep.problems.mixture_glm.tolerances import ON_MARGIN


def trial(
    scenario: MixtureGLM,
    points: Points,
    what: str,
    dim: int,
    draws: Draws,
    settings: Mapping[str, Any],
) -> dict[str, Array]:
    """Draw samples once and fit them at every size and ridge; a fit that is not optimal
    is NaN.
    """
    sizes = sample_counts(points, dim)
    samples: Any
    if scenario.data is not None:
        samples = DatasetSamples(scenario, draws)
    else:
        population = populate(scenario, dim, draws)
        clean = settings.get("test_labels") == "clean"
        samples = MixtureSamples(scenario, population, max(sizes), draws, clean=clean)
        if (
            what == "universality"
        ):  # as many samples of the two single Gaussians, with the same teacher
            for name, gaussian in (
                ("matched", population.matched()),
                ("within", population.within()),
            ):
                one = MixtureSamples(
                    scenario,
                    gaussian,
                    max(sizes),
                    draws,
                    clean=False,
                    stream=f"{name} ",
                )
                samples.references[name] = one
    rows = []
    problems = []
    for n, ridge in zip(sizes, points["ridge"]):
        with np.errstate(invalid="ignore"):  # weights that do not exist are NaN
            values, estimate = _ANSWERS[what](samples, n, float(ridge), settings)
        if not estimate.solved:  # blank what it gave, and say why
            values = {
                name: np.full_like(np.asarray(value, np.float64), np.nan)
                for name, value in values.items()
            }
            problems.append(
                estimate.problem
                or f"the fit is not optimal (relative gap {estimate.gap:.1g})"
            )
        rows.append(values)
    if len(problems) == len(rows):
        raise np.linalg.LinAlgError(problems[0])
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def memory(
    scenario: MixtureGLM,
    points: Points,
    what: str,
    dim: int,
    settings: Mapping[str, Any],
) -> int:
    """Return the bytes of the samples, of what the fit makes of them, and of the
    covariances.
    """
    if scenario.loss == "hinge" and scenario.l1 and bool((points["ridge"] > 0).any()):
        raise InputError(
            "Field `ridge` must be 0 in an experiment with the hinge loss and"
            f" l1={scenario.l1!r}, a linear programme; it is"
            f" ridge={float(points['ridge'].max())!r}."
        )
    n = max(sample_counts(points, dim))
    data = scenario.data
    if data is not None and what == "universality":
        raise InputError(
            f'what="universality" has no experiment on a dataset: {ASK_INSTEAD}.'
        )
    if data is not None and dim != data.dim:
        raise bad_field(
            "dim",
            dim,
            f"{data.dim}, the number of columns of the dataset (or left out)",
        )
    if data is not None and n >= data.rows:
        raise InputError(
            f"Field `samples_per_dim` must leave rows to test on, but asks for n = {n}"
            f" rows of {data.rows} (samples_per_dim is at most"
            f" {(data.rows - 1) / data.dim:.4g} here)."
        )
    needs_dual = scenario.loss == "hinge" and scenario.intercept
    if scenario.covariances.kind == "dense":
        covariances = len(scenario.weights) * dim**2
    else:
        covariances = 0
    return int(
        8
        * (
            4 * n * dim
            + 3 * min(n, dim) ** 2
            + (2 * n**2 if needs_dual else 0)
            + 3 * covariances
        )
    )


def sample_counts(points: Points, dim: int) -> list[int]:
    """Return n = alpha d of each point, rounded, at least 1."""
    return [max(1, round(float(alpha) * dim)) for alpha in points["samples_per_dim"]]


Answered = tuple[dict[str, Any], ConvexFit]
"""Variables of one size and ridge, and the fit behind them."""


def _errors(
    samples: Samples, n: int, ridge: float, settings: Mapping[str, Any]
) -> Answered:
    s = samples.scenario
    estimate = samples.fit(n, ridge)
    values = {
        **_training(samples, n, estimate),
        **samples.test(n, estimate),
        **samples.overlaps(n, estimate),
    }
    w = estimate.weights
    limit = s.loss in ("interpolate", "maxmargin")
    total = (
        n * float(values.pop("weighted_loss"))
        + 0.5 * ridge * float(w @ w)
        + s.l1 * float(np.abs(w).sum())
    )
    values |= {
        "objective": (0.5 * float(w @ w) if limit else total) / n,
        "b": estimate.intercept,
        "norm": float(w @ w) / len(w),
        "nonzero": float(np.mean(w != 0)) if s.l1 else 1.0,
        "gcv": _cross_validation(samples, n, ridge, float(values["train_loss"])),
        "suboptimality": estimate.gap,
    }
    return values, estimate


def _training(samples: Samples, n: int, estimate: ConvexFit) -> dict[str, Any]:
    """Return losses and errors of the training samples, over all and in each
    cluster.
    """
    s = samples.scenario
    y, z = samples.predict(estimate, 0, n)
    losses: Floats = loss_of(s.loss, s.huber_threshold)(y, z)
    errors: Floats
    if s.binary:
        errors = (y * z < 0).astype(float)
    else:
        errors = (y - z) ** 2
    if s.loss == "interpolate":
        losses = np.zeros_like(losses)
    clusters = samples.clusters[:n]
    return {
        "train_loss": float(losses.mean()),
        "train_error": float(errors.mean()),
        "weighted_loss": float((s.omega[clusters] * losses).mean()),
        "train_loss_by_cluster": mean_by(clusters, losses, s.clusters),
        "train_error_by_cluster": mean_by(clusters, errors, s.clusters),
    }


def _cross_validation(
    samples: Samples, n: int, ridge: float, train_loss: float
) -> float:
    """Return 2 train/(1 - tr H/n)^2 for the square loss, H the matrix that maps labels
    to predictions.
    """
    s = samples.scenario
    if s.loss != "square" or s.l1:
        return np.nan
    rows = to_numpy(samples.rows[:n])
    weights = s.omega[samples.clusters[:n]]
    if s.intercept:
        rows = rows - weights @ rows / weights.sum()
    rows = rows * np.sqrt(weights)[:, None]
    gram = rows @ rows.T if n < rows.shape[1] else rows.T @ rows
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    trace = (
        float(
            (values / (values + ridge)).sum()
            if ridge
            else np.sum(values > 1e-10 * values.max())
        )
        + s.intercept
    )
    return 2 * train_loss / (1 - trace / n) ** 2 if trace < n else np.nan


def _universality(
    samples: MixtureSamples, n: int, ridge: float, settings: Mapping[str, Any]
) -> Answered:
    """Return each observable of the mixture minus that of the two Gaussians, fitted on
    samples of their own.
    """
    sources = (samples, *samples.references.values())
    fits = [source.fit(n, ridge) for source in sources]
    own, *others = (
        {**_training(one, n, fit), **one.test(n, fit)}
        for one, fit in zip(sources, fits)
    )
    gaps = {
        name: np.array([own[name] - other[name] for other in others])
        for name in Observables._fields
    }
    return gaps, next((fit for fit in fits if not fit.solved), fits[0])


def _thresholds(
    samples: Samples, n: int, ridge: float, settings: Mapping[str, Any]
) -> Answered:
    """Return the largest margin of this draw (0 where there is none) and whether its
    classes are separable.
    """
    estimate = fit(
        samples.rows[:n],
        samples.labels[:n],
        "maxmargin",
        ridge=0.0,
        intercept=samples.scenario.intercept,
    )
    if estimate.inseparable:
        return {"kappa": 0.0, "separable": 0.0}, ConvexFit(estimate.weights, 0.0, 0.0)
    norm = float(estimate.weights @ estimate.weights) / len(estimate.weights)
    return {"kappa": norm**-0.5, "separable": 1.0}, estimate


def _margins(
    samples: Samples, n: int, ridge: float, settings: Mapping[str, Any]
) -> Answered:
    """Return the laws of training and fresh margins (residuals of real labels) at the
    prepared x.
    """
    s = samples.scenario
    estimate = samples.fit(n, ridge)
    x = np.asarray(settings["x"], dtype=np.float64)
    y, z = samples.predict(estimate, 0, n)
    margins = np.sort(y * z if s.binary else y - z)
    corner = s.loss in ("hinge", "maxmargin")
    values = {
        "test_cdf": samples.margin_law(n, estimate, x),
        "train_cdf": (
            np.searchsorted(margins, x + (ON_MARGIN if corner else 0.0), side="right")
            / n
        ),
        "on_margin": float(np.mean(np.abs(margins - 1) < ON_MARGIN)) if corner else 0.0,
        "support_vectors": float(np.mean(margins < 1 + ON_MARGIN)) if corner else 1.0,
    }
    return values, estimate


_ANSWERS = {
    "errors": _errors,
    "universality": _universality,
    "thresholds": _thresholds,
    "margins": _margins,
}
