"""The layer before the first step, and layers that are planted by hand on it."""

from __future__ import annotations

import dataclasses

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.rows.covariance import CovarianceRows
from giantstep.problems.network.rows.followed import FollowedRows
from giantstep.problems.network.rows.isotropic import ExactRows, IsotropicRows


def law_of(problem: Problem) -> type[FollowedRows]:
    """Return the law of rows that no step has moved yet."""
    if not problem.isotropic:
        return CovarianceRows
    # all terms of order 1/d are derived for a ridge fit
    if problem.network.readout.classes:
        return IsotropicRows
    return ExactRows


def start_rows(problem: Problem) -> FollowedRows:
    """Return the law of the rows before the first step, structured_inputs (3.6).

    The variables of the spread are the length of a row and its R coordinates.
    """
    k = len(problem.zeta)
    M, _, R = problem.frame.shape
    K = len(problem.inputs.eigenvalues)
    # the first column, of the length, is zero: B does not differ from row to row yet
    own_coordinate = np.eye(R, 1 + R, 1)
    # dU = L^1/2 eps/sqrt(d) of structured_inputs (3.6)
    JU = np.sqrt(problem.coordinate_eigenvalues)[:, None] * own_coordinate
    B = np.ones((M, k, K))
    return law_of(problem)(
        B=B,
        JU=np.tile(JU, (M, k, 1, 1)),
        JB=np.zeros((M, k, K, 1 + R)),
        # ds = Theta/2 of structured_inputs (3.6): a length moves by half its square
        Js=np.tile(0.5 * np.eye(1, 1 + R), (M, k, 1)),
        # F of finite_size_steps (2.1): no output has turned the means yet
        feedback=np.broadcast_to(np.eye(k), (M, K, k, k)),
        is_length=(True, *(False,) * R),
        past=B[:, None],
        length=np.ones((M, k)),
        single=np.ones(M, dtype=bool),
    )


def start(problem: Problem) -> Layer:
    """Return the layer before the first step: no block has a mean yet."""
    M, _, R = problem.frame.shape
    means = np.zeros((M, len(problem.zeta), R))
    return Layer(means=means, frame=problem.frame, rows=start_rows(problem))


def planted(problem: Problem, gamma: Floats, strength: Floats, bulk: Floats) -> Layer:
    """Return rows s_q w0_i + u_q v with <v, w*> = gamma (M,), u and s (M, k), on
    isotropic inputs and one direction.
    """
    # rounding may take gamma^2 above 1
    across = np.sqrt(np.maximum(0.0, 1 - gamma**2))
    # the first coordinate is v, the second what w* has across it
    frame = np.stack([gamma, across], axis=1)[:, None]
    problem = dataclasses.replace(problem, frame=frame)
    shifts = np.stack([strength, 0 * strength], axis=2)
    layer = start(problem)
    return layer.rows.shifted(problem, layer, shifts, bulk)
