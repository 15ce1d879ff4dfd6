"""A network's experiment as a program of its own: data, first layer, steps, read-out,
in NumPy or with autograd.

The text is written for NumPy. What PyTorch calls otherwise is translated
(`giantstep.core.scenario.program.to_torch`); the gradient of the first layer is its own text in
each: written out here, that of autograd there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.maths.gaussian.source import Language
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.program import (
    Program,
    activation_source,
    lines,
    number,
    target_source,
    to_torch,
)
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.network.preset import Preset
from giantstep.problems.network.scenario import Network

POPULATION = 500
"""Samples per dimension of a gradient that stands for the population's: its noise moves
errors by about 0.1%.
"""
_WRITTEN = "where a script is written"
_STEPS = {
    "none": "no_step",
    "maximal": "maximal_step",
    "planted": "planted_spike",
    "shifts": "planted_shifts",
}
"""Kinds of steps that have a text -> the function that makes them."""
_USUAL = {"momentum": 0.0, "weight_decay": 0.0, "loss": "square"}
"""Fields of a maximal step that are left out of the program where all steps have these
values.
"""


def program(scenario: Scenario, dim: int, lang: Language) -> Program:
    """Return the program of a network or of one of its presets."""
    if isinstance(scenario, Preset):
        network = scenario.network()
        with scenario.errors_of_preset():
            return _program(network, scenario, dim, lang)
    assert isinstance(scenario, Network)
    return _program(scenario, scenario, dim, lang)


def _program(network: Network, shown: Scenario, dim: int, lang: Language) -> Program:
    _check(network, dim)
    declared = {
        variable.name: variable
        for variable in next(iter(shown.questions.values())).variables
    }
    variables = ["test_error", "train_error", "objective", "norm", "Q2"]
    if network.class_direction is None:
        variables += []
    else:
        variables += ["test_misclassified"]
    if network.target.directions == 1:
        variables += ["t", "psi", "Q1"]
    else:
        variables += []
    variables = [name for name in variables if name in declared]
    timed = "time" in declared["test_error"].dims
    shifted = isinstance(shown, Preset) and any(
        step.kind == "shifts" for step in network.steps
    )
    # shifts of a preset stand in the place of time 0
    times = 1 if shifted else len(network.steps) + 1
    if timed:
        kept = f"[values[name] for values in path[-{times}:]]"
    else:
        kept = "path[-1][name]"
    texts = [_functions(network, lang, variables), _trial(network, kept, variables)]
    functions, trial = [to_torch(text) if lang == "torch" else text for text in texts]
    blocks = range(1, network.blocks + 1)
    return Program(
        sizes=_sizes(network, dim, lang),
        functions=functions,
        trial=trial,
        variables=variables,
        index={
            **({"time": range(times)} if timed else {}),
            "block": blocks,
            "block_2": blocks,
        },
        imports=[
            "from types import SimpleNamespace",
            *(
                ["from scipy.optimize import minimize"]
                if network.readout.classes and lang == "numpy"
                else []
            ),
        ],
    )


def _check(network: Network, dim: int) -> None:
    """Refuse what the program does not cover."""
    if network.inputs is not None:
        raise bad_field("inputs", network.inputs.kind, f"left out {_WRITTEN}")
    if network.readout.kind == "hinge":
        raise bad_field("readout.kind", "hinge", f"another one {_WRITTEN}")
    for place, step in enumerate(network.steps):
        if step.kind not in _STEPS:
            raise bad_field(
                f"steps.{place}.kind",
                step.kind,
                f"one of {', '.join(_STEPS)} {_WRITTEN}",
            )
        if step.kind == "planted" and not isinstance(network.second_layer, Vocabulary):
            raise bad_field(
                "second_layer",
                "gaussian",
                f"a Vocabulary {_WRITTEN} and a spike is planted",
            )
    if network.shift is not None:
        raise bad_field("shift", network.shift, f"left out {_WRITTEN}")
    if dim <= network.target.directions:
        raise bad_field(
            "dim",
            dim,
            f"above {network.target.directions}, the number of target directions",
        )


def _sizes(network: Network, dim: int, lang: Language) -> dict[str, tuple[str, str]]:
    width = max(1, round(network.width_per_dim * dim))
    sizes = {
        "p": (str(width), f"neurons, p/d = {network.width_per_dim:g}"),
        "n": (
            str(max(1, round(network.samples_per_dim * dim))),
            f"samples, n/d = {network.samples_per_dim:g}",
        ),
        "r": (str(network.target.directions), "directions of the target"),
        **(
            {}
            if network.readout.classes
            else {
                "noise": (number(network.noise), "delta, variance of the label noise")
            }
        ),
        **(
            {"flip": (number(network.flip), "probability of a flipped class")}
            if network.flip
            else {}
        ),
        "ridge": (number(network.readout.ridge), "lambda, penalty of the fit"),
        "tests": ("10_000", "samples of the test"),
    }
    if any(math.isinf(getattr(step, "batch_per_dim", 0.0)) for step in network.steps):
        sizes["population"] = (
            f"{POPULATION} * d",
            "samples of a gradient that stands for the population's",
        )
    law = network.second_layer
    edges = [0, width]
    if isinstance(law, Vocabulary):
        edges = (
            np.rint(np.cumsum((0.0, *law.probabilities)) * width).astype(int).tolist()
        )
        values = " + ".join(
            f"[{float(v)!r}] * {b - a}" for v, a, b in zip(law.values, edges, edges[1:])
        )
        array = "torch.tensor" if lang == "torch" else "np.array"
        sizes["zeta"] = (f"{array}({values})", "second layer during the steps")
    slices = ", ".join(f"slice({a}, {b})" for a, b in zip(edges, edges[1:]))
    sizes["BLOCKS"] = (f"[{slices}]", "neurons with the same zeta")
    return sizes


# -- functions -------------------------------------------------------------------------

_NO_STEP = """
def no_step(rng, net, Wstar):
    pass
"""
_SPIKE = """
def planted_spike(rng, net, Wstar, strength, bulk, gamma):  # w_i <- s_q w_i + u_q v, <v, w*> = gamma
    if net.spike is None:
        u = rng.standard_normal(d)
        u = u - Wstar.T @ (Wstar @ u)
        net.v = net.spike = gamma * Wstar[0] + (1 - gamma**2) ** 0.5 * u / (u @ u) ** 0.5
    net.W = np.concatenate([s * net.W[b] + u * net.spike for b, u, s in zip(BLOCKS, strength, bulk)])
"""
_SHIFTS = """
def planted_shifts(rng, net, Wstar, shifts, bulk):  # w_i <- s_q w_i + W*^T U_q
    net.W = np.concatenate([s * net.W[b] + np.array(U) @ Wstar for b, U, s in zip(BLOCKS, shifts, bulk)])
"""
_LOGISTIC = {
    "numpy": (
        """
def fit(Phi, y):  # argmin of sum log(1 + exp(-y Phi a)) + ridge |a|^2 / 2
    def objective(a):
        margins = y * (Phi @ a)
        slopes = ridge * a - Phi.T @ (y / (1 + np.exp(margins)))
        return np.logaddexp(0, -margins).sum() + ridge / 2 * (a @ a), slopes
    return minimize(objective, np.zeros(p), jac=True, method="L-BFGS-B", options=dict(maxiter=10**5, ftol=1e-15)).x
"""
    ),
    "torch": (
        """
def fit(Phi, y):  # argmin of sum log(1 + exp(-y Phi a)) + ridge |a|^2 / 2
    a = torch.zeros(p, requires_grad=True)
    descent = torch.optim.LBFGS([a], max_iter=10_000, tolerance_grad=1e-8, line_search_fn="strong_wolfe")
    def objective():
        loss = torch.nn.functional.softplus(-y * (Phi @ a)).sum() + ridge / 2 * (a @ a)
        (a.grad,) = torch.autograd.grad(loss, a)
        return loss
    descent.step(objective)
    return a.detach()
"""
    ),
}
_GRADIENT = {
    "numpy": (
        """\
        U = X @ net.W.T
        residual = y - activation(U) @ net.zeta / p
        G = G + net.zeta[:, None] * ((slope(U) * residual[:, None]).T @ X) / n0"""
    ),
    "torch": (
        """\
        W = net.W.clone().requires_grad_()
        f = activation(X @ W.T) @ net.zeta / p
        residual = y - f.detach()
        G = G + p / n0 * torch.autograd.grad((residual * f).sum(), W)[0]"""
    ),
}


def _functions(network: Network, lang: Language, variables: list[str]) -> str:
    kinds = {step.kind for step in network.steps}
    activation = activation_source(
        network.activation, lang, slope="maximal" in kinds and lang == "numpy"
    )
    texts = {
        "none": _NO_STEP,
        "maximal": _maximal(network, lang, variables),
        "planted": _SPIKE,
        "shifts": _SHIFTS,
    }
    parts = [target_source(network.target, lang) + activation + _draw(network)]
    parts += [text for kind, text in texts.items() if kind in kinds]
    if network.readout.kind == "logistic":
        parts += [_LOGISTIC[lang]]
    else:
        parts += []
    return "\n\n\n".join(part.strip("\n") for part in parts)


def _draw(network: Network) -> str:
    value = "target(X @ Wstar.T)"
    if network.noise:
        value += " + noise**0.5 * rng.standard_normal(count)"
    if network.flip:
        value += " * np.where(rng.random(count) < flip, -1.0, 1.0)"
    return lines(
        "def draw(rng, Wstar, count):  # x ~ N(0, I), y = g(W* x) + noise",
        "    X = rng.standard_normal((count, d))",
        f"    return X, {value}",
    )


def _options(network: Network) -> list[str]:
    """Return the fields in which some maximal step is not the usual one."""
    return [
        name
        for name, usual in _USUAL.items()
        if any(getattr(s, name, usual) != usual for s in network.steps)
    ]


def _spiked(network: Network, variables: list[str]) -> bool:
    """Tell whether the rows of the bulk are those after a step on a finite batch,
    without its spike.
    """
    batches = [getattr(step, "batch_per_dim", math.inf) for step in network.steps]
    return "t" in variables and len(batches) == 1 and math.isfinite(batches[0])


def _maximal(network: Network, lang: Language, variables: list[str]) -> str:
    """Return the text of a maximal step: along minus p times the gradient of the
    loss.
    """
    options = _options(network)
    spike = _spiked(network, variables)
    c1 = float(network.activation.hermite(1)[1])
    arguments = ["rng", "net", "Wstar", "rate", "n0", *options]
    gradient = _GRADIENT[lang]
    drawn = "draw(rng, Wstar, min(10_000, n0 - start))"
    if network.fit_sample == "same":
        arguments.append("sample=None")
        drawn = (
            f"[part[start : start + 10_000] for part in sample] if sample else {drawn}"
        )
    if "loss" in options:
        gradient = gradient.replace(
            "residual = y - ", 'residual = y - (loss == "square") * '
        )
    return lines(
        f"def maximal_step({', '.join(arguments)}):  # eta_raw = rate * p",
        f"    G{', beta' if spike else ''} = {'0, 0' if spike else '0'}",
        "    for start in range(0, n0, 10_000):  # zeta_i (1/n0) sum (y - f)"
        " sigma'(<w_i, x>) x, in pieces",
        f"        X, y = {drawn}",
        gradient,
        spike and "        beta = beta + X.T @ residual / n0",
        "momentum" in options and "    G = net.velocity = momentum * net.velocity + G",
        "    net.W ="
        f" {'(1 - weight_decay) * ' if 'weight_decay' in options else ''}net.W +"
        " rate * G",
        spike and f"    c1 = {c1!r}  # E sigma'(z)",
        spike
        and "    net.bulk, net.v = net.W - rate * c1 * np.outer(net.zeta, beta), beta / (beta @ beta)**0.5",
    )


# -- one trial -------------------------------------------------------------------------


def _step(network: Network, step: Any) -> str:
    """Return the text of one step: its function and what it is called with."""
    options = {}
    if isinstance(network.second_layer, Vocabulary):
        values = list(network.second_layer.values)
    else:
        values = [1.0]
    if step.kind == "maximal":
        finite = f"max(1, round({number(step.batch_per_dim)} * d))"
        options = {
            "rate": number(step.rate),
            "n0": "population" if math.isinf(step.batch_per_dim) else finite,
        }
        for name in _options(network):
            if name == "loss":
                options[name] = repr(step.loss)
            else:
                options[name] = number(getattr(step, name))
    elif step.kind == "planted":
        if isinstance(step.strength, float):
            strength = np.multiply(step.strength, values)
        else:
            strength = step.strength
        bulk = np.broadcast_to(step.bulk, len(values)).tolist()
        options = {
            "strength": number(strength),
            "bulk": number(bulk),
            "gamma": number(step.alignment),
        }
    elif step.kind == "shifts":
        options = {
            "shifts": number(np.asarray(step.shifts)),
            "bulk": number(step.bulk or [1.0] * network.blocks),
        }
    return (
        f"({_STEPS[step.kind]},"
        f" dict({', '.join(f'{key}={value}' for key, value in options.items())}))"
    )


def _trial(network: Network, kept: str, variables: list[str]) -> str:
    """Return the text of one trial; `kept` is what it keeps of a variable on the
    path.
    """
    gaussian = not isinstance(network.second_layer, Vocabulary)
    state = ["W=W", f"zeta={'rng.standard_normal(p)' if gaussian else 'zeta'}"]
    state += ["velocity=0"] if "momentum" in _options(network) else []
    state += ["bulk=W", "v=Wstar[0]"] if "t" in variables else []
    if any(step.kind == "planted" for step in network.steps):
        state += ["spike=None"]
    else:
        state += []
    made = [
        "    for step, options in STEPS:",
        "        step(rng, net, Wstar, **options)",
    ]
    if network.fit_sample == "same":
        made = [
            "    for number, (step, options) in enumerate(STEPS, 1):",
            (
                "        own = dict(sample=(X, y)) if number == len(STEPS) else {}  #"
                " the last step sees the fit's"
            ),
            "        step(rng, net, Wstar, **options, **own)",
        ]
    return lines(
        "STEPS = [  # what happens to the first layer",
        *(f"    {_step(network, step)}," for step in network.steps),
        "]\n\n",
        _measure(network, variables),
        "\n",
        "def trial(rng):",
        "    Wstar = np.linalg.qr(rng.standard_normal((d, r)))[0].T  # directions of"
        " the target",
        "    W = rng.standard_normal((p, d))",
        (
            "    W = W / (W**2).sum(1)[:, None] ** 0.5"
            if network.rows == "sphere"
            else "    W = W / d**0.5"
        ),
        f"    net = SimpleNamespace({', '.join(state)})",
        "    (X, y), Z = draw(rng, Wstar, n), rng.standard_normal((tests, d))  # the"
        " same after every step",
        "    path = [measure(rng, net, Wstar, X, y, Z)]",
        *made,
        "        path.append(measure(rng, net, Wstar, X, y, Z))",
        f"    return {{name: {kept} for name in VARIABLES}}",
    )


def _measure(network: Network, variables: list[str]) -> str:
    """Return the text of the fit and of what is measured of it."""
    classes = network.readout.classes
    rows = "t" in variables
    ridge = "np.linalg.solve(Phi.T @ Phi + ridge * np.eye(p), Phi.T @ y)"
    if classes:
        fitted = "fit(Phi, y)"
    elif network.readout.ridge:
        fitted = ridge
    else:
        fitted = "np.linalg.pinv(Phi) @ y"
    truth = "target(Z @ Wstar.T)"
    side = "Z @ Wstar[0]" if network.target.directions == 1 else truth
    values = {
        "test_error": f"(({truth} - f) ** 2).mean() + noise",
        "train_error": "((y - Phi @ a) ** 2).mean()",
        "objective": "(((y - Phi @ a) ** 2).sum() + ridge * (a @ a)) / n",
        "test_misclassified": f"(f * ({side}) < 0).sum() / tests",
        "norm": "(a @ a) / p",
        "Q2": "[(a[b] @ a[b]) / p for b in BLOCKS]",
        "t": "[s @ net.v for s in sums]",
        "psi": "[s @ u / (u @ u) ** 0.5 for s in sums]",
        "Q1": "[[s @ q - (s @ net.v) * (q @ net.v) for q in sums] for s in sums]",
    }
    if classes:
        turned = "(1 - 2 * flip) * wrong + flip" if network.flip else "wrong"
        objective = "(np.log1p(np.exp(-y * (Phi @ a))).sum() + ridge / 2 * (a @ a)) / n"
        values |= {
            "test_error": turned.replace("wrong", values["test_misclassified"]),
            "objective": objective,
        }
        values["train_error"] = "(y * (Phi @ a) < 0).sum() / n"
    return lines(
        "def measure(rng, net, Wstar, X, y, Z):  # fit the second layer a on (X, y),"
        " test it on Z",
        "    Phi = activation(X @ net.W.T) / p**0.5",
        f"    a = {fitted}",
        "    f = activation(Z @ net.W.T) @ a / p**0.5",
        rows
        and "    sums = [a[b] @ net.bulk[b] / p**0.5 for b in BLOCKS]  # of the rows w0_i, or of the bulk's",
        rows
        and "    u = Wstar[0] - (Wstar[0] @ net.v) * net.v  # w* across the spike v, or anything across v = w*",
        rows
        and "    u = (u if u @ u > 1e-12 else rng.standard_normal(d)) @ (np.eye(d) - np.outer(net.v, net.v))",
        "    return {",
        *(f'        "{name}": {values[name]},' for name in variables),
        "    }",
    )
