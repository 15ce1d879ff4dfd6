"""The limit: the causal recursion on several independent sets of points, averaged, with its standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from giantstep.checks import every_time
from giantstep.deadline import check_time
from giantstep.errors import InputError, bad_field
from giantstep.families.batch_reuse.points import MOST_COLUMNS, Layout, WeightedPoints, sobol_points
from giantstep.families.batch_reuse.population import target_rule, trajectory_variables
from giantstep.families.batch_reuse.recursion import Trajectory
from giantstep.families.batch_reuse.scenario import BatchReuse
from giantstep.families.batch_reuse.tolerances import HEAVY_TAILS
from giantstep.family import Answer
from giantstep.grid import scenario_at
from giantstep.lab import available_memory
from giantstep.padding import pad_stack
from giantstep.types import Floats, Points

FEWEST_PER_COLUMN = 2
"""Points for each of their columns at least: fewer cannot have the moments of independent normals."""
Run = tuple[dict[str, Floats], float, int]
"""One run of the recursion: its variables, the mean square of its labels, the step at which it diverged (or 0)."""


def prepare(scenario: BatchReuse, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check the number of points, and say which times both engines answer."""
    nodes = settings["nodes"]
    if nodes & (nodes - 1):
        raise bad_field("nodes", nodes, "a power of two (2**16, say)")
    times = every_time(points["steps"].max())
    return {**settings, "time": times, "time_2": times, "step": times[:-1], "step_2": times[:-1]}


def limit(scenario: BatchReuse, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer every point; points of one shape of the problem share their sets of Sobol points."""
    size = len(points["steps"])
    scenarios: list[Any] = [scenario_at(scenario, points, index) for index in range(size)]
    for each in scenarios:
        _check_size(each, settings)
    answer = Answer.blank(size)
    answer.residual[:] = 0.0
    solved = []
    for index, runs in enumerate(_all_runs(scenarios, what, settings)):
        values, powers, diverged = zip(*runs)
        answer.status[index] = f"the trajectory diverged at step {min(filter(None, diverged))}" if any(diverged) else ""
        remarks = _remarks(scenarios[index], powers)
        answer.warnings += [remark for remark in remarks if remark not in answer.warnings]
        answer.iterations[index] = scenarios[index].steps
        means: dict[str, Any] = {}  # over the scrambles, with their standard errors
        for name in values[0]:
            stack = np.stack([run[name] for run in values])
            alone = len(runs) == 1
            spread = np.full_like(stack[0], np.nan) if alone else stack.std(axis=0, ddof=1) / np.sqrt(len(runs))
            means |= {name: stack.mean(axis=0), f"{name}_stderr": spread}
        solved.append(means)
    answer.values = {name: pad_stack([values[name] for values in solved]) for name in solved[0]}
    dims = {dim for variable in scenario.questions[what].variables for dim in variable.dims}
    answer.coords = {dim: settings[dim] for dim in ("time", "time_2", "step", "step_2") if dim in dims}
    replicates = settings["scrambles"]
    answer.attrs = {"nodes": settings["nodes"], "replicates": replicates, "points_seed": settings["seed"]}
    return answer


def layout_of(scenario: BatchReuse) -> Layout:
    """Return the columns one sample of this scenario needs."""
    k, p, T, B = scenario.target.directions, scenario.neurons, scenario.steps, scenario.batches
    normals = p * (1 if scenario.data == "fresh" else T + 1)
    masked = (scenario.data, B, T) if scenario.data in ("cycle", "replacement") and B > 1 else ()
    return Layout(k, scenario.noise > 0, normals, *masked)


def labels_of(scenario: BatchReuse, points: WeightedPoints) -> Floats:
    """Return the labels of weighted points, noise included."""
    labels: Floats = np.asarray(scenario.target(points.target.T), dtype=np.float64)
    return labels if points.noise is None else labels + np.sqrt(scenario.noise) * points.noise


def _check_size(scenario: BatchReuse, settings: Mapping[str, Any]) -> None:
    columns, nodes = layout_of(scenario).columns, settings["nodes"]
    if columns > MOST_COLUMNS:
        raise InputError(f"The limit needs {columns} columns of points, but the sequence has {MOST_COLUMNS}.")
    if nodes < FEWEST_PER_COLUMN * columns:
        raise bad_field("nodes", nodes, f"at least {FEWEST_PER_COLUMN * columns} for {columns} columns")
    p, T = scenario.neurons, scenario.steps  # memory for points, gradients of all steps, kernels, and what is at work
    gradients, kernels = p if scenario.data == "fresh" else p * T, 4 * (p * (T + 1)) ** 2
    bytes_needed, available = 8 * (nodes * (2 * columns + gradients + 8 * p) + kernels), available_memory()
    if bytes_needed > available:
        raise InputError(
            f"The limit needs {bytes_needed / 2**30:.3g} GiB of memory for nodes={nodes} and "
            f"steps={scenario.steps}, but {available / 2**30:.3g} GiB are free; take fewer nodes or steps."
        )


def _all_runs(scenarios: Sequence[BatchReuse], what: str, settings: Mapping[str, Any]) -> list[list[Run]]:
    """Return the runs of every scenario, one for each set of points; those of one layout share the sets."""
    layouts = [layout_of(scenario) for scenario in scenarios]
    runs: list[list[Run]] = [[] for _ in scenarios]
    for layout in dict.fromkeys(layouts):
        for scramble in range(settings["scrambles"]):
            check_time()
            points = sobol_points(layout, settings["nodes"], settings["seed"], scramble)
            for scenario, own, found in zip(scenarios, layouts, runs):
                if own != layout:
                    continue
                labels = labels_of(scenario, points)
                made = Trajectory(scenario, points, labels)
                if what == "kernels":
                    values = kernels(made)
                else:
                    rule = target_rule(scenario.target, points.target, points.weights)
                    values = trajectory_variables(scenario, rule, made.M, made.Q, made.a, made.train_loss)
                found.append((values, float(points.weights @ labels**2), made.diverged))
    return runs


def kernels(trajectory: Trajectory) -> dict[str, Floats]:
    """Return C, Cl and K with an axis for each time and neuron, NaN from the step on that diverged."""
    p, last = trajectory.a.shape[1], trajectory.diverged or len(trajectory.M)
    arrays = {}
    for name, blocks in (("C", trajectory.C), ("Cl", trajectory.Cl), ("K", trajectory.K[:, : -p or None])):
        rows, columns = (size // p for size in blocks.shape)
        array = blocks.reshape(rows, p, columns, p).transpose(0, 2, 1, 3).copy()
        array[last:], array[:, last:] = np.nan, np.nan
        arrays[name] = array
    return arrays


def _remarks(scenario: BatchReuse, powers: Sequence[float]) -> list[str]:
    remarks = []
    if scenario.activation.parity == "even" and not np.any(scenario.start[0]):
        remarks.append(
            f"The activation {scenario.activation.name} is even and the overlaps start at zero: nothing can be learned."
        )
    if len(powers) > 1 and np.std(powers, ddof=1) > HEAVY_TAILS * np.mean(powers):
        remarks.append(
            f"The mean square of the labels differs by {np.std(powers, ddof=1) / np.mean(powers):.1%} between sets of "
            "points: the target has heavy tails, and its standard errors may be too small."
        )
    return remarks
