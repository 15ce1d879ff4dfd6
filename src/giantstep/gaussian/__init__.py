"""Calculus under the standard Gaussian measure: functions, expressions, quadrature, Hermite polynomials."""

from giantstep.gaussian.expression import AffineForm, Expression, Kink, parse_expression
from giantstep.gaussian.functions import Function, as_function
from giantstep.gaussian.hermite import convert_hermite, hermite_functions, hermite_values
from giantstep.gaussian.moments import Moments
from giantstep.gaussian.quadrature import expectation, gauss_legendre_panels, normal_density, trapezoid_rule

__all__ = [
    "AffineForm",
    "Expression",
    "Function",
    "Kink",
    "Moments",
    "as_function",
    "convert_hermite",
    "expectation",
    "gauss_legendre_panels",
    "hermite_functions",
    "hermite_values",
    "normal_density",
    "parse_expression",
    "trapezoid_rule",
]
