"""Comparisons: limit and experiment laid over each other, with gaps and z-scores; what
each layer is called.

The dimension ``source`` has up to three layers: ``limit`` is the bare one (dimension to
infinity), ``theory`` the limit with its finite-size correction at the dimension of the
experiment, where the family knows one, and ``experiment``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from giantstep.core.base.types import Floats
from giantstep.core.result.layers import LAYERS, layers_of
from giantstep.core.result.table import asked_first
from giantstep.core.result.text import Result
from giantstep.core.result.verdicts import normal_score
from giantstep.core.scenario.family import Question, Variable
from giantstep.core.scenario.several import side_by_side

_ROUNDING = 1e-9
"""Precision, relative to the variable's largest entry at a grid point, below which
numbers are the same.
"""

_ZERO = 1e-14
"""Absolute precision below which a number is zero."""

_ONE_SIDED = ("residual", "iterations", "trials_done")


def as_comparisons(results: Sequence[xarray.Dataset]) -> list[xarray.Dataset]:
    """Return results of both engines and comparisons in one form, so that one figure
    can show them side by side.

    What a result has not asked for is blank: the limit of an experiment, say.
    """
    engines = {str(result.attrs.get("engine")) for result in results}
    if len(engines) == 1 or not engines <= {"limit", "experiment", "comparison"}:
        return list(results)
    whole = [result for result in results if result.attrs["engine"] == "comparison"]
    limits = [result for result in results if result.attrs["engine"] == "limit"]
    model = (whole or limits)[0]
    compared = model.attrs.get("compared_with", _layer_of(model))
    named = [
        dict.fromkeys(layers_of(result)) or {_layer_of(result): None}
        for result in results
    ]
    found = {layer for layers in named for layer in layers}
    order = [layer for layer in LAYERS if layer in found]
    about = {**model.attrs, "engine": "comparison", "compared_with": compared}
    made = []
    for result, layers in zip(results, named):
        if "source" in result.dims:
            layered = result
        else:
            layered = result.expand_dims(source=list(layers))
        own = {
            name: result.attrs[name]
            for name in ("scenario", "grid")
            if name in result.attrs
        }
        made.append(layered.reindex(source=order).assign_attrs({**about, **own}))
    return made


def _layer_of(result: xarray.Dataset) -> str:
    """Return the layer that a result of one engine would be in a comparison."""
    if result.attrs.get("engine") == "experiment":
        return "experiment"
    if isinstance(result.attrs.get("finite_size"), str):
        return "theory"
    return "limit"


def combine(
    layers: Mapping[str, xarray.Dataset],
    question: Question,
    twin: xarray.Dataset | None = None,
) -> Result:
    """Lay results of one question over each other; the gap is that of the last, the
    experiment, to the one before.

    What the Gaussian twin of a table gave stands beside them, in the columns ``*_twin``
    and ``*_twin_stderr``.
    """
    data: dict[str, Any] = {}
    for variable in question.variables:
        if any(variable.name in layer for layer in layers.values()):
            data |= _columns(layers, variable)
            data |= {} if twin is None else _twin_columns(twin, variable)
    for name in ("converged", "status"):
        data[name] = _stack({source: layer[name] for source, layer in layers.items()})
    judged, experiment = list(layers.values())[-2:]
    data.update(
        {
            name: side[name]
            for side in (judged, experiment)
            for name in _ONE_SIDED
            if name in side
        }
    )
    return Result(asked_first(data, question))


def _columns(
    layers: Mapping[str, xarray.Dataset], variable: Variable
) -> dict[str, xarray.DataArray]:
    """Return a variable of all layers, its standard errors, and the gap between the
    last two with its score.
    """
    name = variable.name
    error = f"{variable.name}_stderr"
    (last, judged), (_, experiment) = list(layers.items())[-2:]
    values = _filled(layers, name)
    columns = {name: _stack(values)}
    if error not in experiment:
        return columns
    if name not in judged:
        return {**columns, error: _stack(_filled(layers, error))}
    errors = {
        source: layer.get(error, xarray.zeros_like(values[source]))
        for source, layer in layers.items()
    }
    columns[error] = _stack(errors).assign_attrs(experiment[error].attrs)
    if variable.compared:
        sides = xarray.align(
            values[last],
            experiment[name],
            errors[last],
            experiment[error],
            join="outer",
        )
        freedoms = _freedom(judged), _freedom(experiment)
        left_open = left_open_by(judged, variable, sides[0])
        gap, z = _gap_and_z(sides, freedoms, len(variable.dims), left_open)
        if variable.counted:
            high = sides[1]
            high_error = sides[3]
            # but for rounding: all trials saw the same
            no_spread = high_error <= 1e-12 * abs(high)
            z = z.where(~(no_spread & (abs(gap) * (freedoms[1] + 1) < 3)), 0.0)
        columns[f"{name}_gap"] = gap.assign_attrs(
            long_name=f"{name}: experiment minus {last}"
        )
        columns[f"{name}_z"] = z.assign_attrs(
            long_name=f"{name}: gap in standard errors, as a normal score"
        )
    return columns


def _twin_columns(
    twin: xarray.Dataset, variable: Variable
) -> dict[str, xarray.DataArray]:
    """Return a variable of the Gaussian twin of a table with its standard error, where
    it was compared.
    """
    name = variable.name
    error = f"{variable.name}_stderr"
    if not variable.compared or name not in twin or error not in twin:
        return {}
    said = f"{name} of the Gaussian twin"
    return {
        f"{name}_twin": (
            twin[name].assign_attrs(
                long_name=(
                    f"{said}: the experiment on Gaussian inputs of the same moments"
                )
            )
        ),
        f"{name}_twin_stderr": (
            twin[error].assign_attrs(long_name=f"standard error of {said}")
        ),
    }


def left_open_by(
    theory: xarray.Dataset, variable: Variable, like: xarray.DataArray
) -> Floats | float:
    """Return the gap that a theory leaves open at every entry of a variable (its
    `resolution`), 0 if it says none.
    """
    if variable.resolution not in theory:
        return 0.0
    told = theory[variable.resolution].fillna(0.0)
    return np.asarray(
        told.broadcast_like(like).transpose(*like.dims).values, dtype=np.float64
    )


def _filled(
    layers: Mapping[str, xarray.Dataset], name: str
) -> dict[str, xarray.DataArray]:
    """Return a column of every layer, empty where a layer does not have it."""
    known = next(
        layer[name] for layer in reversed(list(layers.values())) if name in layer
    )
    empty = xarray.full_like(known, "" if known.dtype.kind in "UO" else np.nan)
    return {source: layer.get(name, empty) for source, layer in layers.items()}


def _stack(columns: Mapping[str, xarray.DataArray]) -> xarray.DataArray:
    *_, last = columns.values()
    return side_by_side(columns.values(), "source", columns).transpose(
        "source", *last.dims
    )


def _freedom(side: xarray.Dataset) -> float:
    # a sampled limit has independent runs, too
    runs = side.attrs.get("trials", side.attrs.get("replicates"))
    return float("inf") if runs is None else float(runs) - 1


def _gap_and_z(
    sides: Sequence[xarray.DataArray],
    freedoms: Sequence[float],
    own: int,
    left_open: Floats | float,
) -> tuple[xarray.DataArray, ...]:
    """Return the gaps, and the scores of what of them is beyond that which the theory
    leaves open.
    """
    low, high, low_error, high_error = sides
    # an infinite limit is no number to be compared with
    gap = (high - low).where(np.isfinite(low))
    beyond = np.copysign(np.maximum(np.abs(gap.values) - left_open, 0.0), gap.values)
    low_square = low_error.values**2
    high_square = high_error.values**2
    size = np.fmax(np.abs(low.values), np.abs(high.values))
    entries = tuple(range(size.ndim - own, size.ndim))
    high_square = with_spread(high_square, entries)
    floor = (_ROUNDING * np.fmax.reduce(size, axis=entries, keepdims=True) + _ZERO) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        t = beyond / np.sqrt(low_square + high_square + floor)
        # Welch and Satterthwaite
        freedom = (low_square + high_square) ** 2 / (
            low_square**2 / freedoms[0] + high_square**2 / freedoms[1]
        )
    freedom = np.where(low_square > 0, freedom, freedoms[1])
    score = normal_score(t, freedom)
    return gap, gap.copy(
        data=np.where((beyond == 0) & np.isfinite(high_error.values), 0.0, score)
    )


def with_spread(square: Floats, entries: tuple[int, ...]) -> Floats:
    """Give entries without any spread, among others of the variable that have some, the
    smallest of theirs.
    """
    # a few trials that happen to count the same number of eigenvalues in one bin have
    # not measured it exactly
    spread = np.where(square > 0, square, np.inf)
    if entries:
        smallest = spread.min(axis=entries, keepdims=True)
    else:
        smallest = spread
    return np.where((square == 0) & np.isfinite(smallest), smallest, square)
