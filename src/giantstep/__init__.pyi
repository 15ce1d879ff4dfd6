from giantstep import estimators as estimators
from giantstep.agreement import agreement as agreement
from giantstep.errors import ConvergenceError as ConvergenceError
from giantstep.errors import GiantstepError as GiantstepError
from giantstep.errors import GiantstepWarning as GiantstepWarning
from giantstep.errors import InputError as InputError
from giantstep.estimators.placing import place as place
from giantstep.families.one_step.regimes import regime as regime
from giantstep.families.one_step.scenario import GrowingStep as GrowingStep
from giantstep.families.one_step.scenario import MaximalStep as MaximalStep
from giantstep.families.one_step.scenario import NoStep as NoStep
from giantstep.families.one_step.scenario import OneStep as OneStep
from giantstep.families.one_step.scenario import PlantedSpike as PlantedSpike
from giantstep.families.one_step.scenario import SmallStep as SmallStep
from giantstep.families.one_step.scenario import Vocabulary as Vocabulary
from giantstep.families.subspace_clustering.scenario import SubspaceClustering as SubspaceClustering
from giantstep.figures.plot import plot as plot
from giantstep.files import load as load
from giantstep.files import save as save
from giantstep.gaussian import Function as Function
from giantstep.references import cite as cite
from giantstep.scenario import Scenario as Scenario
from giantstep.scenario import families as families
from giantstep.study import Study as Study
from giantstep.study import compare as compare
from giantstep.study import predict as predict
from giantstep.study import simulate as simulate

__version__: str
inf: float
