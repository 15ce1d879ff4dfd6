"""The limit: the causal recursion on several independent sets of points, averaged, with its standard errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from giantstep.checks import check_number
from giantstep.errors import InputError, bad_field
from giantstep.families.batch_reuse.closed_forms import two_steps
from giantstep.families.batch_reuse.points import MOST_COLUMNS, Layout, Points, grid_points, sobol_points
from giantstep.families.batch_reuse.population import population_loss, target_rule
from giantstep.families.batch_reuse.recursion import Process, Trajectory, run
from giantstep.families.batch_reuse.scenario import BatchReuse
from giantstep.family import Answer
from giantstep.grid import scenario_at
from giantstep.lab import available_memory, threads_for
from giantstep.padding import pad_stack
from giantstep.types import Floats

PointsOf = Mapping[str, Floats]

GRID_COLUMNS = 4
"""Axes of a tensor grid at most."""
FEWEST_PER_COLUMN = 2
"""Points for each of their columns at least: fewer cannot have the moments of independent normals."""
KEPT_BYTES = 2**29
"""Sets of points up to this size are kept from one point of a grid to the next."""
_HEAVY = 0.02
"""Relative spread of E y^2 between scrambles from which the tails of the target are too heavy for the points."""


def prepare(scenario: BatchReuse, points: PointsOf, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
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
    times = np.arange(int(points["steps"].max()) + 1)
    return {**settings, "time": times, "time_2": times, "step": times[:-1], "step_2": times[:-1]}


def limit(scenario: BatchReuse, points: PointsOf, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer every point; points of one shape of the problem share their sets of Sobol points."""
    size = len(points["rate"] if "rate" in points else points["steps"])
    answer = Answer({}, np.full(size, "", dtype=object), np.zeros(size), np.zeros(size, np.int64))
    chosen: list[Any] = [scenario_at(scenario, dict(points), place) for place in range(size)]
    for one in chosen:
        _check_room(one, settings)
    if settings["theory"] == "closed-form":
        return _closed_forms(chosen, answer, settings)
    drawn: dict[Layout, list[Points]] = {}
    solved: dict[int, dict[str, Any]] = {}
    for place in sorted(range(size), key=lambda place: chosen[place].steps):  # the same points one after the other
        with threads_for(0):  # thin products: a second thread only waits
            values, answer.status[place], remarks = _solve(chosen[place], what, settings, drawn)
        answer.warnings += [remark for remark in remarks if remark not in answer.warnings]
        answer.iterations[place] = chosen[place].steps
        answer.residual[place] = values.pop("residual", 0.0)
        solved[place] = values
    answer.values = {name: pad_stack([solved[place][name] for place in range(size)]) for name in solved[0]}
    answer.status = answer.status.astype(str)
    answer.coords = _coords(scenario, what, settings)
    if settings["points"] == "sobol":
        answer.attrs = {
            "nodes": settings["nodes"],
            "replicates": settings["scrambles"],
            "points_seed": settings["seed"],
        }
    return answer


def _coords(scenario: BatchReuse, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    dims = {dim for variable in scenario.questions[what].variables for dim in variable.dims}
    return {dim: settings[dim] for dim in ("time", "time_2", "step", "step_2") if dim in dims}


def _closed_forms(chosen: Sequence[Any], answer: Answer, settings: Mapping[str, Any]) -> Answer:
    """Answer with the closed forms of the first two steps: M, Q and cosines where they are known, NaN elsewhere."""
    times, p, k = len(settings["time"]), chosen[0].neurons, chosen[0].target.directions
    M, Q = np.full((len(chosen), times, p, k), np.nan), np.full((len(chosen), times, p, p), np.nan)
    for place, one in enumerate(chosen):
        found = two_steps(one)
        if found is None:
            answer.status[place] = "no closed form is known for this scenario"
            continue
        known = min(3, one.steps + 1)
        M[place, :known], Q[place, :known] = found.M[:known], found.Q[:known]
    lengths = np.sqrt(np.diagonal(Q, axis1=2, axis2=3))[..., None]
    answer.values = {"M": M, "Q": Q, "cosine": M / lengths}
    answer.status = answer.status.astype(str)
    answer.coords = {"time": settings["time"]}
    return answer


def layout_of(scenario: BatchReuse, grid: bool = False) -> Layout:
    """Return the columns one sample of this scenario needs."""
    fresh = scenario.data == "fresh"
    blocks = 1 if fresh else scenario.steps if grid else scenario.steps + 1
    mask = scenario.data if scenario.data in ("cycle", "replacement") and scenario.batches > 1 else "none"
    return Layout(
        scenario.target.directions,
        scenario.noise > 0,
        scenario.neurons * blocks,
        mask,
        scenario.batches if mask != "none" else 1,
        scenario.steps if mask != "none" else 0,
    )


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


def labels_of(scenario: BatchReuse, points: Points) -> Floats:
    """Return the labels of the points, noise included."""
    labels: Floats = np.asarray(scenario.target(points.target.T), dtype=np.float64)
    return labels if points.noise is None else labels + np.sqrt(scenario.noise) * points.noise


def _check_room(scenario: BatchReuse, settings: Mapping[str, Any]) -> None:
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
    sets = settings["scrambles"] if _kept(layout, settings) else 1
    kernels = 4 * (p * (T + 1)) ** 2
    return int(8 * (settings["nodes"] * (sets * columns + columns + gradients + tangent + 8 * p) + kernels))


def _solve(
    scenario: BatchReuse, what: str, settings: Mapping[str, Any], drawn: dict[Layout, list[Points]]
) -> tuple[dict[str, Any], str, list[str]]:
    """Return the values of one point, why it failed, and remarks."""
    grid = settings["points"] == "grid"
    layout = layout_of(scenario, grid)
    process = process_of(scenario, settings["response"])
    runs, powers = [], []
    for points in _shared(layout, settings, drawn):
        labels = labels_of(scenario, points)
        powers.append(float(points.weights @ labels**2))
        trajectory = run(process, points, labels)
        observed = kernels(trajectory) if what == "kernels" else _observables(scenario, trajectory, points)
        runs.append((trajectory, observed))
    stopped = [trajectory.diverged for trajectory, _ in runs if trajectory.diverged]
    status = f"the trajectory diverged at step {min(stopped)}" if stopped else ""
    values = _averaged([observed for _, observed in runs], grid)
    return values, status, _remarks(scenario, values, powers, settings)


def _shared(
    layout: Layout, settings: Mapping[str, Any], drawn: dict[Layout, list[Points]]
) -> Iterator[Points] | list[Points]:
    """Return the sets of points of a layout: kept for the next point of the grid where they are small."""
    if not _kept(layout, settings):
        return _draw(layout, settings)
    if layout not in drawn:
        drawn.clear()  # one layout at a time
        drawn[layout] = list(_draw(layout, settings))
    return drawn[layout]


def _kept(layout: Layout, settings: Mapping[str, Any]) -> bool:
    return bool(8 * settings["nodes"] * layout.columns * settings["scrambles"] <= KEPT_BYTES)


def _draw(layout: Layout, settings: Mapping[str, Any]) -> Iterator[Points]:
    if settings["points"] == "grid":
        per_axis = int(settings["nodes"] ** (1 / layout.columns) + 1e-9)
        yield grid_points(layout, per_axis)
        yield grid_points(layout, max(2, int(0.75 * per_axis)))
        return
    for scramble in range(settings["scrambles"]):
        yield sobol_points(layout, settings["nodes"], settings["seed"], scramble)


def kernels(trajectory: Trajectory) -> dict[str, Floats]:
    """Return C, Cl and K with an axis for each time and neuron, NaN from the step on that diverged."""
    p, last = trajectory.a.shape[1], trajectory.diverged or len(trajectory.M)
    found = {}
    for name, blocks in (("C", trajectory.C), ("Cl", trajectory.Cl), ("K", trajectory.K[:, : -p or None])):
        rows, columns = (size // p for size in blocks.shape)
        array = blocks.reshape(rows, p, columns, p).transpose(0, 2, 1, 3).copy()
        array[last:], array[:, last:] = np.nan, np.nan
        found[name] = array
    return found


def _observables(scenario: BatchReuse, trajectory: Trajectory, points: Points) -> dict[str, Floats]:
    M, Q, a = trajectory.M, trajectory.Q, trajectory.a
    rule = target_rule(scenario.target, points.target, points.weights)
    population = np.array(
        [
            population_loss(scenario.activation, scenario.loss, rule, scenario.noise, a[t], M[t], Q[t])
            for t in range(len(M))
        ]
    )
    lengths = np.sqrt(np.diagonal(Q, axis1=1, axis2=2))
    return {
        "M": M,
        "Q": Q,
        "cosine": M / lengths[:, :, None],
        "train_loss": trajectory.train_loss,
        "population_loss": population,
        "generalisation": population - trajectory.train_loss,
        "a": a,
    }


def _averaged(runs: list[dict[str, Floats]], grid: bool) -> dict[str, Any]:
    """Return means and standard errors over the scrambles; of a grid, the finer one and its distance to the coarser."""
    if grid:
        with np.errstate(invalid="ignore"):
            first = next(iter(runs[0]))
            return {**runs[0], "residual": float(np.nanmax(np.abs(runs[0][first] - runs[1][first])))}
    values: dict[str, Any] = {}
    count = len(runs)
    for name in runs[0]:
        stack = np.stack([one[name] for one in runs])
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
    if len(powers) > 1 and np.std(powers, ddof=1) > _HEAVY * np.mean(powers):
        remarks.append(
            f"The mean square of the labels differs by {np.std(powers, ddof=1) / np.mean(powers):.1%} between sets of "
            "points: the target has heavy tails, and its standard errors may be too small."
        )
    if settings["accuracy"] is not None and len(powers) > 1 and "M_stderr" in values:
        worst = float(np.nanmax(values["M_stderr"]))
        if worst > settings["accuracy"]:
            more = 2 ** int(np.ceil(np.log2(settings["nodes"] * worst / settings["accuracy"])))
            remarks.append(
                f"The standard error of M reaches {worst:.1e}, above accuracy={settings['accuracy']:g}; "
                f"take nodes={more}."
            )
    return remarks
