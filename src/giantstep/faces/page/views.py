"""How a result is laid out on the page: which dimension is horizontal, which become
lines, what the axes say.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.result.files import plain_data
from giantstep.core.scenario.family import DIAGNOSTICS
from giantstep.faces.page.fields import axis_of, described
from giantstep.faces.page.markup import short
from giantstep.tools.figures.learning_curve import drawn_ridges

if TYPE_CHECKING:
    import xarray

FEW = 8
"""Values along a field up to which they are separate curves."""
_MAIN = ("spectrum", "trajectory")
"""Roles of dimensions that a variable runs along before any other."""


def shown_data(
    result: xarray.Dataset, variables: Sequence[str] | None, family: str, what: str
) -> dict[str, Any]:
    """Return a result as data that JSON holds: the variables asked for, what belongs to
    them, the diagnostics, and their layout.

    ``layout`` holds ``views``: of each variable its ``kind`` (number, curve,
    trajectory, spectrum, map), its axes ``x`` and ``y``, its ``others`` and its
    ``lines``, one for each place of these, with its name; ``axes``: what is said of a
    dimension; ``sizes`` and ``along``: its length, and the coordinate that lies along
    it; ``time``: the dimension of several times, if any; ``absent``: variables that
    declare when they are absent, and are so.
    """
    if variables is not None:
        wanted = [
            name + end
            for name in variables
            for end in ("", "_stderr", "_gap", "_z", "_twin", "_twin_stderr")
        ]
        result = result[
            [name for name in (*wanted, *DIAGNOSTICS) if name in result.data_vars]
        ]
    for dim in [str(dim) for dim in result.sizes if f"{dim}_imag" in result.coords]:
        parts = list(
            zip(result[f"{dim}_real"].values, result[f"{dim}_imag"].values, strict=True)
        )
        for digits in (3, 6, 17):  # as few as tell the places apart
            labels = [
                f"{short(x, digits)} {'−' if y < 0 else '+'} {short(abs(y), digits)}i"
                for x, y in parts
            ]
            if len(set(labels)) == len(set(parts)):
                break
        result = result.assign_coords({dim: labels})
    about = described(family)
    question = about["questions"][what]
    shown: Sequence[str]
    if variables is None:
        shown = [variable["name"] for variable in question["variables"]]
    else:
        shown = variables
    views = {
        name: view_of(result, name, question)
        for name in shown
        if name in result.data_vars
    }
    dims = [str(dim) for dim in result.sizes if dim != "source"]
    absent = {
        variable["name"]: variable["absent"] for variable in question["variables"]
    }
    axes = {dim: axis_of(about, what, dim) for dim in dims}
    time = _time_of(result, views, question)
    for view in views.values():
        view["lines"] = _lines(result, view["others"], axes, time)
    layout = {
        "views": views,
        "axes": axes,
        "sizes": {dim: result.sizes[dim] for dim in dims},
        "along": {dim: name for dim in dims for name in _along(result, dim)[:1]},
        "absent": [
            name
            for name in views
            if absent.get(name) and not np.any(_is_known(result[name].values))
        ],
        "time": time,
    }
    return {"layout": layout, **plain_data(result)}


def view_of(
    result: xarray.Dataset, name: str, question: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the view of a variable, its axes and its other dimensions."""
    sizes = result.sizes
    dims = [str(dim) for dim in result[name].dims if dim != "source" and sizes[dim] > 0]
    grid = [
        str(dim)
        for dim in (result["converged"].dims if "converged" in result else ())
        if dim != "source"
    ]
    own = [dim for dim in dims if dim not in grid]
    numeric = [dim for dim in grid if sizes[dim] > 1 and _is_numbers(result, dim)]
    roles = {dim: declared["role"] for dim, declared in question["dimensions"].items()}
    asked = [dim for dim in own if dim in question["settings"] and sizes[dim] > 1]
    wanted = [dim for dim in own if roles.get(dim) == "spectrum"]
    # a place along which all times are curves
    wanted += [dim for dim in asked if roles.get(dim) not in _MAIN]
    # a few times along a long field are curves
    crowded = any(sizes[dim] > FEW for dim in numeric)
    wanted += [
        dim
        for dim in own
        if roles.get(dim) in _MAIN and (sizes[dim] > FEW or not crowded)
    ]
    wanted += asked
    if not wanted and len(numeric) == 2 and all(sizes[dim] > FEW for dim in numeric):
        x, y = numeric
        return {
            "kind": "map",
            "x": x,
            "y": y,
            "others": [dim for dim in dims if dim not in numeric],
        }
    wanted += sorted(numeric, key=lambda dim: -sizes[dim])
    wanted += [dim for dim in grid if sizes[dim] > 1]
    wanted += sorted(
        (dim for dim in own if sizes[dim] > 1), key=lambda dim: -sizes[dim]
    )
    if not wanted:
        return {"kind": "number", "x": None, "others": dims}
    x = wanted[0]
    kind = roles[x] if roles.get(x) in _MAIN else "curve"
    return {"kind": kind, "x": x, "others": [dim for dim in dims if dim != x]}


def _lines(
    result: xarray.Dataset,
    dims: Sequence[str],
    axes: Mapping[str, Any],
    time: str | None,
) -> list[Any]:
    """Return the lines of a variable: where they lie along some dimensions, their
    names, and these without the time.
    """
    lines = []
    for places in itertools.product(*(range(result.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, places))
        names = {
            dim: _name(result, dim, place, axes)
            for dim, place in at.items()
            if result.sizes[dim] > 1
        }
        rest = [name for dim, name in names.items() if dim != time]
        lines.append(
            {"at": at, "label": ", ".join(names.values()), "rest": ", ".join(rest)}
        )
    return lines


def _name(result: xarray.Dataset, dim: str, place: int, axes: Mapping[str, Any]) -> str:
    """Return what a line is called at a place of a dimension: a name, or what the
    dimension is and its value.
    """
    along = _along(result, dim)
    value = result[along[0]].values[place].item() if along else place + 1
    if isinstance(value, float) and np.isinf(value):
        value = "inf"
    elif isinstance(value, str):
        return value
    return f"{axes[dim]['short']} {short(value, 3)}"


def _along(result: xarray.Dataset, dim: str) -> list[str]:
    """Return the coordinates that lie along a dimension, its own first."""
    names = [str(name) for name, coord in result.coords.items() if coord.dims == (dim,)]
    return sorted(names, key=lambda name: name != dim)


def _is_numbers(result: xarray.Dataset, dim: str) -> bool:
    """Return whether what lies along a dimension are finite numbers; what has no
    coordinate is counted.
    """
    names = _along(result, dim)
    return not names or bool(
        result[names[0]].dtype.kind in "fiu"
        and np.isfinite(result[names[0]].values).all()
    )


def _is_known(values: Any) -> Any:
    if values.dtype.kind in "fc":
        return ~np.isnan(values)
    return np.full(values.shape, True)


def _time_of(
    result: xarray.Dataset, views: Mapping[str, Any], question: Mapping[str, Any]
) -> str | None:
    """Return the dimension of time that a figure draws as several curves."""
    for view in views.values():
        if view["kind"] == "map":
            continue
        for dim in view["others"]:
            if (
                question["dimensions"].get(dim, {}).get("role") == "trajectory"
                and result.sizes[dim] > 1
            ):
                return str(dim)
    return None


# -- learning curves of a table --------------------------------------------------------

_FORECAST = {
    "error": "misclassified share",
    "mse": "mean squared test error",
    "train_mse": "training error",
}


def learning_curves(result: xarray.Dataset) -> list[dict[str, Any]]:
    """Return the panels of a forecast: a curve for each of a few ridges, real fits as
    dots, where the table ends.
    """
    made = []
    for name in (name for name in _FORECAST if name in result.data_vars):
        verdict = result.attrs.get(f"verdict_{name}")
        title = f"<b>{_FORECAST[name]}</b>"
        if verdict:
            title = f"{title}, forecast {verdict}"
        panel: dict[str, Any] = {
            "name": name,
            "kind": "lines",
            "called": _FORECAST[name],
            "title": title,
            "x": {"label": "training samples <i>n</i>", "log": True},
            "y": {"log": True},
            "bands": [
                {
                    "from": int(result.attrs["N"]),
                    "to": int(result.attrs["N"]),
                    "label": f"N = {result.attrs['N']}",
                }
            ],
            "series": [],
            "areas": [],
            "scores": [],
            "marks": [],
        }
        for slot, place in enumerate(drawn_ridges(result, name)):
            _add_ridge(panel, result.isel(ridge=place), name, slot)
        made.append(panel)
    return made


def _add_ridge(
    panel: dict[str, Any], result: xarray.Dataset, name: str, slot: int
) -> None:
    """Add the curve of one ridge, its standard errors as an area, and its fits as
    dots.
    """
    x = [int(n) for n in result["samples"].values]
    y = result[name].isel(source=0).values
    line = {
        "kind": "line",
        "key": str(slot),
        "slot": slot,
        "label": f"ridge {short(float(result['ridge']))}",
    }
    panel["series"].append({**line, "x": x, "y": _finite(y), "width": 2, "dash": []})
    if f"{name}_se_total" in result:
        error = result[f"{name}_se_total"].isel(source=0).values
        known = np.flatnonzero(np.isfinite(y + error))
        low = np.maximum(y - error, y / 10)  # a logarithmic axis ends above zero
        area = {
            "x": [x[place] for place in known],
            "low": _finite(low[known]),
            "high": _finite((y + error)[known]),
        }
        panel["areas"].append({"slot": slot, **area})
    if result.sizes["source"] > 1:
        fits, errors = (
            result[one].isel(source=1).values for one in (name, f"{name}_stderr")
        )
        dots = {"kind": "dots", "key": f"{slot} dots", "slot": slot, "marker": "circle"}
        panel["series"].append(
            {**dots, "x": x, "y": _finite(fits), "errors": _finite(errors)}
        )


def _finite(values: Any) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
