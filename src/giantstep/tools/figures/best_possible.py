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

LINES = (("bayes", DASHED, "best possible"), ("uninformed", DOTTED, "message passing"))
_MOST = 41
_MOST_SLOW = 9
"""Points of a bound at most, and where each of them takes seconds."""

_MOST_DOTS = 12
"""Steps of a trajectory up to which each is marked on its bound."""


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

        paths = [self._path(reading, view, place) for place in colours]
        shown = {place: path for place, path in zip(colours, paths) if path is not None}
        if not shown:
            return []
        wanted: dict[BoundProblem, set[float]] = {}
        for one in itertools.chain.from_iterable(path.seen for path in shown.values()):
            wanted.setdefault(one.problem, set()).add(one.samples)
        with watched(
            {problem: len(alpha) for problem, alpha in wanted.items()}, self.progress
        ) as bar:
            for problem in wanted:
                self._curves.setdefault(problem, BoundCurve(problem)).bar = bar
            best, passed = (
                [p.values(self._curves, branch) for p in shown.values()]
                for branch, *_ in LINES
            )
        self.drawn = True
        lines = [(best, *LINES[0][1:]), (passed, *LINES[1][1:])]
        if all(
            np.allclose(own, other, equal_nan=True) for own, other in zip(best, passed)
        ):
            lines = [(best, DASHED, f"{LINES[0][2]}; message passing reaches it")]
        for bounds, dashes, label in lines:
            alike = (
                len(
                    {
                        (path.x.tobytes(), bound.tobytes())
                        for path, bound in zip(shown.values(), bounds)
                    }
                )
                == 1
            )
            # pieces of one curve
            one_curve = alike or (reading.all_samples is not None and len(wanted) == 1)
            for (place, path), bound in list(zip(shown.items(), bounds))[
                : 1 if alike else None
            ]:
                path.draw(
                    axes,
                    bound,
                    dashes,
                    color=GREY if one_curve else colours[place],
                    label=label,
                )
        return [
            Line2D([], [], color=GREY, linestyle=dashes, linewidth=1.2, label=label)
            for _, dashes, label in lines
        ]

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
        part = part.isel(source=0) if "source" in part.dims else part
        teachers = Teachers(grid_of(part))
        self.known.update(dict.fromkeys(teachers.observables))
        if view.name not in teachers.observables:
            return None
        check_time(part, view.name)
        slow = any(teacher.problem.seconds for teacher in teachers.each)
        finer = None if slow else _finer(part, str(view.x), view.x_dim)
        if (
            finer is not None
            and len({teacher.problem for teacher in teachers.each}) == 1
        ):
            grid, curve = finer
        else:
            keep = np.unique(
                np.linspace(
                    0, part.sizes[view.x_dim] - 1, _MOST_SLOW if slow else _MOST
                ).astype(int)
            )
            part = part.isel({view.x_dim: keep})
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
        errors = [
            curves[one.problem].error(one.samples, one.observable.name, branch)
            for one in self.seen
        ]
        return np.array(
            [
                one.observable.from_best(e, one.problem.flip)
                for one, e in zip(self.seen, errors)
            ]
        )

    def draw(self, axes: Axes, values: Floats, dashes: Any, **look: Any) -> None:
        """Draw the line; names on the axis are not joined."""
        if self.x.dtype.kind not in "fiu":
            axes.plot(
                np.arange(len(self.x)), values, "_", markersize=12, zorder=1.5, **look
            )
            return
        marker = "." if self.dotted else ""
        axes.plot(
            self.x,
            values,
            linestyle=dashes,
            linewidth=1.2,
            marker=marker,
            zorder=1.5,
            **look,
        )
