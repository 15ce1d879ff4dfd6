"""The inputs of single points of a grid: their law, and where the limit must refuse or warn."""

from __future__ import annotations

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.few_steps.scenario import FewSteps, InputRows
from giantstep.inputs.law import InputLaw, InputSpectrum
from giantstep.inputs.report import LEAST_RANKS, MOST_EXCESS
from giantstep.types import Floats, Points

FINITE_DIM = ("split", "quadratic")
"""Theories of inputs of low effective rank, structured_inputs (8.2) and (8.1)."""


def input_law(scenario: FewSteps, points: Points, index: int) -> InputLaw:
    """Return the law of the inputs at one point, whose numbers may vary; at a finite dimension that of a network."""
    dim = float(points["dim"][index]) if "dim" in points else np.inf
    return _inputs_at(scenario, points, index).input_law(dim)


def _inputs_at(scenario: FewSteps, points: Points, index: int) -> FewSteps:
    """Return the scenario with the inputs of one point."""
    given = {name: values[index] for name, values in points.items() if name.startswith("inputs.")}
    own = scenario.numeric_fields()
    changes = {name: int(value) if own[name][1].annotation is int else float(value) for name, value in given.items()}
    changed = {name: value for name, value in changes.items() if value != own[name][0]}
    return scenario.replace(changed) if changed else scenario


def input_spectrum(scenario: FewSteps, points: Points, index: int) -> InputSpectrum:
    """Return the atoms of the inputs at one point."""
    if scenario.inputs is None:
        return InputSpectrum.isotropic(scenario.target.directions)
    return input_law(scenario, points, index).binned().spectrum(float(points["precondition"][index]))


def check_batches(scenario: FewSteps, points: Points) -> None:
    """Refuse finite batches of inputs with a covariance that no theory describes: structured_inputs, section 15."""
    finite = np.isfinite(points["batch_per_dim"])
    if scenario.inputs is None or not finite.any():
        return
    several = points["steps"] > 1
    if np.any(several & finite) or scenario.target.directions > 1 or np.any(points["precondition"] * finite != 0):
        raise bad_field(
            "batch_per_dim",
            float(points["batch_per_dim"][finite].min()),
            "inf where inputs have a covariance with several steps, a preconditioner or several directions, because no "
            "theory of that batch noise is known (gs.simulate trains on real batches)",
        )


def check_finite_dim(scenario: FewSteps, points: Points, what: str, theory: str) -> None:
    """Refuse a theory of a finite dimension where it says nothing."""
    several = theory == "split" and scenario.target.directions > 1
    if scenario.inputs is None or several or what != "errors":
        allowed = '"exact" where inputs are isotropic or what is not "errors"'
        raise bad_field("theory", theory, allowed + (", or the target has several directions" if several else ""))
    if not np.isfinite(points["dim"]).all():
        raise bad_field("theory", theory, '"exact" in the limit (it is a theory of a finite dim)')
    if theory == "quadratic" and np.isfinite(points["batch_per_dim"]).any():
        raise bad_field("theory", theory, '"isotropic" where batch_per_dim is finite')


def refinements(scenario: FewSteps, points: Points, what: str) -> list[str]:
    """Return for every point the theory of its finite dimension that `theory="auto"` chooses.

    "exact" where both effective ranks are large, where the limit is asked for, or where neither refinement is known;
    else the one whose fluctuation in the features is larger at the start: c_1 sqrt(tau_2/d) of the leading channel,
    not linearised by structured_inputs (8.2), or c_2 sqrt(int lambda^2/(2 d)) of w0^T Sigma w0, split by (8.1).
    """
    count = len(points["ridge"])
    if scenario.inputs is None or what != "errors":
        return ["exact"] * count
    _, c1, c2 = (abs(float(c)) for c in scenario.activation.hermite(2)[:3])
    chosen = []
    for index in range(count):
        dim, finite_batch = float(points["dim"][index]), bool(np.isfinite(points["batch_per_dim"][index]))
        if not np.isfinite(dim) or np.all(_effective_ranks(scenario, points, index) >= LEAST_RANKS):
            chosen.append("exact")
            continue
        law = input_law(scenario, points, index)
        sizes = {"split": c1 * np.sqrt(law.leading_variance()), "quadratic": c2 * np.sqrt(law.second_moment() / 2)}
        if scenario.target.directions > 1:
            del sizes["split"]
        if finite_batch:
            del sizes["quadratic"]
        chosen.append(max(sizes, key=lambda name: sizes[name]) if sizes else "exact")
    return chosen


def rank_warnings(scenario: FewSteps, points: Points) -> list[str]:
    """Warn where the corrections to the limit, which are of order 1/r_eff and 1/r_4, are not small."""
    inputs = scenario.inputs
    if inputs is None:
        return []
    remarks = []
    if isinstance(inputs, InputRows) and inputs.norm_excess() > MOST_EXCESS:
        remarks = [
            f"The squared lengths of the rows have {inputs.norm_excess():.3g} times the variance of Gaussian inputs: "
            "the limit is that of Gaussian inputs, and may be far off."
        ]
    names = ["dim", *(name for name in points if name.startswith("inputs."))]
    first = np.unique(np.stack([points[name] for name in names], axis=1), axis=0, return_index=True)[1]
    ranks = np.array([_effective_ranks(scenario, points, int(index)) for index in first])
    low = ranks[np.argmin(np.min(ranks / LEAST_RANKS, axis=1))]
    if np.all(low >= LEAST_RANKS):
        return remarks
    return [
        *remarks,
        f"The inputs have the effective ranks r_eff = {low[0]:.3g} and r_4 = {low[1]:.3g}: below 100 and 20 the limit "
        'may be several percent off (theory="auto" at a finite dim mends part; see the page on structured inputs).',
    ]


def _effective_ranks(scenario: FewSteps, points: Points, index: int) -> Floats:
    """Return r_eff and r_4 of one point, in the dimension that is asked about or that the inputs have."""
    inputs = _inputs_at(scenario, points, index).inputs
    assert inputs is not None
    of_dim = inputs.rank_dim(float(points["dim"][index]))
    return of_dim * np.array(input_law(scenario, points, index).effective_ranks())
