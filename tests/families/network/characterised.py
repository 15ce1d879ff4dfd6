"""Scenarios over all that OneStep and FewSteps accept, whose limits were stored before
one network answered both.

`STORED` has the numbers of the former code, to 13 digits; `CHANGED` says which of them
are others now, and why.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).with_name("characterised.json.gz")
NOT_COMPARED = ("identity", "converged", "residual", "iterations")

SIZES = {"width_per_dim": 1.5, "samples_per_dim": 2.0, "ridge": 0.1}
ONE = {"values": [1.0]}
SIGNS = {"values": [1, -1]}
TWO = {"values": [1, -1], "probabilities": [0.9, 0.1]}
INPUTS = {
    "blocks": {
        "kind": "blocks",
        "eigenvalues": [2.5, 0.5],
        "fractions": [0.25, 0.75],
        "shares": [0.5, 0.5],
    },
    "power": {"kind": "power-law", "exponent": 0.6, "atoms": 20},
    "identity": {
        "kind": "blocks",
        "eigenvalues": [1.0],
        "fractions": [1.0],
        "shares": [1.0],
    },
}
STEPS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "planted": {"kind": "planted", "strength": 1.2, "alignment": 0.6, "bulk": 0.9},
    "maximal": {"kind": "maximal", "rate": 2.0},
    "batch": {"kind": "maximal", "rate": 1.5, "batch_per_dim": 3.0},
    "small": {"kind": "small", "rate": 1.5, "batch_per_dim": 4.0, "update": "rank-one"},
    "fed back": {
        "kind": "small",
        "rate": 1.5,
        "batch_per_dim": 4.0,
        "initial_output": 1,
    },
    "growing": {
        "kind": "growing",
        "rate": 1.0,
        "exponent": 0.3,
        "batch_per_dim": 4.0,
        "update": "rank-one",
    },
}
CENTRED = "relu(z) - 1/sqrt(2*pi)"
SETTINGS: dict[str, dict[str, Any]] = {
    "resolvent": {"z": [-1.0, 1 + 1j]},
    "spectrum": {"x": [0.05, 0.5, 2.0]},
    "along": {"kappa": [-2, -1, 0, 1, 2.5]},
}
Asked = tuple[dict[str, Any], str, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A question of a scenario: its content, what is asked, and settings."""

    name: str
    content: Mapping[str, Any]
    what: str
    settings: Mapping[str, Any]


def _one_step() -> Iterator[Asked]:
    functions = [
        ("relu", "tanh(z)"),
        ("tanh", "sin(z)"),
        ("erf", "tanh(2*z)"),
        ("softplus", "z + 0.5*h2(z)"),
        ("relu", "sign(z)"),
        ("z + 0.3*h2(z)", "relu(z)"),
    ]
    for (activation, target), step, layer in itertools.product(
        functions, list(STEPS)[:4], (ONE, TWO)
    ):
        network = {
            "activation": activation,
            "target": target,
            "second_layer": layer,
            "step": STEPS[step],
        }
        yield {**SIZES, "noise": 0.05, **network}, "errors", {}
    three = {"values": [1, -1, 0.5], "probabilities": [0.4, 0.3, 0.3]}
    odd = {**SIZES, "activation": "tanh", "target": "sin(z)", "noise": 0.02}
    for step, law in itertools.product(
        ("none", "planted", "maximal"), (three, "gaussian")
    ):
        yield {**odd, "second_layer": law, "step": STEPS[step]}, "errors", {}
    plain = {
        **SIZES,
        "activation": "relu",
        "target": "tanh(z)",
        "noise": 0.1,
        "second_layer": TWO,
    }
    for step, ridge, samples in itertools.product(
        list(STEPS)[:4], (0.0, 1e-3, 3.0), (0.5, 4.0)
    ):
        sizes = {"width_per_dim": 1.2, "samples_per_dim": samples, "ridge": ridge}
        yield {**plain, **sizes, "step": STEPS[step]}, "errors", {}
    classes = {**SIZES, "activation": "relu", "target": "sign(z)", "second_layer": TWO}
    for step, loss, flip in itertools.product(
        ("none", "planted", "maximal"), ("logistic", "hinge"), (0.0, 0.05)
    ):
        yield {**classes, "loss": loss, "flip": flip, "step": STEPS[step]}, "errors", {}
    for loss in ("logistic", "hinge"):
        yield {**classes, "loss": loss, "step": STEPS["batch"]}, "errors", {}
    weak = {**SIZES, "activation": CENTRED, "second_layer": "gaussian"}
    quadratic = {**weak, "target": "h1(z) + h2(z)/sqrt(2)", "noise": 0.05}
    for step, rows in itertools.product(
        ("small", "fed back", "growing"), ("sphere", "gaussian")
    ):
        for what in ("errors", "weights", "spikes"):
            needs = {"dim": 100} if step == "growing" and what != "errors" else {}
            yield {**quadratic, "rows": rows, "step": STEPS[step]}, what, needs
    for step in ("small", "growing"):
        own = {
            "target": "z + 0.3*h2(z)",
            "fit_sample": "same",
            "step": {**STEPS[step], "batch_per_dim": 2.0},
        }
        yield {**weak, **own}, "errors", {"dim": 100}
    for step in ("none", "planted"):
        yield (
            {**plain, "noise": 0.0, "rows": "gaussian", "step": STEPS[step]},
            "errors",
            {},
        )
    for step, what in itertools.product(
        list(STEPS)[:4], ("along", "spectrum", "resolvent")
    ):
        if what == "spectrum":
            settings = {"x": [0.05, 0.2, 0.5, 1.0, 2.0, 4.0]}
        else:
            settings = SETTINGS[what]
        yield {**odd, "second_layer": TWO, "step": STEPS[step]}, what, settings
    gaussian = {
        **plain,
        "noise": 0.0,
        "second_layer": "gaussian",
        "step": STEPS["maximal"],
    }
    yield gaussian, "resolvent", SETTINGS["resolvent"]
    plain["noise"] = 0.05
    for step, inputs, whitening in itertools.product(
        ("none", "maximal", "batch"), INPUTS, (0.0, 1.0)
    ):
        if step != "batch" or not whitening:
            shaped = {"inputs": INPUTS[inputs], "precondition": whitening}
            yield {**plain, **shaped, "step": STEPS[step]}, "errors", {}
    for step, inputs in itertools.product(
        ("none", "maximal"), (None, INPUTS["blocks"])
    ):
        yield {**plain, "step": STEPS[step], "inputs": inputs}, "steps", {}
    for what, settings in reversed(SETTINGS.items()):
        shaped = {"inputs": INPUTS["blocks"], "step": STEPS["maximal"]}
        yield {**odd, "noise": 0.05, "second_layer": TWO, **shaped}, what, settings
    for step in ("maximal", "batch", "small"):
        yield (
            {**plain, "activation": CENTRED, "step": STEPS[step]},
            "errors",
            {"theory": "isotropic"},
        )


def _few_steps() -> Iterator[Asked]:
    plain = {**SIZES, "activation": "relu", "noise": 0.1, "rate": 1.5, "steps": 2}
    three = {"values": [1, -0.5, 0.3], "probabilities": [0.5, 0.3, 0.2]}
    functions = itertools.product(
        ("relu", "tanh", "softplus"), ("z1 + z1*z2", "sin(z1)", "z1 + 0.2*h2(z1)*z2")
    )
    for (activation, target), layer in itertools.product(functions, (SIGNS, ONE)):
        rates = {"rate": [2.0, 1.5], "second_layer": layer}
        yield (
            {**plain, "activation": activation, "target": target, **rates},
            "errors",
            {},
        )
    for activation, target in (
        ("erf", "tanh(z1)"),
        ("relu", "sign(z1)"),
        ("tanh", "relu(z1)"),
    ):
        law = {"noise": 0.05, "steps": 3, "second_layer": three}
        yield {**plain, "activation": activation, "target": target, **law}, "errors", {}
    yield {**plain, "target": "z1 + z1*z2 + z1*z2*z3", "rate": 1.0}, "errors", {}
    options = itertools.product(
        ("square", "correlation"), ("sphere", "gaussian"), (float("inf"), 5.0)
    )
    for loss, rows, batch in options:
        if rows == "sphere" or batch > 9:
            for target in ("z1 + z1*z2", "tanh(z1)"):
                how = {"loss_of_steps": loss, "rows": rows, "batch_per_dim": batch}
                yield {**plain, "target": target, **how}, "errors", {}
    still = {**SIZES, "noise": 0.1, "steps": 0}
    for target, shifts in (
        ("z1 + z1*z2", [[1.5, 0.5], [-1.5, 0.5]]),
        ("tanh(z1)", [[1.0], [-0.7]]),
    ):
        yield (
            {
                **still,
                "target": target,
                "planted": {"shifts": shifts, "bulk": [0.9, 1.1]},
            },
            "errors",
            {},
        )
        yield (
            {
                **still,
                "target": target,
                "planted": {"shifts": shifts},
                "rows": "gaussian",
            },
            "errors",
            {},
        )
    for inputs, whitening, target in itertools.product(
        INPUTS, (0.0, 1.0, 0.5), ("tanh(z1)", "z1 + z1*z2")
    ):
        law = INPUTS[inputs]
        if target != "tanh(z1)":
            if inputs == "power":
                continue
            shares = law["shares"]
            law = {
                **law,
                "shares": [shares, shares[::-1]] if len(shares) > 1 else [[1.0], [1.0]],
            }
        yield (
            {**plain, "target": target, "inputs": law, "precondition": whitening},
            "errors",
            {},
        )
    one = {**plain, "target": "tanh(z1)"}
    for inputs in ("blocks", "power"):
        yield (
            {**one, "steps": 1, "inputs": INPUTS[inputs], "batch_per_dim": 4.0},
            "errors",
            {},
        )
        for what in ("steps", "along", "spectrum", "resolvent"):
            yield (
                {**one, "activation": "tanh", "inputs": INPUTS[inputs]},
                what,
                SETTINGS.get(what, {}),
            )
    for what, target in itertools.product(
        ("steps", "along", "spectrum", "resolvent"), ("z1 + z1*z2", "sin(z1)")
    ):
        yield {**plain, "rate": 2.0, "target": target}, what, SETTINGS.get(what, {})
    yield (
        {**plain, "rate": 2.0, "target": "z1 + z1*z2", "batch_per_dim": 4.0},
        "steps",
        {},
    )


@cache
def cases() -> dict[str, Case]:
    """Return all cases by name."""
    found = {}
    for family, make in (("one-step", _one_step), ("few-steps", _few_steps)):
        for number, (fields, what, settings) in enumerate(make()):
            name = f"{family} {number}, {what}"
            found[name] = Case(name, {"family": family, **fields}, what, settings)
    return found


@cache
def stored() -> dict[str, dict[str, Any]]:
    """Return the numbers of the former code by case and variable."""
    with gzip.open(STORED, "rt") as file:
        return json.load(file)


NOT_UNIQUE = (
    "the means of the features are zero or collinear: without a dim their coefficients"
    " are not unique"
)
FINER = (
    "the rule breaks where a class ends: a wrong sign is likely within a hundredth of"
    " it only"
)
SMOOTHER = "a spline of degree 5 through the nodes, and finer ones"
EXACT = (
    "isotropic inputs by name: a finite batch has its exact theory now, which was an"
    " approximation"
)
SEVERAL = (
    "several finite batches have their exact theory now; isotropic noise was an"
    " approximation of it"
)
BEFORE = (
    "along the one direction of the target errors are known before the first step, too"
)
EDGE = "the march to the lower edge took a density of 1e-5 for the bulk"
ROUNDING = (
    "before the first step the mean of an odd activation was rounding, and the fit made"
    " a constant of it"
)
_MISCLASSIFIED = {"test_misclassified": 1e-4}
_ALONG = {"error_along": 1e-5, "mean_along": 1e-5}
_WITH_BATCH = dict.fromkeys(
    ("test_error", "train_error", "objective", "norm", "theta", "Q2", "V2"), 0.1
)
_SEVERAL = dict.fromkeys((*_WITH_BATCH, "all_data_error"), 0.08)
_NEW = {"error_along": inf, "mean_along": inf}
CHANGED: dict[str, tuple[str, dict[str, float]]] = {
    **{
        f"one-step {number}, errors": (NOT_UNIQUE, {"theta": inf})
        for number in (8, 9, 16, 17, 48, 49)
    },
    **{
        f"few-steps {number}, errors": (NOT_UNIQUE, {"theta": inf})
        for number in (*range(6, 12), 18)
    },
    "few-steps 20, errors": (
        ROUNDING,
        dict.fromkeys((*_WITH_BATCH, "all_data_error"), inf),
    ),
    "one-step 51, errors": (NOT_UNIQUE, {"theta": inf, "t": inf}),
    "one-step 53, errors": (
        NOT_UNIQUE + "; " + FINER,
        {"theta": inf, "t": inf, **_MISCLASSIFIED},
    ),
    "one-step 52, errors": (FINER, _MISCLASSIFIED),
    "one-step 70, errors": (FINER, _MISCLASSIFIED),
    "one-step 87, errors": (
        FINER,
        {"test_error": 1e-7, "train_error": 1e-6, "test_misclassified": 1e-6},
    ),
    "one-step 89, errors": (
        FINER,
        {"train_error": 1e-8, "test_misclassified": 1e-8, "t": 1e-5},
    ),
    **{
        f"one-step {number}, along": (SMOOTHER, _ALONG)
        for number in (114, 117, 120, 123)
    },
    "few-steps 65, along": (SMOOTHER, _ALONG),
    **{f"few-steps {number}, along": (BEFORE, _NEW) for number in (55, 60, 66)},
    "one-step 141, errors": (EXACT, _WITH_BATCH),
    **{
        name: (SEVERAL, _SEVERAL)
        for name in ("few-steps 24, errors", "few-steps 25, errors")
    },
    **{
        name: (SEVERAL, _SEVERAL)
        for name in ("few-steps 30, errors", "few-steps 31, errors")
    },
    "few-steps 71, steps": (SEVERAL, {"s": 0.2, "spread": 0.4, "spread_s": 0.7}),
    "few-steps 56, spectrum": (EDGE, {"lower_edge": 0.01}),
}
"""Cases with numbers that are others now: why, and how much each variable may
differ.
"""


def differences(case: Case, found: Any) -> dict[str, float]:
    """Return how far every variable of a result is from the stored one, relative to its
    largest entry (at least 1e-5).

    It is inf where a number is NaN on one side only, or where the status is another
    one.
    """
    before = dict(stored()[case.name])
    gaps = {} if str(found.status.values) == before.pop("status") else {"status": inf}
    for name, numbers in before.items():
        old = np.asarray(numbers, dtype=float)
        new = np.asarray(found[name].values, dtype=float)
        if (
            old.shape != new.shape
            or np.any(np.isnan(old) != np.isnan(new))
            or np.any(np.isinf(old) != np.isinf(new))
        ):
            gaps[name] = inf
            continue
        known = np.isfinite(old)
        size = np.max(np.abs(old[known]), initial=0.0)
        gaps[name] = float(
            np.max(np.abs(new[known] - old[known]), initial=0.0) / max(size, 1e-5)
        )
    return gaps
