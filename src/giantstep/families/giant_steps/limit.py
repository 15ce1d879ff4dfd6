"""The limit of giant steps: the exact map, point by point; orientation of the first gradients; errors and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.checks import every_time
from giantstep.deadline import check_time
from giantstep.errors import bad_field
from giantstep.families.giant_steps import overlap_map
from giantstep.families.giant_steps.overlap_map import BlockNetwork, RepellingNeurons
from giantstep.families.giant_steps.scenario import GiantSteps
from giantstep.families.giant_steps.specialisation import check_order, orientation, spread_of, statistics
from giantstep.families.giant_steps.tolerances import DIVERGED, MOST_SINGLE, RULES_AGREE, RULES_DISAGREE
from giantstep.family import Answer
from giantstep.gaussian import Plane, Target
from giantstep.gaussian.grids import even_rule, hermite_rule, product_grid
from giantstep.gaussian.hermite import hermite_products, multi_indices
from giantstep.gaussian.subspaces import complement, tidy
from giantstep.gaussian.target import turned_planes
from giantstep.types import Booleans, Floats, Points

_RULES = ((0.6, 0.5), (1.0, 0.75))
"""Pairs of rules, by their fineness: where those of the first pair agree to `RULES_AGREE`, the second is not needed."""
_MOST_NEURONS = 1_000_000
"""Rows of the answer about single neurons at most."""
_COMPARED = {"steps": "M", "neurons": "cosine", "errors": "test_error"}


def prepare(scenario: GiantSteps, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check what only a question knows; both engines answer at the same times."""
    if what == "specialisation":
        for order in np.unique(points["batch_exponent"]):
            check_order(float(order))
        return dict(settings)
    if what == "fit":
        return dict(settings)
    prepared = {**settings, "time": every_time(points["steps"].max())}
    if what == "neurons":
        most = max(scenario.neurons(float(width)) for width in points["width"])
        if most > _MOST_NEURONS:
            raise bad_field("width", most, f'at most {_MOST_NEURONS:,} where what="neurons"')
        prepared["neuron"] = np.arange(1, most + 1)
    return prepared


def limit(scenario: GiantSteps, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer all points; the map is iterated with a fine and a coarser rule, and the difference reported."""
    size = len(points["rate"])
    if what == "specialisation":
        return _specialisation(scenario, points, settings)
    if what == "fit":
        return Answer.closed({"kernel_bound": kernel_bound(scenario.target, 1) + points["noise"]})
    values = _empty_table(scenario, what, size, settings)
    residual, status = np.zeros(size), np.full(size, "", dtype=object)
    for b in range(size):
        point = {name: float(column[b]) for name, column in points.items()}
        try:
            found, residual[b], status[b] = _checked_trajectory(scenario, point, what, settings)
        except RepellingNeurons as reason:
            status[b], residual[b] = str(reason), np.nan
            continue
        for name, value in found.items():
            inside: tuple[Any, ...] = (b, *map(slice, value.shape))
            values[name][inside] = value
    iterations = points["steps"].astype(np.int64)
    return Answer(values, status.astype(str), residual, iterations, coords={"time": settings["time"]})


def _checked_trajectory(
    scenario: GiantSteps, point: Mapping[str, float], what: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Floats], float, str]:
    """Return the trajectory by a fine rule, its distance to a coarser rule, and why it ends early or is not told.

    A trajectory that ends early is right up to there.
    """
    for rules in _RULES[-1:] if what == "errors" else _RULES:  # bounds of errors ask which directions are seen at all
        fine, rough = (trajectory(scenario, point, what, settings, fineness) for fineness in rules)
        clipped = fine.pop("clipped")
        done = min(len(clipped), len(rough["clipped"]))
        gaps = {
            name: float(np.max(np.abs(value[:done] - rough[name][:done]))) / max(1.0, float(np.max(np.abs(value))))
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


def _empty_table(scenario: GiantSteps, what: str, size: int, settings: Mapping[str, Any]) -> dict[str, Floats]:
    """Return the table of a question at so many points with nothing in it yet."""
    lengths = {**scenario.block_count(), **{name: np.size(settings.get(name, 0)) for name in ("time", "neuron")}}
    variables = [variable for variable in scenario.questions[what].variables if "limit" in variable.engines]
    return {v.name: np.full((size, *(lengths[dim] for dim in v.dims)), np.nan) for v in variables}


def network_at(scenario: GiantSteps, point: Mapping[str, float], fineness: float = 1.0) -> BlockNetwork:
    """Return the network of one point."""
    fractions, counts = scenario.fractions(point["width"])
    values, target, activation = np.array(scenario.values), scenario.target, scenario.activation
    return BlockNetwork(values, fractions, counts, target, activation, point["noise"], fineness)


def trajectory(
    scenario: GiantSteps, point: Mapping[str, float], what: str, settings: Mapping[str, Any], fineness: float
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
        answer["kernel_bound"] = np.asarray(kernel_bound(blocks.target, int(settings["kappa"])) + blocks.noise)
    return answer


def _iterate(
    network: BlockNetwork, blocks: BlockNetwork, point: Mapping[str, float], what: str, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Follow a network, by blocks or neuron by neuron, and observe it by blocks."""
    inverse_alpha = 1 / point["batch_per_dim"] if point["batch_exponent"] == 1 else 0.0
    state, rows, steps = overlap_map.start(network), [], int(point["steps"])
    for time in range(steps + 1):
        check_time()
        if not np.max(state.q) < DIVERGED:
            break
        space = overlap_map.shared_space(network, state)
        gradient = overlap_map.gradient(network, state, inverse_alpha, space)
        if what == "errors":
            row = _errors(network, state, space, int(settings["kappa"]))
        else:
            row = _block_observables(network, blocks, state, gradient)
        if what == "neurons":
            counts = blocks.counts.astype(int)
            row = {name: np.repeat(row[name], counts, axis=0) for name in ("cosine", "gradient_cosine")}
        rows.append({**row, "clipped": space.clipped})
        if time < steps:
            state = overlap_map.step(network, state, gradient, point["rate"])
    return rows


def _block_observables(
    network: BlockNetwork, blocks: BlockNetwork, state: overlap_map.Overlaps, gradient: overlap_map.StepAverages
) -> dict[str, Any]:
    """Observe one neuron of every block, and one pair of different neurons of every two blocks."""
    first = np.arange(len(blocks.values))
    second = first
    if len(network.values) > len(blocks.values):
        ends = np.cumsum(blocks.counts.astype(int))
        first, second = ends - blocks.counts.astype(int), ends - 1
    has_pairs: Booleans = ~np.diag(blocks.counts == 1)  # a single neuron has no other in its own block
    return {
        "cosine": (state.M / np.sqrt(state.q)[:, None])[first],
        "norm": state.q[first],
        "M": state.M[first],
        "R": np.where(has_pairs, state.R[np.ix_(first, second)], 0.0),
        "gradient_cosine": (np.sign(network.values)[:, None] * gradient.cosine)[first],
    }


def _errors(
    network: BlockNetwork, state: overlap_map.Overlaps, space: overlap_map.Shared, kappa: int
) -> dict[str, Any]:
    learned = overlap_map.learned_subspace(state)
    bound = lower_bound(network.target, learned, kappa) if network.fineness >= 1 else 0.0
    return {
        "test_error": overlap_map.best_error(network, space),
        "lower_bound": bound + network.noise,
        "learned": float(len(learned)),
    }


def _specialisation(scenario: GiantSteps, points: Points, settings: Mapping[str, Any]) -> Answer:
    cleaned = settings["labels"] == "cleaned"
    hermite = statistics(scenario.target, scenario.activation, int(points["batch_exponent"].max()))
    columns = (points[name].tolist() for name in ("batch_exponent", "batch_per_dim", "noise", "dim"))
    laws = [orientation(hermite, order, alpha, noise, cleaned, dim) for order, alpha, noise, dim in zip(*columns)]
    matrices, spikes = (np.array(values) for values in zip(*laws))
    values = {
        "alignment": np.trace(matrices, axis1=1, axis2=2),
        "alignment_by_direction": np.diagonal(matrices, axis1=1, axis2=2),
        "specialised": np.array([spread_of(matrix) for matrix in matrices]),
        "spike": spikes,
    }
    is_finite = bool(np.isfinite(points["dim"]).any())
    facts = {"finite_size": "what is not aligned adds (1 - cos^2)/d in every direction"} if is_finite else {}
    return Answer.closed(values, iterations=np.ones(len(laws), np.int64), attrs=facts)


# -- Lower bounds on the error of any fit on d^kappa samples once a subspace of the target is learned -----


_OUTER = {1: 1 / 8, 2: 1 / 4}
"""Spacing over the learned directions, by their number, in standard deviations."""
_INNER = {1: 64, 2: 40, 3: 24, 4: 16, 5: 12, 6: 10}
_PIECE = {1: 32, 2: 20, 3: 14, 4: 10, 5: 8, 6: 6}
"""Nodes of an axis over the other directions, by their number, without breaks and on each piece between them."""


def lower_bound(target: Target, learned: Floats, kappa: int) -> float:
    """Return E h^2 - sum_{k <= kappa} E|E[h He_k(z_perp)|z_U]|^2/k!, without the label noise.

    h minus its projection on polynomials of degree at most kappa in z_perp with coefficients that are any function of
    z_U, gradient_dynamics section 5.4; the orthonormal rows `learned` span U.
    """
    k = target.directions
    known = tidy(learned) if len(learned) else np.zeros((0, k))
    rest = complement(known, k)
    if not len(rest):
        return 0.0
    frame = np.concatenate([known, rest])
    planes = turned_planes(target.planes, frame.T)
    u = len(known)
    inside = [Plane(p.normal[:u], p.offset) for p in planes if not np.any(np.abs(p.normal[u:]) > 1e-9)]
    outer = product_grid(u, inside, even_rule(_OUTER[u]) if u in _OUTER else hermite_rule(16), 24)
    indices = [index for order in range(kappa + 1) for index in multi_indices(len(rest), order)]
    second = projected = 0.0
    for point, weight in zip(outer.points, outer.weights):
        moved = [Plane(plane.normal, plane.offset + float(np.dot(plane.normal[:u], point))) for plane in planes]
        breaks = turned_planes(moved, np.eye(k)[:, u:])
        inner = product_grid(len(rest), breaks, hermite_rule(_INNER[len(rest)]), _PIECE[len(rest)])
        y = target(np.concatenate([np.tile(point, (len(inner.points), 1)), inner.points], axis=1) @ frame)
        second += weight * float(inner.weights @ (y * y))
        projected += weight * float(np.sum((hermite_products(inner.points, indices) @ (inner.weights * y)) ** 2))
    return max(second - projected, 0.0)


def kernel_bound(target: Target, kappa: int) -> float:
    """Return the bound where nothing is learned: that of kernels and random features."""
    return lower_bound(target, np.zeros((0, target.directions)), kappa)
