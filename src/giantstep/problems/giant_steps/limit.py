"""The limit of giant steps: the exact map, point by point; orientation of the first
gradients; errors and bounds.

G_i = (1/n) sum y s'(w_i.x) x at random weights, with omega_i = sqrt(d) W* w_i ~ N(0,
I_k). At n = alpha d^l the signal (c_l/(l-1)!) C_l(omega^(l-1), .) and the noise E[y^2]
E[s'^2]/alpha are of the same order, once the Hermite components of the labels below
order l are taken away, gradient_dynamics section 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Booleans, Floats, Points
from giantstep.core.maths.gaussian import Function, Plane, Target
from giantstep.core.maths.gaussian.grids import even_rule, hermite_rule, product_grid
from giantstep.core.maths.gaussian.hermite import (
    hermite_products,
    multi_indices,
    root_factorials,
)
from giantstep.core.maths.gaussian.planes import turned_planes
from giantstep.core.maths.gaussian.resolution import HERMITE_STEP
from giantstep.core.maths.gaussian.subspaces import complement, tidy
from giantstep.core.scenario.answer import Answer, corner
from giantstep.core.scenario.checks import every_time
from giantstep.problems.giant_steps import overlap_map
from giantstep.problems.giant_steps.finite_orientation import (
    NODES,
    finite_orientation,
    polynomial_gradient,
)
from giantstep.problems.giant_steps.overlap_map import BlockNetwork, RepellingNeurons
from giantstep.problems.giant_steps.scenario import GiantSteps
from giantstep.problems.giant_steps.tolerances import (
    DIVERGED,
    MOST_SINGLE,
    RULES_AGREE,
    RULES_DISAGREE,
)
from giantstep.problems.learnability.prepared import rules

_RULES = ((0.6, 0.5), (1.0, 0.75))
"""Pairs of rules, by their fineness: where those of the first pair agree to
`RULES_AGREE`, the second is not needed.
"""
_MOST_NEURONS = 1_000_000
"""Rows of the answer about single neurons at most."""
_COMPARED = {"steps": "M", "neurons": "cosine", "errors": "test_error"}


def prepare(
    scenario: GiantSteps, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Check what only a question knows; both engines answer at the same times."""
    for order in points["batch_exponent"].tolist() if what == "specialisation" else ():
        if order != round(order):  # between whole ones nothing new is seen
            raise bad_field(
                "batch_exponent", order, 'whole where what="specialisation"'
            )
    if what in ("specialisation", "fit"):
        return dict(settings)
    prepared = {**settings, "time": every_time(points["steps"].max())}
    if what == "neurons":
        most = max(scenario.neurons(float(width)) for width in points["width"])
        if most > _MOST_NEURONS:
            raise bad_field(
                "width", most, f'at most {_MOST_NEURONS:,} where what="neurons"'
            )
        prepared["neuron"] = np.arange(1, most + 1)
    return prepared


def limit(
    scenario: GiantSteps, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Answer all points; the map is iterated with a fine and a coarser rule, and the
    difference reported.
    """
    if what == "specialisation":
        return _specialisation(scenario, points, settings)
    if what == "fit":
        return Answer.closed(
            {"kernel_bound": kernel_bound(scenario.target, 1) + points["noise"]}
        )
    answer = Answer.blank(len(points["rate"]))
    for b in range(len(points["rate"])):
        point = {name: float(column[b]) for name, column in points.items()}
        try:
            found, answer.residual[b], answer.status[b] = _checked_trajectory(
                scenario, point, what, settings
            )
        except RepellingNeurons as reason:
            found, answer.residual[b], answer.status[b] = {}, np.nan, str(reason)
        for name, value in found.items():
            if value.ndim:
                shape = (len(settings["time"]), *value.shape[1:])
            else:
                shape = ()
            answer.room_for(name, shape)[corner(b, value.shape)] = value
    answer.iterations = points["steps"].astype(np.int64)
    answer.coords = {"time": settings["time"]}
    return answer


def _checked_trajectory(
    scenario: GiantSteps,
    point: Mapping[str, float],
    what: str,
    settings: Mapping[str, Any],
) -> tuple[dict[str, Floats], float, str]:
    """Return the trajectory by a fine rule, its distance to a coarser one, and why it
    ends early (right so far).
    """
    for pair in (
        _RULES[-1:] if what == "errors" else _RULES
    ):  # bounds of errors ask which directions are seen at all
        fine, rough = (
            trajectory(scenario, point, what, settings, fineness) for fineness in pair
        )
        clipped = fine.pop("clipped")
        done = min(len(clipped), len(rough["clipped"]))
        gaps = {
            name: (
                float(np.max(np.abs(value[:done] - rough[name][:done])))
                / max(1.0, float(np.max(np.abs(value))))
            )
            for name, value in fine.items()
            if value.ndim
        }
        if np.max(list(gaps.values())) < RULES_AGREE:
            break
    gap = gaps[_COMPARED[what]]
    residual = gap + float(np.max(clipped))
    if done <= point["steps"]:
        return fine, residual, f"the weights diverged in step {done}: decrease the rate"
    if gap > RULES_DISAGREE:
        return {}, residual, f"the quadrature is accurate only to {gap:.0e}"
    return fine, residual, ""


def network_at(
    scenario: GiantSteps, point: Mapping[str, float], fineness: float = 1.0
) -> BlockNetwork:
    """Return the network of one point."""
    fractions, counts = scenario.fractions(point["width"])
    values = np.array(scenario.values)
    target = scenario.target
    activation = scenario.activation
    return BlockNetwork(
        values, fractions, counts, target, activation, point["noise"], fineness
    )


def trajectory(
    scenario: GiantSteps,
    point: Mapping[str, float],
    what: str,
    settings: Mapping[str, Any],
    fineness: float,
) -> dict[str, Floats]:
    """Iterate the map of one point; every array has the times first."""
    blocks = network_at(scenario, point, fineness)
    try:
        rows = _iterate(blocks, blocks, point, what, settings)
    except RepellingNeurons:
        if blocks.counts.sum() > MOST_SINGLE:
            raise
        rows = _iterate(blocks.single(), blocks, point, what, settings)
    answer = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    if what == "errors":
        answer["kernel_bound"] = np.asarray(
            kernel_bound(blocks.target, int(settings["kappa"])) + blocks.noise
        )
    return answer


def _iterate(
    network: BlockNetwork,
    blocks: BlockNetwork,
    point: Mapping[str, float],
    what: str,
    settings: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Follow a network, by blocks or neuron by neuron, and observe it by blocks."""
    if point["batch_exponent"] == 1:
        inverse_alpha = 1 / point["batch_per_dim"]
    else:
        inverse_alpha = 0.0
    state = overlap_map.start(network)
    rows = []
    steps = int(point["steps"])
    for time in range(steps + 1):
        check_time()
        if not np.max(state.q) < DIVERGED:
            break
        space = overlap_map.shared_space(network, state)
        gradient = overlap_map.gradient(network, state, inverse_alpha, space)
        if what == "errors":
            _, sizes, directions = np.linalg.svd(state.M, full_matrices=False)
            learned = directions[
                sizes > 1e-6 * max(1.0, math.sqrt(float(np.max(state.q))))
            ]
            if network.fineness >= 1:
                bound = lower_bound(network.target, learned, int(settings["kappa"]))
            else:
                bound = 0.0
            error = overlap_map.best_error(network, space)
            row: dict[str, Any] = {
                "test_error": error,
                "lower_bound": bound + network.noise,
                "learned": len(learned),
            }
        else:
            row = _block_observables(network, blocks, state, gradient)
        if what == "neurons":
            counts = blocks.counts.astype(int)
            row = {
                name: np.repeat(row[name], counts, axis=0)
                for name in ("cosine", "gradient_cosine")
            }
        rows.append({**row, "clipped": space.clipped})
        if time < steps:
            state = overlap_map.step(network, state, gradient, point["rate"])
    return rows


def _block_observables(
    network: BlockNetwork,
    blocks: BlockNetwork,
    state: overlap_map.Overlaps,
    gradient: overlap_map.StepAverages,
) -> dict[str, Any]:
    """Observe one neuron of every block, and one pair of different neurons of every two
    blocks.
    """
    first = second = np.arange(len(blocks.values))
    if len(network.values) > len(blocks.values):
        second = np.cumsum(blocks.counts.astype(int)) - 1
        first = np.append(0, second[:-1] + 1)
    # a single neuron has no other in its own block
    has_pairs: Booleans = ~np.diag(blocks.counts == 1)
    # NaN where the gradient vanishes and has none
    cosines = gradient.psi / np.sqrt(gradient.squared)[:, None]
    return {
        "cosine": (state.M / np.sqrt(state.q)[:, None])[first],
        "norm": state.q[first],
        "M": state.M[first],
        "R": np.where(has_pairs, state.R[np.ix_(first, second)], 0.0),
        "gradient_cosine": (np.sign(network.values)[:, None] * cosines)[first],
    }


def _specialisation(
    scenario: GiantSteps, points: Points, settings: Mapping[str, Any]
) -> Answer:
    cleaned = settings["labels"] == "cleaned"
    target = scenario.target
    activation = scenario.activation
    hermite = statistics(target, activation, int(points["batch_exponent"].max()))
    matrices = []
    spikes = []
    columns = (
        points[name].tolist()
        for name in ("batch_exponent", "batch_per_dim", "noise", "dim")
    )
    for exponent, alpha, noise, dim in zip(*columns):
        check_time()
        asked = round(exponent), alpha, noise, cleaned
        matrix, spike = orientation(hermite, *asked)
        matrices.append(
            finite_orientation(target, activation, *asked, dim)
            if math.isfinite(dim)
            else matrix
        )
        spikes.append(spike)
    by_direction = np.diagonal(np.array(matrices), axis1=1, axis2=2).copy()
    values = {
        "alignment": by_direction.sum(axis=1),
        "alignment_by_direction": by_direction,
        "spike": np.array(spikes),
    }
    values["specialised"] = np.array([spread_of(matrix) for matrix in matrices])
    # no squared cosine any more
    beyond = ~(np.abs(values["alignment"] - 0.5) <= 0.5 + 1e-9)
    for name in ("alignment", "alignment_by_direction", "specialised"):
        values[name][beyond] = np.nan
    status = np.where(
        beyond,
        "dim or batch is too small for the terms of order 1/d; leave dim out",
        "",
    )
    is_finite = np.isfinite(points["dim"]).any()
    if is_finite:
        facts = {"finite_size": "terms of order 1/d; the spike is that of the limit"}
    else:
        facts = {}
    return Answer.closed(
        values, status=status, iterations=np.ones(len(matrices), np.int64), attrs=facts
    )


# -- Lower bounds on the error of any fit on d^kappa samples once a subspace of the targ


_OUTER = {1: 1 / 8, 2: 1 / 4}
"""Spacing over the learned directions, by their number, in standard deviations."""
_INNER = {1: 64, 2: 40, 3: 24, 4: 16, 5: 12, 6: 10}
_PIECE = {1: 32, 2: 20, 3: 14, 4: 10, 5: 8, 6: 6}
"""Nodes of an axis over the other directions, by their number, without breaks and on
each piece between them.
"""


def lower_bound(target: Target, learned: Floats, kappa: int) -> float:
    """Return E h^2 - sum_{k <= kappa} E|E[h He_k(z_perp)|z_U]|^2/k!, without the label
    noise.

    h minus its projection on polynomials of degree at most kappa in z_perp with
    coefficients that are any function of z_U, gradient_dynamics section 5.4; the
    orthonormal rows `learned` span U.
    """
    k = target.directions
    u = len(learned)
    known = tidy(learned)
    rest = complement(known, k)
    if not len(rest):
        return 0.0
    frame = np.concatenate([known, rest])
    planes = turned_planes(
        (*target.planes, *target.narrow_places(HERMITE_STEP)), frame.T
    )
    inside = [
        Plane(p.normal[:u], p.offset)
        for p in planes
        if not np.any(np.abs(p.normal[u:]) > 1e-9)
    ]
    outer = product_grid(
        u, inside, even_rule(_OUTER[u]) if u in _OUTER else hermite_rule(16), 24
    )
    indices = [
        index for order in range(kappa + 1) for index in multi_indices(len(rest), order)
    ]
    second = projected = 0.0
    for point, weight in zip(outer.points, outer.weights):
        moved = [
            Plane(plane.normal, plane.offset + float(np.dot(plane.normal[:u], point)))
            for plane in planes
        ]
        breaks = turned_planes(moved, np.eye(k)[:, u:])
        inner = product_grid(
            len(rest), breaks, hermite_rule(_INNER[len(rest)]), _PIECE[len(rest)]
        )
        y = target(
            np.concatenate(
                [np.tile(point, (len(inner.points), 1)), inner.points], axis=1
            )
            @ frame
        )
        second += weight * float(inner.weights @ (y * y))
        projected += weight * float(
            np.sum((hermite_products(inner.points, indices) @ (inner.weights * y)) ** 2)
        )
    return max(second - projected, 0.0)


def kernel_bound(target: Target, kappa: int) -> float:
    """Return the bound where nothing is learned: that of kernels and random
    features.
    """
    return lower_bound(target, np.zeros((0, target.directions)), kappa)


# -- Orientation of the first gradients: one direction for n of order d, many for n of o


class Statistics(NamedTuple):
    """What the orientation depends on."""

    tensors: tuple[
        Floats,
        ...,
        # by order, the normalised coefficients E[h h_b] of the target, b as in
        # `multi_indices`
    ]
    second: float  # E h^2
    c: Floats  # c_0, c_1, ... of the activation
    slope_second: float  # E s'^2


def statistics(target: Target, activation: Function, highest: int) -> Statistics:
    """Return the Hermite components of the target up to an order, and those of the
    activation.
    """
    fine, _ = rules(target, target.axis_degree)
    y = np.asarray(target(fine.points), dtype=float)
    indices = (multi_indices(target.directions, order) for order in range(highest + 1))
    tensors = tuple(
        hermite_products(fine.points, of_order) @ (fine.weights * y)
        for of_order in indices
    )
    c = activation.hermite(highest + 1) * root_factorials(highest + 1)
    slope = Function(activation.derivative, kinks=activation.kinks)
    return Statistics(
        tensors, float(fine.weights @ (y * y)), c, float(slope.second_moment(0.0, 1.0))
    )


def spread_of(matrix: Floats) -> float:
    """Return (tr C)^2/tr C^2: 1 where all gradients point one way, k where they spread
    evenly.
    """
    trace = float(np.trace(matrix))
    size = float(np.sum(matrix**2))
    return trace**2 / size if size > 0 else 0.0


def orientation(
    hermite: Statistics, level: int, alpha: float, noise: float, cleaned: bool
) -> tuple[Floats, float]:
    """Return E cos^2 as a matrix (k, k) over the target space and the cosine of the
    spike at n = alpha d^level.

    Cleaned labels lose their Hermite parts below the level as fitted on the batch
    itself. That takes away the noise of those parts too: E[s'^2] becomes E[s'^2] -
    sum_{j <= level-2} c_{j+1}^2/j!. Raw labels show their lowest part.
    """
    size = hermite.second + noise
    k = len(hermite.tensors[1])
    constant = float(hermite.tensors[0][0])
    # E of the squared Hermite components
    energies = [float(tensor @ tensor) for tensor in hermite.tensors]
    if cleaned:
        size -= sum(energies[:level])
        slope = hermite.slope_second - sum(
            hermite.c[j + 1] ** 2 / math.factorial(j) for j in range(level - 1)
        )
        seen = level
        rest = size * slope / alpha
        constant = 0.0
    else:
        # a part of the labels below order l dominates the gradient: C_1 or C_0 c_2,
        # then C_2, ...
        sizes = [energies[m] * hermite.c[m] ** 2 for m in range(1, level)]
        if sizes:
            sizes[0] = max(sizes[0], (hermite.c[2] * constant) ** 2)
        seen = next(
            (m for m, part in enumerate(sizes, 1) if part > 1e-14 * hermite.second),
            level,
        )
        rest = size * hermite.slope_second / alpha if seen == level else 0.0
    neurons = product_grid(k, (), hermite_rule(NODES[k]), 8)
    v = hermite.c[seen] * polynomial_gradient(
        neurons.points, seen, hermite.tensors[seen]
    )
    total = (
        np.sum(v * v, axis=1)
        + rest
        + ((hermite.c[2] * constant) ** 2 if seen == 1 else 0.0)
    )
    unit = v / np.sqrt(np.where(total > 0, total, 1.0))[:, None]
    spread = energies[1] + (size / alpha if level == 1 else 0.0)
    if seen == 1 and spread > 0:
        spike = math.sqrt(energies[1] / spread)
    else:
        spike = 0.0
    return (unit.T * neurons.weights) @ unit, spike
