"""`sensitivity`: how an observable of the limit changes with each field, at every point
of a grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from pydantic.fields import FieldInfo

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.progress import ProgressOption
from giantstep.core.base.types import Booleans, Floats
from giantstep.core.run.problems import warn
from giantstep.core.scenario.fields import within_bounds
from giantstep.core.scenario.lists import declaration
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import check_field_name, dotted_names, numbers_meant
from giantstep.tools.design.limits import ObservedLimit, read_observable, request_limit
from giantstep.tools.design.tables import DesignResult, design_result

WIDTHS = 0.1 * 0.5 ** np.arange(6)
"""Steps of the differences, the first largest."""


def extrapolate(differences: Floats, order: int) -> tuple[Floats, Floats]:
    """Return derivative and its error from difference quotients (S, L) at steps halved
    L - 1 times, the largest first.

    Neville's scheme takes out the powers h^order, h^(2 order), ... of the step one by
    one (`order` is 2 for central differences, 1 for one-sided ones); each entry is
    judged by how far it is from the two it was made of, and the entry judged best is
    taken. NaN differences are left out.
    """
    size, levels = differences.shape
    best = np.full(size, np.nan)
    error = np.full(size, np.inf)
    column = differences
    for power in range(1, levels):
        factor = 2.0 ** (order * power)
        finer = column[:, 1:] + (column[:, 1:] - column[:, :-1]) / (factor - 1)
        distance = np.maximum(
            np.abs(finer - column[:, 1:]), np.abs(finer - column[:, :-1])
        )
        distance = np.where(np.isnan(distance), np.inf, distance)
        place = np.argmin(distance, axis=1)
        everywhere = np.arange(size)
        better = distance[everywhere, place] < error
        best = np.where(better, finer[everywhere, place], best)
        error = np.where(better, distance[everywhere, place], error)
        column = finer
    return best, np.where(np.isinf(error), np.nan, error)


_ROUNDING = 4 * np.finfo(float).eps / WIDTHS[-1]
"""Rounding of the observable over the smallest step: no extrapolation knows better."""


def sensitivity(
    scenario: Scenario,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    of: str | None = None,
    to: str | Sequence[str] | None = None,
    progress: ProgressOption = None,
    **fields: Any,
) -> DesignResult:
    """Return the derivatives of an observable of the limit with respect to fields:
    which of them matters here.

    Differences over steps from 10% of a field down to 0.3% are extrapolated to zero;
    how the extrapolations differ measures their error. At the end of a field's range
    the differences are one-sided. A whole number has the change per unit in place of a
    derivative, and no error; an infinite one has none.

    Parameters
    ----------
    scenario, grid, **fields : as in `predict` (also ``what``, ``theory``, ``dim``,
        ``tolerance``, ``seed``).
    of : a variable of the question, ``"test_error"`` if left out;
        ``"test_error[time=2]"`` is an entry.
    to : numeric fields; all that are finite somewhere in the grid if left out. Each
        takes twelve points of the limit at every point of the grid.
    progress : True, False or a callable(done, total, text); a line on a terminal if
        left out.

    Returns
    -------
    xarray.Dataset
        With the dimension ``field``, what matters most first: ``elasticity`` d log E/d
        log field (percent per percent), ``derivative`` dE/dfield, their errors
        ``*_error``, and the field itself, ``at``. Printing it gives a table, `plot` of
        a single point a bar chart.

    Examples
    --------
    >>> import giantstep as gs
    >>> # ridge is at its best
    >>> s = gs.MixtureGLM(labels="linear", noise=0.3, ridge=0.3, samples_per_dim=1.5)
    >>> result = gs.sensitivity(
    ...     s, of="test_mse", to=["ridge", "samples_per_dim", "noise"]
    ... )
    >>> (
    ...     result.field.values.tolist(),
    ...     abs(float(result.elasticity.sel(field="ridge"))) < 1e-9,
    ... )
    (['noise', 'samples_per_dim', 'ridge'], True)
    """
    request = request_limit(scenario, grid, fields, ("of", "to"))
    observable = read_observable("of", of, request.question)
    limits = ObservedLimit(request, observable)
    names = _field_names(limits, to)
    rows = np.arange(limits.size)
    own = request.grid.scenario
    stencils = {
        name: _stencil(limits.field(name, rows), declaration(own, name))
        for name in names
    }
    count = limits.size + sum(
        int(np.isfinite(stencil.points).sum()) for stencil in stencils.values()
    )
    with limits.watched("sensitivity", count, progress):
        value = limits(rows, {})
        error = _evaluate(limits, stencils)
    if error is not None and all(stencil.refused for stencil in stencils.values()):
        raise error
    if to is None:
        for stencil in stencils.values():
            # nobody asked for this field: why it has no derivative is no fault
            stencil.refused = stencil.refused and "fixed by the other fields"
    result = _dataset(limits, value, stencils)
    warn(limits.problems())
    return result


def _field_names(limits: ObservedLimit, to: str | Sequence[str] | None) -> list[str]:
    scenario = limits.request.grid.scenario
    everywhere = np.arange(limits.size)
    known = scenario.numeric_fields()
    if to is None:
        return [
            name for name in known if np.isfinite(limits.field(name, everywhere)).any()
        ]
    if isinstance(to, str):
        to = [to]
    names = list(dotted_names(dict.fromkeys(to)))
    if not names:
        raise bad_field("to", to, "at least one numeric field")
    for name in names:
        check_field_name(scenario, name)
        if not numbers_meant(scenario, name):
            raise bad_field("to", name, f"numeric fields ({', '.join(known)})")
    return names


@dataclass
class Stencil:
    """The points around one field, at R rows: `at` (R,) itself, (R, P) `points` (NaN:
    not wanted) and `values` there.

    Fields that count are whole, `is_relative` (R,) says where steps are those of
    log(field), and `refused` why the limit refuses all the points.
    """

    at: Floats
    points: Floats
    is_whole: bool
    is_relative: Booleans
    values: Floats
    refused: str = ""

    def slope(self, value: Floats) -> tuple[Floats, Floats]:
        """Return the derivative with respect to the field, and its error, given the
        observable at the rows.
        """
        count = self.points.shape[1] // 2
        up = self.values[:, :count]
        down = self.values[:, count:]
        central = up - down
        forward = up - value[:, None]
        backward = value[:, None] - down
        if self.is_whole:
            change = _first_number(central[:, 0] / 2, forward[:, 0], backward[:, 0])
            return change, np.full(len(change), np.nan)
        ways = (
            (central / (2 * WIDTHS), 2),
            (forward / WIDTHS, 1),
            (backward / WIDTHS, 1),
        )
        found = [extrapolate(differences, order) for differences, order in ways]
        slope = _first_number(*(slope for slope, _ in found))
        error = _first_number(
            *(np.where(np.isnan(slope), np.nan, error) for slope, error in found)
        )
        error = error + _ROUNDING * np.abs(value)
        scale = np.where(self.is_relative, self.at, 1.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return slope / scale, error / np.abs(scale)


def _first_number(*columns: Floats) -> Floats:
    """Return the first of some columns that is a number, entry by entry: both sides
    before one.
    """
    return reduce(lambda first, other: np.where(np.isnan(first), other, first), columns)


def _stencil(at: Floats, info: FieldInfo) -> Stencil:
    """Choose the points around a field: both ways where its bounds allow, else the way
    they allow.
    """
    is_whole = info.annotation is int
    is_relative = (at != 0) & np.isfinite(at) & (not is_whole)
    steps = np.ones(1) if is_whole else WIDTHS
    with np.errstate(invalid="ignore"):
        scale = at[:, None]
        up = np.where(is_relative[:, None], scale * np.exp(steps), scale + steps)
        down = np.where(is_relative[:, None], scale * np.exp(-steps), scale - steps)
    points = np.concatenate([up, down], axis=1)
    points = np.where(np.isfinite(points) & within_bounds(info, points), points, np.nan)
    return Stencil(at, points, is_whole, is_relative, np.full(points.shape, np.nan))


def _evaluate(
    limits: ObservedLimit, stencils: Mapping[str, Stencil]
) -> InputError | None:
    """Fill the values of all stencils in one batch; where the limit refuses it (which
    is returned), field by field.
    """
    wanted = {
        name: np.nonzero(np.isfinite(stencil.points))
        for name, stencil in stencils.items()
    }
    rows = np.concatenate([index[0] for index in wanted.values()])
    owner = np.repeat(
        np.arange(len(wanted)), [len(index[0]) for index in wanted.values()]
    )
    changes = {}
    for number, (name, index) in enumerate(wanted.items()):
        column = limits.field(name, rows)
        column[owner == number] = stencils[name].points[index]
        changes[name] = column
    try:
        values = limits(rows, changes)
    except InputError as error:
        for name, stencil in stencils.items():
            if len(stencils) == 1:
                stencil.refused = str(error)
            else:
                _evaluate(limits, {name: stencil})
        return error
    for number, (name, index) in enumerate(wanted.items()):
        stencils[name].values[index] = values[owner == number]
    return None


def _dataset(
    limits: ObservedLimit, value: Floats, stencils: Mapping[str, Stencil]
) -> DesignResult:
    observable = limits.observable
    slopes = [stencil.slope(value) for stencil in stencils.values()]
    derivative, error = (np.stack(column, axis=-1) for column in zip(*slopes))
    at = np.stack([stencil.at for stencil in stencils.values()], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.where(np.isinf(at), np.nan, at) / value[:, None]
    largest = np.max(np.nan_to_num(np.abs(factor * derivative), posinf=0), axis=0)
    order = np.argsort(-largest, kind="stable")
    wide = {
        "elasticity": (factor * derivative, f"d log {observable.text}/d log field"),
        "elasticity_error": (
            np.abs(factor) * error,
            "measured error of the elasticity",
        ),
        "derivative": (derivative, f"d {observable.text}/d field"),
        "derivative_error": (error, "measured error of the derivative"),
        "at": (at, "the field itself"),
    }
    columns: dict[str, Any] = {
        name: (("field",), values[:, order], text)
        for name, (values, text) in wide.items()
    }
    solved = np.isfinite(value)
    status = ["" if good else limits.failure(row) for row, good in enumerate(solved)]
    remark = [
        "; ".join(_remarks(limits, row, stencils, derivative[row]))
        for row in range(limits.size)
    ]
    about = {
        "long_name": observable.variable.meaning,
        "symbol": observable.variable.symbol,
    }
    columns |= {
        observable.name: ((), value, about),
        "converged": ((), solved, "whether the point was computed"),
        "status": ((), np.array(status, dtype=str), "why not, where it was not"),
        "remark": ((), np.array(remark, dtype=str), "fields without a derivative"),
    }
    names = list(stencils)
    shown = [observable.name, "elasticity"]
    figure = {}
    if not limits.request.grid.dims:
        shown[1:1] = ["at", "derivative", "derivative_error"]
        figure["figure"] = "tornado"
    return design_result(
        limits.request,
        [limits],
        "sensitivity",
        columns,
        {"field": [names[i] for i in order]},
        {"of": observable.text, "to": ", ".join(names)},
        (f"What {observable.text} of ", " depends on"),
        shown=shown,
        plot=["elasticity"],
        **figure,
    )


def _remarks(
    limits: ObservedLimit, row: int, stencils: Mapping[str, Stencil], derivative: Floats
) -> Iterator[str]:
    for (name, stencil), slope in zip(stencils.items(), derivative):
        if np.isinf(stencil.at[row]):
            yield f"{name} is infinite"
        elif stencil.is_whole and np.isfinite(slope):
            yield f"{name} counts: its change per unit"
        elif np.isnan(slope):
            reason = stencil.refused or limits.reasons.get(
                row, "no point beside it is allowed"
            )
            yield f"{name}: {reason}"
