"""`slopes`: local exponents of a learning curve, for the limit and for the
experiment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.core.base.progress import ProgressOption
from giantstep.core.result.layers import layers_of
from giantstep.core.result.provenance import fields_of
from giantstep.core.run.limit import ask_again
from giantstep.core.scenario.checks import check_number
from giantstep.core.scenario.lists import names_meant, value_at
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import check_field_name, dotted_names
from giantstep.core.scenario.several import NAME, Scenarios, by_name
from giantstep.tools.design.sensitivity import WIDTHS, extrapolate
from giantstep.tools.design.tables import DesignResult

Floor = float | str | xarray.DataArray
_THEORY = (
    "noiseless regression without ridge, eigenvalues j^-a, target's shares j^-b:"
    " n^-min(b - 1, 2a), p^-min(b - 1, a)"
)
_RIDGELESS = 1e-6
"""Ridge, per sample and in units of the mean eigenvalue, below which a fit counts as
one without.
"""
_MOST_SAID = 6
"""Curves whose fitted exponents are said in the headline; more are in the table
only.
"""


def slopes(
    result: xarray.Dataset,
    along: str | Sequence[str] | Mapping[str, float] = "samples_per_dim",
    of: str = "test_error",
    *,
    floor: Floor = 0.0,
    progress: ProgressOption = None,
) -> DesignResult:
    """Return the local exponents d log(error - floor)/d log n of a learning curve, with
    their errors.

    The limit is asked again beside every point, at factors from 10% down to 0.3%. The
    differences are extrapolated, and how the extrapolations differ is the error. At a
    finite dimension numbers of samples are whole, so that theory and experiment have
    the slope between the neighbours of each point. The error of an experiment comes
    from the trials where they were kept (leaving one out after the other). Else it
    comes from the standard errors of the neighbours as if they were independent, which
    is too large where points share their draws.

    Where theory knows the exponent it stands beside the slopes: linear networks without
    noise, ridge and steps on `PowerLaw` inputs.

    Parameters
    ----------
    result : what `predict`, `simulate` or `compare` returned.
    along : the field that grows, or several that grow by the same factor (n and p at a
        fixed ratio), or, for a budget, the power of it with which each field grows
        (``{"samples_per_dim": 0.5, "width_per_dim": 0.5}`` for n p).
    of : the variable.
    floor : what is subtracted first: a number, a DataArray, or the name of a variable
        of the result (``"floor"``).
    progress : True, False or a callable(done, total, text); a line on a terminal if
        left out.

    Returns
    -------
    xarray.Dataset
        ``slope`` and ``slope_error`` with the dimensions of the variable; NaN where the
        error is not above its floor. ``fitted`` is the exponent of one power of the
        field through all points of a curve and ``fitted_error`` its error: from the
        measured errors, or else from how far the points are from a power.
        ``known_slope`` is the exponent that theory has, where it has one; the attribute
        ``theory_of_slope`` says which theory.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="linear", noise=0.0, ridge=0.5, samples_per_dim=2.0)
    >>> found = gs.slopes(gs.predict(s, samples_per_dim=[50.0, 100.0]), of="test_mse")
    >>> # without noise the error of a ridge fit falls as n^-2
    >>> bool(abs(found.slope[-1] + 2) < 0.05)
    True
    """
    powers = _powers(along)
    if not (isinstance(result, xarray.Dataset) and "settings" in result.attrs):
        raise InputError(
            "slopes takes a result of predict, simulate or compare, not a"
            f" {type(result).__name__}."
        )
    if of not in result:
        raise bad_field(
            "of",
            of,
            "a variable of the"
            f" result{nearest(of, [str(name) for name in result.data_vars])}",
        )
    scenarios, fields = fields_of(result)
    for name in powers:
        check_field_name(next(iter(by_name(scenarios).values())), name)
    layers = layers_of(result) or [""]
    several = "source" in result.dims
    found = {}
    for layer in layers:
        part = result.sel(source=layer) if several else result
        # numbers of samples and neurons are whole at a finite dimension: beside a point
        # nothing changes, or all at once
        has_dimension = (
            result.attrs.get("engine") == "experiment" or "finite_size" in result.attrs
        )
        is_whole = layer in ("experiment", "theory") or (not layer and has_dimension)
        if is_whole:
            local = _chords(part, powers, of, floor)
        else:
            local = _limit_slopes(part, layer, powers, of, floor, progress)
        found[layer] = local.assign(_fit(part, powers, of, floor))
    table = found[layers[0]]
    if several:
        table = xarray.concat(
            list(found.values()),
            xarray.IndexVariable("source", layers),
            coords="minimal",
        )
    others = set(fields) - {"samples_per_dim", "width_per_dim", "dim"}
    if others:
        known = None
    else:
        known = _known(table["slope"], powers, of, scenarios)
    return _finished(table, result.attrs, powers, of, known)


def _powers(along: str | Sequence[str] | Mapping[str, float]) -> dict[str, float]:
    """Return the fields that grow, each with the power of the factor by which it
    does.
    """
    if isinstance(along, Mapping):
        given = along
    else:
        given = dict.fromkeys([along] if isinstance(along, str) else along, 1.0)
    powers = dict(dotted_names(given))
    for name, power in powers.items():
        check_number(
            "along",
            power,
            f"a number other than 0 for {name}",
            lambda value: value != 0,
        )
    if not powers:
        raise bad_field("along", along, "at least one field")
    return powers


def _finished(
    table: xarray.Dataset,
    attrs: Mapping[Any, Any],
    powers: Mapping[str, float],
    of: str,
    known: Any,
) -> DesignResult:
    """Return the slopes with what theory knows of them, and how they are shown."""
    names = " and ".join(
        name if power == 1 else f"{name}^(1/{power:g})"
        for name, power in powers.items()
    )
    about = {
        "headline": f"Local exponents of {of} along {names}{_one_power(table)}",
        "shown": json.dumps(["slope", "slope_error", "known_slope"]),
        "plot": json.dumps(["slope"]),
        "along": ", ".join(powers),
        "of": of,
    }
    if known is not None:
        table = table.assign(known_slope=known)
        about["theory_of_slope"] = _THEORY
    return DesignResult.of(table.assign_attrs({**attrs, **about}))


def _one_power(table: xarray.Dataset) -> str:
    """Say what one power through all points of each curve is, where there are few
    curves.
    """
    if "fitted" not in table or table["fitted"].size > _MOST_SAID:
        return ""
    fitted = table["fitted"]
    said = []
    for index in np.ndindex(fitted.shape):
        at = dict(zip(fitted.dims, index))
        places = {str(dim): fitted[dim].values[place] for dim, place in at.items()}
        words = [
            str(value) if dim == "source" else f"{dim} = {value}"
            for dim, value in places.items()
        ]
        value = float(fitted[at])
        error = float(table["fitted_error"][at])
        if np.isfinite(value):
            said.append(
                " ".join([", ".join(words), f"{value:.3g} (error {error:.1g})"]).strip()
            )
    if said:
        return f"; one power through all points: {'; '.join(said)}"
    return ""


def _known(
    slope: xarray.DataArray, powers: Mapping[str, float], of: str, scenarios: Scenarios
) -> Any:
    """Return the exponents that theory has: before the first step, and where all fields
    grow alike.
    """
    values = {
        name: _known_exponent(one, powers) for name, one in by_name(scenarios).items()
    }
    if (
        of != "test_error"
        or len(set(powers.values())) > 1
        or not np.isfinite(list(values.values())).any()
    ):
        return None
    power = next(iter(powers.values()))
    each = xarray.DataArray(
        np.array(list(values.values())) * power, {NAME: list(values)}, NAME
    )
    known = xarray.zeros_like(slope) + (each if NAME in slope.dims else each.values[0])
    if "time" in slope.coords:
        known = known.where(slope["time"] == 0)
    else:
        known = known
    return known.transpose(*slope.dims).assign_attrs(
        long_name="exponent that theory has"
    )


def _known_exponent(scenario: Any, names: Iterable[str]) -> float:
    """Return d log error/d log factor of a scenario whose fields `names` grow by that
    factor; NaN where not known.

    Theory knows linear regression without ridge on inputs with a power law. The
    eigenvalues of the inputs fall as j^-a and the shares of the target's variance as
    j^-b, b > 1 (capacity and source conditions). Without noise and without ridge, n
    samples leave an error n^-min(b - 1, 2a). The best fit on p random projections of
    the inputs leaves p^-min(b - 1, a). Where both grow at a fixed ratio the slower one
    stays.
    """
    inputs: Any = getattr(scenario, "inputs", None)
    if getattr(inputs, "kind", "") != "power-law" or not _is_linear_and_free_of_noise(
        scenario
    ):
        return math.nan
    a = float(inputs.exponent)
    tail = float(inputs.target_exponent) - 1
    rates = {"samples_per_dim": min(tail, 2 * a), "width_per_dim": min(tail, a)}
    named = set(names)
    if not named or not named <= set(rates) or tail <= 0:
        return math.nan
    return -min(rates[name] for name in named)


def _is_linear_and_free_of_noise(scenario: Any) -> bool:
    readout = getattr(scenario, "readout", None)
    ridge = getattr(readout, "ridge", getattr(scenario, "ridge", math.inf))
    z = np.linspace(-2.0, 2.0, 9)
    target = scenario.target
    activation = scenario.activation
    if (
        getattr(scenario, "steps", None)
        or getattr(getattr(scenario, "step", None), "kind", "none") != "none"
    ):
        # what a step learns of the target does not follow the law of the inputs
        return False
    if (
        scenario.noise
        or ridge > _RIDGELESS
        or getattr(readout, "kind", "ridge") != "ridge"
        or target.directions > 1
    ):
        return False
    both = np.ravel(target(z[:, None])), activation(z)
    return all(
        np.allclose(values, values[z == 1] * z, rtol=0, atol=1e-12) for values in both
    )


def _fit(
    result: xarray.Dataset, powers: Mapping[str, float], of: str, floor: Floor
) -> dict[str, xarray.DataArray]:
    """Return the exponent of one power through all points of a curve, and its error;
    nothing without a curve.
    """
    dim, (first, power) = _dimension_of(result, powers), next(iter(powers.items()))
    if dim is None or result.sizes[dim] < 3:
        return {}
    if "trial" in result[of].dims:
        measured = result.mean("trial")
    else:
        measured = result
    log = _logarithm(measured, of, floor)
    place = _log(result[first]) / power
    place = place.where(log.notnull())
    x = place - place.mean(dim)
    weight = x / (x**2).sum(dim)
    fitted = (weight * (log - log.mean(dim))).sum(dim, min_count=3)
    if f"{of}_stderr" in result:
        relative = result[f"{of}_stderr"] / np.exp(log)
    else:
        relative = None
    if relative is not None and bool((relative > 0).any()):
        error = ((weight * relative) ** 2).sum(dim) ** 0.5
    else:
        rest = log - log.mean(dim) - fitted * x
        error = (
            (rest**2).sum(dim) / (log.notnull().sum(dim) - 2) / (x**2).sum(dim)
        ) ** 0.5
    about = {"long_name": f"exponent of one power of {first} through all points"}
    return {
        "fitted": fitted.assign_attrs(about),
        "fitted_error": (
            error.where(fitted.notnull()).assign_attrs(
                long_name="error of the fitted exponent"
            )
        ),
    }


def _table(
    slope: xarray.DataArray, error: xarray.DataArray, of: str, names: Iterable[str]
) -> xarray.Dataset:
    symbol = f"d log {of}/d log {' and '.join(names)}"
    about = {"long_name": f"local exponent of `{of}`", "symbol": symbol}
    columns = {
        "slope": slope.assign_attrs(about),
        "slope_error": error.assign_attrs(long_name="error of the exponent"),
    }
    return xarray.Dataset(
        {
            **columns,
            "converged": (
                slope.notnull().any([dim for dim in slope.dims if dim == "time"])
            ),
        }
    )


def _log(values: xarray.DataArray) -> xarray.DataArray:
    return values.copy(data=np.log(values.values))


def _logarithm(values: xarray.Dataset, of: str, floor: Floor) -> xarray.DataArray:
    """Return log(error - floor); NaN where the error is not above it."""
    if isinstance(floor, str) and floor not in values:
        raise bad_field(
            "floor", floor, "a number, a DataArray or a variable of the result"
        )
    above = values[of] - (values[floor] if isinstance(floor, str) else floor)
    return _log(above.where(above > 0))


# -- the limit -------------------------------------------------------------------------


def _limit_slopes(
    result: xarray.Dataset,
    layer: str,
    powers: Mapping[str, float],
    of: str,
    floor: Floor,
    progress: ProgressOption,
) -> xarray.Dataset:
    """Return central differences over growing factors, extrapolated."""
    quotients = []
    for width in WIDTHS:
        grown = (
            _grown(result, layer, powers, np.exp(side * width), progress)
            for side in (1, -1)
        )
        up, down = (_logarithm(answer, of, floor) for answer in grown)
        quotients.append((up - down) / (2 * width))
    stacked = xarray.concat(quotients, "width").transpose(..., "width")
    slope, error = extrapolate(stacked.values.reshape(-1, len(WIDTHS)), order=2)
    like = quotients[0]
    return _table(
        like.copy(data=slope.reshape(like.shape)),
        like.copy(data=error.reshape(like.shape)),
        of,
        powers,
    )


def _grown(
    result: xarray.Dataset,
    layer: str,
    powers: Mapping[str, float],
    factor: float,
    progress: ProgressOption,
) -> xarray.Dataset:
    """Return the limit of a result where every field has grown by its power of a
    factor.
    """
    scenarios, fields = fields_of(result)
    first = next(iter(by_name(scenarios).values()))
    changes = {}
    for name, power in powers.items():
        held = fields[name] if name in fields else _one_value(first, name)
        changes[name] = held * factor**power
    answer = ask_again(result, changes, layer, progress=progress)
    return answer.assign_coords(
        {name: result[name] for name in answer.coords if name in result.coords}
    )


def _one_value(scenario: Scenario, name: str) -> float:
    values = [value_at(scenario, leaf) for leaf in names_meant(scenario, name)]
    if (
        len(set(values)) != 1
        or not isinstance(values[0], int | float)
        or not np.isfinite(values[0])
    ):
        raise bad_field("along", name, "a field that is one finite number")
    return values[0]


# -- finite dimensions -----------------------------------------------------------------


def _chords(
    result: xarray.Dataset, powers: Mapping[str, float], of: str, floor: Floor
) -> xarray.Dataset:
    """Return the slopes between neighbours; fields that grow together must share a
    dimension.
    """
    names = list(powers)
    dim = _dimension_of(result, powers)
    if dim is None:
        raise InputError(
            f"Slopes at a finite dimension need a result along {' and '.join(names)}: "
            "give each a list, or several DataArrays along one dimension."
        )
    if result.sizes[dim] < 2:
        raise InputError(
            f"Slopes at a finite dimension need two values of {names[0]} at least."
        )
    place = _log(result[names[0]]) / powers[names[0]]
    if "trial" in result[of].dims:
        count = result.sizes["trial"]
        without = [
            result.drop_isel(trial=[trial]).mean("trial") for trial in range(count)
        ]
        left: Any = [
            _between(_logarithm(part, of, floor), place, dim) for part in without
        ]
        spread: xarray.DataArray = xarray.concat(left, "trial")
        slope = _between(_logarithm(result.mean("trial"), of, floor), place, dim)
        return _table(slope, spread.std("trial") * np.sqrt(count - 1), of, names)
    log = _logarithm(result, of, floor)
    relative = result.get(f"{of}_stderr", xarray.zeros_like(log)) / np.exp(log)
    above, below = _neighbours(relative, dim)
    far, near = _neighbours(place, dim)
    error: xarray.DataArray = (above**2 + below**2) ** 0.5 / abs(far - near)
    return _table(_between(log, place, dim), error, of, names)


def _dimension_of(result: xarray.Dataset, powers: Mapping[str, float]) -> str | None:
    """Return the dimension along which all fields grow together; None where points are
    of different curves.
    """
    dims = {
        str(dim)
        for name in powers
        if name in result.coords
        for dim in result[name].dims
    }
    if len(dims) == 1 and all(name in result.coords for name in powers):
        return dims.pop()
    return None


def _between(
    values: xarray.DataArray, place: xarray.DataArray, dim: Any
) -> xarray.DataArray:
    above, below = _neighbours(values, dim)
    far, near = _neighbours(place, dim)
    return (above - below) / (far - near)


def _neighbours(
    values: xarray.DataArray, dim: Any
) -> tuple[xarray.DataArray, xarray.DataArray]:
    """Return the values after and before each point; at an end the point itself stands
    for what is missing.
    """
    places = np.arange(values.sizes[dim])
    after = np.minimum(places + 1, places[-1])
    before = np.maximum(places - 1, 0)
    own = {dim: values[dim]} if dim in values.coords else {}
    return tuple(
        values.isel({dim: which}).assign_coords(own) for which in (after, before)
    )  # type: ignore[return-value]
