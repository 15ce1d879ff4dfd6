"""The best possible error as a program of its own: message passing that knows the
target but not its direction.
"""

from __future__ import annotations

from giantstep.core.base.errors import bad_field
from giantstep.core.maths.gaussian.source import Language
from giantstep.core.scenario.program import (
    Program,
    lines,
    number,
    refuse_torch,
    target_source,
)
from giantstep.problems.bayes_limit.scenario import BayesLimit

_WRITTEN = "where a script is written"
_PASSING = """
def message_passing(X, y, What):  # X has entries N(0, 1/d); GAMP with the known channel
    V, g = 1 - 1e-3, 0
    for sweep in range(200):
        omega = X @ What - g * V
        z = omega[:, None] + V**0.5 * grid  # z given omega, before y is seen
        P = density * likelihood(y[:, None], z)
        P = P / P.sum(1)[:, None]
        mean = (P * z).sum(1)
        variance = (P * (z - mean[:, None]) ** 2).sum(1)
        g, A = (mean - omega) / V, max(0.0, ((V - variance) / V**2).sum() / d)
        old, What, V = What, (X.T @ ((mean - omega) / V) + What * A) / (1 + A), 1 / (1 + A)
        if ((What - old) ** 2).mean() ** 0.5 < 1e-5 or V < 1e-10:
            break
    return What, V
"""
_TRIAL = """
def trial(rng):
    w = rng.standard_normal(d)
    w = w * d**0.5 / (w @ w) ** 0.5  # the direction of the target, |w|^2 = d
    X = rng.standard_normal((n, d)) / d**0.5
    y = observe(rng, X @ w)
    for attempt in range(4):  # a run that contradicts itself starts again
        What, V = message_passing(X, y, 1e-3**0.5 * rng.standard_normal(d))
        if abs(What @ What / d + V - 1) < 0.3:
            break
    q = SIGN(What @ w / d)
    Z = rng.standard_normal((tests, d)) / d**0.5
    guess = expected((Z @ What)[:, None] + V**0.5 * grid) @ density  # posterior mean of a fresh label
    return {"q": [q], "M": [[[q]]], "mse": [ERROR]}
"""


def program(scenario: BayesLimit, dim: int, lang: Language) -> Program:
    """Return the program of message passing for a target of one direction."""
    refuse_torch(scenario.family, lang)
    if scenario.target.directions > 1:
        raise bad_field(
            "target", scenario.target.name, f"a function of one direction {_WRITTEN}"
        )
    found = scenario.reading.labels
    if not scenario.noise and found is None:
        raise bad_field(
            "noise", scenario.noise, f"above 0 {_WRITTEN}, unless the target has labels"
        )
    values = None if scenario.noise else found
    exact = "((target((Z @ w)[:, None]) - guess) ** 2).mean() + noise"
    if values is None:
        error = exact
    else:
        error = "((observe(rng, Z @ w) - guess) ** 2).mean()"
    n = max(1, round(scenario.samples_per_dim * dim))
    return Program(
        sizes={
            "n": (str(n), f"samples, n/d = {scenario.samples_per_dim:g}"),
            **(
                {"noise": (number(scenario.noise), "variance of the label noise")}
                if values is None
                else {
                    "labels": (
                        f"np.array({[float(value) for value in values]})",
                        "values of the target",
                    ),
                    "flip": (number(scenario.flip), "probability of another label"),
                }
            ),
            "tests": ("10_000", "samples of the error"),
            "grid": (
                "np.linspace(-6, 6, 241)",
                "of z around its mean, in standard deviations",
            ),
            "density": (
                "np.exp(-grid**2 / 2) / np.exp(-grid**2 / 2).sum()",
                "of the standard normal law",
            ),
        },
        functions=_functions(scenario, values is not None) + "\n" + _PASSING,
        trial=_TRIAL.replace(
            "SIGN", "abs" if scenario.reading.line.parity == "even" else ""
        ).replace("ERROR", error),
        variables=["q", "M", "mse"],
        index={"branch": ["uninformed"], "direction": [1], "direction_2": [1]},
    )


def _functions(scenario: BayesLimit, classes: bool) -> str:
    target = target_source(scenario.target, "numpy").rstrip("\n")
    if not classes:
        return lines(
            target,
            "def expected(z): return target(z.reshape(-1, 1)).reshape(z.shape)  #"
            " E[y|z]",
            "def likelihood(y, z): return np.exp(-((y - expected(z)) ** 2) / (2 *"
            " noise)) + 1e-300",
            "def observe(rng, z): return target(z[:, None]) + noise**0.5 *"
            " rng.standard_normal(len(z))",
        )
    return lines(
        target,
        "def clean(z): return target(z.reshape(-1, 1)).reshape(z.shape)",
        "def likelihood(y, z): return np.where(abs(y - clean(z)) < 1e-9, 1 - flip, flip"
        " / (len(labels) - 1)) + 1e-300",
        "def expected(z): return sum(label * likelihood(label, z) for label in labels) "
        " # E[y|z]",
        "def observe(rng, z):  # the label, or another one with probability flip",
        "    kind = abs(clean(z)[:, None] - labels).argmin(1)",
        "    turn = rng.integers(1, len(labels), len(z)) * (rng.random(len(z)) < flip)",
        "    return labels[(kind + turn) % len(labels)]",
    )
