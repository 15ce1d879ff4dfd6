"""Errors along kappa after every step, the first axis of what is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.readout import (
    ridge_errors,
    solve_first_order,
)
from giantstep.core.readout.answers import (
    along_first_axis,
)
from giantstep.problems.network.answers.errors import Table, asked_about
from giantstep.problems.network.describe import describe
from giantstep.problems.network.follow import Moment
from giantstep.problems.network.problem import Share
from giantstep.problems.network.tolerances import SOLVED, SPECTRUM_RULE


def answer_along(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="along"``: RES(kappa) and c(kappa) of spiked_features (4.3), averaged
    over kappa's other axes.
    """
    positions = settings["kappa"]
    # the first axis of kappa is the direction along which the blocks moved most
    for seen in describe(
        moment.problem, moment.layer, leading=True, finer=SPECTRUM_RULE
    ):
        kappa = np.asarray(seen.features.kappa)
        group = asked_about(table, share, moment, [seen])
        index = group.points
        sets = group.set_of_point
        asked = group.asked
        # nothing is learnt yet
        if not kappa.shape[1]:
            for name in ("error_along", "mean_along"):
                table.put(
                    name, index, time, np.full((len(index), len(positions)), np.nan)
                )
            continue
        first = solve_first_order(asked.ridge_equations(seen.features))
        errors = ridge_errors(first, asked.size, at_nodes=True)
        # interpolation along kappa refuses nodes that are not finite
        solved = np.isfinite(errors.along).all(axis=(1, 2)) & (
            first.residual <= settings.get("tolerance", SOLVED)
        )
        # RES and c come on one axis, the second one of `along`
        for name, values in zip(
            ("error_along", "mean_along"), np.moveaxis(errors.along[solved], 1, 0)
        ):
            shown = np.full((len(index), len(positions)), np.nan)
            if solved.any():
                # all sets of a description share the nodes and their weights
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
