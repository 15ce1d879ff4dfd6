"""The kinds of steps: fields, the map of the limit, and what happens to real weights,
side by side.
"""

from typing import TYPE_CHECKING

from giantstep.problems.network.steps.base import NoStep as NoStep
from giantstep.problems.network.steps.base import PlantedShifts as PlantedShifts
from giantstep.problems.network.steps.base import PlantedSpike as PlantedSpike
from giantstep.problems.network.steps.base import Step
from giantstep.problems.network.steps.maximal import MaximalStep as MaximalStep
from giantstep.problems.network.steps.registry import KINDS, any_of

if TYPE_CHECKING:
    AnyStep = Step
else:
    AnyStep = any_of(*KINDS)
