"""What a question asks for beside the network: its settings, checked; which networks it knows, by which theory.

Two theories of a finite dimension are for inputs of low effective rank, where the limit warns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from giantstep.checks import check_list
from giantstep.errors import bad_field
from giantstep.families.network.beyond import CHECKS
from giantstep.families.network.problem import finite_batches, input_law, inputs_at
from giantstep.families.network.scenario import Network
from giantstep.inputs.parts import InputRows
from giantstep.inputs.report import LEAST_RANKS, warnings_of
from giantstep.types import Floats, Points, Strings

BOUND = 9.0
"""Largest |kappa| that rules reach."""
FINITE_DIM = ("split", "quadratic")
"""Theories of inputs of low effective rank, structured_inputs (8.2) and (8.1)."""


def checks() -> Mapping[str, Callable[[Any], Any]]:
    """Return setting -> what checks it and fills it in where it is left out."""
    from giantstep.readout.answers import check_x, check_z
    from giantstep.readout.feature_spikes import check_degrees

    several = f"an increasing list of at least two numbers between -{BOUND:g} and {BOUND:g}"
    return {
        "x": check_x,
        "z": check_z,
        "degree": check_degrees,
        "kappa": partial(check_list, "kappa", several, _positions, np.arange(-12, 13) / 4),
        **CHECKS,
    }


def _positions(numbers: Floats) -> bool:
    return len(numbers) > 1 and bool(np.all(np.diff(numbers) > 0) and np.max(np.abs(numbers)) <= BOUND)


# -- theories of a finite dimension -----------------------------------------------------------------------------------


def chosen_theories(network: Network, points: Points, what: str, theory: str | None) -> Strings:
    """Return the theory of every point, which `theory="auto"` leaves open.

    "exact" where both effective ranks are large, where the limit is asked for, or where neither refinement is known;
    else the one whose fluctuation in the features is larger at the start: c_1 sqrt(tau_2/d) of the leading channel,
    not linearised by structured_inputs (8.2), or c_2 sqrt(int lambda^2/(2 d)) of w0^T Sigma w0, split by (8.1).
    """
    chosen = np.full(len(points["dim"]), "exact" if theory in (None, "auto") else theory, dtype=object)
    if theory not in ("auto", *FINITE_DIM):
        return chosen
    _, c1, c2 = np.abs(network.activation.hermite(2))
    asked = np.isfinite(points["dim"]) & (network.inputs is not None and what == "errors")
    says = {
        "split": asked & (network.target.directions == 1),
        "quadratic": asked & ~finite_batches(points) & (not network.readout.classes),
    }
    for index in range(len(chosen)):
        known = [name for name, holds in says.items() if holds[index]]
        if theory in FINITE_DIM and theory not in known:
            allowed = '"exact" where inputs are isotropic, without a finite dim, or where what is not "errors"'
            more = {"split": "several directions", "quadratic": "finite batches or classes"}
            raise bad_field("theory", theory, f"{allowed}; or where there are {more[theory]}")
        if theory == "auto" and known and np.any(_effective_ranks(network, points, index) < LEAST_RANKS):
            law = input_law(network, points, index)
            sizes = {"split": c1 * np.sqrt(law.leading_variance()), "quadratic": c2 * np.sqrt(law.second_moment() / 2)}
            chosen[index] = max(known, key=lambda name: sizes[name])
    return chosen


def rank_warnings(network: Network, points: Points) -> list[str]:
    """Warn where the corrections to the limit, which are of order 1/r_eff and 1/r_4, are not small."""
    inputs = network.inputs
    if inputs is None:
        return []
    names = ["dim", *(name for name in points if name.startswith("inputs."))]
    first = np.unique(np.stack([points[name] for name in names], axis=1), axis=0, return_index=True)[1]
    ranks = np.array([_effective_ranks(network, points, int(index)) for index in first])
    excess = inputs.norm_excess() if isinstance(inputs, InputRows) else 0.0
    return warnings_of(ranks, excess)


def _effective_ranks(network: Network, points: Points, index: int) -> Floats:
    """Return r_eff and r_4 of one point, in the dimension that is asked about or that the inputs have."""
    inputs = inputs_at(network, points, index).inputs
    assert inputs is not None
    of_dim = inputs.rank_dim(float(points["dim"][index]))
    return of_dim * np.array(input_law(network, points, index).effective_ranks())
