"""The kinds of steps: fields, the map of the limit, and what happens to real weights,
side by side. `registry` knows all of them, those in folders of their own, too.
"""

from giantstep.problems.network.steps.base import NoStep as NoStep
from giantstep.problems.network.steps.base import PlantedShifts as PlantedShifts
from giantstep.problems.network.steps.base import PlantedSpike as PlantedSpike
from giantstep.problems.network.steps.maximal import MaximalStep as MaximalStep
