"""What the read-out sees of the layer: features on a rule for kappa, the law of the
bulk rows, and what a finite size adds.

spiked_features section 4, few_steps_readout section 4 and structured_inputs section 4;
finite_size_steps for a finite dimension, whose equations are cited by number. All
blocks share kappa, the learnt directions; what depends on the theory in use is asked of
`layer.rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian.functions import tabulated
from giantstep.core.maths.gaussian.moments import Moments
from giantstep.core.maths.gaussian.planes import Plane
from giantstep.core.maths.gaussian.subspaces import Directions, rank_of
from giantstep.core.readout import PACKED_BLOCKS, Bulk, Features, FiniteSize
from giantstep.core.readout.features import channels, mean_functions
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.rows.protocol import Axes
from giantstep.problems.network.scatter import Scattered, scattered
from giantstep.problems.network.splits import learnt_of_target
from giantstep.problems.network.tolerances import LARGE_MEANS
from giantstep.problems.network.views import ON_THE_SPOT, SharedView, views

CLASS_ENDS = (0.0, 0.06, -0.06, 0.25, -0.25)
"""Where a class ends and breaks around it: a wrong sign may become likely within a
hundredth there.
"""


@dataclass(frozen=True)
class Description:
    """What the read-out sees of some parameter sets: features (one set for each), laws
    of their rows, directions.
    """

    sets: Integers
    features: Features
    bulks: tuple[Bulk, ...]
    lengths: int  # number of channels before those of the coordinates
    # number of learnt directions: what the rows share, the noise of a batch included
    learnt: int
    # how many directions of the target lie inside them, in part or whole
    of_target: int
    view: SharedView  # the rule for kappa and what the target is given kappa
    plain: Features  # the same for all inputs of one kappa, as on all data
    # about how much of the test error is left out of steep features (S,), relative
    neglected: Floats


def describe(
    problem: Problem,
    layer: Layer,
    fineness: float = 1.0,
    *,
    leading: bool = False,
    finer: float = 1.0,
    scatter: bool = False,
) -> Iterator[Description]:
    """Yield the descriptions of all parameter sets, on rules that break where a class
    ends; options as `views`.

    With `scatter` steep features are different for different inputs, as they are at a
    finite dimension.
    """
    # many blocks are solved at the nodes, which must not be many then
    few_blocks = len(problem.zeta) <= PACKED_BLOCKS
    breaks = class_breaks(problem, few_blocks)
    if not few_blocks:
        finer = 1.0
    for view in views(problem, layer, fineness, leading, finer, breaks):
        sets = view.sets
        part = layer
        if len(sets) < len(layer):
            part = layer.take(sets)
        basis = view.basis
        axes = part.rows.axes(problem, basis, view.given, sets)
        shifts = part.means @ basis.learnt @ view.given.nodes.T
        plain = _features(problem, part, view, axes, shifts)
        several = Scattered(plain, np.zeros(len(part)))
        if scatter:
            problem_of_part = problem
            if len(sets) < len(problem.pi):
                problem_of_part = problem.take(sets)
            several = scattered(problem_of_part, part, shifts, axes.unit, plain)
        # sets of a view see the target alike: the first stands for all
        of_target = learnt_of_target(problem, layer, int(sets[0]), basis)
        yield Description(
            sets=sets,
            features=several.features,
            bulks=part.rows.bulks(problem, basis),
            lengths=axes.lengths,
            learnt=basis.learnt.shape[1],
            of_target=rank_of(of_target),
            view=view,
            plain=plain,
            neglected=several.neglected,
        )


def class_breaks(problem: Problem, few_blocks: bool) -> list[Plane]:
    """Return the planes of z at which rules break: where a class ends, and around it
    unless the nodes must be few.
    """
    normal = problem.network.class_direction
    if normal is None:
        return []
    ends = CLASS_ENDS if few_blocks else CLASS_ENDS[:1]
    direction = tuple(normal.tolist())
    return [Plane(direction, offset) for offset in ends]


def _features(
    problem: Problem, layer: Layer, view: SharedView, axes: Axes, shifts: Floats
) -> Features:
    """Return the features of these sets on the rule of their view, for the `shifts` (M,
    k, N) of the neurons at its nodes.

    mu1 is D_1, or B_q D_1 to bulk rows of length 1.
    """
    given = view.given
    s = layer.scale(problem)
    moments = _moments(problem, shifts, s)
    # the first derivative D_1, for a moment of z in units of s
    slope = moments.slope / s[..., None]
    T0, Jp = channels(
        axes.along,
        axes.across,
        axes.scales,
        given.nodes,
        slope,
        moments.curvature,
        axes.unit,
    )
    field, rho = _class_direction(problem, layer, view, len(axes.target))
    sets = len(layer)

    def for_all(values: Floats) -> Floats:
        return np.broadcast_to(values, (sets, *np.shape(values)))

    return Features(
        pi=problem.pi[0],
        weights=for_all(given.weights),
        mu0=mean_functions(moments),
        mu1=axes.unit[..., None] * slope,
        mu2=moments.noise,
        T0=T0,
        # the strength of a channel is a part of T0: few_steps_readout section 16
        omega=np.ones(T0.shape[:2]),
        Jp=Jp,
        h=for_all(given.h),
        h1=for_all(axes.target),
        hh=for_all(given.square),
        field=None if field is None else for_all(field),
        rho=None if rho is None else for_all(rho),
        stretch=s[..., None] * moments.curvature,
        kappa=for_all(given.nodes.T),
    )


def _moments(problem: Problem, shifts: Floats, s: Floats) -> Moments:
    """Return the moments of the activation at shifts (M, k, N) of rows of length s (M,
    k).
    """
    table = tabulated(
        problem.activation, lambda f, *at: np.stack(f.moments(*at)), shifts, s
    )
    moments = Moments(*table)
    # a variance, which rounding may leave below zero
    return moments._replace(noise=np.maximum(moments.noise, 0.0))


def _class_direction(
    problem: Problem, layer: Layer, view: SharedView, unlearnt: int
) -> tuple[Floats | None, Floats | None]:
    """Return the field (N,) whose sign is the label with what lies along the unlearnt
    directions, and these parts of the class direction (L,); None without classes.
    """
    normal = problem.network.class_direction
    if normal is None:
        return None, None
    basis: Directions = view.basis
    direction = normal @ layer.frame[0]
    across = direction @ basis.rest
    across = np.where(np.abs(across) < ON_THE_SPOT, 0.0, across)
    # channels of the bulk that the target does not see
    across = np.pad(across, (0, unlearnt - len(across)))
    return view.given.nodes @ (direction @ basis.learnt), across


# -- finite size -----------------------------------------------------------------------


def finite_size(
    problem: Problem, layer: Layer, set_of_point: Integers, dim: Floats
) -> FiniteSize:
    """Return the finite size of points of these dimensions (B,), whose parameter sets
    are `set_of_point` (B,).
    """
    if not np.isfinite(dim).any():
        return FiniteSize(1 / dim)
    return layer.rows.finite_size(problem, set_of_point, dim)


def means_warning(problem: Problem, layer: Layer) -> list[str]:
    """Warn where the mean of a block is too long: finite_size_steps section 13; nodes
    of a law are no blocks.
    """
    if problem.network.second_layer == "gaussian" or problem.is_split:
        return []
    of_blocks = layer.rows.added_to_means(problem)
    if of_blocks is None:
        return []
    added = float(np.max(of_blocks))
    if added <= LARGE_MEANS:
        return []
    return [
        f"The steps add {added:.2g} to the squared length of the mean of a block, in"
        " units of its rows: the correction at a finite dim is of first order in it"
        f" ({LARGE_MEANS:g} at most)."
    ]
