"""One-pass SGD as a program of its own: the d-dimensional network on fresh batches, in
NumPy or with autograd.
"""

from __future__ import annotations

import re

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.gaussian.source import Language, expression_source
from giantstep.core.scenario.program import (
    Program,
    activation_source,
    floats,
    lines,
    number,
    target_source,
)
from giantstep.problems.online_sgd.scenario import OnlineSGD
from giantstep.problems.online_sgd.states import is_odd

SHOWN = 5
"""Times that are printed beside the start, evenly spaced: a program prints a table, not
a curve.
"""
_WRITTEN = "where a script is written"


def shown_times(steps: int) -> list[int]:
    """Return the updates after which a program measures."""
    return sorted({round(steps * part / SHOWN) for part in range(SHOWN + 1)})


def program(scenario: OnlineSGD, dim: int, lang: Language) -> Program:
    """Return the program of one-pass SGD."""
    p = scenario.width
    k = scenario.directions
    if scenario.target_gram != "identity":
        raise bad_field("target_gram", scenario.target_gram, f'"identity" {_WRITTEN}')
    sizes = {
        "p": (str(p), "neurons"),
        "k": (str(k), "directions of the target"),
        "n": (str(scenario.batch_size), "n_b, fresh samples of every update"),
        "rate": (number(scenario.rate), "gamma"),
        **(
            {"inner_rate": (number(scenario.inner_rate), "rho0")}
            if _inner(scenario)
            else {}
        ),
        "noise": (number(scenario.noise), "variance of the label noise"),
        "tests": ("20_000", "samples of the error"),
        "a": (f"np.array({floats(scenario.second_layer)})", "second layer"),
        "times": (str(shown_times(scenario.steps)), "updates after which is measured"),
    }
    functions = lines(
        target_source(scenario.target, lang).rstrip("\n"),
        activation_source(scenario.activation, lang, slope=lang == "numpy").rstrip(
            "\n"
        ),
        "",
        _start(scenario),
        "",
        _update(scenario, lang),
        "",
        _MEASURE,
    )
    neurons = range(1, p + 1)
    directions = range(1, k + 1)
    return Program(
        sizes=sizes,
        functions=functions,
        trial=_TRIAL,
        variables=["M", "Q", "mse", "cosine"],
        index={
            "time": shown_times(scenario.steps),
            "neuron": neurons,
            "neuron_2": neurons,
            "direction": directions,
        },
    )


def _inner(scenario: OnlineSGD) -> bool:
    return scenario.algorithm in ("extragradient", "sam")


def _start(scenario: OnlineSGD) -> str:
    """Return the text of the rows at the start: overlaps with the target, then what
    lies across it.
    """
    p = scenario.width
    k = scenario.directions
    odd = k == 1 and is_odd(scenario)
    overlap = {
        "zero": ["    M = np.zeros((p, k))"],
        "gaussian": ["    M = rng.standard_normal((p, k)) / d**0.5"],
        "random": [
            "    M = rng.standard_normal((p, k))",
            "    M = "
            + ("abs(M)" if odd else "M")
            + " / (M**2).sum(1)[:, None] ** 0.5 / d**0.5",
        ],
    }.get(str(scenario.initial_overlap)) or [
        f"    M = np.array({floats(scenario.initial_overlap)})"
    ]
    if not isinstance(scenario.initial_gram, str):
        if (
            isinstance(scenario.initial_overlap, str)
            and scenario.initial_overlap != "zero"
        ):
            raise bad_field(
                "initial_gram",
                scenario.initial_gram,
                f"a name where the overlaps are drawn, {_WRITTEN}",
            )
        if scenario.initial_overlap == "zero":
            M = np.zeros((p, k))
        else:
            M = np.array(scenario.initial_overlap)
        values, vectors = np.linalg.eigh(np.array(scenario.initial_gram) - M @ M.T)
        root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
        rest = [
            f"    root = np.array({floats(np.round(root, 14))})  # root of Q - M M^T",
            "    return M @ Wstar + root @ across",
        ]
    else:
        rest = ["    return M @ Wstar + (1 - (M**2).sum(1)[:, None]) ** 0.5 * across"]
    free = scenario.initial_gram == "random"
    if free:
        unit = "across / (across**2).sum(1)[:, None] ** 0.5"
    else:
        unit = "np.linalg.qr(across.T)[0].T"
    return lines(
        "def start(rng, Wstar):  # rows with the overlaps M",
        *overlap,
        "    across = rng.standard_normal((p, d))",
        "    across = across - across @ Wstar.T @ Wstar",
        f"    across = {unit}",
        *rest,
    )


def _update(scenario: OnlineSGD, lang: Language) -> str:
    """Return the text of one update."""
    algorithm = scenario.algorithm
    texts = {
        "squared": ("y - f", "((y - f) ** 2).mean() / 2"),
        "correlation": ("y", "-(y * f).mean()"),
        "exponential": (
            "np.exp(-np.maximum(y * f, -2)) * y",
            "-((-y * f).clamp(max=2).exp().detach() * y * f).mean()",
        ),
    }
    if isinstance(algorithm, Function) and algorithm.expression is not None:
        # a transform of y
        text = (
            "("
            + re.sub(r"\bz\b", "y", expression_source(algorithm.expression, lang))
            + ")"
        )
        texts["own"] = (text, f"-({text} * f).mean()")
    name = "own" if "own" in texts else algorithm
    inner = _inner(scenario)
    if not inner and name not in texts:
        raise bad_field(
            "algorithm",
            getattr(algorithm, "name", algorithm),
            f"one with a text {_WRITTEN}",
        )
    if inner and lang == "torch":
        raise bad_field(
            "algorithm",
            algorithm,
            'squared, correlation, exponential or an expression where lang="torch"',
        )
    head = [
        "def update(rng, W, Wstar):  # w_j <- w_j + (rate/p) a_j (1/n) sum F_j x",
        "    X = rng.standard_normal((n, d))",
        "    y = target(X @ Wstar.T) + noise**0.5 * rng.standard_normal(n)",
    ]
    if lang == "torch":
        body = [
            "    V = W.clone().requires_grad_()",
            "    f = activation(X @ V.T) @ a / p",
            f"    S = -torch.autograd.grad({texts[str(name)][1]}, V)[0]",
        ]
    elif inner:
        body = [
            "    L = X @ W.T",
            "    residual = (y - activation(L) @ a / p)[:, None]",
            (
                "    L = L + inner_rate * (X**2).mean(1)[:, None] * a * slope(L) *"
                " residual  # after the inner step"
            ),
            "    force = slope(L) * (y - activation(L) @ a / p)[:, None]",
            "    S = (a * force).T @ X / (p * n)",
        ]
    else:
        body = [
            "    L = X @ W.T",
            (
                "    f = activation(L) @ a / p"
                if "f" in texts[str(name)][0].replace("erf", "")
                else ""
            ),
            (
                f"    S = (a * slope(L) * ({texts[str(name)][0]})[:, None]).T @ X / (p"
                " * n)"
            ),
        ]
    body = [line for line in body if line]
    sphere = "    S = S - (S * W).sum(1)[:, None] * W  # along the sphere"
    unit = "    W = W / (W**2).sum(1)[:, None] ** 0.5"
    return lines(
        *head,
        *body,
        scenario.constraint == "spherical" and sphere,
        "    W = W + rate * S",
        scenario.constraint != "none" and unit,
        "    return W",
    )


_MEASURE = """
def measure(W, Wstar, Z):
    M, Q = W @ Wstar.T, W @ W.T
    error = target(Z @ Wstar.T) - activation(Z @ W.T) @ a / p
    cosine = M / Q.diagonal()[:, None] ** 0.5
    return {"M": M.tolist(), "Q": Q.tolist(), "mse": (error**2).mean(), "cosine": cosine.tolist()}
""".strip("\n")
_TRIAL = """
def trial(rng):
    Wstar = np.linalg.qr(rng.standard_normal((d, k)))[0].T  # directions of the target
    W, Z, path = start(rng, Wstar), rng.standard_normal((tests, d)), []
    for t in range(times[-1] + 1):
        if t in times:
            path.append(measure(W, Wstar, Z))
        W = update(rng, W, Wstar)
    return {name: [values[name] for values in path] for name in VARIABLES}
"""
