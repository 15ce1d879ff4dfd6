"""The kinds of steps by name, and where each is defined.

Steps whose theory is their own are folders that nothing else in the network imports:
`sign` and `weak`. They are looked up here by name, in the order in which they are
shown.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import pydantic

HOME = "giantstep.problems.network"
KINDS = {
    "maximal": "steps.maximal:MaximalStep",
    "sign": "sign.step:SignStep",
    "small": "weak.step:SmallStep",
    "growing": "weak.step:GrowingStep",
    "planted": "steps.base:PlantedSpike",
    "shifts": "steps.base:PlantedShifts",
    "none": "steps.base:NoStep",
}
"""Kind of a step -> its module below the network, and its class."""


def step_class(kind: str) -> Any:
    """Return the class of the steps of a kind."""
    module, name = KINDS[kind].split(":")
    return getattr(import_module(f"{HOME}.{module}"), name)


def any_of(*kinds: str) -> Any:
    """Return the type of a field that holds a step of one of these kinds."""
    union: Any = step_class(kinds[0])
    for kind in kinds[1:]:
        union = union | step_class(kind)
    return Annotated[union, pydantic.Field(discriminator="kind")]
