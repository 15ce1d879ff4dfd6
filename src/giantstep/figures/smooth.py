"""The limit of a comparison as a curve of its own: asked again between the points of the experiment.

Points are added where the curve is long on paper, so that thresholds and jumps stand where they are. The limit is the
one of the comparison: same scenario, settings and dimension; where it does not give the comparison's own numbers
again, or cannot be asked at all, there is no curve.
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
from giantstep.types import Booleans, Floats

if TYPE_CHECKING:
    import xarray

    from giantstep.request import Request

SECONDS = 4.0
"""Computing time that curves may take; what was found by then is drawn."""
MOST_POINTS = 240
LONGEST_PIECE = 0.025
"""Length of a piece of a curve, relative to the frame, above which it is halved."""
SHORTEST_STEP = 1e-3
"""Part of the axis below which a jump is not looked at any closer."""
SAME = 1e-6


def fine_limit(
    result: xarray.Dataset, x: str, variables: Sequence[str], source: str = "limit"
) -> xarray.Dataset | None:
    """Return a limit of a comparison on a fine grid along the field `x`; None where it cannot be asked again.

    `source` is the layer: the bare limit, or the theory at the dimension of the experiment.
    """
    values = _values_along(result, x)
    if values is None or source not in result["source"].values:
        return None
    deadline = time.process_time() + SECONDS
    coarse = result.sel(source=source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _refined(_Asker(result, x, source), coarse, x, values, list(variables), deadline)
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


class _Asker:
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
    ask: _Asker, coarse: xarray.Dataset, x: str, values: Floats, variables: list[str], deadline: float
) -> xarray.Dataset | None:
    import xarray

    start = time.process_time()
    ask(values[:1])
    if time.process_time() - start > SECONDS / 2:
        return None
    start = time.process_time()
    known = ask(values)[[*variables, "converged"]]
    if not _is_same(known, coarse.sortby(x), variables):
        return None
    seconds = (time.process_time() - start) / len(values)
    while True:
        along = known[x].values
        new = _middles(along, known, x, variables)
        allowed = min(MOST_POINTS - len(along), int((deadline - time.process_time()) / max(seconds, 1e-6)))
        new = ask.whole(new[: max(allowed, 0)])
        new = np.unique(new[np.min(np.abs(new[:, None] - along), axis=1) > 1e-9 * np.abs(along).max()])
        if not len(new):
            return known
        start = time.process_time()
        found = ask(new)[[*variables, "converged"]]
        seconds = (time.process_time() - start) / len(new)
        known = xarray.concat([known, found], x, data_vars="minimal").sortby(x)


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


def _middles(along: Floats, known: xarray.Dataset, x: str, variables: Sequence[str]) -> Floats:
    """Return the middles of the pieces that are too long on paper, the longest first."""
    place = np.log(along) if is_geometric(along) or _is_wide(along) else along
    steps = np.diff(place) / max(place[-1] - place[0], 1e-300)
    length = steps.copy()
    for name in variables:
        values = known[name].transpose(x, ...).values.reshape(len(along), -1)
        height = np.nanmax(values, initial=-np.inf) - np.nanmin(values, initial=np.inf)
        if np.isfinite(height) and height > 0:
            rise = np.nanmax(np.abs(np.nan_to_num(np.diff(values, axis=0))), axis=1, initial=0.0) / height
            length = np.maximum(length, np.hypot(steps, rise))
    long: Booleans = (length > LONGEST_PIECE) & (steps > SHORTEST_STEP)
    middles = 0.5 * (place[1:] + place[:-1])
    middles = np.exp(middles) if place is not along else middles
    order = np.argsort(-length[long])
    return np.asarray(middles[long][order], dtype=np.float64)


def _is_wide(along: Floats) -> bool:
    return bool(np.all(along > 0) and along[-1] > 50 * along[0])
