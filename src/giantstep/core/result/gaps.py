"""The gaps of one variable of a comparison, summed up in a row of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray

from giantstep.core.base.types import Booleans, Floats
from giantstep.core.result.comparison import left_open_by, with_spread
from giantstep.core.result.layers import approximations, judged_side, judged_source
from giantstep.core.result.provenance import question_of
from giantstep.core.result.report import AgreementRow
from giantstep.core.result.twins import GapSplit
from giantstep.core.result.verdicts import (
    chance_line,
    student_line,
    visible_gap,
)
from giantstep.core.scenario.dimensions import dimension_named
from giantstep.core.scenario.family import Variable

LEAST = 0.01
"""Part of a variable's largest value below which a gap is no longer relative to the
value itself.
"""


@dataclass(frozen=True)
class _Gaps:
    """The gaps of one variable and what they are held against; arrays have the dims of
    the gap, whose own ones may have length 1.
    """

    experiment_minus_theory: xarray.DataArray
    theory: xarray.DataArray
    scale: Floats  # what a gap is relative to
    here: Floats  # size of the variable at the same point and time
    elsewhere: Floats  # its size elsewhere
    z: Floats  # |z|; NaN where nothing was compared
    stderr: Floats  # joint standard error of both sides
    spread: Floats  # of one trial; what some entries lack is taken from the others

    @property
    def compared(self) -> Booleans:
        """Where there is a score."""
        return ~np.isnan(self.z)

    @property
    def relative(self) -> Floats:
        """Relative sizes of the gaps; no gap is none, even where the scale is 0."""
        size = np.abs(self.experiment_minus_theory.values)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(size == 0, 0.0, size / self.scale)
        return np.where(self.compared, relative, np.nan)


def agreement_row(
    result: xarray.Dataset, name: str, trials: int, least: float
) -> AgreementRow:
    """Return the agreement of one variable; its gaps are relative to `least` where the
    variable is smaller.
    """
    gaps = _gaps_of(result, name, trials, least)
    points = int(gaps.compared.sum())
    if points == 0:
        return AgreementRow(
            variable=name,
            points=0,
            largest_z=np.nan,
            chance_z=np.nan,
            largest_relative_gap=np.nan,
            smallest_visible=np.nan,
            failed_gap=np.inf,
            trials=trials,
        )
    line = chance_line(points)
    beyond = gaps.compared & (gaps.z > line)
    relative = gaps.relative
    finite = np.isfinite(relative)
    largest = _place_of_largest(np.where(finite, relative, -1.0))
    # of a variable that disagrees the place is that of its worst number
    shown = largest
    if beyond.any():
        shown = _place_of_largest(np.where(beyond, relative, -1.0))
    variable = _declared(result, name)
    left_open, because = _left_open(result, variable, gaps)
    on_line, visible = _visible(gaps, line, trials, variable)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_one_trial = (gaps.spread * np.sqrt(trials) / gaps.scale)[largest]
    visible_there = float(visible_gap(of_one_trial, trials, points))
    return AgreementRow(
        variable=name,
        points=points,
        largest_z=float(gaps.z[gaps.compared].max()),
        chance_z=line,
        largest_relative_gap=float(relative[finite].max()) if finite.any() else np.nan,
        smallest_visible=on_line,
        failed_gap=float(relative[shown]) if beyond.any() else 0.0,
        # what the theory leaves open is no gap: only beyond it one is visible
        visible_gap=left_open + visible,
        visible_there=left_open + visible_there,
        trials=trials,
        where=_words_of_place(gaps.experiment_minus_theory, shown),
        relative_to=_relative_to(
            scale=gaps.scale[shown],
            here=gaps.here[shown],
            elsewhere=gaps.elsewhere[shown],
        ),
        from_limit=_from_limit(result, name, gaps),
        left_open=left_open,
        open_because=because,
        split=_split(result, name, gaps, shown, trials),
    )


def _gaps_of(result: xarray.Dataset, name: str, trials: int, least: float) -> _Gaps:
    """Take the gaps of a variable from a comparison, with scores, errors and scales."""
    source = judged_source(result)
    gap = result[name + "_gap"]
    grid = [dim for dim in gap.dims if dim in result["converged"].dims]
    own_axes = tuple(axis for axis, dim in enumerate(gap.dims) if dim not in grid)
    stderrs = result[name + "_stderr"].sel(source=[source, "experiment"])
    square = (stderrs.transpose("source", *gap.dims).values ** 2).sum(axis=0)
    spread = np.sqrt(with_spread(square, own_axes))
    theory = result[name].sel(source=source).transpose(*gap.dims)
    scale, here, elsewhere = _scales(theory, spread * np.sqrt(trials), grid)
    if least:
        scale = np.fmax(scale, least)
    return _Gaps(
        experiment_minus_theory=gap,
        theory=theory,
        scale=scale,
        here=here,
        elsewhere=elsewhere,
        z=np.abs(result[name + "_z"].values),
        stderr=np.sqrt(square),
        spread=spread,
    )


def _visible(
    gaps: _Gaps, line: float, trials: int, variable: Variable
) -> tuple[float, float]:
    """Return the gap that lies on the line, and the one that passes it nine times in
    ten: medians over the points, relative.
    """
    points = int(gaps.compared.sum())
    has_spread = gaps.compared & (gaps.stderr > 0)
    t_line = student_line(line, trials - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        on_line = np.where(has_spread, t_line * gaps.stderr / gaps.scale, np.nan)
    known = on_line[np.isfinite(on_line)]
    typical = float(np.median(known)) if known.size else np.nan
    if gaps.stderr[gaps.compared].any():
        ratio = visible_gap(1.0, trials, points) / t_line * np.sqrt(trials)
        return typical, float(typical * ratio)
    # without any spread every gap is visible, but for events only counted: that all
    # trials saw the same says little of them
    if variable.counted or trials < 2:
        return typical, np.nan
    return typical, 0.0


def _split(
    result: xarray.Dataset,
    name: str,
    gaps: _Gaps,
    place: tuple[int, ...],
    trials: int,
) -> GapSplit | None:
    """Return the gap of a variable at one place in two parts, where the Gaussian twin
    of a table stands beside it.
    """
    if f"{name}_twin" not in result:
        return None
    dims = gaps.experiment_minus_theory.dims

    def at(column: str, source: str = "") -> float:
        values = result[column]
        if source:
            values = values.sel(source=source)
        return float(values.transpose(*dims).values[place])

    judged = judged_source(result)
    return GapSplit.of(
        theory=at(name, judged),
        theory_stderr=at(f"{name}_stderr", judged),
        twin=at(f"{name}_twin"),
        twin_stderr=at(f"{name}_twin_stderr"),
        data=at(name, "experiment"),
        data_stderr=at(f"{name}_stderr", "experiment"),
        scale=float(gaps.scale[place]),
        trials=trials,
        approximate=bool(approximations(result.attrs)),
    )


def _declared(result: xarray.Dataset, name: str) -> Variable:
    """Return the declaration of a variable of a result; a plain one where its question
    is not known here.
    """
    question = question_of(result.attrs)
    if question is not None:
        for variable in question.variables:
            if variable.name == name:
                return variable
    return Variable(name, dims=(), symbol="", meaning="")


def _left_open(
    result: xarray.Dataset, variable: Variable, gaps: _Gaps
) -> tuple[float, str]:
    """Return the relative gap that the theory leaves open of a variable, the median
    over its entries, and why.
    """
    if variable.resolution not in result:
        return 0.0, ""
    side = result[[variable.resolution]]
    if "source" in side.dims:
        side = judged_side(side)
    gap = left_open_by(side, variable, gaps.theory)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.broadcast_to(gap, gaps.theory.shape) / gaps.scale
    known = relative[np.isfinite(relative)]
    typical = float(np.median(known)) if known.size else 0.0
    return typical, _declared(result, variable.resolution).meaning


def _scales(
    theory: xarray.DataArray, spread: Floats, grid: Sequence[Any]
) -> tuple[Floats, Floats, Floats]:
    """Return what gaps are relative to, the size of the variable at the same point and
    time, and its size elsewhere; `spread` is that of one trial.
    """
    time_axes: list[int] = []
    entry_axes: list[int] = []
    for axis, dim in enumerate(theory.dims):
        if dimension_named(str(dim)).role == "trajectory":
            time_axes.append(axis)
        elif dim not in grid:
            entry_axes.append(axis)
    # entries of a matrix or a spectrum at one time are one object, as large as the
    # largest
    here = _largest(theory.values, entry_axes)
    elsewhere = _largest(here, time_axes)
    known = elsewhere[np.isfinite(elsewhere)]
    elsewhere = np.fmax(elsewhere, known.mean() if known.size else np.nan)
    # below what one trial scatters a variable is nearly zero, and no measure of a gap
    nearly_zero = here < _largest(spread, entry_axes)
    scale = np.where(nearly_zero, elsewhere, np.fmax(here, LEAST * elsewhere))
    return (
        np.broadcast_to(scale, theory.shape),
        np.broadcast_to(here, theory.shape),
        np.broadcast_to(elsewhere, theory.shape),
    )


def _relative_to(*, scale: float, here: float, elsewhere: float) -> str:
    """Say what a gap is relative to; nothing where it is the value there."""
    if not scale > here:
        return ""
    if scale > elsewhere or np.isnan(elsewhere):
        return f"{scale:g}"
    if scale == elsewhere:
        return "its size elsewhere"
    return f"{LEAST:.0%} of its size elsewhere"


def _largest(values: Floats, axes: Sequence[int]) -> Floats:
    """Return the largest size along some axes, which are kept; NaN counts as none."""
    if not axes:
        return np.abs(values)
    return np.fmax.reduce(np.abs(values), axis=tuple(axes), keepdims=True)


def _place_of_largest(values: Floats) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(int(np.argmax(values)), values.shape)))


def _words_of_place(gap: xarray.DataArray, place: tuple[int, ...]) -> str:
    """Return where an entry is: ``samples_per_dim = 0.5, time = 3``."""
    parts = []
    for name, coordinate in gap[place].coords.items():
        # a coordinate that is the same everywhere says nothing
        if not gap[name].dims or gap[name].size == 1:
            continue
        value = coordinate.values.item()
        if isinstance(value, float):
            value = f"{value:g}"
        parts.append(f"{name} = {value}")
    return ", ".join(parts)


def _from_limit(result: xarray.Dataset, name: str, gaps: _Gaps) -> float:
    """Return how far the bare limit is from the theory compared, at most; NaN where it
    was not solved.
    """
    theory = gaps.theory
    if "limit" not in result["source"].values or theory["source"].item() == "limit":
        return np.nan
    bare = result[name].sel(source="limit").transpose(*theory.dims)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(bare.values - theory.values) / gaps.scale
    known = apart[np.isfinite(apart)]
    return float(known.max()) if known.size else np.nan
