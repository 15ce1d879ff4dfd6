"""Theories of a finite dimension for inputs of low effective rank: where they answer, and where the limit warns."""

from __future__ import annotations

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.network.problem import finite_batches, input_law, inputs_at
from giantstep.families.network.scenario import Network
from giantstep.inputs.parts import InputRows
from giantstep.inputs.report import LEAST_RANKS, MOST_EXCESS
from giantstep.types import Floats, Points, Strings

FINITE_DIM = ("split", "quadratic")
"""Theories of inputs of low effective rank, structured_inputs (8.2) and (8.1)."""


def check_finite_dim(network: Network, points: Points, what: str, theory: str) -> None:
    """Refuse a theory of a finite dimension where it says nothing."""
    several = theory == "split" and network.target.directions > 1
    if network.inputs is None or several or what != "errors":
        allowed = '"exact" where inputs are isotropic or what is not "errors"'
        raise bad_field("theory", theory, allowed + (", or the target has several directions" if several else ""))
    if not np.isfinite(points["dim"]).all():
        raise bad_field("theory", theory, '"exact" in the limit (it is a theory of a finite dim)')
    if theory == "quadratic" and (finite_batches(points).any() or network.readout.classes):
        raise bad_field("theory", theory, '"isotropic" where batch_per_dim is finite, "exact" where labels are classes')


def choose_refinements(network: Network, points: Points, what: str) -> Strings:
    """Return for every point the theory of its finite dimension that `theory="auto"` chooses.

    "exact" where both effective ranks are large, where the limit is asked for, or where neither refinement is known;
    else the one whose fluctuation in the features is larger at the start: c_1 sqrt(tau_2/d) of the leading channel,
    not linearised by structured_inputs (8.2), or c_2 sqrt(int lambda^2/(2 d)) of w0^T Sigma w0, split by (8.1).
    """
    count, batches = len(points["dim"]), finite_batches(points)
    chosen = np.full(count, "exact", dtype=object)
    if network.inputs is None or what != "errors":
        return chosen
    _, c1, c2 = (abs(float(c)) for c in network.activation.hermite(2)[:3])
    for index in range(count):
        dim = float(points["dim"][index])
        if not np.isfinite(dim) or np.all(_effective_ranks(network, points, index) >= LEAST_RANKS):
            continue
        law = input_law(network, points, index)
        sizes = {"split": c1 * np.sqrt(law.leading_variance()), "quadratic": c2 * np.sqrt(law.second_moment() / 2)}
        if network.target.directions > 1:
            del sizes["split"]
        if batches[index] or network.readout.classes:
            del sizes["quadratic"]
        chosen[index] = max(sizes, key=lambda name: sizes[name]) if sizes else "exact"
    return chosen


def rank_warnings(network: Network, points: Points) -> list[str]:
    """Warn where the corrections to the limit, which are of order 1/r_eff and 1/r_4, are not small."""
    inputs = network.inputs
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
    ranks = np.array([_effective_ranks(network, points, int(index)) for index in first])
    low = ranks[np.argmin(np.min(ranks / LEAST_RANKS, axis=1))]
    if np.all(low >= LEAST_RANKS):
        return remarks
    return [
        *remarks,
        f"The inputs have the effective ranks r_eff = {low[0]:.3g} and r_4 = {low[1]:.3g}: below 100 and 20 the limit "
        'may be several percent off (theory="auto" at a finite dim mends part; see the page on structured inputs).',
    ]


def _effective_ranks(network: Network, points: Points, index: int) -> Floats:
    """Return r_eff and r_4 of one point, in the dimension that is asked about or that the inputs have."""
    inputs = inputs_at(network, points, index).inputs
    assert inputs is not None
    of_dim = inputs.rank_dim(float(points["dim"][index]))
    return of_dim * np.array(input_law(network, points, index).effective_ranks())
