"""Calculus under the standard Gaussian measure: functions, expressions, quadrature,
Hermite polynomials.
"""

from giantstep.core.maths.gaussian.expression import (
    parse_expression as parse_expression,
)
from giantstep.core.maths.gaussian.functions import PLANTED_LABELS as PLANTED_LABELS
from giantstep.core.maths.gaussian.functions import Function as Function
from giantstep.core.maths.gaussian.functions import as_function as as_function
from giantstep.core.maths.gaussian.hermite import hermite_functions as hermite_functions
from giantstep.core.maths.gaussian.hermite import hermite_values as hermite_values
from giantstep.core.maths.gaussian.joint import JointRule as JointRule
from giantstep.core.maths.gaussian.joint import gram_factor as gram_factor
from giantstep.core.maths.gaussian.joint import joint_rule as joint_rule
from giantstep.core.maths.gaussian.joint import (
    semidefinite_factor as semidefinite_factor,
)
from giantstep.core.maths.gaussian.moments import Moments as Moments
from giantstep.core.maths.gaussian.planes import Plane as Plane
from giantstep.core.maths.gaussian.quadrature import expectation as expectation
from giantstep.core.maths.gaussian.quadrature import (
    gauss_legendre_panels as gauss_legendre_panels,
)
from giantstep.core.maths.gaussian.quadrature import normal_density as normal_density
from giantstep.core.maths.gaussian.quadrature import (
    normal_distribution as normal_distribution,
)
from giantstep.core.maths.gaussian.quadrature import trapezoid_rule as trapezoid_rule
from giantstep.core.maths.gaussian.target import Target as Target
from giantstep.core.maths.gaussian.target import as_target as as_target
