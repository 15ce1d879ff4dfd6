"""Layers of a result (the limit, the theory at a dimension, the experiment) and what
they are called.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import xarray

LAYERS = ("limit", "theory", "experiment")
"""The layers of a comparison, in order."""


Labelled = TypeVar("Labelled", xarray.Dataset, xarray.DataArray)


def judged_source(result: Labelled) -> str:
    """Return the layer of a comparison that gaps and z-scores refer to: "theory" where
    there is one, else "limit".
    """
    return "theory" if "theory" in layers_of(result) else "limit"


def judged_side(result: Labelled) -> Labelled:
    """Return the layer of a comparison that gaps and z-scores refer to."""
    return result.sel(source=judged_source(result))


def called(result: xarray.Dataset, source: str) -> str:
    """Return what tables and sentences call a layer: "approximate theory at d = 200",
    "limit", "experiment".
    """
    if source == "experiment":
        return source
    attrs = result.attrs
    # predict at a finite dimension, and comparisons stored before there was a layer of
    # the theory
    corrected = (
        source == "limit"
        and "compared_with" not in attrs
        and isinstance(attrs.get("finite_size"), str)
    )
    name = source
    if source == "theory" or corrected:
        settings = {
            "dim": attrs.get("dim"),
            **json.loads(str(attrs.get("settings", "{}"))),
        }
        dims = np.unique(
            np.asarray(
                result["dim"].values if "dim" in result.coords else settings["dim"]
            )
        )
        if len(dims) == 1:
            name = f"theory at d = {dims[0]}"
        else:
            name = "theory at each d"
    return f"approximate {name}" if approximations(attrs) else name


def approximations(attrs: Mapping[Any, Any]) -> dict[str, str]:
    """Return the approximations that the theory of a result makes: what is approximated
    -> how far off it may be.
    """
    return json.loads(str(attrs.get("approximations", "{}")))


def layers_of(result: xarray.Dataset | xarray.DataArray) -> list[str]:
    """Return the layers of a comparison, in order; none of another result."""
    if "source" in result.coords:
        return [str(source) for source in np.atleast_1d(result["source"].values)]
    return []
