"""`optimize`: the fields at which an observable of the limit is best, at every point of a grid in lockstep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.checks import check_whole
from giantstep.design.constraints import free_ranges, read_constraints, searches
from giantstep.design.limits import Limits, request_limit
from giantstep.design.observable import Observable, read_observable
from giantstep.design.problem import Candidates, Problem
from giantstep.design.ranges import Over, Range, label, read_over
from giantstep.errors import InputError
from giantstep.grid import content_of
from giantstep.partlists import given_as
from giantstep.problems import warn
from giantstep.progress import ProgressOption
from giantstep.request import Request
from giantstep.scenario import Scenario, bounds_of, dotted_names, numbers_meant
from giantstep.types import Array, Booleans, Floats, Indices

if TYPE_CHECKING:
    from giantstep.design.tables import DesignResult

_CLOSE = 0.01
"""Relative difference of two minima that is reported."""
_APART = 0.05
"""Distance, in log(field) or quarters of the range, from which two minima are different ones."""


def optimize(
    scenario: Scenario,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    over: Mapping[str, Any],
    minimise: str | None = None,
    maximise: str | None = None,
    budget: str | Sequence[str] | None = None,
    starts: int | None = None,
    progress: ProgressOption = None,
    **fields: Any,
) -> DesignResult:
    """Return the fields at which an observable of the limit is best, at every point of a grid.

    A grid of starting points is solved in one batch, its best local minima are refined by quadratic models in lockstep
    for all points of the grid: the observable is known to about 1e-10, a field to about 1e-5, relative.

    Parameters
    ----------
    scenario, grid, **fields : as in `predict` (also ``what``, ``theory``, ``dim``, ``tolerance``, ``seed``).
    over : field -> range ``(low, high)``, searched on a logarithmic scale where low > 0 (``(low, high, "linear")``
        is not), or list of choices, for any field. At most four numeric fields are free.
    minimise, maximise : a variable of the question, ``"test_error"`` if left out (along time its last);
        ``"test_error[time=2]"`` is an entry, ``"test_error[time=last]"`` the last.
    budget : constraints between numeric fields, ``"step.batch_per_dim + samples_per_dim = 4"``: one or several, with =,
        <= or >=. An equality with at most one field of `over` frees the others that it names, between a thousandth
        and a thousand times their present value.
    starts : starting points along each field; chosen by the number of free fields (17, 7, 5, 4) if left out. A search
        asks the limit about two to five times as often as there are starting points, for each choice and each point of
        the grid: milliseconds each for most families, seconds for a `BayesLimit` of several directions.
    progress : True, False or a callable(done, total, text); a bar on a terminal if left out.

    Returns
    -------
    xarray.Dataset
        Along the grid: the observable, the fields of `over`, ``worse_at_half`` and ``worse_at_twice`` (by how many
        percent it gets worse with half or twice of a field, the others held), ``minima`` (local minima that differ),
        the second best one (``rival_*``), ``failed_share`` of the points that were not solved, ``status`` and
        ``remark``. Printing it gives a table.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    >>> best = gs.optimize(s, over={"ridge": (1e-4, 1e2)}, minimise="test_mse", noise=[0.1, 0.3])
    >>> best.ridge.values.round(4).tolist()  # noise/teacher_norm, as Bayes has it
    [0.1, 0.3]
    """
    if minimise is not None and maximise is not None:
        raise InputError("Give either `minimise` or `maximise`, not both.")
    argument, wanted = ("maximise", maximise) if maximise is not None else ("minimise", minimise)
    request = request_limit(scenario, grid, fields, ("over", "minimise", "maximise", "budget", "starts"))
    observable = read_observable(argument, wanted, request.question)
    searched = read_over("over", over, request.grid.scenario)
    _refuse_twice(searched, {**(grid or {}), **fields}, request)
    starts = None if starts is None else check_whole("starts", starts, "a whole number from 3 to 1000", 3, 1000)
    sign = 1.0 if argument == "minimise" else -1.0
    problems = []
    for choice in searched.combinations():
        own = request_limit(scenario.replace(choice), grid, fields) if choice else request
        problems.append(make_problem(own, observable, searched.ranges, budget, sign=sign, starts=starts, choice=choice))
    everywhere = np.arange(request.grid.size)
    with problems[0].limits.watched("optimize", sum(p.points(everywhere) for p in problems), progress) as bar:
        for problem in problems:
            problem.limits.bar = bar
        best = find_best(problems, everywhere)
        _check_feasible(problems, budget, searched)
        result = _Report(request, observable, searched, problems, best).dataset(argument, budget)
    warn(*(problem.limits.problems() for problem in problems))
    return result


def _check_feasible(problems: Sequence[Problem], budget: str | Sequence[str] | None, searched: Over) -> None:
    """Refuse constraints that no point of the ranges fulfils."""
    if not any(problem.feasible.any() for problem in problems):
        texts = ", ".join(repr(text) for text in ([budget] if isinstance(budget, str) else budget or ()))
        raise InputError(f"No point of the ranges fulfils the constraints {texts} ({searched}).")


def make_problem(
    request: Request,
    observable: Observable,
    ranges: Mapping[str, Range],
    budget: str | Sequence[str] | None = None,
    *,
    sign: float = 1.0,
    starts: int | None = None,
    choice: Mapping[str, Any] | None = None,
) -> Problem:
    """Return the search of an observable over ranges under constraints."""
    scenario = request.grid.scenario
    relations = read_constraints(budget, scenario)
    varying = list(request.grid.coords)
    wider = free_ranges(ranges, relations, scenario, varying)
    return Problem(dict(choice or {}), Limits(request, observable), searches(wider, relations), sign, starts)


def _refuse_twice(over: Over, given: Mapping[str, Any], request: Request) -> None:
    for name in (*over.ranges, *over.choices):
        if given_as(request.grid.scenario, name, dotted_names(given), request.grid.coords):
            raise InputError(f"Field `{name}` is searched over and given a value, too.")


@dataclass
class Best:
    """The best candidate of each of R rows, and the second best that is another minimum.

    Attributes
    ----------
    value, rival_value : (R,) the turned observable; NaN where there is none.
    columns, rival_columns : numeric field -> (R,).
    problem, rival_problem : (R,) number of the combination of choices; -1 where there is none.
    origin : (R,) number of the search of that problem.
    settled : (R,) whether that search ended by itself.
    minima : (R,) how many different local minima were seen.
    """

    value: Floats
    columns: dict[str, Floats]
    problem: Indices
    origin: Indices
    rival_value: Floats
    rival_columns: dict[str, Floats]
    rival_problem: Indices
    minima: Indices
    settled: Booleans

    @classmethod
    def of_nothing(cls, size: int, names: Sequence[str]) -> Best:
        """Return the table before anything is known."""

        def numbers() -> Floats:
            return np.full(size, np.nan)

        def counts(value: int) -> Indices:
            return np.full(size, value, dtype=np.intp)

        columns, rivals = ({name: numbers() for name in names} for _ in range(2))
        return cls(numbers(), columns, counts(-1), counts(-1), numbers(), rivals, counts(-1), counts(0), counts(1) > 0)


def find_best(problems: Sequence[Problem], rows: Indices) -> Best:
    """Solve all problems at some rows and return the best of each row; the others stay empty."""
    pools = [problem.solve(rows) for problem in problems]
    spans = {name: span for problem in problems for search in problem.searches for name, span in search.ranges.items()}
    best = Best.of_nothing(problems[0].limits.size, list(spans))
    for row in rows:
        found = sorted(
            (float(pool.value[place]), number, int(place))
            for number, pool in enumerate(pools)
            for place in np.flatnonzero((pool.row == row) & np.isfinite(pool.value))
        )
        distinct: list[tuple[float, int, int]] = []
        for candidate in found:
            if all(_differ(candidate, other, pools, spans) for other in distinct):
                distinct.append(candidate)
        best.minima[row] = len(distinct)
        if distinct:
            best.value[row], best.problem[row], place = distinct[0]
            best.origin[row] = pools[best.problem[row]].origin[place]
            best.settled[row] = pools[best.problem[row]].settled[place]
            for name, column in pools[best.problem[row]].columns.items():
                best.columns[name][row] = column[place]
        if len(distinct) > 1:
            best.rival_value[row], best.rival_problem[row], place = distinct[1]
            for name, column in pools[best.rival_problem[row]].columns.items():
                best.rival_columns[name][row] = column[place]
    return best


def _differ(
    one: tuple[float, int, int], other: tuple[float, int, int], pools: Sequence[Candidates], spans: Mapping[str, Range]
) -> bool:
    if one[1] != other[1]:
        return True
    columns = pools[one[1]].columns
    return any(
        abs(np.subtract(*spans[name].coordinate(column[[one[2], other[2]]]))) > _APART
        for name, column in columns.items()
    )


@dataclass
class _Report:
    """Makes the Dataset of an optimum."""

    request: Request
    observable: Observable
    over: Over
    problems: Sequence[Problem]
    best: Best

    def dataset(self, argument: str, budget: str | Sequence[str] | None) -> DesignResult:
        """Return the result."""
        from giantstep.design.tables import DesignResult
        from giantstep.result import about_field, provenance

        grid, best, name = self.request.grid, self.best, self.observable.name
        sign, scenario = self.problems[0].sign, grid.scenario
        variable = self.observable.variable
        about = {"long_name": variable.meaning, "symbol": variable.symbol}
        columns: dict[str, tuple[Array, dict[str, str]]] = {name: (sign * best.value, about)}
        rivals = {f"rival_{name}": (sign * best.rival_value, {"long_name": f"{name} at the second best minimum"})}
        for field_name, values in self._choices(best.problem).items():
            columns[field_name] = (values, about_field(scenario, field_name))
        for field_name, values in best.columns.items():
            columns[field_name] = (values, about_field(scenario, field_name))
            long_name = f"{field_name} at the second best minimum"
            rivals[f"rival_{field_name}"] = (best.rival_columns[field_name], {"long_name": long_name})
        for field_name, values in self._choices(best.rival_problem).items():
            rivals[f"rival_{field_name}"] = (values, {"long_name": f"{field_name} at the second best minimum"})
        shown = [*columns, *(["worse_at_half", "worse_at_twice"] if best.columns else [])]
        columns.update(rivals)
        columns["minima"] = (best.minima, {"long_name": "local minima that differ"})
        columns.update(self._diagnostics())
        data = {key: (grid.dims, values.reshape(grid.shape), attrs) for key, (values, attrs) in columns.items()}
        coords = {key: (dims, values, about_field(scenario, key)) for key, (dims, values) in grid.coords.items()}
        result = DesignResult(data, coords)
        for word, factor in (("half", 0.5), ("twice", 2.0)) if best.columns else ():
            worse = 100 * np.stack([self._worse(field_name, factor) for field_name in best.columns], axis=-1)
            long_name = f"percent by which it is worse with {word} of the field"
            dims = (*grid.dims, "field")
            result[f"worse_at_{word}"] = (dims, worse.reshape(*grid.shape, -1), {"long_name": long_name})
        if best.columns:
            result = result.assign_coords(field=list(best.columns))
        texts = [budget] if isinstance(budget, str) else list(budget or ())
        asked = {argument: self.observable.text, "over": str(self.over), "budget": "; ".join(texts)}
        settings = {**self.request.shown(), **asked, "tolerance": self.request.tolerance}
        adjective = "Smallest" if argument == "minimise" else "Largest"
        under = f", {' and '.join(texts)}" if texts else ""
        headline = f"{adjective} {self.observable.text} of {scenario.title.lower()}: {self.over}{under}"
        theories = dict.fromkeys(problem.limits.theory for problem in self.problems)
        facts = {"theory": "; ".join(theories), "observable": self.observable.text}
        extra = {"headline": headline, "shown": shown, "grid": {**grid.varying(), **self._searched()}, **facts}
        return result.assign_attrs(provenance(grid, self.request.what, "optimum", settings, extra))

    def _searched(self) -> dict[str, dict[str, Any] | None]:
        """Return the fields that were found, as `Grid.varying` does: the scenario of a point has its best ones."""
        found: dict[str, dict[str, Any] | None] = dict.fromkeys([*self.over.choices, *self.best.columns])
        for problem in self.problems:
            chosen = self.request.grid.scenario.replace(problem.choice)
            for name, value in problem.choice.items():
                if not _are_numbers(self.over.choices[name]):
                    found[name] = {**(found[name] or {}), label(value): content_of(chosen, name)}
        return found

    def _choices(self, problem: Indices) -> dict[str, Array]:
        """Return the choices made at every row, as text (numbers where all are)."""
        columns = {}
        for name, values in self.over.choices.items():
            numeric = _are_numbers(values)
            entries: list[Any] = [np.nan if numeric else ""] * len(problem)
            for row in np.flatnonzero(problem >= 0):
                value = self.problems[problem[row]].choice[name]
                entries[row] = value if numeric else label(value)
            columns[name] = np.array(entries, dtype=float if numeric else str)
        return columns

    def _worse(self, name: str, factor: float) -> Floats:
        """Return by which fraction the observable gets worse where a field is multiplied, the others held."""
        best = self.best
        worse = np.full(len(best.value), np.nan)
        kinds = {(int(p), int(o)) for p, o in zip(best.problem, best.origin) if p >= 0}
        for number, origin in kinds:
            problem = self.problems[number]
            search = problem.searches[origin].moved(name)
            rows = np.flatnonzero((best.problem == number) & (best.origin == origin) & (best.columns[name] > 0))
            rows = rows[_in_bounds(problem, name, factor * best.columns[name][rows])]
            if search is None or not len(rows):
                continue
            fields = {span.name: best.columns[span.name][rows] for span in search.free}
            fields[name] = factor * fields[name]
            values = problem.at(search, fields, rows)[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                worse[rows] = (values - best.value[rows]) / np.abs(best.value[rows])
        return worse

    def _diagnostics(self) -> dict[str, tuple[Array, dict[str, str]]]:
        asked = np.sum([problem.limits.asked for problem in self.problems], axis=0)
        failed = np.sum([problem.limits.failed for problem in self.problems], axis=0)
        share = failed / np.maximum(asked, 1)
        solved = self.best.problem >= 0
        status = np.array([self._status(row) if not solved[row] else "" for row in range(len(solved))], dtype=str)
        remark = np.array([self._remark(row) if solved[row] else "" for row in range(len(solved))], dtype=str)
        return {
            "failed_share": (share, {"long_name": "share of the points tried that were not solved"}),
            "evaluations": (asked, {"long_name": "points of the limit that were tried"}),
            "converged": (solved, {"long_name": "whether an optimum was found"}),
            "status": (status, {"long_name": "why not, where none was"}),
            "remark": (remark, {"long_name": "what is worth knowing about the optimum"}),
        }

    def _status(self, row: int) -> str:
        if not any(problem.feasible[row] for problem in self.problems):
            return "no point of the ranges fulfils the constraints"
        return self._failure(row)

    def _failure(self, row: int) -> str:
        return next(p.limits.failure(row) for p in self.problems if p.limits.failed[row])

    def _remark(self, row: int) -> str:
        best, said = self.best, []
        problem = self.problems[best.problem[row]]
        spans = problem.searches[best.origin[row]].ranges
        for name, span in spans.items():
            place = float(span.coordinate(best.columns[name][row]))
            for end, word in zip(span.ends, ("lower", "upper")):
                if abs(place - end) < 1e-4:
                    said.append(f"{name} is at the {word} end of its range")
        if not best.settled[row]:
            said.append("the search was stopped before it settled; a larger `starts` may find a better point")
        gap = best.rival_value[row] - best.value[row]
        if gap <= _CLOSE * abs(best.value[row]):
            where = [f"{name} = {column[row]:.4g}" for name, column in best.rival_columns.items()]
            where += [f"{name} = {values[row]}" for name, values in self._choices(best.rival_problem).items()]
            value = problem.sign * best.rival_value[row]
            said.append(f"another optimum is within 1%: {value:.6g} at {', '.join(where)}")
        if any(p.limits.failed[row] for p in self.problems):
            said.append(f"{self._failure(row)}; the optimum is taken from the others")
        return "; ".join(said)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _in_bounds(problem: Problem, name: str, values: Floats) -> Array:
    good = np.isfinite(values)
    for _, info in numbers_meant(problem.limits.request.grid.scenario, name).values():
        for bound, limit in bounds_of(info):
            good &= bound.holds(values, limit)
    return good
