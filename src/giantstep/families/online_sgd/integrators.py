"""Which integrator takes the Gaussian moments of a scenario."""

from __future__ import annotations

import math

import numpy as np

from giantstep.families.online_sgd.erf import ErfIntegrator, erf_integrator
from giantstep.families.online_sgd.moments import KinkIntegrator, NodeIntegrator, Summation
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.tolerances import COARSE
from giantstep.gaussian import joint_rule
from giantstep.gaussian.target import turned_planes

Integrator = ErfIntegrator | Summation
"""What takes the moments: `forces`, `mse`, `error`, `name` and `sampled`."""
SCRAMBLES = 4
"""Independent sets of Sobol points, whose spread is the standard error of a limit computed by sampling."""


def integrator_for(
    scenario: OnlineSGD, kind: str = "auto", nodes: int | None = None, points: int = 8192, scramble: int = 0
) -> Integrator:
    """Choose: closed forms, exact polynomials, pieces between kinks, product rules ("tensor"), Sobol points ("sobol").

    A force that is not affine in the label may jump where no rule knows of: rules that fail their own test at a typical
    state give way to Sobol points.
    """
    closed = erf_integrator(scenario) if kind == "auto" else None
    if closed is not None:
        return closed
    integrator = _rule_integrator(scenario, kind, nodes, points, scramble)
    if kind != "auto" or scenario.known_algorithm.affine or integrator.sampled:
        return integrator
    p, k = scenario.width, scenario.directions
    typical = np.concatenate([np.full((1, p, k), 0.3 / math.sqrt(k)), math.sqrt(0.91) * np.eye(p)[None]], axis=-1)
    fields = scenario.point()
    if integrator.distance(typical, scenario.inner_rates(fields), fields["noise"]) <= COARSE:
        return integrator
    return _rule_integrator(scenario, "sobol", nodes, points, scramble)


def _rule_integrator(
    scenario: OnlineSGD, kind: str, nodes: int | None, points: int, scramble: int
) -> KinkIntegrator | NodeIntegrator:
    """Return pieces between kinks for one neuron, or nodes: polynomials exactly, product rules, Sobol points."""
    activation, target, algorithm = scenario.activation, scenario.target, scenario.known_algorithm
    if kind == "auto" and scenario.width == 1 and activation.kinks:
        return KinkIntegrator(scenario)
    own = scenario.directions + scenario.width
    dims = own + int(scenario.noise > 0 and not algorithm.affine)
    degree = None
    if activation.polynomial is not None and target.degree is not None and dims == own:
        of_force = algorithm.degree(max(len(activation.polynomial) - 1, 1), target.degree)
        degree = None if of_force is None else 2 * of_force + 2
    hidden = activation.kinks or (target.expression is not None and not target.all_planes)
    planes = None if hidden else turned_planes(target.planes, scenario.whitening)
    rule = joint_rule(dims, degree=degree, planes=planes, kind=kind, nodes=nodes, points=points, seed=scramble)
    return NodeIntegrator(scenario, rule)
