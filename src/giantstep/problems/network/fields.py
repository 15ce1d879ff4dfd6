"""Fields that the network, its presets and its steps share: each is declared once, and
called where it is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Tag

from giantstep.core.scenario.fields import field
from giantstep.core.scenario.vocabulary import Vocabulary

_INPUTS = (
    "covariance of the inputs and the target's place in it, or rows of a table"
    " (isotropic if left out)"
)
_LOSS = (
    "loss of the steps: (y - f)^2/2, or -y f, which leaves out what the network says"
    " already"
)
_FIT = "samples of the fit: fresh ones, or the same as the last step's (n0 = n)"
_PENALTY = "penalty in sum (y - f)^2 + lambda |a|^2; 0 is the ridgeless limit"
_LAW = "law of the second layer during the steps, times sqrt(p)"
# inf is a batch on the population
_SIZE: dict[str, Any] = {"default": math.inf, "gt": 0, "infinite": True}

target = partial(field, "g(z1..zr)", "target, a function of up to six directions")
noise = partial(field, "delta", "variance of the label noise", default=0.0, ge=0)
# below 1/2: at 1/2 a label says nothing of its class
flip = partial(
    field,
    "eps",
    "probability that a class is flipped (logistic and hinge)",
    default=0.0,
    ge=0,
    lt=0.5,
)
inputs = partial(field, "Sigma, w*", _INPUTS, default=None)
activation = partial(field, "sigma", "activation of the hidden layer", default="relu")
width_per_dim = partial(field, "beta = p/d", "hidden neurons per dimension", gt=0)
# both signs: outputs cancel at the start
second_layer = partial(field, "zeta, pi", _LAW, default=Vocabulary([1.0, -1.0]))
rows = partial(
    field,
    "w0",
    "first layer at the start: |w_i| = 1, or w_i ~ N(0, I/d)",
    default="sphere",
)
samples_per_dim = partial(
    field, "alpha = n/d", "samples of the fit per dimension", gt=0
)
fit_sample = partial(field, "(X, y)", _FIT, default="fresh")
# 0 is allowed: the limit of vanishing penalty exists
ridge = partial(field, "lambda", _PENALTY, ge=0)
batch_per_dim = partial(
    field, "alpha0 = n0/d", "fresh samples of every step per dimension", **_SIZE
)
step_loss = partial(field, "l", _LOSS, default="square")
precondition = partial(
    field,
    "c",
    'steps are multiplied by Sigma^-c: a number, "none" (0) or "whitened" (1)',
    default=0.0,
)
update = partial(
    field, "update", "the whole gradient, or its rank-one part", default="exact"
)
initial_output = partial(
    field,
    "f0",
    "0: the output starts at a constant; 1: at a.sigma(Wx)",
    default=0,
    ge=0,
    le=1,
)
Rows = Literal["sphere", "gaussian"]
FitSample = Literal["fresh", "same"]
StepLoss = Literal["square", "correlation"]
Update = Literal["exact", "rank-one"]


def name_or_law(value: Any) -> str:
    """Return which of two kinds of value a law is given by, for a discriminator."""
    return "name" if isinstance(value, str) else "law"


def only(law: type, names: tuple[str, ...], allowed: str) -> BeforeValidator:
    """Return what refuses values that are neither a law, a table of its fields, nor one
    of some names.
    """

    def check(value: Any) -> Any:
        if isinstance(value, str):
            allowed_value = value in names
        else:
            allowed_value = isinstance(value, law | Mapping)
        if not allowed_value:
            raise ValueError(allowed)
        return value

    # before pydantic tries both kinds, whose two errors would say less
    return BeforeValidator(check)


_LAYERS = (
    'gs.Vocabulary([1, -1]) or "gaussian", in a file { values = [1, -1] } (a plain list'
    " would be a finite network, not a law)"
)
SecondLayer = Annotated[
    Annotated[Vocabulary, Tag("law")] | Annotated[Literal["gaussian"], Tag("name")],
    Discriminator(name_or_law),
    only(Vocabulary, ("gaussian",), _LAYERS),
]
