"""Batch reuse as a program of its own: gradient descent on the same samples, in NumPy
or with autograd.
"""

from __future__ import annotations

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.maths.gaussian.source import Language
from giantstep.core.scenario.program import (
    Program,
    activation_source,
    floats,
    lines,
    number,
    target_source,
)
from giantstep.problems.batch_reuse.scenario import BatchReuse

_LOSS = {"square": "(f - y) ** 2 / 2", "correlation": "-y * f"}
_SLOPE = {"square": "f - y", "correlation": "-y"}
_DRAW = """
def draw(rng, Wstar):  # n samples and their labels
    X = rng.standard_normal((n, d))
    return X, target(X @ Wstar.T / d**0.5) + noise**0.5 * rng.standard_normal(n)
""".strip("\n")


def program(scenario: BatchReuse, dim: int, lang: Language) -> Program:
    """Return the program of gradient descent on one batch."""
    p = scenario.neurons
    k = scenario.target.directions
    if dim < p + k:
        raise bad_field(
            "dim", dim, f"at least {p + k}, neurons and target directions together"
        )
    overlap, gram = scenario.start
    values, vectors = np.linalg.eigh(gram - overlap @ overlap.T)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    sizes = {
        "p": (str(p), "neurons"),
        "k": (str(k), "directions of the target"),
        "n": (
            str(max(1, round(scenario.samples_per_dim * dim))),
            f"samples, n/d = {scenario.samples_per_dim:g}",
        ),
        "rates": (number(scenario.rates()), "eta, one for each step"),
        "noise": (number(scenario.noise), "Delta, variance of the label noise"),
        **(
            {"decay": (number(scenario.decay), "lambda, weight decay")}
            if scenario.decay
            else {}
        ),
        **(
            {"momentum": (number(scenario.momentum), "beta")}
            if scenario.momentum
            else {}
        ),
        **(
            {"batches": (str(scenario.batches), "B, groups of samples")}
            if scenario.batches > 1
            else {}
        ),
        "tests": ("20_000", "samples of the population loss"),
        "a0": (
            f"np.array({floats(scenario.second_layer)})",
            "second layer at the start",
        ),
        "M0": (f"np.array({floats(overlap)})", "W W*^T/d at the start"),
        "root": (
            f"np.array({floats(np.round(root, 14))})",
            "root of Q - M M^T at the start, Q = W W^T/d",
        ),
    }
    functions = lines(
        target_source(scenario.target, lang).rstrip("\n"),
        activation_source(scenario.activation, lang, slope=lang == "numpy").rstrip(
            "\n"
        ),
        f"def loss(f, y): return {_LOSS[scenario.loss]}",
        "",
        _DRAW,
        "",
        _gradients(scenario, lang),
        "",
        _MEASURE.replace("NOISE", " + noise / 2" if scenario.loss == "square" else ""),
    )
    neurons = range(1, p + 1)
    return Program(
        sizes=sizes,
        functions=functions,
        trial=_trial(scenario),
        variables=[
            "M",
            "Q",
            "cosine",
            "train_loss",
            "population_loss",
            "generalisation",
        ],
        index={
            "time": range(scenario.steps + 1),
            "neuron": neurons,
            "neuron_2": neurons,
            "direction": range(1, k + 1),
        },
    )


def _gradients(scenario: BatchReuse, lang: Language) -> str:
    """Return the text of the gradients of the sum of losses in W, and of their mean
    in a.
    """
    masked = scenario.batches > 1
    second = scenario.second_layer_rate > 0
    head = (
        f"def gradients(W, a, X, y{', used' if masked else ''}):  # of the sum of"
        " losses in W" + (", of the mean loss in a" if second else "")
    )
    count = "max(used.sum(), 1)" if masked else "n"
    if lang == "torch":
        wanted = "(W, a)" if second else "W"
        return lines(
            head,
            f"    W{', a' if second else ''} = W.clone().requires_grad_()"
            + (", a.clone().requires_grad_()" if second else ""),
            "    total = "
            + ("(used * " if masked else "")
            + "loss(activation(X @ W.T / d**0.5) @ a, y)"
            + (").sum()" if masked else ".sum()"),
            f"    G = torch.autograd.grad(total, {wanted})",
            f"    return G[0], G[1] / {count}" if second else "    return G[0], 0",
        )
    error = f"({_SLOPE[scenario.loss]})" + (" * used" if masked else "")
    return lines(
        head,
        "    h = X @ W.T / d**0.5",
        scenario.loss == "square" and "    f = activation(h) @ a",
        f"    error = {error}",
        "    G = (error[:, None] * a * slope(h)).T @ X / d**0.5",
        (
            f"    return G, error @ activation(h) / {count}"
            if second
            else "    return G, 0"
        ),
    )


_MEASURE = """
def measure(rng, W, a, X, y, Wstar, Z):
    M, Q = W @ Wstar.T / d, W @ W.T / d
    f, g = activation(Z @ W.T / d**0.5) @ a, target(Z @ Wstar.T / d**0.5)
    train = loss(activation(X @ W.T / d**0.5) @ a, y).mean()
    population = loss(f, g).mean()NOISE
    return {
        "M": M.tolist(),
        "Q": Q.tolist(),
        "cosine": (M / Q.diagonal()[:, None] ** 0.5).tolist(),
        "train_loss": train,
        "population_loss": population,
        "generalisation": population - train,
    }
""".strip("\n")


def _trial(scenario: BatchReuse) -> str:
    mask = {
        "cycle": "        used = 1.0 * (np.arange(n) % batches == t % batches)",
        "replacement": "        used = 1.0 * (rng.random(n) * batches < 1)",
    }.get(scenario.data if scenario.batches > 1 else "")
    velocity = f"{'momentum * V + ' if scenario.momentum else ''}G{' + decay * W' if scenario.decay else ''}"
    return lines(
        "def trial(rng):",
        "    Wstar = np.linalg.qr(rng.standard_normal((d, k)))[0].T * d**0.5  #"
        " directions of the target, |w*|^2 = d",
        "    across = rng.standard_normal((p, d))",
        "    across = across - across @ Wstar.T @ Wstar / d",
        "    W = M0 @ Wstar + root @ np.linalg.qr(across.T)[0].T * d**0.5",
        "    a, Z = a0, rng.standard_normal((tests, d))",
        scenario.momentum > 0 and "    V = 0",
        "    X, y = draw(rng, Wstar)",
        "    path = [measure(rng, W, a, X, y, Wstar, Z)]",
        "    for t, rate in enumerate(rates):",
        mask,
        f"        G, slopes = gradients(W, a, X, y{', used' if mask else ''})",
        f"        V = {velocity}",
        "        W = W - rate * V",
        scenario.constraint == "spherical"
        and "        W = W * (d / (W**2).sum(1)[:, None]) ** 0.5",
        scenario.second_layer_rate > 0
        and f"        a = a - {number(scenario.second_layer_rate)} * slopes",
        scenario.data == "fresh"
        and "        X, y = draw(rng, Wstar)  # new samples for every step",
        "        path.append(measure(rng, W, a, X, y, Wstar, Z))",
        "    return {name: [values[name] for values in path] for name in VARIABLES}",
    )
