"""Spectra of the features after every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats, Points
from giantstep.core.readout import (
    Equations,
    FiniteSize,
    Spectrum,
)
from giantstep.core.readout.answers import (
    UNBOUNDED,
    describe_spectrum,
    grows_linearly,
    is_bounded,
)
from giantstep.problems.network.answers.errors import Table, asked_about
from giantstep.problems.network.describe import describe
from giantstep.problems.network.follow import Moment, reason_of
from giantstep.problems.network.problem import Share
from giantstep.problems.network.rows.protocol import POPULATION
from giantstep.problems.network.tolerances import SPECTRUM_RULE


def spectra(
    table: Table, share: Share, moment: Moment
) -> Iterator[tuple[int, Spectrum, FiniteSize, Floats]]:
    """Yield every point, its spectrum and size at this moment, and what turns initial
    into bulk rows in V1 (k,).
    """
    problem = moment.problem
    layer = moment.layer
    linear = grows_linearly(problem.activation)
    # Gaussian noise of the labels is unbounded
    noiseless = bool(np.all(table.points["noise"] == 0))
    on_population = POPULATION in layer.rows.known
    for seen in describe(problem, layer, finer=SPECTRUM_RULE):
        group = asked_about(table, share, moment, [seen])
        asked = group.asked
        ones = np.ones(len(group.points))
        width = group.asked.points["width_per_dim"]
        ratio = asked.points["samples_per_dim"] / width
        # a spectrum has no ridge: it puts a pair (a, b) of its own for every z here
        together = Equations(
            asked.labelled, ratio, width, ones, ones, asked.bulk, asked.pi
        )
        for position, (point, row) in enumerate(
            zip(group.points.tolist(), group.set_of_point.tolist())
        ):
            # the noise of a batch has as long a tail as the residuals
            # spiked_features section 7: features without a bound on mu1 leave no upper
            # edge, unless no block has a mean, so that none depends on kappa
            bounded = linear or not layer.means[row].any()
            bounded &= on_population or noiseless and is_bounded(table.network.label)
            alone = np.array([position])
            single = seen.bulks[asked.owner[position]]
            equations, size = layer.rows.for_spectrum(
                problem, together.take(alone), asked.size.take(alone), single
            )
            scale = layer.rows.scale_of_model(row)
            yield point, Spectrum(equations, bool(bounded)), size, scale


def unit_of(spectrum: Spectrum, settings: Mapping[str, Any]) -> float:
    """Return the unit of the eigenvalues, for those of Phi^T Phi/n or Phi^T Phi/p."""
    # Phi^T Phi/p is n/p times Phi^T Phi/n
    return spectrum.ratio if settings.get("normalisation") == "n" else 1.0


def key_of(
    points: Points, point: int, time: int, settings: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return what the spectrum of a network depends on."""
    return settings.get("theory"), time, *(values[point] for values in points.values())


def answer_spectrum(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="spectrum"``: density, distribution, edges, gaps, atom and
    outliers.
    """
    try:
        for point, unknown, size, _ in spectra(table, share, moment):
            # solved already where x was chosen; it was kept until it is asked about
            spectrum = table.network.looked_at.pop(
                key_of(table.points, point, time, settings), unknown
            )
            values, status, *how = describe_spectrum(
                spectrum, settings["x"], size, unit_of(spectrum, settings)
            )
            for name, value in values.items():
                table.put(name, np.array([point]), time, np.asarray(value)[None])
            table.note(np.array([point]), str(status), *how, time=time)
            if np.isinf(values["upper_edge"]):
                table.answer.warnings.append(UNBOUNDED)
    except InputError as error:
        table.note(share.points, reason_of(error))
