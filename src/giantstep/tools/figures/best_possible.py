"""The best possible error under the curves of a figure: for each curve that of its own
scenario and samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray

from giantstep.core.base.errors import InputError
from giantstep.core.base.progress import ProgressOption
from giantstep.core.base.types import Array, Floats
from giantstep.core.result.provenance import fields_of, grid_of
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.several import by_name
from giantstep.problems.bounds.best import watched
from giantstep.problems.bounds.curve import BoundCurve, BoundProblem
from giantstep.problems.bounds.teachers import Seen, Teachers, check_time
from giantstep.tools.figures.style import DASHED, DOTTED, GREY, is_geometric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from giantstep.tools.figures.layout import View
    from giantstep.tools.figures.reading import Reading

BEST = "best possible"
PASSED = "message passing"
"""What a legend calls the two bounds."""
_MOST = 41
_MOST_SLOW = 9
"""Points of a bound at most, and where each of them takes seconds."""

_MOST_DOTS = 12
"""Steps of a trajectory up to which each is marked on its bound."""


class _BoundLine(NamedTuple):
    """One bound of every curve of a panel, and how it is drawn."""

    bounds: list[Floats]
    dashes: Any
    label: str


class BoundDrawer:
    """Draws bounds into the panels of one figure, and keeps what was drawn; `progress`
    is that of `plot`.
    """

    def __init__(self, progress: ProgressOption) -> None:
        self.progress = progress
        self.known = dict[str, None]()
        self.drawn = False
        self._curves: dict[BoundProblem, BoundCurve] = {}

    def draw(
        self, axes: Axes, reading: Reading, view: View, colours: Mapping[int, Any]
    ) -> list[Any]:
        """Draw the bounds under the curves of a view, each in the colour of its curve;
        return entries of the legend.
        """
        from matplotlib.lines import Line2D

        paths: dict[int, _Path] = {}
        for place in colours:
            path = self._path(reading, view, place)
            if path is not None:
                paths[place] = path
        if not paths:
            return []
        lines = self._lines(list(paths.values()))
        self.drawn = True
        problems = {one.problem for path in paths.values() for one in path.seen}
        # over all samples the curves are pieces of one: that of the only problem
        pieces = reading.all_samples is not None and len(problems) == 1
        for line in lines:
            drawn = list(zip(paths.items(), line.bounds))
            alike = len({path.key(bound) for (_, path), bound in drawn}) == 1
            if alike:
                drawn = drawn[:1]
            for (place, path), bound in drawn:
                colour = colours[place]
                if alike or pieces:
                    colour = GREY
                path.draw(axes, bound, line.dashes, color=colour, label=line.label)
        return [
            Line2D(
                [],
                [],
                color=GREY,
                linestyle=line.dashes,
                linewidth=1.2,
                label=line.label,
            )
            for line in lines
        ]

    def _lines(self, paths: Sequence[_Path]) -> list[_BoundLine]:
        """Return the best possible errors and those of message passing, or the former
        alone where the latter are the same.
        """
        samples: dict[BoundProblem, set[float]] = {}
        for one in itertools.chain.from_iterable(path.seen for path in paths):
            samples.setdefault(one.problem, set()).add(one.samples)
        counts = {problem: len(alpha) for problem, alpha in samples.items()}
        with watched(counts, self.progress) as bar:
            for problem in samples:
                self._curves.setdefault(problem, BoundCurve(problem)).bar = bar
            best = [path.values(self._curves, "bayes") for path in paths]
            passed = [path.values(self._curves, "uninformed") for path in paths]
        reached = all(
            np.allclose(bayes, uninformed, equal_nan=True)
            for bayes, uninformed in zip(best, passed)
        )
        if reached:
            return [_BoundLine(best, DASHED, f"{BEST}; message passing reaches it")]
        return [_BoundLine(best, DASHED, BEST), _BoundLine(passed, DOTTED, PASSED)]

    def _path(self, reading: Reading, view: View, place: int) -> _Path | None:
        """Return where the bound of one curve is computed; None where its variable has
        none.
        """
        point = map(
            int,
            np.unravel_index(place, [reading.data.sizes[dim] for dim in view.others]),
        )
        part = reading.data.isel(dict(zip(view.others, point))).assign_attrs(
            reading.attrs
        )
        if "source" in part.dims:
            part = part.isel(source=0)
        teachers = Teachers(grid_of(part))
        self.known.update(dict.fromkeys(teachers.observables))
        if view.name not in teachers.observables:
            return None
        check_time(part, view.name)
        slow = any(teacher.problem.seconds for teacher in teachers.each)
        finer = None
        most = _MOST_SLOW
        if not slow:
            finer = _finer(part, str(view.x), view.x_dim)
            most = _MOST
        problems = {teacher.problem for teacher in teachers.each}
        if finer is not None and len(problems) == 1:
            grid, curve = finer
        else:
            even = np.linspace(0, part.sizes[view.x_dim] - 1, most)
            part = part.isel({view.x_dim: np.unique(even.astype(int))})
            grid = grid_of(part)
            curve = part[view.name]
        seen = Teachers(grid).seen(view.name, curve)
        dotted = view.x == "time" and len(seen) < _MOST_DOTS
        if reading.all_samples is not None:
            return _Path(np.array([one.samples for one in seen]), seen, dotted)
        if view.x in curve.coords:
            x = curve[view.x].values
        else:
            x = np.arange(curve.size)
        return _Path(x[[one.place for one in seen]], seen, dotted)

    def check(self) -> None:
        """Refuse a figure into which nothing could be drawn."""
        if not self.drawn:
            curves = ", ".join(self.known) or "an error that has a best possible value"
            raise InputError(
                f"`bound=True` needs curves of {curves}; this figure has none."
            )


def _finer(
    part: xarray.Dataset, x: str, x_dim: str | None
) -> tuple[Grid, xarray.DataArray] | None:
    """Return a curve at more points of a field than it has, without its values; None
    where `x` is no such field.
    """
    scenarios, fields = fields_of(part)
    (scenario,) = by_name(scenarios).values()  # a curve belongs to one of them
    number = scenario.numeric_fields().get(x)
    beside = [name for name, c in part.coords.items() if name != x and x_dim in c.dims]
    if (
        x != x_dim
        or x not in fields
        or number is None
        or number[1].annotation is int
        or beside
    ):
        return None
    own = np.unique(part[x].values.astype(float))
    if len(own) < 2 or not np.isfinite(own).all():
        return None
    if own[0] > 0 and is_geometric(own):
        between = np.geomspace(own[0], own[-1], _MOST)
    else:
        between = np.linspace(own[0], own[-1], _MOST)
    values = np.unique(np.concatenate([own, between]))
    coords = {x: values, **{name: c for name, c in part.coords.items() if not c.dims}}
    return Grid(scenario, {**fields, x: values}), xarray.DataArray(
        np.zeros(len(values)), coords, dims=[x]
    )


class _Path(NamedTuple):
    """The points of one bound: where they stand, and what is learnt there; of a
    trajectory, few enough to mark each.
    """

    x: Array
    seen: Sequence[Seen]
    dotted: bool

    def values(self, curves: Mapping[BoundProblem, BoundCurve], branch: str) -> Floats:
        """Return the bound in the units of the variable."""
        values = []
        for one in self.seen:
            error = curves[one.problem].error(one.samples, one.observable.name, branch)
            values.append(one.observable.from_best(error, one.problem.flip))
        return np.array(values)

    def key(self, values: Floats) -> tuple[bytes, bytes]:
        """Return what two bounds have in common that lie on each other."""
        return self.x.tobytes(), values.tobytes()

    def draw(self, axes: Axes, values: Floats, dashes: Any, **look: Any) -> None:
        """Draw the line; names on the axis are not joined."""
        if self.x.dtype.kind not in "fiu":
            axes.plot(
                np.arange(len(self.x)), values, "_", markersize=12, zorder=1.5, **look
            )
            return
        marker = ""
        if self.dotted:
            marker = "."
        axes.plot(
            self.x,
            values,
            linestyle=dashes,
            linewidth=1.2,
            marker=marker,
            zorder=1.5,
            **look,
        )
