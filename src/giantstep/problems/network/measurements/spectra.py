"""Eigenvalues and resolvents of the features of the fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.lab.feature_spectra import (
    gram_eigenvalues,
    resolvent_traces,
    summarise_spectrum,
)
from giantstep.core.readout import OUTLIER_ROOM
from giantstep.problems.network.trained import Trained


def measure_spectrum(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Summarise the eigenvalues of Phi^T Phi/p (or /n).

    So many as ``settings["outliers"]`` says are outliers at each point; those above
    ``settings["line"]`` are counted.
    """
    p = trained.network.width
    x = np.asarray(settings["x"], dtype=float)
    spectra = gram_eigenvalues(trained.training(), p, trained.samples, trained.draws.xp)
    summaries = []
    for size, outliers, line in zip(
        trained.samples, settings["outliers"], settings["line"]
    ):
        # sizes that occur twice were solved once
        eigenvalues = spectra[int(size)] / p
        summary = summarise_spectrum(
            eigenvalues * _unit(size, p, settings),
            width=p,
            above=int(outliers),
            x=x,
            # as many as an answer of the limit has room for
            room=OUTLIER_ROOM,
        )
        # the line is in units of Phi^T Phi/p; without a line nothing can be counted
        count = float(np.sum(eigenvalues > line)) if np.isfinite(line) else np.nan
        summaries.append({**summary, "outlier_count": count})
    return {
        name: np.array([summary[name] for summary in summaries])
        for name in summaries[0]
    }


def _unit(size: int, width: int, settings: Mapping[str, Any]) -> float:
    """Return what turns eigenvalues of Phi^T Phi/p into those that are wanted."""
    if settings.get("normalisation") == "n":
        return width / size
    return 1.0


def all_eigenvalues(trained: Trained, settings: Mapping[str, Any]) -> Floats:
    """Return all p eigenvalues of Phi^T Phi/p (or /n) at every point, increasing (B,
    p).
    """
    p = trained.network.width
    spectra = gram_eigenvalues(trained.training(), p, trained.samples, trained.draws.xp)
    values = np.zeros((len(trained.samples), p))
    for row, size in zip(values, trained.samples):
        largest = spectra[int(size)]
        of_n = settings.get("normalisation") == "n"
        divisor = size if of_n else p
        # the p - n that are missing are zero; rounding can make others negative
        row[p - len(largest) :] = np.maximum(largest, 0.0) / divisor
    return values


def measure_resolvent(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return m(z) and the block traces V1, V2 of the resolvent of Phi^T Phi/p."""
    V1, V2 = resolvent_traces(
        trained.training(),
        trained.blocks,
        trained.bulk,
        trained.samples,
        np.asarray(settings["z"], dtype=complex),
        trained.draws.xp,
    )
    # V1 has the rows of the bulk in it
    if not trained.has_row_sums:
        V1 = np.full_like(V1, np.nan)
    values: dict[str, Array] = {}
    for name, trace in {"m": V2.sum(axis=-1), "V2": V2, "V1": V1}.items():
        # columns of a result are real
        values[f"{name}_real"] = trace.real
        values[f"{name}_imag"] = trace.imag
    return values
