"""From a layer to what the read-out sees: features given kappa, labels beside them, law
of the rows, finite size.

few_steps_readout (4.1), (4.2), structured_inputs (4.5), spiked_features (6.1): one
description for every list of steps.

At a finite dimension (finite_size_steps, level by level) a ridge fit on isotropic rows
after gradients of the population has all its terms. Fits of classes, and finite batches
described as isotropic, have the means of the blocks alone; inputs with a covariance
have them and the stretch (6.5). What is not known to move the means leaves them as
those of independent rows, `FiniteSize(1/d)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.chunks import with_zeros
from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian.functions import tabulated
from giantstep.core.maths.gaussian.moments import Moments
from giantstep.core.maths.gaussian.planes import Plane
from giantstep.core.maths.gaussian.subspaces import rank_of
from giantstep.core.readout import (
    PACKED_BLOCKS,
    Bulk,
    Features,
    FiniteSize,
    InputBulk,
    IsotropicBulk,
    SignBulk,
)
from giantstep.core.readout.block_means import products_of_means
from giantstep.core.readout.features import channels, mean_functions
from giantstep.core.readout.finite_size import stretch_of_atoms
from giantstep.core.readout.input_spread import InputSpread
from giantstep.problems.network.layer import (
    Layer,
    SharedView,
    independent_spread,
    is_split,
    learnt_of_target,
    scale_of,
    views,
    without_mean,
)
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.scatter import Scattered, scattered
from giantstep.problems.network.tolerances import BESIDE_MEANS, LARGE_MEANS

MEANS = "whole numbers of samples and neurons; the means of the blocks as "
INDEPENDENT = MEANS + "those of independent rows, with a ridge of 1/(d R)"
FOLLOWED = MEANS + "the steps leave them"
ON_BATCHES = (
    ", what the output of the network adds to them (finite_size_steps sections 2 and"
    " 7), as if the batches had no preferred directions, and the number of fitted"
    " parameters"
)
ALL_TERMS = (
    ", the action of neurons on themselves, stretched inputs and the number of fitted"
    " parameters (finite_size_steps, all terms)"
)
SPLIT = (
    "; the overlaps of the rows with the target by sub-blocks (finite_size_steps"
    " section 14)"
)
CLASS_ENDS = (0.0, 0.06, -0.06, 0.25, -0.25)
"""Where a class ends and breaks around it: a wrong sign may become likely within a
hundredth there.
"""


@dataclass(frozen=True)
class Description:
    """What the read-out sees of some parameter sets: features (one set for each), laws
    of their rows, directions.
    """

    rows: Integers
    features: Features
    bulks: tuple[Bulk, ...]
    # (S, 2, R): kappa's first axis and the rest of the target, in coordinates of the
    # initial rows, or 0
    along: Floats
    lengths: int  # number of channels before those of the coordinates
    # number of learnt directions: what the rows share, the noise of a batch included
    learnt: int
    of_target: (
        int  # how many directions of the target lie inside them, in part or whole
    )
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
    few = len(problem.zeta) <= PACKED_BLOCKS
    normal = problem.network.class_direction
    ends = CLASS_ENDS if few else CLASS_ENDS[:1]
    if normal is None:
        breaks = []
    else:
        breaks = [Plane(tuple(normal.tolist()), offset) for offset in ends]
    for view in views(problem, layer, fineness, leading, finer if few else 1.0, breaks):
        if len(view.rows) == len(layer):
            part = layer
        else:
            part = layer.take(view.rows)
        plain, several, along, lengths = _features(problem, part, view, scatter)
        bulks = _bulks(problem, part, view)
        learnt = view.basis.learnt.shape[1]
        yield Description(
            rows=view.rows,
            features=several.features,
            bulks=bulks,
            along=along,
            lengths=lengths,
            learnt=learnt,
            of_target=rank_of(
                learnt_of_target(problem, layer, int(view.rows[0]), view.basis)
            ),
            view=view,
            plain=plain,
            neglected=several.neglected,
        )


def _features(
    problem: Problem, layer: Layer, view: SharedView, scatter: bool
) -> tuple[Features, Scattered, Floats, int]:
    """Return the features of these sets on the rule of their view, and as they scatter,
    if that is asked for.

    mu1 is D_1, or B_q D_1 to bulk rows of length 1.
    """
    given = view.given
    basis = view.basis
    s = scale_of(problem, layer)
    A = layer.U @ basis.learnt @ given.nodes.T
    moments = Moments(
        *tabulated(problem.activation, lambda f, *at: np.stack(f.moments(*at)), A, s)
    )
    moments = moments._replace(noise=np.maximum(moments.noise, 0.0))
    # D_1, and its target
    slope, h1, lengths = (
        moments.slope / s[..., None],
        given.h1.T,
        0,
    )
    if problem.isotropic and layer.batch is None:
        JU, Js, lengths = independent_spread(problem, layer)
        unit = bulk_length(problem, layer, problem.neurons[view.rows])
        rest = np.concatenate([basis.rest, basis.silent()], axis=1)
        h1 = with_zeros(h1, (rest.shape[1], h1.shape[1]))
        along = basis.learnt.T @ JU
        across = rest.T @ JU
    # unit vectors: one for each direction, the last one for y; `_bulks` knows what they
    # cost
    else:
        if isinstance(layer.batch, SignBulk) and not len(
            h1
        ):  # its law always has an unlearnt direction
            h1 = np.zeros((1, len(given.nodes)))
        m = basis.learnt.shape[1]
        L = len(h1)
        unit = np.ones_like(s)
        units = np.broadcast_to(np.eye(m + L + 1), (*s.shape, m + L + 1, m + L + 1))
        along = units[..., :m, :]
        across = units[..., m : m + L, :]
        Js = units[..., -1, :]
        if (
            layer.batch is not None
        ):  # y is |b|^2 there: finite_batches_several_steps (6.1)
            Js = Js / (2 * s[..., None])
    T0, Jp = channels(along, across, Js, given.nodes, slope, moments.curvature, unit)

    def for_all(values: Floats) -> Floats:
        return np.broadcast_to(values, (len(layer), *np.shape(values)))

    field = None
    rho = None
    normal = problem.network.class_direction
    if (
        normal is not None
    ):  # the label is the sign of the field and of what lies along unlearnt directions
        direction = normal @ layer.frame[0]
        unlearnt = direction @ basis.rest
        unlearnt = np.pad(
            np.where(np.abs(unlearnt) < 1e-12, 0.0, unlearnt),
            (0, len(h1) - len(unlearnt)),
        )
        field = for_all(given.nodes @ (direction @ basis.learnt))
        rho = for_all(unlearnt)

    features = Features(
        pi=problem.pi[0],
        weights=for_all(given.weights),
        mu0=mean_functions(moments),
        mu1=unit[..., None] * slope,
        mu2=moments.noise,
        T0=T0,
        omega=np.ones(T0.shape[:2]),
        Jp=Jp,
        h=for_all(given.h),
        h1=for_all(h1),
        hh=for_all(given.square),
        field=field,
        rho=rho,
        stretch=s[..., None] * moments.curvature,
        kappa=for_all(given.nodes.T),
    )
    several = Scattered(features, np.zeros(len(layer)))
    if scatter:
        if len(view.rows) == len(problem.pi):
            own = problem
        else:
            own = problem.take(view.rows)
        several = scattered(own, layer, A, unit, features)
    columns = np.concatenate([basis.learnt, basis.rest], axis=1)[:, :2]
    moved = layer.past.shape[1] > 1
    planted = layer.U.shape[2] > problem.target.directions
    if moved and planted and not basis.learnt.shape[1]:  # a planted spike of strength 0
        columns = np.eye(layer.U.shape[2], 2)
    along = for_all(with_zeros(columns, (len(columns), 2)).T)
    return features, several, along, lengths


def _bulks(problem: Problem, layer: Layer, view: SharedView) -> tuple[Bulk, ...]:
    """Return the laws of the bulk rows that belong to `_features`."""
    if isinstance(layer.batch, SignBulk):
        return tuple(layer.batch.take([number]) for number in range(len(layer)))
    if layer.batch is not None:
        directions = np.concatenate(view.basis, axis=1)
        return tuple(
            chain.bulk(directions[: chain.U.shape[1]]) for chain in layer.batch.of_set
        )
    if problem.isotropic:
        return (IsotropicBulk(),) * len(layer)
    inputs = problem.inputs
    B = layer.B.swapaxes(1, 2)
    product = inputs.eigenvalues[:, None, None] * (B[..., :, None] * B[:, :, None])
    JU, Js, lengths = independent_spread(problem, layer)
    diagonal = (
        np.sqrt(inputs.coordinate_eigenvalues) * layer.past[:, -1][..., inputs.atoms]
    )
    own = np.zeros_like(diagonal)
    if layer.own is not None:  # every atom has a coordinate of the noise of the batch
        diagonal = np.concatenate(
            [diagonal, np.sqrt(inputs.eigenvalues) * layer.B], axis=2
        )
        own = layer.own
    columns = lengths + np.arange(diagonal.shape[2])
    seen = np.concatenate(view.basis, axis=1)
    bulks = []
    for number in range(len(layer)):
        spread = InputSpread(
            JU[number], Js[number], diagonal[number], columns, seen, own[number]
        )
        if np.isfinite(problem.quadratic_dim):
            size = (
                inputs.eigenvalues
                * layer.B[number] ** 2
                / scale_of(problem, layer)[number, :, None]
            )
            moved = without_mean(problem, np.eye(len(inputs.masses)))
            spread = spread.with_quadratic_noise(
                size / np.sqrt(problem.quadratic_dim), moved
            )
        bulks.append(InputBulk(product[number], inputs.masses, spread))
    return tuple(bulks)


# -- finite size -----------------------------------------------------------------------


def finite_size(
    problem: Problem, layer: Layer, members: Integers, dim: Floats
) -> FiniteSize:
    """Return the finite size of points of these dimensions (B,), whose parameter sets
    are `members` (B,).
    """
    inverse_dim = 1 / dim
    k = len(problem.zeta)
    if not np.isfinite(dim).any() or isinstance(layer.batch, SignBulk):
        return FiniteSize(inverse_dim)
    if layer.batch is not None:
        products = products_of_means(layer.feedback, problem.neurons)[:, 0]
        independent = np.eye(k) * (layer.B[..., 0] ** 2 / problem.neurons)[:, None]
        excess = (products - independent)[members]
        # every direction of the target and of the noise of a batch is treated on its
        # own
        return FiniteSize(
            inverse_dim,
            excess=excess,
            directions=np.full(len(dim), float(layer.U.shape[2])),
        )
    scale = (problem.inputs.eigenvalues * layer.B**2).swapaxes(1, 2)[members]
    stretch = stretch_of_atoms(inverse_dim, scale, problem.inputs.masses)
    if layer.stretched:
        return FiniteSize(inverse_dim, stretch=stretch)
    # (6.2)
    gram = problem.inputs.eigenvalues[:, None, None] * products_of_means(
        layer.feedback, problem.neurons
    )
    if problem.isotropic:  # (2.4)
        s = bulk_length(problem, layer, problem.neurons)
        gram = gram[:, 0] / (s[:, :, None] * s[:, None, :])
    if problem.isotropic and layer.all_terms:
        return FiniteSize(
            inverse_dim,
            gram[members],
            stretch,
            np.full(len(dim), float(layer.U.shape[2])),
        )
    # else their identity has no stretch
    known = not (problem.isotropic or problem.network.readout.classes)
    return FiniteSize(inverse_dim, gram[members], stretch if known else None)


def bulk_length(problem: Problem, layer: Layer, neurons: Floats) -> Floats:
    """Return the length of the bulk rows of isotropic inputs (M, k): (2.6), but for
    means beyond the range of it.
    """
    if np.isinf(neurons).all():
        return layer.B[..., 0]
    # There the mean of a block is not short beside its rows. Counted among the
    # independent rows, too, it made the test error of a ReLU network (rate 8, d = 150)
    # 13% and its norm six times too large; without it they are right to 1% and 3%.
    # Inside the range the two differ by less than other terms of order 1/d that are
    # left out.
    far = _added(problem, layer, neurons).max(axis=1, keepdims=True) > BESIDE_MEANS
    return np.where(far, layer.length, layer.B[..., 0])


def _added(problem: Problem, layer: Layer, neurons: Floats) -> Floats:
    """Return what the steps add to the squared length of the mean of a block (M, k), in
    units of its whole rows.
    """
    squares = (
        np.einsum("mjqq->mqj", products_of_means(layer.feedback, neurons))
        * problem.inputs.eigenvalues
    )
    added = (
        problem.inputs.average(squares) / scale_of(problem, layer) ** 2 - 1 / neurons
    )
    # nodes of a continuous law have no mean of their own
    return np.where(neurons >= 1, added, 0.0)


def terms_of(problem: Problem, layer: Layer) -> str:
    """Say which terms of a finite size are in."""
    if layer.batch is not None:
        return INDEPENDENT + ("" if isinstance(layer.batch, SignBulk) else ON_BATCHES)
    if layer.stretched:
        return INDEPENDENT + ", and stretched inputs"
    if not problem.isotropic and not problem.network.readout.classes:
        return FOLLOWED + ", and stretched inputs (finite_size_steps section 6)"
    said = FOLLOWED + (
        ALL_TERMS if layer.all_terms else " (finite_size_steps sections 2 to 4)"
    )
    return said + (SPLIT if is_split(problem) else "")


def means_warning(problem: Problem, layer: Layer) -> list[str]:
    """Warn where the mean of a block is too long: finite_size_steps section 13; nodes
    of a law are no blocks.
    """
    of_nodes = problem.network.second_layer == "gaussian" or is_split(problem)
    if layer.batch is not None or layer.stretched or of_nodes:
        return []
    added = float(np.max(_added(problem, layer, problem.neurons)))
    said = [
        f"The steps add {added:.2g} to the squared length of the mean of a block, in"
        " units of its rows: the correction at a finite dim is of first order in it"
        f" ({LARGE_MEANS:g} at most)."
    ]
    return said if added > LARGE_MEANS else []
