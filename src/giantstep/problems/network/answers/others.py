"""What else is asked after every step: where the blocks are, errors along kappa,
spectra and resolvents.
"""

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
    ridge_errors,
    solve_first_order,
)
from giantstep.core.readout.answers import (
    UNBOUNDED,
    along_first_axis,
    describe_resolvent,
    describe_spectrum,
    grows_linearly,
    is_bounded,
)
from giantstep.problems.network.answers.errors import Table, asked_about, by_block
from giantstep.problems.network.describe import describe
from giantstep.problems.network.follow import Moment, reason_of
from giantstep.problems.network.problem import Share
from giantstep.problems.network.rows.protocol import POPULATION
from giantstep.problems.network.tolerances import SOLVED, SPECTRUM_RULE
from giantstep.problems.network.views import views

# -- where the blocks are --------------------------------------------------------------


def answer_steps(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="steps"``: means along the target directions, lengths, and the spread
    inside a block.
    """
    problem = moment.problem
    layer = moment.layer
    U = layer.means @ layer.frame.swapaxes(1, 2)
    norm = layer.squared_length(problem)
    spread = layer.rows.spread(problem, layer)
    overlaps = spread.overlaps
    of_lengths = spread.of_lengths
    if overlaps is None:
        overlaps = np.full((*U.shape, U.shape[2]), np.nan)
    if of_lengths is None:
        of_lengths = np.full_like(norm, np.nan)
    values = {
        "U": U,
        "s": spread.lengths,
        "row_norm": norm,
        "spread": overlaps,
        "spread_s": of_lengths,
        "B": layer.rows.B,
    }
    values["cosine"] = U / np.sqrt(norm)[..., None]
    index, owner = share.points_of(moment.sets)
    for name, value in values.items():
        if len(problem.zeta) == table.network.blocks:
            shown = value
        else:
            shown = np.full_like(value[:, :1], np.nan)
        table.put(name, index, time, shown[owner])
    for view in views(problem, layer):
        frame = layer.frame[view.sets[0]]
        gamma = np.linalg.norm(frame @ view.basis.learnt, axis=1)
        index = share.points_of(moment.sets[view.sets])[0]
        table.put(
            "learned",
            index,
            time,
            np.full(len(index), float(view.basis.of_target(frame))),
        )
        table.put(
            "gamma", index, time, np.broadcast_to(gamma, (len(index), len(gamma)))
        )
    atoms = problem.inputs.eigenvalues
    table.put(
        "eigenvalue",
        share.index,
        None,
        np.broadcast_to(atoms, (len(share.index), len(atoms))),
    )


# -- along kappa -----------------------------------------------------------------------


def answer_along(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="along"``: RES(kappa) and c(kappa) of spiked_features (4.3), averaged
    over kappa's other axes.
    """
    positions = settings["kappa"]
    for seen in describe(
        moment.problem, moment.layer, leading=True, finer=SPECTRUM_RULE
    ):
        kappa = np.asarray(seen.features.kappa)
        group = asked_about(table, share, moment, [seen])
        index = group.index
        sets = group.set_of_point
        asked = group.asked
        if not kappa.shape[1]:  # nothing is learnt yet
            for name in ("error_along", "mean_along"):
                table.put(
                    name, index, time, np.full((len(index), len(positions)), np.nan)
                )
            continue
        first = solve_first_order(asked.ridge_equations(seen.features))
        errors = ridge_errors(first, asked.size, at_nodes=True)
        solved = np.isfinite(errors.along).all(axis=(1, 2)) & (
            first.residual <= settings.get("tolerance", SOLVED)
        )
        for name, values in zip(
            ("error_along", "mean_along"), np.moveaxis(errors.along[solved], 1, 0)
        ):
            shown = np.full((len(index), len(positions)), np.nan)
            if solved.any():
                shown[solved] = along_first_axis(
                    name, values, kappa[0, 0], seen.features.weights[0], positions
                )
            table.put(name, index, time, shown)
        status = np.where(
            solved,
            moment.layer.rows.flagged[sets],
            "the equations of the read-out were not solved",
        )
        table.note(index, status, first.residual, first.iterations, time=time)


# -- spectra ---------------------------------------------------------------------------


def spectra(
    table: Table, share: Share, moment: Moment
) -> Iterator[tuple[int, Spectrum, FiniteSize, Floats]]:
    """Yield every point, its spectrum and size at this moment, and what turns initial
    into bulk rows in V1 (k,).
    """
    problem = moment.problem
    layer = moment.layer
    linear = grows_linearly(problem.activation)
    noiseless = bool(np.all(table.points["noise"] == 0))
    on_population = POPULATION in layer.rows.known
    for seen in describe(problem, layer, finer=SPECTRUM_RULE):
        group = asked_about(table, share, moment, [seen])
        asked = group.asked
        ones = np.ones(len(group.index))
        width = group.asked.points["width_per_dim"]
        ratio = asked.points["samples_per_dim"] / width
        together = Equations(
            asked.labelled, ratio, width, ones, ones, asked.bulk, asked.pi
        )
        for position, (point, row) in enumerate(
            zip(group.index.tolist(), group.set_of_point.tolist())
        ):
            # the noise of a batch has as long a tail as the residuals
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
        table.note(share.index, reason_of(error))


def answer_resolvent(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="resolvent"``: the deterministic equivalent of the resolvent at
    complex z.
    """
    blocks = table.network.blocks
    rows_known = moment.problem.isotropic and moment.problem.target.directions == 1
    for point, spectrum, _, scale in spectra(table, share, moment):
        V1, V2, status, *how = describe_resolvent(spectrum, settings["z"])
        V1 = by_block(scale[:, None] * V1 * scale, blocks)
        V2 = by_block(V2, blocks)
        traces = {
            "m": V2.sum(axis=1),
            "V2": V2,
            "V1": V1 if rows_known else np.full_like(V1, np.nan),
        }
        index = np.array([point])
        for name, trace in traces.items():
            table.put(f"{name}_real", index, time, trace.real[None])
            table.put(f"{name}_imag", index, time, trace.imag[None])
        table.note(index, str(status), *how, time=time)
