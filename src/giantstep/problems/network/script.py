"""A network's experiment as a program of its own: data, first layer, steps, read-out,
in NumPy or with autograd.

The text is written for NumPy. What PyTorch calls otherwise is translated
(`giantstep.core.scenario.program.to_torch`). The gradient of the first layer has a text
for each: it is written out in NumPy, and taken by autograd in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
from giantstep.problems.network.steps import MaximalStep, PlantedShifts, PlantedSpike

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
        # what is refused has the names of the preset's fields
        with scenario.errors_of_preset():
            return _program(network, scenario, dim, lang)
    assert isinstance(scenario, Network)
    return _program(scenario, scenario, dim, lang)


def _program(network: Network, shown: Scenario, dim: int, lang: Language) -> Program:
    """Return the program of a network that has the variables of a scenario: its own, or
    the preset that means it.
    """
    _check(network, dim)
    # a program measures the errors, the first question
    first_question = next(iter(shown.questions.values()))
    declared = {variable.name: variable for variable in first_question.variables}
    variables = [name for name in _measured(network) if name in declared]
    blocks = range(1, network.blocks + 1)
    index: dict[str, range] = {}
    # without a time the values are those after the last step
    kept = "path[-1][name]"
    if "time" in declared["test_error"].dims:
        times = _count_times(network, shown)
        index["time"] = range(times)
        kept = f"[values[name] for values in path[-{times}:]]"
    index["block"] = blocks
    index["block_2"] = blocks
    functions = _functions(network, lang, variables)
    trial = _trial(network, kept, variables)
    if lang == "torch":
        functions = to_torch(functions)
        trial = to_torch(trial)
    imports = ["from types import SimpleNamespace"]
    # PyTorch has a minimiser of its own
    if network.readout.classes and lang == "numpy":
        imports.append("from scipy.optimize import minimize")
    return Program(
        sizes=_sizes(network, dim, lang),
        functions=functions,
        trial=trial,
        variables=variables,
        index=index,
        imports=imports,
    )


def _measured(network: Network) -> list[str]:
    """Return the variables that are defined for a network and that a program knows."""
    variables = ["test_error", "train_error", "objective", "norm", "Q2"]
    if network.class_direction is not None:
        variables.append("test_misclassified")
    if network.target.directions == 1:
        variables += ["t", "psi", "Q1"]
    return variables


def _count_times(network: Network, shown: Scenario) -> int:
    """Return how many times are shown: shifts of a preset stand in the place of
    time 0.
    """
    has_shifts = any(step.kind == "shifts" for step in network.steps)
    if has_shifts and isinstance(shown, Preset):
        return 1
    return len(network.steps) + 1


def _check(network: Network, dim: int) -> None:
    """Refuse what the program does not cover."""
    if network.inputs is not None:
        raise bad_field("inputs", network.inputs.kind, f"left out {_WRITTEN}")
    if network.readout.kind == "hinge":
        raise bad_field("readout.kind", "hinge", f"another one {_WRITTEN}")
    for place, step in enumerate(network.steps):
        if step.kind not in _STEPS:
            allowed = f"one of {', '.join(_STEPS)} {_WRITTEN}"
            raise bad_field(f"steps.{place}.kind", step.kind, allowed)
        if step.kind == "planted" and not isinstance(network.second_layer, Vocabulary):
            allowed = f"a Vocabulary {_WRITTEN} and a spike is planted"
            raise bad_field("second_layer", "gaussian", allowed)
    if network.shift is not None:
        raise bad_field("shift", network.shift, f"left out {_WRITTEN}")
    directions = network.target.directions
    if dim <= directions:
        allowed = f"above {directions}, the number of target directions"
        raise bad_field("dim", dim, allowed)


def _sizes(network: Network, dim: int, lang: Language) -> dict[str, tuple[str, str]]:
    """Return the numbers of the program: name -> (source text, what it is)."""
    width = max(1, round(network.width_per_dim * dim))
    samples = max(1, round(network.samples_per_dim * dim))
    sizes = {
        "p": (str(width), f"neurons, p/d = {network.width_per_dim:g}"),
        "n": (str(samples), f"samples, n/d = {network.samples_per_dim:g}"),
        "r": (str(network.target.directions), "directions of the target"),
    }
    if not network.readout.classes:
        text = "delta, variance of the label noise"
        sizes["noise"] = (number(network.noise), text)
    if network.flip:
        sizes["flip"] = (number(network.flip), "probability of a flipped class")
    sizes["ridge"] = (number(network.readout.ridge), "lambda, penalty of the fit")
    sizes["tests"] = ("10_000", "samples of the test")
    # planted steps have no batch
    if any(math.isinf(getattr(step, "batch_per_dim", 0.0)) for step in network.steps):
        text = "samples of a gradient that stands for the population's"
        sizes["population"] = (f"{POPULATION} * d", text)
    return sizes | _block_sizes(network, width, lang)


def _block_sizes(
    network: Network, width: int, lang: Language
) -> dict[str, tuple[str, str]]:
    """Return the second layer during the steps, where it is no random one, and which
    neurons have the same value.
    """
    sizes = {}
    law = network.second_layer
    if isinstance(law, Vocabulary):
        # as `split_neurons` has them
        edges = np.rint(np.cumsum((0.0, *law.probabilities)) * width).astype(int)
        counts = np.diff(edges).tolist()
        values = " + ".join(
            f"[{float(value)!r}] * {count}" for value, count in zip(law.values, counts)
        )
        array = "torch.tensor" if lang == "torch" else "np.array"
        sizes["zeta"] = (f"{array}({values})", "second layer during the steps")
        limits = edges.tolist()
    else:
        # a Gaussian second layer is one block of unlike neurons
        limits = [0, width]
    slices = [f"slice({start}, {stop})" for start, stop in zip(limits, limits[1:])]
    sizes["BLOCKS"] = (f"[{', '.join(slices)}]", "neurons with the same zeta")
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
    """Return the text of target, activation, samples, steps and fit."""
    kinds = {step.kind for step in network.steps}
    # PyTorch takes the slope by itself
    needs_slope = "maximal" in kinds and lang == "numpy"
    target = target_source(network.target, lang)
    activation = activation_source(network.activation, lang, slope=needs_slope)
    parts = [target + activation + _draw(network)]
    texts = {
        "none": _NO_STEP,
        "maximal": _maximal(network, lang, variables),
        "planted": _SPIKE,
        "shifts": _SHIFTS,
    }
    # only what the steps of this network call
    parts += [text for kind, text in texts.items() if kind in kinds]
    if network.readout.kind == "logistic":
        parts.append(_LOGISTIC[lang])
    return "\n\n\n".join(part.strip("\n") for part in parts)


def _draw(network: Network) -> str:
    """Return the text of a sample of inputs and labels."""
    value = "target(X @ Wstar.T)"
    if network.noise:
        value += " + noise**0.5 * rng.standard_normal(count)"
    if network.flip:
        # labels are classes: a product with -1 flips them
        value += " * np.where(rng.random(count) < flip, -1.0, 1.0)"
    return lines(
        "def draw(rng, Wstar, count):  # x ~ N(0, I), y = g(W* x) + noise",
        "    X = rng.standard_normal((count, d))",
        f"    return X, {value}",
    )


def _options(network: Network) -> list[str]:
    """Return the fields in which some maximal step is not the usual one."""
    options = []
    for name, usual in _USUAL.items():
        # steps of other kinds do not have these fields
        values = [getattr(step, name, usual) for step in network.steps]
        if any(value != usual for value in values):
            options.append(name)
    return options


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
    arguments = ["rng", "net", "Wstar", "rate", "n0", *options]
    drawn = "draw(rng, Wstar, min(10_000, n0 - start))"
    if network.fit_sample == "same":
        # the last step takes the sample of the fit, the others draw one
        arguments.append("sample=None")
        pieces = "[part[start : start + 10_000] for part in sample]"
        drawn = f"{pieces} if sample else {drawn}"
    gradient = _GRADIENT[lang]
    if "loss" in options:
        # the correlation loss leaves the output out of the residual
        gradient = gradient.replace(
            "residual = y - ", 'residual = y - (loss == "square") * '
        )
    shrunk = "(1 - weight_decay) * " if "weight_decay" in options else ""
    text = [
        f"def maximal_step({', '.join(arguments)}):  # eta_raw = rate * p",
        "    G, beta = 0, 0" if spike else "    G = 0",
        "    for start in range(0, n0, 10_000):  # zeta_i (1/n0) sum (y - f)"
        " sigma'(<w_i, x>) x, in pieces",
        f"        X, y = {drawn}",
        gradient,
    ]
    if spike:
        # the spike is along X^T (y - f), in all pieces of the batch
        text.append("        beta = beta + X.T @ residual / n0")
    if "momentum" in options:
        # the velocity is the last G, as in the experiment
        text.append("    G = net.velocity = momentum * net.velocity + G")
    text.append(f"    net.W = {shrunk}net.W + rate * G")
    if spike:
        # the leading part of the step is rate zeta_i c1 beta: the bulk is without it
        c1 = float(network.activation.hermite(1)[1])
        text += [
            f"    c1 = {c1!r}  # E sigma'(z)",
            "    net.bulk, net.v = net.W - rate * c1 * np.outer(net.zeta, beta),"
            " beta / (beta @ beta)**0.5",
        ]
    return lines(*text)


# -- one trial -------------------------------------------------------------------------


def _step(network: Network, step: Any) -> str:
    """Return the text of one step: its function and what it is called with."""
    options = _OPTIONS_OF[step.kind](network, step)
    arguments = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"({_STEPS[step.kind]}, dict({arguments}))"


def _maximal_options(network: Network, step: MaximalStep) -> dict[str, str]:
    """Return what a maximal step is called with."""
    if math.isinf(step.batch_per_dim):
        batch = "population"
    else:
        batch = f"max(1, round({number(step.batch_per_dim)} * d))"
    options = {"rate": number(step.rate), "n0": batch}
    for name in _options(network):
        if name == "loss":
            options[name] = repr(step.loss)
        else:
            options[name] = number(getattr(step, name))
    return options


def _spike_options(network: Network, step: PlantedSpike) -> dict[str, str]:
    """Return what a planted spike is called with: one strength and bulk per block."""
    law = network.second_layer
    assert isinstance(law, Vocabulary)
    if isinstance(step.strength, float):
        # one number is in units of the second layer
        strength = np.multiply(step.strength, law.values)
    else:
        strength = np.asarray(step.strength)
    return {
        "strength": number(strength),
        "bulk": number(np.broadcast_to(step.bulk, len(law.values)).tolist()),
        "gamma": number(step.alignment),
    }


def _shift_options(network: Network, step: PlantedShifts) -> dict[str, str]:
    """Return what planted shifts are called with."""
    return {
        "shifts": number(np.asarray(step.shifts)),
        "bulk": number(step.bulk or [1.0] * network.blocks),
    }


_OPTIONS_OF: dict[str, Callable[[Network, Any], dict[str, str]]] = {
    "none": lambda network, step: {},
    "maximal": _maximal_options,
    "planted": _spike_options,
    "shifts": _shift_options,
}
"""Kind of a step -> its options as source text."""


def _trial(network: Network, kept: str, variables: list[str]) -> str:
    """Return the text of one trial; `kept` is what it keeps of a variable on the
    path.
    """
    if isinstance(network.second_layer, Vocabulary):
        state = ["W=W", "zeta=zeta"]
    else:
        state = ["W=W", "zeta=rng.standard_normal(p)"]
    if "momentum" in _options(network):
        state.append("velocity=0")
    if "t" in variables:
        # before a step the bulk is all, and the spike is w*
        state += ["bulk=W", "v=Wstar[0]"]
    if any(step.kind == "planted" for step in network.steps):
        # drawn by the first step that plants it: all spikes are one
        state.append("spike=None")
    if network.rows == "sphere":
        length = "(W**2).sum(1)[:, None] ** 0.5"
    else:
        length = "d**0.5"
    steps = [
        "    for step, options in STEPS:",
        "        step(rng, net, Wstar, **options)",
    ]
    if network.fit_sample == "same":
        steps = [
            "    for number, (step, options) in enumerate(STEPS, 1):",
            "        own = dict(sample=(X, y)) if number == len(STEPS) else {}  # the"
            " last step sees the fit's",
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
        f"    W = W / {length}",
        f"    net = SimpleNamespace({', '.join(state)})",
        "    (X, y), Z = draw(rng, Wstar, n), rng.standard_normal((tests, d))  # the"
        " same after every step",
        "    path = [measure(rng, net, Wstar, X, y, Z)]",
        *steps,
        "        path.append(measure(rng, net, Wstar, X, y, Z))",
        f"    return {{name: {kept} for name in VARIABLES}}",
    )


def _measure(network: Network, variables: list[str]) -> str:
    """Return the text of the fit and of what is measured of it."""
    if network.readout.classes:
        fitted = "fit(Phi, y)"
    elif network.readout.ridge:
        fitted = "np.linalg.solve(Phi.T @ Phi + ridge * np.eye(p), Phi.T @ y)"
    else:
        # the ridgeless limit: of all fits without error the shortest
        fitted = "np.linalg.pinv(Phi) @ y"
    values = _values(network)
    text = [
        "def measure(rng, net, Wstar, X, y, Z):  # fit the second layer a on (X, y),"
        " test it on Z",
        "    Phi = activation(X @ net.W.T) / p**0.5",
        f"    a = {fitted}",
        "    f = activation(Z @ net.W.T) @ a / p**0.5",
    ]
    if "t" in variables:
        text += [
            "    sums = [a[b] @ net.bulk[b] / p**0.5 for b in BLOCKS]"
            "  # of the rows w0_i, or of the bulk's",
            "    u = Wstar[0] - (Wstar[0] @ net.v) * net.v"
            "  # w* across the spike v, or anything across v = w*",
            "    u = (u if u @ u > 1e-12 else rng.standard_normal(d))"
            " @ (np.eye(d) - np.outer(net.v, net.v))",
        ]
    return lines(
        *text,
        "    return {",
        *(f'        "{name}": {values[name]},' for name in variables),
        "    }",
    )


def _values(network: Network) -> dict[str, str]:
    """Return variable -> its formula in the fit a, its outputs f and features Phi."""
    truth = "target(Z @ Wstar.T)"
    # the class of a sample is the sign of its one direction, or of the target itself
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
    if network.readout.classes:
        wrong = values["test_misclassified"]
        if network.flip:
            # labels of the test are not flipped: flips are counted by their probability
            wrong = f"(1 - 2 * flip) * {wrong} + flip"
        values["test_error"] = wrong
        values["train_error"] = "(y * (Phi @ a) < 0).sum() / n"
        # the penalty of classes has a factor 1/2, that of a ridge fit none
        loss = "np.log1p(np.exp(-y * (Phi @ a))).sum()"
        values["objective"] = f"({loss} + ridge / 2 * (a @ a)) / n"
    return values
