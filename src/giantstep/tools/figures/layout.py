"""What a figure of a result shows, chosen by the dimensions of its variables alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray

from giantstep.core.base.errors import InputError, nearest
from giantstep.core.base.types import Array, Booleans, Floats
from giantstep.core.result.comparison import called, judged_source
from giantstep.core.result.notes import missing_theories
from giantstep.core.result.provenance import (
    grid_of,
    has_classes,
    main_variables,
    question_of,
)
from giantstep.core.scenario.dimensions import (
    Dimension,
    dimension_named,
    long_dimensions,
)
from giantstep.core.scenario.family import DIAGNOSTICS, Question, Variable
from giantstep.tools.figures.fine import fine_limit, relation
from giantstep.tools.figures.labels import name_of, short_symbol, value_label

FEW = 8
"""A second numeric dimension up to this length is a family of curves, a longer one
makes a heat map.
"""
MOST = 60
"""Curves beyond which a figure shows nothing any more."""
TOGETHER = 9
"""Curves of two fields, or of a field and other entries, beyond which each value of a
field has a panel of its own.
"""
CROWD = 18
"""Curves of several kinds beyond which two fields make maps."""
ALL_SAMPLES = "all samples"
"""What a horizontal axis is asked for by that counts every sample a method sees, in its
steps and in its fit.
"""
PANELS = 9
"""Maps of one variable beyond which a figure shows nothing any more."""

Kind = Literal["curves", "spectrum", "map", "names", "table"]


@dataclass(frozen=True)
class DrawnCurve:
    """One curve of one engine: its points, standard errors, and which of them were not
    computed.
    """

    source: str
    label: str
    # which colour it has: curves of the two engines at the same point share one
    place: int
    x: Array
    y: Floats
    error: Floats | None
    failed: Booleans
    point: dict[str, int]  # its place along the dimensions that tell the curves apart
    # whether `x` are names or counts rather than numbers, so that no line joins them
    named: bool
    # whether it is a limit at the experiment's points only, so that its line says
    # nothing between them
    joined: bool
    # whether it is the bare limit beside the theory that the experiment is compared
    # with
    thin: bool


@dataclass(frozen=True)
class View:
    """How one variable is drawn."""

    kind: Kind
    name: str
    array: xarray.DataArray
    x: str = ""  # the coordinate along the horizontal axis; a table has none
    x_dim: str = ""
    # dimensions that tell the curves apart; of a map, the vertical one, then those with
    # a panel for each entry
    others: tuple[str, ...] = ()
    apart: str | None = (
        # dimension of the grid with a panel for each entry, where one has too many
        # curves
        None
    )


class Reading:
    """A result as a figure reads it: trials averaged, ``source`` always there, no dims
    of length one.
    """

    def __init__(self, result: xarray.Dataset) -> None:
        if not isinstance(result, xarray.Dataset):
            what = (
                "plot takes a result of a verb (an xarray.Dataset), not"
                f" {type(result).__name__}"
            )
            raise InputError(f"{what}; of a report plot the comparison.")
        self.attrs = result.attrs
        if "trial" in result.dims:
            result = over_trials(result)
        if "source" not in result.dims:
            errors = any(str(name).endswith("_stderr") for name in result.data_vars)
            engine = result.attrs.get("engine", "experiment" if errors else "limit")
            result = result.drop_vars("source", errors="ignore").expand_dims(
                source=[str(engine)]
            )
        single = [
            dim for dim in result.dims if dim != "source" and result.sizes[dim] == 1
        ]
        self.data = _with_complex_names(result.squeeze(single))
        self.sources = [str(source) for source in self.data["source"].values]
        self.judged = judged_source(self.data)
        """The layer that the experiment is compared with; another one is drawn thinly
        beside it.
        """
        if self.judged in self.sources:
            self.main = self.judged
        else:
            self.main = self.sources[0]
        """The layer to show where only one can be."""
        self.fine: dict[tuple[str, str], xarray.Dataset] = {}
        """Layer and coordinate -> the limit on a fine grid along it, with the dims of
        `data` but for ``source``.
        """
        self.all_samples: xarray.DataArray | None = None
        """Samples per dimension that the method of every entry has seen, where they are
        the horizontal axis.
        """

    @property
    def is_compared(self) -> bool:
        """Whether an experiment stands beside a limit."""
        return "experiment" in self.sources and self.main != "experiment"

    def called(self, source: str) -> str:
        """Return what a legend calls a layer."""
        return called(self.data, source)

    def layer(self, columns: Any, source: str | None = None) -> Any:
        """Return one layer of a variable (or of several), the one to show if left out;
        some have no layers.
        """
        if "source" in columns.dims:
            return columns.sel(source=source or self.main)
        return columns

    def ask_fine_limit(self, result: xarray.Dataset, views: Sequence[View]) -> None:
        """Ask the limit of a comparison again, between the points of the curves of
        `views`.
        """
        if "experiment" not in self.sources:
            return
        across = {view.x for view in views if view.kind == "curves"}
        for source, x in itertools.product(
            (s for s in self.sources if s != "experiment"), across
        ):
            names = [
                view.name for view in views if view.x == x and view.kind == "curves"
            ]
            solved = [name for name in names if not self._is_absent(name, source)]
            found = fine_limit(result, x, solved, source) if solved else None
            if found is not None:
                self.fine[source, x] = found.squeeze(
                    [dim for dim in found.dims if found.sizes[dim] == 1]
                )

    def count_samples(self, names: Sequence[str]) -> str:
        """Let all samples that a method sees be the horizontal axis; return the
        coordinate that curves then run along.

        It is a field of numbers, or time, along which the samples grow.
        """
        from giantstep.problems.bounds.best import Teachers

        whole = self.data.isel(source=0).assign_attrs(self.attrs)
        longest = max((whole[name] for name in names), key=lambda values: values.ndim)
        samples = Teachers(grid_of(whole)).samples(longest)
        grown = samples.max() - samples.min()
        along = []
        for dim in map(str, samples.dims):
            coordinate = self.coordinate(dim)
            spread = samples.max(dim) - samples.min(dim)
            if (
                coordinate is not None
                and dim in self.data.coords
                and bool((spread > 1e-9 * grown).any())
            ):
                along.append(coordinate)
        if not along:
            raise InputError(
                f'x="{ALL_SAMPLES}" needs a field of numbers, or time, along which the'
                " samples grow."
            )
        self.all_samples = samples
        return max(along, key=lambda name: self.data[name].size)

    def _samples_along(
        self, view: View, point: dict[str, int], x: Array
    ) -> Floats | None:
        """Return all samples at places `x` of a curve; None where they are not known
        between its points.
        """
        assert self.all_samples is not None
        own = self.all_samples.isel(point, missing_dims="ignore").values.astype(float)
        given = self.data[view.x].values
        if np.array_equal(given, x):
            return own
        order = np.argsort(given)
        follows = relation(given[order].astype(float), own[order])
        return None if follows is None else follows(x)

    # -- variables ---------------------------------------------------------------------

    def chosen(self, variables: str | Sequence[str] | None) -> list[str]:
        """Return the variables asked for, or those the family shows by default."""
        drawable = [
            str(name)
            for name, data in self.data.data_vars.items()
            if data.dtype.kind in "fiubUO"
        ]
        own = [
            name
            for name in drawable
            if name not in DIAGNOSTICS and self.data[name].dtype.kind in "fiub"
        ]
        sides = ("_stderr", "_error", "_gap", "_z", "_twin", "_twin_stderr")
        parts = {f"{name}{side}" for name in self.data.data_vars for side in sides}
        known = [name for name in own if name not in parts]
        if variables is None:
            if not known:
                raise InputError("The result has no variable that can be drawn.")
            shown = [name for name in main_variables(self.attrs) if name in known]
            # no fraction of wrong labels without labels
            return (
                [
                    n
                    for n in shown
                    if np.isfinite(self.data[n].values.astype(float)).any()
                ]
                or shown[:1]
                or known[:1]
            )
        if isinstance(variables, str):
            wanted = [variables]
        else:
            wanted = list(variables)
        for name in wanted:
            if name not in drawable:
                hint = nearest(name, drawable)
                raise InputError(
                    f"There is no variable `{name}` in the result{hint}; it has"
                    f" {', '.join(known)}."
                )
        if not wanted:
            raise InputError("plot needs at least one variable.")
        return wanted

    def question(self) -> Question | None:
        """Return the question the result answers, where the result knows it."""
        return question_of(self.attrs)

    def variable(self, name: str) -> Variable | None:
        """Return what the question declares of a variable, where the result knows
        it.
        """
        question = self.question()
        if question is None:
            return None
        return next((v for v in question.variables if v.name == name), None)

    def classes(self) -> bool | None:
        """Tell whether the labels of the scenario are classes; None where they vary or
        nobody knows.
        """
        return has_classes(self.data.assign_attrs(self.attrs))

    def dimension(self, name: str) -> Dimension:
        """Return what is declared of a dimension, by the question where the result
        knows it.
        """
        question = self.question()
        if question is None:
            return dimension_named(name)
        return question.dimension(name)

    # -- views -------------------------------------------------------------------------

    def view(self, name: str, x: str | None = None) -> View:
        """Choose how a variable is drawn."""
        array = self.data[name]
        dims = [str(dim) for dim in array.dims if dim != "source"]
        if x is not None:
            lines = [
                str(n)
                for n, c in self.data.coords.items()
                if c.ndim == 1 and c.dims[0] in dims and n != "source"
            ]
            if x not in {*lines, *dims}:
                allowed = ", ".join(dict.fromkeys([*lines, *dims])) or "none"
                raise InputError(f"`x` must be one of {allowed}, but is x={x!r}.")
        coordinate = self._horizontal(dims) if x is None else x
        if coordinate is None:
            return View("table", name, array)
        x_dim = str(self.data[coordinate].dims[0])
        others = tuple(dim for dim in dims if dim != x_dim)
        rows = self._rows_of_map(x_dim, others)
        kind: Kind = "curves"
        if array.dtype.kind in "UO":
            kind = "names"
        elif dimension_named(x_dim).role == "spectrum":
            kind = "spectrum"
        elif rows and (
            self.data.sizes[rows] > FEW
            or (self.count(others) > CROWD and len(others) > 1)
        ):
            kind = "map"
        if rows and kind in ("map", "names"):
            others = (rows, *(dim for dim in others if dim != rows))
        apart = None
        if kind == "curves" and self.count(others) > TOGETHER and len(others) > 1:
            apart = next(
                (
                    d
                    for d in others
                    if self._is_field(d) and 1 < self.data.sizes[d] <= PANELS
                ),
                None,
            )
        others = tuple(dim for dim in others if dim != apart)
        count = self.count(others[kind in ("map", "names") :])
        if count > (PANELS if kind in ("map", "names") else MOST):
            many = (
                f"`{name}` has {count} curves over `{coordinate}`, too many for one"
                " figure"
            )
            raise InputError(
                f"{many}; choose some along {', '.join(others)} (result.isel,"
                " result.sel)."
            )
        return View(kind, name, array, coordinate, x_dim, others, apart)

    def _horizontal(self, dims: Sequence[str]) -> str | None:
        roles = {dimension_named(dim).role: dim for dim in reversed(dims)}
        if "spectrum" in roles:
            return roles["spectrum"]
        own = [
            dim
            for dim in dims
            if self.data.sizes[dim] > FEW and self._is_function_of(dim)
        ]
        if own and self.data.sizes.get(roles.get("trajectory", ""), 0) <= FEW:
            return own[0]
        grid = [dim for dim in dims if not _is_own(dim)]
        numeric = [dim for dim in grid if self.coordinate(dim) is not None]
        longest = max(numeric, key=lambda dim: self.data.sizes[dim], default=None)
        times = roles.get("trajectory")
        if times is not None and longest is None:
            return times
        if times is not None and longest is not None:
            sizes = self.data.sizes
            others = [dim for dim in dims if dim != longest]
            rows = self._rows_of_map(longest, others)
            if rows and sizes[rows] > FEW:  # a map for each of the times
                others.remove(rows)
            # a curve over a field for each of few times shows more than trajectories
            if sizes[times] > min(FEW, sizes[longest]) or self.count(others) > CROWD:
                return times
        if longest is not None:
            return self.coordinate(longest)
        rest = grid or long_dimensions(dims) or list(dims)
        if rest:
            return max(rest, key=lambda dim: self.data.sizes[dim])
        return None

    def coordinate(self, dim: str) -> str | None:
        """Return the coordinate with the numbers along a dimension, or None where there
        are only names.
        """
        lines = [str(name) for name, c in self.data.coords.items() if c.dims == (dim,)]
        numbers = [name for name in lines if self.data[name].dtype.kind in "fiu"]
        if numbers:
            if dim in numbers:
                return dim
            return numbers[0]
        if not lines:
            return dim
        return None

    def _is_function_of(self, dim: str) -> bool:
        """Tell whether a dimension holds the argument of a function: a curve, or
        numbers that no field has.
        """
        role = dimension_named(dim).role
        numbers = self.data.coords.get(dim)
        is_own = role == "curve" or (
            role == "values" and "converged" in self.data and not self._is_field(dim)
        )
        return is_own and numbers is not None and numbers.dtype.kind == "f"

    def _rows_of_map(self, x_dim: str, others: Sequence[str]) -> str | None:
        """Return the one other dimension with the numbers of a field, where that makes
        a map with `x_dim`.
        """
        rows = [
            dim
            for dim in others
            if not _is_own(dim) and self.coordinate(dim) is not None
        ]
        if len(rows) == 1 and not _is_own(x_dim) and self.coordinate(x_dim) is not None:
            return rows[0]
        return None

    # -- numbers -----------------------------------------------------------------------

    def curves(self, view: View) -> Iterator[DrawnCurve]:
        """Yield the curves of a view, engine by engine."""
        sizes = [range(self.data.sizes[dim]) for dim in view.others]
        alone = "experiment" not in self.sources
        for place, index in enumerate(itertools.product(*sizes)):
            point = dict(zip(view.others, index))
            for source in self.sources:
                if self._is_absent(view.name, source) or self._has_no_theory(
                    source, point
                ):
                    continue
                fine = self.fine.get((source, view.x))
                if fine is not None and self.all_samples is not None:
                    known = self._samples_along(view, point, fine[view.x].values)
                    fine = None if known is None else fine
                is_fine = fine is not None and view.name in fine
                if fine is not None and is_fine:
                    data = fine
                else:
                    data = self.data.sel(source=source)
                at = data.isel(point, missing_dims="ignore")
                x = at[view.x].values if is_fine else self.data[view.x].values
                y = np.asarray(at[view.name].values, dtype=float)
                failed = ~np.broadcast_to(
                    np.asarray(at.get("converged", True), dtype=bool), y.shape
                )
                if (
                    not np.isfinite(y).any() and not failed.any()
                ):  # beyond the last step of a shorter network
                    continue
                if is_fine:
                    error = None
                else:
                    error = at.get(f"{view.name}_stderr", at.get(f"{view.name}_error"))
                if error is None or not np.any(error.fillna(0.0) > 0):
                    bars = None
                else:
                    bars = np.asarray(error, dtype=float)
                if self.all_samples is not None:
                    counted = self._samples_along(view, point, x)
                    x = x if counted is None else counted
                named = x.dtype.kind not in "fiu" or not self._is_line(view.x_dim)
                joined = (
                    source != "experiment"
                    and not (alone or is_fine or named)
                    and self._is_field(view.x_dim)
                )
                thin = source == "limit" != self.judged
                yield DrawnCurve(
                    source,
                    self.label(point),
                    place,
                    x,
                    y,
                    bars,
                    failed,
                    point,
                    named,
                    joined,
                    thin,
                )

    def count(self, dims: Iterable[str]) -> int:
        """Return how many entries dimensions have together."""
        return math.prod(self.data.sizes[dim] for dim in dims)

    def _is_field(self, dim: str) -> bool:
        return "converged" in self.data and dim in self.data["converged"].dims

    def _is_line(self, dim: str) -> bool:
        """Tell whether a line may join neighbours along a dimension."""
        declared = self.dimension(dim)
        return declared.joined and declared.role != "entries"

    def _is_absent(self, name: str, source: str) -> bool:
        """Tell whether an engine does not answer this variable at all (it is NaN
        everywhere).
        """
        values = self.layer(self.data[name], source).values.astype(float)
        return bool(np.all(np.isnan(values))) and len(self.sources) > 1

    def _has_no_theory(self, source: str, point: dict[str, int]) -> bool:
        """Tell whether a curve has no theory at any of its points: there is nothing
        that was not computed.
        """
        refused = missing_theories(self.attrs)
        if not refused or source == "experiment":
            return False
        status = self.layer(self.data["status"], source).isel(
            point, missing_dims="ignore"
        )
        return bool(np.isin(status.values, refused).all())

    def label(self, point: dict[str, int]) -> str:
        """Return the legend entry of a point: ``lambda = 0.1, relu``."""
        parts = []
        for dim, place in point.items():
            name = self.coordinate(dim)
            if name is None or (name == dim and dim not in self.data.coords):
                values = self.data.coords.get(dim)
                called = f"{dim} = " if dimension_named(dim).role == "curve" else ""
                parts.append(
                    f"{called}{values.values[place]}"
                    if values is not None
                    else f"{name_of(dim)} {place + 1}"
                )
            elif dimension_named(dim).role == "trajectory":
                made, (unit, *_) = (
                    self.data[name].values[place],
                    self.dimension(dim).label.split(),
                )
                parts.append(
                    f"after {value_label(made)}"
                    f" {unit.removesuffix('s') if made == 1 else unit}"
                )
            elif _is_own(dim):
                second = "second " if dim.endswith("_2") else ""
                parts.append(
                    f"{second}{dim.removesuffix('_2')}"
                    f" {value_label(self.data[name].values[place])}"
                )
            else:
                symbol = short_symbol(self.data[name], name)
                parts.append(f"{symbol} = {value_label(self.data[name].values[place])}")
        return ", ".join(parts)

    def is_ordered(self, view: View) -> bool:
        """Tell whether the curves stand for increasing numbers, so that their colours
        should too.
        """
        return (
            len(view.others) == 1
            and not _is_own(view.others[0])
            and self.coordinate(view.others[0]) is not None
        )


def _is_own(dim: str) -> bool:
    """Tell whether a dimension is none of the grid's, and not drawn like one either."""
    return dimension_named(dim).role != "values"


def _with_complex_names(result: xarray.Dataset) -> xarray.Dataset:
    """Give dimensions of complex points their numbers: names such as ``1+1i``, or the
    part that varies alone.
    """
    for dim in [
        str(dim)
        for dim in result.dims
        if {f"{dim}_real", f"{dim}_imag"} <= set(result.coords)
    ]:
        parts = [result[f"{dim}_{name}"].values for name in ("real", "imag")]
        varying = [part for part in parts if np.ptp(part) > 0]
        names = [f"{re:g}{im:+g}i" if im else f"{re:g}" for re, im in zip(*parts)]
        values = varying[0] if len(varying) == 1 else np.array(names)
        result = result.drop_vars([f"{dim}_real", f"{dim}_imag", dim]).assign_coords(
            {dim: values}
        )
    return result


def over_trials(result: xarray.Dataset) -> xarray.Dataset:
    """Return means over the trials of a result that kept them, with their standard
    errors.
    """
    averaged = result.copy()
    for name, values in result.data_vars.items():
        if "trial" not in values.dims:
            continue
        averaged[name] = values.mean("trial", keep_attrs=True)
        if f"{name}_stderr" not in result and values.dtype.kind == "f":
            averaged[f"{name}_stderr"] = values.std("trial", ddof=1) / np.sqrt(
                values.notnull().sum("trial")
            )
    return averaged.drop_dims("trial", errors="ignore")
