"""The first layer between two steps: where the blocks of neurons are, how a block
spreads, what a batch left behind.

few_steps_readout (3.1)-(3.5) and, for inputs with a covariance, structured_inputs
(3.1)-(3.7), of which isotropic inputs are one atom. After t steps neuron i of block q
has the row Sigma^1/2 w_i = Sigma^1/2 B_i(Sigma) b_i + U_i in whitened coordinates, with
(U_i, B_i, s_i) = (U_q, B_q, s_q) + (JU_q, JB_q, Js_q) eps_i/sqrt(d) and s^2 = int
lambda B^2 dmu. This O(1/sqrt d) spread shifts every feature by a term of the size of
the bulk, so that the read-out needs it.

All of it is followed for M parameter sets at once (other rates, batches, ...), which
differ in numbers only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from giantstep.core.base.chunks import with_zeros
from giantstep.core.base.errors import Code, InputError
from giantstep.core.base.types import Booleans, Floats, Integers, Strings
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.gaussian.conditional import (
    ConditionalTarget,
    coarsened,
    condition,
)
from giantstep.core.maths.gaussian.functions import tabulated
from giantstep.core.maths.gaussian.grids import hermite_rule, plane_rule
from giantstep.core.maths.gaussian.planes import Plane
from giantstep.core.maths.gaussian.residual import Residual
from giantstep.core.maths.gaussian.subspaces import (
    FEW_AXES,
    LEARNT,
    Directions,
    split_directions,
)
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout import SignBulk
from giantstep.problems.network.finite_batches import Chains
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.tolerances import (
    CANCELLED,
    DIVERGED,
    MOST_LEARNT,
    RANK,
    WEAKEST,
)

TOO_MANY = f"more than {MOST_LEARNT} learnt directions"
DIVERGES = "the weights grow without bound (|w|^2 above 1e8)"
CANCELS = "the step cancels the initial weights of a block (bulk scale s = 0)"


@dataclass(frozen=True, eq=False)
class BlockRows(Stacked):
    """The rows of k blocks in R whitened coordinates, with K atoms, for M parameter
    sets; or by how much they move.
    """

    U: Floats  # (M, k, R)
    B: Floats  # (M, k, K)
    JU: Floats  # (M, k, R, C)
    JB: Floats  # (M, k, K, C)
    # (M, K, k, C'): F of finite_size_steps (2.2), what became of the mean rows of the
    # blocks
    feedback: Floats

    def plus(self, rate: Floats, change: BlockRows, keep: Floats) -> dict[str, Any]:
        """Return keep rows + rate change, `keep` and `rate` (M,); what the rows have
        gained since did not change.
        """
        found = {}
        for name in (field.name for field in dataclasses.fields(BlockRows)):
            own = getattr(self, name)
            more = getattr(change, name)
            each = (-1, *(1,) * (getattr(self, name).ndim - 1))
            if own.shape != more.shape:
                more = with_zeros(more, own.shape)
            found[name] = keep.reshape(each) * own + rate.reshape(each) * more
        return found


@dataclass(frozen=True, eq=False)
class Layer(BlockRows):
    """The first layer after some steps.

    Directions of batch noise are further coordinates on which the target does not
    depend: columns of zeros of `frame`. A variable of the spread is a length, the
    fluctuation of w0^T Sigma B^2 w0 at one time, or an independent standard normal: a
    coordinate of w0, of the noise of a batch, or a neuron's own part of that noise.
    """

    Js: Floats  # (M, k, C): how s differs inside a block
    # (C,): which variables have the covariance structured_inputs (3.7)
    is_length: tuple[bool, ...]
    frame: Floats  # (M, r, R), the target's directions
    past: Floats  # (M, T, k, K): B at the times of the lengths
    # (M, k): length of the rows without the mean of their block, with its sign
    # (isotropic inputs)
    length: Floats
    rows_known: Booleans
    """Whether sums over single rows can be told: not where noise of a batch is
    described as a part of their law, nor where the spike depends on them (M,).
    """
    flagged: Strings  # (M,): why a set cannot be trusted at a finite dimension
    velocity: BlockRows | None = None
    """What momentum carries on; None before the first step that has one."""
    own: Floats | None = (
        # (M, k, R): own noise of a batch of inputs with a covariance, a variable for
        # each entry
        None
    )
    batch: Chains | SignBulk | None = None
    """The steps so far, where one had a finite batch, or the bulk after a sign step: U,
    B are then the means and the length of the bulk rows.
    """
    # whether rows w0_i of the model stand for bulk rows s_q w0_i (a batch made
    # isotropic)
    bulk_rows: bool = False
    # whether the means follow |x|^2 at a finite dimension (step_size_regimes section 6)
    stretched: bool = False
    # of a finite size are known: exact steps on the population, isotropic inputs, a
    # ridge fit
    all_terms: bool = True
    accuracy: tuple[
        tuple[str, str], ...
    ] = ()  # what was approximated, in words, and how far off that may be

    shared: ClassVar[tuple[str, ...]] = (
        "is_length",
        "bulk_rows",
        "stretched",
        "all_terms",
        "accuracy",
    )

    def __len__(self) -> int:
        return len(self.U)

    def extended(self, columns: tuple[bool, ...], moved: Floats) -> Layer:
        """Return the layer with new columns of zeros, and new coordinates along which
        blocks have `moved` (M, k, n).
        """
        M, k, R, C = np.add(
            self.JU.shape, (0, 0, moved.shape[2], len(columns))
        ).tolist()
        return dataclasses.replace(
            self,
            U=np.concatenate([self.U, moved], axis=2),
            JU=with_zeros(self.JU, (M, k, R, C)),
            JB=with_zeros(self.JB, (*self.JB.shape[:3], C)),
            Js=with_zeros(self.Js, (M, k, C)),
            is_length=(*self.is_length, *columns),
            frame=with_zeros(self.frame, (*self.frame.shape[:2], R)),
        )


def scale_of(problem: Problem, layer: Layer) -> Floats:
    """Return s_q = (int lambda B_q^2 dmu)^(1/2), (M, k)."""
    return np.sqrt(problem.inputs.average(problem.inputs.eigenvalues * layer.B**2))


def least_spike(problem: Problem, layer: Layer) -> Floats:
    """Return the strength (M,) of the weakest direction that the rows have learnt, in
    units of their bulk; inf: none.

    Without a limit on the dimension a fit finds a spike of any strength, so that the
    limit jumps where it vanishes.
    """
    relative = (
        layer.U / scale_of(problem, layer)[..., None] * np.sqrt(problem.pi)[..., None]
    )
    broken = ~np.isfinite(relative).all(axis=(1, 2), keepdims=True)
    strengths = np.linalg.svd(np.where(broken, 0.0, relative), compute_uv=False)
    seen = strengths > WEAKEST * np.maximum(strengths[:, :1], 1.0)
    return np.min(np.where(seen, strengths, np.inf), axis=1, initial=np.inf)


def start(problem: Problem) -> Layer:
    """Return the layer before the first step, structured_inputs (3.6)."""
    k = len(problem.zeta)
    frame = problem.frame
    M = len(frame)
    R = frame.shape[2]
    K = len(problem.inputs.eigenvalues)
    JU = np.tile(
        np.sqrt(problem.coordinate_eigenvalues)[:, None] * np.eye(R, 1 + R, 1),
        (M, k, 1, 1),
    )
    Js = np.tile(0.5 * np.eye(1, 1 + R), (M, k, 1))
    B = np.ones((M, k, K))
    return Layer(
        U=np.zeros((M, k, R)),
        B=B,
        JU=JU,
        JB=np.zeros((M, k, K, 1 + R)),
        feedback=np.broadcast_to(np.eye(k), (M, K, k, k)),
        Js=Js,
        is_length=(True, *(False,) * R),
        frame=frame,
        past=B[:, None],
        length=np.ones((M, k)),
        rows_known=np.ones(M, dtype=bool),
        flagged=np.full(M, "", dtype=object),
        all_terms=problem.isotropic and not problem.network.readout.classes,
    )


def planted(problem: Problem, gamma: Floats, strength: Floats, bulk: Floats) -> Layer:
    """Return rows s_q w0_i + u_q v with <v, w*> = gamma (M,), u and s (M, k), on
    isotropic inputs and one direction.
    """
    frame = np.stack([gamma, np.sqrt(np.maximum(0.0, 1 - gamma**2))], axis=1)[:, None]
    problem = dataclasses.replace(problem, frame=frame)
    return shifted(
        problem, start(problem), np.stack([strength, 0 * strength], axis=2), bulk
    )


def shifted(problem: Problem, layer: Layer, shifts: Floats, bulk: Floats) -> Layer:
    """Return the layer after w_i <- s_q w_i + U_q: shifts (M, k, R), bulk (M, k);
    few_steps_readout (3.5).
    """
    gain = (bulk - 1)[..., None]
    wide = gain[..., None]
    feedback = (bulk - 1)[:, None, :, None] * layer.feedback
    motion = BlockRows(
        gain * layer.U + shifts,
        gain * layer.B,
        wide * layer.JU,
        wide * layer.JB,
        feedback,
    )
    return moved(problem, layer, motion, *np.ones((2, len(layer))))


def moved(
    problem: Problem, layer: Layer, motion: BlockRows, rate: Floats, keep: Floats
) -> Layer:
    """Return the layer whose rows are keep rows + rate motion, `keep` and `rate`
    (M,).
    """
    inputs = problem.inputs
    rows = layer.plus(rate, motion, keep)
    B = rows["B"]
    weights = inputs.masses * inputs.eigenvalues
    s = np.sqrt(B**2 @ weights)
    Js = np.einsum("j,mqj,mqjc->mqc", weights, B, rows["JB"]) / s[..., None]
    past = np.concatenate([layer.past, B[:, None]], axis=1)
    length = layer.length * (B / layer.B)[..., 0]
    after = dataclasses.replace(
        layer, **rows, Js=Js, past=past, length=length
    ).extended((True,), B[..., :0])
    after.Js[..., -1] = 0.5 / s
    return after


def without_mean(problem: Problem, rows: Floats) -> Floats:
    """Return rows (..., K) of what the quadratic fluctuations of the atoms do; on the
    sphere their sum is fixed.
    """
    length = np.sqrt(problem.inputs.masses)
    if problem.network.rows == "gaussian":
        return rows
    return rows - (rows @ length)[..., None] * length


def independent_spread(problem: Problem, layer: Layer) -> tuple[Floats, Floats, int]:
    """Return JU (M, k, R, C), Js (M, k, C) over independent standard normals; how many
    of these, first, are lengths.
    """
    inputs = problem.inputs
    lengths = np.array(layer.is_length)
    weighted = np.swapaxes(inputs.eigenvalues * layer.past**2, 1, 2)  # (M, k, t, K)
    # root (M, k, t, rank) is a square root of d Cov of the lengths, structured_inputs
    # (3.7)
    if np.isfinite(problem.quadratic_dim):
        root = without_mean(problem, weighted * np.sqrt(2 * inputs.masses))
    else:
        mean = inputs.average(weighted) * (problem.network.rows == "sphere")
        cov = 2 * np.einsum("mqtj,mquj,j->mqtu", weighted, weighted, inputs.masses)
        cov = cov - 2 * mean[..., :, None] * mean[..., None, :]
        values, vectors = np.linalg.eigh(cov)
        kept = np.max(values, axis=(0, 1)) > RANK * np.max(np.abs(weighted)) ** 2
        root = vectors[..., kept] * np.sqrt(np.maximum(values[..., None, kept], 0.0))
    JU = np.concatenate(
        [layer.JU[..., lengths] @ root, layer.JU[..., ~lengths]], axis=3
    )
    Js = np.concatenate(
        [(layer.Js[:, :, None, lengths] @ root)[:, :, 0], layer.Js[..., ~lengths]],
        axis=2,
    )
    return JU, Js, root.shape[3]


def overlap_spread(problem: Problem, layer: Layer) -> Floats | None:
    """Return d Cov of the overlaps of a row with the target in every block (M, k, r,
    r); None where it is not known.
    """
    if isinstance(layer.batch, Chains):
        return layer.batch.spread()[0]
    if layer.batch is not None:
        return None
    JU = layer.frame[:, None] @ independent_spread(problem, layer)[0]
    return JU @ np.swapaxes(JU, 2, 3)


class SharedView(NamedTuple):
    """Parameter sets that see the target alike: which, their directions, and the target
    given kappa on one rule.
    """

    rows: Integers
    basis: Directions
    given: ConditionalTarget


def views(
    problem: Problem,
    layer: Layer,
    fineness: float = 1.0,
    leading: bool = False,
    finer: float = 1.0,
    breaks: Sequence[Plane] = (),
) -> Iterator[SharedView]:
    """Yield the parameter sets in groups with one rule for kappa that resolves their
    features.

    With `leading` the first axis of kappa is the direction along which the blocks have
    moved most, or the one direction of the target where nothing is learnt. `finer` is
    for one learnt direction; `breaks` are planes of z.
    """
    steepness = np.max(
        np.linalg.norm(layer.U, axis=2) / scale_of(problem, layer), axis=1
    )
    groups: dict[Any, list[int]] = {}
    for number, key in enumerate(_keys(problem, layer, steepness)):
        groups.setdefault(key, []).append(number)
    for members in groups.values():
        first = members[0]
        rows = np.array(members)
        frame = layer.frame[members[0]]
        basis = split_directions(layer.U[first], frame, problem.target)
        if (
            isinstance(layer.batch, SignBulk) and not basis.learnt.shape[1]
        ):  # the axis is there without a spike
            basis = split_directions(np.eye(1, layer.U.shape[2]), frame, problem.target)
        if leading and not basis.learnt.shape[1] and len(frame) == 1:
            basis = Directions(frame.T, frame.T[:, :0])
        elif leading:
            # of batch noise no network knows the sign
            shown = len(frame) if isinstance(layer.batch, Chains) else None
            basis = basis.along_leading(
                np.sqrt(problem.pi[first])[:, None] * layer.U[first], shown
            )
        learnt = frame @ basis.learnt
        rest = frame @ basis.rest
        rest[np.abs(rest) < 1e-12] = 0.0
        scale = 1 / max(float(steepness[first]), 1e-3)
        wanted = fineness
        if basis.learnt.shape[1] == 1:
            scale = float(coarsened(scale))
            wanted = fineness * finer
        # across kappa nothing breaks
        known = [
            plane for plane in breaks if np.linalg.norm(plane.normal @ rest) < 1e-9
        ]
        try:
            given = condition(problem.target, learnt, rest, scale, wanted, known)
        except InputError:  # too many nodes, as many along every direction
            basis, given = _graded(problem, layer.take(rows[:1]), basis, wanted)
        yield SharedView(rows, basis, given)


def _graded(
    problem: Problem, layer: Layer, basis: Directions, fineness: float
) -> tuple[Directions, ConditionalTarget]:
    """Return a rule that is as fine along each direction as the blocks are steep there;
    random points beyond that.
    """
    basis = basis.along_leading(np.sqrt(problem.pi[0])[:, None] * layer.U[0])
    learnt = layer.frame[0] @ basis.learnt
    rest = layer.frame[0] @ basis.rest
    steepness = np.max(
        np.abs(layer.U[0] @ basis.learnt) / scale_of(problem, layer)[0][:, None], axis=0
    )
    scales = (1 / np.maximum(steepness, 1e-3)).tolist()
    try:
        return basis, condition(problem.target, learnt, rest, scales, fineness)
    except InputError:
        return basis, condition(
            problem.target, learnt, rest, scales, fineness, sampled=True
        )


def _keys(problem: Problem, layer: Layer, steepness: Floats) -> Iterator[Any]:
    """Yield for every set what it must have in common with others to share a rule.

    That is where nothing or one and the same direction is learnt; its fineness goes by
    halves of an octave, so that a set has the same rule alone and among others.
    """
    _, values, spans = np.linalg.svd(layer.U, full_matrices=False)
    learnt = values > LEARNT * np.maximum(1.0, values.max(axis=1, initial=0.0))[:, None]
    count = learnt.sum(axis=1)
    scales = coarsened(1 / np.maximum(steepness, 1e-3)).tolist()
    lines = spans[:, 0] * np.sign(
        np.take_along_axis(spans[:, 0], np.abs(spans[:, :1]).argmax(axis=2), axis=1)
    )
    for number, line in enumerate(np.round(lines, 9)):
        frame = layer.frame[number].tobytes()
        if isinstance(
            layer.batch, Chains
        ):  # sets that share a rule are solved together
            frame = (frame, layer.batch.of_set[number].shape)
        if not count[number]:
            yield frame
        elif count[number] > 1 or layer.U.shape[2] > FEW_AXES:
            yield number
        else:
            yield frame, scales[number], line.tobytes()


def trouble(problem: Problem, layer: Layer) -> Strings:
    """Return why each parameter set cannot be used further, or nothing."""
    s = scale_of(problem, layer)
    norm = np.sum(layer.U**2, axis=2) + s**2
    reasons = np.full(len(layer), "", dtype=object)
    if min(layer.U.shape[1:]) > MOST_LEARNT:
        values = np.linalg.svd(
            np.where(np.isfinite(layer.U), layer.U, 0.0), compute_uv=False
        )
        learnt = np.sum(
            values > LEARNT * np.maximum(1.0, values.max(axis=1, initial=0.0))[:, None],
            axis=1,
        )
        reasons[learnt > MOST_LEARNT] = TOO_MANY
    reasons[np.min(s, axis=1) < CANCELLED] = CANCELS
    reasons[~np.all(norm < DIVERGED, axis=1)] = DIVERGES
    return reasons


# -- The steps of a problem one after the other: the layer at every time ---------------


SPLIT_NODES = {1: 7, 2: 5}
"""Sub-blocks of each block, for one block and for more: structured_inputs (8.2)."""


@dataclass(frozen=True)
class Moment:
    """A problem at one time: which parameter sets are still followed, their problem and
    their layer.
    """

    time: int
    sets: Integers
    problem: Problem
    layer: Layer


def follow(problem: Problem, theory: str, reasons: dict[int, str]) -> Iterator[Moment]:
    """Yield the layer before the first step and after every one; why sets are given up
    is put into `reasons`.
    """
    sets = np.arange(len(problem.frame))
    layer = start(problem)
    if theory == "split" and problem.isotropic:
        problem, layer = split_overlaps(problem)
    elif theory == "split":
        problem, layer = _split_blocks(problem)
    yield Moment(0, sets, problem, layer)
    for number, step in enumerate(problem.network.steps):
        try:
            layer = step.advance(problem, layer, number, theory)
        except InputError as error:  # more nodes than there is memory for
            reasons |= dict.fromkeys(sets.tolist(), reason_of(error))
            return
        found = trouble(problem, layer)
        where = f" (steps.{number})" if len(problem.network.steps) > 1 else ""
        reasons |= {
            int(sets[row]): f"{found[row]}{where}"
            for row in np.flatnonzero(found != "")
        }
        kept = np.flatnonzero(found == "")
        if not kept.size:
            return
        if len(kept) < len(sets):
            sets = sets[kept]
            layer = layer.take(kept)
            problem = problem.take(kept)
        yield Moment(number + 1, sets, problem, layer)


def reason_of(error: InputError) -> str:
    """Return why a point is not answered: what was refused on its way."""
    text = str(error).rstrip(".")
    fewer = (
        "; smaller rates, fewer `atoms` of the inputs or a preconditioner need fewer,"
        " gs.simulate none"
    )
    return (
        text[:1].lower()
        + text[1:]
        + (fewer if error.code is Code.TOO_MANY_NODES else "")
    )


def _split_blocks(problem: Problem) -> tuple[Problem, Layer]:
    """Return the problem with sub-blocks along the leading channel n = L^1/2 V^T:
    structured_inputs (8.2).

    Its linear part is followed at the nodes x_l of a Gauss-Hermite rule: U starts at
    L^1/2 n x_l/sqrt(d).
    """
    nodes, weights = hermite_rule(SPLIT_NODES[min(len(problem.zeta), 2)])
    pi = (problem.pi[:, :, None] * weights / weights.sum()).reshape(len(problem.pi), -1)
    finer = dataclasses.replace(
        problem, zeta=np.repeat(problem.zeta, len(nodes)), pi=pi
    )
    layer = start(finer)
    root = np.sqrt(problem.coordinate_eigenvalues)
    n = root * problem.inputs.frame[0]
    n /= np.linalg.norm(n)
    layer.U[:] = (
        np.tile(nodes, len(problem.zeta))[:, None]
        * (root * n)
        / np.sqrt(float(problem.numbers["dim"][0]))
    )
    layer.JU[..., 1:] -= np.outer(root * n, n)
    return finer, layer


OVERLAP_NODES = 7
"""Sub-blocks of each block for one direction of the target: nine and fifteen move the
test error by up to 0.6%.
"""
MOST_SPLIT = 2
"""Directions of the target by whose overlaps blocks are split; a rule for three has too
many nodes.
"""


def split_overlaps(problem: Problem) -> tuple[Problem, Layer]:
    """Return the problem with sub-blocks at the nodes of a rule for the overlaps of a
    row: finite_size_steps (14.2).

    A row of a sub-block starts at its node x_l/sqrt(d), and has no spread along the
    target.
    """
    r = problem.target.directions
    if r == MOST_SPLIT:
        nodes, weights = plane_rule()
    else:
        nodes, weights = hermite_rule(OVERLAP_NODES)
    nodes = nodes.reshape(len(weights), r)
    k = len(problem.zeta)
    dim = problem.numbers["dim"][:, None]
    pi = (problem.pi[:, :, None] * weights).reshape(len(dim), -1)
    finer = dataclasses.replace(
        problem, zeta=np.repeat(problem.zeta, len(nodes)), pi=pi
    )
    layer = start(finer)
    frame = problem.frame
    # what is left of a row on the sphere; a Gaussian row has its other coordinates
    # whatever its overlaps are
    if problem.network.rows == "sphere":
        seen = np.sum(nodes**2, axis=1)
    else:
        seen = np.full(len(nodes), float(r))
    s = np.tile(np.sqrt(np.maximum(1 - seen / dim, 0.0)), k)
    overlaps = np.tile(nodes, (k, 1)) / np.sqrt(dim[..., None])
    B = s[..., None] * layer.B
    JU = s[..., None, None] * (
        layer.JU - np.swapaxes(frame, 1, 2)[:, None] @ (frame[:, None] @ layer.JU)
    )
    Js = layer.Js.copy()
    Js[..., 0] /= s
    feedback = s[:, None, :, None] * layer.feedback  # the mean of rows of this length
    # sums over single rows would need their law inside a sub-block
    known = np.zeros(len(dim), dtype=bool)
    after = dataclasses.replace(
        layer, U=overlaps @ frame, B=B, JU=JU, Js=Js, past=B[:, None], length=s
    )
    return finer, dataclasses.replace(after, feedback=feedback, rows_known=known)


ESCAPED = 0.3
"""Overlap of the rows with a direction of the target, in units of their length, from
which they have found it.
"""


def is_split(problem: Problem) -> bool:
    """Whether the blocks are cut into sub-blocks; a Gaussian second layer, which has
    nodes, has none.
    """
    return (
        problem.network.second_layer != "gaussian"
        and len(problem.zeta) > problem.network.blocks
    )


def learnt_of_target(
    problem: Problem, layer: Layer, number: int, basis: Directions
) -> Floats:
    """Return the directions of the target that one parameter set has learnt, in the
    target's coordinates (r, c).

    Sub-blocks begin with overlaps that nobody has learnt. There a direction counts that
    the mean of a whole block has, or that most rows have turned into, some to one side
    and some to the other.
    """
    frame = layer.frame[number]
    if not is_split(problem):
        return frame @ basis.learnt
    overlaps = layer.U[number] @ frame.T
    pi = problem.pi[number]
    by_block = (
        (pi[:, None] * overlaps)
        .reshape(problem.network.blocks, -1, len(frame))
        .sum(axis=1)
    )
    squares = (
        np.sum(layer.U[number] ** 2, axis=1) + scale_of(problem, layer)[number] ** 2
    )
    sizes, axes = np.linalg.eigh((overlaps * (pi / squares)[:, None]).T @ overlaps)
    return np.concatenate([by_block.T, axes[:, sizes > ESCAPED**2]], axis=1)


# -- The gradient on the population as a motion of the layer, and the noise of a batch b


@dataclass(frozen=True, eq=False)
class Gradient(Stacked):
    """The population gradient as the motion of a layer, and the noise of a batch of d
    samples beside it.
    """

    motion: BlockRows
    slopes: Floats  # (M, k, k): E[D_1q D_1c]
    bends: Floats  # (M, k): E[D_0 D_2]
    # (M, k, k): covariance of the noise that all neurons of two blocks share
    common: Floats
    total: Floats  # (M, k): variance of all of the noise of a neuron


def follow_gradient(
    problem: Problem,
    layer: Layer,
    share: Floats,
    whitening: Floats,
    with_noise: bool = False,
) -> Gradient:
    """Return the gradient of every set: structured_inputs (3.1)-(3.5),
    finite_size_steps (2.2), (6.1).
    """
    parts = []
    order = []
    for view in views(problem, layer):
        rows = view.rows
        if len(rows) == len(layer):
            return _gradient_of(problem, layer, view, share, whitening, with_noise)
        parts.append(
            _gradient_of(
                problem,
                layer.take(rows),
                view,
                share[rows],
                whitening[rows],
                with_noise,
            )
        )
        order.append(rows)
    return Gradient.join(parts).take(np.argsort(np.concatenate(order)))


def _gradient_of(
    problem: Problem,
    layer: Layer,
    view: SharedView,
    share: Floats,
    whitening: Floats,
    with_noise: bool,
) -> Gradient:
    zeta = problem.zeta[:, None]
    s = scale_of(problem, layer)
    A = layer.U @ view.basis.learnt @ view.given.nodes.T
    D = tabulated(problem.activation, Function.smoothed, A, s)
    residual = Residual(
        view.given, view.basis, problem.kept[view.rows], (share[:, None] @ D[0])[:, 0]
    )
    inputs = problem.inputs
    power = 1 - whitening[:, None]
    # lambda^(1-c)
    slope = np.where(
        inputs.eigenvalues > 0, np.maximum(inputs.eigenvalues, 1e-300) ** power, 0.0
    )
    # what is planted, noise: on isotropic inputs
    ones = np.ones((len(slope), layer.U.shape[2] - len(inputs.atoms)))
    # the same at the coordinates (M, R)
    pull = np.concatenate([slope[:, inputs.atoms], ones], axis=1)
    # E[res D_2] (M, k), E[res D_3 zt] (M, k, R)
    growth, bent = (
        residual.mean(D[2]),
        residual.linear(D[3]),
    )
    bend = (bent[:, :, None, :] @ layer.JU)[:, :, 0] + (s * residual.mean(D[4]))[
        ..., None
    ] * layer.Js
    U = zeta * pull[:, None] * residual.linear(D[1])
    B = zeta * growth[..., None] * slope[:, None] * layer.B
    turned = (
        residual.quadratic(D[2], layer.JU)
        + s[..., None, None] * bent[..., None] * layer.Js[:, :, None, :]
    )
    JU = zeta[..., None] * pull[:, None, :, None] * turned
    grown = (
        growth[..., None, None] * layer.JB + layer.B[..., None] * bend[:, :, None, :]
    )
    JB = zeta[..., None] * slope[:, None, :, None] * grown
    weighted = D[1] * view.given.weights
    slopes = weighted @ np.swapaxes(D[1], 1, 2)
    grown_means = (
        growth[:, None, :, None] * layer.feedback
        - (slopes * share[:, None])[:, None] @ layer.feedback
    )
    F = zeta * slope[:, :, None, None] * grown_means
    bends = (D[0] * D[2]) @ view.given.weights
    shared = np.zeros_like(slopes)
    total = np.zeros(s.shape)
    if with_noise:
        derivative = Function(
            problem.activation.derivative, kinks=problem.activation.kinks
        )
        power = view.given.weights * residual.power(problem.numbers["noise"][view.rows])
        shared = (D[1] * power[:, None]) @ np.swapaxes(D[1], 1, 2)
        total = (derivative.second_moment(A, s[..., None]) @ power[:, :, None])[..., 0]
    return Gradient(BlockRows(U, B, JU, JB, F), slopes, bends, shared, total)


# -- the noise of a finite batch as a part of every row, an approximation --------------


def add_noise(
    problem: Problem, layer: Layer, e: Floats, shared: Floats, total: Floats
) -> Layer:
    """Return the layer with the noise of a batch: few_steps_readout (6.2)-(6.3),
    structured_inputs (7.1)-(7.2).

    `shared` (M, k, k) is the covariance of what all neurons share, `total` (M, k) the
    variance with each one's own, which widens the bulk. With several atoms no step
    follows.
    """
    inputs = problem.inputs
    lam = problem.inputs.eigenvalues
    R = layer.U.shape[2]
    C = len(layer.is_length)
    s = scale_of(problem, layer)
    common = np.diagonal(shared, axis1=1, axis2=2)
    own = np.maximum(e**2 * (total - common), 0.0)
    tau = np.sqrt(own)
    B = np.sqrt(layer.B**2 + own[..., None] * lam)
    scale = np.sqrt(inputs.average(lam * B**2))
    # one direction, as bulks of several atoms read it
    new = (e * np.sqrt(common))[..., None]
    if problem.isotropic:
        values, vectors = np.linalg.eigh(shared)
        kept = np.any(values > RANK * values.max(axis=1, keepdims=True), axis=0)
        new = (
            e[..., None]
            * np.sqrt(np.maximum(values[:, None, kept], 0.0))
            * vectors[..., kept]
        )
    moved = (new[..., None] * lam * np.sqrt(inputs.masses)).reshape(*e.shape, -1)
    n = moved.shape[2]
    each = R if problem.isotropic else 0
    after = layer.extended((False,) * (n + each + 1), moved)
    after.JU[:, :, R + np.arange(n), C + np.arange(n)] = np.tile(
        np.sqrt(lam) * B, new.shape[2]
    )
    after.JU[:, :, np.arange(each), C + n + np.arange(each)] = tau[..., None]
    after.Js[:] *= (s / scale)[..., None]
    third = inputs.average(lam**3 * layer.B**2)
    fourth = inputs.average(lam**4)
    after.Js[..., -1] = np.sqrt(4 * own * third + 2 * own**2 * fourth) / (2 * scale)
    JB = 0 * after.JB
    of_entries = after.own
    if problem.isotropic:
        sign = np.sign(layer.B)
        B = sign * B
        JB = after.Js[:, :, None, :] * sign[..., None]
    else:
        of_entries = np.pad(
            tau[..., None] * inputs.coordinate_eigenvalues, ((0, 0), (0, 0), (0, n))
        )
    # finite_size_steps (2.7)
    means = np.sqrt(lam)[:, None, None] * tau[:, None, :, None] * np.eye(tau.shape[1])
    feedback = np.concatenate([layer.feedback, means], axis=3)
    known = layer.rows_known & False
    return dataclasses.replace(
        after,
        B=B,
        JB=JB,
        own=of_entries,
        feedback=feedback,
        rows_known=known,
        all_terms=False,
    )
