"""The limit of a comparison as a curve of its own: asked again between the points of
the experiment.

Along one dimension of a grid several fields may vary together, and the axis may be none
of them (n/p, say). The limit is asked between the points where each of them is a linear
function of the axis, or a power of it: only then is it known what they are there.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray

from giantstep.core.base.errors import GiantstepError
from giantstep.core.base.types import Floats
from giantstep.core.run.limit import ask_again
from giantstep.tools.figures.style import is_geometric

SECONDS = 4.0
"""Computing time that a curve may take; a slower limit has fewer points."""
MOST_POINTS = 240
"""Points of a curve: its pieces are shorter than anybody sees on a page, and a jump
stands where it is to 0.5%.
"""
SAME = 1e-6
"""Difference from the comparison's own numbers, relative to the largest of them, that
is another limit.
"""
STRAIGHT = 1e-9
"""Distance from a line, relative to the largest value, that is rounding."""


@dataclass(frozen=True)
class Relation:
    """How a coordinate follows the axis: intercept + slope x, or the exponential of
    that in log x.

    >>> twice = relation(np.array([1.0, 2.0, 4.0]), np.array([3.0, 6.0, 12.0]))
    >>> twice(np.array([0.5])), twice.inverse(np.array([1.5]))
    (array([1.5]), array([0.5]))
    >>> relation(np.array([1.0, 2.0, 4.0]), np.array([1.0, 4.0, 16.0]))(
    ...     np.array([3.0])
    ... ).round(12)
    array([9.])
    >>> relation(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 16.0])) is None
    True
    """

    intercept: float
    slope: float
    is_power: bool = False

    def __call__(self, x: Floats) -> Floats:
        """Return the coordinate at places of the axis."""
        if self.is_power:
            return np.exp(self.intercept + self.slope * np.log(x))
        return self.intercept + self.slope * x

    def inverse(self, values: Floats) -> Floats:
        """Return the places of the axis at which the coordinate has these values; its
        slope is not 0.
        """
        if self.is_power:
            return np.exp((np.log(values) - self.intercept) / self.slope)
        return (values - self.intercept) / self.slope


def relation(x: Floats, values: Floats) -> Relation | None:
    """Return how values follow an axis `x`, increasing; None where they are neither
    linear in it nor a power of it.
    """
    if len(x) < 2 or not np.isfinite(values).all():
        return None
    linear = _line_through(x, values)
    if _is_straight(linear(x), values):
        return linear
    if np.all(x > 0) and np.all(values > 0):
        logarithmic = _line_through(np.log(x), np.log(values))
        power = Relation(logarithmic.intercept, logarithmic.slope, is_power=True)
        if _is_straight(power(x), values):
            return power
    return None


def _line_through(x: Floats, values: Floats) -> Relation:
    """Return the line through the first and the last point."""
    slope = float((values[-1] - values[0]) / (x[-1] - x[0]))
    return Relation(float(values[0] - slope * x[0]), slope)


def _is_straight(found: Floats, values: Floats) -> bool:
    return bool(np.all(np.abs(found - values) <= STRAIGHT * np.max(np.abs(values))))


@dataclass(frozen=True)
class Path:
    """What varies along one dimension of a grid, as functions of the axis: fields, and
    coordinates that are none.
    """

    dim: str
    axis: str
    fields: Mapping[str, Relation]
    others: Mapping[str, Relation]

    def columns(self, x: Floats) -> dict[str, Floats]:
        """Return all that varies, at places of the axis."""
        return {
            name: follows(x) for name, follows in {**self.fields, **self.others}.items()
        }

    def asked_with(self, columns: Mapping[str, Floats]) -> dict[str, xarray.DataArray]:
        """Return the fields of a grid that has these columns along the dimension."""
        if self.dim in self.others:
            labels = {self.dim: columns[self.dim]}
        else:
            labels = {}
        return {
            name: xarray.DataArray(columns[name], labels, [self.dim])
            for name in self.fields
        }

    def labelled(
        self, answer: xarray.Dataset, columns: Mapping[str, Floats]
    ) -> xarray.Dataset:
        """Return an answer with those of the columns that are no fields as coordinates,
        too.
        """
        lacking = [name for name in self.others if name not in answer.coords]
        return answer.assign_coords(
            {name: ((self.dim,), columns[name]) for name in lacking}
        )

    def at_whole_numbers(self, x: Floats, dim: int) -> Floats:
        """Return places of the axis near `x` at which a network of this dimension has
        whole numbers of samples.
        """
        counts = [
            follows
            for n, follows in self.fields.items()
            if n.endswith("_per_dim") and follows.slope
        ]
        if not counts:
            return x
        return counts[0].inverse(np.round(counts[0](x) * dim) / dim)


def path_along(result: xarray.Dataset, x: str) -> Path | None:
    """Return what varies along the dimension of a coordinate; None where it is not
    known between the points.
    """
    if x not in result.coords or result[x].ndim != 1:
        return None
    dim = str(result[x].dims[0])
    beside = [str(name) for name, c in result.coords.items() if dim in c.dims]
    if any(
        result[name].ndim > 1 or result[name].dtype.kind not in "fiu" for name in beside
    ):
        return None
    ordered = result.coords.to_dataset().sortby(x)
    values = ordered[x].values.astype(float)
    if len(values) < 2 or np.any(np.diff(values) <= 0):
        return None
    found = {
        name: relation(values, ordered[name].values.astype(float)) for name in beside
    }
    known = {name: follows for name, follows in found.items() if follows is not None}
    if len(known) < len(beside):
        return None
    varying = json.loads(str(result.attrs["grid"]))
    fields = {name: follows for name, follows in known.items() if name in varying}
    others = {name: follows for name, follows in known.items() if name not in varying}
    return Path(dim, x, fields, others) if fields else None


def fine_limit(
    result: xarray.Dataset, x: str, variables: Sequence[str], source: str = "limit"
) -> xarray.Dataset | None:
    """Return a limit of a comparison on a fine grid along the axis `x`; None where it
    cannot be asked again.

    `source` is the layer: the bare limit, or the theory at the dimension of the
    experiment. Where it does not give the comparison's own numbers again, there is no
    curve.
    """
    if result.attrs.get("engine") != "comparison" or source not in result.get(
        "source", ()
    ):
        return None
    if "dim" in result.coords or "dim" in json.loads(
        result.attrs.get("scenario", "{}")
    ):
        return None  # whole numbers of samples differ from one dimension to the next
    if "grid" not in result.attrs:
        return None
    path = path_along(result, x)
    if path is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _asked_again(result, path, variables, source)
    except (GiantstepError, ValueError, KeyError, TypeError):
        # a scenario that lives in Python only, a field of whole numbers, a family that
        # is not there
        return None


def _asked_again(
    result: xarray.Dataset, path: Path, variables: Sequence[str], source: str
) -> xarray.Dataset | None:
    coarse = result.sel(source=source).sortby(path.axis)
    names = [*variables, "converged"]
    values = coarse[path.axis].values.astype(float)
    chosen = {
        name: c.values.item()
        for name, c in result.coords.items()
        if not c.dims and name != "source"
    }

    def ask(columns: Mapping[str, Floats]) -> xarray.Dataset:
        answer = ask_again(
            result, path.asked_with(columns), source, trials=result.attrs.get("trials")
        )
        answer = answer.sel(
            {name: value for name, value in chosen.items() if name in answer.dims}
        )
        return path.labelled(answer, columns)[names]

    given_columns = {
        name: coarse[name].values.astype(float) for name in path.columns(values)
    }
    start = time.process_time()
    ask({name: column[:1] for name, column in given_columns.items()})
    if time.process_time() - start > SECONDS / 2:
        return None  # nobody waits for so many points to see a smoother line
    start = time.process_time()
    known = ask(given_columns)
    seconds = (time.process_time() - start) / len(values)
    for name in variables:
        given = coarse[name]
        mine = known[name].transpose(*given.dims).where(_is_asked(given, path.dim))
        size = float(np.nanmax(np.abs(given.values), initial=0.0))
        if not np.allclose(
            mine, given, rtol=0, atol=SAME * size + 1e-12, equal_nan=True
        ):
            return None  # the limit does not give the numbers of the comparison again
    between = _spread(
        values, min(MOST_POINTS - len(values), int(SECONDS / max(seconds, 1e-6)))
    )
    dim = json.loads(str(result.attrs["settings"])).get("dim")
    if isinstance(dim, int) and source != "limit":  # whole numbers over a finite dim
        between = path.at_whole_numbers(between, dim)
    new = np.setdiff1d(between, values)
    if len(new):
        known = xarray.concat(
            [known, ask(path.columns(new))], path.dim, data_vars="minimal"
        ).sortby(path.axis)
    for name in variables:
        known[name] = known[name].where(_is_asked(coarse[name], path.dim))
    known["converged"] = known["converged"].where(
        _is_asked(coarse["converged"], path.dim), True
    )
    return known


def _is_asked(given: xarray.DataArray, dim: str) -> xarray.DataArray:
    """Tell which curves a comparison has: an experiment laid beside it may not have
    been asked for its limit.
    """
    return given.notnull().any(dim)


def _spread(values: Floats, count: int) -> Floats:
    """Return so many numbers between the ends of some values, evenly on the axis on
    which they are drawn.
    """
    wide = bool(np.all(values > 0)) and (
        is_geometric(values) or values[-1] > 50 * values[0]
    )
    between = np.geomspace if wide else np.linspace
    return np.asarray(between(values[0], values[-1], max(count, 0)), dtype=np.float64)
