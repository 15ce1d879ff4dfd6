"""The limit of a comparison as a curve of its own: asked again between the points of the experiment.

The limit is the one of the comparison: same scenario, settings and dimension. Where it does not give the comparison's
own numbers again, or cannot be asked at all, there is no curve.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from giantstep.errors import GiantstepError
from giantstep.figures.style import is_geometric
from giantstep.types import Floats

if TYPE_CHECKING:
    import xarray

SECONDS = 4.0
"""Computing time that a curve may take; a slower limit has fewer points."""
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
    import xarray

    from giantstep.batches import ask_again

    whole = result.attrs.get("engine") == "comparison" and source in result.get("source", ())
    if not whole or x not in result.dims or [name for name, c in result.coords.items() if x in c.dims] != [x]:
        return None
    if "dim" in result.coords or "dim" in json.loads(result.attrs.get("scenario", "{}")):
        return None  # whole numbers of samples differ from one dimension to the next
    coarse, names = result.sel(source=source).sortby(x), [*variables, "converged"]
    values = coarse[x].values
    chosen = {name: c.values.item() for name, c in result.coords.items() if not c.dims and name != "source"}

    def ask(values: Floats) -> xarray.Dataset:
        answer = ask_again(result, {x: values.tolist()}, source, trials=result.attrs.get("trials"))
        return answer.sel({name: value for name, value in chosen.items() if name in answer.dims})[names]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            ask(values[:1])
            if time.process_time() - start > SECONDS / 2:
                return None  # nobody waits for so many points to see a smoother line
            start = time.process_time()
            known = ask(values)
            seconds = (time.process_time() - start) / len(values)
            for name in variables:
                given, size = coarse[name], float(np.nanmax(np.abs(coarse[name].values), initial=0.0))
                mine = known[name].transpose(*given.dims)
                if not np.allclose(mine, given, rtol=0, atol=SAME * size + 1e-12, equal_nan=True):
                    return None  # the limit does not give the numbers of the comparison again
            if len(values) < 2:
                return None
            between = _spread(values, min(MOST_POINTS - len(values), int(SECONDS / max(seconds, 1e-6))))
            dim = json.loads(str(result.attrs["settings"])).get("dim")
            if x.endswith("_per_dim") and isinstance(dim, int) and source != "limit":  # whole numbers over a finite dim
                between = np.round(between * dim) / dim
            new = np.setdiff1d(between, values)
            return xarray.concat([known, ask(new)], x, data_vars="minimal").sortby(x) if len(new) else known
    except (GiantstepError, ValueError, KeyError, TypeError):
        return None  # a scenario that lives in Python only, a field of whole numbers, a family that is not there


def _spread(values: Floats, count: int) -> Floats:
    """Return so many numbers between the ends of some values, evenly on the axis on which they are drawn."""
    wide = bool(np.all(values > 0)) and (is_geometric(values) or values[-1] > 50 * values[0])
    between = np.geomspace if wide else np.linspace
    return np.asarray(between(values[0], values[-1], max(count, 0)), dtype=np.float64)
