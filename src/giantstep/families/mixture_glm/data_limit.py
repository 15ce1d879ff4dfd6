"""The limit of a dataset: squared errors of the ridge fit from its own cross-validation or covariate model."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from giantstep.arrays import FrozenArray
from giantstep.errors import InputError, bad_field
from giantstep.families.mixture_glm.ridge_curve import Predicted, RidgeCurve
from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.family import Answer
from giantstep.types import Floats

OF_DATA = ("gcv", "plug-in")
"""Theories that read a dataset rather than Gaussians fitted to its classes."""


def chosen_theory(scenario: MixtureGLM, what: str, asked: str | None) -> str:
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


def with_data(scenario: MixtureGLM, points: Mapping[str, Floats], answer: Answer, theory: str) -> Answer:
    """Replace the squared errors, the norm and the objective of an answer by those of a theory of the dataset."""
    data = scenario.data
    if data is None:
        raise InputError("There is no dataset.")
    curve = _curve(data.inputs, data.labels, scenario.intercept)
    status = np.asarray(answer.status).astype(object)
    found: list[Predicted | None] = []
    for place, (alpha, ridge) in enumerate(zip(points["samples_per_dim"], points["ridge"])):
        n = max(1, round(float(alpha) * data.dim))
        if ridge == 0 and n == data.dim:
            status[place] = f"n = {n} rows for as many columns and no ridge: the error diverges"
            found.append(None)
        else:
            found.append(curve.transported(n, float(ridge)) if theory == "gcv" else curve.plugged(n, float(ridge)))

    def column(name: str) -> Floats:
        return np.array([np.nan if one is None else float(getattr(one, name)) for one in found])

    mse, train, norm = column("mse"), column("train"), column("norm")
    penalty = np.where(points["ridge"] > 0, points["ridge"], 1.0 if scenario.loss == "interpolate" else 0.0)
    values = {
        **answer.values,
        "test_mse": mse,
        "test_loss": 0.5 * mse,
        "train_loss": train,
        "norm": norm,
        "objective": train + 0.5 * penalty * norm / points["samples_per_dim"],
        "gcv": np.where(train > 0, mse, np.nan),
    }
    if not scenario.binary:
        values |= {"test_error": mse, "train_error": 2 * train}
        values |= {"test_error_by_cluster": mse[:, None], "test_mse_by_cluster": mse[:, None]}
        values |= {"test_loss_by_cluster": 0.5 * mse[:, None], "train_loss_by_cluster": train[:, None]}
        values["train_error_by_cluster"] = 2 * train[:, None]
    attrs = {**answer.attrs, "theory": theory}
    return Answer(values, status.astype(str), answer.residual, answer.iterations, answer.coords, answer.warnings, attrs)


@functools.lru_cache(maxsize=8)
def _curve(inputs: FrozenArray, labels: FrozenArray, intercept: bool) -> RidgeCurve:
    y = np.asarray(labels)
    return RidgeCurve(np.asarray(inputs), y - y.mean() if intercept else y)
