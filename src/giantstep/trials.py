"""The experiment over a grid, trial by trial: points that share a draw, their means and errors, failed trials."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from giantstep.errors import InputError
from giantstep.family import Variable
from giantstep.grid import Batch, Grid, Points, scenario_at
from giantstep.problems import Problems
from giantstep.progress import Progress, ProgressOption
from giantstep.request import Experiment, Request
from giantstep.scenario import Scenario

if TYPE_CHECKING:
    import xarray

    from giantstep.result import Table

_log = logging.getLogger("giantstep")


@dataclass
class Group:
    """Points which one draw answers: they differ only in the shared fields of their family."""

    scenario: Scenario
    places: NDArray[np.intp]
    points: Points
    dim: int
    bytes_needed: float = 0.0

    def key(self, paired: bool) -> str:
        """Return what the random numbers belong to: the content of the points, not their place in a grid."""
        content = "paired" if paired else self.scenario.digest(without=self.scenario.shared_fields)
        return f"{content} dim={self.dim}"


def grouped(grid: Grid) -> list[Group]:
    """Return the points of a grid by draws; every one must have a dimension."""
    return [group for batch in grid.batches() for group in _groups(batch)]


def _groups(batch: Batch) -> Iterator[Group]:
    own = [name for name in batch.points if name not in batch.scenario.shared_fields]
    rows = np.stack([batch.points[name] for name in own], axis=1)
    _, first, codes = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    for code in np.argsort(first):
        places = np.flatnonzero(codes.reshape(-1) == code)
        points = {name: values[places] for name, values in batch.points.items()}
        yield Group(scenario_at(batch.scenario, points, 0), batch.places[places], points, _dim(points["dim"][0]))


def _dim(value: float) -> int:
    if math.isinf(value):
        raise InputError("Field `dim` is missing: an experiment needs the dimension of its data, a whole number.")
    return int(value)


def check_room(groups: Sequence[Group], request: Request, settings: Mapping[str, Any], experiment: Experiment) -> None:
    """Refuse what does not fit into the memory of the device."""
    from giantstep.lab import check_memory

    own_settings = _own_settings(request, settings, experiment)
    for group in groups:
        group.bytes_needed = group.scenario.memory(group.points, request.what, group.dim, own_settings)
        check_memory(group.bytes_needed, experiment.device)


def measured(
    groups: Sequence[Group],
    request: Request,
    settings: Mapping[str, Any],
    experiment: Experiment,
    progress: ProgressOption,
) -> tuple[xarray.Dataset, Problems]:
    """Return the means over trials at every point of the grid, and what went wrong.

    Parameters
    ----------
    groups : the points, as `grouped` and `check_room` left them.
    request : what is asked.
    settings : the prepared settings of the question.
    """
    from giantstep.result import Table, provenance

    start = time.perf_counter()
    grid, what = request.grid, request.what
    own_settings = _own_settings(request, settings, experiment)
    table = Table(grid, request.question, "experiment")
    problems = Problems("experiment", grid.size)
    with Progress(progress, len(groups) * experiment.trials, "trials") as bar:
        for group in groups:
            _run_group(group, request, own_settings, experiment, table, problems, bar)
    if not table.pieces:
        _put_nothing(table, settings, experiment)
    _log.debug(
        "experiment of %s, %s: %d of %d points measured, %d draws of %d trials on %s, in %.3g s",
        grid.scenario.family,
        what,
        grid.size - len(problems.reasons),
        grid.size,
        len(groups),
        experiment.trials,
        experiment.device,
        time.perf_counter() - start,
    )
    shown = {name: value for name, value in request.shown().items() if name != "theory"}
    facts = {"device": experiment.device, "trials": experiment.trials}
    attrs = provenance(grid.scenario, what, "experiment", {**shown, **experiment.shown()}, facts)
    kept = experiment.keep_trials
    return table.dataset(grid.scenario, trials_kept=kept, settings=settings, attrs=attrs), problems


def _put_nothing(table: Table, settings: Mapping[str, Any], experiment: Experiment) -> None:
    """Say "not computed" of every variable where no trial of any point gave numbers."""
    counts = table.grid.scenario.block_count()
    places = np.arange(table.grid.size)
    for variable in table.question.variables:
        if "experiment" in variable.engines:
            own = tuple(counts.get(dim, np.size(settings.get(dim, 0))) for dim in variable.dims)
            kept = (experiment.trials, *own) if experiment.keep_trials else own
            table.put(variable.name, places, np.full((len(places), *kept), np.nan))
            table.put(variable.name + "_stderr", places, np.full((len(places), *own), np.nan))


def _own_settings(request: Request, settings: Mapping[str, Any], experiment: Experiment) -> dict[str, Any]:
    return {**request.for_engine("experiment", settings), "device": experiment.device}


def _run_group(
    group: Group,
    request: Request,
    settings: Mapping[str, Any],
    experiment: Experiment,
    table: Table,
    problems: Problems,
    bar: Progress,
) -> None:
    from giantstep.lab import Draws, threads_for

    variables = {v.name: v for v in request.question.variables if "experiment" in v.engines}
    count = len(group.places)
    status = np.full(count, "", dtype=object)
    done = np.zeros(count, dtype=np.int64)
    runs: list[dict[str, NDArray[Any]]] = []
    for trial in range(experiment.trials):
        draws = Draws(experiment.seed, group.key(experiment.paired), trial, experiment.device)
        try:
            with threads_for(group.bytes_needed, experiment.device):
                values = group.scenario.trial(group.points, request.what, group.dim, draws, settings)
        except np.linalg.LinAlgError as error:
            values, reasons = {}, np.full(count, f"trial {trial}: {error}", dtype=object)
        else:
            reasons = _not_numbers(values, variables, count, trial)
        status = np.where(status == "", reasons, status)
        done += reasons == ""
        runs.append(values)
        bar.advance()
    for name in dict.fromkeys(name for run in runs for name in run):
        variable = table.variable(name)
        kept = _stacked([run.get(name) for run in runs], count)
        mean, stderr = _mean_and_error(kept, variable)
        table.put(name, group.places, np.moveaxis(kept, 0, 1) if experiment.keep_trials else mean)
        table.put(name + "_stderr", group.places, stderr)
    table.put_diagnostic("converged", group.places, status == "")
    table.put_diagnostic("status", group.places, status)
    table.put_diagnostic("trials_done", group.places, done)
    problems.reasons += [reason for reason in status if reason]


def _not_numbers(
    values: Mapping[str, NDArray[Any]], variables: Mapping[str, Variable], count: int, trial: int
) -> NDArray[np.object_]:
    """Return, for each point, which compared variable came out as NaN (others may leave room with NaN)."""
    reasons = np.full(count, "", dtype=object)
    for name, value in values.items():
        if name in variables and variables[name].compared:
            bad = np.isnan(np.asarray(value, dtype=np.float64)).reshape(count, -1).any(axis=1)
            reasons[bad & (reasons == "")] = f"trial {trial}: {name} is not a number"
    return reasons


def _stacked(runs: Sequence[Any], count: int) -> NDArray[np.float64]:
    """Return the trials of one variable as (trials, points, ...), NaN where one is shorter or missing."""
    arrays = [None if run is None else np.asarray(run, dtype=np.float64) for run in runs]
    shapes = [array.shape[1:] for array in arrays if array is not None]
    own = tuple(map(max, zip(*shapes))) if shapes[0] else ()
    kept = np.full((len(runs), count, *own), np.nan)
    for trial, array in enumerate(arrays):
        if array is not None:
            kept[trial][tuple(map(slice, array.shape))] = array
    return kept


def _mean_and_error(kept: NDArray[np.float64], variable: Variable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard error over trials.

    A trial that failed blanks a compared variable; others, where NaN is room (after the last outlier),
    average what is there.
    """
    there = np.ones(kept.shape, dtype=bool) if variable.compared else ~np.isnan(kept)
    count = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, kept, 0.0).sum(axis=0) / count
        square = np.where(there, (kept - mean) ** 2, 0.0).sum(axis=0)
        error = np.sqrt(square / (count - 1) / count)
    return mean, np.where(count > 1, error, np.nan)
