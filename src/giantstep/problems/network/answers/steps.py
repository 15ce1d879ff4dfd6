"""Where the blocks are after every step, and how their rows spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.problems.network.answers.errors import Table
from giantstep.problems.network.follow import Moment
from giantstep.problems.network.problem import Share
from giantstep.problems.network.views import views


def answer_steps(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="steps"``: means along the target directions, lengths, and the spread
    inside a block.
    """
    problem = moment.problem
    layer = moment.layer
    # from the coordinates of the layer to the directions of the target
    U = layer.means @ layer.frame.swapaxes(1, 2)
    norm = layer.squared_length(problem)
    spread = layer.rows.spread(problem, layer)
    overlaps = spread.overlaps
    of_lengths = spread.of_lengths
    if overlaps is None:
        # after a sign step the spread of the overlaps is not followed
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
    # of the mean with the root of the mean square: rows of a block differ by 1/sqrt(d)
    # only
    values["cosine"] = U / np.sqrt(norm)[..., None]
    index, owner = share.points_of(moment.sets)
    for name, value in values.items():
        # nodes of a Gaussian second layer and parts of cut blocks are no blocks of the
        # network
        if len(problem.zeta) == table.network.blocks:
            shown = value
        else:
            shown = np.full_like(value[:, :1], np.nan)
        table.put(name, index, time, shown[owner])
    for view in views(problem, layer):
        # sets of one view share their directions
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
    # no step changes the inputs: it has no time
    atoms = problem.inputs.eigenvalues
    table.put(
        "eigenvalue",
        share.points,
        None,
        np.broadcast_to(atoms, (len(share.points), len(atoms))),
    )
