"""Convex learning on a mixture as a program of its own: draw, fit by L-BFGS, test on
fresh samples of every cluster.
"""

from __future__ import annotations

import re

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.maths.gaussian.source import Language, expression_source
from giantstep.core.scenario.program import Program, lines, number, refuse_torch
from giantstep.problems.mixture_glm.margins import Observables
from giantstep.problems.mixture_glm.parts import Isotropic, joint_gram
from giantstep.problems.mixture_glm.scenario import REAL_LABELS, MixtureGLM

_WRITTEN = "where a script is written"
_LOSSES = {
    "square": ("(y - z) ** 2 / 2", "z - y"),
    "logistic": ("np.logaddexp(0, -y * z)", "-y * expit(-y * z)"),
    "huber": (
        (
            "np.where(abs(y - z) < delta, (y - z) ** 2 / 2, delta * abs(y - z) -"
            " delta**2 / 2)"
        ),
        "np.clip(z - y, -delta, delta)",
    ),
}
"""Loss -> its value and its slope in the prediction z."""


def program(scenario: MixtureGLM, dim: int, lang: Language) -> Program:
    """Return the program of a convex fit."""
    refuse_torch(scenario.family, lang)
    parts = scenario.covariances
    if scenario.data is not None:
        raise bad_field("data", "a dataset", f"left out {_WRITTEN}")
    if not isinstance(parts, Isotropic):
        raise bad_field("covariances.kind", parts.kind, f'"isotropic" {_WRITTEN}')
    if scenario.loss not in _LOSSES:
        raise bad_field(
            "loss", scenario.loss, f"one of {', '.join(_LOSSES)} {_WRITTEN}"
        )
    if scenario.l1:
        raise bad_field("l1", scenario.l1, f"0 {_WRITTEN}")
    c = scenario.clusters
    if dim <= c:
        raise bad_field("dim", dim, f"above {c}, the number of clusters")
    n = max(1, round(scenario.samples_per_dim * dim))
    gram = joint_gram(scenario.teacher_norm, scenario.tau, scenario.gram)
    by = [f"{name}_by_cluster" for name in Observables._fields]
    return Program(
        sizes={
            "n": (str(n), f"samples, n/d = {scenario.samples_per_dim:g}"),
            "weights": (
                number(np.array(scenario.weights)),
                "probability of each cluster",
            ),
            "tested": (number(np.asarray(scenario.p_test)), "the same in the test"),
            "omega": (
                f"np.array({np.asarray(scenario.omega, dtype=float).tolist()})",
                "weight of each in the loss",
            ),
            "variances": (
                f"np.array({list(parts.values)})",
                "Sigma_c = variances[c] times the identity",
            ),
            "noise": (number(scenario.noise), "Delta, variance of the label noise"),
            **(
                {"flip": (number(scenario.flip), "probability of a flipped label")}
                if scenario.flip
                else {}
            ),
            **(
                {"delta": (number(scenario.huber_threshold), "")}
                if scenario.loss == "huber"
                else {}
            ),
            "ridge": (number(scenario.ridge), "lambda"),
            "tests": ("20_000", "fresh samples of every cluster"),
            "gram": (
                f"np.array({gram.tolist()})",
                "of theta0/sqrt(d), mu_1, mu_2, ...",
            ),
        },
        functions=_functions(scenario),
        trial=_TRIAL,
        variables=[
            *Observables._fields,
            "objective",
            "q",
            "m",
            "h",
            "b",
            "norm",
            "nonzero",
            *by,
        ],
        index={"cluster": range(1, c + 1)},
        imports=["from scipy.optimize import minimize"],
    )


def _functions(scenario: MixtureGLM) -> str:
    value, slope = _LOSSES[scenario.loss]
    free = scenario.intercept
    return lines(
        f"def loss(y, z): return {value}",
        f"def slope(y, z): return {slope}  # in the prediction z",
        "",
        "def labels(rng, nu, cluster):  # nu = <theta0, x>/sqrt(d)",
        f"    y = {_labels(scenario)}",
        scenario.flip > 0 and "    y = np.where(rng.random(len(nu)) < flip, -y, y)",
        "    return y",
        "",
        "def draw(rng, cluster, vectors):  # x ~ N(mu_c, variance I); vectors are"
        " theta0/sqrt(d), mu_1, mu_2, ...",
        "    X = variances[cluster, None] ** 0.5 * rng.standard_normal((len(cluster),"
        " d)) + vectors[1 + cluster]",
        "    return X / d**0.5, labels(rng, X @ vectors[0], cluster)",
        "",
        "def fit(X, y, weight):  # argmin of sum weight loss + ridge |w|^2/2"
        + (" over w and b" if free else ""),
        "    def objective(v):",
        "        w, b = v[:d], v[d:].sum()",
        "        F = weight * slope(y, X @ w + b)",
        "        value = (weight * loss(y, X @ w + b)).sum() + ridge / 2 * (w @ w)",
        "        return value, np.concatenate([X.T @ F + ridge * w"
        + (", [F.sum()]" if free else "")
        + "])",
        f"    v = minimize(objective, np.zeros(d{' + 1' if free else ''}), jac=True,"
        " method='L-BFGS-B',",
        "                 options=dict(maxiter=10**5, maxfun=10**6, ftol=1e-15,"
        " gtol=1e-8)).x",
        "    return v[:d], v[d:].sum()",
        "",
        "def errors(y, z): return "
        + ("1.0 * (y * z < 0)" if scenario.binary else "(y - z) ** 2"),
    )


def _labels(scenario: MixtureGLM) -> str:
    kind = scenario.labels
    noise = " + noise**0.5 * rng.standard_normal(len(nu))"
    if kind == "sign":
        return f"np.sign(nu{noise})"
    if kind == "logit":
        return "np.where(rng.random(len(nu)) < expit(nu), 1.0, -1.0)"
    if kind == "random":
        return "np.where(rng.random(len(nu)) < 0.5, 1.0, -1.0)"
    if kind == "cluster":
        return f"np.array({np.asarray(scenario.signs, dtype=float).tolist()})[cluster]"
    text = REAL_LABELS[kind] if isinstance(kind, str) else kind.expression
    if text is None:
        raise bad_field(
            "labels",
            getattr(kind, "name", kind),
            f"an expression {_WRITTEN} (a callable has no text)",
        )
    return re.sub(r"\bz\b", "nu", expression_source(text, "numpy")) + noise


_TRIAL = """
def trial(rng):
    sizes, turn = np.linalg.eigh(gram)
    vectors = turn * np.maximum(sizes, 0) ** 0.5 @ np.linalg.qr(rng.standard_normal((d, len(gram))))[0].T
    cluster = rng.choice(len(weights), size=n, p=weights)
    X, y = draw(rng, cluster, vectors)
    w, b = fit(X, y, omega[cluster])
    z = X @ w + b
    train = {"train_loss": loss(y, z), "train_error": errors(y, z)}
    values = {name: value.mean() for name, value in train.items()}
    for name, value in train.items():
        values[f"{name}_by_cluster"] = [value[cluster == c].mean() for c in range(len(weights))]
    fresh = [draw(rng, np.full(tests, c), vectors) for c in range(len(weights))]
    for name, rule in {"test_error": errors, "test_mse": lambda y, z: (y - z) ** 2, "test_loss": loss}.items():
        values[f"{name}_by_cluster"] = [rule(labels, inputs @ w + b).mean() for inputs, labels in fresh]
        values[name] = np.dot(tested, values[f"{name}_by_cluster"])
    return values | {
        "objective": ((omega[cluster] * loss(y, z)).sum() + ridge / 2 * (w @ w)) / n,
        "q": variances * (w @ w) / d,
        "m": variances * (vectors[0] @ w) / d**0.5,
        "h": vectors[1:] @ w / d**0.5,
        "b": b,
        "norm": (w @ w) / d,
        "nonzero": (w != 0).mean(),
    }
"""
