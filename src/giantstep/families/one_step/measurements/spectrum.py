"""Spectrum and resolvent of the features of a real network."""

from __future__ import annotations

import numpy as np

from giantstep.families.one_step.network import Trained
from giantstep.lab import Draws
from giantstep.lab.feature_spectra import gram_eigenvalues, resolvent_traces, summarise_spectrum
from giantstep.readout import OUTLIER_ROOM
from giantstep.types import Array, Floats, Integers


def measure_spectrum(
    trained: Trained, outliers: Integers, x: Floats, normalisation: str, draws: Draws
) -> dict[str, Array]:
    """Summarise the eigenvalues of Phi^T Phi/p (or /n), of which so many are `outliers` at every point."""
    p = trained.network.width
    spectra = gram_eigenvalues(trained.training(draws), p, trained.samples, draws.xp)
    rows = []
    for size, above in zip(trained.samples, outliers):
        scale = p / size if normalisation == "n" else 1.0
        rows.append(summarise_spectrum(scale * (spectra[int(size)] / p), p, int(above), x, OUTLIER_ROOM))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def measure_resolvent(trained: Trained, z: Array, draws: Draws) -> dict[str, Array]:
    """Return m(z) and the block traces V1, V2 of the resolvent of Phi^T Phi/p."""
    features = trained.training(draws)
    V1, V2 = resolvent_traces(features, trained.blocks, trained.bulk, trained.samples, z, draws.xp)
    traces = {"m": V2.sum(axis=-1), "V2": V2, "V1": V1}
    return {f"{name}_{half}": getattr(value, half) for name, value in traces.items() for half in ("real", "imag")}
