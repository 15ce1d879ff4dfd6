"""The limit of giant steps: the exact map, point by point; orientation of the first gradients; errors and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.families.giant_steps import overlap_map
from giantstep.families.giant_steps.bounds import lower_bound
from giantstep.families.giant_steps.overlap_map import MOST_SINGLE, Network, RepellingNeurons
from giantstep.families.giant_steps.scenario import DIVERGED, GiantSteps
from giantstep.families.giant_steps.specialisation import check_order, orientation, statistics
from giantstep.family import Answer
from giantstep.types import Booleans, Floats, Points

_COARSE = 0.75
_WORTH_A_STATUS = 1e-2
_INACCURATE = "the quadrature is accurate only"
_COMPARED = {"steps": "M", "neurons": "cosine", "errors": "test_error"}


def prepare(scenario: GiantSteps, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check what only a question knows; both engines answer at the same times."""
    if what == "specialisation":
        for order in np.unique(points["batch_exponent"]):
            check_order(float(order))
        return dict(settings)
    if what == "fit":
        return dict(settings)
    if what == "neurons":
        for width in np.unique(points["width"]):
            scenario.neurons(float(width))
    return {**settings, "time": np.arange(int(points["steps"].max()) + 1)}


def limit(scenario: GiantSteps, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer all points; the map is iterated twice, with a fine and a coarser rule, and the difference reported."""
    if what == "specialisation":
        return _specialisation(scenario, points, settings)
    if what == "fit":
        size = len(points["rate"])
        bound = lower_bound(scenario.target, np.zeros((0, scenario.target.directions)), 1) + points["noise"]
        return Answer({"kernel_bound": bound}, np.full(size, ""), np.zeros(size), np.zeros(size, np.int64))
    size = len(points["rate"])
    time = settings["time"]
    values = _empty(scenario, points, what, len(time))
    residual, status = np.zeros(size), np.full(size, "", dtype=object)
    for b in range(size):
        point = {name: float(column[b]) for name, column in points.items()}
        try:
            found, rough = (trajectory(scenario, point, what, settings, fineness) for fineness in (1.0, _COARSE))
        except RepellingNeurons as reason:
            status[b], residual[b] = str(reason), np.nan
            continue
        rough.pop("clipped")
        clipped = float(np.max(found.pop("clipped")))
        residual[b], status[b] = _judged(found[_COMPARED[what]], rough[_COMPARED[what]], int(point["steps"]))
        residual[b] += clipped
        if status[b].startswith(_INACCURATE):
            continue
        for name, value in found.items():
            place: tuple[Any, ...] = (b, *map(slice, value.shape))
            values[name][place] = value
    answer = Answer(values, status.astype(str), residual, points["steps"].astype(np.int64))
    answer.coords["time"] = time
    return answer


def _judged(fine: Floats, rough: Floats, steps: int) -> tuple[float, str]:
    """Return the relative difference of two rules and, where the trajectory ends early or is not accurate, why."""
    done = min(len(fine), len(rough))
    gap = float(np.max(np.abs(fine[:done] - rough[:done]))) / max(1.0, float(np.max(np.abs(fine))))
    if done <= steps:
        return gap, f"the weights diverged in step {done}: decrease the rate"
    return gap, f"{_INACCURATE} to {gap:.0e}" if not gap <= _WORTH_A_STATUS else ""


def _empty(scenario: GiantSteps, points: Points, what: str, times: int) -> dict[str, Floats]:
    """Return the table of a question with nothing in it yet."""
    lengths = {**scenario.block_count(), "time": times}
    if what == "neurons":
        lengths["neuron"] = max(scenario.neurons(float(width)) for width in points["width"])
    variables = [variable for variable in scenario.questions[what].variables if "limit" in variable.engines]
    size = len(points["rate"])
    return {v.name: np.full((size, *(lengths[dim] for dim in v.dims)), np.nan) for v in variables}


def network_at(scenario: GiantSteps, point: Mapping[str, float], fineness: float = 1.0) -> Network:
    """Return the network of one point."""
    fractions, counts = scenario.fractions(point["width"])
    return Network(
        np.array(scenario.values),
        fractions,
        counts,
        scenario.target,
        scenario.activation,
        point["noise"],
        fineness,
    )


def trajectory(
    scenario: GiantSteps, point: Mapping[str, float], what: str, settings: Mapping[str, Any], fineness: float
) -> dict[str, Floats]:
    """Iterate the map of one point; every array has the times first."""
    blocks = network_at(scenario, point, fineness)
    try:
        kept = _iterated(blocks, blocks, point, what, settings)
    except RepellingNeurons:
        if blocks.counts.sum() > MOST_SINGLE:
            raise
        kept = _iterated(blocks.single(), blocks, point, what, settings)
    answer = {name: np.array([row[name] for row in kept]) for name in kept[0]}
    if what == "errors":
        bare = lower_bound(blocks.target, np.zeros((0, blocks.target.directions)), int(settings["kappa"]))
        answer["kernel_bound"] = np.asarray(bare + blocks.noise)
    return answer


def _iterated(
    network: Network, blocks: Network, point: Mapping[str, float], what: str, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Follow a network, by blocks or neuron by neuron, and observe it by blocks."""
    inverse_alpha = 1 / point["batch_per_dim"] if point["batch_exponent"] == 1 else 0.0
    state, kept = overlap_map.start(network), []
    for time in range(int(point["steps"]) + 1):
        if not np.max(state.q) < DIVERGED:
            break
        space = overlap_map.shared_space(network, state)
        found = overlap_map.gradient(network, state, inverse_alpha, space)
        if what == "errors":
            kept.append(_errors(network, state, space, int(settings["kappa"])))
        else:
            seen = _observed(network, blocks, state, found)
            if what == "neurons":
                counts = blocks.counts.astype(int)
                seen = {name: np.repeat(seen[name], counts, axis=0) for name in ("cosine", "gradient_cosine")}
            kept.append(seen)
        kept[-1]["clipped"] = space.clipped
        if time < int(point["steps"]):
            state = overlap_map.step(network, state, found, point["rate"])
    return kept


def _observed(
    network: Network, blocks: Network, state: overlap_map.Overlaps, found: overlap_map.Gradient
) -> dict[str, Any]:
    """One neuron of every block, and one pair of different neurons of every two blocks."""
    first = np.arange(len(blocks.values))
    second = first
    if len(network.values) > len(blocks.values):
        ends = np.cumsum(blocks.counts.astype(int))
        first, second = ends - blocks.counts.astype(int), ends - 1
    return {
        "cosine": (state.M / np.sqrt(state.q)[:, None])[first],
        "norm": state.q[first],
        "M": state.M[first],
        "R": np.where(_has_pairs(blocks), state.R[np.ix_(first, second)], 0.0),
        "gradient_cosine": (np.sign(network.values)[:, None] * found.cosine)[first],
    }


def _has_pairs(network: Network) -> Booleans:
    """Whether there are two different neurons in two blocks: a single neuron has no other in its own."""
    return ~np.diag(network.counts == 1)


def _errors(network: Network, state: overlap_map.Overlaps, space: overlap_map.Shared, kappa: int) -> dict[str, Any]:
    learned = overlap_map.learned_subspace(state)
    bound = lower_bound(network.target, learned, kappa) if network.fineness >= 1 else 0.0
    return {
        "test_error": overlap_map.best_error(network, state, space),
        "lower_bound": bound + network.noise,
        "learned": float(len(learned)),
    }


def _specialisation(scenario: GiantSteps, points: Points, settings: Mapping[str, Any]) -> Answer:
    size, k = len(points["rate"]), scenario.target.directions
    found = statistics(scenario.target, scenario.activation, int(points["batch_exponent"].max()))
    values = {
        "alignment": np.zeros(size),
        "alignment_by_direction": np.zeros((size, k)),
        "specialised": np.zeros(size),
        "spike": np.zeros(size),
    }
    for b in range(size):
        order, alpha, noise, dim = (float(points[n][b]) for n in ("batch_exponent", "batch_per_dim", "noise", "dim"))
        seen = orientation(found, k, order, alpha, noise, settings["labels"] == "cleaned", dim)
        values["alignment"][b], values["spike"][b] = seen.alignment, seen.spike
        values["alignment_by_direction"][b] = np.diag(seen.matrix)
        values["specialised"][b] = seen.specialised
    return Answer(values, np.full(size, ""), np.zeros(size), np.ones(size, np.int64))
