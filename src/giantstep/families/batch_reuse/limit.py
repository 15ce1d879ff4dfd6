"""The limit: the causal recursion on several independent sets of points, averaged, with its standard errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from giantstep.checks import check_number, every_time
from giantstep.deadline import check_time
from giantstep.errors import InputError, bad_field
from giantstep.families.batch_reuse.closed_forms import two_steps
from giantstep.families.batch_reuse.points import MOST_COLUMNS, Layout, WeightedPoints, grid_points, sobol_points
from giantstep.families.batch_reuse.population import target_rule, trajectory_variables
from giantstep.families.batch_reuse.recursion import Process, Trajectory, run
from giantstep.families.batch_reuse.scenario import BatchReuse
from giantstep.families.batch_reuse.tolerances import HEAVY_TAILS
from giantstep.family import Answer
from giantstep.grid import scenario_at
from giantstep.lab import available_memory, threads_for
from giantstep.padding import pad_stack
from giantstep.types import Floats, Points

GRID_COLUMNS = 4
"""Axes of a tensor grid at most."""
FEWEST_PER_COLUMN = 2
"""Points for each of their columns at least: fewer cannot have the moments of independent normals."""


def prepare(scenario: BatchReuse, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check the settings, and say which times both engines answer."""
    settings = dict(settings)
    nodes = settings["nodes"]
    if nodes & (nodes - 1) and settings["points"] == "sobol":
        raise bad_field("nodes", nodes, "a power of two (2**16, say)")
    if settings["accuracy"] is not None:
        settings["accuracy"] = check_number("accuracy", settings["accuracy"], "a number above 0", lambda v: v > 0)
    if settings["response"] == "tangent" and scenario.activation.kinks:
        raise bad_field(
            "response",
            "tangent",
            f'"stein" for {scenario.activation.name}, whose derivative jumps: the chain rule fails',
        )
    if settings["theory"] == "closed-form" and what != "trajectory":
        raise bad_field("theory", "closed-form", f'"exact" where what="{what}"')
    times = every_time(points["steps"].max())
    return {**settings, "time": times, "time_2": times, "step": times[:-1], "step_2": times[:-1]}


def limit(scenario: BatchReuse, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer every point; points of one shape of the problem share their sets of Sobol points."""
    size = len(points["steps"])
    scenarios: list[Any] = [scenario_at(scenario, points, index) for index in range(size)]
    for each in scenarios:
        _check_size(each, settings)
    if settings["theory"] == "closed-form":
        return _closed_forms(scenarios, settings)
    answer = Answer.blank(size)
    solved = []
    for index, runs in enumerate(_all_runs(scenarios, what, settings)):
        stopped = [run.diverged for run in runs if run.diverged]
        answer.status[index] = f"the trajectory diverged at step {min(stopped)}" if stopped else ""
        values = _compare_grids(*runs) if settings["points"] == "grid" else _average_scrambles(runs)
        remarks = _remarks(scenarios[index], values, [run.power for run in runs], settings)
        answer.warnings += [remark for remark in remarks if remark not in answer.warnings]
        answer.iterations[index] = scenarios[index].steps
        answer.residual[index] = values.pop("residual", 0.0)
        solved.append(values)
    answer.values = {name: pad_stack([values[name] for values in solved]) for name in solved[0]}
    dims = {dim for variable in scenario.questions[what].variables for dim in variable.dims}
    answer.coords = {dim: settings[dim] for dim in ("time", "time_2", "step", "step_2") if dim in dims}
    if settings["points"] == "sobol":
        replicates = settings["scrambles"]
        answer.attrs = {"nodes": settings["nodes"], "replicates": replicates, "points_seed": settings["seed"]}
    return answer


def _closed_forms(scenarios: Sequence[Any], settings: Mapping[str, Any]) -> Answer:
    """Answer with the closed forms of the first two steps: M, Q and cosines where they are known, NaN elsewhere."""
    size, times, p, k = len(scenarios), len(settings["time"]), scenarios[0].neurons, scenarios[0].target.directions
    M, Q = np.full((size, times, p, k), np.nan), np.full((size, times, p, p), np.nan)
    answer = Answer.blank(size)
    for index, scenario in enumerate(scenarios):
        closed = two_steps(scenario)
        if closed is None:
            answer.status[index] = "no closed form is known for this scenario"
            continue
        known = min(3, scenario.steps + 1)
        M[index, :known], Q[index, :known] = closed.M[:known], closed.Q[:known]
    answer.values = {"M": M, "Q": Q, "cosine": M / np.sqrt(np.diagonal(Q, axis1=2, axis2=3))[..., None]}
    answer.coords = {"time": settings["time"]}
    return answer


def layout_of(scenario: BatchReuse, grid: bool = False) -> Layout:
    """Return the columns one sample of this scenario needs."""
    k, p, T, B = scenario.target.directions, scenario.neurons, scenario.steps, scenario.batches
    normals = p * (1 if scenario.data == "fresh" else T if grid else T + 1)
    if scenario.data in ("cycle", "replacement") and B > 1:
        return Layout(k, scenario.noise > 0, normals, scenario.data, B, T)
    return Layout(k, scenario.noise > 0, normals)


def process_of(scenario: BatchReuse, response: Any = "stein") -> Process:
    """Return the scenario as the recursion sees it."""
    overlap, gram = scenario.start
    return Process(
        activation=scenario.activation,
        loss=scenario.loss,
        a=np.array(scenario.second_layer),
        alpha=scenario.samples_per_dim,
        rates=scenario.rates(),
        M=overlap,
        Q=gram,
        decay=scenario.decay,
        momentum=scenario.momentum,
        second_layer_rate=scenario.second_layer_rate,
        spherical=scenario.constraint == "spherical",
        fresh=scenario.data == "fresh",
        response=response,
    )


def labels_of(scenario: BatchReuse, points: WeightedPoints) -> Floats:
    """Return the labels of weighted points, noise included."""
    labels: Floats = np.asarray(scenario.target(points.target.T), dtype=np.float64)
    return labels if points.noise is None else labels + np.sqrt(scenario.noise) * points.noise


def _check_size(scenario: BatchReuse, settings: Mapping[str, Any]) -> None:
    grid = settings["points"] == "grid"
    layout = layout_of(scenario, grid)
    if grid and (layout.uniform or layout.columns > GRID_COLUMNS):
        raise bad_field(
            "points",
            "grid",
            f'"sobol" here: a grid has at most {GRID_COLUMNS} axes and no mini-batches, but target, noise and steps '
            f"need {layout.columns} columns",
        )
    if grid and scenario.activation.kinks:
        raise bad_field("points", "grid", f'"sobol" for {scenario.activation.name}, which is not smooth')
    if layout.columns > MOST_COLUMNS:
        raise InputError(f"The limit needs {layout.columns} columns of points, but the sequence has {MOST_COLUMNS}.")
    if not grid and settings["nodes"] < FEWEST_PER_COLUMN * layout.columns:
        raise bad_field(
            "nodes", settings["nodes"], f"at least {FEWEST_PER_COLUMN * layout.columns} for {layout.columns} columns"
        )
    bytes_needed = points_memory(scenario, settings)
    available = available_memory()
    if bytes_needed > available:
        raise InputError(
            f"The limit needs {bytes_needed / 2**30:.3g} GiB of memory for nodes={settings['nodes']} and "
            f"steps={scenario.steps}, but {available / 2**30:.3g} GiB are free; take fewer nodes or steps."
        )


def points_memory(scenario: BatchReuse, settings: Mapping[str, Any]) -> int:
    """Return the bytes one run needs: the points, the gradients of all steps, the kernels, and what is at work."""
    layout = layout_of(scenario, settings["points"] == "grid")
    p, T, columns = scenario.neurons, scenario.steps, layout.columns
    gradients = p if scenario.data == "fresh" else p * T
    tangent = p * p * (T * (T + 1) // 2 + T) if settings["response"] == "tangent" else 0
    kernels = 4 * (p * (T + 1)) ** 2
    return int(8 * (settings["nodes"] * (2 * columns + gradients + tangent + 8 * p) + kernels))


class _SetRun(NamedTuple):
    """One run of the recursion: its variables, the mean square of its labels, the step at which it diverged (or 0)."""

    values: dict[str, Floats]
    power: float
    diverged: int


def _all_runs(scenarios: Sequence[BatchReuse], what: str, settings: Mapping[str, Any]) -> list[list[_SetRun]]:
    """Return the runs of every scenario, one for each set of points; those of one layout share the sets."""
    layouts = [layout_of(scenario, settings["points"] == "grid") for scenario in scenarios]
    runs: list[list[_SetRun]] = [[] for _ in scenarios]
    for layout in dict.fromkeys(layouts):
        for points in _draw(layout, settings):
            for scenario, own, found in zip(scenarios, layouts, runs):
                if own == layout:
                    with threads_for(0):  # thin products: a second thread only waits
                        found.append(_run_on(scenario, points, what, settings))
    return runs


def _run_on(scenario: BatchReuse, points: WeightedPoints, what: str, settings: Mapping[str, Any]) -> _SetRun:
    labels = labels_of(scenario, points)
    trajectory = run(process_of(scenario, settings["response"]), points, labels)
    values = kernels(trajectory) if what == "kernels" else _variables(scenario, trajectory, points)
    return _SetRun(values, float(points.weights @ labels**2), trajectory.diverged)


def _draw(layout: Layout, settings: Mapping[str, Any]) -> Iterator[WeightedPoints]:
    if settings["points"] == "grid":
        per_axis = int(settings["nodes"] ** (1 / layout.columns) + 1e-9)
        yield grid_points(layout, per_axis)
        yield grid_points(layout, max(2, int(0.75 * per_axis)))
        return
    for scramble in range(settings["scrambles"]):
        check_time()
        yield sobol_points(layout, settings["nodes"], settings["seed"], scramble)


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


def _variables(scenario: BatchReuse, trajectory: Trajectory, points: WeightedPoints) -> dict[str, Floats]:
    rule = target_rule(scenario.target, points.target, points.weights)
    return trajectory_variables(scenario, rule, trajectory.M, trajectory.Q, trajectory.a, trajectory.train_loss)


def _compare_grids(fine: _SetRun, coarse: _SetRun) -> dict[str, Any]:
    """Return the values of the finer grid; the residual is the distance of the first variable to the coarser one."""
    first = next(iter(fine.values))
    with np.errstate(invalid="ignore"):
        gaps = np.abs(fine.values[first] - coarse.values[first])
    return {**fine.values, "residual": float(np.nanmax(gaps)) if np.isfinite(gaps).any() else np.nan}


def _average_scrambles(runs: list[_SetRun]) -> dict[str, Any]:
    """Return means and standard errors over the scrambles."""
    values: dict[str, Any] = {}
    count = len(runs)
    for name in runs[0].values:
        stack = np.stack([run.values[name] for run in runs])
        values[name] = stack.mean(axis=0)
        spread = stack.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full_like(stack[0], np.nan)
        values[name + "_stderr"] = spread
    return values


def _remarks(
    scenario: BatchReuse, values: Mapping[str, Any], powers: list[float], settings: Mapping[str, Any]
) -> list[str]:
    remarks = []
    if scenario.activation.parity == "even" and not np.any(scenario.start[0]):
        remarks.append(
            f"The activation {scenario.activation.name} is even and the overlaps start at zero: nothing can be learned."
        )
    if settings["points"] == "grid":
        return remarks
    if len(powers) > 1 and np.std(powers, ddof=1) > HEAVY_TAILS * np.mean(powers):
        remarks.append(
            f"The mean square of the labels differs by {np.std(powers, ddof=1) / np.mean(powers):.1%} between sets of "
            "points: the target has heavy tails, and its standard errors may be too small."
        )
    if settings["accuracy"] is not None and len(powers) > 1 and np.isfinite(values.get("M_stderr", np.nan)).any():
        worst = float(np.nanmax(values["M_stderr"]))
        if worst > settings["accuracy"]:
            more = 2 ** int(np.ceil(np.log2(settings["nodes"] * worst / settings["accuracy"])))
            remarks.append(
                f"The standard error of M reaches {worst:.1e}, above accuracy={settings['accuracy']:g}; "
                f"take nodes={more}."
            )
    return remarks
