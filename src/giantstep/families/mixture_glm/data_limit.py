"""The limit of a dataset: squared errors of the ridge fit from its own cross-validation or covariate model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.families.mixture_glm.ridge_curve import NO_PREDICTION, RidgeCurve
from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.family import Answer
from giantstep.types import Points

OF_DATA = ("gcv", "plug-in")
"""Theories that read a dataset rather than Gaussians fitted to its classes."""


def choose_theory(scenario: MixtureGLM, what: str, asked: str | None) -> str:
    """Return the theory that answers; one that does not apply is refused where it was asked for by name."""
    applies = scenario.data is not None and what == "errors" and not scenario.l1 and not scenario.loss_weights
    applies = applies and scenario.loss in ("square", "interpolate") and not scenario.test_weights
    if asked is None:
        return "gcv" if applies else "exact"
    if asked in OF_DATA and not applies:
        raise bad_field(
            "theory", asked, '"exact" unless the scenario has data and asks for errors of the square loss without l1'
        )
    return asked


def with_data(scenario: MixtureGLM, points: Points, answer: Answer, theory: str) -> Answer:
    """Replace the squared errors, the norm and the objective of an answer by those of a theory of the dataset."""
    data, alphas, ridges = scenario.data, points["samples_per_dim"], points["ridge"]
    if data is None:
        raise InputError("There is no dataset.")
    labels = np.asarray(data.labels)
    curve = RidgeCurve(data.singular_rows, labels - labels.mean() if scenario.intercept else labels)
    predict = curve.transport if theory == "gcv" else curve.plug_in
    status, predictions = np.asarray(answer.status).astype(object), []
    for index, (alpha, ridge) in enumerate(zip(alphas.tolist(), ridges.tolist())):
        n = max(1, round(alpha * data.dim))
        if ridge == 0 and n == data.dim:
            status[index] = f"n = {n} rows for as many columns and no ridge: the error diverges"
            predictions.append(NO_PREDICTION)
        else:
            predictions.append(predict(n, ridge))
    mse, train, norm = np.array(predictions).reshape(-1, 3).T
    penalty = np.where(ridges > 0, ridges, 1.0 if scenario.loss == "interpolate" else 0.0)
    values = {
        **answer.values,
        "test_mse": mse,
        "test_loss": 0.5 * mse,
        "train_loss": train,
        "norm": norm,
        "objective": train + 0.5 * penalty * norm / alphas,
        "gcv": np.where(train > 0, mse, np.nan),
    }
    if not scenario.binary:
        values |= {"test_error": mse, "train_error": 2 * train}
        names = ("test_error", "test_mse", "test_loss", "train_loss", "train_error")
        values |= {f"{name}_by_cluster": values[name][:, None] for name in names}
    return replace(answer, values=values, status=status.astype(str), attrs={**answer.attrs, "theory": theory})
