"""A network's experiment as a program of its own: data, first layer, steps, read-out, in NumPy or with autograd.

The text is written for NumPy. What PyTorch calls otherwise is translated (`giantstep.scripts.to_torch`); the gradient
of the first layer is its own text in each: written out here, that of autograd there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.network.preset import Preset
from giantstep.families.network.scenario import Network
from giantstep.gaussian.source import Language
from giantstep.scenario import Scenario
from giantstep.scripts import Program, activation_source, lines, number, target_source, to_torch
from giantstep.vocabulary import Vocabulary

POPULATION = 500
"""Samples per dimension of a gradient that stands for the population's: its noise moves errors by about 0.1%."""
_WRITTEN = "where a script is written"
_STEPS = ("none", "maximal", "small", "growing", "planted", "shifts")
"""Kinds of steps that have a text."""


def program(scenario: Scenario, dim: int, lang: Language) -> Program:
    """Return the program of a network or of one of its presets."""
    if isinstance(scenario, Preset):
        network = scenario.network()
        with scenario.in_own_words(len(network.steps)):
            return _program(network, scenario, dim, lang)
    assert isinstance(scenario, Network)
    return _program(scenario, scenario, dim, lang)


def _program(network: Network, shown: Scenario, dim: int, lang: Language) -> Program:
    _check(network, dim)
    declared = {variable.name: variable for variable in next(iter(shown.questions.values())).variables}
    whole = len(network.steps) + 1
    timed = "time" in declared["test_error"].dims
    times = whole if timed and not _planted_preset(network, shown) else 1
    blocks = range(1, network.blocks + 1)
    one = network.target.directions == 1
    variables = ["test_error", "train_error", "objective", *(["test_misclassified"] if _has_sides(network) else [])]
    variables += ["norm", "Q2", *(["t", "psi", "Q1"] if one else [])]
    variables = [name for name in variables if name in declared]
    end = "" if times == whole and timed else "[values[name]]" if timed else "values[name]"
    texts = [_functions(network, lang), _trial(network, end, variables)]
    functions, trial = [to_torch(text) if lang == "torch" else text for text in texts]
    return Program(
        sizes=_sizes(network, dim, lang),
        functions=functions,
        trial=trial,
        variables=variables,
        index={**({"time": range(times)} if timed else {}), "block": blocks, "block_2": blocks},
        imports=[
            "from types import SimpleNamespace",
            *(["from scipy.optimize import minimize"] if network.readout.classes and lang == "numpy" else []),
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
            raise bad_field(f"steps.{place}.kind", step.kind, f"one of {', '.join(_STEPS)} {_WRITTEN}")
    if network.fit_sample == "same":
        raise bad_field("fit_sample", "same", f'"fresh" {_WRITTEN}')
    if network.shift is not None:
        raise bad_field("shift", network.shift, f"left out {_WRITTEN}")
    if dim <= network.target.directions:
        raise bad_field("dim", dim, f"above {network.target.directions}, the number of target directions")


def _planted_preset(network: Network, shown: Scenario) -> bool:
    """Tell whether shifts stand in the place of time 0."""
    return isinstance(shown, Preset) and len(network.steps) == 1 and network.steps[0].kind == "shifts"


def _has_sides(network: Network) -> bool:
    """Tell whether the sign of an output is right or wrong."""
    return network.class_direction is not None


# -- sizes -----------------------------------------------------------------------------------------------------------


def _sizes(network: Network, dim: int, lang: Language) -> dict[str, tuple[str, str]]:
    width = max(1, round(network.width_per_dim * dim))
    sizes = {
        "p": (str(width), f"neurons, p/d = {network.width_per_dim:g}"),
        "n": (str(max(1, round(network.samples_per_dim * dim))), f"samples, n/d = {network.samples_per_dim:g}"),
        "r": (str(network.target.directions), "directions of the target"),
        **({} if network.readout.classes else {"noise": (number(network.noise), "delta, variance of the label noise")}),
        **({"flip": (number(network.flip), "probability of a flipped class")} if network.flip else {}),
        "ridge": (number(network.readout.ridge), "lambda, penalty of the fit"),
        "tests": ("10_000", "samples of the test"),
    }
    if any(math.isinf(getattr(step, "batch_per_dim", 0.0)) for step in network.steps):
        sizes["population"] = (f"{POPULATION} * d", "samples of a gradient that stands for the population's")
    law = network.second_layer
    if isinstance(law, Vocabulary):
        edges = np.rint(np.cumsum((0.0, *law.probabilities)) * width).astype(int).tolist()
        values = " + ".join(f"[{float(v)!r}] * {b - a}" for v, a, b in zip(law.values, edges, edges[1:]))
        array = "torch.tensor" if lang == "torch" else "np.array"
        sizes["zeta"] = (f"{array}({values})", "second layer during the steps")
    else:
        edges = [0, width]
    slices = ", ".join(f"slice({a}, {b})" for a, b in zip(edges, edges[1:]))
    sizes["BLOCKS"] = (f"[{slices}]", "neurons with the same zeta")
    return sizes


# -- functions -------------------------------------------------------------------------------------------------------


def _functions(network: Network, lang: Language) -> str:
    kinds = {step.kind for step in network.steps}
    learns = bool(kinds & {"maximal", "small", "growing"})
    activation = activation_source(network.activation, lang, slope=learns and lang == "numpy")
    parts = [target_source(network.target, lang) + activation + _draw(network).lstrip("\n")]
    if learns:
        parts.append(_gradient(network, lang))
    if "maximal" in kinds:
        parts.append(_maximal(network))
    if kinds & {"small", "growing"}:
        parts.append(_weak(network))
    if "planted" in kinds:
        parts.append(_SPIKE)
    if "shifts" in kinds:
        parts.append(_SHIFTS)
    if network.readout.kind == "logistic":
        parts.append(_LOGISTIC[lang])
    return "\n\n\n".join(part.strip("\n") for part in parts)


def _draw(network: Network) -> str:
    value = "target(X @ Wstar.T)"
    if network.noise:
        value += " + noise**0.5 * rng.standard_normal(count)"
    if network.flip:
        value += " * np.where(rng.random(count) < flip, -1.0, 1.0)"
    return f"""
def draw(rng, Wstar, count):  # x ~ N(0, I), y = g(W* x) + noise
    X = rng.standard_normal((count, d))
    return X, {value}
"""


def _residuals(network: Network) -> set[tuple[str, str]]:
    """Return what is subtracted from y in the gradients: (constant, factor of the output)."""
    return {_residual(network, step) for step in network.steps if hasattr(step, "batch_per_dim")}


def _residual(network: Network, step: Any) -> tuple[str, str]:
    if step.kind == "maximal":
        return ("0", "1" if step.loss == "square" else "0")
    if step.initial_output == 1:
        return ("0", "p**0.5")
    mean = network.layer_moments()[0]
    return (number(float(network.activation.hermite(0)[0]) * mean) if mean else "0", "0")


def _spiked(network: Network) -> bool:
    """Tell whether the rows of the bulk are those after a step, without its spike."""
    if network.target.directions > 1 or not network.steps:
        return False
    only = network.steps[0]
    batch = only.kind == "maximal" and len(network.steps) == 1 and math.isfinite(only.batch_per_dim)
    return batch or any(step.kind in ("small", "growing") for step in network.steps)


def _needs_spike(network: Network) -> bool:
    weak = [step for step in network.steps if step.kind in ("small", "growing")]
    return _spiked(network) or any(step.update == "rank-one" for step in weak)


def _gradient(network: Network, lang: Language) -> str:
    """Return the text of minus p times the gradient of the loss, and of X^T residual/n0 where it is needed."""
    kinds, spike = _residuals(network), _needs_spike(network)
    ((constant, factor),) = kinds if len(kinds) == 1 else [("shift", "factor")]
    options = ", shift, factor" if len(kinds) > 1 else ""
    taken = " - ".join(["y", *([constant] if constant != "0" else [])])
    residual = taken if factor == "0" else f"{taken} - f" if factor == "1" else f"{taken} - {factor} * f"
    if lang == "torch":
        output = "activation(X @ W.T) @ net.zeta / p"
        if (constant, factor) == ("0", "1"):
            loss, lines_of_residual = "(residual**2).sum() / 2", [f"residual = y - {output}"]
        else:
            loss, lines_of_residual = "-(residual.detach() * f).sum()", [f"f = {output}", f"residual = {residual}"]
        inside = "".join(
            f"        {line}\n"
            for line in (
                "W = net.W.clone().requires_grad_()",
                *lines_of_residual,
                f"G = G - p / n0 * torch.autograd.grad({loss}, W)[0]",
            )
        )
    else:
        inside = (
            "        U = X @ net.W.T\n"
            + ("" if factor == "0" else "        f = activation(U) @ net.zeta / p\n")
            + f"        residual = {residual}\n"
            "        G = G + net.zeta[:, None] * ((slope(U) * residual[:, None]).T @ X) / n0\n"
        )
    if spike:
        inside += f"        beta = beta + X.T @ residual{'.detach()' if lang == 'torch' else ''} / n0\n"
    said = "  # zeta_i (1/n0) sum (y - f) sigma'(<w_i, x>) x, row by row"
    return (
        f"def gradient(rng, net, Wstar, n0{options}):{said}\n"
        f"    G{', beta' if spike else ''} = {'0, 0' if spike else '0'}\n"
        "    for start in range(0, n0, 10_000):  # in pieces that fit into memory\n"
        "        X, y = draw(rng, Wstar, min(10_000, n0 - start))\n"
        f"{inside}"
        f"    return {'G, beta' if spike else 'G'}\n"
    )


def _passed(network: Network) -> str:
    """Return what a step hands on to the gradient where steps differ in it."""
    return ", shift, factor" if len(_residuals(network)) > 1 else ""


def _maximal(network: Network) -> str:
    steps = [step for step in network.steps if step.kind == "maximal"]
    momentum, decay = any(step.momentum for step in steps), any(step.weight_decay for step in steps)
    more, spike = _passed(network), _needs_spike(network)
    options = f"{', momentum' if momentum else ''}{', decay' if decay else ''}{more}"
    tracked = _spiked(network) and len(network.steps) == 1
    return lines(
        f"def maximal_step(rng, net, Wstar, rate, n0{options}):  # eta_raw = rate * p",
        f"    {'G, beta' if spike else 'G'} = gradient(rng, net, Wstar, n0{more})",
        momentum and "    G = net.velocity = momentum * net.velocity + G",
        f"    net.W = {'(1 - decay) * ' if decay else ''}net.W + rate * G",
        tracked and "    net.bulk, net.v = net.W - rate * c1 * np.outer(net.zeta, beta), beta / (beta @ beta)**0.5",
    )


def _weak(network: Network) -> str:
    steps = [step for step in network.steps if step.kind in ("small", "growing")]
    more, updates = _passed(network), {step.update for step in steps}
    chosen = "G" if updates == {"exact"} else "c1 * np.outer(net.zeta, beta)"
    if len(updates) > 1:
        raise bad_field("steps.update", "rank-one", f"the same in all small and growing steps {_WRITTEN}")
    spike = _needs_spike(network)
    return lines(
        f"def small_step(rng, net, Wstar, size, n0{more}):  # eta_raw = size * p",
        f"    {'G, beta' if spike else 'G'} = gradient(rng, net, Wstar, n0{more})",
        f"    net.W = net.W + size * {chosen}",
        _spiked(network)
        and "    net.bulk, net.v = net.W - size * c1 * np.outer(net.zeta, beta), beta / (beta @ beta)**0.5",
    )


_SPIKE = """
def planted_spike(rng, net, Wstar, strength, bulk, gamma):  # w_i <- s_q w_i + u_q v, <v, w*> = gamma
    if net.spike is None:
        u = rng.standard_normal(d)
        u = u - Wstar.T @ (Wstar @ u)
        net.spike = gamma * Wstar[0] + (1 - gamma**2) ** 0.5 * u / (u @ u) ** 0.5
    net.W = np.array(bulk)[:, None] * net.W + np.outer(np.array(strength), net.spike)
    net.v = net.spike
"""
_SHIFTS = """
def planted_shifts(rng, net, Wstar, shifts, bulk):  # w_i <- s_q w_i + W*^T U_q
    net.W = np.concatenate([s * net.W[b] + np.array(U) @ Wstar for b, U, s in zip(BLOCKS, shifts, bulk)])
"""
_LOGISTIC = {
    "numpy": """
def fit(Phi, y):  # argmin of sum log(1 + exp(-y Phi a)) + ridge |a|^2 / 2
    def objective(a):
        margins = y * (Phi @ a)
        slopes = ridge * a - Phi.T @ (y / (1 + np.exp(margins)))
        return np.logaddexp(0, -margins).sum() + ridge / 2 * (a @ a), slopes
    return minimize(objective, np.zeros(p), jac=True, method="L-BFGS-B", options=dict(maxiter=10**5, ftol=1e-15)).x
""",
    "torch": """
def fit(Phi, y):  # argmin of sum log(1 + exp(-y Phi a)) + ridge |a|^2 / 2
    a = torch.zeros(p, requires_grad=True)
    descent = torch.optim.LBFGS([a], max_iter=10_000, tolerance_grad=1e-8, line_search_fn="strong_wolfe")
    def objective():
        loss = torch.nn.functional.softplus(-y * (Phi @ a)).sum() + ridge / 2 * (a @ a)
        (a.grad,) = torch.autograd.grad(loss, a)
        return loss
    descent.step(objective)
    return a.detach()
""",
}


# -- one trial ---------------------------------------------------------------------------------------------------------


def _steps(network: Network) -> str:
    rows = [_step(network, place) for place in range(len(network.steps))]
    line = f"STEPS = [{', '.join(rows)}]  # what happens to the first layer"
    if len(rows) < 2 or len(line) <= 150:
        return line
    entries = "".join(f"    {row},\n" for row in rows)
    return f"STEPS = [  # what happens to the first layer, in this order\n{entries}]"


def _step(network: Network, place: int) -> str:
    step: Any = network.steps[place]
    options: dict[str, str] = {}
    if step.kind == "none":
        return "(lambda *state: None, {})"
    name = {"maximal": "maximal_step", "planted": "planted_spike", "shifts": "planted_shifts"}.get(
        step.kind, "small_step"
    )
    if hasattr(step, "batch_per_dim"):
        n0 = "population" if math.isinf(step.batch_per_dim) else f"max(1, round({number(step.batch_per_dim)} * d))"
        if name == "maximal_step":
            options["rate"] = number(step.rate)
            options["n0"] = n0
            others = [other for other in network.steps if other.kind == "maximal"]
            if any(other.momentum for other in others):
                options["momentum"] = number(step.momentum)
            if any(other.weight_decay for other in others):
                options["decay"] = number(step.weight_decay)
        else:
            grown = f" * ({number(step.batch_per_dim)} * d)**{number(step.exponent)}" if step.kind == "growing" else ""
            options |= {"size": f"{number(step.rate)}{grown} / p**0.5", "n0": n0}
        if len(_residuals(network)) > 1:
            options |= dict(zip(("shift", "factor"), _residual(network, step)))
    elif name == "planted_spike":
        options = dict(_spike_options(network, step))
    else:
        bulk = step.bulk or [1.0] * network.blocks
        options = {"shifts": number(np.asarray(step.shifts, dtype=float)), "bulk": number(list(bulk))}
    return f"({name}, dict({', '.join(f'{key}={value}' for key, value in options.items())}))"


def _spike_options(network: Network, step: Any) -> Mapping[str, str]:
    if not isinstance(network.second_layer, Vocabulary):
        raise bad_field("second_layer", "gaussian", f"a Vocabulary {_WRITTEN} and a spike is planted")
    k = network.blocks
    strength = (
        [step.strength * v for v in network.second_layer.values] if isinstance(step.strength, float) else step.strength
    )
    bulk = [step.bulk] * k if isinstance(step.bulk, float) else step.bulk

    def spread(values: Any) -> str:
        return "[x for x, b in zip(" + number([float(v) for v in values]) + ", BLOCKS) for _ in range(b.start, b.stop)]"

    return {"strength": spread(strength), "bulk": spread(bulk), "gamma": number(step.alignment)}


def _trial(network: Network, end: str, variables: list[str]) -> str:
    """Return the text of one trial; `end` is what it keeps where only the last time is shown."""
    gaussian = not isinstance(network.second_layer, Vocabulary)
    kinds = {step.kind for step in network.steps}
    state = ["W=W", f"zeta={'rng.standard_normal(p)' if gaussian else 'zeta'}"]
    state += ["velocity=0"] if any(getattr(step, "momentum", 0.0) for step in network.steps) else []
    state += ["bulk=W", "v=Wstar[0]"] if "t" in variables else []
    state += ["spike=None"] if "planted" in kinds else []
    measured = "measure(rng, net, Wstar, X, y, Z)"
    c1 = f"c1 = {float(network.activation.hermite(1)[1])!r}  # E sigma'(z)"
    body = [
        "def trial(rng):",
        "    Wstar = np.linalg.qr(rng.standard_normal((d, r)))[0].T  # directions of the target",
        "    W = rng.standard_normal((p, d))",
        "    W = W / (W**2).sum(1)[:, None] ** 0.5" if network.rows == "sphere" else "    W = W / d**0.5",
        f"    net = SimpleNamespace({', '.join(state)})",
        "    (X, y), Z = draw(rng, Wstar, n), rng.standard_normal((tests, d))  # the same after every step",
        *([] if end else [f"    path = [{measured}]"]),
        "    for step, options in STEPS:",
        "        step(rng, net, Wstar, **options)",
        f"    values = {measured}" if end else f"        path.append({measured})",
        f"    return {{name: {end or '[values[name] for values in path]'} for name in VARIABLES}}",
    ]
    spike = _needs_spike(network)
    return lines(spike and c1, _steps(network), "\n", _measure(network, variables), "\n", *body)


def _measure(network: Network, variables: list[str]) -> str:
    """Return the text of the fit and of what is measured of it."""
    classes, rows = network.readout.classes, "t" in variables
    ridge = "np.linalg.solve(Phi.T @ Phi + ridge * np.eye(p), Phi.T @ y)"
    fitted = "fit(Phi, y)" if classes else ridge if network.readout.ridge else "np.linalg.pinv(Phi) @ y"
    truth = "target(Z @ Wstar.T)"
    side = "Z @ Wstar[0]" if network.target.directions == 1 else truth
    wrong = f"(f * ({side}) < 0).sum() / tests"
    if classes:
        values = {
            "test_error": "(1 - 2 * flip) * wrong + flip" if network.flip else "wrong",
            "train_error": "(y * (Phi @ a) < 0).sum() / n",
            "objective": "(np.log1p(np.exp(-y * (Phi @ a))).sum() + ridge / 2 * (a @ a)) / n",
            "test_misclassified": "wrong",
        }
    else:
        values = {
            "test_error": f"(({truth} - f) ** 2).mean() + noise",
            "train_error": "((y - Phi @ a) ** 2).mean()",
            "objective": "(((y - Phi @ a) ** 2).sum() + ridge * (a @ a)) / n",
            "test_misclassified": wrong,
        }
    values |= {
        "norm": "(a @ a) / p",
        "Q2": "[(a[b] @ a[b]) / p for b in BLOCKS]",
        "t": "[s @ net.v for s in sums]",
        "psi": "[s @ u / (u @ u) ** 0.5 for s in sums]",
        "Q1": "[[s @ q - (s @ net.v) * (q @ net.v) for q in sums] for s in sums]",
    }
    return lines(
        "def measure(rng, net, Wstar, X, y, Z):  # fit the second layer a on (X, y), test it on Z",
        "    Phi = activation(X @ net.W.T) / p**0.5",
        f"    a = {fitted}",
        "    f = activation(Z @ net.W.T) @ a / p**0.5",
        classes and f"    wrong = {wrong}",
        rows and "    sums = [a[b] @ net.bulk[b] / p**0.5 for b in BLOCKS]  # of the rows w0_i, or of the bulk's",
        rows and "    u = Wstar[0] - (Wstar[0] @ net.v) * net.v  # w* across the spike v, or anything across v = w*",
        rows and "    u = (u if u @ u > 1e-12 else rng.standard_normal(d)) @ (np.eye(d) - np.outer(net.v, net.v))",
        "    return {",
        *(f'        "{name}": {values[name]},' for name in variables),
        "    }",
    )
