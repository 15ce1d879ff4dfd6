"""Giant steps as a program of its own: real gradient steps on fresh batches, in NumPy
or with autograd.
"""

from __future__ import annotations

import math

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.maths.gaussian.source import Language
from giantstep.core.scenario.program import (
    Program,
    activation_source,
    number,
    target_source,
)
from giantstep.problems.giant_steps.scenario import GiantSteps

_STEP = {
    "numpy": (
        """
        U = X @ W.T
        residual = y - activation(U) @ a / p
        S = S + a[:, None] * ((slope(U) * residual[:, None]).T @ X) / n
"""
    ),
    "torch": (
        """
        V = W.clone().requires_grad_()
        loss = ((y - activation(X @ V.T) @ a / p) ** 2).sum() / (2 * n)
        S = S - p * torch.autograd.grad(loss, V)[0]
"""
    ),
}
_FUNCTIONS = """
def step(rng, W, Wstar):  # a_j (1/n) sum (y - f) s'(<w_j, x>) x on a fresh batch, row by row
    S = 0
    for start in range(0, n, 10_000):  # in pieces that fit into memory
        X = rng.standard_normal((min(10_000, n - start), d))
        y = target(X @ Wstar.T) + noise**0.5 * rng.standard_normal(len(X))
{step}    return S

def measure(W, S, Wstar):  # means over the neurons of every block
    M, K, norm = W @ Wstar.T, W @ W.T, (W**2).sum(1)
    towards = S @ Wstar.T / (S**2).sum(1)[:, None] ** 0.5
    def pairs(b, c):  # mean over pairs of different neurons
        same, count = (K[b, c].trace(), len(K[b]) - 1) if b == c else (0, len(K[c]))
        return (K[b, c].sum() - same) / max(1, len(K[b]) * count)
    return {{
        "cosine": [(M / norm[:, None] ** 0.5)[b].mean(0).tolist() for b in BLOCKS],
        "norm": [norm[b].mean() for b in BLOCKS],
        "M": [M[b].mean(0).tolist() for b in BLOCKS],
        "R": [[pairs(b, c) for c in BLOCKS] for b in BLOCKS],
        "gradient_cosine": [towards[b].mean(0).tolist() for b in BLOCKS],
    }}
"""
_TRIAL = """
def trial(rng):
    Wstar = np.linalg.qr(rng.standard_normal((d, k)))[0].T  # directions of the target
    W = rng.standard_normal((p, d)) / d**0.5
    path = []
    for time in range(steps + 1):
        S = step(rng, W, Wstar)  # the next step; the last one is measured, not made
        path.append(measure(W, S, Wstar))
        W = W + rate * S
    return {name: [values[name] for values in path] for name in VARIABLES}
"""


def program(scenario: GiantSteps, dim: int, lang: Language) -> Program:
    """Return the program of a few giant steps."""
    p = scenario.neurons(scenario.width)
    k = scenario.target.directions
    if math.isinf(scenario.batch_per_dim):
        raise bad_field(
            "batch_per_dim", scenario.batch_per_dim, "finite where a script is written"
        )
    if 0.0 in scenario.values:
        raise bad_field(
            "second_layer",
            list(scenario.values),
            "without zeros where a script is written",
        )
    if dim <= k:
        raise bad_field("dim", dim, f"above {k}, the number of target directions")
    counts = scenario.fractions(scenario.width)[1].astype(int).tolist()
    edges = np.cumsum([0, *counts]).tolist()
    layer = " + ".join(
        f"[{float(value)!r}] * {count}" for value, count in zip(scenario.values, counts)
    )
    n = max(1, round(scenario.batch_per_dim * dim**scenario.batch_exponent))
    sizes = {
        "p": (str(p), "neurons"),
        "k": (str(k), "directions of the target"),
        "n": (
            str(n),
            (
                f"samples of a batch, n = {scenario.batch_per_dim:g}"
                f" d^{scenario.batch_exponent:g}"
            ),
        ),
        "steps": (str(scenario.steps), "T"),
        "rate": (number(scenario.rate), "g, step size over p"),
        "noise": (number(scenario.noise), "Delta, variance of the label noise"),
        "a": (f"np.array({layer})", "second layer"),
        "BLOCKS": (
            "[" + ", ".join(f"slice({i}, {j})" for i, j in zip(edges, edges[1:])) + "]",
            "neurons of equal a_j",
        ),
    }
    functions = target_source(scenario.target, lang) + activation_source(
        scenario.activation, lang, slope=lang == "numpy"
    )
    functions += "\n" + _FUNCTIONS.format(step=_STEP[lang].lstrip("\n")).lstrip("\n")
    blocks = range(1, len(scenario.values) + 1)
    return Program(
        sizes=sizes,
        functions=functions,
        trial=_TRIAL,
        variables=["cosine", "norm", "M", "R", "gradient_cosine"],
        index={
            "time": range(scenario.steps + 1),
            "block": blocks,
            "block_2": blocks,
            "direction": range(1, k + 1),
        },
    )
