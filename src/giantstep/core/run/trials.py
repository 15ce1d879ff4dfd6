"""The experiment over a grid, trial by trial: points that share a draw, their means and
errors, failed trials.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from giantstep.core.base.errors import InputError
from giantstep.core.base.progress import Progress, ProgressOption
from giantstep.core.base.types import Array, Floats, Indices, Points
from giantstep.core.lab import Draws, check_memory, threads_for
from giantstep.core.run.kept import check_room, with_networks
from giantstep.core.run.problems import Problems
from giantstep.core.run.request import ExperimentSettings, Request
from giantstep.core.run.returns import measured_by
from giantstep.core.scenario.answer import pad_stack
from giantstep.core.scenario.dimensions import dimension_named
from giantstep.core.scenario.family import Variable
from giantstep.core.scenario.grid import Grid, scenario_at
from giantstep.core.scenario.model import Scenario

if TYPE_CHECKING:
    import xarray

_log = logging.getLogger("giantstep")

Watch = Callable[[Callable[[], "xarray.Dataset"]], object]
"""Called after every trial with a function that returns what was measured so far."""


@dataclass(frozen=True)
class Outcome:
    """What one draw gave at its B points: variable -> (B, ...) array, and why not
    (empty where it gave numbers).
    """

    values: Mapping[str, Array]
    reasons: NDArray[np.object_]


@dataclass
class DrawGroup:
    """Points which one draw answers: they differ only in the shared fields of their
    family.
    """

    scenario: Scenario
    index: Indices
    points: Points
    dim: int
    bytes_needed: float = 0.0

    def key(self, paired: bool) -> str:
        """Return what the random numbers belong to: the content of the points, not
        their index in a grid.
        """
        if paired:
            content = "paired"
        else:
            content = self.scenario.digest(without=self.scenario.shared_fields)
        return f"{content} dim={self.dim}"


@dataclass(frozen=True)
class TrialDraw:
    """One trial at points that share a draw, ready to run here or in another
    process.
    """

    group: DrawGroup
    trial: int
    what: str
    settings: Mapping[str, Any]
    experiment: ExperimentSettings
    key: str

    @property
    def scenario(self) -> Scenario:
        """The scenario of the points, but for their shared fields."""
        return self.group.scenario

    def at(self, rows: Any) -> TrialDraw:
        """Return the draw at some of its points."""
        points = {name: values[rows] for name, values in self.group.points.items()}
        return replace(
            self, group=replace(self.group, index=self.group.index[rows], points=points)
        )

    def networks(self) -> dict[str, Array]:
        """Return the networks of this trial, for ``keep_networks``; nothing where
        training them failed.
        """
        group = self.group
        device = self.experiment.device
        draws = Draws(self.experiment.seed, self.key, self.trial, device)
        settings = {**self.settings, "device": device}
        try:
            with threads_for(group.bytes_needed, device):
                return group.scenario.networks(
                    group.points, self.what, group.dim, draws, settings
                )
        except np.linalg.LinAlgError:  # the trial itself says so
            return {}

    def run(self, device: str | None = None) -> Outcome:
        """Draw and measure, on another device of the same kind where one is named."""
        group = self.group
        device = device or self.experiment.device
        draws = Draws(self.experiment.seed, self.key, self.trial, device)
        settings = {**self.settings, "device": device}
        try:
            with threads_for(group.bytes_needed, device):
                values = measured_by(
                    group.scenario, group.points, self.what, group.dim, draws, settings
                )
        except np.linalg.LinAlgError as error:
            return Outcome(
                {},
                np.full(len(group.index), f"trial {self.trial}: {error}", dtype=object),
            )
        return Outcome(values, _not_numbers(values, group, self.what, self.trial))


def group_points(grid: Grid) -> list[DrawGroup]:
    """Return the points of a grid by draws; every one must have a dimension."""
    groups = []
    for batch in grid.batches():
        numbers = [
            values
            for name, values in batch.points.items()
            if name not in batch.scenario.shared_fields
        ]
        _, first, codes = np.unique(
            np.stack(numbers, axis=1), axis=0, return_index=True, return_inverse=True
        )
        for code in np.argsort(first):
            rows = np.flatnonzero(codes.reshape(-1) == code)
            points = {name: values[rows] for name, values in batch.points.items()}
            scenario = scenario_at(batch.scenario, points, 0)
            given = points["dim"][0]
            dim = scenario.own_dim() if math.isinf(given) else given
            if dim is None:
                needed = "an experiment needs the dimension of its data, a whole number"
                raise InputError(f"Field `dim` is missing: {needed}.")
            groups.append(DrawGroup(scenario, batch.index[rows], points, int(dim)))
    return groups


class TrialPlan:
    """An experiment about to run: the points of a request by draws, and the settings
    that its trials share.
    """

    # a limit that is `compared` with it is told how many trials there are
    def __init__(
        self,
        request: Request,
        experiment: ExperimentSettings,
        *,
        compared: bool = False,
        at_once: int = 1,
    ) -> None:
        self.request = request
        self.experiment = experiment
        self.groups = group_points(request.grid)
        self.settings = request.prepare(
            device=experiment.device, trials=experiment.trials if compared else None
        )
        self.own_settings = request.for_engine("experiment", self.settings)
        settings = {**self.own_settings, "device": experiment.device}
        for group in self.groups:
            group.bytes_needed = group.scenario.memory(
                group.points, request.what, group.dim, settings
            )
            check_memory(at_once * group.bytes_needed, experiment.device)
        if experiment.keep_networks:
            check_room(self.groups, request.what, experiment.trials, self.own_settings)

    def of_twins(self, theory: str) -> TrialPlan | None:
        """Return the same trials on the Gaussian twins of tables, at the points that
        have one; None where none has.
        """
        groups = []
        for group in self.groups:
            twin = group.scenario.gaussian_twin(theory)
            if twin is not None:
                groups.append(replace(group, scenario=twin))
        if not groups:
            return None
        plan = copy(self)
        plan.groups = groups
        settings = {**self.own_settings, "device": self.experiment.device}
        for group in groups:
            group.bytes_needed = group.scenario.memory(
                group.points, self.request.what, group.dim, settings
            )
            check_memory(group.bytes_needed, self.experiment.device)
        return plan

    def draw(self, group: DrawGroup, trial: int) -> TrialDraw:
        """Return one trial of a group of points."""
        key = group.key(self.experiment.paired)
        return TrialDraw(
            group, trial, self.request.what, self.own_settings, self.experiment, key
        )

    def run(
        self, progress: ProgressOption, watch: Watch | None = None
    ) -> tuple[xarray.Dataset, Problems]:
        """Return the means over trials at every point of the grid, and what went
        wrong.
        """
        start = time.perf_counter()
        trials = self.experiment.trials
        outcomes: list[list[Outcome]] = []
        kept: list[list[dict[str, Array]]] = []
        with Progress(progress, len(self.groups) * trials, "trials") as bar:
            for group in self.groups:
                outcomes.append([])
                kept.append([])
                for trial in range(trials):
                    drawn = self.draw(group, trial)
                    outcomes[-1].append(drawn.run())
                    if self.experiment.keep_networks:
                        kept[-1].append(drawn.networks())
                    bar.advance()
                    if watch is not None:
                        watch(lambda: self.collect(outcomes)[0])
        result, problems = self.collect(outcomes)
        if self.experiment.keep_networks:
            result = with_networks(
                result,
                self.request.grid,
                self.request.what,
                self.groups,
                kept,
                self.settings,
            )
        grid = self.request.grid
        draws = (
            f"{len(self.groups)} draws of {trials} trials on {self.experiment.device}"
        )
        measured = f"{grid.size - len(problems.reasons)} of {grid.size} points measured"
        told = (
            f"experiment of {grid.scenario.family}, {self.request.what}: {measured},"
            f" {draws}"
        )
        _log.debug(f"{told}, in {time.perf_counter() - start:.3g} s")
        return result, problems

    def collect(
        self, outcomes: Sequence[Sequence[Outcome]]
    ) -> tuple[xarray.Dataset, Problems]:
        """Lay the outcomes of all trials out as one table: `outcomes[g][trial]` belongs
        to ``groups[g]``.
        """
        from giantstep.core.result.provenance import provenance
        from giantstep.core.result.table import ResultTable

        grid = self.request.grid
        experiment = self.experiment
        table = ResultTable(grid, self.request.question, "experiment")
        problems = Problems("experiment", grid.size)
        kept = experiment.keep_trials
        for group, runs in zip(self.groups, outcomes):
            reasons = np.array(
                [
                    np.full(len(group.index), "", dtype=object),
                    *(run.reasons for run in runs),
                ]
            )
            status = np.take_along_axis(
                reasons, np.argmax(reasons != "", axis=0)[None], axis=0
            )[0]
            for name in dict.fromkeys(name for run in runs for name in run.values):
                values = pad_stack([run.values.get(name) for run in runs])
                mean, stderr = mean_and_error(values, table.columns[name])
                table.put(
                    name, group.index, np.moveaxis(values, 0, 1) if kept else mean
                )
                table.put(name + "_stderr", group.index, stderr)
            table.put_diagnostic("converged", group.index, status == "")
            table.put_diagnostic("status", group.index, status)
            table.put_diagnostic(
                "trials_done", group.index, (reasons[1:] == "").sum(axis=0)
            )
            problems.reasons += [reason for reason in status if reason]
        if not table.pieces:
            table.put_nothing(self.settings, experiment.trials if kept else None)
        shown = {
            name: value
            for name, value in self.request.shown().items()
            if name != "theory"
        }
        facts = {"device": experiment.device, "trials": experiment.trials}
        attrs = provenance(
            grid,
            self.request.what,
            "experiment",
            {**shown, **experiment.shown()},
            facts,
        )
        return (
            table.dataset(
                grid.scenario, trials_kept=kept, settings=self.settings, attrs=attrs
            ),
            problems,
        )


def _not_numbers(
    values: Mapping[str, Array], group: DrawGroup, what: str, trial: int
) -> NDArray[np.object_]:
    """Return, for each point, which compared variable came out as NaN (others may be
    NaN after their last entry).
    """
    reasons = np.full(len(group.index), "", dtype=object)
    for variable in group.scenario.questions[what].variables:
        if variable.name in values and variable.compared and not variable.partial:
            missing = np.isnan(np.asarray(values[variable.name], dtype=np.float64))
            new = missing.reshape(len(reasons), -1).any(axis=1) & (reasons == "")
            reasons[new] = (
                f"trial {trial}:"
                f" {variable.missing or f'{variable.name} is not a number'}"
            )
            # say from when on
            is_run = [dimension_named(dim).role for dim in variable.dims[:1]] == [
                "trajectory"
            ]
            for point in np.flatnonzero(new) if is_run and not variable.missing else ():
                first = (
                    missing[point].reshape(missing.shape[1], -1).any(axis=1).argmax()
                )
                reasons[point] += f" from step {first} on"
    return reasons


def mean_and_error(kept: Floats, variable: Variable) -> tuple[Floats, Floats]:
    """Return mean and standard error over the trials (trials, points, ...)."""
    # a trial that failed blanks a compared variable; others, NaN after their last
    # entry, average what is there
    whole = variable.compared and not variable.partial
    there = np.ones(kept.shape, dtype=bool) if whole else ~np.isnan(kept)
    count = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # summed one by one, so that a point has the same bits alone and in a grid
        mean = np.add.accumulate(np.where(there, kept, 0.0), axis=0)[-1] / count
        square = np.add.accumulate(np.where(there, (kept - mean) ** 2, 0.0), axis=0)[-1]
        error = np.sqrt(square / (count - 1) / count)
    return mean, np.where(count > 1, error, np.nan)
