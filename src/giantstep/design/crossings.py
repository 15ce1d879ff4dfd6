"""`solve_for`: where an observable of the limit reaches a value, along one field, at every point of a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from giantstep.checks import check_flags, check_whole
from giantstep.design.constraints import default_range, searches
from giantstep.design.limits import HeldLimit, ObservedLimit, request_limit
from giantstep.design.observable import Observable, read_observable
from giantstep.design.problem import SearchProblem
from giantstep.design.ranges import Over, Range, read_over, read_range
from giantstep.design.tables import DesignResult, design_result
from giantstep.display import inside_sentence
from giantstep.errors import InputError, bad_field
from giantstep.partlists import given_as
from giantstep.problems import warn
from giantstep.progress import ProgressOption
from giantstep.request import Request
from giantstep.result import about_field
from giantstep.scenario import Scenario, as_number, check_field_name, dotted_names, numbers_meant
from giantstep.solve.minimum import minimise_each
from giantstep.types import Array, Floats, Indices, Strings

_SCAN, _SCAN_OPTIMISED = 65, 33
"""Points of the scan for changes of sign, alone and where each of them is an optimum."""
_INNER_STARTS = 9
"""Starting points of the optimum over one other field, at every point of the scan."""
_JUMP = 1e-5
"""Distance from the wanted value, relative to the range of values, from which a crossing is a jump."""

_NOT_FINITE = -3
"""SciPy's status of a root on the way to which the function had no value."""


def solve_for(
    scenario: Scenario,
    field: str,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    between: tuple[float, float] | None = None,
    reach: Mapping[str, Any] | None = None,
    over: Mapping[str, Any] | None = None,
    maximise: bool = False,
    points: int | None = None,
    progress: ProgressOption = None,
    **fields: Any,
) -> DesignResult:
    """Return where an observable of the limit reaches a value along one field, at every point of a grid.

    A scan finds changes of sign, its minima and maxima refined so that no pair of crossings hides beside them; each
    crossing is then solved to about 1e-12, all of them in lockstep.

    Parameters
    ----------
    scenario, grid, **fields : as in `predict`; a keyword that names a variable is the value to be reached
        (``test_error=0.2``, or a list of values).
    field : the numeric field solved for.
    between : its range ``(low, high)``, searched on a logarithmic scale where low > 0; from a thousandth to a thousand
        times its present value if left out.
    reach : the same as the keyword, for entries of variables: ``{"test_error[time=2]": 0.2}``.
    over : other fields with their ranges: the observable is first minimised over them at every value of `field`.
    maximise : maximise over them instead.
    points : points of the scan; 65, or 33 with `over`, if left out: about half as many points of the limit again, for
        each point of the grid; with `over` a search of about 20 for each of them.
    progress : True, False or a callable(done, total, text); a line on a terminal if left out.

    Returns
    -------
    xarray.Dataset
        The field at all crossings (dimension ``crossing``, NaN beyond ``crossings``), their ``direction``, the fields
        of `over` there, ``smallest`` and ``largest`` value seen and where. A point where the value is not reached has
        ``converged`` False, and its ``status`` says how near one comes. Printing it gives a table.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="linear", noise=0.0, ridge=0.1, samples_per_dim=1.5)
    >>> need = gs.solve_for(s, "samples_per_dim", test_mse=[0.2, 0.1], between=(0.1, 100))
    >>> [round(float(n), 4) for n in need.samples_per_dim.isel(crossing=0)]
    [0.9142, 1.1487]
    """
    check_flags(maximise=maximise)
    wanted, fields = _take_wanted(scenario, fields, reach)
    request = request_limit(scenario, grid, fields, ("between", "reach", "over", "maximise", "points"))
    observable = read_observable("reach", wanted[0], request.question)
    field = _free_field(field, request, {**(grid or {}), **fields})
    span = _span(field, between, request.grid.scenario)
    inner = _inner(field, over, request.grid.scenario)
    default = _SCAN_OPTIMISED if inner.ranges else _SCAN
    count = default if points is None else check_whole("points", points, "a whole number from 3 to 10000", 3, 10_000)
    profile = Profile(ObservedLimit(request, observable), span, inner, -1.0 if maximise else 1.0)
    targets, is_list = _targets(observable, wanted[1])
    expected = request.grid.size * (count + count // 2) * (20 if inner.ranges else 1)
    with profile.limits.watched("solve for", expected, progress):
        scan = scan_profile(profile, count)
        crossings = find_crossings(profile, scan, targets)
    result = _CrossingReport(request, observable, profile, scan, crossings, is_list).dataset(targets)
    warn(profile.limits.problems())
    return result


def _free_field(field: str, request: Request, given: Mapping[str, Any]) -> str:
    """Return the dotted name of the field that is solved for; it must not be given a value."""
    field = next(iter(dotted_names({field: None})))
    if given_as(request.grid.scenario, field, dotted_names(given), request.grid.coords):
        raise InputError(f"Field `{field}` is solved for and given a value, too.")
    return field


def _inner(field: str, over: Mapping[str, Any] | None, scenario: Scenario) -> Over:
    """Return the ranges over which the observable is optimised at every value of a field."""
    inner = Over({}, {}) if over is None else read_over("over", over, scenario)
    if inner.choices or field in inner.ranges:
        raise bad_field("over", over, f"ranges of other fields than `{field}`")
    return inner


def _span(field: str, between: Any, scenario: Scenario) -> Range:
    if between is None:
        check_field_name(scenario, field)
        if not numbers_meant(scenario, field):
            raise bad_field("field", field, f"numeric ({', '.join(scenario.numeric_fields())})")
        return default_range(field, scenario, "it is solved for, and")
    if not isinstance(between, tuple | list) or not 2 <= len(between) <= 3:
        raise bad_field("between", between, f"a range (low, high) of `{field}`")
    return read_range(field, tuple(between), scenario)


def _take_wanted(scenario: Scenario, fields: dict[str, Any], reach: Any) -> tuple[tuple[str, Any], dict[str, Any]]:
    """Return the observable with the value wanted of it, and the keywords that are left."""
    if not isinstance(scenario, Scenario):
        raise InputError(f"The first argument must be a scenario, not a {type(scenario).__name__}.")
    own = {name.partition(".")[0] for name in scenario.numeric_fields()} | set(type(scenario).model_fields)
    variables = {variable.name for question in scenario.questions.values() for variable in question.variables}
    named = {name: value for name, value in fields.items() if name in variables and name not in own}
    wanted = {**(reach or {}), **named}
    if len(wanted) != 1:
        given = ", ".join(wanted) or "none"
        raise InputError(f"Name one observable and the value it shall reach, as in test_error=0.2 (given: {given}).")
    return next(iter(wanted.items())), {name: value for name, value in fields.items() if name not in named}


def _targets(observable: Observable, value: Any) -> tuple[Floats, bool]:
    is_list = isinstance(value, list | tuple) or np.ndim(value) > 0
    entries = list(value) if is_list else [value]
    try:
        numbers = np.array([as_number(entry) for entry in entries])
    except ValueError:
        raise bad_field(observable.name, value, "a number or a list of numbers to be reached") from None
    if not len(numbers) or not np.isfinite(numbers).all():
        raise bad_field(observable.name, value, "finite, at least one number")
    return numbers, is_list


@dataclass
class Profile:
    """The observable along one field, where need be at its optimum over others.

    Attributes
    ----------
    limits : the observable.
    span : the field and its range.
    inner : ranges of the fields optimised at every value of the field.
    sign : 1 where they minimise, -1 where they maximise.
    """

    limits: ObservedLimit
    span: Range
    inner: Over
    sign: float

    def __call__(self, coordinates: Floats, rows: Indices) -> Floats:
        """Return the observable at coordinates of the field; NaN where it was not solved."""
        return self.at(coordinates, rows)[0]

    def at(self, coordinates: Floats, rows: Indices) -> tuple[Floats, dict[str, Floats]]:
        """Return the observable and the optimised fields at coordinates of the field."""
        held = {self.span.name: self.span.value(coordinates)}
        if not self.inner.ranges:
            return self.limits(rows, held), {}
        starts = _INNER_STARTS if len(self.inner.ranges) == 1 else None
        members = HeldLimit(self.limits, rows, held)
        problem = SearchProblem({}, members, searches(self.inner.ranges, []), self.sign, starts)
        found = problem.solve(np.arange(len(rows))).values()
        best = [min(candidates, key=lambda candidate: candidate.value, default=None) for candidates in found]
        values = np.array([np.nan if c is None else self.sign * c.value for c in best])
        names = self.inner.ranges
        return values, {name: np.array([np.nan if c is None else c.fields[name] for c in best]) for name in names}


@dataclass
class Scan:
    """A profile at points of its field: (R, M) coordinates in increasing order and values, extrema among them."""

    coordinates: Floats
    values: Floats

    def extreme(self, row: int, largest: bool) -> tuple[float, float]:
        """Return the smallest or largest value of a row, and the coordinate where it is."""
        values = self.values[row]
        place = int(np.nanargmax(values) if largest else np.nanargmin(values))
        return float(values[place]), float(self.coordinates[row, place])


def scan_profile(profile: Profile, count: int) -> Scan:
    """Return a profile at evenly spaced coordinates, and at its local extrema between them."""
    size = profile.limits.size
    low, high = profile.span.ends
    line = np.linspace(low, high, count)
    rows = np.repeat(np.arange(size), count)
    values = profile(np.tile(line, size), rows).reshape(size, count)
    owner, place, turn = _turning_points(values)
    coordinates = np.tile(line, (size, 1))
    if not len(owner):
        return Scan(coordinates, values)
    found = minimise_each(
        lambda x, index: turn[index] * profile(x[:, 0], owner[index]),
        line[place][:, None], np.array([line[1] - line[0]]), np.array([low]), np.array([high]),
    )  # fmt: skip
    extra = np.full((2, size, int(np.bincount(owner).max())), np.nan)
    extra[:, owner, _ranks(owner)] = found.x[:, 0], turn * found.value
    coordinates, values = np.concatenate([[coordinates, values], extra], axis=2)
    order = np.argsort(coordinates, axis=1)
    return Scan(np.take_along_axis(coordinates, order, axis=1), np.take_along_axis(values, order, axis=1))


def _turning_points(values: Floats) -> tuple[Indices, Indices, Floats]:
    """Return (row, position, 1 or -1) of the strict local minima and maxima inside rows of values."""
    middle, left, right = values[:, 1:-1], values[:, :-2], values[:, 2:]
    parts = []
    for turn in (1.0, -1.0):
        row, position = np.nonzero((turn * middle < turn * left) & (turn * middle < turn * right))
        parts.append((row, position + 1, np.full(len(row), turn)))
    rows, positions, turns = (np.concatenate(column) for column in zip(*parts))
    return rows, positions, turns


@dataclass
class Crossings:
    """Crossings of R rows and T targets, C of them at most.

    Attributes
    ----------
    values : (R, T, C) the field; NaN beyond the last.
    direction : (R, T, C) "falls", "rises", "jumps down", "jumps up", empty beyond the last.
    fields : optimised field -> (R, T, C).
    """

    values: Floats
    direction: Strings
    fields: dict[str, Floats]


def find_crossings(profile: Profile, scan: Scan, targets: Floats) -> Crossings:
    """Solve every change of sign of a scan minus a target, in lockstep."""
    row, target, low, high, at_low, at_high = _brackets(scan, targets)
    roots, left = np.empty(0), np.empty(0)
    if len(row):
        solved = elementwise.find_root(
            lambda x, index: profile(x, row[index]) - targets[target[index]],
            (low, high), args=(np.arange(len(row)),), tolerances={"xatol": 1e-13, "xrtol": 1e-13, "fatol": 0.0},
        )  # fmt: skip
        roots, left = np.where(solved.status == _NOT_FINITE, np.nan, solved.x), solved.f_x
    fields = profile.at(roots, row)[1] if len(roots) and profile.inner.ranges else {}
    shape = (len(scan.values), len(targets))
    rank = _ranks(row * len(targets) + target)
    most = max(int(rank.max(initial=0)) + 1, 1)
    values, direction = np.full((*shape, most), np.nan), np.full((*shape, most), "", dtype="<U10")
    columns = {name: np.full((*shape, most), np.nan) for name in fields}
    place = (row, target, rank)
    values[place] = np.where(np.isnan(roots), np.nan, profile.span.value(roots))
    jumps = np.abs(left) > _JUMP * np.abs(at_high - at_low)
    words = np.where(at_high < at_low, np.where(jumps, "jumps down", "falls"), np.where(jumps, "jumps up", "rises"))
    direction[place] = np.where(np.isnan(roots), "", words)
    for name, column in fields.items():
        columns[name][place] = column
    return Crossings(values, direction, columns)


def _brackets(scan: Scan, targets: Floats) -> tuple[Array, ...]:
    """Return (row, target, both coordinates, both values minus the target) of neighbours with different signs."""
    rows: list[tuple[int, int, float, float, float, float]] = []
    for row, (coordinates, values) in enumerate(zip(scan.coordinates, scan.values)):
        there = np.isfinite(values)
        x, y = coordinates[there], values[there]
        for number, target in enumerate(targets):
            gap = y - target
            for i in np.flatnonzero((gap[1:] > 0) != (gap[:-1] > 0)):
                rows.append((row, number, x[i], x[i + 1], gap[i], gap[i + 1]))
    columns = np.array(rows).reshape(-1, 6).T
    return columns[0].astype(np.intp), columns[1].astype(np.intp), *columns[2:]


def _ranks(keys: Indices) -> Indices:
    """Return which of the entries with the same key each one is, counted from 0."""
    return np.array([np.count_nonzero(keys[:place] == key) for place, key in enumerate(keys)], dtype=np.intp)


@dataclass
class _CrossingReport:
    """Makes the Dataset of crossings."""

    request: Request
    observable: Observable
    profile: Profile
    scan: Scan
    crossings: Crossings
    listed: bool

    def dataset(self, targets: Floats) -> DesignResult:
        """Return the result."""
        crossings, span, observed = self.crossings, self.profile.span, self.observable.text
        scenario = self.request.grid.scenario
        count = np.sum(np.isfinite(crossings.values), axis=-1)
        solved = count > 0
        status = np.array([[self._status(row, target) for target in targets] for row in range(len(count))], dtype=str)
        wide = {span.name: crossings.values, "direction": crossings.direction, **crossings.fields}
        columns: dict[str, Any] = {
            name: (("crossing",), values, about_field(scenario, name)) for name, values in wide.items()
        }
        columns["direction"] = (("crossing",), crossings.direction, "what the observable does there as the field grows")
        columns["crossings"] = ((), count, "how often the value is reached")
        columns.update(self._extremes())
        columns["converged"] = ((), solved, "whether the value is reached")
        columns["status"] = ((), np.where(solved, "", status), "how near one comes, where it is not")
        coords: dict[str, Any] = {"crossing": 1 + np.arange(crossings.values.shape[-1])}
        if self.listed:
            coords[self.observable.name] = targets
        own = (self.observable.name,) if self.listed else ()
        columns = {
            name: ((*own, *dims), values if self.listed else values[:, 0], about)
            for name, (dims, values, about) in columns.items()
        }
        inner = f", at the best {self.profile.inner}" if self.profile.inner.ranges else ""
        wanted = "" if self.listed else f" = {targets[0]:g}"
        settings = {"solve_for": str(span), "reach": {observed: targets.tolist()}, **self.request.shown()}
        extra = {
            "headline": f"{span} at which {observed}{wanted} of {inside_sentence(scenario.title)}{inner}",
            "shown": [*wide],
            "theory": self.profile.limits.theory,
            "observable": observed,
        }
        return design_result(self.request, "crossing", columns, coords, settings, extra)

    def _extremes(self) -> dict[str, Any]:
        """Return the smallest and the largest value seen, at every row and target."""
        found = np.full((4, *self.crossings.values.shape[:2]), np.nan)
        for row, values in enumerate(self.scan.values):
            if np.isfinite(values).any():
                for start, largest in ((0, False), (2, True)):
                    value, coordinate = self.scan.extreme(row, largest)
                    found[start, row], found[start + 1, row] = value, self.profile.span.value(np.array(coordinate))
        observed, there = self.observable.text, f"{self.profile.span.name} there"
        texts = {"smallest": f"smallest {observed} seen", "smallest_at": there,
                 "largest": f"largest {observed} seen", "largest_at": there}  # fmt: skip
        return {name: ((), values, text) for (name, text), values in zip(texts.items(), found)}

    def _status(self, row: int, target: float) -> str:
        values = self.scan.values[row]
        if not np.isfinite(values).any():
            return self.profile.limits.failure(row)
        largest = target > np.nanmax(values)
        value, coordinate = self.scan.extreme(row, largest)
        where = float(self.profile.span.value(np.array(coordinate)))
        word = "largest" if largest else "smallest"
        return f"not reached; {word} {value:.6g} at {self.profile.span.name} = {where:.6g}"
