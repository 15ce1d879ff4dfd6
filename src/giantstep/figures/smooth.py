"""The limit of a comparison as a curve of its own: asked again between the points of the experiment.

The limit is the one of the comparison: same scenario, settings and dimension, on a fixed fine grid. Where it does not
give the comparison's own numbers again, or cannot be asked at all, there is no curve.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.errors import GiantstepError
from giantstep.figures.style import is_geometric
from giantstep.types import Floats

if TYPE_CHECKING:
    import xarray

    from giantstep.request import Request

SECONDS = 4.0
"""Computing time that curves may take; a slower limit has fewer points."""
MOST_POINTS = 240
"""Points of a curve: its pieces are shorter than anybody sees on a page, and a jump stands where it is to 0.5%."""
SAME = 1e-6
"""Difference from the comparison's own numbers, relative to the largest of them, that is another limit."""


def fine_limit(
    result: xarray.Dataset, x: str, variables: Sequence[str], source: str = "limit"
) -> xarray.Dataset | None:
    """Return a limit of a comparison on a fine grid along the field `x`; None where it cannot be asked again.

    `source` is the layer: the bare limit, or the theory at the dimension of the experiment.
    """
    values = _values_along(result, x)
    if values is None or source not in result["source"].values:
        return None
    coarse = result.sel(source=source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _refined(LimitAsker(result, x, source), coarse, x, values, list(variables))
    except (GiantstepError, ValueError, KeyError, TypeError):
        return None  # a scenario that lives in Python only, a field of whole numbers, a family that is not there


def _values_along(result: xarray.Dataset, x: str) -> Floats | None:
    """Return the values of a field that alone makes a dimension of a comparison, in increasing order."""
    whole = result.attrs.get("engine") == "comparison" and "source" in result.dims
    if not whole or x not in result.dims or x not in result.coords:
        return None
    beside = [name for name, c in result.coords.items() if name != x and x in c.dims]
    values = result[x].values
    if beside or values.dtype.kind not in "fiu" or len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    return np.unique(values.astype(np.float64))


class LimitAsker:
    """Asks the limit of a comparison at other values of one field."""

    def __init__(self, result: xarray.Dataset, x: str, source: str) -> None:
        from giantstep.result import fields_of

        attrs = result.attrs
        self.x, self.what = x, str(attrs["what"])
        self.settings: dict[str, Any] = json.loads(str(attrs["settings"]))
        self.scenario, self.fields = fields_of(result)
        stored_with_correction = "compared_with" not in attrs and bool(attrs.get("finite_size", 1))
        self.bare = source == "limit" and not stored_with_correction
        self.chosen = {name: c.values.item() for name, c in result.coords.items() if not c.dims and name != "source"}

    def __call__(self, values: Floats) -> xarray.Dataset:
        """Return the limit at these values; of own dimensions along which a result was chosen, the same entry."""
        from giantstep.batches import solve_limit

        request = self._request({**self.fields, self.x: values.tolist()})
        prepared = request.prepare(trials=self.settings.get("trials"))
        answer = solve_limit(request, prepared, False, bare=self.bare)[0]
        return answer.sel({name: value for name, value in self.chosen.items() if name in answer.dims})

    def whole(self, values: Floats) -> Floats:
        """Return the values that a finite dimension has: numbers per dimension are whole numbers over it."""
        dim = self.settings.get("dim")
        if not self.x.endswith("_per_dim") or not isinstance(dim, int) or self.bare:
            return values
        return np.asarray(np.round(values * dim) / dim, dtype=np.float64)

    def _request(self, fields: dict[str, Any]) -> Request:
        from giantstep.request import Request
        from giantstep.several import by_name

        given = self.settings
        first = next(iter(by_name(self.scenario).values()))
        own = {name: given[name] for name in first.questions[self.what].settings if name in given}
        dim = None if "dim" in fields or "dim" in type(first).model_fields else given.get("dim")
        how = {name: given[name] for name in ("theory", "tolerance", "seed") if name in given}
        return Request(self.scenario, fields, own, what=self.what, dim=dim, **how)


def _refined(
    ask: LimitAsker, coarse: xarray.Dataset, x: str, values: Floats, variables: list[str]
) -> xarray.Dataset | None:
    """Return the limit at the values of the comparison and at as many others as there is time for."""
    import xarray

    start = time.process_time()
    ask(values[:1])  # what is computed once is not counted below
    if time.process_time() - start > SECONDS / 2:
        return None
    start = time.process_time()
    known = ask(values)[[*variables, "converged"]]
    if not _is_same(known, coarse.sortby(x), variables):
        return None
    seconds = (time.process_time() - start) / len(values)
    count = min(MOST_POINTS - len(values), int(SECONDS / max(seconds, 1e-6)))
    new = ask.whole(_spread(values, count))
    new = np.unique(new[np.min(np.abs(new[:, None] - values), axis=1, initial=np.inf) > 1e-9 * np.abs(values).max()])
    if not len(new):
        return known
    return xarray.concat([known, ask(new)[[*variables, "converged"]]], x, data_vars="minimal").sortby(x)


def _spread(values: Floats, count: int) -> Floats:
    """Return so many numbers between the ends of some values, evenly on the axis on which they are drawn."""
    wide = bool(np.all(values > 0)) and (is_geometric(values) or values[-1] > 50 * values[0])
    between = np.geomspace if wide else np.linspace
    return np.asarray(between(values[0], values[-1], max(count, 0)), dtype=np.float64)


def _is_same(known: xarray.Dataset, coarse: xarray.Dataset, variables: Sequence[str]) -> bool:
    """Tell whether the limit gives the numbers of the comparison again."""
    for name in variables:
        if name not in known or name not in coarse:
            return False
        mine, given = known[name], coarse[name]
        if mine.dtype.kind != "f" or set(mine.dims) != set(given.dims) or mine.sizes != given.sizes:
            return False
        size = float(np.nanmax(np.abs(given.values), initial=0.0))
        one, other = mine.transpose(*given.dims).values, given.values
        if not np.allclose(one, other, rtol=0, atol=SAME * size + 1e-12, equal_nan=True):
            return False
    return True
