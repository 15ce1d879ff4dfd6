"""`solve_for`: where an observable of the limit reaches a value, along one field, at
every point of a grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.progress import ProgressOption
from giantstep.core.base.types import Array, Floats, Indices
from giantstep.core.result.table import about_field
from giantstep.core.run.problems import warn
from giantstep.core.scenario.checks import check_flags, check_whole
from giantstep.core.scenario.fields import as_number
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import check_field_name, dotted_names, numbers_meant
from giantstep.tools.design.constraints import (
    Range,
    default_range,
    read_over,
    read_range,
    searches,
)
from giantstep.tools.design.limits import (
    ObservedLimit,
    read_observable,
    refuse_given,
    request_limit,
)
from giantstep.tools.design.minimum import minimise_each
from giantstep.tools.design.optimise import SearchProblem
from giantstep.tools.design.tables import DesignResult, design_result

_SCAN = 65
_SCAN_OPTIMISED = 33
"""Points of the scan for changes of sign, alone and where each of them is an
optimum.
"""
_INNER_STARTS = 9
"""Starting points of the optimum over one other field, at every point of the scan."""
_POINTS_OF_SEARCH = 20
"""Times as many points that a scan asks for where another field is optimised, roughly:
what the progress line counts on.
"""
_JUMP = 1e-5
"""Distance from the wanted value, relative to the range of values, from which a
crossing is a jump.
"""
_BESIDE = 1e-9
"""How far beside a place without a value the limit is asked, relative to the range of
the search.
"""

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
    """Return where an observable of the limit reaches a value along one field, at every
    point of a grid.

    A scan finds changes of sign, its minima and maxima refined so that no pair of
    crossings hides beside them; each crossing is then solved to about 1e-12, all of
    them in lockstep.

    Parameters
    ----------
    scenario, grid, **fields : as in `predict`; a keyword that names a variable is the
        value to be reached (``test_error=0.2``, or a list of values).
    field : the numeric field solved for.
    between : its range ``(low, high)``, searched on a logarithmic scale where low > 0;
        from a thousandth to a thousand times its present value if left out.
    reach : the same as the keyword, for entries of variables:
        ``{"test_error[time=2]": 0.2}``.
    over : other fields with their ranges: the observable is first minimised over them
        at every value of `field`.
    maximise : maximise over them instead.
    points : points of the scan; 65, or 33 with `over`, if left out: about half as many
        points of the limit again, for each point of the grid; with `over` a search of
        about 20 for each of them.
    progress : True, False or a callable(done, total, text); a line on a terminal if
        left out.

    Returns
    -------
    xarray.Dataset
        The field at all crossings (dimension ``crossing``, NaN beyond ``crossings``),
        their ``direction``, the fields of `over` there, ``smallest`` and ``largest``
        value seen and where. A point where the value is not reached has ``converged``
        False, and its ``status`` says how near one comes. Printing it gives a table.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="linear", noise=0.0, ridge=0.1, samples_per_dim=1.5)
    >>> need = gs.solve_for(
    ...     s, "samples_per_dim", test_mse=[0.2, 0.1], between=(0.1, 100)
    ... )
    >>> [round(float(n), 4) for n in need.samples_per_dim.isel(crossing=0)]
    [0.9142, 1.1487]
    """
    check_flags(maximise=maximise)
    wanted, value, fields = _take_wanted(scenario, fields, reach)
    request = request_limit(
        scenario, grid, fields, ("between", "reach", "over", "maximise", "points")
    )
    observable = read_observable("reach", wanted, request.question)
    (field,) = dotted_names({field: None})
    refuse_given([field], "solved for", request, {**(grid or {}), **fields})
    if between is None:
        if not numbers_meant(request.grid.scenario, field):
            check_field_name(request.grid.scenario, field)
            raise bad_field(
                "field",
                field,
                f"numeric ({', '.join(request.grid.scenario.numeric_fields())})",
            )
        span = default_range(field, request.grid.scenario, "it is solved for, and")
    elif isinstance(between, tuple | list) and 2 <= len(between) <= 3:
        span = read_range(field, tuple(between), request.grid.scenario)
    else:
        raise bad_field("between", between, f"a range (low, high) of `{field}`")
    if over is None:
        inner: Mapping[str, Range] = {}
        choices: Mapping[str, tuple[Any, ...]] = {}
    else:
        inner, choices = read_over(over, request.grid.scenario)
    if choices or field in inner:
        raise bad_field("over", over, f"ranges of other fields than `{field}`")
    default = _SCAN_OPTIMISED if inner else _SCAN
    if points is None:
        count = default
    else:
        count = check_whole(
            "points", points, "a whole number from 3 to 10000", 3, 10_000
        )
    sign = 1.0
    if maximise:
        sign = -1.0
    profile = Profile(ObservedLimit(request, observable), span, inner, sign)
    is_list = isinstance(value, list | tuple) or np.ndim(value) > 0
    entries = [value]
    if is_list:
        entries = list(value)
    try:
        targets = np.array([as_number(entry) for entry in entries])
    except ValueError:
        raise bad_field(
            observable.name, value, "a number or a list of numbers to be reached"
        ) from None
    if not len(targets) or not np.isfinite(targets).all():
        raise bad_field(observable.name, value, "finite, at least one number")
    expected = request.grid.size * (count + count // 2)
    if inner:
        expected *= _POINTS_OF_SEARCH
    with profile.limits.watched("solve for", expected, progress):
        scan = scan_profile(profile, count)
        crossings = find_crossings(profile, *scan, targets)
    result = _dataset(profile, scan, crossings, targets, is_list)
    warn(profile.limits.problems())
    return result


def _take_wanted(
    scenario: Scenario, fields: dict[str, Any], reach: Any
) -> tuple[str, Any, dict[str, Any]]:
    """Return the observable, the value wanted of it, and the keywords that are left."""
    if not isinstance(scenario, Scenario):
        raise InputError(
            f"The first argument must be a scenario, not a {type(scenario).__name__}."
        )
    own = {name.partition(".")[0] for name in scenario.numeric_fields()} | set(
        type(scenario).model_fields
    )
    variables = {
        variable.name
        for question in scenario.questions.values()
        for variable in question.variables
    }
    named = {
        name: value
        for name, value in fields.items()
        if name in variables and name not in own
    }
    wanted = {**(reach or {}), **named}
    if len(wanted) != 1:
        given = ", ".join(wanted) or "none"
        raise InputError(
            "Name one observable and the value it shall reach, as in test_error=0.2"
            f" (given: {given})."
        )
    (pair,) = wanted.items()
    return *pair, {name: value for name, value in fields.items() if name not in named}


@dataclass
class Profile:
    """The observable along one field, where need be at its optimum over others: minimal
    (sign 1) or maximal (-1).
    """

    limits: ObservedLimit
    span: Range
    inner: Mapping[str, Range]
    sign: float

    def at(
        self, coordinates: Floats, rows: Indices
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return the observable and the optimised fields at coordinates of the field;
        NaN where it was not solved.
        """
        held = {self.span.name: self.span.value(coordinates)}
        if not self.inner:
            return self.limits(rows, held), {}
        starts = _INNER_STARTS if len(self.inner) == 1 else None
        problem = SearchProblem(
            {}, self.limits, searches(self.inner, []), self.sign, starts, (rows, held)
        )
        found = problem.solve(np.arange(len(rows))).values()
        best = [
            min(candidates, key=lambda candidate: candidate.value, default=None)
            for candidates in found
        ]
        values = np.full(len(best), np.nan)
        fields = {name: np.full(len(best), np.nan) for name in self.inner}
        for row, minimum in enumerate(best):
            if minimum is None:
                continue
            values[row] = self.sign * minimum.value
            for name in self.inner:
                fields[name][row] = minimum.fields[name]
        return values, fields

    def beside(self, coordinates: Floats, rows: Indices) -> Floats:
        """Return the observable at coordinates; where the limit has no value at one,
        that just above it.

        A limit that jumps may have no value at the jump itself, where a search for the
        jump ends.
        """
        values = self.at(coordinates, rows)[0]
        missing = np.flatnonzero(np.isnan(values) & np.isfinite(coordinates))
        if len(missing):
            low, high = self.span.ends
            above = np.minimum(coordinates[missing] + _BESIDE * (high - low), high)
            values[missing] = self.at(above, rows[missing])[0]
        return values


def scan_profile(profile: Profile, count: int) -> tuple[Floats, Floats]:
    """Return a profile at evenly spaced coordinates, and at its local extrema between
    them.

    They are (R, M) coordinates of its field in increasing order, and the values there.
    """
    size = profile.limits.size
    low, high = profile.span.ends
    line = np.linspace(low, high, count)
    rows = np.repeat(np.arange(size), count)
    values = profile.at(np.tile(line, size), rows)[0].reshape(size, count)
    up = np.diff(values) > 0
    down = np.diff(values) < 0
    # 1 at strict local minima, -1 at maxima
    turns = 1.0 * (down[:, :-1] & up[:, 1:]) - (up[:, :-1] & down[:, 1:])
    owner, place = np.nonzero(np.pad(turns, [(0, 0), (1, 1)]))
    coordinates = np.tile(line, (size, 1))
    if not len(owner):
        return coordinates, values
    turn = turns[owner, place - 1]
    found = minimise_each(
        lambda x, index: turn[index] * profile.at(x[:, 0], owner[index])[0],
        line[place][:, None],
        np.array([line[1] - line[0]]),
        np.array([low]),
        np.array([high]),
    )
    extra = np.full((2, size, count), np.nan)
    extra[:, owner, place] = found.x[:, 0], turn * found.value
    coordinates, values = np.concatenate([[coordinates, values], extra], axis=2)
    order = np.argsort(coordinates, axis=1)
    return np.take_along_axis(coordinates, order, axis=1), np.take_along_axis(
        values, order, axis=1
    )


def find_crossings(
    profile: Profile, coordinates: Floats, values: Floats, targets: Floats
) -> dict[str, Array]:
    """Solve every change of sign of the values of a scan minus a target, in lockstep.

    The field there, its ``direction`` ("falls", "rises", "jumps down", "jumps up") and
    the optimised fields are columns (R, T, C) for R rows, T targets, and C crossings at
    most; NaN, or no direction, beyond the last.
    """
    row, target, rank, low, high, at_low, at_high = _brackets(
        coordinates, values, targets
    )
    roots = np.empty(0)
    left = np.empty(0)
    if len(row):
        solved = elementwise.find_root(
            lambda x, index: profile.beside(x, row[index]) - targets[target[index]],
            (low, high),
            args=(np.arange(len(row)),),
            tolerances={"xatol": 1e-13, "xrtol": 1e-13, "fatol": 0.0},
        )
        roots = np.where(solved.status == _NOT_FINITE, np.nan, solved.x)
        left = solved.f_x
    if len(roots) and profile.inner:
        fields = profile.at(roots, row)[1]
    else:
        fields = {}
    failed = np.isnan(roots)
    jumps = np.abs(left) > _JUMP * np.abs(at_high - at_low)
    words = np.where(
        at_high < at_low,
        np.where(jumps, "jumps down", "falls"),
        np.where(jumps, "jumps up", "rises"),
    )
    shape = len(values), len(targets), 1 + int(rank.max(initial=0))

    def laid_out(column: Array, empty: float | str) -> Array:
        laid = np.full(shape, empty, dtype=column.dtype)
        laid[row, target, rank] = np.where(failed, empty, column)
        return laid

    field = laid_out(profile.span.value(roots), np.nan)
    direction = laid_out(words, "")
    others = {name: laid_out(column, np.nan) for name, column in fields.items()}
    return {profile.span.name: field, "direction": direction, **others}


def _brackets(
    coordinates: Floats, values: Floats, targets: Floats
) -> tuple[Array, ...]:
    """Return (row, target, rank among theirs, coordinates, values minus target) of
    neighbours with different signs.
    """
    found: list[tuple[float, ...]] = []
    for row, there in enumerate(np.isfinite(values)):
        x = coordinates[row, there]
        y = values[row, there]
        for number, target in enumerate(targets):
            gap = y - target
            for rank, i in enumerate(np.flatnonzero((gap[1:] > 0) != (gap[:-1] > 0))):
                found.append((row, number, rank, x[i], x[i + 1], gap[i], gap[i + 1]))
    columns = np.array(found).reshape(-1, 7).T
    return *columns[:3].astype(np.intp), *columns[3:]


def _dataset(
    profile: Profile,
    scan: tuple[Floats, Floats],
    crossings: Mapping[str, Array],
    targets: Floats,
    is_list: bool,
) -> DesignResult:
    """Return the result at R rows and T targets."""
    limits, span, (coordinates, values) = profile.limits, profile.span, scan
    scenario = limits.request.grid.scenario
    observable = limits.observable
    observed = limits.observable.text
    count = np.sum(np.isfinite(crossings[span.name]), axis=-1)
    columns: dict[str, Any] = {
        name: (("crossing",), column, about_field(scenario, name))
        for name, column in crossings.items()
    }
    columns["direction"] = (
        ("crossing",),
        crossings["direction"],
        "what the observable does there as the field grows",
    )
    columns["crossings"] = ((), count, "how often the value is reached")
    known = ~np.isnan(values)
    seen = {}
    for word, sign in (
        ("smallest", 1.0),
        ("largest", -1.0),
    ):  # NaN where nothing was solved
        at = (
            np.arange(limits.size),
            np.argmin(np.where(known, sign * values, np.inf), axis=1),
        )
        seen[word] = (
            values[at],
            np.where(known[at], span.value(coordinates[at]), np.nan),
        )
        for name, column, about in zip(
            (word, f"{word}_at"),
            seen[word],
            (f"{word} {observed} seen", f"{span.name} there"),
        ):
            columns[name] = (
                (),
                np.repeat(column[:, None], len(targets), axis=1),
                about,
            )
    status = np.full(count.shape, "", dtype=object)
    for row, number in np.argwhere(count == 0):
        if targets[number] > seen["largest"][0][row]:
            word = "largest"
        else:
            word = "smallest"
        value, place = (column[row] for column in seen[word])
        near = f"not reached; {word} {value:.6g} at {span.name} = {place:.6g}"
        status[row, number] = limits.failure(row) if np.isnan(value) else near
    columns["converged"] = ((), count > 0, "whether the value is reached")
    columns["status"] = ((), status.astype(str), "how near one comes, where it is not")
    coords: dict[str, Any] = {"crossing": 1 + np.arange(crossings[span.name].shape[-1])}
    wanted = f" = {targets[0]:g}"
    if is_list:
        coords[observable.name] = targets
        wanted = ""
        columns = {
            name: ((observable.name, *own), column, about)
            for name, (own, column, about) in columns.items()
        }
    else:
        columns = {
            name: (own, column[:, 0], about)
            for name, (own, column, about) in columns.items()
        }
    if profile.inner:
        inner = f", at the best {', '.join(map(str, profile.inner.values()))}"
    else:
        inner = ""
    settings = {"solve_for": str(span), "reach": {observed: targets.tolist()}}
    headline = f"{span} at which {observed}{wanted} of ", inner
    return design_result(
        limits.request,
        [limits],
        "crossing",
        columns,
        coords,
        settings,
        headline,
        shown=list(crossings),
    )
