"""The verbs `predict` (the limit), `simulate` (the experiment), `compare` (both), and `Study`, one in a file.

They know no family: all they use is what `giantstep.scenario.Scenario` says every family provides.
"""

from __future__ import annotations

import difflib
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from giantstep.errors import ConvergenceError, GiantstepError, GiantstepWarning, InputError, bad_field
from giantstep.family import Engine, Question, Setting, Variable
from giantstep.grid import Batch, Grid, Points, scenario_at
from giantstep.progress import Progress, ProgressOption
from giantstep.scenario import Scenario, as_number, dotted, from_content, known_field, walk_fields
from giantstep.toml import read_toml, write_toml

if TYPE_CHECKING:
    import xarray

_log = logging.getLogger("giantstep")


# -- the verbs -----------------------------------------------------------------------------------


def predict(
    scenario: Scenario,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    theory: str | None = None,
    dim: Any = None,
    tolerance: float = 1e-10,
    strict: bool = False,
    progress: ProgressOption = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with its limit, over a grid in one batched call.

    Parameters
    ----------
    scenario : what is studied.
    grid : dotted field -> value or list of values; the same as keywords.
    what : the question asked; the scenario's first one if left out.
    theory : a name in ``scenario.theories``; the family chooses if left out, and the result says which.
    dim : adds the leading finite-size correction at that dimension, where it is known; may be a list.
    tolerance : relative residual the equations are solved to.
    strict : raise `ConvergenceError` where a point is not solved, rather than warn.
    progress : True, False or a callable(done, total, text); a bar on a terminal if left out.
    **fields : fields of the scenario (``step__rate=[0.5, 1]``) and settings of the question (``x=...``).

    Returns
    -------
    xarray.Dataset
        Grid dimensions first; ``converged``, ``residual``, ``iterations``, ``status`` beside the variables.
    """
    request = _Request(scenario, grid, fields, what=what, dim=dim, theory=theory, tolerance=tolerance)
    _check_flag("strict", strict)
    result, problems = _limit(request, request.prepared(), progress)
    _report(problems, strict)
    return result


def simulate(
    scenario: Scenario,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    dim: Any = None,
    trials: int = 5,
    seed: int = 0,
    device: str = "cpu",
    keep_trials: bool = False,
    paired: bool = False,
    strict: bool = False,
    progress: ProgressOption = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with an experiment of finite dimension: means over trials, with standard errors.

    The numbers of a point depend on the seed, on what the point is, and on the trial, never on its place in
    the grid: more points or more trials change no number.

    Parameters
    ----------
    scenario, grid, what, strict, progress, **fields : as in `predict`.
    dim : dimension of the data; may be a list.
    trials : number of independent repetitions.
    seed : any whole number from 0 on.
    device : ``"cpu"`` or ``"cuda"``; they draw different numbers.
    keep_trials : keep the dimension ``trial`` rather than the mean.
    paired : give all points the same draws, so that their differences are less noisy.

    Returns
    -------
    xarray.Dataset
        The variables of `predict`, each with its standard error ``*_stderr``.
    """
    request = _Request(scenario, grid, fields, what=what, dim=dim)
    experiment = _Experiment(trials, seed, device, keep_trials, paired)
    _check_flag("strict", strict)
    result, problems = _simulated(request, request.prepared(device=device), experiment, progress)
    _report(problems, strict)
    return result


def compare(
    scenario: Scenario,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    what: str | None = None,
    theory: str | None = None,
    dim: Any = None,
    tolerance: float = 1e-10,
    trials: int = 5,
    seed: int = 0,
    device: str = "cpu",
    paired: bool = False,
    finite_size: bool = True,
    strict: bool = False,
    progress: ProgressOption = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario with both engines and say how far apart they are.

    Parameters
    ----------
    scenario, grid, what, theory, tolerance, strict, progress, **fields : as in `predict`.
    dim, trials, seed, device, paired : as in `simulate`.
    finite_size : take the limit with its finite-size correction at `dim`, where it is known.

    Returns
    -------
    xarray.Dataset
        The dimension ``source`` ("limit", "experiment") first; ``*_gap`` is experiment minus limit and
        ``*_z`` its normal score. `giantstep.agreement` sums it up.
    """
    from giantstep.agreement import combine
    from giantstep.result import provenance

    _check_flag("finite_size", finite_size)
    _check_flag("strict", strict)
    request = _Request(scenario, grid, fields, what=what, dim=dim, theory=theory, tolerance=tolerance)
    experiment = _Experiment(trials, seed, device, False, paired)
    settings = request.prepared(device=device)
    limit, problems = _limit(request, settings, progress, bare=not finite_size)
    measured, more_problems = _simulated(request, settings, experiment, progress)
    _report(problems, strict)
    _report(more_problems, strict)
    result = combine(limit, measured, request.question)
    shared = {**request.shown(), "tolerance": tolerance, **experiment.shown(), "finite_size": finite_size}
    facts = {**_own_attrs(limit), **_own_attrs(measured), "finite_size": finite_size}
    return result.assign_attrs(provenance(request.grid.scenario, request.what, "comparison", shared, facts))


# -- what was asked ------------------------------------------------------------------------------


class _Request:
    """A checked question: the scenario over its grid, `what`, and the settings of the question."""

    def __init__(
        self,
        scenario: Scenario,
        grid: Mapping[str, Any] | None,
        keywords: Mapping[str, Any],
        *,
        what: str | None,
        dim: Any,
        theory: str | None = None,
        tolerance: float = 1e-10,
    ) -> None:
        from giantstep.result import RESERVED

        if not isinstance(scenario, Scenario):
            raise InputError(f"The first argument must be a scenario, not a {type(scenario).__name__}.")
        if not (grid is None or isinstance(grid, Mapping)):
            raise InputError(f"The grid must be a mapping of fields to values, not a {type(grid).__name__}.")
        self.what = _question_name(scenario, what)
        self.question = scenario.questions[self.what]
        fields, self.given = _split(scenario, self.question, {**(grid or {})}, keywords)
        self.settings = {name: setting.default for name, setting in self.question.settings.items()}
        for name, value in self.given.items():
            self.settings[name] = checked_setting(name, self.question.settings[name], value)
        if dim is None and "dim" not in type(scenario).model_fields:
            dim = fields.pop("dim", None)
        self.grid = Grid(scenario, fields, dim=dim)
        own = [dim for variable in self.question.variables for dim in variable.dims]
        self.grid.check_names([*RESERVED, *own, *(variable.name for variable in self.question.variables)])
        self.theory = _theory(scenario, theory)
        self.tolerance = _number(
            "tolerance", tolerance, "a number above 0 and below 1", lambda value: 0 < value < 1
        )

    def prepared(self, device: str = "cpu") -> dict[str, Any]:
        """Return the settings with what both engines share (the ``x`` of a spectrum) chosen, once."""
        settings = {"theory": self.theory, "tolerance": self.tolerance, "device": device, **self.settings}
        prepared = [
            batch.scenario.prepare(batch.points, self.what, settings) for batch in self.grid.batches()
        ]
        return {name: _common([dict(one)[name] for one in prepared]) for name in prepared[0]}

    def for_engine(self, engine: Engine, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that concern one engine."""
        other = {"limit": ("device",), "experiment": ("theory", "tolerance")}[engine]
        foreign = {name for name, setting in self.question.settings.items() if engine not in setting.engines}
        return {name: value for name, value in settings.items() if name not in {*other, *foreign}}

    def shown(self) -> dict[str, Any]:
        """Return the settings as asked, for the provenance."""
        shown: dict[str, Any] = {} if self.theory is None else {"theory": self.theory}
        shown.update(self.given)
        return shown if math.isinf(self.grid.dim) else {"dim": int(self.grid.dim), **shown}


@dataclass(frozen=True)
class _Experiment:
    """The checked settings of an experiment."""

    trials: int
    seed: int
    device: str
    keep_trials: bool
    paired: bool

    def __post_init__(self) -> None:
        _number("trials", self.trials, "a whole number at least 1", lambda value: value >= 1, whole=True)
        _number(
            "seed",
            self.seed,
            "a whole number from 0 to 2**64 - 1",
            lambda value: 0 <= value < 2**64,
            whole=True,
        )
        if not isinstance(self.device, str):
            raise bad_field("device", self.device, '"cpu" or "cuda"')
        _check_flag("keep_trials", self.keep_trials)
        _check_flag("paired", self.paired)

    def shown(self) -> dict[str, Any]:
        return {"trials": self.trials, "seed": self.seed, "device": self.device, "paired": self.paired}


def _question_name(scenario: Scenario, what: str | None) -> str:
    names = list(scenario.questions)
    if what is None:
        return names[0]
    if what not in names:
        raise bad_field("what", what, f"one of {', '.join(names)}{_nearest(what, names)}")
    return what


def _theory(scenario: Scenario, theory: str | None) -> str | None:
    names = list(scenario.theories)
    if theory is not None and theory not in names:
        raise bad_field("theory", theory, f"one of {', '.join(names)}{_nearest(theory, names)}")
    return theory


def _split(
    scenario: Scenario, question: Question, grid: Mapping[str, Any], keywords: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split keywords into fields of the scenario and settings of the question; anything else is refused."""
    names = dotted({name: value for name, value in keywords.items() if name not in question.settings})
    fields = dotted(grid)
    for name in names:
        if name in fields:
            raise InputError(f"Field `{name}` is given twice.")
    fields.update(names)
    for name in fields:
        top = name.partition(".")[0]
        if name != "dim" and top not in fields:  # a part that is replaced itself may hold other fields
            known_field(scenario, name, also=[*question.settings, *_VERB_SETTINGS])
        elif name != "dim":
            known_field(scenario, top, also=[*question.settings, *_VERB_SETTINGS])
    return fields, {name: keywords[name] for name in keywords if name in question.settings}


_LIMIT_SETTINGS = ("theory", "dim", "tolerance", "finite_size", "strict")
_EXPERIMENT_SETTINGS = ("dim", "trials", "seed", "device", "keep_trials", "paired")
_VERB_SETTINGS = ("what", *_LIMIT_SETTINGS, *_EXPERIMENT_SETTINGS[1:], "progress")


def checked_setting(name: str, setting: Setting, value: Any) -> Any:
    """Check a setting of a question at the door and return it (lists of numbers as an array)."""
    if setting.choices:
        if value not in setting.choices:
            raise bad_field(
                name, value, "one of " + ", ".join(setting.choices) + _nearest(value, setting.choices)
            )
        return value
    if value is None or isinstance(setting.default, str | bool):
        kind = type(setting.default)
        if value is not None and not isinstance(value, kind):
            raise bad_field(name, value, "true or false" if kind is bool else "a text")
        return value
    if isinstance(setting.default, int):
        return int(_number(name, value, "a whole number", lambda number: True, whole=True))
    if isinstance(value, str | bytes | bool) or not (np.ndim(value) or isinstance(value, complex)):
        return _number(name, value, "a number", lambda number: True)
    return _number_list(name, value)


def _number_list(name: str, value: Any) -> NDArray[Any]:
    entries = value if isinstance(value, list | tuple) else np.asarray(value).tolist()
    entries = entries if isinstance(entries, list | tuple) else [entries]
    numbers: list[complex] = []
    for entry in entries:
        try:
            numbers.append(complex(entry) if _is_complex(entry) else as_number(entry))
        except (ValueError, TypeError):
            raise bad_field(name, entry, "a number in each place of the list") from None
    if not numbers:
        raise bad_field(name, [], "a list of at least one number")
    return np.array(numbers)


def _is_complex(entry: Any) -> bool:
    """Tell complex numbers, also as files hold them: the text ``"0.5+0.1j"``."""
    return isinstance(entry, complex) or (isinstance(entry, str) and entry.endswith(("j", "j)")))


def _common(values: Sequence[Any]) -> Any:
    """Return what several batches prepared: their one value, or the widest of the lists they chose."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    return max(arrays, key=np.ptp) if arrays else values[0]


def _number(name: str, value: Any, allowed: str, good: Any, *, whole: bool = False) -> float:
    try:
        number = as_number(value)
    except ValueError:
        raise bad_field(name, value, allowed) from None
    if (whole and not number.is_integer()) or not good(number):
        raise bad_field(name, value, allowed)
    return number


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise bad_field(name, value, "True or False")


def _nearest(name: Any, candidates: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), candidates, n=1, cutoff=0.5)
    return f" (did you mean `{close[0]}`?)" if close else ""


# -- the limit -----------------------------------------------------------------------------------


@dataclass
class _Problems:
    """Points that were not computed, and what else is worth saying."""

    engine: Engine
    points: int
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _report(problems: _Problems, strict: bool) -> None:
    for sentence in dict.fromkeys(problems.warnings):
        warnings.warn(sentence, GiantstepWarning, stacklevel=3)
    if problems.reasons:
        verb = "solved" if problems.engine == "limit" else "measured"
        count = f"{len(problems.reasons)} of {problems.points}"
        sentence = f"{count} points were not {verb} (first reason: {problems.reasons[0]})."
        if strict:
            raise ConvergenceError(sentence)
        warnings.warn(sentence, GiantstepWarning, stacklevel=3)


def _limit(
    request: _Request, settings: Mapping[str, Any], progress: ProgressOption, *, bare: bool = False
) -> tuple[xarray.Dataset, _Problems]:
    from giantstep.result import Table, merged, provenance

    grid, question = request.grid, request.question
    table = Table(grid, question, "limit")
    problems = _Problems("limit", grid.size)
    facts = []
    variables = {variable.name: variable for variable in question.variables if "limit" in variable.engines}
    with Progress(progress, grid.size, "limit") as bar:
        for batch in grid.batches():
            points = _bare(batch.points) if bare and not grid.dim_is_field else batch.points
            answer = batch.scenario.limit(points, request.what, request.for_engine("limit", settings))
            status = np.asarray(answer.status)
            failed = status != ""
            for name, values in answer.values.items():
                variable = _declared(variables, name, batch.scenario)
                table.put(name, batch.places, _without_failed(variable, np.asarray(values), failed))
            table.put_coords(answer.coords)
            for name, column in _diagnostics(answer, failed).items():
                table.put_diagnostic(name, batch.places, column)
            problems.reasons += [str(reason) for reason in status[failed]]
            problems.warnings += answer.warnings
            facts.append(answer.attrs)
            bar.advance(len(batch.places))
    shown = {**request.shown(), "tolerance": request.tolerance}
    theory = request.theory or next(iter(grid.scenario.theories))
    attrs = provenance(grid.scenario, request.what, "limit", shown, {"theory": theory, **merged(facts)})
    return table.dataset(grid.scenario, trials_kept=False, settings=settings, attrs=attrs), problems


def _bare(points: Points) -> Points:
    return {**points, "dim": np.full_like(points["dim"], np.inf)}


def _declared(variables: Mapping[str, Variable], name: str, scenario: Scenario) -> Variable:
    variable = variables.get(name.removesuffix("_stderr"), variables.get(name))
    if variable is None:
        raise GiantstepError(f"The family {scenario.family} answered `{name}`, which it does not declare.")
    return variable


def _without_failed(variable: Variable, values: NDArray[Any], failed: NDArray[np.bool_]) -> NDArray[Any]:
    """Blank the points that failed; a trajectory keeps what came before it diverged."""
    if not failed.any() or "time" in variable.dims:
        return values
    values = values.astype(np.float64)
    values[failed] = np.nan
    return values


def _diagnostics(answer: Any, failed: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    return {
        "converged": ~failed,
        "residual": np.asarray(answer.residual, dtype=np.float64),
        "iterations": np.asarray(answer.iterations, dtype=np.int64),
        "status": np.asarray(answer.status),
    }


# -- the experiment ------------------------------------------------------------------------------


@dataclass
class _Group:
    """Points which one draw answers: they differ only in the shared fields of their family."""

    scenario: Scenario
    places: NDArray[np.intp]
    points: Points
    dim: int

    def key(self, paired: bool) -> str:
        """Return what the random numbers belong to: the content of the points, not their place in a grid."""
        content = "paired" if paired else self.scenario.digest(without=self.scenario.shared_fields)
        return f"{content} dim={self.dim}"


def _groups(batch: Batch) -> Iterator[_Group]:
    own = [name for name in batch.points if name not in batch.scenario.shared_fields]
    rows = np.stack([batch.points[name] for name in own], axis=1)
    _, first, codes = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    for code in np.argsort(first):
        places = np.flatnonzero(codes.reshape(-1) == code)
        points = {name: values[places] for name, values in batch.points.items()}
        yield _Group(
            scenario_at(batch.scenario, points, 0), batch.places[places], points, _dim(points["dim"][0])
        )


def _dim(value: float) -> int:
    if math.isinf(value):
        raise InputError(
            "Field `dim` is missing: an experiment needs the dimension of its data, a whole number."
        )
    return int(value)


def _simulated(
    request: _Request, settings: Mapping[str, Any], experiment: _Experiment, progress: ProgressOption
) -> tuple[xarray.Dataset, _Problems]:
    from giantstep.lab import check_memory
    from giantstep.result import Table, provenance

    grid, what = request.grid, request.what
    own_settings = {**request.for_engine("experiment", settings), "device": experiment.device}
    groups = [group for batch in grid.batches() for group in _groups(batch)]
    for group in groups:
        check_memory(group.scenario.memory(group.points, what, group.dim, own_settings), experiment.device)
    _log.debug("%d points in %d groups, %d trials each", grid.size, len(groups), experiment.trials)
    table = Table(grid, request.question, "experiment")
    problems = _Problems("experiment", grid.size)
    with Progress(progress, len(groups) * experiment.trials, "trials") as bar:
        for group in groups:
            _run_group(group, request, own_settings, experiment, table, problems, bar)
    shown = {
        **{name: value for name, value in request.shown().items() if name != "theory"},
        **experiment.shown(),
    }
    facts = {"device": experiment.device, "trials": experiment.trials}
    attrs = provenance(grid.scenario, what, "experiment", shown, facts)
    return table.dataset(
        grid.scenario, trials_kept=experiment.keep_trials, settings=settings, attrs=attrs
    ), problems


def _run_group(
    group: _Group,
    request: _Request,
    settings: Mapping[str, Any],
    experiment: _Experiment,
    table: Any,
    problems: _Problems,
    bar: Progress,
) -> None:
    from giantstep.lab import Draws

    variables = {v.name: v for v in request.question.variables if "experiment" in v.engines}
    count = len(group.places)
    status = np.full(count, "", dtype=object)
    done = np.zeros(count, dtype=np.int64)
    runs: list[dict[str, NDArray[Any]]] = []
    for trial in range(experiment.trials):
        draws = Draws(experiment.seed, group.key(experiment.paired), trial, experiment.device)
        try:
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
        variable = _declared(variables, name, group.scenario)
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


def _mean_and_error(
    kept: NDArray[np.float64], variable: Variable
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def _own_attrs(result: xarray.Dataset) -> dict[str, Any]:
    from giantstep.result import PROVENANCE

    return {str(name): value for name, value in result.attrs.items() if name not in PROVENANCE}


# -- studies in files ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """A scenario, the question asked, the grid of fields that vary, and the settings of both engines.

    Parameters
    ----------
    scenario : what is studied.
    what : the question; the scenario's first one if left out.
    grid : dotted field -> value or list.
    settings : settings of the question (``x``, ``normalisation``, ...).
    limit : ``theory``, ``dim``, ``tolerance``, ``finite_size``, ``strict``.
    experiment : ``dim``, ``trials``, ``seed``, ``device``, ``keep_trials``, ``paired``.
    """

    scenario: Scenario
    what: str | None = None
    grid: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: Mapping[str, Any] = field(default_factory=dict)
    experiment: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.scenario, Scenario):
            raise InputError(f"A study needs a scenario, not a {type(self.scenario).__name__}.")
        question = self.scenario.questions[_question_name(self.scenario, self.what)]
        own = {
            engine: [n for n, s in question.settings.items() if s.engines == (engine,)] for engine in _TABLES
        }
        _known_keys("limit", self.limit, [*_LIMIT_SETTINGS, *own["limit"]])
        _known_keys("experiment", self.experiment, [*_EXPERIMENT_SETTINGS, *own["experiment"]])
        _known_keys("settings", self.settings, list(question.settings))
        request = _Request(self.scenario, self.grid, self._question_settings(), what=self.what, dim=None)
        for table in (self.limit, self.experiment):
            Grid(request.grid.scenario, {}, dim=table.get("dim"))
        _theory(self.scenario, self.limit.get("theory"))
        _Request(self.scenario, {}, {}, what=None, dim=None, tolerance=self.limit.get("tolerance", 1e-10))
        for name in ("finite_size", "strict"):
            _check_flag(name, self.limit.get(name, False))
        experiment = {
            "trials": 5,
            "seed": 0,
            "device": "cpu",
            "keep_trials": False,
            "paired": False,
            **self.experiment,
        }
        _Experiment(**{name: experiment[name] for name in _EXPERIMENT_SETTINGS if name != "dim"})

    def predict(self, **overrides: Any) -> xarray.Dataset:
        """Answer with the limit; keywords override the study (fields, settings, ``progress``)."""
        settings = self._for(("theory", "dim", "tolerance", "strict"), self.limit, overrides)
        return predict(self.scenario, self._grid(overrides), what=self._what(overrides), **settings)

    def simulate(self, **overrides: Any) -> xarray.Dataset:
        """Answer with the experiment; keywords override the study."""
        settings = self._for(_EXPERIMENT_SETTINGS, self.experiment, overrides)
        return simulate(self.scenario, self._grid(overrides), what=self._what(overrides), **settings)

    def compare(self, **overrides: Any) -> xarray.Dataset:
        """Answer with both; keywords override the study."""
        ours: Any = self.limit.get("dim")
        theirs: Any = self.experiment.get("dim")
        both_given = "dim" not in overrides and ours is not None and theirs is not None
        if both_given and not np.array_equal(ours, theirs):
            raise InputError("The tables `limit` and `experiment` must have the same `dim` for a comparison.")
        tables = {**self.limit, **{name: v for name, v in self.experiment.items() if name != "keep_trials"}}
        settings = self._for((*_LIMIT_SETTINGS, *_EXPERIMENT_SETTINGS), tables, overrides)
        return compare(self.scenario, self._grid(overrides), what=self._what(overrides), **settings)

    def _what(self, overrides: Mapping[str, Any]) -> str | None:
        what: str | None = overrides.get("what", self.what)
        return what

    def _grid(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        replaced = dotted(overrides)
        return {name: value for name, value in dotted(self.grid).items() if name not in replaced}

    def _question_settings(self) -> dict[str, Any]:
        tables = (self.limit, self.experiment)
        verbs = (_LIMIT_SETTINGS, _EXPERIMENT_SETTINGS)
        own = {n: v for table, verb in zip(tables, verbs) for n, v in table.items() if n not in verb}
        return {**self.settings, **own}

    def _for(
        self, names: Sequence[str], table: Mapping[str, Any], overrides: Mapping[str, Any]
    ) -> dict[str, Any]:
        chosen = {name: table[name] for name in names if name in table}
        question = self._question_settings() if overrides.get("what", self.what) == self.what else {}
        rest = {name: value for name, value in overrides.items() if name != "what"}
        return {**question, **chosen, **rest}

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a study from a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path} is not a text file in UTF-8.") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from None
        return cls.from_toml(text, str(path))

    @classmethod
    def from_toml(cls, text: str, source: str = "The text") -> Study:
        """Read a study from TOML text; `source` is named where it is broken."""
        content = read_toml(text, source)
        _known_keys("", content, ["what", *_SECTIONS])
        for name in _SECTIONS:
            if not isinstance(content.get(name, {}), dict):
                raise InputError(f"`{name}` must be a table, but is {name}={content[name]!r}.")
        if "scenario" not in content:
            raise InputError(f"{source} has no table [scenario]; it says what is studied.")
        tables = {
            name: _expanded(_dotted_tables(content.get(name, {}), name == "grid")) for name in _SECTIONS[1:]
        }
        return cls(from_content(content["scenario"]), content.get("what"), **tables)

    def write(self, path: str | Path) -> None:
        """Write the study to a TOML file."""
        from giantstep.files import write_text

        write_text(path, self.to_toml())

    def to_toml(self, *, comments: bool = False) -> str:
        """Return the study as TOML text, with the meaning of each field behind it where `comments` is set."""
        content = self.scenario.content()
        for name, value, _ in walk_fields(self.scenario):
            if getattr(value, "expression", "") is None:
                raise InputError(
                    f"Field `{name}` is a Python callable ({value.name!r}) and cannot be written to a file."
                )
        tables: dict[str, Any] = {} if self.what is None else {"what": self.what}
        tables["scenario"] = _with_infinity(content)
        for name in _SECTIONS[1:]:
            table = getattr(self, name)
            if table:
                tables[name] = {key: _for_file(key, value) for key, value in dotted(table).items()}
        said = {f"scenario.{leaf}": info.description or "" for leaf, _, info in walk_fields(self.scenario)}
        return write_toml(tables, said if comments else None)


_TABLES: tuple[Engine, Engine] = ("limit", "experiment")
_SECTIONS = ("scenario", "grid", "settings", "limit", "experiment")


def _known_keys(table: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in content:
        if name not in known:
            where = f"the table [{table}]" if table else "a study"
            raise InputError(
                f"There is no `{name}` in {where}{_nearest(name, known)}; it may have {', '.join(known)}."
            )


def _dotted_tables(table: Mapping[str, Any], nested: bool, prefix: str = "") -> dict[str, Any]:
    """Write ``step.rate = [1, 2]``, which TOML reads as a table in a table, as one dotted name."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if nested and isinstance(value, Mapping) and not _RANGE & set(value):
            flat.update(_dotted_tables(value, nested, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


_RANGE = {"start", "stop", "num"}


def _expanded(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _range(name, value) if isinstance(value, Mapping) else value for name, value in table.items()
    }


def _range(name: str, table: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the numbers of ``{ start = 0.3, stop = 5.0, num = 40, scale = "log" }``."""
    _known_keys(name, table, ["start", "stop", "num", "scale"])
    missing = sorted(_RANGE - set(table))
    if missing:
        raise InputError(
            f"The range of `{name}` has no `{missing[0]}`; write {{ start = 0.3, stop = 5.0, num = 40 }}."
        )
    finite = "a finite number"
    start, stop = (_number(f"{name}.{end}", table[end], finite, math.isfinite) for end in ("start", "stop"))
    num = int(
        _number(
            f"{name}.num",
            table["num"],
            "a whole number from 1 to 10,000,000",
            lambda n: 1 <= n <= 1e7,
            whole=True,
        )
    )
    scale = table.get("scale", "linear")
    if scale not in ("linear", "log"):
        raise bad_field(f"{name}.scale", scale, '"linear" or "log"')
    if scale == "linear":
        return np.linspace(start, stop, num)
    for end, value in (("start", start), ("stop", stop)):
        if value <= 0:
            raise bad_field(f"{name}.{end}", value, "above 0 on a log scale")
    return np.geomspace(start, stop, num)


def _for_file(name: str, value: Any) -> Any:
    """Return a value of the grid or of the settings as a file holds it; evenly spaced numbers as a range."""
    if hasattr(value, "dims"):
        raise InputError(f"Field `{name}` varies over a DataArray, which cannot be written to a file.")
    entries = value if isinstance(value, list | tuple) else [value]
    if any(callable(entry) and getattr(entry, "expression", None) is None for entry in entries):
        raise InputError(f"Field `{name}` has a Python callable, which cannot be written to a file.")
    if isinstance(value, list | tuple):
        return [getattr(entry, "expression", entry) for entry in value]
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "f" and value.size > 3:
        start, stop, num = float(value[0]), float(value[-1]), value.size
        if np.array_equal(value, np.linspace(start, stop, num)):
            return {"start": start, "stop": stop, "num": num}
        if min(start, stop) > 0 and np.array_equal(value, np.geomspace(start, stop, num)):
            return {"start": start, "stop": stop, "num": num, "scale": "log"}
    return getattr(value, "expression", value)


def _with_infinity(content: Any) -> Any:
    """Return JSON data as TOML holds it: infinity has a word of its own there; what is None is left out."""
    if isinstance(content, dict):
        return {name: _with_infinity(value) for name, value in content.items() if value is not None}
    return float(content) if content in ("inf", "-inf") else content
