"""The kinds of steps: fields, the map of the limit, and what happens to real weights, side by side."""

from typing import Annotated

import pydantic

from giantstep.families.network.steps.base import Place as Place
from giantstep.families.network.steps.base import Step as Step
from giantstep.families.network.steps.maximal import MaximalStep as MaximalStep
from giantstep.families.network.steps.none import NoStep as NoStep
from giantstep.families.network.steps.planted import PlantedShifts as PlantedShifts
from giantstep.families.network.steps.planted import PlantedSpike as PlantedSpike
from giantstep.families.network.steps.weak import GrowingStep as GrowingStep
from giantstep.families.network.steps.weak import SmallStep as SmallStep

AnyStep = Annotated[
    MaximalStep | SmallStep | GrowingStep | PlantedSpike | PlantedShifts | NoStep, pydantic.Field(discriminator="kind")
]
