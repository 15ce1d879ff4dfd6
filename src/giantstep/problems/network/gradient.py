"""The gradient on the population as a motion of the layer, and the noise of a batch
beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.gaussian.functions import tabulated
from giantstep.core.maths.gaussian.residual import Residual
from giantstep.core.maths.stacked import Stacked
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.rows.motion import Motion
from giantstep.problems.network.views import SharedView, views

if TYPE_CHECKING:
    from giantstep.problems.network.rows.followed import FollowedRows


@dataclass(frozen=True, eq=False)
class Gradient(Stacked):
    """The population gradient as the motion of a layer, and the noise of a batch of d
    samples beside it.
    """

    motion: Motion
    slopes: Floats  # (M, k, k): E[D_1q D_1c]
    bends: Floats  # (M, k): E[D_0 D_2]
    # (M, k, k): covariance of the noise that all neurons of two blocks share
    common: Floats
    total: Floats  # (M, k): variance of all of the noise of a neuron


def follow_gradient(
    problem: Problem,
    layer: Layer,
    rows: FollowedRows,
    fed_back: Floats,
    whitening: Floats,
    with_noise: bool = False,
) -> Gradient:
    """Return the gradient of every set of a layer with these rows: structured_inputs
    (3.1)-(3.5), finite_size_steps (2.2), (6.1).
    """
    parts = []
    order = []
    for view in views(problem, layer):
        sets = view.sets
        if len(sets) == len(layer):
            return _gradient_of(
                problem, layer, rows, view, fed_back, whitening, with_noise
            )
        part = _gradient_of(
            problem,
            layer.take(sets),
            rows.take(sets),
            view,
            fed_back[sets],
            whitening[sets],
            with_noise,
        )
        parts.append(part)
        order.append(sets)
    return Gradient.join(parts).take(np.argsort(np.concatenate(order)))


class _Pull(NamedTuple):
    """What a preconditioner makes of the gradient, Sigma^(1-c): lambda^(1-c)."""

    of_atoms: Floats  # (M, K)
    of_coordinates: Floats  # (M, R)

    @classmethod
    def of(cls, problem: Problem, coordinates: int, whitening: Floats) -> _Pull:
        """Return it for sets of these powers c (M,)."""
        lam = problem.inputs.eigenvalues
        atoms = problem.inputs.atoms
        power = 1 - whitening[:, None]
        # 0^0 is 1: nothing moves where the inputs have no variance
        of_atoms = np.where(lam > 0, np.maximum(lam, 1e-300) ** power, 0.0)
        # coordinates of what is planted, and of noise: on isotropic inputs
        others = np.ones((len(of_atoms), coordinates - len(atoms)))
        return cls(of_atoms, np.concatenate([of_atoms[:, atoms], others], axis=1))


def _gradient_of(
    problem: Problem,
    layer: Layer,
    rows: FollowedRows,
    view: SharedView,
    fed_back: Floats,
    whitening: Floats,
    with_noise: bool,
) -> Gradient:
    """Return the gradient of sets that share a view."""
    given = view.given
    A = layer.means @ view.basis.learnt @ given.nodes.T
    # D[j] = E sigma^(j)(A + s z), (M, k, N)
    D = tabulated(problem.activation, Function.smoothed, A, layer.scale(problem))
    output = (fed_back[:, None] @ D[0])[:, 0]
    residual = Residual(given, view.basis, problem.kept[view.sets], output)
    pull = _Pull.of(problem, layer.means.shape[2], whitening)
    slopes = (D[1] * given.weights) @ np.swapaxes(D[1], 1, 2)
    motion = _motion_of(problem, rows, residual, D, pull, slopes * fed_back[:, None])
    common = np.zeros_like(slopes)
    total = np.zeros(A.shape[:2])
    if with_noise:
        noise = problem.numbers["noise"][view.sets]
        power = given.weights * residual.power(noise)
        common = (D[1] * power[:, None]) @ np.swapaxes(D[1], 1, 2)
        total = _noise_of_neurons(problem, layer, A, power)
    bends = (D[0] * D[2]) @ given.weights
    return Gradient(motion, slopes, bends, common, total)


def _motion_of(
    problem: Problem,
    rows: FollowedRows,
    residual: Residual,
    D: Floats,
    pull: _Pull,
    turned: Floats,
) -> Motion:
    """Return by how much the gradient moves the rows; `turned` (M, k, k) is what a
    block sees of the others' means.
    """
    zeta = problem.zeta[:, None]
    s = rows.scale(problem)
    # E[res D_2] (M, k), E[res D_3 zt] (M, k, R)
    growth = residual.mean(D[2])
    bent = residual.linear(D[3])
    # how the growth differs inside a block, variable by variable: (M, k, C)
    of_means = (bent[:, :, None, :] @ rows.JU)[:, :, 0]
    of_lengths = (s * residual.mean(D[4]))[..., None] * rows.Js
    bend = of_means + of_lengths
    U = zeta * pull.of_coordinates[:, None] * residual.linear(D[1])
    B = zeta * growth[..., None] * pull.of_atoms[:, None] * rows.B
    # how U differs: by what a row has along each direction, and by its length
    along = residual.quadratic(D[2], rows.JU)
    by_length = s[..., None, None] * bent[..., None] * rows.Js[:, :, None, :]
    JU = zeta[..., None] * pull.of_coordinates[:, None, :, None] * (along + by_length)
    grown = growth[..., None, None] * rows.JB + rows.B[..., None] * bend[:, :, None, :]
    JB = zeta[..., None] * pull.of_atoms[:, None, :, None] * grown
    # (2.2) of finite_size_steps: a mean grows as its rows do, and is pulled back by the
    # output of all means
    means = growth[:, None, :, None] * rows.feedback - turned[:, None] @ rows.feedback
    feedback = zeta * pull.of_atoms[:, :, None, None] * means
    return Motion(U, B, JU, JB, feedback)


def _noise_of_neurons(
    problem: Problem, layer: Layer, A: Floats, power: Floats
) -> Floats:
    """Return the variance (M, k) of all of the noise of a neuron, for the power of the
    residuals at the nodes (M, N).
    """
    activation = problem.activation
    slope = Function(activation.derivative, kinks=activation.kinks)
    squares = slope.second_moment(A, layer.scale(problem)[..., None])
    variance: Floats = (squares @ power[:, :, None])[..., 0]
    return variance
