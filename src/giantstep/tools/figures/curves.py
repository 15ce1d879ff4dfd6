"""The curves of a figure: the numbers of a view, engine by engine, the limit also
between the points of an experiment, and all samples as the horizontal axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xarray

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Array, Booleans, Floats
from giantstep.core.result.provenance import grid_of
from giantstep.tools.figures.fine import fine_limit, relation
from giantstep.tools.figures.layout import View
from giantstep.tools.figures.reading import Reading

ALL_SAMPLES = "all samples"
"""What a horizontal axis is asked for by that counts every sample a method sees, in its
steps and in its fit.
"""
_GROWS = 1e-9
"""Growth of the samples along a dimension, relative to all of their spread, below which
it is rounding.
"""


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


def curves_of(reading: Reading, view: View) -> Iterator[DrawnCurve]:
    """Yield the curves of a view, engine by engine."""
    sizes = [range(reading.data.sizes[dim]) for dim in view.others]
    for place, index in enumerate(itertools.product(*sizes)):
        point = dict(zip(view.others, index))
        for source in reading.sources:
            if reading.is_absent(view.name, source):
                continue
            if reading.has_no_theory(source, point):
                continue
            curve = _curve(reading, view, source=source, place=place, point=point)
            # beyond the last step of a shorter network there is nothing
            if np.isfinite(curve.y).any() or curve.failed.any():
                yield curve


def _curve(
    reading: Reading, view: View, *, source: str, place: int, point: dict[str, int]
) -> DrawnCurve:
    """Return one curve of one engine."""
    fine = _fine(reading, view, source, point)
    if fine is None:
        at = reading.data.sel(source=source).isel(point, missing_dims="ignore")
        x = reading.data[view.x].values
        error = _standard_errors(at, view.name)
    else:
        at = fine.isel(point, missing_dims="ignore")
        x = at[view.x].values
        error = None
    y = np.asarray(at[view.name].values, dtype=float)
    converged = np.asarray(at.get("converged", True), dtype=bool)
    if reading.all_samples is not None:
        counted = _samples_along(reading, view, point, x)
        if counted is not None:
            x = counted
    named = x.dtype.kind not in "fiu" or not reading.is_line(view.x_dim)
    # a limit beside an experiment that could not be asked between its points
    joined = (
        source != "experiment"
        and "experiment" in reading.sources
        and fine is None
        and not named
        and reading.is_field(view.x_dim)
    )
    return DrawnCurve(
        source=source,
        label=reading.label(point),
        place=place,
        x=x,
        y=y,
        error=error,
        failed=~np.broadcast_to(converged, y.shape),
        point=point,
        named=named,
        joined=joined,
        thin=source == "limit" and source != reading.judged,
    )


def _standard_errors(at: xarray.Dataset, name: str) -> Floats | None:
    """Return the standard errors of a variable; None where it has none above zero."""
    error = at.get(f"{name}_stderr", at.get(f"{name}_error"))
    if error is None or not np.any(error.fillna(0.0) > 0):
        return None
    return np.asarray(error, dtype=float)


# -- The limit between the points of an experiment -------------------------------------


def ask_fine_limit(
    reading: Reading, result: xarray.Dataset, views: Sequence[View]
) -> None:
    """Ask the limit of a comparison again, between the points of the curves of `views`;
    the reading keeps it.
    """
    if "experiment" not in reading.sources:
        return
    limits = [source for source in reading.sources if source != "experiment"]
    curves = [view for view in views if view.kind == "curves"]
    for source, x in itertools.product(limits, {view.x for view in curves}):
        names = [
            view.name
            for view in curves
            if view.x == x and not reading.is_absent(view.name, source)
        ]
        if not names:
            continue
        fine = fine_limit(result, x, names, source)
        if fine is not None:
            single = [dim for dim in fine.dims if fine.sizes[dim] == 1]
            reading.fine[source, x] = fine.squeeze(single)


def _fine(
    reading: Reading, view: View, source: str, point: dict[str, int]
) -> xarray.Dataset | None:
    """Return the fine limit of a curve; None where there is none, or where its samples
    between the points are not known.
    """
    fine = reading.fine.get((source, view.x))
    if fine is None or view.name not in fine:
        return None
    if reading.all_samples is not None:
        if _samples_along(reading, view, point, fine[view.x].values) is None:
            return None
    return fine


# -- All samples as the horizontal axis ------------------------------------------------


def count_samples(reading: Reading, names: Sequence[str]) -> str:
    """Let all samples that a method sees be the horizontal axis; return the coordinate
    that curves then run along.

    It is a field of numbers, or time, along which the samples grow.
    """
    # loads the families that have a best possible error: a second, for this axis alone
    from giantstep.problems.bounds.teachers import Teachers

    whole = reading.data.isel(source=0).assign_attrs(reading.attrs)
    longest = max((whole[name] for name in names), key=lambda values: values.ndim)
    samples = Teachers(grid_of(whole)).samples(longest)
    grown = samples.max() - samples.min()
    along = []
    for dim in map(str, samples.dims):
        coordinate = reading.coordinate(dim)
        spread = samples.max(dim) - samples.min(dim)
        grows = bool((spread > _GROWS * grown).any())
        if coordinate is not None and dim in reading.data.coords and grows:
            along.append(coordinate)
    if not along:
        raise InputError(
            f'x="{ALL_SAMPLES}" needs a field of numbers, or time, along which the'
            " samples grow."
        )
    reading.all_samples = samples
    return max(along, key=lambda name: reading.data[name].size)


def _samples_along(
    reading: Reading, view: View, point: dict[str, int], x: Array
) -> Floats | None:
    """Return all samples at places `x` of a curve; None where they are not known
    between its points.
    """
    assert reading.all_samples is not None
    samples = reading.all_samples.isel(point, missing_dims="ignore")
    known = samples.values.astype(float)
    given = reading.data[view.x].values
    if np.array_equal(given, x):
        return known
    order = np.argsort(given)
    follows = relation(given[order].astype(float), known[order])
    if follows is None:
        return None
    return follows(x)
