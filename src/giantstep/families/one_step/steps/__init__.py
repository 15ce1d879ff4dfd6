"""The kinds of steps: fields, regime, features in the limit, and what happens to real weights."""

from giantstep.families.one_step.steps.maximal import MaximalStep as MaximalStep
from giantstep.families.one_step.steps.none import NoStep as NoStep
from giantstep.families.one_step.steps.planted import PlantedSpike as PlantedSpike
from giantstep.families.one_step.steps.weak import GrowingStep as GrowingStep
from giantstep.families.one_step.steps.weak import SmallStep as SmallStep
