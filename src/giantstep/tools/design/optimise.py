"""`optimize`, `best_ridge`: where an observable of the limit is best, at every point of
a grid in lockstep.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import minimum_filter  # type: ignore[attr-defined]

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.progress import ProgressOption
from giantstep.core.base.types import Array, Booleans, Floats, Indices
from giantstep.core.result.table import about_field
from giantstep.core.run.problems import warn
from giantstep.core.run.reach import LARGE, REACHABLE, Jump, neglected_of
from giantstep.core.run.request import Request
from giantstep.core.scenario.checks import check_number, check_whole
from giantstep.core.scenario.fields import within_bounds
from giantstep.core.scenario.grid import content_of
from giantstep.core.scenario.lists import names_meant
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import numbers_meant
from giantstep.tools.design.constraints import (
    MOST_FIELDS,
    Choices,
    Range,
    Search,
    combinations,
    free_ranges,
    label,
    read_constraints,
    read_over,
    searches,
)
from giantstep.tools.design.limits import (
    ObservedLimit,
    read_observable,
    refuse_given,
    request_limit,
)
from giantstep.tools.design.measured import CHECKED_DIM, Checks, Place, check_places
from giantstep.tools.design.minimum import minimise_each
from giantstep.tools.design.tables import DesignResult, design_result

_CLOSE = 0.01
"""Relative difference of two minima that is reported."""
_APART = 0.05
"""Distance, in log(field) or quarters of the range, from which two minima are different
ones.
"""


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
    check: int | None = None,
    progress: ProgressOption = None,
    **fields: Any,
) -> DesignResult:
    """Return the fields at which an observable of the limit is best, at every point of
    a grid.

    Where the best value of a field is one near which the bare limit jumps (a rate
    towards 0), the optimum is that at d = 1000, and that of the limit stands beside it
    (``limit_*``); with ``dim`` it is that at `dim` alone.

    A grid of starting points is solved in one batch, its best local minima are refined
    by quadratic models in lockstep for all points of the grid: the observable is known
    to about 1e-10, a field to about 1e-5, relative.

    Parameters
    ----------
    scenario, grid, **fields : as in `predict` (also ``what``, ``theory``, ``dim``,
        ``tolerance``, ``seed``).
    over : field -> range ``(low, high)``, searched on a logarithmic scale where low > 0
        (``(low, high, "linear")`` is not), or list of choices, for any field. At most
        four numeric fields are free.
    minimise, maximise : a variable of the question, ``"test_error"`` if left out (along
        time its last); ``"test_error[time=2]"`` is an entry,
        ``"test_error[time=last]"`` the last.
    budget : constraints between numeric fields,
        ``"step.batch_per_dim + samples_per_dim = 4"``: one or several, with =, <= or
        >=. An equality with at most one field of `over` frees the others that it names,
        between a thousandth and a thousand times their present value.
    starts : starting points along each field; chosen by the number of free fields (17,
        7, 5, 4) if left out. A search asks the limit about two to five times as often
        as there are starting points, for each choice and each point of the grid:
        milliseconds each for most families, seconds for a `BayesLimit` of several
        directions.
    check : run so many real networks (experiments) at the optimum, and with half and
        twice of every field, on the same draws; at `dim`, or at d = 200, for which the
        optimum is then the best, too.
    progress : True, False or a callable(done, total, text); a line on a terminal if
        left out.

    Returns
    -------
    xarray.Dataset
        Along the grid: the observable, the fields of `over`, ``worse_at_half`` and
        ``worse_at_twice`` (by how many percent it gets worse with half or twice of a
        field, the others held), ``minima`` (local minima that differ), the second best
        one (``rival_*``), ``failed_share`` of the points that were not solved,
        ``neglected`` (what the theory at `dim` leaves out, relative), ``status`` and
        ``remark``. With `check` also the measured observable,
        ``measured_worse_at_half`` and ``..._twice``, all with standard errors, the
        ``verdict`` ("stands", "theory is 3% off there", "cannot tell") and its
        sentence, ``checked``. Printing it gives a table.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    >>> best = gs.optimize(
    ...     s, over={"ridge": (1e-4, 1e2)}, minimise="test_mse", noise=[0.1, 0.3]
    ... )
    >>> best.ridge.values.round(4).tolist()  # noise/teacher_norm, as Bayes has it
    [0.1, 0.3]
    """
    if minimise is not None and maximise is not None:
        raise InputError("Give either `minimise` or `maximise`, not both.")
    if maximise is not None:
        argument = "maximise"
        wanted: str | None = maximise
    else:
        argument = "minimise"
        wanted = minimise
    if starts is None:
        starts = None
    else:
        starts = check_whole("starts", starts, "a whole number from 3 to 1000", 3, 1000)
    if check is None:
        check = None
    else:
        check = check_whole("check", check, "a whole number at least 2", 2)
    if isinstance(budget, str):
        constraints: tuple[str, ...] = (budget,)
    else:
        constraints = tuple(budget or ())
    asked = Asked(
        scenario, grid, fields, over, argument, wanted, constraints, starts, progress
    )
    request = asked.request()
    read_observable(argument, wanted, request.question)
    ranges, choices = read_over(over, request.grid.scenario)
    refuse_given(
        (*ranges, *choices), "searched over", request, {**(grid or {}), **fields}
    )
    if check is not None and _is_bare(request):
        asked = replace(asked, fields={**fields, "dim": CHECKED_DIM})
    found = solve(asked)
    beside = None
    jumps = _jumps(found)
    if any(jump.field in found.leaves for jump in jumps.values()):
        at_dim = _at_finite_dim(asked)
        if at_dim is not None:
            found, beside = at_dim, found
    checks = None if check is None else _checks(found, check)
    result = _dataset(found, beside, jumps, checks)
    warn(*(problem.limits.problems() for problem in found.problems))
    return result


@dataclass(frozen=True)
class Asked:
    """What `optimize` was asked: the arguments of `predict`, what is searched over,
    what is made small or large.
    """

    scenario: Scenario
    grid: Mapping[str, Any] | None
    fields: Mapping[str, Any]
    over: Mapping[str, Any]
    argument: str  # minimise or maximise
    wanted: str | None
    constraints: tuple[str, ...]
    starts: int | None
    progress: ProgressOption

    def request(self, choice: Mapping[str, Any] | None = None) -> Request:
        """Return what `predict` would be asked, with one choice of each field that has
        some.
        """
        if choice:
            own_keywords: tuple[str, ...] = ()
        else:
            own_keywords = ("over", "minimise", "maximise", "budget", "starts", "check")
        scenario = self.scenario.replace(choice) if choice else self.scenario
        return request_limit(scenario, self.grid, self.fields, own_keywords)

    @property
    def sign(self) -> float:
        """1 where small is good, -1 where large is."""
        return 1.0 if self.argument == "minimise" else -1.0


@dataclass(frozen=True, eq=False)
class Found:
    """The optima at every row of a grid: the different minima of each, the best
    first.
    """

    asked: Asked
    request: Request
    choices: Choices
    searched: str
    problems: Sequence[SearchProblem]
    spans: Mapping[str, Range]
    best: list[list[Candidate]]

    @property
    def names(self) -> list[str]:
        """The numeric fields."""
        return list(self.spans)

    @property
    def leaves(self) -> set[str]:
        """The numeric fields, entries of lists one by one."""
        scenario = self.request.grid.scenario
        return {
            leaf for name in self.spans for leaf in (name, *names_meant(scenario, name))
        }

    def dim_at(self, row: int) -> int | None:
        """Return the dimension of a row; None where the scenario says it itself."""
        if self.request.grid.dim_is_field:
            return None
        _, points = self.problems[0].limits.point_at(row, {})
        dim = float(points["dim"][0])
        if not np.isfinite(dim):
            raise bad_field("dim", dim, "finite where `check` runs networks")
        return int(dim)

    def firsts(self) -> Iterator[tuple[int, Candidate]]:
        """Yield the rows that have an optimum, with it."""
        for row, found in enumerate(self.best):
            if found:
                yield row, found[0]


def solve(asked: Asked) -> Found:
    """Search for the optimum at every row of the grid."""
    request = asked.request()
    observable = read_observable(asked.argument, asked.wanted, request.question)
    ranges_asked, choices = read_over(asked.over, request.grid.scenario)
    problems = []
    lists = [
        f"{name} of {', '.join(map(label, values))}" for name, values in choices.items()
    ]
    searched = ", ".join([*map(str, ranges_asked.values()), *lists])
    for choice in combinations(choices):
        own = asked.request(choice) if choice else request
        relations = read_constraints(asked.constraints, own.grid.scenario)
        ranges = free_ranges(
            ranges_asked, relations, own.grid.scenario, list(own.grid.coords)
        )
        limits = ObservedLimit(own, observable)
        problems.append(
            SearchProblem(
                choice, limits, searches(ranges, relations), asked.sign, asked.starts
            )
        )
    spans = {
        name: span
        for problem in problems
        for search in problem.searches
        for name, span in search.ranges.items()
    }
    size = request.grid.size
    points = sum(problem.points(size) for problem in problems)
    with problems[0].limits.watched("optimize", points, asked.progress) as bar:
        for problem in problems:
            problem.limits.bar = bar
        best = _best_of(problems, spans, size)
        if not any(problem.feasible.any() for problem in problems):
            texts = ", ".join(map(repr, asked.constraints))
            raise InputError(
                f"No point of the ranges fulfils the constraints {texts} ({searched})."
            )
    return Found(asked, request, choices, searched, problems, spans, best)


# -- Where the bare limit jumps --------------------------------------------------------


def _is_bare(request: Request) -> bool:
    """Tell whether the limit is asked without a dimension, which the scenario does not
    have either.
    """
    return (
        np.isinf(request.grid.dim)
        and not request.grid.dim_is_field
        and "dim" not in request.grid.coords
    )


def _jumps(found: Found) -> dict[int, Jump]:
    """Return the jump that decides the bare limit at the optimum of a row, where there
    is one.
    """
    if not _is_bare(found.request):
        return {}
    jumps = {}
    for row, best in found.firsts():
        _, jump = best.problem.limits.answer_at(row, best.fields)
        if jump is not None:
            jumps[row] = jump
    return jumps


def _at_finite_dim(asked: Asked) -> Found | None:
    """Return the optima at a dimension that networks have; None where no theory is
    known there.
    """
    try:
        return solve(replace(asked, fields={**asked.fields, "dim": REACHABLE}))
    except InputError:
        return None


def _said_of_jump(beside: Found | None, row: int, jump: Jump) -> str:
    """Say that the optimum of the bare limit lies where it jumps, and what is shown
    instead of it.
    """
    if beside is None:
        return f"{jump.sentence}: give dim="
    best = beside.best[row][0]
    value = beside.asked.sign * best.value
    where = ", ".join(f"{name} = {number:.4g}" for name, number in best.fields.items())
    return (
        f"{jump.sentence}: give dim=; this is the optimum at d = {REACHABLE}, in the"
        f" limit alone it would be {value:.6g} at {where}"
    )


def _best_of(
    problems: Sequence[SearchProblem], spans: Mapping[str, Range], size: int
) -> list[list[Candidate]]:
    """Solve all problems and return the local minima of each row that differ, the best
    first.
    """

    def differ(one: Candidate, other: Candidate) -> bool:
        if one.problem is not other.problem:
            return True
        for name, span in spans.items():
            here = span.coordinate(np.array(one.fields[name]))
            there = span.coordinate(np.array(other.fields[name]))
            if abs(here - there) > _APART:
                return True
        return False

    pools = [problem.solve(np.arange(size)) for problem in problems]
    best: list[list[Candidate]] = []
    for row in range(size):
        best.append([])
        found = [
            candidate
            for pool in pools
            for candidate in pool[row]
            if np.isfinite(candidate.value)
        ]
        for candidate in sorted(found, key=lambda candidate: candidate.value):
            if all(differ(candidate, other) for other in best[row]):
                best[row].append(candidate)
    return best


def _dataset(
    found: Found, beside: Found | None, jumps: Mapping[int, Jump], checks: Checks | None
) -> DesignResult:
    """Return the result; `beside` has the optima of the bare limit where those of a
    finite dimension are shown.
    """
    grid = found.request.grid
    problems = found.problems
    best = found.best
    names = found.names
    limits = [problem.limits for problem in problems]
    observed = limits[0].observable
    about = {"long_name": observed.variable.meaning, "symbol": observed.variable.symbol}
    columns: dict[str, Any] = {
        name: (
            (),
            values,
            about if name == observed.name else about_field(grid.scenario, name),
        )
        for name, values in _columns(problems, best, found.choices, names, 0).items()
    }
    worse = {}
    if names:
        worse = {"worse_at_half": 0.5, "worse_at_twice": 2.0}
    shown = [*columns, *worse]
    for name, values in _columns(problems, best, found.choices, names, 1).items():
        columns[f"rival_{name}"] = ((), values, f"{name} at the second best minimum")
    if beside is not None:
        for name, values in _columns(
            beside.problems, beside.best, found.choices, names, 0
        ).items():
            columns[f"limit_{name}"] = (
                (),
                values,
                f"{name} at the optimum of the limit without a dimension",
            )
    columns["minima"] = (
        (),
        np.array([len(minima) for minima in best]),
        "local minima that differ",
    )
    asked = np.sum([limit.asked for limit in limits], axis=0)
    failed = np.sum([limit.failed for limit in limits], axis=0)
    neglected = _neglected(found)
    said = [
        _said(found, row, neglected.get(row), jumps.get(row), beside)
        for row in range(len(best))
    ]
    status, remark = (np.array(texts, dtype=str) for texts in zip(*said))
    sizes = np.array([neglected.get(row, (np.nan, ""))[0] for row in range(len(best))])
    columns |= {
        "failed_share": (
            (),
            failed / np.maximum(asked, 1),
            "share of the points tried that were not solved",
        ),
        "evaluations": ((), asked, "points of the limit that were tried"),
        "neglected": (
            (),
            sizes,
            (
                "estimated size of what the theory at dim leaves out of the error,"
                " relative"
            ),
        ),
        "converged": (
            (),
            np.array([bool(minima) for minima in best]),
            "whether an optimum was found",
        ),
        "status": ((), status, "why not, where none was"),
        "remark": ((), remark, "what is worth knowing about the optimum"),
    }
    for word, factor in worse.items():
        values = 100 * np.stack([_worse(best, name, factor) for name in names], axis=-1)
        part = word.removeprefix("worse_at_")
        columns[word] = (
            ("field",),
            values,
            f"percent by which it is worse with {part} of the field",
        )
    if checks is not None:
        measured = checks.columns(observed.name, names)
        shown += [name for name in measured if name != "checked"]
        columns |= measured
    # the fields that were found, as `Grid.varying` has them: the scenario of a point
    # has its best ones
    varying: dict[str, Any] = dict.fromkeys([*found.choices, *names])
    for problem in problems:
        for name, value in problem.choice.items():
            if not _are_numbers(found.choices[name]):
                content = content_of(grid.scenario.replace(problem.choice), name)
                varying[name] = {**(varying[name] or {}), label(value): content}
    constraints = found.asked.constraints
    if found.asked.argument == "minimise":
        adjective = "Smallest"
    else:
        adjective = "Largest"
    under = f", {' and '.join(constraints)}" if constraints else ""
    if _is_bare(found.request) or not np.isfinite(grid.dim):
        at_dim = ""
    else:
        at_dim = f" at d = {grid.dim:.0f}"
    settings: dict[str, Any] = {
        found.asked.argument: observed.text,
        "over": found.searched,
        "budget": "; ".join(constraints),
    }
    if checks is not None:
        settings["check"] = checks.trials
    return design_result(
        found.request,
        limits,
        "optimum",
        columns,
        {"field": names} if names else {},
        settings,
        (f"{adjective} {observed.text} of ", f"{at_dim}: {found.searched}{under}"),
        shown=shown,
        grid={**grid.varying(), **varying},
    )


def _neglected(found: Found) -> dict[int, tuple[float, str]]:
    """Return what the theory leaves out at the optimum of a row, and what that is."""
    if _is_bare(found.request):
        return {}
    return {
        row: neglected_of(best.problem.limits.answer_at(row, best.fields)[0], 0)
        for row, best in found.firsts()
    }


def _checks(found: Found, trials: int) -> Checks:
    """Run networks at the optimum of every row, and with half and twice of each of its
    fields.
    """
    request = found.request
    checks = Checks(found.problems[0].limits.observable, found.asked.sign, trials)
    for row, best in found.firsts():
        limits = best.problem.limits
        dim = found.dim_at(row)
        value = found.asked.sign * best.value
        places = [Place("", 0.0, limits.scenario_at(row, best.fields), value)]
        for name in found.names:
            for factor in (0.5, 2.0):
                beside = _beside(best, row, name, factor)
                if beside is not None:
                    fields, worth = beside
                    theory = found.asked.sign * worth
                    places.append(
                        Place(name, factor, limits.scenario_at(row, fields), theory)
                    )
        checks.rows[row] = check_places(
            places, checks, request, dim, found.asked.progress
        )
    checks.size = len(found.best)
    return checks


def _beside(
    best: Candidate, row: int, name: str, factor: float
) -> tuple[dict[str, float], float] | None:
    """Return all fields with one of them multiplied, and the turned observable; None
    where that cannot be.
    """
    search = best.search.moved(name)
    meant = numbers_meant(best.problem.limits.request.grid.scenario, name).values()
    moved = np.array([factor * best.fields[name]])
    if (
        search is None
        or moved[0] <= 0
        or not all(within_bounds(info, moved).all() for _, info in meant)
    ):
        return None
    fields = {span.name: np.array([best.fields[span.name]]) for span in search.free} | {
        name: moved
    }
    columns, feasible = best.problem.complete(search, fields, np.array([row]))
    value = float(best.problem.at(search, fields, np.array([row]))[0])
    if not feasible.all() or not np.isfinite(value):
        return None
    return {one: float(columns[one][0]) for one in search.ranges}, value


def _columns(
    problems: Sequence[SearchProblem],
    best: list[list[Candidate]],
    choices: Choices,
    names: list[str],
    rank: int,
) -> dict[str, Array]:
    """Return the observable, the choices (numbers where all are, else text) and the
    fields at the best minima.
    """
    size = len(best)
    # row -> its minimum of this rank; rows with fewer minima have NaN or no text
    found = {row: minima[rank] for row, minima in enumerate(best) if len(minima) > rank}
    observable = problems[0].limits.observable.name
    columns: dict[str, Array] = {observable: np.full(size, np.nan)}
    for row, minimum in found.items():
        columns[observable][row] = problems[0].sign * minimum.value
    for name, values in choices.items():
        if _are_numbers(values):
            columns[name] = np.full(size, np.nan)
            for row, minimum in found.items():
                columns[name][row] = minimum.problem.choice[name]
        else:
            texts = [""] * size
            for row, minimum in found.items():
                value = minimum.problem.choice[name]
                if value is not None:
                    texts[row] = label(value)
            columns[name] = np.array(texts, dtype=str)
    for name in names:
        columns[name] = np.full(size, np.nan)
        for row, minimum in found.items():
            columns[name][row] = minimum.fields[name]
    return columns


def _worse(best: list[list[Candidate]], name: str, factor: float) -> Floats:
    """Return by which fraction the observable gets worse where a field is multiplied,
    the others held.
    """
    worse = np.full(len(best), np.nan)
    first = {row: found[0] for row, found in enumerate(best) if found}
    for problem, origin in {
        (candidate.problem, candidate.search) for candidate in first.values()
    }:
        search = origin.moved(name)
        rows = np.array(
            [
                row
                for row, c in first.items()
                if (c.problem, c.search) == (problem, origin)
            ]
        )
        at = np.array([first[row].fields[name] for row in rows])
        meant = numbers_meant(problem.limits.request.grid.scenario, name).values()
        rows = rows[
            (at > 0)
            & np.all([within_bounds(info, factor * at) for _, info in meant], axis=0)
        ]
        if search is None or not len(rows):
            continue
        fields = {
            n: np.array([first[row].fields[n] for row in rows])
            for n in {name, *(s.name for s in search.free)}
        }
        fields[name] *= factor
        value = np.array([first[row].value for row in rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            worse[rows] = (problem.at(search, fields, rows) - value) / np.abs(value)
    return worse


def _said(
    found: Found,
    row: int,
    neglected: tuple[float, str] | None,
    jump: Jump | None,
    beside: Found | None,
) -> tuple[str, str]:
    """Return why a row has no optimum, or what is worth knowing of the one it has."""
    problems = found.problems
    failure = next(
        (p.limits.failure(row) for p in problems if p.limits.failed[row]), ""
    )
    if not found.best[row]:
        feasible = any(problem.feasible[row] for problem in problems)
        return (
            failure if feasible else "no point of the ranges fulfils the constraints",
            "",
        )
    best, *rivals = found.best[row]
    said = [] if jump is None else [_said_of_jump(beside, row, jump)]
    for name, span in best.search.ranges.items():
        place = float(span.coordinate(np.array(best.fields[name])))
        ends = [
            word
            for end, word in zip(span.ends, ("lower", "upper"))
            if abs(place - end) < 1e-4
        ]
        if jump is not None and jump.field in (
            name,
            *names_meant(found.request.grid.scenario, name),
        ):
            ends = []  # nobody is sent nearer to a jump
        said += [f"{name} is at the {word} end of its range" for word in ends]
    if not best.settled:
        said.append(
            "the search was stopped before it settled; a larger `starts` may find a"
            " better point"
        )
    for rival in rivals[:1]:
        if rival.value - best.value <= _CLOSE * abs(best.value):
            where = [f"{name} = {value:.4g}" for name, value in rival.fields.items()]
            where += [
                f"{name} = {label(value)}"
                for name, value in rival.problem.choice.items()
            ]
            value = best.problem.sign * rival.value
            said.append(
                f"another optimum is within 1%: {value:.6g} at {', '.join(where)}"
            )
    if neglected is not None and neglected[0] > LARGE:
        size, words = neglected
        said.append(
            f"the theory at this dim leaves out about {100 * size:.2g}% there"
            f" ({words}), and as much of what is worse at half and twice; check=20 runs"
            " networks"
        )
    if failure:
        said.append(f"{failure}; the optimum is taken from the others")
    return "", "; ".join(said)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


class BestRidge(NamedTuple):
    """The best ridge and the value of the observable there."""

    ridge: float
    value: float


def best_ridge(
    scenario: Scenario,
    variable: str = "test_error",
    *,
    low: float = 1e-6,
    high: float = 1e6,
    **settings: Any,
) -> BestRidge | DesignResult:
    """Return the ridge between `low` and `high` at which an observable of the limit is
    smallest.

    A short cut for `optimize` over ``ridge``; at an end of the range that end is
    returned.

    Parameters
    ----------
    scenario : any scenario with a field ``ridge``.
    variable : a variable of its question, or one entry of it
        (``"test_error[time=2]"``).
    low, high : range of the ridge.
    **settings : as in `predict` (``what``, ``theory``, ...); fields may vary over a
        grid.

    Returns
    -------
    BestRidge or xarray.Dataset
        The pair ``(ridge, value)``; with a grid what `optimize` returns, a row for each
        of its points.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    >>> round(best_ridge(s, "test_mse").ridge, 4)  # noise/teacher_norm, as Bayes has it
    0.3
    >>> best_ridge(s, "test_mse", noise=[0.1, 0.3]).ridge.values.round(4).tolist()
    [0.1, 0.3]
    """
    if not isinstance(scenario, Scenario):
        raise InputError(
            f"The first argument must be a scenario, not a {type(scenario).__name__}."
        )
    if "ridge" not in scenario.numeric_fields():
        raise InputError(f"{type(scenario).__name__} has no field `ridge`.")
    low = check_number("low", low, "a number above 0", lambda value: 0 < value < np.inf)
    high = check_number(
        "high", high, f"a number above low={low:g}", lambda value: low < value < np.inf
    )
    try:
        best = optimize(
            scenario, over={"ridge": (low, high)}, minimise=variable, **settings
        )
    except InputError as error:
        raise (
            bad_field("variable", variable, error.allowed)
            if error.field == "minimise"
            else error
        ) from None
    if best["ridge"].ndim:
        return best
    if not bool(best["converged"]):
        raise InputError(
            f"`{variable}` was not solved at any ridge from {low:g} to {high:g}."
        )
    return BestRidge(
        float(best["ridge"]),
        float(best[str(best.attrs["observable"]).partition("[")[0]]),
    )


# -- The search for the best point of a limit: start grids, then local searches, all row


_STARTS = {0: 1, 1: 17, 2: 7, 3: 5, 4: 4}
"""Points of the start grid along each axis, by the number of free fields."""
_LOCAL = 3
"""Local minima of the start grid that are refined, at each point of the grid."""
_FEASIBLE_SCAN = 17
"""Points along each axis at which the constraints alone are tried, to find where they
leave room.
"""
_FEASIBLE_ROWS = 16
"""Rows at which they are tried."""


class Candidate(NamedTuple):
    """A local minimum at one row: the observable, turned so that small is good, and the
    numeric fields there.

    `problem` and `search` led there; `settled` says that the search ended by itself.
    """

    value: float
    problem: SearchProblem
    search: Search
    fields: dict[str, float]
    settled: bool


@dataclass(eq=False)
class SearchProblem:
    """One combination of choices: a limit, and the searches over its numeric fields.

    `sign` is 1 to minimise, -1 to maximise, `starts` the points of the start grid along
    each axis, `feasible` (rows,) whether some point tried fulfils the constraints. With
    `members` its rows are rows of the limit, fields held there.
    """

    choice: dict[str, Any]
    limits: ObservedLimit
    searches: list[Search]
    sign: float
    starts: int | None = None
    members: tuple[Indices, Mapping[str, Floats]] | None = None
    feasible: Booleans = field(init=False)

    def __post_init__(self) -> None:
        self.feasible = np.zeros(
            self.limits.size if self.members is None else len(self.members[0]),
            dtype=bool,
        )

    def at(self, search: Search, fields: Mapping[str, Floats], rows: Indices) -> Floats:
        """Return the turned observable, given the free fields; NaN where it has no
        value.
        """
        columns, feasible = self.complete(search, fields, rows)
        self.feasible[rows[feasible]] = True
        values = np.full(len(rows), np.nan)
        rows = rows[feasible]
        allowed = {name: columns[name][feasible] for name in search.ranges}
        if self.members is not None:
            allowed |= {name: column[rows] for name, column in self.members[1].items()}
            rows = self.members[0][rows]
        values[feasible] = self.sign * self.limits(rows, allowed)
        return values

    def complete(
        self, search: Search, fields: Mapping[str, Floats], rows: Indices
    ) -> tuple[dict[str, Floats], Booleans]:
        """Return all fields at some rows, given the free ones, and where the
        constraints are fulfilled.
        """
        named = dict.fromkeys(
            name for relation in search.relations for name in relation.names
        )
        constants = {
            name: self.limits.field(name, rows)
            for name in named
            if name not in search.ranges
        }
        return search.complete({**constants, **fields}, len(rows))

    def points(self, rows: int) -> int:
        """Return about how many points `solve` asks for: as many again after the start
        grid, to refine its minima.
        """
        free = [len(search.free) for search in self.searches]
        return 2 * rows * sum((self.starts or _STARTS.get(k, 1)) ** k for k in free)

    def solve(self, rows: Indices) -> dict[int, list[Candidate]]:
        """Return the local minima that all searches found at some rows.

        Each scans a grid of its free fields, and refines the best local minima of that.
        """
        found: dict[int, list[Candidate]] = {int(row): [] for row in rows}
        for search in self.searches:
            free = search.free
            if len(free) > MOST_FIELDS:
                raise InputError(
                    f"At most {MOST_FIELDS} free numeric fields are searched over, not"
                    f" {len(free)}."
                )
            count = self.starts or _STARTS[len(free)]
            low, high = self._room(search, rows)
            start = _product([np.linspace(*ends, count) for ends in zip(low, high)])
            everywhere = _fields(search, np.tile(start, (len(rows), 1)))
            values = self.at(search, everywhere, np.repeat(rows, len(start))).reshape(
                len(rows), len(start)
            )
            # the lowest local minima of the grid of every row, NaN never among them
            grids = np.where(np.isnan(values), np.inf, values).reshape(
                len(rows), *(count,) * len(free)
            )
            around = minimum_filter(
                grids, size=(1, *[3] * len(free)), mode="constant", cval=np.inf
            )
            ranked = np.where(grids == around, grids, np.inf).reshape(values.shape)
            order = np.argsort(ranked, axis=1, kind="stable")[:, :_LOCAL]
            owner, rank = np.nonzero(
                np.isfinite(np.take_along_axis(ranked, order, axis=1))
            )
            place = order[owner, rank]
            x = start[place]
            best = values[owner, place]
            settled = np.ones(len(owner), dtype=bool)
            if free:
                turned = partial(self._turned, search, rows[owner])
                x, best, settled = minimise_each(
                    turned, x, (high - low) / max(count - 1, 1), low, high
                )
            columns, _ = self.complete(search, _fields(search, x), rows[owner])
            for index, row in enumerate(rows[owner].tolist()):
                fields = {name: float(columns[name][index]) for name in search.ranges}
                found[row].append(
                    Candidate(
                        float(best[index]), self, search, fields, bool(settled[index])
                    )
                )
        return found

    def _turned(
        self, search: Search, rows: Indices, x: Floats, index: Indices
    ) -> Floats:
        return self.at(search, _fields(search, x), rows[index])

    def _room(self, search: Search, rows: Indices) -> tuple[Floats, Floats]:
        """Return the box of the free coordinates in which constraints leave room, a
        scan point more each way.
        """
        low, high = np.array([span.ends for span in search.free]).reshape(-1, 2).T
        if not (search.relations and search.free):
            return low, high
        scan = _product(
            [np.linspace(*span.ends, _FEASIBLE_SCAN) for span in search.free]
        )
        some = np.unique(
            rows[
                np.linspace(0, len(rows) - 1, min(len(rows), _FEASIBLE_ROWS)).astype(
                    int
                )
            ]
        )
        points = np.tile(scan, (len(some), 1))
        feasible = self.complete(
            search, _fields(search, points), np.repeat(some, len(scan))
        )[1]
        if not feasible.any():
            return low, high
        spacing = (high - low) / (_FEASIBLE_SCAN - 1)
        inside = points[feasible]
        return np.maximum(inside.min(axis=0) - spacing, low), np.minimum(
            inside.max(axis=0) + spacing, high
        )


def _product(lines: list[Floats]) -> Floats:
    return np.array(list(itertools.product(*lines)), dtype=np.float64)


def _fields(search: Search, coordinates: Floats) -> dict[str, Floats]:
    """Return the free fields at coordinates (M, k)."""
    return {
        span.name: span.value(coordinates[:, axis])
        for axis, span in enumerate(search.free)
    }
