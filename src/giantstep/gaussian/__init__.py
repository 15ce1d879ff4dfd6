"""Calculus under the standard Gaussian measure: functions, expressions, quadrature, Hermite polynomials."""

from giantstep.gaussian.expression import parse_expression
from giantstep.gaussian.functions import Function, as_function
from giantstep.gaussian.hermite import hermite_functions, hermite_values
from giantstep.gaussian.joint import JointRule, gram_factor, joint_rule, semidefinite_factor
from giantstep.gaussian.moments import Moments
from giantstep.gaussian.quadrature import (
    expectation,
    gauss_legendre_panels,
    normal_density,
    normal_distribution,
    trapezoid_rule,
)
from giantstep.gaussian.target import Plane, Target, as_target

__all__ = [
    "Function",
    "JointRule",
    "Moments",
    "Plane",
    "Target",
    "as_function",
    "as_target",
    "expectation",
    "gauss_legendre_panels",
    "gram_factor",
    "hermite_functions",
    "hermite_values",
    "joint_rule",
    "normal_density",
    "normal_distribution",
    "parse_expression",
    "semidefinite_factor",
    "trapezoid_rule",
]
