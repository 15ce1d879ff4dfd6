"""The kinds of steps: fields, the map of the limit, and what happens to real weights,
side by side.
"""

from typing import Annotated

import pydantic

from giantstep.problems.network.steps.base import NoStep, PlantedShifts, PlantedSpike
from giantstep.problems.network.steps.maximal import MaximalStep
from giantstep.problems.network.steps.sign import SignStep
from giantstep.problems.network.steps.weak import GrowingStep, SmallStep

AnyStep = Annotated[
    MaximalStep
    | SignStep
    | SmallStep
    | GrowingStep
    | PlantedSpike
    | PlantedShifts
    | NoStep,
    pydantic.Field(discriminator="kind"),
]
