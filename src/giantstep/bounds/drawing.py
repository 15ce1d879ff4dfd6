"""The best possible error under the curves of a figure: for each curve that of its own scenario and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep.bounds.best import watched
from giantstep.bounds.counting import BoundedError
from giantstep.bounds.curve import BoundProblem, best_errors, compute
from giantstep.bounds.points import Teachers, check_time
from giantstep.errors import InputError
from giantstep.figures.style import DASHED, DOTTED, GREY, is_geometric
from giantstep.grid import Grid
from giantstep.progress import ProgressOption
from giantstep.result import fields_of
from giantstep.several import by_name
from giantstep.types import Array, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from giantstep.figures.layout import Reading, View

LINES = (("bayes", DASHED, "best possible"), ("uninformed", DOTTED, "message passing"))
_MOST, _MOST_SLOW = 41, 9
"""Points of a bound at most, and where each of them takes seconds."""

_MOST_DOTS = 12
"""Steps of a trajectory up to which each is marked on its bound."""


class BoundDrawer:
    """Draws bounds into the panels of one figure, and keeps what was drawn.

    Parameters
    ----------
    progress : as `plot` takes it.
    """

    def __init__(self, progress: ProgressOption) -> None:
        self.progress, self.known, self.drawn = progress, dict[str, None](), False

    def draw(self, axes: Axes, reading: Reading, view: View, colours: Mapping[int, Any]) -> list[Any]:
        """Draw the bounds under the curves of a view, each in the colour of its curve; return entries of the legend."""
        from matplotlib.lines import Line2D

        paths = [self._path(reading, view, place) for place in colours]
        shown = {place: path for place, path in zip(colours, paths) if path is not None}
        if not shown:
            return []
        wanted: dict[BoundProblem, set[float]] = {}
        for path in shown.values():
            for problem, samples in zip(path.problems, path.samples):
                wanted.setdefault(problem, set()).add(samples)
        with watched({problem: len(alpha) for problem, alpha in wanted.items()}, self.progress) as bar:
            compute(wanted, bar)
        self.drawn = True
        lines = {branch: {place: path.values(branch) for place, path in shown.items()} for branch, *_ in LINES}
        best, passed = (lines[branch] for branch, *_ in LINES)
        reached = all(np.allclose(best[place], passed[place], equal_nan=True) for place in shown)
        styles = [(LINES[0][0], DASHED, f"{LINES[0][2]}; message passing reaches it")] if reached else LINES
        for branch, dashes, label in styles:
            alike = len({(path.x.tobytes(), lines[branch][place].tobytes()) for place, path in shown.items()}) == 1
            for place, path in list(shown.items())[: 1 if alike else None]:
                path.draw(axes, lines[branch][place], dashes, color=GREY if alike else colours[place], label=label)
        return [Line2D([], [], color=GREY, linestyle=dashes, linewidth=1.2, label=label) for _, dashes, label in styles]

    def _path(self, reading: Reading, view: View, place: int) -> _Path | None:
        """Return where the bound of one curve is computed; None where its variable has none."""
        point = dict(zip(view.others, np.unravel_index(place, [reading.data.sizes[dim] for dim in view.others])))
        part = reading.data.isel({dim: int(index) for dim, index in point.items()}).assign_attrs(reading.attrs)
        part = part.isel(source=0) if "source" in part.dims else part
        teachers = Teachers.of_result(part)
        self.known.update(dict.fromkeys(teachers.observables))
        if view.name not in teachers.observables:
            return None
        check_time(part, view.name)
        slow = any(teacher.problem.seconds for teacher in teachers.each)
        finer = None if slow else _finer(part, str(view.x), view.x_dim)
        if finer is not None and len({teacher.problem for teacher in teachers.each}) == 1:
            return _Path.of(Teachers.of_grid(finer[0]), finer[1], view)
        keep = np.unique(np.linspace(0, part.sizes[view.x_dim] - 1, _MOST_SLOW if slow else _MOST).astype(int))
        part = part.isel({view.x_dim: keep})
        return _Path.of(Teachers.of_result(part), part[view.name], view)

    def check(self) -> None:
        """Refuse a figure into which nothing could be drawn."""
        if not self.drawn:
            raise InputError(
                f"`bound=True` needs curves of {', '.join(self.known) or 'an error that has a best possible value'}; "
                "this figure has none."
            )


def _finer(part: xarray.Dataset, x: str, x_dim: str | None) -> tuple[Grid, xarray.DataArray] | None:
    """Return a curve at more points of a field than it has, without its values; None where `x` is no such field."""
    scenarios, fields = fields_of(part)
    (scenario,) = by_name(scenarios).values()  # a curve belongs to one of them
    number = scenario.numeric_fields().get(x)
    beside = [name for name, c in part.coords.items() if name != x and x_dim in c.dims]
    if x != x_dim or x not in fields or number is None or number[1].annotation is int or beside:
        return None
    own = np.unique(part[x].values.astype(float))
    if len(own) < 2 or not np.isfinite(own).all():
        return None
    spread = np.geomspace if own[0] > 0 and is_geometric(own) else np.linspace
    values = np.unique(np.concatenate([own, spread(own[0], own[-1], _MOST)]))
    coords = {x: values, **{name: c for name, c in part.coords.items() if not c.dims}}
    return Grid(scenario, {**fields, x: values}), xarray.DataArray(np.zeros(len(values)), coords, dims=[x])


class _Path:
    """The points of one bound.

    Attributes
    ----------
    x : (N,) where they stand.
    problems, samples, observables : (N,) what is learnt there, from how many samples, and how it is measured.
    named : whether names stand there, which no line joins.
    dotted : whether they are the steps of a trajectory, few enough to mark each.
    """

    def __init__(
        self, x: Array, problems: Sequence[BoundProblem], samples: Floats, observables: Sequence[BoundedError]
    ):
        self.x, self.problems, self.samples, self.observables = x, problems, samples, observables
        self.named, self.dotted = x.dtype.kind not in "fiu", False

    @classmethod
    def of(cls, teachers: Teachers, curve: xarray.DataArray, view: View) -> _Path:
        """Return the points of a curve."""
        seen = teachers.seen(view.name, curve)
        x = curve[view.x].values if view.x in curve.coords else np.arange(curve.size)
        places = [one.place for one in seen]
        samples = np.array([one.samples for one in seen], dtype=np.float64)
        path = cls(x[places], [one.problem for one in seen], samples, [one.observable for one in seen])
        path.dotted = view.x == "time" and len(places) < _MOST_DOTS
        return path

    def values(self, branch: str) -> Floats:
        """Return the bound in the units of the variable."""
        each = zip(self.problems, self.samples, self.observables)
        return np.array(
            [o.from_best(float(best_errors(p, np.array(a), o.name, branch)), p.flip) for p, a, o in each], np.float64
        )

    def draw(self, axes: Axes, values: Floats, dashes: Any, **look: Any) -> None:
        """Draw the line; names on the axis are not joined."""
        named = {"linestyle": "none", "marker": "_", "markersize": 12}
        line = named if self.named else {"linestyle": dashes, "linewidth": 1.2, "marker": "." if self.dotted else ""}
        axes.plot(np.arange(len(self.x)) if self.named else self.x, values, zorder=1.5, **line, **look)
