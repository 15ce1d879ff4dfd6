"""The kinds of steps: fields, the map of the limit, and what happens to real weights,
side by side.
"""

from typing import Annotated

import pydantic

from giantstep.families.network.steps.base import NoStep, PlantedShifts, PlantedSpike
from giantstep.families.network.steps.maximal import MaximalStep
from giantstep.families.network.steps.sign import SignStep
from giantstep.families.network.steps.weak import GrowingStep, SmallStep

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
